/*
 * What an operation makes of a version: the fragments, index entries, settings and counters that Lance 14 would publish for the same transaction on the
 * same head (lance-14-fri section 7; lance-format 4.6), as changes to the next version (next.h). Pure but for reading: whether files are there, and
 * the history of moved rows. Done anew for every attempt. Where it differs from Lance on purpose, man/pinctl.1 says so ("COMMITTING PREPARED WORK").
 */
#ifndef PF_APPLY_H
#define PF_APPLY_H

#include "branch.h"
#include "fri.h"
#include "next.h"
#include "operation.h"
#include "rewritten.h"

struct pf_apply {
	struct pf_branch *branch;
	const struct pf_rewrites *rewritten; /* CreateIndex: since it was built; NULL: none */
	/* Fragment ids were given to the new fragments of a Rewrite by its caller; else they are assigned as Lance does for a raw commit. */
	bool ids_given;
	/*
	 * A Rewrite remapped indices with all that had moved before in mind: the history of moved rows, if there is one, has nothing that they lack. Else its
	 * movements are to be recorded, too (gate.h, `remapped`).
	 */
	bool remapped_all;
};

/*
 * Apply `o` to x, which was just started: from the head, for a Restore from the version it restores.
 *   -EINVAL      it does not fit this table or version: names a fragment, file, base, column that is not there; gives a live id; ...
 *   -EOPNOTSUPP  an operation, or something in it, that pinfs does not commit, named
 *   -EBADMSG     stored bytes that it depends on are damaged
 */
int pf_apply(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

/* Is it one of the operations that are committed at all? */
bool pf_apply_can(const struct pf_operation *o);

#endif
