/*
 * The next version while it is being made: what an operation (apply.h) and the compaction gate change on the way from one manifest to its successor,
 * and the splice that publication writes (publish.h). Nothing here knows what an operation means. What is not changed stays bytes of the file it is made
 * from; flags, counters and the order of fragments follow from the content, by the rules of Lance 14 (lance-format 4.6 and 5; lance-14 section 2).
 */
#ifndef PF_NEXT_H
#define PF_NEXT_H

#include "index.h"
#include "roster.h"
#include "rowaddr.h"

/* An index entry. */
struct pf_entry {
	struct pf_index x; /* its offsets count from the start of `section`, or are of no use once it was changed */
	struct pf_span message; /* the IndexMetadata */
};

struct pf_next {
	const struct pf_manifest *base; /* the head; version is the one above it */
	const struct pf_manifest *from; /* whose bytes are carried: the base, or the version that is restored */
	struct pf_file *file;		/* of `from` */
	uint64_t version;
	bool stable; /* rows have stable ids */
	uint64_t next_row_id;
	bool has_max_fragment_id;
	uint64_t max_fragment_id; /* counts up: the ids that were ever given out are those up to it */
	/* Sorted at the start; what is added stands last, in that order, until all is decided. */
	struct pf_roster roster;
	struct pf_roster gone; /* what pf_next_remove_fragments removed by id, by id */
	bool fragments_changed;
	struct pf_buf section; /* the index section of `from` */
	struct pf_entry *entries;
	size_t n_entries, cap_entries;
	bool indices_changed;
	uint64_t sticky; /* flags of both words that once set stay */
	/* The history of moved rows, if it is too long for its entry: to be in _indices/<uuid>/ before the version is published (fri_write.h). */
	struct pf_span history;
	char history_uuid[PF_UUID_TEXT];
	/* What follows is this module's own. */
	struct pf_next_field {
		uint32_t number;
		struct pf_span bytes;
	} * fields;
	size_t n_fields;
	uint8_t **kept;
	size_t n_kept, cap_kept;
	struct pf_piece *pieces; /* of the fragments */
	struct pf_patch *patches;
	struct pf_piece *patch_pieces, index_piece;
};

/*
 * Start from `from` (NULL: from the base) towards the successor of `base`; both are borrowed and outlive it.
 *   -EOPNOTSUPP  the table needs a feature that commits of ours do not maintain, named
 *   -EBADMSG, -ESTALE ...
 */
int pf_next_init(struct pf_next *x, struct pf_store *st, const struct pf_manifest *base, const struct pf_manifest *from,
		 struct pf_why *why);
/*
 * The same towards a successor that somebody else has made already, `staged`: only its index entries are to be changed, and features that we do not maintain
 * are its maker's business.
 */
int pf_next_init_staged(struct pf_next *x, struct pf_store *st, const struct pf_manifest *base,
			const struct pf_manifest *staged, struct pf_why *why);
void pf_next_release(struct pf_next *x);

/* -EOPNOTSUPP if the rows of x have stable ids and it has a history of moved rows, too, as no release of Lance commits. */
int pf_next_check_history(const struct pf_next *x, struct pf_why *why);

/* Move the bytes of b into x, which keeps them as long as it lives. *out: where they are. */
int pf_next_keep(struct pf_next *x, struct pf_buf *b, struct pf_span *out);

/* Append the occurrences of a top-level field of the manifest as they are now, tags included. */
int pf_next_get_field(struct pf_next *x, uint32_t number, struct pf_buf *out, struct pf_why *why);
/* Replace them by the bytes of b, which move; none: the field is removed. */
int pf_next_set_field(struct pf_next *x, uint32_t number, struct pf_buf *b);

/* The same of `m` alone, by its file. */
int pf_manifest_get_field(struct pf_reader *r, const struct pf_manifest *m, uint32_t number, struct pf_buf *out,
			  struct pf_why *why);
int pf_manifest_get_u64(struct pf_reader *r, const struct pf_manifest *m, uint32_t number, bool *has, uint64_t *out,
			struct pf_why *why);

/* Append the DataFragment message of a slot. */
int pf_next_load(struct pf_next *x, const struct pf_slot *s, struct pf_buf *out, struct pf_why *why);
/* Add a fragment, or replace one, by its message. */
int pf_next_add_fragment(struct pf_next *x, struct pf_span message, struct pf_why *why);
int pf_next_replace_fragment(struct pf_next *x, struct pf_slot *s, struct pf_span message, struct pf_why *why);
/* Remove the slots whose ids are in `ids`, or all (NULL). */
int pf_next_remove_fragments(struct pf_next *x, const struct pf_numbers *ids);

/* Add an entry at the end: its IndexMetadata message, which outlives x. */
int pf_next_add_entry(struct pf_next *x, struct pf_span message, struct pf_why *why);
void pf_next_drop_entry(struct pf_next *x, size_t i);
/* With these fields of its message changed. */
int pf_next_change_entry(struct pf_next *x, size_t i, const struct pf_change *v, size_t n, struct pf_why *why);
/* Its fragment bitmap as a set; NULL if it has none. The caller's. */
int pf_entry_bitmap(const struct pf_entry *e, struct pf_bitmap **out, struct pf_why *why);
int pf_next_set_bitmap(struct pf_next *x, size_t i, const struct pf_bitmap *b, struct pf_why *why);

/*
 * All is decided: fragments sorted, flags and counters computed. *splice points into x. *writer_flags: the writer word without bit 19.
 *   -EINVAL      two fragments of one id; fragments with and without row ids
 *   -EOPNOTSUPP  no fragment id, or no row id, is left
 */
int pf_next_finish(struct pf_next *x, struct pf_splice *splice, uint64_t *writer_flags, struct pf_why *why);

/* The same after pf_next_init_staged: fragments, counters and flags stay as they were made, but for the flag that a tagged history needs. */
int pf_next_finish_staged(struct pf_next *x, struct pf_splice *splice, uint64_t *writer_flags);

#endif
