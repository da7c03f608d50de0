/*
 * Where a table's files are: one small vtable, so that the commit protocol and everything above it can be tested against a store
 * in memory that fails on command. Names are relative to the table's root, `/` separated, one spelling for each file
 * (`_versions/1.manifest`, `tree/feat/x/_versions/...`). `.` is the root; other `.` or empty components, absolute names and `..`
 * are -EINVAL.
 *
 * Calls are system calls in spirit: one step each, so that whoever orders them (publish.c) shows the order in one place.
 * All of them may be used from several threads at once on one store.
 */
#ifndef PF_STORE_H
#define PF_STORE_H

#include <stdbool.h>

#include "buf.h"
#include "error.h"
#include "wire.h"

struct pf_store;

/* What identifies a file and tells whether it is still the one that was read. */
struct pf_stat {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	bool is_dir;
};

/* Same file, same content as far as storage can tell: dev, ino, size and mtime (ctime changes when a staged file is unlinked). */
bool pf_stat_same(const struct pf_stat *a, const struct pf_stat *b);

/*
 * An open file to read. Its bytes are reached through `r`, whose size is the size at open: beyond it is -EBADMSG, and a file
 * that got shorter since reads as -EIO.
 */
struct pf_file {
	struct pf_reader r;
	struct pf_stat st;
	struct pf_store *store;
};

/* A file being written, not yet under its final name. */
struct pf_stage {
	struct pf_store *store;
};

/* One directory entry. Return 0 to go on; anything else stops the listing and is returned by it. */
typedef int (*pf_list_fn)(void *arg, const char *name, bool is_dir);

/* The same as it is itself: a link is a link, wherever it leads. */
enum pf_entry_kind { PF_ENTRY_FILE, PF_ENTRY_DIR, PF_ENTRY_LINK, PF_ENTRY_OTHER };
typedef int (*pf_scan_fn)(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st);

struct pf_store_ops {
	/*
	 * -ENOENT no such file; -ENOTDIR a parent is a file; -EISDIR a directory; -EBADMSG another kind of file; -EACCES, -EIO ... as
	 * storage says. Symbolic links are followed, here, in stat and for the is_dir of list, as Lance does.
	 */
	int (*open)(struct pf_store *st, const char *name, struct pf_file **out);
	void (*close)(struct pf_file *f);
	int (*stat)(struct pf_store *st, const char *name, struct pf_stat *out);
	/* Every entry but `.` and `..`, in no order. -ENOENT if the directory is missing. fn may use the store. */
	int (*list)(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg);
	/*
	 * For who deletes: follows no link, neither in `dir` nor of an entry, so that what is found is in the table. -ENOENT as list; -ENOTDIR, -ELOOP: a part
	 * of dir is no directory, or is a link. Entries that are gone before they are looked at are left out.
	 */
	int (*scan)(struct pf_store *st, const char *dir, pf_scan_fn fn, void *arg);

	/* Create `name` for writing; -EEXIST if anything has the name. */
	int (*create)(struct pf_store *st, const char *name, struct pf_stage **out);
	/* Both append all of it or fail; copy is from a file of this store or of another of its kind, in the kernel where it can. */
	int (*write)(struct pf_stage *sg, const void *p, size_t n);
	int (*copy)(struct pf_stage *sg, struct pf_file *from, uint64_t off, uint64_t len);
	/*
	 * Write to the file `name`, which is *is: with put and cut alone. Follows no link. -ESTALE: it is another file, or was changed; -ENOENT, -ENOTDIR,
	 * -ELOOP as scan. put: all of it or fail, over what stands at `off`, at most the size, and behind it. cut: to at most the size.
	 */
	int (*extend)(struct pf_store *st, const char *name, const struct pf_stat *is, struct pf_stage **out);
	int (*put)(struct pf_stage *sg, uint64_t off, const void *p, size_t n);
	int (*cut)(struct pf_stage *sg, uint64_t size);
	int (*sync)(struct pf_stage *sg);     /* contents durable */
	void (*discard)(struct pf_stage *sg); /* close the handle; the file stays under its name */

	/*
	 * Of files, not of directories. Not repeated on -EINTR: like -EIO, it does not say whether the step was taken.
	 * link: -EEXIST, somebody else has the name. rename replaces; if both names are one file, both stay (POSIX).
	 */
	int (*link)(struct pf_store *st, const char *from, const char *to);
	int (*rename)(struct pf_store *st, const char *from, const char *to);
	int (*unlink)(struct pf_store *st, const char *name);
	/* unlink that follows no link on the way to `name`; with is_dir of an empty directory: -ENOTEMPTY. */
	int (*remove)(struct pf_store *st, const char *name, bool is_dir);
	/* With its parents, the new ones durable. 0 if it is there; -ENOTDIR if a file is. */
	int (*mkdir)(struct pf_store *st, const char *dir);
	int (*sync_dir)(struct pf_store *st, const char *dir);
	/* 0 if files could be created in `dir`; -EROFS, -EACCES as storage says. Nothing is created. */
	int (*writable)(struct pf_store *st, const char *dir);
	int (*resolve)(struct pf_store *st, const char *path, char **out);
	void (*free)(struct pf_store *st);
};

struct pf_store {
	const struct pf_store_ops *ops;
	char *where; /* the root as the user spelled it, for sentences */
	char *at;    /* its absolute path, links resolved: for commands and programs that start from anywhere */
};

/*
 * The directory `path` (an absolute or relative path, or `file://` and an absolute, percent-encoded path) on a local file system.
 * It is held open: a later chdir, or a mount over the path, does not move it.
 *   -ENOENT, -ENOTDIR, -EACCES; other URI schemes are -EOPNOTSUPP; a malformed file URI is -EINVAL.
 */
int pf_store_local_open(const char *path, struct pf_store **out, struct pf_why *why);
void pf_store_free(struct pf_store *st);
void pf_store_freep(struct pf_store **st);

/* The calls of the vtable, by name; see there for results. */
int pf_store_open(struct pf_store *st, const char *name, struct pf_file **out);
void pf_file_close(struct pf_file *f);
void pf_file_closep(struct pf_file **f);
int pf_store_stat(struct pf_store *st, const char *name, struct pf_stat *out);
int pf_store_list(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg);
int pf_store_scan(struct pf_store *st, const char *dir, pf_scan_fn fn, void *arg);

/* The same at once, for whoever changes the directory on the way. Zeroed is empty. On failure *out is as far as it came, to be released all the same. */
struct pf_dir_entry {
	char *name;
	enum pf_entry_kind kind;
};
struct pf_dir_entries {
	struct pf_dir_entry *v;
	size_t n;
};
int pf_store_entries(struct pf_store *st, const char *dir, struct pf_dir_entries *out);
void pf_dir_entries_release(struct pf_dir_entries *l);
int pf_store_create(struct pf_store *st, const char *name, struct pf_stage **out);
int pf_stage_write(struct pf_stage *sg, const void *p, size_t n);
int pf_stage_copy(struct pf_stage *sg, struct pf_file *from, uint64_t off, uint64_t len);
int pf_store_extend(struct pf_store *st, const char *name, const struct pf_stat *is, struct pf_stage **out);
int pf_stage_put(struct pf_stage *sg, uint64_t off, const void *p, size_t n);
int pf_stage_cut(struct pf_stage *sg, uint64_t size);
int pf_stage_sync(struct pf_stage *sg);
void pf_stage_discard(struct pf_stage *sg);
void pf_stage_discardp(struct pf_stage **sg);
int pf_store_link(struct pf_store *st, const char *from, const char *to);
int pf_store_rename(struct pf_store *st, const char *from, const char *to);
int pf_store_unlink(struct pf_store *st, const char *name);
int pf_store_remove(struct pf_store *st, const char *name, bool is_dir);
int pf_store_mkdir(struct pf_store *st, const char *dir);
int pf_store_sync_dir(struct pf_store *st, const char *dir);
int pf_store_writable(struct pf_store *st, const char *dir);

/* A second name for the file `name` of `from`, the same in `to`; both are local. As link; -EXDEV: on another file system; -EINVAL: not local. */
int pf_store_local_link(struct pf_store *from, const char *name, struct pf_store *to);

/*
 * The path by which this process reaches `name` of a local store, malloc'ed; NULL without memory. It is below st->at, unless something is mounted there: then
 * past that.
 */
char *pf_store_local_path(struct pf_store *st, const char *name);

/*
 * Where a path or URI leads that a manifest names, whatever its spelling (`file://`, `//`, `..`, links): 1 if to this store's root or below it, and
 * *out is the name here ("." the root itself); 0 if elsewhere, and *out is where: the real path, or a URI of another scheme as it is.
 *   -EINVAL       a relative path: to what, only its writer knew
 *   -ENOENT, ...  nothing is there, or it cannot be told: nobody can say whether it once led here
 */
int pf_store_resolve(struct pf_store *st, const char *path, char **out);

/*
 * For stores whose root has an absolute path: the name below `root` that `path` spells, after `//`, `.` and a last `/` are dropped: 1 and *out. 0:
 * it does not start there, or has `..`, which only storage can follow.
 */
int pf_store_name_below(const char *root, const char *path, char **out);

/* A new file with these bytes, all of it written and, with `sync`, durable; on failure part of it may be there. */
int pf_store_write_new(struct pf_store *st, const char *name, const void *p, size_t n, bool sync);

/* Append a whole small file to out. -EFBIG if it is longer than max (nothing is read then). */
int pf_store_get(struct pf_store *st, const char *name, size_t max, struct pf_buf *out);

#endif
