/*
 * The branches this mount has shown, numbered from 1 in the order they were first named. A number is never used again while the mount lives: inode
 * numbers are made of it. Number 1 is the branch in the root.
 */
#ifndef FS_BRANCHES_H
#define FS_BRANCHES_H

#include <pthread.h>

#include "core/branch.h"
#include "core/commit.h"

struct fs;

struct fs_branch {
	uint64_t number;
	char *name; /* NULL: main */
	struct pf_store *store;
	pthread_mutex_t lock;
	struct pf_branch *core; /* opened when first needed, then kept */
	struct pf_committer *committer;
	struct fs_view *view; /* of the newest head seen */
};

struct fs_branches {
	pthread_mutex_t lock;
	struct fs_branch **v;
	size_t n;
};

/* A pin in a view. The id stands here too: a search through the pointers would miss the cache at each step. */
struct fs_view_entry {
	struct pf_uuid id;
	const struct pf_pin *pin;
};

/* One head, frozen, with what requests look for in it. Counted; memory for as long as somebody holds it. */
struct fs_view {
	unsigned refs;
	struct pf_manifest *manifest;
	struct fs_view_entry *by_id; /* the manifest's pins, sorted */
	pthread_mutex_t head_lock;   /* of head_text */
	struct pf_buf head_text;     /* empty until asked for: it takes a walk over the fragments */
	pthread_mutex_t pins_lock;   /* of pin_text; the other one can be held for long */
	struct pf_buf *pin_text;     /* of each pin, in the manifest's order; empty until asked for */
};

int fs_branches_init(struct fs_branches *b);
void fs_branches_release(struct fs_branches *b);

/* The branch called `name` (NULL or "main": main), numbered now if it never was. Does not ask storage whether it exists. */
int fs_branch_intern(struct fs *fs, const char *name, struct fs_branch **out);

/* By number; NULL if there is none. */
struct fs_branch *fs_branch_at(struct fs *fs, uint64_t number);

/* What to call it: "main" or its name. */
const char *fs_branch_name(const struct fs_branch *b);

/* Append a branch name as a file name, `/` as %2F, and back; other spellings are no branch's name: -ENOENT. */
int fs_branch_encode(const char *name, struct pf_buf *out);
int fs_branch_decode(const char *file, struct pf_buf *out);

/* The head as storage has it now (pf_branch_head). The view belongs to the caller. */
int fs_branch_view(struct fs_branch *b, struct fs_view **out, struct pf_why *why);
void fs_view_unref(struct fs_view *v);
void fs_view_unrefp(struct fs_view **v);

/* NULL if the head has no such pin. Valid as long as the view. */
const struct pf_pin *fs_view_pin(const struct fs_view *v, const struct pf_uuid *id);

/* Append the text of one of its pins, found in it. */
int fs_view_pin_text(struct fs_view *v, const struct pf_pin *p, struct pf_buf *out);

/* Append the text of the `head` file. */
int fs_view_head(struct fs_branch *b, struct fs_view *v, struct pf_buf *out, struct pf_why *why);

/* Run a pin operation to its end; as pf_commit. */
int fs_branch_commit(struct fs_branch *b, const struct pf_op *op, struct pf_answer *answer);

#endif
