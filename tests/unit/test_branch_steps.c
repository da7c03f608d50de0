/* What a branch remembers while it is committed to: our own steps are no reason to list the directory, and hide nothing that others do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "attempt.h"
#include "whole.h"

static uint64_t seen_by(struct pf_branch *b)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_head(b, &m, &why) < 0)
		fail_msg("%s", why.text);
	return m->version;
}

static void count_lists(void *arg, struct pf_store *st, const char *op, const char *name)
{
	*(unsigned *)arg += strcmp(op, "list") == 0 && strcmp(name, "_versions") == 0;
}

/* Design, section 7: one scan at the start, never one a request. */
static void test_own_commits(void **state)
{
	unsigned lists = 0;
	struct world w;

	new_world(&w, &enabled);
	pf_store_mem_set_hook(w.st, count_lists, &lists);
	for (unsigned i = 1; i <= 30; i++) {
		run(&w, op_register(i, 60), 0);
		assert_int_equal(seen_by(w.b), 3 * i + 3);
		run(&w, op_on(PF_OP_RENEW, i, 120), 0);
		run(&w, op_on(PF_OP_RELEASE, i, 0), 0);
		assert_int_equal(seen_by(w.b), 3 * i + 5);
	}
	/* A step that the scheduler cut in two is not trusted, and costs one. */
	if (lists > 20)
		fail_msg("%u lists for 90 commits", lists);
	heal(w.st);
	assert_int_equal(head_version(&w), 95);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* Two committers that take turns: each notices the other, by one list for each change. */
static void test_two_committers(void **state)
{
	unsigned lists = 0;
	struct world w, other = { .like = &enabled };

	new_world(&w, &enabled);
	open_branch(&other, w.st, NULL, 0);
	pf_store_mem_set_hook(w.st, count_lists, &lists);
	for (unsigned i = 1; i <= 10; i++) {
		run(&w, op_register(2 * i, 60), 0);
		run(&other, op_register(2 * i + 1, 60), 0);
		assert_int_equal(seen_by(w.b), 5 + 2 * i);
	}
	heal(w.st);
	assert_in_range(lists, 19, 40);
	assert_int_equal(head_version(&w), 25);
	assert_whole(w.st, "", false);
	pf_committer_free(other.c);
	pf_branch_free(other.b);
	close_world(&w);
}

/*
 * Others commit and clean up so fast that neither the base nor the next version tells: a tag holds the base, what follows it is gone. When
 * call `op` on `name` is about to be made the first time, versions from..to are committed and those below `to` are removed again.
 */
struct hole {
	const char *op, *name;
	uint64_t from, to;
	unsigned wait_ms;
	bool done;
};

static void make_hole(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct hole *h = arg;
	char gone[TABLE_NAME_MAX];

	if (h->done || strcmp(op, h->op) != 0 || !strstr(name, h->name))
		return;
	h->done = true;
	for (uint64_t v = h->from; v <= h->to; v++)
		others_commit(st, v);
	for (uint64_t v = h->from; v < h->to; v++) {
		struct table_version t = { .version = v };
		assert_int_equal(pf_store_mem_del(st, table_manifest_name(&t, gone)), 0);
	}
	nanosleep(&(struct timespec){ .tv_nsec = h->wait_ms * 1000000L }, NULL);
}

static void test_holes(void **state)
{
	static const struct {
		struct hole hole;
		int want;
		bool kept; /* our version 6 */
	} rows[] = {
		{ { "create", "_transactions/", 6, 8 }, -ESTALE, false },
		{ { "sync", "_versions/.tmp", 6, 8 }, -ESTALE, false },
		{ { "link", V6, 6, 7 }, -ESTALE, false },	/* the next version tells */
		{ { "link", V6, 6, 8, 30 }, -ESTALE, false },	/* the time that the step took tells */
		{ { "sync_dir", "_versions", 7, 9 }, 0, true }, /* others go on from ours */
		{ { "open", TXN_6, 7, 9 }, 0, true },
	};
	static const struct table_version like = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct hole h = rows[i].hole;
		struct pf_why why = PF_WHY_INIT;
		struct pf_manifest *m;
		struct attempt w;

		new_attempt(&w, &like);
		pf_store_mem_set_hook(w.st, make_hole, &h);
		int r = publish(&w, &m, &why);
		heal(w.st);
		pf_manifest_unref(m);
		if (r != rows[i].want || exists(w.st, V6) != rows[i].kept || (h.done && seen_by(w.b) != h.to))
			fail_msg("row %zu: %d (%s), head %d", i, r, why.text, (int)seen_by(w.b));
		close_attempt(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_commits),
		cmocka_unit_test(test_two_committers),
		cmocka_unit_test(test_holes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
