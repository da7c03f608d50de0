/* What store.h says where there is no store to ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/store.h"

static void stat_same_ignores_only_ctime(void **state)
{
	const struct pf_stat a = { .dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5 };
	const struct pf_stat unlinked_since = { .dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 6 };
	const struct pf_stat others[] = {
		{ .dev = 9, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5 },
		{ .dev = 1, .ino = 9, .size = 3, .mtime_ns = 4, .ctime_ns = 5 },
		{ .dev = 1, .ino = 2, .size = 9, .mtime_ns = 4, .ctime_ns = 5 },
		{ .dev = 1, .ino = 2, .size = 3, .mtime_ns = 9, .ctime_ns = 5 },
	};
	assert_true(pf_stat_same(&a, &unlinked_since));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_false(pf_stat_same(&a, &others[i]));
}

static void nothing_may_be_closed(void **state)
{
	pf_store_free(NULL);
	pf_file_close(NULL);
	pf_stage_discard(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_same_ignores_only_ctime),
		cmocka_unit_test(nothing_may_be_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
