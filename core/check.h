/*
 * pinctl check: walk every manifest and transaction of a table, all branches, and say what is wrong, in words. Reads only.
 */
#ifndef PF_CHECK_H
#define PF_CHECK_H

#include "branch.h"

enum pf_severity { PF_NOTE, PF_DAMAGE };

struct pf_finding {
	enum pf_severity
		severity;   /* a note is something unusual that breaks nothing (a stale hint, staging leftovers) */
	const char *branch; /* NULL: main */
	uint64_t version;   /* 0: not about one version */
	const char *file;   /* name in the store */
	const char *text;
};

struct pf_check_totals {
	uint64_t branches, manifests, transactions; /* looked at, main among the branches; looked at; read */
	uint64_t pins;				    /* in the heads */
	uint64_t notes, damages;
};

/*
 * Calls `found` for each finding, in a stable order; its non-zero return stops the walk and is returned. 0 even with damage: see totals.
 * What cannot be read, for whatever reason, is damage; a feature bit we lack is a note. A finding is valid during its call. Progress (it may be NULL) is
 * told of the versions of each branch by itself.
 *   -ENOENT  not a Lance table
 *   -EINTR   interrupted
 */
int pf_check(struct pf_store *st, int (*found)(void *arg, const struct pf_finding *f), pf_progress_fn progress,
	     void *arg, struct pf_check_totals *out, struct pf_why *why);

#endif
