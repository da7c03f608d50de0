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

/* A step that takes so long is not trusted (branch.c): on a busy machine the scheduler may have cut it in two. */
#define STEP_MAX_NS 20000000

static bool may_be_cut(int64_t began)
{
	return pf_time_steady_ns() - began >= STEP_MAX_NS;
}

/* What is cut costs one list in this commit, and one in the next. */
#define LISTS_OF_CUT 2

/* Run one. *cut: how many were perhaps cut. */
static void run_counted(struct world *w, struct pf_op op, unsigned *cut)
{
	int64_t began = pf_time_steady_ns();

	run(w, op, 0);
	*cut += may_be_cut(began);
}

/* Design, section 7: one scan at the start, never one a request. */
static void test_own_commits(void **state)
{
	unsigned lists = 0, cut = 0;
	struct world w;

	new_world(&w, &enabled);
	pf_store_mem_set_hook(w.st, count_lists, &lists);
	for (unsigned i = 1; i <= 30; i++) {
		run_counted(&w, op_register(i, 60), &cut);
		assert_int_equal(seen_by(w.b), 3 * i + 3);
		run_counted(&w, op_on(PF_OP_RENEW, i, 120), &cut);
		run_counted(&w, op_on(PF_OP_RELEASE, i, 0), &cut);
		assert_int_equal(seen_by(w.b), 3 * i + 5);
	}
	if (lists > LISTS_OF_CUT * cut)
		fail_msg("%u lists for 90 commits, of which %u took long", lists, cut);
	heal(w.st);
	assert_int_equal(head_version(&w), 95);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* Two committers that take turns: each notices the other, by one list for each change. */
static void test_two_committers(void **state)
{
	unsigned lists = 0, cut = 0;
	struct world w, other = { .like = &enabled };

	new_world(&w, &enabled);
	open_branch(&other, w.st, NULL, 0);
	pf_store_mem_set_hook(w.st, count_lists, &lists);
	for (unsigned i = 1; i <= 10; i++) {
		run_counted(&w, op_register(2 * i, 60), &cut);
		run_counted(&other, op_register(2 * i + 1, 60), &cut);
		assert_int_equal(seen_by(w.b), 5 + 2 * i);
	}
	heal(w.st);
	assert_in_range(lists, 19, 20 + LISTS_OF_CUT * cut);
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
		int64_t began = pf_time_steady_ns();
		int r = publish(&w, &m, &why);
		/* What was cut tells less than it was to, and may leave it open what our version is: then that stays. */
		bool open = r == -EINPROGRESS && may_be_cut(began + h.wait_ms * INT64_C(1000000));
		heal(w.st);
		pf_manifest_unref(m);
		if ((r != rows[i].want && !open) || exists(w.st, V6) != (rows[i].kept || open) ||
		    (h.done && seen_by(w.b) != h.to))
			fail_msg("row %zu: %d (%s), head %d", i, r, why.text, (int)seen_by(w.b));
		close_attempt(&w);
	}
}

/*
 * Others go on from ours before we have looked back, and others did something before: now only the times of the files can tell that ours was not
 * in their way. Where these do not, what others may have built on stays.
 */
struct followed {
	int64_t set_clock; /* seconds, before the others */
	uint64_t to, gone; /* their last version, and those after ours that they have removed again */
	int want;
	bool done;
};

static void be_followed(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct followed *f = arg;
	char gone[TABLE_NAME_MAX];

	if (strcmp(op, "create") == 0 && strstr(name, "_transactions/"))
		assert_int_equal(pf_store_mem_put(st, "_versions/.tmp-of-others", "x", 1), 0);
	if (f->done || strcmp(op, "sync_dir") != 0 || strcmp(name, "_versions") != 0)
		return;
	f->done = true;
	/* Not whole ticks: no two times are the same by accident. */
	pf_store_mem_set_clock(st, f->set_clock * 1000000000 + 1);
	for (uint64_t v = 7; v <= f->to; v++)
		others_commit(st, v);
	for (uint64_t v = 7; v < 7 + f->gone; v++) {
		struct table_version t = { .version = v };
		assert_int_equal(pf_store_mem_del(st, table_manifest_name(&t, gone)), 0);
	}
}

static void test_followed(void **state)
{
	static const struct followed rows[] = {
		{ 0, 7, 0, 0 },
		{ 0, 9, 0, 0 },
		{ 3600, 9, 0, 0 },
		{ -3600, 7, 0, -EINPROGRESS },
		{ -3600, 9, 0, -EINPROGRESS },
		{ -3600, 9, 2, -EINPROGRESS },
		{ 0, 9, 2, -EINPROGRESS }, /* the next version is gone: a tag may hold ours */
		{ 0, 8, 1, -EINPROGRESS },
	};
	static const struct table_version like = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct followed f = rows[i];
		struct pf_why why = PF_WHY_INIT;
		struct pf_manifest *m;
		struct attempt w;

		new_attempt(&w, &like);
		pf_store_mem_set_hook(w.st, be_followed, &f);
		int r = publish(&w, &m, &why);
		heal(w.st);
		pf_manifest_unref(m);
		if (r != f.want || !f.done || !exists(w.st, V6) || !exists(w.st, TXN_6) || seen_by(w.b) != f.to)
			fail_msg("row %zu: %d (%s), head %d", i, r, why.text, (int)seen_by(w.b));
		/* Looking again later gives no other answer, and takes nothing away. */
		if (r < 0) {
			assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, NULL), -EINPROGRESS);
			assert_true(exists(w.st, V6) && exists(w.st, TXN_6));
		}
		close_attempt(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_commits),
		cmocka_unit_test(test_two_committers),
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_followed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
