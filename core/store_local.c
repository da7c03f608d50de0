#include "store_local_parts.h"
#include "text.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define COPY_CHUNK (1024 * 1024)

/* A longer copy is made in steps of so many bytes, after each of which the disk is told to begin. */
#define COPY_STEP ((size_t)16 * 1024 * 1024)

struct local {
	struct pf_store base;
	int root; /* O_PATH: names the directory itself, whatever happens to the path that led to it */
};

/* The bases stay first: a reader is its file, a file its local_file. */
struct local_file {
	struct pf_file base;
	int fd;
};

struct local_stage {
	struct pf_stage base;
	int fd;
};

static int root_of(struct pf_store *st)
{
	return ((struct local *)st)->root;
}

static void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* What is outside of 64 bits, the years 1678 to 2262, is clamped: a file from the far future must not look like an old one. */
static int64_t ns(struct timespec t)
{
	__int128 ns = (__int128)t.tv_sec * 1000000000 + t.tv_nsec;

	return ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;
}

static void fill_stat(const struct stat *sb, struct pf_stat *out)
{
	*out = (struct pf_stat){
		.dev = sb->st_dev,
		.ino = sb->st_ino,
		.size = (uint64_t)sb->st_size,
		.mtime_ns = ns(sb->st_mtim),
		.ctime_ns = ns(sb->st_ctim),
		.is_dir = S_ISDIR(sb->st_mode),
	};
}

static int read_at(int fd, uint64_t off, void *buf, size_t n)
{
	for (uint8_t *p = buf; n > 0;) {
		ssize_t got = TEMP_FAILURE_RETRY(pread(fd, p, n, (off_t)off));
		if (got < 0)
			return -errno;
		if (got == 0)
			return -EIO; /* shorter than it was */
		p += got;
		n -= (size_t)got;
		off += (uint64_t)got;
	}
	return 0;
}

static int write_all(int fd, const void *buf, size_t n)
{
	for (const uint8_t *p = buf; n > 0;) {
		ssize_t put = TEMP_FAILURE_RETRY(write(fd, p, n));
		if (put < 0)
			return -errno;
		if (put == 0)
			return -EIO;
		p += put;
		n -= (size_t)put;
	}
	return 0;
}

static int local_read(struct pf_reader *r, uint64_t off, void *buf, size_t n)
{
	if (off > r->size || n > r->size - off)
		return -EBADMSG;
	return read_at(((struct local_file *)r)->fd, off, buf, n);
}

static int local_open(struct pf_store *st, const char *name, struct pf_file **out)
{
	/* Whatever has the name: a FIFO must not make us wait, nor a terminal become ours. */
	_cleanup_(pf_closep) int fd = pf_open_at(root_of(st), name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (fd == -ENXIO)
		return -EBADMSG; /* a socket, or a device without a driver */
	if (fd < 0)
		return fd;

	struct stat sb;
	if (TEMP_FAILURE_RETRY(fstat(fd, &sb)) < 0)
		return -errno;
	if (S_ISDIR(sb.st_mode))
		return -EISDIR;
	if (!S_ISREG(sb.st_mode))
		return -EBADMSG;

	struct local_file *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	fill_stat(&sb, &f->base.st);
	f->base.r = (struct pf_reader){ .read = local_read, .size = f->base.st.size };
	f->base.store = st;
	f->fd = fd;
	fd = -1;
	*out = &f->base;
	return 0;
}

static void local_close(struct pf_file *f)
{
	close(((struct local_file *)f)->fd);
	free(f);
}

static int local_stat(struct pf_store *st, const char *name, struct pf_stat *out)
{
	struct statx x;
	/* What storage has at this moment: a network file system would else answer from attributes it read up to a minute ago. */
	if (TEMP_FAILURE_RETRY(statx(root_of(st), name, AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &x)) < 0)
		return -errno;
	struct stat sb = {
		.st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
		.st_ino = x.stx_ino,
		.st_mode = x.stx_mode,
		.st_size = (off_t)x.stx_size,
		.st_mtim = { x.stx_mtime.tv_sec, x.stx_mtime.tv_nsec },
		.st_ctim = { x.stx_ctime.tv_sec, x.stx_ctime.tv_nsec },
	};
	fill_stat(&sb, out);
	return 0;
}

/* 1 a directory, 0 not. A link counts as what it leads to, as in Lance; one that leads nowhere is not a directory. */
static int entry_is_dir(int dir, const struct dirent *e)
{
	if (e->d_type != DT_UNKNOWN && e->d_type != DT_LNK)
		return e->d_type == DT_DIR;

	struct stat sb;
	if (TEMP_FAILURE_RETRY(fstatat(dir, e->d_name, &sb, 0)) == 0)
		return S_ISDIR(sb.st_mode);
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -errno;
}

/* The next entry: 1, 0 at the end. After a failure the C library asks again for the entries that it did not get. */
static int next_entry(DIR *d, const struct dirent **out)
{
	do {
		errno = 0; /* the only way to tell the end from a failure */
		*out = readdir(d);
	} while (!*out && errno == EINTR);
	return *out ? 1 : -errno;
}

static int local_list(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg)
{
	_cleanup_(closedirp) DIR *d = NULL;
	int fd = pf_open_at(root_of(st), dir, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	do
		d = fdopendir(fd);
	while (!d && errno == EINTR);
	if (!d) {
		int r = -errno;
		close(fd);
		return r;
	}

	for (;;) {
		const struct dirent *e;
		int r = next_entry(d, &e);
		if (r <= 0)
			return r;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		int is_dir = entry_is_dir(fd, e);
		if (is_dir < 0)
			return is_dir;
		r = fn(arg, e->d_name, is_dir);
		if (r != 0)
			return r;
	}
}

/* The first len bytes of dir, opened part by part, so that none of them is a link. */
static int open_dir(struct pf_store *st, const char *dir, size_t len, int flags)
{
	int fd = pf_open_at(root_of(st), ".", O_RDONLY | O_DIRECTORY);

	for (size_t at = 0; fd >= 0 && at < len;) {
		char part[NAME_MAX + 1];
		size_t n = strcspn(dir + at, "/");
		if (n > NAME_MAX) {
			close(fd);
			return -ENAMETOOLONG;
		}
		memcpy(part, dir + at, n);
		part[n] = '\0';
		at += n + 1;
		int below = pf_open_at(fd, part, O_DIRECTORY | O_NOFOLLOW | (at < len ? O_PATH : flags));
		close(fd);
		fd = below;
	}
	return fd;
}

static enum pf_entry_kind kind_of(mode_t mode)
{
	if (S_ISREG(mode))
		return PF_ENTRY_FILE;
	if (S_ISDIR(mode))
		return PF_ENTRY_DIR;
	return S_ISLNK(mode) ? PF_ENTRY_LINK : PF_ENTRY_OTHER;
}

static int local_scan(struct pf_store *st, const char *dir, pf_scan_fn fn, void *arg)
{
	int fd = open_dir(st, dir, strlen(dir), O_RDONLY);
	if (fd < 0)
		return fd;
	_cleanup_(closedirp) DIR *d = fdopendir(fd);
	if (!d) {
		int r = -errno;
		close(fd);
		return r;
	}
	for (;;) {
		struct pf_stat found;
		struct stat sb;
		errno = 0; /* as in local_list */
		const struct dirent *e = readdir(d);
		if (!e)
			return -errno;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (TEMP_FAILURE_RETRY(fstatat(fd, e->d_name, &sb, AT_SYMLINK_NOFOLLOW)) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		fill_stat(&sb, &found);
		int r = fn(arg, e->d_name, kind_of(sb.st_mode), &found);
		if (r != 0)
			return r;
	}
}

/*
 * create, link, rename, unlink and remove are not repeated after EINTR: on a network file system the first try may have worked, and
 * the second would then report the opposite. Only the caller can find out.
 */
static int local_create(struct pf_store *st, const char *name, struct pf_stage **out)
{
	struct local_stage *sg = calloc(1, sizeof(*sg));
	if (!sg)
		return -ENOMEM;
	sg->base.store = st;
	/* Not O_APPEND, which copy_file_range refuses: the position is at the end anyhow, nobody else moves it. */
	sg->fd = openat(root_of(st), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (sg->fd < 0) {
		int r = -errno;
		free(sg);
		return r;
	}
	*out = &sg->base;
	return 0;
}

static int stage_fd(const struct pf_stage *sg)
{
	return ((const struct local_stage *)sg)->fd;
}

static int local_write(struct pf_stage *sg, const void *p, size_t n)
{
	return write_all(stage_fd(sg), p, n);
}

static int copy_plainly(int to, struct pf_reader *from, uint64_t off, uint64_t len)
{
	_cleanup_(pf_freep) uint8_t *chunk = malloc(COPY_CHUNK);
	if (!chunk)
		return -ENOMEM;
	while (len > 0) {
		size_t n = len < COPY_CHUNK ? (size_t)len : COPY_CHUNK;
		int r = from->read(from, off, chunk, n);
		if (r == 0)
			r = write_all(to, chunk, n);
		if (r < 0)
			return r;
		off += n;
		len -= n;
	}
	return 0;
}

static int local_copy(struct pf_stage *sg, struct pf_file *from, uint64_t off, uint64_t len)
{
	if (off > from->r.size || len > from->r.size - off)
		return -EBADMSG;

	int in = ((struct local_file *)from)->fd;
	while (len > 0) {
		loff_t pos = (loff_t)off;
		size_t n = len < COPY_STEP ? (size_t)len : COPY_STEP;
		ssize_t got = TEMP_FAILURE_RETRY(copy_file_range(in, &pos, stage_fd(sg), NULL, n, 0));
		/*
		 * Kernels and file systems refuse in many ways (EXDEV, EINVAL, EOPNOTSUPP, ENOSYS, EPERM under seccomp), and some
		 * say 0 where they mean that they cannot. Whatever it was: if it is real, the plain copy meets it too.
		 */
		if (got <= 0)
			return copy_plainly(stage_fd(sg), &from->r, off, len);
		off += (uint64_t)got;
		len -= (uint64_t)got;
		/* All of it will be synced: copying and writing side by side saves a quarter of a 200 MB commit. Only a hint. */
		if (len > 0)
			sync_file_range(stage_fd(sg), 0, 0, SYNC_FILE_RANGE_WRITE);
	}
	return 0;
}

static int local_extend(struct pf_store *st, const char *name, const struct pf_stat *is, struct pf_stage **out)
{
	const char *slash = strrchr(name, '/');
	_cleanup_(pf_closep) int dir = open_dir(st, name, slash ? (size_t)(slash - name) : 0, O_PATH);
	if (dir < 0)
		return dir;
	_cleanup_(pf_closep) int fd =
		pf_open_at(dir, slash ? slash + 1 : name, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return fd;

	struct pf_stat found;
	struct stat sb;
	if (TEMP_FAILURE_RETRY(fstat(fd, &sb)) < 0)
		return -errno;
	fill_stat(&sb, &found);
	if (!S_ISREG(sb.st_mode) || !pf_stat_same(&found, is))
		return -ESTALE;
	struct local_stage *sg = calloc(1, sizeof(*sg));
	if (!sg)
		return -ENOMEM;
	*sg = (struct local_stage){ .base = { st }, .fd = fd };
	fd = -1;
	*out = &sg->base;
	return 0;
}

static int local_put(struct pf_stage *sg, uint64_t off, const void *p, size_t n)
{
	for (const uint8_t *at = p; n > 0;) {
		ssize_t put = TEMP_FAILURE_RETRY(pwrite(stage_fd(sg), at, n, (off_t)off));
		if (put < 0)
			return -errno;
		if (put == 0)
			return -EIO;
		at += put;
		n -= (size_t)put;
		off += (uint64_t)put;
	}
	return 0;
}

static int local_cut(struct pf_stage *sg, uint64_t size)
{
	return TEMP_FAILURE_RETRY(ftruncate(stage_fd(sg), (off_t)size)) < 0 ? -errno : 0;
}

static int local_sync(struct pf_stage *sg)
{
	/* Enough for a file that is new or got longer: fdatasync leaves out times only, the size is metadata needed to read the bytes back. */
	return TEMP_FAILURE_RETRY(fdatasync(stage_fd(sg))) < 0 ? -errno : 0;
}

static void local_discard(struct pf_stage *sg)
{
	close(stage_fd(sg));
	free(sg);
}

static int local_link(struct pf_store *st, const char *from, const char *to)
{
	return linkat(root_of(st), from, root_of(st), to, 0) < 0 ? -errno : 0;
}

static int local_rename(struct pf_store *st, const char *from, const char *to)
{
	return renameat(root_of(st), from, root_of(st), to) < 0 ? -errno : 0;
}

static int local_unlink(struct pf_store *st, const char *name)
{
	return unlinkat(root_of(st), name, 0) < 0 ? -errno : 0;
}

static int local_remove(struct pf_store *st, const char *name, bool is_dir)
{
	const char *slash = strrchr(name, '/');
	_cleanup_(pf_closep) int fd = open_dir(st, name, slash ? (size_t)(slash - name) : 0, O_PATH);
	if (fd < 0)
		return fd;
	return unlinkat(fd, slash ? slash + 1 : name, is_dir ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;
}

static int local_sync_dir(struct pf_store *st, const char *dir)
{
	_cleanup_(pf_closep) int fd = pf_open_at(root_of(st), dir, O_RDONLY | O_DIRECTORY);
	if (fd < 0)
		return fd;
	/* EINVAL: a file system that has no such thing as syncing a directory (some network ones). There is no more to do. */
	if (TEMP_FAILURE_RETRY(fsync(fd)) < 0 && errno != EINVAL)
		return -errno;
	return 0;
}

/* Make one directory whose parent is there. */
static int make_dir(struct pf_store *st, const char *dir)
{
	if (TEMP_FAILURE_RETRY(mkdirat(root_of(st), dir, 0777)) == 0) {
		/* Only we know that the name is new in its parent, so it is us who make it durable. */
		const char *slash = strrchr(dir, '/');
		_cleanup_(pf_freep) char *parent = slash ? strndup(dir, (size_t)(slash - dir)) : strdup(".");
		return parent ? local_sync_dir(st, parent) : -ENOMEM;
	}
	if (errno != EEXIST)
		return -errno;

	struct pf_stat sb;
	int r = local_stat(st, dir, &sb);
	if (r < 0)
		return r;
	return sb.is_dir ? 0 : -ENOTDIR;
}

static int local_mkdir(struct pf_store *st, const char *dir)
{
	_cleanup_(pf_freep) char *path = strdup(dir);
	if (!path)
		return -ENOMEM;
	for (char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		int r = make_dir(st, path);
		if (r < 0)
			return r;
		*p = '/';
	}
	return make_dir(st, path);
}

static int local_writable(struct pf_store *st, const char *dir)
{
	_cleanup_(pf_closep) int fd = pf_open_at(root_of(st), dir, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return fd;
	/* As the effective user, who will do the writing. A read-only file system says EROFS here. */
	return TEMP_FAILURE_RETRY(faccessat(fd, ".", W_OK | X_OK, AT_EACCESS)) < 0 ? -errno : 0;
}

static void local_free(struct pf_store *st)
{
	close(root_of(st));
	free(st);
}

static int local_resolve(struct pf_store *st, const char *path, char **out)
{
	return pf_local_resolve(root_of(st), st->at, path, out);
}

static const struct pf_store_ops local_ops = {
	.open = local_open,
	.close = local_close,
	.stat = local_stat,
	.list = local_list,
	.scan = local_scan,
	.create = local_create,
	.write = local_write,
	.copy = local_copy,
	.extend = local_extend,
	.put = local_put,
	.cut = local_cut,
	.sync = local_sync,
	.discard = local_discard,
	.link = local_link,
	.rename = local_rename,
	.unlink = local_unlink,
	.remove = local_remove,
	.mkdir = local_mkdir,
	.sync_dir = local_sync_dir,
	.writable = local_writable,
	.resolve = local_resolve,
	.free = local_free,
};

int pf_store_local_link(struct pf_store *from, const char *name, struct pf_store *to)
{
	if (from->ops != &local_ops || to->ops != &local_ops)
		return -EINVAL;
	return linkat(root_of(from), name, root_of(to), name, 0) < 0 ? -errno : 0;
}

char *pf_store_local_path(struct pf_store *st, const char *name)
{
	struct stat seen, own;
	char *path;

	bool covered = stat(st->at, &seen) == 0 && fstat(root_of(st), &own) == 0 &&
		       (seen.st_dev != own.st_dev || seen.st_ino != own.st_ino);
	int n = covered ? asprintf(&path, "/proc/self/fd/%d/%s", root_of(st), name)
			: asprintf(&path, "%s/%s", st->at, name);
	return n < 0 ? NULL : path;
}

int pf_store_local_open(const char *path, struct pf_store **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT, shown = PF_BUF_INIT;
	int r = pf_local_path(path, &raw, why);
	if (r == 0)
		r = pf_text_escape(path, strlen(path), &shown);
	if (r < 0)
		return r;
	const char *where = pf_buf_str(&raw), *spelled = pf_buf_str(&shown);
	if (!where || !spelled)
		return -ENOMEM;

	_cleanup_(pf_closep) int fd = pf_open_at(AT_FDCWD, where, O_PATH | O_DIRECTORY);
	if (fd < 0)
		return pf_why_set(why, fd, "cannot open the table %s: %s", spelled, strerror(-fd));
	r = pf_local_pass_gateway(&fd, spelled, why);
	if (r < 0)
		return r;

	_cleanup_(pf_freep) char *at = realpath(where, NULL);
	if (!at) {
		r = -errno;
		return pf_why_set(why, r, "cannot find the table %s: %s", spelled, strerror(-r));
	}
	_cleanup_(pf_freep) char *given = strdup(path);
	struct local *st = calloc(1, sizeof(*st));
	if (!given || !st) {
		free(st);
		return -ENOMEM;
	}
	*st = (struct local){ .base = { .ops = &local_ops, .where = STEAL(given), .at = STEAL(at) }, .root = fd };
	fd = -1;
	*out = &st->base;
	return 0;
}
