#include "extend.h"

#include <string.h>

#include "lance.pb-c.h"
#include "message.h"

#define FOOTER_LEN 16
#define PREFIX_LEN 4

void pf_extension_release(struct pf_extension *x)
{
	pf_buf_release(&x->tail);
	pf_buf_release(&x->was);
}

/* What the base has of a number: how many runs, and the last of them. */
static size_t find_runs(const struct pf_manifest *m, uint32_t number, struct pf_run *out)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_runs; i++)
		if (m->runs[i].number == number) {
			*out = m->runs[i];
			n++;
		}
	return n;
}

static int read_bytes(struct pf_reader *r, uint64_t off, uint64_t len, struct pf_buf *out)
{
	int e = pf_buf_reserve(out, (size_t)len);

	if (e == 0)
		e = r->read(r, off, out->data, (size_t)len);
	if (e == 0)
		out->len = (size_t)len;
	return e;
}

static int stands_there(struct pf_reader *r, uint64_t off, uint64_t len, struct pf_span bytes)
{
	_cleanup_(pf_buf_release) struct pf_buf is = PF_BUF_INIT;

	if (len != bytes.n)
		return 0;
	int e = read_bytes(r, off, len, &is);
	return e < 0 ? e : pf_span_eq(PF_SPAN_OF(&is), bytes);
}

/* Is it one field, a number? */
static int is_number(struct pf_reader *r, uint64_t off, uint64_t len)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;

	pf_wire_init(&w, r, off, len);
	int e = pf_wire_next(&w, &f, NULL);
	return e <= 0 ? e : f.type == PF_WIRE_VARINT && w.pos == off + len;
}

/* Add `bytes`, whole fields of a number, or none, to what is to stand last: 1, or 0 if that does not replace what there is. */
static int add_fields(struct pf_reader *r, const struct pf_manifest *base, uint32_t number, struct pf_span bytes,
		      struct pf_buf *tail)
{
	struct pf_mem_reader mem;
	struct pf_run run = { 0 };
	size_t n = find_runs(base, number, &run);

	if (n == 0)
		return pf_buf_add(tail, bytes.p, bytes.n) < 0 ? -ENOMEM : 1;
	if (n > 1)
		return 0;
	int e = stands_there(r, run.off, run.len, bytes);
	if (e != 0)
		return e;
	pf_mem_reader_init(&mem, bytes.p, bytes.n);
	e = bytes.n ? is_number(&mem.base, 0, bytes.n) : 0;
	if (e > 0)
		e = is_number(r, run.off, run.len);
	return e <= 0 ? e : pf_buf_add(tail, bytes.p, bytes.n) < 0 ? -ENOMEM : 1;
}

static int add_patch(struct pf_reader *r, const struct pf_manifest *base, const struct pf_patch *p, struct pf_buf *tail)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	for (size_t i = 0; i < p->n_pieces; i++) {
		if (!p->pieces[i].mem)
			return 0;
		if (pf_buf_add(&bytes, p->pieces[i].mem, p->pieces[i].len) < 0)
			return -ENOMEM;
	}
	return add_fields(r, base, p->number, PF_SPAN_OF(&bytes), tail);
}

/* The transaction is the one that stands there, and both fields lead to it. */
static int add_transaction(struct pf_reader *r, const struct pf_manifest *base, const struct pf_splice *how,
			   struct pf_buf *tail)
{
	static const uint32_t numbers[] = { LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_21,
					    LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_23 };
	const struct pf_section *s = &base->transaction;

	if (!how->transaction)
		return 1;
	int e = s->present ? stands_there(r, s->off, s->len, (struct pf_span){ how->transaction, how->transaction_len })
			   : 0;
	for (size_t i = 0; e > 0 && i < ARRAY_LEN(numbers); i++) {
		_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
		e = pf_wire_put_u64(&field, numbers[i], s->off - PREFIX_LEN);
		if (e == 0)
			e = add_fields(r, base, numbers[i], PF_SPAN_OF(&field), tail);
	}
	return e;
}

/* Are these what a splice takes: each number once, and no offset of a section? */
static bool is_sound(const struct pf_splice *how)
{
	for (size_t i = 0; i < how->n_patches; i++) {
		uint32_t number = how->patches[i].number;
		if (number == LANCE__MANIFEST__FIELD__INDEX_SECTION ||
		    number == LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_21 ||
		    number == LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_23)
			return false;
		for (size_t k = 0; k < i; k++)
			if (how->patches[k].number == number)
				return false;
	}
	return true;
}

static int plan(struct pf_reader *r, const struct pf_manifest *base, const struct pf_splice *how,
		struct pf_extension *x)
{
	if (how->index || how->drop_index || !is_sound(how))
		return 0;
	int e = add_transaction(r, base, how, &x->tail);
	for (size_t i = 0; e > 0 && i < how->n_patches; i++)
		e = add_patch(r, base, &how->patches[i], &x->tail);
	if (e <= 0)
		return e;
	if (x->tail.len > UINT32_MAX - base->body_len)
		return 0;
	x->body_off = base->body_off;
	x->body_len = base->body_len;
	x->size = base->st.size;
	e = read_bytes(r, x->size - FOOTER_LEN, FOOTER_LEN, &x->was);
	if (e == 0)
		e = pf_buf_add(&x->tail, x->was.data, x->was.len);
	return e < 0 ? e : 1;
}

int pf_extension_plan(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how,
		      struct pf_extension *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_extension x = { 0 };

	int r = pf_manifest_reopen(st, base, &file, why);
	if (r < 0)
		return r;
	r = plan(&file->r, base, how, &x);
	if (r > 0)
		*out = x;
	else
		pf_extension_release(&x);
	return r < 0 ? pf_why_set(why, r, "%s: %s", base->name, strerror(-r)) : r;
}

static int put_length(const struct pf_extension *x, uint64_t len, struct pf_stage *sg)
{
	uint8_t p[PREFIX_LEN];

	for (unsigned i = 0; i < PREFIX_LEN; i++)
		p[i] = (uint8_t)(len >> (8 * i));
	return pf_stage_put(sg, x->body_off - PREFIX_LEN, p, sizeof(p));
}

int pf_extension_apply(const struct pf_extension *x, struct pf_stage *sg)
{
	int r = pf_stage_put(sg, x->body_off + x->body_len, x->tail.data, x->tail.len);

	return r < 0 ? r : put_length(x, x->body_len + x->tail.len - FOOTER_LEN, sg);
}

int pf_extension_undo(const struct pf_extension *x, struct pf_stage *sg)
{
	int r = pf_stage_cut(sg, x->size);

	if (r == 0)
		r = pf_stage_put(sg, x->body_off + x->body_len, x->was.data, x->was.len);
	return r < 0 ? r : put_length(x, x->body_len, sg);
}
