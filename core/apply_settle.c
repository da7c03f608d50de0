/* What Lance sees to in every version that it builds, whatever the operation: how blob columns look, and row ids. */
#include "apply_parts.h"

#include <inttypes.h>

#include "flags.h"
#include "lance.pb-c.h"
#include "row_ids.h"
#include "text.h"

/* Written by releases that have blobs as they are since data format 2.2. */
static bool has_new_blobs(const struct pf_data_file *f)
{
	return f->major == 2 && f->minor >= 2;
}

typedef int (*fragment_fn)(void *arg, const struct pf_fragment *f);

static int each_fragment(struct pf_reader *rd, const struct pf_roster *l, fragment_fn fn, void *arg, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
		r = pf_slot_load(rd, &l->v[i], &message, why);
		if (r == 0)
			r = pf_fragment_decode(PF_SPAN_OF(&message), &f, why);
		if (r == 0)
			r = fn(arg, &f);
	}
	return r;
}

struct search {
	const struct pf_numbers *old;
	struct pf_numbers found; /* those that a new file has */
};

static int search_fragment(void *arg, const struct pf_fragment *f)
{
	struct search *s = arg;
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->old->n; i++)
		for (size_t k = 0; r == 0 && k < f->n_files && !pf_numbers_has(&s->found, s->old->v[i]); k++)
			if (has_new_blobs(&f->files[k]) && pf_data_file_has(&f->files[k], (int32_t)s->old->v[i]))
				r = pf_numbers_add(&s->found, s->old->v[i]);
	return r;
}

static int raise_to_file_fields(void *arg, const struct pf_fragment *f)
{
	int32_t *max = arg;

	for (size_t i = 0; i < f->n_files; i++)
		for (size_t k = 0; k < f->files[i].n_fields; k++)
			*max = f->files[i].fields[k] > *max ? f->files[i].fields[k] : *max;
	return 0;
}

static void raise_to_columns(const struct pf_schema *s, int32_t *max)
{
	for (size_t i = 0; i < s->n; i++)
		*max = s->v[i].id > *max ? s->v[i].id : *max;
}

/* The highest field id that the head ever gave out, as far as can be told. */
static int highest_field(const struct pf_apply *a, struct pf_next *x, int32_t *max, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_roster_release) struct pf_roster roster = { 0 };
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	uint64_t mark;
	bool has_mark;

	int r = pf_manifest_reopen(pf_branch_store(a->branch), x->base, &file, why);
	if (r == 0)
		r = pf_manifest_get_field(&file->r, x->base, LANCE__MANIFEST__FIELD__FIELDS, &fields, why);
	if (r == 0)
		r = pf_schema_read(PF_SPAN_OF(&fields), LANCE__MANIFEST__FIELD__FIELDS, &schema, why);
	if (r == 0)
		r = pf_manifest_get_u64(&file->r, x->base, LANCE__MANIFEST__FIELD__MAX_ALLOCATED_FIELD_ID, &has_mark,
					&mark, why);
	if (r == 0)
		r = pf_roster_read(&file->r, x->base, &roster, why);
	if (r == 0)
		r = each_fragment(&file->r, &roster, raise_to_file_fields, max, why);
	if (r < 0)
		return r;
	raise_to_columns(&schema, max);
	if (has_mark && mark <= INT32_MAX && (int32_t)mark > *max)
		*max = (int32_t)mark;
	return 0;
}

/* The column as a struct of what a blob may be; what is below it follows. */
static int put_promoted(const struct pf_column *c, struct pf_buf *out, struct pf_why *why)
{
	static const char type[] = "struct";
	_cleanup_(pf_buf_release) struct pf_buf kind = PF_BUF_INIT, extension = PF_BUF_INIT, metadata = PF_BUF_INIT,
						entry = PF_BUF_INIT, message = PF_BUF_INIT;
	struct pf_message walk, part;
	struct pf_member m, key;
	int r;

	pf_message_init(&walk, c->message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		bool goes = false;
		if (m.number != LANCE__COLUMN__FIELD__METADATA)
			continue;
		pf_message_init(&part, m.value);
		while ((r = pf_message_next(&part, &key, why)) > 0)
			if (key.number == LANCE__MAP_ENTRY__FIELD__KEY)
				goes = (key.value.n == strlen(PF_BLOB) &&
					memcmp(key.value.p, PF_BLOB, key.value.n) == 0) ||
				       (key.value.n == strlen(PF_EXTENSION) &&
					memcmp(key.value.p, PF_EXTENSION, key.value.n) == 0);
		if (r == 0 && !goes)
			r = pf_buf_add(&metadata, m.whole.p, m.whole.n);
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = pf_wire_put_bytes(&entry, LANCE__MAP_ENTRY__FIELD__KEY, PF_EXTENSION, strlen(PF_EXTENSION));
	if (r == 0)
		r = pf_wire_put_bytes(&entry, LANCE__MAP_ENTRY__FIELD__VALUE, PF_BLOB_V2, strlen(PF_BLOB_V2));
	if (r == 0)
		r = pf_put_span(&metadata, LANCE__COLUMN__FIELD__METADATA, PF_SPAN_OF(&entry));
	if (r == 0)
		r = pf_wire_put_bytes(&kind, LANCE__COLUMN__FIELD__LOGICAL_TYPE, type, sizeof(type) - 1);
	if (r == 0)
		r = pf_wire_put_bytes(&extension, LANCE__COLUMN__FIELD__EXTENSION_NAME, PF_BLOB_V2, strlen(PF_BLOB_V2));
	const struct pf_change changes[] = { { LANCE__COLUMN__FIELD__LOGICAL_TYPE, PF_SPAN_OF(&kind) },
					     { .number = LANCE__COLUMN__FIELD__ENCODING },
					     { LANCE__COLUMN__FIELD__EXTENSION_NAME, PF_SPAN_OF(&extension) },
					     { LANCE__COLUMN__FIELD__METADATA, PF_SPAN_OF(&metadata) } };
	if (r == 0)
		r = pf_message_change(c->message, changes, ARRAY_LEN(changes), &message, why);
	return r < 0 ? r : pf_put_span(out, LANCE__MANIFEST__FIELD__FIELDS, PF_SPAN_OF(&message));
}

static int put_child(const char *name, const char *type, int32_t id, int32_t parent, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = pf_wire_put_bytes(&b, LANCE__COLUMN__FIELD__NAME, name, strlen(name));

	if (r == 0)
		r = pf_wire_put_u64(&b, LANCE__COLUMN__FIELD__ID, (uint64_t)id);
	if (r == 0 && parent)
		r = pf_wire_put_u64(&b, LANCE__COLUMN__FIELD__PARENT_ID, (uint64_t)parent);
	if (r == 0)
		r = pf_wire_put_bytes(&b, LANCE__COLUMN__FIELD__LOGICAL_TYPE, type, strlen(type));
	if (r == 0)
		r = pf_wire_put_u64(&b, LANCE__COLUMN__FIELD__NULLABLE, 1);
	if (r == 0)
		r = pf_wire_put_u64(&b, LANCE__COLUMN__FIELD__ENCODING, LANCE__COLUMN__ENCODING__VAR_BINARY);
	return r < 0 ? r : pf_put_span(out, LANCE__MANIFEST__FIELD__FIELDS, PF_SPAN_OF(&b));
}

static int promote(const struct pf_apply *a, struct pf_next *x, const struct pf_schema *s, const struct pf_numbers *ids,
		   struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT, mark = PF_BUF_INIT;
	int32_t max = -1;

	int r = highest_field(a, x, &max, why);
	raise_to_columns(s, &max);
	if (r == 0 && (size_t)(INT32_MAX - max) < 2 * ids->n)
		return pf_why_set(why, -EOPNOTSUPP, "no field id is left");
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		const struct pf_column *c = &s->v[i];
		if (!pf_numbers_has(ids, (uint64_t)c->id)) {
			r = pf_put_span(&fields, LANCE__MANIFEST__FIELD__FIELDS, c->message);
			continue;
		}
		/* Ids are given in ascending order of the columns. */
		int32_t first = max + 1;
		for (size_t k = 0; k < ids->n; k++)
			first += 2 * ((int32_t)ids->v[k] < c->id);
		r = put_promoted(c, &fields, why);
		if (r == 0)
			r = put_child("data", "large_binary", first, c->id, &fields);
		if (r == 0)
			r = put_child("uri", "string", first + 1, c->id, &fields);
	}
	if (r == 0)
		r = pf_next_set_field(x, LANCE__MANIFEST__FIELD__FIELDS, &fields);
	if (r < 0 || !(x->base->writer_flags & PF_FLAG_FIXED_FIELD_IDS))
		return r;
	r = pf_wire_put_u64(&mark, LANCE__MANIFEST__FIELD__MAX_ALLOCATED_FIELD_ID, (uint64_t)max + 2 * ids->n);
	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__MAX_ALLOCATED_FIELD_ID, &mark);
}

/* The first file of data format 2.2 that has a blob column makes it one of the new kind for all. */
static int promote_blobs(const struct pf_apply *a, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	_cleanup_(pf_numbers_release) struct pf_numbers old = { 0 };
	struct search search = { .old = &old };

	int r = pf_apply_schema(x, &fields, &schema, why);
	for (size_t i = 0; r == 0 && i < schema.n; i++) {
		r = pf_schema_is_leaf(&schema, &schema.v[i]) ? pf_apply_blob_kind(&schema.v[i], why) : 0;
		if (r > 0)
			r = r == 1 ? pf_numbers_add(&old, (uint64_t)schema.v[i].id) : 0;
	}
	if (r < 0 || old.n == 0)
		return r;
	r = each_fragment(&x->file->r, &x->roster, search_fragment, &search, why);
	if (r == 0 && search.found.n)
		r = promote(a, x, &schema, &search.found, why);
	pf_numbers_release(&search.found);
	return r;
}

/* Schema metadata may ask for managed blobs, and then the table has the feature from then on. */
static int follow_managed_blobs(struct pf_next *x, struct pf_why *why)
{
	const uint32_t number = LANCE__MANIFEST__FIELD__SCHEMA_METADATA;
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	struct pf_span value;

	int r = pf_next_get_field(x, number, &raw, why);
	if (r == 0)
		r = pf_message_map_value(PF_SPAN_OF(&raw), number, "lance.blob.managed", &value, why);
	if (r <= 0 || (value.n == 5 && memcmp(value.p, "false", 5) == 0))
		return r < 0 ? r : 0;
	if (value.n != 4 || memcmp(value.p, "true", 4) != 0)
		return pf_why_set(why, -EINVAL, "schema metadata lance.blob.managed must be true or false");
	x->sticky |= PF_FLAG_MANAGED_BLOBS;
	return 0;
}

/* Does the table ask for row ids in ranges? In the map of settings that `raw` has. */
static int wants_ranges(const struct pf_buf *raw, struct pf_why *why)
{
	struct pf_span value;
	int r = pf_message_map_value(PF_SPAN_OF(raw), LANCE__MANIFEST__FIELD__CONFIG, "lance.row_ids.range_segments",
				     &value, why);

	return r > 0 ? pf_is_truthy(value) : r;
}

static int use_ranges(struct pf_next *x, struct pf_slot *slot, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, ids = PF_BUF_INIT, field = PF_BUF_INIT,
						changed = PF_BUF_INIT;
	_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };

	int r = pf_next_load(x, slot, &message, why);
	if (r == 0)
		r = pf_fragment_decode(PF_SPAN_OF(&message), &f, why);
	if (r < 0 || f.row_ids.kind != PF_LINEAGE_INLINE)
		return r;
	r = pf_row_ids_put_ranges(f.row_ids.bytes, &ids, why);
	if (r <= 0)
		return r;
	r = pf_put_span(&field, LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&ids));
	const struct pf_change change = { LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&field) };
	if (r == 0)
		r = pf_message_change(PF_SPAN_OF(&message), &change, 1, &changed, why);
	return r < 0 ? r : pf_next_replace_fragment(x, slot, PF_SPAN_OF(&changed), why);
}

/* All fragments once when it is asked for, and from then on those that come. */
static int put_row_ids_in_ranges(const struct pf_apply *a, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf now = PF_BUF_INIT, was = PF_BUF_INIT;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	int before;

	if (!x->stable)
		return 0;
	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__CONFIG, &now, why);
	if (r == 0)
		r = wants_ranges(&now, why);
	if (r <= 0)
		return r;
	r = pf_manifest_reopen(pf_branch_store(a->branch), x->base, &file, why);
	if (r == 0)
		r = pf_manifest_get_field(&file->r, x->base, LANCE__MANIFEST__FIELD__CONFIG, &was, why);
	before = r < 0 ? r : wants_ranges(&was, why);
	r = before < 0 ? before : 0;
	for (size_t i = 0; r == 0 && i < x->roster.n; i++)
		if (!before || x->roster.v[i].mem)
			r = use_ranges(x, &x->roster.v[i], why);
	return r;
}

int pf_apply_settle(const struct pf_apply *a, struct pf_next *x, struct pf_why *why)
{
	int r = promote_blobs(a, x, why);

	if (r == 0)
		r = follow_managed_blobs(x, why);
	return r < 0 ? r : put_row_ids_in_ranges(a, x, why);
}
