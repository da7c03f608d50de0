/*
 * Memory that runs out while somebody asks what is kept and why, at every allocation: -ENOMEM comes out, nothing leaks, and the same account says the same
 * when it is asked again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/render_retention.h"

#include "alloc.h"
#include "moved.h"

static const struct pf_time now = { .sec = 1767225600 + 86400 };

/* Everything that can be asked. */
static int ask(struct pf_explain *e, struct pf_buf *out)
{
	_cleanup_(pf_freep) char *name = NULL;
	const struct pf_fri *f;

	int r = pf_render_retention(e, out, NULL);
	for (size_t i = 0; r == 0 && i < e->survey->n_versions; i++)
		r = pf_render_kept_version(e, i, out);
	if (r == 0)
		r = pf_explain_fri(e, &f, NULL);
	for (size_t i = 0; r == 0 && i < f->n_records; i++)
		r = pf_render_fri_record(e, i, out, NULL);
	if (r == 0)
		r = pf_render_files(e, out, NULL);
	if (r == 0)
		r = pf_render_expired(&e->survey->pins, e->now, out);
	int64_t file = r == 0 ? pf_explain_find(e, "./data/9.lance", &name) : r;
	return file < 0 ? (int)file : pf_explain_name(e, (size_t)file, out);
}

static int run(struct pf_lines *l, struct pf_explain **e, struct pf_buf *out)
{
	int r = pf_explain_new(l, &l->v[0], now, NULL, e, NULL);

	return r < 0 ? r : ask(*e, out);
}

static void test_every_allocation(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = moved_table();
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;
	_cleanup_(pf_explain_freep) struct pf_explain *whole = NULL;
	_cleanup_(pf_lines_release) struct pf_lines l = { NULL };
	unsigned nth = 0, calls;

	pf_lines_init(&l, st);
	assert_int_equal(pf_lines_refresh(&l, NULL, NULL, NULL), 0);
	assert_int_equal(run(&l, &whole, &want), 0);
	do {
		_cleanup_(pf_explain_freep) struct pf_explain *e = NULL;
		_cleanup_(pf_buf_release) struct pf_buf first = PF_BUF_INIT, second = PF_BUF_INIT;
		/* What is remembered of lost pins would spare the next look. */
		l.v[0].none_lost = 0;
		alloc_fail(++nth);
		int r = run(&l, &e, &first);
		calls = alloc_calls();
		if (r != (calls >= nth ? -ENOMEM : 0))
			fail_msg("allocation %u of %u: %d", nth, calls, r);
		alloc_fail(0);
		assert_int_equal(e ? ask(e, &second) : run(&l, &e, &second), 0);
		assert_string_equal(pf_buf_str(&second), pf_buf_str(&want));
	} while (calls >= nth);
	assert_true(nth > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
