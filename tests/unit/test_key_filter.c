/* When two sets of inserted keys may have one in common: KeyExistenceFilter of lance-table 14.0.2. */
#include "core/key_filter.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static void put(struct pf_buf *b, uint32_t number, const void *p, size_t n)
{
	assert_int_equal(pf_wire_put_bytes(b, number, p, n), 0);
}

static void put_double(struct pf_buf *b, uint32_t number, double v)
{
	assert_int_equal(pf_wire_put_tag(b, number, PF_WIRE_I64), 0);
	assert_int_equal(pf_buf_add(b, &v, sizeof(v)), 0);
}

/* On the columns in `columns`; of 0 hashes or items nothing is said. */
static void exact(struct pf_buf *out, const char *columns, uint64_t hash)
{
	_cleanup_(pf_buf_release) struct pf_buf set = PF_BUF_INIT;

	put(out, 1, columns, strlen(columns));
	if (hash)
		assert_int_equal(pf_wire_put_u64(&set, 1, hash), 0);
	put(out, 2, set.data ? set.data : (const uint8_t *)"", set.len);
}

static void bloom(struct pf_buf *out, const char *columns, const char *bits, uint64_t items, double probability)
{
	_cleanup_(pf_buf_release) struct pf_buf filter = PF_BUF_INIT;

	put(out, 1, columns, strlen(columns));
	put(&filter, 1, bits, strlen(bits));
	if (items)
		assert_int_equal(pf_wire_put_u64(&filter, 3, items), 0);
	if (fpclassify(probability) != FP_ZERO)
		put_double(&filter, 4, probability);
	put(out, 3, filter.data, filter.len);
}

static int meet(struct pf_buf *a, struct pf_buf *b)
{
	int r = pf_key_filters_meet(PF_SPAN_OF(a), PF_SPAN_OF(b), NULL);

	assert_int_equal(pf_key_filters_meet(PF_SPAN_OF(b), PF_SPAN_OF(a), NULL), r);
	pf_buf_release(a);
	pf_buf_release(b);
	return r;
}

static void sets(void **state)
{
	struct pf_buf a = PF_BUF_INIT, b = PF_BUF_INIT;

	exact(&a, "\1", 7);
	exact(&b, "\1", 7);
	assert_int_equal(meet(&a, &b), 1);
	exact(&a, "\1", 7);
	exact(&b, "\1", 8);
	assert_int_equal(meet(&a, &b), 0);
	exact(&a, "\1", 7);
	exact(&b, "\2", 8); /* keys of other columns cannot be compared */
	assert_int_equal(meet(&a, &b), 1);
	exact(&a, "\1", 7);
	exact(&b, "\1\2", 8);
	assert_int_equal(meet(&a, &b), 1);
	exact(&a, "\1", 7);
	exact(&b, "\1", 0);
	assert_int_equal(meet(&a, &b), 0);
	exact(&a, "\1", 7);
	bloom(&b, "\1", "\x40", 0, 0); /* hashes of another kind */
	assert_int_equal(meet(&a, &b), 1);
}

static void bloom_filters(void **state)
{
	static const struct {
		const char *bits;
		uint64_t items;
		double probability;
		int want;
	} rows[] = {
		{ "\x01\x40", 0, 0, 1 },	  { "\x02\x10", 0, 0, 0 },
		{ "\x02\x10", 8192, 0.00057, 0 }, /* what is meant where nothing is said */
		{ "\x02\x10", 8191, 0.00057, 1 }, { "\x02\x10", 8192, 0.00058, 1 },
		{ "\x02\x10\x10", 0, 0, 1 },	  { "\x02\x10", 8192, NAN, 1 },
	};
	struct pf_buf a = PF_BUF_INIT, b = PF_BUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bloom(&a, "\1", "\x01\xc0", 0, 0);
		bloom(&b, "\1", rows[i].bits, rows[i].items, rows[i].probability);
		if (meet(&a, &b) != rows[i].want)
			fail_msg("row %zu", i);
	}
}

static void damaged(void **state)
{
	struct pf_buf a = PF_BUF_INIT, b = PF_BUF_INIT;

	bloom(&a, "\1", "\x01", 0, 0);
	put(&b, 3, "\x0a\x05\x01", 3); /* a bitmap longer than what holds it */
	assert_int_equal(meet(&a, &b), -EBADMSG);
	exact(&a, "\1", 7);
	put(&b, 2, "\x08", 1);
	assert_int_equal(meet(&a, &b), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets),
		cmocka_unit_test(bloom_filters),
		cmocka_unit_test(damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
