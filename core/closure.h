/*
 * Which FRI records pins need, and which Lance's own consumers (indices) need: pure, on a decoded history (proposal: "Compaction and
 * cleanup"; design: section 3; lance-maintenance 2.5 and 3.5).
 */
#ifndef PF_CLOSURE_H
#define PF_CLOSURE_H

#include "fri.h"

/* A pin as the closure sees it. */
struct pf_fri_pin {
	uint64_t source_version;
	const uint32_t
		*fragments; /* of the source, ascending; may be NULL for a v0 history, which is judged by stamps */
	size_t n_fragments;
};

/* For one pin and one record: why it is needed. */
struct pf_fri_need {
	bool needed;
	bool ambiguous; /* a fragment id was reused with other physical rows: kept because nobody can tell (lance-maintenance 5.2) */
	size_t via; /* the record whose destination led here, SIZE_MAX: a source fragment of the pin (or a stamp) did */
	uint32_t fragment; /* the fragment that led here */
};

/*
 * v0: stamp >= source, the source included. Tagged and mixed: closure over fragment ids from the pin's fragments, following destinations, whole
 * records; a legacy record with all its groups. needs[i] belongs to record i of f. -EOPNOTSUPP when f->unsupported.
 */
int pf_closure_pin(const struct pf_fri *f, const struct pf_fri_pin *pin, struct pf_fri_need *needs, struct pf_why *why);

/*
 * What Lance's own trim would keep for the user indices (lance-maintenance 2.5, 3.5; lance-14-fri correction 4, 5). needed[i]: bitwise per record;
 * by[i] is an index (into `l`) that needs record i, SIZE_MAX if none does.
 *   -EBADMSG an index bitmap cannot be read: that index needs everything, and the sentence names it; needed is filled in all the same
 */
int pf_closure_consumers(const struct pf_fri *f, const struct pf_indices *l, bool *needed, size_t *by,
			 struct pf_why *why);

#endif
