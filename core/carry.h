/*
 * What a manifest needs to replace a head that has pins, when whoever made it does not know them: the movement records that pins follow, which such writers
 * drop when they did not write them themselves (gateway: lance-14-fri). Pins, bit 19 and the transaction are publication's (publish.h).
 */
#ifndef PF_CARRY_H
#define PF_CARRY_H

#include "branch.h"
#include "operation.h"

/* Zeroed is empty. */
struct pf_carry {
	struct pf_splice splice; /* of the staged manifest, for pf_publish_work */
	uint64_t writer_flags;
	struct pf_buf entry;
	struct pf_piece pieces[3];
};
void pf_carry_release(struct pf_carry *c);

/*
 * May `staged`, whose transaction is `op`, replace `head`, and how?
 *   -EPERM  it moves rows that pins follow without a record of where to, or has records of its own and lacks some that pins follow; the sentence says
 *           what to do
 *   others  a history cannot be read: -EBADMSG, -EOPNOTSUPP, storage's
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
