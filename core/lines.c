#include "lines.h"

#include <string.h>

#include "survey_parts.h"

static void line_release(struct pf_line *l)
{
	pf_survey_free(l->survey);
	pf_branch_free(l->branch);
	free(l->unknown);
	free(l->name);
}

void pf_lines_init(struct pf_lines *l, struct pf_store *st)
{
	*l = (struct pf_lines){ .st = st };
}

void pf_lines_release(struct pf_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		line_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_lines){ .st = l->st };
}

static int add_line(struct pf_lines *l, const char *name)
{
	struct pf_line *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n] = (struct pf_line){ .name = name ? strdup(name) : NULL };
	if (name && !v[l->n].name)
		return -ENOMEM;
	l->n++;
	return 0;
}

static bool same_name(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

struct pf_line *pf_lines_find(const struct pf_lines *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (same_name(l->v[i].name, name))
			return &l->v[i];
	return NULL;
}

/* Main, and the branches that have refs: those that were there already keep their surveys. */
static int match(struct pf_lines *l, const struct pf_branch_refs *refs)
{
	struct pf_lines now = { .st = l->st };

	int r = add_line(&now, NULL);
	for (size_t i = 0; r == 0 && i < refs->n; i++)
		r = add_line(&now, refs->v[i].name);
	for (size_t i = 0; r == 0 && i < now.n; i++) {
		struct pf_line *old = pf_lines_find(l, now.v[i].name);
		if (!old)
			continue;
		now.v[i].branch = STEAL(old->branch);
		now.v[i].survey = STEAL(old->survey);
		now.v[i].none_lost = old->none_lost;
	}
	if (r == 0)
		pf_lines_release(l);
	else
		pf_lines_release(&now);
	if (r == 0)
		*l = now;
	return r;
}

static int refresh_line(struct pf_lines *l, struct pf_line *line, pf_progress_fn progress, void *arg,
			struct pf_why *why)
{
	int r = line->branch ? 0 : pf_branch_open(l->st, line->name, &line->branch, why);

	if (r == 0 && !line->survey)
		r = pf_survey_new(line->branch, &line->survey);
	return r < 0 ? r : pf_survey_refresh(line->survey, progress, arg, why);
}

/* A branch that could not be read. */
static int give_up(struct pf_line *line, int err, const struct pf_why *why)
{
	pf_survey_free(STEAL(line->survey));
	pf_branch_free(STEAL(line->branch));
	line->none_lost = 0;
	/* Of a branch whose directory is gone nothing is left to need anything. */
	if (err == -ENOENT)
		return 0;
	line->unknown = strdup(why->text[0] ? why->text : strerror(-err));
	return line->unknown ? 0 : -ENOMEM;
}

/* The refs that main's survey has: a damaged one is a gap there. */
static int refresh_branches(struct pf_lines *l, pf_progress_fn progress, void *arg, struct pf_why *why)
{
	int r = match(l, &l->v[0].survey->refs);

	for (size_t i = 1; r == 0 && i < l->n; i++) {
		struct pf_why inner = PF_WHY_INIT;
		r = refresh_line(l, &l->v[i], progress, arg, &inner);
		if (r == -EINTR)
			return pf_why_set(why, r, "%s", inner.text);
		if (r < 0 && r != -ENOMEM)
			r = give_up(&l->v[i], r, &inner);
	}
	return r;
}

int pf_lines_refresh(struct pf_lines *l, pf_progress_fn progress, void *arg, struct pf_why *why)
{
	int r = l->n ? 0 : add_line(l, NULL);

	if (r == 0)
		r = refresh_line(l, &l->v[0], progress, arg, why);
	return r < 0 ? r : refresh_branches(l, progress, arg, why);
}

static const struct pf_branch_ref *ref_of(const struct pf_branch_refs *refs, const char *name)
{
	for (size_t i = 0; name && i < refs->n; i++)
		if (strcmp(refs->v[i].name, name) == 0)
			return &refs->v[i];
	return NULL;
}

size_t pf_lines_depth(const struct pf_lines *l, const char *name)
{
	const struct pf_branch_refs *refs = &l->v[0].survey->refs;
	size_t n = 0;

	/* As many steps as there are branches, in case they go round. */
	for (const struct pf_branch_ref *b = ref_of(refs, name); b && n < refs->n; b = ref_of(refs, b->parent))
		n++;
	return n;
}

/* Does the ancestry of `b` go on from that of `a` (NULL: main)? */
static bool descends(const struct pf_branch_ref *b, const struct pf_branch_ref *a)
{
	size_t n = a ? a->n_mapping : 0;

	if (b->n_mapping <= n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (b->mapping_version[i] != a->mapping_version[i] || strcmp(b->mapping_id[i], a->mapping_id[i]) != 0)
			return false;
	return true;
}

/*
 * The version of `line` that branch `name` hangs from, itself or by the branches between: 0 if from none. A ref without identifier, as Lance up to 1.0
 * leaves them, says its parent (lance-14-cleanup D3).
 */
static uint64_t root_of(const struct pf_branch_refs *refs, const char *line, const char *name)
{
	const struct pf_branch_ref *of = ref_of(refs, line);

	/* As many steps as there are branches, in case they go round. */
	for (size_t i = 0; name && i < refs->n; i++) {
		const struct pf_branch_ref *b = ref_of(refs, name);
		if (!b || (line && !of))
			return 0;
		if (!b->synthetic_id && !(of && of->synthetic_id))
			return descends(b, of) ? b->mapping_version[of ? of->n_mapping : 0] : 0;
		if (same_name(b->parent, line))
			return b->parent_version;
		name = b->parent;
	}
	return 0;
}

/* Why it cannot be told what this line needs, NULL if it can. */
static const char *unknown_of(const struct pf_line *line)
{
	if (line->unknown || !line->survey)
		return line->unknown;
	for (size_t i = 0; i < line->survey->n_gaps; i++)
		if (line->survey->gaps[i].kind == PF_GAP_MANIFEST || line->survey->gaps[i].kind == PF_GAP_FLAGS)
			return line->survey->gaps[i].text;
	return NULL;
}

static int cmp_index(const void *a, const void *b)
{
	const size_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The files of `other` that lie in the directory of s. */
static int find_files(struct pf_survey *s, const struct pf_survey *other, struct pf_file_list *out)
{
	struct pf_file_set *set = &s->state->set;

	for (size_t i = 0; i < other->n_files; i++) {
		const struct pf_surveyed_file *f = &other->files[i];
		if (f->base || f->own || !pf_place_is_own(f->path, pf_survey_dir(s), &s->refs))
			continue;
		const struct pf_surveyed_file like = {
			.cls = f->cls, .own = true, .optional = f->optional, .said = f->said
		};
		int64_t at = pf_file_set_add(set, 0, f->path, &like);
		if (at < 0)
			return (int)at;
		set->v[at].needed = true;
		int r = pf_file_list_add(out, (size_t)at);
		if (r < 0)
			return r;
	}
	if (out->n)
		qsort(out->v, out->n, sizeof(*out->v), cmp_index);
	return 0;
}

static int needs_of(struct pf_survey *s, const struct pf_line *other, struct pf_branch_needs *out)
{
	struct pf_file_list files = { NULL };
	const char *unknown = unknown_of(other);

	*out = (struct pf_branch_needs){ .name = other->name ? strdup(other->name) : NULL,
					 .unknown = unknown ? strdup(unknown) : NULL };
	if ((other->name && !out->name) || (unknown && !out->unknown))
		return -ENOMEM;
	int r = other->survey ? find_files(s, other->survey, &files) : 0;
	out->files = files.v;
	out->n_files = files.n;
	if (files.n)
		out->root_version = root_of(&s->refs, pf_survey_branch(s), other->name);
	return r;
}

void pf_needs_release(struct pf_needs *n)
{
	for (size_t i = 0; i < n->n; i++) {
		free(n->v[i].name);
		free(n->v[i].unknown);
		free(n->v[i].files);
	}
	free(n->v);
	*n = (struct pf_needs){ NULL, 0 };
}

int pf_lines_needs(struct pf_lines *l, struct pf_line *line, struct pf_needs *out)
{
	_cleanup_(pf_needs_release) struct pf_needs needs = { calloc(l->n ? l->n : 1, sizeof(*needs.v)), 0 };
	struct pf_survey *s = line->survey;
	int r = 0;

	if (!needs.v)
		return -ENOMEM;
	for (size_t i = 0; i < s->state->set.n; i++)
		s->state->set.v[i].needed = false;
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		struct pf_branch_needs *n = &needs.v[needs.n];
		if (&l->v[i] == line)
			continue;
		needs.n++;
		r = needs_of(s, &l->v[i], n);
	}
	pf_file_set_follow(&s->state->set);
	pf_survey_show(s);
	if (r < 0)
		return r;
	*out = needs;
	needs = (struct pf_needs){ NULL, 0 };
	return 0;
}
