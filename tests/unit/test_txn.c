/* Transactions: who Lance says committed what, our own message, and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/txn.h"

#include "fixture.h"
#include "table.h"

static void check_version(struct pf_store *st, json_t *version, const char *release)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	json_t *said = fixture_get(version, "transaction");
	const json_t *message = json_object_get(said, "message"), *operation = json_object_get(said, "operation");
	struct pf_why why = PF_WHY_INIT;
	char buf[32];

	if (pf_manifest_open(st, fixture_str(version, "manifest"), &m, &why) < 0 ||
	    pf_txn_read(st, "", m, &t, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(t.read_version, fixture_u64(said, "read_version"));
	assert_string_equal(t.uuid, fixture_str(said, "uuid"));
	/* Lance's Python has no name for ReserveFragments. */
	assert_string_equal(pf_txn_operation_name(t.operation, buf),
			    operation ? json_string_value(operation) : "ReserveFragments");
	if (message)
		assert_string_equal(t.message, json_string_value(message));
	else
		assert_null(t.message);
	assert_int_equal(t.kind, PF_OP_NONE);
	assert_string_equal(t.from, strcmp(release, "0.39.0") == 0 ? "file" : "inline");
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
			check_version(st, version, fixture_str(table, "release"));
	}
	json_decref(all);
}

#define UUID "0badcafe-0000-4000-8000-00000000000A"

static int decode(const void *bytes, size_t n, struct pf_txn *out, struct pf_why *why)
{
	_cleanup_(pf_freep) uint8_t *exact = malloc(n ? n : 1);
	struct pf_mem_reader r;

	memcpy(exact, bytes, n);
	pf_mem_reader_init(&r, exact, n);
	return pf_txn_decode(&r.base, 0, n, "here", out, why);
}

#define DECODE(bytes, out, why) decode(bytes, sizeof(bytes) - 1, out, why)

static struct pf_pin pin_of(uint8_t n, int64_t expires)
{
	struct pf_pin p = PF_PIN_INIT;

	p.id = (struct pf_uuid){ { 0xaa, [15] = n } };
	p.expires_at.sec = expires;
	p.label = strdup("");
	assert_non_null(p.label);
	return p;
}

static void add_pin(struct pf_txn *t, struct pf_pin p)
{
	assert_int_equal(pf_pins_add(&t->pins, &p), 0);
}

#define ID(n)	 "\x0a\x12\x0a\x10\xaa\0\0\0\0\0\0\0\0\0\0\0\0\0\0" n
#define MESSAGE	 "\x22\x1f\x0a\x16__lance_commit_message\x12\x05words"
#define CONFIG	 "\xf2\x06\x00" /* 110, empty */
#define PREAMBLE "\x08\x29\x12\x24" UUID MESSAGE CONFIG

/* design.md section 1, byte by byte. */
static void test_encode(void **state)
{
	static const struct {
		enum pf_op_kind kind;
		const char *bytes;
		size_t n;
	} rows[] = {
#define ROW(kind, tail) { kind, PREAMBLE tail, sizeof(PREAMBLE tail) - 1 }
		ROW(PF_OP_NONE, ""),
		ROW(PF_OP_ENABLE, "\xda\x89\x05\x02\x2a\x00"),
		ROW(PF_OP_RENEW, "\xda\x89\x05\x34\x12\x32"
				 "\x0a\x18" ID("\1") "\x12\x02\x08\x05"
						     "\x0a\x16" ID("\2") "\x12\x00"),
		ROW(PF_OP_RELEASE, "\xda\x89\x05\x2e\x1a\x2c"
				   "\x0a\x14" ID("\1") "\x0a\x14" ID("\2")),
		ROW(PF_OP_EXPIRE, "\xda\x89\x05\x34\x22\x32"
				  "\x0a\x18" ID("\1") "\x12\x02\x08\x05"
						      "\x0a\x16" ID("\2") "\x12\x00"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_txn_release) struct pf_txn t = { .read_version = 41, .uuid = UUID, .kind = rows[i].kind },
							back = PF_TXN_INIT;
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;
		t.message = strdup("words");
		if (t.kind != PF_OP_NONE && t.kind != PF_OP_ENABLE) {
			add_pin(&t, pin_of(1, 5));
			add_pin(&t, pin_of(2, 0));
		}
		assert_int_equal(pf_txn_encode(&t, &b), 0);
		if (b.len != rows[i].n || memcmp(b.data, rows[i].bytes, b.len) != 0)
			fail_msg("%s is encoded otherwise", pf_op_kind_name(t.kind));

		assert_int_equal(decode(b.data, b.len, &back, &why), 0);
		assert_int_equal(back.read_version, 41);
		assert_string_equal(back.uuid, UUID);
		assert_string_equal(back.message, "words");
		assert_int_equal(back.operation, 110);
		assert_int_equal(back.kind, t.kind);
		assert_int_equal(back.pins.n, t.pins.n);
		for (size_t k = 0; k < t.pins.n; k++) {
			assert_true(pf_uuid_eq(&back.pins.v[k].id, &t.pins.v[k].id));
			assert_string_equal(back.pins.v[k].label, "");
			if (t.kind != PF_OP_RELEASE)
				assert_int_equal(pf_time_cmp(back.pins.v[k].expires_at, t.pins.v[k].expires_at), 0);
		}
	}
}

#define RECORD                                                                                                         \
	ID("\1")                                                                                                       \
	"\x10\x29\x1a\x24" UUID "\x22\x04\x08\x01\x10\x02\x2a\x02\x08\x05\x32\x02"                                     \
	"ab"

/* A register carries whole records, as stored. */
static void test_register(void **state)
{
	static const char bytes[] = "\xda\x89\x05\x4e\x0a\x4c\x0a\x4a" RECORD;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (DECODE(bytes, &t, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(t.kind, PF_OP_REGISTER);
	assert_int_equal(t.operation, 0);
	assert_string_equal(t.uuid, "");
	assert_null(t.message);
	assert_int_equal(t.pins.n, 1);
	assert_int_equal(t.pins.v[0].source_version, 41);
	assert_string_equal(t.pins.v[0].source_txn, UUID);
	assert_string_equal(t.pins.v[0].label, "ab");
	assert_true(t.pins.v[0].created_at.sec == 1 && t.pins.v[0].created_at.nsec == 2);

	snprintf(t.uuid, sizeof(t.uuid), "%s", UUID);
	assert_int_equal(pf_txn_encode(&t, &b), 0);
	assert_memory_equal(b.data + b.len - (sizeof(bytes) - 1), bytes, sizeof(bytes) - 1);
}

static void test_operation(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *name;
	} rows[] = {
#define OP(bytes, name) { bytes, sizeof(bytes) - 1, name }
		OP("\x08\x01", "operation 0"),
		OP("\xa2\x06\x00", "Append"),
		OP("\xc2\x06\x02\xff\xff", "Rewrite"), /* not decoded */
		OP("\x9a\x07\x00", "DataOverlay"),
		OP("\xa2\x07\x00", "operation 116"),
		OP("\xc2\x3e\x00", "operation 1000"),
		OP("\xa2\x06\x00\xaa\x06\x00", "Delete"),	/* a oneof: the last */
		OP("\xf2\x06\x00\xc2\x3e\x00", "UpdateConfig"), /* 1000 beside it is an extension, as ours is */
		OP("\xc2\x3e\x00\xf2\x06\x00", "UpdateConfig"),
		OP("\xa0\x06\x01", "operation 0"), /* 100 as a number is no operation */
		OP("\xf2\x06\x00\xda\x89\x05\x02\x2a\x00", "UpdateConfig"),
		OP("\x9a\x06\x00", "operation 0"), /* 99 */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
		char buf[32];
		assert_int_equal(decode(rows[i].bytes, rows[i].n, &t, NULL), 0);
		assert_string_equal(pf_txn_operation_name(t.operation, buf), rows[i].name);
	}
}

static void test_identity(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *uuid;
	} rows[] = {
		OP("\x12\x24" UUID, UUID),
		OP("\x12\x00", ""),
		OP("\x12\x20"
		   "0badcafe0000400080000000000000a1",
		   ""),
		OP("\x12\x24"
		   "0badcafe-0000-4000-8000-00000000000g",
		   ""),
		OP("\x12\x26{" UUID "}", ""),
		OP("\x12\x24" UUID "\x12\x01x", ""), /* the last one counts */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
		assert_int_equal(decode(rows[i].bytes, rows[i].n, &t, NULL), 0);
		assert_string_equal(t.uuid, rows[i].uuid);
	}
}

static void test_properties(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT, u = PF_TXN_INIT;
	_cleanup_(pf_freep) char *long_value = malloc(1 << 20);
	_cleanup_(pf_buf_release) struct pf_buf entry = PF_BUF_INIT, b = PF_BUF_INIT;

	/* Other keys, an empty entry, unknown fields in one, the last of two messages. */
	static const char bytes[] = "\x22\x06\x0a\x01"
				    "a\x12\x01"
				    "b"
				    "\x22\x00"
				    "\x22\x1d\x0a\x16__lance_commit_message\x12\x03old" MESSAGE "\x22\x02\x48\x01";
	assert_int_equal(DECODE(bytes, &t, NULL), 0);
	assert_string_equal(t.message, "words");
	/* A message without a value is an empty one. */
	assert_int_equal(DECODE("\x22\x18\x0a\x16__lance_commit_message", &u, NULL), 0);
	assert_string_equal(u.message, "");
	pf_txn_release(&u);
	/* Too long to be one that anybody reads, and no reason to fail. */
	memset(long_value, 'x', 1 << 20);
	assert_int_equal(pf_wire_put_bytes(&entry, 1, "__lance_commit_message", 22), 0);
	assert_int_equal(pf_wire_put_bytes(&entry, 2, long_value, 1 << 20), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 4, entry.data, entry.len), 0);
	assert_int_equal(decode(b.data, b.len, &u, NULL), 0);
	assert_null(u.message);
}

static void test_damaged(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *says;
	} rows[] = {
		OP("\x08", "varint"),
		OP("\x0a\x00", "field 1 at offset 0"),
		OP("\x10\x01", "field 2 at offset 0"),
		OP("\x12\xff\xff\xff\xff\x0f", "claims 4294967295 bytes"),
		OP("\x20\x01", "field 4 at offset 0"),
		OP("\x22\x01\x0a", "offset 0: expected a key and a value"),
		OP("\x22\x1b\x0a\x16__lance_commit_message\x12\x01\xff", "expected UTF-8 text as commit message"),
		OP("\xda\x89\x05\x02\x12", "claims 2 bytes"),
		OP("\xd8\x89\x05\x02", "field 10395 at offset 0"),
		OP("\xda\x89\x05\x02\x10\x00", "field 2 at offset 4"),
		OP("\xda\x89\x05\x04\x12\x02\x08\x01", "field 1 at offset 6"),
		OP("\xda\x89\x05\x04\x12\x02\x0a\x00", "offset 6: renew: expected an id of 16 bytes"),
		OP("\xda\x89\x05\x05\x1a\x03\x0a\x01\x0a", "offset 6: release: expected an item message"),
		OP("\xda\x89\x05\x18\x12\x16\x0a\x14" ID("\1"), "offset 6: renew: expected a time"),
		OP("\xda\x89\x05\x18\x1a\x16\x0a\x14\x0a\x12\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		   "neither nil nor all ones"),
		OP("\xda\x89\x05\x22\x22\x20\x0a\x1e" ID("\1") "\x12\x08\x08\xff\xff\xff\xff\xff\xff\x01",
		   "expire: expected a time within years"),
		OP("\xda\x89\x05\x04\x0a\x02\x0a\x00", "offset 6: register: "),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_txn t = PF_TXN_INIT;
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(decode(rows[i].bytes, rows[i].n, &t, &why), -EBADMSG);
		if (strncmp(why.text, "here: transaction: ", 19) != 0 || !strstr(why.text, rows[i].says))
			fail_msg("\"%s\" does not say \"%s\"", why.text, rows[i].says);
	}
}

/* cases-open E03: cut anywhere, it is read as far as whole fields go, or refused. */
static void test_truncated(void **state)
{
	static const char bytes[] = PREAMBLE "\xda\x89\x05\x4e\x0a\x4c\x0a\x4a" RECORD;
	size_t read = 0;

	for (size_t n = 1; n < sizeof(bytes) - 1; n++) {
		_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
		int r = decode(bytes, n, &t, NULL);
		assert_true(r == 0 || r == -EBADMSG);
		read += r == 0;
	}
	assert_int_equal(read, 4); /* behind each of the four fields before ours */
}

/* A PinOperation of two kinds is a oneof that was written twice: the last one counts. Unknown kinds are nobody's. */
static void test_kinds(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT, u = PF_TXN_INIT;
	static const char two[] = "\xda\x89\x05\x1a\x1a\x16\x0a\x14" ID("\1") "\x2a\x00";
	static const char unknown[] = "\xda\x89\x05\x02\x32\x00";

	assert_int_equal(DECODE(two, &t, NULL), 0);
	assert_int_equal(t.kind, PF_OP_ENABLE);
	assert_int_equal(t.pins.n, 0);
	assert_int_equal(DECODE(unknown, &u, NULL), 0);
	assert_int_equal(u.kind, PF_OP_NONE);
}

/* Version 2 as `t` says, and what reading its transaction answers. */
static int read_version_2(struct pf_store *st, const char *dir, const struct table_version *t, struct pf_txn *out,
			  struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_manifest_open(st, table_manifest_name(t, name), &m, why), 0);
	return pf_txn_read(st, dir, m, out, why);
}

static void test_where(void **state)
{
	static const struct {
		struct table_version t;
		int err;
		const char *from;
	} rows[] = {
		{ { 2, .txn = TABLE_TXN_14 }, 0, "inline" },
		{ { 2, .txn = TABLE_TXN_12 }, 0, "inline" },
		{ { 2, .txn = TABLE_TXN_FILE }, 0, "file" },
		{ { 2, .txn = TABLE_TXN_FILE, .dir = "tree/feat/x/" }, 0, "file" },
		{ { 2, .txn = TABLE_TXN_LOST }, -ENOENT, NULL },
		{ { 2, .txn = TABLE_TXN_NONE }, -ENODATA, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = NULL;
		_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
		struct pf_why why = PF_WHY_INIT;
		char uuid[PF_UUID_TEXT];
		assert_int_equal(pf_store_mem_new(&st), 0);
		table_put(st, &rows[i].t);
		assert_int_equal(read_version_2(st, rows[i].t.dir ? rows[i].t.dir : "", &rows[i].t, &t, &why),
				 rows[i].err);
		if (rows[i].err < 0)
			continue;
		assert_string_equal(t.from, rows[i].from);
		assert_string_equal(t.uuid, table_uuid(2, uuid));
		assert_int_equal(t.read_version, 1);
	}
}

/* Names in manifests are claims: none of these leads out of _transactions/. */
static void test_file_names(void **state)
{
	static const char *const names[] = { "../secret", "a/b.txn", "/etc/passwd", "..", "." };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = NULL;
		_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
		_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;
		const struct table_version v = { 2, .txn = TABLE_TXN_NONE, .extra = &extra };
		assert_int_equal(pf_wire_put_bytes(&extra, 12, names[i], strlen(names[i])), 0);
		assert_int_equal(pf_store_mem_new(&st), 0);
		assert_int_equal(pf_store_mem_put(st, "secret", "\x08\x01", 2), 0);
		table_put(st, &v);
		unsigned calls = pf_store_mem_calls(st);
		assert_int_equal(read_version_2(st, "", &v, &t, &why), -EBADMSG);
		assert_non_null(strstr(why.text, "expected field 12 to name a file in _transactions/, found \""));
		assert_true(pf_store_mem_calls(st) > calls);
	}
}

static void test_damaged_file(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	const struct table_version v = { 2, .txn = TABLE_TXN_FILE };
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &v);
	assert_int_equal(pf_store_mem_put(st, table_txn_name(&v, name), "\x12\x7f", 2), 0);
	assert_int_equal(read_version_2(st, "", &v, &t, &why), -EBADMSG);
	assert_string_equal(why.text,
			    "\"_transactions/1-0badcafe-0000-4000-8000-000000000002.txn\": transaction: field 2 at "
			    "offset 0 claims 127 bytes where its message has 0 left");
	/* What a crash leaves of a file: a message of no fields, and of nobody. */
	assert_int_equal(pf_store_mem_put(st, name, "", 0), 0);
	assert_int_equal(read_version_2(st, "", &v, &t, &why), -EBADMSG);
	assert_non_null(strstr(why.text, ".txn\": offset 0: expected a transaction, found an empty message"));
	/* A directory, as a tar gone wrong leaves. */
	assert_int_equal(pf_store_mem_del(st, name), 0);
	strcat(name, "/x");
	assert_int_equal(pf_store_mem_put(st, name, "", 0), 0);
	assert_int_equal(read_version_2(st, "", &v, &t, &why), -EBADMSG);
}

static void test_replaced(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	const struct table_version v = { 2 };
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &v);
	assert_int_equal(pf_manifest_open(st, table_manifest_name(&v, name), &m, NULL), 0);
	table_put(st, &v);
	assert_int_equal(pf_txn_read(st, "", m, &t, NULL), -ESTALE);
	assert_int_equal(pf_store_mem_del(st, name), 0);
	assert_int_equal(pf_txn_read(st, "", m, &t, NULL), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),   cmocka_unit_test(test_encode),
		cmocka_unit_test(test_register),   cmocka_unit_test(test_operation),
		cmocka_unit_test(test_identity),   cmocka_unit_test(test_properties),
		cmocka_unit_test(test_damaged),	   cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_kinds),	   cmocka_unit_test(test_where),
		cmocka_unit_test(test_file_names), cmocka_unit_test(test_damaged_file),
		cmocka_unit_test(test_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
