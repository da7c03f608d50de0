/* What the files that make up fri.h share among themselves. */
#ifndef PF_FRI_PARTS_H
#define PF_FRI_PARTS_H

#include "fri.h"

/* -EOPNOTSUPP unless 0 or 1. */
int pf_fri_version_check(int32_t index_version, struct pf_why *why);

/*
 * Judge a history whose wire form is decoded, by the rules of its index_version, and fill in its `sources`.
 *   -EBADMSG  the sentence names the record, and the group of a legacy one
 */
int pf_fri_check(struct pf_fri *f, struct pf_why *why);

#endif
