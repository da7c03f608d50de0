#include "progress.h"

#include <stdarg.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STEP_NS INT64_C(100000000)

void progress_open(struct progress *p)
{
	static const int ends[] = { SIGINT, SIGTERM, 0 };

	*p = (struct progress){ .next_ns = pf_time_steady_ns() + STEP_NS };
	p->signals = signals_open(ends, &p->before);
}

void progress_close(struct progress *p)
{
	progress_clear(p);
	if (p->signals < 0)
		return;
	close(p->signals);
	p->signals = -1;
	sigprocmask(SIG_SETMASK, &p->before, NULL);
}

bool progress_is_due(struct progress *p)
{
	int64_t now = pf_time_steady_ns();

	if (now < p->next_ns)
		return false;
	p->next_ns = now + STEP_NS;
	return isatty(STDERR_FILENO);
}

void progress_say(struct progress *p, const char *fmt, ...)
{
	va_list ap;

	fputs("\r\033[K", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	p->shown = true;
}

void progress_clear(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}

bool progress_is_over(struct progress *p)
{
	struct signalfd_siginfo info;

	return p->signals >= 0 && signals_read(p->signals, &info) != 0;
}
