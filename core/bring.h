/*
 * Files that prepared work names and that lie elsewhere, brought into the table: first a second name there, which overwrites nothing; then the commit;
 * then, of a scratch dataset, the first name goes. Whenever it is ended in between, the data is whole in at least one of both places, and doing it again
 * picks up what is there. Local files only.
 */
#ifndef PF_BRING_H
#define PF_BRING_H

#include "branch.h"
#include "operation.h"

struct pf_bring {
	struct pf_bring_file {
		char *from, *to;
		bool linked; /* by us: its name in the table is to go if nothing comes of the commit */
	} * v;
	size_t n;
	struct pf_bring_dir {
		char *from; /* NULL: stays */
		char *name; /* in the table's store */
		char *path;
		bool made; /* by us */
	} * dirs;
	size_t n_dirs;
};
void pf_bring_release(struct pf_bring *l);

/*
 * Give the data files of o's new fragments, of its replacements too, that lie in `dir` (or in its data/, as Lance lays them out) their names in the table,
 * and their blobs with them. What is in the table already and not in `dir` stays as it is. On failure nothing has changed.
 *   -EINVAL  a file is in neither place
 *   -EEXIST  the table has another file of the name
 *   -EXDEV, -EACCES ... a link is not possible, and why
 */
int pf_bring_in(struct pf_branch *b, const char *dir, const struct pf_operation *o, struct pf_bring *out,
		struct pf_why *why);

/*
 * All that `theirs`, committed on a branch of a copy (copy.h), names there: data files and blobs, deletion files, the files of indices. `ours` is the same
 * work in the numbers of b (renumber.h): files of deletions are called after their fragment. Errors as above.
 */
int pf_bring_copied(struct pf_branch *b, struct pf_branch *copy, const struct pf_operation *theirs,
		    const struct pf_operation *ours, struct pf_bring *out, struct pf_why *why);

/*
 * The commit of `o` on b is known to have failed, or was not meant: our names in the table go. Not if somebody else has committed the same: to them they were
 * there.
 */
void pf_bring_undo(struct pf_branch *b, const struct pf_operation *o, struct pf_bring *l);

/*
 * It is known to have landed: whoever tried the same and came to nothing may have taken names back that we had found there; those are made again. Negative:
 * one is missing, and the sentence says which.
 */
int pf_bring_keep(struct pf_branch *b, struct pf_bring *l, struct pf_why *why);

/* After that: the names in `dir` go. Returns how many files are left. */
size_t pf_bring_end(struct pf_bring *l);

#endif
