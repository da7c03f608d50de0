/* What the files that make up survey.h share among themselves. */
#ifndef PF_SURVEY_PARTS_H
#define PF_SURVEY_PARTS_H

#include <string.h>

#include "fragment_diff.h"
#include "survey.h"

/* Manifests up to this are read whole, in one call, and kept until the next one was compared with them; larger ones go by windows. */
#define PF_SURVEY_WHOLE_MAX (16 * 1024 * 1024)

/* One manifest at hand. */
struct pf_held {
	struct pf_manifest *m; /* NULL: nothing is held */
	struct pf_buf bytes;   /* all of it, if it is not large */
	struct pf_mem_reader mem;
	struct pf_file *file; /* else; NULL between refreshes */
	struct pf_fragment_list fragments;
};

/* Files of the survey, by index. */
struct pf_file_list {
	size_t *v;
	size_t n, cap;
};

struct pf_survey_state {
	struct pf_branch *b;
	struct pf_store *st;
	struct pf_file_set set;
	struct pf_base_list bases;
	struct pf_held held[2]; /* of the version taken in last, and room for the next */
	unsigned now;		/* which is which */
	struct pf_places places;
	struct pf_buf index;	     /* the index section of that version */
	struct pf_file_list indices; /* what it names */
	struct pf_file_list maps;    /* what its FRI names, if that could be read */
	struct pf_buf fri;	     /* the entry they are from */
	size_t cap_versions;
	bool prune;  /* there may be files that no version refers to */
	bool broken; /* memory ran out in the middle of a step: start anew */
};

int pf_file_list_add(struct pf_file_list *l, size_t file);

/* One version on its way in. */
struct pf_taking {
	struct pf_survey *s;
	const struct pf_version_entry *e;
	char *name; /* of its manifest */
	struct pf_stat st;
	uint64_t before; /* the version taken in last, 0 if none was */
	struct pf_held *was, *is;
	struct pf_reader *r;
	struct pf_places places; /* if they are not those of the version before */
	bool moved;		 /* they are others */
	bool whole;		 /* nothing is shared with the version before */
	bool unplaced;		 /* a file is on a base that the version before does not have */
	struct pf_buf path;	 /* room for names */
	/* For what is being told of just now: */
	const struct pf_places *from;
	int by;
	struct pf_file_list *list; /* who else wants to know, NULL if nobody */
	struct pf_why *why;
};

/* A pf_reference_fn; arg is the pf_taking: count the file, by `by`, where `from` says it is. */
int pf_taking_see(void *arg, const struct pf_reference *ref);

/* What the version has in its index section, against what the one before had. */
struct pf_indexing {
	struct pf_buf section, entry; /* of the FRI */
	struct pf_file_list indices, maps;
	bool changed, fri_changed;
	int fri_error; /* and the sentence */
	struct pf_why fri_why;
	char *fri_file; /* which it is about, if not the manifest */
};
void pf_indexing_release(struct pf_indexing *x);

/* Count what the index section of t->is->m names; what cannot be read of its FRI is a gap, not a failure. */
int pf_indexing_count(struct pf_taking *t, struct pf_indexing *ix);

/*
 * Where the files of the FRI entry x are, by the places of its manifest: for pf_fri_read_entry. *there is a store that was opened for it, if one was: the
 * caller's. -EBADMSG: a base that the manifest does not have.
 */
int pf_survey_fri_base(const struct pf_survey *s, const struct pf_places *places, const struct pf_index *x,
		       struct pf_fri_base *base, struct pf_store **there, struct pf_why *why);

/* The version is in: what was learned of its index section becomes the state. Only memory can be lacking. */
int pf_indexing_keep(struct pf_taking *t, struct pf_indexing *ix);

/* Append len bytes at off of r. */
int pf_read_span(struct pf_reader *r, uint64_t off, uint64_t len, struct pf_buf *out);

/* The sentence, or what the code means. */
static inline const char *pf_text_of(int err, const struct pf_why *why)
{
	return why->text[0] ? why->text : strerror(-err);
}

/*
 * Take one version in: the next above those that are in. 0, also if it is damaged: it is in, unreadable, with a gap that says so. 1 if it is not
 * there (any more).
 */
int pf_survey_take(struct pf_survey *s, const struct pf_version_entry *e);
void pf_held_release(struct pf_held *h);

/* Append. `file` is looked at, to notice when it changes. err: what storage said of it. */
int pf_survey_add_gap(struct pf_survey *s, enum pf_gap_kind kind, uint64_t first, uint64_t last, const char *file,
		      int err, const char *text);

/* Make the pointers in *s those of the state. */
void pf_survey_show(struct pf_survey *s);

#endif
