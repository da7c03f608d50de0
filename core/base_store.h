/* Where the files of a base id of one version of a branch are, where nothing was surveyed. */
#ifndef PF_BASE_STORE_H
#define PF_BASE_STORE_H

#include "branch.h"

struct pf_base_store {
	struct pf_store *st;
	char *dir; /* in it: "" or ending in a slash */
	bool is_dataset_root;
	struct pf_store *opened; /* st, if it is another one than the branch's */
};
void pf_base_store_release(struct pf_base_store *s);

/*
 * Base `id` of m, a manifest of b, resolved as in a survey (place.h). What is at *out is released by the caller.
 *   -EBADMSG     m does not have it
 *   -EOPNOTSUPP  it is not on a local file system
 *   -ENOENT ...  as storage says
 */
int pf_base_store_open(struct pf_branch *b, const struct pf_manifest *m, uint32_t id, struct pf_base_store *out,
		       struct pf_why *why);

#endif
