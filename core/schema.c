#include "schema.h"

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
