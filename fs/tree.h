/* What requests do with the table of kinds: find, list, look. */
#ifndef FS_TREE_H
#define FS_TREE_H

#include "fs.h"
#include "names.h"

/* The child called `name`. -ENOENT, also where the sentence is none of anybody's business; -ENOTDIR. An object is not numbered yet. */
int fs_node_find(struct fs *fs, const struct fs_node *dir, const char *name, struct fs_node *out, struct pf_why *why);

/* All names in a directory but the hidden ones, `.` and `..` first. */
int fs_node_list(struct fs *fs, const struct fs_node *dir, struct fs_names *out, struct pf_why *why);

/*
 * Size and times now: those that a following open and read will give. Where only an open makes the text (fs_row.make), the size is 0, as in /proc, or
 * that of the open file: a program that asks fstat gets the true one. What is gone and still open looks as it did.
 */
int fs_node_attr(struct fs *fs, const struct fs_node *n, struct fs_attr *out, struct pf_why *why);

/* The stat of a node. */
void fs_node_stat(struct fs *fs, const struct fs_node *n, const struct fs_attr *a, struct stat *out);

/* Append the path from the mountpoint, of `name` in `dir`; name NULL: of the node itself. */
int fs_node_path(struct fs *fs, const struct fs_node *n, const char *name, struct pf_buf *out);

#endif
