#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "retention_parts.h"

/* Pins named in a sentence; the others are counted. */
#define NAMED_MAX 5

/* A problem with its text owned. */
struct found {
	struct pf_problem p;
	char *text, *file;
};

struct search {
	const struct pf_retention *r;
	struct found *v;
	size_t n, cap;
};

static void search_release(struct search *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].text);
		free(s->v[i].file);
	}
	free(s->v);
}

/* Of the first n pins. `file` may be NULL. */
_printf_(6, 7) static int add(struct search *s, uint64_t version, const char *file, const struct pf_pin *const *pins,
			      size_t n, const char *fmt, ...)
{
	struct found f = { .p = { .version = version, .pins = pins, .n_pins = n } };
	va_list ap;

	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		struct found *v = reallocarray(s->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	va_start(ap, fmt);
	int len = vasprintf(&f.text, fmt, ap);
	va_end(ap);
	if (len < 0)
		return -ENOMEM;
	f.file = strdup(file ? file : "");
	if (!f.file) {
		free(f.text);
		return -ENOMEM;
	}
	s->v[s->n++] = f;
	return 0;
}

/* What a pin says of its source. */
static int check_source(struct search *s, size_t i)
{
	const struct pf_survey *survey = s->r->in.survey;
	const struct pf_pin *p = s->r->pins[i];
	const struct pf_pin *const *one = &s->r->pins[i];
	size_t at = pf_survey_below(survey, p->source_version);
	uint64_t head = survey->n_versions ? survey->versions[survey->n_versions - 1].version : 0;

	if (p->source_version > head)
		return add(s, p->source_version, NULL, one, 1,
			   "the source is above the head, which is version %" PRIu64, head);
	if (!pf_survey_has(survey, p->source_version))
		return add(s, p->source_version, NULL, one, 1, "it is missing, the source");
	const struct pf_surveyed_version *v = &survey->versions[at];
	if (!v->readable || strcmp(v->txn, p->source_txn) == 0)
		return 0; /* unreadable: told as a gap */
	return add(s, p->source_version, NULL, one, 1, "expected the source to be of transaction %s, found %s",
		   p->source_txn, v->txn[0] ? v->txn : "none");
}

/* Versions missing from the oldest source on; the sources themselves are told by check_source. */
static int check_holes(struct search *s)
{
	const struct pf_survey *survey = s->r->in.survey;
	uint64_t next;
	int r = 0;

	if (s->r->n_pins == 0)
		return 0;
	next = s->r->pins[0]->source_version + 1;
	for (size_t i = pf_survey_below(survey, next); r == 0 && i < survey->n_versions; i++) {
		uint64_t v = survey->versions[i].version;
		size_t n = pf_retention_pins_upto(s->r, v - 1);
		if (v > next + 1)
			r = add(s, next, NULL, s->r->pins, n, "it and all up to version %" PRIu64 " are missing",
				v - 1);
		else if (v > next)
			r = add(s, next, NULL, s->r->pins, n, "it is missing");
		next = v + 1;
	}
	return r;
}

static bool is_identified(const struct pf_survey *s, uint64_t version)
{
	return pf_survey_has(s, version) && s->versions[pf_survey_below(s, version)].txn[0];
}

static int check_gap(struct search *s, const struct pf_gap *g)
{
	const struct pf_retention *r = s->r;
	uint64_t first = g->first, oldest = r->n_pins ? r->pins[0]->source_version : PF_STILL;
	size_t n = pf_retention_pins_upto(r, g->last);

	switch (g->kind) {
	case PF_GAP_REF:
		return add(s, 0, g->file, r->pins, r->n_pins, "%s", g->text);
	case PF_GAP_MANIFEST:
	case PF_GAP_FLAGS:
		/* Outside every window too: what such a version refers to may be anything. */
		return add(s, first, g->file, r->pins, n, "%s", g->text);
	case PF_GAP_TRANSACTION:
		/* Of the source itself only its identity is needed, which check_source asks for. */
		if (is_identified(r->in.survey, g->first))
			n = pf_retention_pins_upto(r, g->first - 1);
		return n ? add(s, first, g->file, r->pins, n, "%s", g->text) : 0;
	case PF_GAP_FRI:
		if (first < oldest)
			first = oldest;
		return n ? add(s, first, g->file, r->pins, n, "%s", g->text) : 0;
	}
	return 0;
}

/* Does a gap tell of the file already? */
static bool is_gap(const struct pf_survey *s, const struct pf_surveyed_file *f)
{
	for (size_t i = 0; f->base == 0 && i < s->n_gaps; i++)
		if (s->gaps[i].file && strcmp(s->gaps[i].file, f->path) == 0)
			return true;
	return false;
}

/* A file in a window that is not there, or is not as long as its manifest says; or one of the head that somebody else removed from where it is shared. */
static int check_file(struct search *s, size_t i)
{
	const struct pf_surveyed_file *f = &s->r->in.survey->files[i];
	bool pinned = s->r->files[i] & PF_KEPT_PIN;
	_cleanup_(pf_freep) char *where = NULL;

	if (!pinned && !(f->base && (s->r->files[i] & PF_KEPT_HEAD)))
		return 0;
	bool missing = !f->optional && (f->presence == PF_MISSING || (f->is_dir && f->n_files == 0));
	/* A directory may have more in it than anybody named. */
	bool cut = f->presence == PF_PRESENT && (f->is_dir ? f->size < f->said : f->said && f->size != f->said);
	/* How long a deletion file is no manifest says; a crash before it was on disk may leave nothing of it. */
	bool empty = f->presence == PF_PRESENT && !f->is_dir && f->size == 0 && !f->optional;
	if ((!missing && !cut && !empty) || is_gap(s->r->in.survey, f))
		return 0;
	const char *base = s->r->in.survey->bases[f->base].where;
	if (asprintf(&where, "%s%s%s", base, base[0] ? "/" : "", f->path) < 0)
		return where = NULL, -ENOMEM;
	if (!pinned)
		return missing ? add(s, s->r->in.survey->head->version, where, NULL, 0, "%s is missing", where) : 0;
	/* The first version of a window that refers to it. */
	uint64_t first = s->r->pins[0]->source_version;
	for (uint32_t k = 0; k < f->n_iv; k++) {
		if (f->iv[k].last >= first) {
			first = f->iv[k].first > first ? f->iv[k].first : first;
			break;
		}
	}
	size_t n = pf_retention_pins_upto(s->r, pf_retention_newest(s->r, f));
	if (missing || (empty && !cut))
		return add(s, first, where, s->r->pins, n, "%s is %s", where, missing ? "missing" : "empty");
	return add(s, first, where, s->r->pins, n, "%s: expected %" PRIu64 " bytes, found %" PRIu64, where, f->said,
		   f->size);
}

static int check_branch(struct search *s, const struct pf_branch_needs *b)
{
	if (!b->unknown)
		return 0;
	return add(s, 0, NULL, s->r->pins, 0, "what branch %s needs cannot be told: %s", b->name ? b->name : "main",
		   b->unknown);
}

static int cmp_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->p.version != y->p.version)
		return x->p.version < y->p.version ? -1 : 1;
	int c = strcmp(x->file, y->file);
	return c ? c : strcmp(x->text, y->text);
}

static int find(struct search *s)
{
	const struct pf_retention *r = s->r;
	int e = 0;

	for (size_t i = 0; e == 0 && i < r->n_pins; i++)
		e = check_source(s, i);
	if (e == 0)
		e = check_holes(s);
	for (size_t i = 0; e == 0 && i < r->in.survey->n_gaps; i++)
		e = check_gap(s, &r->in.survey->gaps[i]);
	for (size_t i = 0; e == 0 && i < r->in.survey->n_files; i++)
		e = check_file(s, i);
	for (size_t i = 0; e == 0 && i < r->in.n_branches; i++)
		e = check_branch(s, &r->in.branches[i]);
	if (e == 0 && s->n)
		qsort(s->v, s->n, sizeof(*s->v), cmp_found);
	return e;
}

int pf_retention_problems(const struct pf_retention *r, int (*fn)(void *arg, const struct pf_problem *p), void *arg)
{
	_cleanup_(search_release) struct search s = { .r = r };

	int e = find(&s);
	for (size_t i = 0; e == 0 && i < s.n; i++) {
		struct pf_problem p = s.v[i].p;
		p.text = s.v[i].text;
		p.file = s.v[i].file[0] ? s.v[i].file : NULL;
		e = fn(arg, &p);
	}
	return e;
}

int pf_problem_pins(const struct pf_problem *p, size_t at_most, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < p->n_pins && i < at_most; i++) {
		r = pf_buf_addstr(out, i		? ", "
				       : p->n_pins == 1 ? "; it is needed by pin "
							: "; it is needed by pins ");
		if (r == 0)
			r = pf_pin_describe(p->pins[i], out);
	}
	if (r == 0 && p->n_pins > at_most)
		r = pf_buf_addf(out, " and %zu more", p->n_pins - at_most);
	return r;
}

static int refuse(void *arg, const struct pf_problem *p)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why *why = arg;

	int r = p->version ? pf_buf_addf(&text, "version %" PRIu64 ": ", p->version) : 0;
	if (r == 0)
		r = pf_buf_addstr(&text, p->text);
	if (r == 0)
		r = pf_problem_pins(p, NAMED_MAX, &text);
	const char *s = r == 0 ? pf_buf_str(&text) : NULL;
	return s ? pf_why_set(why, -EBUSY, "%s", s) : -ENOMEM;
}

int pf_retention_verify(const struct pf_retention *r, struct pf_why *why)
{
	return pf_retention_problems(r, refuse, why);
}
