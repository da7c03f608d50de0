#include "commit.h"

#include <pthread.h>
#include <string.h>

#include "batch.h"
#include "guard.h"
#include "lost.h"

#define ATTEMPTS_DEFAULT 100
#define BATCH_MAX	 1000 /* operations that join one commit; a caller's own run is never cut */

/* One caller's run of operations of one kind. Lives on the caller's stack. */
struct waiter {
	const struct pf_op *ops;
	struct pf_answer *answers;
	size_t n;
	bool done;
	pthread_cond_t wake; /* it is done, or it is its turn to lead */
	struct waiter *next;
};

struct pf_committer {
	struct pf_branch *b;
	struct pf_committer_options o;
	pthread_mutex_t lock; /* guards the queue and `busy` */
	struct waiter *first, **last;
	bool busy; /* somebody leads; all below is that thread's alone */
	struct pf_identity id;
};

static struct pf_time system_clock(void *arg)
{
	return pf_time_now();
}

int pf_committer_new(struct pf_branch *b, const struct pf_committer_options *o, struct pf_committer **out)
{
	struct pf_committer *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->b = b;
	if (o)
		c->o = *o;
	if (!c->o.clock)
		c->o.clock = system_clock;
	if (c->o.attempts == 0)
		c->o.attempts = ATTEMPTS_DEFAULT;
	pthread_mutex_init(&c->lock, NULL);
	c->last = &c->first;
	*out = c;
	return 0;
}

void pf_committer_free(struct pf_committer *c)
{
	if (!c)
		return;
	pf_manifest_unref(c->id.head);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void pf_answer_release(struct pf_answer *a)
{
	pf_pin_release(&a->pin);
	*a = (struct pf_answer){ .pin = PF_PIN_INIT };
}

/* A commit for these waiters, all of one kind. */
static void run_batch(struct pf_committer *c, struct waiter *list)
{
	struct pf_batch b = { .branch = c->b, .options = &c->o, .identity = &c->id };
	size_t n = 0;

	for (struct waiter *w = list; w; w = w->next)
		n += w->n;
	_cleanup_(pf_freep) struct pf_job *jobs = calloc(n, sizeof(*jobs));
	b.jobs = jobs;
	for (struct waiter *w = list; w; w = w->next) {
		for (size_t i = 0; i < w->n; i++) {
			w->answers[i] = (struct pf_answer){ .err = -ENOMEM, .pin = PF_PIN_INIT };
			if (jobs)
				jobs[b.n++] = (struct pf_job){ .op = &w->ops[i], .answer = &w->answers[i] };
		}
	}
	if (jobs)
		pf_batch_run(&b);
}

/* Take the oldest waiter out of the queue, and with it those of its kind. Returns the list. */
static struct waiter *take(struct pf_committer *c)
{
	struct waiter *list = NULL, **end = &list, **p = &c->first;
	enum pf_op_kind kind = c->first->ops[0].kind;
	size_t n = 0;

	while (*p) {
		struct waiter *w = *p;
		if (w->ops[0].kind != kind || (n > 0 && n + w->n > BATCH_MAX)) {
			p = &w->next;
			continue;
		}
		n += w->n;
		*p = w->next;
		w->next = NULL;
		*end = w;
		end = &w->next;
	}
	c->last = p;
	return list;
}

/* Called locked: run one commit unlocked, wake those it was for, and whoever is to lead the next. */
static void lead(struct pf_committer *c)
{
	struct waiter *list = take(c), *next;

	c->busy = true;
	pthread_mutex_unlock(&c->lock);
	run_batch(c, list);
	pthread_mutex_lock(&c->lock);
	c->busy = false;
	for (; list; list = next) {
		next = list->next; /* once it is done the waiter is gone */
		list->done = true;
		pthread_cond_signal(&list->wake);
	}
	if (c->first)
		pthread_cond_signal(&c->first->wake);
}

static void submit(struct pf_committer *c, const struct pf_op *ops, size_t n, struct pf_answer *answers)
{
	struct waiter w = { .ops = ops, .answers = answers, .n = n };

	pthread_cond_init(&w.wake, NULL);
	pthread_mutex_lock(&c->lock);
	*c->last = &w;
	c->last = &w.next;
	while (!w.done) {
		if (c->busy)
			pthread_cond_wait(&w.wake, &c->lock);
		else
			lead(c);
	}
	pthread_mutex_unlock(&c->lock);
	pthread_cond_destroy(&w.wake);
}

/* A renewal found no pin: say so if that is not its owner's doing. */
static void tell_lost(struct pf_committer *c, const struct pf_op *op, struct pf_answer *a)
{
	_cleanup_(pf_lost_release) struct pf_lost l = { .pin = PF_PIN_INIT };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	if (pf_lost_one(c->b, &op->id, &l, NULL) <= 0 || pf_lost_describe(&l, &text) < 0 || !pf_buf_str(&text))
		return;
	pf_why_set(&a->why, a->err, "%s. It cannot be renewed: register anew under a new id, and waive this one",
		   (char *)text.data);
}

static void warn(struct pf_answer *a, const char *of_what, const struct pf_why *why)
{
	struct pf_why said = a->why;

	pf_why_set(&a->why, 0, "%s; warning: %s: %s", said.text, of_what,
		   why->text[0] ? why->text : strerror(-a->guard));
}

/* What follows the answer, on the caller's own thread: a slow tag holds up nobody else's commit. */
static void follow_up(struct pf_committer *c, const struct pf_op *op, struct pf_answer *a)
{
	struct pf_why why = PF_WHY_INIT;

	if (op->kind == PF_OP_RENEW && a->err == -ENOENT)
		tell_lost(c, op, a);
	if (a->err < 0)
		return;
	if (op->kind == PF_OP_REGISTER && !c->o.no_guard) {
		a->guard = pf_guard_put(c->b, &a->pin, &why);
		if (a->guard < 0)
			warn(a, "released Lance up to 13 cleans without knowing of it, there is no guard tag", &why);
	} else if (op->kind == PF_OP_RELEASE || op->kind == PF_OP_EXPIRE) {
		a->guard = pf_guard_remove(c->b, &op->id, &why);
		if (a->guard < 0)
			warn(a, "its guard tag stays", &why);
	}
}

int pf_commit_many(struct pf_committer *c, const struct pf_op *ops, size_t n, struct pf_answer *answers)
{
	/* Runs of one kind, one after the other: a caller's own operations keep their order. */
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && ops[end].kind == ops[i].kind; end++)
			;
		submit(c, ops + i, end - i, answers + i);
		for (size_t k = i; k < end; k++)
			follow_up(c, &ops[k], &answers[k]);
	}
	for (size_t i = 0; i < n; i++)
		if (answers[i].err < 0)
			return answers[i].err;
	return 0;
}

int pf_commit(struct pf_committer *c, const struct pf_op *op, struct pf_answer *answer)
{
	return pf_commit_many(c, op, 1, answer);
}
