#include "schema.h"

#include <strings.h>

#include "lance.pb-c.h"

void pf_schema_release(struct pf_schema *s)
{
	free(s->v);
	*s = (struct pf_schema){ 0 };
}

int pf_schema_add(struct pf_schema *s, struct pf_span message, struct pf_why *why)
{
	struct pf_column c = { .message = message };
	struct pf_message walk;
	struct pf_member m;
	uint64_t v = 0;
	int r;

	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		switch (m.number) {
		case LANCE__COLUMN__FIELD__NAME:
			r = pf_member_text(&m, &c.name, why);
			break;
		case LANCE__COLUMN__FIELD__ID:
			r = pf_member_u64(&m, &v, why);
			c.id = (int32_t)v;
			break;
		case LANCE__COLUMN__FIELD__PARENT_ID:
			r = pf_member_u64(&m, &v, why);
			c.parent = (int32_t)v;
			break;
		case LANCE__COLUMN__FIELD__LOGICAL_TYPE:
			r = pf_member_text(&m, &c.type, why);
			break;
		case LANCE__COLUMN__FIELD__NULLABLE:
			r = pf_member_u64(&m, &v, why);
			c.nullable = v != 0;
			break;
		case LANCE__COLUMN__FIELD__ENCODING:
			r = pf_member_u64(&m, &c.encoding, why);
			break;
		case LANCE__COLUMN__FIELD__DICTIONARY:
			r = pf_member_span(&m, &c.dictionary, why);
			break;
		default:
			break;
		}
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 16;
		struct pf_column *columns = reallocarray(s->v, cap, sizeof(*columns));

		if (!columns)
			return -ENOMEM;
		s->v = columns;
		s->cap = cap;
	}
	s->v[s->n++] = c;
	return 0;
}

int pf_schema_read(struct pf_span fields, uint32_t number, struct pf_schema *out, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema s = { 0 };
	struct pf_message walk;
	struct pf_member m;
	struct pf_span message;
	int r;

	pf_message_init(&walk, fields);
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number != number)
			continue;
		r = pf_member_span(&m, &message, why);
		if (r == 0)
			r = pf_schema_add(&s, message, why);
		if (r < 0)
			return pf_why_prefix(why, r, "schema");
	}
	if (r < 0)
		return r;
	*out = s;
	s = (struct pf_schema){ 0 };
	return 0;
}

const struct pf_column *pf_schema_find(const struct pf_schema *s, int32_t id)
{
	/* Mostly ids count columns. */
	if (id >= 0 && (size_t)id < s->n && s->v[id].id == id)
		return &s->v[id];
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].id == id)
			return &s->v[i];
	return NULL;
}

bool pf_schema_is_below(const struct pf_schema *s, int32_t id, int32_t above)
{
	const struct pf_column *c;

	/* Bounded: ids in a circle would not end. */
	for (size_t i = 0; i <= s->n; i++) {
		if (id == above)
			return true;
		c = pf_schema_find(s, id);
		if (!c || c->parent < 0)
			return false;
		id = c->parent;
	}
	return false;
}

bool pf_schema_is_leaf(const struct pf_schema *s, const struct pf_column *c)
{
	/* Depth first: what is below it begins right after it. */
	return c + 1 == s->v + s->n || c[1].parent != c->id;
}

bool pf_schema_same_path(const struct pf_schema *s, const struct pf_column *c, const struct pf_schema *t,
			 const struct pf_column *d)
{
	for (size_t i = 0; c && d && i <= s->n; i++) {
		if (!pf_span_eq(c->name, d->name) || (c->parent < 0) != (d->parent < 0))
			return false;
		if (c->parent < 0)
			return true;
		c = pf_schema_find(s, c->parent);
		d = pf_schema_find(t, d->parent);
	}
	return false;
}

bool pf_is_truthy(struct pf_span value)
{
	static const char *const words[] = { "1", "true", "on", "yes", "y" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (value.n == strlen(words[i]) && strncasecmp((const char *)value.p, words[i], value.n) == 0)
			return true;
	return false;
}
