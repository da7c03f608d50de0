/*
 * Making and removing branches (design: section 4, "branches"; lance-maintenance 5.3 and 5.4). A branch is there when its ref is: creation puts that last, and
 * deletion removes it first. What a crash leaves of either is a directory under tree/ without a ref, which nobody reads and whose name cannot be used
 * until a deletion with `force` has looked into it and removed it.
 */
#ifndef PF_BRANCH_MAKE_H
#define PF_BRANCH_MAKE_H

#include "branch.h"

/*
 * Make the branch `name` from a version of `from`. Its first version is clone.h's.
 *   -EINVAL       a name that Lance refuses, or, beyond ASCII, cannot list; or that lies in a folder of another branch's files, or has one in its own
 *   -EEXIST       there is such a branch
 *   -EBUSY        there is none, but its directory has versions: what an earlier attempt left, or somebody is making or deleting it
 *   -ENOENT       no such version, or it was removed meanwhile
 *   -EINPROGRESS  storage failed, and whether the ref is there cannot be read
 *   -EAGAIN       somebody else made it at the same time, of another version, or removed it
 *   others        of pf_clone_make, and storage's; then there is no such branch
 */
int pf_branch_create(struct pf_branch *from, uint64_t version, const char *name, struct pf_time now,
		     struct pf_why *why);

/*
 * Delete a branch: its ref, then all its files. Other branches' directories below its own stay, with or without a ref. `force`: also one whose ref is
 * missing, of which there may be no more than the directory. Refused, forced or not:
 *   -EBUSY   it has pins, lost pins, children or tags, or a head that cannot be read; the sentence names them
 *   -ENOENT  no such branch; without `force` also if only its directory is there
 *   -EAGAIN  somebody else deleted it at the same time
 *   others   of pf_branches_list and pf_tags_list, and storage's. If files could not be removed the branch is deleted all the same, and the sentence says so
 */
int pf_branch_delete(struct pf_store *st, const char *name, bool force, struct pf_why *why);

#endif
