/*
 * The pin record (proposal: Pin Records; design: section 1): manifest field 10395, one message a pin. Renewal changes expires_at and nothing else.
 */
#ifndef PF_PIN_H
#define PF_PIN_H

#include "text.h"

struct pf_pin {
	struct pf_uuid id;
	uint64_t source_version;
	char source_txn[PF_UUID_TEXT]; /* transaction uuid of the source, as its writer spelled it */
	struct pf_time created_at, expires_at;
	char *label;	   /* owned; "" if none, never NULL */
	struct pf_buf raw; /* the stored message, verbatim; empty in a pin that was never stored */
};

#define PF_PIN_INIT                                                                                                    \
	{                                                                                                              \
		.raw = PF_BUF_INIT                                                                                     \
	}

/* Stored records longer than this are damaged: far above any label, far below an attack on memory. */
#define PF_PIN_RECORD_MAX 65536

void pf_pin_release(struct pf_pin *p);
int pf_pin_copy(const struct pf_pin *from, struct pf_pin *out); /* 0 or -ENOMEM */
/* Do they say the same, whatever else is stored with them? Ids are the caller's to compare. */
bool pf_pin_same(const struct pf_pin *a, const struct pf_pin *b);

/* Append what a refusal says of one that is in the way: `ID "label" (expires T)`, the label quoted, and left out if it is empty. 0 or -ENOMEM. */
int pf_pin_describe(const struct pf_pin *p, struct pf_buf *out);

/* A list of pins, owned by whoever holds the struct. Order is the stored order. */
struct pf_pins {
	struct pf_pin *v;
	size_t n;
};

#define PF_PINS_INIT                                                                                                   \
	{                                                                                                              \
		NULL, 0                                                                                                \
	}

void pf_pins_release(struct pf_pins *l);
int pf_pins_copy(const struct pf_pins *from, struct pf_pins *out);
int pf_pins_add(struct pf_pins *l, struct pf_pin *p); /* takes *p over and leaves it empty; -ENOMEM leaves both alone */
void pf_pins_remove(struct pf_pins *l, size_t i);
struct pf_pin *pf_pins_find(const struct pf_pins *l, const struct pf_uuid *id); /* NULL if absent; exact id only */

/*
 * Decode one stored record of `len` bytes. On success *out belongs to the caller.
 *   -EBADMSG  not a message; id missing, not 16 bytes, nil or all ones; source uuid not 36 hyphenated characters; a time missing
 *             or outside years 0001-9999; label not UTF-8 or with control characters. The sentence says which.
 */
int pf_pin_decode(const void *data, size_t len, struct pf_pin *out, struct pf_why *why);

/*
 * Append the record's message: the stored bytes if the fields still say what those bytes say, else re-encoded with the unknown
 * fields of the stored message kept (another implementation may have added some).
 */
int pf_pin_encode(const struct pf_pin *p, struct pf_buf *out);

#endif
