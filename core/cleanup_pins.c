/* What becomes of a branch's pins before anything is planned. */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "commit.h"
#include "flags.h"

struct telling {
	void (*say)(void *arg, const char *text);
	void *arg;
};

void pf_clean_pins_release(struct pf_clean_pins *p)
{
	free(p->due);
	*p = (struct pf_clean_pins){ NULL, 0 };
}

/* Pins leave a trace: the bit in a version that is kept, or a guard tag. Without one the versions need not be read a second time. */
static bool had_pins(const struct pf_survey *s)
{
	struct pf_guard guard;

	for (size_t i = 0; i < s->n_versions; i++)
		if (s->versions[i].writer_flags & PF_FLAG_PINS)
			return true;
	for (size_t i = 0; i < s->tags.n; i++)
		if (pf_guard_from_tag(&s->tags.v[i], &guard, NULL) != 0)
			return true;
	return false;
}

static int check_lost(struct pf_line *line, struct pf_why *why)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	int r = pf_lost_find(line->branch, 0, &lost, why);
	if (r < 0 || lost.n == 0)
		return r;
	r = pf_lost_describe(&lost.v[0], &text);
	if (r == 0 && lost.n > 1)
		r = pf_buf_addf(&text, ", and %zu more are lost", lost.n - 1);
	if (r < 0 || !pf_buf_str(&text))
		return -ENOMEM;
	return pf_why_set(why, -EBUSY, "%s; register anew under a new id, or `pinctl release --waive ID`",
			  (char *)text.data);
}

static int list_due(const struct pf_pins *pins, struct pf_time now, struct pf_op **ops, struct pf_clean_pins *out)
{
	out->due = calloc(pins->n ? pins->n : 1, sizeof(*out->due));
	*ops = calloc(pins->n ? pins->n : 1, sizeof(**ops));
	if (!out->due || !*ops)
		return -ENOMEM;
	for (size_t i = 0; i < pins->n; i++) {
		const struct pf_pin *p = &pins->v[i];
		if (pf_time_cmp(p->expires_at, now) > 0)
			continue;
		(*ops)[out->n_due] = (struct pf_op){ .kind = PF_OP_EXPIRE, .id = p->id, .expires_at = p->expires_at };
		out->due[out->n_due++] = p->id;
	}
	return 0;
}

/* What came of them: the skipped are no failure. */
static int judge(const struct pf_answer *a, size_t n, const struct telling *to, struct pf_clean_pins *out,
		 struct pf_why *why)
{
	size_t expired = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		bool skipped = a[i].err == -EAGAIN && a[i].version != 0;
		to->say(to->arg, a[i].why.text);
		out->skipped += skipped;
		if (a[i].err == 0)
			out->due[expired++] = out->due[i];
		else if (!skipped && r == 0)
			r = pf_why_set(why, a[i].err, "nothing is deleted: %s", a[i].why.text);
	}
	out->n_due = expired;
	return r;
}

/* Due is what was due when the run began. */
static struct pf_time clock_of(void *arg)
{
	return *(struct pf_time *)arg;
}

static int expire(struct pf_line *line, struct pf_time now, const struct pf_op *ops, const struct telling *to,
		  struct pf_clean_pins *out, struct pf_why *why)
{
	const struct pf_committer_options o = { .clock = clock_of, .clock_arg = &now };
	struct pf_answer *answers = calloc(out->n_due, sizeof(*answers));
	struct pf_committer *committer = NULL;
	size_t n = out->n_due;

	int r = answers ? pf_committer_new(line->branch, &o, &committer) : -ENOMEM;
	if (r == 0) {
		pf_commit_many(committer, ops, n, answers);
		r = judge(answers, n, to, out, why);
		for (size_t i = 0; i < n; i++)
			pf_answer_release(&answers[i]);
	}
	pf_committer_free(committer);
	free(answers);
	return r;
}

static int repair(struct pf_line *line, bool dry_run, const struct telling *to, struct pf_guard_repair *n,
		  struct pf_why *why)
{
	struct pf_why last = PF_WHY_INIT;
	char text[128];

	int r = pf_guard_repair(line->branch, dry_run, n, &last);
	if (r < 0)
		return pf_why_set(why, r, "%s", last.text);
	if (n->put || n->removed) {
		snprintf(text, sizeof(text), "guard tags: %llu %s put, %llu %s removed", (unsigned long long)n->put,
			 dry_run ? "to be" : "were", (unsigned long long)n->removed, dry_run ? "to be" : "were");
		to->say(to->arg, text);
	}
	if (n->failed)
		to->say(to->arg, last.text);
	return 0;
}

int pf_cleanup_pins(struct pf_line *line, struct pf_time now, bool dry_run, void (*say)(void *arg, const char *text),
		    void *arg, struct pf_clean_pins *out, struct pf_why *why)
{
	_cleanup_(pf_clean_pins_release) struct pf_clean_pins p = { NULL, 0 };
	_cleanup_(pf_freep) struct pf_op *ops = NULL;
	const struct telling to = { say, arg };

	if (!line->survey || !had_pins(line->survey)) {
		*out = (struct pf_clean_pins){ NULL, 0 };
		return 0;
	}
	int r = check_lost(line, why);
	if (r == 0)
		r = list_due(&line->survey->pins, now, &ops, &p);
	if (r == 0 && p.n_due && !dry_run)
		r = expire(line, now, ops, &to, &p, why);
	if (r == 0)
		r = repair(line, dry_run, &to, &p.guards, why);
	if (r < 0)
		return r;
	*out = p;
	p = (struct pf_clean_pins){ NULL, 0 };
	return 0;
}
