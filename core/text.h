/*
 * The text forms that people and programs exchange with pinfs: times, ids, labels, percent-encoding, UTF-8.
 * The accepted sets are exact; whatever is outside them is -EINVAL with a sentence (design: section 2).
 */
#ifndef PF_TEXT_H
#define PF_TEXT_H

#include <stdbool.h>

#include "buf.h"
#include "error.h"

/* A moment, UTC. sec counts from 1970-01-01T00:00:00Z and may be negative; nsec is 0..999999999. */
struct pf_time {
	int64_t sec;
	int32_t nsec;
};

#define PF_TIME_MIN_SEC (-62135596800LL) /* 0001-01-01T00:00:00Z */
#define PF_TIME_MAX_SEC 253402300799LL	 /* 9999-12-31T23:59:59Z */
#define PF_TIME_TEXT	32		 /* room for the longest form and its NUL */

/* Negative, 0 or positive, as memcmp. Full precision. */
int pf_time_cmp(struct pf_time a, struct pf_time b);

/* Within years 0001 to 9999 and a sane nsec: what a stored Timestamp must satisfy. */
bool pf_time_valid(struct pf_time t);

/* The clock, CLOCK_REALTIME. This and the next are the only places in core that read clocks. */
struct pf_time pf_time_now(void);

/* Of nanoseconds since 1970. */
struct pf_time pf_time_of_ns(int64_t ns);

/* Nanoseconds of a clock that only goes forward (CLOCK_MONOTONIC), to measure how long something took. */
int64_t pf_time_steady_ns(void);

/*
 * Parse all `len` bytes of s: RFC 3339 with `Z` or an offset (any case, 1 to 9 fraction digits), `@SECONDS`, or `+N` with
 * unit s, m, h or d, counted from `now`. No blanks, no newline: the caller strips what its own rule allows.
 *   -EINVAL  anything else; bare integers, leap seconds and years outside 0001-9999 are named as such. Invisible bytes are
 *            made visible in the sentence.
 */
int pf_time_parse(const char *s, size_t len, struct pf_time now, struct pf_time *out, struct pf_why *why);

/*
 * RFC 3339 with `Z`; the fraction only if it is not zero, without trailing zeros. Parses back to the same value.
 * A value that is not pf_time_valid is written `@SECONDS`, for reports about damage.
 */
void pf_time_format(struct pf_time t, char out[PF_TIME_TEXT]);

struct pf_uuid {
	uint8_t b[16];
};

#define PF_UUID_TEXT 37 /* 36 characters and a NUL */

/*
 * Exactly 36 hyphenated characters, any case in. Nil and all-ones are refused: -EINVAL.
 * Braces, urn:, missing hyphens, blanks: -EINVAL.
 */
int pf_uuid_parse(const char *s, size_t len, struct pf_uuid *out, struct pf_why *why);
void pf_uuid_format(const struct pf_uuid *u, char out[PF_UUID_TEXT]); /* lower case */
bool pf_uuid_eq(const struct pf_uuid *a, const struct pf_uuid *b);
void pf_uuid_new(struct pf_uuid *out); /* random, version 4 */
/* The same bytes, the same id: version 5, in a name space of ours. */
void pf_uuid_of(const void *bytes, size_t len, struct pf_uuid *out);

/* Not nil and not all ones: what a stored id must satisfy. */
bool pf_uuid_valid(const struct pf_uuid *u);

/* Strict UTF-8: no overlong forms, surrogates or values past U+10FFFF. NUL counts as a valid character here. */
bool pf_utf8_valid(const char *s, size_t len);

#define PF_LABEL_MAX 255

/* Valid UTF-8, at most PF_LABEL_MAX bytes (-ENAMETOOLONG beyond), no control characters (C0, DEL, C1). Empty is allowed: no label. */
int pf_label_check(const char *s, size_t len, struct pf_why *why);

/* Append s percent-encoded. Kept as they are: letters, digits and `-._~:+@`; all else becomes %XX, upper case. */
int pf_percent_encode(const char *s, size_t len, struct pf_buf *out);

/* Append s decoded. -EINVAL: `%` without two hex digits, or %00. */
int pf_percent_decode(const char *s, size_t len, struct pf_buf *out, struct pf_why *why);

/*
 * Append s so that a terminal and a reader survive it: control characters, backslash, invalid UTF-8 and characters that do
 * not show (BOM, no-break space, marks of direction) as \xNN or \n, \r, \t, \\.
 */
int pf_text_escape(const char *s, size_t len, struct pf_buf *out);

/*
 * Append s as one word of a shell's command line: bare if no shell sees anything in it, else between single quotes. What would not survive
 * a terminal is written as $'\n' or $'\xNN', which bash, zsh and ksh read.
 */
int pf_shell_quote(const char *s, struct pf_buf *out);

#define PF_QUOTE_TEXT 128

/* For a sentence: s escaped as above between double quotes, cut with `...` if it is long. Returns out. */
const char *pf_text_quote(const char *s, size_t len, char out[PF_QUOTE_TEXT]);

/* Decimal u64, all of s, digits only, no leading zero but "0" itself. -EINVAL otherwise. */
int pf_u64_parse(const char *s, size_t len, uint64_t *out);

/*
 * Append JSON text with its whole numbers above 2^63 - 1 between quotes: jansson takes none, and Lance writes some, as ids of deletion files and as
 * detached versions. 0 or -ENOMEM.
 */
int pf_text_quote_large(const char *s, size_t len, struct pf_buf *out);

#endif
