/*
 * Deletion files: which rows of a fragment are deleted. An Arrow file of row offsets in no order, or, above 5,000 of them, a roaring bitmap; each file is
 * whole, the next one holds what the one before held (Lance 0.39 to 14; lance-format 2.4 and 3).
 */
#ifndef PF_DELETIONS_H
#define PF_DELETIONS_H

#include "fragment.h"
#include "rowaddr.h"
#include "store.h"

/*
 * No deletion file, and no list of offsets that one holds compressed, may be longer: memory that stored bytes can make us take. Lance's largest Arrow file has
 * 20 kB of offsets, and the bitmap of a fragment of two billion rows has at most these many.
 */
#define PF_DELETIONS_MAX (256u << 20)

/*
 * The offsets of the deleted rows of f, which has deletions and says how many rows it has. Its deletion file is below the directory `dir` of st, "" or ending in
 * a slash. *out belongs to the caller.
 *   -EBADMSG    damaged; missing; a row that f does not have; other than as many rows as the manifest says, if it does: the sentence names the file
 *   -EIO, ...   as storage says
 */
int pf_deletions_read(struct pf_store *st, const char *dir, const struct pf_fragment *f, struct pf_bitmap **out,
		      struct pf_why *why);

/* Do they have the same deletion file, or none? */
bool pf_deletions_same(const struct pf_fragment *a, const struct pf_fragment *b);

#endif
