/* Ids: one accepted spelling, so that one pin has one name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/text.h"

#define U "0b7b4f0e-1111-4222-8333-44445555666f"

static const struct pf_uuid u_bytes = { { 0x0b, 0x7b, 0x4f, 0x0e, 0x11, 0x11, 0x42, 0x22, 0x83, 0x33, 0x44, 0x44, 0x55,
					  0x55, 0x66, 0x6f } };

#define ROW(name, text)                                                                                                \
	{                                                                                                              \
		name, text, sizeof(text) - 1                                                                           \
	}

static void test_refused(void **state)
{
	static const struct {
		const char *name, *s;
		size_t len;
	} rows[] = {
		/* D12: what is 36 characters only after something is cut off, and other notations */
		ROW("D12 braces", "{" U "}"),
		ROW("D12 parentheses", "(" U ")"),
		ROW("D12 closing brace", U "}"),
		ROW("D12 opening brace", "{" U),
		ROW("D12 blanks", " " U " "),
		ROW("D12 any two characters", "x" U "y"),
		ROW("D12 quotes", "\"" U "\""),
		ROW("D12 urn", "urn:uuid:" U),
		ROW("D12 URN", "URN:UUID:" U),
		ROW("D12 32 digits", "0b7b4f0e11114222833344445555666f"),
		ROW("D12 hyphen early", "0b7b4f0-e1111-4222-8333-44445555666f"),
		ROW("D12 hyphen late", "0b7b4f0e1-111-4222-8333-44445555666f"),
		ROW("D12 hyphen for a digit", "0b7b4f0e-1111-4222-8333-4444555566--"),
		ROW("D12 digit for a hyphen", "0b7b4f0e-1111-4222-83330444455556666"),
		ROW("D12 35 characters", "0b7b4f0e-1111-4222-8333-44445555666"),
		ROW("D12 37 characters", U "0"),
		ROW("D12 36 with a newline", "0b7b4f0e-1111-4222-8333-44445555666\n"),
		ROW("D12 36 bytes, fullwidth digit", "0b7b4f0e-1111-4222-8333-444455556\xef\xbc\x91"),
		ROW("D12 36 characters, fullwidth digit", "0b7b4f0e-1111-4222-8333-44445555666\xef\xbc\x91"),
		ROW("D12 36 bytes, high bytes", "0b7b4f0e-1111-4222-8333-4444555566\xb2\xb9"),
		ROW("D12 newline after", U "\n"),
		ROW("D12 byte order mark", "\xef\xbb\xbf" U),
		ROW("D14 few digits", "ffff"),
		ROW("D14 words", "not-a-uuid"),
		ROW("D14 36 characters of words", "this-is-no-uuid-but-36-characters-xx"),
		ROW("D14 right hyphens, no digits", "gggggggg-gggg-4ggg-8ggg-gggggggggggg"),
		ROW("D14 sign and prefix", "0x7b4f0e-+111-4222-8333-44445555666f"),
		ROW("D14 empty", ""),
		ROW("NUL inside", "0b7b4f0e-1111-4222-8333-4444\0"
				  "5555666"),
		ROW("NUL after", U "\0"),
		ROW("nil", "00000000-0000-0000-0000-000000000000"),
		ROW("all ones", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
		ROW("ALL ONES", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_uuid u = u_bytes;
		struct pf_why why = PF_WHY_INIT;
		char quoted[PF_QUOTE_TEXT];

		if (pf_uuid_parse(rows[i].s, rows[i].len, &u, &why) != -EINVAL)
			fail_msg("%s: not refused", rows[i].name);
		if (!pf_uuid_eq(&u, &u_bytes))
			fail_msg("%s: out was touched", rows[i].name);
		if (!strstr(why.text, pf_text_quote(rows[i].s, rows[i].len, quoted)))
			fail_msg("%s: the value is not in: %s", rows[i].name, why.text);
		assert_int_equal(pf_uuid_parse(rows[i].s, rows[i].len, &u, NULL), -EINVAL);
	}
}

static void test_parse_and_format(void **state)
{
	static const char *const spellings[] = { U, "0B7B4F0E-1111-4222-8333-44445555666F",
						 "0b7B4f0E-1111-4222-8333-44445555666F" };

	for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
		struct pf_uuid u;
		char text[PF_UUID_TEXT];

		assert_int_equal(pf_uuid_parse(spellings[i], 36, &u, NULL), 0);
		assert_memory_equal(u.b, u_bytes.b, 16);
		pf_uuid_format(&u, text);
		assert_string_equal(text, U);
	}
}

/* An id inside a longer text: only the given bytes count. */
static void test_parse_stops_at_len(void **state)
{
	struct pf_uuid u;

	assert_int_equal(pf_uuid_parse(U ",expires_at=+2h", 36, &u, NULL), 0);
	assert_true(pf_uuid_eq(&u, &u_bytes));
}

static void test_valid(void **state)
{
	struct pf_uuid nil = { { 0 } }, ones, one = { { 0 } }, almost;

	memset(ones.b, 0xff, 16);
	almost = ones;
	almost.b[15] = 0xfe;
	one.b[15] = 1;
	assert_false(pf_uuid_valid(&nil));
	assert_false(pf_uuid_valid(&ones));
	assert_true(pf_uuid_valid(&one));
	assert_true(pf_uuid_valid(&almost));
	assert_false(pf_uuid_eq(&nil, &one));
	assert_true(pf_uuid_eq(&one, &one));
}

static void test_new_is_random_version_4(void **state)
{
	struct pf_uuid seen[64];

	for (size_t i = 0; i < ARRAY_LEN(seen); i++) {
		pf_uuid_new(&seen[i]);
		assert_int_equal(seen[i].b[6] >> 4, 4);
		assert_int_equal(seen[i].b[8] >> 6, 2); /* the variant of RFC 4122 */
		for (size_t j = 0; j < i; j++)
			assert_false(pf_uuid_eq(&seen[i], &seen[j]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_parse_and_format),
		cmocka_unit_test(test_parse_stops_at_len),
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_new_is_random_version_4),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
