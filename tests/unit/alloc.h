/* Memory that runs out on command, and is counted. Needs the linker's --wrap (tests/meson.build); libraries are not concerned. */
#ifndef TESTS_ALLOC_H
#define TESTS_ALLOC_H

#include <stddef.h>

/* Fail the nth allocation from now (1 = the next), once; 0: none. Counts from zero again. */
void alloc_fail(unsigned nth);

/* No failure from now on; returns what was to fail, for a later alloc_fail: a test makes something of its own in between. */
unsigned alloc_pause(void);

/* Since alloc_fail: allocations made or failed, and the bytes they asked for, given back or not. */
unsigned alloc_calls(void);
size_t alloc_bytes(void);

#endif
