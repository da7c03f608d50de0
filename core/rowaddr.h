/*
 * Sets of rows as Lance stores them: a 64-bit roaring treemap of row addresses (fragment id << 32 | row offset), and the 32-bit
 * bitmap of fragment ids in an index entry. CRoaring holds the sets; that bytes are a well-formed set is checked here first, because
 * it trusts what it is given (cases-open E09, E10). Lance 14: lance-14-fri section 3.
 */
#ifndef PF_ROWADDR_H
#define PF_ROWADDR_H

#include <stdbool.h>

#include "buf.h"
#include "error.h"

struct pf_bitmap; /* of u32, a roaring bitmap */

/*
 * Decode exactly `len` bytes: portable 32-bit roaring, both cookies. -EBADMSG: short, trailing bytes, keys or values out of order, cardinalities
 * and offsets that do not match what follows, runs that overlap, touch (Lance refuses those too) or pass 65535. The sentence gives the offset.
 */
int pf_bitmap_decode(const void *data, size_t len, struct pf_bitmap **out, struct pf_why *why);
void pf_bitmap_free(struct pf_bitmap *b);
void pf_bitmap_freep(struct pf_bitmap **b);
uint64_t pf_bitmap_count(const struct pf_bitmap *b);
bool pf_bitmap_has(const struct pf_bitmap *b, uint32_t v);
uint32_t pf_bitmap_max(const struct pf_bitmap *b); /* 0 if empty */
/* Values below v. */
uint64_t pf_bitmap_rank(const struct pf_bitmap *b, uint32_t v);
/* Ascending. Stops at the first result of fn that is not 0, and returns it. */
int pf_bitmap_each(const struct pf_bitmap *b, int (*fn)(void *arg, uint32_t v), void *arg);
/* In any order, repeats allowed. Runs of values take little memory and few bytes, as Lance writes them. */
int pf_bitmap_from(const uint32_t *v, size_t n, struct pf_bitmap **out);
/* All values below n, at most 2^32. */
int pf_bitmap_below(uint64_t n, struct pf_bitmap **out);
/* Add the values of another. */
int pf_bitmap_merge(struct pf_bitmap *into, const struct pf_bitmap *from);
/* Take the values of another away. */
int pf_bitmap_remove(struct pf_bitmap *from, const struct pf_bitmap *what);
int pf_bitmap_encode(const struct pf_bitmap *b, struct pf_buf *out);

/* Rows of one fragment as a treemap holds them. */
struct pf_rows_part {
	uint32_t fragment;
	uint64_t off, len; /* of its bitmap, within the treemap */
	uint64_t count;	   /* never 0: Lance may leave empty bitmaps behind, and they say nothing */
	uint32_t max;	   /* row offset */
};

/*
 * Check a treemap whole and call fn for each fragment, ascending, without building a set: what validating costs. A result of fn that is not 0 stops
 * it and is returned. allow_trailing: v0 accepts bytes behind it, tagged does not (lance-14-fri section 3).
 */
int pf_rows_scan(const void *data, size_t len, bool allow_trailing,
		 int (*fn)(void *arg, const struct pf_rows_part *part), void *arg, struct pf_why *why);

/* Rows by fragment, ascending. */
struct pf_rows {
	uint32_t *fragment;
	struct pf_bitmap **offsets;
	size_t n;
};

/* Decode a treemap, checked as above. */
int pf_rows_decode(const void *data, size_t len, bool allow_trailing, struct pf_rows *out, struct pf_why *why);
void pf_rows_release(struct pf_rows *r);
const struct pf_bitmap *pf_rows_of(const struct pf_rows *r, uint32_t fragment); /* NULL if none */
uint64_t pf_rows_count(const struct pf_rows *r);
int pf_rows_encode(const struct pf_rows *r, struct pf_buf *out);

#endif
