/*
 * What changed among the fragments from one version to the next, found while the second manifest is read (pf_manifest_read). Fragments that are
 * byte for byte the same are recognised by comparing large blocks and cutting at the boundaries that are known of the first; none of them is
 * decoded, nor even walked (design: section 7).
 */
#ifndef PF_FRAGMENT_DIFF_H
#define PF_FRAGMENT_DIFF_H

#include "manifest.h"

/* Where the fragments of a manifest stand in its file. */
struct pf_fragment_list {
	uint64_t *at; /* of each field */
	size_t n, cap;
	uint64_t end;
	bool scattered; /* something stands between them: they are not compared with others */
};
void pf_fragment_list_release(struct pf_fragment_list *l);

/* A reader that is looked into at large: of a file, through a window of its own. */
struct pf_view {
	struct pf_reader *r;
	uint8_t *win;
	uint64_t win_off;
	size_t win_len;
};

/* A fragment that is in one of the two alone: in the old manifest (by is -1) or in the new one (1). w just returned it as f, and may be moved within it. */
typedef int (*pf_fragment_fn)(void *arg, struct pf_wire *w, const struct pf_field *f, int by, struct pf_why *why);

struct pf_fragment_diff {
	const struct pf_fragment_list *was;
	struct pf_fragment_list *is;
	struct pf_view old, new;
	struct pf_wire old_wire;
	struct pf_field old_field; /* of fragment `next`, once its id was asked for */
	size_t next;		   /* of `was`: those below are dealt with */
	pf_fragment_fn fn;
	void *arg;
};

/*
 * Compare with the fragments `was` that `old` reads, or with nothing (was NULL: all of them come). `is` is emptied and filled. What differs is told to fn,
 * in no order that means anything; fragments that stand in another order than that of their ids may be told as gone and come. All is borrowed.
 */
void pf_fragment_diff_init(struct pf_fragment_diff *d, const struct pf_fragment_list *was, struct pf_reader *old,
			   struct pf_fragment_list *is, struct pf_reader *new, pf_fragment_fn fn, void *arg);
void pf_fragment_diff_release(struct pf_fragment_diff *d);

/* The pf_manifest_fragment_fn; arg is the diff. Errors of fn are passed on. */
int pf_fragment_diff_see(void *arg, struct pf_wire *w, const struct pf_field *f, struct pf_why *why);

/* After the last: what is left of `was` is gone. */
int pf_fragment_diff_end(struct pf_fragment_diff *d, struct pf_why *why);

#endif
