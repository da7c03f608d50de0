/*
 * The branches this mount has shown, numbered from 1 in the order they were first named. A number is never used again while the mount lives: inode
 * numbers are made of it. Number 1 is the branch in the root.
 */
#ifndef FS_BRANCHES_H
#define FS_BRANCHES_H

#include "line.h"

struct fs;

struct fs_branch {
	uint64_t number;
	bool retired;	      /* it was deleted: whoever is called so from now on is another one */
	struct fs_line *line; /* the root's branch is in branches/ as well, under a second number */
};

struct fs_branches {
	pthread_mutex_t lock;
	struct fs_branch **v;
	size_t n;
};

int fs_branches_init(struct fs_branches *b);
void fs_branches_release(struct fs_branches *b);

/* The branch called `name` (NULL or "main": main), numbered now if it never was. Does not ask storage whether it exists. */
int fs_branch_intern(struct fs *fs, const char *name, struct fs_branch **out);

/* The branch of this name was deleted here: the next of its name gets a number of its own, as the kernel keeps a removed directory's for dead. */
void fs_branch_retire(struct fs *fs, const char *name);

/* By number; NULL if there is none. */
struct fs_branch *fs_branch_at(struct fs *fs, uint64_t number);

/*
 * The next branch after *number whose line has been opened, a line that two directories show once; NULL at the end. *number is 0 at the start.
 */
struct fs_branch *fs_branch_next(struct fs *fs, uint64_t *number);

/* Append a branch name as a file name, `/` as %2F, and back; other spellings are no branch's name: -ENOENT. */
int fs_branch_encode(const char *name, struct pf_buf *out);
int fs_branch_decode(const char *file, struct pf_buf *out);

#endif
