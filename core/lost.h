/*
 * Pins that a writer dropped (design: section 1, "Lost pins"): released Lance up to 11 rebuilds a manifest without fields it does not know. A pin
 * of version v that is missing in v+1 with no operation naming it then or later, or a guard tag whose pin is neither there nor named, is lost,
 * until its id is active again, or is waived: a release that names it.
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
	struct pf_lost *v;
	size_t n;
	uint64_t since; /* versions above this one were looked at */
};
void pf_lost_release(struct pf_lost_list *l);

/* All lost pins of a branch, by a walk of the versions above `after` (0: all that are kept) and the guard tags. */
int pf_lost_find(struct pf_branch *b, uint64_t after, struct pf_lost_list *out, struct pf_why *why);

/* What became of the pin `id`, which is not on the head: 1 and *out if it is lost, 0 if it was released, expired or never there. Walks back from
 * the head, and stops where it is last seen. */
int pf_lost_one(struct pf_branch *b, const struct pf_uuid *id, struct pf_lost *out, struct pf_why *why);

#endif
