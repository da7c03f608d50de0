/*
 * The compaction gate (proposal: "Compaction and cleanup"; design: section 4): asked on every attempt, of the head that is replaced, before anything is
 * published. Each group of a Rewrite whose old fragments a pin follows must have its record in the resulting history of moved rows. It writes the records itself,
 * behind those that are there.
 *
 * Which fragments pins follow: those of a pin's source, and where records moved their rows. With a history of version 0, or none, what is not followed is recorded
 * as well where it can be: pins keep all later records of such a history, by their stamps.
 */
#ifndef PF_GATE_H
#define PF_GATE_H

#include "branch.h"
#include "moves.h"

/* What it is asked about. Zero: a transaction, which does not say which rows it moved. */
struct pf_gate {
	const struct pf_moved *moved; /* borrowed; NULL: see moves.h */
	bool records; /* record what indices and the history itself cover even if no pin needs it, as Lance does where remapping them is deferred */
	/*
	 * It remapped indices by the addresses that rows had when it was planned. Of rows that moved before, some kinds of index still say where they were before
	 * that (lance-14-fri correction 11): those are found only if the record of each of their movements is there, so all of them are made.
	 */
	bool remapped;
	const struct pf_fri *
		there; /* borrowed; the history that x was made with by somebody else, which stays if it is what would be written */
	struct pf_time now;
};

/*
 * May `o`, which was applied to x, replace x->base? A Rewrite is recorded in x; what else there is passes.
 *   -EBUSY        a pin needs a record that cannot be made, or it cannot be told what it needs: the sentence names pins and fragments
 *   -EAGAIN       an index, or a tagged history, needs such a record
 *   -EINVAL       the moves do not fit the fragments (moves.h), or make no valid history
 *   -EOPNOTSUPP   the history holds what we cannot interpret; stable row ids, or deleted rows, that cannot be read
 *   -EBADMSG      a deletion file of a group is damaged or missing
 */
int pf_gate(const struct pf_gate *g, struct pf_branch *b, const struct pf_operation *o, struct pf_next *x,
	    struct pf_why *why);

#endif
