#include "survey.h"

#include <inttypes.h>
#include <string.h>

#include "survey_parts.h"

/* A head that is gone each time it is looked at is not a race. */
#define TRIES_MAX 10

static void gap_release(struct pf_gap *g)
{
	free(g->file);
	free(g->text);
}

static void state_release(struct pf_survey_state *st)
{
	pf_file_set_release(&st->set);
	for (size_t i = 0; i < st->bases.n; i++) {
		free(st->bases.v[i].where);
		free(st->bases.v[i].perhaps);
	}
	free(st->bases.v);
	pf_held_release(&st->held[0]);
	pf_held_release(&st->held[1]);
	pf_places_release(&st->places);
	pf_buf_release(&st->index);
	pf_buf_release(&st->fri);
	free(st->indices.v);
	free(st->maps.v);
}

/* Keep the gaps that `keep` says. */
static void filter_gaps(struct pf_survey *s, bool (*keep)(const struct pf_survey *s, const struct pf_gap *g))
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_gaps; i++) {
		if (keep(s, &s->gaps[i]))
			s->gaps[n++] = s->gaps[i];
		else
			gap_release(&s->gaps[i]);
	}
	s->n_gaps = n;
}

static bool is_ref_gap(const struct pf_survey *s, const struct pf_gap *g)
{
	return g->kind == PF_GAP_REF;
}

static bool is_version_gap(const struct pf_survey *s, const struct pf_gap *g)
{
	return g->kind != PF_GAP_REF;
}

/* Forget all versions. */
static int reset(struct pf_survey *s)
{
	struct pf_survey_state *st = s->state;
	struct pf_branch *b = st->b;

	filter_gaps(s, is_ref_gap);
	free(STEAL(s->versions));
	s->n_versions = 0;
	state_release(st);
	*st = (struct pf_survey_state){ .b = b, .st = pf_branch_store(b), .broken = true };
	st->bases.v = calloc(1, sizeof(*st->bases.v));
	if (!st->bases.v)
		return -ENOMEM;
	st->bases.n = 1;
	st->bases.v[0].where = strdup("");
	if (!st->bases.v[0].where)
		return -ENOMEM;
	int r = pf_file_set_init(&st->set);
	st->broken = r < 0;
	pf_survey_show(s);
	return r;
}

int pf_survey_new(struct pf_branch *b, struct pf_survey **out)
{
	_cleanup_(pf_survey_freep) struct pf_survey *s = calloc(1, sizeof(*s));

	if (!s || !(s->state = calloc(1, sizeof(*s->state))))
		return -ENOMEM;
	s->state->b = b;
	int r = reset(s);
	if (r == 0)
		*out = STEAL(s);
	return r;
}

void pf_survey_free(struct pf_survey *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_gaps; i++)
		gap_release(&s->gaps[i]);
	free(s->gaps);
	free(s->versions);
	pf_manifest_unref(s->head);
	pf_pins_release(&s->pins);
	pf_tags_release(&s->tags);
	pf_branch_refs_release(&s->refs);
	if (s->state)
		state_release(s->state);
	free(s->state);
	free(s);
}

void pf_survey_freep(struct pf_survey **s)
{
	pf_survey_free(*s);
}

const char *pf_survey_branch(const struct pf_survey *s)
{
	return pf_branch_name(s->state->b);
}

const char *pf_survey_dir(const struct pf_survey *s)
{
	return pf_branch_dir(s->state->b);
}

void pf_survey_show(struct pf_survey *s)
{
	s->files = s->state->set.v;
	s->n_files = s->state->set.n;
	s->bases = s->state->bases.v;
	s->n_bases = s->state->bases.n;
}

static int bad_ref(void *arg, const char *file, const char *text)
{
	return pf_survey_add_gap(arg, PF_GAP_REF, 0, PF_STILL, file, -EBADMSG, text);
}

/* Does a tag say this branch? */
static bool is_of(const struct pf_tag *t, const char *branch)
{
	return branch ? t->branch && strcmp(t->branch, branch) == 0 : !t->branch;
}

static int read_refs(struct pf_survey *s, struct pf_why *why)
{
	struct pf_tags tags = { 0 };
	struct pf_branch_refs refs = { 0 };
	size_t n = 0;

	filter_gaps(s, is_version_gap);
	int r = pf_tags_scan(s->state->st, bad_ref, s, &tags, why);
	if (r == 0)
		r = pf_branches_scan(s->state->st, bad_ref, s, &refs, why);
	if (r < 0) {
		pf_tags_release(&tags);
		return r;
	}
	for (size_t i = 0; i < tags.n; i++) {
		if (is_of(&tags.v[i], pf_survey_branch(s)))
			tags.v[n++] = tags.v[i];
		else
			pf_tag_release(&tags.v[i]);
	}
	tags.n = n;
	pf_tags_release(&s->tags);
	pf_branch_refs_release(&s->refs);
	s->tags = tags;
	s->refs = refs;
	return 0;
}

/* Is a version's manifest still the file that was read? 1 or 0. */
static int is_same(struct pf_survey *s, const struct pf_surveyed_version *v)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	char base[PF_MANIFEST_NAME_MAX];
	struct pf_stat st;

	pf_manifest_name_format(v->version, v->v2, base);
	int r = pf_buf_addf(&path, "%s_versions/%s", pf_survey_dir(s), base);
	const char *name = r == 0 ? pf_buf_str(&path) : NULL;
	if (!name)
		return -ENOMEM;
	r = pf_store_stat(s->state->st, name, &st);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	return st.size == v->manifest_size && st.ino == v->ino && st.mtime_ns == v->mtime_ns;
}

/* Is what could not be read still as it was? */
static bool gaps_stand(struct pf_survey *s)
{
	for (size_t i = 0; i < s->n_gaps; i++) {
		const struct pf_gap *g = &s->gaps[i];
		struct pf_stat now;
		if (g->kind == PF_GAP_REF)
			continue;
		if (pf_store_stat(s->state->st, g->file, &now) < 0)
			now = (struct pf_stat){ 0 };
		if (g->passing || !pf_stat_same(&now, &g->seen))
			return false;
	}
	return true;
}

size_t pf_survey_below(const struct pf_survey *s, uint64_t v)
{
	size_t lo = 0, hi = s->n_versions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (s->versions[mid].version < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool pf_survey_has(const struct pf_survey *s, uint64_t v)
{
	size_t i = pf_survey_below(s, v);

	return i < s->n_versions && s->versions[i].version == v;
}

/* Is a version kept that the gap is of? */
static bool is_kept_gap(const struct pf_survey *s, const struct pf_gap *g)
{
	size_t i = pf_survey_below(s, g->first);

	return g->kind == PF_GAP_REF || (i < s->n_versions && s->versions[i].version <= g->last);
}

/* Keep the versions that are listed. How many of the listed are in, or -ESTALE if what is in is of another table: see below. */
static int64_t match(struct pf_survey *s, const struct pf_version_entry *v, size_t n)
{
	const struct pf_manifest *last = s->state->held[s->state->now].m;
	size_t kept = 0, i = 0;

	for (size_t k = 0; k < s->n_versions; k++) {
		if (i == n || v[i].version > s->versions[k].version)
			continue;
		if (v[i].version < s->versions[k].version)
			return -ESTALE; /* it was not there */
		i++;
		s->versions[kept++] = s->versions[k];
	}
	if (kept < s->n_versions)
		s->state->prune = true;
	s->n_versions = kept;
	filter_gaps(s, is_kept_gap);
	/* The head itself was removed: what it was compared with is not at hand any more. */
	if (kept == 0 || (i == n && last && last->version > v[n - 1].version))
		return -ESTALE;
	int r = is_same(s, &s->versions[kept - 1]);
	if (r < 0)
		return r;
	return r > 0 && gaps_stand(s) ? (int64_t)i : -ESTALE;
}

/*
 * Leave out the versions that are not listed any more; *in of the listed ones are in. All is begun anew if they are not what they were: a table that
 * was made again, manifests renamed or put back, damage repaired.
 */
static int reconcile(struct pf_survey *s, const struct pf_version_entry *v, size_t n, size_t *in)
{
	int64_t r = s->state->broken ? -ESTALE : match(s, v, n);

	*in = r > 0 ? (size_t)r : 0;
	if (r == -ESTALE)
		return reset(s);
	return r < 0 ? (int)r : 0;
}

static void remap(struct pf_file_list *l, const size_t *map)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (map[l->v[i]] != SIZE_MAX)
			l->v[n++] = map[l->v[i]];
	l->n = n;
}

/* Leave out what no version refers to any more. */
static int prune(struct pf_survey *s)
{
	struct pf_survey_state *st = s->state;
	_cleanup_(pf_freep) uint64_t *versions = calloc(s->n_versions ? s->n_versions : 1, sizeof(*versions));
	_cleanup_(pf_freep) size_t *map = NULL;
	size_t kept = 0, damaged = 0, n = s->n_versions;

	if (!versions)
		return -ENOMEM;
	/* The kept ones, and behind them the damaged ones. */
	for (size_t i = 0; i < n; i++)
		if (s->versions[i].readable)
			versions[kept++] = s->versions[i].version;
		else
			damaged++;
	for (size_t i = 0, at = kept; i < n; i++)
		if (!s->versions[i].readable)
			versions[at++] = s->versions[i].version;
	int r = pf_file_set_prune(&st->set, (struct pf_version_list){ versions, kept },
				  (struct pf_version_list){ versions + kept, damaged }, &map);
	if (r < 0)
		return r;
	remap(&st->indices, map);
	remap(&st->maps, map);
	st->prune = false;
	return 0;
}

/* The versions are all in. */
static int finish(struct pf_survey *s, struct pf_why *why)
{
	struct pf_survey_state *st = s->state;
	const struct pf_surveyed_version *last = s->n_versions ? &s->versions[s->n_versions - 1] : NULL;
	struct pf_manifest *head = st->held[st->now].m;
	struct pf_pins pins = PF_PINS_INIT;

	pf_file_close(STEAL(st->held[st->now].file));
	for (size_t i = 0; last && !last->readable && i < s->n_gaps; i++)
		if (s->gaps[i].kind == PF_GAP_MANIFEST && s->gaps[i].first == last->version)
			return pf_why_set(why, -EBADMSG, "%s", s->gaps[i].text);
	pf_file_set_follow(&st->set);
	int r = st->prune ? prune(s) : 0;
	if (r == 0)
		r = pf_pins_copy(&head->pins, &pins);
	if (r < 0)
		return r;
	pf_manifest_unref(s->head);
	s->head = pf_manifest_ref(head);
	pf_pins_release(&s->pins);
	s->pins = pins;
	return 0;
}

/*
 * -ESTALE: to be done again, since a listed version was not there. The head was removed, so there is a newer one; or, when `again` is wanted, any: its
 * manifest may have been renamed.
 */
static int refresh(struct pf_survey *s, bool again, pf_progress_fn progress, void *arg, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	bool gone = false;
	size_t n, i;

	int r = read_refs(s, why);
	if (r == 0)
		r = pf_branch_versions(s->state->b, &v, &n, why);
	if (r == 0)
		r = reconcile(s, v, n, &i);
	for (; r == 0 && i < n; i++) {
		r = pf_survey_take(s, &v[i]);
		if (r > 0) {
			gone = gone || again || i + 1 == n;
			r = 0;
		}
		if (r == 0 && progress && progress(arg, i + 1, n) != 0)
			return pf_why_set(why, -EINTR, "interrupted after %zu of %zu versions", i + 1, n);
	}
	if (r == 0 && gone)
		return -ESTALE;
	return r < 0 ? r : finish(s, why);
}

int pf_survey_refresh(struct pf_survey *s, pf_progress_fn progress, void *arg, struct pf_why *why)
{
	int r = -ESTALE;

	s->manifests_read = 0;
	for (int i = 0; r == -ESTALE && i < TRIES_MAX; i++)
		r = refresh(s, i == 0, progress, arg, why);
	pf_survey_show(s);
	if (r == -ESTALE)
		return pf_why_set(why, -EIO, "%s_versions/: its newest manifest is listed and cannot be found",
				  pf_survey_dir(s));
	return r;
}
