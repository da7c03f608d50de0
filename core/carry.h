/*
 * What a manifest needs to replace a head that has pins, when it was made whole by a client of released Lance (gateway: design section 5). A compaction goes
 * through the gate (gate.h) as any other. Besides, clients drop records of moved rows that they did not write themselves (gateway: section 4): those that pins
 * follow are put back. All else stays as the client made it; pins, bit 19 and the transaction are publication's (publish.h).
 */
#ifndef PF_CARRY_H
#define PF_CARRY_H

#include "branch.h"
#include "next.h"
#include "operation.h"

/* Zeroed is empty. */
struct pf_carry {
	struct pf_next
		next; /* from the staged manifest: its history may have to be stored (pf_fri_store) before it is published */
	struct pf_splice splice; /* of the staged manifest, for pf_publish_work */
	uint64_t writer_flags;
	struct pf_pins pins; /* of the version that is to be */
};
void pf_carry_release(struct pf_carry *c);

/*
 * May `staged`, whose transaction is `op`, replace `head`, and how? One with bit 19 is of a writer that knows pins: what it makes of them is checked.
 *   -EPERM  it moves rows that pins follow to where nobody can follow them, or changes pins as its operation does not say: the sentence says what to do
 *   others  a history cannot be read: -EBADMSG, storage's
 */
int pf_carry(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
	     const struct pf_operation *op, struct pf_carry *out, struct pf_why *why);

/*
 * Publish the first version of a branch, a Clone, as `name`: no pins, and bit 19 as the version has that it was cloned from.
 *   -EEXIST  the name is taken
 */
int pf_carry_first(struct pf_store *st, const struct pf_manifest *staged, const char *name,
		   const struct pf_operation *op, struct pf_why *why);

#endif
