/*
 * The first manifest of a new line of versions that is made from a version of another one, as Lance 14 makes it: a branch, or a shallow clone in a root
 * of its own (lance-maintenance 5.3; lance-14-fri correction 21). Files stay where they are: what had no base gets the source as one. The version keeps
 * its number. No pins; bit 19 as the source version has it. What makes a branch of it, its ref, is branch_make.h.
 */
#ifndef PF_CLONE_H
#define PF_CLONE_H

#include "branch.h"

struct pf_clone {
	struct pf_branch *from;
	const struct pf_manifest *source; /* one of its versions */
	struct pf_store *to;
	const char *dir;    /* of the new line in `to`: "" or "tree/x/" */
	const char *branch; /* its name; NULL: a clone */
	struct pf_time now;
};

/* The files that were made. */
struct pf_cloned {
	char *manifest, *transaction;
	struct pf_stat is;	     /* the manifest: others may remove it, and make one of its name */
	char *details, *details_dir; /* of a tagged history that is too long for its entry; else NULL */
};
void pf_cloned_release(struct pf_cloned *f);

/*
 * Make it: whole, durable, and the manifest last.
 *   -EEXIST      a manifest has its name
 *   -EOPNOTSUPP  the source needs a feature that pinfs does not maintain, or its history of moved rows cannot be interpreted; named
 *   -ENOENT      the source is gone
 *   -EBADMSG ... damaged; storage's error. Nothing of ours is left but directories, unless storage fails in removing, too, or does not say whether the
 *                manifest that is there is ours
 */
int pf_clone_make(const struct pf_clone *c, struct pf_cloned *out, struct pf_why *why);

/* Take it away again, the manifest first. What is gone is no error, and what somebody else put in its place stays. */
int pf_clone_undo(struct pf_store *to, const struct pf_cloned *f);

/* Is a manifest in `dir`_versions/ of `st`? 1 and its name in *name, which is the caller's; 0 none. `but` (NULL: none): of which nothing is said. */
int pf_clone_find(struct pf_store *st, const char *dir, const char *but, char **name, struct pf_why *why);

#endif
