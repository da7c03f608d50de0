/*
 * One fragment: a DataFragment message decoded as far as a commit looks into it. What it does not know stays in the message, and changes are made to
 * that (message.h), so that nothing is lost. Lance 14: lance-format 2.4, lance-14 section 1.
 */
#ifndef PF_FRAGMENT_H
#define PF_FRAGMENT_H

#include "message.h"

/* No live field: what an in-place rewrite leaves of a column in the file that had it. */
#define PF_FIELD_TOMBSTONE (-2)

struct pf_data_file {
	struct pf_span message, path;
	int32_t *fields; /* ids; a negative one is no column: PF_FIELD_TOMBSTONE, or hidden lineage */
	size_t n_fields;
	struct pf_span columns; /* column_indices, as they are packed */
	uint32_t major, minor;
	uint64_t size; /* in bytes; 0: its writer did not say */
	bool has_base;
	uint32_t base_id;
};

/* Row ids, or versions, of a fragment's rows. */
enum pf_lineage_kind {
	PF_LINEAGE_NONE,
	PF_LINEAGE_INLINE,   /* the sequence stands in the fragment (row_ids.h) */
	PF_LINEAGE_COLUMN,   /* a hidden column of one of the files */
	PF_LINEAGE_EXTERNAL, /* a file of its own: no release writes them */
};
struct pf_lineage {
	enum pf_lineage_kind kind;
	struct pf_span bytes; /* INLINE */
};

/* The file that says which of a fragment's rows are deleted (deletions.h). */
struct pf_deletion_file {
	struct pf_span message; /* the DeletionFile */
	uint64_t type, read_version, id;
	bool has_base;
	uint32_t base_id;
};

struct pf_fragment {
	struct pf_span message;
	uint64_t id, physical_rows;
	struct pf_data_file *files;
	size_t n_files;
	bool has_deletions;
	struct pf_deletion_file deletion;
	uint64_t deleted_rows; /* 0: none, or the writer did not count */
	struct pf_lineage row_ids, updated_at, created_at;
	bool has_overlays;
};

/* A DataFragment message, which must outlive *out. -EBADMSG: damaged; the sentence says what, and counts offsets from its start. */
int pf_fragment_decode(struct pf_span message, struct pf_fragment *out, struct pf_why *why);
void pf_fragment_release(struct pf_fragment *f);

/* The same of one DataFile message. */
int pf_data_file_decode(struct pf_span message, struct pf_data_file *out, struct pf_why *why);
void pf_data_file_release(struct pf_data_file *f);
bool pf_data_file_has(const struct pf_data_file *f, int32_t field);
/* Is it of the legacy format? 0.3 is how 2.0 was numbered first. */
bool pf_data_file_is_legacy(const struct pf_data_file *f);

/* Are the files of `part`, in their order, among those of `whole`? As below. */
bool pf_fragment_has_files(const struct pf_fragment *whole, const struct pf_fragment *part);
/* Do they have the same data in the same files? (Sizes are a cache, deletions no data.) */
bool pf_fragment_same_files(const struct pf_fragment *a, const struct pf_fragment *b);

/* Append the fields `number` of a fragment with these files. */
int pf_fragment_put_files(const struct pf_fragment *f, struct pf_buf *out);

/* Append the DataFile message with other fields. */
int pf_data_file_put_fields(const struct pf_data_file *f, const int32_t *fields, struct pf_buf *out);

struct pf_fragments {
	struct pf_fragment *v;
	size_t n, cap;
};
void pf_fragments_release(struct pf_fragments *l);
/* Decode one more. */
int pf_fragments_add(struct pf_fragments *l, struct pf_span message, struct pf_why *why);

#endif
