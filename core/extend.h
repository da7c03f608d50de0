/*
 * A splice (manifest.h) of a file that may itself become the next manifest: what the base does not have is written behind its message, over the footer, and the
 * footer after it, at a cost of what is new. The Manifest message ends the file, and of a number that stands in a message twice the last one counts (protobuf; so
 * read it all releases of Lance from 8 on and this, see gateway: section 3). Only of numbers: messages that stand twice are merged, and lists go on.
 */
#ifndef PF_EXTEND_H
#define PF_EXTEND_H

#include "manifest.h"

/* What is written where, and what stood there. Zeroed is empty. */
struct pf_extension {
	uint64_t body_off, body_len, size; /* of the base */
	struct pf_buf tail;		   /* fields and footer, from the end of the base's message on */
	struct pf_buf was;		   /* the base's footer */
};
void pf_extension_release(struct pf_extension *x);

/*
 * Plan the same change that pf_manifest_splice makes, but that added fields stand last: 1 and *out, or 0 if fields would be replaced that are no numbers, sections
 * would change, or there is anything that the splice refuses. Errors as of pf_manifest_reopen.
 */
int pf_extension_plan(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how,
		      struct pf_extension *out, struct pf_why *why);

/* On the base's file, open to be changed: make it, or, wherever that came to an end, unmake it. While it is at work the file is no manifest. */
int pf_extension_apply(const struct pf_extension *x, struct pf_stage *sg);
int pf_extension_undo(const struct pf_extension *x, struct pf_stage *sg);

#endif
