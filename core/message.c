#include "message.h"

#include <inttypes.h>

#include "lance.pb-c.h"
#include "text.h"

void pf_message_init(struct pf_message *m, struct pf_span span)
{
	pf_mem_reader_init(&m->mem, span.p, span.n);
	pf_wire_init(&m->w, &m->mem.base, 0, span.n);
	m->span = span;
}

int pf_message_next(struct pf_message *m, struct pf_member *out, struct pf_why *why)
{
	struct pf_field f;
	int r = m->span.n ? pf_wire_next(&m->w, &f, why) : 0;

	if (r <= 0)
		return r;
	*out = (struct pf_member){
		.number = f.number,
		.type = f.type,
		.whole = { m->span.p + f.start, (size_t)(m->w.pos - f.start) },
		.num = f.num,
	};
	if (f.type == PF_WIRE_LEN)
		out->value = (struct pf_span){ m->span.p + f.value, (size_t)f.len };
	return 1;
}

static int expect(const struct pf_member *f, enum pf_wire_type type, struct pf_why *why)
{
	if (f->type == type)
		return 0;
	return pf_why_set(why, -EBADMSG, "expected field %" PRIu32 " to be of wire type %d, found %d", f->number, type,
			  f->type);
}

int pf_member_u64(const struct pf_member *f, uint64_t *out, struct pf_why *why)
{
	int r = expect(f, PF_WIRE_VARINT, why);

	if (r == 0)
		*out = f->num;
	return r;
}

int pf_member_u32(const struct pf_member *f, uint32_t *out, struct pf_why *why)
{
	int r = expect(f, PF_WIRE_VARINT, why);

	if (r < 0)
		return r;
	if (f->num > UINT32_MAX)
		return pf_why_set(why, -EBADMSG, "expected a number of 32 bits in field %" PRIu32 ", found %" PRIu64,
				  f->number, f->num);
	*out = (uint32_t)f->num;
	return 0;
}

int pf_member_span(const struct pf_member *f, struct pf_span *out, struct pf_why *why)
{
	int r = expect(f, PF_WIRE_LEN, why);

	if (r == 0)
		*out = f->value;
	return r;
}

int pf_member_text(const struct pf_member *f, struct pf_span *out, struct pf_why *why)
{
	int r = expect(f, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	if (!pf_utf8_valid((const char *)f->value.p, f->value.n) || (f->value.n && memchr(f->value.p, 0, f->value.n)))
		return pf_why_set(why, -EBADMSG, "expected UTF-8 text in field %" PRIu32, f->number);
	*out = f->value;
	return 0;
}

void pf_numbers_release(struct pf_numbers *l)
{
	free(l->v);
	*l = (struct pf_numbers){ 0 };
}

int pf_numbers_add(struct pf_numbers *l, uint64_t v)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		uint64_t *more = reallocarray(l->v, cap, sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->v = more;
		l->cap = cap;
	}
	l->v[l->n++] = v;
	return 0;
}

bool pf_numbers_has(const struct pf_numbers *l, uint64_t v)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i] == v)
			return true;
	return false;
}

int pf_member_numbers(const struct pf_member *f, struct pf_numbers *l, struct pf_why *why)
{
	if (f->type == PF_WIRE_VARINT)
		return pf_numbers_add(l, f->num);
	int r = expect(f, PF_WIRE_LEN, why);
	for (size_t at = 0; r >= 0 && at < f->value.n; at += (size_t)r) {
		uint64_t v;

		r = pf_wire_varint(f->value.p + at, f->value.n - at, at, &v, why);
		if (r > 0 && pf_numbers_add(l, v) < 0)
			return -ENOMEM;
	}
	return r < 0 ? r : 0;
}

int pf_message_map_value(struct pf_span message, uint32_t number, const char *key, struct pf_span *out,
			 struct pf_why *why)
{
	const struct pf_span wanted = { (const uint8_t *)key, strlen(key) };
	struct pf_message walk, entry;
	struct pf_member m, part;
	int r, found = 0;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		struct pf_span k = { 0 }, v = { 0 };
		if (m.number != number)
			continue;
		pf_message_init(&entry, m.value);
		while ((r = pf_message_next(&entry, &part, why)) > 0) {
			if (part.number == LANCE__MAP_ENTRY__FIELD__KEY)
				k = part.value;
			else if (part.number == LANCE__MAP_ENTRY__FIELD__VALUE)
				v = part.value;
		}
		if (r < 0)
			return r;
		if (pf_span_eq(k, wanted)) {
			*out = v;
			found = 1;
		}
	}
	return r < 0 ? r : found;
}

static int put_change(struct pf_buf *out, const struct pf_change *c, bool *done)
{
	*done = true;
	return pf_buf_add(out, c->fields.p, c->fields.n);
}

static const struct pf_change *change_of(const struct pf_change *v, size_t n, uint32_t number, size_t *at)
{
	for (*at = 0; *at < n; ++*at)
		if (v[*at].number == number)
			return &v[*at];
	return NULL;
}

#define CHANGES_MAX 16

int pf_message_change(struct pf_span message, const struct pf_change *v, size_t n, struct pf_buf *out,
		      struct pf_why *why)
{
	bool done[CHANGES_MAX] = { false };
	struct pf_message m;
	struct pf_member f;
	size_t at;
	int r;

	if (n > CHANGES_MAX)
		return -EINVAL;
	pf_message_init(&m, message);
	while ((r = pf_message_next(&m, &f, why)) > 0) {
		/* Ascending: what belongs before this field and is not yet there. */
		for (size_t i = 0; r >= 0 && i < n; i++)
			if (!done[i] && v[i].number < f.number)
				r = put_change(out, &v[i], &done[i]);
		if (r < 0)
			return r;
		const struct pf_change *c = change_of(v, n, f.number, &at);
		if (!c)
			r = pf_buf_add(out, f.whole.p, f.whole.n);
		else if (!done[at])
			r = put_change(out, c, &done[at]);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!done[i])
			r = put_change(out, &v[i], &done[i]);
	return r;
}
