/*
 * A table that lived, drawn by the dice: fragments are appended, deleted from and compacted, rows keep a name wherever they go, and somewhere on the way a pin
 * was made. For tests of what is needed of its history.
 */
#ifndef TESTS_AGED_H
#define TESTS_AGED_H

#include "core/fri.h"

#define IDS_MAX	   256
#define ROWS_MAX   9
#define GROUPS_MAX 2
#define LIST_MAX   4

/* Rows have names, which they keep wherever they go. */
struct fragment {
	bool alive;
	unsigned n;
	int row[ROWS_MAX * LIST_MAX];
	bool deleted[ROWS_MAX * LIST_MAX];
};

struct move {
	unsigned n_from, n_to, from[LIST_MAX], to[LIST_MAX];
	unsigned rows[LIST_MAX]; /* physical, of each source */
};

struct record {
	bool legacy;
	uint64_t stamp, published;
	struct move groups[GROUPS_MAX];
	unsigned n;
	struct pf_buf text;
};

struct snapshot {
	uint64_t version;
	struct fragment fragments[IDS_MAX];
};

/* One at a time. */
extern struct aged {
	struct fragment now[IDS_MAX];
	unsigned next_id;
	int next_row;
	uint64_t version;
	struct record records[16];
	unsigned n_records;
	struct snapshot pin;
	bool pinned;
	bool reborn; /* since the pin, ids were given a second time */
} aged;

/* Which histories it may have had: of version 0, stamped as now or as releases before 14 did; tagged; one and then the other. */
enum form { V0, V0_OLD_STAMPS, TAGGED, MIXED, FORMS };

/* Another one. reuse: perhaps overwritten on the way, with ids that begin at 0 again. */
void aged_new(enum form form, bool reuse);
void aged_release(void);

/* Legacy records keep their order; transitions may stand in any. */
void aged_shuffle(void);

/* Its history, with when each legacy record was published. */
void aged_decode(int32_t version, struct pf_fri *out);

/* Whether a record moves a fragment, or makes it. */
bool aged_moves(const struct record *r, unsigned id, bool makes);

#endif
