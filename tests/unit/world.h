/* A table with a committer on it, what others do to it, and storage that fails: for tests of commits and of what builds on them. */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "core/commit.h"
#include "core/store_mem.h"

#include "table.h"

#define BIT_PINS (UINT64_C(1) << 19)
#define NOW	 1800000000 /* 2027-01-15T08:00:00Z: the clock of a new world */
#define SOURCE_5 "0badcafe-0000-4000-8000-000000000005"
#define V5	 "_versions/18446744073709551610.manifest"
#define V6	 "_versions/18446744073709551609.manifest"
#define V7	 "_versions/18446744073709551608.manifest"

/* The table of most tests: pins enabled. */
extern const struct table_version enabled;

struct world {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_committer *c;
	struct pf_time now;
	const struct table_version *like;
};

/* On a memory store of its own, versions 1 to 5 of main as *like says. */
void new_world(struct world *w, const struct table_version *like);
/* On `st`, which it takes over; branch NULL: main; attempts 0: the default. */
void open_branch(struct world *w, struct pf_store *st, const char *branch, unsigned attempts);
void close_world(struct world *w);

/* Pin n of the tests: aa, then n in two bytes; 1 is aa000100-0000-0000-0000-000000000000. Times count from NOW, in seconds. */
struct pf_uuid id_of(unsigned n);
struct pf_op op_register(unsigned n, int64_t in);
struct pf_op op_named(unsigned n, int64_t in, uint64_t version, const char *txn);
struct pf_op op_on(enum pf_op_kind kind, unsigned n, int64_t in);

/* Run one, and want this code; the answer is the caller's to release. run: when nobody looks closer. */
struct pf_answer want(struct world *w, struct pf_op op, int err);
void run(struct world *w, struct pf_op op, int err);
bool has(const struct pf_answer *a, const char *text);

/* pf_commit_many; its result is checked against the answers. */
void many(struct world *w, const struct pf_op *ops, size_t n, struct pf_answer *a);
void release_answers(struct pf_answer *a, size_t n);

/* What storage says, by eyes of its own. stored: seconds from NOW at which the pin expires, -1 if it is not there. */
struct pf_manifest *head_of(struct world *w);
uint64_t head_version(struct world *w);
int64_t stored(struct world *w, unsigned n);
void txn_of_head(struct world *w, struct pf_txn *txn);

/* Another process: before a call `op` on a name with `name` in it (NULL: the link of version 6) it commits. */
struct others {
	struct world *w;
	const char *op, *name; /* before this call */
	struct pf_op act;
	unsigned times; /* how often still; 0: once */
	bool plain;	/* a commit of Lance's instead: flags and no pins */
	uint64_t next;	/* its version */
};
void interfere(struct world *w, struct others *o);

/* Storage fails: the first `times` calls `op` on a name with `name` in it (0: each); or, forever, all calls from the first such one on. */
struct trap {
	const char *op, *name;
	enum pf_fault kind;
	int err;
	bool forever;
	unsigned times, hits;
};
void set_trap(struct pf_store *st, struct trap *t);
/* No trap, no interference, no fault any more. */
void heal(struct pf_store *st);

#endif
