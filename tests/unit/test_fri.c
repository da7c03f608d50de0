/* The content of fragment reuse histories, and every defect of it that Lance 14 names (lance-14-fri section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "fixture.h"
#include "moves.h"
#include "table.h"

#define B(s) s, sizeof(s) - 1

/* --- decoding ------------------------------------------------------------------------------------------------------- */

static int decode(const struct pf_buf *bytes, int32_t version, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf exact = PF_BUF_INIT;

	/* Where a read past the end is seen. */
	exact.data = malloc(bytes->len ? bytes->len : 1);
	exact.len = exact.cap = bytes->len;
	if (bytes->len)
		memcpy(exact.data, bytes->data, bytes->len);
	return pf_fri_decode(&exact, version, out, why);
}

static int decode_text(const char *text, int32_t version, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	moves_content(text, &bytes);
	return decode(&bytes, version, out, why);
}

static void test_decode(void **state)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	char id[PF_UUID_TEXT];

	moves_content("L5 0:10 1:10:2 > 6:18 | 2:4 > 7:4; T 6:18 3:1:1 > 8:10 9:8; P 8:10 > 10:0 11:10; L0 40:1 > 41:1",
		      &bytes);
	if (decode(&bytes, 1, &f, &why) < 0)
		fail_msg("%s", why.text);
	moves_assert_history(&f, "stamp 5 [v0 0:10:0 1:10:2 > 6:18:0] [v0 2:4:0 > 7:4:0]\n"
				 " [ordered 6:18:0 3:1:1 > 8:10:0 9:8:0]\n"
				 " [partition 8:10:0 > 10:0:0 11:10:0]\n"
				 "stamp 0 [v0 40:1:0 > 41:1:0]\n");
	assert_false(f.unsupported);
	assert_string_equal(f.records[2].groups[0].map_id, moves_map_id(2, id));
	assert_int_equal(f.records[2].groups[0].map_size, 1000);
	assert_false(f.records[2].groups[0].has_base);

	/* Its records, one behind the other, are the content: what a trim copies. */
	uint64_t off = 0;
	for (size_t i = 0; i < f.n_records; i++) {
		assert_int_equal(f.records[i].off, off);
		off += f.records[i].len;
	}
	assert_int_equal(off, bytes.len);
	assert_int_equal(f.content.len, bytes.len);
	assert_memory_equal(f.content.data, bytes.data, bytes.len);
}

static void test_sources(void **state)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };

	assert_int_equal(decode_text("L1 5:1 0:1 > 9:2; L2 9:2 > 5:2; L3 5:2 > 10:2", 0, &f, NULL), 0);
	assert_int_equal(f.n_sources, 4);
	const struct pf_fri_source *s = pf_fri_source_of(&f, 5, 0);
	assert_int_equal(s->group, 0);
	assert_int_equal(s->at, 0);
	assert_int_equal(s[1].fragment, 5);
	assert_int_equal(s[1].group, 2);
	assert_ptr_equal(pf_fri_source_of(&f, 5, 1), s + 1);
	assert_ptr_equal(pf_fri_source_of(&f, 5, 2), s + 1);
	assert_null(pf_fri_source_of(&f, 5, 3));
	assert_null(pf_fri_source_of(&f, 10, 0));
	assert_int_equal(pf_fri_source_of(&f, 0, 0)->at, 1);
}

/* What is left when a v0 trim dropped everything: no byte at all. */
static void test_empty(void **state)
{
	for (int32_t version = 0; version <= 1; version++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		uint64_t addr = 7;

		assert_int_equal(decode_text("", version, &f, NULL), 0);
		assert_int_equal(f.n_records, 0);
		assert_null(pf_fri_source_of(&f, 0, 0));
		assert_int_equal(pf_fri_translate(&f, &addr, 1, NULL), 0);
		assert_int_equal(addr, 7);
	}
}

static void test_versions(void **state)
{
	static const int32_t versions[] = { 2, -1, INT32_MAX, INT32_MIN };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		assert_int_equal(decode(&bytes, versions[i], &f, &why), -EOPNOTSUPP);
	assert_int_equal(decode(&bytes, 2, &f, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "index_version 2; pinfs understands 0 and 1");
}

/* --- defects -------------------------------------------------------------------------------------------------------- */

static void assert_refused(const char *name, const struct pf_buf *bytes, int32_t version, const char *expected)
{
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f = { 0 };
	int r = decode(bytes, version, &f, &why);

	if (r == 0)
		pf_fri_release(&f);
	if (r != -EBADMSG || strcmp(why.text, expected) != 0)
		fail_msg("%s: %d %s", name, r, why.text);
}

/* By the table in lance-14-fri section 3; the sentences are ours. */
static void test_tagged_defects(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "T 0:50:60 > 6:1", "record 0: fragment 0 cannot have 50 rows and 60 deleted" },
		{ "T 4294967295:5 > 6:5", "record 0: fragment 4294967295 cannot have 5 rows and 0 deleted" },
		{ "T 4294967296:5 > 6:5 @ 0:0-4", "record 0: fragment 4294967296 cannot have 5 rows and 0 deleted" },
		{ "T 0:4294967296 > 6:5 @ 0:0-4", "record 0: fragment 0 cannot have 4294967296 rows and 0 deleted" },
		{ "T 0:5 > 4294967295:5", "record 0: fragment 4294967295 cannot have 5 rows and 0 deleted" },
		{ "T 0:50 1:50:4 > 6:95", "record 0: its sources have 96 live rows, its destinations 95" },
		{ "T 0:50 >", "record 0: its sources have 50 live rows, its destinations 0" },
		{ "P 0:50 > 1:20 2:31", "record 0: its sources have 50 live rows, its destinations 51" },
		{ "T 0:5 > 6:7:2", "record 0: its destination 6 has 2 deleted rows; expected none" },
		{ "T > 6:0", "record 0: expected source fragments, found none" },
		{ "T 0:5 0:5 > 6:10 @ 0:0-4", "record 0: fragment 0 stands twice as source" },
		{ "T 0:5 > 6:2 6:3", "record 0: fragment 6 stands twice as destination" },
		{ "T 1:5 > 6:5 @ 9:0-4", "record 0: it moves rows of fragment 9, not one of its sources" },
		{ "T 1:50 > 6:50 @ 1:0-48 1:50-50", "record 0: it moves row 50 of fragment 1, which has 50" },
		{ "T 0:5 > 6:5; T 1:5 > 6:5", "fragment 6 is destination of two groups, of record 0 and record 1" },
		{ "T 0:5 > 6:5; T 0:5 > 7:5", "fragment 0 is source of two groups, of record 0 and record 1" },
		{ "T 0:5 > 6:5; T 0:5 > 6:5", "fragment 0 is source of two groups, of record 0 and record 1" },
		{ "L5 0:5 > 6:5; P 0:5 > 7:5", "fragment 0 is source of two groups, of record 0 and record 1" },
		{ "L5 0:5 > 6:5 | 0:5 > 7:5", "fragment 0 is source of two groups, of record 0 and record 0" },
		{ "T 1:5 > 2:5; T 2:5 > 1:5", "record 0 moves rows in a circle" },
		{ "T 9:1 > 10:1; T 1:5 > 1:5", "record 1 moves rows in a circle" },
		{ "P 1:5 > 2:5; L7 2:5 > 3:5; T 3:5 > 1:5", "record 0 moves rows in a circle" },
		{ "T 0:5 > 6:5; T 6:6 > 7:6", "fragment 6 has 5 rows in record 0 and 6 in record 1" },
		/* A bitmap that does not fit its digests. */
		{ "T 0:5:1 1:5:1 > 6:8 @ 0:0-4 1:0-2", "record 0: it moves 5 rows of fragment 0, which had 4 live" },
		{ "T 0:5 1:5 > 6:10 @ 0:0-4", "record 0: it moves 5 rows, its destinations have 10" },
		/* Legacy records of a mixed history are judged as transitions are. */
		{ "L5 0:5 > 6:5 | 1:5 > 7:6", "record 0, group 1: its sources have 5 live rows, its destinations 6" },
		{ "T 8:1 > 9:1; L5 0:5:1 > 6:5 @ 0:0-4",
		  "record 1, group 0: its sources have 4 live rows, its destinations 5" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

		moves_content(rows[i].text, &bytes);
		assert_refused(rows[i].text, &bytes, 1, rows[i].why);
	}
}

static void test_v0_defects(void **state)
{
	static const struct {
		const char *text, *why;
	} rows[] = {
		{ "L1 0:5 > 6:4", "record 0, group 0: it moves 5 rows, its destinations have 4" },
		{ "L1 0:5 > 6:5; L2 1:5 > 7:5 | 6:5 > 8:5 @ 1:0-4",
		  "record 1, group 1: it moves rows of fragment 1, not one of its sources" },
		{ "L1 0:5 > 6:5 @ 1:0-4; L2 1:5 > 7:5",
		  "record 0, group 0: it moves rows of fragment 1, not one of its sources" },
		{ "L1 0:5 > 6:5 @ 0:1-5", "record 0, group 0: it moves row 5 of fragment 0, which has 5" },
		{ "L1 0:5 0:5 > 6:5 @ 0:0-4", "record 0: fragment 0 stands twice as source" },
		{ "L1 0:5 > 6:5 | 0:5 > 7:5", "fragment 0 is source of two groups, of record 0 and record 0" },
		{ "L1 4294967296:5 > 6:5 @ 0:0-4",
		  "record 0, group 0: fragment 4294967296 cannot have 5 rows and 0 deleted" },
		{ "L1 0:5 > 6:4294967296", "record 0, group 0: fragment 6 cannot have 4294967296 rows and 0 deleted" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

		moves_content(rows[i].text, &bytes);
		assert_refused(rows[i].text, &bytes, 0, rows[i].why);
	}
}

/* What Lance accepts of v0 and refuses of tagged ones; and what is fine in both. */
static void test_accepted(void **state)
{
	static const struct {
		const char *text;
		bool v0, tagged;
	} rows[] = {
		{ "L3 0:5:9 > 6:5 @ 0:0-4", true, false }, /* a wrong count of deletions */
		{ "L3 0:5 > 6:5:1", true, false },
		{ "L3 5:2 1:2 > 6:4", true, true },	      /* sources not ascending */
		{ "L9 0:1 > 1:1; L3 1:1 > 2:1", true, true }, /* stamps descending, and equal ones */
		{ "L3 0:1 > 1:1; L3 1:1 > 2:1", true, true },
		{ "L1 0:5 > 6:5; L2 0:5 > 7:5", true, false }, /* an id that came back */
		{ "L1 0:5 > 6:5; L2 6:7 > 7:7", true, false },
		{ "L1 0:5 > 1:5; L2 1:5 > 0:5", true, false },
		{ "L1 0:0 > 6:0", true, true },
		{ "L1 0:3:3 1:2 > 6:2", true, true },
		{ "T 0:3:3 > ", false, true },		     /* everything was deleted */
		{ "T 6:1 > 7:1; T 0:1 > 6:1", false, true }, /* the later one first */
		{ "P 0:4294967294 > 1:4294967294", false, true },
		{ "P 4294967294:1 > 1:1", false, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int32_t version = 0; version <= 1; version++) {
			_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
			struct pf_why why = PF_WHY_INIT;
			bool legacy = rows[i].text[0] == 'L';
			int r = legacy || version == 1 ? decode_text(rows[i].text, version, &f, &why) : -EBADMSG;

			if ((r == 0) != (version ? rows[i].tagged : rows[i].v0))
				fail_msg("%s, version %d: %s", rows[i].text, version, why.text);
		}
	}
}

/* --- the wire ------------------------------------------------------------------------------------------------------- */

static void test_wire_defects(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int32_t version;
		const char *why;
	} rows[] = {
		{ B("\x12\x00"), 1, "offset 0: expected a mapping, found none" },
		{ B("\x12\x04\x0a\x02\x08\x01"), 1, "offset 0: expected a mapping, found none" },
		{ B("\x12\x04\x1a\x00\x1a\x00"), 1, "offset 4: expected one mapping, found another" },
		{ B("\x12\x04\x1a\x00\x22\x00"), 1, "offset 4: expected one mapping, found another" },
		/* Two mappings are damage even where something unknown is beside them. */
		{ B("\x12\x06\x48\x01\x1a\x00\x1a\x00"), 1, "offset 6: expected one mapping, found another" },
		{ B("\x12\x02\x22\x00"), 1, "offset 2: expected a map_id, found none" },
		{ B("\x12\x07\x22\x05\x0a\x03xyz"), 1, "offset 4: expected a uuid as map_id, found \"xyz\"" },
		{ B("\x12\x28\x22\x26\x0a\x24"
		    "0badcafe-0000-4000-9000+000000000001"),
		  1, "offset 4: expected a uuid as map_id, found \"0badcafe-0000-4000-9000+000000000001\"" },
		{ B("\x12\x24\x22\x22\x0a\x20"
		    "0badcafe0000400090000000000000\0"
		    "1"),
		  1, "offset 4: expected a uuid as map_id, found \"0badcafe0000400090000000000000\\x001\"" },
		{ B("\x12\x26\x22\x24\x0a\x22"
		    "{0badcafe00004000900000000000000a}"),
		  1, "offset 4: expected a uuid as map_id, found \"{0badcafe00004000900000000000000a}\"" },
		{ B("\x12\x28\x22\x26\x0a\x24"
		    "0badcafe-0000-4000-9000-000000000001"),
		  1, "offset 2: expected a map_size_bytes above 0" },
		/* No bitmap, where rows are moved. */
		{ B("\x12\x0e\x0a\x04\x08\x01\x10\x05\x12\x04\x08\x02\x10\x05\x1a\x00"), 1,
		  "record 0: offset 0: expected 8 bytes of a count of fragments, found 0" },
		{ B("\x0a\x0e\x1a\x0c\x12\x04\x08\x01\x10\x05\x1a\x04\x08\x02\x10\x05"), 0,
		  "record 0, group 0: offset 0: expected 8 bytes of a count of fragments, found 0" },
		/* Known members of another wire type. */
		{ B("\x08\x01"), 0, "field 1 at offset 0 has wire type 0; expected 2, bytes" },
		{ B("\x10\x01"), 1, "field 2 at offset 0 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x02\x0a\x00"), 0, "field 1 at offset 2 has wire type 2; expected 0" },
		{ B("\x0a\x02\x18\x00"), 0, "field 3 at offset 2 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x04\x1a\x02\x08\x00"), 0, "field 1 at offset 4 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x06\x1a\x04\x12\x02\x0a\x00"), 0, "field 1 at offset 6 has wire type 2; expected 0" },
		{ B("\x12\x02\x18\x00"), 1, "field 3 at offset 2 has wire type 0; expected 2, bytes" },
		{ B("\x12\x04\x1a\x02\x08\x00"), 1, "field 1 at offset 4 has wire type 0; expected 2, bytes" },
		/* E06 */
		{ B("\x12\xff\xff\xff\xff\x0f"), 1,
		  "field 2 at offset 0 claims 4294967295 bytes where its message has 0 left" },
		{ B("\x0a\x08\x1a\x06\x0a\xff\xff\xff\xff\x07"), 0,
		  "field 1 at offset 4 claims 2147483647 bytes where its message has 0 left" },
		{ B("\x0a\x0d\x1a\x0b\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0,
		  "field 1 at offset 4 claims 18446744073709551615 bytes where its message has 0 left" },
		{ B("\x0a\x01\x80"), 0, "the varint at offset 2 does not end within its message, 1 bytes on" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

		assert_int_equal(pf_buf_add(&bytes, rows[i].bytes, rows[i].n), 0);
		assert_refused(rows[i].why, &bytes, rows[i].version, rows[i].why);
	}
}

/* A map id as Lance takes it: with hyphens or without, any case, nil too; base 0 is a base (A28). */
static void test_partition(void **state)
{
	static const char bytes[] = "\x12\x34"
				    "\x0a\x04\x08\x01\x10\x05"
				    "\x12\x04\x08\x02\x10\x05"
				    "\x22\x26"
				    "\x0a\x20"
				    "0000000000000000000000000000000A"
				    "\x10\x01"
				    "\x18\x00";
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_buf_add(&content, B(bytes)), 0);
	if (decode(&content, 1, &f, &why) < 0)
		fail_msg("%s", why.text);
	const struct pf_fri_group *g = f.records[0].groups;
	assert_string_equal(g->map_id, "0000000000000000000000000000000A");
	assert_int_equal(g->map_size, 1);
	assert_true(g->has_base);
	assert_int_equal(g->base_id, 0);
}

/* What a newer Lance may add. Reading goes on; whoever would have to interpret it is told. */
static void test_unknown(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		int32_t version;
		const char *why;
	} rows[] = {
		/* A transition with a field 5, with or without a mapping that is known; its members are not looked at. */
		{ B("\x12\x02\x2a\x00"), 1, "offset 2: field 5 of a transition is not known" },
		{ B("\x12\x0a\x0a\x04\x08\x01\x10\x05\x1a\x00\x28\x01"), 1,
		  "offset 10: field 5 of a transition is not known" },
		{ B("\x1a\x00"), 1, "offset 0: field 3 of the history is not known" },
		{ B("\x1a\x00\x28\x01"), 1, "offset 0: field 3 of the history is not known" },
		{ B("\x1a\x00"), 0, "offset 0: field 3 of the history is not known" },
		/* A v0 history with a transition: ignored by Lance until the next tagged write. */
		{ B("\x12\x00"), 0, "offset 0: field 2 of a v0 history is not known" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;
		uint64_t addr = 0;

		assert_int_equal(pf_buf_add(&content, rows[i].bytes, rows[i].n), 0);
		if (decode(&content, rows[i].version, &f, &why) < 0)
			fail_msg("%s: %s", rows[i].why, why.text);
		assert_true(f.unsupported);
		assert_string_equal(f.unsupported_why, rows[i].why);
		assert_int_equal(f.n_sources, 0);
		assert_int_equal(pf_fri_translate(&f, &addr, 1, &why), -EOPNOTSUPP);
	}
}

/* Unknown fields elsewhere change nothing. */
static void test_ignored(void **state)
{
	/* A legacy record without groups, with a field 2 that Lance had once. */
	static const char version[] = "\x0a\x02\x10\x07";
	/* A transition 1:5 > 2:5 with a field 9 in both digests and in the ordered compaction. */
	static const char bytes[] = "\x12\x31"
				    "\x0a\x06\x08\x01\x10\x05\x48\x01"
				    "\x12\x06\x08\x02\x10\x05\x48\x01"
				    "\x1a\x1f"
				    "\x48\x01"
				    "\x0a\x1b"
				    "\x01\0\0\0\0\0\0\0"
				    "\x01\0\0\0"
				    "\x3b\x30\0\0"
				    "\x01"
				    "\0\0\x04\0"
				    "\x01\0"
				    "\0\0\x04\0";
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_buf_add(&content, B(version)), 0);
	assert_int_equal(pf_buf_add(&content, B(bytes)), 0);
	if (decode(&content, 1, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_false(f.unsupported);
	moves_assert_history(&f, "stamp 0\n [ordered 1:5:0 > 2:5:0]\n");
}

/* Bytes behind a treemap: v0 has always let them pass. */
static void test_trailing(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf rows = PF_BUF_INIT, group = PF_BUF_INIT, version = PF_BUF_INIT,
						content = PF_BUF_INIT;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	const struct moves_range all = { 1, 0, 4 };
	struct pf_why why = PF_WHY_INIT;

	moves_treemap(&all, 1, &rows);
	assert_int_equal(pf_buf_addstr(&rows, "??"), 0);
	assert_int_equal(pf_wire_put_bytes(&group, 1, rows.data, rows.len), 0);
	moves_digest(&group, 2, 1, 5, 0);
	moves_digest(&group, 3, 2, 5, 0);
	assert_int_equal(pf_wire_put_bytes(&version, 3, group.data, group.len), 0);
	assert_int_equal(pf_wire_put_bytes(&content, 1, version.data, version.len), 0);
	assert_refused("tagged", &content, 1, "record 0, group 0: offset 27: expected nothing more, found 2 bytes");
	if (decode(&content, 0, &f, &why) < 0)
		fail_msg("%s", why.text);
	uint64_t addr = UINT64_C(1) << 32 | 3;
	assert_int_equal(pf_fri_translate(&f, &addr, 1, NULL), 0);
	assert_int_equal(addr, UINT64_C(2) << 32 | 3);
}

/* No cut and no flipped bit is read past its end. */
static void test_damaged(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf good = PF_BUF_INIT;

	moves_content("L5 0:10 1:10:2 > 6:18; T 6:18 > 8:10 9:8; P 8:10 > 11:10", &good);
	for (size_t len = 0; len <= good.len; len++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_buf cut = { good.data, len, len };
		int r = decode(&cut, 1, &f, NULL);

		assert_true(r == 0 || r == -EBADMSG);
	}
	for (size_t bit = 0; bit < 8 * good.len; bit++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };

		good.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int r = decode(&good, 1, &f, NULL);
		good.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(r == 0 || r == -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),	       cmocka_unit_test(test_sources),
		cmocka_unit_test(test_empty),	       cmocka_unit_test(test_versions),
		cmocka_unit_test(test_tagged_defects), cmocka_unit_test(test_v0_defects),
		cmocka_unit_test(test_accepted),       cmocka_unit_test(test_wire_defects),
		cmocka_unit_test(test_partition),      cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_ignored),	       cmocka_unit_test(test_trailing),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
