/*
 * Guard tags (design: section 1): one ordinary tag on a pin's source, `_refs/tags/pinfs-<id>.json`, because released Lance up to 13 and
 * LanceDB's optimize() clean a pinned table without knowing pins, and refuse when an old version carries a tag. A tag that cannot be
 * written is a warning, never a failed pin.
 */
#ifndef PF_GUARD_H
#define PF_GUARD_H

#include "branch.h"
#include "pin.h"

/*
 * Put the tag of `pin`, a pin of branch `b`, unless a file of that name is there. 0 if it is there now. Else storage's error; -ENOENT if
 * the source's manifest is gone.
 */
int pf_guard_put(struct pf_branch *b, const struct pf_pin *pin, struct pf_why *why);

/* Remove the guard tag of `id` on branch `b`. 0 also if there is none. A tag of that name without our metadata is left: -EEXIST. */
int pf_guard_remove(struct pf_branch *b, const struct pf_uuid *id, struct pf_why *why);

struct pf_guard {
	struct pf_uuid pin;
	uint64_t source_version;
	char source_txn[PF_UUID_TEXT];
	char branch_id[PF_BRANCH_ID_TEXT];
};
struct pf_guards {
	struct pf_guard *v;
	size_t n;
};
void pf_guards_release(struct pf_guards *l);

/* Is this tag one of ours? 1 and *out, 0 no; -EBADMSG if it has our name or metadata but not the shape. */
int pf_guard_from_tag(const struct pf_tag *t, struct pf_guard *out, struct pf_why *why);

/* The guard tags of pins of branch `b` (by branch id), sorted by id. */
int pf_guards_list(struct pf_branch *b, struct pf_guards *out, struct pf_why *why);

/*
 * Compare guard tags with the head's pins: put missing ones, remove those whose pin was released or expired by an operation. With dry_run only
 * count. A tag whose pin is neither there nor named by an operation is a lost pin and stays.
 */
struct pf_guard_repair {
	uint64_t put, removed, failed, lost;
};
int pf_guard_repair(struct pf_branch *b, bool dry_run, struct pf_guard_repair *out, struct pf_why *why);

#endif
