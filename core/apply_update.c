/* Update and DataReplacement: rows that move into new fragments, columns that are rewritten where they are. */
#include "apply_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "lance.pb-c.h"
#include "row_ids.h"

/* A row that moves: where it comes from says which version made it. */
struct origin {
	uint64_t id, made;
	bool found;
};

struct origins {
	struct origin *v; /* ascending by id */
	size_t n;
};

static void origins_release(struct origins *l)
{
	free(l->v);
}

static int cmp_origin(const void *a, const void *b)
{
	const struct origin *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static struct origin *origin_of(const struct origins *l, uint64_t id)
{
	const struct origin key = { .id = id };

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), cmp_origin) : NULL;
}

/* Versions are resolved here; a writer that keeps them in hidden columns has done it itself. */
static bool placed_by_writer(const struct pf_fragment *f)
{
	return f->row_ids.kind == PF_LINEAGE_COLUMN || f->created_at.kind == PF_LINEAGE_COLUMN;
}

static int collect_ids(const struct pf_operation *o, struct origins *out, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->added.n; i++) {
		const struct pf_fragment *f = &o->added.v[i];
		if (f->row_ids.kind == PF_LINEAGE_INLINE && !placed_by_writer(f))
			r = pf_row_ids_read(f->row_ids.bytes, f->physical_rows, &ids, why);
	}
	if (r < 0 || ids.n == 0)
		return r == -EBADMSG ? -EINVAL : r;
	out->v = calloc(ids.n, sizeof(*out->v));
	if (!out->v)
		return -ENOMEM;
	out->n = ids.n;
	for (size_t i = 0; i < ids.n; i++)
		out->v[i].id = ids.v[i];
	qsort(out->v, out->n, sizeof(*out->v), cmp_origin);
	return 0;
}

/* Version 1 where nobody wrote it down, as Lance has it. */
static int search_fragment(const struct pf_fragment *f, struct origins *l, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 }, made = { 0 };
	uint64_t low, high;
	bool any = false;

	if (f->row_ids.kind == PF_LINEAGE_COLUMN || f->row_ids.kind == PF_LINEAGE_EXTERNAL)
		return pf_why_set(why, -EOPNOTSUPP,
				  "fragment %" PRIu64
				  " has its row ids in a file: which version made the moved rows cannot be "
				  "told",
				  f->id);
	if (f->row_ids.kind == PF_LINEAGE_NONE)
		return 0;
	int r = pf_row_ids_bounds(f->row_ids.bytes, &low, &high, why);
	if (r < 0 || low > high || high < l->v[0].id || low > l->v[l->n - 1].id)
		return r;
	r = pf_row_ids_read(f->row_ids.bytes, f->physical_rows, &ids, why);
	for (size_t i = 0; r == 0 && i < ids.n; i++) {
		struct origin *o = origin_of(l, ids.v[i]);
		if (!o || o->found)
			continue;
		if (!any && f->created_at.kind == PF_LINEAGE_COLUMN)
			return pf_why_set(why, -EOPNOTSUPP,
					  "fragment %" PRIu64
					  " has the versions of its rows in a file, where they are not read",
					  f->id);
		if (!any && f->created_at.kind == PF_LINEAGE_INLINE)
			r = pf_row_versions_read(f->created_at.bytes, f->physical_rows, &made, why);
		any = true;
		o->made = i < made.n ? made.v[i] : 1;
		o->found = true;
	}
	return r;
}

/* In ascending order of fragments: the first that has an id is where the row was made. */
static int search(struct pf_next *x, struct origins *l, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && l->n && i < x->roster.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
		r = pf_next_load(x, &x->roster.v[i], &message, why);
		if (r == 0)
			r = pf_fragment_decode(PF_SPAN_OF(&message), &f, why);
		if (r == 0)
			r = search_fragment(&f, l, why);
	}
	return r;
}

/* The created-at versions of a new fragment: of rows that moved, those of their origin; of others, this version. */
static int put_made(struct pf_next *x, const struct pf_fragment *f, const struct origins *l, struct pf_buf *out,
		    struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	int r = 0;

	if (f->row_ids.kind != PF_LINEAGE_INLINE)
		return pf_row_versions_put_one(x->version, f->physical_rows, out);
	r = pf_row_ids_read(f->row_ids.bytes, f->physical_rows, &ids, why);
	for (size_t i = 0; i < ids.n; i++) {
		const struct origin *o = origin_of(l, ids.v[i]);
		ids.v[i] = o && o->found ? o->made : x->version;
	}
	while (r == 0 && ids.n < f->physical_rows)
		r = pf_numbers_add(&ids, x->version);
	return r < 0 ? r : pf_row_versions_put(ids.v, ids.n, out);
}

static int add_moved(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
		     const struct pf_schema *s, const struct origins *l, struct pf_numbers *added, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, files = PF_BUF_INIT, made = PF_BUF_INIT,
						updated = PF_BUF_INIT;
	struct pf_dress d = { .set_id = true, .id = f->id, .fill_row_ids = x->stable, .files = &files };
	bool changed;

	int r = pf_apply_check_new(a, x, f, why);
	if (r == 0)
		r = pf_apply_check_columns(f, s, why);
	if (r == 0 && x->stable && f->row_ids.kind == PF_LINEAGE_COLUMN && f->created_at.kind == PF_LINEAGE_NONE)
		r = pf_why_set(why, -EINVAL, "a new fragment has row ids in a column, but no versions of its rows");
	if (r == 0)
		r = pf_apply_live_files(f, s, &files, &changed);
	if (r == 0)
		r = f->id ? pf_apply_own_id(x, f->id, why) : pf_apply_next_id(x, &d.id, why);
	if (r == 0 && x->stable && !placed_by_writer(f)) {
		r = put_made(x, f, l, &made, why);
		d.made = &made;
	}
	if (r == 0 && x->stable) {
		r = pf_row_versions_put_one(x->version, f->physical_rows, &updated);
		d.updated = &updated;
	}
	if (r == 0)
		r = pf_apply_dress(x, f, &d, &message, why);
	if (r == 0)
		r = pf_numbers_add(added, d.id);
	return r < 0 ? r : pf_next_add_fragment(x, PF_SPAN_OF(&message), why);
}

static int add_offset(void *arg, uint32_t v)
{
	return pf_numbers_add(arg, v);
}

static int offsets_of(const struct pf_operation *o, uint64_t fragment, struct pf_numbers *out, struct pf_why *why)
{
	for (size_t i = 0; i < o->n_offsets; i++) {
		const struct pf_row_offsets *e = &o->offsets[i];
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		int r = 0;
		if (e->fragment != fragment)
			continue;
		for (size_t k = 0; r == 0 && k < e->offsets.n; k++)
			r = pf_numbers_add(out, e->offsets.v[k]);
		if (r == 0 && e->bitmap.n)
			r = pf_bitmap_decode(e->bitmap.p, e->bitmap.n, &b, why);
		if (r == 0 && b)
			r = pf_bitmap_each(b, add_offset, out);
		return r;
	}
	return 0;
}

/* The last-updated-at versions of a fragment after these rows changed. Empty: they stay as they are. */
static int put_updated(struct pf_next *x, const struct pf_operation *o, const struct pf_fragment *f, uint64_t rows,
		       struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers offsets = { 0 }, versions = { 0 };

	if (!x->stable || !o->in_place || f->updated_at.kind == PF_LINEAGE_NONE)
		return 0;
	int r = offsets_of(o, f->id, &offsets, why);
	if (r < 0 || offsets.n == 0)
		return r;
	if (f->updated_at.kind != PF_LINEAGE_INLINE)
		return pf_why_set(why, -EOPNOTSUPP,
				  "fragment %" PRIu64
				  " has the versions of its rows in a file, where they are not read",
				  f->id);
	r = pf_row_versions_read(f->updated_at.bytes, rows, &versions, why);
	while (r == 0 && versions.n < rows)
		r = pf_numbers_add(&versions, x->base->version);
	for (size_t i = 0; r == 0 && i < offsets.n; i++) {
		if (offsets.v[i] >= rows)
			return pf_why_set(why, -EINVAL,
					  "it updates row %" PRIu64 " of fragment %" PRIu64 ", which has %" PRIu64
					  " rows",
					  offsets.v[i], f->id, rows);
		versions.v[offsets.v[i]] = x->version;
	}
	return r < 0 ? r : pf_row_versions_put(versions.v, versions.n, out);
}

/* Of a fragment that stays, the transaction has the whole afterimage. */
static int set_updated(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x,
		       const struct pf_fragment *f, const struct pf_schema *s, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, message = PF_BUF_INIT, files = PF_BUF_INIT,
						updated = PF_BUF_INIT;
	_cleanup_(pf_fragment_release) struct pf_fragment before = { 0 };
	struct pf_slot *slot = pf_roster_find(&x->roster, f->id);
	struct pf_dress d = { .files = &files };
	bool changed;

	if (!slot)
		return pf_why_set(why, -EINVAL, "it updates fragment %" PRIu64 ", which is not there", f->id);
	if (slot->mem)
		return pf_why_set(why, -EINVAL, "it updates fragment %" PRIu64 " twice", f->id);
	if (f->has_overlays)
		return pf_why_set(why, -EINVAL,
				  "fragment %" PRIu64 " has overlays (feature bit 6), which pinfs does not write",
				  f->id);
	int r = pf_next_load(x, slot, &was, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&was), &before, why);
	if (r == 0 && before.physical_rows && f->physical_rows != before.physical_rows)
		r = pf_why_set(why, -EINVAL, "it updates fragment %" PRIu64 " to %" PRIu64 " rows; it has %" PRIu64,
			       f->id, f->physical_rows, before.physical_rows);
	if (r == 0 && f->has_deletions)
		r = pf_apply_check_deletion(a, x, f, why);
	for (size_t i = 0; r == 0 && i < f->n_files; i++)
		r = pf_apply_check_file(a, x, &f->files[i], why);
	if (r == 0)
		r = pf_apply_check_places(f->files, f->n_files, s, why);
	if (r == 0)
		r = pf_apply_live_files(f, s, &files, &changed);
	if (r == 0)
		r = put_updated(x, o, f, before.physical_rows, &updated, why);
	d.updated = updated.len ? &updated : NULL;
	if (r == 0)
		r = pf_apply_dress(x, f, &d, &message, why);
	return r < 0 ? r : pf_next_replace_fragment(x, slot, PF_SPAN_OF(&message), why);
}

/*
 * Rows that only moved keep their stable ids, so an index that answers with ids and covered all fragments they were in covers the new ones too,
 * unless its columns changed.
 */
static int extend_coverage(const struct pf_operation *o, struct pf_next *x, const struct pf_numbers *added,
			   struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && added->n && i < x->n_entries; i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL, *more = NULL;
		_cleanup_(pf_freep) uint32_t *v = NULL;
		const struct pf_index *index = &x->entries[i].x;
		bool covered = true;

		if (pf_index_has_addresses(index))
			continue;
		for (size_t k = 0; k < index->n_fields; k++)
			covered = covered && !pf_numbers_has(&o->fields_kept, (uint64_t)index->fields[k]);
		if (!covered)
			continue;
		r = pf_entry_bitmap(&x->entries[i], &b, why);
		if (r < 0 || !b)
			continue;
		for (size_t k = 0; k < o->removed.n; k++)
			covered = covered && pf_bitmap_has(b, (uint32_t)o->removed.v[k]);
		for (size_t k = 0; k < o->updated.n; k++)
			covered = covered && pf_bitmap_has(b, (uint32_t)o->updated.v[k].id);
		if (!covered)
			continue;
		v = calloc(added->n, sizeof(*v));
		if (!v)
			return -ENOMEM;
		for (size_t k = 0; k < added->n; k++)
			v[k] = (uint32_t)added->v[k];
		r = pf_bitmap_from(v, added->n, &more);
		if (r == 0)
			r = pf_bitmap_merge(b, more);
		if (r == 0)
			r = pf_next_set_bitmap(x, i, b, why);
	}
	return r;
}

static int check_offsets(const struct pf_operation *o, struct pf_why *why)
{
	for (size_t i = 0; o->in_place && i < o->n_offsets; i++) {
		bool there = false;
		for (size_t k = 0; k < o->updated.n; k++)
			there |= o->updated.v[k].id == o->offsets[i].fragment;
		if (!there)
			return pf_why_set(why, -EINVAL,
					  "it says which rows of fragment %" PRIu64 " changed, but does not update it",
					  o->offsets[i].fragment);
	}
	return 0;
}

int pf_apply_update(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	_cleanup_(pf_rewrites_release) struct pf_rewrites rewritten = { 0 };
	_cleanup_(origins_release) struct origins origins = { 0 };
	_cleanup_(pf_numbers_release) struct pf_numbers added = { 0 };
	int r = 0;

	if (o->has_sstables)
		return pf_why_set(why, -EOPNOTSUPP, "it compacts a MemWAL, which pinfs does not commit");
	for (size_t i = 0; i < o->removed.n; i++)
		if (!pf_roster_find(&x->roster, o->removed.v[i]))
			return pf_why_set(why, -EINVAL, "it removes fragment %" PRIu64 ", which is not there",
					  o->removed.v[i]);
	r = pf_apply_schema(x, &fields, &schema, why);
	if (r == 0)
		r = check_offsets(o, why);
	if (r == 0)
		r = pf_rewrites_add(&rewritten, o);
	if (r == 0)
		r = pf_apply_withdraw(a, x, &rewritten, 0, &schema, why);
	if (r == 0 && x->stable)
		r = collect_ids(o, &origins, why);
	if (r == 0)
		r = search(x, &origins, why);
	for (size_t i = 0; r == 0 && i < o->updated.n; i++)
		r = set_updated(a, o, x, &o->updated.v[i], &schema, why);
	for (size_t i = 0; r == 0 && i < o->added.n; i++)
		r = add_moved(a, x, &o->added.v[i], &schema, &origins, &added, why);
	if (r == 0 && x->stable && !o->in_place)
		r = extend_coverage(o, x, &added, why);
	if (r == 0)
		r = pf_next_remove_fragments(x, &o->removed);
	return r < 0 ? r : pf_apply_retain_indices(x, &schema, why);
}

/* The columns of a file, and those that they are part of. */
static int logical_fields(const struct pf_data_file *f, const struct pf_schema *s, struct pf_numbers *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_fields; i++) {
		int32_t id = f->fields[i];
		for (size_t depth = 0; r == 0 && depth <= s->n; depth++) {
			const struct pf_column *c = pf_schema_find(s, id);
			if ((c || depth == 0) && !pf_numbers_has(out, (uint64_t)(int64_t)id))
				r = pf_numbers_add(out, (uint64_t)(int64_t)id);
			if (!c || c->parent < 0)
				break;
			id = c->parent;
		}
	}
	return r;
}

static bool same_layout(const struct pf_data_file *a, const struct pf_data_file *b)
{
	return a->n_fields == b->n_fields && memcmp(a->fields, b->fields, a->n_fields * sizeof(*a->fields)) == 0 &&
	       a->major == b->major && a->minor == b->minor;
}

/* A file of the same columns takes the other's place: path, size and base; how its columns are numbered stays as it was. */
static int swap_file(const struct pf_data_file *was, const struct pf_data_file *is, struct pf_buf *files,
		     struct pf_why *why)
{
	static const uint32_t numbers[] = { LANCE__DATA_FILE__FIELD__PATH, LANCE__DATA_FILE__FIELD__FILE_SIZE_BYTES,
					    LANCE__DATA_FILE__FIELD__BASE_ID };
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
	struct pf_change changes[ARRAY_LEN(numbers)];
	struct pf_message walk;
	struct pf_member m;

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		changes[i] = (struct pf_change){ .number = numbers[i] };
	pf_message_init(&walk, is->message);
	int r;
	while ((r = pf_message_next(&walk, &m, why)) > 0)
		for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
			if (m.number == numbers[i])
				changes[i].fields = m.whole;
	if (r == 0)
		r = pf_message_change(was->message, changes, ARRAY_LEN(changes), &message, why);
	return r < 0 ? r : pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, PF_SPAN_OF(&message));
}

/* Append the file without these columns, if any other column of it lives. */
static int put_tombstoned(const struct pf_fragment *f, const struct pf_data_file *file, const struct pf_numbers *gone,
			  const struct pf_schema *s, struct pf_buf *files)
{
	_cleanup_(pf_freep) int32_t *fields = calloc(file->n_fields ? file->n_fields : 1, sizeof(*fields));
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
	struct pf_data_file left = *file;
	bool changed = false;

	if (!fields)
		return -ENOMEM;
	for (size_t i = 0; i < file->n_fields; i++) {
		bool hit = file->fields[i] >= 0 && pf_numbers_has(gone, (uint64_t)file->fields[i]);
		fields[i] = hit ? PF_FIELD_TOMBSTONE : file->fields[i];
		changed |= hit;
	}
	left.fields = fields;
	if (!pf_apply_file_lives(f, &left, s))
		return 0;
	if (!changed)
		return pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, file->message);
	int r = pf_data_file_put_fields(file, fields, &message);
	return r < 0 ? r : pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, PF_SPAN_OF(&message));
}

static int replace_files(const struct pf_fragment *f, const struct pf_data_file *new, const struct pf_schema *s,
			 struct pf_buf *files, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers covered = { 0 }, replaced = { 0 };
	bool swapped = false, legacy = false, all = true, any = false;
	int r = logical_fields(new, s, &replaced);

	for (size_t i = 0; r == 0 && i < f->n_files; i++) {
		r = logical_fields(&f->files[i], s, &covered);
		swapped |= same_layout(&f->files[i], new);
		for (size_t k = 0; k < f->files[i].n_fields; k++)
			legacy |= pf_data_file_is_legacy(&f->files[i]) && f->files[i].fields[k] >= 0 &&
				  pf_numbers_has(&replaced, (uint64_t)f->files[i].fields[k]);
	}
	for (size_t i = 0; i < replaced.n; i++) {
		all &= pf_numbers_has(&covered, replaced.v[i]);
		any |= pf_numbers_has(&covered, replaced.v[i]);
	}
	if (r < 0)
		return r;
	if (any && !swapped && (!all || legacy))
		return pf_why_set(why, -EINVAL,
				  "the new file of fragment %" PRIu64 " does not have the columns of any file it has",
				  f->id);
	for (size_t i = 0; r == 0 && i < f->n_files; i++) {
		if (swapped && same_layout(&f->files[i], new))
			r = swap_file(&f->files[i], new, files, why);
		else if (any && !swapped)
			r = put_tombstoned(f, &f->files[i], &replaced, s, files);
		else
			r = pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, f->files[i].message);
	}
	if (r == 0 && !swapped)
		r = pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, new->message);
	return r;
}

static int replace_one(const struct pf_apply *a, struct pf_next *x, const struct pf_replacement *p,
		       const struct pf_schema *s, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, message = PF_BUF_INIT, files = PF_BUF_INIT,
						updated = PF_BUF_INIT, unchanged = PF_BUF_INIT;
	_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
	struct pf_slot *slot = pf_roster_find(&x->roster, p->fragment);
	struct pf_dress d = { .files = &files };

	if (!slot)
		return pf_why_set(why, -EINVAL, "it replaces data of fragment %" PRIu64 ", which is not there",
				  p->fragment);
	int r = pf_apply_check_file(a, x, &p->file, why);
	if (r == 0)
		r = pf_next_load(x, slot, &was, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&was), &f, why);
	if (r == 0)
		r = pf_apply_check_places(&p->file, 1, s, why);
	if (r == 0)
		r = replace_files(&f, &p->file, s, &files, why);
	if (r == 0)
		r = pf_fragment_put_files(&f, &unchanged);
	if (r == 0 && pf_span_eq(PF_SPAN_OF(&files), PF_SPAN_OF(&unchanged)))
		r = pf_why_set(why, -EINVAL, "it replaces data of fragment %" PRIu64 " by what is there", p->fragment);
	if (r == 0 && x->stable && f.physical_rows) {
		r = pf_row_versions_put_one(x->version, f.physical_rows, &updated);
		d.updated = &updated;
	}
	if (r == 0)
		r = pf_apply_dress(x, &f, &d, &message, why);
	return r < 0 ? r : pf_next_replace_fragment(x, slot, PF_SPAN_OF(&message), why);
}

int pf_apply_replacement(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	_cleanup_(pf_rewrites_release) struct pf_rewrites rewritten = { 0 };

	for (size_t i = 1; i < o->n_replacements; i++) {
		const struct pf_data_file *f = &o->replacements[0].file, *g = &o->replacements[i].file;
		if (f->n_fields != g->n_fields || memcmp(f->fields, g->fields, f->n_fields * sizeof(*f->fields)) != 0)
			return pf_why_set(why, -EINVAL, "its new files have different columns");
	}
	int r = pf_apply_schema(x, &fields, &schema, why);
	if (r == 0)
		r = pf_rewrites_add(&rewritten, o);
	if (r == 0)
		r = pf_apply_withdraw(a, x, &rewritten, 0, &schema, why);
	for (size_t i = 0; r == 0 && i < o->n_replacements; i++)
		r = replace_one(a, x, &o->replacements[i], &schema, why);
	return r;
}
