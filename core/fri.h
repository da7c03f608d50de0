/*
 * The fragment reuse index: Lance's record of where compaction moved rows (lance-14-fri.md; lance-maintenance 2 and 3). Decoding and
 * validation, for inline and external content alike; what a pin needs of it is closure.h.
 *
 * A history is a list of records, in stored order: legacy Versions (index_version 0, stamped), then, when tagged or mixed (index_version 1),
 * Transitions. A record has groups: rows of `from` moved into `to`. A transition is a record of one group.
 */
#ifndef PF_FRI_H
#define PF_FRI_H

#include "manifest.h"
#include "rowaddr.h"

struct pf_digest {
	uint64_t id, physical_rows, deleted_rows;
};

enum pf_mapping { PF_MAPPING_V0, PF_MAPPING_ORDERED, PF_MAPPING_PARTITION, PF_MAPPING_UNKNOWN };

struct pf_fri_group {
	struct pf_digest *from, *to;
	size_t n_from, n_to;
	enum pf_mapping mapping;
	struct pf_section rows;	       /* V0, ORDERED: the treemap's bytes, within the content (see pf_fri.content) */
	char map_id[PF_UUID_TEXT + 8]; /* PARTITION: as stored; names _fri/<map_id>/ */
	uint64_t map_size;
	bool has_base;
	uint32_t base_id; /* of the map file */
};

struct pf_fri_record {
	bool legacy;
	uint64_t stamp; /* legacy: dataset_version */
	struct pf_fri_group *groups;
	size_t n_groups;
	uint64_t off,
		len; /* the whole element (tag and length included) within the content, for byte-identical trims */
};

struct pf_fri {
	char uuid[PF_UUID_TEXT];
	int index_version; /* 0, 1 */
	uint64_t dataset_version;
	bool has_base;
	uint32_t base_id; /* of the entry */
	bool external;
	char *external_path; /* relative to _indices/<uuid>/ */
	uint64_t external_size;
	struct pf_buf content; /* the InlineContent message, read from wherever it is */
	struct pf_fri_record *records;
	size_t n_records;
	bool unsupported; /* holds something that writers and trims must not interpret (unknown fields of a transition or of the content) */
	char *unsupported_why;
};

void pf_fri_release(struct pf_fri *f);

/* A user or system index of the index section, as far as retention and consumers need it. */
struct pf_index {
	char uuid[PF_UUID_TEXT];
	char *name;
	int32_t *fields;
	size_t n_fields;
	uint64_t dataset_version;
	bool has_bitmap;      /* the field is there and not empty */
	struct pf_buf bitmap; /* as stored; pf_bitmap_decode */
	char *details_type;   /* type URL */
	bool has_base;
	uint32_t base_id;
	int index_version;
};

struct pf_indices {
	struct pf_index *v;
	size_t n;
};
void pf_indices_release(struct pf_indices *l);

#define PF_FRI_NAME "__lance_frag_reuse"

/* The index section of a manifest, in stored order. Empty if it has none. -EBADMSG names file and offset. */
int pf_indices_read(struct pf_store *st, const struct pf_manifest *m, struct pf_indices *out, struct pf_why *why);

/*
 * The FRI entry of a manifest of the branch directory `dir`, decoded and validated as Lance does on load (lance-14-fri section 3, "Validation"): every rule there for
 * tagged and mixed, its v0 rules for v0. External content is read from `dir`_indices/<uuid>/. A base id on the entry is resolved by the caller
 * first: `base` is the store and directory prefix to read from, or NULL for this table.
 *   -ENODATA     the manifest has no FRI entry (or an empty one with no content is an empty history: 0)
 *   -EBADMSG     not a valid history; two entries of which one is tagged; the sentence is as precise as Lance's
 *   -EOPNOTSUPP  index_version above 1
 *   -ENOENT ...  external content missing
 */
struct pf_fri_base {
	struct pf_store *st;
	const char *dir;
};
int pf_fri_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, const struct pf_fri_base *base,
		struct pf_fri *out, struct pf_why *why);

/* Decode InlineContent bytes in memory with an index_version; takes over *content. Used by pf_fri_read, tests and prepared commits. */
int pf_fri_decode(struct pf_buf *content, int index_version, struct pf_fri *out, struct pf_why *why);

/*
 * Follow one row address through a v0 or ordered history (partitions need their map files: -EOPNOTSUPP). 1 and *out: where it is now;
 * 0: the row is gone.
 */
int pf_fri_translate(const struct pf_fri *f, uint64_t addr, uint64_t *out, struct pf_why *why);

#endif
