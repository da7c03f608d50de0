/*
 * noopfs [-l] FROM MOUNTPOINT: what libfuse itself costs. A file system of the shape of a mount of pinfs, MOUNTPOINT/pins/<name>, whose names
 * and contents are copied from the directory FROM at the start and answered from memory; with -l the names alone, and the files are empty. Low level,
 * several threads, direct_io, and as pinfs has them: zero timeouts, but for the name `pins`, which the kernel may remember.
 *
 * It goes to the background once it is mounted.
 */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536 /* of a file in FROM */

enum { INO_PINS = FUSE_ROOT_ID + 1, INO_FILES };

struct file {
	const char *name;
	char *text;
	size_t len;
};

/* Sorted by name; file i has inode INO_FILES + i. */
struct noop {
	struct file *v;
	size_t n;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static const struct noop *noop_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static int stat_of(const struct noop *fs, fuse_ino_t ino, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_nlink = 1;
	st->st_mode = S_IFDIR | 0755;
	if (ino < INO_FILES)
		return 0;
	if (ino - INO_FILES >= fs->n)
		return ESTALE;
	st->st_mode = S_IFREG | 0644;
	st->st_size = (off_t)fs->v[ino - INO_FILES].len;
	return 0;
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	const struct noop *fs = noop_of(req);
	struct fuse_entry_param e = { .ino = 0 };

	if (parent == FUSE_ROOT_ID && strcmp(name, "pins") == 0) {
		e.ino = INO_PINS;
	} else if (parent == INO_PINS) {
		struct file key = { .name = name };
		const struct file *f = bsearch(&key, fs->v, fs->n, sizeof(key), by_name);
		e.ino = f ? INO_FILES + (fuse_ino_t)(f - fs->v) : 0;
	}
	if (!e.ino || stat_of(fs, e.ino, &e.attr)) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	e.entry_timeout = e.ino == INO_PINS ? 3600 : 0;
	fuse_reply_entry(req, &e);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	int r = stat_of(noop_of(req), ino, &st);
	if (r)
		fuse_reply_err(req, r);
	else
		fuse_reply_attr(req, &st, 0);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	const struct noop *fs = noop_of(req);
	size_t n = ino == FUSE_ROOT_ID ? 1 : fs->n, used = 0;
	char *buf = malloc(size);

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	for (size_t i = (size_t)off; i < n; i++) {
		struct stat st = { .st_ino = INO_PINS, .st_mode = S_IFDIR };
		if (ino != FUSE_ROOT_ID)
			st = (struct stat){ .st_ino = INO_FILES + i, .st_mode = S_IFREG };
		const char *name = ino == FUSE_ROOT_ID ? "pins" : fs->v[i].name;
		size_t len = fuse_add_direntry(req, buf + used, size - used, name, &st, (off_t)i + 1);
		if (len > size - used)
			break;
		used += len;
	}
	fuse_reply_buf(req, buf, used);
	free(buf);
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fi->direct_io = 1;
	fuse_reply_open(req, fi);
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	const struct file *f = &noop_of(req)->v[ino - INO_FILES];
	size_t from = (size_t)off < f->len ? (size_t)off : f->len;
	fuse_reply_buf(req, f->text + from, size < f->len - from ? size : f->len - from);
}

static void do_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	fuse_reply_err(req,
		       ENODATA); /* not ENOSYS: after that the kernel would not ask again, and pinfs has attributes */
}

static const struct fuse_lowlevel_ops ops = {
	.lookup = do_lookup,
	.getattr = do_getattr,
	.readdir = do_readdir,
	.open = do_open,
	.read = do_read,
	.getxattr = do_getxattr,
};

static void copy_text(int dir, const char *from, struct file *f)
{
	int fd = openat(dir, f->name, O_RDONLY | O_CLOEXEC);
	f->text = malloc(FILE_MAX);
	if (!f->text)
		err(1, "%s", from);
	ssize_t n = fd < 0 ? -1 : read(fd, f->text, FILE_MAX);
	if (n < 0)
		err(1, "%s/%s", from, f->name);
	close(fd);
	f->len = (size_t)n;
	f->text = realloc(f->text, f->len + 1);
}

static void load(struct noop *fs, const char *from, bool names_only)
{
	size_t cap = 0;
	DIR *d = opendir(from);
	if (!d)
		err(1, "%s", from);
	for (const struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		if (fs->n == cap) {
			cap = cap ? cap * 2 : 64;
			fs->v = reallocarray(fs->v, cap, sizeof(*fs->v));
		}
		struct file f = { .name = strdup(e->d_name) };
		if (!fs->v || !f.name)
			err(1, "%s", from);
		if (!names_only)
			copy_text(dirfd(d), from, &f);
		fs->v[fs->n++] = f;
	}
	closedir(d);
	qsort(fs->v, fs->n, sizeof(*fs->v), by_name);
}

int main(int argc, char **argv)
{
	bool names_only = argc == 4 && strcmp(argv[1], "-l") == 0;
	if (argc != 3 && !names_only)
		errx(2, "usage: noopfs [-l] FROM MOUNTPOINT");
	const char *from = argv[argc - 2], *mountpoint = argv[argc - 1];

	static struct noop fs;
	load(&fs, from, names_only);

	char *opts[] = { argv[0], (char[]){ "-ofsname=noop" }, NULL };
	struct fuse_args args = FUSE_ARGS_INIT(2, opts);
	struct fuse_session *se = fuse_session_new(&args, &ops, sizeof(ops), &fs);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r = 1;
	if (se && config && fuse_set_signal_handlers(se) == 0 && fuse_session_mount(se, mountpoint) == 0) {
		r = fuse_daemonize(0) == 0 ? fuse_session_loop_mt(se, config) : -1;
		fuse_session_unmount(se);
	}
	if (se) {
		fuse_remove_signal_handlers(se);
		fuse_session_destroy(se);
	}
	fuse_loop_cfg_destroy(config);
	return r != 0;
}
