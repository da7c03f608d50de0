#include "work.h"

#include <inttypes.h>

#include "backoff.h"
#include "flags.h"
#include "fri_branch.h"
#include "fri_write.h"
#include "lance.pb-c.h"
#include "settle.h"
#include "whole.h"

#define ATTEMPTS_DEFAULT 100
#define WATCH_MS	 250 /* as for pins (batch.c) */

struct run {
	struct pf_branch *b;
	const struct pf_work *w;
	struct pf_manifest *head;
	const struct pf_operation *operation;
	struct pf_operation derived;  /* what it is, if the work makes it */
	struct pf_manifest *restored; /* the version that a Restore names */
	struct pf_fri history;	      /* of the head, for what is judged by it */
	bool has_history;
	struct pf_rewrites rewritten; /* since an index was built */
	uint64_t checked;	      /* up to this version; 0: not yet */
	struct pf_time now;
	bool keep_file;
	struct pf_work_result *out;
};

static void run_release(struct run *x)
{
	pf_manifest_unref(x->head);
	pf_manifest_unref(x->restored);
	pf_fri_release(&x->history);
	pf_rewrites_release(&x->rewritten);
	pf_operation_release(&x->derived);
}

static int judge(struct run *x, const struct pf_operation *theirs, uint64_t version, struct pf_why *why)
{
	const struct pf_conflict_view view = {
		.history = x->has_history ? &x->history : NULL,
		.records = x->w->records,
		.tagged = x->head->writer_flags & PF_FLAG_TAGGED_FRI,
	};

	int r = pf_conflict(x->operation, theirs, version, &view, why);
	if (r != PF_ALLOWED)
		return r == PF_RETRYABLE ? -EAGAIN : r == PF_INCOMPATIBLE ? -ESTALE : r;
	if (x->operation->number != LANCE__TRANSACTION__OPERATION__CREATE_INDEX)
		return 0;
	if (theirs->number == LANCE__TRANSACTION__OPERATION__MERGE)
		return pf_rewrites_add_merge(&x->rewritten, x->b, theirs, version, x->operation, why);
	return pf_rewrites_add(&x->rewritten, theirs);
}

/* By what stands at `version`. 1: it is this very transaction. */
static int check_version(struct run *x, uint64_t version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_operation_release) struct pf_operation theirs = { 0 };
	const struct pf_operation *ours = x->operation;
	int r = 0;

	if (version == x->head->version)
		m = pf_manifest_ref(x->head);
	else
		r = pf_branch_version(x->b, version, &m, why);
	if (r == -ENOENT)
		return pf_why_set(why, -EAGAIN,
				  "version %" PRIu64
				  " is gone, which was committed after this was prepared on version %" PRIu64
				  ": whether they conflict cannot be told, prepare it anew",
				  version, ours->read_version);
	if (r == 0)
		r = pf_operation_read(pf_branch_store(x->b), pf_branch_dir(x->b), m, &theirs, why);
	if (r == -ENOENT || r == -ENODATA)
		return pf_why_prefix(why, -EAGAIN, "whether it conflicts with version %" PRIu64 " cannot be told",
				     version);
	if (r < 0)
		return r;
	return strcmp(theirs.uuid, ours->uuid) == 0 ? 1 : judge(x, &theirs, version, why);
}

/* From the version it names on, past what is known. */
static int check_known(struct run *x, struct pf_why *why)
{
	const struct pf_seen *seen = x->w->seen;
	int r = 0;

	x->checked = x->operation->read_version;
	pf_rewrites_release(&x->rewritten);
	for (size_t i = 0; seen && r == 0 && i < seen->n; i++)
		r = judge(x, &seen->v[i].operation, seen->v[i].version, why);
	if (seen)
		x->checked = seen->upto;
	return r;
}

/* The head's history of moved rows decides whether an index may land over a compaction. */
static int read_history(struct run *x, struct pf_why *why)
{
	pf_fri_release(&x->history);
	x->has_history = false;
	if (x->operation->number != LANCE__TRANSACTION__OPERATION__CREATE_INDEX)
		return 0;
	int r = pf_fri_read_branch(x->b, x->head, &x->history, why);
	x->has_history = r == 0;
	return r == -ENODATA ? 0 : r;
}

/* Against every version since it was prepared that was not looked at yet. 1 and out->version: it was committed before. */
static int check_all(struct run *x, struct pf_why *why)
{
	uint64_t since = x->operation->read_version;

	if (since > x->head->version)
		return pf_why_set(why, -EINVAL,
				  "it was prepared on version %" PRIu64 ", and the head is %" PRIu64
				  ": is it work for another table or branch?",
				  since, x->head->version);
	int r = read_history(x, why);
	if (r < 0)
		return r;
	/* A history that changed may decide otherwise over versions that were looked at. */
	if (x->checked == 0 || x->operation->number == LANCE__TRANSACTION__OPERATION__CREATE_INDEX)
		r = check_known(x, why);
	while (r == 0 && x->checked < x->head->version) {
		r = check_version(x, x->checked + 1, why);
		x->checked++;
	}
	x->out->checked = x->checked - since;
	if (r == 1)
		r = pf_publish_followed(x->b, x->head, x->checked, why);
	if (r != 1)
		return r;
	x->out->version = x->checked;
	/* By a process that may have ended before. */
	r = pf_branch_sync(x->b);
	return r < 0 ? pf_why_set(why, -EINPROGRESS,
				  "it was committed as version %" PRIu64 ", which may not be durable: %s", x->checked,
				  strerror(-r))
		     : 1;
}

/* Restore starts from another version than the head. */
static int open_restored(struct run *x, struct pf_why *why)
{
	const struct pf_operation *o = x->operation;

	/* Anew for each attempt: a migration may have renamed it, or a cleanup removed it. */
	pf_manifest_unref(STEAL(x->restored));
	if (o->number != LANCE__TRANSACTION__OPERATION__RESTORE)
		return 0;
	int r = pf_branch_version(x->b, o->version, &x->restored, why);
	if (r == -ENOENT)
		return pf_why_set(why, -EINVAL, "it restores version %" PRIu64 ", which is not there", o->version);
	return r;
}

/* A cleanup may be at it, or have been. */
static int check_restored(const struct run *x, struct pf_why *why)
{
	const struct pf_manifest *m = x->restored;

	int r = pf_manifest_whole(pf_branch_store(x->b), pf_branch_dir(x->b), x->head, m, m->name, why);
	return r < 0 ? pf_why_prefix(why, r, "version %" PRIu64 " is not restored, another one may be", m->version) : 0;
}

static int publish(struct run *x, struct pf_next *next, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_operation *o = x->operation;
	struct pf_splice splice;
	struct pf_publish_work work = {
		.from = next->from,
		.splice = &splice,
		.read_version = o->read_version,
		.uuid = o->uuid,
		.transaction = o->bytes.data,
		.transaction_len = o->bytes.len,
		.keep_file = x->keep_file,
	};

	int r = pf_next_finish(next, &splice, &work.writer_flags, why);
	if (r == 0 && x->restored)
		r = check_restored(x, why);
	if (r < 0)
		return r;
	x->out->version = next->version;
	if (x->w->dry_run)
		return 0;
	const struct pf_publish p = {
		.base = x->head,
		/* Versions do not go back in time, whatever this host's clock does. */
		.timestamp = pf_time_cmp(x->now, x->head->timestamp) > 0 ? x->now : x->head->timestamp,
		.pins = &x->head->pins,
		.watch_ms = WATCH_MS,
		.work = &work,
	};
	r = pf_fri_store(pf_branch_store(x->b), pf_branch_dir(x->b), next, why);
	if (r < 0)
		return r;
	x->out->attempts++;
	r = pf_publish(x->b, &p, &m, why);
	if (r == -EINPROGRESS)
		r = pf_settle(x->b, next->version, x->keep_file ? 0 : o->read_version, o->uuid, &m);
	/* Only of what is known to have failed; else a version may name it. */
	if (r < 0 && r != -EINPROGRESS)
		pf_fri_unstore(pf_branch_store(x->b), pf_branch_dir(x->b), next);
	return r;
}

/* Somebody else was faster: again. */
#define LOST 1

/* What becomes of the head. Returns as a pf_derive_fn. */
static int make(struct run *x, struct pf_next *next, struct pf_why *why)
{
	const struct pf_work *w = x->w;
	const struct pf_apply a = {
		.branch = x->b,
		.rewritten = &x->rewritten,
		.ids_given = w->ids_given,
		.remapped_all = w->remapped_all,
	};
	const struct pf_gate g = {
		.moved = w->moved,
		.records = w->records,
		.remapped = x->operation && x->operation->n_swaps && !w->remapped_all,
		.now = x->now,
	};

	if (w->derive) {
		pf_operation_release(&x->derived);
		return w->derive(w->derive_arg, x->b, next, x->now, &x->derived, why);
	}
	int r = pf_apply(&a, x->operation, next, why);
	return r < 0 ? r : pf_gate(&g, x->b, x->operation, next, why);
}

static int attempt(struct run *x, struct pf_why *why)
{
	_cleanup_(pf_next_release) struct pf_next next = { 0 };
	const struct pf_work *w = x->w;

	pf_manifest_unref(STEAL(x->head));
	x->now = w->clock ? w->clock(w->clock_arg) : pf_time_now();
	int r = pf_branch_head(x->b, &x->head, why);
	if (r == 0 && !w->derive)
		r = check_all(x, why);
	if (r > 0) {
		x->out->already = true;
		return 0;
	}
	if (r == 0 && !w->derive)
		r = open_restored(x, why);
	if (r < 0)
		return r;
	r = pf_next_init(&next, pf_branch_store(x->b), x->head, x->restored, why);
	if (r == -ESTALE)
		return LOST; /* the head's file was renamed or removed under our hands */
	if (r == 0)
		r = make(x, &next, why);
	if (r < 0)
		return r;
	if (r == PF_WORK_NONE) {
		x->out->version = 0;
		return 0;
	}
	r = publish(x, &next, why);
	return r == -ESTALE || r == -EINTR ? LOST : r;
}

static int check_operation(struct run *x, struct pf_why *why)
{
	const struct pf_operation *o = x->operation;

	if (!pf_apply_can(o))
		return pf_why_set(why, -EINVAL, "%s is not an operation that pinfs commits", pf_operation_name(o));
	if (!o->uuid[0])
		return pf_why_set(why, -EINVAL, "the transaction has no uuid, by which it could be found again");
	/* The user may well have named the file where it is to lie: then it is left alone, whatever becomes of the commit. */
	int r = pf_operation_file(pf_branch_store(x->b), pf_branch_dir(x->b), o, why);
	x->keep_file = r > 0;
	return r < 0 ? r : 0;
}

int pf_work_commit(struct pf_branch *b, const struct pf_work *w, struct pf_work_result *out, struct pf_why *why)
{
	*out = (struct pf_work_result){ 0 };
	_cleanup_(run_release) struct run x = { .b = b, .w = w, .out = out };
	unsigned attempts = w->attempts ? w->attempts : ATTEMPTS_DEFAULT;

	x.operation = w->derive ? &x.derived : w->operation;
	int r = w->derive ? 0 : check_operation(&x, why);
	if (r < 0)
		return r;
	for (unsigned lost = 0; lost < attempts; lost++) {
		struct pf_why inner = PF_WHY_INIT;
		pf_back_off(lost);
		r = attempt(&x, &inner);
		if (r == LOST)
			continue;
		if (r < 0)
			pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
		return r;
	}
	return pf_why_set(why, -EAGAIN, "nothing was committed, %u attempts were lost to other writers", attempts);
}
