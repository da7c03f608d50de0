#include "key_filter.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lance.pb-c.h"

/* What a Bloom filter was made for, where it does not say. */
#define ITEMS_DEFAULT	    8192
#define PROBABILITY_DEFAULT 0.00057

struct filter {
	struct pf_numbers columns;
	bool is_bloom; /* else exact; also one that says nothing */
	struct pf_numbers hashes;
	struct pf_span bits;
	uint64_t items;
	double probability;
};

static void filter_release(struct filter *f)
{
	pf_numbers_release(&f->columns);
	pf_numbers_release(&f->hashes);
}

static int read_exact(struct pf_span message, struct filter *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int r;

	out->is_bloom = false;
	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number == LANCE__KEY_FILTER__EXACT__FIELD__KEY_HASHES)
			r = pf_member_numbers(&m, &out->hashes, why);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_bloom(struct pf_span message, struct filter *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int r;

	out->is_bloom = true;
	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		switch (m.number) {
		case LANCE__KEY_FILTER__BLOOM__FIELD__BITMAP:
			r = pf_member_span(&m, &out->bits, why);
			break;
		case LANCE__KEY_FILTER__BLOOM__FIELD__NUMBER_OF_ITEMS:
			r = pf_member_u64(&m, &out->items, why);
			break;
		case LANCE__KEY_FILTER__BLOOM__FIELD__PROBABILITY:
			if (m.type != PF_WIRE_I64)
				return pf_why_set(why, -EBADMSG, "expected the probability of a key filter in 8 bytes");
			memcpy(&out->probability, &m.num, sizeof(out->probability));
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	return r;
}

static int read_filter(struct pf_span message, struct filter *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_span inner;
	struct pf_member m;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		bool is_exact = m.number == LANCE__KEY_FILTER__FIELD__EXACT;
		if (m.number == LANCE__KEY_FILTER__FIELD__FIELD_IDS)
			r = pf_member_numbers(&m, &out->columns, why);
		else if (is_exact || m.number == LANCE__KEY_FILTER__FIELD__BLOOM)
			r = pf_member_span(&m, &inner, why);
		else
			continue;
		if (r == 0 && m.number != LANCE__KEY_FILTER__FIELD__FIELD_IDS)
			r = is_exact ? read_exact(inner, out, why) : read_bloom(inner, out, why);
		if (r < 0)
			return r;
	}
	if (r == 0 && out->items == 0)
		out->items = ITEMS_DEFAULT;
	if (r == 0 && fpclassify(out->probability) == FP_ZERO)
		out->probability = PROBABILITY_DEFAULT;
	return r;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool share_hashes(const struct pf_numbers *a, struct pf_numbers *b)
{
	if (b->n == 0)
		return false;
	qsort(b->v, b->n, sizeof(*b->v), cmp_u64);
	for (size_t i = 0; i < a->n; i++)
		if (bsearch(&a->v[i], b->v, b->n, sizeof(*b->v), cmp_u64))
			return true;
	return false;
}

/* Filters of one measure without a common bit have no common key. */
static bool share_bits(const struct filter *a, const struct filter *b)
{
	/* One that is no number is of no measure, and so is not the same as any. */
	if (a->items != b->items || !(fabs(a->probability - b->probability) <= DBL_EPSILON) || a->bits.n != b->bits.n)
		return true;
	for (size_t i = 0; i < a->bits.n; i++)
		if (a->bits.p[i] & b->bits.p[i])
			return true;
	return false;
}

static bool meet(const struct filter *a, struct filter *b)
{
	if (a->columns.n != b->columns.n)
		return true;
	for (size_t i = 0; i < a->columns.n; i++)
		if (a->columns.v[i] != b->columns.v[i])
			return true;
	if (a->is_bloom != b->is_bloom)
		return true;
	return a->is_bloom ? share_bits(a, b) : share_hashes(&a->hashes, &b->hashes);
}

int pf_key_filters_meet(struct pf_span a, struct pf_span b, struct pf_why *why)
{
	_cleanup_(filter_release) struct filter f = { 0 }, g = { 0 };
	int r = read_filter(a, &f, why);

	if (r == 0)
		r = read_filter(b, &g, why);
	return r < 0 ? r : meet(&f, &g);
}
