#include "dice.h"

/* splitmix64 */
static uint64_t state;

void dice_seed(uint64_t seed)
{
	state = seed;
}

uint32_t dice(uint32_t n)
{
	uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)((z ^ z >> 31) % n);
}
