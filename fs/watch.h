/* The thread that follows every branch that was ever looked at (follow.h), and tells the service manager how things are. */
#ifndef FS_WATCH_H
#define FS_WATCH_H

#include <pthread.h>
#include <stdbool.h>

#include "core/error.h"

struct fs;

struct fs_watch {
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t wake;  /* one of them was set */
	bool stop, ended;
};

/* To be started in the process that serves: threads do not survive a fork. 0 or the error of pthread_create. */
int fs_watch_start(struct fs *fs, struct pf_why *why);

/*
 * Ask it to end, which it does at once or after the version it is looking at. False if it has not within a few seconds, since storage does not
 * answer: then nothing that it may use can be freed any more.
 */
bool fs_watch_stop(struct fs *fs);

/* For long looks: is it to end? */
bool fs_watch_stopping(struct fs_watch *w);

#endif
