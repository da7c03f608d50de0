/* What only a local file system has: paths and URIs, links, permissions, other kinds of files, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/store.h"

/* The working directory of each test: a new one, with a table directory `t` opened as st. */
struct fixture {
	char dir[64];
	struct pf_store *st;
	int fds; /* open when the test began */
};

static int count_fds(void)
{
	int n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	strcpy(x->dir, "/tmp/pf-local-XXXXXX");
	assert_non_null(mkdtemp(x->dir));
	assert_int_equal(chmod(x->dir, 0755), 0);
	assert_int_equal(chdir(x->dir), 0);
	assert_int_equal(mkdir("t", 0755), 0);
	x->fds = count_fds();
	assert_int_equal(pf_store_local_open("t", &x->st, NULL), 0);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	char cmd[96];
	pf_store_free(x->st);
	assert_int_equal(count_fds(), x->fds); /* nothing is left open, on whatever path the test took */
	assert_int_equal(chdir("/"), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", x->dir);
	assert_int_equal(system(cmd), 0);
	free(x);
	return 0;
}

static struct pf_store *store_of(void **state)
{
	return ((struct fixture *)*state)->st;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void expect(struct pf_store *st, const char *name, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	assert_int_equal(pf_store_get(st, name, 1 << 20, &b), 0);
	assert_string_equal(pf_buf_str(&b), text);
}

static int open_error(struct pf_store *st, const char *name)
{
	struct pf_file *f = NULL;
	int r = pf_store_open(st, name, &f);
	assert_int_equal(f != NULL, r == 0);
	pf_file_close(f);
	return r;
}

static void a_table_is_found_by_any_spelling(void **state)
{
	static const char *const odd = "sp ace%20#?+\xc3\xa9";
	const char *dir = ((struct fixture *)*state)->dir;
	assert_int_equal(mkdir(odd, 0755), 0);
	assert_int_equal(mkdir("s3:", 0755), 0);
	assert_int_equal(symlink(odd, "link"), 0);
	char marker[64], forms[10][160];
	snprintf(marker, sizeof(marker), "%s/mark", odd);
	put(marker, "this one");
	snprintf(forms[0], sizeof(forms[0]), "%s", odd);
	snprintf(forms[1], sizeof(forms[1]), "./%s/", odd);
	snprintf(forms[2], sizeof(forms[2]), "%s/%s", dir, odd);
	snprintf(forms[3], sizeof(forms[3]), "/%s/t/..//%s//", dir, odd);
	snprintf(forms[4], sizeof(forms[4]), "link");
	snprintf(forms[5], sizeof(forms[5]), "file://%s/sp%%20ace%%2520%%23%%3F+%%C3%%A9", dir);
	snprintf(forms[6], sizeof(forms[6]), "file://%s/sp ace%%2520%%23%%3f%%2b\xc3\xa9/", dir);
	snprintf(forms[7], sizeof(forms[7]), "FILE://%s/link", dir);
	snprintf(forms[8], sizeof(forms[8]), "t/../s3://../%s", odd); /* no scheme has a slash in it */
	snprintf(forms[9], sizeof(forms[9]), "s3:/../%s", odd);
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct pf_store *st = NULL;
		struct pf_why why = PF_WHY_INIT;
		int r = pf_store_local_open(forms[i], &st, &why);
		if (r < 0)
			fail_msg("%s: %d, %s", forms[i], r, why.text);
		expect(st, "mark", "this one");
		assert_string_equal(st->where, forms[i]);
		assert_string_equal(st->at, forms[2]);
		assert_string_equal(why.text, "");
		pf_store_free(st);
	}
}

static void a_path_that_is_no_table_is_named(void **state)
{
	static const struct {
		const char *path;
		int err;
		const char *says[3];
	} cases[] = {
		{ "missing", -ENOENT, { "missing", "No such file" } },
		{ "missing/t", -ENOENT, { "missing/t" } },
		{ "", -ENOENT, { "No such file" } },
		{ "file:///missing%20x", -ENOENT, { "file:///missing%20x", "No such file" } },
		{ "file", -ENOTDIR, { "file", "Not a directory" } },
		{ "file/t", -ENOTDIR, { "file/t", "Not a directory" } },
		{ "a\nb\x1b", -ENOENT, { "a\\nb\\x1b" } },
		{ "s3://bucket/t.lance", -EOPNOTSUPP, { "s3://", "local" } },
		{ "gs://bucket/t", -EOPNOTSUPP, { "gs://", "local" } },
		{ "s3+ddb://bucket/t?x=y", -EOPNOTSUPP, { "s3+ddb://", "local" } },
		{ "memory://t", -EOPNOTSUPP, { "memory://" } },
		{ "files:///tmp", -EOPNOTSUPP, { "files://" } },
		{ "file://host/tmp", -EINVAL, { "absolute", "host", "file:///" } },
		{ "file://tmp", -EINVAL, { "absolute" } },
		{ "file://", -EINVAL, { "absolute" } },
		{ "file:///tmp?x", -EINVAL, { "%3F", "%23" } },
		{ "file:///tmp#x", -EINVAL, { "%3F", "%23" } },
		{ "file:///tmp/%zz", -EINVAL, { "%" } },
		{ "file:///tmp%00/x", -EINVAL, { "%" } },
	};
	put("file", "");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct pf_store *st = NULL;
		struct pf_why why = PF_WHY_INIT;
		int r = pf_store_local_open(cases[i].path, &st, &why);
		if (r != cases[i].err)
			fail_msg("%s: %d, %s", cases[i].path, r, why.text);
		assert_null(st);
		assert_int_equal(pf_store_local_open(cases[i].path, &st, NULL), cases[i].err);
		for (size_t k = 0; k < ARRAY_LEN(cases[i].says) && cases[i].says[k]; k++)
			if (!strstr(why.text, cases[i].says[k]))
				fail_msg("%s: \"%s\" does not say %s", cases[i].path, why.text, cases[i].says[k]);
	}
}

/* Run fn without root's powers, if we have them. The results are the caller's to check. */
static void as_nobody(void (*fn)(void *arg), void *arg)
{
	uid_t uid = geteuid();
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	fn(arg);
	if (uid == 0)
		assert_int_equal(seteuid(0), 0);
}

struct denied {
	struct pf_store *st, *opened;
	struct pf_why why;
	int open, writable, create, read, list;
};

static void try_all(void *arg)
{
	struct denied *d = arg;
	struct pf_stage *sg = NULL;
	int n = 0;
	d->open = pf_store_local_open("closed/t", &d->opened, &d->why);
	d->writable = pf_store_writable(d->st, "d");
	d->create = pf_store_create(d->st, "d/new", &sg);
	d->read = open_error(d->st, "d/secret");
	d->list = pf_store_list(d->st, "closed", NULL, &n);
}

static void what_is_not_permitted_is_eacces(void **state)
{
	struct denied d = { .st = store_of(state), .why = PF_WHY_INIT };
	assert_int_equal(mkdir("closed", 0755), 0);
	assert_int_equal(mkdir("closed/t", 0755), 0);
	assert_int_equal(mkdir("t/closed", 0), 0);
	assert_int_equal(mkdir("t/d", 0755), 0);
	put("t/d/secret", "x");
	assert_int_equal(chmod("t/d/secret", 0), 0);
	assert_int_equal(chmod("t/d", 0555), 0);
	assert_int_equal(chmod("closed", 0), 0);
	as_nobody(try_all, &d);
	assert_int_equal(chmod("closed", 0755), 0);
	assert_int_equal(chmod("t/d", 0755), 0);

	assert_int_equal(d.open, -EACCES);
	assert_non_null(strstr(d.why.text, "closed/t"));
	assert_int_equal(d.writable, -EACCES);
	assert_int_equal(d.create, -EACCES);
	assert_int_equal(d.read, -EACCES);
	assert_int_equal(d.list, -EACCES);
	assert_int_equal(pf_store_writable(d.st, "d"), 0);
}

/* In a child, which leaves with its mounts. 0 good, 1 bad, 77 no permission to mount. */
static int try_read_only(void)
{
	struct pf_store *st;
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "t/ro", "tmpfs", MS_RDONLY, NULL) < 0)
		return 77;
	if (pf_store_local_open("t", &st, NULL) < 0)
		return 1;
	return pf_store_writable(st, "ro") == -EROFS && pf_store_writable(st, ".") == 0 ? 0 : 1;
}

static void a_read_only_file_system_is_erofs(void **state)
{
	int status;
	assert_int_equal(mkdir("t/ro", 0755), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0)
		_exit(try_read_only());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: may not mount a read-only file system\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_root_is_held_not_its_path(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg;
	struct pf_stat sb;
	put("t/f", "ours");
	assert_int_equal(rename("t", "moved"), 0);
	assert_int_equal(mkdir("t", 0755), 0);
	put("t/f", "another table");
	assert_int_equal(chdir("/"), 0);
	expect(st, "f", "ours");
	assert_int_equal(pf_store_create(st, "new", &sg), 0);
	pf_stage_discard(sg);
	assert_int_equal(pf_store_stat(st, "new", &sb), 0);
	assert_int_equal(chdir(((struct fixture *)*state)->dir), 0);
	assert_int_equal(access("moved/new", F_OK), 0);
	assert_int_equal(access("t/new", F_OK), -1);
}

/* Of the years 2300 and 1600, as far as the file system under us takes them: 64 bits of nanoseconds end in 2262. */
static void times_out_of_range_stay_on_their_side(void **state)
{
	const struct timespec future = { .tv_sec = 10413792000 }, past = { .tv_sec = -11676096000 };
	struct pf_store *st = store_of(state);
	struct pf_stat sb;

	put("t/late", "");
	put("t/early", "");
	assert_int_equal(utimensat(AT_FDCWD, "t/late", (struct timespec[]){ future, future }, 0), 0);
	assert_int_equal(utimensat(AT_FDCWD, "t/early", (struct timespec[]){ past, past }, 0), 0);
	assert_int_equal(pf_store_stat(st, "late", &sb), 0);
	assert_true(sb.mtime_ns > INT64_C(2000000000000000000));
	assert_int_equal(pf_store_stat(st, "early", &sb), 0);
	assert_true(sb.mtime_ns < 0);
}

static int note(void *arg, const char *name, bool is_dir)
{
	struct pf_buf *b = arg;
	return pf_buf_addf(b, "%s%s ", name, is_dir ? "/" : "");
}

static void symbolic_links_are_followed(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stat sb;
	assert_int_equal(mkdir("elsewhere", 0755), 0);
	put("elsewhere/f", "reached");
	assert_int_equal(mkdir("t/d", 0755), 0);
	assert_int_equal(symlink("../../elsewhere", "t/d/dir"), 0);
	assert_int_equal(symlink("../../elsewhere/f", "t/d/file"), 0);
	assert_int_equal(symlink("nowhere", "t/d/dangling"), 0);
	assert_int_equal(symlink("loop", "t/d/loop"), 0);

	expect(st, "d/file", "reached");
	expect(st, "d/dir/f", "reached");
	assert_int_equal(pf_store_stat(st, "d/dir", &sb), 0);
	assert_true(sb.is_dir);
	assert_int_equal(pf_store_stat(st, "d/file", &sb), 0);
	assert_int_equal(sb.size, 7);
	assert_int_equal(open_error(st, "d/dir"), -EISDIR);
	assert_int_equal(open_error(st, "d/dangling"), -ENOENT);
	assert_int_equal(open_error(st, "d/loop"), -ELOOP);

	struct pf_buf b = PF_BUF_INIT;
	assert_int_equal(pf_store_list(st, "d", note, &b), 0);
	assert_non_null(strstr(pf_buf_str(&b), "dir/ "));
	assert_non_null(strstr(pf_buf_str(&b), "file "));
	assert_non_null(strstr(pf_buf_str(&b), "dangling "));
	assert_non_null(strstr(pf_buf_str(&b), "loop "));
	assert_int_equal(b.len, strlen("dir/ file dangling loop "));
	pf_buf_release(&b);

	/* Removing a name never removes what it leads to. */
	assert_int_equal(pf_store_unlink(st, "d/file"), 0);
	assert_int_equal(pf_store_unlink(st, "d/dir"), 0);
	assert_int_equal(access("elsewhere/f", F_OK), 0);
}

static int note_kind(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *sb)
{
	return pf_buf_addf(arg, "%s=%d ", name, (int)kind);
}

static void who_deletes_follows_no_link(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_store *st = store_of(state);
	assert_int_equal(mkdir("elsewhere", 0755), 0);
	put("elsewhere/f", "theirs");
	assert_int_equal(mkdir("t/d", 0755), 0);
	assert_int_equal(symlink("../../elsewhere", "t/d/dir"), 0);
	assert_int_equal(pf_store_scan(st, "d", note_kind, &b), 0);
	assert_string_equal(pf_buf_str(&b), "dir=2 ");
	assert_true(pf_store_scan(st, "d/dir", note_kind, &b) < 0);
	assert_true(pf_store_remove(st, "d/dir/f", false) < 0);
	assert_true(pf_store_remove(st, "d/dir", true) < 0);
	assert_int_equal(access("elsewhere/f", F_OK), 0);
	/* The link itself may go. */
	assert_int_equal(pf_store_remove(st, "d/dir", false), 0);
	assert_int_equal(mkfifo("t/d/fifo", 0600), 0);
	assert_int_equal(symlink("nowhere", "t/d/dangling"), 0);
	pf_buf_reset(&b);
	assert_int_equal(pf_store_scan(st, "d", note_kind, &b), 0);
	assert_non_null(strstr(pf_buf_str(&b), "fifo=3 "));
	assert_non_null(strstr(pf_buf_str(&b), "dangling=2 "));
}

static void other_kinds_of_files_are_refused_at_once(void **state)
{
	struct pf_store *st = store_of(state);
	struct sockaddr_un addr = { .sun_family = AF_UNIX, .sun_path = "t/socket" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(s, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(mkfifo("t/fifo", 0644), 0);
	assert_int_equal(symlink("/dev/null", "t/device"), 0);
	alarm(200); /* a FIFO opened the usual way waits for a writer; longer than a machine stalls */
	assert_int_equal(open_error(st, "fifo"), -EBADMSG);
	assert_int_equal(open_error(st, "socket"), -EBADMSG);
	assert_int_equal(open_error(st, "device"), -EBADMSG);
	alarm(0);
	close(s);
}

static void a_file_that_shrank_is_eio(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_file *f;
	struct pf_stage *sg;
	char b[8];
	put("t/f", "12345678");
	assert_int_equal(pf_store_open(st, "f", &f), 0);
	assert_int_equal(truncate("t/f", 4), 0);
	assert_int_equal(f->r.read(&f->r, 0, b, 4), 0);
	assert_int_equal(f->r.read(&f->r, 0, b, 8), -EIO);
	assert_int_equal(f->r.read(&f->r, 4, b, 1), -EIO);
	assert_int_equal(pf_store_create(st, "new", &sg), 0);
	assert_int_equal(pf_stage_copy(sg, f, 0, 8), -EIO);
	pf_stage_discard(sg);
	pf_file_close(f);
}

/* The kernel first writes what fits, and says why not more only when asked again. */
static void a_short_write_is_no_success(void **state)
{
	struct pf_store *st = store_of(state);
	struct rlimit old, small;
	struct pf_stage *sg;
	struct pf_file *f;
	char bytes[100] = "";
	put("t/from", "0123456789");
	assert_int_equal(truncate("t/from", 100), 0);
	assert_int_equal(pf_store_open(st, "from", &f), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ .rlim_cur = 50, .rlim_max = old.rlim_max };
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);

	assert_int_equal(pf_store_create(st, "written", &sg), 0);
	int written = pf_stage_write(sg, bytes, sizeof(bytes));
	pf_stage_discard(sg);
	assert_int_equal(pf_store_create(st, "copied", &sg), 0);
	int copied = pf_stage_copy(sg, f, 0, 100);
	pf_stage_discard(sg);

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, handler);
	pf_file_close(f);
	assert_int_equal(written, -EFBIG);
	assert_int_equal(copied, -EFBIG);
}

/* Between two file systems the kernel refuses to copy, and the bytes have to be carried. */
static void copy_crosses_file_systems(void **state)
{
	struct pf_store *st = store_of(state);
	char other[64] = "/dev/shm/pf-local-XXXXXX";
	int fd = mkstemp(other);
	struct stat a, b;
	if (fd < 0 || fstat(fd, &a) < 0 || stat("t", &b) < 0 || a.st_dev == b.st_dev) {
		print_message("skipped: no second file system at /dev/shm\n");
		if (fd >= 0) {
			close(fd);
			unlink(other);
		}
		skip();
	}
	size_t n = 2 * 1024 * 1024 + 3;
	uint8_t *bytes = malloc(n);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(i >> 7 ^ i);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	close(fd);
	assert_int_equal(symlink(other, "t/far"), 0);

	struct pf_file *f;
	struct pf_stage *sg;
	struct pf_buf got = PF_BUF_INIT;
	assert_int_equal(pf_store_open(st, "far", &f), 0);
	assert_int_equal(pf_store_create(st, "near", &sg), 0);
	assert_int_equal(pf_stage_write(sg, "head", 4), 0);
	assert_int_equal(pf_stage_copy(sg, f, 1, n - 2), 0);
	assert_int_equal(pf_stage_write(sg, "tail", 4), 0);
	pf_stage_discard(sg);
	pf_file_close(f);
	unlink(other);
	assert_int_equal(pf_store_get(st, "near", n + 8, &got), 0);
	assert_int_equal(got.len, n + 6);
	assert_memory_equal(got.data, "head", 4);
	assert_memory_equal(got.data + 4, bytes + 1, n - 2);
	assert_memory_equal(got.data + 4 + n - 2, "tail", 4);
	pf_buf_release(&got);
	free(bytes);
}

static void new_files_obey_the_umask(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg;
	struct stat sb;
	mode_t old = umask(027);
	assert_int_equal(pf_store_create(st, "f", &sg), 0);
	pf_stage_discard(sg);
	assert_int_equal(pf_store_mkdir(st, "a/b"), 0);
	umask(old);
	assert_int_equal(stat("t/f", &sb), 0);
	assert_int_equal(sb.st_mode, S_IFREG | 0640);
	assert_int_equal(stat("t/a/b", &sb), 0);
	assert_int_equal(sb.st_mode, S_IFDIR | 0750);
}

static int check_cloexec(void *arg, const char *name, bool is_dir)
{
	for (int fd = 3; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);
		if (flags >= 0 && !(flags & FD_CLOEXEC) && !FD_ISSET(fd, (fd_set *)arg))
			fail_msg("descriptor %d would be inherited", fd);
	}
	return 0;
}

static void no_descriptor_is_inherited(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_file *f;
	struct pf_stage *sg;
	fd_set before; /* those that we inherited ourselves */
	FD_ZERO(&before);
	pf_store_free(st);
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			FD_SET(fd, &before);
	assert_int_equal(pf_store_local_open("t", &st, NULL), 0);
	((struct fixture *)*state)->st = st;
	put("t/f", "x");
	assert_int_equal(pf_store_open(st, "f", &f), 0);
	assert_int_equal(pf_store_create(st, "new", &sg), 0);
	assert_int_equal(pf_store_list(st, ".", check_cloexec, &before), 0);
	pf_stage_discard(sg);
	pf_file_close(f);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_table_is_found_by_any_spelling), TEST(a_path_that_is_no_table_is_named),
		TEST(what_is_not_permitted_is_eacces),	TEST(a_read_only_file_system_is_erofs),
		TEST(the_root_is_held_not_its_path),	TEST(symbolic_links_are_followed),
		TEST(who_deletes_follows_no_link),	TEST(other_kinds_of_files_are_refused_at_once),
		TEST(a_file_that_shrank_is_eio),	TEST(a_short_write_is_no_success),
		TEST(copy_crosses_file_systems),	TEST(new_files_obey_the_umask),
		TEST(no_descriptor_is_inherited),	TEST(times_out_of_range_stay_on_their_side),
	};
	return cmocka_run_group_tests_name("store_local", tests, NULL, NULL);
}
