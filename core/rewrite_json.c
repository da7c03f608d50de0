#include "rewrite_json.h"

#include <string.h>

#include "fragment_json.h"
#include "lance.pb-c.h"
#include "text.h"

struct results {
	struct pf_buf body;
	struct pf_moved moved;
	uint64_t read_version;
};

static void results_release(struct results *l)
{
	pf_buf_release(&l->body);
	pf_moved_release(&l->moved);
}

static int wrong(struct pf_why *why, const char *member, const char *expected)
{
	return pf_why_set(why, -EINVAL, "member %s: expected %s", member, expected);
}

static int check_members(const json_t *o, struct pf_why *why)
{
	static const char *const known[] = { "metrics", "new_fragments", "original_fragments", "read_version",
					     "row_addrs" };
	char quoted[PF_QUOTE_TEXT];
	const char *name;
	json_t *v;

	if (!json_is_object(o))
		return pf_why_set(why, -EINVAL, "expected an object");
	json_object_foreach((json_t *)(uintptr_t)o, name, v)
	{
		size_t i = 0;
		while (i < ARRAY_LEN(known) && strcmp(known[i], name) != 0)
			i++;
		if (i == ARRAY_LEN(known) && !json_is_null(v))
			return pf_why_set(why, -EINVAL, "member %s is not known: the work would lose what it says",
					  pf_text_quote(name, strlen(name), quoted));
	}
	return 0;
}

/* The message without its id: the one that it is committed with is given to it then. */
static int put_without_id(const struct pf_buf *message, uint32_t number, struct pf_buf *out, struct pf_why *why)
{
	const struct pf_change change = { .number = LANCE__DATA_FRAGMENT__FIELD__ID };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = pf_message_change(PF_SPAN_OF(message), &change, 1, &b, why);

	return r < 0 ? r : pf_put_span(out, number, PF_SPAN_OF(&b));
}

static int put_fragments(const json_t *o, const char *name, uint32_t number, bool is_new, struct pf_buf *out,
			 struct pf_why *why)
{
	const json_t *v = json_object_get(o, name);
	int r = 0;

	if (!json_is_array(v))
		return wrong(why, name, "an array of fragments");
	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		r = pf_fragment_from_json(json_array_get(v, i), &b, why);
		if (r < 0)
			return pf_why_prefix(why, r, "member %s, %zu", name, i);
		r = is_new ? put_without_id(&b, number, out, why) : pf_put_span(out, number, PF_SPAN_OF(&b));
	}
	return r;
}

static int take_rows(const json_t *v, struct pf_buf *out, struct pf_why *why)
{
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_array(v) || json_array_size(v) == 0)
		return wrong(why, "row_addrs", "null, or an array of bytes");
	int r = pf_buf_reserve(out, json_array_size(v));
	for (size_t i = 0; r == 0 && i < json_array_size(v); i++) {
		const json_t *e = json_array_get(v, i);
		if (!json_is_integer(e) || json_integer_value(e) < 0 || json_integer_value(e) > UINT8_MAX)
			return wrong(why, "row_addrs", "bytes as numbers from 0 to 255");
		out->data[out->len++] = (uint8_t)json_integer_value(e);
	}
	return r;
}

static int take_result(struct results *l, const json_t *o, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;
	const json_t *version = json_object_get(o, "read_version");

	int r = check_members(o, why);
	if (r == 0 && (!json_is_integer(version) || json_integer_value(version) < 1))
		return wrong(why, "read_version", "the version that it was planned at");
	if (r == 0)
		r = put_fragments(o, "original_fragments", LANCE__TRANSACTION__REWRITE__GROUP__FIELD__OLD_FRAGMENTS,
				  false, &group, why);
	if (r == 0)
		r = put_fragments(o, "new_fragments", LANCE__TRANSACTION__REWRITE__GROUP__FIELD__NEW_FRAGMENTS, true,
				  &group, why);
	if (r == 0)
		r = pf_put_span(&l->body, LANCE__TRANSACTION__REWRITE__FIELD__GROUPS, PF_SPAN_OF(&group));
	if (r < 0)
		return r;
	uint64_t planned = (uint64_t)json_integer_value(version);
	if (l->moved.n == 0 || planned < l->read_version)
		l->read_version = planned;
	return take_rows(json_object_get(o, "row_addrs"), &l->moved.v[l->moved.n++], why);
}

static void json_unref(json_t **o)
{
	json_decref(*o);
}

static int put_transaction(const struct results *l, struct pf_buf *out)
{
	char uuid[PF_UUID_TEXT];
	struct pf_uuid id;

	pf_uuid_of(l->body.data, l->body.len, &id);
	pf_uuid_format(&id, uuid);
	int r = pf_wire_put_u64(out, LANCE__TRANSACTION__FIELD__READ_VERSION, l->read_version);
	if (r == 0)
		r = pf_wire_put_bytes(out, LANCE__TRANSACTION__FIELD__UUID, uuid, sizeof(uuid) - 1);
	return r < 0 ? r : pf_put_span(out, LANCE__TRANSACTION__OPERATION__REWRITE, PF_SPAN_OF(&l->body));
}

int pf_rewrite_from_json(const char *text, size_t len, struct pf_buf *out, struct pf_moved *moved, struct pf_why *why)
{
	_cleanup_(results_release) struct results l = { .body = PF_BUF_INIT };
	_cleanup_(json_unref) json_t *o = NULL;

	int r = pf_lance_json(text, len, &o, why);
	if (r < 0)
		return r;
	size_t n = json_is_array(o) ? json_array_size(o) : 1;
	if (n == 0)
		return pf_why_set(why, -EINVAL, "no result of a compaction");
	l.moved.v = calloc(n, sizeof(*l.moved.v));
	if (!l.moved.v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		r = take_result(&l, json_is_array(o) ? json_array_get(o, i) : o, why);
		if (r < 0)
			return pf_why_prefix(why, r, "result %zu", i);
	}
	r = put_transaction(&l, out);
	if (r < 0)
		return r;
	*moved = l.moved;
	l.moved = (struct pf_moved){ NULL };
	return 0;
}
