/*
 * The commit of prepared work: check it against everything that was committed since it was prepared, apply it to the head, ask the compaction gate, publish
 * with pins and bit 19 kept, and again on a lost race. Outcomes as those of pin commits (commit.h).
 */
#ifndef PF_WORK_H
#define PF_WORK_H

#include "apply.h"
#include "branch.h"
#include "conflict.h"

/*
 * Asked on every attempt, when the operation was applied and nothing is published yet: may this replace the head, whose pins are x->base->pins? It may
 * still change x: the history of moved rows, above all. 0, or -EBUSY: it would break what a pin needs; the sentence names pins and fragments; other
 * errors as pf_apply.
 */
typedef int (*pf_gate_fn)(void *arg, struct pf_branch *b, const struct pf_operation *o, struct pf_next *x,
			  struct pf_why *why);

struct pf_work {
	const struct pf_operation *operation; /* borrowed */
	pf_gate_fn gate;		      /* NULL: pf_work_gate */
	void *gate_arg;
	bool records;			    /* a Rewrite: the gate records what it moves */
	bool ids_given;			    /* a Rewrite: see pf_apply */
	bool dry_run;			    /* do all but publish */
	struct pf_time (*clock)(void *arg); /* NULL: pf_time_now */
	void *clock_arg;
	unsigned attempts; /* lost races before -EAGAIN; 0: the default, 100 */
};

struct pf_work_result {
	uint64_t version; /* committed as; dry run: would be; -EINPROGRESS: may be */
	bool already;	  /* the same transaction was committed before, as `version` */
	unsigned attempts;
	uint64_t checked; /* versions that it was checked against */
};

/*
 * Commit it.
 *   0            *out, also if it had been committed before
 *   -EAGAIN      a retryable conflict, or races lost: prepare it anew; nothing was committed
 *   -ESTALE      an incompatible conflict: it can never be committed
 *   -EBUSY       the gate: blocked by pins
 *   -EINVAL      it does not fit this table: see pf_apply; or it was prepared on a version that is not there yet
 *   -EINPROGRESS unknown outcome: run it again to find out, that is safe
 *   -EOPNOTSUPP, -EBADMSG, ... as pf_apply and pf_publish
 */
int pf_work_commit(struct pf_branch *b, const struct pf_work *w, struct pf_work_result *out, struct pf_why *why);

/* The gate as long as nothing records movements: a Rewrite is refused if the head has pins. */
int pf_work_gate(void *arg, struct pf_branch *b, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

#endif
