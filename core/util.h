/* Small things every file of core uses: scope-bound cleanup and ownership transfer. */
#ifndef PF_UTIL_H
#define PF_UTIL_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Run fn(&var) when var leaves its scope. */
#define _cleanup_(fn)  __attribute__((cleanup(fn)))
#define _printf_(f, a) __attribute__((format(printf, f, a)))
#define ARRAY_LEN(a)   (sizeof(a) / sizeof((a)[0]))

/* Take the pointer out of a local, so that its cleanup finds NULL. */
#define STEAL(p)                                                                                                       \
	({                                                                                                             \
		__typeof__(p) _p = (p);                                                                                \
		(p) = NULL;                                                                                            \
		_p;                                                                                                    \
	})

/* For `_cleanup_(pf_freep) char *s`. */
static inline void pf_freep(void *p)
{
	free(*(void **)p);
}

/* Progress of a long walk: how many are done, and of how many in all; 0: nobody knows. A non-zero return interrupts it: -EINTR. */
typedef int (*pf_progress_fn)(void *arg, uint64_t done, uint64_t total);

#endif
