#include "shape.h"

#include <string.h>

#include "lance.pb-c.h"
#include "text.h"

/* No text of a manifest comes near. */
#define TEXT_MAX ((size_t)64 * 1024 * 1024)

/* NUMBERS: one, or many packed. FOREIGN: what pinfs refuses tables for (flags.h). */
enum kind { NUMBER, NUMBERS, BYTES, TEXT, MESSAGE, FOREIGN };

struct part {
	uint32_t number;
	enum kind kind;
	const struct pf_shape *message;
};

struct pf_shape {
	const struct part *v;
	size_t n;
};

#define SHAPE(parts)                                                                                                   \
	{                                                                                                              \
		(parts), sizeof(parts) / sizeof((parts)[0])                                                            \
	}
#define F(message, field) LANCE__##message##__FIELD__##field

static const struct part text_map_parts[] = {
	{ F(MAP_ENTRY, KEY), TEXT, NULL },
	{ F(MAP_ENTRY, VALUE), TEXT, NULL },
};
static const struct part map_parts[] = {
	{ F(MAP_ENTRY, KEY), TEXT, NULL },
	{ F(MAP_ENTRY, VALUE), BYTES, NULL },
};
static const struct pf_shape text_map = SHAPE(text_map_parts), map = SHAPE(map_parts);

static const struct part dictionary_parts[] = {
	{ 1, NUMBER, NULL },
	{ 2, NUMBER, NULL },
};
static const struct pf_shape dictionary = SHAPE(dictionary_parts);

static const struct part column_parts[] = {
	{ F(COLUMN, TYPE), NUMBER, NULL },
	{ F(COLUMN, NAME), TEXT, NULL },
	{ F(COLUMN, ID), NUMBER, NULL },
	{ F(COLUMN, PARENT_ID), NUMBER, NULL },
	{ F(COLUMN, LOGICAL_TYPE), TEXT, NULL },
	{ F(COLUMN, NULLABLE), NUMBER, NULL },
	{ F(COLUMN, ENCODING), NUMBER, NULL },
	{ F(COLUMN, DICTIONARY), MESSAGE, &dictionary },
	{ F(COLUMN, EXTENSION_NAME), TEXT, NULL },
	{ F(COLUMN, METADATA), MESSAGE, &map },
	{ F(COLUMN, PRIMARY_KEY), NUMBER, NULL },
	{ F(COLUMN, PRIMARY_KEY_POSITION), NUMBER, NULL },
	{ F(COLUMN, CLUSTERING_KEY), NUMBER, NULL },
	{ F(COLUMN, CLUSTERING_KEY_POSITION), NUMBER, NULL },
};
static const struct pf_shape column = SHAPE(column_parts);

static const struct part data_file_parts[] = {
	{ F(DATA_FILE, PATH), TEXT, NULL },
	{ F(DATA_FILE, FIELDS), NUMBERS, NULL },
	{ F(DATA_FILE, COLUMN_INDICES), NUMBERS, NULL },
	{ F(DATA_FILE, FILE_MAJOR_VERSION), NUMBER, NULL },
	{ F(DATA_FILE, FILE_MINOR_VERSION), NUMBER, NULL },
	{ F(DATA_FILE, FILE_SIZE_BYTES), NUMBER, NULL },
	{ F(DATA_FILE, BASE_ID), NUMBER, NULL },
};
static const struct pf_shape data_file = SHAPE(data_file_parts);

static const struct part deletion_parts[] = {
	{ F(DELETION_FILE, FILE_TYPE), NUMBER, NULL }, { F(DELETION_FILE, READ_VERSION), NUMBER, NULL },
	{ F(DELETION_FILE, ID), NUMBER, NULL },	       { F(DELETION_FILE, NUM_DELETED_ROWS), NUMBER, NULL },
	{ F(DELETION_FILE, BASE_ID), NUMBER, NULL },
};
static const struct pf_shape deletion = SHAPE(deletion_parts);

static const struct part coverage_parts[] = { { 1, BYTES, NULL } };
static const struct pf_shape coverage = SHAPE(coverage_parts);

static const struct part overlay_parts[] = {
	{ F(DATA_OVERLAY_FILE, DATA_FILE), MESSAGE, &data_file },
	{ F(DATA_OVERLAY_FILE, SHARED_OFFSET_BITMAP), BYTES, NULL },
	{ F(DATA_OVERLAY_FILE, COMMITTED_VERSION), NUMBER, NULL },
	{ F(DATA_OVERLAY_FILE, FIELD_COVERAGE), MESSAGE, &coverage },
};
static const struct pf_shape overlay = SHAPE(overlay_parts);

/* That there is one says it all. */
static const struct pf_shape in_column = { NULL, 0 };

static const struct part fragment_parts[] = {
	{ F(DATA_FRAGMENT, ID), NUMBER, NULL },
	{ F(DATA_FRAGMENT, FILES), MESSAGE, &data_file },
	{ F(DATA_FRAGMENT, DELETION_FILE), MESSAGE, &deletion },
	{ F(DATA_FRAGMENT, PHYSICAL_ROWS), NUMBER, NULL },
	{ F(DATA_FRAGMENT, INLINE_ROW_IDS), BYTES, NULL },
	{ F(DATA_FRAGMENT, INLINE_LAST_UPDATED_AT_VERSIONS), BYTES, NULL },
	{ F(DATA_FRAGMENT, INLINE_CREATED_AT_VERSIONS), BYTES, NULL },
	{ F(DATA_FRAGMENT, OVERLAYS), MESSAGE, &overlay },
	{ F(DATA_FRAGMENT, COLUMN_ROW_IDS), MESSAGE, &in_column },
	{ F(DATA_FRAGMENT, COLUMN_LAST_UPDATED_AT_VERSIONS), MESSAGE, &in_column },
	{ F(DATA_FRAGMENT, COLUMN_CREATED_AT_VERSIONS), MESSAGE, &in_column },
	{ F(DATA_FRAGMENT, CLUSTERING_ID), NUMBER, NULL },
	{ F(DATA_FRAGMENT, METADATA), MESSAGE, &text_map },
};
const struct pf_shape pf_shape_fragment = SHAPE(fragment_parts);

static const struct part writer_parts[] = {
	{ 1, TEXT, NULL },
	{ 2, TEXT, NULL },
	{ 3, TEXT, NULL },
	{ 4, TEXT, NULL },
};
static const struct pf_shape writer = SHAPE(writer_parts);

static const struct part format_parts[] = {
	{ 1, TEXT, NULL },
	{ F(DATA_STORAGE_FORMAT, VERSION), TEXT, NULL },
};
static const struct pf_shape format = SHAPE(format_parts);

static const struct part base_parts[] = {
	{ F(BASE_PATH, ID), NUMBER, NULL },
	{ F(BASE_PATH, NAME), TEXT, NULL },
	{ F(BASE_PATH, IS_DATASET_ROOT), NUMBER, NULL },
	{ F(BASE_PATH, PATH), TEXT, NULL },
};
static const struct pf_shape base = SHAPE(base_parts);

static const struct part time_parts[] = {
	{ 1, NUMBER, NULL },
	{ 2, NUMBER, NULL },
};
static const struct pf_shape timestamp = SHAPE(time_parts);

static const struct part clustering_parts[] = {
	{ F(CLUSTERING, ID), NUMBER, NULL },
	{ F(CLUSTERING, COLUMNS), NUMBERS, NULL },
	{ F(CLUSTERING, PROVIDER), TEXT, NULL },
	{ F(CLUSTERING, VERSION), NUMBER, NULL },
};
static const struct pf_shape clustering = SHAPE(clustering_parts);

static const struct part manifest_parts[] = {
	{ F(MANIFEST, FIELDS), MESSAGE, &column },
	{ F(MANIFEST, VERSION), NUMBER, NULL },
	{ F(MANIFEST, VERSION_AUX_DATA), NUMBER, NULL },
	{ F(MANIFEST, SCHEMA_METADATA), MESSAGE, &map },
	{ F(MANIFEST, INDEX_SECTION), NUMBER, NULL },
	{ F(MANIFEST, TIMESTAMP), MESSAGE, &timestamp },
	{ F(MANIFEST, TAG), TEXT, NULL },
	{ F(MANIFEST, READER_FEATURE_FLAGS), NUMBER, NULL },
	{ F(MANIFEST, WRITER_FEATURE_FLAGS), NUMBER, NULL },
	{ F(MANIFEST, MAX_FRAGMENT_ID), NUMBER, NULL },
	{ F(MANIFEST, TRANSACTION_FILE), TEXT, NULL },
	{ F(MANIFEST, WRITER_VERSION), MESSAGE, &writer },
	{ F(MANIFEST, NEXT_ROW_ID), NUMBER, NULL },
	{ F(MANIFEST, DATA_FORMAT), MESSAGE, &format },
	{ F(MANIFEST, CONFIG), MESSAGE, &text_map },
	{ F(MANIFEST, BASE_PATHS), MESSAGE, &base },
	{ F(MANIFEST, TABLE_METADATA), MESSAGE, &text_map },
	{ F(MANIFEST, BRANCH), TEXT, NULL },
	{ F(MANIFEST, TRANSACTION_SECTION_21), NUMBER, NULL },
	{ F(MANIFEST, FRAGMENT_TREE), FOREIGN, NULL },
	{ F(MANIFEST, TRANSACTION_SECTION_23), NUMBER, NULL },
	{ F(MANIFEST, MAX_ALLOCATED_FIELD_ID), NUMBER, NULL },
	{ F(MANIFEST, CLUSTERING), MESSAGE, &clustering },
	{ F(MANIFEST, MAX_CLUSTERING_ID), NUMBER, NULL },
};
static const struct pf_shape manifest = SHAPE(manifest_parts);

static const struct part uuid_parts[] = { { 1, BYTES, NULL } };
static const struct pf_shape uuid = SHAPE(uuid_parts);

static const struct part any_parts[] = {
	{ F(ANY, TYPE_URL), TEXT, NULL },
	{ F(ANY, VALUE), BYTES, NULL },
};
static const struct pf_shape any = SHAPE(any_parts);

static const struct part index_file_parts[] = {
	{ F(INDEX_FILE, PATH), TEXT, NULL },
	{ F(INDEX_FILE, SIZE_BYTES), NUMBER, NULL },
};
static const struct pf_shape index_file = SHAPE(index_file_parts);

static const struct part index_parts[] = {
	{ F(INDEX_METADATA, UUID), MESSAGE, &uuid },
	{ F(INDEX_METADATA, FIELDS), NUMBERS, NULL },
	{ F(INDEX_METADATA, NAME), TEXT, NULL },
	{ F(INDEX_METADATA, DATASET_VERSION), NUMBER, NULL },
	{ F(INDEX_METADATA, FRAGMENT_BITMAP), BYTES, NULL },
	{ F(INDEX_METADATA, INDEX_DETAILS), MESSAGE, &any },
	{ F(INDEX_METADATA, INDEX_VERSION), NUMBER, NULL },
	{ F(INDEX_METADATA, CREATED_AT), NUMBER, NULL },
	{ F(INDEX_METADATA, BASE_ID), NUMBER, NULL },
	{ F(INDEX_METADATA, FILES), MESSAGE, &index_file },
	{ F(INDEX_METADATA, COVERING_FIELDS), NUMBERS, NULL },
	{ F(INDEX_METADATA, CLUSTERING_ID), NUMBER, NULL },
	{ F(INDEX_METADATA, METADATA), MESSAGE, &text_map },
};
static const struct pf_shape index_entry = SHAPE(index_parts);

static const struct part section_parts[] = { { F(INDEX_SECTION, INDICES), MESSAGE, &index_entry } };
static const struct pf_shape section = SHAPE(section_parts);

static const struct part *find(const struct pf_shape *s, uint32_t number)
{
	size_t i = 0;

	while (i < s->n && s->v[i].number != number)
		i++;
	return i < s->n ? &s->v[i] : NULL;
}

static int check_text(struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	int r = pf_wire_payload(w->r, f, TEXT_MAX, &text, why);
	if (r == 0 && !pf_utf8_valid((const char *)text.data, text.len))
		r = pf_why_set(why, -EBADMSG, "field %u at offset %llu is not valid UTF-8", f->number,
			       (unsigned long long)f->start);
	return r;
}

static int check_numbers(struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf packed = PF_BUF_INIT;
	uint64_t number;

	int r = pf_wire_payload(w->r, f, TEXT_MAX, &packed, why);
	for (size_t at = 0; r >= 0 && at < packed.len; at += (size_t)r)
		r = pf_wire_varint(packed.data + at, packed.len - at, f->value + at, &number, why);
	return r < 0 ? r : 0;
}

static int check_part(const struct part *p, struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	if (p->kind == FOREIGN)
		return pf_why_set(
			why, -EBADMSG,
			"field %u at offset %llu is of tables that pinfs does not know, and no flag says that this is one",
			f->number, (unsigned long long)f->start);
	if (p->kind == NUMBER)
		return pf_wire_expect(f, PF_WIRE_VARINT, why);
	if (p->kind == NUMBERS && f->type == PF_WIRE_VARINT)
		return 0;
	int r = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (r < 0 || p->kind == BYTES)
		return r;
	if (p->kind == NUMBERS)
		return check_numbers(w, f, why);
	if (p->kind == TEXT)
		return check_text(w, f, why);
	uint64_t end = pf_wire_enter(w, f);
	r = pf_shape_check(p->message, w, why);
	pf_wire_leave(w, end);
	return r;
}

int pf_shape_check(const struct pf_shape *s, struct pf_wire *w, struct pf_why *why)
{
	struct pf_field f;
	int r;

	while ((r = pf_wire_next(w, &f, why)) > 0) {
		const struct part *p = find(s, f.number);
		r = p ? check_part(p, w, &f, why) : 0;
		if (r < 0)
			return r;
	}
	return r;
}

/* What stands before the first fragment and behind the last. */
static int check_body(struct pf_wire *w, uint64_t fragments_end, struct pf_why *why)
{
	struct pf_field f;
	int r;

	while ((r = pf_wire_next(w, &f, why)) > 0) {
		const struct part *p = find(&manifest, f.number);
		r = p ? check_part(p, w, &f, why) : 0;
		if (r < 0)
			return r;
		if (f.number == F(MANIFEST, FRAGMENTS) && fragments_end > w->pos)
			w->pos = fragments_end;
	}
	return r;
}

int pf_shape_check_manifest(struct pf_reader *r, const struct pf_manifest *m, uint64_t fragments_end,
			    struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;

	pf_wire_init(&w, r, m->body_off, m->body_len);
	int e = check_body(&w, fragments_end, why);
	pf_wire_release(&w);
	pf_wire_init(&w, r, m->index.off, m->index.len);
	return e < 0 || m->index.len == 0 ? e : pf_shape_check(&section, &w, why);
}
