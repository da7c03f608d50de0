/*
 * The index section of a manifest: one entry a segment, user and system indices alike, as far as retention and whoever follows moved rows
 * need them (lance-format 2.3). Details of an index are not looked into here, whatever their type.
 */
#ifndef PF_INDEX_H
#define PF_INDEX_H

#include "manifest.h"

/* The two names that Lance keeps for itself. */
#define PF_FRI_NAME	"__lance_frag_reuse"
#define PF_MEM_WAL_NAME "__lance_mem_wal"

struct pf_index {
	char uuid[PF_UUID_TEXT]; /* of _indices/<uuid>/ */
	char *name;
	int32_t *fields;
	size_t n_fields;   /* the columns it is keyed on, then those that it only carries */
	int32_t *covering; /* the latter again: a writer may say something else */
	size_t n_covering;
	uint64_t dataset_version;
	bool has_bitmap;	   /* the field is there and not empty */
	struct pf_buf bitmap;	   /* as stored; pf_bitmap_decode */
	char *details_type;	   /* type URL; NULL: no details */
	struct pf_section details; /* their bytes, in the manifest file */
	bool has_base;
	uint32_t base_id;
	int32_t index_version;
	bool has_created_at;
	uint64_t created_at; /* milliseconds since 1970 */
	uint64_t files_size; /* of the files that it lists, together; 0 if it lists none */
	uint64_t off, len;   /* the whole entry, tag and length included, in the manifest file: for verbatim copies */
};

struct pf_indices {
	struct pf_index *v;
	size_t n;
};

/*
 * The index section, in stored order; empty if there is none.
 *   -EBADMSG  the sentence names file and offset
 *   -ESTALE   the manifest file is gone or is another one
 */
int pf_indices_read(struct pf_store *st, const struct pf_manifest *m, struct pf_indices *out, struct pf_why *why);
void pf_indices_release(struct pf_indices *l);
void pf_index_release(struct pf_index *x);

/* The same, where the manifest's file is at hand: r reads it. The sentence does not name it. */
int pf_indices_decode(struct pf_reader *r, const struct pf_manifest *m, struct pf_indices *out, struct pf_why *why);

/* IndexMetadata messages that are the field `number` of the message at [off, off + len) of r. */
int pf_indices_take(struct pf_reader *r, uint64_t off, uint64_t len, uint32_t number, struct pf_indices *out,
		    struct pf_why *why);

/* Whether what the index answers are row addresses, also on a table with stable row ids (Lance 14: by type and version). */
bool pf_index_has_addresses(const struct pf_index *x);

/* By name alone, as Lance's trim judges. */
bool pf_index_is_system(const struct pf_index *x);

/* Whether Lance 14 has a reader for the type and version of a user index: one without does not answer queries, whatever it covers. */
bool pf_index_usable(const struct pf_index *x);

#endif
