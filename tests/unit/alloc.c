#include "alloc.h"

#include <stdlib.h>
#include <string.h>

static unsigned calls, failing;
static size_t bytes;

void alloc_fail(unsigned nth)
{
	calls = 0;
	bytes = 0;
	failing = nth;
}

unsigned alloc_pause(void)
{
	unsigned nth = failing > calls ? failing - calls : 0;

	failing = 0;
	return nth;
}

unsigned alloc_calls(void)
{
	return calls;
}

size_t alloc_bytes(void)
{
	return bytes;
}

static int fails(size_t n)
{
	bytes += n;
	return ++calls == failing;
}

#define WRAP(ret, name, params, args, size)                                                                            \
	ret __real_##name params;                                                                                      \
	ret __wrap_##name params;                                                                                      \
	ret __wrap_##name params                                                                                       \
	{                                                                                                              \
		return fails(size) ? NULL : __real_##name args;                                                        \
	}

WRAP(void *, malloc, (size_t n), (n), n)
WRAP(void *, calloc, (size_t n, size_t m), (n, m), n *m)
WRAP(void *, realloc, (void *p, size_t n), (p, n), n)
WRAP(void *, reallocarray, (void *p, size_t n, size_t m), (p, n, m), n *m)
WRAP(char *, strdup, (const char *s), (s), strlen(s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n), n)
