/*
 * The fragment reuse index: Lance's record of where compaction moved rows (lance-14-fri; lance-maintenance 2 and 3). Decoding and validation,
 * the same for inline and external content; what a pin needs of it is closure.h.
 *
 * A history is a list of records, in stored order: legacy Versions (index_version 0, stamped), then, when tagged or mixed (index_version 1),
 * Transitions. A record has groups: rows of `from` moved into `to`. A transition is a record of one group.
 */
#ifndef PF_FRI_H
#define PF_FRI_H

#include "index.h"
#include "message.h"
#include "rowaddr.h"

struct pf_digest {
	uint64_t id, physical_rows, deleted_rows;
};

enum pf_mapping { PF_MAPPING_V0, PF_MAPPING_ORDERED, PF_MAPPING_PARTITION, PF_MAPPING_UNKNOWN };

struct pf_fri_group {
	size_t record; /* whose it is */
	struct pf_digest *from, *to;
	size_t n_from, n_to;
	enum pf_mapping mapping;   /* UNKNOWN: has no digests, see pf_fri.unsupported */
	struct pf_section rows;	   /* V0, ORDERED: the treemap's bytes, within pf_fri.content */
	char map_id[PF_UUID_TEXT]; /* PARTITION: as stored; names _fri/<map_id>/ */
	uint64_t map_size;
	bool has_base;
	uint32_t base_id; /* of the map file */
};

struct pf_fri_record {
	bool legacy;
	uint64_t stamp; /* legacy: dataset_version */
	/*
	 * The version that published it, 0: not known, as after decoding. Lance 14 stamps publication - 1, Lance up to 13 any version before; callers who
	 * know it say so here, and an index built in between is then not taken for one built afterwards (closure.h; lance-14-fri corrections 1 and 4).
	 */
	uint64_t published;
	struct pf_fri_group *groups;
	size_t n_groups;
	uint64_t off,
		len; /* the whole element (tag and length included) within the content, for byte-identical trims */
};

/* One source of one group. */
struct pf_fri_source {
	uint32_t fragment;
	size_t group, at; /* groups[group].from[at] */
};

struct pf_fri {
	char uuid[PF_UUID_TEXT];
	int index_version; /* 0, 1 */
	uint64_t dataset_version;
	bool has_base;
	uint32_t base_id; /* of the entry */
	bool external;
	char *external_path; /* relative to _indices/<uuid>/ */
	uint64_t external_offset, external_size;
	struct pf_buf content; /* the InlineContent message, read from wherever it is */
	struct pf_fri_record *records;
	size_t n_records;
	struct pf_fri_group *groups; /* of all records */
	size_t n_groups;
	struct pf_fri_source *sources; /* of all groups, by fragment, then group: who moved its rows, in stored order */
	size_t n_sources;
	bool unsupported; /* holds something that writers and trims must not interpret: unknown fields of a transition or of the content */
	char *unsupported_why;
};

void pf_fri_release(struct pf_fri *f);

/*
 * The FRI entry of an index section: *out is NULL if there is none.
 *   -EBADMSG  two entries, of which one is tagged
 */
int pf_fri_entry(const struct pf_indices *l, const struct pf_index **out, struct pf_why *why);

/* Where the files of an entry with a base id are: a store and the directory in it, "" or ending in a slash. */
struct pf_fri_base {
	struct pf_store *st;
	const char *dir;
};

/*
 * The FRI of a manifest of the branch directory `dir` ("" or "tree/x/"), decoded and validated as Lance does on load (lance-14-fri section 3,
 * "Validation"): every rule there for tagged and mixed, its v0 rules for v0. External content is in `dir`_indices/<uuid>/, or in `base` if the entry
 * has a base id.
 *   -ENODATA     the manifest has no FRI entry. An entry whose history is empty is a history: 0
 *   -EBADMSG     not a valid history; the sentence names record and group, or the offset
 *   -EOPNOTSUPP  index_version above 1
 *   -ENOENT ...  external content missing
 *   -EINVAL      external content on a base, and `base` is NULL
 *   -ESTALE      the manifest file is gone or is another one
 */
int pf_fri_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, const struct pf_fri_base *base,
		struct pf_fri *out, struct pf_why *why);

/*
 * The same, where the entry is known (pf_fri_entry) and the manifest's file is at hand: `manifest` reads it, `where` has the files of the entry, its base
 * resolved. The sentence does not name the manifest.
 */
int pf_fri_read_entry(const struct pf_fri_base *where, struct pf_reader *manifest, const struct pf_index *x,
		      struct pf_fri *out, struct pf_why *why);

/* Decode InlineContent bytes with an index_version, as above. On success *content has moved into *out. */
int pf_fri_decode(struct pf_buf *content, int32_t index_version, struct pf_fri *out, struct pf_why *why);

/*
 * The first source with this fragment in groups[from] or later; NULL if none. Others of the same fragment follow it in `sources`; a tagged history has
 * at most one.
 */
const struct pf_fri_source *pf_fri_source_of(const struct pf_fri *f, uint32_t fragment, size_t from);

/* Append the fragments whose rows came to be in `fragment`, one step or many back, without those that *out has already. */
int pf_fri_ancestors(const struct pf_fri *f, uint64_t fragment, struct pf_numbers *out);

/* A row that no longer exists: no fragment has the id 2^32-1. */
#define PF_ROW_GONE UINT64_MAX

/*
 * Follow row addresses through a history, in place: to where the row is now, PF_ROW_GONE if it was deleted. What no record mentions stays as it is.
 *   -EOPNOTSUPP  an address goes through a stable partition, whose labels are in its map file; or f->unsupported. Addresses are then undefined
 */
int pf_fri_translate(const struct pf_fri *f, uint64_t *addrs, size_t n, struct pf_why *why);

#endif
