/* Compaction without a record of what it moved: fragments, and the coverage of indices that follow it. */
#include "apply_parts.h"

#include <inttypes.h>

#include "flags.h"
#include "lance.pb-c.h"

/* What became of a group: ids are known only now. */
struct moved {
	const struct pf_rewrite_group *group;
	struct pf_numbers to;
};

struct moves {
	struct moved *v;
	size_t n;
};

static void moves_release(struct moves *m)
{
	for (size_t i = 0; i < m->n; i++)
		pf_numbers_release(&m->v[i].to);
	free(m->v);
}

/* Take the old fragments of a group out: each must be there, with the data that was compacted. */
static int take_sources(struct pf_next *x, const struct pf_rewrite_group *g, struct pf_numbers *gone,
			struct pf_why *why)
{
	for (size_t i = 0; i < g->from.n; i++) {
		uint64_t id = g->from.v[i].id;
		if (pf_numbers_has(gone, id))
			return pf_why_set(why, -EINVAL, "it replaces fragment %" PRIu64 " twice", id);
		if (!pf_roster_find(&x->roster, id))
			return pf_why_set(why, -EINVAL, "it replaces fragment %" PRIu64 ", which is not there", id);
		int r = pf_numbers_add(gone, id);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Also not the id of a fragment that goes in the same commit: addresses of its rows would be taken for those of others. */
static int check_id(struct pf_next *x, uint64_t id, struct pf_why *why)
{
	if (id == 0 || !pf_roster_find(&x->roster, id))
		return 0;
	return pf_why_set(why, -EINVAL, "a new fragment has the id %" PRIu64 " of one that is there", id);
}

/* A new fragment keeps what the compaction gave it: row ids and versions are those of the rows it moved. */
static int add_destination(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
			   const struct pf_schema *s, struct pf_numbers *to, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
	struct pf_dress d = { .set_id = true, .id = f->id };

	int r = pf_apply_check_new(a, x, f, why);
	if (r == 0)
		r = pf_apply_check_columns(f, s, why);
	if (r == 0 && f->id == 0 && !a->ids_given)
		r = pf_apply_next_id(x, &d.id, why);
	if (r == 0)
		r = pf_apply_dress(x, f, &d, &message, why);
	if (r == 0)
		r = pf_numbers_add(to, d.id);
	return r < 0 ? r : pf_next_add_fragment(x, PF_SPAN_OF(&message), why);
}

static int move_fragments(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct moves *m,
			  struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	_cleanup_(pf_numbers_release) struct pf_numbers gone = { 0 };
	int r = pf_apply_schema(x, &fields, &schema, why);

	if (r < 0)
		return r;
	m->v = calloc(o->n_groups ? o->n_groups : 1, sizeof(*m->v));
	if (!m->v)
		return -ENOMEM;
	for (size_t g = 0; r == 0 && g < o->n_groups; g++) {
		if (o->groups[g].from.n == 0)
			return pf_why_set(why, -EINVAL, "group %zu replaces no fragment", g);
		m->v[m->n++].group = &o->groups[g];
		r = take_sources(x, &o->groups[g], &gone, why);
	}
	for (size_t g = 0; r == 0 && g < o->n_groups; g++)
		for (size_t i = 0; r == 0 && i < o->groups[g].to.n; i++)
			r = check_id(x, o->groups[g].to.v[i].id, why);
	for (size_t g = 0; r == 0 && g < o->n_groups; g++)
		for (size_t i = 0; r == 0 && i < o->groups[g].to.n; i++)
			r = add_destination(a, x, &o->groups[g].to.v[i], &schema, &m->v[g].to, why);
	return r < 0 ? r : pf_next_remove_fragments(x, &gone);
}

static int add_value(void *arg, uint32_t v)
{
	return pf_numbers_add(arg, v);
}

static void drop(struct pf_numbers *ids, uint64_t v)
{
	for (size_t i = 0; i < ids->n; i++)
		if (ids->v[i] == v)
			ids->v[i--] = ids->v[--ids->n];
}

/* Old ids of groups that `ids` covers become new ones; follow false: they only go. */
static int recalculate(struct pf_numbers *ids, const struct moves *m, bool follow, const char *uuid, struct pf_why *why)
{
	for (size_t g = 0; g < m->n; g++) {
		const struct pf_fragments *from = &m->v[g].group->from;
		size_t covered = 0;
		for (size_t i = 0; i < from->n; i++)
			covered += pf_numbers_has(ids, from->v[i].id);
		if (covered == 0)
			continue;
		if (follow && covered != from->n)
			return pf_why_set(why, -EINVAL,
					  "group %zu has fragments that index %s covers and others that it does not", g,
					  uuid);
		for (size_t i = 0; i < from->n; i++)
			drop(ids, from->v[i].id);
		for (size_t i = 0; follow && i < m->v[g].to.n; i++)
			if (pf_numbers_add(ids, m->v[g].to.v[i]) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* No row of it was left: it has the files that it had. */
static bool is_kept(const struct pf_index_swap *swap)
{
	return strcmp(swap->from, swap->to) == 0;
}

/* Entry i covers the moved rows where they are now. swap: with these files, under this uuid. */
static int follow_moves(struct pf_next *x, size_t i, const struct moves *m, bool follow,
			const struct pf_index_swap *swap, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL, *now = NULL;
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bitmap = PF_BUF_INIT, covered = PF_BUF_INIT, uuid = PF_BUF_INIT;
	_cleanup_(pf_freep) uint32_t *v = NULL;
	struct pf_change changes[4];
	size_t n = 0;

	int r = pf_entry_bitmap(&x->entries[i], &b, why);
	if (r < 0)
		return r;
	if (!b)
		return swap ? pf_why_set(why, -EINVAL, "index %s was remapped, but does not say what it covers",
					 x->entries[i].x.uuid)
			    : 0;
	r = pf_bitmap_each(b, add_value, &ids);
	if (r == 0)
		r = recalculate(&ids, m, follow, x->entries[i].x.uuid, why);
	if (r < 0)
		return r;
	v = calloc(ids.n ? ids.n : 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t k = 0; k < ids.n; k++)
		v[k] = (uint32_t)ids.v[k];
	r = pf_bitmap_from(v, ids.n, &now);
	if (r == 0)
		r = pf_bitmap_encode(now, &bitmap);
	if (r == 0)
		r = pf_put_span(&covered, LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&bitmap));
	changes[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&covered) };
	if (r == 0 && swap) {
		r = pf_put_span(&uuid, LANCE__INDEX_METADATA__FIELD__UUID, swap->uuid);
		changes[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&uuid) };
		changes[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__FILES, PF_SPAN_OF(&swap->files) };
		/* On a branch it may have been the parent's; the new files are here. */
		if (!is_kept(swap))
			changes[n++] = (struct pf_change){ .number = LANCE__INDEX_METADATA__FIELD__BASE_ID };
	}
	return r < 0 ? r : pf_next_change_entry(x, i, changes, n, why);
}

static const struct pf_index_swap *swap_of(const struct pf_operation *o, const char *uuid, bool after)
{
	for (size_t i = 0; i < o->n_swaps; i++)
		if (strcmp(after ? o->swaps[i].to : o->swaps[i].from, uuid) == 0)
			return &o->swaps[i];
	return NULL;
}

static int move_indices(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x,
			const struct moves *m, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; i < o->n_swaps; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(o->swaps[i].from, o->swaps[k].from) == 0)
				return pf_why_set(why, -EINVAL, "it remaps index %s twice", o->swaps[i].from);
	for (size_t i = 0; r == 0 && i < x->n_entries; i++) {
		const struct pf_index *index = &x->entries[i].x;
		const struct pf_index_swap *swap = swap_of(o, index->uuid, false);
		/* With a history of version 0 the gate sees to it that they are still found. */
		if (o->n_swaps && !a->remapped_all && strcmp(index->name, PF_FRI_NAME) == 0 &&
		    (index->index_version != 0 || (x->base->writer_flags & PF_FLAG_TAGGED_FRI)))
			return pf_why_set(
				why, -EOPNOTSUPP,
				"it remapped indices while the tagged history of moved rows is still to be followed, "
				"which Lance refuses: compact with defer_index_remap=True");
		if (pf_index_is_system(index))
			continue;
		if (swap && !is_kept(swap))
			r = pf_apply_check_index_files(a, swap->to, why);
		if (r < 0)
			return r;
		if (swap)
			r = follow_moves(x, i, m, true, swap, why);
		else if (x->stable)
			r = follow_moves(x, i, m, !pf_index_has_addresses(index), NULL, why);
	}
	return r;
}

int pf_apply_rewrite(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(moves_release) struct moves m = { 0 };
	int r = move_fragments(a, o, x, &m, why);

	return r < 0 ? r : move_indices(a, o, x, &m, why);
}
