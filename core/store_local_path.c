#include "store_local_parts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "text.h"

#define FUSE_SUPER_MAGIC 0x65735546

void pf_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

int pf_open_at(int dir, const char *name, int flags)
{
	int fd = (int)TEMP_FAILURE_RETRY(openat(dir, name, flags | O_CLOEXEC));
	return fd < 0 ? -errno : fd;
}

/* Lance knows both. */
static bool is_file_scheme(const char *s, size_t n)
{
	return (n == 4 && strncasecmp(s, "file", n) == 0) || (n == 17 && strncasecmp(s, "file-object-store", n) == 0);
}

/* The length of `scheme` if s starts with `scheme://`, else 0. */
static size_t scheme_len(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
	return strncmp(s + n, "://", 3) == 0 ? n : 0;
}

int pf_local_path(const char *s, struct pf_buf *out, struct pf_why *why)
{
	size_t n = scheme_len(s);
	if (n == 0)
		return pf_buf_addstr(out, s);
	if (!is_file_scheme(s, n))
		return pf_why_set(why, -EOPNOTSUPP,
				  "%.*s:// tables are not supported, only tables on a local file system",
				  (int)(n < 32 ? n : 32), s);

	s += n + 3;
	if (s[0] != '/')
		return pf_why_set(why, -EINVAL, "a file URI needs an absolute path and no host: file:///path/to/table");
	if (strpbrk(s, "?#"))
		return pf_why_set(why, -EINVAL, "a file URI has no query or fragment: write ? as %%3F and # as %%23");
	return pf_percent_decode(s, strlen(s), out, why);
}

/* Where `fd` is, without links. Of a mount point no question goes to what is mounted: it may be us. */
static int real_path(int fd, char **out)
{
	char link[sizeof("/proc/self/fd/") + 3 * sizeof(fd)], path[PATH_MAX];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof(path));
	if (n < 0)
		return -errno;
	if (n == sizeof(path))
		return -ENAMETOOLONG;
	*out = strndup(path, (size_t)n);
	return *out ? 0 : -ENOMEM;
}

/* Is the root the directory `fd`, whose real path is `path`, or above it under another name (a bind mount)? 1 and the name below it, or 0. */
static int climb(int root_fd, int fd, const char *path, char **out)
{
	_cleanup_(pf_closep) int at = -1;
	const char *below = path + strlen(path);
	struct stat root, sb;

	if (TEMP_FAILURE_RETRY(fstat(root_fd, &root)) < 0)
		return -errno;
	for (;;) {
		if (TEMP_FAILURE_RETRY(fstat(at < 0 ? fd : at, &sb)) < 0)
			return -errno;
		if (sb.st_dev == root.st_dev && sb.st_ino == root.st_ino) {
			*out = strdup(*below ? below + 1 : ".");
			return *out ? 1 : -ENOMEM;
		}
		while (below > path && *--below != '/')
			;
		if (below == path)
			return 0;
		int up = pf_open_at(at < 0 ? fd : at, "..", O_PATH | O_DIRECTORY);
		if (up < 0)
			return up == -ENOTDIR ? 0 : up;
		pf_closep(&at);
		at = up;
	}
}

int pf_local_resolve(int root, const char *at, const char *path, char **out)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	_cleanup_(pf_freep) char *real = NULL;

	int r = pf_local_path(path, &raw, NULL);
	if (r == -EOPNOTSUPP)
		return (*out = strdup(path)) ? 0 : -ENOMEM;
	const char *s = r < 0 ? NULL : pf_buf_str(&raw);
	if (!s)
		return r < 0 ? r : -ENOMEM;
	if (s[0] != '/')
		return -EINVAL;
	/* By its name first: something else may be mounted there since. */
	r = pf_store_name_below(at, s, out);
	if (r != 0)
		return r;
	_cleanup_(pf_closep) int fd = pf_open_at(AT_FDCWD, s, O_PATH);
	if (fd < 0)
		return fd;
	r = real_path(fd, &real);
	if (r == 0)
		r = pf_store_name_below(at, real, out);
	if (r == 0)
		r = climb(root, fd, real, out);
	if (r == 0)
		*out = STEAL(real);
	return r;
}

int pf_local_pass_gateway(int *fd, const char *spelled, struct pf_why *why)
{
	_cleanup_(pf_closep) int below = -1;
	struct stat seen, real;
	struct statfs sf;

	if (TEMP_FAILURE_RETRY(fstatfs(*fd, &sf)) < 0)
		return errno != ENOTCONN
			       ? 0
			       : pf_why_set(why, -ENOTCONN,
					    "the gateway over the table %s is dead: end who writes through it, run "
					    "`fusermount3 -u` on it, with -z if it is busy, and mount it again",
					    spelled);
	if (sf.f_type != FUSE_SUPER_MAGIC)
		return 0;
	below = pf_open_at(*fd, ".pinfs/table", O_PATH | O_DIRECTORY);
	if (below == -ENOENT && faccessat(*fd, ".pinfs/table", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (below == -EACCES)
		return pf_why_set(
			why, below,
			"a gateway is mounted over the table %s: only its user gets past it, and root if it was mounted "
			"by root or with -o allow_other",
			spelled);
	if (below < 0 || fstat(*fd, &seen) < 0 || fstat(below, &real) < 0 || seen.st_ino != real.st_ino)
		return pf_why_set(
			why, -EACCES,
			"a gateway is mounted over the table %s, and its process is not to be found here: run this where it runs",
			spelled);
	close(*fd);
	*fd = below;
	below = -1;
	return 0;
}
