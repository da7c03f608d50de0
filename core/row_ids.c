#include "row_ids.h"

#include <inttypes.h>

#include "lance.pb-c.h"

/* A segment as it stands on the wire. */
struct segment {
	unsigned kind; /* field number of the oneof, 0: none */
	uint64_t start, end;
	struct pf_span holes; /* message of the holes, or the bitmap */
	struct pf_span array; /* message of SORTED_ARRAY, ARRAY */
};

/* An encoded array: `width` bytes a value, added to base. */
struct array {
	unsigned width;
	uint64_t base;
	struct pf_span bytes;
};

static int damaged(struct pf_why *why, const char *what)
{
	return pf_why_set(why, -EBADMSG, "row ids: expected %s", what);
}

static int decode_array(struct pf_span message, struct array *out, struct pf_why *why)
{
	static const unsigned width[] = { [LANCE__ROW_SEGMENT__ARRAY__FIELD__U16] = 2,
					  [LANCE__ROW_SEGMENT__ARRAY__FIELD__U32] = 4,
					  [LANCE__ROW_SEGMENT__ARRAY__FIELD__U64] = 8 };
	struct array a = { 0 };
	struct pf_message walk, inner;
	struct pf_member m, v;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number >= ARRAY_LEN(width) || !width[m.number])
			continue;
		if (m.type != PF_WIRE_LEN)
			return damaged(why, "an array to be a message");
		a = (struct array){ .width = width[m.number] };
		pf_message_init(&inner, m.value);
		while ((r = pf_message_next(&inner, &v, why)) > 0) {
			if (v.number == LANCE__ROW_SEGMENT__VALUES__FIELD__BASE)
				r = pf_member_u64(&v, &a.base, why);
			else if (v.number == LANCE__ROW_SEGMENT__VALUES__FIELD__OFFSETS)
				r = pf_member_span(&v, &a.bytes, why);
			if (r < 0)
				return r;
		}
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (!a.width)
		return damaged(why, "an array of 16, 32 or 64 bits");
	if (a.bytes.n % a.width)
		return damaged(why, "whole values in an array");
	*out = a;
	return 0;
}

static size_t array_count(const struct array *a)
{
	return a->bytes.n / a->width;
}

static uint64_t array_at(const struct array *a, size_t i)
{
	return a->base + pf_get_le(a->bytes.p + i * a->width, a->width);
}

static int decode_segment(struct pf_span message, struct segment *out, struct pf_why *why)
{
	struct segment s = { 0 };
	struct pf_message walk, inner;
	struct pf_member m, f;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number > LANCE__ROW_SEGMENT__FIELD__ARRAY)
			continue;
		if (m.type != PF_WIRE_LEN)
			return damaged(why, "a segment to be a message");
		s = (struct segment){ .kind = m.number, .array = m.value };
		if (m.number > LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP)
			continue;
		pf_message_init(&inner, m.value);
		while ((r = pf_message_next(&inner, &f, why)) > 0) {
			if (f.number == LANCE__ROW_SEGMENT__RANGE__FIELD__START)
				r = pf_member_u64(&f, &s.start, why);
			else if (f.number == LANCE__ROW_SEGMENT__RANGE__FIELD__END)
				r = pf_member_u64(&f, &s.end, why);
			else if (f.number == LANCE__ROW_SEGMENT__RANGE__FIELD__HOLES)
				r = pf_member_span(&f, &s.holes, why);
			if (r < 0)
				return r;
		}
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (!s.kind)
		return damaged(why, "a segment of a known kind");
	if (s.start > s.end)
		return damaged(why, "a range not to end before it starts");
	if (s.kind == LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP &&
	    s.holes.n != (s.end - s.start) / 8 + ((s.end - s.start) % 8 != 0))
		return damaged(why, "a bitmap as long as its range");
	*out = s;
	return 0;
}

static int segment_count(const struct segment *s, uint64_t *out, struct pf_why *why)
{
	struct array a;
	uint64_t n = s->end - s->start;
	int r = 0;

	switch (s->kind) {
	case LANCE__ROW_SEGMENT__FIELD__RANGE:
		break;
	case LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_HOLES:
		r = decode_array(s->holes, &a, why);
		if (r == 0 && array_count(&a) > n)
			r = damaged(why, "fewer holes than the range has values");
		if (r == 0)
			n -= array_count(&a);
		break;
	case LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP:
		n = 0;
		for (size_t i = 0; i < s->holes.n; i++)
			n += (uint64_t)__builtin_popcount(s->holes.p[i]);
		break;
	default:
		r = decode_array(s->array, &a, why);
		if (r == 0)
			n = array_count(&a);
	}
	if (r == 0)
		*out = n;
	return r;
}

typedef int (*segment_fn)(void *arg, const struct segment *s, struct pf_why *why);

/* Each segment: field 1 of a sequence. */
static int each_segment(struct pf_span sequence, segment_fn fn, void *arg, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	struct segment s;
	struct pf_span span;
	int r;

	pf_message_init(&walk, sequence);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number != LANCE__ROW_ID_SEQUENCE__FIELD__SEGMENTS)
			continue;
		r = pf_member_span(&m, &span, why);
		if (r == 0)
			r = decode_segment(span, &s, why);
		if (r == 0)
			r = fn(arg, &s, why);
		if (r < 0)
			return r;
	}
	return r;
}

static int add_count(void *arg, const struct segment *s, struct pf_why *why)
{
	uint64_t *sum = arg, n;
	int r = segment_count(s, &n, why);

	if (r == 0 && __builtin_add_overflow(*sum, n, sum))
		return damaged(why, "fewer than 2^64 ids");
	return r;
}

int pf_row_ids_count(struct pf_span sequence, uint64_t *out, struct pf_why *why)
{
	uint64_t sum = 0;
	int r = each_segment(sequence, add_count, &sum, why);

	if (r == 0)
		*out = sum;
	return r;
}

struct bounds {
	uint64_t low, high;
};

static int widen(void *arg, const struct segment *s, struct pf_why *why)
{
	struct bounds *b = arg;
	struct array a;

	if (s->kind <= LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP) {
		if (s->start < s->end && s->start < b->low)
			b->low = s->start;
		if (s->start < s->end && s->end - 1 > b->high)
			b->high = s->end - 1;
		return 0;
	}
	int r = decode_array(s->array, &a, why);
	for (size_t i = 0; r == 0 && i < array_count(&a); i++) {
		uint64_t v = array_at(&a, i);
		if (v < b->low)
			b->low = v;
		if (v > b->high)
			b->high = v;
	}
	return r;
}

int pf_row_ids_bounds(struct pf_span sequence, uint64_t *low, uint64_t *high, struct pf_why *why)
{
	struct bounds b = { UINT64_MAX, 0 };
	int r = each_segment(sequence, widen, &b, why);

	if (r == 0) {
		*low = b.low;
		*high = b.high;
	}
	return r;
}

struct reading {
	struct pf_numbers *out;
	uint64_t left;
};

static int read_holes(const struct segment *s, struct pf_numbers *out, struct pf_why *why)
{
	struct array a;
	size_t at = 0;
	int r = decode_array(s->holes, &a, why);

	for (uint64_t v = s->start; r == 0 && v < s->end; v++) {
		if (at < array_count(&a) && array_at(&a, at) == v)
			at++;
		else
			r = pf_numbers_add(out, v);
	}
	return r;
}

/* Lowest bit first, whatever the comment in the format says. */
static bool has_bit(const struct segment *s, uint64_t i)
{
	return s->holes.p[i / 8] >> (i % 8) & 1;
}

static int read_segment(void *arg, const struct segment *s, struct pf_why *why)
{
	struct reading *rd = arg;
	struct array a;
	uint64_t n;
	int r = segment_count(s, &n, why);

	if (r < 0)
		return r;
	if (n > rd->left)
		return damaged(why, "no more ids than rows");
	rd->left -= n;
	switch (s->kind) {
	case LANCE__ROW_SEGMENT__FIELD__RANGE:
		for (uint64_t v = s->start; r == 0 && v < s->end; v++)
			r = pf_numbers_add(rd->out, v);
		return r;
	case LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_HOLES:
		return read_holes(s, rd->out, why);
	case LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP:
		for (uint64_t i = 0; r == 0 && i < s->end - s->start; i++)
			if (has_bit(s, i))
				r = pf_numbers_add(rd->out, s->start + i);
		return r;
	default:
		r = decode_array(s->array, &a, why);
		for (size_t i = 0; r == 0 && i < array_count(&a); i++)
			r = pf_numbers_add(rd->out, array_at(&a, i));
		return r;
	}
}

int pf_row_ids_read(struct pf_span sequence, uint64_t max, struct pf_numbers *out, struct pf_why *why)
{
	struct reading rd = { out, max };

	return each_segment(sequence, read_segment, &rd, why);
}

/* proto3 writers leave zeros out. */
static int put_u64(struct pf_buf *b, uint32_t number, uint64_t v)
{
	return v ? pf_wire_put_u64(b, number, v) : 0;
}

static int put_range(uint64_t start, uint64_t end, struct pf_buf *b)
{
	int r = put_u64(b, LANCE__ROW_SEGMENT__RANGE__FIELD__START, start);

	return r < 0 ? r : put_u64(b, LANCE__ROW_SEGMENT__RANGE__FIELD__END, end);
}

/* A sequence of one segment, which holds `body` as `kind`. */
static int put_sequence(uint32_t kind, const struct pf_buf *body, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf segment = PF_BUF_INIT;
	int r = pf_put_span(&segment, kind, PF_SPAN_OF(body));

	return r < 0 ? r : pf_put_span(out, LANCE__ROW_ID_SEQUENCE__FIELD__SEGMENTS, PF_SPAN_OF(&segment));
}

int pf_row_ids_put_range(uint64_t start, uint64_t end, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf range = PF_BUF_INIT;
	int r = put_range(start, end, &range);

	return r < 0 ? r : put_sequence(LANCE__ROW_SEGMENT__FIELD__RANGE, &range, out);
}

/* Append an encoded array: offsets from the lowest value if they fit into 16 or 32 bits. */
static int put_array(const uint64_t *v, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, values = PF_BUF_INIT;
	uint64_t low = UINT64_MAX, high = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++) {
		low = v[i] < low ? v[i] : low;
		high = v[i] > high ? v[i] : high;
	}
	if (n == 0)
		low = 0;
	unsigned width = high - low <= UINT16_MAX ? 2 : high - low <= UINT32_MAX ? 4 : 8;
	uint64_t base = width == 8 ? 0 : low;
	for (size_t i = 0; r == 0 && i < n; i++)
		for (unsigned k = 0; r == 0 && k < width; k++)
			r = pf_buf_addch(&bytes, (char)((v[i] - base) >> (8 * k)));
	if (r == 0 && width != 8)
		r = put_u64(&values, LANCE__ROW_SEGMENT__VALUES__FIELD__BASE, base);
	if (r == 0 && bytes.len)
		r = pf_put_span(&values, LANCE__ROW_SEGMENT__VALUES__FIELD__OFFSETS, PF_SPAN_OF(&bytes));
	uint32_t kind = width == 2   ? LANCE__ROW_SEGMENT__ARRAY__FIELD__U16
			: width == 4 ? LANCE__ROW_SEGMENT__ARRAY__FIELD__U32
				     : LANCE__ROW_SEGMENT__ARRAY__FIELD__U64;
	return r < 0 ? r : pf_put_span(out, kind, PF_SPAN_OF(&values));
}

static int put_with_holes(const uint64_t *v, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_numbers_release) struct pf_numbers holes = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf array = PF_BUF_INIT, body = PF_BUF_INIT;
	int r = 0;

	for (size_t i = 1; r == 0 && i < n; i++)
		for (uint64_t h = v[i - 1] + 1; r == 0 && h < v[i]; h++)
			r = pf_numbers_add(&holes, h);
	if (r == 0)
		r = put_range(v[0], v[n - 1] + 1, &body);
	if (r == 0)
		r = put_array(holes.v, holes.n, &array);
	if (r == 0)
		r = pf_put_span(&body, LANCE__ROW_SEGMENT__RANGE__FIELD__HOLES, PF_SPAN_OF(&array));
	return r < 0 ? r : put_sequence(LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_HOLES, &body, out);
}

static int put_with_bitmap(const uint64_t *v, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bits = PF_BUF_INIT, body = PF_BUF_INIT;
	size_t len = (size_t)((v[n - 1] - v[0]) / 8 + 1);
	int r = pf_buf_reserve(&bits, len);

	if (r < 0)
		return r;
	memset(bits.data, 0, len);
	bits.len = len;
	for (size_t i = 0; i < n; i++)
		bits.data[(v[i] - v[0]) / 8] |= (uint8_t)(1u << ((v[i] - v[0]) % 8));
	r = put_range(v[0], v[n - 1] + 1, &body);
	if (r == 0)
		r = pf_put_span(&body, LANCE__ROW_SEGMENT__RANGE__FIELD__HOLES, PF_SPAN_OF(&bits));
	return r < 0 ? r : put_sequence(LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP, &body, out);
}

int pf_row_ids_put(const uint64_t *v, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf array = PF_BUF_INIT;
	bool sorted = true;

	for (size_t i = 1; i < n; i++)
		sorted = sorted && v[i] >= v[i - 1];
	if (n == 0)
		return pf_row_ids_put_range(0, 0, out);
	/* Lance weighs the forms of sorted ids: 4 bytes a hole, a bit a value of the range, 2 bytes an id. */
	if (sorted && v[n - 1] != UINT64_MAX) {
		uint64_t slots = v[n - 1] - v[0] + 1, holes = slots - n;
		if (holes == 0)
			return pf_row_ids_put_range(v[0], v[n - 1] + 1, out);
		uint64_t by_holes = holes > UINT64_MAX / 4 ? UINT64_MAX : 4 * holes,
			 by_bits = slots / 8 + (slots % 8 != 0), by_ids = 2 * (uint64_t)n;
		if (by_holes <= by_bits && by_holes <= by_ids)
			return put_with_holes(v, n, out);
		if (by_bits <= by_ids)
			return put_with_bitmap(v, n, out);
	}
	int r = put_array(v, n, &array);
	return r < 0 ? r
		     : put_sequence(sorted ? LANCE__ROW_SEGMENT__FIELD__SORTED_ARRAY : LANCE__ROW_SEGMENT__FIELD__ARRAY,
				    &array, out);
}

/* As many ranges as holes let be, one a run of bits. */
static int put_runs(const struct segment *s, struct pf_buf *out)
{
	uint64_t n = s->end - s->start, from = 0;
	int r = 0;

	for (uint64_t i = 0; r == 0 && i <= n; i++) {
		if (i < n && has_bit(s, i))
			continue;
		if (i > from)
			r = pf_row_ids_put_range(s->start + from, s->start + i, out);
		from = i + 1;
	}
	return r;
}

/* Lance counts 16 bytes a range, and one more range than there are runs of holes. */
static bool is_smaller_as_ranges(const struct segment *s)
{
	uint64_t n = s->end - s->start, holes = 0;

	if (s->kind != LANCE__ROW_SEGMENT__FIELD__RANGE_WITH_BITMAP || n > UINT32_MAX)
		return false;
	for (uint64_t i = 0; i < n; i++)
		holes += !has_bit(s, i) && (i == 0 || has_bit(s, i - 1));
	return (holes + 1) * 16 < s->holes.n;
}

int pf_row_ids_put_ranges(struct pf_span sequence, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_message walk;
	struct pf_member m;
	struct segment s;
	bool any = false;
	int r;

	pf_message_init(&walk, sequence);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number == LANCE__ROW_ID_SEQUENCE__FIELD__SEGMENTS) {
			r = m.type == PF_WIRE_LEN ? decode_segment(m.value, &s, why)
						  : damaged(why, "a segment to be a message");
			if (r == 0 && is_smaller_as_ranges(&s)) {
				any = true;
				r = put_runs(&s, &b);
			} else if (r == 0) {
				r = pf_buf_add(&b, m.whole.p, m.whole.n);
			}
		}
		if (r < 0)
			return r;
	}
	if (r < 0 || !any)
		return r;
	r = pf_buf_add(out, b.data, b.len);
	return r < 0 ? r : 1;
}

static int read_run(struct pf_span run, struct pf_numbers *out, uint64_t *left, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	struct pf_span span = { 0 };
	struct segment s;
	uint64_t version = 0, n = 0;
	int r;

	pf_message_init(&walk, run);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number == LANCE__ROW_VERSION_SEQUENCE__RUN__FIELD__SPAN)
			r = pf_member_span(&m, &span, why);
		else if (m.number == LANCE__ROW_VERSION_SEQUENCE__RUN__FIELD__VERSION)
			r = pf_member_u64(&m, &version, why);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = decode_segment(span, &s, why);
	if (r == 0)
		r = segment_count(&s, &n, why);
	if (r < 0)
		return r;
	if (n > *left)
		return damaged(why, "no more versions than rows");
	*left -= n;
	while (r == 0 && n-- > 0)
		r = pf_numbers_add(out, version);
	return r;
}

int pf_row_versions_read(struct pf_span sequence, uint64_t max, struct pf_numbers *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	struct pf_span span;
	int r;

	pf_message_init(&walk, sequence);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number != LANCE__ROW_VERSION_SEQUENCE__FIELD__RUNS)
			continue;
		r = pf_member_span(&m, &span, why);
		if (r == 0)
			r = read_run(span, out, &max, why);
		if (r < 0)
			return r;
	}
	return r;
}

static int put_run(uint64_t start, uint64_t end, uint64_t version, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf range = PF_BUF_INIT, segment = PF_BUF_INIT, run = PF_BUF_INIT;
	int r = put_range(start, end, &range);

	if (r == 0)
		r = pf_put_span(&segment, LANCE__ROW_SEGMENT__FIELD__RANGE, PF_SPAN_OF(&range));
	if (r == 0)
		r = pf_put_span(&run, LANCE__ROW_VERSION_SEQUENCE__RUN__FIELD__SPAN, PF_SPAN_OF(&segment));
	if (r == 0)
		r = put_u64(&run, LANCE__ROW_VERSION_SEQUENCE__RUN__FIELD__VERSION, version);
	return r < 0 ? r : pf_put_span(out, LANCE__ROW_VERSION_SEQUENCE__FIELD__RUNS, PF_SPAN_OF(&run));
}

int pf_row_versions_put(const uint64_t *v, size_t n, struct pf_buf *out)
{
	size_t start = 0;
	int r = 0;

	for (size_t i = 1; r == 0 && i <= n; i++) {
		if (i < n && v[i] == v[start])
			continue;
		r = put_run(start, i, v[start], out);
		start = i;
	}
	return r;
}

int pf_row_versions_put_one(uint64_t version, uint64_t n, struct pf_buf *out)
{
	return n ? put_run(0, n, version, out) : 0;
}
