/*
 * Somebody's Transaction, decoded as far as a commit looks into it: what it does to fragments, schema, indices and settings (lance-format 2.6). Used for
 * the work that is to be committed, and for what was committed meanwhile. Our own pin operations are empty UpdateConfigs here, as for Lance.
 */
#ifndef PF_OPERATION_H
#define PF_OPERATION_H

#include "fragment.h"
#include "index.h"
#include "schema.h"
#include "txn.h"

/* An edit of a map of strings: entries without value remove their key. */
struct pf_map_edit {
	bool there;
	bool replace; /* keys that are not named go */
	struct pf_map_entry {
		struct pf_span key, value;
		bool has_value;
	} * v;
	size_t n;
};

struct pf_rewrite_group {
	struct pf_fragments from, to;
};

/* An index that a Rewrite remapped: new files under a new uuid. */
struct pf_index_swap {
	char from[PF_UUID_TEXT], to[PF_UUID_TEXT];
	struct pf_span uuid; /* the UUID message of `to` */
	struct pf_buf files; /* IndexFile messages as they are fields of an index */
};

struct pf_operation {
	struct pf_buf bytes; /* the Transaction message; all spans are in it */
	uint64_t read_version;
	char uuid[PF_UUID_TEXT];
	struct pf_span tag;
	unsigned number; /* of the oneof; 0: none that we know, "Unknown" as Lance has it */
	struct pf_span body;

	struct pf_fragments added; /* Append, Overwrite: new ones; Merge: the complete list; Update: where rows went */
	struct pf_fragments updated;			/* Delete, Update: as they are afterwards */
	struct pf_numbers removed;			/* Delete, Update: ids */
	struct pf_indices new_indices, removed_indices; /* CreateIndex */
	struct pf_span *new_entries;			/* messages of new_indices */
	struct pf_rewrite_group *groups;		/* Rewrite */
	size_t n_groups;
	struct pf_index_swap *swaps;
	size_t n_swaps;
	struct pf_replacement {
		uint64_t fragment;
		struct pf_data_file file;
	} * replacements; /* DataReplacement */
	size_t n_replacements;
	struct pf_numbers overlaid;    /* DataOverlay: fragment ids */
	struct pf_schema schema;       /* Overwrite, Merge, Project */
	struct pf_buf schema_metadata; /* Overwrite, Merge: as fields of a manifest; Lance writes none */
	bool keeps_nulls;	       /* Merge, Project: preserves_nullability */
	struct pf_map_edit config, table_metadata, schema_edit; /* UpdateConfig; config: Overwrite, too */
	bool has_old_config, has_new_config; /* UpdateConfig: said in the form of before, or in that of now */
	struct pf_field_edit {
		int32_t field;
		struct pf_map_edit map;
	} * field_edits;
	size_t n_field_edits;
	struct pf_base_edit {
		uint32_t id;
		bool has_name;
		struct pf_span name, path, message;
	} * bases; /* UpdateBases; Overwrite: only where a table is created */
	size_t n_bases;
	uint64_t version; /* Restore */
	uint64_t count;	  /* ReserveFragments */
	/* Update */
	struct pf_numbers fields_modified, fields_kept;
	bool in_place; /* mode REWRITE_COLUMNS */
	bool has_sstables;
	struct pf_row_offsets {
		uint64_t fragment;
		struct pf_span bitmap;	   /* field 10 */
		struct pf_numbers offsets; /* field 9 */
	} * offsets;
	size_t n_offsets;
	bool has_filter;
	struct pf_span filter;
};

void pf_operation_release(struct pf_operation *o);

/*
 * Decode the Transaction message in `bytes`, which moves into *out.
 *   -EBADMSG  damaged: the sentence says where, in what
 * An operation without a number of Lance's is number 0. What it says is not judged here.
 */
int pf_operation_decode(struct pf_buf *bytes, struct pf_operation *out, struct pf_why *why);

/* The transaction of `m` as pf_txn_read finds it; errors as there. */
int pf_operation_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_operation *out,
		      struct pf_why *why);

/*
 * Is the file of this transaction there, in the branch directory `dir`, with its very bytes? 1, or 0 if there is none.
 *   -EEXIST  another transaction under the same uuid
 */
int pf_operation_file(struct pf_store *st, const char *dir, const struct pf_operation *o, struct pf_why *why);

/* "Append", ..., "Unknown". */
const char *pf_operation_name(const struct pf_operation *o);

#endif
