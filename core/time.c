#include "text.h"

#include <stdio.h>
#include <time.h>

#define DAY	     86400
#define NSEC	     1000000000
#define DAYS_TO_1970 719468 /* from 0000-03-01, where the counted year begins: the leap day comes last */

int pf_time_cmp(struct pf_time a, struct pf_time b)
{
	if (a.sec != b.sec)
		return a.sec < b.sec ? -1 : 1;
	return (a.nsec > b.nsec) - (a.nsec < b.nsec);
}

bool pf_time_valid(struct pf_time t)
{
	return t.sec >= PF_TIME_MIN_SEC && t.sec <= PF_TIME_MAX_SEC && t.nsec >= 0 && t.nsec < NSEC;
}

struct pf_time pf_time_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (struct pf_time){ .sec = ts.tv_sec, .nsec = (int32_t)ts.tv_nsec };
}

struct pf_time pf_time_of_ns(int64_t ns)
{
	struct pf_time t = { ns / 1000000000, (int32_t)(ns % 1000000000) };

	if (t.nsec < 0) {
		t.sec--;
		t.nsec += 1000000000;
	}
	return t;
}

int64_t pf_time_steady_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * NSEC + ts.tv_nsec;
}

/*
 * The calendar is counted here, not by timegm and gmtime: those follow TZ into zones with leap seconds. Years begin
 * in March; 153 days are five months of it, wherever one starts.
 */
static int64_t days_from_date(int64_t year, int month, int day)
{
	int64_t y = month > 2 ? year : year - 1;
	int m = month > 2 ? month - 3 : month + 9;

	return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - DAYS_TO_1970;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
	int64_t z = days + DAYS_TO_1970;
	int cycle = (int)(z / 146097), d = (int)(z % 146097); /* days of 400 years */
	int y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
	int in_year = d - (365 * y + y / 4 - y / 100);
	int m = (5 * in_year + 2) / 153;

	*day = in_year - (153 * m + 2) / 5 + 1;
	*month = m < 10 ? m + 3 : m - 9;
	*year = 400 * cycle + y + (*month <= 2);
}

static int month_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

struct scan {
	const char *p, *end;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool take(struct scan *s, char c)
{
	if (s->p == s->end || *s->p != c)
		return false;
	s->p++;
	return true;
}

/* Exactly n digits. */
static bool take_digits(struct scan *s, int n, int *out)
{
	int v = 0;

	if (s->end - s->p < n)
		return false;
	for (int i = 0; i < n; i++) {
		if (!is_digit(s->p[i]))
			return false;
		v = 10 * v + (s->p[i] - '0');
	}
	s->p += n;
	*out = v;
	return true;
}

/* One digit or more, below 2^64. */
static bool take_number(struct scan *s, uint64_t *out)
{
	const char *from = s->p;
	uint64_t v = 0;

	for (; s->p < s->end && is_digit(*s->p); s->p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*s->p - '0'), &v))
			return false;
	*out = v;
	return s->p > from;
}

/* Each of the parsers below returns NULL, or what is wrong, to be read after "is not a time: ". */

static const char *const past_9999 = "it lies past the year 9999";

static const char *parse_epoch(struct scan s, struct pf_time *out)
{
	uint64_t sec;

	for (const char *p = s.p; p < s.end; p++)
		if (!is_digit(*p))
			return "expected only digits after @: whole seconds since 1970";
	if (s.p == s.end)
		return "expected seconds since 1970 after @";
	if (!take_number(&s, &sec) || sec > PF_TIME_MAX_SEC)
		return "it lies past the year 9999 (@ takes seconds, not milliseconds)";
	*out = (struct pf_time){ .sec = (int64_t)sec };
	return NULL;
}

static const char *parse_relative(struct scan s, struct pf_time now, struct pf_time *out)
{
	const char *wrong = "expected + and a number with the unit s, m, h or d, like +2h";
	int64_t unit;
	uint64_t n;

	if (s.p == s.end || !is_digit(*s.p))
		return wrong;
	if (!take_number(&s, &n))
		return past_9999;
	if (take(&s, 's'))
		unit = 1;
	else if (take(&s, 'm'))
		unit = 60;
	else if (take(&s, 'h'))
		unit = 3600;
	else if (take(&s, 'd'))
		unit = DAY;
	else
		return wrong;
	if (s.p != s.end)
		return wrong;
	if (!pf_time_valid(now) || n > (uint64_t)((PF_TIME_MAX_SEC - now.sec) / unit))
		return past_9999;
	*out = (struct pf_time){ .sec = now.sec + (int64_t)n * unit, .nsec = now.nsec };
	return NULL;
}

static const char *parse_date(struct scan *s, int64_t *days)
{
	int year, month, day;

	if (s->p == s->end || !is_digit(*s->p))
		return "expected 2031-06-01T12:00:00Z (or an offset), @SECONDS, or +N with unit s, m, h or d";
	if (!take_digits(s, 4, &year) || !take(s, '-'))
		return "expected a year of four digits and -, as in 2031-06-01T12:00:00Z";
	if (year == 0)
		return "years run from 0001 to 9999";
	if (!take_digits(s, 2, &month) || !take(s, '-') || !take_digits(s, 2, &day))
		return "expected two digits each for month and day, with - between";
	if (month < 1 || month > 12)
		return "months run from 01 to 12";
	if (day < 1 || day > month_days(year, month))
		return "that month has no such day";
	*days = days_from_date(year, month, day);
	return NULL;
}

static const char *parse_clock(struct scan *s, int64_t *sec, int32_t *nsec)
{
	int h, m, sc;

	if (!take_digits(s, 2, &h) || !take(s, ':') || !take_digits(s, 2, &m) || !take(s, ':') ||
	    !take_digits(s, 2, &sc))
		return "expected hh:mm:ss after the T";
	if (h > 23)
		return "hours run from 00 to 23";
	if (m > 59)
		return "minutes run from 00 to 59";
	if (sc == 60)
		return "second 60, a leap second, is not accepted; write 59";
	if (sc > 59)
		return "seconds run from 00 to 59";
	*sec = 3600 * h + 60 * m + sc;

	int32_t frac = 0, unit = NSEC;
	if (take(s, '.')) {
		if (s->p == s->end || !is_digit(*s->p))
			return "expected 1 to 9 digits after the point";
		for (; s->p < s->end && is_digit(*s->p); s->p++) {
			unit /= 10;
			if (unit == 0)
				return "a fraction has at most 9 digits";
			frac += unit * (*s->p - '0');
		}
	}
	*nsec = frac;
	return NULL;
}

static const char *parse_offset(struct scan *s, int64_t *sec)
{
	int sign, h, m;

	*sec = 0;
	if (take(s, 'Z') || take(s, 'z'))
		return NULL;
	if (take(s, '+'))
		sign = 1;
	else if (take(s, '-'))
		sign = -1;
	else
		return "expected Z or an offset like +01:00 after the seconds";
	if (!take_digits(s, 2, &h) || !take(s, ':') || !take_digits(s, 2, &m))
		return "expected hh:mm in the offset";
	if (h > 23 || m > 59)
		return "offsets run from -23:59 to +23:59";
	*sec = sign * (3600 * h + 60 * m);
	return NULL;
}

static const char *parse_rfc3339(struct scan s, struct pf_time *out)
{
	int64_t days, clock, offset;
	int32_t nsec;

	const char *wrong = parse_date(&s, &days);
	if (wrong)
		return wrong;
	if (!take(&s, 'T') && !take(&s, 't'))
		return "expected T after the date";
	wrong = parse_clock(&s, &clock, &nsec);
	if (wrong)
		return wrong;
	wrong = parse_offset(&s, &offset);
	if (wrong)
		return wrong;
	if (s.p != s.end)
		return "expected nothing after the Z or the offset";

	struct pf_time t = { .sec = days * DAY + clock - offset, .nsec = nsec };
	if (!pf_time_valid(t))
		return "in UTC it lies outside the years 0001 to 9999";
	*out = t;
	return NULL;
}

static bool is_bare_number(struct scan s)
{
	while (s.p < s.end && is_digit(*s.p))
		s.p++;
	return s.p == s.end;
}

int pf_time_parse(const char *s, size_t len, struct pf_time now, struct pf_time *out, struct pf_why *why)
{
	struct scan in = { s, s + len };
	const char *wrong;
	char quoted[PF_QUOTE_TEXT];

	if (len == 0)
		return pf_why_set(why, -EINVAL,
				  "a time is expected, not nothing: write 2031-06-01T12:00:00Z, @SECONDS or +2h");
	if (take(&in, '@'))
		wrong = parse_epoch(in, out);
	else if (take(&in, '+'))
		wrong = parse_relative(in, now, out);
	else if (is_bare_number(in))
		wrong = "a bare number has no unit; write @SECONDS or +2h";
	else
		wrong = parse_rfc3339(in, out);
	if (!wrong)
		return 0;
	return pf_why_set(why, -EINVAL, "%s is not a time: %s", pf_text_quote(s, len, quoted), wrong);
}

void pf_time_format(struct pf_time t, char out[PF_TIME_TEXT])
{
	int year, month, day;

	if (!pf_time_valid(t)) {
		snprintf(out, PF_TIME_TEXT, "@%lld", (long long)t.sec);
		return;
	}

	/* From the first second of year 1, so that the division rounds down. */
	int64_t since = t.sec - PF_TIME_MIN_SEC;
	int clock = (int)(since % DAY);
	date_from_days(since / DAY + PF_TIME_MIN_SEC / DAY, &year, &month, &day);

	int n = snprintf(out, PF_TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d", year, month, day, clock / 3600,
			 clock / 60 % 60, clock % 60);
	if (t.nsec) {
		n += snprintf(out + n, PF_TIME_TEXT - (size_t)n, ".%09d", (int)t.nsec);
		while (out[n - 1] == '0')
			n--;
	}
	snprintf(out + n, PF_TIME_TEXT - (size_t)n, "Z");
}
