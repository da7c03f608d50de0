/* The commit loop and confirmation (design: section 2; cases-open A11, B01, B07, B08, B26), against a store that is told what others do. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/commit.h"
#include "core/flags.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "table.h"
#include "whole.h"

#define BIT_PINS (UINT64_C(1) << 19)
#define V6	 "_versions/18446744073709551609.manifest"
#define NOW	 1800000000
#define SOURCE_5 "0badcafe-0000-4000-8000-000000000005"

/* Tables of the tests: five versions, pins enabled. */
static const struct table_version enabled = { .writer_flags = BIT_PINS };

struct world {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_committer *c;
	struct pf_time now;
	const struct table_version *like;
};

static struct pf_time world_clock(void *arg)
{
	return ((struct world *)arg)->now;
}

static void open_branch(struct world *w, struct pf_store *st, const char *branch, unsigned attempts)
{
	struct pf_committer_options o = { .clock = world_clock, .clock_arg = w, .attempts = attempts };
	struct pf_why why = PF_WHY_INIT;

	w->st = st;
	w->now = (struct pf_time){ NOW, 0 };
	if (pf_branch_open(st, branch, &w->b, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_committer_new(w->b, &o, &w->c), 0);
}

static void new_world(struct world *w, const struct table_version *like)
{
	w->like = like;
	open_branch(w, table_new(5, like), NULL, 0);
}

static void close_world(struct world *w)
{
	pf_committer_free(w->c);
	pf_branch_free(w->b);
	pf_store_free(w->st);
}

static struct pf_uuid id_of(unsigned n)
{
	return (struct pf_uuid){ .b = { 0xaa, (uint8_t)(n >> 8), (uint8_t)n } };
}

static struct pf_op op_register(unsigned n, int64_t in)
{
	return (struct pf_op){ .kind = PF_OP_REGISTER, .request = { .id = id_of(n), .expires_at = { NOW + in, 0 } } };
}

static struct pf_op op_named(unsigned n, int64_t in, uint64_t version, const char *txn)
{
	struct pf_op op = op_register(n, in);

	op.request.has_source = true;
	op.request.source_version = version;
	strcpy(op.request.source_txn, txn);
	return op;
}

static struct pf_op op_on(enum pf_op_kind kind, unsigned n, int64_t in)
{
	return (struct pf_op){ .kind = kind, .id = id_of(n), .expires_at = { NOW + in, 0 } };
}

/* Run one, and want this code; the answer is the caller's to release. */
static struct pf_answer want(struct world *w, struct pf_op op, int err)
{
	struct pf_answer a;

	int r = pf_commit(w->c, &op, &a);
	assert_int_equal(r, a.err);
	if (a.err != err)
		fail_msg("%d: %s", a.err, a.why.text);
	assert_true(a.why.text[0]);
	return a;
}

/* The same when nobody looks closer. */
static void run(struct world *w, struct pf_op op, int err)
{
	struct pf_answer a = want(w, op, err);

	pf_answer_release(&a);
}

static bool has(const struct pf_answer *a, const char *text)
{
	return strstr(a->why.text, text) != NULL;
}

/* What storage says, by eyes of its own. */
static struct pf_manifest *head_of(struct world *w)
{
	struct pf_branch *b = NULL;
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(w->st, pf_branch_name(w->b), &b, &why) < 0 || pf_branch_head(b, &m, &why) < 0)
		fail_msg("%s", why.text);
	pf_branch_free(b);
	return m;
}

static uint64_t head_version(struct world *w)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);

	return m->version;
}

/* Seconds from NOW at which the pin on the head expires; -1 if there is none. */
static int64_t stored(struct world *w, unsigned n)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	struct pf_uuid id = id_of(n);
	const struct pf_pin *p = pf_pins_find(&m->pins, &id);

	return p ? p->expires_at.sec - NOW : -1;
}

static void txn_of_head(struct world *w, struct pf_txn *txn)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	struct pf_why why = PF_WHY_INIT;

	if (pf_txn_read(w->st, pf_branch_dir(w->b), m, txn, &why) < 0)
		fail_msg("%s", why.text);
}

/*
 * Others: a second committer on the same store, from inside a hook.
 */

struct others {
	struct world *w;
	const char *op, *name; /* before this call */
	struct pf_op ops[2];
	unsigned n;
	unsigned times; /* how often still */
	bool plain;	/* a commit of Lance's instead: flags and no pins */
	uint64_t next;	/* its version */
};

static void run_others(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct others *o = arg;

	if (o->times == 0 || strcmp(op, o->op) != 0 || !strstr(name, o->name))
		return;
	o->times--;
	if (o->plain) {
		struct table_version t = *o->w->like;
		t.version = o->next++;
		t.uuid = "99999999-9999-4999-8999-999999999999";
		table_put(st, &t);
		return;
	}
	struct world other = { .like = o->w->like };
	open_branch(&other, st, NULL, 0);
	for (unsigned i = 0; i < o->n; i++)
		run(&other, o->ops[i], 0);
	pf_committer_free(other.c);
	pf_branch_free(other.b);
}

static void interfere(struct world *w, struct others *o)
{
	o->w = w;
	if (!o->op) {
		o->op = "link";
		o->name = V6;
	}
	if (o->times == 0)
		o->times = 1;
	pf_store_mem_set_hook(w->st, run_others, o);
}

/*
 * One operation at a time.
 */

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
 * Races.
 */

static void test_race_source_omitted(void **state)
{
	struct others o = { .n = 1, .ops = { op_register(9, 60) } };
	struct world w;

	new_world(&w, &enabled);
	interfere(&w, &o);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_int_equal(a.version, 7);
	assert_int_equal(a.attempts, 2);
	assert_int_equal(a.pin.source_version, 6); /* the new head, and it says so */
	pf_answer_release(&a);
	pf_store_mem_set_hook(w.st, NULL, NULL);
	assert_int_equal(stored(&w, 9), 60);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void test_races(void **state)
{
	static const struct {
		const char *name;
		struct pf_op ours, first; /* first: before all, if it has a kind */
		struct others others;
		int err;
		bool committed;
		uint64_t head;
		int64_t stored;
	} rows[] = {
		{ "named source moved away", { .kind = PF_OP_REGISTER }, {}, { .n = 1 }, -ESTALE, false, 6, -1 },
		{ "same request by another process", { .kind = PF_OP_REGISTER }, {}, { .n = 1 }, 0, false, 6, 60 },
		{ "renewed, longer", {}, {}, { .n = 1 }, 0, false, 7, 500 },
		{ "renewed, shorter", {}, {}, { .n = 1 }, 0, true, 8, 300 },
		{ "released", {}, {}, { .n = 1 }, -ENOENT, false, 7, -1 },
		{ "released by both", {}, {}, { .n = 1 }, 0, false, 7, -1 },
		{ "renewed while it expires", {}, {}, { .n = 1 }, -EAGAIN, false, 7, 500 },
	};
	const struct {
		struct pf_op ours, first, theirs;
	} ops[] = {
		{ op_named(1, 60, 5, SOURCE_5), {}, op_register(9, 60) },
		{ op_named(1, 60, 5, SOURCE_5), {}, op_named(1, 60, 5, SOURCE_5) },
		{ op_on(PF_OP_RENEW, 1, 300), op_register(1, 60), op_on(PF_OP_RENEW, 1, 500) },
		{ op_on(PF_OP_RENEW, 1, 300), op_register(1, 60), op_on(PF_OP_RENEW, 1, 200) },
		{ op_on(PF_OP_RENEW, 1, 300), op_register(1, 60), op_on(PF_OP_RELEASE, 1, 0) },
		{ op_on(PF_OP_RELEASE, 1, 0), op_register(1, 60), op_on(PF_OP_RELEASE, 1, 0) },
		{ op_on(PF_OP_EXPIRE, 1, 60), op_register(1, 60), op_on(PF_OP_RENEW, 1, 500) },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct others o = rows[i].others;
		struct world w;

		new_world(&w, &enabled);
		o.ops[0] = ops[i].theirs;
		o.op = "link";
		o.name = V6;
		if (ops[i].first.kind) {
			run(&w, ops[i].first, 0);
			o.name = "_versions/18446744073709551608.manifest";
		}
		w.now.sec += ops[i].ours.kind == PF_OP_EXPIRE ? 100 : 0;
		interfere(&w, &o);
		struct pf_answer a;
		pf_commit(w.c, &ops[i].ours, &a);
		pf_store_mem_set_hook(w.st, NULL, NULL);
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
	pf_store_mem_set_hook(w.st, NULL, NULL);
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

struct trap {
	const char *op, *name;
	enum pf_fault kind;
	int err;
	bool forever;
};

static void run_trap(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct trap *t = arg;

	if (t->op && strcmp(op, t->op) == 0 && strstr(name, t->name)) {
		pf_store_mem_fault(st, 1, t->kind, t->err, t->forever);
		t->op = t->forever ? NULL : t->op;
	}
}

static void heal(struct world *w)
{
	pf_store_mem_set_hook(w->st, NULL, NULL);
	pf_store_mem_fault(w->st, 0, PF_FAULT_NONE, 0, false);
}

/* Storage that fails to read a transaction is no damage: the error is storage's, it passes, and release does without. */
static void test_transaction_unreadable_now(void **state)
{
	static const struct table_version like = { .writer_flags = BIT_PINS, .txn = TABLE_TXN_FILE };
	struct trap t = { "open", "4-" SOURCE_5, PF_FAULT_BEFORE, -EIO, false };
	struct world w;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_trap, &t);
	run(&w, op_register(1, 60), -EIO);
	run(&w, op_on(PF_OP_RENEW, 1, 60), -EIO);
	run(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	heal(&w);
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
	pf_store_mem_set_hook(w.st, run_trap, &t);
	struct pf_answer a = want(&w, op_register(1, 60), -EINPROGRESS);
	assert_int_equal(a.version, 6);
	assert_true(has(&a, "version 6 with transaction "));
	assert_true(has(&a, "pinctl -d 'memory' confirm aa000100-0000-0000-0000-000000000000"));
	pf_answer_release(&a);
	heal(&w);
	/* The same request again: one pin, at most one new version. */
	run(&w, op_register(1, 60), 0);
	assert_int_equal(head_version(&w), 6);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void sync_fails_twice(void *arg, struct pf_store *st, const char *op, const char *name)
{
	unsigned *left = arg;

	if (*left && strcmp(op, "sync_dir") == 0 && strcmp(name, "_versions") == 0) {
		--*left;
		pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EIO, false);
	}
}

/* Trouble that passes while we look again is no trouble. */
static void test_unknown_settled(void **state)
{
	unsigned left = 3; /* both tries of the attempt, and the first of settling */
	struct world w;

	new_world(&w, &enabled);
	pf_store_mem_set_hook(w.st, sync_fails_twice, &left);
	struct pf_answer a = want(&w, op_register(1, 60), 0);
	assert_true(a.committed);
	assert_int_equal(a.version, 6);
	assert_int_equal(left, 0);
	pf_answer_release(&a);
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
	pf_store_mem_set_hook(st, run_trap, &t);
	struct pf_answer a = want(&w, op_on(PF_OP_RENEW, 1, 90), -EINPROGRESS);
	assert_true(has(&a, "pinctl -d 'memory' -b 'feat/x' show aa000100-0000-0000-0000-000000000000"));
	pf_answer_release(&a);
	heal(&w);
	assert_int_equal(stored(&w, 1), 90);
	close_world(&w);
}

/*
 * Several in one commit.
 */

static void many(struct world *w, const struct pf_op *ops, size_t n, struct pf_answer *a)
{
	int first = 0;

	int r = pf_commit_many(w->c, ops, n, a);
	for (size_t i = 0; i < n && first == 0; i++)
		first = a[i].err;
	assert_int_equal(r, first);
}

static void release_answers(struct pf_answer *a, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pf_answer_release(&a[i]);
}

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
		pf_store_mem_set_hook(w.st, run_trap, &t);
		many(&w, ops, ARRAY_LEN(ops), a);
		heal(&w);
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

/*
 * Confirmation.
 */

static void confirm(struct world *w, unsigned n, const struct pf_request *q, int err, bool held, const char *says)
{
	struct pf_confirmation c = { .pin = PF_PIN_INIT };
	struct pf_why why = PF_WHY_INIT;
	struct pf_uuid id = id_of(n);

	int r = pf_confirm(w->b, &id, q, &c, &why);
	if (r != err || (r == 0 && c.held != held) || !strstr(why.text, says))
		fail_msg("%d, held %d: %s", r, c.held, why.text);
	if (r == 0)
		assert_int_equal(c.version, head_version(w));
	pf_confirmation_release(&c);
}

static void test_confirm(void **state)
{
	struct pf_request same = { .id = id_of(1),
				   .expires_at = { NOW + 60, 0 },
				   .label = (char[]){ "job" },
				   .has_source = true,
				   .source_version = 5,
				   .source_txn = SOURCE_5 };
	struct pf_op op = { .kind = PF_OP_REGISTER, .request = same };
	struct others other = { .n = 1, .ops = { op_on(PF_OP_RELEASE, 1, 0) } };
	struct pf_request q;
	struct world w;

	new_world(&w, &enabled);
	confirm(&w, 1, &same, 0, false, "has no pin aa000100-0000-0000-0000-000000000000");
	run(&w, op, 0);
	confirm(&w, 1, NULL, 0, true, "holds");
	confirm(&w, 1, &same, 0, true, "holds");
	confirm(&w, 2, NULL, 0, false, "has no pin");

	q = same;
	q.expires_at.nsec = 1;
	confirm(&w, 1, &q, 0, false, "expires at");
	q = same;
	q.label = (char[]){ "other" };
	confirm(&w, 1, &q, 0, false, "label");
	q = same;
	q.source_version = 4;
	confirm(&w, 1, &q, 0, false, "source");
	q = same;
	q.branch = (char[]){ "x" };
	confirm(&w, 1, &q, 0, false, "branch");
	q = same;
	q.has_source = false;
	confirm(&w, 1, &q, 0, true, "holds");

	/* Another process releases it: the next look says so. */
	other.times = 1;
	other.w = &w;
	other.op = "x";
	other.name = "x";
	run_others(&other, w.st, "x", "x");
	confirm(&w, 1, &same, 0, false, "has no pin");

	/* Whatever keeps the head from being read: it cannot be told. */
	pf_store_mem_fault(w.st, 1, PF_FAULT_BEFORE, -EIO, true);
	confirm(&w, 1, &same, -EINPROGRESS, false, "cannot be told");
	heal(&w);
	assert_int_equal(pf_store_mem_put(w.st, "_versions/18446744073709551606.manifest", "junk", 4), 0);
	confirm(&w, 1, &same, -EINPROGRESS, false, "18446744073709551606.manifest");
	close_world(&w);
}

static void test_confirm_branch(void **state)
{
	static const struct table_version first = {
		.version = 5, .dir = "tree/x/", .branch = "x", .writer_flags = BIT_PINS
	};
	struct pf_op op = op_register(1, 60);
	struct pf_confirmation c = { .pin = PF_PIN_INIT };
	struct pf_uuid id = id_of(1);
	struct world w = { .like = &enabled };
	struct pf_store *st = table_new(5, &enabled);

	table_put(st, &first);
	table_put_branch(st, "x", 5, "00112233445566778899aabbccddeeff");
	open_branch(&w, st, "x", 0);
	op.request.branch = (char[]){ "x" };
	strcpy(op.request.branch_id, "00112233445566778899aabbccddeeff");
	run(&w, op, 0);
	assert_int_equal(pf_confirm(w.b, &id, &op.request, &c, NULL), 0);
	assert_true(c.held);
	assert_string_equal(c.branch_id, "00112233445566778899aabbccddeeff");
	pf_confirmation_release(&c);

	/* Made anew under the same name: another branch, whatever its head says. */
	table_put_branch(st, "x", 5, "ffeeddccbbaa99887766554433221100");
	confirm(&w, 1, &op.request, 0, false, "ffeeddccbbaa99887766554433221100");
	run(&w, op, -EINVAL);
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/x.json"), 0);
	confirm(&w, 1, &op.request, -EINPROGRESS, false, "cannot be told");
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
	heal(&w);

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
		cmocka_unit_test(test_register),
		cmocka_unit_test(test_register_again),
		cmocka_unit_test(test_two_on_one_source),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_enable),
		cmocka_unit_test(test_clock_behind),
		cmocka_unit_test(test_race_source_omitted),
		cmocka_unit_test(test_races),
		cmocka_unit_test(test_always_lost),
		cmocka_unit_test(test_no_transaction),
		cmocka_unit_test(test_lost_transaction),
		cmocka_unit_test(test_transaction_unreadable_now),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_unknown_settled),
		cmocka_unit_test(test_unknown_on_branch),
		cmocka_unit_test(test_many_registers),
		cmocka_unit_test(test_many_renewals),
		cmocka_unit_test(test_many_expire),
		cmocka_unit_test(test_many_kinds),
		cmocka_unit_test(test_many_fail),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_mixed_crowd),
		cmocka_unit_test(test_confirm),
		cmocka_unit_test(test_confirm_branch),
		cmocka_unit_test(test_every_call_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
