/*
 * What is kept, and why: one pure function of (versions and their references, pins, tags, branches and their references, policy, now)
 * (design: section 3). No I/O, no clock. The mount's retention/, pinctl's answers and cleanup all ask here.
 *
 * All windows end at the head, so they nest: a pin holds a version if its source is not above it, and a file if some version from
 * its source on refers to it.
 */
#ifndef PF_RETENTION_H
#define PF_RETENTION_H

#include "survey.h"

/* What another branch, whichever version of it, needs of this one: lines.h. */
struct pf_branch_needs {
	char *name; /* NULL: main */
	uint64_t
		root_version; /* it hangs from this version, which is then kept whole (lance-14-cleanup D5); 0: it needs no version */
	size_t *files; /* index into survey->files, ascending */
	size_t n_files;
	char *unknown; /* what it needs cannot be told: why; NULL if it can */
};

/* Which versions a policy would let go, were it not for anything else: those that meet every condition that is set. The head always stays. */
struct pf_policy {
	bool any; /* at least one condition is set; else it lets nothing go */
	bool has_older_than;
	int64_t older_than_ns;	  /* goes only if its timestamp < now - older_than */
	uint64_t before_version;  /* goes only if below; 0: no condition */
	uint64_t retain;	  /* the n newest stay; 0: no condition */
	const uint64_t *versions; /* goes only if listed, ascending; NULL: no condition */
	size_t n_versions;
};

enum pf_reason { PF_KEPT_HEAD = 1, PF_KEPT_PIN = 2, PF_KEPT_TAG = 4, PF_KEPT_BRANCH = 8, PF_KEPT_POLICY = 16 };

/* Everything is borrowed, and must not change while the result is used. Zero is the default of all but survey. */
struct pf_retention_input {
	const struct pf_survey *survey;
	const struct pf_branch_needs *branches;
	size_t n_branches;
	const struct pf_policy *
		policy; /* NULL: nothing but pins, tags, branches and the head keeps a version (`retention/` is whatever the
					   cleanup policy) */
	struct pf_time now;
	/* What if these pins and tags were gone? */
	const struct pf_uuid *released;
	size_t n_released;
	const char *const *untagged;
	size_t n_untagged;
};

struct pf_retention;

/* 0 or -ENOMEM. A guard tag counts as no tag. */
int pf_retention_new(const struct pf_retention_input *in, struct pf_retention **out);
void pf_retention_free(struct pf_retention *r);
void pf_retention_freep(struct pf_retention **r);

/* Bits of enum pf_reason; 0: not kept. By index into survey->versions and ->files. */
unsigned pf_retention_version(const struct pf_retention *r, size_t version);
unsigned pf_retention_file(const struct pf_retention *r, size_t file);

/* One reason: `pin` of PF_KEPT_PIN, `name` of PF_KEPT_TAG and PF_KEPT_BRANCH, which has "main" for main. */
struct pf_named_reason {
	enum pf_reason kind;
	const struct pf_pin *pin;
	const char *name;
};
typedef int (*pf_reason_fn)(void *arg, const struct pf_named_reason *reason);

/* Tell fn of each: pins by their source, the head, tags, branches, the policy. A non-zero return stops and is returned. */
int pf_retention_version_each(const struct pf_retention *r, size_t version, pf_reason_fn fn, void *arg);
int pf_retention_file_each(const struct pf_retention *r, size_t file, pf_reason_fn fn, void *arg);

/* Append it in one word, names escaped: "pin:ID", "head", "tag:NAME", "branch:NAME", "policy". */
int pf_reason_text(const struct pf_named_reason *reason, struct pf_buf *out);

/* All reasons, joined by commas: "pin:ID", "head", "tag:NAME", "branch:NAME", "policy". Appends nothing if it is not kept. 0 or -ENOMEM. */
int pf_retention_version_reasons(const struct pf_retention *r, size_t version, struct pf_buf *out);
int pf_retention_file_reasons(const struct pf_retention *r, size_t file, struct pf_buf *out);

/*
 * Files are those of the branch's own directory that a version or another branch refers to: manifests and transactions included, a directory as many
 * as are in it, each once. Kept and free together are all of them.
 */
struct pf_retention_totals {
	uint64_t versions_kept, versions_free;
	uint64_t files_kept, files_free, bytes_kept, bytes_free;
	uint64_t files_elsewhere, bytes_elsewhere; /* kept too, but on bases or in another branch's directory */
	bool has_window;
	uint64_t oldest_source; /* of a pin */
};
void pf_retention_totals(const struct pf_retention *r, struct pf_retention_totals *out);

/* What one pin costs, in the branch's own directory. The two figures are never summed: what is shared is counted with each that shares it. */
struct pf_pin_usage {
	const struct pf_pin *pin;
	uint64_t exclusive_bytes, shared_bytes; /* held by this pin alone; held by it and by something else too */
	uint64_t
		old_bytes; /* of both together, what the head does not refer to any more: this is what grows while the pin holds */
	uint64_t versions; /* in its window */
};

/* One for each pin, in the order of survey->pins, released ones left out; room for survey->pins.n. How many in *n. 0 or -ENOMEM. */
int pf_retention_usage(const struct pf_retention *r, struct pf_pin_usage *out, size_t *n);

/*
 * What speaks against destructive work: a source that is not what its pin says, a version missing in a window, gaps, files that are not there or too
 * short; and files of the head that are elsewhere and missing, whoever has pins.
 */
struct pf_problem {
	uint64_t version;		  /* 0: not of one version */
	const char *file;		  /* in the store, or the URI of a base and the path there */
	const char *text;		  /* a sentence, without the pins */
	const struct pf_pin *const *pins; /* concerned, oldest source first */
	size_t n_pins;
};

/*
 * Tell fn of each, by version. Files count as far as the survey measured them. A non-zero return stops and is returned. -ENOMEM.
 */
int pf_retention_problems(const struct pf_retention *r, int (*fn)(void *arg, const struct pf_problem *p), void *arg);

/* Append "; it is needed by pins ID "label" (expires T), ...": so many of them, the others counted; nothing if it concerns none. */
int pf_problem_pins(const struct pf_problem *p, size_t at_most, struct pf_buf *out);

/* May destructive work trust this? 0, or -EBUSY with the first problem and the pins it concerns. */
int pf_retention_verify(const struct pf_retention *r, struct pf_why *why);

#endif
