#include "fragment_json.h"

#include <inttypes.h>

#include "lance.pb-c.h"
#include "text.h"

static int wrong(struct pf_why *why, const char *member, const char *expected)
{
	return pf_why_set(why, -EINVAL, "member %s: expected %s", member, expected);
}

int pf_lance_json(const char *text, size_t len, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf quoted = PF_BUF_INIT;
	char at[PF_QUOTE_TEXT];
	json_error_t error;

	int r = pf_text_quote_large(text, len, &quoted);
	if (r < 0)
		return r;
	*out = json_loadb((const char *)quoted.data, quoted.len, JSON_REJECT_DUPLICATES, &error);
	if (*out)
		return 0;
	return pf_why_set(why, -EINVAL, "not JSON: line %d: %s", error.line,
			  pf_text_quote(error.text, strlen(error.text), at));
}

/* A member that is there and not null. */
static const json_t *member(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	return v && !json_is_null(v) ? v : NULL;
}

static int check_members(const json_t *o, const char *what, const char *const *known, struct pf_why *why)
{
	const char *name;
	json_t *v;

	if (!json_is_object(o))
		return wrong(why, what, "an object");
	json_object_foreach((json_t *)(uintptr_t)o, name, v)
	{
		size_t i = 0;
		char quoted[PF_QUOTE_TEXT];
		while (known[i] && strcmp(known[i], name) != 0)
			i++;
		if (!known[i] && !json_is_null(v))
			return pf_why_set(why, -EINVAL,
					  "member %s of %s is not known: the work would lose what it says",
					  pf_text_quote(name, strlen(name), quoted), what);
	}
	return 0;
}

static int get_u64(const json_t *o, const char *name, uint64_t *out, struct pf_why *why)
{
	const json_t *v = member(o, name);

	if (!v)
		return 0;
	if (json_is_string(v) && pf_u64_parse(json_string_value(v), json_string_length(v), out) == 0)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return wrong(why, name, "a number of 64 bits");
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

/* proto3 writers leave zeros out. */
static int put_u64(const json_t *o, const char *name, uint32_t number, struct pf_buf *out, struct pf_why *why)
{
	uint64_t v = 0;
	int r = get_u64(o, name, &v, why);

	return r < 0 || v == 0 ? r : pf_wire_put_u64(out, number, v);
}

static int put_base(const json_t *o, uint32_t number, struct pf_buf *out, struct pf_why *why)
{
	uint64_t v = 0;
	int r = get_u64(o, "base_id", &v, why);

	if (r < 0 || !member(o, "base_id"))
		return r;
	if (v > UINT32_MAX)
		return wrong(why, "base_id", "a number of 32 bits");
	return pf_wire_put_u64(out, number, v); /* also 0, which is an id */
}

static int put_numbers(const json_t *o, const char *name, uint32_t number, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf packed = PF_BUF_INIT;
	const json_t *v = member(o, name);
	int r = 0;

	if (!json_is_array(v))
		return wrong(why, name, "an array of numbers");
	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		const json_t *e = json_array_get(v, i);
		if (!json_is_integer(e) || json_integer_value(e) < INT32_MIN || json_integer_value(e) > INT32_MAX)
			return wrong(why, name, "numbers of 32 bits");
		r = pf_wire_put_varint(&packed, (uint64_t)json_integer_value(e));
	}
	return r < 0 || packed.len == 0 ? r : pf_put_span(out, number, PF_SPAN_OF(&packed));
}

static int put_file(const json_t *o, struct pf_buf *out, struct pf_why *why)
{
	static const char *const known[] = {
		"path",	   "fields", "column_indices", "file_major_version", "file_minor_version", "file_size_bytes",
		"base_id", NULL
	};
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	const char *path = json_string_value(member(o, "path"));

	int r = check_members(o, "a file", known, why);
	if (r == 0 && (!path || !path[0]))
		return wrong(why, "path", "the name of a file");
	if (r == 0)
		r = pf_wire_put_bytes(&b, LANCE__DATA_FILE__FIELD__PATH, path, strlen(path));
	if (r == 0)
		r = put_numbers(o, "fields", LANCE__DATA_FILE__FIELD__FIELDS, &b, why);
	if (r == 0 && member(o, "column_indices"))
		r = put_numbers(o, "column_indices", LANCE__DATA_FILE__FIELD__COLUMN_INDICES, &b, why);
	if (r == 0)
		r = put_u64(o, "file_major_version", LANCE__DATA_FILE__FIELD__FILE_MAJOR_VERSION, &b, why);
	if (r == 0)
		r = put_u64(o, "file_minor_version", LANCE__DATA_FILE__FIELD__FILE_MINOR_VERSION, &b, why);
	if (r == 0)
		r = put_u64(o, "file_size_bytes", LANCE__DATA_FILE__FIELD__FILE_SIZE_BYTES, &b, why);
	if (r == 0)
		r = put_base(o, LANCE__DATA_FILE__FIELD__BASE_ID, &b, why);
	return r < 0 ? r : pf_put_span(out, LANCE__DATA_FRAGMENT__FIELD__FILES, PF_SPAN_OF(&b));
}

static int put_deletion(const json_t *o, struct pf_buf *out, struct pf_why *why)
{
	static const char *const known[] = { "read_version", "id", "file_type", "num_deleted_rows", "base_id", NULL };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	const char *type = json_string_value(member(o, "file_type"));

	int r = check_members(o, "deletion_file", known, why);
	if (r == 0 && (!type || (strcmp(type, "array") != 0 && strcmp(type, "bitmap") != 0)))
		return wrong(why, "file_type", "array or bitmap");
	if (r == 0 && strcmp(type, "bitmap") == 0)
		r = pf_wire_put_u64(&b, LANCE__DELETION_FILE__FIELD__FILE_TYPE, LANCE__DELETION_FILE__TYPE__BITMAP);
	if (r == 0)
		r = put_u64(o, "read_version", LANCE__DELETION_FILE__FIELD__READ_VERSION, &b, why);
	if (r == 0)
		r = put_u64(o, "id", LANCE__DELETION_FILE__FIELD__ID, &b, why);
	if (r == 0)
		r = put_u64(o, "num_deleted_rows", LANCE__DELETION_FILE__FIELD__NUM_DELETED_ROWS, &b, why);
	if (r == 0)
		r = put_base(o, LANCE__DELETION_FILE__FIELD__BASE_ID, &b, why);
	return r < 0 ? r : pf_put_span(out, LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE, PF_SPAN_OF(&b));
}

/* {"Inline": [bytes]}: a sequence; `form` is how its only member is spelled. */
static int put_sequence(const json_t *o, const char *name, const char *form, uint32_t number, struct pf_buf *out,
			struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	const json_t *v = member(o, name), *bytes = member(v, form);
	int r = 0;

	if (!v)
		return 0;
	if (!json_is_object(v) || json_object_size(v) != 1 || !json_is_array(bytes))
		return wrong(why, name, "its bytes inline");
	for (size_t i = 0; r == 0 && i < json_array_size(bytes); i++) {
		const json_t *e = json_array_get(bytes, i);
		if (!json_is_integer(e) || json_integer_value(e) < 0 || json_integer_value(e) > UINT8_MAX)
			return wrong(why, name, "bytes as numbers from 0 to 255");
		r = pf_buf_addch(&b, (char)json_integer_value(e));
	}
	return r < 0 ? r : pf_put_span(out, number, PF_SPAN_OF(&b));
}

int pf_fragment_from_json(const json_t *o, struct pf_buf *out, struct pf_why *why)
{
	static const char *const known[] = { "id",
					     "files",
					     "overlays",
					     "physical_rows",
					     "deletion_file",
					     "row_id_meta",
					     "created_at_version_meta",
					     "last_updated_at_version_meta",
					     NULL };
	const json_t *files = member(o, "files"), *deletion = member(o, "deletion_file"),
		     *overlays = member(o, "overlays");

	int r = check_members(o, "a fragment", known, why);
	if (r == 0 && !json_is_array(files))
		return wrong(why, "files", "an array");
	if (r == 0 && overlays && json_array_size(overlays) > 0)
		return pf_why_set(why, -EINVAL, "a fragment has overlays (feature bit 6), which pinfs does not write");
	if (r == 0)
		r = put_u64(o, "id", LANCE__DATA_FRAGMENT__FIELD__ID, out, why);
	for (size_t i = 0; r == 0 && i < json_array_size(files); i++)
		r = put_file(json_array_get(files, i), out, why);
	if (r == 0 && deletion)
		r = put_deletion(deletion, out, why);
	if (r == 0)
		r = put_u64(o, "physical_rows", LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS, out, why);
	if (r == 0)
		r = put_sequence(o, "row_id_meta", "Inline", LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, out, why);
	if (r == 0)
		r = put_sequence(o, "last_updated_at_version_meta", "inline",
				 LANCE__DATA_FRAGMENT__FIELD__INLINE_LAST_UPDATED_AT_VERSIONS, out, why);
	if (r == 0)
		r = put_sequence(o, "created_at_version_meta", "inline",
				 LANCE__DATA_FRAGMENT__FIELD__INLINE_CREATED_AT_VERSIONS, out, why);
	return r;
}

static int put_fragment(const json_t *o, size_t i, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = pf_fragment_from_json(o, &b, why);

	if (r < 0)
		return pf_why_prefix(why, r, "fragment %zu", i);
	return pf_put_span(out, LANCE__TRANSACTION__APPEND__FIELD__FRAGMENTS, PF_SPAN_OF(&b));
}

static void json_unref(json_t **o)
{
	json_decref(*o);
}

int pf_append_from_json(const char *text, size_t len, uint64_t read_version, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT;
	_cleanup_(json_unref) json_t *o = NULL;
	char uuid[PF_UUID_TEXT];
	struct pf_uuid id;

	int r = pf_lance_json(text, len, &o, why);
	if (r < 0)
		return r;
	if (json_is_array(o) && json_array_size(o) == 0)
		return pf_why_set(why, -EINVAL, "no fragment");
	if (json_is_array(o))
		for (size_t i = 0; r == 0 && i < json_array_size(o); i++)
			r = put_fragment(json_array_get(o, i), i, &body, why);
	else
		r = put_fragment(o, 0, &body, why);
	if (r == 0) {
		pf_uuid_of(body.data, body.len, &id);
		pf_uuid_format(&id, uuid);
	}
	if (r == 0 && read_version)
		r = pf_wire_put_u64(out, LANCE__TRANSACTION__FIELD__READ_VERSION, read_version);
	if (r == 0)
		r = pf_wire_put_bytes(out, LANCE__TRANSACTION__FIELD__UUID, uuid, sizeof(uuid) - 1);
	return r < 0 ? r : pf_put_span(out, LANCE__TRANSACTION__OPERATION__APPEND, PF_SPAN_OF(&body));
}
