#include "pinctl.h"

#include <inttypes.h>

#include "core/replay.h"
#include "core/txn.h"
#include "progress.h"

struct replaying {
	struct ctl *c;
	struct pf_replay *replay;
	struct progress progress;
	struct json_list list;
	const char *dir; /* of the copy */
	const struct pf_replay_version *v;
	size_t n, before;	 /* how many were in before this run */
	uint64_t made, last, as; /* what is in: up to this version of the copy, as that one of the table */
	bool dry_run;
};

/* A version of the copy, and what became of it. */
static int print_one(struct replaying *x, const struct pf_replay_version *v, const char *state)
{
	char unused[32];
	const char *operation = pf_txn_operation_name(v->operation, unused);
	bool is_in = v->state != PF_REPLAY_SKIPPED && v->as;

	progress_clear(&x->progress);
	if (!x->c->json) {
		printf("%" PRIu64 "\t", v->version);
		if (is_in)
			printf("%" PRIu64 "\t%s\t%s\n", v->as, operation, state);
		else
			printf("-\t%s\t%s\n", operation, state);
		/* Whatever ends the run: what is in was told. */
		fflush(stdout);
		return 0;
	}
	json_t *j = json_object();
	pf_json_put(&j, "copy_version", pf_json_u64(v->version));
	pf_json_put(&j, "version", is_in ? pf_json_u64(v->as) : json_null());
	pf_json_put(&j, "operation", json_string(operation));
	pf_json_put(&j, "transaction", json_string(v->uuid));
	pf_json_put(&j, "state", json_string(state));
	return json_list_add(&x->list, j);
}

/* What an earlier run did. */
static int print_before(struct replaying *x)
{
	int status = 0;

	for (; status == 0 && x->before < x->n && x->v[x->before].state != PF_REPLAY_PENDING; x->before++) {
		const struct pf_replay_version *v = &x->v[x->before];
		if (v->state == PF_REPLAY_SKIPPED && !v->as)
			break; /* its turn is still to come */
		status = print_one(x, v, v->state == PF_REPLAY_SKIPPED ? "left-out" : "already");
		x->last = v->version;
		x->as = v->as;
	}
	return status;
}

static int stopped(struct replaying *x, int err, const struct pf_replay_version *v, struct pf_why *why)
{
	char unused[32];

	progress_clear(&x->progress);
	if (v->version)
		pf_why_prefix(why, err, "version %" PRIu64 " of the copy, %s", v->version,
			      pf_txn_operation_name(v->operation, unused));
	int status = ctl_fail(err, why);
	if (err == -EINPROGRESS)
		ctl_advise(x->c, "from-copy", x->dir);
	if (x->last > x->made)
		ctl_say("of the copy are in: its versions up to %" PRIu64 ", the last as version %" PRIu64
			"; the same command goes on behind them",
			x->last, x->as);
	else
		ctl_say("nothing of the copy is in");
	return status;
}

static int replay_all(struct replaying *x, struct pf_why *why)
{
	int status = print_before(x);
	size_t done = x->before;

	while (status == 0) {
		struct pf_replay_version v = { 0 };
		if (progress_is_over(&x->progress))
			return stopped(x, pf_why_set(why, -EINTR, "interrupted"), &v, why);
		if (progress_is_due(&x->progress))
			progress_say(&x->progress, "committed %zu of %zu versions of the copy", done, x->n);
		int r = pf_replay_next(x->replay, x->dry_run, &v, why);
		if (r < 0)
			return stopped(x, r, &v, why);
		if (r == 0)
			break;
		done++;
		if (v.state != PF_REPLAY_PENDING) {
			x->last = v.version;
			x->as = v.as;
		}
		status = print_one(x, &v,
				   v.state == PF_REPLAY_SKIPPED	  ? "left-out"
				   : v.state == PF_REPLAY_PENDING ? "possible"
								  : "committed");
		if (v.state == PF_REPLAY_PENDING)
			break;
	}
	/* Whether they could follow is known only when those before them are in. */
	for (; status == 0 && x->dry_run && done < x->n; done++)
		status = print_one(x, &x->v[done], "later");
	return status;
}

static int open_copy(struct ctl *c, const char *dir, struct pf_store **st, struct pf_branch **b, struct pf_why *why)
{
	int r = pf_store_local_open(dir, st, why);

	if (r == 0)
		r = pf_branch_open(*st, c->branch_name, b, why);
	return r < 0 ? pf_why_prefix(why, r == -ENOENT ? -EINVAL : r, "the copy") : 0;
}

int commit_copy(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *copy = NULL;
	_cleanup_(pf_replay_freep) struct pf_replay *replay = NULL;
	struct replaying x = { .c = c, .dry_run = args_value(a, "dry-run") != NULL };
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open(c, &why);
	if (r == 0)
		r = open_copy(c, args_value(a, "from-copy"), &st, &copy, &why);
	if (r == 0)
		r = pf_replay_open(c->branch, copy, args_value(a, "skip-indices") != NULL, &replay, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	x.replay = replay;
	x.dir = st->at;
	x.v = pf_replay_versions(replay, &x.n, &x.made);
	progress_open(&x.progress);
	int status = replay_all(&x, &why);
	progress_close(&x.progress);
	if (c->json)
		json_list_end(&x.list);
	if (status)
		return status;
	if (x.n == 0)
		ctl_say("nothing was committed on the copy since version %" PRIu64 ", of which it was made", x.made);
	else if (x.dry_run)
		ctl_say("nothing was written");
	else
		ctl_say("all %zu versions of the copy since version %" PRIu64 " are in; %zu were before", x.n, x.made,
			x.before);
	return 0;
}
