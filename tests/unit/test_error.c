/* Codes of core as the mount and pinctl answer them, and the sentence that goes with them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/error.h"
#include "core/text.h"

/* The table of core/error.h, which is that of design sections 5 and 6. */
static void test_codes(void **state)
{
	static const struct {
		int code, mount, exit;
	} rows[] = {
		{ 0, 0, 0 },
		{ -EINVAL, EINVAL, 2 },
		{ -ENOENT, ENOENT, 1 },
		{ -EEXIST, EEXIST, 1 },
		{ -EBUSY, EBUSY, 4 },
		{ -ESTALE, EAGAIN, 1 },
		{ -EAGAIN, EAGAIN, 75 },
		{ -EINPROGRESS, EINPROGRESS, 76 },
		{ -EROFS, EROFS, 1 },
		{ -EOPNOTSUPP, EOPNOTSUPP, 1 },
		{ -EBADMSG, EUCLEAN, 3 },
		{ -ENAMETOOLONG, ENAMETOOLONG, 2 },
		{ -EIO, EIO, 1 },
		{ -ENOSPC, ENOSPC, 1 },
		{ -EACCES, EACCES, 1 },
		{ -EPERM, EPERM, 1 },
		{ -EMFILE, EMFILE, 1 },
		{ -ENOMEM, ENOMEM, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(pf_error_errno(rows[i].code), rows[i].mount);
		assert_int_equal(pf_error_exit(rows[i].code), rows[i].exit);
	}
	assert_int_equal(pf_error_exit(7), 0); /* a count is no failure */
}

static void test_why(void **state)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_why_default(&why, -ENOENT, "no %s", "pin"), -ENOENT);
	assert_string_equal(why.text, "no pin");
	assert_int_equal(pf_why_default(&why, -EIO, "less is known here"), -EIO);
	assert_string_equal(why.text, "no pin");
	assert_int_equal(pf_why_set(&why, -EBADMSG, "offset %d", 12), -EBADMSG);
	assert_string_equal(why.text, "offset 12");
	assert_int_equal(pf_why_prefix(&why, -EBADMSG, "_versions/%d.manifest", 3), -EBADMSG);
	assert_string_equal(why.text, "_versions/3.manifest: offset 12");
}

static void test_why_prefix_without_sentence(void **state)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_why_prefix(&why, -ENOMEM, "3.manifest"), -ENOMEM);
	assert_string_equal(why.text, "3.manifest");
}

static void test_why_may_be_null(void **state)
{
	assert_int_equal(pf_why_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(pf_why_default(NULL, -EIO, "x"), -EIO);
	assert_int_equal(pf_why_prefix(NULL, -EIO, "x"), -EIO);
}

/* Wherever the cut falls in a character of 1 to 4 bytes, what stays is whole characters and as many as fit. */
static void test_why_is_cut_between_characters(void **state)
{
	static const char *const chars[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x93\x8c" };

	for (size_t c = 0; c < ARRAY_LEN(chars); c++) {
		size_t n = strlen(chars[c]);
		for (size_t lead = 0; lead < n; lead++) {
			char text[3 * PF_WHY_MAX];
			size_t len = lead;
			memset(text, '.', lead);
			for (; len < 2 * PF_WHY_MAX; len += n)
				memcpy(text + len, chars[c], n);
			text[len] = '\0';

			struct pf_why why = PF_WHY_INIT;
			pf_why_set(&why, -EIO, "%s", text);
			assert_int_equal(strlen(why.text), lead + (PF_WHY_MAX - 1 - lead) / n * n);
			assert_memory_equal(why.text, text, strlen(why.text));
			assert_true(pf_utf8_valid(why.text, strlen(why.text)));
		}
	}
}

static void test_why_that_fits_is_whole(void **state)
{
	char text[PF_WHY_MAX];
	struct pf_why why = PF_WHY_INIT;

	memset(text, 'x', sizeof(text) - 4);
	memcpy(text + sizeof(text) - 4, "\xe2\x82\xac", 4);
	pf_why_set(&why, -EIO, "%s", text);
	assert_string_equal(why.text, text);
	pf_why_prefix(&why, -EIO, "file");
	assert_int_equal(strncmp(why.text, "file: xxx", 9), 0);
	assert_int_equal(strlen(why.text), PF_WHY_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_why_prefix_without_sentence),
		cmocka_unit_test(test_why_may_be_null),
		cmocka_unit_test(test_why_is_cut_between_characters),
		cmocka_unit_test(test_why_that_fits_is_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
