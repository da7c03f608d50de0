/*
 * What released Lance committed on a copy of a table (copy.h) since the copy was made, committed on the table too: each transaction once, in its order, in the
 * numbers of the table (renumber.h), its files brought along (bring.h), and judged, applied, gated and published like any prepared work (work.h).
 *
 * What came back already is found among the table's versions since then, by the uuids of transactions. So a run that was ended goes on where it was.
 */
#ifndef PF_REPLAY_H
#define PF_REPLAY_H

#include "branch.h"
#include "work.h"

struct pf_replay;

/* A version of the copy. */
struct pf_replay_version {
	uint64_t version;
	char uuid[PF_UUID_TEXT];
	unsigned operation; /* field number */
	enum pf_replay_state {
		PF_REPLAY_PENDING,
		PF_REPLAY_LANDED, /* as version `as` of the table */
		PF_REPLAY_SKIPPED, /* not for the table: of pins that the copy has, or a trim of its history of moved rows */
	} state;
	uint64_t as;
};

/*
 * Compare the head of `copy`, a branch of another store, with `table`; both are borrowed. Nothing is written. `skip_indices`: leave out index files that refer to
 * rows by numbers which are others in the table.
 *   -EINVAL      it is not a copy of this branch, or of a later state of it; versions of it are gone; it was restored, or has another operation that cannot be
 *                replayed, named; what came back of it is not in its order
 *   -EAGAIN      versions of the table since then are gone
 *   -EBADMSG     a manifest or transaction is damaged
 */
int pf_replay_open(struct pf_branch *table, struct pf_branch *copy, bool skip_indices, struct pf_replay **out,
		   struct pf_why *why);
void pf_replay_free(struct pf_replay *r);
void pf_replay_freep(struct pf_replay **r);

/* All versions of the copy since it was made, ascending; *made: the version it was made of. Valid until it is freed. */
const struct pf_replay_version *pf_replay_versions(const struct pf_replay *r, size_t *n, uint64_t *made);

/*
 * Do the next one: 1 and *out, or 0 if all are in. With dry_run the next pending one is only checked, and stays pending.
 * Errors as pf_bring_copied, pf_renumber_operation and pf_work_commit, without a word of which version it was: *out says; it is as it was if the look at
 * the table failed. After -EINPROGRESS open it anew to find out.
 */
int pf_replay_next(struct pf_replay *r, bool dry_run, struct pf_replay_version *out, struct pf_why *why);

#endif
