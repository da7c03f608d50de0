/*
 * What is open: fi->fh of files and directories. All are kept in a list, since a mount that ends is not told of the last ones to be closed.
 */
#ifndef FS_HANDLE_H
#define FS_HANDLE_H

#include "kinds.h"
#include "names.h"

struct fs_handle {
	struct fs_handle *next, **link;
	unsigned refs; /* the kernel's until it says RELEASE, and one for each read being answered */
	struct fs_node node;
	/* of a file: the bytes it was opened with, to its end */
	struct fs_content content;
	off_t end;    /* where the last accepted write ended; 0: none yet */
	bool spoiled; /* something that is no value was written, and why it is none; NULL without memory */
	char *reason;
	/* of a directory */
	struct fs_names names;
};

/* In the list, with one reference; NULL without memory. Takes over *content, which may be NULL. */
struct fs_handle *fs_handle_new(struct fs *fs, const struct fs_node *n, struct fs_content *content);
void fs_handle_ref(struct fs_handle *h);
void fs_handle_unref(struct fs *fs, struct fs_handle *h);
void fs_handles_release(struct fs *fs); /* when nobody can ask any more */

/* What a file looked like to whoever opened it last and has it open still; false if nobody has. For fstat of what is gone since, or costs too much. */
bool fs_handle_last(struct fs *fs, uint64_t ino, struct fs_attr *out);

static inline struct fs_handle *fs_handle_of(const struct fuse_file_info *fi)
{
	return (struct fs_handle *)(uintptr_t)fi->fh;
}

#endif
