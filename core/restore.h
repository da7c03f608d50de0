/*
 * Going back to an older version (design: section 4, "restore"): the transaction that says so, which work.h commits like any other Restore, and what it
 * would mean. The result has the old version's content, its history of moved rows and its leading bytes; pins and bit 19 stay the head's, and neither
 * fragment ids nor row ids are given out twice.
 */
#ifndef PF_RESTORE_H
#define PF_RESTORE_H

#include "operation.h"
#include "branch.h"

/* What becomes of one pin's way from its source to the restored layout. */
struct pf_restore_pin {
	struct pf_uuid id;
	uint64_t source;
	uint64_t fragments; /* of its source */
	uint64_t stranded;  /* of these: neither there again nor followed to it by the restored history */
	char *unknown;	    /* it cannot be told: why; NULL if it can */
};

struct pf_restore_plan {
	uint64_t head, version;
	struct pf_numbers back, gone; /* fragments that come back, and that go; ascending */
	uint64_t fragments;	      /* of the restored version */
	uint64_t records, dropped;    /* of moved rows: in the restored history; in the head's and not in it */
	struct pf_restore_pin *pins;
	size_t n_pins;
};
void pf_restore_plan_release(struct pf_restore_plan *p);

/*
 * What restoring `version` to the head as it is now would do. Reads nothing but manifests and histories.
 *   -ENOENT       there is no such version
 *   -EBADMSG ...  it, the head, or one of their histories cannot be read
 */
int pf_restore_look(struct pf_branch *b, uint64_t version, struct pf_restore_plan *out, struct pf_why *why);

/* The transaction, with a new uuid, prepared on version `read_version`. */
int pf_restore_operation(uint64_t read_version, uint64_t version, struct pf_operation *out, struct pf_why *why);

#endif
