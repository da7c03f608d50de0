/* Settings: the maps of a manifest, metadata of columns, base paths. */
#include "apply_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "flags.h"
#include "lance.pb-c.h"
#include "text.h"

/* A map while it is edited. Spans into its bytes and into the operation. */
struct map {
	struct pf_buf raw;
	struct pf_map_entry *v;
	size_t n;
};

static void map_release(struct map *m)
{
	pf_buf_release(&m->raw);
	free(m->v);
}

static int map_put(struct map *m, struct pf_span key, struct pf_span value)
{
	for (size_t i = 0; i < m->n; i++) {
		if (pf_span_eq(m->v[i].key, key)) {
			m->v[i].value = value;
			return 0;
		}
	}
	struct pf_map_entry *v = reallocarray(m->v, m->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	m->v = v;
	v[m->n++] = (struct pf_map_entry){ key, value, true };
	return 0;
}

static void map_drop(struct map *m, struct pf_span key)
{
	for (size_t i = 0; i < m->n; i++) {
		if (!pf_span_eq(m->v[i].key, key))
			continue;
		memmove(&m->v[i], &m->v[i + 1], (--m->n - i) * sizeof(*m->v));
		return;
	}
}

/* The entries in m->raw that are the field `number`. */
static int map_read(struct map *m, uint32_t number, struct pf_why *why)
{
	struct pf_message walk, entry;
	struct pf_member f, part;
	int r;

	pf_message_init(&walk, PF_SPAN_OF(&m->raw));
	while ((r = pf_message_next(&walk, &f, why)) > 0) {
		struct pf_span key = { 0 }, value = { 0 };
		if (f.number != number)
			continue;
		pf_message_init(&entry, f.value);
		while ((r = pf_message_next(&entry, &part, why)) > 0) {
			if (part.number == LANCE__MAP_ENTRY__FIELD__KEY)
				key = part.value;
			else if (part.number == LANCE__MAP_ENTRY__FIELD__VALUE)
				value = part.value;
		}
		if (r == 0)
			r = map_put(m, key, value);
		if (r < 0)
			return r;
	}
	return r;
}

static int map_edit(struct map *m, const struct pf_map_edit *e)
{
	int r = 0;

	if (e->replace)
		m->n = 0;
	for (size_t i = 0; r == 0 && i < e->n; i++) {
		if (e->v[i].has_value)
			r = map_put(m, e->v[i].key, e->v[i].value);
		else
			map_drop(m, e->v[i].key);
	}
	return r;
}

static int map_write(const struct map *m, uint32_t number, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < m->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf entry = PF_BUF_INIT;
		if (m->v[i].key.n)
			r = pf_put_span(&entry, LANCE__MAP_ENTRY__FIELD__KEY, m->v[i].key);
		if (r == 0 && m->v[i].value.n)
			r = pf_put_span(&entry, LANCE__MAP_ENTRY__FIELD__VALUE, m->v[i].value);
		if (r == 0)
			r = pf_put_span(out, number, PF_SPAN_OF(&entry));
	}
	return r;
}

static const struct pf_map_entry *map_find(const struct map *m, const char *key)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].key.n == strlen(key) && memcmp(m->v[i].key.p, key, m->v[i].key.n) == 0)
			return &m->v[i];
	return NULL;
}

int pf_apply_edit_map(struct pf_next *x, uint32_t number, const struct pf_map_edit *e, struct pf_why *why)
{
	_cleanup_(map_release) struct map m = { .raw = PF_BUF_INIT };
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;

	if (!e->there)
		return 0;
	int r = pf_next_get_field(x, number, &m.raw, why);
	if (r == 0)
		r = map_read(&m, number, why);
	if (r == 0)
		r = map_edit(&m, e);
	if (r == 0)
		r = map_write(&m, number, &out);
	return r < 0 ? r : pf_next_set_field(x, number, &out);
}

#define PRIMARY	   "lance-schema:unenforced-primary-key"
#define PRIMARY_AT "lance-schema:unenforced-primary-key:position"
#define CLUSTER_AT "lance-schema:unenforced-clustering-key:position"

static bool edits_key(const struct pf_map_edit *e)
{
	static const char *const keys[] = { PRIMARY, PRIMARY_AT, CLUSTER_AT };

	for (size_t i = 0; i < e->n; i++)
		for (size_t k = 0; k < ARRAY_LEN(keys); k++)
			if (e->v[i].key.n == strlen(keys[k]) && memcmp(e->v[i].key.p, keys[k], e->v[i].key.n) == 0)
				return true;
	return false;
}

/* The name of an extension type stands in a field of its own, too, which Lance reads before the metadata and writes from it. */
static int take_extension(const struct pf_column *c, struct map *m, struct pf_why *why)
{
	const struct pf_span key = { (const uint8_t *)PF_EXTENSION, strlen(PF_EXTENSION) };
	struct pf_message walk;
	struct pf_member f;
	int r;

	pf_message_init(&walk, c->message);
	while ((r = pf_message_next(&walk, &f, why)) > 0) {
		if (f.number == LANCE__COLUMN__FIELD__EXTENSION_NAME && f.value.n)
			r = map_put(m, key, f.value);
		if (r < 0)
			return r;
	}
	return r;
}

/* The column with its metadata edited, as a field of the manifest. */
static int edit_column(const struct pf_column *c, const struct pf_map_edit *e, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(map_release) struct map m = { .raw = PF_BUF_INIT };
	_cleanup_(pf_buf_release) struct pf_buf metadata = PF_BUF_INIT, message = PF_BUF_INIT, name = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];

	int r = pf_buf_add(&m.raw, c->message.p, c->message.n);
	if (r == 0)
		r = map_read(&m, LANCE__COLUMN__FIELD__METADATA, why);
	if (r == 0)
		r = take_extension(c, &m, why);
	bool keyed = map_find(&m, PRIMARY) || map_find(&m, PRIMARY_AT) || map_find(&m, CLUSTER_AT);
	/* They decide over fields of their own and never change once set; Lance checks that over the whole schema. */
	if (r == 0 && (edits_key(e) || (keyed && e->replace)))
		return pf_why_set(why, -EOPNOTSUPP,
				  "it sets a primary or clustering key on column %s, which pinfs does not commit",
				  pf_text_quote((const char *)c->name.p, c->name.n, quoted));
	if (r == 0)
		r = map_edit(&m, e);
	if (r == 0)
		r = map_write(&m, LANCE__COLUMN__FIELD__METADATA, &metadata);
	const struct pf_map_entry *extension = map_find(&m, PF_EXTENSION);
	if (r == 0 && extension && extension->value.n)
		r = pf_put_span(&name, LANCE__COLUMN__FIELD__EXTENSION_NAME, extension->value);
	const struct pf_change changes[] = { { LANCE__COLUMN__FIELD__EXTENSION_NAME, PF_SPAN_OF(&name) },
					     { LANCE__COLUMN__FIELD__METADATA, PF_SPAN_OF(&metadata) } };
	if (r == 0)
		r = pf_message_change(c->message, changes, ARRAY_LEN(changes), &message, why);
	return r < 0 ? r : pf_put_span(out, LANCE__MANIFEST__FIELD__FIELDS, PF_SPAN_OF(&message));
}

static const struct pf_map_edit *edit_of(const struct pf_operation *o, int32_t id)
{
	for (size_t i = 0; i < o->n_field_edits; i++)
		if (o->field_edits[i].field == id)
			return &o->field_edits[i].map;
	return NULL;
}

static int edit_columns(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT, out = PF_BUF_INIT;

	if (o->n_field_edits == 0)
		return 0;
	int r = pf_apply_schema(x, &fields, &schema, why);
	for (size_t i = 0; r == 0 && i < o->n_field_edits; i++)
		if (!pf_schema_find(&schema, o->field_edits[i].field))
			return pf_why_set(why, -EINVAL,
					  "it changes metadata of the column with id %" PRId32 ", which is not there",
					  o->field_edits[i].field);
	for (size_t i = 0; r == 0 && i < schema.n; i++) {
		const struct pf_map_edit *e = edit_of(o, schema.v[i].id);
		r = e ? edit_column(&schema.v[i], e, &out, why)
		      : pf_put_span(&out, LANCE__MANIFEST__FIELD__FIELDS, schema.v[i].message);
	}
	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__FIELDS, &out);
}

int pf_apply_update_config(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	int r = pf_apply_edit_map(x, LANCE__MANIFEST__FIELD__CONFIG, &o->config, why);

	if (r == 0)
		r = pf_apply_edit_map(x, LANCE__MANIFEST__FIELD__TABLE_METADATA, &o->table_metadata, why);
	if (r == 0)
		r = pf_apply_edit_map(x, LANCE__MANIFEST__FIELD__SCHEMA_METADATA, &o->schema_edit, why);
	return r < 0 ? r : edit_columns(o, x, why);
}

static bool same_name(const struct pf_base_edit *a, const struct pf_base_edit *b)
{
	return a->has_name == b->has_name && pf_span_eq(a->name, b->name);
}

static int decode_base(struct pf_span message, struct pf_base_edit *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int r;

	*out = (struct pf_base_edit){ .message = message };
	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number == LANCE__BASE_PATH__FIELD__ID)
			r = pf_member_u32(&m, &out->id, why);
		else if (m.number == LANCE__BASE_PATH__FIELD__NAME)
			r = pf_member_text(&m, &out->name, why);
		else if (m.number == LANCE__BASE_PATH__FIELD__PATH)
			r = pf_member_text(&m, &out->path, why);
		out->has_name |= m.number == LANCE__BASE_PATH__FIELD__NAME;
		if (r < 0)
			return r;
	}
	return r;
}

/* Add one to the bases in `raw`, occurrences of the manifest's field. */
static int add_base(struct pf_buf *raw, const struct pf_base_edit *b, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, id = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	struct pf_message walk;
	struct pf_member m;
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	uint32_t assigned = b->id;
	int r;

	pf_message_init(&walk, PF_SPAN_OF(raw));
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		struct pf_base_edit there;
		r = decode_base(m.value, &there, why);
		if (r < 0)
			return r;
		if (same_name(&there, b) || pf_span_eq(there.path, b->path))
			return pf_why_set(why, -EINVAL, "a base path with the name or path of %s is there already",
					  pf_text_quote((const char *)b->path.p, b->path.n, quoted));
		if (b->id && there.id == b->id)
			return pf_why_set(why, -EINVAL, "base %" PRIu32 " is there already, and would be replaced",
					  b->id);
		r = pf_numbers_add(&ids, there.id);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	/* 0 asks for the lowest one that is free, itself not counted. */
	for (assigned = assigned ? assigned : 1; !b->id && pf_numbers_has(&ids, assigned); assigned++)
		;
	r = pf_wire_put_u64(&id, LANCE__BASE_PATH__FIELD__ID, assigned);
	const struct pf_change change = { LANCE__BASE_PATH__FIELD__ID, PF_SPAN_OF(&id) };
	if (r == 0)
		r = pf_message_change(b->message, &change, 1, &message, why);
	return r < 0 ? r : pf_put_span(raw, LANCE__MANIFEST__FIELD__BASE_PATHS, PF_SPAN_OF(&message));
}

int pf_apply_update_bases(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;

	int r = pf_next_get_field(x, LANCE__MANIFEST__FIELD__BASE_PATHS, &raw, why);
	for (size_t i = 0; r == 0 && i < o->n_bases; i++)
		r = add_base(&raw, &o->bases[i], why);
	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__BASE_PATHS, &raw);
}
