/*
 * The fragments of a version that is being made: those of the version it is made from, which stay bytes of its file, and new ones in memory. A
 * million of them cost one walk and 40 bytes each; only what an operation touches is decoded.
 */
#ifndef PF_ROSTER_H
#define PF_ROSTER_H

#include "fragment.h"
#include "manifest.h"

enum pf_slot_facts {
	PF_SLOT_DELETIONS = 1,
	PF_SLOT_ROW_IDS = 2,
	PF_SLOT_COLUMN = 4, /* a lineage sequence in a hidden column */
	PF_SLOT_OVERLAYS = 8,
	PF_SLOT_EMPTY = 16, /* has rows, and all of them are deleted */
};

struct pf_slot {
	uint64_t id;
	const uint8_t *mem; /* the whole field, tag included; NULL: it is in the file, at off */
	uint64_t off;
	uint64_t len;
	unsigned facts;
};

/* Ascending by id once it was sorted. */
struct pf_roster {
	struct pf_slot *v;
	size_t n, cap;
};
void pf_roster_release(struct pf_roster *l);

/* The fragments of `m`, whose file `r` reads, sorted. -EBADMSG: damaged. */
int pf_roster_read(struct pf_reader *r, const struct pf_manifest *m, struct pf_roster *out, struct pf_why *why);

/* Add the fragment whose whole field is at `field`, which outlives the roster. */
int pf_roster_add(struct pf_roster *l, struct pf_span field, struct pf_why *why);

/* Put it in the place of a slot. */
int pf_slot_replace(struct pf_slot *s, struct pf_span field, struct pf_why *why);

void pf_roster_sort(struct pf_roster *l);
struct pf_slot *pf_roster_find(const struct pf_roster *l, uint64_t id); /* sorted; NULL if there is none */

/* Append the DataFragment message of a slot. */
int pf_slot_load(struct pf_reader *r, const struct pf_slot *s, struct pf_buf *out, struct pf_why *why);

#endif
