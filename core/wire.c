#include "wire.h"

#include <inttypes.h>
#include <string.h>

#define VARINT_MAX 10
#define NUMBER_MAX ((1u << 29) - 1)

/* The longest field head: a tag and a length, both spelled as long as a varint may be. Tag and fixed64 are shorter. */
#define HEAD_MAX (2 * VARINT_MAX)

static int mem_read(struct pf_reader *r, uint64_t off, void *buf, size_t n)
{
	if (off > r->size || n > r->size - off)
		return -EBADMSG;
	if (n)
		memcpy(buf, r->mem + off, n);
	return 0;
}

void pf_mem_reader_init(struct pf_mem_reader *r, const void *data, size_t len)
{
	*r = (struct pf_mem_reader){ .base = { .read = mem_read, .size = len, .mem = data } };
}

void pf_wire_init(struct pf_wire *w, struct pf_reader *r, uint64_t off, uint64_t len)
{
	/* A sum that would wrap becomes an end that no reader reaches: the first step refuses it. */
	*w = (struct pf_wire){ .r = r, .pos = off, .end = len > UINT64_MAX - off ? UINT64_MAX : off + len };
}

void pf_wire_release(struct pf_wire *w)
{
	free(w->win);
	*w = (struct pf_wire){ .r = w->r, .pos = w->end, .end = w->end };
}

/*
 * Point *p at the bytes of the field head at w->pos: HEAD_MAX of them, fewer only where the message ends. Returns how
 * many.
 */
static int head_bytes(struct pf_wire *w, const uint8_t **p, struct pf_why *why)
{
	uint64_t left = w->end - w->pos;
	size_t want = left < HEAD_MAX ? (size_t)left : HEAD_MAX;

	if (w->r->mem) {
		*p = w->r->mem + w->pos;
		return (int)want;
	}
	if (w->pos < w->win_off || w->pos - w->win_off > w->win_len || w->win_len - (w->pos - w->win_off) < want) {
		size_t n = left < PF_WIRE_WINDOW ? (size_t)left : PF_WIRE_WINDOW;

		/* Whoever moves the cursor may have more before it than the first window. */
		if (!w->win && !(w->win = malloc(w->r->size < PF_WIRE_WINDOW ? (size_t)w->r->size : PF_WIRE_WINDOW)))
			return -ENOMEM;
		int r = w->r->read(w->r, w->pos, w->win, n);
		if (r < 0)
			return pf_why_default(why, r, "cannot read %zu bytes at offset %" PRIu64 ": %s", n, w->pos,
					      strerror(-r));
		w->win_off = w->pos;
		w->win_len = n;
	}
	*p = w->win + (w->pos - w->win_off);
	return (int)want;
}

int pf_wire_varint(const uint8_t *p, size_t n, uint64_t at, uint64_t *out, struct pf_why *why)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n && i < VARINT_MAX; i++) {
		if (i == VARINT_MAX - 1 && p[i] > 1)
			return pf_why_set(why, -EBADMSG,
					  "the varint at offset %" PRIu64 " is above 64 bits or longer than %d bytes",
					  at, VARINT_MAX);
		v |= (uint64_t)(p[i] & 0x7f) << (7 * i);
		if (!(p[i] & 0x80)) {
			*out = v;
			return (int)i + 1;
		}
	}
	return pf_why_set(why, -EBADMSG,
			  "the varint at offset %" PRIu64 " does not end within its message, %zu bytes on", at, n);
}

/* Fill the value part of f from the n bytes at p. Returns 0. */
static int get_value(struct pf_field *f, const uint8_t *p, int n, uint64_t end, struct pf_why *why)
{
	uint64_t len;
	int r;

	switch (f->type) {
	case PF_WIRE_VARINT:
		r = pf_wire_varint(p, (size_t)n, f->value, &f->num, why);
		if (r < 0)
			return r;
		f->len = (uint64_t)r;
		return 0;
	case PF_WIRE_LEN:
		r = pf_wire_varint(p, (size_t)n, f->value, &len, why);
		if (r < 0)
			return r;
		f->value += (uint64_t)r;
		if (len > end - f->value)
			return pf_why_set(why, -EBADMSG,
					  "field %" PRIu32 " at offset %" PRIu64 " claims %" PRIu64 " bytes where its "
					  "message has %" PRIu64 " left",
					  f->number, f->start, len, end - f->value);
		f->len = len;
		return 0;
	case PF_WIRE_I64:
	case PF_WIRE_I32:
		f->len = f->type == PF_WIRE_I64 ? 8 : 4;
		if ((uint64_t)n < f->len)
			return pf_why_set(why, -EBADMSG,
					  "field %" PRIu32 " at offset %" PRIu64 " needs %" PRIu64 " bytes where its "
					  "message has %d left",
					  f->number, f->start, f->len, n);
		f->num = pf_get_le(p, (unsigned)f->len);
		return 0;
	}
	return pf_why_set(why, -EBADMSG,
			  "field %" PRIu32 " at offset %" PRIu64 " has wire type %d; expected 0, 1, 2 or 5", f->number,
			  f->start, (int)f->type);
}

int pf_wire_next(struct pf_wire *w, struct pf_field *out, struct pf_why *why)
{
	const uint8_t *p = NULL;
	uint64_t tag;

	if (w->end > w->r->size)
		return pf_why_set(why, -EBADMSG,
				  "a message at offset %" PRIu64 " passes the end of its bytes, %" PRIu64, w->pos,
				  w->r->size);
	if (w->pos == w->end)
		return 0;

	int n = head_bytes(w, &p, why);
	if (n < 0)
		return n;
	int used = pf_wire_varint(p, (size_t)n, w->pos, &tag, why);
	if (used < 0)
		return used;
	if (tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
		return pf_why_set(why, -EBADMSG, "field number %" PRIu64 " at offset %" PRIu64 "; expected 1 to %u",
				  tag >> 3, w->pos, NUMBER_MAX);

	struct pf_field f = {
		.number = (uint32_t)(tag >> 3),
		.type = (enum pf_wire_type)(tag & 7),
		.start = w->pos,
		.value = w->pos + (uint64_t)used,
	};
	int r = get_value(&f, p + used, n - used, w->end, why);
	if (r < 0)
		return r;
	w->pos = f.value + f.len;
	*out = f;
	return 1;
}

int pf_wire_expect(const struct pf_field *f, enum pf_wire_type type, struct pf_why *why)
{
	if (f->type == type)
		return 0;
	return pf_why_set(why, -EBADMSG, "field %" PRIu32 " at offset %" PRIu64 " has wire type %d; expected %d%s",
			  f->number, f->start, (int)f->type, (int)type, type == PF_WIRE_LEN ? ", bytes" : "");
}

int pf_wire_u64(const struct pf_field *f, uint64_t *out, struct pf_why *why)
{
	int r = pf_wire_expect(f, PF_WIRE_VARINT, why);

	if (r == 0)
		*out = f->num;
	return r;
}

int pf_wire_payload(struct pf_reader *r, const struct pf_field *f, size_t max, struct pf_buf *out, struct pf_why *why)
{
	int e = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (e < 0)
		return e;
	if (f->len > max)
		return pf_why_set(why, -EBADMSG,
				  "field %" PRIu32 " at offset %" PRIu64 " has %" PRIu64 " bytes; expected at most %zu",
				  f->number, f->start, f->len, max);
	if (f->len == 0)
		return 0;
	e = pf_buf_reserve(out, (size_t)f->len);
	if (e < 0)
		return e;
	e = r->read(r, f->value, out->data + out->len, (size_t)f->len);
	if (e < 0)
		return pf_why_default(why, e, "cannot read %" PRIu64 " bytes at offset %" PRIu64 ": %s", f->len,
				      f->value, strerror(-e));
	out->len += (size_t)f->len;
	return 0;
}

int pf_wire_take(struct pf_wire *w, const struct pf_field *f, size_t max, struct pf_buf *out, struct pf_why *why)
{
	uint64_t at = f->value - w->win_off;

	if (f->type != PF_WIRE_LEN || f->len > max || f->value < w->win_off || at > w->win_len ||
	    f->len > w->win_len - at)
		return pf_wire_payload(w->r, f, max, out, why);
	return f->len ? pf_buf_add(out, w->win + at, (size_t)f->len) : 0;
}

static size_t varint_bytes(uint64_t v, uint8_t *p)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		p[n++] = (uint8_t)(v | 0x80);
	p[n++] = (uint8_t)v;
	return n;
}

static size_t tag_bytes(uint32_t number, enum pf_wire_type type, uint8_t *p)
{
	return varint_bytes((uint64_t)number << 3 | type, p);
}

int pf_wire_put_varint(struct pf_buf *b, uint64_t v)
{
	uint8_t head[HEAD_MAX];
	return pf_buf_add(b, head, varint_bytes(v, head));
}

int pf_wire_put_tag(struct pf_buf *b, uint32_t number, enum pf_wire_type type)
{
	uint8_t head[HEAD_MAX];
	return pf_buf_add(b, head, tag_bytes(number, type, head));
}

int pf_wire_put_u64(struct pf_buf *b, uint32_t number, uint64_t v)
{
	uint8_t head[HEAD_MAX];
	size_t n = tag_bytes(number, PF_WIRE_VARINT, head);

	return pf_buf_add(b, head, n + varint_bytes(v, head + n));
}

int pf_wire_put_bytes(struct pf_buf *b, uint32_t number, const void *p, size_t n)
{
	uint8_t head[HEAD_MAX];
	size_t h = tag_bytes(number, PF_WIRE_LEN, head);

	h += varint_bytes(n, head + h);
	/* Room for all of it first, so that no half field is left behind. */
	if (n > SIZE_MAX - h)
		return -ENOMEM;
	int r = pf_buf_reserve(b, h + n);
	if (r < 0)
		return r;
	pf_buf_add(b, head, h);
	return pf_buf_add(b, p, n);
}
