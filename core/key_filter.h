/*
 * Which keys an Update inserted, as a merge_insert says it on a table with a primary key (KeyExistenceFilter; lance-format 2.6): a set of hashes, or a
 * Bloom filter, by which two of them are known to have no key in common.
 */
#ifndef PF_KEY_FILTER_H
#define PF_KEY_FILTER_H

#include "message.h"

/*
 * May two filters have a key in common? 1 or 0, by Lance 14's rules: those on other columns, of another kind or of other measures may.
 *   -EBADMSG  one is damaged
 */
int pf_key_filters_meet(struct pf_span a, struct pf_span b, struct pf_why *why);

#endif
