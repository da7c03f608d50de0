/*
 * The commit of prepared work: check it against everything that was committed since it was prepared, apply it to the head, ask the compaction gate, publish
 * with pins and bit 19 kept, and again on a lost race. Outcomes as those of pin commits (commit.h).
 */
#ifndef PF_WORK_H
#define PF_WORK_H

#include "apply.h"
#include "branch.h"
#include "conflict.h"
#include "gate.h"

/*
 * Work that is no transaction that somebody prepared, but made anew for each head: changes x, which was just started from it, and says in *o what is published as
 * its transaction (bytes, read_version, uuid). 0, PF_WORK_NONE: there is nothing to do; or an error, which ends it.
 */
#define PF_WORK_NONE 1
typedef int (*pf_derive_fn)(void *arg, struct pf_branch *b, struct pf_next *x, struct pf_time now,
			    struct pf_operation *o, struct pf_why *why);

/*
 * Work that was prepared on more than the version it names: what was committed since, up to `upto`, is its own past, but for these versions, by which it is judged.
 * All is borrowed.
 */
struct pf_seen {
	uint64_t upto;
	struct pf_seen_version {
		uint64_t version;
		struct pf_operation operation;
	} * v;
	size_t n;
};

struct pf_work {
	const struct pf_operation *operation; /* borrowed; NULL: `derive` makes it */
	pf_derive_fn derive;
	void *derive_arg;
	const struct pf_moved *moved;	    /* a Rewrite: the rows that it moved, see moves.h; may be NULL */
	bool records;			    /* a Rewrite: record them also if only indices need that, see gate.h */
	bool ids_given;			    /* a Rewrite: see pf_apply */
	bool remapped_all;		    /* a Rewrite: see pf_apply */
	const struct pf_seen *seen;	    /* NULL: every version since the one it names is judged by */
	bool dry_run;			    /* do all but publish */
	struct pf_time (*clock)(void *arg); /* NULL: pf_time_now */
	void *clock_arg;
	unsigned attempts; /* lost races before -EAGAIN; 0: the default, 100 */
};

struct pf_work_result {
	uint64_t version; /* committed as; dry run: would be; -EINPROGRESS: may be; 0: there was nothing to do */
	bool already;	  /* the same transaction was committed before, as `version` */
	unsigned attempts;
	uint64_t checked; /* versions that it was checked against */
};

/*
 * Commit it.
 *   0            *out, also if it had been committed before
 *   -EAGAIN      a retryable conflict, or races lost: prepare it anew; nothing was committed
 *   -ESTALE      an incompatible conflict: it can never be committed
 *   -EBUSY       the compaction gate (gate.h): blocked by pins
 *   -EINVAL      it does not fit this table: see pf_apply; or it was prepared on a version that is not there yet
 *   -EINPROGRESS unknown outcome: run it again to find out, that is safe
 *   -EOPNOTSUPP, -EBADMSG, ... as pf_apply and pf_publish
 */
int pf_work_commit(struct pf_branch *b, const struct pf_work *w, struct pf_work_result *out, struct pf_why *why);

#endif
