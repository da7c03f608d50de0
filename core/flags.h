/*
 * Feature flags of a manifest: which bits we know in which word, and what their names are (lance-table 14.0.2: feature_flags;
 * measured: a bit refused in the writer word only still reads).
 */
#ifndef PF_FLAGS_H
#define PF_FLAGS_H

#include <stdbool.h>

#include "buf.h"
#include "error.h"
#include "manifest.h"

/* Bit 19 of the writer word: FLAG_ONGOING_WORK_PINS. Set once, never cleared, never a reader flag. */
extern const uint64_t PF_FLAG_PINS;

/* Those that a commit which builds a manifest computes anew, or carries (lance-14 section 2). */
#define PF_FLAG_DELETION_FILES	(UINT64_C(1) << 0)
#define PF_FLAG_STABLE_ROW_IDS	(UINT64_C(1) << 1)
#define PF_FLAG_TABLE_CONFIG	(UINT64_C(1) << 3)
#define PF_FLAG_BASE_PATHS	(UINT64_C(1) << 4)
#define PF_FLAG_COVERED_INDEX	(UINT64_C(1) << 7)
#define PF_FLAG_MIXED_VERSIONS	(UINT64_C(1) << 8)
#define PF_FLAG_TAGGED_FRI	(UINT64_C(1) << 10)
#define PF_FLAG_HIDDEN_LINEAGE	(UINT64_C(1) << 11)
#define PF_FLAG_MANAGED_BLOBS	(UINT64_C(1) << 14)
#define PF_FLAG_FIXED_FIELD_IDS (UINT64_C(1) << 15)
/* Stand in both words or in none; and what stays once it is set. */
#define PF_FLAGS_PAIRED (PF_FLAG_MIXED_VERSIONS | PF_FLAG_TAGGED_FRI | PF_FLAG_MANAGED_BLOBS)
#define PF_FLAGS_STICKY (PF_FLAGS_PAIRED | PF_FLAG_FIXED_FIELD_IDS)

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

/* May a commit build a successor of `m`, fragments and all? 0, or -EOPNOTSUPP: it needs features that pinfs does not maintain, named. */
int pf_flags_committable(const struct pf_manifest *m, struct pf_why *why);

#endif
