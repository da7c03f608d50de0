#include <inttypes.h>
#include <string.h>

#include "explain_parts.h"
#include "source.h"
#include "survey_parts.h"

#define NOT_SET UINT32_MAX

/* What a source needs of one record: pf_fri_need, as small as it can be, since there may be many of both. */
struct need {
	uint32_t via; /* the record before, NOT_SET: a source fragment led here */
	uint32_t fragment;
};

/* All pins of one source version have the same needs. */
struct source {
	uint64_t version;
	char txn[PF_UUID_TEXT];
	bool asked;
	int err; /* they cannot be told, */
	struct pf_why why;
	struct need *need;
	uint8_t *state; /* of each record: NEEDED, AMBIGUOUS */
};

enum { NEEDED = 1, AMBIGUOUS = 2 };

/* The indices of one name, as a section of their own. */
struct consumer {
	const char *name;
	bool *needed;
	int err;
	struct pf_why why;
};

struct pf_explained_fri {
	int err; /* -ENODATA: there is none */
	struct pf_why why;
	struct pf_fri fri;
	struct pf_indices indices;
	struct source *sources;
	size_t n_sources;
	struct consumer *consumers;
	size_t n_consumers;
	bool consumers_asked;
};

void pf_explained_fri_free(struct pf_explained_fri *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->n_sources; i++) {
		free(x->sources[i].need);
		free(x->sources[i].state);
	}
	free(x->sources);
	for (size_t i = 0; i < x->n_consumers; i++)
		free(x->consumers[i].needed);
	free(x->consumers);
	pf_fri_release(&x->fri);
	pf_indices_release(&x->indices);
	free(x);
}

static int read_history(const struct pf_explain *e, struct pf_explained_fri *x, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *there = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_survey_state *state = e->survey->state;
	const struct pf_manifest *head = e->survey->head;
	const struct pf_index *entry = NULL;
	struct pf_why inner = PF_WHY_INIT;
	struct pf_fri_base base;

	int r = pf_indices_read(state->st, head, &x->indices, why);
	if (r < 0)
		return r;
	r = pf_fri_entry(&x->indices, &entry, &inner);
	if (r == 0 && !entry)
		return pf_why_set(why, -ENODATA, "%s has no fragment reuse index", head->name);
	if (r == 0)
		r = pf_manifest_reopen(state->st, head, &file, &inner);
	if (r == 0)
		r = pf_survey_fri_base(e->survey, &state->places, entry, &base, &there, &inner);
	if (r == 0)
		r = pf_fri_read_entry(&base, &file->r, entry, &x->fri, &inner);
	return r < 0 ? pf_why_set(why, r, "%s: %s", head->name, pf_text_of(r, &inner)) : 0;
}

/* One for each version that is a source, in the order of the pins. */
static int take_sources(const struct pf_explain *e, struct pf_explained_fri *x)
{
	const struct pf_pins *pins = &e->survey->pins;

	x->sources = calloc(pins->n ? pins->n : 1, sizeof(*x->sources));
	if (!x->sources)
		return -ENOMEM;
	for (size_t i = 0; i < pins->n; i++) {
		struct source *s = x->sources;
		while (s < x->sources + x->n_sources &&
		       (s->version != pins->v[i].source_version || strcmp(s->txn, pins->v[i].source_txn) != 0))
			s++;
		if (s < x->sources + x->n_sources)
			continue;
		s->version = pins->v[i].source_version;
		memcpy(s->txn, pins->v[i].source_txn, sizeof(s->txn));
		x->n_sources++;
	}
	return 0;
}

/* *out is the history, once it could be read. */
static int load(struct pf_explain *e, struct pf_explained_fri **out, struct pf_why *why)
{
	if (!e->fri) {
		struct pf_explained_fri *x = calloc(1, sizeof(*x));
		if (!x)
			return -ENOMEM;
		x->err = read_history(e, x, &x->why);
		if (x->err == 0)
			x->err = take_sources(e, x);
		if (x->err == -ENOMEM) {
			pf_explained_fri_free(x);
			return -ENOMEM;
		}
		e->fri = x;
	}
	if (e->fri->err < 0)
		return pf_why_set(why, e->fri->err, "%s", pf_text_of(e->fri->err, &e->fri->why));
	*out = e->fri;
	return 0;
}

int pf_explain_fri(struct pf_explain *e, const struct pf_fri **out, struct pf_why *why)
{
	struct pf_explained_fri *x;
	int r = load(e, &x, why);

	if (r == 0)
		*out = &x->fri;
	return r;
}

/* Is the version still what the pin says? */
static int check_source(const struct pf_explain *e, const struct source *s, struct pf_why *why)
{
	for (size_t i = 0; i < e->survey->n_versions; i++) {
		const struct pf_surveyed_version *v = &e->survey->versions[i];
		if (v->version != s->version)
			continue;
		if (!v->readable || strcmp(v->txn, s->txn) == 0)
			return 0; /* unreadable: reading says so */
		return pf_why_set(why, -EBADMSG,
				  "version %" PRIu64 ": expected the source to be of transaction %s, found %s",
				  s->version, s->txn, v->txn[0] ? v->txn : "none");
	}
	return pf_why_set(why, -ENOENT, "version %" PRIu64 ", the source, is missing", s->version);
}

static int keep_needs(struct source *s, const struct pf_fri_need *needs, size_t n)
{
	_cleanup_(pf_freep) struct need *need = reallocarray(NULL, n + 1, sizeof(*need));
	_cleanup_(pf_freep) uint8_t *state = calloc(n + 1, sizeof(*state));

	if (!need || !state)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		need[i] =
			(struct need){ needs[i].via == SIZE_MAX ? NOT_SET : (uint32_t)needs[i].via, needs[i].fragment };
		state[i] = (uint8_t)((needs[i].needed ? NEEDED : 0) | (needs[i].ambiguous ? AMBIGUOUS : 0));
	}
	s->need = STEAL(need);
	s->state = STEAL(state);
	return 0;
}

static int close_over(struct source *s, const struct pf_fri *f, const struct pf_pieces *l, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_fri_need *needs = reallocarray(NULL, f->n_records + 1, sizeof(*needs));
	const struct pf_fri_pin pin = {
		.source_version = s->version, .fragments = l->id, .rows = l->rows, .n_fragments = l->n
	};

	if (!needs)
		return -ENOMEM;
	int r = pf_closure_pin(f, &pin, needs, why);
	return r < 0 ? r : keep_needs(s, needs, f->n_records);
}

static int read_pieces(struct pf_branch *b, const struct source *s, struct pf_pieces *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	int r = pf_branch_version(b, s->version, &m, why);

	return r < 0 ? r : pf_pieces_read(pf_branch_store(b), m, out, why);
}

static int ask_source(const struct pf_explain *e, struct source *s, const struct pf_fri *f, struct pf_why *why)
{
	_cleanup_(pf_pieces_release) struct pf_pieces l = { NULL };
	/* A version 0 history is judged by stamps. */
	int r = f->index_version == 0 ? 0 : check_source(e, s, why);

	if (r == 0 && f->index_version != 0)
		r = read_pieces(e->line->branch, s, &l, why);
	return r < 0 ? r : close_over(s, f, &l, why);
}

/* The needs of a pin's source; `record` must be one. */
static int needs_of(struct pf_explain *e, size_t pin, size_t record, const struct source **out, struct pf_why *why)
{
	const struct pf_pin *p = &e->survey->pins.v[pin];
	struct pf_explained_fri *x;
	int r = load(e, &x, why);

	if (r < 0)
		return r;
	if (record >= x->fri.n_records)
		return pf_why_set(why, -ENOENT, "there is no record %zu: the history has %zu", record,
				  x->fri.n_records);
	struct source *s = x->sources;
	while (s->version != p->source_version || strcmp(s->txn, p->source_txn) != 0)
		s++;
	if (!s->asked) {
		s->err = ask_source(e, s, &x->fri, &s->why);
		if (s->err == -ENOMEM)
			return -ENOMEM;
		s->asked = true;
	}
	if (s->err < 0)
		return pf_why_set(why, s->err, "%s", pf_text_of(s->err, &s->why));
	*out = s;
	return 0;
}

int pf_explain_fri_pin(struct pf_explain *e, size_t pin, size_t record, struct pf_why *why)
{
	const struct source *s;
	int r = needs_of(e, pin, record, &s, why);

	return r < 0 ? r : s->state[record] & NEEDED;
}

void pf_fri_path_release(struct pf_fri_path *p)
{
	free(p->v);
	*p = (struct pf_fri_path){ NULL };
}

int pf_explain_fri_path(struct pf_explain *e, size_t pin, size_t record, struct pf_fri_path *out, struct pf_why *why)
{
	struct pf_fri_path path = { NULL };
	const struct source *s;
	int r = needs_of(e, pin, record, &s, why);

	if (r < 0 || !(s->state[record] & NEEDED))
		return r;
	path.ambiguous = s->state[record] & AMBIGUOUS;
	/* A version 0 history has no fragments that lead anywhere. */
	if (e->fri->fri.index_version != 0) {
		for (size_t at = record; at != NOT_SET; at = s->need[at].via)
			path.n++;
		path.v = calloc(path.n, sizeof(*path.v));
		if (!path.v)
			return -ENOMEM;
		size_t i = path.n;
		for (size_t at = record; at != NOT_SET; at = s->need[at].via)
			path.v[--i] = (struct pf_fri_hop){ s->need[at].fragment, at };
	}
	*out = path;
	return 1;
}

/* What Lance's rule says when there is no index but those of one name. */
static int ask_consumer(const struct pf_explained_fri *x, struct consumer *c)
{
	_cleanup_(pf_freep) struct pf_index *v = reallocarray(NULL, x->indices.n, sizeof(*v));
	_cleanup_(pf_freep) size_t *by = reallocarray(NULL, x->fri.n_records + 1, sizeof(*by));
	struct pf_indices l = { v, 0 };

	c->needed = calloc(x->fri.n_records + 1, sizeof(*c->needed));
	if (!v || !by || !c->needed)
		return -ENOMEM;
	for (size_t i = 0; i < x->indices.n; i++)
		if (strcmp(x->indices.v[i].name, c->name) == 0)
			v[l.n++] = x->indices.v[i];
	c->err = pf_closure_consumers(&x->fri, &l, c->needed, by, &c->why);
	return c->err == -ENOMEM ? c->err : 0;
}

static int ask_consumers(struct pf_explained_fri *x)
{
	if (x->consumers_asked)
		return 0;
	if (!x->consumers)
		x->consumers = calloc(x->indices.n, sizeof(*x->consumers)); /* the history's own entry is one */
	if (!x->consumers)
		return -ENOMEM;
	for (size_t i = 0; i < x->indices.n; i++) {
		const struct pf_index *index = &x->indices.v[i];
		size_t k = 0;
		while (k < x->n_consumers && strcmp(x->consumers[k].name, index->name) != 0)
			k++;
		if (pf_index_is_system(index) || (k < x->n_consumers && x->consumers[k].needed))
			continue;
		if (k == x->n_consumers)
			x->consumers[x->n_consumers++].name = index->name;
		int r = ask_consumer(x, &x->consumers[k]);
		if (r < 0) {
			free(STEAL(x->consumers[k].needed));
			return r;
		}
	}
	x->consumers_asked = true;
	return 0;
}

int pf_explain_fri_indices(struct pf_explain *e, size_t record, const char ***v, size_t *n, struct pf_why *why)
{
	_cleanup_(pf_freep) const char **names = NULL;
	struct pf_explained_fri *x;
	size_t found = 0;
	int r = load(e, &x, why), damaged = 0;

	if (r == 0)
		r = ask_consumers(x);
	if (r < 0)
		return r;
	if (record >= x->fri.n_records)
		return pf_why_set(why, -ENOENT, "there is no record %zu: the history has %zu", record,
				  x->fri.n_records);
	names = reallocarray(NULL, x->n_consumers + 1, sizeof(*names));
	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < x->n_consumers; i++) {
		const struct consumer *c = &x->consumers[i];
		if (c->err < 0 && c->err != -EBADMSG)
			return pf_why_set(why, c->err, "%s", pf_text_of(c->err, &c->why));
		if (c->err < 0 && damaged == 0)
			damaged = pf_why_set(why, c->err, "%s", pf_text_of(c->err, &c->why));
		if (c->needed[record])
			names[found++] = c->name;
	}
	*v = STEAL(names);
	*n = found;
	return damaged;
}

int pf_explain_fri_map(const struct pf_explain *e, const struct pf_fri_group *g, struct pf_buf *out, struct pf_why *why)
{
	const struct pf_place *p = g->has_base ? pf_places_find(&e->survey->state->places, g->base_id) : NULL;
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;

	if (g->has_base && !p)
		return pf_why_set(why, -EBADMSG, "row map %s is on base %" PRIu32 ", which the manifest does not have",
				  g->map_id, g->base_id);
	int r = pf_buf_addstr(&path, p ? p->prefix : pf_survey_dir(e->survey));
	/* A base that is no dataset's root is the folder itself. */
	if (r == 0)
		r = pf_buf_addf(&path, "%s%s", !p || p->is_dataset_root ? "_fri/" : "", g->map_id);
	const char *s = r == 0 ? pf_buf_str(&path) : NULL;
	r = s ? pf_explain_name_at(e, p ? p->base : 0, s, out) : -ENOMEM;
	return r < 0 ? r : pf_buf_addch(out, '/');
}
