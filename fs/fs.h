/*
 * One mount. Everything it knows hangs off struct fs, which libfuse hands to each request as userdata: two mounts in one process would work.
 * The table alone holds state; what is here is either fixed at the start, or may be forgotten at any time (design: section 5).
 */
#ifndef FS_FS_H
#define FS_FS_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#include "branches.h"
#include "control.h"
#include "gateway.h"
#include "kept.h"
#include "node.h"
#include "options.h"
#include "watch.h"

/* One more than the largest errno. */
#define FS_ERRNOS 134

struct fs {
	struct fs_options opt;
	struct pf_store *store;
	struct fs_branches branches;
	struct fs_objects objects;
	struct fs_control control;
	struct fs_kept kept;
	struct fs_gateway gateway;
	struct fs_watch watch;
	struct fuse_session *session;
	uint64_t refused[FS_ERRNOS]; /* requests, by what they were answered */
	struct fs_handle *handles;   /* what is open (handle.h) */
	pthread_mutex_t handles_lock;
	struct pf_time mounted_at; /* times of directories whose branch cannot be read */
	uint64_t requests;	   /* mkdir calls answered: numbers their short-lived directories */
	int ready_fd;		   /* whoever started us waits for a byte here; -1: nobody does */
};

extern const struct fuse_lowlevel_ops fs_ops;

/* Tell whoever started us that the mount answers (main.c). */
void fs_ready(struct fs *fs);

#endif
