/* What a writer that knows pins made of them (gateway: rule 4), judged by the table of its operations (pinop.h). */
#ifndef PF_CARRY_PINS_H
#define PF_CARRY_PINS_H

#include "branch.h"

/*
 * The pins of the version that `staged` is to be: the head's, if it has no bit 19; else its own, if they are what its transaction makes of the head's.
 *   -EPERM  they are not: the sentence names one
 */
int pf_carry_pins(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
		  struct pf_pins *out, struct pf_why *why);

#endif
