/* Reading one manifest file: real ones against what Lance says of them, and damaged ones (cases-open A18, E01, E03, E05, E06). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/manifest.h"
#include "core/store_mem.h"

#include "fixture.h"
#include "table.h"

/* Lance's Python passes the time through a float of seconds: it is right to 2 microseconds. */
static void check_timestamp(json_t *version, const struct pf_manifest *m)
{
	const char *text = fixture_str(version, "timestamp");
	struct pf_time said;

	assert_int_equal(pf_time_parse(text, strlen(text), (struct pf_time){ 0, 0 }, &said, NULL), 0);
	assert_true(m->has_timestamp);
	int64_t off = (m->timestamp.sec - said.sec) * 1000000000 + m->timestamp.nsec - said.nsec;
	assert_true(off >= -2000 && off <= 2000);
}

static void check_version(struct pf_store *st, json_t *version)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const char *name = fixture_str(version, "manifest");
	uint64_t fragments, rows;
	struct pf_why why = PF_WHY_INIT;

	if (pf_manifest_open(st, name, &m, &why) < 0 || pf_manifest_count(st, m, &fragments, &rows, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(m->name, name);
	assert_int_equal(m->version, fixture_u64(version, "version"));
	assert_int_equal(fragments, fixture_u64(version, "fragments"));
	assert_int_equal(rows, fixture_u64(version, "rows"));
	check_timestamp(version, m);
	assert_null(m->branch);
	assert_int_equal(m->pins.n, 0);
	assert_string_equal(m->writer_library, "lance");
	assert_string_equal(why.text, "");
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i, n = 0;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
		{
			check_version(st, version);
			n++;
		}
	}
	assert_true(n > 600);
	json_decref(all);
}

static void test_names(void **state)
{
	static const struct {
		const char *name;
		uint64_t version;
		bool v2;
	} attached[] = {
		{ "1.manifest", 1, false },
		{ "300.manifest", 300, false },
		{ "9223372036854775807.manifest", INT64_MAX, false },
		{ "18446744073709551614.manifest", 1, true },
		{ "18446744073709551315.manifest", 300, true },
		{ "00000000000000000000.manifest", UINT64_MAX, true },
	};
	static const char *const others[] = {
		"",
		"manifest",
		".manifest",
		"latest_version_hint.json",
		"d9223372036854788153.manifest",
		"4.manifest-0b7b4f0e-1111-4222-8333-444455556666",
		"4.manifest#1",
		".tmp_4.manifest_0b7b4f0e",
		".tmpAbCdEf",
		"4.manifest.json",
		"x.manifest",
		"4x.manifest",
		"-4.manifest",
		"+4.manifest",
		" 4.manifest",
		"4 .manifest",
		"04.manifest",
		"4.MANIFEST",
		"4manifest",
		"0x4.manifest",
		/* 2^64 and above; 20 digits, 21 digits */
		"18446744073709551616.manifest",
		"99999999999999999999.manifest",
		"018446744073709551614.manifest",
		"99999999999999999999999999999999999999999999.manifest",
	};
	uint64_t version;
	bool v2;

	for (size_t i = 0; i < ARRAY_LEN(attached); i++) {
		char name[PF_MANIFEST_NAME_MAX];
		assert_int_equal(pf_manifest_name_parse(attached[i].name, &version, &v2), 1);
		assert_true(version == attached[i].version && v2 == attached[i].v2);
		pf_manifest_name_format(version, v2, name);
		assert_string_equal(name, attached[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (pf_manifest_name_parse(others[i], &version, &v2) != 0)
			fail_msg("%s was taken for version %lu", others[i], (unsigned long)version);
}

/* What Lance 14.0.2 answers to, or stumbles over, when it finds a file of this name (measured). */
static void test_misleading(void **state)
{
	static const char *const misleading[] = {
		"00009.manifest",
		"+9.manifest",
		"9.x.manifest",
		"9.xmanifest",
		"99.9manifest",
		"018446744073709551606.manifest",
		"+8446744073709551606.manifest",
		"18446744073709551606.manifest.manifest",
	};
	static const char *const others[] = {
		"9.manifest",
		"18446744073709551606.manifest",
		"d9.manifest",
		"x.manifest",
		"9.manifest#1",
		"9.manifest-x",
		"9manifest",
		".manifest",
		"+.manifest",
		"9.MANIFEST",
		"9.",
		"",
		".tmp_9.manifest",
		"latest_version_hint.json",
	};

	for (size_t i = 0; i < ARRAY_LEN(misleading); i++)
		if (!pf_manifest_name_misleads(misleading[i]))
			fail_msg("%s is taken for nothing", misleading[i]);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (pf_manifest_name_misleads(others[i]))
			fail_msg("%s is said to mislead", others[i]);
}

#define NAME "_versions/7.manifest"

/* Read `bytes` as version 7. The sentence of a failure must begin with the file. */
static int read_bytes(const void *bytes, size_t len, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_mem_put(st, NAME, bytes, len), 0);
	int r = pf_manifest_open(st, NAME, out, why);
	if (r < 0)
		assert_int_equal(strncmp(why->text, NAME ": ", strlen(NAME ": ")), 0);
	return r;
}

static void expect_damage_in(const void *bytes, size_t len, const char *sentence)
{
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(read_bytes(bytes, len, &m, &why), -EBADMSG);
	assert_null(m);
	if (!strstr(why.text, sentence))
		fail_msg("\"%s\" does not say \"%s\"", why.text, sentence);
}

/* Version 7 as `t` says, with more top-level fields behind it. */
static void build(struct table_version t, const void *extra, size_t n, struct pf_buf *out)
{
	struct pf_buf more = { (uint8_t *)(uintptr_t)extra, n, n };

	t.version = 7;
	t.v1 = true;
	t.fragments = 3;
	if (extra)
		t.extra = &more;
	table_manifest(&t, out);
}

static void expect_damage(const void *extra, size_t n, const char *sentence)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	build((struct table_version){ 0 }, extra, n, &b);
	expect_damage_in(b.data, b.len, sentence);
}

#define EXPECT_DAMAGE(bytes, sentence) expect_damage(bytes, sizeof(bytes) - 1, sentence)

static void put_le(struct pf_buf *b, size_t at, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		b->data[at + i] = (uint8_t)(v >> 8 * i);
}

static void put_pin(struct pf_buf *b, unsigned n)
{
	_cleanup_(pf_buf_release) struct pf_buf pin = PF_BUF_INIT, id = PF_BUF_INIT;
	uint8_t bytes[16] = { 0xaa, [14] = (uint8_t)(n >> 8), [15] = (uint8_t)n };

	assert_int_equal(pf_wire_put_bytes(&id, 1, bytes, sizeof(bytes)), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 1, id.data, id.len), 0);
	assert_int_equal(pf_wire_put_u64(&pin, 2, n), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 3, "0badcafe-0000-4000-8000-000000000001", 36), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 4, "\x08\x01", 2), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 5, "\x08\x02", 2), 0);
	assert_int_equal(pf_wire_put_bytes(b, 10395, pin.data, pin.len), 0);
}

/* Everything a manifest can have, where the layout says it is. */
static void test_all_parts(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, pins = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_buf leading = { (uint8_t[]){ "0123456789" }, 10, 10 }, index = { (uint8_t[]){ "\x0a\x00" }, 2, 2 };
	struct pf_why why = PF_WHY_INIT;

	put_pin(&pins, 300);
	put_pin(&pins, 2);
	build((struct table_version){ .branch = "feat/x",
				      .reader_flags = 1,
				      .writer_flags = 9,
				      .pins = &pins,
				      .leading = &leading,
				      .index = &index,
				      .timestamp = { -1, 999999999 } },
	      NULL, 0, &b);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	assert_int_equal(m->version, 7);
	assert_false(m->v2);
	assert_string_equal(m->branch, "feat/x");
	assert_string_equal(m->transaction_file, "6-0badcafe-0000-4000-8000-000000000007.txn");
	assert_string_equal(m->writer_library, "lance");
	assert_string_equal(m->writer_version, "14.0.2");
	assert_true(m->reader_flags == 1 && m->writer_flags == 9);
	assert_true(m->has_timestamp && m->timestamp.sec == -1 && m->timestamp.nsec == 999999999);
	assert_int_equal(m->lead_len, 10);
	assert_true(m->index.present && m->index.off == 14 && m->index.len == 2);
	assert_true(m->transaction.present && m->transaction.off == 20);
	assert_int_equal(m->body_off, m->transaction.off + m->transaction.len + 4);
	assert_int_equal(m->body_off + m->body_len + 16, b.len);
	/* stored order */
	assert_int_equal(m->pins.n, 2);
	assert_int_equal(m->pins.v[0].source_version, 300);
	assert_int_equal(m->pins.v[1].source_version, 2);
}

/* A table nobody named anything in: proto3 leaves defaults out. */
static void test_few_parts(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	build((struct table_version){ .txn = TABLE_TXN_NONE, .no_timestamp = true }, "\x62\0\x6a\0\xa2\1\0", 7, &b);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	assert_null(m->branch);
	assert_null(m->transaction_file);
	assert_string_equal(m->writer_library, "");
	assert_string_equal(m->writer_version, "");
	assert_false(m->has_timestamp || m->index.present || m->transaction.present);
	assert_true(m->reader_flags == 0 && m->writer_flags == 0 && m->pins.n == 0);
	assert_int_equal(m->lead_len, 0);
}

/* Lance reads 23, else 21, and offset 0 is an ordinary one. */
static void test_transaction_fields(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_buf index = { (uint8_t[]){ "\x0a\x00" }, 2, 2 };
	struct pf_why why = PF_WHY_INIT;

	for (int txn = TABLE_TXN_14; txn <= TABLE_TXN_12; txn++) {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		pf_buf_reset(&b);
		build((struct table_version){ .txn = txn }, NULL, 0, &b);
		assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
		assert_true(m->transaction.present && m->transaction.off == 4);
	}
	/* 23 and, behind it, a 21 that names the index section at 0. */
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	pf_buf_reset(&b);
	build((struct table_version){ .index = &index }, "\xa8\1\0", 3, &b);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	assert_int_equal(m->transaction.off, 10);
}

static void test_truncated(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, pins = PF_BUF_INIT;
	struct pf_buf index = { (uint8_t[]){ "\x0a\x00" }, 2, 2 };

	put_pin(&pins, 1);
	build((struct table_version){ .pins = &pins, .index = &index }, NULL, 0, &b);
	for (size_t len = 0; len < b.len; len++)
		expect_damage_in(b.data, len, len < 16 ? "offset 0: expected at least 16 bytes" : "expected \"LANC\"");
}

static void test_footer(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;
	const char *range = "expected the manifest message to start 4 bytes or more before offset";

	build((struct table_version){ 0 }, NULL, 0, &b);
	size_t at = b.len - 16;
	uint64_t pos = pf_get_le(b.data + at, 8);
	const uint64_t wild[] = { at - 3,    at,	b.len - 1,	     b.len,
				  b.len + 1, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX - 3,
				  UINT64_MAX };
	for (size_t i = 0; i < ARRAY_LEN(wild); i++) {
		put_le(&b, at, wild[i], 8);
		expect_damage_in(b.data, b.len, range);
	}
	put_le(&b, at, pos, 8);

	const uint64_t lengths[] = { 0, at - pos - 5, at - pos - 3, INT32_MAX, UINT32_MAX };
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		put_le(&b, pos, lengths[i], 4);
		expect_damage_in(b.data, b.len, "expected a length of");
	}
	put_le(&b, pos, at - pos - 4, 4);

	b.data[b.len - 1] = 'c';
	expect_damage_in(b.data, b.len, "expected \"LANC\"");
	b.data[b.len - 1] = 'C';
	/* Lance does not look at major and minor. */
	put_le(&b, at + 8, 0x00090007, 4);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
}

static void test_section_offsets(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, extra = PF_BUF_INIT;
	const uint64_t wild[] = { 200, 1 << 20, INT64_MAX, UINT64_MAX - 3,
				  UINT64_MAX }; /* the file has fewer than 200 */
	static const struct {
		uint32_t number;
		const char *sentence;
	} fields[] = {
		{ 6, "expected the index section to start 4 bytes or more before offset" },
		{ 21, "expected the transaction section to start 4 bytes or more before offset" },
		{ 23, "expected the transaction section to start 4 bytes or more before offset" },
	};

	for (size_t i = 0; i < ARRAY_LEN(wild) * ARRAY_LEN(fields); i++) {
		pf_buf_reset(&extra);
		pf_buf_reset(&b);
		assert_int_equal(
			pf_wire_put_u64(&extra, fields[i % ARRAY_LEN(fields)].number, wild[i / ARRAY_LEN(fields)]), 0);
		build((struct table_version){ .txn = TABLE_TXN_NONE }, extra.data, extra.len, &b);
		expect_damage_in(b.data, b.len, fields[i % ARRAY_LEN(fields)].sentence);
	}
	pf_buf_reset(&b);
	/* The message's own prefix is no section: nothing is left for one at its position. */
	build((struct table_version){ 0 }, "\x30\x00", 2, &b);
	uint64_t pos = pf_get_le(b.data + b.len - 16, 8);
	b.data[b.len - 17] = (uint8_t)pos;
	expect_damage_in(b.data, b.len, "expected the index section to start");
	b.data[b.len - 17] = (uint8_t)(pos - 3);
	expect_damage_in(b.data, b.len, "expected the index section to start");
	/* A length that reaches into the message. */
	b.data[b.len - 17] = 0;
	put_le(&b, 0, pos - 3, 4);
	expect_damage_in(b.data, b.len, "offset 0: expected a length of at most");
	put_le(&b, 0, UINT32_MAX, 4);
	expect_damage_in(b.data, b.len, "offset 0: expected a length of at most");
}

/* Sections in the other order, with a gap before, between and behind them: readers follow offsets only. */
static void test_section_order(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	static const char bytes[] = "junk\3\0\0\0txn?\2\0\0\0ix.."	   /* 0, 4, 12 */
				    "\7\0\0\0\x18\x07\x30\x0c\xb8\x01\x04" /* 20: version 7, 6 = 12, 23 = 4 */
				    "\x14\0\0\0\0\0\0\0\0\0\2\0LANC";

	assert_int_equal(pf_buf_add(&b, bytes, sizeof(bytes) - 1), 0);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	assert_int_equal(m->lead_len, 4);
	assert_true(m->transaction.off == 8 && m->transaction.len == 3);
	assert_true(m->index.off == 16 && m->index.len == 2);
}

/* Cut the message after every byte, and say so in its length: whatever is left is read or refused, and no byte past it. */
static void test_cut_message(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, pins = PF_BUF_INIT;
	size_t read = 0;

	put_pin(&pins, 1);
	build((struct table_version){ .pins = &pins, .branch = "b", .writer_flags = 1 << 19 }, NULL, 0, &b);
	uint64_t pos = pf_get_le(b.data + b.len - 16, 8), len = pf_get_le(b.data + pos, 4);
	for (uint64_t cut = 0; cut < len; cut++) {
		_cleanup_(pf_buf_release) struct pf_buf part = PF_BUF_INIT;
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(pf_buf_add(&part, b.data, pos + 4 + cut), 0);
		assert_int_equal(pf_buf_add(&part, b.data + b.len - 16, 16), 0);
		put_le(&part, pos, cut, 4);
		int r = read_bytes(part.data, part.len, &m, &why);
		assert_true(r == 0 || r == -EBADMSG);
		read += r == 0;
	}
	/* After the version stand 7 fields: timestamp, flags, highest fragment, file, writer, branch, 23; the pin is the end. */
	assert_int_equal(read, 8);
}

static void test_damaged_fields(void **state)
{
	EXPECT_DAMAGE("\x18\x08", "expected version 7 as in the file's name, found 8");
	EXPECT_DAMAGE("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "varint");
	EXPECT_DAMAGE("\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "varint");
	EXPECT_DAMAGE("\x80", "varint");
	EXPECT_DAMAGE("\x12\x80", "varint");
	EXPECT_DAMAGE("\x12\xff\xff\xff\xff\x0f", "claims 4294967295 bytes");
	EXPECT_DAMAGE("\x12\xff\xff\xff\xff\x07", "claims 2147483647 bytes");
	EXPECT_DAMAGE("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "claims 18446744073709551615 bytes");
	EXPECT_DAMAGE("\x62\xff\xff\xff\xff\x0f", "claims 4294967295 bytes");
	EXPECT_DAMAGE("\x03", "field number 0");
	EXPECT_DAMAGE("\x13", "wire type 3");
	EXPECT_DAMAGE("\x1a\x00", "field 3 at offset");
	EXPECT_DAMAGE("\x32\x00", "field 6 at offset");
	EXPECT_DAMAGE("\x38\x00", "field 7 at offset");
	EXPECT_DAMAGE("\x4a\x00", "field 9 at offset");
	EXPECT_DAMAGE("\x55\0\0\0\0", "field 10 at offset");
	EXPECT_DAMAGE("\x60\x01", "field 12 at offset");
	EXPECT_DAMAGE("\x68\x01", "field 13 at offset");
	EXPECT_DAMAGE("\xa0\x01\x01", "field 20 at offset");
	EXPECT_DAMAGE("\xaa\x01\x00", "field 21 at offset");
	EXPECT_DAMAGE("\xba\x01\x00", "field 23 at offset");
	EXPECT_DAMAGE("\xd8\x89\x05\x01", "field 10395 at offset");
	EXPECT_DAMAGE("\x3a\x01\x08", "expected a timestamp message");
	EXPECT_DAMAGE("\x3a\x02\x10\x80", "expected a timestamp message");
	EXPECT_DAMAGE("\x3a\x06\x10\x80\x94\xeb\xdc\x03", "expected a timestamp within years 0001 to 9999");
	EXPECT_DAMAGE("\x3a\x07\x08\xff\xff\xff\xff\xff\x3f", "expected a timestamp within years 0001 to 9999");
	EXPECT_DAMAGE("\x6a\x01\x0a", "expected a writer version message");
	EXPECT_DAMAGE("\x6a\x03\x0a\x01\xff", "expected UTF-8 text in field 13");
	EXPECT_DAMAGE("\x62\x02\xc0\x80", "expected UTF-8 text in field 12");
	EXPECT_DAMAGE("\x62\x02\x61\x00", "expected UTF-8 text in field 12");
	EXPECT_DAMAGE("\xa2\x01\x01\xff", "expected UTF-8 text in field 20");
	EXPECT_DAMAGE("\xda\x89\x05\x00", "pin record: ");
	EXPECT_DAMAGE("\xda\x89\x05\x01\x0a", "pin record: ");
}

/* Without field 3 the version is 0, which no file but 0.manifest is. */
static void test_no_version(void **state)
{
	static const uint8_t empty[] = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2\0LANC";

	expect_damage_in(empty, sizeof(empty) - 1, "expected version 7 as in the file's name, found 0");
}

/* Long claims for what is always short are refused before they are read. */
static void test_long_fields(void **state)
{
	_cleanup_(pf_freep) uint8_t *zeros = calloc(1, 1 << 20);
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	const uint32_t numbers[] = { 7, 12, 13, 20, 10395 };

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		pf_buf_reset(&extra);
		assert_int_equal(pf_wire_put_bytes(&extra, numbers[i], zeros, 1 << 20), 0);
		expect_damage(extra.data, extra.len, "has 1048576 bytes; expected at most");
	}
}

static void test_duplicate_pins(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf pins = PF_BUF_INIT;

	for (unsigned i = 0; i < 1000; i++)
		put_pin(&pins, i);
	put_pin(&pins, 500);
	expect_damage(pins.data, pins.len,
		      "expected each pin id once, found two records of aa000000-0000-0000-0000-0000000001f4");
}

/* Values that are odd and not wrong. */
static void test_odd_fields(void **state)
{
	/* 11 = 2^35+1 in a uint32; 100 = -1 in ten bytes; 9 twice, the last one counts; 22 and 999 not ours to read. */
	static const char extra[] = "\x58\x81\x80\x80\x80\x80\x01"
				    "\xa0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
				    "\x48\x05\x48\x06"
				    "\xb2\x01\x02\xff\xff"
				    "\xba\x3e\x01\x78";
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	build((struct table_version){ .reader_flags = 1 }, extra, sizeof(extra) - 1, &b);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	assert_int_equal(m->reader_flags, 6);
}

/* A message made to cost memory: fields that change their number with every byte. */
static void test_shuffled(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, b = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	for (unsigned i = 0; i < PF_MANIFEST_RUNS_MAX / 4; i++)
		assert_int_equal(pf_buf_add(&extra, "\x0a\0\x12\0", 4), 0);
	build((struct table_version){ 0 }, extra.data, extra.len, &b);
	assert_int_equal(read_bytes(b.data, b.len, &m, &why), 0);
	for (unsigned i = 0; i < PF_MANIFEST_RUNS_MAX / 4; i++)
		assert_int_equal(pf_buf_add(&extra, "\x0a\0\x12\0", 4), 0);
	expect_damage(extra.data, extra.len, "expected fields in order of their numbers");
}

static void test_not_a_file(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_manifest_open(st, NAME, &m, &why), -ENOENT);
	assert_int_equal(pf_store_mem_put(st, NAME "/inside", "", 0), 0);
	assert_int_equal(pf_manifest_open(st, NAME, &m, &why), -EBADMSG);
	assert_string_equal(why.text, NAME ": expected a file, found a directory");
	assert_int_equal(pf_manifest_open(st, "_versions/d9223372036854788153.manifest", &m, &why), -EINVAL);
	assert_null(m);
}

/* Storage that fails at each call in turn: its error, and the file in the sentence. */
static void test_storage_fails(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	struct pf_manifest *m = NULL;
	unsigned nth = 0;
	int r;

	build((struct table_version){ 0 }, NULL, 0, &b);
	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_mem_put(st, NAME, b.data, b.len), 0);
	do {
		struct pf_why why = PF_WHY_INIT;
		pf_store_mem_fault(st, ++nth, PF_FAULT_BEFORE, -EIO, false);
		r = pf_manifest_open(st, NAME, &m, &why);
		if (r < 0) {
			assert_int_equal(r, -EIO);
			assert_int_equal(strncmp(why.text, NAME ": ", strlen(NAME ": ")), 0);
		}
	} while (r < 0);
	assert_true(nth > 3);
	pf_manifest_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),	cmocka_unit_test(test_names),
		cmocka_unit_test(test_misleading),	cmocka_unit_test(test_all_parts),
		cmocka_unit_test(test_few_parts),	cmocka_unit_test(test_transaction_fields),
		cmocka_unit_test(test_truncated),	cmocka_unit_test(test_footer),
		cmocka_unit_test(test_section_offsets), cmocka_unit_test(test_section_order),
		cmocka_unit_test(test_cut_message),	cmocka_unit_test(test_damaged_fields),
		cmocka_unit_test(test_no_version),	cmocka_unit_test(test_long_fields),
		cmocka_unit_test(test_duplicate_pins),	cmocka_unit_test(test_odd_fields),
		cmocka_unit_test(test_shuffled),	cmocka_unit_test(test_not_a_file),
		cmocka_unit_test(test_storage_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
