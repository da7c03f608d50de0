/* What each operation commits, alone and with others (design: section 2; cases-open B01, B05, B07, B08, B26). */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire.h"

#include "whole.h"
#include "world.h"

static void test_register(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct world w;

	new_world(&w, &enabled);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 6);
	assert_int_equal(a.attempts, 1);
	assert_int_equal(a.pin.source_version, 5);
	assert_string_equal(a.pin.source_txn, SOURCE_5);
	assert_int_equal(a.pin.created_at.sec, NOW);
	assert_string_equal(a.pin.label, "");
	pf_answer_release(&a);

	assert_int_equal(head_version(&w), 6);
	assert_int_equal(stored(&w, 1), 60);
	txn_of_head(&w, &txn);
	assert_int_equal(txn.kind, PF_OP_REGISTER);
	assert_int_equal(txn.operation, 110);
	assert_int_equal(txn.read_version, 5);
	assert_int_equal(txn.pins.n, 1);
	assert_string_equal(txn.pins.v[0].source_txn, SOURCE_5);
	assert_string_equal(txn.message,
			    "register pin aa000100-0000-0000-0000-000000000000 until 2027-01-15T08:01:00Z");
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* B26: the same request makes one pin and one version, however often and whatever came in between. */
static void test_register_again(void **state)
{
	struct world w;

	new_world(&w, &enabled);
	run(&w, op_named(1, 60, 5, SOURCE_5), 0);
	run(&w, op_register(2, 60), 0);
	for (int i = 0; i < 3; i++) {
		w.now.sec += 100; /* past its expiry, too */
		struct pf_answer a = want(&w, op_named(1, 60, 5, SOURCE_5), 0);
		assert_false(a.committed);
		assert_int_equal(a.version, 7);
		assert_int_equal(a.attempts, 0);
		assert_int_equal(a.pin.source_version, 5);
		assert_int_equal(a.pin.created_at.sec, NOW);
		pf_answer_release(&a);
	}
	assert_int_equal(head_version(&w), 7);
	run(&w, op_named(1, 61, 5, SOURCE_5), -EEXIST);
	close_world(&w);
}

static void test_two_on_one_source(void **state)
{
	struct world w;

	new_world(&w, &enabled);
	run(&w, op_named(1, 60, 5, SOURCE_5), 0);
	struct pf_answer a = want(&w, op_named(2, 60, 5, SOURCE_5), -ESTALE);
	assert_true(has(&a, "make a new request"));
	pf_answer_release(&a);
	assert_int_equal(head_version(&w), 6);
	close_world(&w);
}

/* B07, B08, E08: renewal changes expires_at, and nothing of what another implementation put into the record. */
static void test_renew(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf record = PF_BUF_INIT, pins = PF_BUF_INIT;
	struct table_version like = { .writer_flags = BIT_PINS, .pins = &pins };
	struct world w;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	/* id, source_version 4, its uuid, created 1, expires NOW, label x, unknown field 9 */
	static const char raw[] = "\x0a\x12\x0a\x10\xaa\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\x04\x1a\x24" SOURCE_5
				  "\x22\x02\x08\x01\x2a\x06\x08\x80\xa4\xa7\xda\x06\x32\x01x\x4a\x03new";
	assert_int_equal(pf_wire_put_bytes(&pins, 10395, raw, sizeof(raw) - 1), 0);
	new_world(&w, &like);
	w.now.sec += 5000; /* overdue and not removed: still a pin */
	struct pf_answer a = want(&w, op_on(PF_OP_RENEW, 1, 9000), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 6);
	assert_int_equal(a.pin.expires_at.sec, NOW + 9000);
	assert_int_equal(a.pin.created_at.sec, 1);
	pf_answer_release(&a);

	m = head_of(&w);
	const struct pf_buf *got = &m->pins.v[0].raw;
	assert_int_equal(m->pins.n, 1);
	assert_string_equal(m->pins.v[0].label, "x");
	assert_int_equal(got->len, sizeof(raw) - 1);
	assert_memory_equal(got->data + got->len - 5, "\x4a\x03new", 5);

	a = want(&w, op_on(PF_OP_RENEW, 1, 9000), 0);
	assert_false(a.committed);
	assert_true(has(&a, "already long enough"));
	pf_answer_release(&a);
	run(&w, op_on(PF_OP_RENEW, 3, 9000), -ENOENT);
	assert_int_equal(head_version(&w), 6);
	close_world(&w);
}

static void test_release(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct world w;

	new_world(&w, &enabled);
	run(&w, op_register(1, 60), 0);
	struct pf_answer a = want(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 7);
	assert_int_equal(a.pin.source_version, 5); /* as it was */
	pf_answer_release(&a);
	assert_int_equal(stored(&w, 1), -1);
	txn_of_head(&w, &txn);
	assert_int_equal(txn.kind, PF_OP_RELEASE);
	assert_string_equal(txn.message, "release pin aa000100-0000-0000-0000-000000000000");

	a = want(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	assert_false(a.committed);
	assert_false(pf_uuid_valid(&a.pin.id));
	pf_answer_release(&a);
	assert_int_equal(head_version(&w), 7);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(&w);
	assert_true(m->writer_flags & BIT_PINS);
	close_world(&w);
}

static void test_enable(void **state)
{
	static const struct table_version plain = { .writer_flags = 8 };
	struct world w;

	new_world(&w, &plain);
	struct pf_answer a = want(&w, op_register(1, 60), -EOPNOTSUPP);
	assert_true(has(&a, "pinctl enable --apply"));
	pf_answer_release(&a);
	a = want(&w, op_on(PF_OP_ENABLE, 0, 0), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 6);
	pf_answer_release(&a);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(&w);
	assert_int_equal(m->writer_flags, BIT_PINS | 8);
	a = want(&w, op_on(PF_OP_ENABLE, 0, 0), 0);
	assert_false(a.committed);
	pf_answer_release(&a);
	run(&w, op_register(1, 60), 0);
	assert_int_equal(head_version(&w), 7);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* A clock that steps back, or is behind another host's: versions do not go back in time, and a pin says what its host thought. */
static void test_clock_behind(void **state)
{
	struct table_version like = { .writer_flags = BIT_PINS, .timestamp = { NOW + 7200, 5 } };
	struct world w;

	new_world(&w, &like);
	run(&w, op_register(1, 60), 0);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(&w);
	assert_int_equal(m->timestamp.sec, NOW + 7200);
	assert_int_equal(m->timestamp.nsec, 5);
	assert_int_equal(m->pins.v[0].created_at.sec, NOW);
	w.now.sec += 10000;
	run(&w, op_on(PF_OP_RENEW, 1, 20000), 0);
	pf_manifest_unref(m);
	m = head_of(&w);
	assert_int_equal(m->timestamp.sec, NOW + 10000);
	close_world(&w);
}

/*
 * Several in one commit.
 */

static void test_many_registers(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_op ops[] = { op_register(1, 60), op_register(2, 60), op_register(1, 60),
			       op_register(1, 61), op_register(3, -1), op_named(4, 60, 4, SOURCE_5) };
	static const int errs[] = { 0, 0, 0, -EEXIST, -EINVAL, -ESTALE };
	struct pf_answer a[ARRAY_LEN(ops)];
	struct world w;

	new_world(&w, &enabled);
	many(&w, ops, ARRAY_LEN(ops), a);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		assert_int_equal(a[i].err, errs[i]);
	/* Both new pins on one source; the repeated one is the first one's. */
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(a[i].version, 6);
		assert_int_equal(a[i].pin.source_version, 5);
		assert_int_equal(a[i].committed, i < 2);
	}
	release_answers(a, ARRAY_LEN(ops));
	assert_int_equal(head_version(&w), 6);
	txn_of_head(&w, &txn);
	assert_int_equal(txn.pins.n, 2);
	assert_string_equal(txn.message, "register 2 pins");
	close_world(&w);
}

static void test_many_renewals(void **state)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_op regs[] = { op_register(1, 60), op_register(2, 60) };
	struct pf_op ops[] = { op_on(PF_OP_RENEW, 1, 100), op_on(PF_OP_RENEW, 9, 100), op_on(PF_OP_RENEW, 2, 60),
			       op_on(PF_OP_RENEW, 1, 300), op_on(PF_OP_RENEW, 1, 200) };
	static const int errs[] = { 0, -ENOENT, 0, 0, 0 };
	static const int64_t stands_at[] = { 100, 0, 60, 300, 300 };
	struct pf_answer a[ARRAY_LEN(ops)];
	struct world w;

	new_world(&w, &enabled);
	many(&w, regs, 2, a);
	release_answers(a, 2);
	many(&w, ops, ARRAY_LEN(ops), a);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		assert_int_equal(a[i].err, errs[i]);
		if (a[i].err == 0)
			assert_int_equal(a[i].pin.expires_at.sec, NOW + stands_at[i]);
	}
	assert_int_equal(a[2].version, 6); /* was so already */
	assert_false(a[2].committed);
	assert_int_equal(a[4].version, 7); /* is so by the renewal before it */
	release_answers(a, ARRAY_LEN(ops));
	assert_int_equal(head_version(&w), 7);
	assert_int_equal(stored(&w, 1), 300);
	txn_of_head(&w, &txn);
	assert_int_equal(txn.pins.n, 1);
	assert_int_equal(txn.pins.v[0].expires_at.sec, NOW + 300);
	close_world(&w);
}

/* B01, B05: exactly those that are due and unchanged. */
static void test_many_expire(void **state)
{
	struct pf_op regs[] = { op_register(1, 60), op_register(2, 60), op_register(3, 500), op_register(4, 60) };
	struct pf_op ops[] = { op_on(PF_OP_EXPIRE, 1, 60), op_on(PF_OP_EXPIRE, 2, 60), op_on(PF_OP_EXPIRE, 3, 500),
			       op_on(PF_OP_EXPIRE, 4, 60), op_on(PF_OP_EXPIRE, 5, 60) };
	static const int errs[] = { 0, -EAGAIN, -EAGAIN, 0, 0 };
	struct pf_answer a[ARRAY_LEN(ops)];
	struct world w;

	new_world(&w, &enabled);
	many(&w, regs, ARRAY_LEN(regs), a);
	release_answers(a, ARRAY_LEN(regs));
	run(&w, op_on(PF_OP_RENEW, 2, 100), 0);
	w.now.sec += 101;
	many(&w, ops, ARRAY_LEN(ops), a);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		assert_int_equal(a[i].err, errs[i]);
	release_answers(a, ARRAY_LEN(ops));
	assert_int_equal(head_version(&w), 8);
	assert_int_equal(stored(&w, 1), -1);
	assert_int_equal(stored(&w, 2), 100);
	assert_int_equal(stored(&w, 3), 500);
	assert_int_equal(stored(&w, 4), -1);
	close_world(&w);
}

/* Of one caller, what comes later sees what came before, whatever the kinds. */
static void test_many_kinds(void **state)
{
	struct pf_op ops[] = { op_register(1, 60), op_on(PF_OP_RELEASE, 1, 0), op_register(1, 90),
			       op_on(PF_OP_RENEW, 1, 100) };
	struct pf_answer a[ARRAY_LEN(ops)];
	struct world w;

	new_world(&w, &enabled);
	many(&w, ops, ARRAY_LEN(ops), a);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		assert_int_equal(a[i].err, 0);
		assert_int_equal(a[i].version, 6 + i);
	}
	release_answers(a, ARRAY_LEN(ops));
	assert_int_equal(stored(&w, 1), 100);
	close_world(&w);
}

/* The commit fails: so does what needed it, and what leaned on that; the rest keeps its answer. */
static void test_many_fail(void **state)
{
	static const struct {
		struct trap trap;
		int err;
	} rows[] = {
		{ { "create", "_versions", PF_FAULT_BEFORE, -ENOSPC, false }, -ENOSPC },
		{ { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, true }, -EINPROGRESS },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_op regs[] = { op_register(1, 60), op_register(2, 60) };
		struct pf_op ops[] = { op_on(PF_OP_RENEW, 1, 100), op_on(PF_OP_RENEW, 1, 70), op_on(PF_OP_RENEW, 2, 60),
				       op_on(PF_OP_RENEW, 9, 60) };
		struct pf_answer a[ARRAY_LEN(ops)];
		struct trap t = rows[i].trap;
		struct world w;

		new_world(&w, &enabled);
		many(&w, regs, 2, a);
		release_answers(a, 2);
		set_trap(w.st, &t);
		many(&w, ops, ARRAY_LEN(ops), a);
		heal(w.st);
		assert_int_equal(a[0].err, rows[i].err);
		assert_int_equal(a[1].err, rows[i].err);
		assert_int_equal(a[2].err, 0);
		assert_int_equal(a[3].err, -ENOENT);
		release_answers(a, ARRAY_LEN(ops));
		close_world(&w);
	}
}

/*
 * Many threads.
 */

#define THREADS 50

struct crowd {
	struct world *w;
	atomic_uint asked; /* threads that are about to submit */
	pthread_t threads[THREADS];
	int64_t in;
	int errs[THREADS];
};

struct member {
	struct crowd *crowd;
	unsigned n;
};

static void *renew_one(void *arg)
{
	struct member *m = arg;
	struct pf_op op = op_on(PF_OP_RENEW, m->n, m->crowd->in);
	struct pf_answer a;

	m->crowd->asked++;
	m->crowd->errs[m->n] = pf_commit(m->crowd->w->c, &op, &a);
	if (a.err == 0 && a.pin.expires_at.sec != op.expires_at.sec)
		m->crowd->errs[m->n] = -EBADMSG;
	pf_answer_release(&a);
	return NULL;
}

/* Hold the first commit open until everybody has come. */
static void wait_for_all(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct crowd *c = arg;

	if (strcmp(op, "link") == 0)
		while (c->asked < THREADS)
			sched_yield();
}

static void test_crowd(void **state)
{
	struct pf_op regs[THREADS];
	struct pf_answer a[THREADS];
	struct member members[THREADS];
	struct world w;
	struct crowd c = { .w = &w };

	new_world(&w, &enabled);
	for (unsigned i = 0; i < THREADS; i++)
		regs[i] = op_register(i, 60);
	many(&w, regs, THREADS, a);
	release_answers(a, THREADS);
	/* One is released, so one renewal must fail, alone. */
	run(&w, op_on(PF_OP_RELEASE, 7, 0), 0);
	uint64_t before = head_version(&w);

	for (int round = 1; round <= 5; round++) {
		c.asked = 0;
		c.in = 60 + round;
		pf_store_mem_set_hook(w.st, wait_for_all, &c);
		for (unsigned i = 0; i < THREADS; i++) {
			members[i] = (struct member){ &c, i };
			assert_int_equal(pthread_create(&c.threads[i], NULL, renew_one, &members[i]), 0);
		}
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(c.threads[i], NULL), 0);
		pf_store_mem_set_hook(w.st, NULL, NULL);
		for (unsigned i = 0; i < THREADS; i++) {
			assert_int_equal(c.errs[i], i == 7 ? -ENOENT : 0);
			assert_int_equal(stored(&w, i), i == 7 ? -1 : c.in);
		}
		/* Those who waited share: a commit for the first, one for the rest, and a few for those who came late. */
		uint64_t after = head_version(&w);
		assert_in_range(after - before, 1, 10);
		before = after;
	}
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void *mix_one(void *arg)
{
	struct member *m = arg;

	for (unsigned round = 0; round < 10; round++) {
		struct pf_op ops[] = { op_register(m->n, 60), op_on(PF_OP_RENEW, m->n, 100 + round),
				       op_on(PF_OP_RELEASE, m->n, 0) };
		for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
			struct pf_answer a;
			int r = pf_commit(m->crowd->w->c, &ops[i], &a);
			if (r < 0 || !a.committed)
				m->crowd->errs[m->n] = r < 0 ? r : -EBADMSG;
			pf_answer_release(&a);
		}
	}
	return NULL;
}

/* All kinds at once, each thread on a pin of its own: everybody gets what they asked for, and nobody waits for ever. */
static void test_mixed_crowd(void **state)
{
	struct member members[THREADS];
	struct world w;
	struct crowd c = { .w = &w };

	new_world(&w, &enabled);
	for (unsigned i = 0; i < 8; i++) {
		members[i] = (struct member){ &c, i };
		assert_int_equal(pthread_create(&c.threads[i], NULL, mix_one, &members[i]), 0);
	}
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(c.threads[i], NULL), 0);
		assert_int_equal(c.errs[i], 0);
		assert_int_equal(stored(&w, i), -1);
	}
	assert_whole(w.st, "", false);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_register),
		cmocka_unit_test(test_register_again),
		cmocka_unit_test(test_two_on_one_source),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_enable),
		cmocka_unit_test(test_clock_behind),
		cmocka_unit_test(test_many_registers),
		cmocka_unit_test(test_many_renewals),
		cmocka_unit_test(test_many_expire),
		cmocka_unit_test(test_many_kinds),
		cmocka_unit_test(test_many_fail),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_mixed_crowd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
