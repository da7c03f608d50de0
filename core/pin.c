#include "pin.h"

#include <string.h>

#include "pins.pb-c.h"
#include "wire.h"

void pf_pin_release(struct pf_pin *p)
{
	free(p->label);
	pf_buf_release(&p->raw);
	*p = (struct pf_pin)PF_PIN_INIT;
}

int pf_pin_describe(const struct pf_pin *p, struct pf_buf *out)
{
	char id[PF_UUID_TEXT], expires[PF_TIME_TEXT], label[PF_QUOTE_TEXT];

	pf_uuid_format(&p->id, id);
	pf_time_format(p->expires_at, expires);
	if (!p->label || !p->label[0])
		return pf_buf_addf(out, "%s (expires %s)", id, expires);
	return pf_buf_addf(out, "%s %s (expires %s)", id, pf_text_quote(p->label, strlen(p->label), label), expires);
}

int pf_pin_copy(const struct pf_pin *from, struct pf_pin *out)
{
	struct pf_pin p = *from;

	p.raw = (struct pf_buf)PF_BUF_INIT;
	p.label = strdup(from->label ? from->label : "");
	if (!p.label || pf_buf_add(&p.raw, from->raw.data, from->raw.len) < 0) {
		pf_pin_release(&p);
		return -ENOMEM;
	}
	*out = p;
	return 0;
}

bool pf_pin_same(const struct pf_pin *a, const struct pf_pin *b)
{
	return a->source_version == b->source_version && strcmp(a->source_txn, b->source_txn) == 0 &&
	       pf_time_cmp(a->created_at, b->created_at) == 0 && pf_time_cmp(a->expires_at, b->expires_at) == 0 &&
	       strcmp(a->label, b->label) == 0;
}

void pf_pins_release(struct pf_pins *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_pin_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_pins)PF_PINS_INIT;
}

int pf_pins_copy(const struct pf_pins *from, struct pf_pins *out)
{
	struct pf_pins l = PF_PINS_INIT;

	if (from->n) {
		l.v = calloc(from->n, sizeof(*l.v));
		if (!l.v)
			return -ENOMEM;
	}
	for (; l.n < from->n; l.n++) {
		int r = pf_pin_copy(&from->v[l.n], &l.v[l.n]);
		if (r < 0) {
			pf_pins_release(&l);
			return r;
		}
	}
	*out = l;
	return 0;
}

int pf_pins_add(struct pf_pins *l, struct pf_pin *p)
{
	struct pf_pin *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	l->v[l->n++] = *p;
	*p = (struct pf_pin)PF_PIN_INIT;
	return 0;
}

void pf_pins_remove(struct pf_pins *l, size_t i)
{
	pf_pin_release(&l->v[i]);
	memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof(*l->v));
	l->n--;
}

struct pf_pin *pf_pins_find(const struct pf_pins *l, const struct pf_uuid *id)
{
	for (size_t i = 0; i < l->n; i++)
		if (pf_uuid_eq(&l->v[i].id, id))
			return &l->v[i];
	return NULL;
}

static void message_free(Pins__OngoingWorkPin **m)
{
	pins__ongoing_work_pin__free_unpacked(*m, NULL);
}

/* protobuf-c ends a string at its first NUL. No field of a pin may hold one, so what it would hide is damage. */
static int check_no_nul(const void *data, size_t len, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader r;
	struct pf_field f;
	int n;

	pf_mem_reader_init(&r, data, len);
	pf_wire_init(&w, &r.base, 0, len);
	while ((n = pf_wire_next(&w, &f, why)) > 0) {
		const ProtobufCFieldDescriptor *d =
			protobuf_c_message_descriptor_get_field(&pins__ongoing_work_pin__descriptor, f.number);
		if (d && d->type == PROTOBUF_C_TYPE_STRING && f.type == PF_WIRE_LEN &&
		    memchr((const uint8_t *)data + f.value, '\0', f.len))
			return pf_why_set(why, -EBADMSG, "the pin record's %s has a NUL inside", d->name);
	}
	return n;
}

static int get_time(const Lance__Timestamp *t, const char *what, struct pf_time *out, struct pf_why *why)
{
	if (!t)
		return pf_why_set(why, -EBADMSG, "the pin record has no %s", what);
	*out = (struct pf_time){ .sec = t->seconds, .nsec = t->nanos };
	if (!pf_time_valid(*out))
		return pf_why_set(why, -EBADMSG,
				  "the pin record's %s is %lld seconds and %d nanoseconds; expected years 0001 to 9999",
				  what, (long long)out->sec, (int)out->nsec);
	return 0;
}

static int get_id(const Lance__UUID *id, struct pf_uuid *out, struct pf_why *why)
{
	if (!id || !id->has_uuid)
		return pf_why_set(why, -EBADMSG, "the pin record has no id");
	if (id->uuid.len != sizeof(out->b))
		return pf_why_set(why, -EBADMSG, "the pin record's id has %zu bytes; expected %zu", id->uuid.len,
				  sizeof(out->b));
	memcpy(out->b, id->uuid.data, sizeof(out->b));
	if (!pf_uuid_valid(out))
		return pf_why_set(why, -EBADMSG, "the pin record's id is all zeros or all ones");
	return 0;
}

static int get_source(const char *txn, char out[PF_UUID_TEXT], struct pf_why *why)
{
	struct pf_uuid ignored;
	char quoted[PF_QUOTE_TEXT];

	txn = txn ? txn : "";
	if (pf_uuid_parse(txn, strlen(txn), &ignored, NULL) < 0)
		return pf_why_set(why, -EBADMSG,
				  "the pin record's source_transaction_uuid is %s; expected 36 characters of a UUID",
				  pf_text_quote(txn, strlen(txn), quoted));
	memcpy(out, txn, PF_UUID_TEXT);
	return 0;
}

static int get_label(const char *label, char **out, struct pf_why *why)
{
	struct pf_why what = PF_WHY_INIT;

	label = label ? label : "";
	if (pf_label_check(label, strlen(label), &what) < 0)
		return pf_why_set(why, -EBADMSG, "the pin record is damaged: %s", what.text);
	*out = strdup(label);
	return *out ? 0 : -ENOMEM;
}

int pf_pin_decode(const void *data, size_t len, struct pf_pin *out, struct pf_why *why)
{
	_cleanup_(message_free) Pins__OngoingWorkPin *m = NULL;
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT;

	if (len > PF_PIN_RECORD_MAX)
		return pf_why_set(why, -EBADMSG, "a pin record has %zu bytes; expected at most %d", len,
				  PF_PIN_RECORD_MAX);
	int r = check_no_nul(data, len, why);
	if (r < 0)
		return r;
	m = pins__ongoing_work_pin__unpack(NULL, len, data);
	if (!m)
		return pf_why_set(why, -EBADMSG, "a pin record of %zu bytes is not an OngoingWorkPin message", len);

	if ((r = get_id(m->id, &p.id, why)) < 0 ||
	    (r = get_source(m->source_transaction_uuid, p.source_txn, why)) < 0 ||
	    (r = get_time(m->created_at, "created_at", &p.created_at, why)) < 0 ||
	    (r = get_time(m->expires_at, "expires_at", &p.expires_at, why)) < 0 ||
	    (r = get_label(m->label, &p.label, why)) < 0 || (r = pf_buf_add(&p.raw, data, len)) < 0)
		return r;
	p.source_version = m->source_version;

	*out = p;
	p = (struct pf_pin)PF_PIN_INIT;
	return 0;
}

static bool says_the_same(const struct pf_pin *a, const struct pf_pin *b)
{
	return pf_uuid_eq(&a->id, &b->id) && a->source_version == b->source_version &&
	       strcmp(a->source_txn, b->source_txn) == 0 && pf_time_cmp(a->created_at, b->created_at) == 0 &&
	       pf_time_cmp(a->expires_at, b->expires_at) == 0 && strcmp(a->label, b->label) == 0;
}

/* A zero goes without saying, unless the stored message says it. */
static void put_time(Lance__Timestamp *t, struct pf_time v)
{
	t->has_seconds |= v.sec != 0;
	t->seconds = v.sec;
	t->has_nanos |= v.nsec != 0;
	t->nanos = v.nsec;
}

/* Lay the record's fields over the message `stored`, whose unknown fields go along, at both levels; NULL: a new one. */
static int encode_over(const struct pf_pin *p, const Pins__OngoingWorkPin *stored, struct pf_buf *out)
{
	Pins__OngoingWorkPin m = PINS__ONGOING_WORK_PIN__INIT;
	Lance__UUID id = LANCE__UUID__INIT;
	Lance__Timestamp created = LANCE__TIMESTAMP__INIT, expires = LANCE__TIMESTAMP__INIT;
	struct pf_uuid bytes = p->id;
	char txn[PF_UUID_TEXT];

	if (stored) {
		m = *stored;
		id = *stored->id;
		created = *stored->created_at;
		expires = *stored->expires_at;
	}
	id.has_uuid = true;
	id.uuid = (ProtobufCBinaryData){ .len = sizeof(bytes.b), .data = bytes.b };
	memcpy(txn, p->source_txn, sizeof(txn));
	put_time(&created, p->created_at);
	put_time(&expires, p->expires_at);
	m.id = &id;
	m.has_source_version |= p->source_version != 0;
	m.source_version = p->source_version;
	m.source_transaction_uuid = txn;
	m.created_at = &created;
	m.expires_at = &expires;
	m.label = p->label[0] || m.label ? p->label : NULL;

	size_t n = pins__ongoing_work_pin__get_packed_size(&m);
	int r = pf_buf_reserve(out, n);
	if (r < 0)
		return r;
	out->len += pins__ongoing_work_pin__pack(&m, out->data + out->len);
	return 0;
}

int pf_pin_encode(const struct pf_pin *p, struct pf_buf *out)
{
	_cleanup_(message_free) Pins__OngoingWorkPin *stored = NULL;
	_cleanup_(pf_pin_release) struct pf_pin was = PF_PIN_INIT;

	if (p->raw.len == 0)
		return encode_over(p, NULL, out);
	int r = pf_pin_decode(p->raw.data, p->raw.len, &was, NULL);
	if (r < 0)
		return r;
	if (says_the_same(p, &was))
		return pf_buf_add(out, p->raw.data, p->raw.len);
	stored = pins__ongoing_work_pin__unpack(NULL, p->raw.len, p->raw.data);
	if (!stored)
		return -ENOMEM; /* it was just decoded */
	return encode_over(p, stored, out);
}
