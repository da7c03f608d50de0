/* The tables that released Lance wrote, and what Lance says about them (tests/fixtures/README.md). Everything here asserts. */
#ifndef TESTS_FIXTURE_H
#define TESTS_FIXTURE_H

#include <jansson.h>

#include "core/store.h"

/* All of expected.json, keyed `<release>/<name>.lance`. The caller's reference. */
json_t *fixture_expected(void);

/* A carried table, to read. */
struct pf_store *fixture_open(const char *key);

/* A member that must be there: a path of keys, `head.rows`. Borrowed. */
json_t *fixture_get(json_t *o, const char *path);
uint64_t fixture_u64(json_t *o, const char *path);
const char *fixture_str(json_t *o, const char *path);

#endif
