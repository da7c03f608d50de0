/*
 * The tree of the mount as a table: one row a kind of file or directory (kinds.c). Lookup, getattr, readdir, open and read all work from
 * the row, so that a new virtual file is one row and one function.
 */
#ifndef FS_KINDS_H
#define FS_KINDS_H

#include "fs.h"
#include "names.h"

/* What a file holds at this moment, and the times that belong to it. */
struct fs_content {
	struct pf_buf text;
	struct pf_time mtime, ctime;
};
void fs_content_release(struct fs_content *c);
#define FS_CONTENT_INIT                                                                                                \
	{                                                                                                              \
		PF_BUF_INIT                                                                                            \
	}

#define FS_CHILDREN 8

struct fs_row {
	const char *name; /* NULL: named by what it stands for */
	mode_t mode;	  /* type and permissions, before the options uid, gid and mode */
	bool hidden;	  /* found by name, not listed */

	/* Files: the text. -ENOENT if what it stands for is gone. */
	int (*render)(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
	/*
	 * ... or, where that takes long, two instead: `make`, at an open alone, for a caller who may lose patience (-EINTR); and `look`, at any time: whether
	 * it is there, and the times.
	 */
	int (*make)(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
	int (*look)(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);

	/* Directories: the fixed children, K_ROOT for none ... */
	enum fs_kind children[FS_CHILDREN];
	/* ... and those that come and go. `find` is told a name: -ENOENT, at once, if it cannot be one. */
	int (*list)(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why);
	int (*find)(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out, struct pf_why *why);
};

extern const struct fs_row fs_rows[K_COUNT];

#endif
