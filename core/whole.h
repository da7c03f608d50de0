/*
 * Are the files there that a transaction brings? Whoever prepared it wrote them before; but what no version names yet is left over for a cleanup that looks
 * meanwhile, and a version without its files is worse than none. Nor did all writes succeed: Lance up to 14 at least loses the error of the last one to a data
 * file.
 */
#ifndef PF_WHOLE_H
#define PF_WHOLE_H

#include "operation.h"

/*
 * Look for the files of o's fragments and indices, in the branch directory `dir`, and whether they have all the bytes that it tells of. What lies on
 * other bases is not looked for.
 *   -ENOENT  one is missing or shorter: the sentence says which, and what to do
 *   others   of storage; -EBADMSG: damaged
 */
int pf_operation_whole(struct pf_store *st, const char *dir, const struct pf_operation *o, struct pf_why *why);

#endif
