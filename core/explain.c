#include "explain.h"

#include <string.h>

#include "explain_parts.h"
#include "lost.h"

/* How many versions are asked for pins that they dropped: a summary must come at once. */
#define LOOK_BACK 1000

void pf_explain_free(struct pf_explain *e)
{
	if (!e)
		return;
	pf_explained_fri_free(e->fri);
	pf_retention_free(e->kept);
	pf_needs_release(&e->needs);
	free(e);
}

void pf_explain_freep(struct pf_explain **e)
{
	pf_explain_free(*e);
}

static int take_account(struct pf_explain *e, struct pf_lines *l, const struct pf_looking *how, struct pf_why *why)
{
	int r = pf_lines_needs(l, e->line, &e->needs);

	if (r == 0)
		r = pf_survey_measure(e->survey, how, why);
	if (r == 0)
		r = pf_explain_ask(e, &(struct pf_question){ .n_released = 0 }, &e->kept);
	if (r == 0)
		pf_retention_totals(e->kept, &e->totals);
	return r;
}

int pf_explain_new(struct pf_lines *l, struct pf_line *line, struct pf_time now, const struct pf_looking *how,
		   struct pf_explain **out, struct pf_why *why)
{
	_cleanup_(pf_explain_freep) struct pf_explain *e = calloc(1, sizeof(*e));
	const char *name = line->name ? line->name : "main";

	if (line->unknown)
		return pf_why_set(why, -EBADMSG, "%s", line->unknown);
	if (!line->survey)
		return pf_why_set(why, -ENOENT, "nothing is left of branch %s but its ref", name);
	if (!e)
		return -ENOMEM;
	e->line = line;
	e->survey = line->survey;
	e->now = now;
	int r = take_account(e, l, how, why);
	if (r == 0)
		*out = STEAL(e);
	return r;
}

int pf_explain_ask(const struct pf_explain *e, const struct pf_question *q, struct pf_retention **out)
{
	const struct pf_retention_input in = {
		.survey = e->survey,
		.branches = e->needs.v,
		.n_branches = e->needs.n,
		.policy = q->policy,
		.now = e->now,
		.released = q->released,
		.n_released = q->n_released,
		.untagged = q->untagged,
		.n_untagged = q->n_untagged,
	};

	return pf_retention_new(&in, out);
}

static int check_lost(const struct pf_explain *e, struct pf_why *why)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why inner = PF_WHY_INIT;
	struct pf_line *line = e->line;
	uint64_t after = line->none_lost;

	/* Whoever asks after each commit must not read a thousand manifests each time. A table with fewer versions than were seen is another one. */
	bool seen = after && after <= e->survey->head->version;
	int r = seen ? pf_lost_find(line->branch, after, &lost, &inner)
		     : pf_lost_recent(line->branch, LOOK_BACK, &lost, &inner);
	line->none_lost = r == 0 && lost.n == 0 ? lost.until : 0;
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return pf_why_set(why, -EBUSY, "whether pins were lost is not known: %s",
				  inner.text[0] ? inner.text : strerror(-r));
	if (lost.n == 0)
		return 0;
	r = pf_lost_describe(&lost.v[0], &text);
	const char *s = r == 0 ? pf_buf_str(&text) : NULL;
	return s ? pf_why_set(why, -EBUSY, "%s", s) : -ENOMEM;
}

int pf_explain_blocked(const struct pf_explain *e, struct pf_why *why)
{
	int r = pf_retention_verify(e->kept, why);

	return r < 0 ? r : check_lost(e, why);
}

bool pf_explain_is_due(const struct pf_explain *e, const struct pf_pin *p)
{
	return pf_time_cmp(p->expires_at, e->now) <= 0;
}

static const char *unknown(const struct pf_explain *e, bool files)
{
	for (size_t i = 0; i < e->survey->n_gaps; i++) {
		const struct pf_gap *g = &e->survey->gaps[i];
		/* What transactions say matters to nobody's files. */
		if (g->kind == PF_GAP_REF || (files && g->kind != PF_GAP_TRANSACTION))
			return g->text;
	}
	for (size_t i = 0; i < e->needs.n; i++)
		if (e->needs.v[i].unknown)
			return e->needs.v[i].unknown;
	return NULL;
}

const char *pf_explain_unknown_versions(const struct pf_explain *e)
{
	return unknown(e, false);
}

const char *pf_explain_unknown_files(const struct pf_explain *e)
{
	return unknown(e, true);
}
