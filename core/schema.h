/*
 * A schema as it stands in manifests and operations: columns one after the other, depth first, each naming its parent (lance-format 2.2). Columns keep
 * their bytes; only ids and names are looked at.
 */
#ifndef PF_SCHEMA_H
#define PF_SCHEMA_H

#include "message.h"

struct pf_column {
	int32_t id, parent; /* parent -1: none */
	struct pf_span name, type, message;
	bool nullable;
	uint64_t encoding;
	struct pf_span dictionary; /* the message; empty if there is none */
};

struct pf_schema {
	struct pf_column *v;
	size_t n, cap;
};
void pf_schema_release(struct pf_schema *s);

/* Add the column of one Field message, which outlives the schema. */
int pf_schema_add(struct pf_schema *s, struct pf_span message, struct pf_why *why);

/* Those in `fields`: occurrences of the field `number`, one after the other. */
int pf_schema_read(struct pf_span fields, uint32_t number, struct pf_schema *out, struct pf_why *why);

const struct pf_column *pf_schema_find(const struct pf_schema *s, int32_t id);

/* Has the column, one of s->v, no others below it? */
bool pf_schema_is_leaf(const struct pf_schema *s, const struct pf_column *c);

/* Do both have the same name, and all that they are part of? */
bool pf_schema_same_path(const struct pf_schema *s, const struct pf_column *c, const struct pf_schema *t,
			 const struct pf_column *d);

/* What Lance takes for true in a value of metadata: 1, true, on, yes, y in any case. */
bool pf_is_truthy(struct pf_span value);

/* Is `id` the column `above`, or anywhere below it? */
bool pf_schema_is_below(const struct pf_schema *s, int32_t id, int32_t above);

#endif
