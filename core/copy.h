/*
 * A copy of a table that released Lance writes to (design: section 4, "prepared work"): all versions, branches and tags, without bit 19 and without
 * pins. Files are hard links, since nobody ever changes one in place; manifests are new files. Base paths that lead into the table lead into the copy.
 */
#ifndef PF_COPY_H
#define PF_COPY_H

#include "store.h"

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

#endif
