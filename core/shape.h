/*
 * Is a manifest one that Lance decodes? It refuses a whole manifest for one known field of another wire type, or text that is not UTF-8 (prost), where we
 * walk over what we do not need. Unknown fields, and what values mean, are not judged.
 */
#ifndef PF_SHAPE_H
#define PF_SHAPE_H

#include "manifest.h"

struct pf_shape;
extern const struct pf_shape pf_shape_fragment;

/* The message that w is in, up to its end. -EBADMSG: it is of another shape; offsets are of the reader. */
int pf_shape_check(const struct pf_shape *s, struct pf_wire *w, struct pf_why *why);

/* All of `m`, which `r` reads, but for the fragments; fragments_end: where the last of them ends, 0 if there are none. */
int pf_shape_check_manifest(struct pf_reader *r, const struct pf_manifest *m, uint64_t fragments_end,
			    struct pf_why *why);

#endif
