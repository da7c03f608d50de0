/* Tests that are asked of every store: in memory, and of a local directory. Everything here asserts. */
#ifndef TESTS_EACH_STORE_H
#define TESTS_EACH_STORE_H

#include "core/store.h"

struct each_store {
	struct pf_store *st;
	char dir[64]; /* of the local store; empty for memory */
};

/* Of a test, for cmocka: its store is new and empty, and gone after the teardown. */
int each_store_mem(void **state);
int each_store_local(void **state);
int each_store_teardown(void **state);
struct pf_store *store_of(void **state);

/* A new file with this text; a file has this text. */
void store_put(struct pf_store *st, const char *name, const char *text);
void store_expect(struct pf_store *st, const char *name, const char *text);

#endif
