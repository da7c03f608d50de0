/*
 * A manifest as it is shown to who knows nothing of pins: the same bytes, but for bit 19 of the writer's flags, which is not set. It is one bit of one byte,
 * as a number may be longer than it needs to be: lengths, offsets and everything else stay as they are stored.
 */
#ifndef PF_MASK_H
#define PF_MASK_H

#include "manifest.h"

#define PF_MASK_MAX 4 /* a field may stand in a message more than once: the last counts, and each is masked */

struct pf_mask {
	unsigned n;
	struct {
		uint64_t off; /* in the file */
		uint8_t byte; /* what is shown there */
	} v[PF_MASK_MAX];
};

/*
 * Where to mask m, none if the bit is not set.
 *   -ESTALE   the file is gone or is another one
 *   -EBADMSG  no writer says its flags like this
 */
int pf_mask_find(struct pf_store *st, const struct pf_manifest *m, struct pf_mask *out, struct pf_why *why);

/* Mask n bytes that were read from `off` on. */
void pf_mask_apply(const struct pf_mask *mask, uint64_t off, uint8_t *buf, size_t n);

#endif
