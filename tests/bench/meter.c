/*
 * meter [-n ROUNDS] SIDE...: how long each SIDE takes, the sides taking turns after each operation so that what else the machine does
 * hits all of them alike. Prints a line a side: microseconds, the median and the 10th percentile of the rounds.
 *
 *   stat:FILE      stat
 *   cat:FILE       open, read to the end, close
 *   ls:DIR         read the directory
 *   ls-l:DIR       the same, and of each entry what `ls -l` asks: its stat and two extended attributes
 *   renew:FILE     write a time to it, later with each call, by one write
 *   cp:FILE        run cp of it to a new name FILE.N, then fsync; the copies stay, as the versions do that commits make
 *   run:COMMAND    run it, split at blanks; %T becomes a time as for renew
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define WORDS	 32 /* in a command */
#define TIME_LEN 40

extern char **environ;

struct side {
	const char *arg;
	void (*op)(const char *arg);
	double *us; /* one a round */
};

/* An expiry later than any given before: a day from now, to the nanosecond. */
static const char *later(char out[TIME_LEN])
{
	struct timespec ts;
	struct tm tm;
	char date[TIME_LEN / 2];

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += 86400;
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", gmtime_r(&ts.tv_sec, &tm));
	snprintf(out, TIME_LEN, "%s.%09ldZ", date, ts.tv_nsec);
	return out;
}

static void do_stat(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		err(1, "%s", path);
}

static void do_cat(const char *path)
{
	char buf[65536];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", path);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		;
	if (n < 0 || close(fd) < 0)
		err(1, "%s", path);
}

static void list(const char *path, void (*each)(const char *path))
{
	DIR *d = opendir(path);
	if (!d)
		err(1, "%s", path);
	for (const struct dirent *e; errno = 0, (e = readdir(d));) {
		char entry[PATH_MAX];
		if (!each || e->d_name[0] == '.')
			continue;
		snprintf(entry, sizeof(entry), "%s/%s", path, e->d_name);
		each(entry);
	}
	if (errno)
		err(1, "%s", path);
	closedir(d);
}

static void do_ls(const char *path)
{
	list(path, NULL);
}

static void ask(const char *path)
{
	char value[256];
	struct stat st;
	if (lstat(path, &st) < 0)
		err(1, "%s", path);
	if ((lgetxattr(path, "security.selinux", value, sizeof(value)) < 0 && errno != ENODATA && errno != ENOTSUP) ||
	    (getxattr(path, "system.posix_acl_access", NULL, 0) < 0 && errno != ENODATA && errno != ENOTSUP))
		err(1, "%s", path);
}

static void do_ls_l(const char *path)
{
	list(path, ask);
}

static void do_renew(const char *path)
{
	char text[TIME_LEN];
	size_t len = strlen(later(text));
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) < 0)
		err(1, "renewing %s", path);
}

static void run(char *const argv[])
{
	pid_t pid;
	int status, r;
	posix_spawn_file_actions_t quiet;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&quiet);
	if (r)
		errx(1, "%s: %s", argv[0], strerror(r));
	if (waitpid(pid, &status, 0) < 0 || status)
		errx(1, "%s failed with status %d", argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void do_run(const char *command)
{
	char *words = strdup(command), *argv[WORDS + 1] = { NULL }, text[TIME_LEN], *save;
	size_t n = 0;

	if (!words)
		err(1, "%s", command);
	for (char *w = strtok_r(words, " ", &save); w && n < WORDS; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	for (size_t i = 0; i < n; i++)
		if (strcmp(argv[i], "%T") == 0) {
			later(text);
			argv[i] = text;
		}
	run(argv);
	free(words);
}

static void do_cp(const char *from)
{
	static unsigned n;
	char to[PATH_MAX];

	snprintf(to, sizeof(to), "%s.%u", from, n++);
	run((char *[]){ (char[]){ "cp" }, (char *)(uintptr_t)from, to, NULL });
	int fd = open(to, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0 || close(fd) < 0)
		err(1, "%s", to);
}

static const struct {
	const char *name;
	void (*op)(const char *arg);
} ops[] = {
	{ "stat:", do_stat },	{ "cat:", do_cat }, { "ls:", do_ls }, { "ls-l:", do_ls_l },
	{ "renew:", do_renew }, { "run:", do_run }, { "cp:", do_cp },
};

static double now_us(void)
{
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double measure(const struct side *s)
{
	double from = now_us();
	s->op(s->arg);
	return now_us() - from;
}

static void parse(const char *text, struct side *s)
{
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (strncmp(text, ops[i].name, strlen(ops[i].name)) == 0) {
			*s = (struct side){
				.arg = text + strlen(ops[i].name),
				.op = ops[i].op,
			};
			return;
		}
	errx(2, "'%s' is not OPERATION:ARGUMENT", text);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	size_t rounds = 101;

	for (int c; (c = getopt(argc, argv, "n:")) != -1;) {
		if (c != 'n')
			return 2;
		rounds = strtoul(optarg, NULL, 10);
	}
	size_t n = (size_t)(argc - optind);
	struct side *sides = calloc(n + 1, sizeof(*sides));
	if (!n || !rounds || !sides)
		errx(2, "usage: meter [-n ROUNDS] OPERATION:ARGUMENT...");

	for (size_t i = 0; i < n; i++) {
		struct side *s = &sides[i];
		parse(argv[(size_t)optind + i], s);
		s->us = calloc(rounds, sizeof(*s->us));
		if (!s->us)
			err(1, "%zu rounds", rounds);
		measure(s); /* the first fills caches, and does not count */
	}
	for (size_t k = 0; k < rounds; k++)
		for (size_t i = 0; i < n; i++)
			sides[i].us[k] = measure(&sides[i]);
	for (size_t i = 0; i < n; i++) {
		qsort(sides[i].us, rounds, sizeof(double), by_value);
		printf("%.1f\t%.1f\n", sides[i].us[rounds / 2], sides[i].us[rounds / 10]);
		free(sides[i].us);
	}
	free(sides);
	return 0;
}
