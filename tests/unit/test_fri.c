/*
 * Fragment reuse histories: what released Lance wrote, every defect that Lance 14 names (lance-14-fri section 3), wherever the content is
 * (cases-open E13), and where rows went.
 */
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

static void describe_digests(struct pf_buf *out, const struct pf_digest *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pf_buf_addf(out, " %lu:%lu:%lu", v[i].id, v[i].physical_rows, v[i].deleted_rows);
}

/* A history in words. */
static void assert_history(const struct pf_fri *f, const char *expected)
{
	static const char *const names[] = { "v0", "ordered", "partition", "unknown" };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	for (size_t i = 0; i < f->n_records; i++) {
		const struct pf_fri_record *record = &f->records[i];

		if (record->legacy)
			pf_buf_addf(&text, "stamp %lu", record->stamp);
		for (size_t k = 0; k < record->n_groups; k++) {
			const struct pf_fri_group *g = &record->groups[k];

			assert_int_equal(g->record, i);
			assert_int_equal(record->published, 0);
			pf_buf_addf(&text, " [%s", names[g->mapping]);
			describe_digests(&text, g->from, g->n_from);
			pf_buf_addstr(&text, " >");
			describe_digests(&text, g->to, g->n_to);
			pf_buf_addch(&text, ']');
		}
		pf_buf_addch(&text, '\n');
	}
	assert_string_equal(pf_buf_str(&text), expected);
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
	assert_history(&f, "stamp 5 [v0 0:10:0 1:10:2 > 6:18:0] [v0 2:4:0 > 7:4:0]\n"
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
	assert_history(&f, "stamp 0\n [ordered 1:5:0 > 2:5:0]\n");
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

/* --- the entry ------------------------------------------------------------------------------------------------------ */

/* A table of one version, `1.manifest`, and what its FRI is. */
struct entry {
	struct pf_store *st;
	struct pf_buf section, content, details;
};

static void entry_release(struct entry *t)
{
	pf_store_free(t->st);
	pf_buf_release(&t->section);
	pf_buf_release(&t->content);
	pf_buf_release(&t->details);
}

static void entry_new(struct entry *t, const char *text)
{
	*t = (struct entry){ 0 };
	assert_int_equal(pf_store_mem_new(&t->st), 0);
	moves_content(text, &t->content);
}

/* An entry with t->details. */
static void entry_put(struct entry *t, int32_t version)
{
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 7,
					   .type = MOVES_FRI_TYPE,
					   .details = &t->details,
					   .dataset_version = 11,
					   .index_version = version },
		    &t->section);
}

static int entry_read(struct entry *t, const struct pf_fri_base *base, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	table_put(t->st, &(struct table_version){ .version = 1, .v1 = true, .index = &t->section });
	int r = pf_manifest_open(t->st, "_versions/1.manifest", &m, why);
	return r < 0 ? r : pf_fri_read(t->st, "", m, base, out, why);
}

#define ENTRY "_versions/1.manifest: __lance_frag_reuse 0badcafe-0000-4000-a000-000000000007: "
#define FILE_ "_indices/0badcafe-0000-4000-a000-000000000007/details.binpb"

static void test_inline(void **state)
{
	_cleanup_(entry_release) struct entry t;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_inline(&t.content, &t.details);
	moves_index(&(struct moves_index){ .name = "a" }, &t.section);
	entry_put(&t, 0);
	if (entry_read(&t, NULL, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_history(&f, "stamp 5 [v0 0:1:0 > 1:1:0]\n");
	assert_string_equal(f.uuid, "0badcafe-0000-4000-a000-000000000007");
	assert_int_equal(f.dataset_version, 11);
	assert_int_equal(f.index_version, 0);
	assert_false(f.external || f.has_base);
	assert_null(f.external_path);
}

static void test_no_entry(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENODATA);
	moves_index(&(struct moves_index){ .name = "a" }, &t.section);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENODATA);
	assert_string_equal(why.text, "_versions/1.manifest has no fragment reuse index");
}

static void test_details(void **state)
{
	static const struct {
		const char *type;
		const char *bytes; /* NULL: none */
		size_t n;
		int r;
		const char *why;
	} rows[] = {
		{ NULL, NULL, 0, -EBADMSG, ENTRY "expected details, found none" },
		{ MOVES_FRI_TYPE, NULL, 0, -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B(""), -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B("\x18\x01"), -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B("\x0a\x00"), 0, "" },
		{ MOVES_FRI_TYPE, B("\x18\x01\x0a\x00"), 0, "" },
		{ "type.googleapis.com/lance.table.FragmentReuseIndexDetails", B("\x0a\x00"), 0, "" },
		{ "lance.table.FragmentReuseIndexDetails", B("\x0a\x00"), 0, "" },
		{ "/lance.table.BTreeIndexDetails", B("\x0a\x00"), -EBADMSG,
		  ENTRY
		  "expected details of type lance.table.FragmentReuseIndexDetails, found \"/lance.table.BTreeIndexDetails\"" },
		{ "", B("\x0a\x00"), -EBADMSG,
		  ENTRY "expected details of type lance.table.FragmentReuseIndexDetails, found \"\"" },
		{ MOVES_FRI_TYPE, B("\x08\x00"), -EBADMSG,
		  ENTRY "field 1 at offset 90 has wire type 0; expected 2, bytes" },
		{ MOVES_FRI_TYPE, B("\x0a\x00\x0a\x00"), -EBADMSG,
		  ENTRY "offset 92: expected one content, found another" },
		{ MOVES_FRI_TYPE, B("\x0a\x00\x12\x00"), -EBADMSG,
		  ENTRY "offset 92: expected one content, found another" },
		{ MOVES_FRI_TYPE, B("\x12\x00"), -EBADMSG,
		  ENTRY "expected external content to be the name of a file, found \"\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x05\x0a\x03"
		    "a/b"),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"a/b\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x04\x0a\x02"
		    ".."),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"..\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x05\x0a\x03"
		    "a\0b"),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"a\\x00b\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		struct pf_buf details = { (uint8_t *)(uintptr_t)rows[i].bytes, rows[i].n, rows[i].n };

		entry_new(&t, "");
		moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
						   .uuid = 7,
						   .type = rows[i].type,
						   .details = rows[i].bytes ? &details : NULL },
			    &t.section);
		int r = entry_read(&t, NULL, &f, &why);
		assert_string_equal(why.text, rows[i].why);
		assert_int_equal(r, rows[i].r);
	}
}

static void test_entries(void **state)
{
	static const struct {
		int32_t a, b;
		int r;
	} rows[] = { { 0, 0, 0 }, { 0, 1, -EBADMSG }, { 1, 0, -EBADMSG }, { 1, 1, -EBADMSG } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		entry_new(&t, "L5 0:1 > 1:1");
		moves_details_inline(&t.content, &t.details);
		entry_put(&t, rows[i].a);
		pf_buf_reset(&t.details);
		assert_int_equal(pf_buf_add(&t.details, "\x0a\x00", 2), 0);
		entry_put(&t, rows[i].b);
		assert_int_equal(entry_read(&t, NULL, &f, &why), rows[i].r);
		if (rows[i].r == 0)
			assert_int_equal(f.n_records, 1); /* the first one counts */
		else
			assert_string_equal(why.text, "_versions/1.manifest: expected one entry __lance_frag_reuse, "
						      "found 2 of which one is tagged");
	}
}

static void test_future_version(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	entry_put(&t, 2);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, ENTRY "index_version 2; pinfs understands 0 and 1");
}

/* A range of a file in the directory of the entry: what stands around it is nobody's business. */
static void test_external(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;

	moves_content("L5 0:1 > 1:1", &content);
	const struct {
		uint64_t offset, size;
		int r;
		const char *why;
	} rows[] = {
		{ 3, content.len, 0, "" },
		{ 3, 0, 0, "" },
		{ 2, content.len, -EBADMSG,
		  ENTRY FILE_ ": field 7 at offset 0 has wire type 7; expected 0, 1, 2 or 5" },
		{ 3, content.len + 2, -EBADMSG, ENTRY FILE_ ": expected 47 bytes from 3 on, found a file of 49" },
		{ 50, 0, -EBADMSG, ENTRY FILE_ ": expected 0 bytes from 50 on, found a file of 49" },
		{ UINT64_MAX, UINT64_MAX, -EBADMSG,
		  ENTRY FILE_
		  ": expected 18446744073709551615 bytes from 18446744073709551615 on, found a file of 49" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		entry_new(&t, "");
		assert_int_equal(pf_buf_addstr(&file, "???"), 0);
		assert_int_equal(pf_buf_add(&file, content.data, content.len), 0);
		assert_int_equal(pf_buf_addstr(&file, "?"), 0);
		assert_int_equal(pf_store_mem_put(t.st, FILE_, file.data, file.len), 0);
		moves_details_external("details.binpb", rows[i].offset, rows[i].size, &t.details);
		entry_put(&t, 0);
		int r = entry_read(&t, NULL, &f, &why);
		assert_string_equal(why.text, rows[i].why);
		assert_int_equal(r, rows[i].r);
		if (r < 0)
			continue;
		assert_history(&f, rows[i].size ? "stamp 5 [v0 0:1:0 > 1:1:0]\n" : "");
		assert_true(f.external);
		assert_string_equal(f.external_path, "details.binpb");
		assert_int_equal(f.external_offset, rows[i].offset);
		assert_int_equal(f.external_size, rows[i].size);
	}
}

static void test_external_gone(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	moves_details_external("details.binpb", 0, 10, &t.details);
	entry_put(&t, 1);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENOENT);
	assert_string_equal(why.text, ENTRY FILE_ ": missing");
}

/* A clone's entry: its file is where the base says, which the caller knows. */
static void test_base(void **state)
{
	_cleanup_(entry_release) struct entry t;
	_cleanup_(pf_store_freep) struct pf_store *other = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_external("details.binpb", 0, t.content.len, &t.details);
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 7,
					   .type = MOVES_FRI_TYPE,
					   .details = &t.details,
					   .has_base = true,
					   .base_id = 3 },
		    &t.section);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -EINVAL);
	assert_string_equal(why.text, ENTRY "its content is on base 3, which was not given");

	assert_int_equal(pf_store_mem_new(&other), 0);
	assert_int_equal(pf_store_mem_put(other, "b/" FILE_, t.content.data, t.content.len), 0);
	const struct pf_fri_base base = { other, "b/" };
	if (entry_read(&t, &base, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_true(f.has_base && f.external);
	assert_int_equal(f.base_id, 3);
	assert_int_equal(f.n_records, 1);
}

/* Whichever call of the store fails, its error comes out, with a sentence, and nothing stays behind. */
static void test_faults(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_manifest *m;
	unsigned n = 0;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_external("details.binpb", 0, t.content.len, &t.details);
	entry_put(&t, 0);
	assert_int_equal(pf_store_mem_put(t.st, FILE_, t.content.data, t.content.len), 0);
	table_put(t.st, &(struct table_version){ .version = 1, .v1 = true, .index = &t.section });
	assert_int_equal(pf_manifest_open(t.st, "_versions/1.manifest", &m, NULL), 0);
	for (int r = -EIO; r < 0;) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		pf_store_mem_fault(t.st, ++n, PF_FAULT_BEFORE, -EIO, false);
		r = pf_fri_read(t.st, "", m, NULL, &f, &why);
		if (r < 0) {
			assert_int_equal(r, -EIO);
			assert_true(why.text[0]);
		}
		pf_store_mem_fault(t.st, 0, PF_FAULT_NONE, 0, false);
	}
	assert_true(n >= 6);
	pf_manifest_unref(m);
}

/* --- bitmaps of strangers (E09, E10, E13) --------------------------------------------------------------------------- */

#define PLAIN "\x3a\x30\x00\x00"

/* The verdict and the sentence are the same for an inline entry and an external file, v0 and tagged. */
static void test_bad_bitmaps(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char
			*why; /* behind the record, offsets within the treemap, which has 12 bytes before the bitmap */
	} rows[] = {
		{ B(""), "offset 12: expected 4 bytes of a cookie, found 0" },
		{ B("\x3a"), "offset 12: expected 4 bytes of a cookie, found 1" },
		{ B(PLAIN), "offset 16: expected 4 bytes of a count of containers, found 0" },
		{ B(PLAIN "\xff\xff\xff\xff"), "offset 16: expected at most 65536 containers, found 4294967295" },
		{ B(PLAIN "\x01\x00\x01\x00"), "offset 16: expected at most 65536 containers, found 65537" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\x10\x00\x00\x00\x00\x00\x01"),
		  "offset 28: expected 4 bytes of an array, found 3" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\xff\x00\x00\x00\x00\x00\x01\x00"),
		  "offset 12: expected container 0 16 bytes on, found 255" },
		{ B("\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x10\x00\x00\x00\x02\x00\x01\x00\x00\x00"),
		  "offset 30: expected values in ascending order" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\x10\x00\x00\x00\x01\x00\x01\x00"),
		  "offset 30: expected values in ascending order" },
		{ B(PLAIN "\x02\x00\x00\x00"
			  "\x01\x00\x00\x00\x00\x00\x00\x00"
			  "\x18\x00\x00\x00\x1a\x00\x00\x00"
			  "\0\0\0\0"),
		  "offset 12: expected container 1 to have a key above 1, found 0" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x02\x00\x02\x00\x00\x00\x01\x00\x01\x00\x00\x00"),
		  "offset 27: expected a run that begins behind 2, found 1" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x01\x00\x01\x00\xff\xff\x01\x00"),
		  "offset 23: a run from 65535 ends at 65536, past 65535" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x03\x00\x01\x00\x00\x00\x01\x00"),
		  "offset 21: expected runs of 4 values, found 2" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int32_t version = 0; version <= 1; version++) {
			for (int external = 0; external < 2; external++) {
				_cleanup_(entry_release) struct entry t;
				_cleanup_(pf_buf_release) struct pf_buf rowset = PF_BUF_INIT, group = PF_BUF_INIT,
									record = PF_BUF_INIT;
				_cleanup_(pf_freep) char *expected = NULL;
				struct pf_why why = PF_WHY_INIT;
				struct pf_fri f;

				entry_new(&t, "");
				assert_int_equal(pf_buf_add(&rowset, B("\x01\0\0\0\0\0\0\0"
								       "\x01\0\0\0")),
						 0);
				assert_int_equal(pf_buf_add(&rowset, rows[i].bytes, rows[i].n), 0);
				assert_int_equal(pf_wire_put_bytes(&group, 1, rowset.data, rowset.len), 0);
				moves_digest(&group, 2, 1, 2, 0);
				moves_digest(&group, 3, 2, 2, 0);
				assert_int_equal(pf_wire_put_bytes(&record, 3, group.data, group.len), 0);
				assert_int_equal(pf_wire_put_bytes(&t.content, 1, record.data, record.len), 0);
				if (external) {
					moves_details_external("details.binpb", 0, t.content.len, &t.details);
					assert_int_equal(pf_store_mem_put(t.st, FILE_, t.content.data, t.content.len),
							 0);
				} else {
					moves_details_inline(&t.content, &t.details);
				}
				entry_put(&t, version);
				assert_int_equal(entry_read(&t, NULL, &f, &why), -EBADMSG);
				assert_true(asprintf(&expected, ENTRY "%srecord 0, group 0: %s",
						     external ? FILE_ ": " : "", rows[i].why) > 0);
				assert_string_equal(why.text, expected);
			}
		}
	}
}

/* --- where rows went ------------------------------------------------------------------------------------------------ */

#define AT(fragment, row) (UINT64_C(fragment) << 32 | (row))

static void test_translate(void **state)
{
	/* 0: rows 1, 2 and 4 of 0 to 5 live, 1: all 3. Concatenated: 0.1 0.2 0.4 1.0 1.1 1.2, cut 2, 0, 4. */
	static const char one[] = "L1 0:6:3 1:3 > 6:2 7:0 8:4 @ 0:1-2 0:4-4 1:0-2";
	/* Sources in the order 2, 1: the rows of 2 come first. */
	static const char backwards[] = "T 2:2 1:2 > 3:4";
	/* Stored the wrong way round: 1 -> 2 -> 3. A tagged history is followed by lineage, a v0 one record by record. */
	static const char turned[] = "L9 2:2 > 3:2; L8 1:2 > 2:2";
	/* 1 moved, and its id used again for other rows, which moved too. */
	static const char again[] = "L1 1:2 > 2:2; L2 3:2 > 1:2; L3 1:2 > 4:2";
	static const struct {
		const char *text;
		int32_t version;
		uint64_t from, to;
	} rows[] = {
		{ one, 0, AT(0, 1), AT(6, 0) },
		{ one, 0, AT(0, 2), AT(6, 1) },
		{ one, 0, AT(0, 4), AT(8, 0) },
		{ one, 0, AT(1, 0), AT(8, 1) },
		{ one, 0, AT(1, 2), AT(8, 3) },
		{ one, 0, AT(0, 0), PF_ROW_GONE },
		{ one, 0, AT(0, 3), PF_ROW_GONE },
		{ one, 0, AT(0, 5), PF_ROW_GONE },
		/* Not rows of it, not fragments of it: unchanged, as Lance has it. */
		{ one, 0, AT(0, 6), AT(0, 6) },
		{ one, 0, AT(2, 0), AT(2, 0) },
		{ one, 0, AT(6, 0), AT(6, 0) },
		{ one, 1, AT(1, 2), AT(8, 3) },
		{ one, 1, AT(0, 6), AT(0, 6) },
		{ one, 0, PF_ROW_GONE, PF_ROW_GONE },
		{ backwards, 1, AT(2, 0), AT(3, 0) },
		{ backwards, 1, AT(1, 0), AT(3, 2) },
		{ turned, 0, AT(1, 1), AT(2, 1) },
		{ turned, 1, AT(1, 1), AT(3, 1) },
		{ again, 0, AT(1, 0), AT(2, 0) },
		{ again, 0, AT(3, 1), AT(4, 1) },
		{ "L1 0:2 1:1 > 5:3; L2 5:3 4:1 > 6:4; T 6:4 > 7:1 8:3", 1, AT(1, 0), AT(8, 1) },
		/* A28: everything zero. */
		{ "L0 0:1 > 1:1", 0, AT(0, 0), AT(1, 0) },
		{ "L0 1:1 > 0:1", 0, AT(1, 0), AT(0, 0) },
		/* All rows of a fragment deleted. */
		{ "T 3:2:2 1:1 > 2:1", 1, AT(3, 1), PF_ROW_GONE },
		{ "T 3:2:2 >", 1, AT(3, 1), PF_ROW_GONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		uint64_t addr = rows[i].from;

		if (decode_text(rows[i].text, rows[i].version, &f, &why) < 0 ||
		    pf_fri_translate(&f, &addr, 1, &why) < 0)
			fail_msg("%s: %s", rows[i].text, why.text);
		if (addr != rows[i].to)
			fail_msg("%s: %lu.%lu goes to %lu.%lu", rows[i].text, rows[i].from >> 32,
				 rows[i].from & UINT32_MAX, addr >> 32, addr & UINT32_MAX);
	}
}

static void test_translate_partition(void **state)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;
	uint64_t addrs[] = { AT(9, 0), AT(1, 0) };

	assert_int_equal(decode_text("T 1:2 > 2:2; P 2:2 > 3:1 4:1; T 9:1 > 8:1", 1, &f, NULL), 0);
	assert_int_equal(pf_fri_translate(&f, addrs, 1, &why), 0);
	assert_int_equal(addrs[0], AT(8, 0));
	assert_int_equal(pf_fri_translate(&f, addrs, 2, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "record 1: where its rows went is in _fri/0badcafe-0000-4000-9000-000000000001/, "
				      "which is not read here");
}

/* --- what released Lance wrote -------------------------------------------------------------------------------------- */

/*
 * Fragments 0 to 3 of 4, 4, 10 and 10 rows; row 2 of 0 deleted; then 0 and 1 compacted into 4, 4 rows appended as 5, and all that is below 100
 * rows compacted: by 12 and newer with 4, by older ones without. Stamps are two and one below the version that published.
 */
static void test_fixtures(void **state)
{
	static const char old[] = "stamp 6 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 9 [v0 2:10:0 3:10:0 > 6:20:0]\n";
	static const struct {
		const char *key, *history;
		uint64_t row_1_of_1; /* id 6, where it is at last */
	} rows[] = {
		{ "4.0.1/fri.lance", old, AT(4, 4) },
		{ "8.0.1/fri.lance", old, AT(4, 4) },
		{ "12.0.0/fri.lance", "stamp 6 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 9 [v0 2:10:0 3:10:0 4:7:0 > 6:27:0]\n",
		  AT(6, 24) },
		{ "14.0.2/fri.lance", "stamp 7 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 10 [v0 2:10:0 3:10:0 4:7:0 > 6:27:0]\n",
		  AT(6, 24) },
	};
	json_t *all = fixture_expected();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(rows[i].key);
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		uint64_t addrs[] = { AT(1, 1), AT(0, 2), AT(0, 0) };
		json_t *versions = fixture_get(json_object_get(all, rows[i].key), "versions");

		if (pf_manifest_open(st,
				     fixture_str(json_array_get(versions, json_array_size(versions) - 1), "manifest"),
				     &m, &why) < 0 ||
		    pf_fri_read(st, "", m, NULL, &f, &why) < 0)
			fail_msg("%s", why.text);
		assert_int_equal(f.index_version, 0);
		assert_false(f.unsupported);
		assert_history(&f, rows[i].history);
		assert_int_equal(pf_fri_translate(&f, addrs, ARRAY_LEN(addrs), &why), 0);
		assert_int_equal(addrs[0], rows[i].row_1_of_1);
		assert_int_equal(addrs[1], PF_ROW_GONE);
		assert_int_equal(addrs[2], rows[i].row_1_of_1 - 4);
	}
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_sources),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_tagged_defects),
		cmocka_unit_test(test_v0_defects),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_wire_defects),
		cmocka_unit_test(test_partition),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_trailing),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_no_entry),
		cmocka_unit_test(test_details),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_future_version),
		cmocka_unit_test(test_external),
		cmocka_unit_test(test_external_gone),
		cmocka_unit_test(test_base),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_bad_bitmaps),
		cmocka_unit_test(test_translate),
		cmocka_unit_test(test_translate_partition),
		cmocka_unit_test(test_fixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
