/*
 * One commit for several operations of one kind: attempts until the outcome of each is known. The half of the commit loop that
 * commit.c, which decides who commits with whom, runs in one thread at a time.
 */
#ifndef PF_BATCH_H
#define PF_BATCH_H

#include "commit.h"

/* Who committed a head: what pf_txn_read said of it. Manifests are immutable, so it holds as long as the head is this one. */
struct pf_identity {
	struct pf_manifest *head; /* counted; NULL: of none yet */
	char uuid[PF_UUID_TEXT];  /* "" if it has none */
	int err;		  /* why it could not be read, and in words */
	struct pf_why why;
};

/* One operation in the commit at hand. */
struct pf_job {
	const struct pf_op *op;
	struct pf_answer *answer;
	bool changes; /* the list: it must be committed */
	bool follows; /* it was judged on what an earlier job of this commit made of the same pin */
};

/* Borrows everything. All jobs are of one kind, and n > 0. */
struct pf_batch {
	struct pf_branch *branch;
	const struct pf_committer_options *options; /* complete: no defaults left */
	struct pf_identity *identity;		    /* kept from one batch to the next */
	struct pf_job *jobs;
	size_t n;
};

/* Fills every answer. */
void pf_batch_run(const struct pf_batch *b);

#endif
