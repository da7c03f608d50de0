/* A growable run of bytes, owned by whoever holds the struct. */
#ifndef PF_BUF_H
#define PF_BUF_H

#include "util.h"

struct pf_buf {
	uint8_t *data; /* NULL while empty and never grown */
	size_t len, cap;
};

#define PF_BUF_INIT                                                                                                    \
	{                                                                                                              \
		NULL, 0, 0                                                                                             \
	}

void pf_buf_release(struct pf_buf *b); /* frees, and makes it empty again */
void pf_buf_reset(struct pf_buf *b);   /* empty, memory kept */

/* All of these return 0 or -ENOMEM and leave the buffer as it was on failure. */
int pf_buf_reserve(struct pf_buf *b, size_t more);
int pf_buf_add(struct pf_buf *b, const void *p, size_t n);
int pf_buf_addch(struct pf_buf *b, char c);
int pf_buf_addstr(struct pf_buf *b, const char *s);
int pf_buf_addf(struct pf_buf *b, const char *fmt, ...) _printf_(2, 3);

/* The bytes as a C string: adds a NUL that is not counted in len. NULL on -ENOMEM. Valid until the next change. */
const char *pf_buf_str(struct pf_buf *b);

#endif
