#include "fs.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "notify.h"

#define PERIOD_SECONDS 1
#define END_SECONDS    2 /* as long as an end may take */

bool fs_watch_stopping(struct fs_watch *w)
{
	pthread_mutex_lock(&w->lock);
	bool stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* Wait until *flag is set, for some seconds at most. Returns it. */
static bool wait_for(struct fs_watch *w, const bool *flag, int seconds)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&w->lock);
	while (!*flag && r == 0)
		r = pthread_cond_timedwait(&w->wake, &w->lock, &until);
	bool now = *flag;
	pthread_mutex_unlock(&w->lock);
	return now;
}

static void set(struct fs_watch *w, bool *flag)
{
	pthread_mutex_lock(&w->lock);
	*flag = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

/* What `systemctl status` shows: the branch in the root. */
static void tell_manager(struct fs *fs, struct fs_line *l)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	size_t lost = fs_follow_lost(&l->follow);

	if (fs_line_view(l, &v, NULL) < 0)
		return;
	const struct pf_manifest *m = v->manifest;
	fs_notify("STATUS=branch %s, version %" PRIu64 ", pins: %zu, lost: %zu", fs_line_name(l), m->version, m->pins.n,
		  lost);
}

static void *watch(void *arg)
{
	struct fs *fs = arg;

	do {
		uint64_t number = 0;
		struct fs_branch *b;
		while (!fs_watch_stopping(&fs->watch) && (b = fs_branch_next(fs, &number)))
			if (fs_follow_look(fs, b) && b->number == 1)
				tell_manager(fs, b->line);
	} while (!wait_for(&fs->watch, &fs->watch.stop, PERIOD_SECONDS));
	set(&fs->watch, &fs->watch.ended);
	return NULL;
}

int fs_watch_start(struct fs *fs, struct pf_why *why)
{
	struct fs_watch *w = &fs->watch;
	pthread_condattr_t attr;
	sigset_t all, before;

	*w = (struct fs_watch){ .stop = false };
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->wake, &attr);
	pthread_condattr_destroy(&attr);

	/* Signals end the session's loop only if its own thread gets them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = -pthread_create(&w->thread, NULL, watch, fs);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r == 0 ? 0 : pf_why_set(why, r, "no thread to watch the table with: %s", strerror(-r));
}

bool fs_watch_stop(struct fs *fs)
{
	struct fs_watch *w = &fs->watch;

	set(w, &w->stop);
	if (!wait_for(w, &w->ended, END_SECONDS))
		return false;
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	return true;
}
