/*
 * Random tables that have lived: fragments that are appended, deleted from and compacted, indices that are built (and attached later), extended, rebuilt and
 * remapped at any time, and pins; with histories of version 0, stamped as Lance 14 does or as releases before it, tagged ones and mixed ones. Rows have names,
 * which they keep wherever they go; sets of fragments and of records are bits. Everything here asserts.
 */
#ifndef TESTS_LIVED_H
#define TESTS_LIVED_H

#include "core/store.h"

#define LIVED_STEPS	   14
#define LIVED_IDS_MAX	   64 /* sets of them are bits */
#define LIVED_ROWS_MAX	   160
#define LIVED_SEGMENTS_MAX 5
#define LIVED_PINS_MAX	   3

enum form { V0, V0_OLD_STAMPS, TAGGED, MIXED, FORMS };

/* Its first rows are the deleted ones. Rows have names, which they keep wherever they go. */
struct fragment {
	bool alive;
	unsigned n, deleted, row[LIVED_ROWS_MAX];
	uint64_t born;
};

struct moving {
	uint64_t from, to;
};

struct record {
	bool legacy;
	uint64_t stamp, published;
	struct moving group[2];
	unsigned n;
	uint64_t from[LIVED_ROWS_MAX], to[LIVED_ROWS_MAX]; /* of each row that it moved, where from and where to */
};

/* One index, or a part of one. */
struct segment {
	char name; /* '\0': none */
	bool has_bitmap, usable;
	uint64_t version; /* the one that it was built on */
	uint64_t covers;  /* as its entry says */
	uint64_t at[LIVED_ROWS_MAX];
	unsigned serial;
};

struct lived {
	enum form form;
	bool tagged; /* its history is of index_version 1 */
	struct pf_store *st;
	struct fragment now[LIVED_IDS_MAX];
	unsigned next, next_row;
	uint64_t version, first; /* the oldest that is left */
	uint64_t alive[LIVED_STEPS + 2];
	struct record records[LIVED_STEPS];
	unsigned n_records;
	struct pf_buf text; /* of the history, moves.h */
	struct segment segments[LIVED_SEGMENTS_MAX], building;
	unsigned serial;
	char pins[LIVED_PINS_MAX + 1];
	unsigned n_pins;
};

/* Version 1 to LIVED_STEPS, of which the oldest may be gone. The form goes round. Drawn by dice.h. */
void lived_new(struct lived *m, unsigned round);
void lived_release(struct lived *m);

uint64_t lived_bit(unsigned i);
uint64_t lived_place(unsigned fragment, unsigned row); /* the address */
uint64_t lived_alive(const struct lived *m);	       /* its fragments */

/* Where the row of an address is by these records. */
uint64_t lived_translate(const struct lived *m, uint64_t addr, uint64_t records);

/* What a bitmap covers by these records: a group whose fragments it has not all is lost to it. */
uint64_t lived_carry(const struct lived *m, uint64_t covers, uint64_t records);

/* The fragments that the bitmap of an entry with these records has; and such a bitmap, appended. */
uint64_t lived_mentions(const struct lived *m, uint64_t records);
void lived_encode(uint64_t set, struct pf_buf *out);

#endif
