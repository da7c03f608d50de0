/*
 * When the records of a version 0 history were published. Lance up to 13 stamps them with any version before that, so that an index built in between seems to be
 * built afterwards, and a trim by stamps alone would lose its rows (lance-14-fri correction 4).
 */
#ifndef PF_FRI_PUBLISHED_H
#define PF_FRI_PUBLISHED_H

#include "branch.h"
#include "fri.h"

/*
 * Set `published` of those legacy records of f, the history of `head`, of which an index in `l` is younger than the stamp: the first version that is there and
 * has the record. If versions before it are gone, that is later than it was, and more is kept than need be.
 */
int pf_fri_find_published(struct pf_branch *b, const struct pf_manifest *head, const struct pf_indices *l,
			  struct pf_fri *f, struct pf_why *why);

#endif
