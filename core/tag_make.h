/*
 * Making and removing tags, in Lance's own format (lance-14 section 1). Nothing of a table changes by it but a file in _refs/tags/; released Lance asks no
 * feature flag for it either.
 */
#ifndef PF_TAG_MAKE_H
#define PF_TAG_MAKE_H

#include "branch.h"

/*
 * Lance's rules for tag names, and one more: ASCII only. Lance 14 makes others, and can then list no tag of the table any more. -EINVAL with the reason,
 * also for the names of guard tags (guard.h), which are made and removed with their pins.
 */
int pf_tag_name_check(const char *name, struct pf_why *why);

/*
 * Tag a version of `b`.
 *   -EINVAL       the name
 *   -ENOENT       no such version, or it was removed meanwhile
 *   -EEXIST       there is a tag of this name; the sentence says on what
 *   -EINPROGRESS  storage failed, and whether the tag is there cannot be read, or it could not be removed again
 *   -EBADMSG ...  of pf_branch_version; storage's error: it is not there
 */
int pf_tag_create(struct pf_branch *b, const char *name, uint64_t version, struct pf_time now, struct pf_why *why);

/*
 * -ENOENT: there is none; -EINPROGRESS: it is gone, and storage failed to make that durable. A damaged one is removed, too: no Lance can list tags as long as
 * it is there.
 */
int pf_tag_delete(struct pf_store *st, const char *name, struct pf_why *why);

/* The file of a tag, as Lance prints it. `metadata`: text of a JSON object, printed as it is. */
struct pf_tag_text {
	const char *name, *branch; /* branch NULL: main; both were checked, so that nothing in them needs escaping */
	uint64_t version, manifest_size;
	struct pf_time created;
	const char *metadata;
};
int pf_tag_render(const struct pf_tag_text *t, struct pf_buf *out); /* 0 or -ENOMEM */
/* Put it unless it is there. Errors of pf_ref_put. */
int pf_tag_put(struct pf_store *st, const struct pf_tag_text *t);

#endif
