/* Attempts until the outcome is known (design: section 2, "lost race" and "unknown outcome"; cases-open A11), against a store that is told what
 * others do, and one that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire.h"

#include "whole.h"
#include "world.h"

/*
 * Races.
 */

struct told {
	uint64_t version[4];
	char uuid[4][PF_UUID_TEXT];
	unsigned n;
	struct world *w;
};

static void note_publishing(void *arg, uint64_t version, const char *txn_uuid)
{
	struct told *t = arg;

	assert_true(t->n < ARRAY_LEN(t->version));
	assert_int_equal(head_version(t->w), version - 1); /* before it is there */
	t->version[t->n] = version;
	strcpy(t->uuid[t->n++], txn_uuid);
}

/* Each attempt is told before anybody can see it, and nothing that is not to be published. */
static void test_publishing_told(void **state)
{
	struct others o = { .act = op_register(9, 60) };
	struct told t = { .n = 0 };
	struct world w;

	new_world(&w, &enabled);
	t.w = &w;
	struct pf_committer_options options = { .publishing = note_publishing, .publishing_arg = &t };
	pf_committer_free(w.c);
	assert_int_equal(pf_committer_new(w.b, &options, &w.c), 0);
	interfere(&w, &o);
	run(&w, op_register(1, 4000000000), 0);
	heal(w.st);
	assert_int_equal(t.n, 2);
	assert_int_equal(t.version[0], 6);
	assert_int_equal(t.version[1], 7);
	assert_string_equal(t.uuid[0], t.uuid[1]);
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	txn_of_head(&w, &txn);
	assert_string_equal(t.uuid[1], txn.uuid);

	run(&w, op_register(1, 4000000000), 0); /* nothing had to change */
	assert_int_equal(t.n, 2);
	close_world(&w);
}

static void test_race_source_omitted(void **state)
{
	struct others o = { .act = op_register(9, 60) };
	struct world w;

	new_world(&w, &enabled);
	interfere(&w, &o);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_int_equal(a.version, 7);
	assert_int_equal(a.attempts, 2);
	assert_int_equal(a.pin.source_version, 6); /* the new head, and it says so */
	pf_answer_release(&a);
	heal(w.st);
	assert_int_equal(stored(&w, 9), 60);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void test_races(void **state)
{
	const struct {
		const char *name;
		struct pf_op first, ours, theirs; /* theirs: committed just before ours would be */
		int err;
		bool committed;
		uint64_t head;
		int64_t stored;
	} rows[] = {
		{ "named source moved away",
		  {},
		  op_named(1, 60, 5, SOURCE_5),
		  op_register(9, 60),
		  -ESTALE,
		  false,
		  6,
		  -1 },
		{ "the same request by another process",
		  {},
		  op_named(1, 60, 5, SOURCE_5),
		  op_named(1, 60, 5, SOURCE_5),
		  0,
		  false,
		  6,
		  60 },
		{ "renewed, longer", op_register(1, 60), op_on(PF_OP_RENEW, 1, 300), op_on(PF_OP_RENEW, 1, 500), 0,
		  false, 7, 500 },
		{ "renewed, shorter", op_register(1, 60), op_on(PF_OP_RENEW, 1, 300), op_on(PF_OP_RENEW, 1, 200), 0,
		  true, 8, 300 },
		{ "released", op_register(1, 60), op_on(PF_OP_RENEW, 1, 300), op_on(PF_OP_RELEASE, 1, 0), -ENOENT,
		  false, 7, -1 },
		{ "released by both", op_register(1, 60), op_on(PF_OP_RELEASE, 1, 0), op_on(PF_OP_RELEASE, 1, 0), 0,
		  false, 7, -1 },
		{ "renewed while it expires", op_register(1, 60), op_on(PF_OP_EXPIRE, 1, 60),
		  op_on(PF_OP_RENEW, 1, 500), -EAGAIN, false, 7, 500 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct others o = { .op = "link", .name = rows[i].first.kind ? V7 : V6, .act = rows[i].theirs };
		struct pf_answer a;
		struct world w;

		new_world(&w, &enabled);
		if (rows[i].first.kind)
			run(&w, rows[i].first, 0);
		w.now.sec += rows[i].ours.kind == PF_OP_EXPIRE ? 100 : 0;
		interfere(&w, &o);
		pf_commit(w.c, &rows[i].ours, &a);
		heal(w.st);
		if (a.err != rows[i].err || a.committed != rows[i].committed || head_version(&w) != rows[i].head ||
		    stored(&w, 1) != rows[i].stored)
			fail_msg("%s: %d, %d, head %d, stored %d: %s", rows[i].name, a.err, a.committed,
				 (int)head_version(&w), (int)stored(&w, 1), a.why.text);
		pf_answer_release(&a);
		assert_whole(w.st, "", false);
		close_world(&w);
	}
}

/* Somebody is always first. */
static void test_always_lost(void **state)
{
	struct others o = { .op = "link", .name = ".manifest", .plain = true, .next = 6, .times = 1000 };
	struct world w = { .like = &enabled };

	open_branch(&w, table_new(5, &enabled), NULL, 5);
	interfere(&w, &o);
	struct pf_answer a = want(&w, op_register(1, 60), -EAGAIN);
	assert_int_equal(a.attempts, 5);
	assert_true(has(&a, "nothing was committed, 5 attempts were lost to other writers"));
	pf_answer_release(&a);
	heal(w.st);
	assert_int_equal(stored(&w, 1), -1);
	assert_int_equal(head_version(&w), 10);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/*
 * Heads whose transaction cannot be read.
 */

static void test_no_transaction(void **state)
{
	static const struct table_version none = { .writer_flags = BIT_PINS, .txn = TABLE_TXN_NONE };
	struct world w;

	new_world(&w, &none);
	struct pf_answer a = want(&w, op_register(1, 60), -EOPNOTSUPP);
	assert_true(has(&a, "version 5 has no transaction identity"));
	pf_answer_release(&a);
	assert_int_equal(head_version(&w), 5);
	close_world(&w);
}

static void test_lost_transaction(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf pins = PF_BUF_INIT;
	struct table_version like = { .writer_flags = BIT_PINS, .pins = &pins, .txn = TABLE_TXN_LOST };
	struct world w;
	static const char raw[] = "\x0a\x12\x0a\x10\xaa\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\x04\x1a\x24" SOURCE_5
				  "\x22\x02\x08\x01\x2a\x06\x08\x80\xa4\xa7\xda\x06";

	assert_int_equal(pf_wire_put_bytes(&pins, 10395, raw, sizeof(raw) - 1), 0);
	new_world(&w, &like);
	w.now.sec += 100;
	struct pf_op refused[] = { op_register(2, 1000), op_on(PF_OP_RENEW, 1, 1000), op_on(PF_OP_EXPIRE, 1, 0) };
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		struct pf_answer a = want(&w, refused[i], -EBADMSG);
		assert_true(has(&a, "4-0badcafe-0000-4000-8000-000000000005.txn"));
		pf_answer_release(&a);
	}
	assert_int_equal(head_version(&w), 5);
	run(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	assert_int_equal(head_version(&w), 6);
	/* The release has a transaction, so there is an identity again. */
	run(&w, op_register(1, 1000), 0);
	close_world(&w);
}

/* Storage that fails to read a transaction is no damage: the error is storage's, it passes, and release does without. */
static void test_transaction_unreadable_now(void **state)
{
	static const struct table_version like = { .writer_flags = BIT_PINS, .txn = TABLE_TXN_FILE };
	struct trap t = { "open", "4-" SOURCE_5, PF_FAULT_BEFORE, -EIO, false };
	struct world w;

	new_world(&w, &like);
	set_trap(w.st, &t);
	run(&w, op_register(1, 60), -EIO);
	run(&w, op_on(PF_OP_RENEW, 1, 60), -EIO);
	run(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	heal(w.st);
	run(&w, op_register(1, 60), 0);
	close_world(&w);
}

/*
 * Outcomes that are not known.
 */

/* A11, as SYNCFAIL makes it. */
static void test_unknown(void **state)
{
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, true };
	struct world w;

	new_world(&w, &enabled);
	set_trap(w.st, &t);
	struct pf_answer a = want(&w, op_register(1, 60), -EINPROGRESS);
	assert_int_equal(a.version, 6);
	assert_true(has(&a, "version 6 with transaction "));
	assert_true(has(&a, "; to find out: pinctl -d /memory confirm aa000100-0000-0000-0000-000000000000"));
	pf_answer_release(&a);
	heal(w.st);
	/* The same request again: one pin, at most one new version. */
	run(&w, op_register(1, 60), 0);
	assert_int_equal(head_version(&w), 6);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* A sentence has an end. What is cut there is its middle, between characters: the command stays whole. */
static void test_unknown_long(void **state)
{
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, true };
	char path[900], tail[1024];
	struct world w;

	new_world(&w, &enabled);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	free(w.st->at);
	w.st->at = strdup(path);
	set_trap(w.st, &t);
	struct pf_answer a = want(&w, op_register(1, 60), -EINPROGRESS);
	snprintf(tail, sizeof(tail), "; to find out: pinctl -d %s confirm aa000100-0000-0000-0000-000000000000", path);
	assert_int_equal(strlen(a.why.text), PF_WHY_MAX - 1);
	assert_string_equal(a.why.text + PF_WHY_MAX - 1 - strlen(tail), tail);
	pf_answer_release(&a);
	heal(w.st);
	close_world(&w);
}

/* Trouble that passes while we look again is no trouble. */
static void test_unknown_settled(void **state)
{
	/* Both tries of the attempt, and the first of settling. */
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, .times = 3 };
	struct world w;

	new_world(&w, &enabled);
	set_trap(w.st, &t);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 6);
	assert_int_equal(t.hits, 3);
	pf_answer_release(&a);
	close_world(&w);
}

/* A storage call that a signal ended did nothing: what it was for is tried again, and known not to be committed if that goes on. */
static void test_interrupted(void **state)
{
	struct trap once = { "create", "_versions/.tmp", PF_FAULT_BEFORE, -EINTR, .times = 1 };
	struct trap always = { "create", "_versions/.tmp", PF_FAULT_BEFORE, -EINTR };
	struct world w = { .like = &enabled };

	open_branch(&w, table_new(5, &enabled), NULL, 5);
	set_trap(w.st, &once);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_int_equal(a.attempts, 2);
	assert_int_equal(a.version, 6);
	pf_answer_release(&a);
	set_trap(w.st, &always);
	a = want(&w, op_register(2, 60), -EAGAIN);
	assert_true(has(&a, "Interrupted system call"));
	pf_answer_release(&a);
	heal(w.st);
	assert_int_equal(head_version(&w), 6);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void test_unknown_on_branch(void **state)
{
	static const struct table_version first = {
		.version = 5, .dir = "tree/feat/x/", .branch = "feat/x", .writer_flags = BIT_PINS
	};
	struct trap t = { "sync_dir", "tree/feat/x/_versions", PF_FAULT_BEFORE, -EIO, true };
	struct world w = { .like = &enabled };
	struct pf_store *st = table_new(5, &enabled);

	table_put(st, &first);
	table_put_branch(st, "feat/x", 5, "00112233445566778899aabbccddeeff");
	open_branch(&w, st, "feat/x", 0);
	run(&w, op_register(1, 60), 0);
	set_trap(w.st, &t);
	struct pf_answer a = want(&w, op_on(PF_OP_RENEW, 1, 90), -EINPROGRESS);
	assert_true(has(&a, "; to find out: pinctl -d /memory -b feat/x show aa000100-0000-0000-0000-000000000000"));
	pf_answer_release(&a);
	heal(w.st);
	assert_int_equal(stored(&w, 1), 90);
	close_world(&w);
}

/* A deletion of the branch has looked for pins, after it removed the ref, and found none; or it is through, and the branch was made anew. */
static void delete_branch(void *arg, struct pf_store *st, const char *op, const char *name)
{
	const char *again = arg;

	if (strcmp(op, "link") != 0 || strncmp(name, "tree/x/_versions/", 17) != 0)
		return;
	if (again)
		table_put_branch(st, "x", 5, again);
	else
		assert_int_equal(pf_store_mem_del(st, "_refs/branches/x.json"), 0);
}

static void test_branch_deleted_meanwhile(void **state)
{
	static const struct table_version first = {
		.version = 5, .dir = "tree/x/", .branch = "x", .writer_flags = BIT_PINS
	};
	char *again[] = { NULL, (char[]){ "ffeeddccbbaa99887766554433221100" } };

	for (size_t i = 0; i < ARRAY_LEN(again); i++) {
		struct world w = { .like = &enabled };
		struct pf_store *st = table_new(5, &enabled);

		table_put(st, &first);
		table_put_branch(st, "x", 5, "00112233445566778899aabbccddeeff");
		open_branch(&w, st, "x", 0);
		pf_store_mem_set_hook(st, delete_branch, again[i]);
		struct pf_answer a = want(&w, op_register(1, 60), -EINPROGRESS);
		assert_int_equal(a.version, 6);
		assert_true(has(&a, "; to find out: pinctl -d /memory -b x confirm aa000100-"));
		pf_answer_release(&a);
		heal(st);
		close_world(&w);
	}
}

/* An answer that needs no commit is one only if what it rests on lasts: its writer may have ended before it saw to that. */
static void test_no_commit_durable(void **state)
{
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO };
	const struct pf_op ops[] = { op_register(1, 60), op_on(PF_OP_RENEW, 1, 30), op_on(PF_OP_RELEASE, 2, 0) };
	struct world w;

	new_world(&w, &enabled);
	run(&w, op_register(1, 60), 0);
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		set_trap(w.st, &t);
		struct pf_answer a = want(&w, ops[i], -EINPROGRESS);
		assert_int_equal(a.version, 6);
		assert_true(has(&a, "may not be durable"));
		assert_true(has(&a, "; to find out: pinctl "));
		pf_answer_release(&a);
		heal(w.st);
		run(&w, ops[i], 0);
	}
	/* A refusal needs nothing. */
	set_trap(w.st, &t);
	run(&w, op_on(PF_OP_RENEW, 2, 60), -ENOENT);
	heal(w.st);
	assert_int_equal(head_version(&w), 6);
	close_world(&w);
}

/*
 * Every call of the store fails once, in every operation.
 */

struct trial {
	const char *name;
	struct pf_op first, op; /* first: before, without faults, if it has a kind */
	int64_t before, after;	/* what is stored for pin 1 */
};

static bool enabled_now(struct world *w)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);

	return m->writer_flags & BIT_PINS;
}

/* Storage call `nth` of the operation fails: is the answer what happened? Returns whether that call was reached. */
static bool fail_call(const struct trial *t, unsigned nth, enum pf_fault kind, int err, bool forever)
{
	static const struct table_version plain = { 0 };
	bool enable = t->op.kind == PF_OP_ENABLE;
	struct pf_answer a;
	struct world w;

	new_world(&w, enable ? &plain : &enabled);
	if (t->first.kind)
		run(&w, t->first, 0);
	w.now.sec += t->op.kind == PF_OP_EXPIRE ? 1000 : 0;
	uint64_t head = head_version(&w);

	unsigned calls = pf_store_mem_calls(w.st);
	pf_store_mem_fault(w.st, nth, kind, err, forever);
	int r = pf_commit(w.c, &t->op, &a);
	bool reached = pf_store_mem_calls(w.st) - calls >= nth;
	heal(w.st);

	bool done = enable ? enabled_now(&w) : stored(&w, 1) == t->after;
	bool undone = enable ? !enabled_now(&w) : stored(&w, 1) == t->before;
	if (done == undone || (r == 0 && !done) || (r < 0 && r != -EINPROGRESS && !undone) || !a.why.text[0] ||
	    head_version(&w) > head + 1)
		fail_msg("%s, call %u, fault %d of %d: answered %d (%s), done %d, head %d", t->name, nth, kind, err, r,
			 a.why.text, done, (int)head_version(&w));
	assert_whole(w.st, "", forever || r == -EINPROGRESS);
	pf_answer_release(&a);

	/* Asked again, it is done once. */
	run(&w, t->op, 0);
	assert_true(enable ? enabled_now(&w) : stored(&w, 1) == t->after);
	assert_int_equal(head_version(&w), head + 1);
	assert_whole(w.st, "", true);
	close_world(&w);
	return reached;
}

static void test_every_call_fails(void **state)
{
	const struct trial trials[] = {
		{ "register", {}, op_named(1, 60, 5, SOURCE_5), -1, 60 },
		{ "renew", op_register(1, 60), op_on(PF_OP_RENEW, 1, 300), 60, 300 },
		{ "release", op_register(1, 60), op_on(PF_OP_RELEASE, 1, 0), 60, -1 },
		{ "expire", op_register(1, 60), op_on(PF_OP_EXPIRE, 1, 60), 60, -1 },
		{ "enable", {}, { .kind = PF_OP_ENABLE }, 0, 0 },
	};
	static const int errs[] = { -EIO, -ENOSPC, -EACCES, -EINTR };
	static const enum pf_fault kinds[] = { PF_FAULT_BEFORE, PF_FAULT_AFTER };

	for (size_t t = 0; t < ARRAY_LEN(trials); t++) {
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			for (size_t e = 0; e < ARRAY_LEN(errs); e++)
				for (unsigned n = 1; fail_call(&trials[t], n, kinds[k], errs[e], false); n++)
					;
			/* A disk that is gone is one whatever it says, and looking again and again takes time. */
			for (unsigned n = 1; fail_call(&trials[t], n, kinds[k], -EIO, true); n++)
				;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_race_source_omitted),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_publishing_told),
		cmocka_unit_test(test_always_lost),
		cmocka_unit_test(test_no_transaction),
		cmocka_unit_test(test_lost_transaction),
		cmocka_unit_test(test_transaction_unreadable_now),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_unknown_long),
		cmocka_unit_test(test_unknown_settled),
		cmocka_unit_test(test_interrupted),
		cmocka_unit_test(test_unknown_on_branch),
		cmocka_unit_test(test_branch_deleted_meanwhile),
		cmocka_unit_test(test_no_commit_durable),
		cmocka_unit_test(test_every_call_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
