#include "keeper.h"

#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Whether it is still there, and whether the clock was set or the machine slept: no timer tells. */
#define LOOK_MS 60000

#define RETRY_FIRST_MS 5000
#define RETRY_MAX_MS   60000
#define PATIENCE_MS    10000

enum { TOLD_NOTHING, TOLD_TROUBLE, TOLD_SHORT, TOLD_OVERDUE };

static int64_t min64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t left_ms(const struct keeper *k)
{
	struct pf_time now = pf_time_now();

	return (k->expires.sec - now.sec) * 1000 + (k->expires.nsec - now.nsec) / 1000000;
}

/* A short life has short intervals. */
static int64_t eighth(const struct keeper *k)
{
	return k->life * 1000 / 8;
}

/* How much longer what is under way may take before it is said to hang. */
static int64_t patience_left(const struct keeper *k)
{
	return min64(PATIENCE_MS, k->life * 500) - (clock_ms() - k->began);
}

/* Until the next renewal is to begin. */
static int64_t due_in(const struct keeper *k)
{
	int64_t half = left_ms(k) - k->life * 500, retry = k->failures ? k->retry_at - clock_ms() : half;

	if (k->gone || k->busy)
		return INT64_MAX;
	return half > retry ? half : retry;
}

static int64_t look_in(const struct keeper *k)
{
	return k->gone || k->busy ? INT64_MAX : k->look_at - clock_ms();
}

static int gravity(const struct keeper *k)
{
	int64_t left = left_ms(k);

	return left <= 0 ? TOLD_OVERDUE : left < eighth(k) ? TOLD_SHORT : TOLD_TROUBLE;
}

/* Say it if it is news: another error, or less time. */
static void tell(struct keeper *k, int err, const char *text)
{
	char span[SPAN_TEXT];
	int64_t left = left_ms(k);

	if (err == k->told_err && gravity(k) <= k->told)
		return;
	k->told_err = err;
	k->told = gravity(k);
	if (left > 0)
		ctl_say("%s; trying on, the pin expires in %s", text, span_format(left / 1000, span));
	else
		ctl_say("%s; trying on, the pin is overdue since %s and holds until somebody removes it", text,
			span_format(-left / 1000, span));
}

/* If that cannot be told it is left to the renewal to say so. */
static bool still_there(struct keeper *k)
{
	struct pf_confirmation found = { 0 };

	int r = pf_confirm(k->c->branch, &k->id, NULL, &found, NULL);
	bool there = r < 0 || found.held;
	pf_confirmation_release(&found);
	return there;
}

static void *work(void *arg)
{
	struct keeper *k = arg;
	uint64_t one = 1;

	/* Of one that is gone the renewal knows how it went. */
	if (k->looking && still_there(k))
		k->result = 1;
	else
		k->result = ctl_commit(k->c, &k->op, 1, &k->answer, &k->why);
	while (write(k->done, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return NULL;
}

/* 0 or -errno. */
static int begin(struct keeper *k, bool only_look)
{
	k->op = (struct pf_op){ .kind = PF_OP_RENEW, .id = k->id, .expires_at = pf_time_now() };
	k->op.expires_at.sec += k->life;
	k->looking = only_look;
	k->began = clock_ms();
	k->look_at = k->began + min64(LOOK_MS, eighth(k));
	int r = -pthread_create(&k->thread, NULL, work, k);
	k->busy = r == 0;
	return r;
}

static void fail(struct keeper *k, int err, const char *text)
{
	int64_t pause = min64(RETRY_FIRST_MS, k->life * 1000 / 64) << (k->failures < 10 ? k->failures : 10);

	k->outcome = err;
	k->failures++;
	k->retry_at = clock_ms() + min64(pause, min64(RETRY_MAX_MS, eighth(k))) + 1;
	tell(k, err, text);
}

static void succeed(struct keeper *k)
{
	if (k->told)
		ctl_say("%s", k->answer.why.text);
	k->expires = k->answer.pin.expires_at;
	k->outcome = 0;
	k->failures = 0;
	k->told = TOLD_NOTHING;
}

/* What was under way is over. */
static void conclude(struct keeper *k)
{
	struct pf_answer *a = &k->answer;

	pthread_join(k->thread, NULL);
	k->busy = false;
	if (k->result > 0)
		return;
	if (k->result < 0) {
		fail(k, k->result, k->why.text);
		return;
	}
	if (a->err == 0) {
		succeed(k);
	} else if (a->err == -ENOENT &&
		   a->version) { /* judged on a head: without one it is the table that is not there */
		k->gone = true;
		ctl_say("%s", a->why.text);
	} else {
		fail(k, a->err, a->why.text);
	}
	pf_answer_release(a);
}

int keeper_open(struct keeper *k)
{
	k->look_at = clock_ms() + min64(LOOK_MS, eighth(k));
	k->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return k->done < 0 ? -errno : 0;
}

int keeper_step(struct keeper *k)
{
	uint64_t n;

	if (read(k->done, &n, sizeof(n)) == sizeof(n))
		conclude(k);
	bool due = due_in(k) <= 0;
	if (due || look_in(k) <= 0) {
		int r = begin(k, !due);
		if (r < 0)
			fail(k, r, strerror(-r));
	}
	if (k->busy && patience_left(k) <= 0)
		tell(k, -EINPROGRESS, "the renewal of the pin takes long");

	/* Until the next that is due, and each moment at which the answer of keeper_trouble or what is to be told may change. */
	const int64_t moments[] = { due_in(k), look_in(k), left_ms(k), left_ms(k) - eighth(k),
				    k->busy ? patience_left(k) : 0 };
	int64_t wait = LOOK_MS;
	for (size_t i = 0; i < ARRAY_LEN(moments); i++)
		if (moments[i] > 0)
			wait = min64(wait, moments[i]);
	return (int)wait + 1;
}

const char *keeper_trouble(const struct keeper *k)
{
	if (k->gone)
		return "its pin is gone";
	if (k->outcome == -EINPROGRESS)
		return "whether its pin was renewed is not known";
	if (k->outcome < 0 && k->outcome != -EAGAIN)
		return "the renewal of its pin was refused";
	/* After a sleep of the machine it gets its chance: whoever is overdue can still be renewed. */
	if (left_ms(k) <= 0 && (k->busy ? patience_left(k) <= 0 : k->failures > 0))
		return "its pin is overdue and not renewed";
	return NULL;
}

void keeper_close(struct keeper *k)
{
	if (k->busy)
		conclude(k);
	close(k->done);
}
