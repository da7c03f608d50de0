/* Columns of fragments on their way into a manifest, by the schema that they are to be read with. */
#include "apply_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "lance.pb-c.h"
#include "text.h"

int pf_apply_blob_kind(const struct pf_column *c, struct pf_why *why)
{
	struct pf_span value;
	int r = pf_message_map_value(c->message, LANCE__COLUMN__FIELD__METADATA, PF_EXTENSION, &value, why);

	if (r < 0)
		return r;
	if (r && value.n == strlen(PF_BLOB_V2) && memcmp(value.p, PF_BLOB_V2, value.n) == 0)
		return 2;
	return pf_message_map_value(c->message, LANCE__COLUMN__FIELD__METADATA, PF_BLOB, &value, why);
}

/* Is a column of its own behind the field? A struct and a list have none, unless they are packed or a blob. */
static int has_data(const struct pf_schema *s, const struct pf_column *c, struct pf_why *why)
{
	static const char *const packed[] = { "packed", "lance-encoding:packed" };
	struct pf_span value;
	int r = pf_schema_is_leaf(s, c) ? 1 : pf_apply_blob_kind(c, why);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(packed); i++) {
		r = pf_message_map_value(c->message, LANCE__COLUMN__FIELD__METADATA, packed[i], &value, why);
		r = r > 0 ? pf_is_truthy(value) : r;
	}
	return r;
}

/* Which columns of the file the fields are: one for each, and from format 2.1 on -1 for those without data. */
static int check_places(const struct pf_data_file *f, const struct pf_schema *s, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT], name[PF_QUOTE_TEXT];
	size_t n = 0, at = 0;

	if (f->columns.n == 0 || pf_data_file_is_legacy(f))
		return 0;
	pf_text_quote((const char *)f->path.p, f->path.n, quoted);
	while (at < f->columns.n) {
		uint64_t place;
		int r = pf_wire_varint(f->columns.p + at, f->columns.n - at, at, &place, why);
		if (r < 0)
			return r;
		at += (size_t)r;
		const struct pf_column *c = n < f->n_fields ? pf_schema_find(s, f->fields[n]) : NULL;
		n++;
		if (!c || f->major < 2 || (f->major == 2 && f->minor == 0))
			continue;
		r = has_data(s, c, why);
		if (r < 0)
			return r;
		if ((r > 0) == ((int32_t)place == -1))
			return pf_why_set(why, -EINVAL, "data file %s says of column %s that it has %s column there",
					  quoted, pf_text_quote((const char *)c->name.p, c->name.n, name),
					  r > 0 ? "no" : "a");
	}
	if (n != f->n_fields)
		return pf_why_set(why, -EINVAL, "data file %s has %zu fields and says of %zu which column they are",
				  quoted, f->n_fields, n);
	return 0;
}

static int cmp_i32(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return x < y ? -1 : x > y;
}

int pf_apply_check_places(const struct pf_data_file *files, size_t n_files, const struct pf_schema *s,
			  struct pf_why *why)
{
	_cleanup_(pf_freep) int32_t *ids = NULL;
	size_t n = 0;

	for (size_t i = 0; i < n_files; i++) {
		int r = check_places(&files[i], s, why);
		if (r < 0)
			return r;
		n += files[i].n_fields;
	}
	ids = calloc(n + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < n_files; i++)
		for (size_t k = 0; k < files[i].n_fields; k++)
			ids[n++] = files[i].fields[k];
	qsort(ids, n, sizeof(*ids), cmp_i32);
	for (size_t i = 1; i < n; i++)
		if (ids[i] >= 0 && ids[i] == ids[i - 1])
			return pf_why_set(why, -EINVAL, "a fragment has the column with id %" PRId32 " twice", ids[i]);
	return 0;
}

/* Columns that are missing are null, but not all may be; in the legacy format none. */
int pf_apply_check_columns(const struct pf_fragment *f, const struct pf_schema *s, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	bool any = false, legacy = false;

	for (size_t i = 0; i < f->n_files; i++) {
		any |= pf_apply_file_lives(f, &f->files[i], s);
		legacy |= pf_data_file_is_legacy(&f->files[i]);
	}
	if (!any)
		return pf_why_set(why, -EINVAL,
				  "a new fragment has no column of this table: is it work for another table?");
	for (size_t i = 0; legacy && i < s->n; i++) {
		bool there = false;
		for (size_t k = 0; k < f->n_files; k++)
			there |= pf_data_file_has(&f->files[k], s->v[i].id);
		if (!there)
			return pf_why_set(why, -EINVAL, "a new fragment lacks column %s",
					  pf_text_quote((const char *)s->v[i].name.p, s->v[i].name.n, quoted));
	}
	return pf_apply_check_places(f->files, f->n_files, s, why);
}
