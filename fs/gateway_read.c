#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "gateway_node.h"
#include "tree.h"

/*
 * How long the kernel may believe that a file is there, and what it looks like. All that changes through us it knows; what others do behind us is seen that
 * much later, and is the removal of what nobody needs. That something is not there it never remembers: whether a version exists is asked by a lookup.
 */
#define DATA_SECONDS	 60.0
#define MANIFEST_SECONDS 1.0

void gate_fail(fuse_req_t req, const char *op, const char *path, int err, const struct pf_why *why)
{
	struct fs *fs = fs_of(req);
	int e = pf_error_errno(err);

	if (e < FS_ERRNOS)
		__atomic_add_fetch(&fs->refused[e], 1, __ATOMIC_RELAXED);
	/* That a file is not there, or is, is an answer; so is what the storage below says without a reason of ours. */
	if (why->text[0]) {
		struct fs_act act = { .op = op, .path = path[0] ? path : ".", .err = e, .text = why->text };
		fs_control_note(&fs->control, &act);
	}
	fuse_reply_err(req, e);
}

/* With uid=, gid= and mode= the table looks as the options say, whoever owns it below. */
void gate_stat(struct fs *fs, const struct stat *st, struct stat *out)
{
	const struct fs_options *o = &fs->opt;

	*out = *st;
	if (o->uid_text)
		out->st_uid = o->uid;
	if (o->gid_text)
		out->st_gid = o->gid;
	if (o->mode_text) {
		mode_t m = S_ISDIR(st->st_mode) ? o->mode | (o->mode & 0444) >> 2 : o->mode;
		out->st_mode = (st->st_mode & S_IFMT) | m;
	}
}

static double entry_timeout(const struct gate_name *name)
{
	if (name->cls == GATE_REF || name->cls == GATE_VERSIONS)
		return FS_TIMEOUT;
	return name->cls == GATE_MANIFEST ? MANIFEST_SECONDS : DATA_SECONDS;
}

double gate_attr_timeout(const struct gate_name *name, const struct stat *st)
{
	return S_ISDIR(st->st_mode) && name->cls != GATE_REF ? MANIFEST_SECONDS : entry_timeout(name);
}

int gate_entry(fuse_req_t req, const char *path, const struct stat *st, bool created, struct fuse_entry_param *out)
{
	struct gate_name name;

	gate_name_parse(path, &name);
	*out = (struct fuse_entry_param){ .attr_timeout = gate_attr_timeout(&name, st),
					  .entry_timeout = entry_timeout(&name) };
	gate_stat(fs_of(req), st, &out->attr);
	return gate_intern(fs_of(req), path, st, created, &out->ino);
}

/* Answer with the node at `path`, which was just made or looked for. */
void gate_reply_entry(fuse_req_t req, const char *path, bool created)
{
	struct fs *fs = fs_of(req);
	struct fuse_entry_param e;
	struct stat st;

	int r = gate_lstat(fs, path, &st);
	if (r == 0)
		r = gate_entry(req, path, &st, created, &e);
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (fuse_reply_entry(req, &e) < 0)
		gate_forget(fs, e.ino, 1);
}

/* The tree of pins, which hides whatever has its name below. */
static void reply_tree(fuse_req_t req)
{
	struct fs *fs = fs_of(req);
	struct fs_node n = fs_node_make(K_TREE, fs_branch_at(fs, 1));
	struct fs_attr a;

	fs_node_attr(fs, &n, &a, NULL);
	struct fuse_entry_param e = { .ino = n.ino, .attr_timeout = FS_TIMEOUT, .entry_timeout = FS_TIMEOUT_FIXED };
	fs_node_stat(fs, &n, &a, &e.attr);
	fuse_reply_entry(req, &e);
}

void gate_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct gate_at dir;
	char path[PATH_MAX];

	int r = gate_get(fs_of(req), parent, &dir);
	if (r == 0)
		r = gate_join(&dir, name, path);
	if (r < 0)
		fuse_reply_err(req, -r);
	else if (parent == FUSE_ROOT_ID && strcmp(name, GATE_TREE) == 0)
		reply_tree(req);
	else
		gate_reply_entry(req, path, false);
}

/* The file of a node now: what has its path, or what is open still. */
static int stat_node(struct fs *fs, const struct gate_at *at, struct stat *out)
{
	struct stat st;

	if (at->number == FUSE_ROOT_ID)
		return fstat(fs->gateway.root, out) < 0 ? -errno : 0;
	int r = gate_lstat(fs, at->path, &st);
	if (r == 0 && (st.st_dev != at->dev || st.st_ino != at->ino))
		r = -ESTALE;
	if (r == 0)
		*out = st;
	else if (gate_fstat(fs, at->number, out) == 0)
		r = 0;
	return r;
}

void gate_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct gate_at at;
	struct stat st, shown;

	int r = gate_get(fs, ino, &at);
	if (r == 0)
		r = stat_node(fs, &at, &st);
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	gate_stat(fs, &st, &shown);
	fuse_reply_attr(req, &shown, gate_attr_timeout(&at.name, &st));
}

void gate_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct fs *fs = fs_of(req);
	char target[PATH_MAX];
	struct gate_at at;

	int fd = gate_get(fs, ino, &at);
	if (fd == 0)
		fd = gate_open(fs, at.path, O_PATH);
	ssize_t n = fd < 0 ? fd : readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0 && fd >= 0)
		n = -errno;
	if (fd >= 0)
		close(fd);
	if (n < 0) {
		fuse_reply_err(req, (int)-n);
		return;
	}
	target[n] = '\0';
	fuse_reply_readlink(req, target);
}

/* --- directories --- */

void gate_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct gate_file *f = NULL;
	struct gate_at at;

	int fd = gate_get(fs, ino, &at);
	if (fd == 0)
		fd = gate_open(fs, at.path, O_RDONLY | O_DIRECTORY);
	if (fd >= 0 && !(f = gate_file_new(fs, ino, fd))) {
		close(fd);
		fd = -ENOMEM;
	}
	if (fd < 0) {
		fuse_reply_err(req, -fd);
		return;
	}
	fi->fh = (uintptr_t)f;
	if (fuse_reply_open(req, fi) < 0)
		gate_file_free(fs, f);
}

/* All names at one moment: offsets are their numbers, whatever those of the file system below are. */
static int list(struct fs *fs, struct gate_file *f, const struct gate_at *dir)
{
	bool root = dir->number == FUSE_ROOT_ID;
	int r = 0;

	fs_names_release(&f->names);
	int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (;;) {
		errno = 0;
		const struct dirent *e = readdir(d);
		if (!e) {
			r = -errno;
			break;
		}
		if (root && strcmp(e->d_name, GATE_TREE) == 0)
			continue;
		r = fs_names_add(&f->names, e->d_ino, (mode_t)e->d_type << 12, e->d_name);
		if (r < 0)
			break;
	}
	closedir(d);
	return r < 0 ? r : gate_tags_list(fs, dir, f->fd, &f->names);
}

/* Entry `i` as READDIRPLUS wants it: with what a lookup would have said, unless that cannot be had. */
static size_t add_plus(fuse_req_t req, const struct gate_at *dir, const struct fs_names *l, size_t i, char *buf,
		       size_t room)
{
	const char *name = (const char *)l->text.data + l->v[i].at;
	struct fuse_entry_param e = { .attr = { .st_ino = l->v[i].ino, .st_mode = l->v[i].type } };
	char path[PATH_MAX];
	struct stat st;

	bool dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
	if (!dots && gate_join(dir, name, path) == 0 && gate_lstat(fs_of(req), path, &st) == 0 &&
	    gate_entry(req, path, &st, false, &e) < 0)
		e.ino = 0;
	size_t n = fuse_add_direntry_plus(req, buf, room, name, &e, (off_t)i + 1);
	if (n > room && e.ino)
		gate_forget(fs_of(req), e.ino, 1);
	return n;
}

static size_t add_plain(fuse_req_t req, const struct fs_names *l, size_t i, char *buf, size_t room)
{
	struct stat st = { .st_ino = l->v[i].ino, .st_mode = l->v[i].type };

	return fuse_add_direntry(req, buf, room, (const char *)l->text.data + l->v[i].at, &st, (off_t)i + 1);
}

void gate_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct gate_file *f = (struct gate_file *)(uintptr_t)fi->fh;
	struct gate_at dir;
	size_t used = 0;

	int r = gate_get(fs_of(req), ino, &dir);
	if (r == 0 && off == 0)
		r = list(fs_of(req), f, &dir);
	_cleanup_(pf_freep) char *buf = r < 0 ? NULL : malloc(size);
	if (!buf) {
		fuse_reply_err(req, r < 0 ? -r : ENOMEM);
		return;
	}
	for (size_t i = (size_t)off; i < f->names.n; i++) {
		size_t n = plus ? add_plus(req, &dir, &f->names, i, buf + used, size - used)
				: add_plain(req, &f->names, i, buf + used, size - used);
		if (n > size - used)
			break;
		used += n;
	}
	fuse_reply_buf(req, buf, used);
}

void gate_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	gate_op_fsync(req, ino, datasync, fi);
}

/* --- files --- */

static bool is_view_of(const struct gate_view *v, const struct timespec *ctime)
{
	return v->known && v->ctime.tv_sec == ctime->tv_sec && v->ctime.tv_nsec == ctime->tv_nsec;
}

/* How the open manifest is shown: worked out once while the kernel knows it, since manifests do not change. */
static int view_of(struct fs *fs, struct gate_at *at, const struct stat *st, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	if (at->name.cls != GATE_MANIFEST || is_view_of(&at->view, &st->st_ctim))
		return 0;
	int r = pf_manifest_open(fs->store, at->path, &m, why);
	if (r == 0 && (m->st.dev != at->dev || m->st.ino != at->ino))
		return -ESTALE;
	if (r == 0)
		r = pf_mask_find(fs->store, m, &at->view.mask, why);
	if (r < 0)
		return r;
	at->view.known = true;
	at->view.ctime = st->st_ctim;
	gate_set_view(fs, at->number, &at->view);
	return 0;
}

/* Nothing is published that needs the file until it is empty; what was staged when it was opened may have been published by then. */
static int empty_file(fuse_req_t req, struct gate_at *at, int fd, struct pf_why *why)
{
	pthread_rwlock_t *files = &fs_of(req)->gateway.files;

	pthread_rwlock_rdlock(files);
	int r = gate_may_write(req, at->number, fd, at, why);
	if (r == 0 && ftruncate(fd, 0) < 0)
		r = -errno;
	pthread_rwlock_unlock(files);
	return r;
}

/* Open for reading, or for writing what may be written. A file descriptor. */
static int open_file(fuse_req_t req, struct gate_at *at, int flags, struct pf_why *why)
{
	struct fs *fs = fs_of(req);
	struct stat st;

	if (gate_is_tag(at))
		return gate_tag_open(fs, at, flags, why);
	/* Not O_APPEND: the kernel says where to write. */
	int fd = gate_open_node(fs, at, (flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY, &st);
	if (fd < 0)
		return fd;
	int r = S_ISREG(st.st_mode) ? 0 : -EPERM;
	if (r == 0 && ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)))
		r = gate_may_change(req, at, &st, why);
	if (r == 0 && (flags & O_TRUNC))
		r = empty_file(req, at, fd, why);
	if (r == 0)
		r = view_of(fs, at, &st, why);
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

/* Of these the kernel makes no shared mapping, whose bytes come when it likes: a write that is refused then had been seen by everybody. */
bool gate_is_direct(int flags)
{
	return (flags & O_ACCMODE) == O_RDWR;
}

void gate_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct gate_file *f = NULL;
	struct gate_at at;

	int fd = gate_get(fs, ino, &at);
	const struct gate_view was = at.view;
	if (fd == 0)
		fd = open_file(req, &at, fi->flags, &why);
	if (fd >= 0 && !(f = gate_file_new(fs, ino, fd))) {
		close(fd);
		fd = -ENOMEM;
	}
	if (fd < 0) {
		gate_fail(req, "open", at.path, fd, &why);
		return;
	}
	f->view = at.view;
	/* Files under these names are written once: what the kernel has of them holds. Others are replaced, or written by others. */
	fi->keep_cache = at.name.cls == GATE_OTHER ||
			 (at.name.cls == GATE_MANIFEST && is_view_of(&was, &at.view.ctime));
	fi->direct_io = gate_is_direct(fi->flags);
	fi->fh = (uintptr_t)f;
	int r = gate_pass_open(req, f, at.name.cls == GATE_OTHER && (fi->flags & O_ACCMODE) == O_RDONLY, fi);
	if (r < 0) {
		gate_file_free(fs, f);
		fuse_reply_err(req, -r);
	} else if (fuse_reply_open(req, fi) < 0) {
		gate_file_free(fs, f);
	}
}

static void read_masked(fuse_req_t req, const struct gate_file *f, size_t size, off_t off)
{
	_cleanup_(pf_freep) uint8_t *buf = malloc(size ? size : 1);
	size_t n = 0;

	while (buf && n < size) {
		ssize_t got = pread(f->fd, buf + n, size - n, off + (off_t)n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			fuse_reply_err(req, errno);
			return;
		}
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pf_mask_apply(&f->view.mask, (uint64_t)off, buf, n);
	fuse_reply_buf(req, (char *)buf, n);
}

void gate_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	const struct gate_file *f = (struct gate_file *)(uintptr_t)fi->fh;

	if (f->view.mask.n) {
		read_masked(req, f, size, off);
		return;
	}
	struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);
	buf.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	buf.buf[0].fd = f->fd;
	buf.buf[0].pos = off;
	/* Not moved: that takes pages from what the machine remembers of the file below, and whoever reads it next, a later mount too, waits for the disk. */
	fuse_reply_data(req, &buf, 0);
}

void gate_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	gate_file_free(fs_of(req), (struct gate_file *)(uintptr_t)fi->fh);
	gate_pass_close(req);
	fuse_reply_err(req, 0);
}

void gate_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	const struct gate_file *f = (struct gate_file *)(uintptr_t)fi->fh;

	fuse_reply_err(req, (datasync ? fdatasync(f->fd) : fsync(f->fd)) < 0 ? errno : 0);
}

/* Access control lists of a file, which the kernel checks as it does modes; unless options say whose it is. */
static ssize_t get_acl(struct fs *fs, fuse_ino_t ino, const char *name, char *buf, size_t size)
{
	char link[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	struct gate_at at;

	if ((strcmp(name, "system.posix_acl_access") != 0 && strcmp(name, "system.posix_acl_default") != 0) ||
	    fs->opt.uid_text || fs->opt.gid_text || fs->opt.mode_text)
		return -ENODATA;
	int fd = gate_get(fs, ino, &at);
	if (fd == 0)
		fd = gate_is_tag(&at) ? -ENODATA : gate_open(fs, at.path, O_PATH);
	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = getxattr(link, name, buf, size);
	if (n < 0)
		n = errno == EOPNOTSUPP ? -ENODATA : -errno;
	close(fd);
	return n;
}

void gate_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	_cleanup_(pf_freep) char *buf = size ? malloc(size) : NULL;

	ssize_t n = size && !buf ? -ENOMEM : get_acl(fs_of(req), ino, name, buf, size);
	if (n < 0)
		fuse_reply_err(req, (int)-n);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

void gate_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	int fd = gate_open(fs_of(req), "", O_RDONLY | O_DIRECTORY);
	struct statvfs v;

	int r = fd < 0 ? fd : fstatvfs(fd, &v) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_statfs(req, &v);
}
