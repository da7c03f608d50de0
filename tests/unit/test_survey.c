/* Surveys of the tables that released Lance wrote, and what a survey does about damage, replaced tables and races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/survey.h"
#include "core/wire.h"

#include "fixture.h"
#include "moves.h"
#include "pinned.h"
#include "surveyed.h"
#include "table.h"

/* The files of one version, sorted, those of a directory each by itself, as Lance's tracked_files says them. */
struct names {
	struct pf_store *st;
	char *v[256];
	size_t n;
	const char *dir;
};

static void add_name(struct names *l, const char *dir, const char *name)
{
	assert_true(l->n < ARRAY_LEN(l->v));
	assert_true(asprintf(&l->v[l->n++], "%s%s%s", dir, dir[0] ? "/" : "", name) > 0);
}

static int see_name(void *arg, const char *name, bool is_dir)
{
	struct names *l = arg;

	assert_false(is_dir);
	add_name(l, l->dir, name);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_of(struct pf_store *st, const struct pf_survey *s, uint64_t version, struct names *l)
{
	*l = (struct names){ .st = st };
	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		bool refers = false;
		for (uint32_t k = 0; k < f->n_iv; k++)
			refers = refers || (f->iv[k].first <= version && version <= f->iv[k].last);
		if (!refers || f->cls == PF_FILE_MANIFEST)
			continue;
		assert_int_equal(f->base, 0);
		assert_true(f->own);
		l->dir = f->path;
		if (f->cls != PF_FILE_INDEX && f->cls != PF_FILE_MAP)
			add_name(l, "", f->path);
		else if (pf_store_list(st, f->path, see_name, l) < 0)
			assert_true(f->optional);
	}
	qsort(l->v, l->n, sizeof(*l->v), by_text);
}

static void check_version(const char *key, struct pf_store *st, const struct pf_survey *s, size_t i, json_t *want)
{
	const struct pf_surveyed_version *v = &s->versions[i];
	const char *uuid = fixture_str(want, "transaction.uuid");
	json_t *files = json_object_get(want, "files"), *file;
	struct names l;
	size_t k;

	assert_int_equal(v->version, fixture_u64(want, "version"));
	assert_true(v->readable);
	assert_string_equal(v->txn, uuid);
	if (!files)
		return;
	names_of(st, s, v->version, &l);
	json_array_foreach(files, k, file) if (k >= l.n || strcmp(l.v[k], json_string_value(file)) != 0)
		fail_msg("%s, version %d: expected %s, found %s", key, (int)v->version, json_string_value(file),
			 k < l.n ? l.v[k] : "no more");
	if (k < l.n)
		fail_msg("%s, version %d: %s is too much", key, (int)v->version, l.v[k]);
	for (k = 0; k < l.n; k++)
		free(l.v[k]);
}

static int no_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	const char *key = arg;

	/* The hint, detached manifests and what they have: of no version of the line. */
	if (!strstr(path, "latest_version_hint.json") && !strstr(key, "detached"))
		fail_msg("%s: no version refers to %s", key, path);
	return 0;
}

static void test_fixtures(void **state)
{
	json_auto_t *all = fixture_expected();
	const char *key;
	json_t *table;
	unsigned n = 0, said_of_indices = 0;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
		_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
		json_t *versions = fixture_get(table, "versions"), *version;
		size_t i;
		surveyed_refresh(s);
		assert_int_equal(s->n_versions, json_array_size(versions));
		assert_int_equal(s->manifests_read, s->n_versions);
		for (i = 0; i < s->n_gaps; i++)
			fail_msg("%s: %s", key, s->gaps[i].text);
		json_array_foreach(versions, i, version) check_version(key, st, s, i, version);

		assert_int_equal(pf_survey_measure(s,
						   &(struct pf_looking){ .orphan = no_orphan,
									 .orphan_arg = (void *)(uintptr_t)key },
						   NULL),
				 0);
		for (i = 0; i < s->n_files; i++) {
			const struct pf_surveyed_file *f = &s->files[i];
			if (f->presence != PF_PRESENT && !f->optional)
				fail_msg("%s: %s is missing", key, f->path);
			if (f->presence == PF_PRESENT && f->said && f->size != f->said)
				fail_msg("%s: %s has %d bytes, %d are said", key, f->path, (int)f->size, (int)f->said);
			said_of_indices += f->cls == PF_FILE_INDEX && f->said;
		}
		n++;
	}
	assert_true(n > 40);
	assert_true(said_of_indices > 5);
}

static const struct pf_surveyed_file *find(const struct pf_survey *s, const char *path)
{
	for (size_t i = 0; i < s->n_files; i++)
		if (strcmp(s->files[i].path, path) == 0)
			return &s->files[i];
	return NULL;
}

/* The gap of this kind, which must be the only one. */
static const struct pf_gap *only_gap(const struct pf_survey *s, enum pf_gap_kind kind)
{
	if (s->n_gaps != 1)
		fail_msg("expected one gap, found %zu", s->n_gaps);
	assert_int_equal(s->gaps[0].kind, kind);
	return &s->gaps[0];
}

static void name_of(uint64_t version, char out[TABLE_NAME_MAX])
{
	table_manifest_name(&(struct table_version){ .version = version }, out);
}

static void put_garbage(struct pf_store *st, const char *name)
{
	assert_int_equal(pf_store_mem_put(st, name, "garbage, and long enough", 24), 0);
}

static void test_damaged_manifest(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(5, &(struct table_version){ .fragments = 2 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	char name[TABLE_NAME_MAX];

	name_of(3, name);
	put_garbage(st, name);
	surveyed_refresh(s);
	const struct pf_gap *g = only_gap(s, PF_GAP_MANIFEST);
	assert_int_equal(g->first, 3);
	assert_int_equal(g->last, 3);
	assert_string_equal(g->file, name);
	assert_string_equal(g->text,
			    "_versions/18446744073709551612.manifest: offset 20: expected \"LANC\", the last 4 "
			    "bytes of a manifest");
	assert_int_equal(s->n_versions, 5);
	assert_false(s->versions[2].readable);
	assert_true(s->versions[3].readable);
	assert_non_null(find(s, name));

	/* Nothing changed: nothing is read, and the gap stays. */
	surveyed_refresh(s);
	assert_int_equal(s->manifests_read, 0);
	only_gap(s, PF_GAP_MANIFEST);
	/* Repaired: noticed. */
	table_put(st, &(struct table_version){ .version = 3, .fragments = 2 });
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 0);
	assert_true(s->versions[2].readable);
}

/* Whose pins decide: nothing can be said without it. */
static void test_damaged_head(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	name_of(4, name);
	put_garbage(st, name);
	assert_int_equal(pf_survey_refresh(s, NULL, NULL, &why), -EBADMSG);
	assert_non_null(strstr(why.text, name));
	assert_null(s->head);
	table_put(st, &(struct table_version){ .version = 5 });
	surveyed_refresh(s);
	assert_int_equal(s->head->version, 5);
	only_gap(s, PF_GAP_MANIFEST);
}

static void test_transactions(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	char name[TABLE_NAME_MAX], uuid[PF_UUID_TEXT];

	table_put(st, &(struct table_version){ .version = 3, .txn = TABLE_TXN_FILE, .operation = 101 });
	table_put(st, &(struct table_version){ .version = 4, .txn = TABLE_TXN_LOST });
	table_put(st, &(struct table_version){ .version = 5, .txn = TABLE_TXN_NONE });
	table_put(st, &(struct table_version){ .version = 6, .txn = TABLE_TXN_12 });
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 2);
	assert_int_equal(s->gaps[0].kind, PF_GAP_TRANSACTION);
	assert_int_equal(s->gaps[0].first, 4);
	assert_string_equal(s->gaps[0].file, table_txn_name(&(struct table_version){ .version = 4 }, name));
	assert_non_null(strstr(s->gaps[0].text, "is missing"));
	assert_int_equal(s->gaps[1].first, 5);
	assert_non_null(strstr(s->gaps[1].text, "names no transaction"));
	assert_int_equal(s->versions[2].operation, 101);
	assert_string_equal(s->versions[2].txn, table_uuid(3, uuid));
	assert_string_equal(s->versions[3].txn, "");
	assert_string_equal(s->versions[5].txn, table_uuid(6, uuid));

	/* The file of a transaction that is inside too may go; that of one that is nowhere else may not. */
	assert_true(find(s, table_txn_name(&(struct table_version){ .version = 6 }, name))->optional);
	assert_false(find(s, table_txn_name(&(struct table_version){ .version = 3 }, name))->optional);
	/* It comes back: the gap goes. */
	_cleanup_(pf_buf_release) struct pf_buf txn = PF_BUF_INIT;
	table_txn(&(struct table_version){ .version = 4 }, &txn);
	assert_int_equal(pf_store_mem_put(st, table_txn_name(&(struct table_version){ .version = 4 }, name), txn.data,
					  txn.len),
			 0);
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 1);
	assert_string_equal(s->versions[3].txn, table_uuid(4, uuid));
}

static void test_flags(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	/* Bit 17 of the writer word: it can be read, and may name files that we do not see. */
	table_put(st, &(struct table_version){ .version = 3, .writer_flags = 1 << 17 });
	table_put(st, &(struct table_version){ .version = 4 });
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	surveyed_refresh(s);
	assert_int_equal(only_gap(s, PF_GAP_FLAGS)->first, 3);
	assert_non_null(strstr(s->gaps[0].text, "17 object-metadata"));
	assert_true(s->versions[2].readable);

	/* Bit 12 of the reader word: its fragments are elsewhere. */
	table_put(st, &(struct table_version){ .version = 5, .reader_flags = 1 << 12, .writer_flags = 1 << 12 });
	table_put(st, &(struct table_version){ .version = 6 });
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 2);
	assert_int_equal(s->gaps[1].kind, PF_GAP_MANIFEST);
	assert_non_null(strstr(s->gaps[1].text, "12 fragment-tree"));
}

static void test_refs(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	static const char mine[] = "{\"branch\": null, \"version\": 1, \"manifestSize\": 1}";
	static const char other[] = "{\"branch\": \"dev\", \"version\": 1, \"manifestSize\": 1}";

	assert_int_equal(pf_store_mem_put(st, "_refs/tags/mine.json", mine, strlen(mine)), 0);
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/other.json", other, strlen(other)), 0);
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/bad.json", "{", 1), 0);
	surveyed_refresh(s);
	assert_int_equal(s->tags.n, 1);
	assert_string_equal(s->tags.v[0].name, "mine");
	assert_string_equal(only_gap(s, PF_GAP_REF)->file, "_refs/tags/bad.json");
	assert_int_equal(s->gaps[0].last, PF_STILL);
	assert_int_equal(pf_store_mem_del(st, "_refs/tags/bad.json"), 0);
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 0);
	assert_int_equal(s->manifests_read, 0);
}

static void test_pins(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	pinned_put(st, &(struct table_version){ .version = 3 },
		   &(struct pinned){ .pins = "ab", .kind = PF_OP_REGISTER, .named = "b" });
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	surveyed_refresh(s);
	assert_int_equal(s->pins.n, 2);
	assert_int_equal(s->versions[2].kind, PF_OP_REGISTER);
	pinned_put(st, &(struct table_version){ .version = 4 },
		   &(struct pinned){ .pins = "b", .kind = PF_OP_RELEASE, .named = "a" });
	surveyed_refresh(s);
	assert_int_equal(s->manifests_read, 1);
	assert_int_equal(s->pins.n, 1);
	assert_int_equal(pinned_letter(&s->pins.v[0].id), 'b');
	assert_int_equal(s->head->version, 4);
}

/* Another table was made at the same place, with other files of the same names. */
static void test_made_again(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .fragments = 2 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	char uuid[PF_UUID_TEXT];

	surveyed_refresh(s);
	for (uint64_t v = 1; v <= 3; v++)
		table_put(st, &(struct table_version){ .version = v, .uuid = table_uuid(40 + v, uuid) });
	surveyed_refresh(s);
	assert_int_equal(s->manifests_read, 3);
	assert_string_equal(s->versions[0].txn, table_uuid(41, uuid));

	/* Its head is taken away: what was the head is one of the others again. */
	char name[TABLE_NAME_MAX];
	name_of(3, name);
	assert_int_equal(pf_store_mem_del(st, name), 0);
	surveyed_refresh(s);
	assert_int_equal(s->head->version, 2);
	assert_int_equal(s->n_versions, 2);
}

static void test_renamed(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ .v1 = true });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	char name[TABLE_NAME_MAX];

	surveyed_refresh(s);
	assert_non_null(find(s, "_versions/2.manifest"));
	for (uint64_t v = 1; v <= 3; v++) {
		char old[TABLE_NAME_MAX];
		table_manifest_name(&(struct table_version){ .version = v, .v1 = true }, old);
		name_of(v, name);
		assert_int_equal(pf_store_rename(st, old, name), 0);
	}
	surveyed_refresh(s);
	name_of(2, name);
	assert_non_null(find(s, name));
	assert_null(find(s, "_versions/2.manifest"));
}

static void assert_intervals(const struct pf_survey *s, const char *path, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	const struct pf_surveyed_file *f = find(s, path);

	assert_int_equal(pf_buf_addstr(&got, ""), 0);
	for (uint32_t i = 0; f && i < f->n_iv; i++)
		assert_int_equal(pf_buf_addf(&got, "%s%d-%d", i ? " " : "", (int)f->iv[i].first, (int)f->iv[i].last),
				 0);
	assert_string_equal(pf_buf_str(&got), want);
}

/* Manifests that are read through windows, and not kept: the same is said of them. */
static void test_large(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = NULL;
	_cleanup_(pf_buf_release) struct pf_buf filler = PF_BUF_INIT, section = PF_BUF_INIT;
	struct pf_buf m = PF_BUF_INIT, extra = PF_BUF_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	moves_index(&(struct moves_index){ .name = "by_id", .uuid = 3 }, &section);
	/* As much again as is kept in memory, in a field that fragments may have. */
	assert_int_equal(pf_buf_reserve(&filler, 100000), 0);
	memset(filler.data, 'x', 100000);
	filler.len = 100000;
	for (uint64_t v = 1; v <= 4; v++) {
		for (uint64_t i = v == 4; i < 170 + v; i++) {
			char name[32];
			snprintf(name, sizeof(name), "f%d.lance", (int)i);
			table_add_fragment(&extra, i, name, 0, -1);
			assert_int_equal(pf_wire_put_u64(&m, 1, i), 0);
			assert_int_equal(pf_wire_put_bytes(&m, 5, filler.data, filler.len), 0);
			assert_int_equal(pf_wire_put_bytes(&extra, 2, m.data, m.len), 0);
			pf_buf_reset(&m);
		}
		table_put(st,
			  &(struct table_version){ .version = v, .extra = &extra, .index = v > 1 ? &section : NULL });
		pf_buf_reset(&extra);
		if (v == 2) {
			s = surveyed_open(st, &b);
			surveyed_refresh(s);
			assert_int_equal(s->manifests_read, 2);
		}
	}
	surveyed_refresh(s);
	assert_int_equal(s->manifests_read, 2);
	assert_intervals(s, "data/f0.lance", "1-3");
	assert_intervals(s, "data/f1.lance", "1--1");
	assert_intervals(s, "data/f170.lance", "1--1");
	assert_intervals(s, "data/f172.lance", "3--1");
	assert_intervals(s, "data/f173.lance", "4--1");
	assert_intervals(s, "_indices/0badcafe-0000-4000-a000-000000000003", "2--1");
	pf_buf_release(&m);
	pf_buf_release(&extra);
}

/* Storage fails for a while: that says nothing of the table. */
static int fail_once;
static void fail_open(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "open") == 0 && strcmp(name, arg) == 0 && fail_once) {
		fail_once = 0;
		pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EIO, false);
	}
}

static void test_passing_failure(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	char name[TABLE_NAME_MAX];

	name_of(2, name);
	fail_once = 1;
	pf_store_mem_set_hook(st, fail_open, name);
	surveyed_refresh(s);
	assert_true(only_gap(s, PF_GAP_MANIFEST)->passing);
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 0);
	assert_true(s->versions[1].readable);
}

/* A cleanup removes versions while they are being read. */
static void remove_some(void *arg, struct pf_store *st, const char *op, const char *name)
{
	char victim[TABLE_NAME_MAX];

	name_of(3, victim);
	if (strcmp(op, "open") == 0 && strcmp(name, victim) == 0 && *(bool *)arg) {
		*(bool *)arg = false;
		for (uint64_t v = 2; v <= 4; v++) {
			name_of(v, victim);
			assert_int_equal(pf_store_mem_del(st, victim), 0);
		}
	}
}

static void test_cleaned_meanwhile(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(6, &(struct table_version){ .fragments = 3 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	bool armed = true;
	char name[TABLE_NAME_MAX];

	pf_store_mem_set_hook(st, remove_some, &armed);
	surveyed_refresh(s);
	assert_int_equal(s->n_versions, 3);
	assert_int_equal(s->versions[1].version, 5);
	assert_int_equal(s->n_gaps, 0);
	name_of(2, name);
	assert_null(find(s, name)); /* it was read, and went afterwards */
}

static int stop_at(void *arg, uint64_t done, uint64_t total)
{
	assert_int_equal(total, 5);
	return done == *(uint64_t *)arg;
}

static void test_interrupted(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(5, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	struct pf_why why = PF_WHY_INIT;
	uint64_t at = 2;

	assert_int_equal(pf_survey_refresh(s, stop_at, &at, &why), -EINTR);
	assert_string_equal(why.text, "interrupted after 2 of 5 versions");
	assert_null(s->head);
	surveyed_refresh(s);
	assert_int_equal(s->manifests_read, 3);
	assert_int_equal(s->n_versions, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_damaged_manifest),
		cmocka_unit_test(test_damaged_head),
		cmocka_unit_test(test_transactions),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_refs),
		cmocka_unit_test(test_pins),
		cmocka_unit_test(test_made_again),
		cmocka_unit_test(test_renamed),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_passing_failure),
		cmocka_unit_test(test_cleaned_meanwhile),
		cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
