#include "buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pf_buf_release(struct pf_buf *b)
{
	free(b->data);
	*b = (struct pf_buf)PF_BUF_INIT;
}

void pf_buf_reset(struct pf_buf *b)
{
	b->len = 0;
}

int pf_buf_reserve(struct pf_buf *b, size_t more)
{
	if (more <= b->cap - b->len)
		return 0;
	if (more > SIZE_MAX / 2 - b->len)
		return -ENOMEM;

	size_t cap = b->cap < 64 ? 64 : b->cap;
	while (cap < b->len + more)
		cap *= 2;
	uint8_t *p = realloc(b->data, cap);
	if (!p)
		return -ENOMEM;
	b->data = p;
	b->cap = cap;
	return 0;
}

int pf_buf_add(struct pf_buf *b, const void *p, size_t n)
{
	if (n == 0)
		return 0;
	int r = pf_buf_reserve(b, n);
	if (r < 0)
		return r;
	memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

int pf_buf_addch(struct pf_buf *b, char c)
{
	return pf_buf_add(b, &c, 1);
}

int pf_buf_addstr(struct pf_buf *b, const char *s)
{
	return pf_buf_add(b, s, strlen(s));
}

/* Room for most texts, so that they need not be made twice. */
#define ADDF_ROOM 128

int pf_buf_addf(struct pf_buf *b, const char *fmt, ...)
{
	size_t want = ADDF_ROOM;
	va_list ap;

	for (;;) {
		int r = pf_buf_reserve(b, want);
		if (r < 0)
			return r;
		va_start(ap, fmt);
		int n = vsnprintf((char *)b->data + b->len, want, fmt, ap);
		va_end(ap);
		if (n < 0)
			return -ENOMEM;
		if ((size_t)n < want) {
			b->len += (size_t)n;
			return 0;
		}
		want = (size_t)n + 1;
	}
}

const char *pf_buf_str(struct pf_buf *b)
{
	if (pf_buf_reserve(b, 1) < 0)
		return NULL;
	b->data[b->len] = '\0';
	return (const char *)b->data;
}
