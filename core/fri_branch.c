#include "fri_branch.h"

#include <inttypes.h>
#include <string.h>

#include "place.h"

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

static int read_at(struct pf_branch *b, const struct pf_manifest *m, const struct pf_place *p,
		   const struct pf_base_list *bases, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *there = NULL;
	struct pf_fri_base base = { pf_branch_store(b), p->perhaps ? p->perhaps : p->prefix };

	if (p->base && !p->perhaps) {
		int r = pf_store_local_open(bases->v[p->base].where, &there, why);
		if (r < 0)
			return r;
		base.st = there;
	}
	return pf_fri_read(pf_branch_store(b), pf_branch_dir(b), m, &base, out, why);
}

/* Its content is on base `id`. */
static int read_on_base(struct pf_branch *b, const struct pf_manifest *m, uint32_t id, struct pf_fri *out,
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
		return pf_why_set(why, -EBADMSG, "%s: its history is on base %" PRIu32 ", which it does not have",
				  m->name, id);
	return read_at(b, m, p, &bases, out, why);
}

int pf_fri_read_branch(struct pf_branch *b, const struct pf_manifest *m, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices indices = { NULL, 0 };
	const struct pf_index *x;

	int r = pf_indices_read(pf_branch_store(b), m, &indices, why);
	if (r == 0)
		r = pf_fri_entry(&indices, &x, why);
	if (r < 0)
		return r;
	return x && x->has_base ? read_on_base(b, m, x->base_id, out, why)
				: pf_fri_read(pf_branch_store(b), pf_branch_dir(b), m, NULL, out, why);
}
