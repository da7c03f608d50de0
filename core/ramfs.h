/*
 * Directories, files and links in memory, as a local file system would answer: what store_mem keeps, without its locks and faults.
 * Names are those of store.h and valid. Nothing here locks.
 */
#ifndef PF_RAMFS_H
#define PF_RAMFS_H

#include "store.h"

/* A file keeps its bytes while it has a name or somebody holds it. */
struct pf_inode {
	unsigned refs;
	struct pf_buf data;
	struct pf_stat st; /* but the size, which is data.len: see pf_inode_stat */
};

struct pf_inode *pf_inode_ref(struct pf_inode *ino);
void pf_inode_unref(struct pf_inode *ino);
void pf_inode_unrefp(struct pf_inode **ino);
void pf_inode_stat(const struct pf_inode *ino, struct pf_stat *out);

struct pf_ramfs_entry {
	uint64_t hash;
	char *name;
	struct pf_inode *inode; /* counted */
};

struct pf_ramfs {
	struct pf_inode *root;
	/* All but the root, under their full names, ordered by hash: as in ext4, an order that nobody should rely on. */
	struct pf_ramfs_entry *entries;
	size_t n, cap;
	uint64_t last_ino;
	int64_t clock_ns; /* a tick for every change */
};

#define PF_RAMFS_TICK_NS 1000000000 /* so that no two changes are too close to tell their order (publish.c) */

int pf_ramfs_init(struct pf_ramfs *fs); /* 0 or -ENOMEM */
void pf_ramfs_release(struct pf_ramfs *fs);

/* *out is borrowed, good until the next change. file: -EISDIR for a directory; dir: -ENOTDIR for a file. */
int pf_ramfs_lookup(const struct pf_ramfs *fs, const char *name, struct pf_inode **out);
int pf_ramfs_file(const struct pf_ramfs *fs, const char *name, struct pf_inode **out);
int pf_ramfs_dir(const struct pf_ramfs *fs, const char *name);

/* Append the entries of dir to out: name, NUL, and a byte that is 1 for a directory. */
int pf_ramfs_list(const struct pf_ramfs *fs, const char *dir, struct pf_buf *out);

/* A new, empty file; *out is a reference of the caller's. */
int pf_ramfs_create(struct pf_ramfs *fs, const char *name, struct pf_inode **out);
int pf_ramfs_append(struct pf_ramfs *fs, struct pf_inode *ino, const void *p, size_t n);
/* Over what stands from `off` on, and behind it; off is at most the size. cut: to at most the size. */
int pf_ramfs_write(struct pf_ramfs *fs, struct pf_inode *ino, uint64_t off, const void *p, size_t n);
void pf_ramfs_cut(struct pf_ramfs *fs, struct pf_inode *ino, uint64_t size);
/* A new file with these bytes, replacing another; parents are made. */
int pf_ramfs_put(struct pf_ramfs *fs, const char *name, const void *p, size_t n);
int pf_ramfs_mkdir(struct pf_ramfs *fs, const char *dir);
int pf_ramfs_link(struct pf_ramfs *fs, const char *from, const char *to);
int pf_ramfs_rename(struct pf_ramfs *fs, const char *from, const char *to);
int pf_ramfs_unlink(struct pf_ramfs *fs, const char *name);
int pf_ramfs_rmdir(struct pf_ramfs *fs, const char *dir); /* -ENOTEMPTY */

#endif
