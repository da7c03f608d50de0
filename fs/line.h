/*
 * One line of versions, main or a named branch, as this mount works on it: the head as it is now, and changes. However many directories show a
 * line, there is one of these, so that their operations share commits.
 */
#ifndef FS_LINE_H
#define FS_LINE_H

#include "core/commit.h"
#include "follow.h"
#include "meter.h"
#include "options.h"
#include "view.h"

/* What the last account came to (kept.h). */
struct fs_account {
	uint64_t version; /* its head; 0: none was taken yet */
	uint64_t bytes_kept, bytes_free;
};

struct fs_line {
	char *name; /* NULL: main */
	struct pf_store *store;
	const struct fs_options *opt;
	pthread_mutex_t lock;
	pthread_mutex_t publishing; /* of a gateway: one commit of clients at a time */
	struct pf_branch *core;	    /* opened when first needed, then kept */
	struct pf_committer *committer;
	struct fs_view *view; /* of the newest head seen */
	struct fs_meter meter;
	struct fs_account account;
	struct fs_follow follow; /* has a lock of its own */
	bool tags_told;		 /* of a gateway with -o tags: that there are too many, in the log */
};

/* Does not ask storage whether it exists. Borrows all but the name. 0 or -ENOMEM. */
int fs_line_new(struct pf_store *store, const struct fs_options *opt, const char *name, struct fs_line **out);
void fs_line_free(struct fs_line *l);

/* What to call it: "main" or its name. */
const char *fs_line_name(const struct fs_line *l);

/* Whether anybody has looked at it with success. Never undone. */
bool fs_line_is_open(struct fs_line *l);

/* The head as storage has it now (pf_branch_head). The view belongs to the caller. */
int fs_line_view(struct fs_line *l, struct fs_view **out, struct pf_why *why);

/* All attached versions and the file of one, as storage has them now: pf_branch_versions, pf_branch_stat. */
int fs_line_versions(struct fs_line *l, struct pf_version_entry **v, size_t *n, struct pf_why *why);
int fs_line_stat(struct fs_line *l, uint64_t version, struct pf_stat *out, struct pf_why *why);

/* How many records the fragment reuse index of a head of it has; 0 if there is no such index. */
int fs_line_records(struct fs_line *l, struct fs_view *head, size_t *n, struct pf_why *why);

/* Run a pin operation to its end; as pf_commit. */
int fs_line_commit(struct fs_line *l, const struct pf_op *op, struct pf_answer *answer);

/* Make a branch from its head; *version: which that was. As pf_branch_create. */
int fs_line_make_branch(struct fs_line *l, const char *name, uint64_t *version, struct pf_why *why);

/* A commit of a client of the gateway was published on it. */
void fs_line_count_published(struct fs_line *l);

/* What its operations came to so far, and the last account. */
struct fs_meter fs_line_meter(struct fs_line *l);
struct fs_account fs_line_account(struct fs_line *l);
void fs_line_set_account(struct fs_line *l, const struct fs_account *a);

#endif
