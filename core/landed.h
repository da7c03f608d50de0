/*
 * Has a transaction been committed before? By its uuid alone: the version it was prepared on is not known to whoever makes it anew.
 */
#ifndef PF_LANDED_H
#define PF_LANDED_H

#include "branch.h"

/*
 * Look for it among the files in _transactions/, and for the versions that they may have become.
 *   0        *read_version is the version it was prepared on when it landed
 *   -ENOENT  it has not landed; what may lie there is left of an attempt that was ended
 *   -EAGAIN  it may have landed as a version that is gone
 */
int pf_landed_find(struct pf_branch *b, const char *uuid, uint64_t *read_version, struct pf_why *why);

#endif
