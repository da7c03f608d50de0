/*
 * What one version needs of storage: every file that its fragments and indices name (Lance 14: lance-14-cleanup section 1 "References" and
 * section 2; design: section 3). Names are keyed by (base, path), never by spelling alone (lance-14-cleanup D10).
 */
#ifndef PF_REFERENCE_H
#define PF_REFERENCE_H

#include "fri.h"

enum pf_file_class {
	PF_FILE_MANIFEST,
	PF_FILE_TRANSACTION,
	PF_FILE_DATA, /* data files, overlays included */
	PF_FILE_DELETION,
	PF_FILE_INDEX,	 /* a directory _indices/<uuid>/, with every file in it */
	PF_FILE_MAP,	 /* a directory _fri/<map id>/ */
	PF_FILE_BLOB,	 /* sidecars of a data file: the directory data/<its name without .lance>/ */
	PF_FILE_ROW_IDS, /* external row ids */
};
#define PF_FILE_CLASSES 8
const char *pf_file_class_name(enum pf_file_class c); /* "manifest", "data", ... (design: section 6, cleanup) */

/* One file or directory that something names. */
struct pf_reference {
	enum pf_file_class cls;
	bool has_base;
	uint32_t base_id;
	bool optional;	  /* it may have no file: an index that keeps everything in its entry has no directory */
	const char *path; /* below its base, with the class's folder: "data/x.lance", "_deletions/0-1-2.arrow",
			     "_indices/<uuid>"; valid during the call */
	uint64_t size;	  /* as the manifest says, 0 if it does not */
};
typedef int (*pf_reference_fn)(void *arg, const struct pf_reference *r);

/* Append the name of a fragment's deletion file below the branch's directory (lance-format 3): `type` is the message's. */
int pf_deletion_file_name(uint64_t fragment, uint64_t read_version, uint64_t id, uint64_t type, struct pf_buf *out);

/*
 * The files of one fragment, which w just returned as f: data files and overlays, external row ids, deletion file. Sidecars are not named: a data file has
 * some if it has the folder. Unknown fields are ignored. w is behind the fragment again afterwards; `path` is room for names, empty or from an earlier
 * call. A non-zero return of fn stops and is returned.
 *   -EBADMSG  damaged, or a path that leaves its folder. (`/` in the name of a data file is %2F on disk, as Lance reads it.)
 */
int pf_fragment_references(struct pf_wire *w, const struct pf_field *f, struct pf_buf *path, pf_reference_fn fn,
			   void *arg, struct pf_why *why);

/* Of the index section: each entry's directory, optional for system indices. A non-zero return of fn stops and is returned. */
int pf_index_references(const struct pf_indices *l, pf_reference_fn fn, void *arg);

/* Of a history: the map folders of its partitions, and the directory of its entry if its content is there. */
int pf_fri_references(const struct pf_fri *fri, pf_reference_fn fn, void *arg);

#endif
