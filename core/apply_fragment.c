/* Fragments on their way into a manifest: what is checked, what they are given. */
#include "apply_parts.h"

#include <inttypes.h>
#include <stdio.h>

#include "flags.h"
#include "lance.pb-c.h"
#include "reference.h"
#include "row_ids.h"
#include "text.h"

int pf_apply_schema(struct pf_next *x, struct pf_buf *fields, struct pf_schema *out, struct pf_why *why)
{
	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__FIELDS, fields, why);

	return r < 0 ? r : pf_schema_read(PF_SPAN_OF(fields), LANCE__MANIFEST__FIELD__FIELDS, out, why);
}

/* Lance takes the path of a data file as one name: `/` in it is spelled %2F on disk. */
static int put_name(struct pf_buf *out, struct pf_span path)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < path.n; i++)
		r = path.p[i] == '/' ? pf_buf_addstr(out, "%2F") : pf_buf_addch(out, (char)path.p[i]);
	return r;
}

/* 0 if the base is one of the next version's. */
static int check_base(struct pf_next *x, uint32_t id, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	struct pf_message walk, base;
	struct pf_member m, f;

	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__BASE_PATHS, &raw, why);
	if (r < 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(&raw));
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		uint64_t there = 0;
		pf_message_init(&base, m.value);
		while ((r = pf_message_next(&base, &f, why)) > 0)
			if (f.number == LANCE__BASE_PATH__FIELD__ID)
				there = f.num;
		if (r < 0)
			return r;
		if (there == id)
			return 0;
	}
	return r < 0 ? r
		     : pf_why_set(why, -EINVAL, "it refers to base %" PRIu32 ", which this table does not have", id);
}

/* `size`: what is said of it; 0: nothing. Lance looks for the end of a data file where the manifest says that it is. */
static int check_there(const struct pf_apply *a, struct pf_buf *name, uint64_t size, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	const char *s = pf_buf_str(name);
	struct pf_stat st;

	if (!s)
		return -ENOMEM;
	int r = pf_store_stat(pf_branch_store(a->branch), s, &st);
	if (r == 0 && !st.is_dir && (size == 0 || st.size == size))
		return 0;
	pf_text_quote(s, strlen(s), quoted);
	if (r == 0 && !st.is_dir)
		return pf_why_set(why, -EINVAL,
				  "it refers to the file %s as one of %" PRIu64 " bytes, and it has %" PRIu64
				  ": is it still being written, or was it not copied whole?",
				  quoted, size, st.size);
	if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -EINVAL)
		return pf_why_set(
			why, -EINVAL,
			"it refers to the file %s, which is not there: is it work for another table, or was it "
			"cleaned up?",
			quoted);
	return pf_why_set(why, r, "cannot look at %s: %s", quoted, strerror(-r));
}

/* As the format of a table is spelled: "0.1" for all of the legacy one, "2.0", "2.1" ... */
static void spell_version(const struct pf_data_file *f, char out[32])
{
	if (pf_data_file_is_legacy(f))
		snprintf(out, 32, "0.1");
	else if (f->major == 0)
		snprintf(out, 32, "2.0");
	else
		snprintf(out, 32, "%" PRIu32 ".%" PRIu32, f->major, f->minor);
}

/* The data format of the next version; empty if it does not say. */
static int get_format(struct pf_next *x, struct pf_buf *raw, struct pf_span *out, struct pf_why *why)
{
	struct pf_message walk, format;
	struct pf_member m, f;

	*out = (struct pf_span){ 0 };
	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__DATA_FORMAT, raw, why);
	if (r < 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(raw));
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		pf_message_init(&format, m.value);
		while ((r = pf_message_next(&format, &f, why)) > 0)
			if (f.number == LANCE__DATA_STORAGE_FORMAT__FIELD__VERSION)
				*out = f.value;
		if (r < 0)
			return r;
	}
	return r;
}

/* Files of the legacy format and others do not go together; several versions of the other do, and the table says so from then on. */
static int check_format(struct pf_next *x, const struct pf_data_file *f, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	char version[32];
	struct pf_span format;

	int r = get_format(x, &raw, &format, why);
	if (r < 0 || format.n == 0)
		return r;
	spell_version(f, version);
	if (format.n == strlen(version) && memcmp(format.p, version, format.n) == 0)
		return 0;
	if (format.p[0] == '0' || version[0] == '0')
		return pf_why_set(why, -EINVAL,
				  "a data file has format version %s, and the table %.*s: they cannot be mixed",
				  version, (int)format.n, (const char *)format.p);
	x->sticky |= PF_FLAG_MIXED_VERSIONS;
	return 0;
}

int pf_apply_set_format(struct pf_next *x, const struct pf_fragments *l, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT, message = PF_BUF_INIT, field = PF_BUF_INIT,
						changed = PF_BUF_INIT;
	char first[32] = "", version[32];
	struct pf_message walk;
	struct pf_member m;

	for (size_t i = 0; i < l->n; i++) {
		for (size_t k = 0; k < l->v[i].n_files; k++) {
			spell_version(&l->v[i].files[k], version);
			if (first[0] && strcmp(first, version) != 0)
				return 0;
			memcpy(first, version, sizeof(first));
		}
	}
	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__DATA_FORMAT, &raw, why);
	if (r < 0 || !first[0] || raw.len == 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(&raw));
	r = pf_message_next(&walk, &m, why);
	if (r > 0)
		r = pf_wire_put_bytes(&field, LANCE__DATA_STORAGE_FORMAT__FIELD__VERSION, first, strlen(first));
	const struct pf_change change = { LANCE__DATA_STORAGE_FORMAT__FIELD__VERSION, PF_SPAN_OF(&field) };
	if (r == 0)
		r = pf_message_change(m.value, &change, 1, &changed, why);
	if (r == 0)
		r = pf_put_span(&message, LANCE__MANIFEST__FIELD__DATA_FORMAT, PF_SPAN_OF(&changed));
	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__DATA_FORMAT, &message);
}

int pf_apply_check_file(const struct pf_apply *a, struct pf_next *x, const struct pf_data_file *f, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];

	int r = check_format(x, f, why);
	if (r < 0)
		return r;
	if (f->n_fields == 0)
		return pf_why_set(why, -EINVAL, "data file %s has no columns",
				  pf_text_quote((const char *)f->path.p, f->path.n, quoted));
	if (f->has_base)
		return check_base(x, f->base_id, why);
	r = pf_buf_addf(&name, "%sdata/", pf_branch_dir(a->branch));
	if (r == 0)
		r = put_name(&name, f->path);
	return r < 0 ? r : check_there(a, &name, f->size, why);
}

int pf_apply_check_deletion(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
			    struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;
	const struct pf_deletion_file *d = &f->deletion;

	if (d->has_base)
		return check_base(x, d->base_id, why);
	int r = pf_buf_addstr(&name, pf_branch_dir(a->branch));
	if (r == 0)
		r = pf_deletion_file_name(f->id, d->read_version, d->id, d->type, &name);
	return r < 0 ? r : check_there(a, &name, 0, why);
}

int pf_apply_check_new(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f, struct pf_why *why)
{
	if (f->physical_rows == 0)
		return pf_why_set(why, -EINVAL, "a new fragment does not say how many rows it has");
	if (f->n_files == 0)
		return pf_why_set(why, -EINVAL, "a new fragment has no files");
	if (f->has_deletions)
		return pf_why_set(why, -EINVAL, "a new fragment has deleted rows");
	if (f->has_overlays)
		return pf_why_set(why, -EINVAL,
				  "a new fragment has overlays (feature bit 6), which pinfs does not write");
	if (f->row_ids.kind == PF_LINEAGE_EXTERNAL || f->created_at.kind == PF_LINEAGE_EXTERNAL ||
	    f->updated_at.kind == PF_LINEAGE_EXTERNAL)
		return pf_why_set(why, -EINVAL, "a new fragment has row ids in a file of their own");
	if (f->row_ids.kind != PF_LINEAGE_NONE && !x->stable)
		return pf_why_set(why, -EINVAL,
				  "a new fragment has row ids (feature bit 1), but this table has no stable row ids");
	for (size_t i = 0; i < f->n_files; i++) {
		int r = pf_apply_check_file(a, x, &f->files[i], why);
		if (r < 0)
			return r;
	}
	return 0;
}

int pf_apply_next_id(struct pf_next *x, uint64_t *out, struct pf_why *why)
{
	uint64_t id = 0;

	if (x->has_max_fragment_id)
		id = x->max_fragment_id + 1;
	else if (x->roster.n)
		for (size_t i = 0; i < x->roster.n; i++)
			id = x->roster.v[i].id >= id ? x->roster.v[i].id + 1 : id;
	if (id >= UINT32_MAX)
		return pf_why_set(why, -EOPNOTSUPP, "no fragment id is left: they end at 2^32 - 2");
	x->has_max_fragment_id = true;
	x->max_fragment_id = id;
	*out = id;
	return 0;
}

int pf_apply_own_id(const struct pf_next *x, uint64_t id, struct pf_why *why)
{
	uint64_t last = x->has_max_fragment_id ? x->max_fragment_id : 0;

	for (size_t i = 0; i < x->roster.n; i++) {
		if (x->roster.v[i].id == id)
			return 0; /* that is told when all are known */
		last = x->roster.v[i].id > last ? x->roster.v[i].id : last;
	}
	if (id > last)
		return 0;
	return pf_why_set(why, -EINVAL,
			  "a new fragment has the id %" PRIu64 ", which was given to another one before: without an "
			  "id (0) it gets its own",
			  id);
}

/* Append the field of row ids with as many as there are rows. */
static int fill_row_ids(struct pf_next *x, const struct pf_fragment *f, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf sequence = PF_BUF_INIT;
	uint64_t have = 0, lacking;
	int r = 0;

	if (f->row_ids.kind == PF_LINEAGE_INLINE)
		r = pf_row_ids_count(f->row_ids.bytes, &have, why);
	if (r < 0)
		return r;
	if (have > f->physical_rows)
		return pf_why_set(why, -EINVAL, "a new fragment of %" PRIu64 " rows has %" PRIu64 " row ids",
				  f->physical_rows, have);
	lacking = f->physical_rows - have;
	if (lacking > UINT64_MAX - x->next_row_id)
		return pf_why_set(why, -EOPNOTSUPP, "no row id is left");
	if (f->row_ids.kind == PF_LINEAGE_NONE) {
		r = pf_row_ids_put_range(x->next_row_id, x->next_row_id + lacking, &sequence);
	} else {
		r = pf_row_ids_read(f->row_ids.bytes, f->physical_rows, &ids, why);
		for (uint64_t i = 0; r == 0 && i < lacking; i++)
			r = pf_numbers_add(&ids, x->next_row_id + i);
		if (r == 0)
			r = pf_row_ids_put(ids.v, ids.n, &sequence);
	}
	if (r == 0)
		r = pf_put_span(out, LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&sequence));
	if (r == 0)
		x->next_row_id += lacking;
	return r;
}

static bool lacks_row_ids(const struct pf_fragment *f)
{
	uint64_t have = 0;

	if (f->row_ids.kind != PF_LINEAGE_INLINE)
		return f->row_ids.kind == PF_LINEAGE_NONE;
	return pf_row_ids_count(f->row_ids.bytes, &have, NULL) < 0 || have != f->physical_rows;
}

int pf_apply_dress(struct pf_next *x, const struct pf_fragment *f, const struct pf_dress *d, struct pf_buf *out,
		   struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf id = PF_BUF_INIT, ids = PF_BUF_INIT, made = PF_BUF_INIT,
						updated = PF_BUF_INIT;
	struct pf_change v[8];
	size_t n = 0;
	int r = 0;

	if (d->set_id) {
		r = d->id ? pf_wire_put_u64(&id, LANCE__DATA_FRAGMENT__FIELD__ID, d->id) : 0;
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__ID, PF_SPAN_OF(&id) };
	}
	if (r == 0 && d->fill_row_ids && lacks_row_ids(f)) {
		r = fill_row_ids(x, f, &ids, why);
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&ids) };
	}
	if (r == 0 && d->files)
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__FILES, PF_SPAN_OF(d->files) };
	if (r == 0 && d->updated) {
		r = pf_put_span(&updated, LANCE__DATA_FRAGMENT__FIELD__INLINE_LAST_UPDATED_AT_VERSIONS,
				PF_SPAN_OF(d->updated));
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__INLINE_LAST_UPDATED_AT_VERSIONS,
					     PF_SPAN_OF(&updated) };
		v[n++] = (struct pf_change){ .number = LANCE__DATA_FRAGMENT__FIELD__COLUMN_LAST_UPDATED_AT_VERSIONS };
	}
	if (r == 0 && d->made) {
		r = pf_put_span(&made, LANCE__DATA_FRAGMENT__FIELD__INLINE_CREATED_AT_VERSIONS, PF_SPAN_OF(d->made));
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__INLINE_CREATED_AT_VERSIONS,
					     PF_SPAN_OF(&made) };
		v[n++] = (struct pf_change){ .number = LANCE__DATA_FRAGMENT__FIELD__COLUMN_CREATED_AT_VERSIONS };
	}
	return r < 0 ? r : pf_message_change(f->message, v, n, out, why);
}

int pf_apply_add_new(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f,
		     const struct pf_schema *s, bool keep_id, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf versions = PF_BUF_INIT, message = PF_BUF_INIT;
	struct pf_dress d = { .set_id = true, .id = f->id, .fill_row_ids = x->stable };

	int r = pf_apply_check_new(a, x, f, why);
	if (r == 0)
		r = pf_apply_check_columns(f, s, why);
	if (r == 0 && (!keep_id || f->id == 0))
		r = pf_apply_next_id(x, &d.id, why);
	else if (r == 0)
		r = pf_apply_own_id(x, f->id, why);
	if (r == 0 && x->stable) {
		r = pf_row_versions_put_one(x->version, f->physical_rows, &versions);
		d.made = d.updated = &versions;
	}
	if (r == 0)
		r = pf_apply_dress(x, f, &d, &message, why);
	return r < 0 ? r : pf_next_add_fragment(x, PF_SPAN_OF(&message), why);
}

/* Of the hidden columns: row ids, created-at and last-updated-at versions (lance-14 section 1). */
static bool is_needed_hidden(const struct pf_fragment *f, int32_t field)
{
	return (field == -3 && f->row_ids.kind == PF_LINEAGE_COLUMN) ||
	       (field == -4 && f->created_at.kind == PF_LINEAGE_COLUMN) ||
	       (field == -5 && f->updated_at.kind == PF_LINEAGE_COLUMN);
}

bool pf_apply_file_lives(const struct pf_fragment *f, const struct pf_data_file *file, const struct pf_schema *s)
{
	for (size_t i = 0; i < file->n_fields; i++)
		if (pf_schema_find(s, file->fields[i]) || is_needed_hidden(f, file->fields[i]))
			return true;
	return false;
}

int pf_apply_live_files(const struct pf_fragment *f, const struct pf_schema *s, struct pf_buf *files, bool *changed)
{
	int r = 0;

	*changed = false;
	for (size_t i = 0; r == 0 && i < f->n_files; i++) {
		if (pf_apply_file_lives(f, &f->files[i], s))
			r = pf_put_span(files, LANCE__DATA_FRAGMENT__FIELD__FILES, f->files[i].message);
		else
			*changed = true;
	}
	return r;
}
