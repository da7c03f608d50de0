#include "text.h"

#include <stdio.h>
#include <string.h>

/* Decode the character at p, n > 0 bytes there. Returns its length, or 0 if the bytes are not strict UTF-8. */
static size_t utf8_char(const uint8_t *p, size_t n, uint32_t *out)
{
	uint32_t c = p[0], min;
	size_t len;

	if (c < 0x80) {
		*out = c;
		return 1;
	}
	if (c >= 0xc0 && c < 0xe0) {
		len = 2, min = 0x80, c &= 0x1f;
	} else if (c >= 0xe0 && c < 0xf0) {
		len = 3, min = 0x800, c &= 0x0f;
	} else if (c >= 0xf0 && c < 0xf8) {
		len = 4, min = 0x10000, c &= 0x07;
	} else {
		return 0;
	}
	if (n < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < min || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*out = c;
	return len;
}

static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Blanks other than U+0020, and characters without width: joiners, marks of direction, line separators, BOM. */
static bool is_invisible(uint32_t c)
{
	return c == 0xa0 || c == 0xad || c == 0x061c || c == 0x180e || (c >= 0x2000 && c <= 0x200f) ||
	       (c >= 0x2028 && c <= 0x202f) || (c >= 0x205f && c <= 0x206f) || c == 0x3000 || c == 0xfeff;
}

bool pf_utf8_valid(const char *s, size_t len)
{
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t c;
		n = utf8_char((const uint8_t *)s + i, len - i, &c);
		if (n == 0)
			return false;
	}
	return true;
}

int pf_label_check(const char *s, size_t len, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	if (len > PF_LABEL_MAX)
		return pf_why_set(why, -ENAMETOOLONG, "the label %s has %zu bytes; at most %d are allowed",
				  pf_text_quote(s, len, quoted), len, PF_LABEL_MAX);
	for (size_t i = 0, n; i < len; i += n) {
		uint32_t c;
		n = utf8_char((const uint8_t *)s + i, len - i, &c);
		if (n == 0)
			return pf_why_set(why, -EINVAL, "the label %s is not valid UTF-8 at byte %zu",
					  pf_text_quote(s, len, quoted), i + 1);
		if (is_control(c))
			return pf_why_set(why, -EINVAL, "the label %s has a control character at byte %zu",
					  pf_text_quote(s, len, quoted), i + 1);
	}
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool is_kept(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("-._~:+@", c));
}

int pf_percent_encode(const char *s, size_t len, struct pf_buf *out)
{
	size_t before = out->len;

	for (size_t i = 0; i < len; i++) {
		int r = is_kept(s[i]) ? pf_buf_addch(out, s[i]) : pf_buf_addf(out, "%%%02X", (uint8_t)s[i]);
		if (r < 0) {
			out->len = before;
			return r;
		}
	}
	return 0;
}

int pf_percent_decode(const char *s, size_t len, struct pf_buf *out, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	int r = pf_buf_reserve(out, len);
	if (r < 0)
		return r;

	/* Room for all of it is there, so what is appended below counts only once len is moved at the end. */
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		char c = s[i];
		if (c == '%') {
			int hi = len - i > 2 ? hex_digit(s[i + 1]) : -1;
			int lo = len - i > 2 ? hex_digit(s[i + 2]) : -1;
			if (hi < 0 || lo < 0)
				return pf_why_set(why, -EINVAL,
						  "%s has a %% without two hex digits at byte %zu; a plain %% is %%25",
						  pf_text_quote(s, len, quoted), i + 1);
			if (hi == 0 && lo == 0)
				return pf_why_set(why, -EINVAL, "%s has a NUL, %%00, at byte %zu",
						  pf_text_quote(s, len, quoted), i + 1);
			c = (char)(hi << 4 | lo);
			i += 2;
		}
		out->data[out->len + n++] = (uint8_t)c;
	}
	out->len += n;
	return 0;
}

#define ESCAPED_MAX (4 * 4 + 1) /* four bytes as \xNN, and a NUL */

/* Escape the first character of s, or its first byte if that is no UTF-8. Returns how many bytes of s that took. */
static size_t escape_one(const char *s, size_t len, char out[ESCAPED_MAX])
{
	uint32_t c;
	size_t n = utf8_char((const uint8_t *)s, len, &c);

	if (n && !is_control(c) && !is_invisible(c) && c != '\\') {
		memcpy(out, s, n);
		out[n] = '\0';
		return n;
	}

	const char *named = *s ? strchr("\nn\rr\tt\\\\", *s) : NULL;
	if (named) {
		snprintf(out, ESCAPED_MAX, "\\%c", named[1]);
		return 1;
	}
	if (n == 0)
		n = 1;
	for (size_t i = 0; i < n; i++)
		snprintf(out + 4 * i, 5, "\\x%02x", (uint8_t)s[i]);
	return n;
}

/* How many at its start stand for themselves: most texts have nothing else. */
static size_t plain_bytes(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && s[n] >= ' ' && s[n] <= '~' && s[n] != '\\')
		n++;
	return n;
}

int pf_text_escape(const char *s, size_t len, struct pf_buf *out)
{
	size_t before = out->len;

	for (size_t i = 0; i < len;) {
		char one[ESCAPED_MAX];
		size_t n = plain_bytes(s + i, len - i);
		int r = pf_buf_add(out, s + i, n);
		i += n;
		if (r == 0 && i < len) {
			i += escape_one(s + i, len - i, one);
			r = pf_buf_addstr(out, one);
		}
		if (r < 0) {
			out->len = before;
			return r;
		}
	}
	return 0;
}

int pf_shell_quote(const char *s, struct pf_buf *out)
{
	const char *bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@+,";
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	size_t before = out->len;

	if (s[0] && s[strspn(s, bare)] == '\0')
		return pf_buf_addstr(out, s);
	int r = pf_text_escape(s, strlen(s), &escaped);
	const char *e = r < 0 ? NULL : pf_buf_str(&escaped);
	if (!e)
		return -ENOMEM;
	bool plain = strcmp(s, e) == 0;
	r = pf_buf_addstr(out, plain ? "'" : "$'");
	for (; r == 0 && *e; e++)
		r = *e != '\'' ? pf_buf_addch(out, *e) : pf_buf_addstr(out, plain ? "'\\''" : "\\'");
	if (r == 0)
		r = pf_buf_addch(out, '\'');
	if (r < 0)
		out->len = before;
	return r;
}

const char *pf_text_quote(const char *s, size_t len, char out[PF_QUOTE_TEXT])
{
	static const char cut[] = "...\"";
	size_t n = 0, i = 0;

	out[n++] = '"';
	while (i < len) {
		char one[ESCAPED_MAX];
		i += escape_one(s + i, len - i, one);
		if (n + strlen(one) + sizeof(cut) > PF_QUOTE_TEXT) {
			memcpy(out + n, cut, sizeof(cut));
			return out;
		}
		memcpy(out + n, one, strlen(one));
		n += strlen(one);
	}
	out[n++] = '"';
	out[n] = '\0';
	return out;
}

int pf_u64_parse(const char *s, size_t len, uint64_t *out)
{
	uint64_t v = 0;

	if (len == 0 || (len > 1 && s[0] == '0'))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
			return -EINVAL;
	}
	*out = v;
	return 0;
}

int pf_text_quote_large(const char *s, size_t len, struct pf_buf *out)
{
	bool in_string = false;
	int r = 0;

	for (size_t i = 0, n; r == 0 && i < len; i += n) {
		n = 1;
		if (in_string && s[i] == '\\' && i + 1 < len)
			n = 2;
		else if (s[i] == '"')
			in_string = !in_string;
		while (!in_string && i + n < len && s[i] >= '0' && s[i] <= '9' && s[i + n] >= '0' && s[i + n] <= '9')
			n++;
		bool whole = i + n == len || !strchr(".eE", s[i + n]);
		bool large = n > 19 || (n == 19 && memcmp(s + i, "9223372036854775807", 19) > 0);
		/* Neither what follows a sign, nor the digits of a fraction or of an exponent. */
		bool begins = i == 0 || !strchr("-+.eE", s[i - 1]);
		if (large && whole && !in_string && begins)
			r = pf_buf_addf(out, "\"%.*s\"", (int)n, s + i);
		else
			r = pf_buf_add(out, s + i, n);
	}
	return r;
}
