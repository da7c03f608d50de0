#include "moves.h"

#include <inttypes.h>

#include "base_store.h"
#include "deletions.h"
#include "row_ids.h"

static bool has_source(const struct pf_fri_group *g, uint64_t fragment)
{
	for (size_t i = 0; i < g->n_from; i++)
		if (g->from[i].id == fragment)
			return true;
	return false;
}

const struct pf_fri_group *pf_moves_record(const struct pf_fri *f, const struct pf_rewrite_group *g)
{
	for (size_t i = f->n_groups; i-- > 0;) {
		size_t k = 0;
		while (k < g->from.n && has_source(&f->groups[i], g->from.v[k].id))
			k++;
		if (k == g->from.n && k == f->groups[i].n_from)
			return &f->groups[i];
	}
	return NULL;
}

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

/* Where fragments and their deletion files are read from. */
struct reading {
	struct pf_branch *b;
	struct pf_next *x;
	struct pf_base_store base; /* the last base that one was on: of a branch, all are on one */
	uint32_t base_id;
	struct pf_why *why;
};

static void reading_release(struct reading *k)
{
	pf_base_store_release(&k->base);
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

/* The fragment of the head of this id, which was taken out. */
static int hold(struct reading *k, uint64_t id, struct held *out)
{
	const struct pf_slot *s = pf_roster_find(&k->x->gone, id);

	if (!s)
		return pf_why_set(k->why, -EINVAL, "fragment %" PRIu64 " is not there", id);
	int r = pf_next_load(k->x, s, &out->bytes, k->why);
	return r < 0 ? r : pf_fragment_decode(PF_SPAN_OF(&out->bytes), &out->f, k->why);
}

/* The same, which must be the one that was compacted. */
static int hold_source(struct reading *k, const struct pf_fragment *compacted, struct held *out)
{
	int r = hold(k, compacted->id, out);

	if (r < 0)
		return r;
	/* Columns that were dropped since took their files with them. */
	if (!pf_fragment_has_files(compacted, &out->f) || out->f.deleted_rows != compacted->deleted_rows ||
	    !pf_deletions_same(compacted, &out->f) ||
	    (compacted->physical_rows && out->f.physical_rows != compacted->physical_rows))
		return pf_why_set(k->why, -EINVAL,
				  "fragment %" PRIu64
				  " has other data than what was compacted: is it work for another table?",
				  compacted->id);
	return 0;
}

static int read_on_base(struct reading *k, const struct pf_fragment *f, struct pf_bitmap **out)
{
	uint32_t id = f->deletion.base_id;

	if (!k->base.st || k->base_id != id) {
		pf_base_store_release(&k->base);
		int r = pf_base_store_open(k->b, k->x->base, id, &k->base, k->why);
		if (r < 0)
			return pf_why_prefix(k->why, r, "deletion file of fragment %" PRIu64, f->id);
		k->base_id = id;
	}
	/* Lance has a directory for them only in a dataset (lance-format 2.6). */
	if (!k->base.is_dataset_root)
		return pf_why_set(k->why, -EBADMSG,
				  "fragment %" PRIu64 ": its deletion file is on base %" PRIu32
				  ", which is not the root of a dataset",
				  f->id, id);
	return pf_deletions_read(k->base.st, k->base.dir, f, out, k->why);
}

/* The deleted rows of a fragment that has some. */
static int read_deleted(struct reading *k, const struct pf_fragment *f, struct pf_bitmap **out)
{
	return f->deletion.has_base ? read_on_base(k, f, out)
				    : pf_deletions_read(pf_branch_store(k->b), pf_branch_dir(k->b), f, out, k->why);
}

/* How many rows of f are deleted; where its writer did not count them its deletion file says it. */
static int count_deleted(struct reading *k, const struct pf_fragment *f, uint64_t *out)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *deleted = NULL;

	*out = f->deleted_rows;
	if (f->deleted_rows > f->physical_rows && f->physical_rows)
		return pf_why_set(k->why, -EBADMSG, "fragment %" PRIu64 " has %" PRIu64 " rows and %" PRIu64 " deleted",
				  f->id, f->physical_rows, f->deleted_rows);
	if (!f->has_deletions || f->deleted_rows || !f->physical_rows)
		return 0;
	int r = read_deleted(k, f, &deleted);
	if (r == 0)
		*out = pf_bitmap_count(deleted);
	return r;
}

static uint64_t live(const struct pf_digest *d)
{
	return d->physical_rows - d->deleted_rows;
}

static int read_sources(struct reading *k, const struct pf_rewrite_group *g, struct pf_group_moves *m)
{
	m->from = calloc(g->from.n + 1, sizeof(*m->from));
	if (!m->from)
		return -ENOMEM;
	for (size_t i = 0; i < g->from.n; i++) {
		_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
		uint64_t deleted = 0;
		int r = hold_source(k, &g->from.v[i], &h);
		if (r == 0)
			r = count_deleted(k, &h.f, &deleted);
		if (r < 0)
			return r;
		m->from[m->n_from++] = (struct pf_digest){ h.f.id, h.f.physical_rows, deleted };
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
	struct reading *k;
	const struct pf_group_moves *m;
	const struct pf_buf *rows;
	size_t next;
};

struct finding {
	const struct pf_bitmap *moved;
	uint32_t row;
};

static int find_moved(void *arg, uint32_t row)
{
	struct finding *f = arg;

	f->row = row;
	return pf_bitmap_has(f->moved, row);
}

/* As many rows of a fragment as are live: are they those? */
static int compare_deleted(struct comparing *c, const struct pf_rows_part *part)
{
	_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *deleted = NULL, *moved = NULL;

	int r = hold(c->k, part->fragment, &h);
	if (r == 0)
		r = read_deleted(c->k, &h.f, &deleted);
	if (r == 0)
		r = pf_bitmap_decode(c->rows->data + part->off, part->len, &moved, c->k->why);
	if (r < 0)
		return r;
	struct finding f = { .moved = moved };
	if (pf_bitmap_each(deleted, find_moved, &f))
		return pf_why_set(c->k->why, -EINVAL,
				  "a row address is row %" PRIu32 " of fragment %" PRIu32 ", which is deleted", f.row,
				  part->fragment);
	return 0;
}

static int compare_part(void *arg, const struct pf_rows_part *part)
{
	struct comparing *c = arg;
	const struct pf_digest *d = c->m->from + c->next, *end = c->m->from + c->m->n_from;
	struct pf_why *why = c->k->why;

	while (d < end && live(d) == 0 && d->id != part->fragment)
		d++;
	if (d == end || d->id != part->fragment)
		return pf_why_set(why, -EINVAL,
				  "expected row addresses of fragment %" PRIu64 ", found some of fragment %" PRIu32,
				  d == end ? (d - 1)->id : d->id, part->fragment);
	if (part->max >= d->physical_rows)
		return pf_why_set(why, -EINVAL,
				  "a row address is row %" PRIu32 " of fragment %" PRIu32 ", which has %" PRIu64,
				  part->max, part->fragment, d->physical_rows);
	if (part->count != live(d))
		return pf_why_set(why, -EINVAL,
				  "it has %" PRIu64 " row addresses of fragment %" PRIu32 ", which has %" PRIu64
				  " live rows",
				  part->count, part->fragment, live(d));
	c->next = (size_t)(d - c->m->from) + 1;
	return d->deleted_rows ? compare_deleted(c, part) : 0;
}

static int check_said(struct reading *k, const struct pf_group_moves *m, const struct pf_buf *rows)
{
	struct comparing c = { .k = k, .m = m, .rows = rows };
	struct pf_why damage = PF_WHY_INIT;

	if (!ascends(m))
		return pf_why_set(k->why, -EINVAL,
				  "its old fragments are not in ascending order, in which row addresses are");
	/* Not the sentence of a deletion file that is damaged. */
	int r = pf_rows_scan(rows->data, rows->len, false, compare_part, &c, &damage);
	if (r == -EBADMSG && damage.text[0])
		return pf_why_set(k->why, r, "row addresses: %s", damage.text);
	for (; r == 0 && c.next < m->n_from; c.next++)
		if (live(&m->from[c.next]))
			return pf_why_set(k->why, -EINVAL, "no row addresses of fragment %" PRIu64, m->from[c.next].id);
	return r;
}

/* The live rows of a fragment. */
static int make_live(struct reading *k, const struct pf_digest *d, struct pf_bitmap **out)
{
	_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *rows = NULL, *deleted = NULL;

	int r = pf_bitmap_below(d->physical_rows, &rows);
	if (r == 0 && d->deleted_rows) {
		r = hold(k, d->id, &h);
		if (r == 0)
			r = read_deleted(k, &h.f, &deleted);
		if (r == 0)
			r = pf_bitmap_remove(rows, deleted);
	}
	if (r == 0)
		*out = STEAL(rows);
	return r;
}

static int make_rows(struct reading *k, struct pf_group_moves *m)
{
	_cleanup_(pf_rows_release) struct pf_rows rows = { NULL };

	rows.fragment = calloc(m->n_from + 1, sizeof(*rows.fragment));
	rows.offsets = calloc(m->n_from + 1, sizeof(*rows.offsets));
	if (!rows.fragment || !rows.offsets)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_from; i++) {
		const struct pf_digest *d = &m->from[i];
		if (d->id > UINT32_MAX || d->physical_rows > UINT32_MAX)
			return pf_why_set(k->why, -EINVAL,
					  "fragment %" PRIu64 ", with %" PRIu64 " rows, is beyond row addresses", d->id,
					  d->physical_rows);
		if (live(d) == 0)
			continue;
		int r = make_live(k, d, &rows.offsets[rows.n]);
		if (r < 0)
			return r;
		rows.fragment[rows.n++] = (uint32_t)d->id;
	}
	int r = pf_rows_encode(&rows, &m->made);
	if (r == 0)
		m->rows = PF_SPAN_OF(&m->made);
	return r;
}

static int read_group(struct reading *k, const struct pf_rewrite_group *g, size_t first, const struct pf_buf *said,
		      struct pf_group_moves *m)
{
	int r = read_sources(k, g, m);

	if (r == 0)
		r = read_destinations(k->x, first, g, m);
	if (r < 0)
		return r;
	if (!has_sizes(m)) {
		m->unknown = "its old fragments do not say how many rows they have";
		return 0;
	}
	r = check_totals(m, k->why);
	if (r < 0)
		return r;
	if (said && said->len) {
		m->rows = PF_SPAN_OF(said);
		return check_said(k, m, said);
	}
	if (!ascends(m))
		m->unknown = "its old fragments are not in ascending order, in which a record has their rows";
	return 0;
}

static size_t count_new(const struct pf_operation *o)
{
	size_t n = 0;

	for (size_t g = 0; g < o->n_groups; g++)
		n += o->groups[g].to.n;
	return n;
}

int pf_moves_read(struct pf_branch *b, const struct pf_operation *o, struct pf_next *x, const struct pf_moved *said,
		  struct pf_moves *out, struct pf_why *why)
{
	_cleanup_(pf_moves_release) struct pf_moves l = { NULL };
	_cleanup_(reading_release) struct reading k = { .b = b, .x = x, .why = why };
	size_t first = x->roster.n - count_new(o);

	l.v = calloc(o->n_groups + 1, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	while (l.n < o->n_groups) {
		const struct pf_rewrite_group *g = &o->groups[l.n];
		const struct pf_buf *rows = said && l.n < said->n ? &said->v[l.n] : NULL;
		size_t at = l.n++;
		int r = read_group(&k, g, first, rows, &l.v[at]);
		if (r < 0)
			return pf_why_prefix(why, r, "group %zu", at);
		first += g->to.n;
	}
	*out = l;
	l = (struct pf_moves){ NULL };
	return 0;
}

int pf_moves_make(struct pf_branch *b, struct pf_next *x, struct pf_moves *l, struct pf_why *why)
{
	_cleanup_(reading_release) struct reading k = { .b = b, .x = x, .why = why };

	for (size_t g = 0; g < l->n; g++) {
		if (l->v[g].rows.n || l->v[g].unknown)
			continue;
		int r = make_rows(&k, &l->v[g]);
		if (r == -EOPNOTSUPP)
			l->v[g].unknown = "a deletion file is on a base that is not on a local file system";
		else if (r < 0)
			return pf_why_prefix(why, r, "group %zu", g);
	}
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

/* The ids of a source's live rows must be the moved ones from *at on. */
static int match_source(struct reading *k, const struct pf_fragment *f, const struct pf_numbers *moved, size_t *at)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *deleted = NULL;

	int r = read_ids(f, &ids, k->why);
	if (r == 0 && f->has_deletions)
		r = read_deleted(k, f, &deleted);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ids.n; i++) {
		if (deleted && pf_bitmap_has(deleted, (uint32_t)i))
			continue;
		if (*at == moved->n || moved->v[*at] != ids.v[i])
			return pf_why_set(k->why, -EINVAL,
					  "row %zu of fragment %" PRIu64 " has row id %" PRIu64
					  ", which does not follow in the new fragments",
					  i, f->id, ids.v[i]);
		++*at;
	}
	return 0;
}

static int check_ids(struct reading *k, const struct pf_rewrite_group *g)
{
	_cleanup_(pf_numbers_release) struct pf_numbers moved = { 0 };
	size_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < g->to.n; i++)
		r = read_ids(&g->to.v[i], &moved, k->why);
	for (size_t i = 0; r == 0 && i < g->from.n; i++) {
		_cleanup_(held_release) struct held h = { .bytes = PF_BUF_INIT };
		r = hold_source(k, &g->from.v[i], &h);
		if (r == 0)
			r = match_source(k, &h.f, &moved, &at);
	}
	if (r == 0 && at != moved.n)
		return pf_why_set(k->why, -EINVAL,
				  "its new fragments have row id %" PRIu64 ", which no live row of the old ones has",
				  moved.v[at]);
	return r;
}

int pf_moves_check_ids(struct pf_branch *b, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(reading_release) struct reading k = { .b = b, .x = x, .why = why };

	for (size_t g = 0; g < o->n_groups; g++) {
		int r = check_ids(&k, &o->groups[g]);
		if (r < 0)
			return pf_why_prefix(why, r, "group %zu", g);
	}
	return 0;
}
