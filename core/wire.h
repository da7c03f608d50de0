/*
 * Protobuf wire format, as far as splicing needs it: walk the fields of one message without decoding what they hold, bounded
 * at every step, and write tags, varints and length-delimited fields. The bytes walked are claims (style: "Stored bytes are claims").
 */
#ifndef PF_WIRE_H
#define PF_WIRE_H

#include "buf.h"
#include "error.h"

/* Random access to bytes: a file of a store, or memory. read returns 0 only if all n bytes were delivered. */
struct pf_reader {
	int (*read)(struct pf_reader *r, uint64_t off, void *buf, size_t n);
	uint64_t size;
	const uint8_t *mem; /* all of the bytes, if they are in memory: a cursor then looks at them there */
};

struct pf_mem_reader {
	struct pf_reader base;
};

void pf_mem_reader_init(struct pf_mem_reader *r, const void *data, size_t len);

enum pf_wire_type { PF_WIRE_VARINT = 0, PF_WIRE_I64 = 1, PF_WIRE_LEN = 2, PF_WIRE_I32 = 5 };

/* One field of a message. Offsets are positions in the reader. */
struct pf_field {
	uint32_t number;
	enum pf_wire_type type;
	uint64_t start; /* of the tag */
	uint64_t value; /* of the payload: after the length for PF_WIRE_LEN */
	uint64_t len;	/* of the payload; start of the next field = value + len */
	uint64_t num;	/* the value of a VARINT, I64 or I32; 0 for LEN */
};

#define PF_WIRE_WINDOW 65536

/*
 * A cursor over the message at [off, off + len) of r. A value in the caller's frame; r must outlive it. It reads through a window
 * of PF_WIRE_WINDOW bytes, unless they are in memory, and skips payloads longer than that without reading them.
 */
struct pf_wire {
	struct pf_reader *r;
	uint64_t pos, end;
	uint64_t win_off;
	size_t win_len;
	uint8_t *win; /* owned, allocated by the first pf_wire_next that needs it */
};

void pf_wire_init(struct pf_wire *w, struct pf_reader *r, uint64_t off, uint64_t len);
void pf_wire_release(struct pf_wire *w);

/*
 * Step to the next field: 1 and *out filled, 0 at the end.
 *   -EBADMSG  a varint that does not end within 10 bytes or within the message, field number 0 or above 2^29-1, a group or
 *             unknown wire type, or a length that passes the end; the sentence names the offset and what was expected.
 *             Numbers of singular u32 fields are not narrowed here; the caller judges `num`.
 */
int pf_wire_next(struct pf_wire *w, struct pf_field *out, struct pf_why *why);

/*
 * Step into the message that a LEN field just returned holds, and out again behind it: the same window serves all depths. `end` is what
 * enter returned. A caller that gives up in between only releases the cursor.
 */
static inline uint64_t pf_wire_enter(struct pf_wire *w, const struct pf_field *f)
{
	uint64_t end = w->end;

	w->pos = f->value;
	w->end = f->value + f->len;
	return end;
}

static inline void pf_wire_leave(struct pf_wire *w, uint64_t end)
{
	w->pos = w->end;
	w->end = end;
}

/* 0 if the field has this wire type, else -EBADMSG: of a known number, another type is damage. */
int pf_wire_expect(const struct pf_field *f, enum pf_wire_type type, struct pf_why *why);

/* The value of a VARINT field; -EBADMSG if it is of another type. */
int pf_wire_u64(const struct pf_field *f, uint64_t *out, struct pf_why *why);

/* Append the payload of a LEN field to out. -EBADMSG if it is not LEN or longer than max. */
int pf_wire_payload(struct pf_reader *r, const struct pf_field *f, size_t max, struct pf_buf *out, struct pf_why *why);

/* The same for a field that w returned: taken from the cursor's window if it has all of it. */
int pf_wire_take(struct pf_wire *w, const struct pf_field *f, size_t max, struct pf_buf *out, struct pf_why *why);

/*
 * Decode the varint at p, of which n bytes are there; `at` is its offset, for the sentence. Returns its length. For packed fields, whose
 * payload is one varint after another.
 */
int pf_wire_varint(const uint8_t *p, size_t n, uint64_t at, uint64_t *out, struct pf_why *why);

/* Writers: append to b; 0 or -ENOMEM. */
int pf_wire_put_varint(struct pf_buf *b, uint64_t v);
int pf_wire_put_tag(struct pf_buf *b, uint32_t number, enum pf_wire_type type);
int pf_wire_put_u64(struct pf_buf *b, uint32_t number, uint64_t v); /* tag and varint, also for 0 */
int pf_wire_put_bytes(struct pf_buf *b, uint32_t number, const void *p, size_t n);

static inline uint64_t pf_get_le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

#endif
