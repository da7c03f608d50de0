/* UTF-8, labels, percent-encoding, escaping, numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/text.h"

#define ROW(text, ...)                                                                                                 \
	{                                                                                                              \
		text, sizeof(text) - 1, __VA_ARGS__                                                                    \
	}

/* From RFC 3629 and the boundaries of its table. */
static void test_utf8(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		bool valid;
	} rows[] = {
		ROW("", true),
		ROW("plain", true),
		ROW("a\0b", true),
		ROW("\x7f", true),
		ROW("\x80", false), /* continuation first */
		ROW("\xbf", false),
		ROW("\xc0\x80", false), /* overlong NUL */
		ROW("\xc1\xbf", false), /* overlong U+007F */
		ROW("\xc2\x80", true),	/* U+0080 */
		ROW("\xc2", false),
		ROW("\xc2\x7f", false),
		ROW("\xc2\xc0", false),
		ROW("\xdf\xbf", true),	    /* U+07FF */
		ROW("\xe0\x9f\xbf", false), /* overlong U+07FF */
		ROW("\xe0\xa0\x80", true),  /* U+0800 */
		ROW("\xe2\x82", false),
		ROW("\xe2\x82\x41", false),
		ROW("\xed\x9f\xbf", true),	/* U+D7FF */
		ROW("\xed\xa0\x80", false),	/* U+D800 */
		ROW("\xed\xbf\xbf", false),	/* U+DFFF */
		ROW("\xee\x80\x80", true),	/* U+E000 */
		ROW("\xef\xbf\xbf", true),	/* U+FFFF */
		ROW("\xf0\x8f\xbf\xbf", false), /* overlong U+FFFF */
		ROW("\xf0\x90\x80\x80", true),	/* U+10000 */
		ROW("\xf0\x90\x80", false),
		ROW("\xf4\x8f\xbf\xbf", true),	/* U+10FFFF */
		ROW("\xf4\x90\x80\x80", false), /* U+110000 */
		ROW("\xf5\x80\x80\x80", false),
		ROW("\xf8\x88\x80\x80\x80", false),
		ROW("\xfe", false),
		ROW("\xff", false),
		ROW("ok\xc3\xa9ok", true),
		ROW("ok\xc3ok", false),
		ROW("\xed\xa0\xbd\xed\xb3\x8c", false), /* a surrogate pair, as CESU-8 */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *exact = malloc(rows[i].len ? rows[i].len : 1); /* so that a read past the end is seen */
		memcpy(exact, rows[i].s, rows[i].len);
		if (pf_utf8_valid(exact, rows[i].len) != rows[i].valid)
			fail_msg("row %zu", i);
		free(exact);
	}
}

static void test_labels(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		int r;
	} rows[] = {
		ROW("", 0),
		ROW("nightly export", 0),
		ROW("gr\xc3\xb6\xc3\x9f"
		    "e \xf0\x9f\x93\x8c",
		    0),
		ROW("a=b,c%/\\\"'", 0),
		ROW("\xc2\xa0", 0), /* U+00A0, the first after C1 */
		ROW("tab\there", -EINVAL),
		ROW("line\n", -EINVAL),
		ROW("\r", -EINVAL),
		ROW("\x1b[31m", -EINVAL),
		ROW("\x7f", -EINVAL),	  /* DEL */
		ROW("\xc2\x80", -EINVAL), /* C1, first */
		ROW("\xc2\x9f", -EINVAL), /* C1, last */
		ROW("a\0b", -EINVAL),
		ROW("\xff", -EINVAL),
		ROW("\xc3", -EINVAL),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_why why = PF_WHY_INIT;
		if (pf_label_check(rows[i].s, rows[i].len, &why) != rows[i].r)
			fail_msg("row %zu: %s", i, why.text);
		assert_int_equal(why.text[0] != '\0', rows[i].r != 0);
		assert_true(pf_utf8_valid(why.text, strlen(why.text)));
	}
}

static void test_label_limit(void **state)
{
	char label[PF_LABEL_MAX + 1];

	memset(label, 'x', sizeof(label));
	assert_int_equal(pf_label_check(label, PF_LABEL_MAX, NULL), 0);
	assert_int_equal(pf_label_check(label, PF_LABEL_MAX + 1, NULL), -ENAMETOOLONG);
	/* It is bytes that are counted, not characters. */
	for (size_t i = 0; i < PF_LABEL_MAX - 1; i += 2)
		memcpy(label + i, "\xc3\xa9", 2);
	assert_int_equal(pf_label_check(label, PF_LABEL_MAX - 1, NULL), 0);
	memcpy(label + PF_LABEL_MAX - 1, "\xc3\xa9", 2);
	assert_int_equal(pf_label_check(label, PF_LABEL_MAX + 1, NULL), -ENAMETOOLONG);
}

static void test_percent_encode(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		const char *encoded;
	} rows[] = {
		ROW("", ""),
		ROW("AZaz09-._~:+@", "AZaz09-._~:+@"),
		ROW("2031-06-01T12:00:00+01:00", "2031-06-01T12:00:00+01:00"),
		ROW("feat/x", "feat%2Fx"),
		ROW("a b,c=d%e", "a%20b%2Cc%3Dd%25e"),
		ROW("\xc3\xa9\n", "%C3%A9%0A"),
		ROW("\0", "%00"),
		ROW("\xff", "%FF"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		assert_int_equal(pf_buf_addstr(&b, "="), 0);
		assert_int_equal(pf_percent_encode(rows[i].s, rows[i].len, &b), 0);
		assert_string_equal(pf_buf_str(&b) + 1, rows[i].encoded);
	}
}

static void test_percent_decode(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		const char *decoded; /* NULL: refused */
	} rows[] = {
		ROW("", ""),
		ROW("plain", "plain"),
		ROW("feat%2Fx", "feat/x"),
		ROW("feat%2fx", "feat/x"),
		ROW("%C3%A9%25%20", "\xc3\xa9% "),
		ROW("%252F", "%2F"), /* once, not until nothing is left */
		ROW("a+b", "a+b"),   /* no blank: this is no form data */
		ROW("%", NULL),
		ROW("a%", NULL),
		ROW("a%2", NULL),
		ROW("%2G", NULL),
		ROW("%G2", NULL),
		ROW("% 2", NULL),
		ROW("%+2", NULL),
		ROW("%%20", NULL),
		ROW("%0x", NULL),
		ROW("%00", NULL),
		ROW("ok%00", NULL),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;
		char *exact = malloc(rows[i].len ? rows[i].len : 1);
		memcpy(exact, rows[i].s, rows[i].len);

		assert_int_equal(pf_buf_addstr(&b, "="), 0);
		int r = pf_percent_decode(exact, rows[i].len, &b, &why);
		free(exact);
		if (r != (rows[i].decoded ? 0 : -EINVAL))
			fail_msg("%s: %d", rows[i].s, r);
		if (rows[i].decoded)
			assert_string_equal(pf_buf_str(&b) + 1, rows[i].decoded);
		else
			assert_non_null(strstr(why.text, rows[i].s));
		assert_true(rows[i].decoded || b.len == 1); /* nothing of a refused value stays */
	}
}

static void test_percent_round_trip(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf enc = PF_BUF_INIT;
	_cleanup_(pf_buf_release) struct pf_buf dec = PF_BUF_INIT;
	char all[255];

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	assert_int_equal(pf_percent_encode(all, sizeof(all), &enc), 0);
	assert_int_equal(pf_percent_decode((char *)enc.data, enc.len, &dec, NULL), 0);
	assert_int_equal(dec.len, sizeof(all));
	assert_memory_equal(dec.data, all, sizeof(all));
}

static void test_escape(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		const char *escaped;
	} rows[] = {
		ROW("", ""),
		ROW("plain \"text\" 'here'", "plain \"text\" 'here'"),
		ROW("gr\xc3\xb6\xc3\x9f"
		    "e \xf0\x9f\x93\x8c",
		    "gr\xc3\xb6\xc3\x9f"
		    "e \xf0\x9f\x93\x8c"),
		ROW("a\nb\rc\td\\e", "a\\nb\\rc\\td\\\\e"),
		ROW("\0\x01\x1b\x7f", "\\x00\\x01\\x1b\\x7f"),
		ROW("\xc2\x9b"
		    "31m",
		    "\\xc2\\x9b31m"), /* CSI as one C1 character */
		ROW("\xff\xc3", "\\xff\\xc3"),
		ROW("\xed\xa0\x80", "\\xed\\xa0\\x80"), /* a surrogate is no UTF-8 */
		ROW("\xc3\xc3\xa9", "\\xc3\xc3\xa9"),	/* only the broken byte */
		ROW("\xef\xbb\xbf", "\\xef\\xbb\\xbf"), /* BOM */
		ROW("\xc2\xa0", "\\xc2\\xa0"),		/* no-break space */
		ROW("\xe2\x80\xae"
		    "cod",
		    "\\xe2\\x80\\xaecod"),		/* right-to-left override */
		ROW("\xe2\x80\xa8", "\\xe2\\x80\\xa8"), /* line separator */
		ROW("\xe2\x80\x94", "\xe2\x80\x94"),	/* a dash shows */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		assert_int_equal(pf_text_escape(rows[i].s, rows[i].len, &b), 0);
		assert_string_equal(pf_buf_str(&b), rows[i].escaped);
	}
}

static void test_shell_quote(void **state)
{
	static const char *const rows[][2] = {
		{ "/data/t.lance", "/data/t.lance" },
		{ "feat/x-1_2:3@4+5,6", "feat/x-1_2:3@4+5,6" },
		{ "", "''" },
		{ "a b", "'a b'" },
		{ "~", "'~'" },
		{ "it's", "'it'\\''s'" },
		{ "$HOME `x` \"y\" *?[]{}()<>|&;!#%=^", "'$HOME `x` \"y\" *?[]{}()<>|&;!#%=^'" },
		{ "gr\xc3\xbcn", "'gr\xc3\xbcn'" },
		{ "a\nb", "$'a\\nb'" },
		{ "it's \x1b[0m", "$'it\\'s \\x1b[0m'" },
		{ "back\\slash", "$'back\\\\slash'" },
		{ "\xff", "$'\\xff'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		assert_int_equal(pf_shell_quote(rows[i][0], &b), 0);
		assert_string_equal(pf_buf_str(&b), rows[i][1]);
	}
}

static void test_quote(void **state)
{
	char out[PF_QUOTE_TEXT], text[PF_QUOTE_TEXT];

	assert_string_equal(pf_text_quote("", 0, out), "\"\"");
	assert_string_equal(pf_text_quote("a\nb", 3, out), "\"a\\nb\"");

	/* 127 characters of room: two quotes, and three dots where something is left out, between whole escapes. */
	for (size_t len = 0; len < sizeof(text); len++) {
		for (size_t wide = 1; wide <= 4; wide += 3) {
			memset(text, wide == 1 ? 'x' : '\x01', len);
			pf_text_quote(text, len, out);
			size_t n = strlen(out), kept = n - 2;
			assert_true(n < PF_QUOTE_TEXT && out[0] == '"' && out[n - 1] == '"');
			if (wide * len <= 122) {
				assert_int_equal(kept, wide * len);
			} else if (wide * len > 125) {
				assert_string_equal(out + n - 4, "...\"");
				assert_int_equal((kept - 3) % wide, 0);
				assert_true(kept - 3 + wide > 122);
			}
		}
	}
}

static void test_u64(void **state)
{
	static const struct {
		const char *s;
		size_t len;
		bool ok;
		uint64_t v;
	} rows[] = {
		ROW("0", true, 0),
		ROW("7", true, 7),
		ROW("18446744073709551615", true, UINT64_MAX),
		ROW("9223372036854788153", true, 9223372036854788153ull), /* a detached version of A15 */
		ROW("18446744073709551616", false, 0),
		ROW("18446744073709551620", false, 0),
		ROW("99999999999999999999", false, 0),
		ROW("184467440737095516150", false, 0),
		ROW("", false, 0),
		ROW("00", false, 0),
		ROW("012", false, 0),
		ROW("+1", false, 0),
		ROW("-1", false, 0),
		ROW(" 1", false, 0),
		ROW("1 ", false, 0),
		ROW("1\n", false, 0),
		ROW("1\0", false, 0),
		ROW("0x1", false, 0),
		ROW("1e3", false, 0),
		ROW("1.0", false, 0),
		ROW("\xef\xbc\x91", false, 0),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t v = 42;
		if (pf_u64_parse(rows[i].s, rows[i].len, &v) != (rows[i].ok ? 0 : -EINVAL))
			fail_msg("%s", rows[i].s);
		assert_true(v == (rows[i].ok ? rows[i].v : 42));
	}
}

/* Whole numbers that jansson does not take, and nothing else: least of all in the middle of a fraction. */
static void test_quote_large(void **state)
{
	static const char *const rows[][2] = {
		{ "[9223372036854775807]", "[9223372036854775807]" },
		{ "{\"id\":9223372036854775808}", "{\"id\":\"9223372036854775808\"}" },
		{ "18446744073709551615", "\"18446744073709551615\"" },
		{ "\"9223372036854775808\"", "\"9223372036854775808\"" },
		{ "[\"\\\"\",9223372036854775808]", "[\"\\\"\",\"9223372036854775808\"]" },
		{ "-9223372036854775808", "-9223372036854775808" },
		{ "9223372036854775808.5", "9223372036854775808.5" },
		{ "[0.000012345678901234567]", "[0.000012345678901234567]" },
		{ "1.9223372036854775808e3", "1.9223372036854775808e3" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
		assert_int_equal(pf_text_quote_large(rows[i][0], strlen(rows[i][0]), &out), 0);
		assert_string_equal(pf_buf_str(&out), rows[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8),	       cmocka_unit_test(test_labels),
		cmocka_unit_test(test_label_limit),    cmocka_unit_test(test_percent_encode),
		cmocka_unit_test(test_percent_decode), cmocka_unit_test(test_percent_round_trip),
		cmocka_unit_test(test_escape),	       cmocka_unit_test(test_shell_quote),
		cmocka_unit_test(test_quote),	       cmocka_unit_test(test_u64),
		cmocka_unit_test(test_quote_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
