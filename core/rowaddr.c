#include "rowaddr.h"

#include <inttypes.h>
#include <string.h>

#include <roaring/roaring.h>

#include "wire.h"

/* The portable format of 32-bit roaring bitmaps: github.com/RoaringBitmap/RoaringFormatSpec. */
#define COOKIE_PLAIN	    12346u
#define COOKIE_RUNS	    12347u
#define CONTAINERS_MAX	    65536u
#define ARRAY_MAX	    4096u
#define BITSET_LEN	    8192u
#define OFFSETS_FROM	    4u /* with runs, offsets stand only from this many containers on */
#define CONTAINER_VALUE_MAX 65535u

struct pf_bitmap {
	roaring_bitmap_t *set;
};

/* Bytes being checked. `at` is where they stand in what the caller handed over, for sentences. */
struct bytes {
	const uint8_t *p;
	size_t len, pos;
	uint64_t at;
};

/* Step over n bytes and point *p at them. */
static int take(struct bytes *b, uint64_t n, const char *what, const uint8_t **p, struct pf_why *why)
{
	if (n > b->len - b->pos)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected %" PRIu64 " bytes of %s, found %zu",
				  b->at + b->pos, n, what, b->len - b->pos);
	*p = b->p + b->pos;
	b->pos += (size_t)n;
	return 0;
}

static uint32_t le16(const uint8_t *p)
{
	return (uint32_t)pf_get_le(p, 2);
}

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)pf_get_le(p, 4);
}

/* Each of these checks one container of `count` values and returns its largest. */
static int check_array(struct bytes *b, uint32_t count, uint32_t *max, struct pf_why *why)
{
	const uint8_t *p = NULL;
	uint64_t at = b->at + b->pos;
	int r = take(b, 2 * (uint64_t)count, "an array", &p, why);

	if (r < 0)
		return r;
	for (uint32_t i = 1; i < count; i++)
		if (le16(p + 2 * i) <= le16(p + 2 * i - 2))
			return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected values in ascending order",
					  at + 2 * i);
	*max = le16(p + 2 * count - 2);
	return 0;
}

static int check_bitset(struct bytes *b, uint32_t count, uint32_t *max, struct pf_why *why)
{
	const uint8_t *p = NULL;
	uint64_t at = b->at + b->pos;
	uint32_t found = 0;
	int r = take(b, BITSET_LEN, "a bitset", &p, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < BITSET_LEN; i += 8) {
		uint64_t word = pf_get_le(p + i, 8);

		found += (uint32_t)__builtin_popcountll(word);
		if (word)
			*max = i * 8 + 63 - (uint32_t)__builtin_clzll(word);
	}
	if (found != count)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a bitset of %u values, found %u", at,
				  count, found);
	return 0;
}

static int check_runs(struct bytes *b, uint32_t count, uint32_t *max, struct pf_why *why)
{
	const uint8_t *p = NULL;
	uint64_t at = b->at + b->pos, found = 0;
	int r = take(b, 2, "a count of runs", &p, why);

	if (r < 0)
		return r;
	uint32_t n = le16(p);
	r = take(b, 4 * (uint64_t)n, "runs", &p, why);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < n; i++, p += 4) {
		uint32_t first = le16(p), last = first + le16(p + 2);

		if (last > CONTAINER_VALUE_MAX)
			return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": a run from %u ends at %u, past %u",
					  at + 2 + 4 * (uint64_t)i, first, last, CONTAINER_VALUE_MAX);
		if (i > 0 && first <= *max + 1)
			return pf_why_set(why, -EBADMSG,
					  "offset %" PRIu64 ": expected a run that begins behind %u, found %u",
					  at + 2 + 4 * (uint64_t)i, *max + 1, first);
		found += last - first + 1;
		*max = last;
	}
	if (found != count)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected runs of %u values, found %" PRIu64, at,
				  count, found);
	return 0;
}

/* What is known of a bitmap before its containers: `n` of them; the tables, of which the first and last may be missing. */
struct header {
	uint32_t n;
	const uint8_t *is_run, *keys, *offsets;
};

static int read_header(struct bytes *b, struct header *h, struct pf_why *why)
{
	const uint8_t *p = NULL;
	int r = take(b, 4, "a cookie", &p, why);

	if (r < 0)
		return r;
	*h = (struct header){ 0 };
	if (le32(p) == COOKIE_PLAIN) {
		r = take(b, 4, "a count of containers", &p, why);
		if (r == 0)
			h->n = le32(p);
		if (h->n > CONTAINERS_MAX)
			return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected at most %u containers, found %u",
					  b->at + b->pos - 4, CONTAINERS_MAX, h->n);
	} else if (le16(p) == COOKIE_RUNS) {
		h->n = le16(p + 2) + 1;
		r = take(b, (h->n + 7) / 8, "run marks", &h->is_run, why);
	} else {
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected the cookie %u or %u, found %u", b->at,
				  COOKIE_PLAIN, COOKIE_RUNS, le16(p));
	}
	if (r == 0)
		r = take(b, 4 * (uint64_t)h->n, "keys", &h->keys, why);
	if (r == 0 && (!h->is_run || h->n >= OFFSETS_FROM))
		r = take(b, 4 * (uint64_t)h->n, "offsets", &h->offsets, why);
	return r;
}

/* Check the bitmap that begins at b->pos and step over it. part->off, len, count and max are filled. */
static int check_bitmap(struct bytes *b, struct pf_rows_part *part, struct pf_why *why)
{
	struct header h;
	size_t begin = b->pos;
	uint64_t at = b->at + begin;
	int r = read_header(b, &h, why);

	if (r < 0)
		return r;
	*part = (struct pf_rows_part){ .fragment = part->fragment, .off = begin };
	for (uint32_t i = 0; i < h.n; i++) {
		uint32_t key = le16(h.keys + 4 * i), count = le16(h.keys + 4 * i + 2) + 1, last = 0;

		if (i > 0 && key <= le16(h.keys + 4 * i - 4))
			return pf_why_set(why, -EBADMSG,
					  "offset %" PRIu64 ": expected container %u to have a key above %u, found %u",
					  at, i, le16(h.keys + 4 * i - 4), key);
		if (h.offsets && le32(h.offsets + 4 * i) != b->pos - begin)
			return pf_why_set(why, -EBADMSG,
					  "offset %" PRIu64 ": expected container %u %zu bytes on, found %u", at, i,
					  b->pos - begin, le32(h.offsets + 4 * i));
		if (h.is_run && h.is_run[i / 8] >> (i % 8) & 1)
			r = check_runs(b, count, &last, why);
		else
			r = count <= ARRAY_MAX ? check_array(b, count, &last, why) : check_bitset(b, count, &last, why);
		if (r < 0)
			return r;
		part->count += count;
		part->max = key << 16 | last;
	}
	part->len = b->pos - begin;
	return 0;
}

static int trailing(const struct bytes *b, struct pf_why *why)
{
	return pf_why_set(why, -EBADMSG, "offset %zu: expected nothing more, found %zu bytes", b->pos, b->len - b->pos);
}

/* What was checked, or what CRoaring made: takes it over. */
static int wrap(roaring_bitmap_t *set, struct pf_bitmap **out)
{
	struct pf_bitmap *b = set ? malloc(sizeof(*b)) : NULL;

	if (!b) {
		if (set)
			roaring_bitmap_free(set);
		return -ENOMEM;
	}
	b->set = set;
	*out = b;
	return 0;
}

static int load(const uint8_t *p, uint64_t len, struct pf_bitmap **out)
{
	return wrap(roaring_bitmap_portable_deserialize_safe((const char *)p, (size_t)len), out);
}

int pf_bitmap_decode(const void *data, size_t len, struct pf_bitmap **out, struct pf_why *why)
{
	struct bytes b = { .p = data, .len = len };
	struct pf_rows_part part = { 0 };
	int r = check_bitmap(&b, &part, why);

	if (r < 0)
		return r;
	return b.pos < b.len ? trailing(&b, why) : load(data, len, out);
}

void pf_bitmap_free(struct pf_bitmap *b)
{
	if (!b)
		return;
	roaring_bitmap_free(b->set);
	free(b);
}

void pf_bitmap_freep(struct pf_bitmap **b)
{
	pf_bitmap_free(*b);
}

uint64_t pf_bitmap_count(const struct pf_bitmap *b)
{
	return roaring_bitmap_get_cardinality(b->set);
}

bool pf_bitmap_has(const struct pf_bitmap *b, uint32_t v)
{
	return roaring_bitmap_contains(b->set, v);
}

uint32_t pf_bitmap_max(const struct pf_bitmap *b)
{
	return roaring_bitmap_maximum(b->set);
}

uint64_t pf_bitmap_rank(const struct pf_bitmap *b, uint32_t v)
{
	/* CRoaring counts v itself too. */
	return v ? roaring_bitmap_rank(b->set, v - 1) : 0;
}

struct each {
	int (*fn)(void *arg, uint32_t v);
	void *arg;
	int r;
};

static bool step(uint32_t v, void *arg)
{
	struct each *e = arg;

	e->r = e->fn(e->arg, v);
	return e->r == 0;
}

int pf_bitmap_each(const struct pf_bitmap *b, int (*fn)(void *arg, uint32_t v), void *arg)
{
	struct each e = { fn, arg, 0 };

	roaring_iterate(b->set, step, &e);
	return e.r;
}

int pf_bitmap_from(const uint32_t *v, size_t n, struct pf_bitmap **out)
{
	roaring_bitmap_t *set = roaring_bitmap_create();

	if (set) {
		roaring_bitmap_add_many(set, n, v);
		roaring_bitmap_run_optimize(set);
	}
	return wrap(set, out);
}

int pf_bitmap_below(uint64_t n, struct pf_bitmap **out)
{
	/* CRoaring has NULL for an empty range. */
	roaring_bitmap_t *set = n ? roaring_bitmap_from_range(0, n, 1) : roaring_bitmap_create();

	if (set)
		roaring_bitmap_run_optimize(set);
	return wrap(set, out);
}

/* By what was made of it; NULL: there was no memory. */
static int replace(struct pf_bitmap *b, roaring_bitmap_t *set)
{
	if (!set)
		return -ENOMEM;
	roaring_bitmap_free(b->set);
	b->set = set;
	return 0;
}

int pf_bitmap_merge(struct pf_bitmap *into, const struct pf_bitmap *from)
{
	return replace(into, roaring_bitmap_or(into->set, from->set));
}

int pf_bitmap_remove(struct pf_bitmap *from, const struct pf_bitmap *what)
{
	int r = replace(from, roaring_bitmap_andnot(from->set, what->set));

	if (r == 0)
		roaring_bitmap_run_optimize(from->set);
	return r;
}

int pf_bitmap_encode(const struct pf_bitmap *b, struct pf_buf *out)
{
	int r = pf_buf_reserve(out, roaring_bitmap_portable_size_in_bytes(b->set));

	if (r == 0)
		out->len += roaring_bitmap_portable_serialize(b->set, (char *)out->data + out->len);
	return r;
}

int pf_rows_scan(const void *data, size_t len, bool allow_trailing,
		 int (*fn)(void *arg, const struct pf_rows_part *part), void *arg, struct pf_why *why)
{
	struct bytes b = { .p = data, .len = len };
	const uint8_t *p = NULL;
	int r = take(&b, 8, "a count of fragments", &p, why);

	if (r < 0)
		return r;
	uint64_t n = pf_get_le(p, 8);
	int64_t before = -1;
	for (uint64_t i = 0; i < n; i++) {
		struct pf_rows_part part = { 0 };

		r = take(&b, 4, "a fragment id", &p, why);
		if (r < 0)
			return r;
		part.fragment = le32(p);
		if (part.fragment <= before)
			return pf_why_set(why, -EBADMSG,
					  "offset %zu: expected a fragment above %" PRId64 ", found %" PRIu32,
					  b.pos - 4, before, part.fragment);
		before = part.fragment;
		r = check_bitmap(&b, &part, why);
		if (r == 0 && part.count > 0)
			r = fn(arg, &part);
		if (r != 0)
			return r;
	}
	return b.pos < b.len && !allow_trailing ? trailing(&b, why) : 0;
}

struct loading {
	const uint8_t *data;
	struct pf_rows *rows;
	size_t cap;
};

static int load_part(void *arg, const struct pf_rows_part *part)
{
	struct loading *l = arg;
	struct pf_rows *rows = l->rows;

	if (rows->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		uint32_t *fragment = reallocarray(rows->fragment, cap, sizeof(*fragment));

		if (!fragment)
			return -ENOMEM;
		rows->fragment = fragment;
		struct pf_bitmap **offsets = reallocarray(rows->offsets, cap, sizeof(*offsets));
		if (!offsets)
			return -ENOMEM;
		rows->offsets = offsets;
		l->cap = cap;
	}
	int r = load(l->data + part->off, part->len, &rows->offsets[rows->n]);
	if (r == 0)
		rows->fragment[rows->n++] = part->fragment;
	return r;
}

int pf_rows_decode(const void *data, size_t len, bool allow_trailing, struct pf_rows *out, struct pf_why *why)
{
	_cleanup_(pf_rows_release) struct pf_rows rows = { 0 };
	struct loading l = { data, &rows, 0 };
	int r = pf_rows_scan(data, len, allow_trailing, load_part, &l, why);

	if (r < 0)
		return r;
	*out = rows;
	rows = (struct pf_rows){ 0 };
	return 0;
}

void pf_rows_release(struct pf_rows *r)
{
	for (size_t i = 0; i < r->n; i++)
		pf_bitmap_free(r->offsets[i]);
	free(r->offsets);
	free(r->fragment);
	*r = (struct pf_rows){ 0 };
}

const struct pf_bitmap *pf_rows_of(const struct pf_rows *r, uint32_t fragment)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->fragment[mid] < fragment)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < r->n && r->fragment[lo] == fragment ? r->offsets[lo] : NULL;
}

uint64_t pf_rows_count(const struct pf_rows *r)
{
	uint64_t count = 0;

	for (size_t i = 0; i < r->n; i++)
		count += pf_bitmap_count(r->offsets[i]);
	return count;
}

static int put_le(struct pf_buf *out, uint64_t v, unsigned n)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = pf_buf_addch(out, (char)(v >> (8 * i)));
	return r;
}

int pf_rows_encode(const struct pf_rows *r, struct pf_buf *out)
{
	size_t before = out->len;
	int e = put_le(out, r->n, 8);

	for (size_t i = 0; e == 0 && i < r->n; i++) {
		e = put_le(out, r->fragment[i], 4);
		if (e == 0)
			e = pf_bitmap_encode(r->offsets[i], out);
	}
	if (e < 0)
		out->len = before;
	return e;
}
