/* The index section: entries that come and go, and coverage that an operation takes away. */
#include "apply_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "fri_branch.h"
#include "lance.pb-c.h"

static int add_value(void *arg, uint32_t v)
{
	return pf_numbers_add(arg, v);
}

/* The fragments that an entry covers, as stored. 1, or 0 if it does not say. */
static int coverage(const struct pf_entry *e, struct pf_numbers *out, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	int r = pf_entry_bitmap(e, &b, why);

	if (r < 0 || !b)
		return r;
	r = pf_bitmap_each(b, add_value, out);
	return r < 0 ? r : 1;
}

static int set_coverage(struct pf_next *x, size_t i, const struct pf_numbers *ids, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_freep) uint32_t *v = calloc(ids->n ? ids->n : 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t k = 0; k < ids->n; k++)
		v[k] = (uint32_t)ids->v[k];
	int r = pf_bitmap_from(v, ids->n, &b);
	return r < 0 ? r : pf_next_set_bitmap(x, i, b, why);
}

static const struct pf_index *history_of(const struct pf_next *x)
{
	for (size_t i = 0; i < x->n_entries; i++)
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) == 0)
			return &x->entries[i].x;
	return NULL;
}

static bool has_columns(const struct pf_index *index, const struct pf_schema *s)
{
	for (size_t i = 0; i < index->n_fields; i++)
		if (!pf_schema_find(s, index->fields[i]))
			return false;
	return true;
}

/* Does the entry cover a fragment that is there? 1, 0, or an error. One without a bitmap may. */
static int covers_something(const struct pf_next *x, const struct pf_entry *e, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	int r = coverage(e, &ids, why);

	if (r <= 0)
		return r < 0 ? r : 1;
	for (size_t i = 0; i < ids.n; i++)
		if (pf_roster_find(&x->roster, ids.v[i]))
			return 1;
	return 0;
}

/* Of segments that all cover nothing, the first made stays as the record of what to build. */
static bool is_older(const struct pf_index *a, const struct pf_index *b)
{
	if (a->has_created_at != b->has_created_at)
		return a->has_created_at;
	if (a->created_at != b->created_at)
		return a->created_at < b->created_at;
	return a->dataset_version < b->dataset_version;
}

/* Mark the segments of one name that go. */
static int judge_segments(const struct pf_next *x, const char *name, bool *goes, struct pf_why *why)
{
	size_t n = 0, oldest = SIZE_MAX;
	bool any = false;

	for (size_t i = 0; i < x->n_entries; i++)
		n += x->entries[i].x.has_bitmap && strcmp(x->entries[i].x.name, name) == 0;
	if (n < 2)
		return 0;
	for (size_t i = 0; i < x->n_entries; i++) {
		const struct pf_entry *e = &x->entries[i];
		if (!e->x.has_bitmap || strcmp(e->x.name, name) != 0)
			continue;
		int r = covers_something(x, e, why);
		if (r < 0)
			return r;
		goes[i] = r == 0;
		any |= r > 0;
		if (r == 0 && (oldest == SIZE_MAX || is_older(&e->x, &x->entries[oldest].x)))
			oldest = i;
	}
	if (!any && oldest != SIZE_MAX)
		goes[oldest] = false;
	return 0;
}

int pf_apply_retain_indices(struct pf_next *x, const struct pf_schema *s, struct pf_why *why)
{
	_cleanup_(pf_freep) bool *goes = NULL;
	int r = 0;

	for (size_t i = x->n_entries; i-- > 0;)
		if (!pf_index_is_system(&x->entries[i].x) && !has_columns(&x->entries[i].x, s))
			pf_next_drop_entry(x, i);
	/* With a history of moved rows the stored coverage is where the rows came from: nobody can tell by it what a segment covers now. */
	if (history_of(x) || x->n_entries < 2)
		return 0;
	pf_roster_sort(&x->roster);
	goes = calloc(x->n_entries, sizeof(*goes));
	if (!goes)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < x->n_entries; i++)
		if (!goes[i])
			r = judge_segments(x, x->entries[i].x.name, goes, why);
	for (size_t i = x->n_entries; r == 0 && i-- > 0;)
		if (goes[i])
			pf_next_drop_entry(x, i);
	return r;
}

static bool is_mentioned(const struct pf_fri *f, uint64_t fragment)
{
	for (size_t g = 0; g < f->n_groups; g++) {
		for (size_t i = 0; i < f->groups[g].n_from; i++)
			if (f->groups[g].from[i].id == fragment)
				return true;
		for (size_t i = 0; i < f->groups[g].n_to; i++)
			if (f->groups[g].to[i].id == fragment)
				return true;
	}
	return false;
}

struct withdrawal {
	struct pf_next *x;
	const struct pf_rewrites *l;
	const struct pf_schema *schema;
	const struct pf_fri *history; /* NULL: none */
	bool tagged;
	bool deep; /* what is below a rewritten column is rewritten, too */
};

/*
 * Is a column of the index among those? For an index that is new, or with a tagged history, a rewritten parent takes its children along (a packed struct is one
 * column).
 */
static bool touches(const struct withdrawal *w, const struct pf_index *index, const struct pf_numbers *fields)
{
	for (size_t i = 0; i < index->n_fields; i++)
		for (size_t k = 0; k < fields->n; k++)
			if (index->fields[i] == (int32_t)fields->v[k] ||
			    (w->deep && pf_schema_is_below(w->schema, index->fields[i], (int32_t)fields->v[k])))
				return true;
	return false;
}

/* What is left of a segment would be loaded as it is, with rows of withdrawn fragments in its files. */
static bool is_loaded_raw(const struct withdrawal *w, const struct pf_numbers *ids)
{
	for (size_t i = 0; i < ids->n; i++)
		if (!pf_roster_find(&w->x->roster, ids->v[i]) || w->history->unsupported ||
		    is_mentioned(w->history, ids->v[i]))
			return false;
	return true;
}

/* 1 if something was withdrawn from entry i, and *emptied; 0 if not. */
static int withdraw_one(const struct withdrawal *w, size_t i, bool *emptied, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 }, gone = { 0 };
	const struct pf_entry *e = &w->x->entries[i];
	bool retired = false;
	size_t n = 0;

	int r = coverage(e, &ids, why);
	if (r <= 0)
		return r;
	r = 0;
	for (size_t k = 0; r == 0 && k < w->l->n; k++) {
		if (!touches(w, &e->x, &w->l->v[k].fields))
			continue;
		r = pf_numbers_add(&gone, w->l->v[k].fragment);
		size_t before = gone.n;
		if (r == 0 && w->history)
			r = pf_fri_ancestors(w->history, w->l->v[k].fragment, &gone);
		/* Only those that are no more: a fragment that is there answers for itself. */
		for (size_t at = before; at < gone.n;) {
			if (pf_roster_find(&w->x->roster, gone.v[at]))
				gone.v[at] = gone.v[--gone.n];
			else
				at++;
		}
		/* What cannot be followed may lead there. */
		for (size_t at = 0; r == 0 && w->history && w->history->unsupported && at < ids.n; at++)
			if (!pf_roster_find(&w->x->roster, ids.v[at]))
				r = pf_numbers_add(&gone, ids.v[at]);
	}
	if (r < 0)
		return r;
	for (size_t k = 0; k < ids.n; k++) {
		if (!pf_numbers_has(&gone, ids.v[k]))
			ids.v[n++] = ids.v[k];
		else
			retired |= !pf_roster_find(&w->x->roster, ids.v[k]);
	}
	if (n == ids.n)
		return 0;
	ids.n = n;
	if (w->tagged && retired && is_loaded_raw(w, &ids))
		ids.n = 0;
	*emptied = ids.n == 0;
	r = set_coverage(w->x, i, &ids, why);
	return r < 0 ? r : 1;
}

/* Does another segment of the name cover something? */
static bool has_sibling(const struct pf_next *x, size_t i)
{
	for (size_t k = 0; k < x->n_entries; k++) {
		_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
		if (k == i || strcmp(x->entries[k].x.name, x->entries[i].x.name) != 0)
			continue;
		if (coverage(&x->entries[k], &ids, NULL) != 1 || ids.n > 0)
			return true;
	}
	return false;
}

int pf_apply_withdraw(const struct pf_apply *a, struct pf_next *x, const struct pf_rewrites *l, size_t first,
		      const struct pf_schema *s, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri fri = { 0 };
	_cleanup_(pf_numbers_release) struct pf_numbers emptied = { 0 };
	struct withdrawal w = { .x = x, .l = l, .schema = s };
	int r = 0;

	if (l->n == 0)
		return 0;
	if (history_of(x)) {
		r = pf_fri_read_branch(a->branch, x->base, &fri, why);
		if (r < 0)
			return r;
		w.history = &fri;
		w.tagged = fri.index_version != 0;
	}
	w.deep = w.tagged || l == a->rewritten;
	for (size_t i = first; r >= 0 && i < x->n_entries; i++) {
		bool none = false;
		if (!pf_index_is_system(&x->entries[i].x))
			r = withdraw_one(&w, i, &none, why);
		if (r > 0 && none && w.tagged)
			r = pf_numbers_add(&emptied, i);
	}
	for (size_t k = emptied.n; r >= 0 && k-- > 0;)
		if (has_sibling(x, emptied.v[k]))
			pf_next_drop_entry(x, emptied.v[k]);
	return r < 0 ? r : 0;
}

static bool named(const struct pf_indices *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

static bool has_uuid(const struct pf_indices *l, const char *uuid)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].uuid, uuid) == 0)
			return true;
	return false;
}

/* Readers take the columns before those that are only carried for its keys. */
static bool covers_the_last(const struct pf_index *index)
{
	size_t keys = index->n_fields - index->n_covering;

	for (size_t i = 0; i < index->n_covering; i++) {
		if (index->covering[i] != index->fields[keys + i])
			return false;
		for (size_t k = 0; k < i; k++)
			if (index->covering[k] == index->covering[i])
				return false;
	}
	return true;
}

int pf_apply_check_index_files(const struct pf_apply *a, const char *uuid, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf dir = PF_BUF_INIT;
	struct pf_stat st;

	int r = pf_buf_addf(&dir, "%s_indices/%s", pf_branch_dir(a->branch), uuid);
	if (r < 0 || !pf_buf_str(&dir))
		return -ENOMEM;
	r = pf_store_stat(pf_branch_store(a->branch), (char *)dir.data, &st);
	if (r == -ENOENT || r == -ENOTDIR || (r == 0 && !st.is_dir))
		return pf_why_set(why, -EINVAL, "it refers to the index files in %s, which are not there",
				  (char *)dir.data);
	return r < 0 ? pf_why_set(why, r, "cannot look at %s: %s", (char *)dir.data, strerror(-r)) : 0;
}

static int check_new(const struct pf_apply *a, const struct pf_index *index, const struct pf_schema *s,
		     struct pf_why *why)
{
	if (index->n_fields == 0)
		return pf_why_set(why, -EINVAL, "index %s names no column", index->uuid);
	for (size_t i = 0; i < index->n_fields; i++)
		if (!pf_schema_find(s, index->fields[i]))
			return pf_why_set(why, -EINVAL,
					  "index %s is on the column with id %" PRId32
					  ", which is not there: build it anew",
					  index->uuid, index->fields[i]);
	if (index->n_covering >= index->n_fields)
		return pf_why_set(why, -EINVAL, "index %s only carries columns, and is keyed on none", index->uuid);
	if (!covers_the_last(index))
		return pf_why_set(why, -EINVAL,
				  "index %s does not name the columns that it only carries last, each once",
				  index->uuid);
	return index->has_base ? 0 : pf_apply_check_index_files(a, index->uuid, why);
}

/* Segments of one index all answer with row ids, or all with addresses. */
static int check_domains(const struct pf_next *x, const struct pf_indices *added, struct pf_why *why)
{
	for (size_t i = 0; i < x->n_entries; i++) {
		const struct pf_index *p = &x->entries[i].x;
		for (size_t k = 0; named(added, p->name) && k < i; k++) {
			const struct pf_index *q = &x->entries[k].x;
			if (strcmp(p->name, q->name) == 0 && pf_index_has_addresses(p) != pf_index_has_addresses(q))
				return pf_why_set(
					why, -EINVAL,
					"index segments %s and %s do not fit together: one answers with row ids, the "
					"other with row addresses",
					q->uuid, p->uuid);
		}
	}
	return 0;
}

int pf_apply_create_index(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;

	if (named(&o->new_indices, PF_FRI_NAME) || named(&o->removed_indices, PF_FRI_NAME))
		return pf_why_set(
			why, -EOPNOTSUPP,
			"it changes the history of moved rows, %s: only a compaction and `pinctl trim` do that",
			PF_FRI_NAME);
	if (named(&o->new_indices, PF_MEM_WAL_NAME))
		return pf_why_set(why, -EOPNOTSUPP, "it makes a MemWAL index, which pinfs does not commit");
	int r = pf_apply_schema(x, &fields, &schema, why);
	for (size_t i = x->n_entries; r == 0 && i-- > 0;)
		if (has_uuid(&o->new_indices, x->entries[i].x.uuid) ||
		    has_uuid(&o->removed_indices, x->entries[i].x.uuid))
			pf_next_drop_entry(x, i);
	size_t first = x->n_entries;
	for (size_t i = 0; r == 0 && i < o->new_indices.n; i++) {
		r = check_new(a, &o->new_indices.v[i], &schema, why);
		if (r == 0)
			r = pf_next_add_entry(x, o->new_entries[i], why);
	}
	if (r == 0)
		r = check_domains(x, &o->new_indices, why);
	if (r == 0 && a->rewritten)
		r = pf_apply_withdraw(a, x, a->rewritten, first, &schema, why);
	return r;
}
