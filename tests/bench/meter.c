/*
 * meter [-n ROUNDS] SIDE...: how long each SIDE takes, the sides taking turns after each operation so that what else the machine does
 * hits all of them alike. Prints a line a side: microseconds, the median, the 10th and the 99th percentile of the rounds.
 *
 * meter -t [-n ROUNDS] SIDE...: all sides at once, each in a thread of its own. Prints how many operations a second they did together.
 *
 *   stat:FILE      stat
 *   cat:FILE       open, read to the end, close
 *   ls:DIR         read the directory
 *   ls-l:DIR       the same, and of each entry what `ls -l` asks: its stat and two extended attributes
 *   mkdir:DIR      make it
 *   renew:FILE     write a time to it, later with each call, by one write
 *   rm:FILE        remove it
 *   cp:FILE        run cp of it to a new name FILE.N, then fsync; the copies stay, as the versions do that commits make
 *   run:COMMAND    run it, split at blanks
 *   peer:COMMAND   send it a line and wait for one; it is started, split at blanks, at the first. One a meter
 *
 * In what mkdir, renew, rm and run are given, %T becomes a time as for renew, and %I a UUID that is another in each round.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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
#define ID_LEN	 37

extern char **environ;

struct side {
	const char *arg;
	void (*op)(const char *arg);
	double *us; /* one a round */
};

static size_t turn; /* the round that is measured; changes only while no side is running */

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

/* What `text` says in this round. */
static void expand(const char *text, char out[PATH_MAX])
{
	size_t n = 0;
	while (*text) {
		char value[TIME_LEN > ID_LEN ? TIME_LEN : ID_LEN] = { *text };
		size_t took = 1;
		if (strncmp(text, "%T", 2) == 0 || strncmp(text, "%I", 2) == 0) {
			took = 2;
			if (text[1] == 'T')
				later(value);
			else
				snprintf(value, ID_LEN, "ffffffff-ffff-4fff-bfff-%012zx", turn);
		}
		size_t len = strlen(value);
		if (n + len >= PATH_MAX)
			errx(1, "%s: too long", text);
		memcpy(out + n, value, len);
		n += len;
		text += took;
	}
	out[n] = '\0';
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

static void do_mkdir(const char *name)
{
	char path[PATH_MAX];
	expand(name, path);
	if (mkdir(path, 0777) < 0)
		err(1, "%s", path);
}

static void do_rm(const char *name)
{
	char path[PATH_MAX];
	expand(name, path);
	if (unlink(path) < 0)
		err(1, "%s", path);
}

static void do_renew(const char *name)
{
	char text[TIME_LEN], path[PATH_MAX];
	size_t len = strlen(later(text));
	expand(name, path);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd) < 0)
		err(1, "renewing %s", path);
}

/* Start argv, its standard input and output as given. */
static pid_t start(char *const argv[], int in, int out)
{
	pid_t pid;
	int r;
	posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		errx(1, "%s: %s", argv[0], strerror(r));
	return pid;
}

static void run(char *const argv[])
{
	int status, null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		err(1, "/dev/null");
	pid_t pid = start(argv, STDIN_FILENO, null);
	close(null);
	if (waitpid(pid, &status, 0) < 0 || status)
		errx(1, "%s failed with status %d", argv[0], WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* Split `words` in place. */
static void split(char *words, char *argv[WORDS + 1])
{
	size_t n = 0;
	char *save;
	for (char *w = strtok_r(words, " ", &save); w && n < WORDS; w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	argv[n] = NULL;
}

static void do_run(const char *command)
{
	char words[PATH_MAX], *argv[WORDS + 1];
	expand(command, words);
	split(words, argv);
	run(argv);
}

static void do_peer(const char *command)
{
	static FILE *from;
	static int to = -1;
	char line[256];

	if (!from) {
		char words[PATH_MAX], *argv[WORDS + 1];
		int in[2], out[2];
		expand(command, words);
		split(words, argv);
		if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
			err(1, "pipe");
		start(argv, in[0], out[1]);
		close(in[0]);
		close(out[1]);
		to = in[1];
		from = fdopen(out[0], "r");
		if (!from)
			err(1, "%s", command);
	}
	if (write(to, "\n", 1) != 1 || !fgets(line, sizeof(line), from))
		errx(1, "%s ended", command);
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
	{ "stat:", do_stat },	{ "cat:", do_cat }, { "ls:", do_ls },	{ "ls-l:", do_ls_l }, { "mkdir:", do_mkdir },
	{ "renew:", do_renew }, { "rm:", do_rm },   { "run:", do_run }, { "peer:", do_peer }, { "cp:", do_cp },
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

static void take_turns(struct side *sides, size_t n, size_t rounds)
{
	for (turn = 1; turn <= rounds; turn++)
		for (size_t i = 0; i < n; i++)
			sides[i].us[turn - 1] = measure(&sides[i]);
	for (size_t i = 0; i < n; i++) {
		const double *us = sides[i].us;
		qsort(sides[i].us, rounds, sizeof(*us), by_value);
		printf("%.1f\t%.1f\t%.1f\n", us[rounds / 2], us[rounds / 10], us[rounds * 99 / 100]);
	}
}

/* A thread: measure(), as often as there are rounds. */
struct client {
	pthread_t thread;
	pthread_barrier_t *together;
	struct side *side;
	size_t rounds;
};

static void *client_run(void *arg)
{
	const struct client *c = arg;
	pthread_barrier_wait(c->together);
	for (size_t k = 0; k < c->rounds; k++)
		c->side->us[k] = measure(c->side);
	return NULL;
}

static void all_at_once(struct side *sides, size_t n, size_t rounds)
{
	struct client *clients = calloc(n, sizeof(*clients));
	pthread_barrier_t together;

	if (!clients)
		err(1, "%zu threads", n);
	pthread_barrier_init(&together, NULL, (unsigned)n + 1);
	for (size_t i = 0; i < n; i++) {
		clients[i] = (struct client){ .together = &together, .side = &sides[i], .rounds = rounds };
		int r = pthread_create(&clients[i].thread, NULL, client_run, &clients[i]);
		if (r)
			errx(1, "thread %zu: %s", i, strerror(r));
	}
	pthread_barrier_wait(&together);
	double from = now_us();
	for (size_t i = 0; i < n; i++)
		pthread_join(clients[i].thread, NULL);
	printf("%.1f\n", (double)(n * rounds) * 1e6 / (now_us() - from));
	pthread_barrier_destroy(&together);
	free(clients);
}

int main(int argc, char **argv)
{
	size_t rounds = 101;
	void (*how)(struct side * sides, size_t n, size_t rounds) = take_turns;

	for (int c; (c = getopt(argc, argv, "n:t")) != -1;) {
		if (c == 'n')
			rounds = strtoul(optarg, NULL, 10);
		else if (c == 't')
			how = all_at_once;
		else
			return 2;
	}
	size_t n = (size_t)(argc - optind);
	struct side *sides = calloc(n + 1, sizeof(*sides));
	if (!n || !rounds || !sides)
		errx(2, "usage: meter [-t] [-n ROUNDS] OPERATION:ARGUMENT...");

	for (size_t i = 0; i < n; i++) {
		struct side *s = &sides[i];
		parse(argv[(size_t)optind + i], s);
		s->us = calloc(rounds, sizeof(*s->us));
		if (!s->us)
			err(1, "%zu rounds", rounds);
		if (how == take_turns)
			measure(s); /* the first fills caches, and does not count */
	}
	how(sides, n, rounds);
	for (size_t i = 0; i < n; i++)
		free(sides[i].us);
	free(sides);
	return 0;
}
