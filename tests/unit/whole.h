/* What must hold of a table after anything at all: asserted by tests of whoever writes to tables. */
#ifndef TESTS_WHOLE_H
#define TESTS_WHOLE_H

#include "core/branch.h"

/*
 * One naming scheme; versions without gaps; every manifest opens and has a transaction that can be read; one of ours has it inline and
 * as a file, byte for byte the same; beside that only the hint, `.tmp*` names, and transaction files that a manifest names. `dir`: "" or
 * the branch's. `loose`: a transaction file that no manifest names is let pass (a failed removal).
 */
void assert_whole(struct pf_store *st, const char *dir, bool loose);

/* The versions of main's line whose transaction has this uuid: how often it landed, and in *version where. */
unsigned count_landed(struct pf_store *st, const char *uuid, uint64_t *version);

/* How many files of `dir` have a `.tmp` name. */
unsigned count_staged(struct pf_store *st, const char *dir);

#endif
