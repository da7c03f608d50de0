/*
 * All lines of versions of a table: main and its branches, each with its survey, and what they need of each other. Deleting on one line must know what
 * the others refer to (lance-14-cleanup 28 to 32; cases-open B22).
 */
#ifndef PF_LINES_H
#define PF_LINES_H

#include "retention.h"

struct pf_line {
	char *name; /* NULL: main */
	struct pf_branch *branch;
	struct pf_survey *survey; /* NULL if there is nothing to survey */
	char *unknown;		  /* it could not be read: why; NULL if it was */
	uint64_t
		none_lost; /* no pin was lost up to this version, as far as was looked; 0: nobody looked, or some were (pf_explain_blocked) */
};

struct pf_lines {
	struct pf_store *st;
	struct pf_line *v; /* [0] is main, the others by name */
	size_t n;
};

/* Borrows st. Reads nothing yet. */
void pf_lines_init(struct pf_lines *l, struct pf_store *st);
void pf_lines_release(struct pf_lines *l);

/*
 * Bring all surveys up to the heads as they are now. A branch that cannot be read is `unknown`; one of which only the ref is left is no line. Progress is
 * told of each line by itself. Errors are those of main, and -EINTR.
 */
int pf_lines_refresh(struct pf_lines *l, pf_progress_fn progress, void *arg, struct pf_why *why);

/* The line of this name (NULL: main), NULL if there is none. */
struct pf_line *pf_lines_find(const struct pf_lines *l, const char *name);

/* How far below main it hangs, by what the refs say of parents: 0 is main, 1 its branches, 2 theirs. */
size_t pf_lines_depth(const struct pf_lines *l, const char *name);

/* What the others need of `line`: for pf_retention_input. Of its files, those are marked and, if no version of its own refers to them, added. */
struct pf_needs {
	struct pf_branch_needs *v;
	size_t n;
};
int pf_lines_needs(struct pf_lines *l, struct pf_line *line, struct pf_needs *out);
void pf_needs_release(struct pf_needs *n);

#endif
