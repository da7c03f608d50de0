/*
 * Protobuf messages in memory: walked field by field, and changed without knowing all of their fields. For the small messages inside manifests and
 * transactions (fragments, files, indices); whole manifests are walked in their files (wire.h).
 */
#ifndef PF_MESSAGE_H
#define PF_MESSAGE_H

#include <stdbool.h>
#include <string.h>

#include "wire.h"

/* Bytes of somebody else. */
struct pf_span {
	const uint8_t *p;
	size_t n;
};

#define PF_SPAN_OF(buf) ((struct pf_span){ (buf)->data, (buf)->len })

static inline bool pf_span_eq(struct pf_span a, struct pf_span b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* A walk over one message. Needs no release. The bytes must outlive it. */
struct pf_message {
	struct pf_mem_reader mem;
	struct pf_wire w;
	struct pf_span span;
};

struct pf_member {
	uint32_t number;
	enum pf_wire_type type;
	struct pf_span whole; /* tag and length included */
	struct pf_span value; /* of a LEN field */
	uint64_t num;	      /* of the others */
};

void pf_message_init(struct pf_message *m, struct pf_span span);

/* 1 and *out, 0 at the end, -EBADMSG: offsets in the sentence count from the start of the message. */
int pf_message_next(struct pf_message *m, struct pf_member *out, struct pf_why *why);

/* The value, which must be of that type: 0 or -EBADMSG. text: UTF-8 without NUL. u32: -EBADMSG if it is larger. */
int pf_member_u64(const struct pf_member *f, uint64_t *out, struct pf_why *why);
int pf_member_u32(const struct pf_member *f, uint32_t *out, struct pf_why *why);
int pf_member_span(const struct pf_member *f, struct pf_span *out, struct pf_why *why);
int pf_member_text(const struct pf_member *f, struct pf_span *out, struct pf_why *why);

/* Integers of a repeated field. */
struct pf_numbers {
	uint64_t *v;
	size_t n, cap;
};
void pf_numbers_release(struct pf_numbers *l);
int pf_numbers_add(struct pf_numbers *l, uint64_t v);
bool pf_numbers_has(const struct pf_numbers *l, uint64_t v);

/* Add those of one occurrence, packed or single. */
int pf_member_numbers(const struct pf_member *f, struct pf_numbers *l, struct pf_why *why);

/* The value of a key of the map that is the field `number`: 1, 0 if it is not there, or -EBADMSG. */
int pf_message_map_value(struct pf_span message, uint32_t number, const char *key, struct pf_span *out,
			 struct pf_why *why);

/* What replaces a field: all of its occurrences go, and `fields` (whole fields, tags included; none: it is removed) stand in their place. */
struct pf_change {
	uint32_t number;
	struct pf_span fields;
};

/*
 * Append the message with these changes, each number once. What is not there yet is put where its number belongs in ascending order. Other fields
 * stay as they are, known or not.
 */
int pf_message_change(struct pf_span message, const struct pf_change *v, size_t n, struct pf_buf *out,
		      struct pf_why *why);

/* Append a field that holds a message or text. */
static inline int pf_put_span(struct pf_buf *b, uint32_t number, struct pf_span s)
{
	return pf_wire_put_bytes(b, number, s.p, s.n);
}

#endif
