/* Tables to clean, and cleanups of them, for test_cleanup.c and test_cleanup_keeps.c. */
#ifndef PF_TEST_CLEANING_H
#define PF_TEST_CLEANING_H

#include "core/cleanup.h"

#include "world.h"

#define DEV_ID	 "0123456789abcdef0123456789abcdef"
#define OTHER_ID "fedcba9876543210fedcba9876543210"
#define INDEX	 "_indices/0badcafe-0000-4000-a000-000000000001/page"

/* Everything in memory was changed in the first minutes of 1970: at this time it is all too young for the guard, and later old. */
#define YOUNG 3600
#define OLD   NOW

void cleaning_put_file(struct pf_store *st, const char *name);

/* A version of a branch (NULL: main) with these data files, a letter each, and base paths in `more`. */
void cleaning_put_version(struct pf_store *st, const char *branch, uint64_t version, const char *letters, bool index,
			  const struct pf_buf *more);

/* Main 1 to 5: a; a, b and an index; b and c; c; c and d. Nothing is anybody's but what they name. */
struct pf_store *cleaning_new_table(void);

struct cleaning {
	struct pf_store *st;
	const char *branch;
	struct pf_cleanup_options o;
	struct pf_cleanup_how how;
	struct pf_lines l;
	struct pf_cleanup *c;
	struct pf_why why;
};

void cleaning_init(struct cleaning *x, struct pf_store *st, uint64_t retain, int64_t now);

void cleaning_end(struct cleaning *x);

int cleaning_plan(struct cleaning *x, pf_clean_file_fn see, void *arg);

void cleaning_must_plan(struct cleaning *x);

int cleaning_run(struct cleaning *x);

void cleaning_must_run(struct cleaning *x);

/* One with a fresh mind. */
void cleaning_run_anew(struct pf_store *st, uint64_t retain, int64_t now);

/* What the plan takes, a path each, in its order; names of manifests as the version, of transactions left out. */
void cleaning_assert_goes(struct cleaning *x, const char *want);

/* All files, sorted. */
void cleaning_list(struct pf_store *st, struct pf_buf *out);

/* Every version that is listed, of every branch, has all its files. */
void cleaning_assert_whole(struct pf_store *st);

int cleaning_count_files(struct pf_store *st);

void cleaning_put_tag(struct pf_store *st, const char *name, const char *branch, int version);

void cleaning_put_branch(struct pf_store *st, const char *name, uint64_t root, const char *id, const char *from);

/* As a run leaves it that was killed, or is still going on. */
void cleaning_hide(struct pf_store *st, uint64_t version);

#endif
