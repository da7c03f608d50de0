/* Signals as something to read: no handler, nothing global, and none arrives between a look and the wait for the next. */
#include "pinctl.h"

#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(const int *numbers, sigset_t *before)
{
	struct sigaction now;
	sigset_t set;

	sigemptyset(&set);
	for (; *numbers; numbers++)
		/* What whoever started us wants ignored (nohup, a shell's background) stays so; blocked it would be queued. */
		if (sigaction(*numbers, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, *numbers);
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &set, before);
	return fd;
}

int signals_read(int fd, struct signalfd_siginfo *out)
{
	return read(fd, out, sizeof(*out)) == sizeof(*out) ? (int)out->ssi_signo : 0;
}
