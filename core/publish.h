/*
 * One commit attempt: from a base manifest to a durable next version, or a definite no (design: section 1, "Local publication").
 * Knows nothing of what an operation means: pin commits and prepared work share it, and whoever publishes a manifest that another process staged.
 *
 * Order, and why:
 *   1. transaction file: written under a temporary name, fsynced, renamed, directory fsynced: no manifest is ever visible whose transaction is not
 *   2. manifest staged as _versions/.tmp*, fsynced: complete before it has a name. A file that its writer gives up is not copied, if no more is to be done than to
 *      add fields: .tmp* is a second name of it, and it is extended (extend.h)
 *   3. link(2) to its final name: atomic, and fails if somebody else has the version; V1: if a migration to V2 names ran meanwhile, on to its V2 name
 *   4. _versions fsynced: durable before anybody is told
 *   5. read back and compare the transaction uuid; check that the version is on the head's line
 *   6. staged name unlinked; hint file, best effort
 */
#ifndef PF_PUBLISH_H
#define PF_PUBLISH_H

#include "branch.h"
#include "txn.h"

/* What an operation that somebody prepared makes of the manifest, beside version, time, flags, transaction and pins. All is borrowed. */
struct pf_publish_work {
	const struct pf_manifest *from; /* whose bytes are carried; NULL: the base's. Else a version that is restored */
	bool in_place; /* `from` may itself become the version: its one name is its writer's, who gives it up. If nothing is committed it is as it was */
	const struct pf_splice *splice; /* patches and index section; its transaction is not looked at */
	uint64_t writer_flags; /* the whole word of the new manifest; bit 19 is the base's whatever this says */
	uint64_t read_version; /* of the transaction, and its uuid: they name its file */
	const char *uuid;
	const void *transaction; /* the message, published byte for byte as it was given */
	size_t transaction_len;
	bool keep_file; /* the transaction's file is there, with these bytes: neither written nor removed */
};

struct pf_publish {
	const struct pf_manifest *base;
	struct pf_time timestamp;   /* of the new manifest */
	uint64_t writer_flags;	    /* set beside the base's; for a pin operation */
	const struct pf_pins *pins; /* the complete list of the new head */
	unsigned
		watch_ms; /* V1 names: how long to watch for a migration to V2 names, after the link and while nothing changes */
	const struct pf_txn *
		txn; /* a pin operation: read_version and uuid set by the caller; a fresh uuid for each operation, kept over its retries */
	const struct pf_publish_work *work; /* or prepared work, and txn is NULL */
};

/*
 * Try to make base->version + 1.
 *   0             it is the next version, durable, read back; *out is it
 *   -ESTALE       known lost: somebody else has that version, or ours is not on the head's line; nothing of ours is left
 *   -EINPROGRESS  it may have landed (link, fsync or read-back reported an error; or others have gone on, and the times of files do not tell
 *                 whether from ours): settle by txn uuid, see pf_publish_settle
 *   other         known not committed; storage's error
 */
int pf_publish(struct pf_branch *b, const struct pf_publish *p, struct pf_manifest **out, struct pf_why *why);

/*
 * Did the transaction `uuid` land at `version`, on the head's line? 1 yes (made durable now, *out is the manifest), 0 no (its transaction
 * file, which `read_version` names, is removed; 0: it is left alone), -EINPROGRESS still unknown.
 */
int pf_publish_settle(struct pf_branch *b, uint64_t version, uint64_t read_version, const char *uuid,
		      struct pf_manifest **out, struct pf_why *why);

/*
 * Was the head made from `version`, an attached one that has what is looked for? A commit that was held up and landed below the head (cases-open A09) looks like
 * one that others then built on; but what follows it is then older than its name.
 *   1            yes; or times of files say nothing, since they are those of a copy of the table
 *   -EINPROGRESS that cannot be told
 */
int pf_publish_followed(struct pf_branch *b, const struct pf_manifest *head, uint64_t version, struct pf_why *why);

#endif
