/*
 * What happened to a branch, version by version, from the manifests and transactions that are still kept: for a pin's life (`pinctl log`), for
 * noticing pins that a writer dropped (lost.h), and for following a head (`pinctl watch`, the mount).
 */
#ifndef PF_HISTORY_H
#define PF_HISTORY_H

#include "branch.h"
#include "txn.h"

/* One version as the walk shows it. Pointers are valid during the call only; references may be taken of the manifests. */
struct pf_step {
	const struct pf_manifest *m;
	const struct pf_manifest *before; /* the version kept just below, NULL if there is none */
	bool gap;		  /* `before` is there and not version - 1: what happened in between is not known */
	const struct pf_txn *txn; /* NULL: it could not be read, and txn_error says why */
	int txn_error;
	const char *txn_why; /* NULL if it could be read */
};

typedef int (*pf_step_fn)(void *arg, const struct pf_step *s);

/*
 * Show every kept version in (after, head], ascending, to fn; the one at or below `after` serves as the first `before`. A non-zero return of fn
 * stops the walk and is returned. after = 0: from the oldest. What a cleanup removes meanwhile is a gap. Holds two manifests at a time; reads each
 * once.
 *   -EBADMSG, -EIO ...  a manifest in the range cannot be read: named; fn has seen those below it
 */
int pf_history_walk(struct pf_branch *b, uint64_t after, pf_step_fn fn, void *arg, struct pf_why *why);

/* 0, or storage's error: `txn` is not there because reading failed. It may name pins that are gone, so nothing is to be told from the step. */
int pf_step_check(const struct pf_step *s, struct pf_why *why);

/* What one step did to one pin. */
enum pf_change_kind {
	PF_CHANGE_REGISTERED,
	PF_CHANGE_RENEWED,
	PF_CHANGE_RELEASED,
	PF_CHANGE_EXPIRED,
	PF_CHANGE_WAIVED,  /* a release that names a pin which was not there */
	PF_CHANGE_LOST,	   /* gone without an operation that names it (design: section 1, "Lost pins") */
	PF_CHANGE_UNKNOWN, /* gone across a gap */
};
const char *pf_change_name(enum pf_change_kind kind);

/*
 * Call fn for each pin that differs between s->before and s->m, in the order of the lists, then for each that s->txn ends and s->before does not
 * have. `pin` is the record after the step, or `before` if it is gone; of a pin ended without a record only the id is known. `before` is NULL if
 * s->before does not have it.
 *
 * A pin is registered by source_version + 1: an s->m above it only shows it first, across a gap or as the oldest kept. There, too, an end without
 * a record is told as the operation says, since the pin may well have been there.
 */
typedef int (*pf_change_fn)(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before);
int pf_step_changes(const struct pf_step *s, pf_change_fn fn, void *arg);

/* Who wrote a manifest, as "lance 8.0.1", or "unknown writer". Appends to out. Our own commits keep the base's writer. */
int pf_writer_describe(const struct pf_manifest *m, struct pf_buf *out);

#endif
