/* What the gateway's inode numbers stand for: files and directories of the table, by their path and what was found there. */
#ifndef FS_GATEWAY_NODE_H
#define FS_GATEWAY_NODE_H

#include <limits.h>

#include "core/mask.h"
#include "ops.h"

/* What a name is in a table. A directory is of the class that a file of its name would be. */
enum gate_class {
	GATE_ROOT,
	GATE_MANIFEST, /* of an attached version */
	GATE_VERSIONS, /* anything else in a _versions/: staged and detached manifests, the hint */
	GATE_REF,      /* _refs/ and all below it */
	GATE_OTHER,    /* data, deletions, indices, transactions ... */
};

/* The class of a path below the table's root; of a manifest also its version, and how long the name of its branch's directory is ("" or "tree/x/"). */
struct gate_name {
	enum gate_class cls;
	uint64_t version;
	bool v2;
	size_t dir_len; /* of GATE_MANIFEST and GATE_VERSIONS */
};
void gate_name_parse(const char *path, struct gate_name *out);

/* How a manifest is shown, once it was looked at: the file that had this change time, as another may have its name and its inode by now. */
struct gate_view {
	bool known;
	struct timespec ctime;
	struct pf_mask mask;
};

/* Does the kernel keep pages of an open file? Of one node it wants all opens alike. */
enum gate_io { GATE_IO_OPENING, GATE_IO_CACHED, GATE_IO_UNCACHED };

/* An open file or directory: fi->fh. */
struct gate_file {
	struct gate_file *next, **link, **all; /* of its node, which is there as long as one is open */
	int fd;
	enum gate_io io;
	struct gate_pass *pass; /* NULL: its bytes come from us */
	struct gate_view view;
	struct fs_names names; /* of a directory */
};

/* A node, as it was when it was asked for: a value. */
struct gate_at {
	uint64_t number;
	char path[PATH_MAX]; /* below the root, "" of the root itself */
	struct gate_name name;
	uint64_t dev, ino;     /* dev 0: gate_is_tag */
	struct timespec ctime; /* of one that gate_look found */
	bool created;	       /* by this mount, as a file of its class */
	struct gate_view view;
};

int gate_nodes_init(struct gate_nodes *l);
void gate_nodes_release(struct gate_nodes *l);

/* Is it one of the gateway's, and not of the tree of pins? */
bool gate_owns(fuse_ino_t ino);

/* -ESTALE: forgotten, or never given out. */
int gate_get(struct fs *fs, fuse_ino_t ino, struct gate_at *out);

/* The path of `name` in `dir`. -ENAMETOOLONG, -EINVAL. */
int gate_join(const struct gate_at *dir, const char *name, char out[PATH_MAX]);

/* Number the file `st` at `path`, and count one lookup, to be given back by gate_forget. 0 or -ENOMEM. */
int gate_intern(struct fs *fs, const char *path, const struct stat *st, bool created, uint64_t *number);
/* The node of the file `st` at out->path: number 0 if the kernel does not know it. */
void gate_look(struct fs *fs, const struct stat *st, struct gate_at *out);
void gate_forget(struct fs *fs, fuse_ino_t ino, uint64_t lookups);

/* The file at `from`, dev and ino are of it, is at `to` now. 0 or -ENOMEM. */
int gate_moved(struct fs *fs, const struct gate_at *from, const char *to);

/* Remember how a manifest is shown. */
void gate_set_view(struct fs *fs, fuse_ino_t ino, const struct gate_view *view);

/* Files that are open; fstat of one, whatever its name leads to now: 0, or -ENOENT if none is. */
struct gate_file *gate_file_new(struct fs *fs, fuse_ino_t ino, int fd);
void gate_file_free(struct fs *fs, struct gate_file *f);
int gate_fstat(struct fs *fs, fuse_ino_t ino, struct stat *out);

/*
 * gateway_pass.c: the kernel reads files itself, past the daemon, where it can (passthrough: libfuse 3.17, Linux 6.9, root); what is seen is the same. Where
 * libfuse cannot, these do nothing.
 */
void gate_pass_init(struct fs *fs, struct fuse_conn_info *conn);
/*
 * Of f, which is about to be opened as *fi says: who reads it? may_pass: it is not written to, and nothing of it is to be changed on the way. 0, or -ETXTBSY: the
 * kernel reads it itself for others, and cannot let it be written to with a mapping meanwhile.
 */
int gate_pass_open(fuse_req_t req, struct gate_file *f, bool may_pass, struct fuse_file_info *fi);
/* f is closed; called locked. */
void gate_pass_leave(struct gate_nodes *l, struct gate_file *f);
/* Tell the kernel what nobody has open. */
void gate_pass_close(fuse_req_t req);
void gate_pass_release(struct gate_nodes *l);

/* openat2 from the root: no link is followed, nothing leads out. A file descriptor or -errno. */
int gate_open(struct fs *fs, const char *path, int flags);
/* The same of a node. -ESTALE: another file has its name, and the kernel looks again. */
int gate_open_node(struct fs *fs, const struct gate_at *at, int flags, struct stat *st);
/* The directory that `path` is in, and the name there. */
int gate_open_parent(struct fs *fs, const char *path, const char **name);
/* As clients see it: gate_tag_stat answers for what is not there. */
int gate_lstat(struct fs *fs, const char *path, struct stat *out);

/*
 * gateway_tags.c, with -o tags: for each version that a pin keeps there is a tag, _refs/tags/pinfs-VERSION.json, of another branch than main
 * pinfs-BRANCH-VERSION.json. They are shown and nowhere stored; a stored tag of that name hides one. Nothing is done to them: -EBUSY.
 */
int gate_tags_init(struct fs *fs, struct pf_why *why);
/* Its st_dev is 0, and its st_ino no other file's. -ENOENT: no such tag, or without -o tags. */
int gate_tag_stat(struct fs *fs, const char *path, struct stat *out);
bool gate_is_tag(const struct gate_at *at);
/* Add their names to those in `dir`, if it is the directory of tags; fd is of it. */
int gate_tags_list(struct fs *fs, const struct gate_at *dir, int fd, struct fs_names *out);
/* A file descriptor of the text. -EBUSY for writing. */
int gate_tag_open(struct fs *fs, const struct gate_at *at, int flags, struct pf_why *why);
int gate_tag_refuse(const struct gate_at *at, struct pf_why *why);
/* Is it the directory, which is not empty then? */
bool gate_tags_are_in(const struct fs *fs, const char *path);

/*
 * gateway_rule.c: may it be removed, or replaced, or changed? 0, or what to refuse with, and why. gate_may_write: is what is open still to be written? *at: its
 * node.
 */
int gate_may_remove(fuse_req_t req, const struct gate_at *at, struct pf_why *why);
int gate_may_replace(fuse_req_t req, const struct gate_at *at, const struct gate_at *by, struct pf_why *why);
int gate_may_change(fuse_req_t req, const struct gate_at *at, const struct stat *st, struct pf_why *why);
int gate_may_write(fuse_req_t req, fuse_ino_t ino, int fd, struct gate_at *at, struct pf_why *why);
int gate_may_make(const char *path, struct pf_why *why);
/* Is there an attached version in the branch directory `dir`, "" or "tree/x/"? 1, 0 or storage's error. */
int gate_has_versions(struct fs *fs, const char *dir);

/* gateway_link.c: publish the staged file as the manifest `path`. 0, or 1: it is to be linked as it is. */
int gate_publish(struct fs *fs, const struct gate_at *staged, const char *path, const struct gate_name *name,
		 struct pf_why *why);
/* The line whose directory is the first dir_len bytes of path. */
int gate_line(struct fs *fs, const char *path, size_t dir_len, struct fs_line **out);

/* gateway_read.c and gateway_change.c: requests on nodes of the gateway. */
void gate_fail(fuse_req_t req, const char *op, const char *path, int err, const struct pf_why *why);
int gate_entry(fuse_req_t req, const char *path, const struct stat *st, bool created, struct fuse_entry_param *out);
void gate_reply_entry(fuse_req_t req, const char *path, bool created);
void gate_stat(struct fs *fs, const struct stat *st, struct stat *out);
bool gate_is_direct(int flags);
double gate_attr_timeout(const struct gate_name *name, const struct stat *st);

void gate_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void gate_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void gate_op_readlink(fuse_req_t req, fuse_ino_t ino);
void gate_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void gate_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi, bool plus);
void gate_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void gate_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void gate_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void gate_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void gate_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void gate_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void gate_op_statfs(fuse_req_t req, fuse_ino_t ino);

void gate_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void gate_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi);
void gate_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void gate_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void gate_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void gate_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void gate_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		    unsigned flags);
void gate_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void gate_refuse(fuse_req_t req, const char *op, fuse_ino_t parent, const char *name, const char *text);

/* The name of the tree of pins in the root, and what is in it and leads past the gateway. */
#define GATE_TREE ".pinfs"

#endif
