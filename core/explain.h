/*
 * What is kept on one line of versions, and everything that people ask about it: the mount's retention/, pinctl's answers and cleanup stand on this, and
 * render_retention.h makes text of it, so that their figures agree (design: sections 3, 5 and 6).
 *
 * One handle answers for one head. It is made after pf_lines_refresh, and is of no use after the next one; any number of questions in between. Not
 * thread-safe, as the survey.
 */
#ifndef PF_EXPLAIN_H
#define PF_EXPLAIN_H

#include "lines.h"

struct pf_explained_fri;

struct pf_explain {
	struct pf_line *line;
	struct pf_survey *survey; /* the line's */
	struct pf_time now;
	struct pf_needs needs;	   /* of other branches */
	struct pf_retention *kept; /* as things are, whatever the cleanup policy */
	struct pf_retention_totals totals;
	struct pf_explained_fri *fri; /* NULL until it is asked for */
};

/*
 * Take account of a line: what other branches need of it, what is on disk, what is kept. Borrows both. `how` may be NULL: see pf_survey_measure.
 *   -EBADMSG  the line cannot be read: line->unknown
 *   -ENOENT   nothing but its ref is left
 *   others    of pf_survey_measure
 */
int pf_explain_new(struct pf_lines *l, struct pf_line *line, struct pf_time now, const struct pf_looking *how,
		   struct pf_explain **out, struct pf_why *why);
void pf_explain_free(struct pf_explain *e);
void pf_explain_freep(struct pf_explain **e);

/* What if these pins and tags were gone, or a policy decided? Zero asks how things are. Borrowed for as long as the answer is used, as e is. */
struct pf_question {
	const struct pf_uuid *released;
	size_t n_released;
	const char *const *untagged;
	size_t n_untagged;
	const struct pf_policy *policy;
};
int pf_explain_ask(const struct pf_explain *e, const struct pf_question *q, struct pf_retention **out);

/*
 * May destructive work trust this? 0, or -EBUSY: the first problem of the window with its pins (pf_retention_verify), else a pin that a writer dropped
 * (pf_lost_recent, by a look of bounded cost; where none was lost before, a look at what is new since).
 */
int pf_explain_blocked(const struct pf_explain *e, struct pf_why *why);

/* Has the time of this pin passed? It holds all the same, until an expire commit. */
bool pf_explain_is_due(const struct pf_explain *e, const struct pf_pin *p);

/*
 * What else may be kept without anybody knowing: the first thing that cannot be read, and might keep a version, or a file. NULL if all is known. What is
 * kept for reasons that are known is kept all the same.
 */
const char *pf_explain_unknown_versions(const struct pf_explain *e);
const char *pf_explain_unknown_files(const struct pf_explain *e);

/*
 * --- files ---
 *
 * A file has one name everywhere: relative to the table's root, or on another base a URI; percent-encoded if that is a file:// URI, else escaped as
 * pf_text_escape does (tab as \t, newline as \n, other control characters as \xNN, backslash as \\), so that a line holds it.
 */
struct pf_kept_file {
	size_t file;	  /* index into survey->files: of a file in a directory, that of the directory */
	const char *name; /* as above; valid during the call */
	uint64_t size;
};

/*
 * Tell fn of each kept file on disk, directories as the files in them, by name. A non-zero return stops and is returned. Lists the directories; what
 * disappears meanwhile is left out.
 */
typedef int (*pf_kept_file_fn)(void *arg, const struct pf_kept_file *f);
int pf_explain_files(const struct pf_explain *e, pf_kept_file_fn fn, void *arg, struct pf_why *why);

/* Append the name of survey->files[file], as above. */
int pf_explain_name(const struct pf_explain *e, size_t file, struct pf_buf *out);

/* What somebody's `path` is called in the store: 1 and *out; 0 if it leads elsewhere, and *out is where, or as it was, NULL, if nobody can say. */
int pf_explain_spelled(struct pf_store *st, const char *path, char **out);

/*
 * The file that somebody calls `path`: relative to the root (`./` and `//` allowed), absolute, a URI, or a name as above. A file in a directory is the
 * directory's. *name is what it is called in the store, malloc'ed, or NULL if that is not in the table's directory.
 *   >= 0     index into survey->files
 *   -ENOENT  no version refers to it, nor does another branch
 */
int64_t pf_explain_find(const struct pf_explain *e, const char *path, char **name);

/*
 * --- the fragment reuse index of the head ---
 *
 * A record is named by its place in the stored history, from 0: "0", "1"... New ones are appended, so a name stays good until a trim or an index build of
 * Lance drops older records. Read on the first call; what pins need is asked per source, whose manifest is read for it if the history is not of version 0.
 */

/*
 * The history as it is decoded. Valid as long as e.
 *   -ENODATA  the head has none
 *   others    of pf_fri_read: it cannot be read, or cannot be interpreted
 */
int pf_explain_fri(struct pf_explain *e, const struct pf_fri **out, struct pf_why *why);

/*
 * Does survey->pins.v[pin] need the record? 1 or 0.
 *   -EOPNOTSUPP, -EBADMSG, -ENOENT ...  it cannot be told: the history holds what we cannot interpret, or the source's fragments cannot be read
 */
int pf_explain_fri_pin(struct pf_explain *e, size_t pin, size_t record, struct pf_why *why);

/* One step from a source fragment to a record: the fragment is a source of the record, and of the step before a destination. */
struct pf_fri_hop {
	uint32_t fragment;
	size_t record;
};
struct pf_fri_path {
	struct pf_fri_hop *v; /* malloc'ed; none of a version 0 history, where the stamp decides */
	size_t n;
	bool ambiguous; /* it begins at a fragment whose id was used for other rows too */
};
void pf_fri_path_release(struct pf_fri_path *p);

/* A shortest way from the pin's source to a record that it needs. 1 and *out, 0 if it does not need it, or as pf_explain_fri_pin. */
int pf_explain_fri_path(struct pf_explain *e, size_t pin, size_t record, struct pf_fri_path *out, struct pf_why *why);

/*
 * The names of the indices that need a record, in the order of the index section. *v is malloc'ed, the names are e's. Errors of pf_closure_consumers, of
 * which -EBADMSG gives the names all the same: an index whose coverage is damaged among them, where it may need the record.
 */
int pf_explain_fri_indices(struct pf_explain *e, size_t record, const char ***v, size_t *n, struct pf_why *why);

/* Append the name of the folder of a group's row map, as above with a slash at the end. -EBADMSG: on a base that the manifest does not have. */
int pf_explain_fri_map(const struct pf_explain *e, const struct pf_fri_group *g, struct pf_buf *out,
		       struct pf_why *why);

#endif
