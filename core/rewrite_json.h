/* Lance's JSON of what a compaction did, RewriteResult: CompactionTask.execute().json() (lance-14-fri section 2). */
#ifndef PF_REWRITE_JSON_H
#define PF_REWRITE_JSON_H

#include "moves.h"

/*
 * Append a Rewrite transaction of the results in `text`, one object or an array of them: a group each, prepared on the smallest version that one of them was
 * planned at, as Lance does. New fragments have no ids yet, whatever it says. Its uuid follows from the results, so that to commit them again is safe.
 * *moved: the rows that each group moved.
 *   -EINVAL  not JSON, or not results; the sentence names the member
 */
int pf_rewrite_from_json(const char *text, size_t len, struct pf_buf *out, struct pf_moved *moved, struct pf_why *why);

#endif
