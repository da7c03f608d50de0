/* A commit attempt and the rest of the world (design: section 1; cases-open A09, A10, A11, A20): other writers between any two steps, and storage
 * that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "attempt.h"
#include "whole.h"

/*
 * What others do in between.
 */

static void take_6(struct pf_store *st)
{
	others_commit(st, 6);
}

static void test_lost_race(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, take_6);
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, &why), -ESTALE);
	assert_non_null(strstr(why.text, "version 6"));
	assert_nothing_left(w.st);
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

static void junk_6(struct pf_store *st)
{
	assert_int_equal(pf_store_mem_put(st, V6, "ten bytes!", 10), 0);
}

/* Somebody has our number with a file that cannot be read: certainly not ours. The next look at the head will say what is wrong. */
static void test_lost_to_junk(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, junk_6);
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_int_equal(pf_store_mem_del(w.st, V6), 0);
	assert_nothing_left(w.st);
	close_attempt(&w);
}

static void base_goes(struct pf_store *st)
{
	others_commit(st, 6);
	others_commit(st, 7);
	for (uint64_t v = 1; v <= 6; v++) {
		char name[TABLE_NAME_MAX];
		struct table_version t = { .version = v };
		assert_int_equal(pf_store_mem_del(st, table_manifest_name(&t, name)), 0);
	}
}

/* A10: gone before we copy from it. */
static void test_base_vanished(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("open", V5, base_goes);
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_attempt(&w);
}

/* A09: our number is free again, below the head. */
static void test_gap(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, base_goes);
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, &why), -ESTALE);
	assert_non_null(strstr(why.text, "version 6 fell into a gap below the head, 7"));
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_attempt(&w);
}

/* The same with the version after ours cleaned up as well. */
static void wide_gap(struct pf_store *st)
{
	base_goes(st);
	others_commit(st, 8);
	assert_int_equal(pf_store_mem_del(st, "_versions/18446744073709551608.manifest"), 0);
}

static void test_wide_gap(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, wide_gap);
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_attempt(&w);
}

static void add_7_and_8(struct pf_store *st)
{
	others_commit(st, 7);
	others_commit(st, 8);
}

/* Somebody continues from ours before we have looked back: ours is on the line. */
static void test_passed_at_once(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("sync_dir", "_versions", add_7_and_8);
	struct attempt w;
	struct pf_manifest *m;
	uint64_t at;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_int_equal(m->version, 6);
	pf_manifest_unref(m);
	heal(w.st);
	assert_int_equal(count_landed(w.st, UUID, &at), 1);
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

/*
 * What storage does.
 */

static int publish_trapped(struct attempt *w, struct trap *t, struct pf_manifest **m, struct pf_why *why)
{
	set_trap(w->st, t);
	int r = publish(w, m, why);
	heal(w->st);
	assert_int_not_equal(t->hits, 0);
	return r;
}

/* link(2) took effect and reported something else: a lost reply. */
static void test_link_that_landed(void **state)
{
	static const struct table_version like = { 0 };
	static const int errs[] = { -EIO, -EEXIST, -EINTR, -ENOSPC, -ENOENT };

	for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
		struct trap t = { "link", V6, PF_FAULT_AFTER, errs[i], .times = 1 };
		struct attempt w;
		struct pf_manifest *m;
		new_attempt(&w, &like);
		assert_int_equal(publish_trapped(&w, &t, &m, NULL), 0);
		pf_manifest_unref(m);
		assert_int_equal(count_staged(w.st, "_versions"), 0);
		assert_whole(w.st, "", false);
		close_attempt(&w);
	}
}

static void test_link_that_failed(void **state)
{
	static const struct table_version like = { 0 };
	static const int errs[] = { -EIO, -EACCES, -ENOSPC, -EROFS, -EINTR, -EPERM, -EMLINK };

	for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
		struct trap t = { "link", V6, PF_FAULT_BEFORE, errs[i], .times = 1 };
		struct pf_why why = PF_WHY_INIT;
		struct attempt w;
		struct pf_manifest *m;
		new_attempt(&w, &like);
		assert_int_equal(publish_trapped(&w, &t, &m, &why), errs[i]);
		assert_non_null(strstr(why.text, V6));
		assert_non_null(strstr(why.text, strerror(-errs[i])));
		assert_nothing_left(w.st);
		assert_whole(w.st, "", false);
		close_attempt(&w);
	}
}

/* link(2) reports an error, is not there yet, and arrives; the name it linked from is gone before we remove it. */
static void run_delayed_link(void *arg, struct pf_store *st, const char *op, const char *name)
{
	int *step = arg;

	if (*step == 0 && strcmp(op, "link") == 0 && strcmp(name, V6) == 0) {
		*step = 1;
		pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EIO, false);
	} else if (*step == 1 && strcmp(op, "unlink") == 0 && strncmp(name, "_versions/.tmp", 14) == 0) {
		*step = 2;
		assert_int_equal(pf_store_link(st, name, V6), 0);
		assert_int_equal(pf_store_unlink(st, name), 0);
	}
}

static void test_link_that_arrives_late(void **state)
{
	static const struct table_version like = { 0 };
	struct attempt w;
	struct pf_manifest *m;
	int step = 0;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_delayed_link, &step);
	assert_int_equal(publish(&w, &m, NULL), 0);
	heal(w.st);
	assert_int_equal(step, 2);
	pf_manifest_unref(m);
	assert_true(exists(w.st, TXN_6));
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

/* A11: the manifest is in place and cannot be made durable. */
static void test_sync_fails(void **state)
{
	static const struct table_version like = { 0 };
	struct trap once = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, .times = 1 };
	struct trap forever = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, true };
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;
	struct pf_manifest *m = NULL;

	new_attempt(&w, &like);
	assert_int_equal(publish_trapped(&w, &once, &m, NULL), 0);
	pf_manifest_unref(m);
	close_attempt(&w);

	new_attempt(&w, &like);
	assert_int_equal(publish_trapped(&w, &forever, &m, &why), -EINPROGRESS);
	assert_non_null(strstr(why.text, "version 6"));
	assert_non_null(strstr(why.text, UUID));
	/* Nothing was removed, least of all what the manifest needs. */
	assert_true(exists(w.st, V6));
	assert_true(exists(w.st, TXN_6));
	assert_whole(w.st, "", false);

	/* Storage is back: the question has an answer, and the same one each time. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, NULL), 1);
		assert_int_equal(m->version, 6);
		pf_manifest_unref(m);
	}
	close_attempt(&w);
}

static void test_settle(void **state)
{
	static const struct table_version like = { 0 };
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;

	/* Nothing there: no, and its transaction file goes. */
	new_attempt(&w, &like);
	assert_int_equal(pf_store_mem_put(w.st, TXN_6, "x", 1), 0);
	assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, NULL), 0);
	assert_nothing_left(w.st);
	/* Another's version: no. */
	others_commit(w.st, 6);
	assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, NULL), 0);
	/* A number below the head that nobody has: nobody knows what was there. */
	others_commit(w.st, 7);
	assert_int_equal(pf_store_mem_del(w.st, V6), 0);
	assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, &why), -EINPROGRESS);
	assert_non_null(strstr(why.text, UUID));
	/* Storage that does not answer. */
	pf_store_mem_fault(w.st, 1, PF_FAULT_BEFORE, -EIO, true);
	assert_int_equal(pf_publish_settle(w.b, 8, 7, UUID, &m, NULL), -EINPROGRESS);
	close_attempt(&w);
}

/* A20: whatever is wrong with the hint is no business of the commit. */
static void test_hint_is_only_a_hint(void **state)
{
	static const struct table_version like = { 0 };
	struct trap full = { "create", "-hint", PF_FAULT_BEFORE, -ENOSPC, true };
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	assert_int_equal(publish_trapped(&w, &full, &m, NULL), 0);
	pf_manifest_unref(m);
	close_attempt(&w);

	new_attempt(&w, &like);
	assert_int_equal(pf_store_mkdir(w.st, "_versions/latest_version_hint.json"), 0);
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);
	assert_int_equal(count_staged(w.st, "_versions"), 0);
	close_attempt(&w);
}

static void test_unknown_writer_bit(void **state)
{
	static const struct table_version like = { .writer_flags = UINT64_C(1) << 40 };
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	table_list(w.st, ".", &before);
	assert_int_equal(publish(&w, &m, &why), -EOPNOTSUPP);
	assert_non_null(strstr(why.text, "40"));
	table_list(w.st, ".", &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	close_attempt(&w);
}

static void test_last_version(void **state)
{
	struct pf_store *st = table_new(0, &(struct table_version){ 0 });
	static const struct table_version last = { .version = INT64_MAX, .timestamp = { 1700000000, 0 } };
	struct attempt w;
	struct pf_manifest *m;

	table_put(st, &last);
	open_attempt(&w, st, NULL);
	assert_int_equal(publish(&w, &m, NULL), -EOPNOTSUPP);
	close_attempt(&w);
}

/* Every call, every way to fail: what was answered is what happened, and the table is whole. */
static bool fail_call(unsigned n, enum pf_fault kind, int err, bool forever, bool v1)
{
	struct table_version like = { .v1 = v1 };
	struct pf_why why = PF_WHY_INIT;
	struct attempt w;
	struct pf_manifest *m;
	uint64_t at = 0;

	new_attempt(&w, &like);
	unsigned before = pf_store_mem_calls(w.st);
	pf_store_mem_fault(w.st, n, kind, err, forever);
	int r = publish(&w, &m, &why);
	bool reached = pf_store_mem_calls(w.st) - before >= n;
	pf_store_mem_fault(w.st, 0, PF_FAULT_NONE, 0, false);

	unsigned landed = count_landed(w.st, UUID, &at);
	if (r == 0 ? landed != 1 : r != -EINPROGRESS && landed != 0)
		fail_msg("call %u, kind %d, err %d, forever %d: answered %d (%s), landed %u times", n, kind, err,
			 forever, r, why.text, landed);
	if (r == 0)
		pf_manifest_unref(m);
	else if (!why.text[0])
		fail_msg("call %u, kind %d, err %d: %d without a sentence", n, kind, err, r);
	/* With the storage gone for good nothing can be tidied; a single fault leaves at most names that cleanup collects. */
	assert_whole(w.st, "", forever || r == -EINPROGRESS);
	if (r < 0 && r != -EINPROGRESS && !forever)
		assert_int_equal(count_staged(w.st, "_versions") + count_staged(w.st, "_transactions"), 0);
	if (r == -EINPROGRESS)
		assert_int_equal(pf_publish_settle(w.b, 6, 5, UUID, &m, NULL), landed);
	if (r == -EINPROGRESS && landed)
		pf_manifest_unref(m);
	close_attempt(&w);
	return reached;
}

static void test_every_call_fails(void **state)
{
	static const int errs[] = { -EIO, -ENOSPC, -EACCES, -EINTR };

	for (int v1 = 0; v1 <= 1; v1++) {
		for (size_t e = 0; e < ARRAY_LEN(errs); e++) {
			for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], false, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, errs[e], false, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], true, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, errs[e], true, v1); n++)
				;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lost_race),
		cmocka_unit_test(test_lost_to_junk),
		cmocka_unit_test(test_base_vanished),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_wide_gap),
		cmocka_unit_test(test_passed_at_once),
		cmocka_unit_test(test_link_that_landed),
		cmocka_unit_test(test_link_that_failed),
		cmocka_unit_test(test_link_that_arrives_late),
		cmocka_unit_test(test_sync_fails),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_hint_is_only_a_hint),
		cmocka_unit_test(test_unknown_writer_bit),
		cmocka_unit_test(test_last_version),
		cmocka_unit_test(test_every_call_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
