#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keeper.h"

#define GRACE_S 10 /* from SIGTERM to SIGKILL */

struct run {
	struct ctl *c;
	char **argv;
	bool strict;
	int signals; /* those that are passed on, and SIGCHLD */
	sigset_t before;
	sighandler_t sigchld;
	struct keeper keeper;
	char id[PF_UUID_TEXT];

	pid_t child; /* 0: it has ended */
	int status;  /* its exit status, or 128 and the signal that ended it */
	bool signaled;
	bool stopped; /* by us: the pin is not to be relied on any more */
	struct timespec kill_at;
};

/* --- the pin ---------------------------------------------------------------------------------------------------------- */

static int make_request(struct ctl *c, const struct args *a, int64_t life, struct pf_request *q, struct pf_why *why)
{
	const char *label = args_value(a, "label");

	int r = label ? pf_label_check(label, strlen(label), why) : 0;
	if (r == 0)
		r = ctl_open(c, why);
	if (r == 0)
		r = request_name_branch(c, q, why);
	if (r < 0)
		return r;
	pf_uuid_new(&q->id);
	q->expires_at = pf_time_now();
	q->expires_at.sec += life;
	q->label = strdup(label ? label : "");
	return q->label ? 0 : -ENOMEM;
}

/* How to let go of the pin, which stays. */
static void say_kept(struct run *r)
{
	_cleanup_(pf_buf_release) struct pf_buf command = PF_BUF_INIT;
	char expires[PF_TIME_TEXT];

	pf_time_format(r->keeper.expires, expires);
	const char *text = pf_branch_command(r->c->branch, &command) < 0 ? NULL : pf_buf_str(&command);
	ctl_say("pin %s is kept, its expiry is %s; to release it: %s release %s", r->id, expires,
		text ? text : "pinctl", r->id);
}

/* Register, and see with a read of its own that the pin is held. 0 or the exit status. */
static int take_pin(struct run *r, const struct args *a, int64_t life)
{
	_cleanup_(pf_op_release) struct pf_op op = { .kind = PF_OP_REGISTER };
	struct pf_confirmation found = { 0 };
	struct pf_answer answer = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int err = make_request(r->c, a, life, &op.request, &why);
	if (err == 0)
		err = ctl_commit(r->c, &op, 1, &answer, &why);
	if (err < 0)
		return ctl_fail(err, &why);
	int status = ctl_judge(&answer);
	pf_answer_release(&answer);
	if (status)
		return status;

	pf_uuid_format(&op.request.id, r->id);
	r->keeper = (struct keeper){ .c = r->c, .id = op.request.id, .life = life, .expires = op.request.expires_at };
	err = pf_confirm(r->c->branch, &op.request.id, &op.request, &found, &why);
	status = err < 0 || !found.held ? ctl_fail(err < 0 ? err : -ENOENT, &why) : 0;
	if (status)
		say_kept(r);
	pf_confirmation_release(&found);
	return status;
}

static void release_pin(struct run *r)
{
	struct pf_op op = { .kind = PF_OP_RELEASE, .id = r->keeper.id };
	struct pf_answer answer = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int err = ctl_commit(r->c, &op, 1, &answer, &why);
	int status = err < 0 ? ctl_fail(err, &why) : ctl_judge(&answer);
	/* Of an unknown outcome the sentence says how to find out. */
	if (status && status != EXIT_UNKNOWN)
		say_kept(r);
	pf_answer_release(&answer);
}

/* --- the command ------------------------------------------------------------------------------------------------------ */

static _Noreturn void become_command(struct run *r, pid_t parent, int report)
{
	signal(SIGPIPE, r->c->sigpipe);
	signal(SIGCHLD, r->sigchld);
	sigprocmask(SIG_SETMASK, &r->before, NULL);
	/* Killed, we can neither renew nor stop it any more. */
	if (r->strict && (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent)) {
		raise(SIGTERM);
		_exit(128 + SIGTERM); /* it is ignored here */
	}
	execvp(r->argv[0], r->argv);
	int err = errno;
	_exit(write(report, &err, sizeof(err)) == sizeof(err) ? 127 : 126);
}

/* 0, or the errno of starting it. */
static int start_command(struct run *r)
{
	int report[2], err = 0;
	pid_t parent = getpid();

	if (setenv("PINFS_PIN_ID", r->id, 1) < 0 || setenv("PINFS_DATASET", r->c->store->at, 1) < 0 ||
	    pipe2(report, O_CLOEXEC) < 0)
		return errno;
	r->child = fork();
	if (r->child == 0)
		become_command(r, parent, report[1]);
	if (r->child < 0) {
		err = errno;
		r->child = 0;
	}
	close(report[1]);
	/* Its end closes when the command begins. */
	if (r->child && read(report[0], &err, sizeof(err)) == sizeof(err)) {
		waitpid(r->child, NULL, 0);
		r->child = 0;
	}
	close(report[0]);
	return err;
}

/* A signal that came before there was a command to pass it to; 0: none did. */
static int early_signal(struct run *r)
{
	struct signalfd_siginfo si;
	int n, ends = 0;

	while ((n = signals_read(r->signals, &si)))
		if (n == SIGINT || n == SIGTERM || n == SIGHUP || n == SIGQUIT)
			ends = n;
	return ends;
}

static void reap(struct run *r)
{
	int status;

	if (!r->child || waitpid(r->child, &status, WNOHANG) != r->child)
		return; /* another one: exec leaves the children of who we were before */
	r->child = 0;
	r->signaled = WIFSIGNALED(status);
	r->status = r->signaled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The terminal sends INT and QUIT to its whole foreground process group, and so to the command itself. */
static bool from_terminal(const struct signalfd_siginfo *si)
{
	return si->ssi_code == SI_KERNEL && (si->ssi_signo == SIGINT || si->ssi_signo == SIGQUIT);
}

/* `all`: also what the command may have got itself, since it may have come before there was one. */
static void handle_signals(struct run *r, bool all)
{
	struct signalfd_siginfo si;
	int n;

	while ((n = signals_read(r->signals, &si))) {
		if (n == SIGCHLD)
			reap(r);
		else if (r->child && (all || !from_terminal(&si)))
			kill(r->child, n);
	}
}

/* --strict: stop it, for this reason. Returns the milliseconds until this is to be called again. */
static int stop_command(struct run *r, const char *reason, int wait)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!r->stopped) {
		ctl_say("stopping %s: %s", r->argv[0], reason);
		kill(r->child, SIGTERM);
		kill(r->child, SIGCONT); /* if it was stopped, it could not end */
		r->stopped = true;
		r->kill_at = (struct timespec){ .tv_sec = now.tv_sec + GRACE_S, .tv_nsec = now.tv_nsec };
	}
	int64_t left = (r->kill_at.tv_sec - now.tv_sec) * 1000 + (r->kill_at.tv_nsec - now.tv_nsec) / 1000000;
	if (left > 0)
		return left < wait ? (int)left + 1 : wait;
	kill(r->child, SIGKILL);
	return wait;
}

/* Until it has ended. */
static void attend_command(struct run *r)
{
	struct pollfd fds[] = { { .fd = r->signals, .events = POLLIN }, { .fd = r->keeper.done, .events = POLLIN } };

	handle_signals(r, true);
	while (r->child) {
		int wait = keeper_step(&r->keeper);
		const char *trouble = r->strict ? keeper_trouble(&r->keeper) : NULL;
		if (r->stopped || trouble)
			wait = stop_command(r, trouble, wait);
		poll(fds, ARRAY_LEN(fds), wait);
		handle_signals(r, false);
	}
	/* What ended it must not end us now; what comes from here on may. */
	handle_signals(r, false);
	sigprocmask(SIG_SETMASK, &r->before, NULL);
}

static void say_how_it_ended(const struct run *r)
{
	if (r->signaled)
		ctl_say("%s was ended by signal %d, %s", r->argv[0], r->status - 128, strsignal(r->status - 128));
	else
		ctl_say("%s returned %d", r->argv[0], r->status);
}

static int run_command(struct run *r)
{
	int err = keeper_open(&r->keeper);
	if (err == 0)
		err = -start_command(r);
	if (err < 0) {
		ctl_say("cannot run %s: %s", r->argv[0], strerror(-err));
		keeper_close(&r->keeper);
		release_pin(r);
		return err == -ENOENT ? 127 : 126;
	}
	attend_command(r);
	keeper_close(&r->keeper);
	if (r->status)
		say_how_it_ended(r);
	if (r->keeper.gone)
		ctl_say("there is no pin %s to release", r->id);
	else if (r->status || r->stopped)
		say_kept(r);
	else
		release_pin(r);
	return r->stopped ? EXIT_AGAIN : r->status;
}

int cmd_run(struct ctl *c, const struct args *a)
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, 0 };
	struct run r = { .c = c, .argv = a->operand, .strict = args_value(a, "strict") != NULL };
	struct pf_why why = PF_WHY_INIT;
	int64_t life = 0;

	if (!args_value(a, "for"))
		return ctl_usage(
			"say how long the pin is to hold without news from here: --for 2h; see pinctl help run");
	int err = args_span(a, "for", 1, &life, &why);
	if (err < 0)
		return ctl_fail(err, &why);
	c->no_guard = args_value(a, "no-guard") != NULL;

	/* From here on they wait, so that a pin is not left behind by who is interrupted. */
	r.sigchld = signal(SIGCHLD, SIG_DFL);
	r.signals = signals_open(passed, &r.before);
	if (r.signals < 0)
		return ctl_fail(r.signals, &why);
	int status = take_pin(&r, a, life), early = status ? 0 : early_signal(&r);
	if (early) {
		release_pin(&r);
		status = 128 + early;
	} else if (status == 0) {
		status = run_command(&r);
	}
	close(r.signals);
	return status;
}
