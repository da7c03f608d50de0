#include "error.h"

#include <stdarg.h>
#include <stdio.h>

static void set(struct pf_why *why, const char *fmt, va_list ap)
{
	vsnprintf(why->text, sizeof(why->text), fmt, ap);
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
