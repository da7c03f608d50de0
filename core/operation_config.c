/* Operations that change settings: maps of strings, and base paths. */
#include "operation_parts.h"

#include <inttypes.h>

#include "lance.pb-c.h"

static int take_entry(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_map_entry *e = arg;

	switch (m->number) {
	case LANCE__MAP_ENTRY__FIELD__KEY:
		return pf_member_text(m, &e->key, why);
	case LANCE__MAP_ENTRY__FIELD__VALUE:
		e->has_value = true;
		return pf_member_text(m, &e->value, why);
	default:
		return 0;
	}
}

static struct pf_map_entry *grow_map(struct pf_map_edit *e)
{
	struct pf_map_entry *v = pf_operation_grow(e->v, &e->n, sizeof(*v));

	if (!v)
		return NULL;
	e->v = v;
	e->there = true;
	return &v[e->n - 1];
}

int pf_map_add(struct pf_map_edit *e, const struct pf_member *m, struct pf_why *why)
{
	struct pf_map_entry *entry = grow_map(e);
	struct pf_span message;

	if (!entry)
		return -ENOMEM;
	entry->has_value = true; /* in a plain map an empty value is left out */
	int r = pf_member_span(m, &message, why);
	return r < 0 ? r : pf_operation_walk(message, take_entry, entry, why);
}

static int take_edit(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_map_edit *e = arg;
	struct pf_span message;
	uint64_t v = 0;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__UPDATE_MAP__FIELD__ENTRIES:
		r = pf_member_span(m, &message, why);
		if (r < 0)
			return r;
		struct pf_map_entry *entry = grow_map(e);
		return entry ? pf_operation_walk(message, take_entry, entry, why) : -ENOMEM;
	case LANCE__TRANSACTION__UPDATE_MAP__FIELD__REPLACE:
		r = pf_member_u64(m, &v, why);
		e->replace = v != 0;
		return r;
	default:
		return 0;
	}
}

static int take_map(const struct pf_member *m, struct pf_map_edit *e, struct pf_why *why)
{
	struct pf_span message;
	int r = pf_member_span(m, &message, why);

	e->there = true;
	return r < 0 ? r : pf_operation_walk(message, take_edit, e, why);
}

static int take_old_metadata(void *arg, const struct pf_member *m, struct pf_why *why)
{
	return m->number == LANCE__TRANSACTION__UPDATE_CONFIG__OLD_FIELD_METADATA__FIELD__METADATA
		       ? pf_map_add(arg, m, why)
		       : 0;
}

struct field_entry {
	struct pf_field_edit *edit;
	bool old;
};

static int take_field_entry(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct field_entry *f = arg;
	uint64_t id = 0;
	int r;

	switch (m->number) {
	case LANCE__MAP_ENTRY__FIELD__KEY:
		r = pf_member_u64(m, &id, why);
		f->edit->field = (int32_t)id;
		return r;
	case LANCE__MAP_ENTRY__FIELD__VALUE:
		if (!f->old)
			return take_map(m, &f->edit->map, why);
		/* The old form said all of a field's metadata. */
		f->edit->map.there = f->edit->map.replace = true;
		r = m->type == PF_WIRE_LEN ? 0 : -EBADMSG;
		return r < 0 ? r : pf_operation_walk(m->value, take_old_metadata, &f->edit->map, why);
	default:
		return 0;
	}
}

static int add_field_edit(struct pf_operation *o, const struct pf_member *m, bool old, struct pf_why *why)
{
	struct pf_field_edit *v = pf_operation_grow(o->field_edits, &o->n_field_edits, sizeof(*v));
	struct pf_span message;

	if (!v)
		return -ENOMEM;
	o->field_edits = v;
	struct field_entry entry = { &v[o->n_field_edits - 1], old };
	int r = pf_member_span(m, &message, why);
	return r < 0 ? r : pf_operation_walk(message, take_field_entry, &entry, why);
}

/* Fields 1 to 4 are how it was said before 6 to 9; Lance reads both, not mixed. */
int pf_operation_take_config(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	struct pf_map_entry *entry;
	bool is_old = m->number <= LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__FIELD_METADATA,
	     is_new = !is_old && m->number <= LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__FIELD_METADATA_UPDATES;

	if ((is_old && o->has_new_config) || (is_new && o->has_old_config))
		return pf_why_set(why, -EBADMSG, "it says what to change in the old form and in the new one");
	o->has_old_config |= is_old;
	o->has_new_config |= is_new;
	switch (m->number) {
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__UPSERT_VALUES:
		return pf_map_add(&o->config, m, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__DELETE_KEYS:
		entry = grow_map(&o->config);
		return entry ? pf_member_text(m, &entry->key, why) : -ENOMEM;
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__SCHEMA_METADATA:
		o->schema_edit.replace = true;
		return pf_map_add(&o->schema_edit, m, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__FIELD_METADATA:
		return add_field_edit(o, m, true, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__CONFIG_UPDATES:
		return take_map(m, &o->config, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__TABLE_METADATA_UPDATES:
		return take_map(m, &o->table_metadata, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__SCHEMA_METADATA_UPDATES:
		return take_map(m, &o->schema_edit, why);
	case LANCE__TRANSACTION__UPDATE_CONFIG__FIELD__FIELD_METADATA_UPDATES:
		return add_field_edit(o, m, false, why);
	default:
		return 0;
	}
}

static int take_base(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_base_edit *b = arg;

	switch (m->number) {
	case LANCE__BASE_PATH__FIELD__ID:
		return pf_member_u32(m, &b->id, why);
	case LANCE__BASE_PATH__FIELD__NAME:
		b->has_name = true;
		return pf_member_text(m, &b->name, why);
	case LANCE__BASE_PATH__FIELD__PATH:
		return pf_member_text(m, &b->path, why);
	default:
		return 0;
	}
}

int pf_operation_add_base(struct pf_operation *o, const struct pf_member *m, struct pf_why *why)
{
	struct pf_base_edit *v = pf_operation_grow(o->bases, &o->n_bases, sizeof(*v));

	if (!v)
		return -ENOMEM;
	o->bases = v;
	int r = pf_member_span(m, &v[o->n_bases - 1].message, why);
	return r < 0 ? r : pf_operation_walk(v[o->n_bases - 1].message, take_base, &v[o->n_bases - 1], why);
}
