#include "fri_branch.h"

#include "base_store.h"

/* Its content is on base `id`. */
static int read_on_base(struct pf_branch *b, const struct pf_manifest *m, uint32_t id, struct pf_fri *out,
			struct pf_why *why)
{
	_cleanup_(pf_base_store_release) struct pf_base_store there = { NULL };

	int r = pf_base_store_open(b, m, id, &there, why);
	if (r < 0)
		return r == -EBADMSG ? pf_why_prefix(why, r, "the history of moved rows") : r;
	const struct pf_fri_base base = { there.st, there.dir };
	return pf_fri_read(pf_branch_store(b), pf_branch_dir(b), m, &base, out, why);
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
