/* The bytes of protobuf that the writers append. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/wire.h"

static void test_writers(void **state)
{
	static const struct {
		uint64_t v;
		const char *bytes;
		size_t n;
	} varints[] = {
		{ 0, "\x00", 1 },
		{ 1, "\x01", 1 },
		{ 127, "\x7f", 1 },
		{ 128, "\x80\x01", 2 },
		{ 150, "\x96\x01", 2 },
		{ 16383, "\xff\x7f", 2 },
		{ 16384, "\x80\x80\x01", 3 },
		{ 1 << 19, "\x80\x80\x20", 3 },
		{ UINT32_MAX, "\xff\xff\xff\xff\x0f", 5 },
		{ INT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9 },
		{ UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10 },
	};
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(varints); i++) {
		pf_buf_reset(&b);
		assert_int_equal(pf_wire_put_varint(&b, varints[i].v), 0);
		assert_int_equal(b.len, varints[i].n);
		assert_memory_equal(b.data, varints[i].bytes, varints[i].n);
	}

	pf_buf_reset(&b);
	assert_int_equal(pf_wire_put_u64(&b, 1, 150), 0);
	assert_int_equal(pf_wire_put_u64(&b, 10, 0), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 2, "testing", 7), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 16, NULL, 0), 0);
	assert_int_equal(pf_wire_put_tag(&b, (1u << 29) - 1, PF_WIRE_I32), 0);
	assert_int_equal(b.len, 22);
	assert_memory_equal(b.data, "\x08\x96\x01\x50\x00\x12\x07testing\x82\x01\x00\xfd\xff\xff\xff\x0f", 22);
}

static void test_put_bytes_leaves_no_half_field(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&b, "x"), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 2, "", SIZE_MAX), -ENOMEM);
	assert_int_equal(pf_wire_put_bytes(&b, 2, "", SIZE_MAX / 2), -ENOMEM);
	assert_int_equal(b.len, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writers),
		cmocka_unit_test(test_put_bytes_leaves_no_half_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
