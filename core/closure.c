#include "closure.h"

#include <inttypes.h>
#include <string.h>

/* Records found needed, in the order in which they were. */
struct walk {
	const struct pf_fri *f;
	struct pf_fri_need *needs;
	size_t *queue;
	size_t n, done;
};

static void walk_release(struct walk *w)
{
	free(w->queue);
}

static int walk_init(struct walk *w, const struct pf_fri *f, struct pf_fri_need *needs)
{
	w->f = f;
	w->needs = needs;
	for (size_t i = 0; i < f->n_records; i++)
		needs[i] = (struct pf_fri_need){ .via = SIZE_MAX };
	w->queue = reallocarray(NULL, f->n_records + 1, sizeof(*w->queue));
	return w->queue ? 0 : -ENOMEM;
}

static void reach(struct walk *w, size_t record, size_t via, uint32_t fragment, bool ambiguous)
{
	if (w->needs[record].needed)
		return;
	w->needs[record] = (struct pf_fri_need){ true, ambiguous, via, fragment };
	w->queue[w->n++] = record;
}

/* A record's rows are found again only through the records that moved them on. */
static void follow(struct walk *w)
{
	const struct pf_fri *f = w->f;

	while (w->done < w->n) {
		size_t at = w->queue[w->done++];
		const struct pf_fri_record *record = &f->records[at];

		for (size_t i = 0; i < record->n_groups; i++)
			for (size_t k = 0; k < record->groups[i].n_to; k++) {
				uint32_t fragment = (uint32_t)record->groups[i].to[k].id;
				const struct pf_fri_source *s = pf_fri_source_of(f, fragment, 0);

				if (s)
					reach(w, f->groups[s->group].record, at, fragment, w->needs[at].ambiguous);
			}
	}
}

/* Records with a source among the pin's fragments: those that agree on its rows, or those that do not. Both lists ascend. */
static void reach_from_pin(struct walk *w, const struct pf_fri_pin *pin, bool ambiguous)
{
	const struct pf_fri *f = w->f;
	size_t k = 0;

	for (size_t i = 0; i < f->n_sources && k < pin->n_fragments;) {
		const struct pf_fri_source *s = &f->sources[i];

		if (pin->fragments[k] < s->fragment) {
			k++;
			continue;
		}
		i++;
		if (pin->fragments[k] > s->fragment)
			continue;
		const struct pf_fri_group *g = &f->groups[s->group];
		uint64_t rows = pin->rows ? pin->rows[k] : 0;
		if ((rows && rows != g->from[s->at].physical_rows) == ambiguous)
			reach(w, g->record, SIZE_MAX, s->fragment, ambiguous);
	}
}

static int check_supported(const struct pf_fri *f, struct pf_why *why)
{
	if (!f->unsupported)
		return 0;
	return pf_why_set(why, -EOPNOTSUPP, "what is needed of the fragment reuse history cannot be told: %s",
			  f->unsupported_why);
}

int pf_closure_pin(const struct pf_fri *f, const struct pf_fri_pin *pin, struct pf_fri_need *needs, struct pf_why *why)
{
	_cleanup_(walk_release) struct walk w = { .n = 0 };
	int r = check_supported(f, why);

	if (r == 0)
		r = walk_init(&w, f, needs);
	if (r < 0)
		return r;
	if (f->index_version == 0) {
		for (size_t i = 0; i < f->n_records; i++)
			needs[i].needed = f->records[i].stamp >= pin->source_version;
		return 0;
	}
	if (!pin->fragments && f->n_records > 0)
		return pf_why_set(why, -EINVAL, "the fragments of version %" PRIu64 " are needed", pin->source_version);
	/* What is needed for certain is not ambiguous, whatever else leads there. */
	reach_from_pin(&w, pin, false);
	follow(&w);
	reach_from_pin(&w, pin, true);
	follow(&w);
	return 0;
}

/* A user index. */
struct consumer {
	const struct pf_index *x;
	struct pf_bitmap *bitmap; /* NULL: none, or damaged */
	bool damaged;
	bool apart; /* its bitmap has no fragment of any legacy record */
};

/* All segments of one name. */
struct coverage {
	const char *name;
	struct pf_bitmap *provenance; /* the fragments whose rows they hold */
	struct pf_bitmap *direct;     /* those that Lance answers from them */
};

struct consumers {
	const struct pf_fri *f;
	const struct pf_indices *l;
	struct consumer *v;
	struct coverage *names;
	size_t n, n_names;
	struct pf_why *why;
	int r; /* the first damage */
};

static void consumers_release(struct consumers *c)
{
	for (size_t i = 0; i < c->n; i++)
		pf_bitmap_free(c->v[i].bitmap);
	for (size_t i = 0; i < c->n_names; i++) {
		pf_bitmap_free(c->names[i].provenance);
		pf_bitmap_free(c->names[i].direct);
	}
	free(c->v);
	free(c->names);
}

static void damage(struct consumers *c, const struct pf_index *x, const char *text)
{
	char quoted[PF_QUOTE_TEXT];

	if (c->r < 0)
		return;
	c->r = pf_why_set(c->why, -EBADMSG, "index %s, %s: %s; rebuild it",
			  pf_text_quote(x->name, strlen(x->name), quoted), x->uuid, text);
}

static bool has_any(const struct pf_bitmap *b, const struct pf_digest *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (pf_bitmap_has(b, (uint32_t)v[i].id))
			return true;
	return false;
}

static bool is_apart(const struct pf_fri *f, const struct pf_bitmap *b)
{
	for (size_t i = 0; i < f->n_groups; i++) {
		const struct pf_fri_group *g = &f->groups[i];

		if (f->records[g->record].legacy && (has_any(b, g->from, g->n_from) || has_any(b, g->to, g->n_to)))
			return false;
	}
	return true;
}

static int add_name(struct consumers *c, const struct consumer *v)
{
	struct coverage *name = c->names;
	int r;

	while (name < c->names + c->n_names && strcmp(name->name, v->x->name) != 0)
		name++;
	if (name == c->names + c->n_names) {
		c->n_names++;
		name->name = v->x->name;
		r = pf_bitmap_from(NULL, 0, &name->provenance);
		if (r == 0)
			r = pf_bitmap_from(NULL, 0, &name->direct);
		if (r < 0)
			return r;
	}
	r = pf_bitmap_merge(name->provenance, v->bitmap);
	return r < 0 || !pf_index_usable(v->x) ? r : pf_bitmap_merge(name->direct, v->bitmap);
}

static int load_consumers(struct consumers *c)
{
	struct pf_why inner = PF_WHY_INIT;

	c->v = calloc(c->l->n + 1, sizeof(*c->v));
	c->names = calloc(c->l->n + 1, sizeof(*c->names));
	if (!c->v || !c->names)
		return -ENOMEM;
	for (size_t i = 0; i < c->l->n; i++) {
		const struct pf_index *x = &c->l->v[i];

		if (pf_index_is_system(x))
			continue;
		struct consumer *v = &c->v[c->n++];
		v->x = x;
		if (!x->has_bitmap)
			continue;
		int r = pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &v->bitmap, &inner);
		if (r == -EBADMSG) {
			v->damaged = true;
			pf_why_prefix(&inner, r, "its fragment bitmap is damaged");
			damage(c, x, inner.text);
			continue;
		}
		if (r == 0)
			r = add_name(c, v);
		if (r < 0)
			return r;
		v->apart = is_apart(c->f, v->bitmap);
	}
	return 0;
}

/* Lance 14 stamps publication - 1; a stamp of older writers may be less. */
static uint64_t stamp_of(const struct pf_fri_record *record)
{
	return record->published > record->stamp ? record->published - 1 : record->stamp;
}

/* Lance's v0 rule, of one index and one record. */
static bool needs_legacy(struct consumers *c, const struct consumer *v, const struct pf_fri_record *record)
{
	bool covers = false;

	if (v->damaged)
		return true;
	if (v->apart)
		return false;
	if (v->x->dataset_version <= record->stamp)
		return true;
	for (size_t i = 0; v->bitmap && i < record->n_groups; i++) {
		const struct pf_fri_group *g = &record->groups[i];
		size_t n = 0;

		for (size_t k = 0; k < g->n_from; k++)
			n += pf_bitmap_has(v->bitmap, (uint32_t)g->from[k].id);
		if (n > 0 && n < g->n_from)
			damage(c, v->x, "it covers some but not all of the fragments that were compacted together");
		covers |= n > 0;
	}
	/* Publication comes last: where a bitmap is wrong that is told, though the record be needed by its age. */
	return covers || v->x->dataset_version <= stamp_of(record);
}

static bool needs_transition(const struct coverage *name, const struct pf_fri_group *g)
{
	if (!has_any(name->provenance, g->from, g->n_from))
		return false;
	for (size_t i = 0; i < g->n_to; i++)
		if (!pf_bitmap_has(name->direct, (uint32_t)g->to[i].id))
			return true;
	return false;
}

/* The index that needs a record for its own sake; NULL if none does. */
static const struct consumer *consumer_of_legacy(struct consumers *c, const struct pf_fri_record *record)
{
	const struct consumer *first = NULL;

	/* All of them are asked: each says what is wrong with it. */
	for (size_t i = 0; i < c->n; i++)
		if (needs_legacy(c, &c->v[i], record) && !first)
			first = &c->v[i];
	return first;
}

static const struct consumer *consumer_of_transition(struct consumers *c, const struct pf_fri_group *g)
{
	const struct coverage *name = c->names, *end = name + c->n_names;

	while (name < end && !needs_transition(name, g))
		name++;
	for (size_t i = 0; i < c->n; i++) {
		const struct consumer *v = &c->v[i];

		if (v->damaged)
			return v;
		if (name < end && v->bitmap && strcmp(v->x->name, name->name) == 0 &&
		    has_any(v->bitmap, g->from, g->n_from))
			return v;
	}
	return NULL;
}

int pf_closure_consumers(const struct pf_fri *f, const struct pf_indices *l, bool *needed, size_t *by,
			 struct pf_why *why)
{
	_cleanup_(consumers_release) struct consumers c = { .f = f, .l = l, .why = why };
	_cleanup_(pf_freep) struct pf_fri_need *needs = reallocarray(NULL, f->n_records + 1, sizeof(*needs));
	_cleanup_(walk_release) struct walk w = { .n = 0 };
	int r = check_supported(f, why);

	if (r == 0 && !needs)
		r = -ENOMEM;
	if (r == 0)
		r = walk_init(&w, f, needs);
	if (r == 0)
		r = load_consumers(&c);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_records; i++) {
		const struct pf_fri_record *record = &f->records[i];
		const struct consumer *v = record->legacy ? consumer_of_legacy(&c, record)
							  : consumer_of_transition(&c, record->groups);

		needed[i] = v;
		by[i] = v ? (size_t)(v->x - l->v) : SIZE_MAX;
		if (v)
			reach(&w, i, SIZE_MAX, 0, false);
	}
	/* v0 has no lineage: each record is judged alone. */
	if (f->index_version != 0)
		follow(&w);
	for (size_t i = 0; i < w.n; i++) {
		size_t at = w.queue[i];

		if (needed[at])
			continue;
		needed[at] = true;
		by[at] = by[needs[at].via]; /* which stands before it in the queue */
	}
	return c.r;
}
