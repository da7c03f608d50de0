#include "base_store.h"

#include <inttypes.h>
#include <string.h>

#include "place.h"

void pf_base_store_release(struct pf_base_store *s)
{
	free(s->dir);
	pf_store_free(s->opened);
	*s = (struct pf_base_store){ NULL };
}

static void bases_release(struct pf_base_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].where);
		free(l->v[i].perhaps);
	}
	free(l->v);
}

static int read_bases(struct pf_store *st, const struct pf_manifest *m, struct pf_base_paths *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;

	int r = pf_manifest_reopen(st, m, &f, why);
	return r < 0 ? r : pf_base_paths_read(&f->r, m, out, why);
}

/* The base list of a survey begins with the table itself. */
static int new_bases(struct pf_base_list *out)
{
	out->v = calloc(1, sizeof(*out->v));
	if (!out->v)
		return -ENOMEM;
	out->n = 1;
	out->v[0].where = strdup("");
	return out->v[0].where ? 0 : -ENOMEM;
}

static int open_place(struct pf_branch *b, const struct pf_place *p, const struct pf_base_list *bases,
		      struct pf_base_store *out, struct pf_why *why)
{
	_cleanup_(pf_base_store_release) struct pf_base_store s = { .st = pf_branch_store(b),
								    .is_dataset_root = p->is_dataset_root };

	if (p->base && !p->perhaps) {
		int r = pf_store_local_open(bases->v[p->base].where, &s.opened, why);
		if (r < 0)
			return r;
		s.st = s.opened;
	}
	s.dir = strdup(p->perhaps ? p->perhaps : p->prefix);
	if (!s.dir)
		return -ENOMEM;
	*out = s;
	s = (struct pf_base_store){ NULL };
	return 0;
}

int pf_base_store_open(struct pf_branch *b, const struct pf_manifest *m, uint32_t id, struct pf_base_store *out,
		       struct pf_why *why)
{
	_cleanup_(pf_base_paths_release) struct pf_base_paths paths = { NULL, 0 };
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { NULL, 0 };
	_cleanup_(bases_release) struct pf_base_list bases = { NULL, 0 };
	_cleanup_(pf_places_release) struct pf_places places = { NULL, 0 };
	struct pf_store *st = pf_branch_store(b);

	int r = read_bases(st, m, &paths, why);
	if (r == 0)
		r = pf_branches_list(st, &refs, why);
	if (r == 0)
		r = new_bases(&bases);
	if (r == 0)
		r = pf_places_resolve(st, pf_branch_dir(b), &refs, &paths, &bases, &places);
	if (r < 0)
		return r;
	const struct pf_place *p = pf_places_find(&places, id);
	if (!p)
		return pf_why_set(why, -EBADMSG, "%s: base %" PRIu32 ", which it names, is not there", m->name, id);
	return open_place(b, p, &bases, out, why);
}
