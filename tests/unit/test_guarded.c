/* Commits and their guard tags: when a tag comes and goes, and that it never decides what is answered. */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "core/commit.h"
#include "core/flags.h"
#include "core/lost.h"
#include "core/store_mem.h"

#include "pinned.h"

#define NOW   1800000000
#define TAG_A "_refs/tags/pinfs-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json"

struct world {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_committer *c;
	struct pf_time now;
};

static struct pf_time world_clock(void *arg)
{
	return ((struct world *)arg)->now;
}

static int new_world(void **state, bool no_guard)
{
	struct world *w = calloc(1, sizeof(*w));
	struct pf_committer_options o = { .clock = world_clock, .clock_arg = w, .no_guard = no_guard };

	assert_non_null(w);
	w->now.sec = NOW;
	w->st = table_new(2, &(struct table_version){ .writer_flags = PF_FLAG_PINS });
	assert_int_equal(pf_branch_open(w->st, NULL, &w->b, NULL), 0);
	assert_int_equal(pf_committer_new(w->b, &o, &w->c), 0);
	*state = w;
	return 0;
}

static int setup(void **state)
{
	return new_world(state, false);
}

static int setup_no_guard(void **state)
{
	return new_world(state, true);
}

static int teardown(void **state)
{
	struct world *w = *state;

	pf_committer_free(w->c);
	pf_branch_free(w->b);
	pf_store_free(w->st);
	free(w);
	return 0;
}

static struct pf_op op_register(char letter)
{
	return (struct pf_op){ .kind = PF_OP_REGISTER,
			       .request = { .id = pinned_uuid(letter), .expires_at = { NOW + 100, 0 } } };
}

static struct pf_op op_on(enum pf_op_kind kind, char letter, int64_t in)
{
	return (struct pf_op){ .kind = kind, .id = pinned_uuid(letter), .expires_at = { NOW + in, 0 } };
}

/* Run one operation, and want this of it: code, whether it was committed, and in the sentence these words (NULL: any). */
static void want(struct world *w, struct pf_op op, int err, bool committed, int guard, const char *says)
{
	struct pf_answer a;

	assert_int_equal(pf_commit(w->c, &op, &a), err);
	if (a.committed != committed || a.guard != guard || !strstr(a.why.text, says ? says : ""))
		fail_msg("committed %d, guard %d: %s", a.committed, a.guard, a.why.text);
	assert_int_equal(strstr(a.why.text, "warning") != NULL, guard < 0);
	pf_answer_release(&a);
}

static void assert_tags(struct world *w, const char *expected)
{
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	char letters[8] = "";

	assert_int_equal(pf_guards_list(w->b, &l, NULL), 0);
	for (size_t i = 0; i < l.n; i++)
		letters[i] = pinned_letter(&l.v[i].pin);
	assert_string_equal(letters, expected);
}

static void assert_pins(struct world *w, const char *expected)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	char letters[8] = "";

	assert_int_equal(pf_branch_head(w->b, &m, NULL), 0);
	for (size_t i = 0; i < m->pins.n; i++)
		letters[i] = pinned_letter(&m->pins.v[i].id);
	assert_string_equal(letters, expected);
}

static void test_with_the_pin(void **state)
{
	struct world *w = *state;
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	char uuid[PF_UUID_TEXT];

	want(w, op_register('a'), 0, true, 0, NULL);
	want(w, op_register('b'), 0, true, 0, NULL);
	assert_tags(w, "ab");
	assert_int_equal(pf_guards_list(w->b, &l, NULL), 0);
	assert_int_equal(l.v[0].source_version, 2);
	assert_string_equal(l.v[0].source_txn, table_uuid(2, uuid));
	want(w, op_on(PF_OP_RENEW, 'a', 200), 0, true, 0, NULL);
	want(w, op_on(PF_OP_RELEASE, 'a', 0), 0, true, 0, NULL);
	assert_tags(w, "b");
	w->now.sec = NOW + 100;
	want(w, op_on(PF_OP_EXPIRE, 'b', 99), -EAGAIN, false, 0, NULL);
	assert_tags(w, "b");
	want(w, op_on(PF_OP_EXPIRE, 'b', 100), 0, true, 0, NULL);
	assert_tags(w, "");
}

static void test_several_at_once(void **state)
{
	struct world *w = *state;
	struct pf_op ops[] = { op_register('a'), op_register('b'), op_on(PF_OP_RELEASE, 'a', 0), op_register('c') };
	struct pf_answer answers[ARRAY_LEN(ops)];

	assert_int_equal(pf_commit_many(w->c, ops, ARRAY_LEN(ops), answers), 0);
	assert_tags(w, "bc");
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		pf_answer_release(&answers[i]);
}

static void test_a_retry_makes_up_for_it(void **state)
{
	struct world *w = *state;

	want(w, op_register('a'), 0, true, 0, NULL);
	assert_int_equal(pf_store_mem_del(w->st, TAG_A), 0);
	want(w, op_register('a'), 0, false, 0, "registered already");
	assert_tags(w, "a");
}

static void test_none_for_a_refused_pin(void **state)
{
	struct world *w = *state;
	struct pf_op late = op_register('a'), other = op_register('b');
	char label[] = "another";

	late.request.expires_at.sec = NOW;
	want(w, late, -EINVAL, false, 0, NULL);
	want(w, op_register('b'), 0, true, 0, NULL);
	assert_int_equal(pf_store_mem_del(w->st, "_refs/tags/pinfs-bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb.json"), 0);
	other.request.label = label;
	want(w, other, -EEXIST, false, 0, NULL);
	assert_tags(w, "");
}

static void test_no_guard(void **state)
{
	struct world *w = *state;
	_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin('a');

	want(w, op_register('a'), 0, true, 0, NULL);
	assert_tags(w, "");
	/* another process put it: it goes with its pin */
	assert_int_equal(pf_guard_put(w->b, &p, NULL), 0);
	want(w, op_on(PF_OP_RELEASE, 'a', 0), 0, true, 0, NULL);
	assert_tags(w, "");
}

/* Whoever may write _versions may still not be allowed to write _refs. */
static void fail_tags(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strncmp(name, "_refs/tags", strlen("_refs/tags")) == 0 &&
	    (strcmp(op, "link") == 0 || strcmp(op, "unlink") == 0))
		pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EACCES, false);
}

static void test_a_tag_that_fails_is_a_warning(void **state)
{
	struct world *w = *state;

	pf_store_mem_set_hook(w->st, fail_tags, NULL);
	want(w, op_register('a'), 0, true, -EACCES, "pin aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa holds version 2");
	want(w, op_register('a'), 0, false, -EACCES, TAG_A ": Permission denied");
	assert_pins(w, "a");
	pf_store_mem_set_hook(w->st, NULL, NULL);
	want(w, op_register('a'), 0, false, 0, NULL);
	assert_tags(w, "a");

	pf_store_mem_set_hook(w->st, fail_tags, NULL);
	want(w, op_on(PF_OP_RELEASE, 'a', 0), 0, true, -EACCES, "is released; warning: ");
	assert_pins(w, "");
	pf_store_mem_set_hook(w->st, NULL, NULL);
	want(w, op_on(PF_OP_RELEASE, 'a', 0), 0, false, 0, "nothing to release");
	assert_tags(w, "");
}

static void test_waiver(void **state)
{
	struct world *w = *state;
	_cleanup_(pf_lost_list_release) struct pf_lost_list l = { 0 }, none = { 0 };
	struct pf_op waive = op_on(PF_OP_RELEASE, 'a', 0);

	want(w, op_register('a'), 0, true, 0, NULL);
	table_put(w->st, &(struct table_version){ .version = 4, .writer = "8.0.1" });
	assert_int_equal(pf_lost_find(w->b, 0, &l, NULL), 0);
	assert_int_equal(l.n, 1);

	/* to let go of what is not there is no news */
	want(w, op_on(PF_OP_RELEASE, 'b', 0), 0, false, 0, NULL);
	waive.waive = true;
	want(w, waive, 0, true, 0, "is waived");
	assert_int_equal(pf_lost_find(w->b, 0, &none, NULL), 0);
	assert_int_equal(none.n, 0);
	assert_tags(w, "");
}

static void test_renewal_of_a_lost_pin(void **state)
{
	struct world *w = *state;

	want(w, op_register('a'), 0, true, 0, NULL);
	want(w, op_on(PF_OP_RENEW, 'b', 0), -ENOENT, false, 0, "released, expired or never registered");
	table_put(w->st, &(struct table_version){ .version = 4, .writer = "8.0.1" });
	want(w, op_on(PF_OP_RENEW, 'a', 200), -ENOENT, false, 0,
	     "source 2:0badcafe-0000-4000-8000-000000000002 is lost: version 4, written by lance 8.0.1");
	want(w, op_on(PF_OP_RENEW, 'b', 200), -ENOENT, false, 0, "released, expired or never registered");
}

/* While the tag of a is being written, b is registered from first to last. */
struct slow {
	sem_t entered, go_on;
	bool waited;
};

static void wait_in_tag(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct slow *s = arg;
	struct timespec until;

	if (strcmp(op, "link") != 0 || strcmp(name, TAG_A) != 0)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 60;
	sem_post(&s->entered);
	s->waited = sem_timedwait(&s->go_on, &until) == 0;
}

static void *register_a(void *arg)
{
	want(arg, op_register('a'), 0, true, 0, NULL);
	return NULL;
}

static void test_a_slow_tag_holds_up_nobody_else(void **state)
{
	struct world *w = *state;
	struct slow s = { .waited = false };
	pthread_t t;

	sem_init(&s.entered, 0, 0);
	sem_init(&s.go_on, 0, 0);
	pf_store_mem_set_hook(w->st, wait_in_tag, &s);
	assert_int_equal(pthread_create(&t, NULL, register_a, w), 0);
	sem_wait(&s.entered);
	want(w, op_register('b'), 0, true, 0, NULL);
	sem_post(&s.go_on);
	pthread_join(t, NULL);
	assert_true(s.waited);
	assert_tags(w, "ab");
	sem_destroy(&s.entered);
	sem_destroy(&s.go_on);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_with_the_pin),
		TEST(test_several_at_once),
		TEST(test_a_retry_makes_up_for_it),
		TEST(test_none_for_a_refused_pin),
		cmocka_unit_test_setup_teardown(test_no_guard, setup_no_guard, teardown),
		TEST(test_a_tag_that_fails_is_a_warning),
		TEST(test_waiver),
		TEST(test_renewal_of_a_lost_pin),
		TEST(test_a_slow_tag_holds_up_nobody_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
