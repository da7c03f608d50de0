/*
 * One manifest file: what pins need of it, read by a walk over its top-level fields, and a writer that makes the next manifest by
 * splicing spans of this one (design: section 1, "carried verbatim"; section 7). Nothing here decodes a fragment.
 *
 * Layout (Lance 12, 14): [leading bytes] [u32 len | IndexSection] [u32 len | Transaction] u32 len | Manifest, then 16 bytes of
 * footer: i64 position of the manifest's length, u16 major, u16 minor, "LANC". The sections may stand in any order and may be missing.
 */
#ifndef PF_MANIFEST_H
#define PF_MANIFEST_H

#include "pin.h"
#include "store.h"

/* A length-prefixed section: where its message is. */
struct pf_section {
	bool present;
	uint64_t off, len; /* of the message, behind the u32 prefix at off - 4 */
};

/* Neighbouring top-level fields of one number: where they stand in the file. */
struct pf_run {
	uint32_t number;
	uint64_t off, len;
};

/* Runs of one message above this count are damage: writers order fields by number, only an attack on memory shuffles so many. */
#define PF_MANIFEST_RUNS_MAX 65536

struct pf_manifest {
	unsigned refs;	   /* see pf_manifest_ref */
	char *name;	   /* in the store */
	struct pf_stat st; /* the file it was read from */
	bool v2;	   /* inverted 20-digit name */

	uint64_t version;
	bool has_timestamp;
	struct pf_time timestamp; /* Lance: missing counts as the epoch */
	uint64_t reader_flags, writer_flags;
	char *branch;			       /* NULL on main */
	char *transaction_file;		       /* name in _transactions/, NULL if none */
	char *writer_library, *writer_version; /* "" if not said */
	struct pf_section index, transaction;  /* transaction: field 23, else 21 */
	bool ambiguous;	   /* fields 21 and 23 lead to different places: Lance up to 13 reads one, 14 the other */
	uint64_t lead_len; /* bytes before the first section; addressed absolutely by legacy tables */
	uint64_t body_off, body_len; /* the Manifest message */
	struct pf_run *runs;	     /* all of it in stored order, so that a splice needs no second walk */
	size_t n_runs;
	struct pf_pins pins;
};

/* `{version}.manifest` or 20 inverted digits; see pf_manifest_name_parse. */
#define PF_MANIFEST_NAME_MAX 40

/*
 * What a name in _versions/ is: the version if it is an attached manifest's (1; *v2 says which scheme), 0 if it is anything else:
 * detached (`d...`), staging (`.tmp*`, `*.manifest#1`, `*.manifest-uuid`), the hint, other people's files.
 */
int pf_manifest_name_parse(const char *name, uint64_t *version, bool *v2);
/* Is it none, but Lance takes it for a version's: it reads the number before the first dot, also `+7` and `007`, of any name that ends in `manifest`? */
bool pf_manifest_name_misleads(const char *name);
void pf_manifest_name_format(uint64_t version, bool v2, char out[PF_MANIFEST_NAME_MAX]);

/*
 * Read and check one manifest file. `name` is its name in the store. Counted; *out belongs to the caller and is frozen.
 *   -EINVAL   not the name of an attached version
 *   -ENOENT   no such file
 *   -EBADMSG  damaged: the sentence names file, offset and what was expected. A pin id twice is damage too
 *   -EIO, ... storage failed
 * A version in the name that differs from the one inside is damage. Feature flags are not judged here.
 */
int pf_manifest_open(struct pf_store *st, const char *name, struct pf_manifest **out, struct pf_why *why);

/*
 * The same from bytes that are already at hand: `r` reads the file `name`, which `st` describes, or holds it in memory. `fn` (it may be NULL) is
 * told of each fragment on the way, so that one pass serves both. w stands behind its field, f; fn may step into it (pf_wire_enter), and may
 * move w on to the end of a later fragment, when it knows that only whole fragments stand between. A negative return ends the reading.
 */
typedef int (*pf_manifest_fragment_fn)(void *arg, struct pf_wire *w, const struct pf_field *f, struct pf_why *why);
int pf_manifest_read(struct pf_reader *r, const char *name, const struct pf_stat *st, pf_manifest_fragment_fn fn,
		     void *arg, struct pf_manifest **out, struct pf_why *why);

/* The same of a file that has another name until it is published: `staged`, read as if it were called `name`. The manifest is called `staged`. */
int pf_manifest_open_staged(struct pf_store *st, const char *staged, const char *name, struct pf_manifest **out,
			    struct pf_why *why);

struct pf_manifest *pf_manifest_ref(const struct pf_manifest *m); /* thread-safe count */
void pf_manifest_unref(struct pf_manifest *m);
void pf_manifest_unrefp(struct pf_manifest **m);

/*
 * The file of m again, for what was not read yet: -ESTALE if it is gone or is another one, else as storage says, in a sentence that names it.
 */
int pf_manifest_reopen(struct pf_store *st, const struct pf_manifest *m, struct pf_file **out, struct pf_why *why);

/* Fragments and live rows, by a walk into each fragment. *rows is UINT64_MAX if a fragment does not say its physical rows (old writers). */
int pf_manifest_count(struct pf_store *st, const struct pf_manifest *m, uint64_t *fragments, uint64_t *rows,
		      struct pf_why *why);

/* A run of bytes of the next file: memory of the caller if mem is set, else `len` bytes of the base file from `off`. */
struct pf_piece {
	const void *mem;
	uint64_t off, len;
};

/*
 * What replaces one top-level field of the Manifest message: all its occurrences in the base go, and the pieces (whole fields, tags
 * included; none to remove it) stand where the first of them stood, else where its number belongs in ascending order.
 */
struct pf_patch {
	uint32_t number;
	const struct pf_piece *pieces;
	size_t n_pieces;
};

/*
 * How the next manifest differs from its base. Offsets of sections (6, 21, 23), prefixes and the footer are always recomputed and are not
 * patches. A zeroed struct reproduces the base's messages byte for byte.
 */
struct pf_splice {
	const struct pf_patch *patches; /* each number once */
	size_t n_patches;
	const void *
		transaction; /* message of the transaction section; NULL: carry the base's section and its fields 21, 23 as present there */
	size_t transaction_len;
	const struct pf_piece
		*index; /* pieces of the index section's message; NULL with drop_index false: carry the base's */
	size_t n_index;
	bool drop_index;
};

/* Append the field of its timestamp. */
int pf_manifest_put_timestamp(struct pf_time t, struct pf_buf *out);

/*
 * Write the next manifest file to `out`: leading bytes, index section, transaction section (its offset in both 21 and 23), Manifest, footer
 * (same minor and major). Costs about one copy of the base. The base file is opened again by name and must still be the one that was read.
 *   -ESTALE   the base file is gone or is another one
 *   -EFBIG    a message would pass 4 GiB
 *   -EINVAL   two patches of one number, or one for 6, 21 or 23; a piece outside the base
 *   other     storage's error; what was written to `out` is of no use
 */
int pf_manifest_splice(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how,
		       struct pf_stage *out, struct pf_why *why);

#endif
