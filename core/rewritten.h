/*
 * Columns that were rewritten in place, in fragments that stayed: rows of an index on them no longer say what they said (lance-14-fri section 4). What an
 * operation rewrites itself, and for an index what was committed since it was built.
 */
#ifndef PF_REWRITTEN_H
#define PF_REWRITTEN_H

#include "branch.h"
#include "operation.h"

struct pf_rewritten {
	uint64_t fragment;
	struct pf_numbers fields;
};
struct pf_rewrites {
	struct pf_rewritten *v;
	size_t n;
};
void pf_rewrites_release(struct pf_rewrites *l);

/* Add those of an Update or DataReplacement. */
int pf_rewrites_add(struct pf_rewrites *l, const struct pf_operation *o);

/* Add those of one fragment: columns that are answered for by another file than before. */
int pf_rewrites_add_fragment(struct pf_rewrites *l, const struct pf_fragment *was, const struct pf_fragment *is);

/*
 * Add those of `merge`, which was committed as `version` of b after `index` was built, a CreateIndex.
 *   -EAGAIN  it changed the type of a column of the index; or what it was applied to is gone, so that it cannot be told
 */
int pf_rewrites_add_merge(struct pf_rewrites *l, struct pf_branch *b, const struct pf_operation *merge,
			  uint64_t version, const struct pf_operation *index, struct pf_why *why);

#endif
