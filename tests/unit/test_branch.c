/* Head resolution: real tables, and what others do to a table between two looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/branch.h"
#include "core/store_mem.h"

#include "fixture.h"
#include "table.h"

static void check_table(const char *key, json_t *table)
{
	_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	struct pf_why why = PF_WHY_INIT;
	size_t n, i;
	json_t *version, *versions = fixture_get(table, "versions");

	if (pf_branch_open(st, NULL, &b, &why) < 0 || pf_branch_head(b, &head, &why) < 0)
		fail_msg("%s: %s", key, why.text);
	assert_int_equal(head->version, fixture_u64(table, "latest_version"));
	assert_int_equal(pf_branch_versions(b, &v, &n, &why), 0);
	assert_int_equal(n, json_array_size(versions));
	json_array_foreach(versions, i, version)
	{
		char name[PF_MANIFEST_NAME_MAX];
		assert_int_equal(v[i].version, fixture_u64(version, "version"));
		pf_manifest_name_format(v[i].version, v[i].v2, name);
		assert_string_equal(name, fixture_str(version, "manifest") + strlen("_versions/"));
	}
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table;
	const char *key;

	json_object_foreach(all, key, table) check_table(key, table);
	json_decref(all);
}

static struct pf_branch *open_main(struct pf_store *st)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, NULL, &b, &why) < 0)
		fail_msg("%s", why.text);
	return b;
}

static uint64_t head_of(struct pf_branch *b)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_head(b, &m, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(why.text, ""); /* untouched on success */
	return m->version;
}

static void put(struct pf_store *st, uint64_t version, bool v1)
{
	const struct table_version t = { version, .v1 = v1 };

	table_put(st, &t);
}

static void put_text(struct pf_store *st, const char *name, const char *text)
{
	assert_int_equal(pf_store_mem_put(st, name, text, strlen(text)), 0);
}

static void delete (struct pf_store *st, uint64_t version, bool v1)
{
	const struct table_version t = { version, .v1 = v1 };
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&t, name)), 0);
}

static int open_fails(struct pf_store *st, const char *name, const char *says)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	int r = pf_branch_open(st, name, &b, &why);
	assert_null(b);
	if (!strstr(why.text, says))
		fail_msg("\"%s\" does not say \"%s\"", why.text, says);
	return r;
}

/* cases-open A13, A15, A20: what else lies in _versions/, and what the hint says. */
static void test_bystanders(void **state)
{
	static const char *const hints[] = { "{\"version\":1}", "{\"version\":99}", "garbage", "" };
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);

	put_text(st, "_versions/4.manifest-0b7b4f0e-1111-4222-8333-444455556666", "0123456789");
	put_text(st, "_versions/.tmp_4.manifest_0b7b4f0e-1111-4222-8333-444455556666", "0123456789");
	put_text(st, "_versions/18446744073709551611.manifest-0b7b4f0e-1111-4222-8333-444455556666", "0123456789");
	put_text(st, "_versions/18446744073709551611.manifest#1", "0123456789");
	put_text(st, "_versions/d9223372036854788153.manifest", "0123456789");
	put_text(st, "_versions/notes.txt", "0123456789");
	put_text(st, "_versions/old/18446744073709551611.manifest", "0123456789");
	for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
		_cleanup_(pf_branch_freep) struct pf_branch *fresh = NULL;
		put_text(st, "_versions/latest_version_hint.json", hints[i]);
		fresh = open_main(st);
		assert_int_equal(head_of(fresh), 3);
		assert_int_equal(head_of(b), 3);
	}
	assert_int_equal(pf_store_mem_del(st, "_versions/latest_version_hint.json"), 0);
	put_text(st, "_versions/latest_version_hint.json/a-directory", "");
	assert_int_equal(head_of(b), 3);

	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	size_t n;
	assert_int_equal(pf_branch_versions(b, &v, &n, NULL), 0);
	assert_true(n == 3 && v[0].version == 1 && v[1].version == 2 && v[2].version == 3 && v[0].v2);
}

static void test_not_a_table(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(open_fails(st, NULL, "is not a Lance table"), -ENOENT);
	put_text(st, "_versions/d9223372036854788153.manifest", "0123456789");
	assert_int_equal(open_fails(st, NULL, "is not a Lance table"), -ENOENT);
	assert_int_equal(pf_store_mem_del(st, "_versions/d9223372036854788153.manifest"), 0);
	assert_int_equal(open_fails(st, NULL, "is not a Lance table"), -ENOENT);

	_cleanup_(pf_store_freep) struct pf_store *file = NULL;
	assert_int_equal(pf_store_mem_new(&file), 0);
	put_text(file, "_versions", "a file");
	assert_int_equal(open_fails(file, NULL, "is not a Lance table"), -ENOENT);
}

/* cases-open A16 */
static void test_mixed_names(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	struct pf_manifest *m = NULL;
	struct pf_version_entry *v;
	struct pf_why why = PF_WHY_INIT;
	size_t n;

	assert_int_equal(head_of(b), 2);
	put(st, 1, false);
	assert_int_equal(pf_branch_head(b, &m, &why), -EBADMSG);
	assert_non_null(strstr(why.text, ".manifest) and V2 (18446744073709551614.manifest)"));
	assert_int_equal(pf_branch_versions(b, &v, &n, &why), -EBADMSG);
	assert_int_equal(open_fails(st, NULL, "expected one naming scheme, found both: V1 ("), -EBADMSG);

	/* Lance's migration has come to its end: all V2. */
	delete (st, 1, true);
	delete (st, 2, true);
	put(st, 2, false);
	assert_int_equal(head_of(b), 2);
	assert_int_equal(pf_branch_versions(b, &v, &n, &why), 0);
	assert_true(n == 2 && v[0].v2 && v[1].v2);
	free(v);
}

/* Lance's migrate_manifest_paths_v2 as it runs: at list `at` it changes the first name, at list `end` the last. */
struct migration {
	unsigned at, end, lists;
	bool busy; /* in between something changes all the time: however slow we are, it does not look like one that was cut short */
};

static void rename_to_v2(struct pf_store *st, uint64_t version)
{
	delete (st, version, true);
	put(st, version, false);
}

static void migrate(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct migration *g = arg;

	if (strcmp(op, "list") != 0)
		return;
	g->lists++;
	if (g->busy) {
		put_text(st, "_versions/.tmp", "");
		assert_int_equal(pf_store_mem_del(st, "_versions/.tmp"), 0);
	}
	if (g->lists == g->at)
		rename_to_v2(st, 2);
	if (g->lists != g->end)
		return;
	rename_to_v2(st, 1);
	rename_to_v2(st, 3);
}

static void test_migration(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st), *other = open_main(st);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct migration g = { 1, 4, .busy = true };
	struct pf_version_entry *v;
	size_t n;

	pf_store_mem_set_hook(st, migrate, &g);
	put_text(st, "_versions/changed", "");
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_string_equal(m->name, "_versions/18446744073709551612.manifest");
	assert_int_equal(g.lists, 4);

	_cleanup_(pf_store_freep) struct pf_store *again = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *third = open_main(again);
	g = (struct migration){ 1, 5, .busy = true };
	pf_store_mem_set_hook(again, migrate, &g);
	assert_int_equal(pf_branch_versions(third, &v, &n, NULL), 0);
	assert_true(n == 3 && v[0].v2 && v[1].v2 && v[2].v2 && v[2].version == 3);
	free(v);
	assert_int_equal(head_of(other), 3);
}

/* One that was cut short is waited for once, not by every request. */
static void test_migration_cut_short(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	struct pf_manifest *m = NULL;
	struct migration g = { 1, 100 };
	int64_t began = pf_time_steady_ns();

	pf_store_mem_set_hook(st, migrate, &g);
	put_text(st, "_versions/changed", "");
	assert_int_equal(pf_branch_head(b, &m, NULL), -EBADMSG);
	/* It was waited for, for two seconds (branch.c); how often one looks in them is the scheduler's to say. */
	assert_true(pf_time_steady_ns() - began > INT64_C(2000000000));
	assert_true(g.lists > 1);
	g.lists = 1;
	assert_int_equal(pf_branch_head(b, &m, NULL), -EBADMSG);
	assert_int_equal(g.lists, 2);
	put_text(st, "_versions/changed", "somebody is at it again");
	pf_store_mem_set_hook(st, NULL, NULL);
	rename_to_v2(st, 1);
	rename_to_v2(st, 3);
	assert_int_equal(head_of(b), 3);
}

/* Version 4 is under its V1 name when the names before it are listed and under its V2 name when those behind are. */
static void miss_4(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "stat") == 0 && strcmp(name, "_versions/4.manifest") == 0)
		put(st, 4, false);
}

static void test_missed_by_the_list(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);

	put_text(st, "_versions/changed", "");
	pf_store_mem_set_hook(st, miss_4, NULL);
	assert_int_equal(head_of(b), 4);
}

/* Nothing is read again while nothing changes, and everything is asked for. */
static void test_unchanged(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *first = NULL, *second = NULL;

	assert_int_equal(pf_branch_head(b, &first, NULL), 0);
	unsigned calls = pf_store_mem_calls(st);
	assert_int_equal(pf_branch_head(b, &second, NULL), 0);
	assert_int_equal(pf_store_mem_calls(st) - calls, 3);
	assert_ptr_equal(first, second);
}

/* The same manifest is walked once, whatever else changes in the directory. */
static void test_one_walk(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *first = NULL, *second = NULL;

	assert_int_equal(pf_branch_head(b, &first, NULL), 0);
	put_text(st, "_versions/latest_version_hint.json", "{\"version\":3}");
	assert_int_equal(pf_branch_head(b, &second, NULL), 0);
	assert_ptr_equal(first, second);
}

static void test_others_commit(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);

	put(st, 4, false);
	assert_int_equal(head_of(b), 4);
	for (uint64_t v = 5; v <= 40; v++)
		put(st, v, false);
	assert_int_equal(head_of(b), 40);

	/* A cleanup keeps 40, which a tag holds, and the newest: the next version is missing, and 40 is not the head. */
	put(st, 41, false);
	put(st, 42, false);
	for (uint64_t v = 1; v <= 41; v++)
		if (v != 40)
			delete (st, v, false);
	assert_int_equal(head_of(b), 42);

	/* Replaced: other bytes under the same name. */
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct table_version other = { 42, .writer_flags = 1 << 19 };
	table_put(st, &other);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(m->writer_flags, 1 << 19);

	/* Taken away: the head is what is left, and then nothing is. */
	delete (st, 42, false);
	assert_int_equal(head_of(b), 40);
	delete (st, 40, false);
	struct pf_manifest *none = NULL;
	assert_int_equal(pf_branch_head(b, &none, NULL), -ENOENT);
	put(st, 1, true);
	assert_int_equal(head_of(b), 1);
}

/* One tick of a file system's clock: the directory looks as it did, and the next version is there. */
static void hold_mtime(void *arg, struct pf_store *st, const char *op, const char *name)
{
	/* Between the look at the directory and the question for the next version. */
	if (strcmp(op, "stat") == 0 && strstr(name, "18446744073709551611") && !*(bool *)arg) {
		*(bool *)arg = true;
		put(st, 4, false);
	}
}

static void test_same_tick(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	bool done = false;

	pf_store_mem_set_hook(st, hold_mtime, &done);
	assert_int_equal(head_of(b), 4);
	assert_true(done);
}

/* A head that is listed and gone before it is opened: the table is looked at again. */
static void take_away(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "open") == 0 && strstr(name, "18446744073709551611") && !*(bool *)arg) {
		*(bool *)arg = true;
		delete (st, 4, false);
		put(st, 5, false);
	}
}

static void test_head_vanishes(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	bool done = false;

	put(st, 4, false);
	pf_store_mem_set_hook(st, take_away, &done);
	assert_int_equal(head_of(b), 5);
	assert_true(done);
}

/* Never an older version instead of a head that cannot be read. */
static void test_damaged_head(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;
	const struct table_version bit_40 = { 5, .reader_flags = UINT64_C(1) << 40 },
				   alone = { 6, .writer_flags = 1 << 8 };

	put_text(st, "_versions/18446744073709551611.manifest", "too short");
	assert_int_equal(pf_branch_head(b, &m, &why), -EBADMSG);
	assert_string_equal(why.text,
			    "_versions/18446744073709551611.manifest: offset 0: expected at least 16 bytes, found 9");
	assert_int_equal(open_fails(st, NULL, "expected at least 16 bytes"), -EBADMSG);

	table_put(st, &bit_40);
	assert_int_equal(pf_branch_head(b, &m, &why), -EOPNOTSUPP);
	assert_string_equal(why.text,
			    "_versions/18446744073709551610.manifest: not readable: reader feature bits that pinfs "
			    "does not support: 40 unknown");
	table_put(st, &alone);
	assert_int_equal(pf_branch_head(b, &m, &why), -EBADMSG);
	assert_null(m);
	put(st, 7, false);
	assert_int_equal(head_of(b), 7);
}

static void test_version(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *v1 = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_store_freep) struct pf_store *v2 = table_new(3, &(struct table_version){ 0 });
	struct pf_store *stores[] = { v1, v2 };

	for (size_t i = 0; i < 2; i++) {
		_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(stores[i]);
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		struct pf_manifest *none = NULL;
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(pf_branch_version(b, 2, &m, &why), 0);
		assert_int_equal(m->version, 2);
		assert_int_equal(m->v2, i == 1);
		assert_string_equal(why.text, "");
		assert_int_equal(pf_branch_version(b, 4, &none, &why), -ENOENT);
		assert_string_equal(why.text, "no version 4 in _versions/");
		assert_null(none);

		struct pf_stat st;
		why = (struct pf_why)PF_WHY_INIT;
		assert_int_equal(pf_branch_stat(b, 2, &st, &why), 0);
		assert_true(pf_stat_same(&st, &m->st));
		assert_int_equal(pf_branch_stat(b, 4, &st, &why), -ENOENT);
		assert_string_equal(why.text, "no version 4 in _versions/");
	}
}

#define ID "0123456789abcdef0123456789abcdef"

static void test_named_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL, *m = open_main(st);
	const struct table_version first = { 3, .dir = "tree/feat/x/", .branch = "feat/x" },
				   second = { 4, .dir = "tree/feat/x/", .branch = "feat/x" },
				   wrong = { 5, .dir = "tree/feat/x/", .branch = "feat" },
				   none = { 5, .dir = "tree/feat/x/" };
	struct pf_manifest *head = NULL;
	char id[PF_BRANCH_ID_TEXT];
	struct pf_why why = PF_WHY_INIT;

	assert_null(pf_branch_name(m));
	assert_string_equal(pf_branch_dir(m), "");
	assert_ptr_equal(pf_branch_store(m), st);
	assert_int_equal(pf_branch_id(m, id, NULL), 0);
	assert_string_equal(id, "");

	assert_int_equal(open_fails(st, "feat/x", "no branch feat/x"), -ENOENT);
	table_put_branch(st, "feat/x", 3, ID);
	/* A ref without the directory it names. */
	assert_int_equal(open_fails(st, "feat/x", "no manifest in tree/feat/x/_versions/"), -ENOENT);
	table_put(st, &first);
	assert_int_equal(pf_branch_open(st, "feat/x", &b, &why), 0);
	assert_string_equal(pf_branch_name(b), "feat/x");
	assert_string_equal(pf_branch_dir(b), "tree/feat/x/");
	assert_int_equal(head_of(b), 3);
	table_put(st, &second);
	assert_int_equal(head_of(b), 4);
	assert_int_equal(head_of(m), 3);

	/* The id is the ref's of this moment: deleted and made anew, the branch is another one. */
	assert_int_equal(pf_branch_id(b, id, &why), 0);
	assert_string_equal(id, ID);
	table_put_branch(st, "feat/x", 3, "fedcba9876543210fedcba9876543210");
	assert_int_equal(pf_branch_id(b, id, &why), 0);
	assert_string_equal(id, "fedcba9876543210fedcba9876543210");
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/feat%2Fx.json"), 0);
	assert_int_equal(pf_branch_id(b, id, &why), -ENOENT);

	/* cases-open A03: the other layout. */
	_cleanup_(pf_buf_release) struct pf_buf json = PF_BUF_INIT;
	table_put_branch(st, "x", 3, ID);
	assert_int_equal(pf_store_get(st, "_refs/branches/x.json", 4096, &json), 0);
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/x.json"), 0);
	assert_int_equal(pf_store_mem_put(st, "_refs/branches/feat/x.json", json.data, json.len), 0);
	assert_int_equal(pf_branch_id(b, id, &why), 0);
	assert_string_equal(id, ID);

	table_put(st, &wrong);
	assert_int_equal(pf_branch_head(b, &head, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "expected a manifest of branch feat/x, found one of \"feat\""));
	table_put(st, &none);
	assert_int_equal(pf_branch_head(b, &head, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "expected a manifest of branch feat/x, found one of main"));

	assert_int_equal(open_fails(st, "../x", "the branch name"), -EINVAL);
	assert_int_equal(open_fails(st, "", "is empty"), -EINVAL);

	_cleanup_(pf_branch_freep) struct pf_branch *by_name = NULL;
	assert_int_equal(pf_branch_open(st, "main", &by_name, NULL), 0);
	assert_null(pf_branch_name(by_name));
}

/* Someone gave us the directory of a branch: its pins would be made without the branch's id. */
static void test_inside_a_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .branch = "feat/x" });

	assert_int_equal(open_fails(st, NULL, "belongs to the branch \"feat/x\": open the table's root"), -EINVAL);
}

/* Storage that fails at each call in turn says so, and the next look is right again. */
static void test_storage_fails(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	uint64_t version = 3;
	unsigned nth = 0;
	int r;

	do {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		struct pf_why why = PF_WHY_INIT;
		put(st, ++version, false);
		pf_store_mem_fault(st, ++nth, PF_FAULT_BEFORE, -EIO, false);
		r = pf_branch_head(b, &m, &why);
		pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);
		if (r < 0) {
			assert_int_equal(r, -EIO);
			if (!strstr(why.text, "Input/output error"))
				fail_msg("call %u: %s", nth, why.text);
		}
		assert_int_equal(head_of(b), version);
	} while (r < 0);
	assert_true(nth > 5);
}

struct race {
	struct pf_branch *b;
	_Atomic uint64_t newest;
	_Atomic unsigned wrong;
};

/* What was committed before the question is in the answer. */
static void *ask(void *arg)
{
	struct race *x = arg;

	for (uint64_t seen = 0; seen < 100;) {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		uint64_t before = x->newest;
		if (pf_branch_head(x->b, &m, NULL) < 0 || m->version < before)
			x->wrong++;
		seen = before;
	}
	return NULL;
}

static void test_threads(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_main(st);
	struct race x = { .b = b, .newest = 1 };
	pthread_t threads[8];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &x), 0);
	for (uint64_t v = 2; v <= 100; v++) {
		put(st, v, false);
		x.newest = v;
		assert_true(head_of(b) == v);
	}
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(x.wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),	   cmocka_unit_test(test_bystanders),
		cmocka_unit_test(test_not_a_table),	   cmocka_unit_test(test_mixed_names),
		cmocka_unit_test(test_migration),	   cmocka_unit_test(test_migration_cut_short),
		cmocka_unit_test(test_missed_by_the_list), cmocka_unit_test(test_unchanged),
		cmocka_unit_test(test_one_walk),	   cmocka_unit_test(test_others_commit),
		cmocka_unit_test(test_same_tick),	   cmocka_unit_test(test_head_vanishes),
		cmocka_unit_test(test_damaged_head),	   cmocka_unit_test(test_version),
		cmocka_unit_test(test_named_branch),	   cmocka_unit_test(test_inside_a_branch),
		cmocka_unit_test(test_storage_fails),	   cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
