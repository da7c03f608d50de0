/*
 * May work that was prepared on one version still be committed after others were? Lance 14's matrix of operations and its refinements
 * (lance-14-fri section 6, lance-maintenance section 7), in the case that the work is a transaction: which rows it affects is not known.
 */
#ifndef PF_CONFLICT_H
#define PF_CONFLICT_H

#include "fri.h"
#include "operation.h"

enum pf_verdict {
	PF_ALLOWED,
	PF_RETRYABLE,	 /* prepare it anew on the version as it is now */
	PF_INCOMPATIBLE, /* it can never be committed over that one */
};

/* What else is known. All may be NULL. */
struct pf_conflict_view {
	const struct pf_fri *history; /* of the head */
	bool records; /* ours is a Rewrite that records what it moves, so that indices may follow later */
	bool tagged;  /* the table's records are tagged: one that was consumed can never be consumed again */
};

/*
 * Judge `ours` against `theirs`, which was committed as `version`. *why is set when it is not allowed: it names both operations, the version, and what to
 * do. Negative: -EBADMSG a damaged bitmap, -ENOMEM.
 */
int pf_conflict(const struct pf_operation *ours, const struct pf_operation *theirs, uint64_t version,
		const struct pf_conflict_view *view, struct pf_why *why);

#endif
