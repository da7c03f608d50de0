#include "pinctl.h"

#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* How many versions are asked at the start for pins that they dropped. */
#define LOOK_BACK 1000

struct watch {
	struct ctl *c;
	uint64_t last; /* the version that was told last; 0: the state is to be told anew */
	uint64_t left; /* changes still to tell before it ends */
	const struct pf_step *step;
	bool told; /* a change of it */
	struct pf_why *why;
	struct pf_why trouble; /* as it was said; "": none */
};

enum { GO_ON, END }; /* what telling returns, beside errors */

/* One line, and out with it. */
static int tell(struct watch *w, const char *change, const struct pf_pin *pin, const struct pf_pin *before)
{
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;

	if (w->c->json) {
		json_auto_t *j = pf_json_change(w->step, change, pin, before);
		if (pf_json_line(j, &line) < 0 || !pf_buf_str(&line))
			return -ENOMEM;
		puts((char *)line.data);
	} else {
		print_change(w->step, change, pin, before);
	}
	return ctl_flush(w->c) < 0 ? END : GO_ON;
}

static int count_one(struct watch *w, int r)
{
	return r == GO_ON && --w->left == 0 ? END : r;
}

static int see_change(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before)
{
	struct watch *w = arg;

	w->told = true;
	return count_one(w, tell(w, change_word(w->step, kind, pin), pin, before));
}

static int see_step(void *arg, const struct pf_step *s)
{
	struct watch *w = arg;

	int r = pf_step_check(s, w->why);
	if (r < 0)
		return r;
	if (s->gap)
		say_gap(s);
	w->step = s;
	w->told = false;
	r = pf_step_changes(s, see_change, w);
	if (r == GO_ON && !w->told)
		r = count_one(w, tell(w, NULL, NULL, NULL));
	if (r == GO_ON)
		w->last = s->m->version;
	return r;
}

/* The state as it is: the head, its pins, and on stderr those that were lost. */
static int tell_state(struct watch *w, const struct pf_manifest *head)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_step s = { .m = head, .txn = &txn };

	s.txn_error = pf_txn_read(w->c->store, pf_branch_dir(w->c->branch), head, &txn, w->why);
	if (s.txn_error < 0) {
		s.txn = NULL;
		s.txn_why = w->why->text;
	}
	int r = pf_step_check(&s, w->why);
	w->step = &s;
	if (r == GO_ON)
		r = tell(w, NULL, NULL, NULL);
	for (size_t i = 0; r == GO_ON && i < head->pins.n; i++)
		r = tell(w, CHANGE_HELD, &head->pins.v[i], NULL);
	if (r != GO_ON)
		return r;
	say_lost(w->c, LOOK_BACK);
	w->last = head->version;
	return w->left ? GO_ON : END;
}

/* Read the head, and tell what is new. */
static int look(struct watch *w)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = w->c->branch ? 0 : ctl_open(w->c, w->why);
	if (r == 0)
		r = pf_branch_head(w->c->branch, &head, w->why);
	if (r < 0)
		return r;
	if (head->version < w->last)
		ctl_say("the head went back, from version %" PRIu64 " to %" PRIu64, w->last, head->version);
	if (w->last == 0 || head->version < w->last)
		return tell_state(w, head);
	if (head->version == w->last)
		return GO_ON;
	r = pf_history_walk(w->c->branch, w->last, see_step, w, w->why);
	/* A damaged version is in the way of all that came after it. */
	if (r == -EBADMSG)
		w->last = 0;
	return r;
}

/* It may pass. Said once, and the table looked for anew: it may come back as another directory. */
static void suffer(struct watch *w, int err)
{
	const char *text = w->why->text[0] ? w->why->text : strerror(-err);

	if (strcmp(w->trouble.text, text) != 0)
		ctl_say("%s; watching on", text);
	pf_why_set(&w->trouble, 0, "%s", text);
	if (err == -ENOENT)
		w->last = 0;
	ctl_close(w->c);
}

static int look_and_suffer(struct watch *w)
{
	struct pf_why why = PF_WHY_INIT;

	w->why = &why;
	int r = look(w);
	if (r < 0) {
		suffer(w, r);
		return GO_ON;
	}
	w->trouble.text[0] = '\0';
	return r;
}

/* Until the interval is over. END: asked to, or the reader left. */
static int wait_for_next(int signals, int64_t seconds)
{
	/* Nothing is polled of stdout but what always comes: that it broke. */
	struct pollfd fds[] = { { .fd = signals, .events = POLLIN }, { .fd = STDOUT_FILENO } };
	int ms = seconds < INT_MAX / 1000 ? (int)seconds * 1000 : INT_MAX;

	return poll(fds, ARRAY_LEN(fds), ms) > 0 ? END : GO_ON;
}

int cmd_watch(struct ctl *c, const struct args *a)
{
	static const int ends[] = { SIGINT, SIGTERM, 0 };
	struct watch w = { .c = c, .left = UINT64_MAX };
	struct pf_why why = PF_WHY_INIT;
	int64_t interval = 1;
	sigset_t before;

	int r = args_span(a, "interval", 1, &interval, &why);
	if (r == 0)
		r = args_number(a, "count", &w.left, &why);
	if (r == 0)
		r = ctl_open(c, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	int signals = signals_open(ends, &before);
	if (signals < 0)
		return ctl_fail(signals, &why);
	do
		r = look_and_suffer(&w);
	while (r == GO_ON && wait_for_next(signals, interval) == GO_ON);
	close(signals);
	return 0;
}
