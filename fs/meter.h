/* What the operations of one line came to: the counters of .pinfs/metrics. They count from the start of the mount. */
#ifndef FS_METER_H
#define FS_METER_H

#include <pthread.h>

#include "core/commit.h"

enum fs_outcome {
	FS_COMMITTED,
	FS_UNCHANGED, /* success, and nothing had to be committed */
	FS_REFUSED,   /* the state of the table forbids it, or its source has moved away */
	FS_RACED,     /* too many races were lost: ask again */
	FS_UNKNOWN,   /* it may be committed */
	FS_FAILED,    /* storage or the system failed */
	FS_OUTCOMES
};
const char *fs_outcome_name(enum fs_outcome o);

/* Upper bounds of the buckets, in seconds; the last bucket has none. */
#define FS_BUCKETS 13
extern const double fs_bucket_limit[FS_BUCKETS - 1];

#define FS_METER_KINDS (PF_OP_RELEASE + 1) /* what a mount can be asked: register, renew, release */

struct fs_meter {
	struct fs_meter_kind {
		uint64_t outcome[FS_OUTCOMES];
		uint64_t bucket[FS_BUCKETS]; /* not cumulative */
		double seconds;		     /* all of them together */
		uint64_t retries;	     /* attempts beyond the first */
	} kind[FS_METER_KINDS];
	uint64_t guard_failures;
	uint64_t published; /* of a gateway: commits of clients, with pins */
};

/* Count one. The caller has the lock of *m. */
void fs_meter_count(struct fs_meter *m, enum pf_op_kind kind, const struct pf_answer *a, double seconds);

#endif
