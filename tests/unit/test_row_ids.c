/* Row id sequences: what Lance 14 wrote is read, and what is written is what Lance would write. */
#include "core/row_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Bytes of a sequence, by the wire format alone. */
static struct pf_span bytes(const char *s, size_t n)
{
	return (struct pf_span){ (const uint8_t *)s, n };
}
#define BYTES(s) bytes(s, sizeof(s) - 1)

static void assert_ids(struct pf_span sequence, const uint64_t *want, size_t n)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	uint64_t count;

	assert_int_equal(pf_row_ids_read(sequence, n, &ids, NULL), 0);
	assert_int_equal(ids.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(ids.v[i], want[i]);
	assert_int_equal(pf_row_ids_count(sequence, &count, NULL), 0);
	assert_int_equal(count, n);
}

static void forms_are_read(void **state)
{
	/* segment {range {start 5, end 8}} */
	assert_ids(BYTES("\x0a\x06\x0a\x04\x08\x05\x10\x08"), (uint64_t[]){ 5, 6, 7 }, 3);
	/* range from 0: proto3 leaves the start out */
	assert_ids(BYTES("\x0a\x04\x0a\x02\x10\x02"), (uint64_t[]){ 0, 1 }, 2);
	/* {range_with_holes {5, 9, holes {u16 {base 6, offsets 0, 1}}}} */
	assert_ids(BYTES("\x0a\x10\x12\x0e\x08\x05\x10\x09\x1a\x08\x0a\x06\x08\x06\x12\x02\x00\x00"),
		   (uint64_t[]){ 5, 7, 8 }, 3);
	/* {range_with_bitmap {8, 17, bits 0, 3, 8}}: the lowest bit is the first row */
	assert_ids(BYTES("\x0a\x0a\x1a\x08\x08\x08\x10\x11\x1a\x02\x09\x01"), (uint64_t[]){ 8, 11, 16 }, 3);
	/* {array {u32 {base 10, 5, 0}}}: not sorted */
	assert_ids(BYTES("\x0a\x10\x2a\x0e\x12\x0c\x08\x0a\x12\x08\x05\x00\x00\x00\x00\x00\x00\x00"),
		   (uint64_t[]){ 15, 10 }, 2);
	/* two segments */
	assert_ids(BYTES("\x0a\x06\x0a\x04\x08\x05\x10\x06\x0a\x06\x0a\x04\x08\x02\x10\x03"), (uint64_t[]){ 5, 2 }, 2);
}

static void damage_is_told(void **state)
{
	static const struct {
		const char *s;
		size_t n;
	} bad[] = {
		{ "\x0a\x02\x0a\x04", 4 },				/* cut */
		{ "\x0a\x06\x0a\x04\x08\x08\x10\x05", 8 },		/* a range that ends before it starts */
		{ "\x0a\x00", 2 },					/* no kind */
		{ "\x0a\x09\x1a\x07\x08\x08\x10\x11\x1a\x01\x09", 11 }, /* a bitmap shorter than its range */
		{ "\x0a\x09\x2a\x07\x0a\x05\x12\x03\x00\x00\x00", 11 }, /* half a value */
		{ "\x0a\x0d\x12\x0b\x10\x01\x1a\x07\x0a\x05\x12\x04\x00\x00\x01", 15 }, /* cut inside */
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t count;
		assert_int_equal(pf_row_ids_count(bytes(bad[i].s, bad[i].n), &count, NULL), -EBADMSG);
	}
}

static void more_ids_than_rows_are_not_read(void **state)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };

	/* A range of 2^40: no memory is taken for it. */
	assert_int_equal(pf_row_ids_read(BYTES("\x0a\x09\x0a\x07\x10\x80\x80\x80\x80\x80\x20"), 100, &ids, NULL),
			 -EBADMSG);
	assert_int_equal(ids.n, 0);
}

static void assert_put(const uint64_t *v, size_t n, struct pf_span want)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_row_ids_put(v, n, &b), 0);
	assert_int_equal(b.len, want.n);
	assert_memory_equal(b.data, want.p, want.n);
	assert_ids(PF_SPAN_OF(&b), v, n);
}

/* Lance 14 weighs: 4 bytes a hole, a bit a value of the span, 2 bytes an id; the first of equals wins. */
static void the_form_is_the_one_that_lance_chooses(void **state)
{
	uint64_t many[32];

	assert_put((uint64_t[]){ 5, 6, 7 }, 3, BYTES("\x0a\x06\x0a\x04\x08\x05\x10\x08"));
	/* One hole in 33 slots: 4 bytes, beside 5 of a bitmap and 64 of an array. */
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = 10 + i + (i > 3);
	assert_put(many, ARRAY_LEN(many),
		   BYTES("\x0a\x10\x12\x0e\x08\x0a\x10\x2b\x1a\x08\x0a\x06\x08\x0e\x12\x02\x00\x00"));
	/* Two holes in 5 slots: 8 bytes, beside 1 of a bitmap. */
	assert_put((uint64_t[]){ 8, 10, 12 }, 3, BYTES("\x0a\x09\x1a\x07\x08\x08\x10\x0d\x1a\x01\x15"));
	/* Far apart: an array, of offsets as wide as they must be. */
	assert_put((uint64_t[]){ 1, 60000 }, 2, BYTES("\x0a\x0c\x22\x0a\x0a\x08\x08\x01\x12\x04\x00\x00\x5f\xea"));
	assert_put((uint64_t[]){ 9, 2 }, 2, BYTES("\x0a\x0c\x2a\x0a\x0a\x08\x08\x02\x12\x04\x07\x00\x00\x00"));
}

static void versions_are_runs(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, one = PF_BUF_INIT;
	_cleanup_(pf_numbers_release) struct pf_numbers v = { 0 };
	const uint64_t want[] = { 4, 4, 7 };

	assert_int_equal(pf_row_versions_put(want, 3, &b), 0);
	/* runs {span {range {end 2}} version 4}, {span {range {2, 3}} version 7} */
	assert_int_equal(b.len, 22);
	assert_memory_equal(
		b.data, "\x0a\x08\x0a\x04\x0a\x02\x10\x02\x10\x04\x0a\x0a\x0a\x06\x0a\x04\x08\x02\x10\x03\x10\x07", 22);
	assert_int_equal(pf_row_versions_read(PF_SPAN_OF(&b), 3, &v, NULL), 0);
	assert_int_equal(v.n, 3);
	assert_memory_equal(v.v, want, sizeof(want));
	assert_int_equal(pf_row_versions_read(PF_SPAN_OF(&b), 2, &v, NULL), -EBADMSG);
	assert_int_equal(pf_row_versions_put_one(4, 2, &one), 0);
	assert_int_equal(one.len, 10);
	assert_memory_equal(one.data, b.data, 10);
}

static void bounds_say_where_not_to_look(void **state)
{
	uint64_t low, high;

	assert_int_equal(pf_row_ids_bounds(BYTES("\x0a\x06\x0a\x04\x08\x05\x10\x08"), &low, &high, NULL), 0);
	assert_int_equal(low, 5);
	assert_int_equal(high, 7);
	assert_int_equal(pf_row_ids_bounds(BYTES(""), &low, &high, NULL), 0);
	assert_true(low > high);
}

/* Bits of a range of 512 rows from 1000 on, of which those from..to - 1 of each are there, as they and their bitmap stand on the wire. */
static void put_bitmap(struct pf_buf *out, const unsigned (*there)[2], size_t n)
{
	_cleanup_(pf_buf_release) struct pf_buf range = PF_BUF_INIT, segment = PF_BUF_INIT;
	uint8_t bits[64] = { 0 };

	for (size_t i = 0; i < n; i++)
		for (unsigned k = there[i][0]; k < there[i][1]; k++)
			bits[k / 8] |= (uint8_t)(1u << (k % 8));
	assert_int_equal(pf_wire_put_u64(&range, 1, 1000), 0);
	assert_int_equal(pf_wire_put_u64(&range, 2, 1512), 0);
	assert_int_equal(pf_wire_put_bytes(&range, 3, bits, sizeof(bits)), 0);
	assert_int_equal(pf_wire_put_bytes(&segment, 3, range.data, range.len), 0);
	assert_int_equal(pf_wire_put_bytes(out, 1, segment.data, segment.len), 0);
}

/* lance-table 14.0.2, U64Segment::as_ranges: 16 bytes for each run of holes, and 16 more, must be less than the bitmap has. */
static void bitmaps_become_ranges_where_that_is_smaller(void **state)
{
	static const unsigned two_holes[][2] = { { 0, 100 }, { 150, 300 }, { 301, 512 } },
			      three_holes[][2] = { { 0, 100 }, { 150, 300 }, { 301, 400 }, { 410, 512 } },
			      ends_are_holes[][2] = { { 7, 500 } };
	_cleanup_(pf_buf_release) struct pf_buf sequence = PF_BUF_INIT, other = PF_BUF_INIT, ends = PF_BUF_INIT,
						out = PF_BUF_INIT, want = PF_BUF_INIT;

	/* A segment that stays, before the bitmap and after it. */
	assert_int_equal(pf_row_ids_put_range(5, 8, &sequence), 0);
	put_bitmap(&sequence, two_holes, ARRAY_LEN(two_holes));
	assert_int_equal(pf_row_ids_put_range(2, 3, &sequence), 0);
	assert_int_equal(pf_row_ids_put_ranges(PF_SPAN_OF(&sequence), &out, NULL), 1);
	assert_int_equal(pf_row_ids_put_range(5, 8, &want), 0);
	assert_int_equal(pf_row_ids_put_range(1000, 1100, &want), 0);
	assert_int_equal(pf_row_ids_put_range(1150, 1300, &want), 0);
	assert_int_equal(pf_row_ids_put_range(1301, 1512, &want), 0);
	assert_int_equal(pf_row_ids_put_range(2, 3, &want), 0);
	assert_true(pf_span_eq(PF_SPAN_OF(&out), PF_SPAN_OF(&want)));

	pf_buf_reset(&out);
	assert_int_equal(pf_row_ids_put_ranges(PF_SPAN_OF(&want), &out, NULL), 0);
	put_bitmap(&other, three_holes, ARRAY_LEN(three_holes));
	assert_int_equal(pf_row_ids_put_ranges(PF_SPAN_OF(&other), &out, NULL), 0);
	assert_int_equal(out.len, 0);

	pf_buf_reset(&want);
	put_bitmap(&ends, ends_are_holes, ARRAY_LEN(ends_are_holes));
	assert_int_equal(pf_row_ids_put_ranges(PF_SPAN_OF(&ends), &out, NULL), 1);
	assert_int_equal(pf_row_ids_put_range(1007, 1500, &want), 0);
	assert_true(pf_span_eq(PF_SPAN_OF(&out), PF_SPAN_OF(&want)));

	/* Longer than what holds it. */
	assert_int_equal(pf_row_ids_put_ranges(BYTES("\x0a\x02\x0a\x04"), &out, NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forms_are_read),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(more_ids_than_rows_are_not_read),
		cmocka_unit_test(the_form_is_the_one_that_lance_chooses),
		cmocka_unit_test(bitmaps_become_ranges_where_that_is_smaller),
		cmocka_unit_test(versions_are_runs),
		cmocka_unit_test(bounds_say_where_not_to_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
