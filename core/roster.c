#include "roster.h"

#include <inttypes.h>

#include "lance.pb-c.h"

void pf_roster_release(struct pf_roster *l)
{
	free(l->v);
	*l = (struct pf_roster){ 0 };
}

static int push(struct pf_roster *l, const struct pf_slot *s)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct pf_slot *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = *s;
	return 0;
}

static int take_deleted(struct pf_wire *w, const struct pf_field *deletion, uint64_t *deleted, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(deletion, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, deletion);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__DELETION_FILE__FIELD__NUM_DELETED_ROWS)
			r = pf_wire_u64(&f, deleted, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

/* What the roster knows of the fragment that w just returned as `field`. */
static int take_slot(struct pf_wire *w, const struct pf_field *field, struct pf_slot *s, struct pf_why *why)
{
	uint64_t rows = 0, deleted = 0;
	struct pf_field f;
	int r = pf_wire_expect(field, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	s->off = field->start;
	s->len = field->value + field->len - field->start;
	uint64_t end = pf_wire_enter(w, field);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		switch (f.number) {
		case LANCE__DATA_FRAGMENT__FIELD__ID:
			r = pf_wire_u64(&f, &s->id, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE:
			s->facts |= PF_SLOT_DELETIONS;
			r = take_deleted(w, &f, &deleted, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS:
			r = pf_wire_u64(&f, &rows, why);
			break;
		case LANCE__DATA_FRAGMENT__FIELD__COLUMN_ROW_IDS:
			s->facts |= PF_SLOT_ROW_IDS | PF_SLOT_COLUMN;
			break;
		case LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS:
		case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_ROW_IDS:
			s->facts |= PF_SLOT_ROW_IDS;
			break;
		case LANCE__DATA_FRAGMENT__FIELD__COLUMN_LAST_UPDATED_AT_VERSIONS:
		case LANCE__DATA_FRAGMENT__FIELD__COLUMN_CREATED_AT_VERSIONS:
			s->facts |= PF_SLOT_COLUMN;
			break;
		case LANCE__DATA_FRAGMENT__FIELD__OVERLAYS:
			s->facts |= PF_SLOT_OVERLAYS;
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	if (rows && deleted >= rows)
		s->facts |= PF_SLOT_EMPTY;
	return r;
}

static int read_run(struct pf_reader *rd, const struct pf_run *run, struct pf_roster *l, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	int r;

	pf_wire_init(&w, rd, run->off, run->len);
	while ((r = pf_wire_next(&w, &f, why)) > 0) {
		struct pf_slot s = { 0 };
		r = take_slot(&w, &f, &s, why);
		if (r == 0)
			r = push(l, &s);
		if (r < 0)
			return r;
	}
	return r;
}

int pf_roster_read(struct pf_reader *rd, const struct pf_manifest *m, struct pf_roster *out, struct pf_why *why)
{
	_cleanup_(pf_roster_release) struct pf_roster l = { 0 };
	struct pf_why inner = PF_WHY_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n_runs; i++)
		if (m->runs[i].number == LANCE__MANIFEST__FIELD__FRAGMENTS)
			r = read_run(rd, &m->runs[i], &l, &inner);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", m->name, inner.text[0] ? inner.text : strerror(-r));
	pf_roster_sort(&l);
	*out = l;
	l = (struct pf_roster){ 0 };
	return 0;
}

int pf_slot_replace(struct pf_slot *s, struct pf_span field, struct pf_why *why)
{
	struct pf_mem_reader mem;
	struct pf_wire w;
	struct pf_field f;
	struct pf_slot now = { .mem = field.p };

	pf_mem_reader_init(&mem, field.p, field.n);
	pf_wire_init(&w, &mem.base, 0, field.n);
	int r = pf_wire_next(&w, &f, why);
	if (r > 0)
		r = take_slot(&w, &f, &now, why);
	if (r == 0)
		*s = now;
	return r;
}

int pf_roster_add(struct pf_roster *l, struct pf_span field, struct pf_why *why)
{
	struct pf_slot s = { 0 };
	int r = pf_slot_replace(&s, field, why);

	return r < 0 ? r : push(l, &s);
}

static int cmp(const void *a, const void *b)
{
	const struct pf_slot *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return 0;
}

void pf_roster_sort(struct pf_roster *l)
{
	for (size_t i = 1; i < l->n; i++) {
		if (l->v[i].id < l->v[i - 1].id) {
			qsort(l->v, l->n, sizeof(*l->v), cmp);
			return;
		}
	}
}

struct pf_slot *pf_roster_find(const struct pf_roster *l, uint64_t id)
{
	const struct pf_slot key = { .id = id };

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), cmp) : NULL;
}

int pf_slot_load(struct pf_reader *r, const struct pf_slot *s, struct pf_buf *out, struct pf_why *why)
{
	struct pf_mem_reader mem;
	struct pf_wire w;
	struct pf_field f;

	if (s->len > SIZE_MAX - out->len)
		return -ENOMEM;
	int e = pf_buf_reserve(out, (size_t)s->len);
	if (e < 0)
		return e;
	uint8_t *at = out->data + out->len;
	if (s->mem)
		memcpy(at, s->mem, (size_t)s->len);
	else
		e = r->read(r, s->off, at, (size_t)s->len);
	if (e < 0)
		return pf_why_default(why, e, "cannot read %" PRIu64 " bytes at offset %" PRIu64 ": %s", s->len, s->off,
				      strerror(-e));
	pf_mem_reader_init(&mem, at, (size_t)s->len);
	pf_wire_init(&w, &mem.base, 0, s->len);
	e = pf_wire_next(&w, &f, why);
	if (e < 0)
		return e;
	memmove(at, at + f.value, (size_t)f.len);
	out->len += (size_t)f.len;
	return 0;
}
