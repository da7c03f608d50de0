#include "settle.h"

#include "backoff.h"

#define TRIES 5

int pf_settle(struct pf_branch *b, uint64_t version, uint64_t read_version, const char *uuid, struct pf_manifest **out)
{
	for (unsigned i = 0; i < TRIES; i++) {
		pf_back_off(PF_BACKOFF_FREE + i);
		int r = pf_publish_settle(b, version, read_version, uuid, out, NULL);
		if (r != -EINPROGRESS)
			return r > 0 ? 0 : -ESTALE;
	}
	return -EINPROGRESS;
}
