/*
 * Memory that runs out in the middle of a survey, at every allocation: -ENOMEM comes out, nothing leaks, and the next refresh of the same survey says what
 * a new one says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/lines.h"
#include "core/store_mem.h"

#include "alloc.h"
#include "moves.h"
#include "pinned.h"
#include "table.h"

static void add_section(const char *text, uint64_t uuid, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT;

	moves_content(text, &content);
	moves_details_inline(&content, &details);
	moves_index(&(struct moves_index){ .name = "by_id", .uuid = 1 }, out);
	moves_index(&(struct moves_index){ .name = "__lance_frag_reuse",
					   .uuid = uuid,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .index_version = 1 },
		    out);
}

static void put_version(struct pf_store *st, uint64_t version, const struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	char name[32];

	for (uint64_t i = version / 3; i < version; i++) {
		snprintf(name, sizeof(name), "f%d.lance", (int)i);
		table_add_fragment(&extra, i, name, 0, i % 3 == 0 ? -1 : (int)(i % 3));
	}
	table_add_base(&extra, 1, true, version < 4 ? "/elsewhere/1" : "/elsewhere/2");
	table_add_base(&extra, 2, true, "/gone/t");
	pinned_put(st, &(struct table_version){ .version = version, .extra = &extra, .index = section },
		   &(struct pinned){ .pins = version > 2 ? "a" : NULL });
}

static struct pf_store *new_table(void)
{
	_cleanup_(pf_buf_release) struct pf_buf one = PF_BUF_INIT, two = PF_BUF_INIT, extra = PF_BUF_INIT;
	static const char tag[] = "{\"version\":1,\"manifestSize\":1}";
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	add_section("P 1:10 > 2:4 3:6", 2, &one);
	add_section("P 1:10 > 2:4 3:6; P 2:4 > 4:4", 3, &two);
	for (uint64_t v = 1; v <= 6; v++)
		put_version(st, v, v < 2 ? NULL : v < 5 ? &one : &two);
	table_put_branch(st, "dev", 1, "0123456789abcdef0123456789abcdef");
	table_add_base(&extra, 0, true, "/memory");
	table_add_fragment(&extra, 1, "f0.lance", 0, 0);
	table_put(st, &(struct table_version){ .version = 1, .dir = "tree/dev/", .branch = "dev", .extra = &extra });
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/a.json", tag, sizeof(tag) - 1), 0);
	assert_int_equal(pf_store_mem_put(st, "data/f3.lance", "x", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "data/f3/1.blob", "x", 1), 0);
	return st;
}

/* What is kept, as text: versions, files, problems. */
static int say_problem(void *arg, const struct pf_problem *p)
{
	return pf_buf_addf(arg, "%d %s\n", (int)p->version, p->text);
}

static int say(const struct pf_retention *r, const struct pf_survey *s, struct pf_buf *out)
{
	struct pf_pin_usage usage[4];
	size_t n;
	int e = pf_retention_usage(r, usage, &n);

	for (size_t i = 0; e == 0 && i < s->n_versions; i++) {
		e = pf_retention_version_reasons(r, i, out);
		if (e == 0)
			e = pf_buf_addch(out, '\n');
	}
	for (size_t i = 0; e == 0 && i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		e = pf_buf_addf(out, "%s %d %d %d ", f->path, (int)f->base, (int)f->n_iv, (int)f->presence);
		for (uint32_t k = 0; e == 0 && k < f->n_iv; k++)
			e = pf_buf_addf(out, "%d-%d ", (int)f->iv[k].first, (int)f->iv[k].last);
		if (e == 0)
			e = pf_retention_file_reasons(r, i, out);
		if (e == 0)
			e = pf_buf_addch(out, '\n');
	}
	return e < 0 ? e : pf_retention_problems(r, say_problem, out);
}

static int run(struct pf_lines *l, struct pf_buf *out)
{
	_cleanup_(pf_needs_release) struct pf_needs needs = { NULL, 0 };
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;

	int e = pf_lines_refresh(l, NULL, NULL, NULL);
	if (e < 0)
		return e;
	struct pf_survey *s = l->v[0].survey;
	e = pf_lines_needs(l, &l->v[0], &needs);
	if (e == 0)
		e = pf_survey_measure(s, NULL, NULL);
	if (e < 0)
		return e;
	e = pf_retention_new(&(struct pf_retention_input){ .survey = s, .branches = needs.v, .n_branches = needs.n },
			     &r);
	return e < 0 ? e : say(r, s, out);
}

/* Each allocation fails in its turn, in a new survey; then the same survey is asked again. */
static void test_every_allocation(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;
	unsigned nth = 0, calls;
	struct pf_lines l;

	pf_lines_init(&l, st);
	assert_int_equal(run(&l, &want), 0);
	pf_lines_release(&l);
	assert_non_null(strstr(pf_buf_str(&want), "branch:dev"));
	do {
		_cleanup_(pf_buf_release) struct pf_buf first = PF_BUF_INIT, second = PF_BUF_INIT;
		pf_lines_init(&l, st);
		alloc_fail(++nth);
		int r = run(&l, &first);
		calls = alloc_calls();
		if (r != (calls >= nth ? -ENOMEM : 0))
			fail_msg("allocation %u of %u: %d", nth, calls, r);
		alloc_fail(0);
		assert_int_equal(run(&l, &second), 0);
		assert_string_equal(pf_buf_str(&second), pf_buf_str(&want));
		pf_lines_release(&l);
	} while (calls >= nth);
	assert_true(nth > 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
