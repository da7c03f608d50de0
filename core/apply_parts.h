/* Between the files of apply: a family of operations each. Errors as pf_apply. */
#ifndef PF_APPLY_PARTS_H
#define PF_APPLY_PARTS_H

#include "apply.h"

/* apply_fragment.c: one fragment. */

/* The schema of x as it is now; its columns point into *fields. */
int pf_apply_schema(struct pf_next *x, struct pf_buf *fields, struct pf_schema *out, struct pf_why *why);

/*
 * A fragment that is to be new: it has rows, files with columns, no deletions, and its files are there, as long as it says, of a format that goes with the table's.
 */
int pf_apply_check_new(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f, struct pf_why *why);
int pf_apply_check_file(const struct pf_apply *a, struct pf_next *x, const struct pf_data_file *f, struct pf_why *why);
int pf_apply_check_deletion(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
			    struct pf_why *why);

/* The table takes the format version of these files, if they are all of one. */
int pf_apply_set_format(struct pf_next *x, const struct pf_fragments *l, struct pf_why *why);

/* The next free id. -EOPNOTSUPP: none is left. */
int pf_apply_next_id(struct pf_next *x, uint64_t *out, struct pf_why *why);
/*
 * May a new fragment bring this id? -EINVAL if one had it that is gone: indices still say that they cover that one, and a history of moved rows, where its
 * rows went.
 */
int pf_apply_own_id(const struct pf_next *x, uint64_t id, struct pf_why *why);

/* What a fragment gets on its way into the manifest; what is left at zero stays. */
struct pf_dress {
	bool set_id;
	uint64_t id;
	bool fill_row_ids;	   /* give ids to the rows that have none; tables with stable row ids only */
	const struct pf_buf *made; /* created-at versions; NULL: as they are */
	const struct pf_buf *updated;
	const struct pf_buf *files; /* fields `files` */
};
/* Append the message of f, dressed. */
int pf_apply_dress(struct pf_next *x, const struct pf_fragment *f, const struct pf_dress *d, struct pf_buf *out,
		   struct pf_why *why);

/*
 * The same as a new fragment of x, of columns of s, whose rows are all of this version. Assigns an id if `keep_id` is false or it has none.
 */
int pf_apply_add_new(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
		     const struct pf_schema *s, bool keep_id, struct pf_why *why);

/* Is a field of f a column of s, or a hidden one that the fragment needs? */
bool pf_apply_file_lives(const struct pf_fragment *f, const struct pf_data_file *file, const struct pf_schema *s);

/* Keep of f only files that live. *changed: some were dropped. Appends fields `files`. */
int pf_apply_live_files(const struct pf_fragment *f, const struct pf_schema *s, struct pf_buf *files, bool *changed);

/* apply_columns.c */

/*
 * -EINVAL if these files of one fragment have a column twice (Lance would give one of them another id), or one says wrongly which of its columns are
 * which fields.
 */
int pf_apply_check_places(const struct pf_data_file *files, size_t n_files, const struct pf_schema *s,
			  struct pf_why *why);
/* And if the fragment has none of s, or, in the legacy format, not all. */
int pf_apply_check_columns(const struct pf_fragment *f, const struct pf_schema *s, struct pf_why *why);

/* By metadata of the column. 0: no blobs; 1: as they were before data format 2.2; 2: as they are since. */
#define PF_BLOB	     "lance-encoding:blob"
#define PF_EXTENSION "ARROW:extension:name"
#define PF_BLOB_V2   "lance.blob.v2"
int pf_apply_blob_kind(const struct pf_column *c, struct pf_why *why);

/* apply_update.c */
int pf_apply_update(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);
int pf_apply_replacement(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

/* apply_schema.c */
int pf_apply_overwrite(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);
int pf_apply_merge(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);
int pf_apply_project(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

/* apply_settle.c: what Lance sees to in every version that it builds, whatever the operation. */
int pf_apply_settle(const struct pf_apply *a, struct pf_next *x, struct pf_why *why);

/* apply_index.c */
int pf_apply_create_index(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x,
			  struct pf_why *why);
/* -EINVAL if the table has no files of an index of its own under this uuid. */
int pf_apply_check_index_files(const struct pf_apply *a, const char *uuid, struct pf_why *why);
/* Drop entries whose columns are gone, and segments that cover nothing beside others that do. */
int pf_apply_retain_indices(struct pf_next *x, const struct pf_schema *s, struct pf_why *why);
/* Take the coverage of columns that are rewritten in place from entries from `first` on, along the history of moved rows. */
int pf_apply_withdraw(const struct pf_apply *a, struct pf_next *x, const struct pf_rewrites *l, size_t first,
		      const struct pf_schema *s, struct pf_why *why);

/* apply_rewrite.c */
int pf_apply_rewrite(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why);

/* apply_config.c */
int pf_apply_update_config(const struct pf_operation *o, struct pf_next *x, struct pf_why *why);
int pf_apply_update_bases(const struct pf_operation *o, struct pf_next *x, struct pf_why *why);
/* Edit a map that is the manifest's field `number`. */
int pf_apply_edit_map(struct pf_next *x, uint32_t number, const struct pf_map_edit *e, struct pf_why *why);

#endif
