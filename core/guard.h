/*
 * Guard tags (design: section 1): one ordinary tag on a pin's source, `_refs/tags/pinfs-<id>.json`, because released Lance up to 13 and
 * LanceDB's optimize() clean a pinned table without knowing pins, and refuse when an old version carries a tag. A tag that cannot be
 * written is a warning, never a failed pin. Whether tags and pins agree is asked in lost.h.
 */
#ifndef PF_GUARD_H
#define PF_GUARD_H

#include "branch.h"
#include "pin.h"

/*
 * Put the tag of `pin`, a pin of branch `b`, unless it is there; one that an earlier pin of the same id and branch left on another source is
 * replaced. 0 if it is there now. The tag says the same for the same pin whoever puts it: its times are the pin's created_at.
 *   -ENOENT   the source's manifest is gone
 *   -EEXIST   something else has the name: a tag without our metadata, or moved since, or of another branch's pin of the same id
 *   -EBADMSG  the file of that name is damaged
 *   other     storage's error
 */
int pf_guard_put(struct pf_branch *b, const struct pf_pin *pin, struct pf_why *why);

/*
 * Remove the guard tag of `id` on branch `b`. 0 also if there is none, or only one of another branch's pin. A tag of that name without our
 * metadata, or moved since, is left: -EEXIST. -EBADMSG: damaged, and left.
 */
int pf_guard_remove(struct pf_branch *b, const struct pf_uuid *id, struct pf_why *why);

/* The id of the pin that the name of a guard tag says: 1 and *out, or 0 if it is not such a name. */
int pf_guard_name_parse(const char *name, struct pf_uuid *out);

struct pf_guard {
	struct pf_uuid pin;
	uint64_t source_version;
	char source_txn[PF_UUID_TEXT];
	char branch_id[PF_BRANCH_ID_TEXT]; /* "" on main */
};
struct pf_guards {
	struct pf_guard *v;
	size_t n;
};
void pf_guards_release(struct pf_guards *l);

/* Is this tag one of ours? 1 and *out, 0 no; -EBADMSG if it has our name or metadata but not the shape; -ENOMEM. */
int pf_guard_from_tag(const struct pf_tag *t, struct pf_guard *out, struct pf_why *why);

/* Is it the tag that pf_guard_put makes for this pin? */
bool pf_guard_is_of(const struct pf_guard *g, const struct pf_pin *pin);

/* The guard tags of pins of branch `b` (by branch id), sorted by id. Errors of pf_tags_list and pf_guard_from_tag. */
int pf_guards_list(struct pf_branch *b, struct pf_guards *out, struct pf_why *why);

/* The one of pin `id` in a sorted list, NULL if there is none. */
struct pf_guard *pf_guards_find(const struct pf_guards *l, const struct pf_uuid *id);

#endif
