/* Memory that runs out in the middle of a cleanup, at every allocation: nothing leaks, no version that is listed loses a file, the next run ends the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/cleanup.h"
#include "core/store_mem.h"

#include "alloc.h"
#include "moves.h"
#include "table.h"

#define MANIFEST_2 "18446744073709551613.manifest"

static void put_file(struct pf_store *st, const char *name)
{
	assert_int_equal(pf_store_mem_put(st, name, "12345", 5), 0);
}

/* Versions 1 to 4 of a file each; 2 has an index and a history, and is on its way out already. */
static struct pf_store *new_table(void)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	for (uint64_t v = 1; v <= 4; v++) {
		_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, content = PF_BUF_INIT,
							details = PF_BUF_INIT, section = PF_BUF_INIT;
		const char file[] = { (char)('a' + v), '.', 'l', 'a', 'n', 'c', 'e', '\0' };
		char name[64];
		table_add_fragment(&extra, v, file, 5, -1);
		snprintf(name, sizeof(name), "data/%s", file);
		put_file(st, name);
		moves_content("P 1:10 > 2:4 3:6", &content);
		moves_details_inline(&content, &details);
		moves_index(&(struct moves_index){ .name = "by_id", .uuid = 1 }, &section);
		moves_index(&(struct moves_index){ .name = "__lance_frag_reuse",
						   .uuid = 2,
						   .type = MOVES_FRI_TYPE,
						   .details = &details,
						   .index_version = 1 },
			    &section);
		table_put(st,
			  &(struct table_version){ .version = v, .extra = &extra, .index = v == 2 ? &section : NULL });
	}
	char map[PF_UUID_TEXT], uuid[PF_UUID_TEXT], name[96];
	snprintf(name, sizeof(name), "_fri/%s/map", moves_map_id(0, map));
	put_file(st, name);
	snprintf(name, sizeof(name), "_indices/%s/page", moves_uuid(1, uuid));
	put_file(st, name);
	put_file(st, "data/b/1.blob");
	assert_int_equal(pf_store_rename(st, "_versions/" MANIFEST_2, "_versions/.tmp-removed-" MANIFEST_2 ".aside"),
			 0);
	return st;
}

/* Everything is younger than seven days. */
static int clean(struct pf_store *st)
{
	const struct pf_cleanup_options o = { .policy = { .any = true, .retain = 1 }, .now = { 3600, 0 } };
	_cleanup_(pf_cleanup_freep) struct pf_cleanup *c = NULL;
	const struct pf_cleanup_how how = { 0 };
	struct pf_lines l;

	pf_lines_init(&l, st);
	int r = pf_lines_refresh(&l, NULL, NULL, NULL);
	if (r == 0)
		r = pf_cleanup_new(&l, &l.v[0], &o, NULL, NULL, &c, NULL);
	if (r == 0)
		r = pf_cleanup_run(c, &how, NULL);
	pf_lines_release(&l);
	return r;
}

static void assert_whole(struct pf_store *st)
{
	struct pf_lines l;

	pf_lines_init(&l, st);
	assert_int_equal(pf_lines_refresh(&l, NULL, NULL, NULL), 0);
	struct pf_survey *s = l.v[0].survey;
	assert_int_equal(pf_survey_measure(s, NULL, NULL), 0);
	for (size_t k = 0; k < s->n_files; k++)
		if (s->files[k].n_iv && s->files[k].presence == PF_MISSING)
			fail_msg("%s is missing", s->files[k].path);
	pf_lines_release(&l);
}

static void test_every_allocation(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;
	struct pf_store *st = new_table();
	unsigned nth = 0, calls;

	assert_int_equal(clean(st), 0);
	table_list(st, ".", &want);
	pf_store_free(st);
	/* Manifest, transaction and file of version 4. */
	assert_non_null(strstr(pf_buf_str(&want), "data/e.lance"));
	assert_null(strstr(pf_buf_str(&want), "data/b.lance"));
	assert_null(strstr(pf_buf_str(&want), "_fri/"));
	do {
		_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
		st = new_table();
		alloc_fail(++nth);
		int r = clean(st);
		calls = alloc_calls();
		alloc_fail(0);
		/* A file of which even the name cannot be made is one that could not be removed. */
		if (r != 0 && (r != -ENOMEM || calls < nth))
			fail_msg("allocation %u of %u: %d", nth, calls, r);
		assert_whole(st);
		assert_int_equal(clean(st), 0);
		table_list(st, ".", &got);
		if (strcmp(pf_buf_str(&got), pf_buf_str(&want)) != 0)
			fail_msg("allocation %u: expected\n%sfound\n%s", nth, (char *)want.data, (char *)got.data);
		pf_store_free(st);
	} while (calls >= nth);
	assert_true(nth > 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation),
	};

	return cmocka_run_group_tests_name("cleanup_oom", tests, NULL, NULL);
}
