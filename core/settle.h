/* An outcome that pf_publish could not tell, asked of storage a few times: of pin commits, prepared work and the gateway. */
#ifndef PF_SETTLE_H
#define PF_SETTLE_H

#include "publish.h"

/*
 * Did the transaction land at `version`? Arguments of pf_publish_settle. Pauses between looks, up to some milliseconds each.
 *   0             it did: *out is the manifest
 *   -ESTALE       it did not
 *   -EINPROGRESS  still unknown
 */
int pf_settle(struct pf_branch *b, uint64_t version, uint64_t read_version, const char *uuid, struct pf_manifest **out);

#endif
