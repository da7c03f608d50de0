/*
 * Requests of the kernel. Each finds its node, calls core, and replies once on every path. ops_read.c has those that look, xattr.c
 * the attributes of pins, ops_change.c those that ask for a change; ops.c has the list and what both share.
 */
#ifndef FS_OPS_H
#define FS_OPS_H

#include "handle.h"

static inline struct fs *fs_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* Note the failure and reply it. `name` NULL: it is about n itself. err is a code of core. */
void fs_fail(fuse_req_t req, const char *op, const struct fs_node *n, const char *name, int err,
	     const struct pf_why *why);

/* The same for requests that look: that something is not there is an answer, not an event. */
void fs_fail_look(fuse_req_t req, const char *op, const struct fs_node *n, const char *name, int err,
		  const struct pf_why *why);

/*
 * How long the kernel may believe an answer, in seconds: what anything looks like, and which pins and branches there are, not at all, since others
 * change the table; that the fixed names of the tree are there, for as long as it likes. That something is not there it never remembers.
 */
#define FS_TIMEOUT	 0.0
#define FS_TIMEOUT_FIXED 86400.0

void fs_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups);
void fs_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_op_access(fuse_req_t req, fuse_ino_t ino, int mask);
void fs_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_op_readlink(fuse_req_t req, fuse_ino_t ino);
void fs_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void fs_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void fs_op_statfs(fuse_req_t req, fuse_ino_t ino);
void fs_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void fs_op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);

void fs_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void fs_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi);
void fs_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void fs_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void fs_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void fs_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void fs_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void fs_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void fs_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		  unsigned flags);

/* ops_branch.c: mkdir and rmdir of a name in branches/. */
void fs_make_branch(fuse_req_t req, const struct fs_node *dir, const char *name);
void fs_delete_branch(fuse_req_t req, const struct fs_node *dir, const char *name);

#endif
