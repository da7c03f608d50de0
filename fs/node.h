/*
 * Inode numbers: kind << 56 | object.
 *
 * The object of a pin is a hash of its branch and id, so that it keeps its number when the kernel forgets it, and over a remount; two that collide
 * while both are known are told apart by probing. Everything else has the number of its branch as the object (fs/branches.h), and needs no table.
 */
#ifndef FS_NODE_H
#define FS_NODE_H

#include <pthread.h>
#include <sys/stat.h>

#include "core/text.h"

struct fs;
struct fs_branch;

enum fs_kind {
	K_ROOT, /* 0 with branch number 1 is FUSE_ROOT_ID */
	K_HEAD,
	K_PINS,
	K_PIN,
	K_BRANCHES,
	K_BRANCH,
	K_CONTROL,
	K_STATUS,
	K_LOG,
	K_METRICS,
	K_REQUEST, /* what a mkdir in pins/ is answered with; never found by name */
	K_COUNT,
};

/* What an inode number stands for: a value, good for the request that resolved it. */
struct fs_node {
	uint64_t ino; /* 0 in a pin that fs_pin_intern has not numbered */
	enum fs_kind kind;
	struct fs_branch *branch; /* the root's where it does not matter */
	struct pf_uuid id;	  /* K_PIN */
};

/* What a file or directory looks like from outside, besides what its kind says. */
struct fs_attr {
	uint64_t size;
	struct pf_time mtime, ctime;
	bool gone; /* released, still open somewhere */
};

struct fs_pins {
	pthread_mutex_t lock;
	struct fs_pin **bucket;
	size_t n, n_buckets; /* a power of two */
};

int fs_pins_init(struct fs_pins *p);
void fs_pins_release(struct fs_pins *p);

/* Resolve a number the kernel was given. -ENOENT if it was never given or is forgotten. */
int fs_node_get(struct fs *fs, uint64_t ino, struct fs_node *out);

/* The node of `kind` that belongs to `branch`; any kind but K_PIN and K_REQUEST. */
struct fs_node fs_node_make(enum fs_kind kind, struct fs_branch *branch);

/* The number a pin has, or would have, without remembering it: for listings. */
uint64_t fs_pin_ino(struct fs *fs, struct fs_branch *branch, const struct pf_uuid *id);

/* Number a pin and count one lookup, to be given back by fs_pin_forget: at FORGET, or when the reply failed. */
int fs_pin_intern(struct fs *fs, struct fs_node *n);
void fs_pin_forget(struct fs *fs, uint64_t ino, uint64_t lookups);

/* While a pin is open it keeps what it looked like, for fstat after somebody released it. */
void fs_pin_opened(struct fs *fs, uint64_t ino, const struct fs_attr *a);
void fs_pin_closed(struct fs *fs, uint64_t ino);
bool fs_pin_last(struct fs *fs, uint64_t ino, struct fs_attr *out); /* false if it is not open */

#endif
