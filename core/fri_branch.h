/* The history of one version of a branch, where nothing was surveyed: its content is found wherever it is. */
#ifndef PF_FRI_BRANCH_H
#define PF_FRI_BRANCH_H

#include "branch.h"
#include "fri.h"

/* As pf_fri_read of `m`, a manifest of b; external content may be on a base, which is resolved as in a survey (place.h). */
int pf_fri_read_branch(struct pf_branch *b, const struct pf_manifest *m, struct pf_fri *out, struct pf_why *why);

#endif
