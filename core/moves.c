#include "moves.h"

#include <inttypes.h>

#include "row_ids.h"

void pf_moved_release(struct pf_moved *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_buf_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_moved){ NULL };
}

void pf_moves_release(struct pf_moves *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].from);
		free(l->v[i].to);
		pf_buf_release(&l->v[i].made);
	}
	free(l->v);
	*l = (struct pf_moves){ NULL };
}

/* A fragment of x, with the bytes it is decoded from. */
struct held {
	struct pf_buf bytes;
	struct pf_fragment f;
};

static void held_release(struct held *h)
{
	pf_fragment_release(&h->f);
	pf_buf_release(&h->bytes);
}

static int hold(struct pf_next *x, const struct pf_slot *s, struct held *out, struct pf_why *why)
{
	int r = pf_next_load(x, s, &out->bytes, why);

	return r < 0 ? r : pf_fragment_decode(PF_SPAN_OF(&out->bytes), &out->f, why);
}

/* The fragment of the head that was taken out, which must be the one that was compacted. */
static int hold_source(struct pf_next *x, const struct pf_fragment *compacted, struct held *out, struct pf_why *why)
{
	const struct pf_slot *s = pf_roster_find(&x->gone, compacted->id);

	if (!s)
		return pf_why_set(why, -EINVAL, "fragment %" PRIu64 " is not there", compacted->id);
	int r = hold(x, s, out, why);
	if (r < 0)
		return r;
	/* Columns that were dropped since took their files with them. */
	if (!pf_fragment_has_files(compacted, &out->f) || out->f.deleted_rows != compacted->deleted_rows ||
	    (compacted->physical_rows && out->f.physical_rows != compacted->physical_rows))
		return pf_why_set(why, -EINVAL,
				  "fragment %" PRIu64
				  " has other data than what was compacted: is it work for another table?",
				  compacted->id);
	return 0;
}

static uint64_t live(const struct pf_digest *d)
{
	return d->physical_rows - d->deleted_rows;
}

static int read_sources(struct pf_next *x, const struct pf_rewrite_group *g, struct pf_group_moves *m,
			struct pf_why *why)
{
	m->from = calloc(g->from.n + 1, sizeof(*m->from));
	if (!m->from)
		return -ENOMEM;
	for (size_t i = 0; i < g->from.n; i++) {
		_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
		int r = hold_source(x, &g->from.v[i], &h, why);
		if (r < 0)
			return r;
		if (h.f.deleted_rows > h.f.physical_rows && h.f.physical_rows)
			return pf_why_set(why, -EBADMSG,
					  "fragment %" PRIu64 " has %" PRIu64 " rows and %" PRIu64 " deleted", h.f.id,
					  h.f.physical_rows, h.f.deleted_rows);
		m->from[m->n_from++] = (struct pf_digest){ h.f.id, h.f.physical_rows, h.f.deleted_rows };
	}
	return 0;
}

/* The new fragments stand last in the roster. */
static int read_destinations(struct pf_next *x, size_t first, const struct pf_rewrite_group *g,
			     struct pf_group_moves *m)
{
	m->to = calloc(g->to.n + 1, sizeof(*m->to));
	if (!m->to)
		return -ENOMEM;
	for (; m->n_to < g->to.n; m->n_to++)
		m->to[m->n_to] =
			(struct pf_digest){ x->roster.v[first + m->n_to].id, g->to.v[m->n_to].physical_rows, 0 };
	return 0;
}

/* Old writers left it out how many rows a fragment has. */
static bool has_sizes(const struct pf_group_moves *m)
{
	for (size_t i = 0; i < m->n_from; i++)
		if (m->from[i].physical_rows == 0)
			return false;
	return true;
}

static int check_totals(const struct pf_group_moves *m, struct pf_why *why)
{
	uint64_t in = 0, out = 0;

	for (size_t i = 0; i < m->n_from; i++)
		in += live(&m->from[i]);
	for (size_t i = 0; i < m->n_to; i++)
		out += m->to[i].physical_rows;
	if (in != out)
		return pf_why_set(why, -EINVAL, "its old fragments have %" PRIu64 " live rows, its new ones %" PRIu64,
				  in, out);
	return 0;
}

static bool ascends(const struct pf_group_moves *m)
{
	for (size_t i = 1; i < m->n_from; i++)
		if (m->from[i].id <= m->from[i - 1].id)
			return false;
	return true;
}

struct comparing {
	const struct pf_group_moves *m;
	size_t next;
	struct pf_why *why;
};

static int compare_part(void *arg, const struct pf_rows_part *part)
{
	struct comparing *c = arg;
	const struct pf_digest *d = c->m->from + c->next, *end = c->m->from + c->m->n_from;

	while (d < end && live(d) == 0 && d->id != part->fragment)
		d++;
	if (d == end || d->id != part->fragment)
		return pf_why_set(c->why, -EINVAL,
				  "expected row addresses of fragment %" PRIu64 ", found some of fragment %" PRIu32,
				  d == end ? (d - 1)->id : d->id, part->fragment);
	if (part->max >= d->physical_rows)
		return pf_why_set(c->why, -EINVAL,
				  "a row address is row %" PRIu32 " of fragment %" PRIu32 ", which has %" PRIu64,
				  part->max, part->fragment, d->physical_rows);
	if (part->count != live(d))
		return pf_why_set(c->why, -EINVAL,
				  "it has %" PRIu64 " row addresses of fragment %" PRIu32 ", which has %" PRIu64
				  " live rows",
				  part->count, part->fragment, live(d));
	c->next = (size_t)(d - c->m->from) + 1;
	return 0;
}

static int check_said(const struct pf_group_moves *m, const struct pf_buf *rows, struct pf_why *why)
{
	struct comparing c = { .m = m, .why = why };

	if (!ascends(m))
		return pf_why_set(why, -EINVAL,
				  "its old fragments are not in ascending order, in which row addresses are");
	int r = pf_rows_scan(rows->data, rows->len, false, compare_part, &c, why);
	if (r == -EBADMSG)
		return pf_why_prefix(why, r, "row addresses");
	for (; r == 0 && c.next < m->n_from; c.next++)
		if (live(&m->from[c.next]))
			return pf_why_set(why, -EINVAL, "no row addresses of fragment %" PRIu64, m->from[c.next].id);
	return r;
}

/* All rows of fragments without deletions. */
static int make_rows(struct pf_group_moves *m)
{
	_cleanup_(pf_rows_release) struct pf_rows rows = { NULL };
	int r = 0;

	for (size_t i = 0; i < m->n_from; i++)
		if (m->from[i].deleted_rows)
			return 0;
	rows.fragment = calloc(m->n_from + 1, sizeof(*rows.fragment));
	rows.offsets = calloc(m->n_from + 1, sizeof(*rows.offsets));
	if (!rows.fragment || !rows.offsets)
		return -ENOMEM;
	for (; r == 0 && rows.n < m->n_from; rows.n++) {
		if (m->from[rows.n].id > UINT32_MAX || m->from[rows.n].physical_rows > UINT32_MAX)
			return -EINVAL;
		rows.fragment[rows.n] = (uint32_t)m->from[rows.n].id;
		r = pf_bitmap_below(m->from[rows.n].physical_rows, &rows.offsets[rows.n]);
		if (r < 0)
			return r;
	}
	r = pf_rows_encode(&rows, &m->made);
	if (r == 0)
		m->rows = PF_SPAN_OF(&m->made);
	return r;
}

static int read_group(struct pf_next *x, const struct pf_rewrite_group *g, size_t first, const struct pf_buf *said,
		      struct pf_group_moves *m, struct pf_why *why)
{
	int r = read_sources(x, g, m, why);

	if (r == 0)
		r = read_destinations(x, first, g, m);
	if (r < 0 || !has_sizes(m))
		return r;
	r = check_totals(m, why);
	if (r < 0)
		return r;
	if (!said || said->len == 0)
		return ascends(m) ? make_rows(m) : 0;
	m->rows = PF_SPAN_OF(said);
	return check_said(m, said, why);
}

static size_t count_new(const struct pf_operation *o)
{
	size_t n = 0;

	for (size_t g = 0; g < o->n_groups; g++)
		n += o->groups[g].to.n;
	return n;
}

int pf_moves_read(const struct pf_operation *o, struct pf_next *x, const struct pf_moved *said, struct pf_moves *out,
		  struct pf_why *why)
{
	_cleanup_(pf_moves_release) struct pf_moves l = { NULL };
	size_t first = x->roster.n - count_new(o);

	l.v = calloc(o->n_groups + 1, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	while (l.n < o->n_groups) {
		const struct pf_rewrite_group *g = &o->groups[l.n];
		const struct pf_buf *rows = said && l.n < said->n ? &said->v[l.n] : NULL;
		size_t at = l.n++;
		int r = read_group(x, g, first, rows, &l.v[at], why);
		if (r < 0)
			return pf_why_prefix(why, r, "group %zu", at);
		first += g->to.n;
	}
	*out = l;
	l = (struct pf_moves){ NULL };
	return 0;
}

static int read_ids(const struct pf_fragment *f, struct pf_numbers *out, struct pf_why *why)
{
	if (f->row_ids.kind != PF_LINEAGE_INLINE)
		return pf_why_set(why, -EOPNOTSUPP,
				  "whether fragment %" PRIu64
				  " has the right row ids cannot be checked: they are not in the manifest",
				  f->id);
	return pf_row_ids_read(f->row_ids.bytes, f->physical_rows, out, why);
}

/* Which ids of a source are among the moved ones, from *at on: as many as it has live rows. What is passed over was deleted. */
static int match_source(const struct pf_fragment *f, const struct pf_numbers *moved, size_t *at, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	size_t before = *at;

	int r = read_ids(f, &ids, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++)
		if (*at < moved->n && moved->v[*at] == ids.v[i])
			++*at;
	if (*at - before != f->physical_rows - f->deleted_rows)
		return pf_why_set(why, -EINVAL,
				  "%zu row ids of fragment %" PRIu64 " follow in the new fragments, which has %" PRIu64
				  " live rows",
				  *at - before, f->id, f->physical_rows - f->deleted_rows);
	return 0;
}

static int check_ids(struct pf_next *x, const struct pf_rewrite_group *g, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers moved = { 0 };
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->to.n; i++)
		r = read_ids(&g->to.v[i], &moved, why);
	for (size_t i = 0; r == 0 && i < g->from.n; i++) {
		_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
		r = hold_source(x, &g->from.v[i], &h, why);
		if (r == 0)
			r = match_source(&h.f, &moved, &at, why);
	}
	if (r == 0 && at != moved.n)
		return pf_why_set(why, -EINVAL, "its new fragments have row id %" PRIu64 ", which no old one has",
				  moved.v[at]);
	return r;
}

int pf_moves_check_ids(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	for (size_t g = 0; g < o->n_groups; g++) {
		int r = check_ids(x, &o->groups[g], why);
		if (r < 0)
			return pf_why_prefix(why, r, "group %zu", g);
	}
	return 0;
}
