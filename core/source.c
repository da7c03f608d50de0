#include "source.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"
#include "txn.h"

void pf_pieces_release(struct pf_pieces *l)
{
	free(l->id);
	free(l->rows);
	*l = (struct pf_pieces){ NULL };
}

struct piece {
	uint32_t id;
	uint64_t rows;
};

struct reading {
	struct piece *v;
	size_t n, cap;
	bool sorted;
};

static void reading_release(struct reading *l)
{
	free(l->v);
}

static int add(struct reading *l, struct piece one)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 256;
		struct piece *v = reallocarray(l->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->sorted = l->sorted && (l->n == 0 || l->v[l->n - 1].id <= one.id);
	l->v[l->n++] = one;
	return 0;
}

static int cmp_pieces(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int take_fragment(struct pf_wire *w, const struct pf_field *fragment, struct reading *l, struct pf_why *why)
{
	uint64_t id = 0, rows = 0;
	struct pf_field f;
	int r = pf_wire_expect(fragment, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, fragment);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__DATA_FRAGMENT__FIELD__ID)
			r = pf_wire_u64(&f, &id, why);
		else if (f.number == LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS)
			r = pf_wire_u64(&f, &rows, why);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	pf_wire_leave(w, end);
	if (id > UINT32_MAX)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected the id of a fragment below 2^32, found %" PRIu64,
				  fragment->start, id);
	return add(l, (struct piece){ (uint32_t)id, rows });
}

static int keep(struct reading *l, struct pf_pieces *out)
{
	_cleanup_(pf_pieces_release) struct pf_pieces p = { NULL };

	p.id = reallocarray(NULL, l->n + 1, sizeof(*p.id));
	p.rows = reallocarray(NULL, l->n + 1, sizeof(*p.rows));
	if (!p.id || !p.rows)
		return -ENOMEM;
	if (!l->sorted)
		qsort(l->v, l->n, sizeof(*l->v), cmp_pieces);
	for (; p.n < l->n; p.n++) {
		p.id[p.n] = l->v[p.n].id;
		p.rows[p.n] = l->v[p.n].rows;
	}
	*out = p;
	p = (struct pf_pieces){ NULL };
	return 0;
}

int pf_pieces_read(struct pf_store *st, const struct pf_manifest *m, struct pf_pieces *out, struct pf_why *why)
{
	_cleanup_(reading_release) struct reading l = { .sorted = true };
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_wire_release) struct pf_wire w = { NULL };
	struct pf_why inner = PF_WHY_INIT;
	struct pf_field f;

	int r = pf_manifest_reopen(st, m, &file, why);
	if (r < 0)
		return r;
	pf_wire_init(&w, &file->r, m->body_off, m->body_len);
	while ((r = pf_wire_next(&w, &f, &inner)) > 0) {
		if (f.number == LANCE__MANIFEST__FIELD__FRAGMENTS)
			r = take_fragment(&w, &f, &l, &inner);
		if (r < 0)
			break;
	}
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", m->name, inner.text[0] ? inner.text : strerror(-r));
	return keep(&l, out);
}

void pf_sources_release(struct pf_sources *l)
{
	for (size_t i = 0; i < l->n; i++) {
		pf_bitmap_free(l->v[i].reached);
		free(l->v[i].needs);
	}
	free(l->v);
	*l = (struct pf_sources){ NULL };
}

int pf_source_open(struct pf_branch *b, const struct pf_pin *pin, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int r = pf_branch_version(b, pin->source_version, &m, why);
	if (r == -ENOENT)
		return pf_why_set(why, r, "version %" PRIu64 " is missing", pin->source_version);
	if (r == 0)
		r = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), m, &txn, why);
	if (r < 0)
		return r;
	if (strcmp(txn.uuid, pin->source_txn) != 0)
		return pf_why_set(why, -EBADMSG, "version %" PRIu64 " is of transaction %s, expected %s",
				  pin->source_version, txn.uuid[0] ? txn.uuid : "(none)", pin->source_txn);
	*out = STEAL(m);
	return 0;
}

static int read_pieces(struct pf_branch *b, const struct pf_source *s, struct pf_pieces *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	int r = pf_source_open(b, s->pin, &m, why);
	return r < 0 ? r : pf_pieces_read(pf_branch_store(b), m, out, why);
}

/* The fragments of the source, and destinations of the records that it needs. */
static int reach(const struct pf_fri *f, const struct pf_pieces *l, struct pf_source *s)
{
	size_t n = l->n;

	for (size_t g = 0; g < f->n_groups; g++)
		n += s->needs[f->groups[g].record] ? f->groups[g].n_to : 0;
	_cleanup_(pf_freep) uint32_t *ids = reallocarray(NULL, n + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (n = 0; n < l->n; n++)
		ids[n] = l->id[n];
	for (size_t g = 0; g < f->n_groups; g++)
		for (size_t i = 0; s->needs[f->groups[g].record] && i < f->groups[g].n_to; i++)
			ids[n++] = (uint32_t)f->groups[g].to[i].id;
	return pf_bitmap_from(ids, n, &s->reached);
}

static int ask(struct pf_branch *b, const struct pf_fri *f, struct pf_source *s, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_fri_need *needs = reallocarray(NULL, f->n_records + 1, sizeof(*needs));
	_cleanup_(pf_pieces_release) struct pf_pieces l = { NULL };
	bool tagged = f->index_version != 0;

	s->needs = calloc(f->n_records + 1, sizeof(*s->needs));
	if (!needs || !s->needs)
		return -ENOMEM;
	int r = tagged ? read_pieces(b, s, &l, why) : 0;
	if (r < 0)
		return r;
	const struct pf_fri_pin pin = {
		.source_version = s->pin->source_version, .fragments = l.id, .rows = l.rows, .n_fragments = l.n
	};
	r = pf_closure_pin(f, &pin, needs, why);
	for (size_t i = 0; r == 0 && i < f->n_records; i++)
		s->needs[i] = needs[i].needed;
	return r < 0 || !tagged ? r : reach(f, &l, s);
}

static int untold(const struct pf_source *s, int r, const struct pf_why *inner, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf pin = PF_BUF_INIT;

	if (r == -ENOMEM || pf_pin_describe(s->pin, &pin) < 0 || !pf_buf_str(&pin))
		return -ENOMEM;
	return pf_why_set(why, -EBUSY, "what pin %s of version %" PRIu64 " needs cannot be told: %s", (char *)pin.data,
			  s->pin->source_version, inner->text[0] ? inner->text : strerror(-r));
}

static struct pf_source *source_of(struct pf_sources *l, const struct pf_pin *p)
{
	struct pf_source *s = l->v;

	while (s < l->v + l->n &&
	       (s->pin->source_version != p->source_version || strcmp(s->pin->source_txn, p->source_txn) != 0))
		s++;
	return s;
}

int pf_sources_read(struct pf_branch *b, const struct pf_pins *pins, const struct pf_fri *f, struct pf_sources *out,
		    struct pf_why *why)
{
	_cleanup_(pf_sources_release) struct pf_sources l = { NULL };

	l.v = calloc(pins->n + 1, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	for (size_t i = 0; i < pins->n; i++) {
		struct pf_source *s = source_of(&l, &pins->v[i]);
		struct pf_why inner = PF_WHY_INIT;

		if (s->n_pins++ > 0)
			continue;
		s->pin = &pins->v[i];
		l.n++;
		int r = ask(b, f, s, &inner);
		if (r < 0)
			return untold(s, r, &inner, why);
	}
	*out = l;
	l = (struct pf_sources){ NULL };
	return 0;
}

static bool has_source(const struct pf_bitmap *reached, const struct pf_fri_record *record)
{
	for (size_t g = 0; g < record->n_groups; g++)
		for (size_t i = 0; i < record->groups[g].n_from; i++)
			if (pf_bitmap_has(reached, (uint32_t)record->groups[g].from[i].id))
				return true;
	return false;
}

static int add_destinations(struct pf_bitmap *reached, const struct pf_fri_record *record)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *set = NULL;
	size_t n = 0;

	for (size_t g = 0; g < record->n_groups; g++)
		n += record->groups[g].n_to;
	_cleanup_(pf_freep) uint32_t *ids = reallocarray(NULL, n + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	n = 0;
	for (size_t g = 0; g < record->n_groups; g++)
		for (size_t i = 0; i < record->groups[g].n_to; i++)
			ids[n++] = (uint32_t)record->groups[g].to[i].id;
	int r = pf_bitmap_from(ids, n, &set);
	return r < 0 ? r : pf_bitmap_merge(reached, set);
}

/* Through a history of version 0, whose records stand in the order in which rows go through them. */
static int reach_stamped(const struct pf_fri *f, const struct pf_pieces *l, struct pf_source *s)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *reached = NULL;
	int r = pf_bitmap_from(l->id, l->n, &reached);

	for (size_t i = 0; r == 0 && i < f->n_records; i++)
		if (has_source(reached, &f->records[i]))
			r = add_destinations(reached, &f->records[i]);
	if (r == 0)
		s->reached = STEAL(reached);
	return r;
}

int pf_sources_reach(struct pf_branch *b, const struct pf_fri *f, struct pf_sources *l, struct pf_why *why)
{
	for (size_t i = 0; i < l->n; i++) {
		_cleanup_(pf_pieces_release) struct pf_pieces pieces = { NULL };
		struct pf_why inner = PF_WHY_INIT;

		if (l->v[i].reached)
			continue;
		int r = read_pieces(b, &l->v[i], &pieces, &inner);
		if (r == 0)
			r = reach_stamped(f, &pieces, &l->v[i]);
		if (r < 0)
			return untold(&l->v[i], r, &inner, why);
	}
	return 0;
}
