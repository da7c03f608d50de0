#include "error.h"

#include <stdarg.h>
#include <stdio.h>

/* Take off the start of a character that a cut has left without its end. */
static void drop_half_char(char *text, size_t len)
{
	size_t i = len;

	while (i > 0 && len - i < 3 && (text[i - 1] & 0xc0) == 0x80)
		i--;
	if (i == 0)
		return;
	uint8_t lead = (uint8_t)text[i - 1];
	size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
	if (len - (i - 1) < need)
		text[i - 1] = '\0';
}

static void set(struct pf_why *why, const char *fmt, va_list ap)
{
	int n = vsnprintf(why->text, sizeof(why->text), fmt, ap);

	if (n >= PF_WHY_MAX)
		drop_half_char(why->text, PF_WHY_MAX - 1);
}

int pf_why_set(struct pf_why *why, int err, const char *fmt, ...)
{
	if (why) {
		va_list ap;
		va_start(ap, fmt);
		set(why, fmt, ap);
		va_end(ap);
	}
	return err;
}

int pf_why_default(struct pf_why *why, int err, const char *fmt, ...)
{
	if (why && !why->text[0]) {
		va_list ap;
		va_start(ap, fmt);
		set(why, fmt, ap);
		va_end(ap);
	}
	return err;
}

int pf_why_prefix(struct pf_why *why, int err, const char *fmt, ...)
{
	if (why) {
		struct pf_why was = *why;
		va_list ap;
		va_start(ap, fmt);
		set(why, fmt, ap);
		va_end(ap);
		if (was.text[0]) {
			struct pf_why place = *why;
			pf_why_set(why, err, "%s: %s", place.text, was.text);
		}
	}
	return err;
}

/* One row a code whose meaning outside differs from "itself, exit 1". */
static const struct {
	int code, mount, exit;
} table[] = {
	{ EINVAL, EINVAL, 2 },	{ ENAMETOOLONG, ENAMETOOLONG, 2 }, { EBUSY, EBUSY, 4 },	    { ESTALE, EAGAIN, 1 },
	{ EAGAIN, EAGAIN, 75 }, { EINPROGRESS, EINPROGRESS, 76 },  { EBADMSG, EUCLEAN, 3 },
};

int pf_error_errno(int err)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].code == -err)
			return table[i].mount;
	return -err;
}

int pf_error_exit(int err)
{
	if (err >= 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].code == -err)
			return table[i].exit;
	return 1;
}
