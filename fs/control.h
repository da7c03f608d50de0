/*
 * What this mount did and refused, and what it saw others do, in words: `.pinfs/last_status` (the newest it was asked for, one line) and
 * `.pinfs/log` (the newest FS_LOG_LINES, one a line). In memory only: it is about the mount, not about the table.
 */
#ifndef FS_CONTROL_H
#define FS_CONTROL_H

#include <pthread.h>

#include "core/buf.h"
#include "core/text.h"

#define FS_LOG_LINES 1000

struct fs_control {
	pthread_mutex_t lock;
	char *line[FS_LOG_LINES]; /* a ring; the oldest is at `next` once it is full */
	size_t next;
	char *status;
	struct pf_time line_when, status_when; /* of the newest */
};

/* One thing asked of the mount, or done by others. */
struct fs_act {
	const char *op;	  /* "register", "renew", "rename" ... ; of others "registered", "renewed", "lost" ... */
	const char *path; /* from the mountpoint, bytes as they came */
	int err;	  /* 0 or a positive errno, as answered; of what others did, why it cannot be told */
	uint64_t version; /* 0: none to name */
	const char *text; /* the sentence */
};

int fs_control_init(struct fs_control *c);
void fs_control_release(struct fs_control *c);

/* Remember it. Out of memory forgets it: nothing depends on it. */
void fs_control_note(struct fs_control *c, const struct fs_act *a);

/* The same for what others did: into the log alone, with the result `-`. */
void fs_control_event(struct fs_control *c, const struct fs_act *a);

/* Append `TIME RESULT OP PATH: SENTENCE`; result is OK or the errno's name. *when is when it was noted, or when the mount was made. */
int fs_control_status(struct fs_control *c, struct pf_buf *out, struct pf_time *when);

/* Append the lines `TIME OP PATH RESULT VERSION SENTENCE`, separated by tabs, oldest first. */
int fs_control_log(struct fs_control *c, struct pf_buf *out, struct pf_time *when);

#endif
