/* Roaring bytes, true and hostile (cases-open E09, E10), and what the sets answer. Bytes follow the RoaringFormatSpec by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/rowaddr.h"

/* Bytes of a test row. */
#define B(s) s, sizeof(s) - 1

/* Copied to where a read past their end is seen. */
static int decode(const void *bytes, size_t n, struct pf_bitmap **out, struct pf_why *why)
{
	_cleanup_(pf_freep) uint8_t *exact = malloc(n ? n : 1);

	memcpy(exact, bytes, n);
	return pf_bitmap_decode(exact, n, out, why);
}

static int print(void *arg, uint32_t v)
{
	return pf_buf_addf(arg, " %u", v);
}

static void assert_values(const struct pf_bitmap *b, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	assert_int_equal(pf_bitmap_each(b, print, &text), 0);
	assert_string_equal(pf_buf_str(&text), expected);
}

#define PLAIN "\x3a\x30\x00\x00"
#define ONE   PLAIN "\x01\x00\x00\x00"
/* {1, 16} */
#define PAIR                                                                                                           \
	ONE "\x00\x00\x01\x00"                                                                                         \
	    "\x10\x00\x00\x00"                                                                                         \
	    "\x01\x00\x10\x00"

static void test_decode(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *values;
		uint32_t max;
	} rows[] = {
		{ B(PLAIN "\x00\x00\x00\x00"), "", 0 },
		{ B(PAIR), " 1 16", 16 },
		/* Fragment 0 alone: zero is a value (A28). */
		{ B(ONE "\x00\x00\x00\x00"
			"\x10\x00\x00\x00"
			"\x00\x00"),
		  " 0", 0 },
		/* Two containers: 5, 65535 and 0xffffffff. */
		{ B(PLAIN "\x02\x00\x00\x00"
			  "\x00\x00\x01\x00"
			  "\xff\xff\x00\x00"
			  "\x18\x00\x00\x00"
			  "\x1c\x00\x00\x00"
			  "\x05\x00\xff\xff"
			  "\xff\xff"),
		  " 5 65535 4294967295", UINT32_MAX },
		/* As Lance writes neighbouring fragments: one run, 0 to 3. */
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x03\x00"
		    "\x01\x00"
		    "\x00\x00\x03\x00"),
		  " 0 1 2 3", 3 },
		/* Runs 0-1 and 65534-65535, then an array: {65536 + 7}. No offsets below four containers. */
		{ B("\x3b\x30\x01\x00"
		    "\x01"
		    "\x00\x00\x03\x00"
		    "\x01\x00\x00\x00"
		    "\x02\x00"
		    "\x00\x00\x01\x00"
		    "\xfe\xff\x01\x00"
		    "\x07\x00"),
		  " 0 1 65534 65535 65543", 65543 },
		/* Four containers: offsets are there. */
		{ B("\x3b\x30\x03\x00"
		    "\x08"
		    "\x00\x00\x00\x00"
		    "\x01\x00\x00\x00"
		    "\x02\x00\x00\x00"
		    "\x03\x00\x01\x00"
		    "\x25\x00\x00\x00"
		    "\x27\x00\x00\x00"
		    "\x29\x00\x00\x00"
		    "\x2b\x00\x00\x00"
		    "\x01\x00"
		    "\x02\x00"
		    "\x03\x00"
		    "\x01\x00\x04\x00\x01\x00"),
		  " 1 65538 131075 196612 196613", 196613 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		struct pf_why why = PF_WHY_INIT;

		if (decode(rows[i].bytes, rows[i].n, &b, &why) < 0)
			fail_msg("row %zu: %s", i, why.text);
		assert_values(b, rows[i].values);
		assert_int_equal(pf_bitmap_max(b), rows[i].max);

		/* These bytes are as CRoaring and Lance would write them. */
		_cleanup_(pf_buf_release) struct pf_buf again = PF_BUF_INIT;
		assert_int_equal(pf_bitmap_encode(b, &again), 0);
		assert_int_equal(again.len, rows[i].n);
		assert_memory_equal(again.data, rows[i].bytes, rows[i].n);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *why;
	} rows[] = {
		/* E09 */
		{ B(""), "offset 0: expected 4 bytes of a cookie, found 0" },
		{ B("\x3a"), "offset 0: expected 4 bytes of a cookie, found 1" },
		{ B(PLAIN), "offset 4: expected 4 bytes of a count of containers, found 0" },
		{ B(PLAIN "\xff\xff\xff\xff"), "offset 4: expected at most 65536 containers, found 4294967295" },
		{ B(PLAIN "\x01\x00\x01\x00"), "offset 4: expected at most 65536 containers, found 65537" },
		{ B(PLAIN "\x00\x00\x01\x00"), "offset 8: expected 262144 bytes of keys, found 0" },
		{ B(PAIR "\x00"), "offset 20: expected nothing more, found 1 bytes" },
		{ PAIR, sizeof(PAIR) - 2, "offset 16: expected 4 bytes of an array, found 3" },
		{ B(PLAIN "\x00\x00\x00\x00\x00"), "offset 8: expected nothing more, found 1 bytes" },
		{ B("\x39\x30\x00\x00\x00\x00\x00\x00"), "offset 0: expected the cookie 12346 or 12347, found 12345" },
		/* The plain cookie has nothing in its upper half. */
		{ B("\x3a\x30\x01\x00\x00\x00\x00\x00"), "offset 0: expected the cookie 12346 or 12347, found 12346" },
		{ B("\x3b\x30\xff\xff"), "offset 4: expected 8192 bytes of run marks, found 0" },
		{ B("\x3b\x30\x00\x00\x01"), "offset 5: expected 4 bytes of keys, found 0" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x03\x00"
		    "\x01"),
		  "offset 9: expected 2 bytes of a count of runs, found 1" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x03\x00"
		    "\xff\xff"
		    "\x00\x00\x03\x00"),
		  "offset 11: expected 262140 bytes of runs, found 4" },
		{ B(ONE "\x00\x00\x01\x00"
			"\x11\x00\x00\x00"
			"\x01\x00\x10\x00"),
		  "offset 0: expected container 0 16 bytes on, found 17" },
		{ B(ONE "\x00\x00\x01\x00"
			"\xff\xff\xff\xff"
			"\x01\x00\x10\x00"),
		  "offset 0: expected container 0 16 bytes on, found 4294967295" },
		/* E10 */
		{ B("\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x10\x00\x00\x00\x02\x00\x01\x00\x00\x00"),
		  "offset 18: expected values in ascending order" },
		{ B(ONE "\x00\x00\x01\x00"
			"\x10\x00\x00\x00"
			"\x10\x00\x10\x00"),
		  "offset 18: expected values in ascending order" },
		{ B(PLAIN "\x02\x00\x00\x00"
			  "\x01\x00\x00\x00"
			  "\x00\x00\x00\x00"
			  "\x18\x00\x00\x00"
			  "\x1a\x00\x00\x00"
			  "\x05\x00"
			  "\x05\x00"),
		  "offset 0: expected container 1 to have a key above 1, found 0" },
		{ B(PLAIN "\x02\x00\x00\x00"
			  "\x01\x00\x00\x00"
			  "\x01\x00\x00\x00"
			  "\x18\x00\x00\x00"
			  "\x1a\x00\x00\x00"
			  "\x05\x00"
			  "\x05\x00"),
		  "offset 0: expected container 1 to have a key above 1, found 1" },
		/* Runs 0-5 and 3-4; 0-5 and 6-7, which Lance refuses too; 65535 and one more; none; a wrong sum. */
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x07\x00"
		    "\x02\x00"
		    "\x00\x00\x05\x00"
		    "\x03\x00\x01\x00"),
		  "offset 15: expected a run that begins behind 6, found 3" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x07\x00"
		    "\x02\x00"
		    "\x00\x00\x05\x00"
		    "\x06\x00\x01\x00"),
		  "offset 15: expected a run that begins behind 6, found 6" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x01\x00"
		    "\x01\x00"
		    "\xff\xff\x01\x00"),
		  "offset 11: a run from 65535 ends at 65536, past 65535" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x00\x00"
		    "\x00\x00"),
		  "offset 9: expected runs of 1 values, found 0" },
		{ B("\x3b\x30\x00\x00"
		    "\x01"
		    "\x00\x00\x03\x00"
		    "\x01\x00"
		    "\x00\x00\x04\x00"),
		  "offset 9: expected runs of 4 values, found 5" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_bitmap *b = (struct pf_bitmap *)&b;
		struct pf_why why = PF_WHY_INIT;

		assert_int_equal(decode(rows[i].bytes, rows[i].n, &b, &why), -EBADMSG);
		assert_string_equal(why.text, rows[i].why);
		assert_ptr_equal(b, &b);
	}
}

/* E10: a bitset with one bit more than its header says. */
static void test_bitset(void **state)
{
	static const uint8_t head[] = ONE "\x00\x00\x00\x10" /* 4097 values */ "\x10\x00\x00\x00";
	uint8_t bytes[16 + 8192] = { 0 };
	struct pf_bitmap *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	memcpy(bytes, head, 16);
	memset(bytes + 16, 0xff, 512);
	bytes[16 + 8191] = 0x80;
	assert_int_equal(decode(bytes, sizeof(bytes), &b, &why), 0);
	assert_int_equal(pf_bitmap_count(b), 4097);
	assert_int_equal(pf_bitmap_max(b), 65535);
	assert_int_equal(pf_bitmap_rank(b, 65535), 4096);
	assert_true(pf_bitmap_has(b, 4095) && !pf_bitmap_has(b, 4096) && pf_bitmap_has(b, 65535));
	pf_bitmap_free(b);

	bytes[16 + 8191] = 0xc0;
	assert_int_equal(decode(bytes, sizeof(bytes), &b, &why), -EBADMSG);
	assert_string_equal(why.text, "offset 16: expected a bitset of 4097 values, found 4098");
	assert_int_equal(decode(bytes, sizeof(bytes) - 1, &b, &why), -EBADMSG);
	assert_string_equal(why.text, "offset 16: expected 8192 bytes of a bitset, found 8191");
}

/* splitmix64 */
static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

#define SPACE 140000

/* Fill set[0..SPACE) with runs, sparse values and dense stretches. Returns how many are in. */
static size_t random_set(uint64_t *seed, bool *set, uint32_t *values)
{
	size_t n = 0;

	memset(set, 0, SPACE);
	for (uint32_t at = 0; at < SPACE;) {
		uint32_t len = (uint32_t)(next_random(seed) % 40000) + 1;
		unsigned one_of = 1u << next_random(seed) % 12; /* 1: a run; 2048: hardly any */

		for (; len-- > 0 && at < SPACE; at++)
			set[at] = next_random(seed) % one_of == 0 && len % 97 != 5;
	}
	for (uint32_t v = 0; v < SPACE; v++)
		if (set[v])
			values[n++] = v;
	return n;
}

/* 4,096 values, none beside another, are the largest array; one more makes a bitset. */
static void test_largest_array(void **state)
{
	for (uint32_t n = 4096; n <= 4097; n++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *made = NULL;
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		uint32_t values[4097];

		for (uint32_t i = 0; i < n; i++)
			values[i] = 2 * i;
		assert_int_equal(pf_bitmap_from(values, n, &made), 0);
		assert_int_equal(pf_bitmap_encode(made, &bytes), 0);
		assert_int_equal(bytes.len, 16 + 8192);
		assert_int_equal(decode(bytes.data, bytes.len, &b, NULL), 0);
		assert_int_equal(pf_bitmap_count(b), n);
	}
}

struct expected {
	const uint32_t *values;
	size_t n;
};

static int take_expected(void *arg, uint32_t v)
{
	struct expected *e = arg;

	assert_true(e->n > 0);
	assert_int_equal(v, *e->values);
	e->values++;
	e->n--;
	return 0;
}

/* Whatever containers it has, a set answers as a list of its values does, also when it went through its bytes. */
static void test_answers(void **state)
{
	static bool set[SPACE];
	static uint32_t values[SPACE];
	uint64_t seed = 20261129;

	for (int round = 0; round < 8; round++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *made = NULL;
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		size_t n = random_set(&seed, set, values), rank = 0;
		struct expected e = { values, n };
		struct pf_why why = PF_WHY_INIT;

		assert_int_equal(pf_bitmap_from(values, n, &made), 0);
		assert_int_equal(pf_bitmap_encode(made, &bytes), 0);
		if (decode(bytes.data, bytes.len, &b, &why) < 0)
			fail_msg("seed 20261129, round %d: %s", round, why.text);
		assert_int_equal(pf_bitmap_count(b), n);
		assert_int_equal(pf_bitmap_max(b), n ? values[n - 1] : 0);
		assert_int_equal(pf_bitmap_each(b, take_expected, &e), 0);
		assert_int_equal(e.n, 0);
		for (uint32_t v = 0; v < SPACE; v++) {
			if (pf_bitmap_has(b, v) != set[v] || pf_bitmap_rank(b, v) != rank)
				fail_msg("seed 20261129, round %d: value %u", round, v);
			rank += set[v];
		}
		assert_int_equal(pf_bitmap_rank(b, UINT32_MAX), n);
	}
}

static int stop_at(void *arg, uint32_t v)
{
	return v == *(uint32_t *)arg ? -ENOSPC : 0;
}

static void test_from(void **state)
{
	static const uint32_t unordered[] = { 7, 3, 7, UINT32_MAX, 0, 3 };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	uint32_t at = 7;

	assert_int_equal(pf_bitmap_from(unordered, ARRAY_LEN(unordered), &b), 0);
	assert_values(b, " 0 3 7 4294967295");
	assert_int_equal(pf_bitmap_rank(b, UINT32_MAX), 3);
	assert_int_equal(pf_bitmap_rank(b, 0), 0);
	assert_int_equal(pf_bitmap_each(b, stop_at, &at), -ENOSPC);
}

static void test_merge(void **state)
{
	static const uint32_t a[] = { 1, 70000 }, b[] = { 0, 1, UINT32_MAX };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *into = NULL;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *from = NULL;

	assert_int_equal(pf_bitmap_from(a, ARRAY_LEN(a), &into), 0);
	assert_int_equal(pf_bitmap_from(b, ARRAY_LEN(b), &from), 0);
	assert_int_equal(pf_bitmap_merge(into, from), 0);
	assert_values(into, " 0 1 70000 4294967295");
	assert_values(from, " 0 1 4294967295");
}

static int rows_decode(const void *bytes, size_t n, bool allow_trailing, struct pf_rows *out, struct pf_why *why)
{
	_cleanup_(pf_freep) uint8_t *exact = malloc(n ? n : 1);

	memcpy(exact, bytes, n);
	return pf_rows_decode(exact, n, allow_trailing, out, why);
}

#define N(n)   n "\0\0\0\0\0\0\0"
#define KEY(k) k "\0\0\0"
#define EMPTY  PLAIN "\0\0\0\0"

static void test_rows(void **state)
{
	static const char bytes[] = N("\x02") KEY("\x00") PAIR KEY("\x07") PAIR;
	_cleanup_(pf_rows_release) struct pf_rows rows = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf again = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(rows_decode(B(bytes), false, &rows, &why), 0);
	assert_int_equal(rows.n, 2);
	assert_int_equal(pf_rows_count(&rows), 4);
	assert_int_equal(rows.fragment[0], 0);
	assert_int_equal(rows.fragment[1], 7);
	assert_values(pf_rows_of(&rows, 0), " 1 16");
	assert_ptr_equal(pf_rows_of(&rows, 7), rows.offsets[1]);
	assert_null(pf_rows_of(&rows, 1));
	assert_null(pf_rows_of(&rows, UINT32_MAX));
	assert_int_equal(pf_rows_encode(&rows, &again), 0);
	assert_int_equal(again.len, sizeof(bytes) - 1);
	assert_memory_equal(again.data, bytes, again.len);
}

static void test_rows_framing(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		bool allow_trailing;
		int r; /* fragments, or the error */
		const char *why;
	} rows[] = {
		{ B(N("\x00")), false, 0, "" },
		{ B(N("\x00") "\x00"), false, -EBADMSG, "offset 8: expected nothing more, found 1 bytes" },
		{ B(N("\x00") "\x00"), true, 0, "" },
		{ B(N("\x01") KEY("\x05") PAIR "junk"), true, 1, "" },
		{ B(N("\x01") KEY("\x05") PAIR "junk"), false, -EBADMSG,
		  "offset 32: expected nothing more, found 4 bytes" },
		/* A bitmap that lost its last value may stay behind in its writer. */
		{ B(N("\x02") KEY("\x01") EMPTY KEY("\x05") PAIR), false, 1, "" },
		{ B(""), true, -EBADMSG, "offset 0: expected 8 bytes of a count of fragments, found 0" },
		{ B("\x00\x00\x00\x00\x00\x00\x00"), false, -EBADMSG,
		  "offset 0: expected 8 bytes of a count of fragments, found 7" },
		{ B("\xff\xff\xff\xff\xff\xff\xff\xff"), true, -EBADMSG,
		  "offset 8: expected 4 bytes of a fragment id, found 0" },
		{ B(N("\x02") KEY("\x05") PAIR), true, -EBADMSG,
		  "offset 32: expected 4 bytes of a fragment id, found 0" },
		{ B(N("\x02") KEY("\x05") PAIR KEY("\x05") PAIR), true, -EBADMSG,
		  "offset 32: expected a fragment above 5, found 5" },
		{ B(N("\x02") KEY("\x05") PAIR KEY("\x04") PAIR), true, -EBADMSG,
		  "offset 32: expected a fragment above 5, found 4" },
		{ B(N("\x01") KEY("\x05") PLAIN), true, -EBADMSG,
		  "offset 16: expected 4 bytes of a count of containers, found 0" },
		{ B(N("\x02") KEY("\x05") PAIR KEY("\x06") ONE "\x00\x00\x01\x00"
							       "\x10\x00\x00\x00"
							       "\x10\x00\x10\x00"),
		  true, -EBADMSG, "offset 54: expected values in ascending order" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_rows_release) struct pf_rows out = { 0 };
		struct pf_why why = PF_WHY_INIT;
		int r = rows_decode(rows[i].bytes, rows[i].n, rows[i].allow_trailing, &out, &why);

		assert_string_equal(why.text, rows[i].why);
		assert_int_equal(r < 0 ? r : (int)out.n, rows[i].r);
	}
}

static int count_value(void *arg, uint32_t v)
{
	++*(uint64_t *)arg;
	return 0;
}

/* No cut and no flipped bit is read past its end, and what is still accepted is a set that holds together. */
static void test_damaged(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf good = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	uint32_t values[120];
	size_t n = 0;

	for (uint32_t key = 0; key < 5; key++)
		for (uint32_t v = 0; v < 20; v++)
			values[n++] = key << 16 | v * (key % 2 ? 1 : 3);
	assert_int_equal(pf_bitmap_from(values, n, &b), 0);
	assert_int_equal(pf_bitmap_encode(b, &good), 0);

	for (size_t len = 0; len < good.len; len++) {
		struct pf_bitmap *out = NULL;

		assert_int_equal(decode(good.data, len, &out, NULL), -EBADMSG);
	}
	for (size_t bit = 0; bit < 8 * good.len; bit++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *out = NULL;
		uint64_t count = 0;

		good.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		int r = decode(good.data, good.len, &out, NULL);
		good.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (r == 0) {
			pf_bitmap_each(out, count_value, &count);
			assert_int_equal(pf_bitmap_count(out), count);
			assert_int_equal(pf_bitmap_rank(out, pf_bitmap_max(out)), count - 1);
		} else {
			assert_int_equal(r, -EBADMSG);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),	     cmocka_unit_test(test_refused),
		cmocka_unit_test(test_bitset),	     cmocka_unit_test(test_answers),
		cmocka_unit_test(test_from),	     cmocka_unit_test(test_rows),
		cmocka_unit_test(test_damaged),	     cmocka_unit_test(test_largest_array),
		cmocka_unit_test(test_rows_framing), cmocka_unit_test(test_merge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
