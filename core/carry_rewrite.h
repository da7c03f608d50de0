/* A compaction that a client made whole, told as the gate asks for it: what went, what came, and which rows the client says it moved. */
#ifndef PF_CARRY_REWRITE_H
#define PF_CARRY_REWRITE_H

#include "fri.h"
#include "moves.h"

/*
 * Prepare x, which was started by pf_next_init_staged, for pf_gate: the old fragments of `op` are in x->gone, the new ones stand last. *said has the rows of
 * those groups that `theirs`, the history of the staged manifest, has a record of; *any: there is one.
 *   -EINVAL       the manifest does not do what its transaction says
 *   -EOPNOTSUPP   its record is of a kind that cannot be checked
 */
int pf_carry_rewrite(struct pf_next *x, struct pf_store *st, const struct pf_operation *op, const struct pf_fri *theirs,
		     struct pf_moved *said, bool *any, struct pf_why *why);

#endif
