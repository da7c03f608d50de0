#include "fragment.h"

#include <inttypes.h>

#include "lance.pb-c.h"

void pf_data_file_release(struct pf_data_file *f)
{
	free(f->fields);
	*f = (struct pf_data_file){ 0 };
}

static int take_fields(const struct pf_member *m, struct pf_data_file *out, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers l = { 0 };
	int r = pf_member_numbers(m, &l, why);

	if (r < 0 || l.n == 0)
		return r;
	int32_t *v = reallocarray(out->fields, out->n_fields + l.n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	out->fields = v;
	for (size_t i = 0; i < l.n; i++)
		v[out->n_fields++] = (int32_t)l.v[i]; /* an int32 is sign-extended on the wire */
	return 0;
}

static int take_file_member(const struct pf_member *m, struct pf_data_file *f, struct pf_why *why)
{
	switch (m->number) {
	case LANCE__DATA_FILE__FIELD__PATH:
		return pf_member_text(m, &f->path, why);
	case LANCE__DATA_FILE__FIELD__FIELDS:
		return take_fields(m, f, why);
	case LANCE__DATA_FILE__FIELD__COLUMN_INDICES:
		return pf_member_span(m, &f->columns, why);
	case LANCE__DATA_FILE__FIELD__FILE_MAJOR_VERSION:
		return pf_member_u32(m, &f->major, why);
	case LANCE__DATA_FILE__FIELD__FILE_MINOR_VERSION:
		return pf_member_u32(m, &f->minor, why);
	case LANCE__DATA_FILE__FIELD__FILE_SIZE_BYTES:
		return pf_member_u64(m, &f->size, why);
	case LANCE__DATA_FILE__FIELD__BASE_ID:
		f->has_base = true;
		return pf_member_u32(m, &f->base_id, why);
	default:
		return 0;
	}
}

int pf_data_file_decode(struct pf_span message, struct pf_data_file *out, struct pf_why *why)
{
	_cleanup_(pf_data_file_release) struct pf_data_file f = { .message = message };
	struct pf_message walk;
	struct pf_member m;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		r = take_file_member(&m, &f, why);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (f.path.n == 0)
		return pf_why_set(why, -EBADMSG, "expected a data file to have a path");
	*out = f;
	f = (struct pf_data_file){ 0 };
	return 0;
}

bool pf_data_file_has(const struct pf_data_file *f, int32_t field)
{
	for (size_t i = 0; i < f->n_fields; i++)
		if (f->fields[i] == field)
			return true;
	return false;
}

bool pf_data_file_is_legacy(const struct pf_data_file *f)
{
	return f->major == 0 && f->minor < 3;
}

void pf_fragment_release(struct pf_fragment *f)
{
	for (size_t i = 0; i < f->n_files; i++)
		pf_data_file_release(&f->files[i]);
	free(f->files);
	*f = (struct pf_fragment){ 0 };
}

static int add_file(const struct pf_member *m, struct pf_fragment *f, struct pf_why *why)
{
	struct pf_span message;
	int r = pf_member_span(m, &message, why);

	if (r < 0)
		return r;
	struct pf_data_file *v = reallocarray(f->files, f->n_files + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	f->files = v;
	r = pf_data_file_decode(message, &v[f->n_files], why);
	if (r == 0)
		f->n_files++;
	return r;
}

static int take_deletion_member(const struct pf_member *m, struct pf_fragment *f, struct pf_why *why)
{
	switch (m->number) {
	case LANCE__DELETION_FILE__FIELD__FILE_TYPE:
		return pf_member_u64(m, &f->deletion.type, why);
	case LANCE__DELETION_FILE__FIELD__READ_VERSION:
		return pf_member_u64(m, &f->deletion.read_version, why);
	case LANCE__DELETION_FILE__FIELD__ID:
		return pf_member_u64(m, &f->deletion.id, why);
	case LANCE__DELETION_FILE__FIELD__NUM_DELETED_ROWS:
		return pf_member_u64(m, &f->deleted_rows, why);
	case LANCE__DELETION_FILE__FIELD__BASE_ID:
		f->deletion.has_base = true;
		return pf_member_u32(m, &f->deletion.base_id, why);
	default:
		return 0;
	}
}

static int take_deletion(const struct pf_member *m, struct pf_fragment *f, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member d;
	int r = pf_member_span(m, &f->deletion.message, why);

	if (r < 0)
		return r;
	f->has_deletions = true;
	pf_message_init(&walk, f->deletion.message);
	while ((r = pf_message_next(&walk, &d, why)) > 0) {
		r = take_deletion_member(&d, f, why);
		if (r < 0)
			return r;
	}
	return r;
}

/* Of the three forms of one oneof the last one counts. */
static int take_lineage(const struct pf_member *m, enum pf_lineage_kind kind, struct pf_lineage *out,
			struct pf_why *why)
{
	struct pf_span bytes;
	int r = pf_member_span(m, &bytes, why);

	if (r == 0)
		*out = (struct pf_lineage){ kind, bytes };
	return r;
}

static int take_member(const struct pf_member *m, struct pf_fragment *f, struct pf_why *why)
{
	switch (m->number) {
	case LANCE__DATA_FRAGMENT__FIELD__ID:
		return pf_member_u64(m, &f->id, why);
	case LANCE__DATA_FRAGMENT__FIELD__FILES:
		return add_file(m, f, why);
	case LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE:
		return take_deletion(m, f, why);
	case LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS:
		return pf_member_u64(m, &f->physical_rows, why);
	case LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS:
		return take_lineage(m, PF_LINEAGE_INLINE, &f->row_ids, why);
	case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_ROW_IDS:
		return take_lineage(m, PF_LINEAGE_EXTERNAL, &f->row_ids, why);
	case LANCE__DATA_FRAGMENT__FIELD__COLUMN_ROW_IDS:
		return take_lineage(m, PF_LINEAGE_COLUMN, &f->row_ids, why);
	case LANCE__DATA_FRAGMENT__FIELD__INLINE_LAST_UPDATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_INLINE, &f->updated_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_LAST_UPDATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_EXTERNAL, &f->updated_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__COLUMN_LAST_UPDATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_COLUMN, &f->updated_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__INLINE_CREATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_INLINE, &f->created_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__EXTERNAL_CREATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_EXTERNAL, &f->created_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__COLUMN_CREATED_AT_VERSIONS:
		return take_lineage(m, PF_LINEAGE_COLUMN, &f->created_at, why);
	case LANCE__DATA_FRAGMENT__FIELD__OVERLAYS:
		f->has_overlays = true;
		return 0;
	default:
		return 0;
	}
}

int pf_fragment_decode(struct pf_span message, struct pf_fragment *out, struct pf_why *why)
{
	_cleanup_(pf_fragment_release) struct pf_fragment f = { .message = message };
	struct pf_message walk;
	struct pf_member m;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		r = take_member(&m, &f, why);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (f.physical_rows && f.deleted_rows > f.physical_rows)
		return pf_why_set(why, -EBADMSG,
				  "fragment %" PRIu64 ": expected at most %" PRIu64 " deleted rows, found %" PRIu64,
				  f.id, f.physical_rows, f.deleted_rows);
	*out = f;
	f = (struct pf_fragment){ 0 };
	return 0;
}

static bool same_file(const struct pf_data_file *a, const struct pf_data_file *b)
{
	return pf_span_eq(a->path, b->path) && a->n_fields == b->n_fields &&
	       (a->n_fields == 0 || memcmp(a->fields, b->fields, a->n_fields * sizeof(*a->fields)) == 0) &&
	       pf_span_eq(a->columns, b->columns) && a->major == b->major && a->minor == b->minor &&
	       a->has_base == b->has_base && a->base_id == b->base_id;
}

bool pf_fragment_has_files(const struct pf_fragment *whole, const struct pf_fragment *part)
{
	size_t n = 0;

	for (size_t i = 0; i < whole->n_files && n < part->n_files; i++)
		n += same_file(&whole->files[i], &part->files[n]);
	return n == part->n_files;
}

bool pf_fragment_same_files(const struct pf_fragment *a, const struct pf_fragment *b)
{
	return a->n_files == b->n_files && pf_fragment_has_files(a, b);
}

int pf_fragment_put_files(const struct pf_fragment *f, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_files; i++)
		r = pf_put_span(out, LANCE__DATA_FRAGMENT__FIELD__FILES, f->files[i].message);
	return r;
}

int pf_data_file_put_fields(const struct pf_data_file *f, const int32_t *fields, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf packed = PF_BUF_INIT, field = PF_BUF_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_fields; i++)
		r = pf_wire_put_varint(&packed, (uint64_t)(int64_t)fields[i]);
	if (r == 0)
		r = pf_wire_put_bytes(&field, LANCE__DATA_FILE__FIELD__FIELDS, packed.data, packed.len);
	if (r < 0)
		return r;
	const struct pf_change change = { LANCE__DATA_FILE__FIELD__FIELDS, PF_SPAN_OF(&field) };
	return pf_message_change(f->message, &change, 1, out, NULL);
}

void pf_fragments_release(struct pf_fragments *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_fragment_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_fragments){ 0 };
}

int pf_fragments_add(struct pf_fragments *l, struct pf_span message, struct pf_why *why)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		struct pf_fragment *v = reallocarray(l->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	int r = pf_fragment_decode(message, &l->v[l->n], why);
	if (r == 0)
		l->n++;
	return r;
}
