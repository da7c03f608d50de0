/*
 * What a Rewrite moves, told of the version it is applied to: its groups as records of the history of moved rows have them. What whoever compacted says is
 * checked against the fragments; where it says nothing, the rows follow from the fragments if none of them has deletions.
 *
 * Checked: the data of each old fragment is that which was compacted; as many rows as are live there went in, of each fragment, and came out; each address is
 * one of a row. Which rows were deleted is checked by number only: Lance keeps most deletion files in compressed Arrow files, which are not read here.
 */
#ifndef PF_MOVES_H
#define PF_MOVES_H

#include "fri.h"
#include "next.h"
#include "operation.h"

/* Treemaps of the rows that were moved, as whoever compacted has them, in the order of the groups; an empty one says nothing. */
struct pf_moved {
	struct pf_buf *v;
	size_t n;
};
void pf_moved_release(struct pf_moved *l);

struct pf_group_moves {
	struct pf_digest *from, *to; /* as the head has them, and with the ids that the new ones were given */
	size_t n_from, n_to;
	struct pf_span rows; /* a treemap; empty: which rows were moved is not known */
	struct pf_buf made;  /* it, if it was made here */
};

struct pf_moves {
	struct pf_group_moves *v;
	size_t n;
};
void pf_moves_release(struct pf_moves *l);

/*
 * Those of `o`, a Rewrite that was just applied to x (apply.h); `said` may be NULL, and outlives *out.
 *   -EINVAL   they do not fit the fragments: the sentence names group and fragment
 *   -EBADMSG  said: not a treemap
 */
int pf_moves_read(const struct pf_operation *o, struct pf_next *x, const struct pf_moved *said, struct pf_moves *out,
		  struct pf_why *why);

/*
 * On a table with stable row ids: do the new fragments have exactly the row ids of the live rows of the old ones, in their order?
 *   -EINVAL       they do not
 *   -EOPNOTSUPP   row ids are in a hidden column, which is not read here
 */
int pf_moves_check_ids(const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

#endif
