/* What the files of `pinctl cleanup` share. */
#ifndef CLEANUP_H
#define CLEANUP_H

#include "core/cleanup.h"

#include "progress.h"

/* A line that --explain prints: sorted by path. */
struct explained {
	char *path, *text;
};

/* One call of the command. */
struct cleaning {
	struct ctl *c;
	struct pf_cleanup_options options;
	uint64_t *versions; /* of the policy */
	struct pf_cleanup_how how;
	bool apply, explain;
	struct progress progress;
	json_t *branches; /* --json: what was said of each so far */
	/* Of the branch in hand: */
	json_t *files, *failed, *explained;
	struct explained *lines;
	size_t n_lines;
	struct pf_cleanup_report plan;
	int print_error; /* the first file that could not be told of */
	int64_t began_ns;
};

/* cleanup_policy.c: the policy and the other options. 0 or -EINVAL. */
int cleanup_options(struct cleaning *x, const struct args *a, struct pf_why *why);

/* cleanup_print.c: one file that goes, went, or could not; a pf_clean_file_fn for --explain; and what there is to say in the end. */
int cleanup_print_file(struct cleaning *x, const struct pf_victim *v, int err);
int cleanup_explain_file(void *arg, const struct pf_clean_file *f);
void cleanup_print_lines(struct cleaning *x);
int cleanup_print_end(struct cleaning *x, const char *branch, const struct pf_clean_pins *pins,
		      const struct pf_cleanup_report *report);

#endif
