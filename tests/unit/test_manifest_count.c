/* How many fragments and rows a manifest says that there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/manifest.h"
#include "core/store_mem.h"

#include "table.h"

#define NAME "_versions/7.manifest"

/* Of a version with 3 fragments of 10 rows, and these. */
static int count_bytes(const void *fragments, size_t n, uint64_t *count, uint64_t *rows, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_buf more = { (uint8_t *)(uintptr_t)fragments, n, n };

	table_manifest(&(struct table_version){ .version = 7, .v1 = true, .fragments = 3, .extra = &more }, &b);
	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_mem_put(st, NAME, b.data, b.len), 0);
	assert_int_equal(pf_manifest_open(st, NAME, &m, why), 0);
	return pf_manifest_count(st, m, count, rows, why);
}

static void test_count(void **state)
{
	uint64_t n, rows;
	struct pf_why why = PF_WHY_INIT;
#define COUNT(bytes) count_bytes(bytes, sizeof(bytes) - 1, &n, &rows, &why)

	assert_int_equal(COUNT(""), 0);
	assert_true(n == 3 && rows == 30);
	/* 9 rows, 4 of them deleted */
	assert_int_equal(COUNT("\x12\x06\x1a\x02\x20\x04\x20\x09"), 0);
	assert_true(n == 4 && rows == 35);
	/* old writers: no physical rows, or no count of the deleted */
	assert_int_equal(COUNT("\x12\x02\x08\x03"), 0);
	assert_true(n == 4 && rows == UINT64_MAX);
	assert_int_equal(COUNT("\x12\x04\x1a\x00\x20\x09"), 0);
	assert_true(n == 4 && rows == UINT64_MAX);

	assert_int_equal(COUNT("\x12\x06\x1a\x02\x20\x0a\x20\x09"), -EBADMSG);
	assert_non_null(strstr(why.text, "expected at most 9 deleted rows, found 10"));
	assert_int_equal(COUNT("\x12\x0b\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), -EBADMSG);
	assert_non_null(strstr(why.text, "expected fewer than 2^64 rows"));
	assert_int_equal(COUNT("\x12\x02\x20\x80"), -EBADMSG);
	assert_int_equal(COUNT("\x12\x02\x1a\x01"), -EBADMSG);
	assert_int_equal(COUNT("\x12\x02\x18\x01"), -EBADMSG);
	assert_int_equal(COUNT("\x12\x02\x22\x00"), -EBADMSG);
	assert_int_equal(COUNT("\x10\x02"), -EBADMSG);
	assert_int_equal(strncmp(why.text, NAME ": ", strlen(NAME ": ")), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
