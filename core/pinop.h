/*
 * What each pin operation does in each state of the head: the table of design.md section 2, in one place, as a pure function. It neither
 * reads nor writes nor asks the clock; commit.c calls it again for every attempt.
 */
#ifndef PF_PINOP_H
#define PF_PINOP_H

#include "request.h"
#include "txn.h"

/* One operation somebody asked for. */
struct pf_op {
	enum pf_op_kind kind;
	struct pf_request request; /* register */
	struct pf_uuid id;	   /* renew, release, expire */
	struct pf_time expires_at; /* renew: asked for; expire: inspected */
	bool waive; /* release: commit even if the pin is absent, so that the history names it (lost.h) */
};
void pf_op_release(struct pf_op *op);

/* The id it is about, wherever its kind keeps it; nil for enable. Valid as long as op. */
const struct pf_uuid *pf_op_id(const struct pf_op *op);

/* What the head is, as far as the table of section 2 looks at it. */
struct pf_head_facts {
	const char *branch;    /* NULL: main */
	const char *branch_id; /* "" on main */
	uint64_t version;
	const char *txn_uuid;  /* "" : the head has no transaction identity */
	const char *txn_error; /* why its transaction could not be read, NULL if it was */
	bool pins_enabled;     /* bit 19 */
	struct pf_time now;
};

enum pf_effect {
	PF_EFFECT_NONE,	  /* success, and nothing to commit */
	PF_EFFECT_CHANGE, /* must be committed: the list was changed, or an absent pin is waived */
};

/*
 * Apply one operation to `pins`, the list as it stands (the head's, or already changed by operations that share this commit).
 * Returns 0 and *effect; or, with `pins` untouched,
 *   -EINVAL      register with expires_at <= now, or for another branch or branch id
 *   -EEXIST      register: the id is there and differs; the sentence says in what
 *   -ESTALE      register: the named source is not the head; never revived
 *   -ENOENT      renew: no such pin
 *   -EOPNOTSUPP  pins are not enabled, or register on a head without transaction identity
 *   -EAGAIN      expire: renewed since it was inspected: skipped
 *   -EBADMSG     the head has pins but its transaction cannot be read: only release is allowed
 * Register adds the pin with source = the head and created_at = now. *why is set on success, too: it says what happened, or why nothing had to.
 */
int pf_pinop_apply(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
		   enum pf_effect *effect, struct pf_why *why);

/*
 * Does the pin hold what was asked for: the source if one was named, the label exactly, expires_at at least? 0, or -EEXIST and the sentence
 * says each thing that differs. The id is the caller's to compare. Registration and confirmation share it.
 */
int pf_request_compare(const struct pf_request *q, const struct pf_pin *p, struct pf_why *why);

/* Is the request for this branch (NULL: main; id "" on main)? 0 or -EINVAL. */
int pf_request_check_branch(const struct pf_request *q, const char *branch, const char *branch_id, struct pf_why *why);

#endif
