/* Tables with histories of moved rows, a version a line, for tests of what becomes of those. Written as moves.h and pinned.h do it; everything here asserts. */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

#include "core/store_mem.h"

/* One version of main, with pins enabled. Zero is the default of every member but version and fragments. */
struct recorded {
	uint64_t version, flags;
	const char *
		fragments; /* "1:10 2:10:3": id, rows, deleted: the first ones; each of one data file of its id, "1.lance" */
	const char *history; /* moves.h; NULL: none */
	const char *covers;  /* the fragments that its entry has: "19 20"; NULL: it has no bitmap */
	const char *pins;    /* pinned.h */
	int index_version;
	const char *index;	     /* the fragments of a user's index by_id: "1 2"; NULL: there is none */
	uint64_t built_on;	     /* its dataset_version */
	const struct pf_buf *bitmap; /* these bytes as its bitmap instead */
	bool external;		     /* the history is in a file */
	bool overlaid;		     /* one fragment more, 9 of 10 rows, with overlays */
};

void recorded_put(struct pf_store *st, const struct recorded *v);

/* A new memory store with these versions, and data/new.lance. */
struct pf_store *recorded_table(const struct recorded *v, size_t n);

/* Append fragments as above, as fields `number`; *rows grows by their live rows. */
void recorded_fragments(const char *text, uint32_t number, struct pf_buf *out, uint64_t *rows);

/* The history of main's head is this, as moves_assert_history has it; NULL: there is none. */
void recorded_want(struct pf_store *st, const char *text);

/* Between somebody's look at the head and their link of the next version others publish these, one at a time: a hook of the store. */
struct recorded_meddler {
	const struct recorded *v;
	unsigned n, done;
};
void recorded_meddle(void *arg, struct pf_store *st, const char *op, const char *name);

#endif
