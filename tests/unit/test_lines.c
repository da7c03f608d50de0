/* What branches need of each other (lance-14-cleanup 26 to 34, D3, D5; cases-open A03, B22), and what is kept for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/lines.h"
#include "core/store_mem.h"

#include "moves.h"
#include "table.h"

#define DEV_ID "0123456789abcdef0123456789abcdef"

static void put_version(struct pf_store *st, const char *branch, uint64_t version, struct pf_buf *extra)
{
	_cleanup_(pf_freep) char *dir = NULL;

	assert_true(asprintf(&dir, "tree/%s/", branch ? branch : "") > 0);
	table_put(st, &(struct table_version){
			      .version = version, .dir = branch ? dir : NULL, .branch = branch, .extra = extra });
	pf_buf_release(extra);
}

/* Main 1 to 4: a, then a and b, then b, then c. Branch dev of 2, which names main as `root`: 2 has a and b, 3 has b and d, which is its own. */
static struct pf_store *new_table(const char *root)
{
	struct pf_store *st;
	struct pf_buf x = PF_BUF_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_add_fragment(&x, 0, "a.lance", 0, -1);
	put_version(st, NULL, 1, &x);
	table_add_fragment(&x, 0, "a.lance", 0, -1);
	table_add_fragment(&x, 1, "b.lance", 0, -1);
	put_version(st, NULL, 2, &x);
	table_add_fragment(&x, 1, "b.lance", 0, -1);
	put_version(st, NULL, 3, &x);
	table_add_fragment(&x, 2, "c.lance", 0, -1);
	put_version(st, NULL, 4, &x);

	table_put_branch(st, "dev", 2, DEV_ID);
	table_add_fragment(&x, 0, "a.lance", 0, 0);
	table_add_fragment(&x, 1, "b.lance", 0, 0);
	table_add_base(&x, 0, true, root);
	put_version(st, "dev", 2, &x);
	table_add_fragment(&x, 1, "b.lance", 0, 0);
	table_add_fragment(&x, 2, "d.lance", 0, -1);
	table_add_base(&x, 0, true, root);
	put_version(st, "dev", 3, &x);
	return st;
}

static void refresh(struct pf_lines *l)
{
	struct pf_why why = PF_WHY_INIT;

	if (pf_lines_refresh(l, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
}

static void del_version(struct pf_store *st, const char *dir, uint64_t version)
{
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_del(st, table_manifest_name(
						      &(struct table_version){ .version = version, .dir = dir }, name)),
			 0);
}

/* Reasons of each version of a line, and of each of its data files: "2=branch:dev data/a.lance=branch:dev ...". "-" is not kept. */
static void assert_kept(struct pf_lines *l, const char *branch, const char *versions, const char *files)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT, data = PF_BUF_INIT;
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	_cleanup_(pf_needs_release) struct pf_needs needs = { NULL, 0 };
	struct pf_line *line = pf_lines_find(l, branch);

	assert_non_null(line);
	assert_int_equal(pf_lines_needs(l, line, &needs), 0);
	assert_int_equal(pf_retention_new(&(struct pf_retention_input){ .survey = line->survey,
									.branches = needs.v,
									.n_branches = needs.n },
					  &r),
			 0);
	for (size_t i = 0; i < line->survey->n_versions; i++) {
		assert_int_equal(pf_buf_addf(&got, " %d=", (int)line->survey->versions[i].version), 0);
		assert_int_equal(pf_retention_version(r, i) ? pf_retention_version_reasons(r, i, &got)
							    : pf_buf_addstr(&got, "-"),
				 0);
	}
	/* In order of their names. */
	for (char c = 'a'; c <= 'f'; c++) {
		for (size_t i = 0; i < line->survey->n_files; i++) {
			const struct pf_surveyed_file *f = &line->survey->files[i];
			size_t n = strlen(f->path);
			if (f->cls != PF_FILE_DATA || f->path[n - 7] != c)
				continue;
			assert_int_equal(pf_buf_addf(&data, " %s%s=", f->own ? "" : "!", f->path), 0);
			assert_int_equal(pf_retention_file(r, i) ? pf_retention_file_reasons(r, i, &data)
								 : pf_buf_addstr(&data, "-"),
					 0);
		}
	}
	assert_string_equal(got.len ? pf_buf_str(&got) + 1 : "", versions);
	assert_string_equal(data.len ? pf_buf_str(&data) + 1 : "", files);
}

static int note_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	return pf_buf_addf(arg, "%s ", path);
}

/* What lies in the line's folders that nobody names, in the order of the listing. */
static void assert_orphans(struct pf_line *line, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&got, ""), 0);
	assert_int_equal(pf_survey_measure(line->survey,
					   &(struct pf_looking){ .orphan = note_orphan, .orphan_arg = &got }, NULL),
			 0);
	assert_string_equal(pf_buf_str(&got), want);
}

static void check_main(const char *root)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(root);
	_cleanup_(pf_lines_release) struct pf_lines l;

	pf_lines_init(&l, st);
	refresh(&l);
	assert_int_equal(l.n, 2);
	/* The version that dev hangs from is kept whole, and what dev has of main's. */
	assert_kept(&l, NULL, "1=- 2=branch:dev 3=- 4=head",
		    "data/a.lance=branch:dev data/b.lance=branch:dev data/c.lance=head");
	/* Main needs nothing of dev; what dev has of main's is not dev's. */
	assert_kept(&l, "dev", "2=- 3=head", "!data/a.lance=- !data/b.lance=head tree/dev/data/d.lance=head");
}

/* Lance compares spellings, and loses the branch when they differ. */
static void test_spellings(void **state)
{
	check_main("/memory");
	check_main("/memory/");
	check_main("//memory/.");
	/* The table was moved here: where dev thinks main is, nothing is. */
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/gone/t");
	_cleanup_(pf_lines_release) struct pf_lines l;
	pf_lines_init(&l, st);
	refresh(&l);
	assert_kept(&l, NULL, "1=- 2=branch:dev 3=- 4=head",
		    "data/a.lance=branch:dev data/b.lance=branch:dev data/c.lance=head");
	/* Elsewhere is elsewhere, whatever the names. */
	_cleanup_(pf_store_freep) struct pf_store *other = new_table("/elsewhere");
	_cleanup_(pf_lines_release) struct pf_lines k;
	pf_lines_init(&k, other);
	refresh(&k);
	assert_kept(&k, NULL, "1=- 2=- 3=- 4=head", "data/a.lance=- data/b.lance=- data/c.lance=head");
}

/* Main's version is gone already, and with it all that named the file: dev still does. */
static void test_root_is_gone(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;

	pf_lines_init(&l, st);
	refresh(&l);
	for (uint64_t v = 1; v <= 3; v++) {
		char name[TABLE_NAME_MAX];
		del_version(st, NULL, v);
		assert_int_equal(pf_store_mem_del(st, table_txn_name(&(struct table_version){ .version = v }, name)),
				 0);
	}
	assert_int_equal(pf_store_mem_put(st, "data/a.lance", "a", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "data/a/1.blob", "1", 1), 0);
	refresh(&l);
	assert_kept(&l, NULL, "4=head", "data/a.lance=branch:dev data/b.lance=branch:dev data/c.lance=head");
	assert_orphans(&l.v[0], "");
	/* dev is cleaned, and lets a go; then it lets go of main. */
	del_version(st, "tree/dev/", 2);
	refresh(&l);
	assert_int_equal(pf_lines_find(&l, NULL)->survey->manifests_read, 0);
	assert_kept(&l, NULL, "4=head", "data/a.lance=- data/b.lance=branch:dev data/c.lance=head");
	assert_orphans(&l.v[0], "data/a.lance data/a/1.blob ");
}

static void test_nothing_needed(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_buf x = PF_BUF_INIT;

	table_add_fragment(&x, 2, "e.lance", 0, -1);
	put_version(st, "dev", 4, &x);
	del_version(st, "tree/dev/", 2);
	del_version(st, "tree/dev/", 3);
	pf_lines_init(&l, st);
	refresh(&l);
	assert_kept(&l, NULL, "1=- 2=- 3=- 4=head", "data/a.lance=- data/b.lance=- data/c.lance=head");
}

static void put_ref(struct pf_store *st, const char *file, const char *text)
{
	assert_int_equal(pf_store_mem_put(st, file, text, strlen(text)), 0);
}

/* Refs of Lance up to 1.0 have no identifier: their parent says where they hang (lance-14-cleanup D3). */
static void test_old_refs(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_buf x = PF_BUF_INIT;

	put_ref(st, "_refs/branches/dev.json",
		"{\"parentBranch\": null, \"parentVersion\": 2, \"createAt\": 1, \"manifestSize\": 1}");
	/* A branch of a branch, in the other layout of refs: feat/x of dev's 3, which is of main's 2. */
	put_ref(st, "_refs/branches/feat/x.json",
		"{\"parentBranch\": \"dev\", \"parentVersion\": 3, \"createAt\": 1, \"manifestSize\": 1}");
	table_add_fragment(&x, 1, "b.lance", 0, 0);
	table_add_fragment(&x, 2, "d.lance", 0, 1);
	table_add_base(&x, 0, true, "/memory");
	table_add_base(&x, 1, true, "/memory/tree/dev");
	put_version(st, "feat/x", 3, &x);
	pf_lines_init(&l, st);
	refresh(&l);
	assert_int_equal(l.n, 3);
	assert_kept(&l, NULL, "1=- 2=branch:dev,branch:feat/x 3=- 4=head",
		    "data/a.lance=branch:dev,branch:feat/x data/b.lance=branch:dev,branch:feat/x data/c.lance=head");
	assert_kept(&l, "dev", "2=- 3=head,branch:feat/x",
		    "!data/a.lance=- !data/b.lance=head,branch:feat/x tree/dev/data/d.lance=head,branch:feat/x");
}

/* A ref whose file spells the name as neither Lance nor we do: it is listed, so it is a branch. */
static void test_spelled_otherwise(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_buf x = PF_BUF_INIT;

	put_ref(st, "_refs/branches/feat%2fx.json",
		"{\"parentBranch\": null, \"parentVersion\": 3, \"createAt\": 1, \"manifestSize\": 1}");
	table_add_fragment(&x, 1, "b.lance", 0, 0);
	table_add_base(&x, 0, true, "/memory");
	put_version(st, "feat/x", 3, &x);
	pf_lines_init(&l, st);
	refresh(&l);
	assert_int_equal(l.n, 3);
	assert_non_null(l.v[2].survey);
	assert_kept(&l, NULL, "1=- 2=branch:dev 3=branch:feat/x 4=head",
		    "data/a.lance=branch:dev data/b.lance=branch:dev,branch:feat/x data/c.lance=head");
}

/* By identifiers: dev and a branch of it, and a stranger whose ancestry is another. */
static void test_ancestry(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_buf x = PF_BUF_INIT;

	put_ref(st, "_refs/branches/kid.json",
		"{\"parentBranch\": \"dev\", \"parentVersion\": 3, \"createAt\": 1, \"manifestSize\": 1, \"identifier\": "
		"{\"version_mapping\": [[2, \"" DEV_ID "\"], [3, \"11111111111111111111111111111111\"]]}}");
	put_ref(st, "_refs/branches/stranger.json",
		"{\"parentBranch\": \"dev\", \"parentVersion\": 3, \"createAt\": 1, \"manifestSize\": 1, \"identifier\": "
		"{\"version_mapping\": [[1, \"22222222222222222222222222222222\"], [3, "
		"\"33333333333333333333333333333333\"]]}}");
	for (int i = 0; i < 2; i++) {
		table_add_fragment(&x, 2, "d.lance", 0, 1);
		table_add_fragment(&x, 3, "c.lance", 0, 0);
		table_add_base(&x, 0, true, "/memory");
		table_add_base(&x, 1, true, "/memory/tree/dev");
		put_version(st, i ? "stranger" : "kid", 3, &x);
	}
	pf_lines_init(&l, st);
	refresh(&l);
	assert_kept(&l, "dev", "2=- 3=head,branch:kid",
		    "!data/a.lance=- !data/b.lance=head,branch:kid "
		    "tree/dev/data/d.lance=head,branch:kid,branch:stranger");
	assert_kept(&l, NULL, "1=branch:stranger 2=branch:dev,branch:kid 3=- 4=head",
		    "data/a.lance=branch:dev,branch:kid,branch:stranger data/b.lance=branch:dev,branch:kid "
		    "data/c.lance=head,branch:kid,branch:stranger");
}

static void test_unreadable(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	_cleanup_(pf_needs_release) struct pf_needs needs = { NULL, 0 };
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	/* Not its head: what that version needs is not known all the same. */
	table_manifest_name(&(struct table_version){ .version = 2, .dir = "tree/dev/" }, name);
	put_ref(st, name, "garbage");
	pf_lines_init(&l, st);
	refresh(&l);
	assert_int_equal(pf_lines_needs(&l, &l.v[0], &needs), 0);
	assert_non_null(strstr(needs.v[0].unknown, name));
	assert_int_equal(needs.v[0].n_files, 1);
	assert_int_equal(pf_retention_new(&(struct pf_retention_input){ .survey = l.v[0].survey,
									.branches = needs.v,
									.n_branches = needs.n },
					  &r),
			 0);
	assert_int_equal(pf_retention_verify(r, &why), -EBUSY);
	assert_non_null(strstr(why.text, "what branch dev needs cannot be told: "));

	/* Its head. */
	pf_needs_release(&needs);
	table_manifest_name(&(struct table_version){ .version = 3, .dir = "tree/dev/" }, name);
	put_ref(st, name, "garbage");
	refresh(&l);
	assert_null(pf_lines_find(&l, "dev")->survey);
	assert_non_null(strstr(pf_lines_find(&l, "dev")->unknown, name));
	assert_int_equal(pf_lines_needs(&l, &l.v[0], &needs), 0);
	assert_non_null(strstr(needs.v[0].unknown, name));
}

/* An index of main that Lance 14 remapped on the branch: its entry says main, its files are the branch's. */
static void test_misplaced_index(void **state)
{
	static const char here[] = "tree/dev/_indices/0badcafe-0000-4000-a000-000000000007";
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT, extra = PF_BUF_INIT;
	char file[TABLE_NAME_MAX];

	moves_index(&(struct moves_index){ .name = "by_id", .uuid = 7, .has_base = true }, &index);
	table_add_base(&extra, 0, true, "/memory");
	table_put(st, &(struct table_version){
			      .version = 4, .dir = "tree/dev/", .branch = "dev", .extra = &extra, .index = &index });
	snprintf(file, sizeof(file), "%s/page.lance", here);
	assert_int_equal(pf_store_mem_put(st, file, "x", 1), 0);
	pf_lines_init(&l, st);
	refresh(&l);
	struct pf_survey *dev = pf_lines_find(&l, "dev")->survey;
	assert_orphans(pf_lines_find(&l, "dev"), "");
	unsigned seen = 0;
	for (size_t i = 0; i < dev->n_files; i++) {
		const struct pf_surveyed_file *f = &dev->files[i];
		if (f->cls != PF_FILE_INDEX)
			continue;
		seen++;
		/* Where it was named it is not, and need not be; where it is it is kept. */
		assert_int_equal(f->presence, f->own ? PF_PRESENT : PF_UNSEEN);
		assert_string_equal(f->path, f->own ? here : here + strlen("tree/dev/"));
	}
	assert_int_equal(seen, 2);
	/* It is nowhere at all: that is missed. */
	assert_int_equal(pf_store_mem_del(st, file), 0);
	assert_int_equal(pf_survey_measure(dev, NULL, NULL), 0);
	for (size_t i = 0; i < dev->n_files; i++)
		if (dev->files[i].cls == PF_FILE_INDEX && !dev->files[i].own)
			assert_int_equal(dev->files[i].presence, PF_MISSING);
}

/* Branches come and go. Of one of which only the ref is left nothing is needed (lance-14-cleanup 31). */
static void test_refs_change(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;

	table_put_branch(st, "empty", 1, "44444444444444444444444444444444");
	pf_lines_init(&l, st);
	refresh(&l);
	assert_int_equal(l.n, 3);
	assert_null(pf_lines_find(&l, "empty")->survey);
	assert_null(pf_lines_find(&l, "empty")->unknown);
	const struct pf_survey *dev = pf_lines_find(&l, "dev")->survey;
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/empty.json"), 0);
	refresh(&l);
	assert_null(pf_lines_find(&l, "empty"));
	assert_ptr_equal(pf_lines_find(&l, "dev")->survey, dev);
	assert_int_equal(dev->manifests_read, 0);
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/dev.json"), 0);
	refresh(&l);
	assert_int_equal(l.n, 1);
	assert_kept(&l, NULL, "1=- 2=- 3=- 4=head", "data/a.lance=- data/b.lance=- data/c.lance=head");
}

/* Branches of which one lives in a folder of the other (lance-14-cleanup D4). */
static void test_nested(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_buf x = PF_BUF_INIT;
	struct pf_line *dev;

	table_put_branch(st, "dev/data", 2, "55555555555555555555555555555555");
	table_add_fragment(&x, 0, "f.lance", 0, -1);
	put_version(st, "dev/data", 3, &x);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/data/data/f.lance", "f", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/data/d.lance", "d", 1), 0);
	pf_lines_init(&l, st);
	refresh(&l);
	dev = pf_lines_find(&l, "dev");
	assert_kept(&l, "dev/data", "3=head", "tree/dev/data/data/f.lance=head");
	assert_kept(&l, "dev", "2=- 3=head", "!data/a.lance=- !data/b.lance=head tree/dev/data/d.lance=head");
	/* dev's own folder data/ is looked through, and what the other branch has there is not touched. */
	assert_int_equal(pf_store_mem_put(st, "tree/dev/data/stray.lance", "s", 1), 0);
	assert_orphans(dev, "tree/dev/data/stray.lance ");
	assert_orphans(pf_lines_find(&l, "dev/data"), "");

	/* A third one that has a file of each: who needs what is told of the right one. */
	table_put_branch(st, "third", 4, "66666666666666666666666666666666");
	table_add_fragment(&x, 0, "d.lance", 0, 0);
	table_add_fragment(&x, 1, "f.lance", 0, 1);
	table_add_base(&x, 0, true, "/memory/tree/dev");
	table_add_base(&x, 1, true, "/memory/tree/dev/data");
	put_version(st, "third", 4, &x);
	refresh(&l);
	assert_kept(&l, "dev/data", "3=head", "tree/dev/data/data/f.lance=head,branch:third");
	assert_kept(&l, "dev", "2=- 3=head",
		    "!data/a.lance=- !data/b.lance=head tree/dev/data/d.lance=head,branch:third");
}

static int stop(void *arg, uint64_t done, uint64_t total)
{
	return --*(int *)arg == 0;
}

static void test_interrupted(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table("/memory");
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_why why = PF_WHY_INIT;

	pf_lines_init(&l, st);
	int left = 2;
	assert_int_equal(pf_lines_refresh(&l, stop, &left, &why), -EINTR);
	left = 3;
	assert_int_equal(pf_lines_refresh(&l, stop, &left, &why), -EINTR);
	refresh(&l);
	assert_int_equal(pf_lines_find(&l, "dev")->survey->manifests_read, 1);
	assert_kept(&l, NULL, "1=- 2=branch:dev 3=- 4=head",
		    "data/a.lance=branch:dev data/b.lance=branch:dev data/c.lance=head");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spellings),	  cmocka_unit_test(test_root_is_gone),
		cmocka_unit_test(test_nothing_needed),	  cmocka_unit_test(test_old_refs),
		cmocka_unit_test(test_spelled_otherwise), cmocka_unit_test(test_ancestry),
		cmocka_unit_test(test_unreadable),	  cmocka_unit_test(test_misplaced_index),
		cmocka_unit_test(test_refs_change),	  cmocka_unit_test(test_nested),
		cmocka_unit_test(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
