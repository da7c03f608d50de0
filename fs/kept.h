/*
 * The account of what is kept (core/explain.h) on every line of the table: one for the mount, so that each manifest is read once, whoever asks first.
 *
 * It takes a walk over all versions at first, and one over what is new later. One caller at a time is at it, whoever else asks waits; nothing of this is
 * held while pins are read or commits are made. A caller who loses patience, and the end of the mount, interrupt the walk; the next one goes on from there.
 */
#ifndef FS_KEPT_H
#define FS_KEPT_H

#include "core/explain.h"
#include "core/shield.h"

struct fs;
struct fs_node;
struct fuse_req;

/* A directory as it was, all zero if it was not there: what is in it is known. */
struct fs_seen_dir {
	char *path;
	struct pf_stat st;
};

struct fs_seen {
	struct fs_seen_dir *v;
	size_t n, cap, first_line; /* those from there on are of the lines, in their order */
	bool settled;		   /* nothing is unknown, and a change after the look gives one of them another time */
};

struct fs_kept {
	pthread_mutex_t lock; /* of busy and waiting */
	pthread_cond_t turn;
	bool busy;
	unsigned waiting;
	/* Of whoever's turn it is: */
	struct pf_lines lines;
	struct pf_explain *answer; /* the last one; NULL: none that holds */
	struct pf_shield *shield;  /* the same */
	struct fs_seen seen;	   /* what they were made of */
};

int fs_kept_init(struct fs_kept *k);
void fs_kept_start(struct fs_kept *k, struct pf_store *st); /* borrowed */
void fs_kept_release(struct fs_kept *k);

/*
 * The account of the line of n as things are now, the caller's until fs_kept_end. `measured`: what is on disk is looked at again; else not where no version, tag
 * or branch came or went since it was.
 *   -EINTR   the caller does not want it any more
 *   -EAGAIN  too many wait
 *   others   of pf_lines_refresh and pf_explain_new
 */
int fs_kept_begin(struct fuse_req *req, const struct fs_node *n, bool measured, struct pf_explain **out,
		  struct pf_why *why);
void fs_kept_end(struct fs *fs);

/* May this file of the table be removed or changed, as things are now? As pf_shield_check; other errors as fs_kept_begin. */
int fs_kept_check(struct fuse_req *req, const struct fs_node *n, const char *path, bool *known, struct pf_why *why);

#endif
