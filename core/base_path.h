/*
 * Base paths of a manifest (field 18): the places beside the table itself that files may live in, and which of them is which. A place is compared by what it is, not
 * by how it is spelled (lance-14-cleanup D2, D11; cases-open B17).
 */
#ifndef PF_BASE_PATH_H
#define PF_BASE_PATH_H

#include "manifest.h"

struct pf_base_path {
	uint32_t id;
	bool is_dataset_root;
	char *path; /* as stored: a path or URI */
};

/* Ascending by id. */
struct pf_base_paths {
	struct pf_base_path *v;
	size_t n;
};
void pf_base_paths_release(struct pf_base_paths *l);

/* The one with this id, NULL if there is none. */
const struct pf_base_path *pf_base_paths_find(const struct pf_base_paths *l, uint32_t id);

/* Those of `m`, whose file `r` reads. -EBADMSG: damaged, or one id twice. */
int pf_base_paths_read(struct pf_reader *r, const struct pf_manifest *m, struct pf_base_paths *out, struct pf_why *why);

#endif
