#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway_node.h"

static void closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* The path of `name` in the directory that `parent` is, and what is there. -ENOENT if nothing is: out->path is right all the same. */
static int find(fuse_req_t req, fuse_ino_t parent, const char *name, struct gate_at *out, struct stat *st)
{
	struct gate_at dir;

	out->path[0] = '\0';
	int r = gate_get(fs_of(req), parent, &dir);
	if (r == 0)
		r = gate_join(&dir, name, out->path);
	if (r == 0)
		r = gate_lstat(fs_of(req), out->path, st);
	if (r == 0)
		gate_look(fs_of(req), st, out);
	return r;
}

void gate_refuse(fuse_req_t req, const char *op, fuse_ino_t parent, const char *name, const char *text)
{
	struct pf_why why = PF_WHY_INIT;
	struct gate_at at;
	struct stat st;

	find(req, parent, name, &at, &st);
	pf_why_set(&why, -EPERM, "%s", text);
	gate_fail(req, op, at.path, -EPERM, &why);
}

static int check_writable(struct fs *fs, struct pf_why *why)
{
	return fs->opt.ro ? pf_why_set(why, -EROFS, "mounted read-only") : 0;
}

/*
 * What is new in `dir` belongs to who asked for it, if we may say so, and has the mode that they said whatever our own mask is. Where a directory gives its group
 * to all that is in it, so it is here.
 */
static int give(fuse_req_t req, int dir, int fd, mode_t mode)
{
	const struct fuse_ctx *c = fuse_req_ctx(req);
	struct stat in, st;

	if (fstat(dir, &in) < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (geteuid() == 0 && c->uid != 0 && fchown(fd, c->uid, in.st_mode & S_ISGID ? in.st_gid : c->gid) < 0)
		return -errno;
	mode_t group = S_ISDIR(st.st_mode) ? in.st_mode & S_ISGID : 0;
	return fchmod(fd, (mode & 0777) | group) < 0 ? -errno : 0;
}

/* --- making --- */

static int create(fuse_req_t req, const char *path, mode_t mode, int flags, struct stat *st)
{
	_cleanup_(closep) int dir = -1;
	const char *name;

	dir = gate_open_parent(fs_of(req), path, &name);
	if (dir < 0)
		return dir;
	/* Not O_APPEND: the kernel says where to write. */
	int fd = openat(dir, name, (flags & O_ACCMODE) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int r = give(req, dir, fd, mode);
	if (r == 0 && fstat(fd, st) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir, name, 0);
		close(fd);
		return r;
	}
	return fd;
}

void gate_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct fuse_entry_param e;
	struct gate_file *f = NULL;
	struct gate_at at, dir;
	struct stat st;

	at.path[0] = '\0';
	int fd = gate_get(fs, parent, &dir);
	if (fd == 0)
		fd = gate_join(&dir, name, at.path);
	if (fd == 0)
		fd = check_writable(fs, &why);
	if (fd == 0)
		fd = gate_may_make(at.path, &why);
	if (fd == 0)
		fd = create(req, at.path, mode, fi->flags, &st);
	if (fd >= 0) {
		int r = gate_entry(req, at.path, &st, true, &e);
		if (r == 0 && !(f = gate_file_new(fs, e.ino, fd))) {
			gate_forget(fs, e.ino, 1);
			r = -ENOMEM;
		}
		if (r < 0) {
			close(fd);
			fd = r;
		}
	}
	if (fd < 0) {
		gate_fail(req, "create", at.path, fd, &why);
		return;
	}
	fi->direct_io = gate_is_direct(fi->flags);
	gate_pass_open(req, f, false, fi); /* it is new: nobody reads it yet */
	fi->fh = (uintptr_t)f;
	if (fuse_reply_create(req, &e, fi) < 0) {
		gate_file_free(fs, f);
		gate_forget(fs, e.ino, 1);
	}
}

void gate_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	_cleanup_(closep) int dir = -1, fd = -1;
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	const char *last;
	struct gate_at at;
	struct stat st;

	int r = find(req, parent, name, &at, &st);
	if (r == 0)
		r = -EEXIST;
	if (r == -ENOENT)
		r = check_writable(fs, &why);
	if (r == 0)
		r = gate_may_make(at.path, &why);
	/* Lance looks for versions below it, too. */
	gate_name_parse(at.path, &at.name);
	if (r == 0 && at.name.cls == GATE_VERSIONS)
		r = pf_why_set(&why, -EPERM, "versions lie side by side, and no directory among them");
	if (r == 0)
		r = dir = gate_open_parent(fs, at.path, &last);
	if (r >= 0)
		r = mkdirat(dir, last, 0700) < 0 ? -errno : 0;
	if (r == 0)
		r = fd = gate_open(fs, at.path, O_RDONLY | O_DIRECTORY);
	if (r >= 0)
		r = give(req, dir, fd, mode);
	if (r < 0)
		gate_fail(req, "mkdir", at.path, r, &why);
	else
		gate_reply_entry(req, at.path, false);
}

/* All of it, or as much as could be written, or why nothing was. */
static ssize_t write_at(int fd, const char *buf, size_t size, off_t off)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pwrite(fd, buf + done, size - done, off + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 && done == 0)
			return n < 0 ? -errno : -EIO;
		if (n <= 0)
			break; /* the rest is asked for again, and fails by itself */
		done += (size_t)n;
	}
	return (ssize_t)done;
}

void gate_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	const struct gate_file *f = (struct gate_file *)(uintptr_t)fi->fh;
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct gate_at at;

	ssize_t n = gate_may_write(req, ino, f->fd, &at, &why);
	/*
	 * What is staged may become a version (gateway_link.c), and is not written any more then. The kernel links no file that somebody writes to or cuts, but for
	 * asynchronous writes, which it does not wait for.
	 */
	bool staged = n == 0 && at.name.cls == GATE_VERSIONS;
	if (staged) {
		pthread_rwlock_rdlock(&fs->gateway.files);
		n = gate_may_write(req, ino, f->fd, &at, &why);
	}
	bool may = n == 0;
	if (may)
		n = write_at(f->fd, buf, size, off);
	if (staged)
		pthread_rwlock_unlock(&fs->gateway.files);
	if (n >= 0)
		fuse_reply_write(req, (size_t)n);
	else if (may)
		fuse_reply_err(req, (int)-n);
	else
		gate_fail(req, "write", at.path, (int)n, &why);
}

/* --- removing --- */

static int unlink_at(struct fs *fs, const char *path, int flags)
{
	_cleanup_(closep) int dir = -1;
	const char *name;

	dir = gate_open_parent(fs, path, &name);
	if (dir < 0)
		return dir;
	return unlinkat(dir, name, flags) < 0 ? -errno : 0;
}

void gate_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct gate_at at;
	struct stat st;

	int r = find(req, parent, name, &at, &st);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = -EISDIR;
	if (r == 0)
		r = check_writable(fs, &why);
	if (r == 0)
		r = gate_may_remove(req, &at, &why);
	/* That may have taken long. Again, and nothing is published until it is gone. */
	if (r == 0) {
		pthread_rwlock_rdlock(&fs->gateway.files);
		r = gate_may_remove(req, &at, &why);
		if (r == 0)
			r = unlink_at(fs, at.path, 0);
		pthread_rwlock_unlock(&fs->gateway.files);
	}
	if (r < 0)
		gate_fail(req, "unlink", at.path, r, &why);
	else
		fuse_reply_err(req, 0);
}

void gate_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pf_why why = PF_WHY_INIT;
	struct gate_at at;
	struct stat st;

	int r = find(req, parent, name, &at, &st);
	if (r == 0)
		r = check_writable(fs_of(req), &why);
	if (r == 0 && gate_tags_are_in(fs_of(req), at.path))
		r = pf_why_set(&why, -EBUSY, "with -o tags, what pins keep is shown here");
	if (r == 0)
		r = unlink_at(fs_of(req), at.path, AT_REMOVEDIR);
	if (r < 0)
		gate_fail(req, "rmdir", at.path, r, &why);
	else
		fuse_reply_err(req, 0);
}

/* --- names --- */

/* Both ends, with the directory of each. */
struct move {
	struct gate_at from, to;
	int from_dir, to_dir;
	const char *from_name, *to_name;
};

static void move_release(struct move *m)
{
	closep(&m->from_dir);
	closep(&m->to_dir);
}

static int open_ends(struct fs *fs, struct move *m)
{
	m->from_dir = gate_open_parent(fs, m->from.path, &m->from_name);
	m->to_dir = m->from_dir < 0 ? -1 : gate_open_parent(fs, m->to.path, &m->to_name);
	return m->from_dir < 0 ? m->from_dir : m->to_dir < 0 ? m->to_dir : 0;
}

static int check_rename(fuse_req_t req, struct move *m, const struct stat *from, const struct stat *to,
			struct pf_why *why)
{
	if (S_ISDIR(from->st_mode))
		return pf_why_set(why, -EPERM, "the directories of a table stay where they are");
	if (m->from.name.cls == GATE_MANIFEST)
		return pf_why_set(why, -EPERM, "the manifest of a version keeps its name");
	int r = gate_may_make(m->to.path, why);
	if (r == 0)
		r = gate_may_remove(req, &m->from, why);
	if (r == 0 && to)
		r = gate_may_replace(req, &m->to, &m->from, why);
	return r;
}

void gate_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		    unsigned flags)
{
	_cleanup_(move_release) struct move m = { .from_dir = -1, .to_dir = -1 };
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct stat from, to;

	int r = find(req, parent, name, &m.from, &from);
	int there = r == 0 ? find(req, newparent, newname, &m.to, &to) : r;
	if (r == 0 && there < 0 && there != -ENOENT)
		r = there;
	if (r == 0 && (flags & ~(unsigned)RENAME_NOREPLACE))
		r = -EINVAL;
	if (r == 0)
		r = check_writable(fs, &why);
	if (r == 0)
		r = check_rename(req, &m, &from, there == 0 ? &to : NULL, &why);
	if (r == 0)
		r = open_ends(fs, &m);
	if (r == 0) {
		pthread_rwlock_rdlock(&fs->gateway.files);
		r = check_rename(req, &m, &from, there == 0 ? &to : NULL, &why);
		if (r == 0)
			r = renameat2(m.from_dir, m.from_name, m.to_dir, m.to_name, flags) < 0 ? -errno : 0;
		pthread_rwlock_unlock(&fs->gateway.files);
	}
	if (r == 0 && m.from.number)
		r = gate_moved(fs, &m.from, m.to.path);
	if (r < 0)
		gate_fail(req, "rename", m.from.path, r, &why);
	else
		fuse_reply_err(req, 0);
}

static bool same_dir(const char *a, const char *b)
{
	const char *x = strrchr(a, '/'), *y = strrchr(b, '/');

	return x && y && x - a == y - b && strncmp(a, b, (size_t)(x - a)) == 0;
}

/* A second name gives a file away, but that is how files get their first whole name where nobody may have it before. */
static int check_link(const struct move *m, struct pf_why *why)
{
	const char *slash = strrchr(m->from.path, '/');
	enum gate_class cls = m->from.name.cls;
	bool staged = cls == GATE_VERSIONS || cls == GATE_REF || strchr(slash ? slash + 1 : m->from.path, '#');

	if (gate_is_tag(&m->from))
		return gate_tag_refuse(&m->from, why);
	if (staged && cls != GATE_MANIFEST && same_dir(m->from.path, m->to.path) && strcmp(m->to.path, GATE_TREE) != 0)
		return 0;
	return pf_why_set(why, -EPERM, "files of a table get no second names, only staged ones their final name");
}

static int link_plainly(struct fs *fs, struct move *m)
{
	int r = open_ends(fs, m);

	if (r == 0 && linkat(m->from_dir, m->from_name, m->to_dir, m->to_name, 0) < 0)
		r = -errno;
	return r;
}

void gate_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	_cleanup_(move_release) struct move m = { .from_dir = -1, .to_dir = -1 };
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	bool linked = false; /* whatever fails then is no answer to that */
	struct stat st;

	int there = find(req, parent, name, &m.to, &st);
	int r = gate_get(fs, ino, &m.from);
	if (r == 0 && there != -ENOENT)
		r = there == 0 ? -EEXIST : there;
	if (r == 0)
		r = check_writable(fs, &why);
	if (r == 0)
		r = check_link(&m, &why);
	if (r == 0) {
		gate_name_parse(m.to.path, &m.to.name);
		if (m.to.name.cls == GATE_MANIFEST)
			r = gate_publish(fs, &m.from, m.to.path, &m.to.name, &why);
		else
			r = gate_may_make(m.to.path, &why) < 0 ? -EPERM : 1;
		if (r > 0)
			r = link_plainly(fs, &m);
		linked = r == 0;
	}
	/* Of this the kernel would make a second try behind everybody's back. */
	if (r == -ESTALE)
		r = -EIO;
	struct fuse_entry_param e;
	if (r == 0)
		r = gate_lstat(fs, m.to.path, &st);
	if (r == 0)
		r = gate_entry(req, m.to.path, &st, false, &e);
	if (r < 0)
		gate_fail(req, "publish", m.to.path, linked ? -EIO : r, &why);
	else if (fuse_reply_entry(req, &e) < 0)
		gate_forget(fs, e.ino, 1);
}

/* --- attributes --- */

#define SET_TIMES (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW)
#define SET_OWNER (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)

static struct timespec time_to_set(int to_set, int given, int now, struct timespec t)
{
	if (to_set & now)
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	return to_set & given ? t : (struct timespec){ .tv_nsec = UTIME_OMIT };
}

static int apply(int fd, const struct stat *attr, int to_set)
{
	if ((to_set & FUSE_SET_ATTR_SIZE) && ftruncate(fd, attr->st_size) < 0)
		return -errno;
	if ((to_set & SET_OWNER) && fchown(fd, to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1,
					   to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1) < 0)
		return -errno;
	if ((to_set & FUSE_SET_ATTR_MODE) && fchmod(fd, attr->st_mode & 0777) < 0)
		return -errno;
	const struct timespec t[2] = {
		time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
		time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim),
	};
	return (to_set & SET_TIMES) && futimens(fd, t) < 0 ? -errno : 0;
}

static int check_setattr(fuse_req_t req, const struct gate_at *at, const struct stat *st, int to_set,
			 struct pf_why *why)
{
	int r = check_writable(fs_of(req), why);
	if (r < 0)
		return r;
	if (S_ISDIR(st->st_mode))
		return to_set & (SET_OWNER | FUSE_SET_ATTR_MODE)
			       ? pf_why_set(why, -EPERM, "what pins need is in it: owner and mode stay")
			       : 0;
	if (!S_ISREG(st->st_mode))
		return -EPERM;
	return to_set ? gate_may_change(req, at, st, why) : 0;
}

/* As a removal: the look may have taken long, and nothing that needs the file is published until it is another. */
static int change(fuse_req_t req, const struct gate_at *at, int fd, const struct stat *attr, int to_set,
		  struct pf_why *why)
{
	pthread_rwlock_t *files = &fs_of(req)->gateway.files;
	struct stat st;

	pthread_rwlock_rdlock(files);
	int r = fstat(fd, &st) < 0 ? -errno : check_setattr(req, at, &st, to_set, why);
	if (r == 0)
		r = apply(fd, attr, to_set);
	pthread_rwlock_unlock(files);
	return r;
}

void gate_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	_cleanup_(closep) int fd = -1;
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct gate_at at;
	struct stat st;

	int r = gate_get(fs, ino, &at);
	if (r == 0 && gate_is_tag(&at))
		r = gate_tag_refuse(&at, &why);
	if (r == 0)
		r = fd = gate_open_node(fs, &at, O_PATH, &st);
	if (r >= 0)
		r = check_setattr(req, &at, &st, to_set, &why);
	if (r == 0) {
		close(fd);
		r = fd = gate_open_node(fs, &at, (to_set & FUSE_SET_ATTR_SIZE ? O_WRONLY : O_RDONLY) | O_NONBLOCK, &st);
	}
	if (r >= 0)
		r = change(req, &at, fd, attr, to_set, &why);
	if (r == 0)
		r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r < 0) {
		gate_fail(req, "setattr", at.path, r, &why);
		return;
	}
	struct stat shown;
	gate_stat(fs, &st, &shown);
	fuse_reply_attr(req, &shown, gate_attr_timeout(&at.name, &st));
}
