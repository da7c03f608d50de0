/* The walk over a whole table: what it says about real tables, and about each kind of damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/check.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "fixture.h"
#include "table.h"

/* Append "damage main 3: text\n". */
static int collect(void *arg, const struct pf_finding *f)
{
	assert_non_null(f->file);
	assert_int_equal(pf_buf_addf(arg, "%s %s %lu: %s\n", f->severity == PF_DAMAGE ? "damage" : "note",
				     f->branch ? f->branch : "main", (unsigned long)f->version, f->text),
			 0);
	return 0;
}

static struct pf_check_totals run(struct pf_store *st, struct pf_buf *out)
{
	struct pf_check_totals totals;
	struct pf_why why = PF_WHY_INIT;

	pf_buf_reset(out);
	if (pf_check(st, collect, NULL, out, &totals, &why) != 0)
		fail_msg("%s", why.text);
	return totals;
}

static void expect(struct pf_store *st, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_check_totals totals = run(st, &out);
	size_t lines = 0;

	assert_string_equal(pf_buf_str(&out), want);
	for (const char *p = want; *p; p++)
		lines += *p == '\n';
	assert_int_equal(totals.notes + totals.damages, lines);
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table;
	const char *key;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
		struct pf_check_totals t = run(st, &out);
		size_t versions = json_array_size(fixture_get(table, "versions"));
		if (out.len)
			fail_msg("%s: %s", key, pf_buf_str(&out));
		assert_true(t.branches == 1 && t.manifests == versions && t.transactions == versions && t.pins == 0);
	}
	json_decref(all);
}

static void put_text(struct pf_store *st, const char *name, const char *text)
{
	assert_int_equal(pf_store_mem_put(st, name, text, strlen(text)), 0);
}

static void test_not_a_table(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_check_totals totals;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_check(st, collect, NULL, &out, &totals, &why), -ENOENT);
	assert_non_null(strstr(why.text, "is not a Lance table"));
	assert_int_equal(out.len, 0);
}

/* Unusual, and nothing breaks. */
static void test_notes(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(6, &(struct table_version){ 0 });
	const struct table_version v2 = { 2 }, v3 = { 3 }, v5 = { 5, .writer_flags = 1 << 17 };
	const struct table_version none = { 6, .txn = TABLE_TXN_NONE };
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&v2, name)), 0);
	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&v3, name)), 0);
	const struct table_version v4 = { 4 };
	assert_int_equal(pf_store_mem_del(st, table_txn_name(&v4, name)), 0);
	table_put(st, &v5);
	table_put(st, &none);
	put_text(st, "_versions/latest_version_hint.json", "{\"version\":1}");
	put_text(st, "_versions/7.manifest#1", "x");
	put_text(st, "_versions/.tmpAbC", "x");
	put_text(st, "_versions/d9223372036854788153.manifest", "x");
	put_text(st, "_refs/tags/gone.json", "{\"version\":2,\"manifestSize\":1}");
	put_text(st, "_refs/tags/kept.json", "{\"version\":1,\"manifestSize\":1}");
	put_text(st, "_refs/tags/lost.json", "{\"branch\":\"dev\",\"version\":1,\"manifestSize\":1}");
	expect(st,
	       "note main 4: _versions/18446744073709551611.manifest: its transaction file: No such file or directory; the copy inside is there\n"
	       "note main 5: _versions/18446744073709551610.manifest: read-only: writer feature bits that pinfs does not "
	       "support: 17 object-metadata\n"
	       "note main 6: _versions/18446744073709551609.manifest names no transaction\n"
	       "note main 2: versions 2 to 3 are missing, as a cleanup leaves it\n"
	       "note main 0: left over by a commit that did not end, or being written now\n"
	       "note main 0: left over by a commit that did not end, or being written now\n"
	       "note main 0: the version hint says 1, the head is 6; nothing depends on it\n"
	       "note main 2: tag \"gone\" names version 2 of main, which is not there\n"
	       "note dev 1: tag \"lost\" names a branch that is not there\n");
}

static void test_hints(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "{\"version\":3}", "" },
		{ "{\"version\":3,\"more\":1}", "" },
		{ "{\"version\":-3}", "note main 0: the version hint says -3, the head is 3; nothing depends on it\n" },
		{ "", "note main 0: the version hint is not {\"version\":N}; nothing depends on it\n" },
		{ "garbage", "note main 0: the version hint is not {\"version\":N}; nothing depends on it\n" },
		{ "[1]", "note main 0: the version hint is not {\"version\":N}; nothing depends on it\n" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		put_text(st, "_versions/latest_version_hint.json", rows[i].text);
		expect(st, rows[i].says);
	}
	assert_int_equal(pf_store_mem_del(st, "_versions/latest_version_hint.json"), 0);
	put_text(st, "_versions/latest_version_hint.json/x", "");
	expect(st, "note main 0: the version hint cannot be read: Is a directory\n");
}

/* Each is reported, and the walk goes on behind it. */
static void test_damage(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(9, &(struct table_version){ 0 });
	struct pf_buf bad_index = { (uint8_t[]){ "\x0a\x02\x1a\x05" }, 4, 4 },
		      no_list = { (uint8_t[]){ "\x08\x01" }, 2, 2 },
		      bad_fragment = { (uint8_t[]){ "\x12\x02\x22\x05" }, 4, 4 };
	const struct table_version v[] = {
		{ 2, .txn = TABLE_TXN_LOST },  { 3, .index = &bad_index },    { 4, .index = &no_list },
		{ 5, .extra = &bad_fragment }, { 6, .reader_flags = 1 << 8 }, { 7, .branch = "dev" },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		table_put(st, &v[i]);
	char name[TABLE_NAME_MAX];
	assert_int_equal(pf_store_mem_del(st, table_txn_name(&v[0], name)), 0);
	put_text(st, "_versions/18446744073709551607.manifest", "too short");
	put_text(st, "_refs/branches/one.json", "{");
	put_text(st, "_refs/branches/two.json", "[]");
	table_put_branch(st, "dev", 3, "0123456789abcdef0123456789abcdef");
	put_text(st, "_refs/tags/a.json", "");
	put_text(st, "_refs/tags/b.json", "{\"version\":99,\"manifestSize\":1}");
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_check_totals t = run(st, &out);
	const char *text = pf_buf_str(&out);
	assert_int_equal(t.manifests, 9);
	assert_int_equal(t.damages, 11);
	assert_int_equal(t.notes, 2);
	static const char *const lines[] = {
		"damage main 2: _versions/18446744073709551613.manifest: its transaction file "
		"\"_transactions/1-0badcafe-0000-4000-8000-000000000002.txn\" is missing\n",
		"damage main 3: _versions/18446744073709551612.manifest: the index section: field 3 at offset 6 claims 5 bytes",
		"damage main 4: _versions/18446744073709551611.manifest: the index section: field 1 at offset 4 has wire type 0",
		"damage main 5: _versions/18446744073709551610.manifest: field 4 at offset",
		"damage main 6: _versions/18446744073709551609.manifest: expected these feature bits in both flag words",
		"damage main 7: _versions/18446744073709551608.manifest: expected a manifest of main, found one of \"dev\"\n",
		"damage main 8: _versions/18446744073709551607.manifest: offset 0: expected at least 16 bytes, found 9\n",
		"note main 0: lost pins were not looked for: ",
		"damage main 0: \"_refs/branches/one.json\": offset 1: expected a JSON object",
		"damage main 0: \"_refs/branches/two.json\": offset 0: expected a JSON object\n",
		"damage dev 0: no manifest in tree/dev/_versions/\n",
		"damage main 0: \"_refs/tags/a.json\": offset 0: expected a JSON object",
		"note main 99: tag \"b\" names version 99 of main, which is not there\n",
	};
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		if (strncmp(text, lines[i], strlen(lines[i])) != 0)
			fail_msg("\"%.200s\" does not begin with \"%s\"", text, lines[i]);
		text = strchr(text, '\n') + 1;
	}
}

static void put_pin(struct pf_buf *b, uint8_t n, uint64_t source, const char *txn)
{
	_cleanup_(pf_buf_release) struct pf_buf pin = PF_BUF_INIT, id = PF_BUF_INIT;
	const uint8_t bytes[16] = { 0xaa, [15] = n };

	assert_int_equal(pf_wire_put_bytes(&id, 1, bytes, sizeof(bytes)), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 1, id.data, id.len), 0);
	assert_int_equal(pf_wire_put_u64(&pin, 2, source), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 3, txn, strlen(txn)), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 4, "\x08\x01", 2), 0);
	assert_int_equal(pf_wire_put_bytes(&pin, 5, "\x08\x02", 2), 0);
	assert_int_equal(pf_wire_put_bytes(b, 10395, pin.data, pin.len), 0);
}

static void test_pins(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf good = PF_BUF_INIT, bad = PF_BUF_INIT;
	char uuid[PF_UUID_TEXT], name[TABLE_NAME_MAX];
	const uint64_t bit = 1 << 19;

	put_pin(&good, 1, 3, table_uuid(3, uuid));
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(5, &(struct table_version){ 0 });
	const struct table_version pinned = { 6, .writer_flags = bit, .pins = &good }, v1 = { 1 }, v4 = { 4 };
	table_put(st, &pinned);
	expect(st, "");
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	assert_int_equal(run(st, &out).pins, 1);

	/* Below the window anything may be gone; in it nothing. */
	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&v1, name)), 0);
	expect(st, "");
	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&v4, name)), 0);
	expect(st, "damage main 4: versions 4 to 4 are missing, and pins need them\n");
	table_put(st, &v4);

	put_pin(&bad, 2, 1, table_uuid(1, uuid));
	put_pin(&bad, 3, 2, table_uuid(3, uuid));
	put_pin(&bad, 4, 7, table_uuid(7, uuid));
	const struct table_version wrong = { 7, .writer_flags = bit, .pins = &bad };
	table_put(st, &wrong);
	expect(st,
	       "damage main 1: pin aa000000-0000-0000-0000-000000000002: its source, version 1, is missing\n"
	       "damage main 2: pin aa000000-0000-0000-0000-000000000003: expected version 2 to be of transaction "
	       "0badcafe-0000-4000-8000-000000000003, found 0badcafe-0000-4000-8000-000000000002\n"
	       "damage main 7: pin aa000000-0000-0000-0000-000000000004: expected a source before version 7, found 7\n"
	       "damage main 7: pin aa000000-0000-0000-0000-000000000001 was lost: version 7, written by lance 14.0.2, dropped it and names it in no operation\n");

	/* A writer up to Lance 11: bit and pins dropped. Only the head's list counts, so the pins of 7 are nobody's damage now. */
	const struct table_version dropped = { 8 };
	table_put(st, &dropped);
	pf_buf_reset(&out);
	assert_int_equal(
		pf_buf_addstr(&out, "note main 8: _versions/18446744073709551607.manifest was written by lance 14.0.2, "
				    "without the feature bit of pins that version 7 has\n"),
		0);
	for (unsigned i = 1; i <= 4; i++) {
		unsigned by = i == 1 ? 7 : 8;
		assert_int_equal(
			pf_buf_addf(&out,
				    "damage main %u: pin aa000000-0000-0000-0000-00000000000%u was lost: version %u, "
				    "written by lance 14.0.2, dropped it and names it in no operation\n",
				    by, i, by),
			0);
	}
	expect(st, pf_buf_str(&out));

	const struct table_version no_bit = { 9, .pins = &good },
				   no_txn = { 10, .writer_flags = bit, .pins = &good, .txn = TABLE_TXN_NONE };
	table_put(st, &no_bit);
	table_put(st, &no_txn);
	pf_buf_reset(&out);
	run(st, &out);
	assert_non_null(
		strstr(pf_buf_str(&out),
		       "note main 9: _versions/18446744073709551606.manifest has pins, and not the feature bit"));
	assert_non_null(strstr(pf_buf_str(&out),
			       "damage main 10: _versions/18446744073709551605.manifest names no transaction; a "
			       "version with pins must have a readable transaction\n"));
}

/* A carried-over offset: readers of that version are told of the commit before it. */
static void test_same_transaction(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	const struct table_version v2 = { 2, .uuid = "0badcafe-0000-4000-8000-000000000001" };

	table_put(st, &v2);
	expect(st,
	       "note main 2: _versions/18446744073709551613.manifest: its transaction 0badcafe-0000-4000-8000-000000000001 is "
	       "that of version 1\n");
}

static void test_mixed_names(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	const struct table_version v1 = { 1, .v1 = true };

	table_put(st, &v1);
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_check_totals t = run(st, &out);
	assert_int_equal(t.manifests, 3);
	assert_int_equal(strncmp(pf_buf_str(&out),
				 "damage main 0: _versions/: expected one naming scheme, found both, V1 and V2\n", 76),
			 0);
}

#define V2_NAME "_versions/18446744073709551613.manifest"

/* A cleanup takes version 2 while it is looked at: before the n-th time that something is opened, its manifest is put aside, and its transaction goes. */
struct cleaner {
	int n;
};

static void clean_2(void *arg, struct pf_store *st, const char *op, const char *name)
{
	const struct table_version v2 = { 2, .txn = TABLE_TXN_FILE };
	struct cleaner *c = arg;
	char txn[TABLE_NAME_MAX];

	if (strcmp(op, "open") != 0 || c->n-- != 1)
		return;
	assert_int_equal(pf_store_rename(st, V2_NAME, "_versions/.tmp-removed-18446744073709551613.manifest.aside"), 0);
	assert_int_equal(pf_store_mem_del(st, table_txn_name(&v2, txn)), 0);
}

static void test_goes_meanwhile(void **state)
{
	int n, noted = 0;

	for (n = 1; n < 20; n++) {
		const struct table_version like = { .txn = TABLE_TXN_FILE };
		_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &like);
		_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
		struct cleaner c = { n };

		pf_store_mem_set_hook(st, clean_2, &c);
		struct pf_check_totals t = run(st, &out);
		pf_store_mem_set_hook(st, NULL, NULL);
		if (t.damages)
			fail_msg("call %d: %s", n, pf_buf_str(&out));
		noted += strstr(pf_buf_str(&out), "note main 2: " V2_NAME
						  " was removed, or got another name, while this looked\n") != NULL;
		assert_true(t.notes <= 2); /* that, and what was left over */
	}
	assert_true(noted >= 2); /* its manifest was not there; and its transaction */
}

static void test_branches(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	struct table_version b = { 3, .dir = "tree/feat/x/", .branch = "feat/x" };

	table_put_branch(st, "feat/x", 3, "0123456789abcdef0123456789abcdef");
	table_put(st, &b);
	put_text(st, "_refs/tags/t.json", "{\"branch\":\"feat/x\",\"version\":3,\"manifestSize\":1}");
	expect(st, "");
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_check_totals t = run(st, &out);
	assert_true(t.branches == 2 && t.manifests == 4 && t.transactions == 4);
	b.version = 4;
	b.branch = NULL;
	table_put(st, &b);
	expect(st,
	       "damage feat/x 4: tree/feat/x/_versions/18446744073709551611.manifest: expected a manifest of feat/x, found "
	       "one of main\n"
	       "note feat/x 0: lost pins were not looked for: tree/feat/x/_versions/18446744073709551611.manifest: expected a "
	       "manifest of branch feat/x, found one of main\n");
}

static int stop(void *arg, const struct pf_finding *f)
{
	return --*(int *)arg ? 0 : -ENOENT;
}

/* The caller's word ends the walk wherever it is, whatever it says. */
static void test_stop(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ .txn = TABLE_TXN_LOST });
	struct pf_check_totals totals;
	struct pf_why why = PF_WHY_INIT;

	/* Two transactions; pins that cannot be compared with tags; a branch; a tag. */
	put_text(st, "_refs/branches/a/b.json", "{");
	put_text(st, "_refs/tags/b.json", "{");
	for (int n = 1; n <= 5; n++) {
		int left = n;
		assert_int_equal(pf_check(st, stop, NULL, &left, &totals, &why), -ENOENT);
		assert_int_equal(totals.damages + totals.notes, n);
		assert_string_equal(why.text, "");
	}
	int left = 6;
	assert_int_equal(pf_check(st, stop, NULL, &left, &totals, &why), 0);
}

static int ignore(void *arg, const struct pf_finding *f)
{
	return 0;
}

static int see_progress(void *arg, uint64_t done, uint64_t total)
{
	int *left = arg;

	assert_int_equal(total, 3);
	assert_in_range(done, 1, 3);
	return --*left == 0;
}

static void test_interrupted(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	struct pf_check_totals totals;
	struct pf_why why = PF_WHY_INIT;

	for (int n = 1; n <= 3; n++) {
		char want[64];
		int left = n;
		assert_int_equal(pf_check(st, ignore, see_progress, &left, &totals, &why), -EINTR);
		assert_int_equal(totals.manifests, n);
		snprintf(want, sizeof(want), "interrupted after %d of 3 versions", n);
		assert_string_equal(why.text, want);
	}
	int left = 4;
	assert_int_equal(pf_check(st, ignore, see_progress, &left, &totals, &why), 0);
	assert_int_equal(left, 1);
}

/* Storage that fails at each call in turn: reported, or nothing was lost by it; never a crash, and the rest is walked. */
static void test_storage_fails(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	unsigned nth = 0;

	unsigned calls = pf_store_mem_calls(st);
	run(st, &out);
	calls = pf_store_mem_calls(st) - calls;
	while (nth++ < calls) {
		pf_store_mem_fault(st, nth, PF_FAULT_BEFORE, -EIO, false);
		struct pf_check_totals t = run(st, &out);
		assert_true(t.damages + t.notes >= 1);
		assert_non_null(strstr(pf_buf_str(&out), "Input/output error"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_not_a_table),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_pins),
		cmocka_unit_test(test_same_transaction),
		cmocka_unit_test(test_mixed_names),
		cmocka_unit_test(test_goes_meanwhile),
		cmocka_unit_test(test_branches),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_storage_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
