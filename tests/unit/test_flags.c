/* Feature flags by explicit mask, never by size (cases-open A21; lance-14 section 2). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/flags.h"

#define BIT(n) (UINT64_C(1) << (n))

static void test_readable(void **state)
{
	static const struct {
		uint64_t reader, writer;
		int err;
		const char *says; /* NULL: nothing */
	} rows[] = {
		{ 0, 0, 0, NULL },
		{ 1, 1, 0, NULL },
		/* 0 to 8, 10, 11, 14, 15: what 14.0.2 reads and pin commits do not disturb */
		{ 0xcdff, 0xcdff, 0, NULL },
		/* The writer word gates writing, not reading: ours, the first unknown one, the last one, one 14 refuses to write. */
		{ 0, BIT(19), 0, NULL },
		{ 0, BIT(18) | BIT(20) | BIT(63), 0, NULL },
		{ 0, BIT(9) | BIT(12) | BIT(13) | BIT(17), 0, NULL },

		{ BIT(40), 0, -EOPNOTSUPP, ": 40 unknown" },
		{ BIT(63), 0, -EOPNOTSUPP, ": 63 unknown" },
		{ BIT(19), BIT(19), -EOPNOTSUPP, ": 19 ongoing-work-pins" },
		{ BIT(9) | 1, 1, -EOPNOTSUPP, ": 9 frag-reuse-with-stable-row-ids" },
		{ BIT(12) | BIT(13) | BIT(17) | BIT(18), 0, -EOPNOTSUPP,
		  ": 12 fragment-tree, 13 independent-covering-fields, 17 object-metadata, 18 unknown" },
		{ BIT(16), BIT(16), -EOPNOTSUPP, ": 16 zone-write-seeds" },

		/* Paired bits on one side alone */
		{ BIT(8), 0, -EBADMSG, ": 8 mixed-data-file-versions" },
		{ 0, BIT(8), -EBADMSG, ": 8 mixed-data-file-versions" },
		{ BIT(10), BIT(14), -EBADMSG, ": 10 tagged-frag-reuse-index, 14 managed-blobs" },
		{ 0, BIT(16), -EBADMSG, ": 16 zone-write-seeds" },
		{ BIT(16), 0, -EBADMSG, ": 16 zone-write-seeds" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(pf_flags_readable(rows[i].reader, rows[i].writer, &why), rows[i].err);
		const char *says = rows[i].says ? rows[i].says : "";
		if (strlen(why.text) < strlen(says) || strcmp(why.text + strlen(why.text) - strlen(says), says) != 0)
			fail_msg("row %zu: \"%s\" does not end in \"%s\"", i, why.text, says);
	}
}

static void test_writable(void **state)
{
	const uint64_t carried = 0xcdff | BIT(19);

	for (unsigned bit = 0; bit < 64; bit++) {
		struct pf_why why = PF_WHY_INIT;
		int r = pf_flags_writable(BIT(bit) | BIT(19), &why);
		assert_int_equal(r, carried & BIT(bit) ? 0 : -EOPNOTSUPP);
		if (r < 0)
			assert_int_equal(strncmp(why.text, "read-only: ", 11), 0);
	}
	struct pf_why why = PF_WHY_INIT;
	assert_int_equal(pf_flags_writable(carried | BIT(17) | BIT(20), &why), -EOPNOTSUPP);
	assert_string_equal(strrchr(why.text, ':'), ": 17 object-metadata, 20 unknown");
}

static void test_describe(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(PF_FLAG_PINS, 524288);
	assert_int_equal(pf_flags_describe(0, &b), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(pf_flags_describe(PF_FLAG_PINS | 8 | BIT(63), &b), 0);
	assert_string_equal(pf_buf_str(&b), "3 table-config, 19 ongoing-work-pins, 63 unknown");
	assert_string_equal(pf_flag_name(18), "unknown");
	assert_string_equal(pf_flag_name(64), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readable),
		cmocka_unit_test(test_writable),
		cmocka_unit_test(test_describe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
