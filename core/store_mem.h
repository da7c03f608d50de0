/*
 * A store in memory for tests: same contract as store.h, plus faults. Call N is the Nth call of the vtable (any of open, read, stat,
 * list, scan, create, write, copy, extend, put, cut, sync, link, rename, unlink, remove, mkdir, sync_dir), counted from 1. Times are ticks of a counter, one for
 * every change, so that nothing depends on the clock; a tick is a second.
 */
#ifndef PF_STORE_MEM_H
#define PF_STORE_MEM_H

#include "store.h"

/* A path under which nothing is, for pf_store_resolve. Every other one leads elsewhere, but the store's own. */
#define PF_STORE_MEM_GONE "/gone"

int pf_store_mem_new(struct pf_store **out);

/* Put or replace a file's bytes directly, outside the counted calls; parents are made. */
int pf_store_mem_put(struct pf_store *st, const char *name, const void *data, size_t len);
int pf_store_mem_del(struct pf_store *st, const char *name);

enum pf_fault {
	PF_FAULT_NONE,
	PF_FAULT_BEFORE, /* the call fails and did nothing */
	PF_FAULT_AFTER,	 /* the call took effect, and still reports the error */
};

/*
 * Make call number `nth` from now (1 = the next) fail with err, a negative errno; 0 clears. `forever`: that call and all after it (the
 * disk is gone: the later ones have no effect).
 */
void pf_store_mem_fault(struct pf_store *st, unsigned nth, enum pf_fault kind, int err, bool forever);

/* Give a file or directory this time of change, as somebody who copies or restores it would. */
int pf_store_mem_set_mtime(struct pf_store *st, const char *name, int64_t mtime_ns);

/* Set the clock of file times, forward or, below 0, back. */
void pf_store_mem_set_clock(struct pf_store *st, int64_t by_ns);

/* Calls made so far. */
unsigned pf_store_mem_calls(const struct pf_store *st);

/*
 * A hook run before each call, on the caller's thread and without a lock, to script what others do to the table in between. op is
 * "link", "stat" ...; name is the file's or directory's, and the new name for link and rename. What the hook itself asks of the
 * store is not counted, never fails by a fault and runs no hook.
 */
typedef void (*pf_store_mem_hook)(void *arg, struct pf_store *st, const char *op, const char *name);
void pf_store_mem_set_hook(struct pf_store *st, pf_store_mem_hook hook, void *arg);

#endif
