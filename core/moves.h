/*
 * What a Rewrite moves, told of the version it is applied to: its groups as records of the history of moved rows have them. What whoever compacted says is
 * checked against the fragments; where it says nothing, the rows follow from the fragments, since Lance keeps their order: the live rows of the old ones, one
 * after the other, are the rows of the new ones (lance-14: compaction scans in order, group by group).
 *
 * Checked: the data and the deleted rows of each old fragment are those which were compacted; all of its live rows went in, and no others; as many came out.
 * Which rows are deleted their deletion files say; no others are read than those of the groups.
 */
#ifndef PF_MOVES_H
#define PF_MOVES_H

#include "branch.h"
#include "fri.h"
#include "next.h"
#include "operation.h"

/* Treemaps of the rows that were moved, as whoever compacted has them, in the order of the groups; an empty one says nothing. */
struct pf_moved {
	struct pf_buf *v;
	size_t n;
};
void pf_moved_release(struct pf_moved *l);

/* The newest record in `f` of what group `g` of a Rewrite moved: one of its fragments and of no other. NULL: there is none. */
const struct pf_fri_group *pf_moves_record(const struct pf_fri *f, const struct pf_rewrite_group *g);

struct pf_group_moves {
	struct pf_digest *from, *to; /* as the head has them, and with the ids that the new ones were given */
	size_t n_from, n_to;
	struct pf_span rows; /* a treemap; empty: see pf_moves_make */
	struct pf_buf made;  /* it, if it was made here */
	const char *unknown; /* why rows cannot be told, behind "since"; NULL: they can */
};

struct pf_moves {
	struct pf_group_moves *v;
	size_t n;
};
void pf_moves_release(struct pf_moves *l);

/*
 * Those of `o`, a Rewrite that was just applied to x (apply.h), whose base is the head of b; `said` may be NULL, and outlives *out.
 *   -EINVAL      they do not fit the fragments: the sentence names group and fragment
 *   -EBADMSG     said: not a treemap; a deletion file is damaged or missing
 *   -EOPNOTSUPP  a deletion file is on a base that is not on a local file system
 */
int pf_moves_read(struct pf_branch *b, const struct pf_operation *o, struct pf_next *x, const struct pf_moved *said,
		  struct pf_moves *out, struct pf_why *why);

/* Make the rows of the groups of which nothing was said, where they can be told. Errors as above, but for the last. */
int pf_moves_make(struct pf_branch *b, struct pf_next *x, struct pf_moves *l, struct pf_why *why);

/*
 * On a table with stable row ids: do the new fragments have exactly the row ids of the live rows of the old ones, in their order?
 *   -EINVAL       they do not
 *   -EOPNOTSUPP   row ids are in a hidden column, which is not read here; a deletion file as above
 *   -EBADMSG      a deletion file is damaged or missing
 */
int pf_moves_check_ids(struct pf_branch *b, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

#endif
