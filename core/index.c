#include "index.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "lance.pb-c.h"

struct reading {
	struct pf_wire w;
	struct pf_indices list;
	size_t cap;
};

static void reading_release(struct reading *rd)
{
	pf_wire_release(&rd->w);
	pf_indices_release(&rd->list);
}

void pf_index_release(struct pf_index *x)
{
	free(x->name);
	free(x->fields);
	free(x->covering);
	free(x->details_type);
	pf_buf_release(&x->bitmap);
}

void pf_indices_release(struct pf_indices *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_index_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_indices){ 0 };
}

static int take_bytes(struct pf_wire *w, const struct pf_field *f, struct pf_buf *out, struct pf_why *why)
{
	pf_buf_reset(out);
	return pf_wire_payload(w->r, f, (size_t)f->len, out, why);
}

/* Prost refuses a string that is not UTF-8; a NUL would make names equal that are not. */
static int take_text(struct pf_wire *w, const struct pf_field *f, char **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	int r = take_bytes(w, f, &raw, why);

	if (r < 0)
		return r;
	const char *s = pf_buf_str(&raw);
	if (!s)
		return -ENOMEM;
	if (!pf_utf8_valid(s, raw.len) || strlen(s) != raw.len)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected UTF-8 text in field %" PRIu32, f->start,
				  f->number);
	free(*out);
	*out = STEAL(raw.data);
	return 0;
}

static int take_uuid(struct pf_wire *w, const struct pf_field *f, struct pf_index *x, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	struct pf_uuid id;
	int r = take_bytes(w, f, &raw, why);

	if (r < 0)
		return r;
	Lance__UUID *m = lance__uuid__unpack(NULL, raw.len, raw.data);
	bool ok = m && m->uuid.len == sizeof(id.b);
	if (ok)
		memcpy(id.b, m->uuid.data, sizeof(id.b));
	if (m)
		lance__uuid__free_unpacked(m, NULL);
	if (!ok)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a uuid of %zu bytes", f->start,
				  sizeof(id.b));
	pf_uuid_format(&id, x->uuid);
	return 0;
}

static int add_column(int32_t **list, size_t *n, uint64_t v)
{
	int32_t *more = reallocarray(*list, *n + 1, sizeof(*more));

	if (!more)
		return -ENOMEM;
	*list = more;
	more[(*n)++] = (int32_t)v;
	return 0;
}

/* Writers pack them; a reader must take them one by one too. */
static int take_columns(struct pf_wire *w, const struct pf_field *f, int32_t **list, size_t *n, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;

	if (f->type == PF_WIRE_VARINT)
		return add_column(list, n, f->num);
	int r = take_bytes(w, f, &raw, why);
	for (size_t at = 0; r >= 0 && at < raw.len; at += (size_t)r) {
		uint64_t v;

		r = pf_wire_varint(raw.data + at, raw.len - at, f->value + at, &v, why);
		if (r > 0 && add_column(list, n, v) < 0)
			return -ENOMEM;
	}
	return r < 0 ? r : 0;
}

static int take_details(struct pf_wire *w, const struct pf_field *any, struct pf_index *x, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(any, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	if (!x->details_type && !(x->details_type = strdup("")))
		return -ENOMEM;
	uint64_t end = pf_wire_enter(w, any);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__ANY__FIELD__TYPE_URL)
			r = take_text(w, &f, &x->details_type, why);
		else if (f.number == LANCE__ANY__FIELD__VALUE && (r = pf_wire_expect(&f, PF_WIRE_LEN, why)) == 0)
			x->details = (struct pf_section){ true, f.value, f.len };
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

/* What an IndexFile says of its length. */
static int take_size(struct pf_wire *w, const struct pf_field *file, struct pf_index *x, struct pf_why *why)
{
	struct pf_field f;
	uint64_t size = 0;
	int r = pf_wire_expect(file, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, file);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__INDEX_FILE__FIELD__SIZE_BYTES)
			r = pf_wire_u64(&f, &size, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	if (r == 0 && __builtin_add_overflow(x->files_size, size, &x->files_size))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected files of fewer than 2^64 bytes in all",
				  file->start);
	return r;
}

static int take_u32(const struct pf_field *f, uint32_t *out, struct pf_why *why)
{
	uint64_t v = 0;
	int r = pf_wire_u64(f, &v, why);

	*out = (uint32_t)v; /* as protobuf has it: the upper bits are dropped */
	return r;
}

static int take_member(struct pf_wire *w, const struct pf_field *f, struct pf_index *x, struct pf_why *why)
{
	uint32_t v = 0;
	int r;

	switch (f->number) {
	case LANCE__INDEX_METADATA__FIELD__UUID:
		return take_uuid(w, f, x, why);
	case LANCE__INDEX_METADATA__FIELD__FIELDS:
		return take_columns(w, f, &x->fields, &x->n_fields, why);
	case LANCE__INDEX_METADATA__FIELD__NAME:
		return take_text(w, f, &x->name, why);
	case LANCE__INDEX_METADATA__FIELD__DATASET_VERSION:
		return pf_wire_u64(f, &x->dataset_version, why);
	case LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP:
		r = take_bytes(w, f, &x->bitmap, why);
		x->has_bitmap = x->bitmap.len > 0;
		return r;
	case LANCE__INDEX_METADATA__FIELD__INDEX_DETAILS:
		return take_details(w, f, x, why);
	case LANCE__INDEX_METADATA__FIELD__INDEX_VERSION:
		r = take_u32(f, &v, why);
		x->index_version = (int32_t)v;
		return r;
	case LANCE__INDEX_METADATA__FIELD__CREATED_AT:
		x->has_created_at = true;
		return pf_wire_u64(f, &x->created_at, why);
	case LANCE__INDEX_METADATA__FIELD__COVERING_FIELDS:
		return take_columns(w, f, &x->covering, &x->n_covering, why);
	case LANCE__INDEX_METADATA__FIELD__FILES:
		return take_size(w, f, x, why);
	case LANCE__INDEX_METADATA__FIELD__BASE_ID:
		x->has_base = true;
		return take_u32(f, &x->base_id, why);
	default:
		return 0;
	}
}

static int take_index(struct reading *rd, const struct pf_field *entry, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(entry, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	if (rd->list.n == rd->cap) {
		size_t cap = rd->cap ? 2 * rd->cap : 8;
		struct pf_index *v = reallocarray(rd->list.v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		rd->list.v = v;
		rd->cap = cap;
	}
	struct pf_index *x = &rd->list.v[rd->list.n++];
	*x = (struct pf_index){ .off = entry->start, .len = entry->value + entry->len - entry->start };

	uint64_t end = pf_wire_enter(&rd->w, entry);
	while ((r = pf_wire_next(&rd->w, &f, why)) > 0) {
		r = take_member(&rd->w, &f, x, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(&rd->w, end);
	if (r < 0)
		return r;
	if (!x->uuid[0])
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected an index with a uuid", entry->start);
	if (!x->name && !(x->name = strdup("")))
		return -ENOMEM;
	return 0;
}

int pf_indices_take(struct pf_reader *r, uint64_t off, uint64_t len, uint32_t number, struct pf_indices *out,
		    struct pf_why *why)
{
	_cleanup_(reading_release) struct reading rd = { .cap = 0 };
	struct pf_field f;
	int e;

	pf_wire_init(&rd.w, r, off, len);
	while ((e = pf_wire_next(&rd.w, &f, why)) > 0) {
		if (f.number == number)
			e = take_index(&rd, &f, why);
		if (e < 0)
			return e;
	}
	if (e < 0)
		return e;
	*out = rd.list;
	rd.list = (struct pf_indices){ 0 };
	return 0;
}

int pf_indices_decode(struct pf_reader *r, const struct pf_manifest *m, struct pf_indices *out, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	struct pf_indices l = { 0 };
	int e = 0;

	if (m->index.present)
		e = pf_indices_take(r, m->index.off, m->index.len, LANCE__INDEX_SECTION__FIELD__INDICES, &l, &inner);
	if (e < 0)
		return pf_why_set(why, e, "index section: %s", inner.text[0] ? inner.text : strerror(-e));
	*out = l;
	return 0;
}

int pf_indices_read(struct pf_store *st, const struct pf_manifest *m, struct pf_indices *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_why inner = PF_WHY_INIT;

	if (!m->index.present) {
		*out = (struct pf_indices){ 0 };
		return 0;
	}
	int r = pf_manifest_reopen(st, m, &file, why);
	if (r < 0)
		return r;
	r = pf_indices_decode(&file->r, m, out, &inner);
	return r < 0 ? pf_why_set(why, r, "%s: %s", m->name, inner.text) : 0;
}

bool pf_index_is_system(const struct pf_index *x)
{
	return strcmp(x->name, PF_FRI_NAME) == 0 || strcmp(x->name, PF_MEM_WAL_NAME) == 0;
}

/* What Lance 14.0.2 reads: the message after the last slash of the type URL, any case, and the highest version. */
static const struct {
	const char *message;
	int32_t version;
} readers[] = {
	{ "lance.table.BTreeIndexDetails", 1 },
	{ "lance.table.BitmapIndexDetails", 0 },
	{ "lance.table.LabelListIndexDetails", 1 },
	{ "lance.table.NGramIndexDetails", 0 },
	{ "lance.table.ZoneMapIndexDetails", 0 },
	{ "lance.table.InvertedIndexDetails", 3 },
	{ "lance.index.pb.BloomFilterIndexDetails", 0 },
	{ "lance.index.pb.JsonIndexDetails", 0 },
	{ "lance.index.pb.FMIndexDetails", 10 },
	{ "lance.index.pb.MinHashLshIndexDetails", 0 },
	{ "lance.index.pb.VectorIndexDetails", 2 },
	{ "lance.index.VectorIndexDetails", 2 },
	/* 0.36 kept the scalar ones there. RTreeIndexDetails is left out: whether it has a reader depends on how Lance was built. */
	{ "lance.index.pb.BTreeIndexDetails", 1 },
	{ "lance.index.pb.BitmapIndexDetails", 0 },
	{ "lance.index.pb.LabelListIndexDetails", 1 },
	{ "lance.index.pb.NGramIndexDetails", 0 },
	{ "lance.index.pb.ZoneMapIndexDetails", 0 },
	{ "lance.index.pb.InvertedIndexDetails", 3 },
};

bool pf_index_usable(const struct pf_index *x)
{
	/* From before details had types: found out from the index's files. */
	if (!x->details_type)
		return x->index_version <= 0;
	const char *slash = strrchr(x->details_type, '/');
	for (size_t i = 0; slash && i < ARRAY_LEN(readers); i++)
		if (strcasecmp(slash + 1, readers[i].message) == 0)
			return x->index_version <= readers[i].version;
	return false;
}

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

bool pf_index_has_addresses(const struct pf_index *x)
{
	const char *type = x->details_type, *slash = type ? strrchr(type, '/') : NULL;

	if (!type)
		return false;
	return ends_in(type, "ZoneMapIndexDetails") || ends_in(type, "BloomFilterIndexDetails") ||
	       (slash && strcasecmp(slash + 1, "lance.index.pb.FMIndexDetails") == 0) ||
	       (ends_in(type, "BTreeIndexDetails") && x->index_version >= 1);
}
