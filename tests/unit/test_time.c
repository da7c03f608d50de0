/* Times: the exact accepted set of design section 2, and the text that is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/text.h"

/* 2031-01-01T00:00:00.25Z, a clock with a fraction, which `+N` keeps. */
static const struct pf_time now = { 1924992000, 250000000 };

/* Accepted: the moment in seconds (from `date -u -d TEXT +%s`) and nanoseconds, and the text given back. */
static void test_accepted(void **state)
{
	static const struct {
		const char *name, *s;
		int64_t sec;
		int32_t nsec;
		const char *back;
	} rows[] = {
		{ "D01 fraction and offset", "2031-06-01T12:00:00.1+01:00", 1938078000, 100000000,
		  "2031-06-01T11:00:00.1Z" },
		{ "D01 offset", "2031-06-01T12:00:00+01:00", 1938078000, 0, "2031-06-01T11:00:00Z" },
		{ "D02 leap day", "2032-02-29T00:00:00Z", 1961625600, 0, "2032-02-29T00:00:00Z" },
		{ "D02 leap day of 2000", "2000-02-29T00:00:00Z", 951782400, 0, "2000-02-29T00:00:00Z" },
		{ "D05 lower case", "2031-01-01t00:00:00z", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "D05 1 digit", "2031-01-01T00:00:00.5Z", 1924992000, 500000000, "2031-01-01T00:00:00.5Z" },
		{ "D05 3 digits", "2031-01-01T00:00:00.050Z", 1924992000, 50000000, "2031-01-01T00:00:00.05Z" },
		{ "D05 9 digits", "2031-01-01T00:00:00.000000001Z", 1924992000, 1, "2031-01-01T00:00:00.000000001Z" },
		{ "D05 9 nines", "2031-01-01T00:00:00.999999999z", 1924992000, 999999999,
		  "2031-01-01T00:00:00.999999999Z" },
		{ "D05 zero fraction", "2031-01-01T00:00:00.000Z", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "D07 last second of int64 ns", "2262-04-11T23:47:16Z", 9223372036, 0, "2262-04-11T23:47:16Z" },
		{ "D07 the next one", "2262-04-11T23:47:17Z", 9223372037, 0, "2262-04-11T23:47:17Z" },
		{ "D07 2500", "2500-01-01T00:00:00Z", 16725225600, 0, "2500-01-01T00:00:00Z" },
		{ "D07 last second", "9999-12-31T23:59:59Z", 253402300799, 0, "9999-12-31T23:59:59Z" },
		{ "D07 last of all", "9999-12-31T23:59:59.999999999Z", 253402300799, 999999999,
		  "9999-12-31T23:59:59.999999999Z" },
		{ "first of all", "0001-01-01T00:00:00Z", -62135596800, 0, "0001-01-01T00:00:00Z" },
		{ "offset back into year 1", "0001-01-01T00:00:00-00:01", -62135596740, 0, "0001-01-01T00:01:00Z" },
		{ "before 1970, with fraction", "1969-12-31T23:59:59.75Z", -1, 750000000, "1969-12-31T23:59:59.75Z" },
		{ "D09 seconds, said so", "@1924992000", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "@0", "@0", 0, 0, "1970-01-01T00:00:00Z" },
		{ "@ last second", "@253402300799", 253402300799, 0, "9999-12-31T23:59:59Z" },
		{ "D11 .095Z", "2031-10-19T00:51:15.095Z", 1950137475, 95000000, "2031-10-19T00:51:15.095Z" },
		{ "D11 .456-05:00", "2031-10-19T00:51:15.456-05:00", 1950155475, 456000000,
		  "2031-10-19T05:51:15.456Z" },
		{ "-00:00", "2031-01-01T00:00:00-00:00", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "widest offset east", "2031-01-01T23:59:00+23:59", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "widest offset west", "2030-12-31T00:01:00-23:59", 1924992000, 0, "2031-01-01T00:00:00Z" },
		{ "last second of a day", "2030-12-31T23:59:59Z", 1924991999, 0, "2030-12-31T23:59:59Z" },
		{ "+ seconds", "+90s", 1924992090, 250000000, "2031-01-01T00:01:30.25Z" },
		{ "+ minutes", "+5m", 1924992300, 250000000, "2031-01-01T00:05:00.25Z" },
		{ "+ hours", "+2h", 1924999200, 250000000, "2031-01-01T02:00:00.25Z" },
		{ "+ days", "+30d", 1927584000, 250000000, "2031-01-31T00:00:00.25Z" },
		{ "+0", "+0s", 1924992000, 250000000, "2031-01-01T00:00:00.25Z" },
		{ "+ up to the last second", "+251477308799s", 253402300799, 250000000, "9999-12-31T23:59:59.25Z" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_time t, again;
		struct pf_why why = PF_WHY_INIT;
		char back[PF_TIME_TEXT];

		if (pf_time_parse(rows[i].s, strlen(rows[i].s), now, &t, &why) != 0)
			fail_msg("%s: %s", rows[i].name, why.text);
		if (t.sec != rows[i].sec || t.nsec != rows[i].nsec)
			fail_msg("%s: %lld.%09d", rows[i].name, (long long)t.sec, (int)t.nsec);
		assert_string_equal(why.text, "");
		pf_time_format(t, back);
		assert_string_equal(back, rows[i].back);
		assert_int_equal(pf_time_parse(back, strlen(back), now, &again, NULL), 0);
		assert_int_equal(pf_time_cmp(t, again), 0);
	}
}

#define ROW(name, text, says)                                                                                          \
	{                                                                                                              \
		name, text, sizeof(text) - 1, says                                                                     \
	}

/* Refused: a part of the sentence, which must name what is wrong. The value itself must be in it, too. */
static void test_refused(void **state)
{
	static const struct {
		const char *name, *s;
		size_t len;
		const char *says;
	} rows[] = {
		ROW("D01 offset out of range", "2031-06-01T12:00:00.1+99:99", "-23:59 to +23:59"),
		ROW("D01 offset of letters", "2031-06-01T12:00:00.1+ab:cd", "hh:mm in the offset"),
		ROW("offset hour 24", "2031-06-01T12:00:00+24:00", "-23:59 to +23:59"),
		ROW("offset minute 60", "2031-06-01T12:00:00+01:60", "-23:59 to +23:59"),
		ROW("offset without colon", "2031-06-01T12:00:00+0100", "hh:mm in the offset"),
		ROW("offset of hours alone", "2031-06-01T12:00:00+01", "hh:mm in the offset"),
		ROW("offset after Z", "2031-06-01T12:00:00Z+01:00", "nothing after"),
		ROW("named zone", "2031-06-01T12:00:00 UTC", "expected Z"),
		ROW("offset with seconds", "2031-06-01T12:00:00+01:00:00", "nothing after"),
		ROW("no zone", "2031-06-01T12:00:00", "expected Z"),
		ROW("D02 empty fraction", "2031-02-14T00:28:07.Z", "1 to 9 digits"),
		ROW("D02 empty fraction at the end", "2031-02-14T00:28:07.", "1 to 9 digits"),
		ROW("D02 second 60 at noon", "2031-06-15T12:30:60Z", "leap second"),
		ROW("D02 second 60 at midnight", "2030-12-31T23:59:60Z", "leap second"),
		ROW("D02 second 61", "2030-12-31T23:59:61Z", "seconds run"),
		ROW("D02 hour 24", "2030-12-31T24:00:00Z", "hours run"),
		ROW("D02 minute 60", "2030-12-31T23:60:00Z", "minutes run"),
		ROW("D02 no leap day in 2031", "2031-02-29T00:00:00Z", "no such day"),
		ROW("D02 no leap day in 2100", "2100-02-29T00:00:00Z", "no such day"),
		ROW("D02 April 31", "2031-04-31T00:00:00Z", "no such day"),
		ROW("D02 month 00", "2031-00-10T00:00:00Z", "months run"),
		ROW("D02 month 13", "2031-13-10T00:00:00Z", "months run"),
		ROW("D02 day 00", "2031-01-00T00:00:00Z", "no such day"),
		ROW("D02 day 32", "2031-01-32T00:00:00Z", "no such day"),
		ROW("D05 comma", "2031-01-01T00:00:00,5Z", "expected Z"),
		ROW("D05 blank for T", "2031-01-01 00:00:00Z", "expected T"),
		ROW("D05 _ for T", "2031-01-01_00:00:00Z", "expected T"),
		ROW("D05 10 digits", "2031-01-01T00:00:00.0000000000Z", "at most 9 digits"),
		ROW("D05 40 digits", "2031-01-01T00:00:00.1234567890123456789012345678901234567890Z",
		    "at most 9 digits"),
		ROW("D05 spaces", "   ", "expected 2031"),
		ROW("D05 newline", "\n", "\"\\n\""),
		ROW("D07 five-digit year", "10000-01-01T00:00:00Z", "four digits"),
		ROW("three-digit year", "999-01-01T00:00:00Z", "four digits"),
		ROW("signed year", "+2031-01-01T00:00:00Z", "the unit s, m, h or d"),
		ROW("negative year", "-2031-01-01T00:00:00Z", "expected 2031"),
		ROW("year 0000", "0000-12-31T23:59:59Z", "0001 to 9999"),
		ROW("year 0000, by its offset in 0001", "0000-12-31T23:59:59-00:01", "years run from 0001"),
		ROW("offset out of year 1", "0001-01-01T00:00:00+00:01", "outside the years 0001 to 9999"),
		ROW("offset out of year 9999", "9999-12-31T23:59:59-00:01", "outside the years 0001 to 9999"),
		ROW("D09 bare seconds", "1924992000", "write @SECONDS or +2h"),
		ROW("D09 bare milliseconds", "1924992000000", "write @SECONDS or +2h"),
		ROW("D09 bare microseconds", "1924992000000000", "write @SECONDS or +2h"),
		ROW("D09 a year in milliseconds", "31536000000", "write @SECONDS or +2h"),
		ROW("D09 0", "0", "write @SECONDS or +2h"),
		ROW("D09 bare, above 2^64", "99999999999999999999999", "write @SECONDS or +2h"),
		ROW("D09 -1", "-1", "@SECONDS"),
		ROW("D09 1e10", "1e10", "four digits"),
		ROW("D09 hex", "0x7fffffff", "four digits"),
		ROW("D09 + without unit", "+1924992000", "the unit s, m, h or d"),
		ROW("D09 blanks around", " 1924992000 ", "\" 1924992000 \""),
		ROW("@ and nothing", "@", "seconds since 1970"),
		ROW("@ negative", "@-1", "only digits"),
		ROW("@ signed", "@+1", "only digits"),
		ROW("@ fraction", "@1924992000.5", "only digits"),
		ROW("@ blank", "@ 1924992000", "only digits"),
		ROW("@ newline", "@1924992000\n", "@1924992000\\n"),
		ROW("@ milliseconds", "@1924992000000", "past the year 9999"),
		ROW("@ one second too late", "@253402300800", "past the year 9999"),
		ROW("@ 2^64", "@18446744073709551616", "past the year 9999"),
		ROW("+ and nothing", "+", "like +2h"),
		ROW("+ unit alone", "+h", "like +2h"),
		ROW("+ weeks", "+1w", "like +2h"),
		ROW("+ upper case", "+1H", "like +2h"),
		ROW("+ two units", "+1h30m", "like +2h"),
		ROW("+ fraction", "+1.5h", "like +2h"),
		ROW("+ negative", "+-1h", "like +2h"),
		ROW("+ blank before the unit", "+1 h", "like +2h"),
		ROW("+ more after the unit", "+1hr", "like +2h"),
		ROW("+ one second too late", "+251477308800s", "past the year 9999"),
		ROW("+ days too many", "+2910617d", "past the year 9999"),
		ROW("+ days whose seconds wrap to a day", "+213503982334602d", "past the year 9999"),
		ROW("+ 2^64", "+18446744073709551616s", "past the year 9999"),
		ROW("minus", "-2h", "@SECONDS"),
		/* D15: the bytes that do not show */
		ROW("D15 CR LF", "2031-06-01T12:00:00Z\r\n", "00Z\\r\\n"),
		ROW("D15 CR", "2031-06-01T12:00:00Z\r", "00Z\\r"),
		ROW("D15 LF, for the caller to strip", "2031-06-01T12:00:00Z\n", "00Z\\n"),
		ROW("D15 three LF", "2031-06-01T12:00:00Z\n\n\n", "00Z\\n\\n\\n"),
		ROW("D15 LF before", "\n2031-06-01T12:00:00Z", "\"\\n2031"),
		ROW("D15 BOM",
		    "\xef\xbb\xbf"
		    "2031-06-01T12:00:00Z",
		    "\"\\xef\\xbb\\xbf2031"),
		ROW("D15 NUL and more", "2031-06-01T12:00:00Z\0junk", "00Z\\x00junk"),
		ROW("D15 NUL at the end", "+2h\0", "+2h\\x00"),
		ROW("D15 NUL alone", "\0", "\\x00"),
		ROW("D15 blanks", "  2031-06-01T12:00:00Z  ", "\"  2031-06-01T12:00:00Z  \""),
		ROW("D15 UTF-16LE",
		    "\xff\xfe+\0"
		    "2\0h\0",
		    "\\xff\\xfe+\\x00"),
		ROW("D15 UTF-16LE without BOM",
		    "+\0"
		    "2\0h\0",
		    "+\\x002"),
		ROW("D15 no-break space", "+2h\xc2\xa0", "+2h\\xc2\\xa0"),
		ROW("fullwidth digit",
		    "\xef\xbc\x92"
		    "031-06-01T12:00:00Z",
		    "expected 2031"),
		ROW("now", "now", "expected 2031"),
		ROW("date alone", "2031-06-01", "expected T"),
		ROW("month of one digit", "2031-6-01T12:00:00Z", "two digits"),
		ROW("no seconds", "2031-06-01T12:00Z", "hh:mm:ss"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_time t = { 7, 7 };
		struct pf_why why = PF_WHY_INIT;
		char quoted[PF_QUOTE_TEXT];

		if (pf_time_parse(rows[i].s, rows[i].len, now, &t, &why) != -EINVAL)
			fail_msg("%s: not refused", rows[i].name);
		if (t.sec != 7 || t.nsec != 7)
			fail_msg("%s: out was touched", rows[i].name);
		if (!strstr(why.text, rows[i].says) || !strstr(why.text, pf_text_quote(rows[i].s, rows[i].len, quoted)))
			fail_msg("%s: %s", rows[i].name, why.text);
		assert_null(strpbrk(why.text, "\r\n"));
		assert_int_equal(pf_time_parse(rows[i].s, rows[i].len, now, &t, NULL), -EINVAL);
	}
}

/* D05: an empty value is neither "no expiry" nor "now". */
static void test_empty_is_refused(void **state)
{
	struct pf_time t = { 7, 7 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_time_parse("", 0, now, &t, &why), -EINVAL);
	assert_int_equal(t.sec, 7);
	assert_non_null(strstr(why.text, "write 2031-06-01T12:00:00Z, @SECONDS or +2h"));
}

/* No prefix of a time is a time, up to the last digit. */
static void test_every_truncation(void **state)
{
	static const char full[] = "2031-06-01T12:00:00.123+01:00";

	for (size_t len = 0; len < sizeof(full) - 1; len++) {
		struct pf_time t;
		char *cut = malloc(len ? len : 1); /* to its last byte, so that a read past it is seen */
		memcpy(cut, full, len);
		assert_int_equal(pf_time_parse(cut, len, now, &t, NULL), -EINVAL);
		free(cut);
	}
}

static void test_relative_needs_a_sane_clock(void **state)
{
	struct pf_time t, late = { PF_TIME_MAX_SEC + 1, 0 }, early = { PF_TIME_MIN_SEC, 0 };

	assert_int_equal(pf_time_parse("+0s", 3, late, &t, NULL), -EINVAL);
	assert_int_equal(pf_time_parse("+1d", 3, early, &t, NULL), 0);
	assert_true(t.sec == PF_TIME_MIN_SEC + 86400);
}

/* The calendar of the C library is the other opinion, asked for days all over the years 1 to 9999. */
static void test_calendar(void **state)
{
	for (int64_t sec = PF_TIME_MIN_SEC; sec <= PF_TIME_MAX_SEC; sec += 19 * 86400 + 12345) {
		char want[64], got[PF_TIME_TEXT];
		struct pf_time back;
		struct tm tm;
		time_t clock = sec;

		assert_non_null(gmtime_r(&clock, &tm));
		snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1,
			 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
		pf_time_format((struct pf_time){ sec, 0 }, got);
		assert_string_equal(got, want);
		assert_int_equal(pf_time_parse(want, strlen(want), now, &back, NULL), 0);
		assert_true(back.sec == sec);
	}
}

/* The zone of the process means nothing here. */
static void test_zone_is_ignored(void **state)
{
	struct pf_time t;
	char text[PF_TIME_TEXT];

	setenv("TZ", "Asia/Kolkata", 1);
	tzset();
	assert_int_equal(pf_time_parse("2031-01-01T00:00:00Z", 20, now, &t, NULL), 0);
	assert_true(t.sec == 1924992000);
	pf_time_format(t, text);
	assert_string_equal(text, "2031-01-01T00:00:00Z");
	unsetenv("TZ");
	tzset();
}

static void test_cmp(void **state)
{
	/* Ascending; D11: .4 and .5 of one second differ. */
	static const struct pf_time rows[] = {
		{ PF_TIME_MIN_SEC, 0 }, { -1, 0 },	  { -1, 999999999 }, { 0, 0 },
		{ 0, 400000000 },	{ 0, 500000000 }, { 1, 0 },	     { PF_TIME_MAX_SEC, 999999999 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t j = 0; j < ARRAY_LEN(rows); j++) {
			int c = pf_time_cmp(rows[i], rows[j]);
			assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
		}
}

static void test_valid(void **state)
{
	static const struct {
		struct pf_time t;
		bool valid;
	} rows[] = {
		{ { 0, 0 }, true },
		{ { PF_TIME_MIN_SEC, 0 }, true },
		{ { PF_TIME_MAX_SEC, 999999999 }, true },
		{ { PF_TIME_MIN_SEC - 1, 999999999 }, false },
		{ { PF_TIME_MAX_SEC + 1, 0 }, false },
		{ { 0, -1 }, false },
		{ { 0, 1000000000 }, false },
		{ { INT64_MIN, INT32_MIN }, false },
		{ { INT64_MAX, INT32_MAX }, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[PF_TIME_TEXT];
		assert_int_equal(pf_time_valid(rows[i].t), rows[i].valid);
		pf_time_format(rows[i].t, text); /* a report about damage prints any value */
		assert_int_equal(text[0] == '@', !rows[i].valid);
	}
}

static void test_now_is_the_clock(void **state)
{
	struct timespec before, after;

	/* Not time(2), which lags this clock: by a tick, and by more where ticks are late. */
	clock_gettime(CLOCK_REALTIME, &before);
	struct pf_time t = pf_time_now();
	clock_gettime(CLOCK_REALTIME, &after);
	assert_true(pf_time_valid(t));
	assert_true(pf_time_cmp((struct pf_time){ before.tv_sec, (int32_t)before.tv_nsec }, t) <= 0);
	assert_true(pf_time_cmp(t, (struct pf_time){ after.tv_sec, (int32_t)after.tv_nsec }) <= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_empty_is_refused),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_relative_needs_a_sane_clock),
		cmocka_unit_test(test_calendar),
		cmocka_unit_test(test_zone_is_ignored),
		cmocka_unit_test(test_cmp),
		cmocka_unit_test(test_valid),
		cmocka_unit_test(test_now_is_the_clock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
