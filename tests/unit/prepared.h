/*
 * Transactions as Lance writes them, from the wire writers alone, in one line each: for tests of what is committed and of what conflicts.
 *
 * An operation is its name and its parts, separated by blanks. A part is a letter and what belongs to it:
 *   Append, Overwrite, Merge   nID:FILE a new fragment (id 0 if it has none; FILE=BYTES if its size is said); Merge: mID a fragment of the table; Overwrite, Merge: c a schema of columns 0 to 2
 *   Delete, Update             uID a fragment as it is afterwards, rID one that is removed; Update: nID:FILE, fFIELD modified, i in place, k keys inserted
 *   CreateIndex                nNAME:FIELD:FRAGMENTS a new index (fragments joined by commas; - none said), rNAME one that is removed; FIELD is several joined
 *                              by slashes if more than one; and :CARRIED may follow, the same of those that it only carries; one whose name begins with ngram
 *                              is an index of n-grams, with based one whose files are on base 1
 *   Rewrite                    gID,ID a group of these, 10 rows of PREPARED_OLD each, that becomes one fragment; sOLD:NEW an index that was remapped
 *                              from one uuid, that of a CreateIndex of this name, to another
 *   Project                    cFIELD a column that is left; p nulls as they were
 *   UpdateConfig               cKEY set, dKEY removed, tKEY table metadata, sKEY schema metadata, mFIELD metadata of a column, R config replaced,
 *                              oKEY set in the form of before
 *   DataReplacement            dID:FIELD, or dID:FIELD=BYTES
 *   DataOverlay                oID
 *   UpdateBases                bID:PATH
 *   Restore, ReserveFragments  NUMBER
 */
#ifndef TESTS_PREPARED_H
#define TESTS_PREPARED_H

#include "core/branch.h"
#include "core/operation.h"

#define PREPARED_OLD "old.lance"

/* A fragment as all of these have it: field `number`, of one file of columns 0 to 2. */
void prepared_fragment(struct pf_buf *b, uint32_t number, uint64_t id, const char *file, uint64_t rows,
		       uint64_t deleted);
/* Put its deletion file: the first `deleted` rows, 65535 at most. */
void prepared_deletions(struct pf_store *st, uint64_t id, uint64_t deleted);

/* The Transaction message, appended. uuid NULL: none. */
void prepared_bytes(const char *text, uint64_t read_version, const char *uuid, struct pf_buf *out);

/* Decoded by core. */
void prepared(const char *text, uint64_t read_version, const char *uuid, struct pf_operation *out);

/* The ids of the fragments of main's head, in *out: "1 2- 3", 2 with deletions. */
const char *prepared_ids(struct pf_store *st, struct pf_buf *out);

/* Only the message of the operation, and its number. */
unsigned prepared_body(const char *text, struct pf_buf *out);

#endif
