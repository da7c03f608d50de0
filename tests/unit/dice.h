/* Random numbers for tests that draw what they test: the same ones on every run. */
#ifndef TESTS_DICE_H
#define TESTS_DICE_H

#include <stdint.h>

void dice_seed(uint64_t seed);

/* Below n. */
uint32_t dice(uint32_t n);

#endif
