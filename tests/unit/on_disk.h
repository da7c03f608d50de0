/* Tables of tests on a real file system, for what has no meaning in memory: links, and files of two tables. Everything here asserts. */
#ifndef TESTS_ON_DISK_H
#define TESTS_ON_DISK_H

#include "core/store.h"

/* A new directory below /tmp, which is the working directory until it is removed with all that is in it. */
void disk_enter(char dir[64]);
void disk_leave(const char *dir);

/* All files of a store in memory, written below the new directory `name`; opened. */
struct pf_store *disk_table(struct pf_store *mem, const char *name);

/* A file with this text, and its directories. */
void disk_put(const char *path, const char *text);
/* Is it there, with this text? */
bool disk_has(const char *path, const char *text);
bool disk_same_file(const char *a, const char *b);

#endif
