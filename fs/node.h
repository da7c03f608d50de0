/*
 * Inode numbers: kind << 56 | object.
 *
 * What comes and goes (pins, versions, records) has as its object a hash of its branch and of what names it, so that it keeps its number when the
 * kernel forgets it, and over a remount; two that collide while both are known are told apart by probing. Everything else has the number of its
 * branch as the object (fs/branches.h), and needs no table.
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
	K_RETENTION,
	K_SUMMARY,
	K_SNAPSHOTS,
	K_SNAPSHOT,
	K_FRI,
	K_RECORD,
	K_FILES,
	K_EXPIRED,
	K_BRANCHES,
	K_BRANCH,
	K_CONTROL,
	K_TREE,	 /* all of it, in a gateway */
	K_TABLE, /* leads past the gateway */
	K_STATUS,
	K_LOG,
	K_METRICS,
	K_REQUEST, /* what a mkdir in pins/ is answered with; never found by name */
	K_COUNT,
};

/* What an inode number stands for: a value, good for the request that resolved it. */
struct fs_node {
	uint64_t ino; /* 0 of what comes and goes, and fs_object_intern has not numbered */
	enum fs_kind kind;
	struct fs_branch *branch; /* the root's where it does not matter */
	struct pf_uuid id;	  /* K_PIN */
	uint64_t number;	  /* K_SNAPSHOT: the version; K_RECORD: its place in the history */
};

/* What a file or directory looks like from outside, besides what its kind says. */
struct fs_attr {
	uint64_t size;
	struct pf_time mtime, ctime;
	bool gone; /* no longer there, still open somewhere */
};

/* What comes and goes, as far as the kernel knows it. */
struct fs_objects {
	pthread_mutex_t lock;
	struct fs_object **bucket;
	size_t n, n_buckets; /* a power of two */
};

int fs_objects_init(struct fs_objects *o);
void fs_objects_release(struct fs_objects *o);

/* Is it of a kind that comes and goes? */
bool fs_kind_is_object(enum fs_kind kind);

/* Resolve a number the kernel was given. -ENOENT if it was never given or is forgotten. */
int fs_node_get(struct fs *fs, uint64_t ino, struct fs_node *out);

/* The node of `kind` that belongs to `branch`; of a kind that stays, but K_REQUEST. */
struct fs_node fs_node_make(enum fs_kind kind, struct fs_branch *branch);

/* The number an object has, or would have, without remembering it: for listings. */
uint64_t fs_object_ino(struct fs *fs, const struct fs_node *n);

/* Number an object and count one lookup, to be given back by fs_object_forget: at FORGET, or when the reply failed. */
int fs_object_intern(struct fs *fs, struct fs_node *n);
void fs_object_forget(struct fs *fs, uint64_t ino, uint64_t lookups);

#endif
