/* What store_mem.h adds to the contract: faults at chosen calls, and hooks that script what others do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/store_mem.h"

/* A store with a file `f`, open for reading as `file`, a file `g`, and `new` being written. */
struct fixture {
	struct pf_store *st;
	struct pf_file *file;
	struct pf_stage *stage;
};

static void fixture_init(struct fixture *x)
{
	assert_int_equal(pf_store_mem_new(&x->st), 0);
	assert_int_equal(pf_store_mem_put(x->st, "f", "abc", 3), 0);
	assert_int_equal(pf_store_mem_put(x->st, "g", "xyz", 3), 0);
	assert_int_equal(pf_store_open(x->st, "f", &x->file), 0);
	assert_int_equal(pf_store_create(x->st, "new", &x->stage), 0);
}

static void fixture_release(struct fixture *x)
{
	pf_stage_discard(x->stage);
	pf_file_close(x->file);
	pf_store_free(x->st);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	fixture_init(*state);
	return 0;
}

static int teardown(void **state)
{
	fixture_release(*state);
	free(*state);
	return 0;
}

static int count(void *arg, const char *name, bool is_dir)
{
	++*(int *)arg;
	return 0;
}

/* One of each counted call. They succeed; `effect` below says whether one took effect. */

static int do_open(struct fixture *x)
{
	struct pf_file *f = NULL;
	int r = pf_store_open(x->st, "g", &f);
	assert_int_equal(f != NULL, r == 0);
	pf_file_close(f);
	return r;
}

static int do_read(struct fixture *x)
{
	char b[3];
	return x->file->r.read(&x->file->r, 0, b, 3);
}

static int do_stat(struct fixture *x)
{
	struct pf_stat sb;
	return pf_store_stat(x->st, "f", &sb);
}

static int do_list(struct fixture *x)
{
	int n = 0;
	int r = pf_store_list(x->st, ".", count, &n);
	assert_int_equal(n, r == 0 ? 3 : 0);
	return r;
}

static int count_scanned(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *sb)
{
	++*(int *)arg;
	return 0;
}

static int do_scan(struct fixture *x)
{
	int n = 0;
	int r = pf_store_scan(x->st, ".", count_scanned, &n);
	assert_int_equal(n, r == 0 ? 3 : 0);
	return r;
}

static int do_create(struct fixture *x)
{
	struct pf_stage *sg = NULL;
	int r = pf_store_create(x->st, "made", &sg);
	assert_int_equal(sg != NULL, r == 0);
	pf_stage_discard(sg);
	return r;
}

static int do_write(struct fixture *x)
{
	return pf_stage_write(x->stage, "bytes", 5);
}

static int do_copy(struct fixture *x)
{
	return pf_stage_copy(x->stage, x->file, 0, 3);
}

static int do_extend(struct fixture *x)
{
	struct pf_stage *sg = NULL;
	int r = pf_store_extend(x->st, "f", &x->file->st, &sg);
	assert_int_equal(sg != NULL, r == 0);
	pf_stage_discard(sg);
	return r;
}

static int do_put(struct fixture *x)
{
	return pf_stage_put(x->stage, 0, "bytes", 5);
}

static int do_cut(struct fixture *x)
{
	return pf_stage_cut(x->stage, 0);
}

static int do_sync(struct fixture *x)
{
	return pf_stage_sync(x->stage);
}

static int do_link(struct fixture *x)
{
	return pf_store_link(x->st, "f", "made");
}

static int do_rename(struct fixture *x)
{
	return pf_store_rename(x->st, "g", "made");
}

static int do_unlink(struct fixture *x)
{
	return pf_store_unlink(x->st, "g");
}

static int do_remove(struct fixture *x)
{
	return pf_store_remove(x->st, "g", false);
}

static int do_mkdir(struct fixture *x)
{
	return pf_store_mkdir(x->st, "made");
}

static int do_sync_dir(struct fixture *x)
{
	return pf_store_sync_dir(x->st, ".");
}

static bool there(struct fixture *x, const char *name)
{
	struct pf_stat sb;
	return pf_store_stat(x->st, name, &sb) == 0;
}

static bool made(struct fixture *x)
{
	return there(x, "made");
}

static bool gone(struct fixture *x)
{
	return !there(x, "g");
}

static bool grown(struct fixture *x)
{
	struct pf_stat sb;
	assert_int_equal(pf_store_stat(x->st, "new", &sb), 0);
	return sb.size > 0;
}

static const struct {
	const char *op, *name;
	int (*run)(struct fixture *x);
	bool (*effect)(struct fixture *x);
} ops[] = {
	{ "open", "g", do_open },
	{ "read", "f", do_read },
	{ "stat", "f", do_stat },
	{ "list", ".", do_list },
	{ "scan", ".", do_scan },
	{ "create", "made", do_create, made },
	{ "write", "new", do_write, grown },
	{ "copy", "new", do_copy, grown },
	{ "extend", "f", do_extend },
	{ "put", "new", do_put, grown },
	{ "cut", "new", do_cut },
	{ "sync", "new", do_sync },
	{ "link", "made", do_link, made },
	{ "rename", "made", do_rename, made },
	{ "unlink", "g", do_unlink, gone },
	{ "remove", "g", do_remove, gone },
	{ "mkdir", "made", do_mkdir, made },
	{ "sync_dir", ".", do_sync_dir },
};

static void each_call_can_fail_before_and_after(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct fixture x;
		fixture_init(&x);
		pf_store_mem_fault(x.st, 1, PF_FAULT_BEFORE, -EIO, false);
		assert_int_equal(ops[i].run(&x), -EIO);
		assert_false(ops[i].effect && ops[i].effect(&x));
		assert_int_equal(ops[i].run(&x), 0); /* once only */
		fixture_release(&x);

		fixture_init(&x);
		pf_store_mem_fault(x.st, 1, PF_FAULT_AFTER, -ENOSPC, false);
		assert_int_equal(ops[i].run(&x), -ENOSPC);
		assert_true(!ops[i].effect || ops[i].effect(&x));
		fixture_release(&x);
	}
}

static void each_call_counts_once(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct fixture x;
		fixture_init(&x);
		unsigned before = pf_store_mem_calls(x.st);
		assert_int_equal(pf_store_writable(x.st, "."), 0); /* not one of them */
		assert_int_equal(ops[i].run(&x), 0);
		assert_int_equal(pf_store_mem_calls(x.st) - before, 1);
		fixture_release(&x);
	}
}

static void the_nth_call_from_now_fails(void **state)
{
	struct fixture *x = *state;
	pf_store_mem_fault(x->st, 3, PF_FAULT_BEFORE, -EIO, false);
	assert_int_equal(do_stat(x), 0);
	assert_int_equal(pf_store_mem_put(x->st, "other", "", 0), 0); /* not a call */
	assert_int_equal(do_stat(x), 0);
	assert_int_equal(do_stat(x), -EIO);
	assert_int_equal(do_stat(x), 0);

	pf_store_mem_fault(x->st, 2, PF_FAULT_BEFORE, -EIO, true);
	pf_store_mem_fault(x->st, 0, PF_FAULT_BEFORE, 0, false);
	for (int i = 0; i < 5; i++)
		assert_int_equal(do_stat(x), 0);
}

static void a_disk_that_is_gone_stays_gone(void **state)
{
	struct fixture *x = *state;
	pf_store_mem_fault(x->st, 2, PF_FAULT_BEFORE, -EIO, true);
	assert_int_equal(do_stat(x), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(do_mkdir(x), -EIO);
	pf_store_mem_fault(x->st, 0, PF_FAULT_NONE, 0, false);
	assert_false(made(x));

	/* The last thing it did may have happened; nothing after that did. */
	pf_store_mem_fault(x->st, 1, PF_FAULT_AFTER, -EIO, true);
	assert_int_equal(do_link(x), -EIO);
	assert_int_equal(do_unlink(x), -EIO);
	pf_store_mem_fault(x->st, 0, PF_FAULT_NONE, 0, false);
	assert_true(made(x));
	assert_false(gone(x));
}

static void put_and_del_are_what_others_do(void **state)
{
	struct fixture *x = *state;
	struct pf_stat a, b;
	struct pf_buf got = PF_BUF_INIT;
	char old[4] = "";
	assert_int_equal(pf_store_stat(x->st, "f", &a), 0);
	assert_int_equal(pf_store_mem_put(x->st, "f", "123", 3), 0);
	assert_int_equal(pf_store_stat(x->st, "f", &b), 0);
	assert_false(pf_stat_same(&a, &b));
	assert_int_equal(x->file->r.read(&x->file->r, 0, old, 3), 0);
	assert_string_equal(old, "abc"); /* replaced, not overwritten */

	assert_int_equal(pf_store_mem_put(x->st, "tree/a/_versions/1.manifest", "v1", 2), 0);
	assert_int_equal(pf_store_get(x->st, "tree/a/_versions/1.manifest", 9, &got), 0);
	assert_string_equal(pf_buf_str(&got), "v1");
	assert_int_equal(pf_store_mem_put(x->st, "tree/a", "", 0), -EISDIR);
	assert_int_equal(pf_store_mem_put(x->st, "f/below", "", 0), -ENOTDIR);
	assert_int_equal(pf_store_mem_del(x->st, "tree/a/_versions/1.manifest"), 0);
	assert_int_equal(pf_store_mem_del(x->st, "tree/a/_versions/1.manifest"), -ENOENT);
	pf_buf_release(&got);
}

static void note(void *arg, struct pf_store *st, const char *op, const char *name)
{
	assert_int_equal(pf_buf_addf(arg, "%s %s;", op, name), 0);
}

static void the_hook_hears_of_every_call(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		struct fixture x;
		struct pf_buf heard = PF_BUF_INIT;
		char expected[64];
		fixture_init(&x);
		pf_store_mem_set_hook(x.st, note, &heard);
		assert_int_equal(ops[i].run(&x), 0);
		snprintf(expected, sizeof(expected), "%s %s;", ops[i].op, ops[i].name);
		assert_string_equal(pf_buf_str(&heard), expected);
		pf_store_mem_set_hook(x.st, NULL, NULL);
		assert_int_equal(do_stat(&x), 0);
		assert_string_equal(pf_buf_str(&heard), expected);
		pf_buf_release(&heard);
		fixture_release(&x);
	}
}

/* Another process that takes the name just before us, by the same calls. */
static void take_name(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "link") != 0)
		return;
	++*(int *)arg;
	assert_int_equal(pf_store_link(st, "g", name), 0);
	assert_int_equal(pf_store_mem_put(st, "theirs", "1", 1), 0);
}

static void a_hook_can_win_the_race(void **state)
{
	struct fixture *x = *state;
	struct pf_buf got = PF_BUF_INIT;
	int ran = 0;
	pf_store_mem_set_hook(x->st, take_name, &ran);
	unsigned before = pf_store_mem_calls(x->st);
	assert_int_equal(do_link(x), -EEXIST);
	assert_int_equal(ran, 1); /* its own link ran no hook */
	assert_int_equal(pf_store_mem_calls(x->st) - before, 1);
	assert_int_equal(pf_store_get(x->st, "made", 9, &got), 0);
	assert_string_equal(pf_buf_str(&got), "xyz");
	pf_buf_release(&got);
}

static void a_fault_hits_us_and_not_the_hook(void **state)
{
	struct fixture *x = *state;
	int ran = 0;
	pf_store_mem_set_hook(x->st, take_name, &ran);
	pf_store_mem_fault(x->st, 1, PF_FAULT_BEFORE, -EIO, true);
	assert_int_equal(do_link(x), -EIO);
	pf_store_mem_fault(x->st, 0, PF_FAULT_NONE, 0, false);
	assert_true(made(x));
}

struct meeting {
	pthread_barrier_t both;
	struct fixture *x;
	atomic_int good; /* asserted on the main thread: cmocka cannot fail from another */
};

static void meet(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct meeting *m = arg;
	pthread_barrier_wait(&m->both);
	m->good += there(m->x, "f");
	pthread_barrier_wait(&m->both);
}

static void *call_stat(void *arg)
{
	struct meeting *m = arg;
	m->good += do_stat(m->x) == 0;
	return NULL;
}

/* Each thread has its hook: a script may hold one thread back until another has done its part. */
static void hooks_of_two_threads_run_at_once(void **state)
{
	struct meeting m = { .x = *state };
	pthread_t other;
	pthread_barrier_init(&m.both, NULL, 2);
	pf_store_mem_set_hook(m.x->st, meet, &m);
	unsigned before = pf_store_mem_calls(m.x->st);
	assert_int_equal(pthread_create(&other, NULL, call_stat, &m), 0);
	call_stat(&m);
	pthread_join(other, NULL);
	pthread_barrier_destroy(&m.both);
	assert_int_equal(m.good, 4);
	assert_int_equal(pf_store_mem_calls(m.x->st) - before, 2);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_can_fail_before_and_after),
		cmocka_unit_test(each_call_counts_once),
		TEST(the_nth_call_from_now_fails),
		TEST(a_disk_that_is_gone_stays_gone),
		TEST(put_and_del_are_what_others_do),
		cmocka_unit_test(the_hook_hears_of_every_call),
		TEST(a_hook_can_win_the_race),
		TEST(a_fault_hits_us_and_not_the_hook),
		TEST(hooks_of_two_threads_run_at_once),
	};
	return cmocka_run_group_tests_name("store_mem", tests, NULL, NULL);
}
