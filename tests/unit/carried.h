/* Manifests that a client made whole, staged and committed as the gateway does it. Everything here asserts but what pf_carry says. */
#ifndef TESTS_CARRIED_H
#define TESTS_CARRIED_H

#include "core/operation.h"

/* The manifest of `from`, its only one, staged in st as a client has it that sees no bit 19; aware: with it. */
struct pf_manifest *carried_stage(struct pf_store *st, struct pf_store *from, uint64_t version, bool aware);

/* Commit it on the head of main. *changed: its index entries were. What pf_carry returns, if that is below 0. */
int carried_commit(struct pf_store *st, const struct pf_manifest *staged, const struct pf_operation *o, bool *changed,
		   struct pf_why *why);

#endif
