/*
 * Small Lance tables for tests, built from the format pages and the wire writers alone, so that they can disagree with what core reads and
 * writes. Everything here asserts: a test whose table cannot be built has nothing to say.
 */
#ifndef TESTS_TABLE_H
#define TESTS_TABLE_H

#include "core/buf.h"
#include "core/store.h"
#include "core/text.h"

/* One version. Zero is the default of every member but `version`. */
struct table_version {
	uint64_t version;
	const char *dir;    /* NULL: main; else the branch's, "tree/feat/x/" */
	const char *branch; /* field 20; NULL: main */
	bool v1;	    /* named N.manifest; else 20 inverted digits */
	uint64_t reader_flags, writer_flags;
	struct pf_time timestamp; /* zero: 2026-01-01T00:00:00Z and one second a version */
	bool no_timestamp;
	const char *uuid; /* of its transaction; NULL: table_uuid(version) */
	enum {
		TABLE_TXN_14,	/* inline, field 23, and the file */
		TABLE_TXN_12,	/* inline, field 21, and the file */
		TABLE_TXN_FILE, /* the file alone, as 0.39 */
		TABLE_TXN_LOST, /* names a file that is not there */
		TABLE_TXN_NONE
	} /* says nothing */
	txn;
	unsigned operation;		/* field number of the oneof; 0: 100, Append */
	const struct pf_buf *pins;	/* field 10395 as it stands on the wire, tags included */
	const struct pf_buf *txn_extra; /* more fields of the transaction message, last */
	const struct pf_buf *extra;	/* more top-level fields, last */
	const char *writer;		/* version of the library "lance"; NULL: 14.0.2; "": no field 13 */
	const struct pf_buf *index;	/* message of an index section */
	const struct pf_buf *leading;	/* bytes before the first section, as a legacy table's dictionary pages */
	unsigned fragments;		/* how many, of 10 rows each */
};

/* For `extra`: a fragment of one data file, `said` bytes long (0: it does not say), on a base (-1: on none); and a base path. */
void table_add_fragment(struct pf_buf *extra, uint64_t id, const char *file, uint64_t said, int base);
void table_add_base(struct pf_buf *extra, uint32_t id, bool is_dataset_root, const char *path);

#define TABLE_NAME_MAX 256

/* The UUID of a version's transaction unless the test says another. Returns out. */
const char *table_uuid(uint64_t version, char out[PF_UUID_TEXT]);

/* Names in the store. Return out. */
const char *table_manifest_name(const struct table_version *t, char out[TABLE_NAME_MAX]);
const char *table_txn_name(const struct table_version *t, char out[TABLE_NAME_MAX]); /* read version = version - 1 */

/* The bytes of its manifest file and of its transaction message, appended. */
void table_manifest(const struct table_version *t, struct pf_buf *out);
void table_txn(const struct table_version *t, struct pf_buf *out);

/* Put its files into a memory store, past counts, hooks and faults. */
void table_put(struct pf_store *st, const struct table_version *t);

/* A new memory store with versions 1..n of main, all as *t says but for the version. */
struct pf_store *table_new(uint64_t n, const struct table_version *t);

/* The ref of a branch made from main's version `parent`: `_refs/branches/{name}.json`, `/` as %2F. `id` has 32 hex digits. */
void table_put_branch(struct pf_store *st, const char *name, uint64_t parent, const char *id);

/* Every file of the store under `dir`, sorted, one a line, directories left out. */
void table_list(struct pf_store *st, const char *dir, struct pf_buf *out);

#endif
