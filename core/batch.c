#include "batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "flags.h"
#include "settle.h"

#define WATCH_MS                                                                                                       \
	250 /* tables with V1 names only: a migration, even on a busy machine, is faster from one name to the next */

/* The batch at work: what one attempt knows, and what outlives it. */
struct work {
	const struct pf_batch *batch;
	enum pf_op_kind kind;
	/* Of the transaction, the same in all attempts: whichever of them lands is found by it. */
	char uuid[PF_UUID_TEXT];
	unsigned published; /* attempts that came that far */
	struct pf_manifest *head;
	char branch_id[PF_BRANCH_ID_TEXT]; /* register: of the branch that the head is of; "" on main */
	struct pf_time now;
	struct pf_pins pins;	 /* the list as it is to be */
	struct pf_pins elements; /* of the transaction: the pins that were changed so far */
	bool enable;
};

static void work_reset(struct work *w)
{
	pf_manifest_unref(STEAL(w->head));
	pf_pins_release(&w->pins);
	pf_pins_release(&w->elements);
	w->enable = false;
}

static bool depends(const struct pf_job *j)
{
	return j->changes || j->follows;
}

/* Fail the jobs whose answers depend on the commit; `all`: every job. */
static void fail_jobs(const struct work *w, bool all, int err, uint64_t version, const struct pf_why *why)
{
	for (size_t i = 0; i < w->batch->n; i++) {
		struct pf_job *j = &w->batch->jobs[i];
		if (!all && !depends(j))
			continue;
		pf_answer_release(j->answer);
		j->answer->err = err;
		j->answer->version = version;
		j->answer->why = *why;
	}
}

/* Find out who committed the head. 0 if that is known, missing or damaged; else storage's error, which stops the batch. */
static int identify(struct work *w, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_branch *b = w->batch->branch;
	struct pf_identity *id = w->batch->identity;

	if (id->head != w->head) {
		pf_manifest_unref(id->head);
		*id = (struct pf_identity){ .head = pf_manifest_ref(w->head) };
		id->err = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), w->head, &txn, &id->why);
		if (id->err == 0)
			memcpy(id->uuid, txn.uuid, sizeof(id->uuid));
		else
			pf_why_default(&id->why, id->err, "%s", strerror(-id->err));
	}
	if (id->err == 0 || id->err == -ENODATA || id->err == -ENOENT || id->err == -EBADMSG)
		return 0;
	/* Storage failed. That may pass, so it is not remembered; and a release, the escape hatch, does without. */
	pf_manifest_unref(STEAL(id->head));
	if (w->kind == PF_OP_RELEASE && id->err != -ESTALE)
		return 0;
	*why = id->why;
	return id->err;
}

/* Note in the transaction what `op` did to the pin. */
static int add_element(struct work *w, const struct pf_op *op, const struct pf_pin *pin)
{
	_cleanup_(pf_pin_release) struct pf_pin e = PF_PIN_INIT;
	struct pf_pin *there = pf_pins_find(&w->elements, pf_op_id(op));

	if (there) { /* of two renewals of one pin the later is the longer: it alone is what happens */
		there->expires_at = op->expires_at;
		return 0;
	}
	if (op->kind == PF_OP_REGISTER) {
		int r = pf_pin_copy(pin, &e);
		if (r < 0)
			return r;
	} else {
		e.id = op->id;
		e.expires_at = op->expires_at;
	}
	return pf_pins_add(&w->elements, &e);
}

/*
 * Judge one job on the list as it stands, and apply it. Whatever its answer needs is made now: after the commit nothing may fail any
 * more. An error is not the job's but the whole batch's.
 */
static int apply_job(struct work *w, struct pf_head_facts *facts, struct pf_job *j)
{
	const struct pf_uuid *id = pf_op_id(j->op);
	bool gone = w->kind == PF_OP_RELEASE || w->kind == PF_OP_EXPIRE;
	const struct pf_pin *p = pf_pins_find(&w->pins, id);
	enum pf_effect effect = PF_EFFECT_NONE;
	struct pf_answer *a = j->answer;
	int r = 0;

	pf_answer_release(a);
	j->changes = false;
	j->follows = w->enable || pf_pins_find(&w->elements, id);
	if (gone && p && (r = pf_pin_copy(p, &a->pin)) < 0)
		return r;
	r = pf_pinop_apply(facts, j->op, &w->pins, &effect, &a->why);
	if (r == -ENOMEM)
		return r;
	a->err = r;
	a->version = w->head->version;
	if (r < 0) {
		pf_pin_release(&a->pin);
		return 0;
	}
	p = pf_pins_find(&w->pins, id);
	if (!gone && p && (r = pf_pin_copy(p, &a->pin)) < 0)
		return r;
	if (effect == PF_EFFECT_NONE)
		return 0;
	j->changes = true;
	if (w->kind != PF_OP_ENABLE)
		return add_element(w, j->op, p);
	facts->pins_enabled = w->enable = true;
	return 0;
}

/* Read the head and apply all jobs to it. 1 if there is something to commit, 0 if all are answered. */
static int judge(struct work *w, struct pf_why *why)
{
	const struct pf_batch *batch = w->batch;
	int changes = 0;

	work_reset(w);
	int r = pf_branch_head(batch->branch, &w->head, why);
	if (r == 0 && w->kind == PF_OP_REGISTER)
		r = pf_branch_id(batch->branch, w->branch_id, why);
	if (r == 0)
		r = identify(w, why);
	if (r == 0)
		r = pf_pins_copy(&w->head->pins, &w->pins);
	if (r < 0)
		return r;

	w->now = batch->options->clock(batch->options->clock_arg);
	struct pf_head_facts facts = {
		.branch = pf_branch_name(batch->branch),
		.branch_id = w->branch_id,
		.version = w->head->version,
		.txn_uuid = batch->identity->uuid,
		.txn_error = batch->identity->err ? batch->identity->why.text : NULL,
		.pins_enabled = w->head->writer_flags & PF_FLAG_PINS,
		.now = w->now,
	};
	for (size_t i = 0; i < batch->n; i++) {
		r = apply_job(w, &facts, &batch->jobs[i]);
		if (r < 0)
			return r;
		changes |= batch->jobs[i].changes;
	}
	return changes;
}

static char *commit_message(const struct work *w)
{
	char id[PF_UUID_TEXT], t[PF_TIME_TEXT], *text;
	int n;

	if (w->kind == PF_OP_ENABLE)
		return strdup("enable pins for ongoing work");
	if (w->elements.n != 1) {
		n = asprintf(&text, "%s %zu pins", pf_op_kind_name(w->kind), w->elements.n);
	} else {
		pf_uuid_format(&w->elements.v[0].id, id);
		pf_time_format(w->elements.v[0].expires_at, t);
		if (w->kind == PF_OP_RELEASE)
			n = asprintf(&text, "release pin %s", id);
		else
			n = asprintf(&text, "%s pin %s %s %s", pf_op_kind_name(w->kind), id,
				     w->kind == PF_OP_EXPIRE ? "due since" : "until", t);
	}
	return n < 0 ? NULL : text;
}

static int publish(struct work *w, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_time base = w->head->timestamp;

	txn.read_version = w->head->version;
	memcpy(txn.uuid, w->uuid, sizeof(txn.uuid));
	txn.kind = w->kind;
	txn.message = commit_message(w);
	if (!txn.message)
		return -ENOMEM;
	txn.pins = w->elements;
	w->elements = (struct pf_pins)PF_PINS_INIT;

	struct pf_publish p = {
		.base = w->head,
		/* Versions do not go back in time, whatever this host's clock does. */
		.timestamp = pf_time_cmp(w->now, base) > 0 ? w->now : base,
		.writer_flags = w->enable ? PF_FLAG_PINS : 0,
		.pins = &w->pins,
		.watch_ms = WATCH_MS,
		.txn = &txn,
	};
	w->published++;
	if (w->batch->options->publishing)
		w->batch->options->publishing(w->batch->options->publishing_arg, w->head->version + 1, w->uuid);
	return pf_publish(w->batch->branch, &p, out, why);
}

/* The command that settles what became of `op`: it only looks. */
static int settling_command(struct pf_branch *b, const struct pf_op *op, struct pf_buf *out)
{
	char id[PF_UUID_TEXT];

	int r = pf_branch_command(b, out);
	if (r < 0)
		return r;
	if (op->kind == PF_OP_ENABLE)
		return pf_buf_addstr(out, " status");
	pf_uuid_format(pf_op_id(op), id);
	/* A waived pin is absent either way. */
	return pf_buf_addf(out, " %s %s", op->kind == PF_OP_REGISTER ? "confirm" : op->waive ? "log" : "show", id);
}

/* Without memory for the advice the answer is still right. If one of both must be cut, it is the sentence: half a command is none. */
static void add_advice(const struct work *w)
{
	static const char lead[] = "; to find out: ";

	for (size_t i = 0; i < w->batch->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf command = PF_BUF_INIT;
		const struct pf_job *j = &w->batch->jobs[i];
		struct pf_why said = j->answer->why;
		size_t n = strlen(said.text);
		if (!depends(j) || settling_command(w->batch->branch, j->op, &command) < 0 || !pf_buf_str(&command) ||
		    command.len > PF_WHY_MAX - sizeof(lead))
			continue;
		if (n > PF_WHY_MAX - sizeof(lead) - command.len)
			n = PF_WHY_MAX - sizeof(lead) - command.len;
		while (n > 0 && (said.text[n] & 0xc0) == 0x80)
			n--;
		pf_why_set(&j->answer->why, 0, "%.*s%s%s", (int)n, said.text, lead, (char *)command.data);
	}
}

/*
 * Whoever deletes a branch looks for pins after its ref is gone, and may have done so before the new ones were there. 0 if the branch is still the one that they
 * were made on.
 */
static int check_branch(const struct work *w, const struct pf_manifest *m, struct pf_why *why)
{
	struct pf_branch *b = w->batch->branch;
	struct pf_why inner = PF_WHY_INIT;
	char id[PF_BRANCH_ID_TEXT];

	if (w->kind != PF_OP_REGISTER)
		return 0;
	int r = pf_branch_id(b, id, &inner);
	if (r == 0 && strcmp(id, w->branch_id) == 0)
		return 0;
	return pf_why_set(why, -EINPROGRESS,
			  "version %" PRIu64
			  " was committed, but whether the branch %s is still there is not known: %s",
			  m->version, pf_branch_name(b), r < 0 ? inner.text : "it was deleted and made anew meanwhile");
}

/* Answers that need no commit rest on a head that others committed, perhaps in a process that ended before it had made it durable. */
static int check_answers(struct work *w, struct pf_why *why)
{
	bool any = false;

	for (size_t i = 0; i < w->batch->n; i++) {
		struct pf_job *j = &w->batch->jobs[i];
		j->follows = j->answer->err == 0;
		any |= j->follows;
	}
	int r = any ? pf_branch_sync(w->batch->branch) : 0;
	return r < 0 ? pf_why_set(why, -EINPROGRESS, "version %" PRIu64 ", the head, may not be durable: %s",
				  w->head->version, strerror(-r))
		     : 0;
}

static void succeed(const struct work *w, const struct pf_manifest *m)
{
	for (size_t i = 0; i < w->batch->n; i++) {
		struct pf_job *j = &w->batch->jobs[i];
		if (j->answer->err < 0 || !depends(j))
			continue;
		j->answer->version = m->version;
		j->answer->committed = j->changes;
	}
}

/*
 * One attempt, after `lost` that others won or a signal ended. 0 if every job has its answer; -ESTALE or -EINTR if this one was, too: then those
 * that depend on it have the answer for the case that it was the last.
 */
static int attempt(struct work *w, unsigned lost)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;
	uint64_t version = 0;
	bool all = false;

	int r = judge(w, &why);
	if (r == 0) {
		version = w->head->version;
		r = check_answers(w, &why);
		if (r == 0)
			return 0;
	} else if (r < 0) {
		all = true;
	} else {
		version = w->head->version + 1;
		r = publish(w, &m, &why);
		if (r == -EINPROGRESS)
			r = pf_settle(w->batch->branch, version, w->head->version, w->uuid, &m);
		if (r == 0)
			r = check_branch(w, m, &why);
		if (r == 0) {
			succeed(w, m);
			return 0;
		}
	}
	pf_why_default(&why, r, "%s", strerror(-r));
	if (r == -ESTALE || r == -EINTR) {
		if (r == -ESTALE)
			pf_why_prefix(&why, r, "nothing was committed, %u attempts were lost to other writers",
				      lost + 1);
		fail_jobs(w, all, -EAGAIN, 0, &why);
		return r;
	}
	fail_jobs(w, all, r, r == -EINPROGRESS ? version : 0, &why);
	if (r == -EINPROGRESS)
		add_advice(w);
	return 0;
}

void pf_batch_run(const struct pf_batch *b)
{
	struct work w = { .batch = b, .kind = b->jobs[0].op->kind };
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, w.uuid);
	for (unsigned lost = 0; lost < b->options->attempts; lost++) {
		pf_back_off(lost);
		if (attempt(&w, lost) == 0)
			break;
	}
	for (size_t i = 0; i < b->n; i++)
		b->jobs[i].answer->attempts = w.published;
	work_reset(&w);
}
