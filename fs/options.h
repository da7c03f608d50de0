/* The command line of pinfs: `pinfs [-f] [-d] [-b BRANCH] [-o OPTIONS] DATASET MOUNTPOINT`. */
#ifndef FS_OPTIONS_H
#define FS_OPTIONS_H

#include <stdbool.h>
#include <sys/types.h>

struct fuse_args;

/* Zero is the default of everything. Strings are owned. */
struct fs_options {
	char *dataset;	  /* as given */
	char *mountpoint; /* as given */
	char *branch;	  /* what the root shows; NULL: main */
	char *uid_text, *gid_text, *mode_text;
	uid_t uid; /* owner of every file; the daemon's unless given */
	gid_t gid;
	mode_t mode; /* permission bits of files that can be written; 0644 unless given. Others lose w, directories gain x where r is */
	int foreground, debug, help, version;
	int no_guard; /* pins get no guard tags (core/guard.h) */
	int tags;     /* a gateway shows what pins keep as tags (gateway_tags.c) */
	bool ro;
	/*
	 * The kernel checks owner and mode on every step of a path, and to do so asks for attributes that it may not remember. Left out where
	 * whoever gets in could only be allowed everything: see fs_op_access.
	 */
	bool check_modes;
};

/*
 * Read the command line. What is left in `args` is for fuse_session_new.
 *   -EINVAL  wrong usage, already explained on stderr
 */
int fs_options_parse(struct fuse_args *args, struct fs_options *out);
void fs_options_release(struct fs_options *o);
void fs_options_usage(void); /* to stdout */

#endif
