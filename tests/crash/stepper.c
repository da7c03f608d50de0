/*
 * stepper [-d DIR] [-c NAME] [-n N] [-k | -e ERRNO [-a] [-f] | -s | -p FILE] [-r FILE] [-o FILE] COMMAND...
 *
 * Run a command, count its system calls over all its threads, and let something happen at the Nth:
 *
 *   -k         the command is killed (kill -9) before the call
 *   -e ERRNO   the call does nothing and fails with this number; -a: it is done, and reported as failed (not what goes on in a file or a
 *              directory, where no kernel then has moved on); -f: so are all that follow
 *   -s         a write or copy does half of it
 *   -p FILE    the thread is held before the call: FILE is made, and it goes on when FILE is gone
 *   -d DIR     count only calls on storage, on what is in this directory (an absolute path without links)
 *   -c NAME    count only calls of this name (see the table below)
 *   -r FILE    for a daemon: at SIGUSR1 read a new N from FILE, write there how many were counted since the last time, and count from 0
 *   -o FILE    at the end, write the name of each call counted there, one a line; - for a call without a name here, create for an openat that
 *              may make a file
 *
 * SIGTERM is passed on. Ends as the command does: with its status, or 128 and the signal. 125: it could not be done; 77: not on this machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum action { COUNT, KILL, FAIL, SHORTEN, HOLD };

static struct {
	const char *dir, *call, *hold, *rearm;
	enum action action;
	unsigned long n;
	long err;
	bool after, forever;
	FILE *report;
} opt;

static struct {
	pid_t pid;
	unsigned long counted;
	pid_t failing; /* the thread in a call whose result is still to be changed */
	pid_t held;
} now;

static volatile sig_atomic_t rearm;

/* In place of an argument: the call has a path only, which is the first. */
#define NO_FD (-1)

/* Calls on files: what they are called, and which argument is a descriptor of the file or of the directory its name starts from. */
static const struct {
	const char *name;
	int fd;
} calls[] = {
#ifdef SYS_mkdir
	/* Machines that came later do not have these, and the C library makes the others of them. */
	[SYS_mkdir] = { "mkdir", NO_FD },	[SYS_rename] = { "rename", NO_FD },
	[SYS_unlink] = { "unlink", NO_FD },	[SYS_rmdir] = { "rmdir", NO_FD },
#endif
	[SYS_openat] = { "openat", 0 },		[SYS_read] = { "read", 0 },
	[SYS_pread64] = { "pread64", 0 },	[SYS_write] = { "write", 0 },
	[SYS_pwrite64] = { "pwrite64", 0 },	[SYS_copy_file_range] = { "copy_file_range", 2 },
	[SYS_fsync] = { "fsync", 0 },		[SYS_fdatasync] = { "fdatasync", 0 },
	[SYS_linkat] = { "linkat", 0 },		[SYS_renameat] = { "renameat", 0 },
	[SYS_renameat2] = { "renameat2", 0 },	[SYS_unlinkat] = { "unlinkat", 0 },
	[SYS_mkdirat] = { "mkdirat", 0 },	[SYS_newfstatat] = { "newfstatat", 0 },
	[SYS_fstat] = { "fstat", 0 },		[SYS_statx] = { "statx", 0 },
	[SYS_getdents64] = { "getdents64", 0 }, [SYS_faccessat] = { "faccessat", 0 },
	[SYS_faccessat2] = { "faccessat2", 0 }, [SYS_openat2] = { "openat2", 0 },
	[SYS_ftruncate] = { "ftruncate", 0 },	[SYS_fchmod] = { "fchmod", 0 },
	[SYS_fchown] = { "fchown", 0 },
};

static const char *name_of(const struct __ptrace_syscall_info *info)
{
	uint64_t nr = info->entry.nr;

	return nr < sizeof(calls) / sizeof(*calls) && calls[nr].name ? calls[nr].name : "-";
}

static bool creates(const struct __ptrace_syscall_info *info)
{
	return info->entry.nr == SYS_openat && (info->entry.args[2] & O_CREAT);
}

/* Is it `dir` or something in it? */
static bool within(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static bool on_storage(pid_t tid, const struct __ptrace_syscall_info *info)
{
	char link[64], path[4097] = "";

	if (*name_of(info) == '-')
		return false;
	int arg = calls[info->entry.nr].fd, fd = arg == NO_FD ? AT_FDCWD : (int)info->entry.args[arg];
	if (fd == AT_FDCWD) {
		/* Only whoever opens the table itself has a path that starts nowhere. Not beyond the page: there may be nothing. */
		uint64_t at = info->entry.args[arg + 1];
		struct iovec to = { path, 4096 - (at & 4095) }, from = { (void *)(uintptr_t)at, to.iov_len };
		return process_vm_readv(tid, &to, 1, &from, 1, 0) > 0 && within(path, opt.dir);
	}
	snprintf(link, sizeof(link), "/proc/%d/fd/%d", tid, fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && within(path, opt.dir);
}

/* What changes a call in the processor's registers. */
#ifdef __x86_64__
enum { CAN_CHANGE = 1 };
#define CHANGE(tid, change)                                                                                            \
	do {                                                                                                           \
		struct user_regs_struct r;                                                                             \
		if (ptrace(PTRACE_GETREGS, tid, 0, &r) == 0) {                                                         \
			change;                                                                                        \
			ptrace(PTRACE_SETREGS, tid, 0, &r);                                                            \
		}                                                                                                      \
	} while (0)

static void skip(pid_t tid)
{
	CHANGE(tid, r.orig_rax = (unsigned long)-1);
}

static void set_result(pid_t tid, long value)
{
	CHANGE(tid, r.rax = (unsigned long)value);
}

static void halve(pid_t tid, uint64_t nr)
{
	if (nr == SYS_write || nr == SYS_pwrite64)
		CHANGE(tid, r.rdx -= r.rdx / 2);
	else if (nr == SYS_copy_file_range)
		CHANGE(tid, r.r8 -= r.r8 / 2);
}
#else
enum { CAN_CHANGE = 0 };
static void skip(pid_t tid)
{
}
static void set_result(pid_t tid, long value)
{
}
static void halve(pid_t tid, uint64_t nr)
{
}
#endif

/* What goes on from where the last such call ended. */
static bool moves_on(uint64_t nr)
{
	return nr == SYS_write || nr == SYS_copy_file_range || nr == SYS_read || nr == SYS_getdents64;
}

static void touch(const char *file)
{
	int fd = open(file, O_CREAT | O_WRONLY, 0666);

	if (fd >= 0)
		close(fd);
}

static void act(pid_t tid, const struct __ptrace_syscall_info *info)
{
	switch (opt.action) {
	case COUNT:
		break;
	case KILL:
		kill(now.pid, SIGKILL);
		break;
	case FAIL:
		if (!opt.after)
			skip(tid);
		else if (moves_on(info->entry.nr))
			break;
		now.failing = tid;
		break;
	case SHORTEN:
		halve(tid, info->entry.nr);
		break;
	case HOLD:
		touch(opt.hold);
		now.held = tid;
		break;
	}
}

static void on_call(pid_t tid)
{
	struct __ptrace_syscall_info info;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_EXIT && now.failing == tid) {
		set_result(tid, -opt.err);
		now.failing = 0;
	}
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY || (opt.dir && !on_storage(tid, &info)) ||
	    (opt.call && strcmp(opt.call, name_of(&info)) != 0))
		return;
	now.counted++;
	if (opt.report)
		fprintf(opt.report, "%s\n", creates(&info) ? "create" : name_of(&info));
	/* One at a time: a second thread in a call that is to fail while the first still is in its own goes unharmed. */
	if ((now.counted == opt.n || (opt.forever && now.counted > opt.n)) && !now.failing)
		act(tid, &info);
}

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		rearm = 1;
	else if (sig == SIGTERM)
		kill(now.pid, SIGTERM);
}

static void arm_again(void)
{
	FILE *f = fopen(opt.rearm, "r");

	rearm = 0;
	if (!f || fscanf(f, "%lu", &opt.n) != 1)
		exit(125);
	fclose(f);
	f = fopen(opt.rearm, "w");
	if (!f || fprintf(f, "%lu counted\n", now.counted) < 0 || fclose(f) != 0)
		exit(125);
	now.counted = 0;
}

static pid_t next_stop(int *status)
{
	for (;;) {
		if (rearm)
			arm_again();
		if (now.held && access(opt.hold, F_OK) < 0) {
			ptrace(PTRACE_SYSCALL, now.held, 0, 0);
			now.held = 0;
		}
		/* The timer ends it, too: a signal may have come just before. */
		pid_t tid = waitpid(-1, status, __WALL);
		if (tid > 0)
			return tid;
		if (errno != EINTR)
			exit(125);
	}
}

/* Until the command has ended; its wait status. Its children are not followed: fusermount3 would lose its privileges. */
static int trace(void)
{
	int status;

	for (;;) {
		pid_t tid = next_stop(&status);
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			if (tid == now.pid)
				return status;
			continue;
		}
		int sig = WSTOPSIG(status), deliver = 0;
		if (sig == (SIGTRAP | 0x80))
			on_call(tid);
		else if (sig != SIGSTOP && status >> 16 == 0) /* a new thread begins with SIGSTOP */
			deliver = sig;
		if (tid != now.held)
			ptrace(PTRACE_SYSCALL, tid, 0, deliver);
	}
}

static void start(char **argv)
{
	int status;

	now.pid = fork();
	if (now.pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
			_exit(77);
		raise(SIGSTOP);
		execvp(argv[0], argv);
		fprintf(stderr, "stepper: %s: %s\n", argv[0], strerror(errno));
		_exit(125);
	}
	if (now.pid < 0 || waitpid(now.pid, &status, 0) != now.pid)
		exit(125);
	if (!WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, now.pid, 0,
		   PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) < 0 ||
	    ptrace(PTRACE_SYSCALL, now.pid, 0, 0) < 0)
		exit(77);
}

static bool parse(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+d:c:n:ke:afsp:r:o:")) != -1) {
		switch (c) {
		case 'd':
			opt.dir = optarg;
			break;
		case 'c':
			opt.call = optarg;
			break;
		case 'n':
			opt.n = strtoul(optarg, NULL, 10);
			break;
		case 'k':
			opt.action = KILL;
			break;
		case 'e':
			opt.action = FAIL;
			opt.err = strtol(optarg, NULL, 10);
			break;
		case 'a':
			opt.after = true;
			break;
		case 'f':
			opt.forever = true;
			break;
		case 's':
			opt.action = SHORTEN;
			break;
		case 'p':
			opt.action = HOLD;
			opt.hold = optarg;
			break;
		case 'r':
			opt.rearm = optarg;
			break;
		case 'o':
			opt.report = fopen(optarg, "we");
			if (!opt.report)
				return false;
			break;
		default:
			return false;
		}
	}
	return optind < argc;
}

int main(int argc, char **argv)
{
	if (!parse(argc, argv)) {
		fprintf(stderr, "usage: stepper [-d DIR] [-c NAME] [-n N] [-k | -e ERRNO [-a] [-f] | -s | -p FILE] "
				"[-r FILE] [-o FILE] COMMAND...\n");
		return 125;
	}
	if ((opt.action == FAIL || opt.action == SHORTEN) && !CAN_CHANGE)
		return 77;
	start(argv + optind);
	static const int signals[] = { SIGUSR1, SIGALRM, SIGTERM };
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		sigaction(signals[i], &(struct sigaction){ .sa_handler = on_signal }, NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){ { .tv_usec = 5000 }, { .tv_usec = 5000 } }, NULL);
	int status = trace();
	if (opt.report && fclose(opt.report) != 0)
		return 125;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
