/*
 * Pins that a writer dropped (design: section 1, "Lost pins"): released Lance up to 11 rebuilds a manifest without fields it does not know. A pin
 * of version v that is missing in v+1 with no operation naming it then or later, or a guard tag whose pin is neither there nor named, is lost,
 * until its id is active again, or is waived: a release that names it.
 *
 * A transaction that cannot be read names nobody; storage that fails is an error, and nothing is guessed from it.
 */
#ifndef PF_LOST_H
#define PF_LOST_H

#include "guard.h"
#include "history.h"

struct pf_lost {
	struct pf_pin pin; /* the last record; from a guard tag alone only id and source are known, times are zero */
	uint64_t version;  /* that dropped it; 0 if that version is not kept any more */
	char *writer;	   /* "lance 8.0.1"; NULL if not known */
};
struct pf_lost_list {
	struct pf_lost *v; /* ascending by version; those with version 0 last */
	size_t n;
	uint64_t since, until; /* what happened in the versions above `since`, up to `until`, was looked at */
};
void pf_lost_release(struct pf_lost *l);
void pf_lost_list_release(struct pf_lost_list *l);

/* Append the sentence: "pin ID of source 4:UUID is lost: version 5, written by lance 8.0.1, dropped it without naming it". */
int pf_lost_describe(const struct pf_lost *l, struct pf_buf *out);

/*
 * All lost pins of a branch, by a walk of the versions above `after` (0: all that are kept) and the guard tags. With `after`, what was lost up
 * to it is not asked again: its guard tags are those of an earlier look. Errors of pf_history_walk and pf_guards_list.
 */
int pf_lost_find(struct pf_branch *b, uint64_t after, struct pf_lost_list *out, struct pf_why *why);

/*
 * Those that a look of bounded cost finds: at the newest `versions` versions, fewer if their manifests are large, and as far back as the oldest
 * source of a guard tag whose pin is not there, so that with 0 only such tags cost anything. out->since says how far it went.
 */
int pf_lost_recent(struct pf_branch *b, uint64_t versions, struct pf_lost_list *out, struct pf_why *why);

/*
 * What became of the pin `id`, which is not on the head: 1 and *out if it is lost, 0 if it was released or expired, was never there, or went
 * longer ago than this looks: to its source if it has a guard tag, else a few versions of large manifests, thousands of small ones. For the
 * sentence of an error, which must not cost a walk of everything.
 */
int pf_lost_one(struct pf_branch *b, const struct pf_uuid *id, struct pf_lost *out, struct pf_why *why);

/*
 * Compare guard tags with the head's pins: put missing ones, remove those whose pin was released or expired by an operation. With dry_run only
 * count. A tag whose pin is neither there nor named by an operation is a lost pin and stays. Looks at the versions above the oldest source of
 * a tag without a pin; at none if there is no such tag. Returns 0 even if some failed: *why then says the last one.
 */
struct pf_guard_repair {
	uint64_t put, removed, failed, lost;
};
int pf_guard_repair(struct pf_branch *b, bool dry_run, struct pf_guard_repair *out, struct pf_why *why);

#endif
