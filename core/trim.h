/*
 * Dropping records of moved rows that nobody needs any more: what indices need by Lance's rule (closure.h), united with what pins need (source.h). What is
 * kept stays byte for byte, in its order, under a new entry (design: section 4; lance-14-fri section 5).
 */
#ifndef PF_TRIM_H
#define PF_TRIM_H

#include "source.h"
#include "work.h"

/* What becomes of each record of a head. */
struct pf_trim {
	uint64_t head;
	struct pf_fri history; /* as it was; no records: there is none */
	struct pf_indices indices;
	struct pf_pins pins;
	struct pf_sources sources;
	bool *indexed; /* an index needs the record */
	size_t *by;    /* which, in `indices` */
	bool *keep;
	size_t kept;
};
void pf_trim_release(struct pf_trim *t);

struct pf_trim_options {
	bool apply; /* else nothing is written */
	struct pf_time (*clock)(void *arg);
	void *clock_arg;
	unsigned attempts;
};

/*
 * Decide on the head as it is, on every attempt anew, and commit it. *out, the caller's, is of the head that was decided on. result->version is 0 if there was
 * nothing to drop, and nothing is committed then.
 *   -EBUSY       what a pin needs cannot be told: the sentence names it
 *   -EBADMSG     what an index needs cannot be told: its coverage is damaged, or straddles a compaction
 *   -EOPNOTSUPP  the history holds what we cannot interpret
 *   -EAGAIN, -EINPROGRESS ... as pf_work_commit
 */
int pf_trim(struct pf_branch *b, const struct pf_trim_options *o, struct pf_trim *out, struct pf_work_result *result,
	    struct pf_why *why);

/* Does a source of pins need the record? */
bool pf_trim_needs(const struct pf_trim *t, const struct pf_pin *pin, size_t record);

#endif
