/* One commit attempt, from version 5 to version 6, for tests of pf_publish. */
#ifndef TESTS_ATTEMPT_H
#define TESTS_ATTEMPT_H

#include "core/publish.h"

#include "world.h"

/* Of its transaction, and where that is kept. */
#define UUID  "11111111-2222-4333-8444-555555555555"
#define TXN_6 "_transactions/5-" UUID ".txn"

struct attempt {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_manifest *base;
	struct pf_pins pins;
	struct pf_txn txn;
	struct pf_publish p; /* sets bit 19, timestamp NOW and 123 ns */
};

/* On the head of a branch in `st`, which it takes over; or on version 5 of a new table. */
void open_attempt(struct attempt *w, struct pf_store *st, const char *branch);
void new_attempt(struct attempt *w, const struct table_version *like);
void close_attempt(struct attempt *w);

int publish(struct attempt *w, struct pf_manifest **out, struct pf_why *why);

bool exists(struct pf_store *st, const char *name);

/* Version v of main as another writer, with Lance's kind of transaction, would leave it. */
void others_commit(struct pf_store *st, uint64_t v);

/* A script, for pf_store_mem_set_hook with run_script: when call `op` on a name with `name` in it is about to be made for the first time, `act` happens. */
struct script {
	const char *op, *name;
	void (*act)(struct pf_store *st);
	bool done;
};
void run_script(void *arg, struct pf_store *st, const char *op, const char *name);

#define SCRIPT(o, n, a)                                                                                                \
	{                                                                                                              \
		.op = o, .name = n, .act = a                                                                           \
	}

/* Heals the store. No version of ours, no transaction file, nothing staged. */
void assert_nothing_left(struct pf_store *st);

#endif
