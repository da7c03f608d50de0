/*
 * Base paths, resolved: where the files of a base id are, as (base, path) of the survey. What leads to the table's own root or below it, however it
 * is spelled, is one with the table's own names (lance-14-cleanup D2, D10, D11).
 */
#ifndef PF_PLACE_H
#define PF_PLACE_H

#include "base_path.h"
#include "refs.h"

struct pf_place {
	uint32_t id;
	bool is_dataset_root;
	char *spelled;
	uint32_t base; /* index into pf_survey.bases */
	char *prefix;  /* of its files below that base: "" or "tree/x/" */
	bool own;      /* in the branch's own directory */
	char *perhaps; /* nobody can tell where it leads: its files may be here, below the table's root, too; NULL if it is known */
};

/* Ascending by id. */
struct pf_places {
	struct pf_place *v;
	size_t n;
};
void pf_places_release(struct pf_places *l);

/* What lies beside the table's root. */
struct pf_survey_base {
	char *where; /* a real path, or a URI; if nobody can tell where it leads, as it is spelled, and then: */
	char *perhaps; /* its files may be here, below the table's root: "" or "tree/x/"; else NULL. They are named at both places */
};

/* Those known so far; [0] is the table's root itself, "". */
struct pf_base_list {
	struct pf_survey_base *v;
	size_t n;
};

/* Where a line of versions keeps its files (lance-14-cleanup section 2). */
#define PF_FOLDERS 7
extern const char *const pf_folders[PF_FOLDERS];

/*
 * Does the file or directory `name` belong to the branch in `dir` ("" or "tree/x/"): is it that directory, or in one of its folders, and not in one of
 * another branch? One called x/data lives in the folder of x's data files, and both have files there (lance-14-cleanup D4).
 */
bool pf_place_is_own(const char *name, const char *dir, const struct pf_branch_refs *refs);

/* Of a branch in `dir` ("" or "tree/x/") of the table in `st`; refs are all branches, to know whose directory is whose. New bases are added. */
int pf_places_resolve(struct pf_store *st, const char *dir, const struct pf_branch_refs *refs,
		      const struct pf_base_paths *l, struct pf_base_list *bases, struct pf_places *out);

/* Do these say what was resolved already? */
bool pf_places_are_of(const struct pf_places *l, const struct pf_base_paths *paths);

/* Does everything that `was` says still hold? */
bool pf_places_hold(const struct pf_places *was, const struct pf_places *is);

/* NULL if there is none of this id. */
const struct pf_place *pf_places_find(const struct pf_places *l, uint32_t id);

#endif
