/*
 * `latest_version_hint.json` in _versions/: where a reader may begin to look for the head. Nothing depends on it: Lance, as we, lists the directory where it
 * is wrong or missing.
 */
#ifndef PF_HINT_H
#define PF_HINT_H

#include "store.h"

#define PF_HINT_NAME "latest_version_hint.json"

/* Does the hint in the directory `versions` say `head`? 0 if it does or there is none, else 1 and the sentence; -ENOMEM. */
int pf_hint_check(struct pf_store *st, const char *versions, uint64_t head, struct pf_why *why);

#endif
