/* A growable run of bytes: what was added is there in order, and a failure leaves it as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "core/buf.h"

static void test_adds_in_order(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_add(&b, "a\0b", 3), 0);
	assert_int_equal(pf_buf_addch(&b, 'c'), 0);
	assert_int_equal(pf_buf_addstr(&b, "de"), 0);
	assert_int_equal(pf_buf_addf(&b, "%s-%d", "f", 7), 0);
	assert_int_equal(pf_buf_add(&b, NULL, 0), 0);
	assert_int_equal(b.len, 9);
	assert_memory_equal(b.data, "a\0bcdef-7", 9);
}

/* Formatted text needs room for a NUL that is not part of it; the next byte goes in its place. */
static void test_format_at_every_fill(void **state)
{
	for (size_t fill = 0; fill < 200; fill++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		for (size_t i = 0; i < fill; i++)
			assert_int_equal(pf_buf_addch(&b, 'x'), 0);
		assert_int_equal(pf_buf_addf(&b, "%05d", 42), 0);
		assert_int_equal(pf_buf_addch(&b, '!'), 0);
		assert_int_equal(b.len, fill + 6);
		assert_memory_equal(b.data + fill, "00042!", 6);
	}
}

static void test_str(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_string_equal(pf_buf_str(&b), "");
	for (size_t i = 0; i < 64; i++) { /* to the brim of the first allocation */
		assert_int_equal(pf_buf_addch(&b, 'x'), 0);
		assert_int_equal(strlen(pf_buf_str(&b)), i + 1);
		assert_int_equal(b.len, i + 1);
	}
}

static void test_reset_keeps_memory(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&b, "abc"), 0);
	const uint8_t *data = b.data;
	pf_buf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_int_equal(pf_buf_addstr(&b, "xy"), 0);
	assert_ptr_equal(b.data, data);
	assert_string_equal(pf_buf_str(&b), "xy");
}

static void test_release_makes_it_empty_again(void **state)
{
	struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&b, "abc"), 0);
	pf_buf_release(&b);
	assert_null(b.data);
	assert_int_equal(b.len + b.cap, 0);
	assert_int_equal(pf_buf_addstr(&b, "d"), 0);
	assert_string_equal(pf_buf_str(&b), "d");
	pf_buf_release(&b);
	pf_buf_release(&b);
}

static void test_reserve_makes_room_at_once(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&b, "abc"), 0);
	assert_int_equal(pf_buf_reserve(&b, 100000), 0);
	const uint8_t *data = b.data;
	for (int i = 0; i < 100000; i++)
		assert_int_equal(pf_buf_addch(&b, 'x'), 0);
	assert_ptr_equal(b.data, data);
	assert_memory_equal(b.data, "abcx", 4);
}

/* Sizes that no machine has, and whose sum with the length wraps. */
static void test_impossible_sizes(void **state)
{
	static const size_t more[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 3, SIZE_MAX / 2 + 1, SIZE_MAX / 2 };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&b, "abc"), 0);
	struct pf_buf was = b;
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		assert_int_equal(pf_buf_reserve(&b, more[i]), -ENOMEM);
		assert_memory_equal(&b, &was, sizeof(b));
	}
	assert_memory_equal(b.data, "abc", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adds_in_order),
		cmocka_unit_test(test_format_at_every_fill),
		cmocka_unit_test(test_str),
		cmocka_unit_test(test_reset_keeps_memory),
		cmocka_unit_test(test_release_makes_it_empty_again),
		cmocka_unit_test(test_reserve_makes_room_at_once),
		cmocka_unit_test(test_impossible_sizes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
