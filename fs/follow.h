/*
 * What others do to the pins of one line: each of its versions is looked at once, by the watcher (watch.h), and what happened to pins in those
 * that this mount did not make goes to the log. Pins that a writer dropped are counted as lost until they are active again or waived.
 */
#ifndef FS_FOLLOW_H
#define FS_FOLLOW_H

#include <pthread.h>

#include "core/history.h"

struct fs;
struct fs_branch;

/* A version this mount tried to make. */
struct fs_own {
	uint64_t version;
	char txn_uuid[PF_UUID_TEXT];
	bool landed; /* it did, and was answered */
};

struct fs_follow {
	/* Of the watcher's thread alone. */
	struct pf_manifest *head; /* newest head that was looked at; NULL: none yet */
	/* What happened up to this version has been looked at; at first, the head when the line was opened. */
	uint64_t at;
	/* Lost pins are known up to this version; 0: nobody has looked back yet. Others may read it, locked. */
	uint64_t known;
	unsigned failures; /* looks in a row that failed, and why the last one did */
	char *complaint;

	pthread_mutex_t lock; /* of what follows */
	struct fs_own *own;   /* above `at`, ascending; one version may have several */
	size_t n_own, cap_own;
	struct pf_uuid *lost;
	size_t n_lost;
};

void fs_follow_init(struct fs_follow *f);
void fs_follow_release(struct fs_follow *f);

/* Of ours: about to be published, as pf_committer_options.publishing (arg is the fs_follow); and known to be there. */
void fs_follow_publishing(void *arg, uint64_t version, const char *txn_uuid);
void fs_follow_landed(struct fs_follow *f, uint64_t version);

/* How many lost pins are known; and whether anybody has looked for them yet, or given up. */
size_t fs_follow_lost(struct fs_follow *f);
bool fs_follow_has_looked(struct fs_follow *f);

/*
 * Look at what is new on the line of `b`, which is open. The first time also, as far as it is cheap, for pins that were lost before. What cannot
 * be read is told once, and tried again by the next look. True if the head is another one than at the last look.
 */
bool fs_follow_look(struct fs *fs, struct fs_branch *b);

#endif
