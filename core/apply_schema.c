/* Operations that bring a schema: Overwrite, Merge, Project. */
#include "apply_parts.h"

#include <inttypes.h>

#include "lance.pb-c.h"
#include "row_ids.h"
#include "text.h"

static int set_schema(struct pf_next *x, const struct pf_operation *o, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = 0;

	if (o->schema.n == 0)
		return pf_why_set(why, -EINVAL, "it has no schema");
	for (size_t i = 0; i < o->schema.n; i++)
		for (size_t k = 0; k < i; k++)
			if (o->schema.v[k].id == o->schema.v[i].id)
				return pf_why_set(why, -EINVAL, "its schema has the field id %" PRId32 " twice",
						  o->schema.v[i].id);
	for (size_t i = 0; r == 0 && i < o->schema.n; i++)
		r = pf_put_span(&b, LANCE__MANIFEST__FIELD__FIELDS, o->schema.v[i].message);
	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__FIELDS, &b);
}

int pf_apply_overwrite(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf metadata = PF_BUF_INIT;

	if (o->n_bases)
		return pf_why_set(why, -EINVAL, "it brings base paths, which only the first version of a table can");
	/* Ids are given out before the old fragments go, so that none is used twice. */
	int r = set_schema(x, o, why);
	if (r == 0)
		r = pf_apply_set_format(x, &o->added, why);
	size_t n_old = x->roster.n;
	for (size_t i = 0; r == 0 && i < o->added.n; i++)
		r = pf_apply_add_new(a, x, &o->added.v[i], &o->schema, false, why);
	if (r == 0)
		r = pf_buf_add(&metadata, o->schema_metadata.data, o->schema_metadata.len);
	if (r == 0)
		r = pf_next_set_field(x, LANCE__MANIFEST__FIELD__SCHEMA_METADATA, &metadata);
	if (r == 0)
		r = pf_apply_edit_map(x, LANCE__MANIFEST__FIELD__CONFIG, &o->config, why);
	if (r < 0)
		return r;
	if (n_old)
		memmove(x->roster.v, x->roster.v + n_old, (x->roster.n - n_old) * sizeof(*x->roster.v));
	x->roster.n -= n_old;
	x->fragments_changed = true;
	while (x->n_entries > 0)
		pf_next_drop_entry(x, x->n_entries - 1);
	return 0;
}

/* Of one slot: its files without those no column of which is left. Lance walks all fragments. */
static int project_slot(struct pf_next *x, struct pf_slot *slot, const struct pf_schema *s, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, message = PF_BUF_INIT, files = PF_BUF_INIT;
	_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
	const struct pf_dress d = { .files = &files };
	bool changed = false;

	int r = pf_next_load(x, slot, &was, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&was), &f, why);
	if (r == 0)
		r = pf_apply_live_files(&f, s, &files, &changed);
	if (r < 0 || !changed)
		return r;
	r = pf_apply_dress(x, &f, &d, &message, why);
	return r < 0 ? r : pf_next_replace_fragment(x, slot, PF_SPAN_OF(&message), why);
}

int pf_apply_project(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	int r = set_schema(x, o, why);

	for (size_t i = 0; r == 0 && i < x->roster.n; i++)
		r = project_slot(x, &x->roster.v[i], &o->schema, why);
	return r < 0 ? r : pf_apply_retain_indices(x, &o->schema, why);
}

/* A fragment of a Merge, and what it was. */
struct merged {
	const struct pf_fragment *is;
	struct pf_slot *slot; /* NULL: new */
};

/* Existing fragments come first, each once; whatever follows is new. */
static int sort_out(const struct pf_operation *o, struct pf_next *x, struct merged *v, struct pf_why *why)
{
	_cleanup_(pf_freep) bool *seen = calloc(x->roster.n ? x->roster.n : 1, sizeof(*seen));
	size_t old = 0;

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < o->added.n; i++) {
		struct pf_slot *s = pf_roster_find(&x->roster, o->added.v[i].id);
		v[i].is = &o->added.v[i];
		if (s && seen[s - x->roster.v] && s->id != 0)
			return pf_why_set(why, -EINVAL, "it has fragment %" PRIu64 " twice", s->id);
		if (!s || seen[s - x->roster.v])
			continue;
		if (old != i)
			return pf_why_set(why, -EINVAL, "it has new fragments before fragment %" PRIu64, s->id);
		seen[s - x->roster.v] = true;
		v[i].slot = s;
		old++;
	}
	if (old == x->roster.n)
		return 0;
	for (size_t i = 0; i < x->roster.n; i++)
		if (!seen[i])
			return pf_why_set(why, -EINVAL, "it lacks fragment %" PRIu64 ": it must have all fragments",
					  x->roster.v[i].id);
	return 0;
}

struct merging {
	const struct pf_apply *a;
	struct pf_next *x;
	const struct pf_schema *was, *is;
	struct pf_numbers changed; /* columns that keep their id and are of another kind now */
	struct pf_rewrites rewritten;
	int32_t max_field; /* ever used */
};

static void merging_release(struct merging *m)
{
	pf_numbers_release(&m->changed);
	pf_rewrites_release(&m->rewritten);
}

/* Is all data of a column in other files than before? */
static bool is_rewritten(const struct pf_fragment *was, const struct pf_fragment *is, int32_t id)
{
	bool any = false;

	for (size_t i = 0; i < is->n_files; i++) {
		const struct pf_data_file *f = &is->files[i];
		if (!pf_data_file_has(f, id))
			continue;
		any = true;
		for (size_t k = 0; k < was->n_files; k++) {
			const struct pf_data_file *g = &was->files[k];
			if (pf_data_file_has(g, id) && pf_span_eq(f->path, g->path) && f->has_base == g->has_base &&
			    f->base_id == g->base_id)
				return false;
		}
	}
	return any;
}

static int check_changed(const struct merging *m, const struct pf_fragment *was, const struct pf_fragment *is,
			 struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	for (size_t i = 0; i < m->changed.n; i++) {
		const struct pf_column *c = pf_schema_find(m->is, (int32_t)m->changed.v[i]);
		if (!is_rewritten(was, is, c->id))
			return pf_why_set(
				why, -EINVAL,
				"it changes the type, encoding or nullability of column %s, which keeps its id, without "
				"new data for it in fragment %" PRIu64,
				pf_text_quote((const char *)c->name.p, c->name.n, quoted), was->id);
	}
	return 0;
}

/* Append its files but for those of which an in-place rewrite left no column. */
static int put_files(const struct pf_fragment *f, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_files; i++) {
		bool any = false;
		for (size_t k = 0; k < f->files[i].n_fields; k++)
			any |= f->files[i].fields[k] != PF_FIELD_TOMBSTONE;
		if (any)
			r = pf_put_span(out, LANCE__DATA_FRAGMENT__FIELD__FILES, f->files[i].message);
	}
	return r;
}

/* A fragment that is there, as it is now. */
static int merge_old(struct merging *m, struct pf_slot *slot, const struct pf_fragment *is, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, message = PF_BUF_INIT, updated = PF_BUF_INIT,
						files = PF_BUF_INIT;
	_cleanup_(pf_fragment_release) struct pf_fragment was = { 0 };
	struct pf_dress d = { 0 };

	int r = pf_next_load(m->x, slot, &bytes, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&bytes), &was, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < was.n_files; i++)
		for (size_t k = 0; k < was.files[i].n_fields; k++)
			m->max_field = was.files[i].fields[k] > m->max_field ? was.files[i].fields[k] : m->max_field;
	if (was.physical_rows != is->physical_rows)
		return pf_why_set(why, -EINVAL, "it changes fragment %" PRIu64 " from %" PRIu64 " rows to %" PRIu64,
				  was.id, was.physical_rows, is->physical_rows);
	if (m->x->stable && is->row_ids.kind == PF_LINEAGE_NONE)
		return pf_why_set(why, -EINVAL, "it takes the row ids of fragment %" PRIu64 " away", was.id);
	if (is->has_overlays)
		return pf_why_set(why, -EINVAL,
				  "fragment %" PRIu64 " has overlays (feature bit 6), which pinfs does not write",
				  was.id);
	r = check_changed(m, &was, is, why);
	bool same = pf_fragment_same_files(&was, is);
	for (size_t i = 0; r == 0 && !same && i < is->n_files; i++)
		r = pf_apply_check_file(m->a, m->x, &is->files[i], why);
	if (r == 0 && !same)
		r = pf_apply_check_places(is->files, is->n_files, m->is, why);
	if (r == 0 && is->has_deletions &&
	    !(was.has_deletions && pf_span_eq(was.deletion.message, is->deletion.message)))
		r = pf_apply_check_deletion(m->a, m->x, is, why);
	if (r == 0)
		r = pf_rewrites_add_fragment(&m->rewritten, &was, is);
	if (r == 0 && !same) {
		r = put_files(is, &files);
		d.files = &files;
	}
	if (r == 0 && m->x->stable && !same) {
		r = pf_row_versions_put_one(m->x->version, was.physical_rows, &updated);
		d.updated = &updated;
	}
	if (r == 0)
		r = pf_apply_dress(m->x, is, &d, &message, why);
	if (r < 0 || (message.len == bytes.len && memcmp(message.data, bytes.data, bytes.len) == 0))
		return r;
	return pf_next_replace_fragment(m->x, slot, PF_SPAN_OF(&message), why);
}

/* Readers find the data of a column by its id: those that stay keep their place in the tree and do not take a sibling's name. */
static int check_kept(struct merging *m, const struct pf_column *c, const struct pf_column *old, struct pf_why *why)
{
	const struct pf_schema *was = m->was;
	char a[PF_QUOTE_TEXT];

	pf_text_quote((const char *)c->name.p, c->name.n, a);
	if (old->parent != c->parent)
		return pf_why_set(why, -EINVAL, "it moves column %s to another parent", a);
	for (size_t k = 0; k < was->n; k++)
		if (was->v[k].id != c->id && was->v[k].parent == c->parent && pf_span_eq(was->v[k].name, c->name))
			return pf_why_set(why, -EINVAL,
					  "its column %s has the id %" PRId32
					  ", which is another column's: its schema is not made from this table's",
					  a, c->id);
	if (pf_span_eq(old->type, c->type) && old->nullable == c->nullable && old->encoding == c->encoding &&
	    pf_span_eq(old->dictionary, c->dictionary))
		return 0;
	return pf_numbers_add(&m->changed, (uint64_t)c->id);
}

static int check_kept_columns(struct merging *m, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->is->n; i++) {
		const struct pf_column *old = pf_schema_find(m->was, m->is->v[i].id);
		if (old)
			r = check_kept(m, &m->is->v[i], old, why);
	}
	return r;
}

static bool takes_place_of_another(const struct merging *m, const struct pf_column *c)
{
	for (size_t i = 0; i < m->was->n; i++)
		if (pf_schema_same_path(m->is, c, m->was, &m->was->v[i]))
			return true;
	return false;
}

/* Has the fragment data of the column, or of what is below it? */
static bool has_data(const struct pf_fragment *f, const struct pf_schema *s, int32_t id)
{
	for (size_t i = 0; i < f->n_files; i++)
		for (size_t k = 0; k < f->files[i].n_fields; k++)
			if (f->files[i].fields[k] >= 0 && pf_schema_is_below(s, f->files[i].fields[k], id))
				return true;
	return false;
}

/* An id never comes to mean another column, so new ones are above all that were ever used; and what had data has it under its new id, too. */
static int check_new_columns(const struct merging *m, const struct pf_fragments *l, struct pf_why *why)
{
	int32_t max = m->max_field;
	char a[PF_QUOTE_TEXT];

	for (size_t i = 0; i < m->was->n; i++)
		max = m->was->v[i].id > max ? m->was->v[i].id : max;
	for (size_t i = 0; i < m->is->n; i++) {
		const struct pf_column *c = &m->is->v[i];
		if (pf_schema_find(m->was, c->id))
			continue;
		pf_text_quote((const char *)c->name.p, c->name.n, a);
		if (c->id <= max)
			return pf_why_set(why, -EINVAL,
					  "its new column %s has the id %" PRId32 "; ids up to %" PRId32
					  " are or were used",
					  a, c->id, max);
		bool replaces = takes_place_of_another(m, c);
		for (size_t k = 0; replaces && k < l->n; k++)
			if (!has_data(&l->v[k], m->is, c->id))
				return pf_why_set(why, -EINVAL,
						  "it gives column %s the id %" PRId32
						  ", and not all of its fragments have data under that",
						  a, c->id);
	}
	return 0;
}

int pf_apply_merge(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_freep) struct merged *v = calloc(o->added.n ? o->added.n : 1, sizeof(*v));
	_cleanup_(pf_schema_release) struct pf_schema was = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT, metadata = PF_BUF_INIT;
	_cleanup_(
		merging_release) struct merging m = { .a = a, .x = x, .was = &was, .is = &o->schema, .max_field = -1 };

	if (!v)
		return -ENOMEM;
	int r = pf_apply_schema(x, &fields, &was, why);
	if (r == 0)
		r = sort_out(o, x, v, why);
	if (r == 0)
		r = check_kept_columns(&m, why);
	for (size_t i = 0; r == 0 && i < o->added.n && v[i].slot; i++)
		r = merge_old(&m, v[i].slot, v[i].is, why);
	if (r == 0)
		r = check_new_columns(&m, &o->added, why);
	if (r == 0)
		r = pf_apply_withdraw(a, x, &m.rewritten, 0, &was, why);
	if (r == 0)
		r = set_schema(x, o, why);
	for (size_t i = 0; r == 0 && i < o->added.n; i++) {
		if (v[i].slot)
			continue;
		if (v[i].is->row_ids.kind != PF_LINEAGE_NONE)
			return pf_why_set(why, -EINVAL, "a new fragment has row ids, which the commit assigns");
		r = pf_apply_add_new(a, x, v[i].is, &o->schema, true, why);
	}
	if (r == 0 && o->schema_metadata.len) {
		r = pf_buf_add(&metadata, o->schema_metadata.data, o->schema_metadata.len);
		if (r == 0)
			r = pf_next_set_field(x, LANCE__MANIFEST__FIELD__SCHEMA_METADATA, &metadata);
	}
	return r < 0 ? r : pf_apply_retain_indices(x, &o->schema, why);
}
