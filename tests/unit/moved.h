/* A table of small files whose rows were moved, with pins on it: for tests of what is told about one. Everything here asserts. */
#ifndef TESTS_MOVED_H
#define TESTS_MOVED_H

#include "core/store.h"

/* The directory of its index: two files, one of them in a folder. */
#define MOVED_INDEX "0badcafe-0000-4000-a000-000000000001"

/* A file of so many zeros. */
void moved_put_file(struct pf_store *st, const char *name, size_t len);

/* Append an index section: an index, and the history `text` (moves.h), NULL: none, on a base, 0: on none. */
void moved_put_history(const char *text, int32_t index_version, uint32_t base, struct pf_buf *out);

/* One version of these fragments, digits, each of a data file of its name and 100 bytes; a tagged history; and pins (pinned.h). */
void moved_put_version(struct pf_store *st, uint64_t version, const char *fragments, const char *history,
		       const char *pins);

/*
 * Fragments 0 and 1 become 2 in version 3, which becomes 3 and 4 in version 4; 9 comes in version 5 and becomes 5 in version 6, the head. Pin a is of
 * version 1 with fragment 0, pin b of version 2 with fragments 0 and 1.
 */
struct pf_store *moved_table(void);

#endif
