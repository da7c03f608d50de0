#include "operation.h"

#include <inttypes.h>
#include <stdio.h>

#include "lance.pb-c.h"
#include "operation_parts.h"

static void release_edit(struct pf_map_edit *e)
{
	free(e->v);
}

void pf_operation_release(struct pf_operation *o)
{
	for (size_t i = 0; i < o->n_groups; i++) {
		pf_fragments_release(&o->groups[i].from);
		pf_fragments_release(&o->groups[i].to);
	}
	for (size_t i = 0; i < o->n_swaps; i++)
		pf_buf_release(&o->swaps[i].files);
	for (size_t i = 0; i < o->n_replacements; i++)
		pf_data_file_release(&o->replacements[i].file);
	for (size_t i = 0; i < o->n_field_edits; i++)
		release_edit(&o->field_edits[i].map);
	for (size_t i = 0; i < o->n_offsets; i++)
		pf_numbers_release(&o->offsets[i].offsets);
	free(o->groups);
	free(o->swaps);
	free(o->replacements);
	free(o->field_edits);
	free(o->offsets);
	free(o->bases);
	free(o->new_entries);
	release_edit(&o->config);
	release_edit(&o->table_metadata);
	release_edit(&o->schema_edit);
	pf_fragments_release(&o->added);
	pf_fragments_release(&o->updated);
	pf_numbers_release(&o->removed);
	pf_numbers_release(&o->overlaid);
	pf_numbers_release(&o->fields_modified);
	pf_numbers_release(&o->fields_kept);
	pf_indices_release(&o->new_indices);
	pf_indices_release(&o->removed_indices);
	pf_schema_release(&o->schema);
	pf_buf_release(&o->schema_metadata);
	pf_buf_release(&o->bytes);
	*o = (struct pf_operation){ 0 };
}

void *pf_operation_grow(void *v, size_t *n, size_t size)
{
	uint8_t *more = reallocarray(v, *n + 1, size);

	if (more)
		memset(more + (*n)++ * size, 0, size);
	return more;
}

int pf_operation_walk(struct pf_span message, pf_member_fn fn, void *arg, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		r = fn(arg, &m, why);
		if (r < 0)
			return r;
	}
	return r;
}

static int add_fragment(struct pf_fragments *l, const struct pf_member *m, struct pf_why *why)
{
	struct pf_span message;
	int r = pf_member_span(m, &message, why);

	if (r == 0)
		r = pf_fragments_add(l, message, why);
	return r < 0 ? pf_why_prefix(why, r, "fragment %zu of the transaction", l->n) : 0;
}

static int add_column(struct pf_operation *o, const struct pf_member *m, struct pf_why *why)
{
	struct pf_span message;
	int r = pf_member_span(m, &message, why);

	return r < 0 ? r : pf_schema_add(&o->schema, message, why);
}

static int take_append(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;

	return m->number == LANCE__TRANSACTION__APPEND__FIELD__FRAGMENTS ? add_fragment(&o->added, m, why) : 0;
}

static int take_delete(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;

	switch (m->number) {
	case LANCE__TRANSACTION__DELETE__FIELD__UPDATED_FRAGMENTS:
		return add_fragment(&o->updated, m, why);
	case LANCE__TRANSACTION__DELETE__FIELD__DELETED_FRAGMENT_IDS:
		return pf_member_numbers(m, &o->removed, why);
	default:
		return 0;
	}
}

static int take_overwrite(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;

	switch (m->number) {
	case LANCE__TRANSACTION__OVERWRITE__FIELD__FRAGMENTS:
		return add_fragment(&o->added, m, why);
	case LANCE__TRANSACTION__OVERWRITE__FIELD__SCHEMA:
		return add_column(o, m, why);
	case LANCE__TRANSACTION__OVERWRITE__FIELD__SCHEMA_METADATA:
		return pf_put_span(&o->schema_metadata, LANCE__MANIFEST__FIELD__SCHEMA_METADATA, m->value);
	case LANCE__TRANSACTION__OVERWRITE__FIELD__CONFIG_UPSERT_VALUES:
		return pf_map_add(&o->config, m, why);
	case LANCE__TRANSACTION__OVERWRITE__FIELD__INITIAL_BASES:
		return pf_operation_add_base(o, m, why);
	default:
		return 0;
	}
}

static int take_merge(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	uint64_t v = 0;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__MERGE__FIELD__FRAGMENTS:
		return add_fragment(&o->added, m, why);
	case LANCE__TRANSACTION__MERGE__FIELD__SCHEMA:
		return add_column(o, m, why);
	case LANCE__TRANSACTION__MERGE__FIELD__SCHEMA_METADATA:
		return pf_put_span(&o->schema_metadata, LANCE__MANIFEST__FIELD__SCHEMA_METADATA, m->value);
	case LANCE__TRANSACTION__MERGE__FIELD__PRESERVES_NULLABILITY:
		r = pf_member_u64(m, &v, why);
		o->keeps_nulls = v != 0;
		return r;
	default:
		return 0;
	}
}

static int take_project(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	uint64_t v = 0;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__PROJECT__FIELD__SCHEMA:
		return add_column(o, m, why);
	case LANCE__TRANSACTION__PROJECT__FIELD__PRESERVES_NULLABILITY:
		r = pf_member_u64(m, &v, why);
		o->keeps_nulls = v != 0;
		return r;
	default:
		return 0;
	}
}

static int take_create_index(struct pf_operation *o, struct pf_why *why)
{
	struct pf_mem_reader mem;
	struct pf_message walk;
	struct pf_member m;
	size_t n = 0;

	pf_mem_reader_init(&mem, o->body.p, o->body.n);
	int r = pf_indices_take(&mem.base, 0, o->body.n, LANCE__TRANSACTION__CREATE_INDEX__FIELD__NEW_INDICES,
				&o->new_indices, why);
	if (r == 0)
		r = pf_indices_take(&mem.base, 0, o->body.n, LANCE__TRANSACTION__CREATE_INDEX__FIELD__REMOVED_INDICES,
				    &o->removed_indices, why);
	if (r < 0 || o->new_indices.n == 0)
		return r;
	o->new_entries = calloc(o->new_indices.n, sizeof(*o->new_entries));
	if (!o->new_entries)
		return -ENOMEM;
	pf_message_init(&walk, o->body);
	while ((r = pf_message_next(&walk, &m, why)) > 0)
		if (m.number == LANCE__TRANSACTION__CREATE_INDEX__FIELD__NEW_INDICES)
			o->new_entries[n++] = m.value;
	return r;
}

static int take_group(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_rewrite_group *g = arg;

	switch (m->number) {
	case LANCE__TRANSACTION__REWRITE__GROUP__FIELD__OLD_FRAGMENTS:
		return add_fragment(&g->from, m, why);
	case LANCE__TRANSACTION__REWRITE__GROUP__FIELD__NEW_FRAGMENTS:
		return add_fragment(&g->to, m, why);
	default:
		return 0;
	}
}

static int add_group(struct pf_operation *o, struct pf_span message, struct pf_why *why)
{
	struct pf_rewrite_group *v = pf_operation_grow(o->groups, &o->n_groups, sizeof(*v));

	if (!v)
		return -ENOMEM;
	o->groups = v;
	return pf_operation_walk(message, take_group, &v[o->n_groups - 1], why);
}

static int take_uuid(const struct pf_member *m, char out[PF_UUID_TEXT], struct pf_why *why)
{
	struct pf_uuid id;
	struct pf_span message;
	int r = pf_member_span(m, &message, why);

	if (r < 0)
		return r;
	Lance__UUID *u = lance__uuid__unpack(NULL, message.n, message.p);
	bool ok = u && u->uuid.len == sizeof(id.b);
	if (ok)
		memcpy(id.b, u->uuid.data, sizeof(id.b));
	if (u)
		lance__uuid__free_unpacked(u, NULL);
	if (!ok)
		return pf_why_set(why, -EBADMSG, "expected a uuid of %zu bytes", sizeof(id.b));
	pf_uuid_format(&id, out);
	return 0;
}

static int take_swap(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_index_swap *s = arg;

	switch (m->number) {
	case LANCE__TRANSACTION__REWRITE__INDEX__FIELD__OLD_ID:
		return take_uuid(m, s->from, why);
	case LANCE__TRANSACTION__REWRITE__INDEX__FIELD__NEW_ID:
		s->uuid = m->value;
		return take_uuid(m, s->to, why);
	case LANCE__TRANSACTION__REWRITE__INDEX__FIELD__FILES:
		return pf_put_span(&s->files, LANCE__INDEX_METADATA__FIELD__FILES, m->value);
	default:
		return 0;
	}
}

static int take_rewrite(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	struct pf_span message;
	int r = 0;

	if (m->number == LANCE__TRANSACTION__REWRITE__FIELD__GROUPS) {
		r = pf_member_span(m, &message, why);
		return r < 0 ? r : add_group(o, message, why);
	}
	if (m->number != LANCE__TRANSACTION__REWRITE__FIELD__REWRITTEN_INDICES)
		return 0;
	struct pf_index_swap *v = pf_operation_grow(o->swaps, &o->n_swaps, sizeof(*v));
	if (!v)
		return -ENOMEM;
	o->swaps = v;
	r = pf_member_span(m, &message, why);
	return r < 0 ? r : pf_operation_walk(message, take_swap, &v[o->n_swaps - 1], why);
}

static int take_replacement(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_replacement *p = arg;
	struct pf_span message;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__DATA_REPLACEMENT__GROUP__FIELD__FRAGMENT_ID:
		return pf_member_u64(m, &p->fragment, why);
	case LANCE__TRANSACTION__DATA_REPLACEMENT__GROUP__FIELD__NEW_FILE:
		pf_data_file_release(&p->file);
		r = pf_member_span(m, &message, why);
		return r < 0 ? r : pf_data_file_decode(message, &p->file, why);
	default:
		return 0;
	}
}

static int take_data_replacement(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	struct pf_span message;

	if (m->number != LANCE__TRANSACTION__DATA_REPLACEMENT__FIELD__REPLACEMENTS)
		return 0;
	struct pf_replacement *v = pf_operation_grow(o->replacements, &o->n_replacements, sizeof(*v));
	if (!v)
		return -ENOMEM;
	o->replacements = v;
	int r = pf_member_span(m, &message, why);
	if (r == 0)
		r = pf_operation_walk(message, take_replacement, &v[o->n_replacements - 1], why);
	if (r == 0 && !v[o->n_replacements - 1].file.message.p)
		return pf_why_set(why, -EBADMSG, "expected a replacement to have a file");
	return r;
}

static int take_overlay_group(void *arg, const struct pf_member *m, struct pf_why *why)
{
	return m->number == LANCE__TRANSACTION__DATA_OVERLAY__GROUP__FIELD__FRAGMENT_ID ? pf_member_u64(m, arg, why)
											: 0;
}

static int take_overlay(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	struct pf_span message;
	uint64_t id = 0;

	if (m->number != LANCE__TRANSACTION__DATA_OVERLAY__FIELD__GROUPS)
		return 0;
	int r = pf_member_span(m, &message, why);
	if (r == 0)
		r = pf_operation_walk(message, take_overlay_group, &id, why);
	return r < 0 ? r : pf_numbers_add(&o->overlaid, id);
}

static int take_offsets_entry(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_row_offsets *e = arg;

	if (m->number == LANCE__MAP_ENTRY__FIELD__KEY)
		return pf_member_u64(m, &e->fragment, why);
	return m->number == LANCE__MAP_ENTRY__FIELD__VALUE ? pf_member_span(m, &e->bitmap, why) : 0;
}

static int take_list(void *arg, const struct pf_member *m, struct pf_why *why)
{
	return m->number == 1 ? pf_member_numbers(m, arg, why) : 0;
}

/* `list`: of the older form, a message of numbers. */
static int add_offsets(struct pf_operation *o, const struct pf_member *m, bool list, struct pf_why *why)
{
	struct pf_row_offsets *v = pf_operation_grow(o->offsets, &o->n_offsets, sizeof(*v)), *e;
	struct pf_span message;

	if (!v)
		return -ENOMEM;
	o->offsets = v;
	e = &v[o->n_offsets - 1];
	int r = pf_member_span(m, &message, why);
	if (r == 0)
		r = pf_operation_walk(message, take_offsets_entry, e, why);
	if (r < 0 || !list)
		return r;
	message = e->bitmap;
	e->bitmap = (struct pf_span){ 0 };
	return pf_operation_walk(message, take_list, &e->offsets, why);
}

static int take_update(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	uint64_t v = 0;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__UPDATE__FIELD__REMOVED_FRAGMENT_IDS:
		return pf_member_numbers(m, &o->removed, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_FRAGMENTS:
		return add_fragment(&o->updated, m, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__NEW_FRAGMENTS:
		return add_fragment(&o->added, m, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__FIELDS_MODIFIED:
		return pf_member_numbers(m, &o->fields_modified, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__COMPACTED_SSTABLES:
		o->has_sstables = true;
		return 0;
	case LANCE__TRANSACTION__UPDATE__FIELD__FIELDS_FOR_PRESERVING_BITMAP:
		return pf_member_numbers(m, &o->fields_kept, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__UPDATE_MODE:
		r = pf_member_u64(m, &v, why);
		o->in_place = v == LANCE__TRANSACTION__UPDATE__MODE__REWRITE_COLUMNS;
		return r;
	case LANCE__TRANSACTION__UPDATE__FIELD__INSERTED_ROWS:
		o->has_filter = true;
		return pf_member_span(m, &o->filter, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_OFFSETS:
		return add_offsets(o, m, true, why);
	case LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_OFFSET_BITMAPS:
		return add_offsets(o, m, false, why);
	default:
		return 0;
	}
}

static int take_version(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;

	return m->number == LANCE__TRANSACTION__RESTORE__FIELD__VERSION ? pf_member_u64(m, &o->version, why) : 0;
}

static int take_count(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;

	return m->number == LANCE__TRANSACTION__RESERVE_FRAGMENTS__FIELD__NUM_FRAGMENTS
		       ? pf_member_u64(m, &o->count, why)
		       : 0;
}

static int take_bases(void *arg, const struct pf_member *m, struct pf_why *why)
{
	return m->number == LANCE__TRANSACTION__UPDATE_BASES__FIELD__NEW_BASES ? pf_operation_add_base(arg, m, why) : 0;
}

/* The newer form of the row offsets counts alone. */
static void prefer_bitmaps(struct pf_operation *o)
{
	bool any = false;
	size_t n = 0;

	for (size_t i = 0; i < o->n_offsets; i++)
		any |= o->offsets[i].bitmap.n > 0;
	for (size_t i = 0; any && i < o->n_offsets; i++) {
		if (o->offsets[i].bitmap.n > 0)
			o->offsets[n++] = o->offsets[i];
		else
			pf_numbers_release(&o->offsets[i].offsets);
	}
	if (any)
		o->n_offsets = n;
}

static int take_body(struct pf_operation *o, struct pf_why *why)
{
	static const pf_member_fn takers[] = {
		[LANCE__TRANSACTION__OPERATION__APPEND - 100] = take_append,
		[LANCE__TRANSACTION__OPERATION__DELETE - 100] = take_delete,
		[LANCE__TRANSACTION__OPERATION__OVERWRITE - 100] = take_overwrite,
		[LANCE__TRANSACTION__OPERATION__REWRITE - 100] = take_rewrite,
		[LANCE__TRANSACTION__OPERATION__MERGE - 100] = take_merge,
		[LANCE__TRANSACTION__OPERATION__RESTORE - 100] = take_version,
		[LANCE__TRANSACTION__OPERATION__RESERVE_FRAGMENTS - 100] = take_count,
		[LANCE__TRANSACTION__OPERATION__UPDATE - 100] = take_update,
		[LANCE__TRANSACTION__OPERATION__PROJECT - 100] = take_project,
		[LANCE__TRANSACTION__OPERATION__UPDATE_CONFIG - 100] = pf_operation_take_config,
		[LANCE__TRANSACTION__OPERATION__DATA_REPLACEMENT - 100] = take_data_replacement,
		[LANCE__TRANSACTION__OPERATION__UPDATE_BASES - 100] = take_bases,
		[LANCE__TRANSACTION__OPERATION__DATA_OVERLAY - 100] = take_overlay,
	};
	int r = 0;

	if (o->number == LANCE__TRANSACTION__OPERATION__CREATE_INDEX)
		return take_create_index(o, why);
	if (o->number >= 100 && o->number - 100 < ARRAY_LEN(takers) && takers[o->number - 100])
		r = pf_operation_walk(o->body, takers[o->number - 100], o, why);
	if (r == 0 && o->number == LANCE__TRANSACTION__OPERATION__REWRITE && o->n_groups == 0)
		r = add_group(o, o->body, why); /* from before groups: the same two fields, on top */
	if (r == 0)
		prefer_bitmaps(o);
	return r;
}

/* The last of Lance's numbers counts, as in any oneof; others leave it unknown. */
static int take_member(void *arg, const struct pf_member *m, struct pf_why *why)
{
	struct pf_operation *o = arg;
	struct pf_uuid id;
	struct pf_span text;
	int r;

	switch (m->number) {
	case LANCE__TRANSACTION__FIELD__READ_VERSION:
		return pf_member_u64(m, &o->read_version, why);
	case LANCE__TRANSACTION__FIELD__UUID:
		r = pf_member_text(m, &text, why);
		o->uuid[0] = '\0';
		if (r == 0 && text.n == PF_UUID_TEXT - 1 && pf_uuid_parse((const char *)text.p, text.n, &id, NULL) == 0)
			snprintf(o->uuid, sizeof(o->uuid), "%.*s", (int)text.n, (const char *)text.p);
		return r;
	case LANCE__TRANSACTION__FIELD__TAG:
		return pf_member_text(m, &o->tag, why);
	default:
		if (m->number < LANCE__TRANSACTION__OPERATION__APPEND ||
		    m->number > LANCE__TRANSACTION__OPERATION__DATA_OVERLAY)
			return 0;
		o->number = m->number;
		return pf_member_span(m, &o->body, why);
	}
}

int pf_operation_decode(struct pf_buf *bytes, struct pf_operation *out, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { .bytes = *bytes };
	struct pf_why inner = PF_WHY_INIT;

	*bytes = (struct pf_buf)PF_BUF_INIT;
	if (o.bytes.len == 0)
		return pf_why_set(why, -EBADMSG, "expected a transaction, found an empty file");
	int r = pf_operation_walk(PF_SPAN_OF(&o.bytes), take_member, &o, &inner);
	if (r == 0)
		r = take_body(&o, &inner);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", o.number ? pf_operation_name(&o) : "transaction",
				  inner.text[0] ? inner.text : strerror(-r));
	*out = o;
	o = (struct pf_operation){ 0 };
	return 0;
}

const char *pf_operation_name(const struct pf_operation *o)
{
	char unused[32];

	return o->number ? pf_txn_operation_name(o->number, unused) : "Unknown";
}

int pf_operation_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_operation *out,
		      struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	int r = pf_txn_bytes(st, dir, m, &bytes, why);

	if (r < 0)
		return r;
	r = pf_operation_decode(&bytes, out, why);
	return r < 0 ? pf_why_prefix(why, r, "the transaction of version %" PRIu64, m->version) : 0;
}

int pf_operation_file(struct pf_store *st, const char *dir, const struct pf_operation *o, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf there = PF_BUF_INIT;
	_cleanup_(pf_freep) char *name = NULL;

	int r = pf_txn_file_name(dir, o->read_version, o->uuid, &name);
	if (r < 0)
		return r;
	r = pf_store_get(st, name, o->bytes.len, &there);
	if (r == -ENOENT)
		return 0;
	if (r < 0 && r != -EFBIG)
		return pf_why_set(why, r, "cannot read %s: %s", name, strerror(-r));
	if (r < 0 || !pf_span_eq(PF_SPAN_OF(&there), PF_SPAN_OF(&o->bytes)))
		return pf_why_set(why, -EEXIST, "%s is there and is another transaction under the same uuid", name);
	return 1;
}
