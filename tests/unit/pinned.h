/*
 * Versions with pins and pin operations, for tests of what happened to pins. A pin is a letter, a to f: its id is that letter over and over, its
 * source version 1 for a, 2 for b and so on; in upper case it is the same pin after a renewal. Written with the wire writers alone, as table.h.
 */
#ifndef TESTS_PINNED_H
#define TESTS_PINNED_H

#include "core/pin.h"
#include "core/txn.h"

#include "table.h"

/* "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa" */
const char *pinned_id(char letter, char out[PF_UUID_TEXT]);
struct pf_uuid pinned_uuid(char letter);
char pinned_letter(const struct pf_uuid *id);

/* The record, to give to core or to compare with. The caller's, as pf_pin_release says. */
struct pf_pin pinned_pin(char letter);

struct pinned {
	const char *pins; /* of the manifest: letters; NULL: none */
	enum pf_op_kind kind;
	const char *named; /* by the operation: letters */
};

/* table_put of a version with these pins. */
void pinned_put(struct pf_store *st, const struct table_version *t, const struct pinned *p);

#endif
