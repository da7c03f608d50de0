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
		*fragments;   /* of the source, ascending; may be NULL for a v0 history, which is judged by stamps */
	const uint64_t *rows; /* physical rows of each, 0: not said by its manifest; NULL: not known */
	size_t n_fragments;
};

/* For one pin and one record: why it is needed. */
struct pf_fri_need {
	bool needed;
	bool ambiguous; /* every way here begins at a fragment whose id was used for other rows too: kept because nobody can tell (lance-maintenance 5.2) */
	size_t via; /* the record whose destination led here, SIZE_MAX: a source fragment of the pin (or a stamp) did */
	uint32_t fragment; /* the fragment that led here */
};

/*
 * v0: stamp >= source, the source included: whoever commits to a table with pins stamps publication - 1. Tagged and mixed: closure over fragment ids from the
 * pin's fragments, following destinations, whole records; a legacy record with all its groups. needs[i] belongs to record i of f; following `via` gives a
 * shortest path.
 *   -EOPNOTSUPP  f->unsupported: nobody can say
 *   -EINVAL      a tagged history, and fragments is NULL (of a source without fragments it is any pointer)
 */
int pf_closure_pin(const struct pf_fri *f, const struct pf_fri_pin *pin, struct pf_fri_need *needs, struct pf_why *why);

/*
 * What Lance's own trim would keep for the user indices (lance-maintenance 2.5, 3.5; lance-14-fri corrections 4, 5, section 5), and more where that
 * would lose rows. needed[i] and by[i] belong to record i of f; by[i] is an index (into `l`) that needs it, SIZE_MAX if none does.
 *
 * v0 and legacy: an index as old as the stamp, published - 1 where that is known and later, or older, unless its bitmap has none of the fragments of the whole chain; a younger one whose bitmap has the
 * sources of a group. Transitions: an index of whose name a bitmap has a source, unless usable ones of that name cover every destination. Then, in
 * tagged and mixed histories, whatever follows a needed record. An index without bitmap needs only legacy records of its age or younger.
 *
 * Where Lance drops, ours differ: a bitmap with some but not all sources of a group (Lance: the record goes), and one that cannot be read (Lance: no
 * index of the table can be). Both mean that the record, or every record, is needed:
 *   -EBADMSG     such a bitmap; the sentence names the index and what to do. needed and by are filled all the same
 *   -EOPNOTSUPP  f->unsupported
 */
int pf_closure_consumers(const struct pf_fri *f, const struct pf_indices *l, bool *needed, size_t *by,
			 struct pf_why *why);

#endif
