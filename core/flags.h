/*
 * Feature flags of a manifest: which bits we know in which word, and what their names are (lance-table 14.0.2: feature_flags;
 * measured: a bit refused in the writer word only still reads).
 */
#ifndef PF_FLAGS_H
#define PF_FLAGS_H

#include <stdbool.h>

#include "buf.h"
#include "error.h"

/* Bit 19 of the writer word: FLAG_ONGOING_WORK_PINS. Set once, never cleared, never a reader flag. */
extern const uint64_t PF_FLAG_PINS;

/* The name of a bit, "unknown" if it has none. */
const char *pf_flag_name(unsigned bit);

/* Append the names of the bits of `word` that are set, as `19 ongoing-work-pins, 3 table-config`. */
int pf_flags_describe(uint64_t word, struct pf_buf *out);

/*
 * May this table be read? 0, or
 *   -EOPNOTSUPP  a reader bit we do not know, all of them named by number and name
 *   -EBADMSG     a paired bit (8, 10, 14, 16) on one side alone
 */
int pf_flags_readable(uint64_t reader, uint64_t writer, struct pf_why *why);

/*
 * May a commit that touches no fragment carry these flags on? 0, or -EOPNOTSUPP: "read-only: writer feature bits ... ", named.
 * Assumes pf_flags_readable.
 */
int pf_flags_writable(uint64_t writer, struct pf_why *why);

#endif
