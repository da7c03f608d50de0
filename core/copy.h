/*
 * A copy of a table that released Lance writes to (design: section 4, "prepared work"): all versions, branches and tags, without bit 19 and without
 * pins. Files are hard links, since nobody ever changes one in place; manifests are new files. Base paths that lead into the table lead into the copy.
 */
#ifndef PF_COPY_H
#define PF_COPY_H

#include "store.h"
#include "text.h"

struct pf_copied {
	uint64_t linked, manifests;
};

/*
 * Copy all of `from` into `to`, an empty directory of the same file system that will be found at the absolute path `at`. Guard tags and what is being
 * written stay behind. Both local.
 *   -EXDEV       another file system
 *   -EAGAIN      a file went while it was copied: somebody cleans
 *   -EOPNOTSUPP  a link among the files, or a feature of a manifest, named
 *   -EBADMSG ... a manifest is damaged; storage's error. What is in `to` then is of no use
 */
int pf_copy_table(struct pf_store *from, struct pf_store *to, const char *at, struct pf_copied *out,
		  struct pf_why *why);

/* Of which version of a branch a copy was made: it says so itself, in a file of its own, a line a branch. */
#define PF_COPY_ORIGIN ".pinfs-copy"
struct pf_copy_origin {
	uint64_t version;
	char uuid[PF_UUID_TEXT]; /* of its transaction */
};

/* Write it into a copy that is complete. Branches whose head does not say its transaction are left out. */
int pf_copy_origin_write(struct pf_store *copy, struct pf_why *why);

/*
 * Of the branch in `dir` ("" or "tree/x/").
 *   -EINVAL   it is not a copy of ours, or has no such branch since it was made
 *   -EBADMSG  the file is damaged
 */
int pf_copy_origin(struct pf_store *copy, const char *dir, struct pf_copy_origin *out, struct pf_why *why);

#endif
