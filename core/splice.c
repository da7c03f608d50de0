#include "manifest.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"

#define FOOTER_TAIL 8 /* major, minor and magic, carried as they are */

/*
 * Bytes on their way out. Neighbouring ranges of the base become one copy, so that a manifest of a million fragments costs a handful of
 * calls. With no stage it only counts.
 */
struct emit {
	struct pf_stage *out;
	struct pf_file *base;
	uint64_t off, len; /* of the base, not copied yet */
	uint64_t total;
};

static int emit_flush(struct emit *e)
{
	uint64_t len = e->len;

	e->len = 0;
	return len && e->out ? pf_stage_copy(e->out, e->base, e->off, len) : 0;
}

static int emit_base(struct emit *e, uint64_t off, uint64_t len)
{
	e->total += len;
	if (e->len > 0 && e->off + e->len == off) {
		e->len += len;
		return 0;
	}
	int r = emit_flush(e);
	e->off = off;
	e->len = len;
	return r;
}

static int emit_mem(struct emit *e, const void *p, uint64_t len)
{
	int r = emit_flush(e);

	e->total += len;
	return r == 0 && len && e->out ? pf_stage_write(e->out, p, len) : r;
}

static int emit_pieces(struct emit *e, const struct pf_piece *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = v[i].mem ? emit_mem(e, v[i].mem, v[i].len) : emit_base(e, v[i].off, v[i].len);
		if (r < 0)
			return r;
	}
	return 0;
}

static int emit_le(struct emit *e, uint64_t v, unsigned n)
{
	uint8_t p[8];

	for (unsigned i = 0; i < n; i++)
		p[i] = (uint8_t)(v >> (8 * i));
	return emit_mem(e, p, n);
}

/* A message behind its u32 length. */
static int emit_section(struct emit *e, const struct pf_piece *v, size_t n, uint64_t len)
{
	int r = emit_le(e, len, 4);

	return r < 0 ? r : emit_pieces(e, v, n);
}

/* A patch, and the run of the base before which it stands (n_runs: at the end). */
struct placed {
	struct pf_patch patch;
	size_t before;
};

struct plan {
	const struct pf_manifest *base;
	const struct pf_piece *index, *txn; /* NULL: no such section */
	size_t n_index, n_txn;
	uint64_t index_len, txn_len;
	struct pf_piece carried_index, one_txn, offset[3];
	struct pf_buf fields[3]; /* 6, 21, 23, where they are written */
	struct placed *v;
	size_t n;
};

static void plan_release(struct plan *p)
{
	for (size_t i = 0; i < ARRAY_LEN(p->fields); i++)
		pf_buf_release(&p->fields[i]);
	free(p->v);
}

static bool has_field(const struct pf_manifest *m, uint32_t number)
{
	for (size_t i = 0; i < m->n_runs; i++)
		if (m->runs[i].number == number)
			return true;
	return false;
}

static size_t find_place(const struct pf_manifest *m, uint32_t number)
{
	size_t greater = m->n_runs;

	for (size_t i = 0; i < m->n_runs; i++) {
		if (m->runs[i].number == number)
			return i;
		if (m->runs[i].number > number && greater == m->n_runs)
			greater = i;
	}
	return greater;
}

static int check_pieces(const struct pf_manifest *base, const struct pf_piece *v, size_t n, uint64_t *len)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		if (!v[i].mem && (v[i].off > base->st.size || v[i].len > base->st.size - v[i].off))
			return -EINVAL;
		if (__builtin_add_overflow(sum, v[i].len, &sum))
			return -EFBIG;
	}
	*len = sum;
	return sum > UINT32_MAX ? -EFBIG : 0;
}

static int plan_sections(struct plan *p, const struct pf_splice *how)
{
	const struct pf_manifest *base = p->base;

	if (how->index) {
		p->index = how->index;
		p->n_index = how->n_index;
	} else if (base->index.present && !how->drop_index) {
		p->carried_index = (struct pf_piece){ NULL, base->index.off, base->index.len };
		p->index = &p->carried_index;
		p->n_index = 1;
	}
	if (how->transaction)
		p->one_txn = (struct pf_piece){ how->transaction, 0, how->transaction_len };
	else if (base->transaction.present)
		p->one_txn = (struct pf_piece){ NULL, base->transaction.off, base->transaction.len };
	if (how->transaction || base->transaction.present) {
		p->txn = &p->one_txn;
		p->n_txn = 1;
	}
	int r = check_pieces(base, p->index, p->n_index, &p->index_len);
	return r < 0 ? r : check_pieces(base, p->txn, p->n_txn, &p->txn_len);
}

static int place(struct plan *p, const struct pf_patch *patch)
{
	uint64_t len;
	size_t i = p->n;

	for (; i > 0 && p->v[i - 1].patch.number >= patch->number; i--) {
		if (p->v[i - 1].patch.number == patch->number)
			return -EINVAL;
		p->v[i] = p->v[i - 1];
	}
	p->v[i] = (struct placed){ *patch, find_place(p->base, patch->number) };
	p->n++;
	return check_pieces(p->base, patch->pieces, patch->n_pieces, &len);
}

/* The field `number` with the offset of a section, or none of it. */
static int place_offset(struct plan *p, size_t i, uint32_t number, bool there, uint64_t off)
{
	struct pf_patch patch = { .number = number };

	if (there) {
		int r = pf_wire_put_u64(&p->fields[i], number, off);
		if (r < 0)
			return r;
		p->offset[i] = (struct pf_piece){ p->fields[i].data, 0, p->fields[i].len };
		patch.pieces = &p->offset[i];
		patch.n_pieces = 1;
	}
	return place(p, &patch);
}

static int plan_fields(struct plan *p, const struct pf_splice *how)
{
	const uint32_t f21 = LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_21,
		       f23 = LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_23;
	uint64_t index_at = p->base->lead_len, txn_at = index_at + (p->index ? 4 + p->index_len : 0);

	p->v = calloc(how->n_patches + ARRAY_LEN(p->fields), sizeof(*p->v));
	if (!p->v)
		return -ENOMEM;
	int r = place_offset(p, 0, LANCE__MANIFEST__FIELD__INDEX_SECTION, p->index, index_at);
	if (r == 0)
		r = place_offset(p, 1, f21, p->txn && (how->transaction || has_field(p->base, f21)), txn_at);
	if (r == 0)
		r = place_offset(p, 2, f23, p->txn && (how->transaction || has_field(p->base, f23)), txn_at);
	for (size_t i = 0; r == 0 && i < how->n_patches; i++)
		r = place(p, &how->patches[i]);
	return r;
}

static bool is_patched(const struct plan *p, uint32_t number)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].patch.number == number)
			return true;
	return false;
}

static int emit_body(struct emit *e, const struct plan *p)
{
	const struct pf_manifest *base = p->base;

	for (size_t i = 0; i <= base->n_runs; i++) {
		for (size_t j = 0; j < p->n; j++) {
			if (p->v[j].before != i)
				continue;
			int r = emit_pieces(e, p->v[j].patch.pieces, p->v[j].patch.n_pieces);
			if (r < 0)
				return r;
		}
		if (i < base->n_runs && !is_patched(p, base->runs[i].number)) {
			int r = emit_base(e, base->runs[i].off, base->runs[i].len);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int emit_all(struct emit *e, const struct plan *p)
{
	struct emit count = { .total = 0 };

	emit_body(&count, p);
	if (count.total > UINT32_MAX)
		return -EFBIG;
	int r = emit_base(e, 0, p->base->lead_len);
	if (r == 0 && p->index)
		r = emit_section(e, p->index, p->n_index, p->index_len);
	if (r == 0 && p->txn)
		r = emit_section(e, p->txn, p->n_txn, p->txn_len);
	uint64_t body_at = e->total;
	if (r == 0)
		r = emit_le(e, count.total, 4);
	if (r == 0)
		r = emit_body(e, p);
	if (r == 0)
		r = emit_le(e, body_at, 8);
	if (r == 0)
		r = emit_base(e, p->base->st.size - FOOTER_TAIL, FOOTER_TAIL);
	return r < 0 ? r : emit_flush(e);
}

static int splice(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how,
		  struct pf_stage *out)
{
	_cleanup_(plan_release) struct plan p = { .base = base };
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;

	int r = plan_sections(&p, how);
	if (r == 0)
		r = plan_fields(&p, how);
	if (r == 0)
		r = pf_store_open(st, base->name, &file);
	if (r == -ENOENT || (r == 0 && !pf_stat_same(&file->st, &base->st)))
		return -ESTALE;
	if (r < 0)
		return r;
	struct emit e = { .out = out, .base = file };
	return emit_all(&e, &p);
}

int pf_manifest_splice(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how,
		       struct pf_stage *out, struct pf_why *why)
{
	int r = splice(st, base, how, out);

	switch (r) {
	case 0:
		return 0;
	case -ESTALE:
		return pf_why_set(why, r, "%s is gone or was replaced since it was read", base->name);
	case -EFBIG:
		return pf_why_set(why, r, "the successor of %s would have a message of 4 GiB or more", base->name);
	case -EINVAL:
		return pf_why_set(why, r, "the patches of %s are repeated, for its offsets, or outside it", base->name);
	default:
		return pf_why_set(why, r, "cannot write the successor of %s: %s", base->name, strerror(-r));
	}
}

int pf_manifest_put_timestamp(struct pf_time t, struct pf_buf *out)
{
	Lance__Timestamp m = LANCE__TIMESTAMP__INIT;
	uint8_t bytes[32]; /* two varints and two tags at most: 22 */

	m.has_seconds = t.sec != 0;
	m.seconds = t.sec;
	m.has_nanos = t.nsec != 0;
	m.nanos = t.nsec;
	return pf_wire_put_bytes(out, LANCE__MANIFEST__FIELD__TIMESTAMP, bytes, lance__timestamp__pack(&m, bytes));
}
