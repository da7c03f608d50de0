/* A table and a copy of it that went on by itself, for tests of what comes back. Everything here asserts. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "core/replay.h"

#define MADE 5 /* the version that copies are made of */

/*
 * Table and copy, which are the same up to MADE: columns a, b, c, and fragments 1 to 3; the table has pins enabled. In memory, or as t and c in a new working
 * directory.
 */
struct pair {
	char dir[64]; /* "": in memory */
	struct pf_store *t, *c;
	struct pf_branch *table, *copy;
};

void new_pair(struct pair *p);
void new_pair_on_disk(struct pair *p);
void close_pair(struct pair *p);

/* What the copy says of its origin. */
void put_origin(struct pf_store *copy, const char *text);

/* The n-th transaction of somebody: 'c' on the copy, 'f' a foreign one on the table. Returns out. */
const char *pair_uuid(char who, unsigned n, char out[PF_UUID_TEXT]);

/* Commit it (prepared.h) on the head of b, as who prepared it there would. */
void commit(struct pf_branch *b, const char *text, const char *uuid);

struct pf_replay *opened(struct pair *p);

/* Do all that are not in: 0 and how many that were, or the error. */
int replay(struct pf_replay *r, unsigned *done, struct pf_why *why);
void replayed(struct pair *p, unsigned wanted);

#endif
