/*
 * Everything that the versions of one branch refer to, as intervals of versions, kept up to date one commit at a time (design: sections 3 and 7).
 * Built by streaming over the manifests: what is byte-identical to the version before is recognised and not decoded again; memory follows the number of
 * distinct files, not of versions times fragments.
 *
 * The survey is the input of retention.h, which decides what is kept and does no I/O.
 */
#ifndef PF_SURVEY_H
#define PF_SURVEY_H

#include "branch.h"
#include "file_set.h"
#include "place.h"
#include "refs.h"
#include "txn.h"

struct pf_surveyed_version {
	uint64_t version;
	uint64_t manifest_size;
	int64_t timestamp_ns; /* since 1970; no timestamp counts as 0; years outside 1678-2262 are clamped */
	uint64_t writer_flags;
	uint64_t ino;	    /* of its manifest, */
	int64_t mtime_ns;   /* which tell whether it is still the same file */
	uint32_t operation; /* of its transaction, 0 unknown */
	enum pf_op_kind kind;
	char txn[PF_UUID_TEXT]; /* uuid of its transaction, "" if it is not known */
	bool v2;
	bool ambiguous; /* see pf_manifest */
	bool readable;	/* false: it is damaged, and what it refers to is not known: see gaps */
};

/* What keeps an answer from being trusted. */
enum pf_gap_kind {
	PF_GAP_MANIFEST,    /* it cannot be read: nobody knows what it refers to */
	PF_GAP_FLAGS,	    /* it has feature bits we do not know, so it may refer to more than we see */
	PF_GAP_TRANSACTION, /* none, or it cannot be read */
	PF_GAP_FRI,	    /* it cannot be read: row maps that it needs are not known */
	PF_GAP_REF, /* a tag or branch file cannot be read: nobody knows what it keeps. Of no version: first is 0, last PF_STILL */
};
struct pf_gap {
	enum pf_gap_kind kind;
	uint64_t first, last; /* versions concerned; last == PF_STILL: up to the head */
	char *file;	      /* in the store */
	char *text;
	struct pf_stat seen; /* the file as it was then, zero if it was missing: looked at again when that changes */
	bool passing;	     /* storage failed, which says nothing of the file: looked at again each time */
};

struct pf_survey {
	struct pf_surveyed_version *versions; /* ascending */
	size_t n_versions;
	struct pf_surveyed_file *files; /* in no order */
	size_t n_files;
	struct pf_survey_base *bases; /* [0] is the table's root: "" */
	size_t n_bases;
	struct pf_manifest *head; /* counted; NULL before the first refresh is through */
	struct pf_pins pins;	  /* the head's */
	struct pf_tags tags;	  /* of this branch, guard tags among them */
	struct pf_branch_refs refs;
	struct pf_gap *gaps; /* in no order */
	size_t n_gaps;
	uint64_t manifests_read; /* by the last refresh: what "incremental" means */
	struct pf_survey_state *state;
};

/* Borrows b. Reads nothing yet. */
int pf_survey_new(struct pf_branch *b, struct pf_survey **out);
void pf_survey_free(struct pf_survey *s);
void pf_survey_freep(struct pf_survey **s);

/* The name of the branch, NULL on main, and its directory: "" or "tree/x/". */
const char *pf_survey_branch(const struct pf_survey *s);
const char *pf_survey_dir(const struct pf_survey *s);

/* How many of its versions are below v. */
size_t pf_survey_below(const struct pf_survey *s, uint64_t v);

/* Is the version v kept on disk? */
bool pf_survey_has(const struct pf_survey *s, uint64_t v);

/*
 * Bring the survey up to the head as it is now. First call: all kept versions; later ones: only what is new, unless versions were replaced. What a
 * cleanup removes meanwhile is left out. Damage in a version is a gap, not a failure; of the head, whose pins decide, it is -EBADMSG. Other errors are
 * those of reaching the table at all. Progress is told of versions; when it was interrupted, a later call goes on from there. Pointers and indices into the survey are valid until the next call. Not thread-safe: one caller at a time.
 */
int pf_survey_refresh(struct pf_survey *s, pf_progress_fn progress, void *arg, struct pf_why *why);

/*
 * Look at the disk: presence and sizes of everything the survey knows, and sidecar folders, which only the disk knows. `orphan` (it may be NULL) is
 * told of each file in the branch's own folders that no version names, by its name in the store; a non-zero return stops and is returned. Files on bases
 * that are no local directory stay PF_UNSEEN. To be done after each refresh whose sizes are wanted, and after pf_lines_needs. Progress is told of files;
 * when it was interrupted, all of it is to be done again. `how` may be NULL, and so may be what is in it.
 */
typedef int (*pf_orphan_fn)(void *arg, const char *path, const struct pf_stat *st);
struct pf_looking {
	pf_orphan_fn orphan;
	void *orphan_arg;
	pf_progress_fn progress;
	void *progress_arg;
};
int pf_survey_measure(struct pf_survey *s, const struct pf_looking *how, struct pf_why *why);

#endif
