/*
 * Row id sequences and row version sequences of tables with stable row ids (Lance: rowids.proto): which id the rows of a fragment have, in order,
 * and which version made or changed each of them.
 */
#ifndef PF_ROW_IDS_H
#define PF_ROW_IDS_H

#include "message.h"

/* How many ids a sequence has, without spelling them out. -EBADMSG: damaged. */
int pf_row_ids_count(struct pf_span sequence, uint64_t *out, struct pf_why *why);

/* The lowest and the highest id; *low > *high if there is none. Holes may make the bounds wider than the ids are. */
int pf_row_ids_bounds(struct pf_span sequence, uint64_t *low, uint64_t *high, struct pf_why *why);

/* Append all ids, in the order of the rows. -EBADMSG, also if there are more than `max`. */
int pf_row_ids_read(struct pf_span sequence, uint64_t max, struct pf_numbers *out, struct pf_why *why);

/* Append the sequence of the ids from start to end - 1; or of these n, in the form that Lance chooses for them. */
int pf_row_ids_put_range(uint64_t start, uint64_t end, struct pf_buf *out);
int pf_row_ids_put(const uint64_t *v, size_t n, struct pf_buf *out);

/*
 * Append the sequence with each bitmap as ranges where that is smaller, as Lance 14 does on tables that ask for it: 1, or 0 and nothing if none is.
 */
int pf_row_ids_put_ranges(struct pf_span sequence, struct pf_buf *out, struct pf_why *why);

/* Append a version a row, at most max. */
int pf_row_versions_read(struct pf_span sequence, uint64_t max, struct pf_numbers *out, struct pf_why *why);

/* Append the sequence of these versions, or of one version for all n rows. */
int pf_row_versions_put(const uint64_t *v, size_t n, struct pf_buf *out);
int pf_row_versions_put_one(uint64_t version, uint64_t n, struct pf_buf *out);

#endif
