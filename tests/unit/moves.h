/*
 * Fragment reuse histories for tests, written from a line of text, by the format pages and the wire writers alone. Everything here asserts.
 *
 *   L5 0:10 1:10:2 > 6:18 | 2:4 > 7:4    a legacy Version stamped 5, of two groups
 *   T 6:18 > 8:9 9:9                     a Transition, ordered compaction
 *   P 6:18 > 8:9 9:9                     a Transition, stable partition; its map id is moves_map_id(its place)
 *   P7 6:18 > 8:9 9:9                    its map is on base 7
 *   T 6:18 > 8:6 @ 6:0-3 6:8-9           the rows that are moved, in ascending order
 *
 * Records are separated by `;`. A fragment is id:rows or id:rows:deleted. Unless `@` says other ones, the rows moved are all but the first `deleted` of each
 * source.
 */
#ifndef TESTS_MOVES_H
#define TESTS_MOVES_H

#include "core/buf.h"
#include "core/fri.h"
#include "core/text.h"

/* Append the InlineContent message. */
void moves_content(const char *text, struct pf_buf *out);

/* The same, decoded. */
void moves_decode(const char *text, int32_t version, struct pf_fri *out);

/* A decoded history is this, a line a record: "stamp 5 [v0 0:10:0 1:10:2 > 6:18:0] [v0 ...]" or " [ordered ...]", fragments as id:rows:deleted. */
void moves_assert_history(const struct pf_fri *f, const char *expected);

/* The map id of the record at this place of its text, from 0. Returns out. */
const char *moves_map_id(unsigned place, char out[PF_UUID_TEXT]);

/* The parts, for histories that are wrong in ways the text cannot say. */
void moves_digest(struct pf_buf *out, uint32_t number, uint64_t id, uint64_t rows, uint64_t deleted);

struct moves_range {
	uint32_t fragment, first, last;
};

/* Append a treemap of ranges, ascending, below offset 65536 each. */
void moves_treemap(const struct moves_range *v, size_t n, struct pf_buf *out);

/* What an index entry holds of the history; external: a file of `size` bytes from `offset`. */
void moves_details_inline(const struct pf_buf *content, struct pf_buf *out);
void moves_details_external(const char *path, uint64_t offset, uint64_t size, struct pf_buf *out);

/* An entry of the index section. Zero is the default of every member but name. */
struct moves_index {
	const char *name;
	uint64_t uuid;		      /* the last 12 digits of it */
	const char *type;	      /* "/lance.table.BTreeIndexDetails"; NULL: no details */
	const struct pf_buf *details; /* the value of the Any */
	const struct pf_buf *bitmap;
	uint64_t dataset_version;
	int32_t index_version;
	bool has_base;
	uint32_t base_id;
};

#define MOVES_FRI_TYPE "/lance.table.FragmentReuseIndexDetails"

/* Append the entry to the message of an index section. */
void moves_index(const struct moves_index *x, struct pf_buf *section);
const char *moves_uuid(uint64_t n, char out[PF_UUID_TEXT]);

#endif
