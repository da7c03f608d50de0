#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"

const struct table_version enabled = { .writer_flags = BIT_PINS };

static struct pf_time world_clock(void *arg)
{
	return ((struct world *)arg)->now;
}

void open_branch(struct world *w, struct pf_store *st, const char *branch, unsigned attempts)
{
	struct pf_committer_options o = { .clock = world_clock, .clock_arg = w, .attempts = attempts };
	struct pf_why why = PF_WHY_INIT;

	w->st = st;
	w->now = (struct pf_time){ NOW, 0 };
	if (pf_branch_open(st, branch, &w->b, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_committer_new(w->b, &o, &w->c), 0);
}

void new_world(struct world *w, const struct table_version *like)
{
	w->like = like;
	open_branch(w, table_new(5, like), NULL, 0);
}

void close_world(struct world *w)
{
	pf_committer_free(w->c);
	pf_branch_free(w->b);
	pf_store_free(w->st);
}

struct pf_uuid id_of(unsigned n)
{
	return (struct pf_uuid){ .b = { 0xaa, (uint8_t)(n >> 8), (uint8_t)n } };
}

struct pf_op op_register(unsigned n, int64_t in)
{
	return (struct pf_op){ .kind = PF_OP_REGISTER, .request = { .id = id_of(n), .expires_at = { NOW + in, 0 } } };
}

struct pf_op op_named(unsigned n, int64_t in, uint64_t version, const char *txn)
{
	struct pf_op op = op_register(n, in);

	op.request.has_source = true;
	op.request.source_version = version;
	strcpy(op.request.source_txn, txn);
	return op;
}

struct pf_op op_on(enum pf_op_kind kind, unsigned n, int64_t in)
{
	return (struct pf_op){ .kind = kind, .id = id_of(n), .expires_at = { NOW + in, 0 } };
}

struct pf_answer want(struct world *w, struct pf_op op, int err)
{
	struct pf_answer a;

	int r = pf_commit(w->c, &op, &a);
	assert_int_equal(r, a.err);
	if (a.err != err)
		fail_msg("%d: %s", a.err, a.why.text);
	assert_true(a.why.text[0]);
	return a;
}

void run(struct world *w, struct pf_op op, int err)
{
	struct pf_answer a = want(w, op, err);

	pf_answer_release(&a);
}

bool has(const struct pf_answer *a, const char *text)
{
	return strstr(a->why.text, text) != NULL;
}

struct pf_manifest *head_of(struct world *w)
{
	struct pf_branch *b = NULL;
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(w->st, pf_branch_name(w->b), &b, &why) < 0 || pf_branch_head(b, &m, &why) < 0)
		fail_msg("%s", why.text);
	pf_branch_free(b);
	return m;
}

uint64_t head_version(struct world *w)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);

	return m->version;
}

int64_t stored(struct world *w, unsigned n)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	struct pf_uuid id = id_of(n);
	const struct pf_pin *p = pf_pins_find(&m->pins, &id);

	return p ? p->expires_at.sec - NOW : -1;
}

void txn_of_head(struct world *w, struct pf_txn *txn)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	struct pf_why why = PF_WHY_INIT;

	if (pf_txn_read(w->st, pf_branch_dir(w->b), m, txn, &why) < 0)
		fail_msg("%s", why.text);
}

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
	run(&other, o->act, 0);
	pf_committer_free(other.c);
	pf_branch_free(other.b);
}

void interfere(struct world *w, struct others *o)
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

static void run_trap(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct trap *t = arg;

	if ((t->times && t->hits == t->times) || strcmp(op, t->op) != 0 || !strstr(name, t->name))
		return;
	t->hits++;
	pf_store_mem_fault(st, 1, t->kind, t->err, t->forever);
}

void set_trap(struct pf_store *st, struct trap *t)
{
	if (t->forever)
		t->times = 1;
	pf_store_mem_set_hook(st, run_trap, t);
}

void heal(struct pf_store *st)
{
	pf_store_mem_set_hook(st, NULL, NULL);
	pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);
}

void many(struct world *w, const struct pf_op *ops, size_t n, struct pf_answer *a)
{
	int first = 0;

	int r = pf_commit_many(w->c, ops, n, a);
	for (size_t i = 0; i < n && first == 0; i++)
		first = a[i].err;
	assert_int_equal(r, first);
}

void release_answers(struct pf_answer *a, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pf_answer_release(&a[i]);
}
