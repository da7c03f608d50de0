#include "backoff.h"

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

#define MAX_MS 64

void pf_back_off(unsigned lost)
{
	uint32_t random;

	if (lost <= PF_BACKOFF_FREE)
		return;
	unsigned limit_ms = lost - PF_BACKOFF_FREE < 6 ? 1u << (lost - PF_BACKOFF_FREE) : MAX_MS;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = lost; /* any spread will do */
	nanosleep(&(struct timespec){ .tv_nsec = (long)(random % (limit_ms * 1000)) * 1000 }, NULL);
}
