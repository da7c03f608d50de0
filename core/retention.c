#include "retention.h"

#include <string.h>

#include "guard.h"
#include "retention_parts.h"

size_t pf_retention_pins_upto(const struct pf_retention *r, uint64_t v)
{
	size_t lo = 0, hi = r->n_pins;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (r->pins[mid]->source_version <= v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t pf_retention_newest(const struct pf_retention *r, const struct pf_surveyed_file *f)
{
	const struct pf_survey *s = r->in.survey;
	uint64_t last = f->iv[f->n_iv - 1].last;

	return last == PF_STILL ? s->versions[s->n_versions - 1].version : last;
}

bool pf_retention_counts(const struct pf_retention *r, size_t file)
{
	return r->in.survey->files[file].n_iv > 0 || r->files[file];
}

static int cmp_source(const void *a, const void *b)
{
	const struct pf_pin *const *x = a, *const *y = b;

	if ((*x)->source_version != (*y)->source_version)
		return (*x)->source_version < (*y)->source_version ? -1 : 1;
	return *x < *y ? -1 : *x > *y; /* as they are stored */
}

static int take_pins(struct pf_retention *r)
{
	const struct pf_pins *pins = &r->in.survey->pins;

	r->pins = calloc(pins->n ? pins->n : 1, sizeof(*r->pins));
	if (!r->pins)
		return -ENOMEM;
	for (size_t i = 0; i < pins->n; i++) {
		bool released = false;
		for (size_t k = 0; !released && k < r->in.n_released; k++)
			released = pf_uuid_eq(&pins->v[i].id, &r->in.released[k]);
		if (!released)
			r->pins[r->n_pins++] = &pins->v[i];
	}
	if (r->n_pins)
		qsort(r->pins, r->n_pins, sizeof(*r->pins), cmp_source);
	return 0;
}

static int take_tags(struct pf_retention *r)
{
	const struct pf_tags *tags = &r->in.survey->tags;

	r->tags = calloc(tags->n ? tags->n : 1, sizeof(*r->tags));
	if (!r->tags)
		return -ENOMEM;
	for (size_t i = 0; i < tags->n; i++) {
		struct pf_guard guard;
		int is_guard = pf_guard_from_tag(&tags->v[i], &guard, NULL);
		if (is_guard == -ENOMEM)
			return is_guard;
		/* On a version that is not there it keeps nothing, whatever happens around it. One with our name and another shape is a tag. */
		bool counts = pf_survey_has(r->in.survey, tags->v[i].version) && is_guard != 1;
		for (size_t k = 0; counts && k < r->in.n_untagged; k++)
			counts = strcmp(tags->v[i].name, r->in.untagged[k]) != 0;
		if (counts)
			r->tags[r->n_tags++] = &tags->v[i];
	}
	return 0;
}

static bool is_listed(const struct pf_policy *p, uint64_t v)
{
	size_t lo = 0, hi = p->n_versions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (p->versions[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < p->n_versions && p->versions[lo] == v;
}

/* now - older_than, in ns; clamped as timestamps are. */
static int64_t cut_off(struct pf_time now, int64_t older_than)
{
	__int128 ns = (__int128)now.sec * 1000000000 + now.nsec - older_than;

	return ns < INT64_MIN ? INT64_MIN : ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

/* Does the policy let version i go? One that is damaged has no timestamp that one could go by. */
static bool lets_go(const struct pf_retention_input *in, size_t i)
{
	const struct pf_policy *p = in->policy;
	const struct pf_surveyed_version *v = &in->survey->versions[i];

	if (!p)
		return true;
	if (!p->any)
		return false;
	if (p->has_older_than && !(v->readable && v->timestamp_ns < cut_off(in->now, p->older_than_ns)))
		return false;
	if (p->before_version && v->version >= p->before_version)
		return false;
	if (p->retain && in->survey->n_versions - i <= p->retain)
		return false;
	return !p->versions || is_listed(p, v->version);
}

static void mark_version(struct pf_retention *r, uint64_t v, enum pf_reason why)
{
	if (pf_survey_has(r->in.survey, v))
		r->versions[pf_survey_below(r->in.survey, v)] |= (uint8_t)why;
}

static int judge_versions(struct pf_retention *r)
{
	const struct pf_survey *s = r->in.survey;

	r->versions = calloc(s->n_versions ? s->n_versions : 1, sizeof(*r->versions));
	if (!r->versions)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_versions; i++) {
		if (r->n_pins && s->versions[i].version >= r->pins[0]->source_version)
			r->versions[i] |= PF_KEPT_PIN;
		if (!lets_go(&r->in, i))
			r->versions[i] |= PF_KEPT_POLICY;
	}
	if (s->n_versions)
		r->versions[s->n_versions - 1] |= PF_KEPT_HEAD;
	for (size_t i = 0; i < r->n_tags; i++)
		mark_version(r, r->tags[i]->version, PF_KEPT_TAG);
	for (size_t i = 0; i < r->in.n_branches; i++)
		if (r->in.branches[i].root_version) /* else it needs none */
			mark_version(r, r->in.branches[i].root_version, PF_KEPT_BRANCH);
	return 0;
}

/* The versions of an interval, as indices from lo up to, not including, hi. */
static void range_of(const struct pf_survey *s, const struct pf_interval *iv, size_t *lo, size_t *hi)
{
	*lo = pf_survey_below(s, iv->first);
	*hi = iv->last == PF_STILL ? s->n_versions : pf_survey_below(s, iv->last + 1);
}

/*
 * next[i]: the first version from i on that any of `bits` keeps, n_versions if none does. So a file is kept for it if that of the start of one of its
 * intervals is in the interval.
 */
static size_t *next_kept(const struct pf_retention *r, unsigned bits)
{
	size_t n = r->in.survey->n_versions, *next = calloc(n + 1, sizeof(*next));

	if (!next)
		return NULL;
	next[n] = n;
	for (size_t i = n; i > 0; i--)
		next[i - 1] = r->versions[i - 1] & bits ? i - 1 : next[i];
	return next;
}

/* Files of the versions that `why` keeps. */
static int judge_files_by(struct pf_retention *r, enum pf_reason why)
{
	const struct pf_survey *s = r->in.survey;
	_cleanup_(pf_freep) size_t *next = next_kept(r, why);

	if (!next)
		return -ENOMEM;
	if (next[0] == s->n_versions)
		return 0; /* it keeps none */
	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		/* From its end: what keeps anything keeps the newest versions, mostly. */
		for (uint32_t k = f->n_iv; k > 0 && !(r->files[i] & why); k--) {
			size_t lo, hi;
			range_of(s, &f->iv[k - 1], &lo, &hi);
			if (next[lo] < hi)
				r->files[i] |= (uint8_t)why;
		}
	}
	return 0;
}

static int judge_files(struct pf_retention *r)
{
	static const enum pf_reason each[] = { PF_KEPT_HEAD, PF_KEPT_PIN, PF_KEPT_TAG, PF_KEPT_BRANCH, PF_KEPT_POLICY };
	int e = 0;

	r->files = calloc(r->in.survey->n_files ? r->in.survey->n_files : 1, sizeof(*r->files));
	if (!r->files)
		return -ENOMEM;
	for (size_t i = 0; e == 0 && i < ARRAY_LEN(each); i++)
		e = judge_files_by(r, each[i]);
	for (size_t i = 0; i < r->in.n_branches; i++)
		for (size_t k = 0; k < r->in.branches[i].n_files; k++)
			r->files[r->in.branches[i].files[k]] |= PF_KEPT_BRANCH;
	for (size_t i = 0; i < r->in.survey->n_files; i++)
		if (r->in.survey->files[i].sidecar_of)
			r->files[i] = r->files[r->in.survey->files[i].sidecar_of - 1];
	return e;
}

int pf_retention_new(const struct pf_retention_input *in, struct pf_retention **out)
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->in = *in;
	int e = take_pins(r);
	if (e == 0)
		e = take_tags(r);
	if (e == 0)
		e = judge_versions(r);
	if (e == 0)
		e = judge_files(r);
	if (e == 0)
		*out = STEAL(r);
	return e;
}

void pf_retention_free(struct pf_retention *r)
{
	if (!r)
		return;
	free(r->pins);
	free(r->tags);
	free(r->versions);
	free(r->files);
	free(r);
}

void pf_retention_freep(struct pf_retention **r)
{
	pf_retention_free(*r);
}

unsigned pf_retention_version(const struct pf_retention *r, size_t version)
{
	return r->versions[version];
}

unsigned pf_retention_file(const struct pf_retention *r, size_t file)
{
	return r->files[file];
}

static int tell(pf_reason_fn fn, void *arg, enum pf_reason kind, const struct pf_pin *pin, const char *name)
{
	const struct pf_named_reason one = { .kind = kind, .pin = pin, .name = name };

	return fn(arg, &one);
}

static int tell_pins(const struct pf_retention *r, uint64_t newest, pf_reason_fn fn, void *arg)
{
	size_t n = pf_retention_pins_upto(r, newest);
	int e = 0;

	for (size_t i = 0; e == 0 && i < n; i++)
		e = tell(fn, arg, PF_KEPT_PIN, r->pins[i], NULL);
	return e;
}

static const char *branch_name(const struct pf_branch_needs *b)
{
	return b->name ? b->name : "main";
}

int pf_retention_version_each(const struct pf_retention *r, size_t version, pf_reason_fn fn, void *arg)
{
	uint64_t v = r->in.survey->versions[version].version;
	unsigned bits = r->versions[version];

	int e = tell_pins(r, v, fn, arg);
	if (e == 0 && (bits & PF_KEPT_HEAD))
		e = tell(fn, arg, PF_KEPT_HEAD, NULL, NULL);
	for (size_t i = 0; e == 0 && i < r->n_tags; i++)
		if (r->tags[i]->version == v)
			e = tell(fn, arg, PF_KEPT_TAG, NULL, r->tags[i]->name);
	for (size_t i = 0; e == 0 && i < r->in.n_branches; i++)
		if (r->in.branches[i].root_version == v)
			e = tell(fn, arg, PF_KEPT_BRANCH, NULL, branch_name(&r->in.branches[i]));
	if (e == 0 && (bits & PF_KEPT_POLICY))
		e = tell(fn, arg, PF_KEPT_POLICY, NULL, NULL);
	return e;
}

static bool refers(const struct pf_surveyed_file *f, uint64_t version)
{
	uint32_t lo = 0, hi = f->n_iv;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (f->iv[mid].last < version)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->n_iv && f->iv[lo].first <= version;
}

static int cmp_index(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool branch_holds(const struct pf_retention *r, const struct pf_branch_needs *b, size_t file)
{
	const struct pf_surveyed_file *f = &r->in.survey->files[file];

	return (b->root_version && pf_survey_has(r->in.survey, b->root_version) && refers(f, b->root_version)) ||
	       (b->n_files && bsearch(&file, b->files, b->n_files, sizeof(*b->files), cmp_index));
}

int pf_retention_file_each(const struct pf_retention *r, size_t file, pf_reason_fn fn, void *arg)
{
	if (r->in.survey->files[file].sidecar_of)
		file = r->in.survey->files[file].sidecar_of - 1;
	const struct pf_surveyed_file *f = &r->in.survey->files[file];
	unsigned bits = r->files[file];
	int e = 0;

	if (bits & PF_KEPT_PIN)
		e = tell_pins(r, pf_retention_newest(r, f), fn, arg);
	if (e == 0 && (bits & PF_KEPT_HEAD))
		e = tell(fn, arg, PF_KEPT_HEAD, NULL, NULL);
	for (size_t i = 0; e == 0 && (bits & PF_KEPT_TAG) && i < r->n_tags; i++)
		if (refers(f, r->tags[i]->version))
			e = tell(fn, arg, PF_KEPT_TAG, NULL, r->tags[i]->name);
	for (size_t i = 0; e == 0 && (bits & PF_KEPT_BRANCH) && i < r->in.n_branches; i++)
		if (branch_holds(r, &r->in.branches[i], file))
			e = tell(fn, arg, PF_KEPT_BRANCH, NULL, branch_name(&r->in.branches[i]));
	if (e == 0 && (bits & PF_KEPT_POLICY))
		e = tell(fn, arg, PF_KEPT_POLICY, NULL, NULL);
	return e;
}

int pf_reason_text(const struct pf_named_reason *reason, struct pf_buf *out)
{
	char id[PF_UUID_TEXT];
	int r;

	switch (reason->kind) {
	case PF_KEPT_HEAD:
		return pf_buf_addstr(out, "head");
	case PF_KEPT_POLICY:
		return pf_buf_addstr(out, "policy");
	case PF_KEPT_PIN:
		pf_uuid_format(&reason->pin->id, id);
		return pf_buf_addf(out, "pin:%s", id);
	case PF_KEPT_TAG:
	case PF_KEPT_BRANCH:
		r = pf_buf_addstr(out, reason->kind == PF_KEPT_TAG ? "tag:" : "branch:");
		return r < 0 ? r : pf_text_escape(reason->name, strlen(reason->name), out);
	}
	return 0;
}

/* Reasons joined by commas, from `start` on. */
struct joined {
	struct pf_buf *out;
	size_t start;
};

static int join(void *arg, const struct pf_named_reason *reason)
{
	struct joined *j = arg;
	int r = j->out->len > j->start ? pf_buf_addch(j->out, ',') : 0;

	return r < 0 ? r : pf_reason_text(reason, j->out);
}

int pf_retention_version_reasons(const struct pf_retention *r, size_t version, struct pf_buf *out)
{
	return pf_retention_version_each(r, version, join, &(struct joined){ out, out->len });
}

int pf_retention_file_reasons(const struct pf_retention *r, size_t file, struct pf_buf *out)
{
	return pf_retention_file_each(r, file, join, &(struct joined){ out, out->len });
}

void pf_retention_totals(const struct pf_retention *r, struct pf_retention_totals *out)
{
	const struct pf_survey *s = r->in.survey;
	struct pf_retention_totals t = { .has_window = r->n_pins > 0 };

	if (t.has_window)
		t.oldest_source = r->pins[0]->source_version;
	for (size_t i = 0; i < s->n_versions; i++)
		*(r->versions[i] ? &t.versions_kept : &t.versions_free) += 1;
	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		if (!pf_retention_counts(r, i) || f->presence == PF_MISSING)
			continue;
		if (f->own) {
			*(r->files[i] ? &t.files_kept : &t.files_free) += f->n_files;
			*(r->files[i] ? &t.bytes_kept : &t.bytes_free) += f->size;
		} else if (r->files[i]) {
			t.files_elsewhere += f->n_files;
			t.bytes_elsewhere += f->size;
		}
	}
	*out = t;
}
