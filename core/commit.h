/*
 * The commit loop: resolve the head, apply what was asked (pinop.c), publish (publish.c), and again on a lost race. The only way in which
 * pins change, for the mount and for pinctl alike.
 *
 * Operations of one kind that wait while a commit is under way share the next one; each is judged and answered for itself.
 */
#ifndef PF_COMMIT_H
#define PF_COMMIT_H

#include "branch.h"
#include "pinop.h"

struct pf_committer;

struct pf_committer_options {
	struct pf_time (*clock)(void *arg); /* NULL: pf_time_now */
	void *clock_arg;
	unsigned attempts; /* lost races before -EAGAIN; 0: the default, 100 */
	bool no_guard;	   /* put no guard tags (guard.h); those of pins that end are removed all the same */
	/*
	 * Told what is about to be published, once an attempt: whoever follows the head knows this committer's versions by it, also those whose
	 * outcome is unknown. From the thread that commits; must not block. NULL: nobody wants to know.
	 */
	void (*publishing)(void *arg, uint64_t version, const char *txn_uuid);
	void *publishing_arg;
};

/* For one branch, borrowed. Thread-safe: any number of threads may submit. */
int pf_committer_new(struct pf_branch *b, const struct pf_committer_options *o, struct pf_committer **out);
void pf_committer_free(struct pf_committer *c);

struct pf_answer {
	int err; /* 0, or as pf_pinop_apply and: -EAGAIN too many lost races; -EINPROGRESS unknown outcome; -EOPNOTSUPP unknown
	                       writer bit; -EROFS, -ENOSPC ... */
	bool committed; /* false with err 0: nothing had to change */
	/* err 0: the version that holds the effect; -EINPROGRESS: the one that may; -EAGAIN: the head on which an expire was skipped, 0: races lost */
	uint64_t version;
	unsigned attempts; /* commits tried */
	struct pf_pin
		pin; /* register, renew: the record as it is now; release, expire: as it was (id zero if it was absent) */
	int guard; /* err 0: 0, or why the pin's guard tag could not be put or removed; a warning, and `why` ends with it */
	struct pf_why why; /* the sentence, also for success ("already long enough") */
};
void pf_answer_release(struct pf_answer *a);

/*
 * Run one operation to its end. Returns answer->err. Blocks; the result is the commit's whatever happens to the caller meanwhile. The guard tag
 * follows on the caller's own thread, also when nothing had to be committed, so that a retry makes up for one that failed.
 */
int pf_commit(struct pf_committer *c, const struct pf_op *op, struct pf_answer *answer);

/* The same for several at once, in one commit if they are of one kind; answers[i] belongs to ops[i]. Returns 0 or the first error. */
int pf_commit_many(struct pf_committer *c, const struct pf_op *ops, size_t n, struct pf_answer *answers);

/* Confirmation (proposal: Registration): read the head now and say whether the pin is held. */
struct pf_confirmation {
	bool held;
	uint64_t version;		   /* head that was read */
	char branch_id[PF_BRANCH_ID_TEXT]; /* "" on main */
	struct pf_pin pin;
};
/*
 * 0 and *out (held or not; why says in what it differs); -EINPROGRESS when the state cannot be established. `request` may be NULL: then the id
 * alone is looked for; else source (if named), label, branch and branch id must match and expires_at be at least as asked.
 */
int pf_confirm(struct pf_branch *b, const struct pf_uuid *id, const struct pf_request *request,
	       struct pf_confirmation *out, struct pf_why *why);
void pf_confirmation_release(struct pf_confirmation *c);

#endif
