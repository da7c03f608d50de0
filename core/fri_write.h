/*
 * Writing the history of moved rows: records as Lance 14 writes them (lance-14-fri section 3), behind those that are there, whose bytes stay as they are;
 * and the entry of the next version that holds them. Each entry written is a new one, under a new uuid.
 */
#ifndef PF_FRI_WRITE_H
#define PF_FRI_WRITE_H

#include "fri.h"
#include "next.h"

/* Lance keeps a history of up to so many bytes in its entry, and a longer one in a file. */
#define PF_FRI_INLINE_MAX 204800
#define PF_FRI_FILE	  "details.binpb" /* in _indices/<uuid of the entry>/ */

/* Rows that were moved together. All is borrowed. */
struct pf_move {
	const struct pf_digest *from, *to;
	size_t n_from, n_to;
	struct pf_span rows; /* the treemap of the rows that were moved */
};

/* Append to the content of a history: one legacy Version of these groups, or one Transition, an ordered compaction. */
int pf_fri_put_version(uint64_t stamp, const struct pf_move *v, size_t n, struct pf_buf *content);
int pf_fri_put_transition(const struct pf_move *v, struct pf_buf *content);

/*
 * The fragment bitmap of an entry, as far as groups from `first` on say it: where they moved rows; tagged, also where from (lance-14-fri section 3). Version 0:
 * without those whose rows were moved on, as Lance has it a commit later. Lance 4 and older cannot open a table whose entry covers some of the fragments of a
 * group and not all, and newer ones have such groups: Lance 14 compacts such fragments together where no index is concerned.
 */
int pf_fri_coverage(const struct pf_fri *f, size_t first, struct pf_bitmap **out);

/*
 * Make `history` that of x: its entry goes, and a new one stands at the end, with fields that are not known as they were. `coverage`: its fragment bitmap.
 * Content that is too long for the entry becomes x->history.
 */
int pf_fri_replace(struct pf_next *x, const struct pf_fri *history, const struct pf_bitmap *coverage,
		   struct pf_time now, struct pf_why *why);

/* Append the index_details of an entry: those of the message `entry` (empty: none), but with this content, inline or, if it is too long, in the file. */
int pf_fri_put_details(struct pf_span entry, const struct pf_buf *content, struct pf_buf *out, struct pf_why *why);

/* Write that file, `file` in the directory `folder`, which is made, durably. */
int pf_fri_write_file(struct pf_store *st, const char *folder, const char *file, struct pf_span content);

/* Write x->history to its file, if there is one, durably; and remove it again, once the commit is known to have failed. */
int pf_fri_store(struct pf_store *st, const char *dir, const struct pf_next *x, struct pf_why *why);
void pf_fri_unstore(struct pf_store *st, const char *dir, const struct pf_next *x);

#endif
