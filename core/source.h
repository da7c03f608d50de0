/*
 * The snapshots that pins were registered on, as far as the history of moved rows asks: which fragments they have, and which records are needed to follow
 * their rows (closure.h).
 */
#ifndef PF_SOURCE_H
#define PF_SOURCE_H

#include "branch.h"
#include "closure.h"

/* The fragments of a version, ascending. */
struct pf_pieces {
	uint32_t *id;
	uint64_t *rows; /* physical, 0: not said */
	size_t n;
};
void pf_pieces_release(struct pf_pieces *l);

/* Those of `m`. -EBADMSG: damaged; -ESTALE: its file is gone or is another one. */
int pf_pieces_read(struct pf_store *st, const struct pf_manifest *m, struct pf_pieces *out, struct pf_why *why);

/*
 * The version that a pin was registered on, which must still be what it was then.
 *   -ENOENT       it is missing
 *   -EBADMSG ...  it is of another transaction, or damaged
 */
int pf_source_open(struct pf_branch *b, const struct pf_pin *pin, struct pf_manifest **out, struct pf_why *why);

/* One source, of one pin or more. */
struct pf_source {
	const struct pf_pin *pin; /* the first of them */
	size_t n_pins;
	bool *needs; /* for each record */
	/* Its fragments, and where records moved their rows; NULL for a history of version 0, which is judged by stamps, until pf_sources_reach. */
	struct pf_bitmap *reached;
};

struct pf_sources {
	struct pf_source *v;
	size_t n;
};
void pf_sources_release(struct pf_sources *l);

/*
 * The sources of `pins`, which are borrowed, and what they need of f. Unless it is of version 0 the source versions are read.
 *   -EBUSY  what a pin needs cannot be told: its source is missing, damaged or another one than it was, or the history holds what we cannot interpret.
 *           The sentence names the pin
 */
int pf_sources_read(struct pf_branch *b, const struct pf_pins *pins, const struct pf_fri *f, struct pf_sources *out,
		    struct pf_why *why);

/* Find out for all of them what is reached through f, also if that is of version 0. Errors as above. */
int pf_sources_reach(struct pf_branch *b, const struct pf_fri *f, struct pf_sources *l, struct pf_why *why);

#endif
