#include "cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup_parts.h"
#include "flags.h"

/* Writer feature bit of tables with managed blobs: one file's sidecars may be named by another's rows. */
#define MANAGED_BLOBS (UINT64_C(1) << 14)

/* Tags named in a sentence; the others are counted. */
#define NAMED_MAX 5

static void plan_release(struct pf_cleanup *c)
{
	pf_retention_free(STEAL(c->kept));
	pf_needs_release(&c->needs);
	pf_leftovers_release(&c->left);
	c->see = NULL;
}

void pf_cleanup_free(struct pf_cleanup *c)
{
	if (!c)
		return;
	plan_release(c);
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].path);
	for (size_t i = 0; i < c->n_folders; i++)
		free(c->folders[i]);
	free(c->v);
	free(c->folders);
	free(c->going);
	free(c->branch);
	free(c->dir);
	free(c);
}

void pf_cleanup_freep(struct pf_cleanup **c)
{
	pf_cleanup_free(*c);
}

/* Tagged versions that the policy lets go, as Lance refuses them. */
struct tagged {
	struct pf_buf text;
	size_t n;
	uint64_t version;
};

static int note_tag(void *arg, const struct pf_named_reason *reason)
{
	struct tagged *t = arg;
	char quoted[PF_QUOTE_TEXT];

	if (reason->kind != PF_KEPT_TAG || ++t->n > NAMED_MAX)
		return 0;
	return pf_buf_addf(&t->text, "%s%s (version %" PRIu64 ")", t->n > 1 ? ", " : "",
			   pf_text_quote(reason->name, strlen(reason->name), quoted), t->version);
}

static int check_tags(const struct pf_cleanup *c, struct pf_why *why)
{
	const struct pf_survey *s = c->line->survey;
	struct tagged t = { .text = PF_BUF_INIT };
	char more[32] = "";
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n_versions; i++) {
		unsigned bits = pf_retention_version(c->kept, i);
		t.version = s->versions[i].version;
		if ((bits & PF_KEPT_TAG) && !(bits & (PF_KEPT_HEAD | PF_KEPT_POLICY | PF_KEPT_PIN)))
			r = pf_retention_version_each(c->kept, i, note_tag, &t);
	}
	if (r == 0 && t.n) {
		if (t.n > NAMED_MAX)
			snprintf(more, sizeof(more), " and %zu more", t.n - NAMED_MAX);
		r = !pf_buf_str(&t.text)
			    ? -ENOMEM
			    : pf_why_set(why, -EBUSY,
					 "tags on versions that the policy lets go: %s%s; delete them, or keep "
					 "those versions with --tags skip",
					 (char *)t.text.data, more);
	}
	pf_buf_release(&t.text);
	return r;
}

static void look_at_lines(const struct pf_lines *l, struct pf_clean_rules *rules)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct pf_survey *s = l->v[i].survey;
		for (size_t k = 0; s && k < s->n_gaps; k++)
			rules->maps_unknown |= s->gaps[k].kind == PF_GAP_FRI;
		for (size_t k = 0; s && k < s->n_versions; k++)
			rules->blobs_unknown |= (s->versions[k].writer_flags & MANAGED_BLOBS) != 0;
	}
}

static int64_t ns_of(struct pf_time t)
{
	__int128 ns = (__int128)t.sec * 1000000000 + t.nsec;
	/* Room for the guard below it. */
	int64_t least = INT64_MIN + PF_CLEAN_GUARD_NS;

	return ns > INT64_MAX ? INT64_MAX : ns < least ? least : (int64_t)ns;
}

static int list_going(struct pf_cleanup *c)
{
	const struct pf_survey *s = c->line->survey;

	c->going = calloc(s->n_versions ? s->n_versions : 1, sizeof(*c->going));
	if (!c->going)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_versions; i++)
		if (!pf_retention_version(c->kept, i))
			c->going[c->n_going++] =
				(struct pf_going){ .version = s->versions[i].version, .v2 = s->versions[i].v2 };
	c->report.versions = c->n_going;
	return 0;
}

/* What is kept, and whether that can be trusted. */
static int judge(struct pf_cleanup *c, const struct pf_policy *policy, struct pf_why *why)
{
	struct pf_survey *s = c->line->survey;

	int r = pf_lines_needs(c->l, c->line, &c->needs);
	/*
	 * Windows are only as good as their files, and so is the head of a clone, whose files are others'. Once is enough: nothing that they need is
	 * touched.
	 */
	if (r == 0 && policy && (s->pins.n > c->o.n_released || s->n_bases > 1))
		r = pf_survey_measure(s, NULL, why);
	if (r == 0)
		r = pf_retention_new(&(struct pf_retention_input){ .survey = s,
								   .branches = c->needs.v,
								   .n_branches = c->needs.n,
								   .policy = policy,
								   .now = c->o.now,
								   .released = c->o.released,
								   .n_released = c->o.n_released },
				     &c->kept);
	return r == 0 ? pf_retention_verify(c->kept, why) : r;
}

static int plan(struct pf_cleanup *c, struct pf_why *why)
{
	struct pf_survey *s = c->line->survey;

	int r = judge(c, &c->o.policy, why);
	if (r == 0 && !c->o.skip_tagged)
		r = check_tags(c, why);
	if (r == 0)
		r = pf_leftovers_find(c->l->st, c->dir, &c->left, why);
	if (r < 0)
		return r;
	c->rules = (struct pf_clean_rules){
		.now_ns = ns_of(c->o.now),
		.delete_unverified = c->o.delete_unverified,
		.leaks = c->o.leaks,
		.flagged = (s->head->writer_flags & PF_FLAG_PINS) != 0,
	};
	look_at_lines(c->l, &c->rules);
	c->head = s->head->version;
	pf_clean_cut(c->kept, s, c->left.newest_ns, &c->rules);
	r = list_going(c);
	return r < 0 ? r : pf_clean_sweep(c, why);
}

int pf_cleanup_new(struct pf_lines *l, struct pf_line *line, const struct pf_cleanup_options *o, pf_clean_file_fn see,
		   void *arg, struct pf_cleanup **out, struct pf_why *why)
{
	_cleanup_(pf_cleanup_freep) struct pf_cleanup *c = NULL;

	if (line->unknown)
		return pf_why_set(why, -EBADMSG, "%s", line->unknown);
	if (!line->survey)
		return pf_why_set(why, -ENOENT, "nothing is left of this branch but its ref");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->l = l;
	c->line = line;
	c->o = *o;
	c->see = see;
	c->arg = arg;
	c->branch = line->name ? strdup(line->name) : NULL;
	c->dir = strdup(pf_survey_dir(line->survey));
	if ((line->name && !c->branch) || !c->dir)
		return -ENOMEM;
	int r = plan(c, why);
	c->see = NULL;
	if (r == 0)
		*out = STEAL(c);
	return r;
}

const struct pf_victim *pf_cleanup_victims(const struct pf_cleanup *c, size_t *n)
{
	*n = c->n;
	return c->v;
}

const struct pf_cleanup_report *pf_cleanup_report(const struct pf_cleanup *c)
{
	return &c->report;
}

int pf_clean_look_again(struct pf_cleanup *c, struct pf_why *why)
{
	plan_release(c);
	int r = pf_lines_refresh(c->l, NULL, NULL, why);
	c->line = r == 0 ? pf_lines_find(c->l, c->branch) : NULL;
	if (r == 0 && (!c->line || !c->line->survey))
		r = pf_why_set(why, -EBUSY, "branch %s is gone, or cannot be read any more",
			       c->branch ? c->branch : "main");
	/* Whatever that was, the plan does not know what is the table's any more (lance-14-cleanup D19). */
	if (r == 0 && c->line->survey->head->version < c->head)
		r = pf_why_set(why, -EBUSY, "version %" PRIu64 ", which was the head, is gone: nothing is deleted now",
			       c->head);
	/* The pins are those that are there now, the due ones included. */
	c->o.n_released = 0;
	return r == 0 ? judge(c, NULL, why) : r;
}
