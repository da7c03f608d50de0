#include "carry_rewrite.h"

#include <inttypes.h>

struct taking {
	struct pf_next *x;
	const struct pf_operation *op;
	struct pf_file *file; /* of the head */
	struct pf_roster head;
	struct pf_slot *fresh; /* what the groups became, in their order */
	size_t n_fresh;
	bool *taken; /* of x->roster */
};

static void taking_release(struct taking *t)
{
	pf_file_close(t->file);
	pf_roster_release(&t->head);
	free(t->fresh);
	free(t->taken);
}

/* The old fragments come from another file than that of x. */
static int take_source(struct taking *t, uint64_t id, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	const struct pf_slot *s = pf_roster_find(&t->head, id);
	struct pf_span kept;

	if (!s)
		return pf_why_set(why, -EINVAL, "it replaces fragment %" PRIu64 ", which is not there", id);
	if (pf_roster_find(&t->x->roster, id))
		return pf_why_set(why, -EINVAL, "it replaces fragment %" PRIu64 ", and keeps it", id);
	int r = pf_buf_reserve(&field, (size_t)s->len);
	if (r == 0)
		r = t->file->r.read(&t->file->r, s->off, field.data, (size_t)s->len);
	if (r < 0)
		return r;
	field.len = (size_t)s->len;
	r = pf_next_keep(t->x, &field, &kept);
	return r < 0 ? r : pf_roster_add(&t->x->gone, kept, why);
}

static int take_sources(struct taking *t, struct pf_why *why)
{
	int r = 0;

	for (size_t g = 0; g < t->op->n_groups; g++)
		for (size_t i = 0; r == 0 && i < t->op->groups[g].from.n; i++)
			r = take_source(t, t->op->groups[g].from.v[i].id, why);
	pf_roster_sort(&t->x->gone);
	for (size_t i = 1; r == 0 && i < t->x->gone.n; i++)
		if (t->x->gone.v[i].id == t->x->gone.v[i - 1].id)
			return pf_why_set(why, -EINVAL, "it replaces fragment %" PRIu64 " twice", t->x->gone.v[i].id);
	return r;
}

/* Is it what the transaction says that it is? */
static int check_fresh(struct taking *t, const struct pf_slot *s, const struct pf_fragment *f, struct pf_why *why)
{
	_cleanup_(pf_fragment_release) struct pf_fragment is = { .id = 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	int r = pf_next_load(t->x, s, &bytes, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&bytes), &is, why);
	if (r < 0)
		return r;
	if (!pf_fragment_same_files(&is, f) || is.physical_rows != f->physical_rows || is.has_deletions ||
	    is.row_ids.kind != f->row_ids.kind || !pf_span_eq(is.row_ids.bytes, f->row_ids.bytes))
		return pf_why_set(why, -EINVAL, "fragment %" PRIu64 " is not what the transaction says", s->id);
	return 0;
}

static int take_fresh(struct taking *t, struct pf_slot *s, const struct pf_fragment *f, struct pf_why *why)
{
	if (!s || t->taken[s - t->x->roster.v] || pf_roster_find(&t->head, s->id))
		return pf_why_set(why, -EINVAL, "a new fragment of its transaction is not there");
	int r = check_fresh(t, s, f, why);
	if (r < 0)
		return r;
	t->taken[s - t->x->roster.v] = true;
	t->fresh[t->n_fresh++] = *s;
	return 0;
}

/* Ids that the transaction left to be given out were, ascending. */
static int take_destinations(struct taking *t, struct pf_why *why)
{
	struct pf_roster *l = &t->x->roster;
	size_t n = 0, next = 0;
	int r = 0;

	for (size_t g = 0; g < t->op->n_groups; g++)
		n += t->op->groups[g].to.n;
	t->fresh = calloc(n + 1, sizeof(*t->fresh));
	t->taken = calloc(l->n + 1, sizeof(*t->taken));
	if (!t->fresh || !t->taken)
		return -ENOMEM;
	for (size_t g = 0; g < t->op->n_groups; g++)
		for (size_t i = 0; r == 0 && i < t->op->groups[g].to.n; i++) {
			const struct pf_fragment *f = &t->op->groups[g].to.v[i];
			while (f->id == 0 && next < l->n && pf_roster_find(&t->head, l->v[next].id))
				next++;
			struct pf_slot *s = f->id ? pf_roster_find(l, f->id) : next < l->n ? &l->v[next++] : NULL;
			r = take_fresh(t, s, f, why);
		}
	if (r < 0)
		return r;
	n = 0;
	for (size_t i = 0; i < l->n; i++)
		if (!t->taken[i])
			l->v[n++] = l->v[i];
	memcpy(l->v + n, t->fresh, t->n_fresh * sizeof(*l->v));
	return 0;
}

/* No compaction of Lance up to 14 records a partition; somebody may who commits a Rewrite of their own by its library. */
static int read_said(const struct pf_operation *op, const struct pf_fri *theirs, struct pf_moved *said, bool *any,
		     struct pf_why *why)
{
	int r = 0;

	said->v = calloc(op->n_groups + 1, sizeof(*said->v));
	if (!said->v)
		return -ENOMEM;
	for (; r == 0 && said->n < op->n_groups; said->n++) {
		const struct pf_fri_group *g = pf_moves_record(theirs, &op->groups[said->n]);
		if (!g)
			continue;
		if (g->mapping == PF_MAPPING_PARTITION)
			return pf_why_set(why, -EOPNOTSUPP,
					  "group %zu: its record of moved rows is a partition, whose map is not read "
					  "here, and pins may need it: compact these fragments as Lance does, or "
					  "release the pins",
					  said->n);
		*any = true;
		r = pf_buf_add(&said->v[said->n], theirs->content.data + g->rows.off, (size_t)g->rows.len);
	}
	return r;
}

int pf_carry_rewrite(struct pf_next *x, struct pf_store *st, const struct pf_operation *op, const struct pf_fri *theirs,
		     struct pf_moved *said, bool *any, struct pf_why *why)
{
	_cleanup_(taking_release) struct taking t = { .x = x, .op = op };

	*any = false;
	if (theirs->unsupported)
		return pf_why_set(why, -EOPNOTSUPP, "its history of moved rows cannot be checked: %s",
				  theirs->unsupported_why);
	int r = pf_manifest_reopen(st, x->base, &t.file, why);
	if (r == 0)
		r = pf_roster_read(&t.file->r, x->base, &t.head, why);
	if (r == 0)
		r = take_sources(&t, why);
	if (r == 0)
		r = take_destinations(&t, why);
	return r < 0 ? r : read_said(op, theirs, said, any, why);
}
