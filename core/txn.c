#include "txn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lance.pb-c.h"
#include "pins.pb-c.h"

#define MESSAGE_KEY "__lance_commit_message"

/* A property longer than this is not a commit message that anybody reads; it is skipped. */
#define PROPERTY_MAX 65536

/* Lance numbers operations from here on; 200 and 202 are reserved by it. */
#define OPERATION_MIN LANCE__TRANSACTION__OPERATION__APPEND

static const char *const kind_names[] = {
	[PF_OP_NONE] = "none",	     [PF_OP_REGISTER] = "register", [PF_OP_RENEW] = "renew",
	[PF_OP_RELEASE] = "release", [PF_OP_EXPIRE] = "expire",	    [PF_OP_ENABLE] = "enable",
};

const char *pf_op_kind_name(enum pf_op_kind kind)
{
	return kind_names[kind];
}

static const char *const operation_names[] = {
	"Append",	"Delete",	   "Overwrite",		"CreateIndex", "Rewrite",
	"Merge",	"Restore",	   "ReserveFragments",	"Update",      "Project",
	"UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone",       "UpdateBases",
	"DataOverlay",
};

const char *pf_txn_operation_name(unsigned operation, char buf[32])
{
	if (operation >= OPERATION_MIN && operation - OPERATION_MIN < ARRAY_LEN(operation_names))
		return operation_names[operation - OPERATION_MIN];
	snprintf(buf, 32, "operation %u", operation);
	return buf;
}

void pf_txn_release(struct pf_txn *t)
{
	free(t->message);
	pf_pins_release(&t->pins);
	*t = (struct pf_txn)PF_TXN_INIT;
}

static int take_uuid(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_uuid id;

	t->uuid[0] = '\0';
	int r = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (r < 0 || f->len != PF_UUID_TEXT - 1)
		return r;
	r = pf_wire_payload(w->r, f, PF_UUID_TEXT - 1, &text, why);
	if (r < 0)
		return r;
	/* Kept as its writer spelled it: pins name their source by these bytes. */
	if (pf_uuid_parse((char *)text.data, text.len, &id, NULL) == 0)
		snprintf(t->uuid, sizeof(t->uuid), "%.*s", (int)text.len, (char *)text.data);
	return 0;
}

static int take_property(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;

	int r = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (r < 0 || f->len > PROPERTY_MAX)
		return r;
	r = pf_wire_payload(w->r, f, PROPERTY_MAX, &raw, why);
	if (r < 0)
		return r;
	Lance__PropertiesEntry *e = lance__properties_entry__unpack(NULL, raw.len, raw.data);
	if (!e)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a key and a value", f->start);
	if (e->key && strcmp(e->key, MESSAGE_KEY) == 0) {
		const char *value = e->value ? e->value : "";
		char *message = pf_utf8_valid(value, strlen(value)) ? strdup(value) : NULL;
		if (message) {
			free(t->message);
			t->message = message;
		} else {
			r = pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected UTF-8 text as commit message",
				       f->start);
		}
	}
	lance__properties_entry__free_unpacked(e, NULL);
	return r;
}

/* Lance's operations are one oneof, so the last one counts; a number of somebody else counts only where Lance has none. */
static void take_operation(const struct pf_field *f, struct pf_txn *t)
{
	bool known = f->number - OPERATION_MIN < ARRAY_LEN(operation_names);
	bool have_known = t->operation && t->operation - OPERATION_MIN < ARRAY_LEN(operation_names);

	if (f->type == PF_WIRE_LEN && (known || !have_known))
		t->operation = f->number;
}

/* The items of Renew, Release and Expire are one message on the wire; Release leaves the time out. */
static int decode_item(enum pf_op_kind kind, const struct pf_buf *raw, struct pf_pin *pin, struct pf_why *why)
{
	/* protoc-c makes no unpack function for a nested message. */
	ProtobufCMessage *m =
		protobuf_c_message_unpack(&pins__pin_operation__renew__item__descriptor, NULL, raw->len, raw->data);
	Pins__PinOperation__Renew__Item *item = (Pins__PinOperation__Renew__Item *)m;
	int r = 0;

	if (!m)
		return pf_why_set(why, -EBADMSG, "expected an item message");
	if (!item->id || item->id->uuid.len != sizeof(pin->id.b)) {
		r = pf_why_set(why, -EBADMSG, "expected an id of %zu bytes", sizeof(pin->id.b));
	} else if (kind != PF_OP_RELEASE && !item->expires_at) {
		r = pf_why_set(why, -EBADMSG, "expected a time");
	} else {
		memcpy(pin->id.b, item->id->uuid.data, sizeof(pin->id.b));
		if (kind != PF_OP_RELEASE)
			pin->expires_at = (struct pf_time){ item->expires_at->seconds, item->expires_at->nanos };
	}
	protobuf_c_message_free_unpacked(m, NULL);
	if (r < 0)
		return r;
	if (!pf_uuid_valid(&pin->id))
		return pf_why_set(why, -EBADMSG, "expected an id that is neither nil nor all ones");
	if (!pf_time_valid(pin->expires_at))
		return pf_why_set(why, -EBADMSG, "expected a time within years 0001 to 9999");
	pin->label = strdup("");
	return pin->label ? 0 : -ENOMEM;
}

static int take_element(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin pin = PF_PIN_INIT;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_wire_payload(w->r, f, PF_PIN_RECORD_MAX, &raw, why);
	if (r < 0)
		return r;
	if (t->kind == PF_OP_REGISTER)
		r = pf_pin_decode(raw.data, raw.len, &pin, &inner);
	else
		r = decode_item(t->kind, &raw, &pin, &inner);
	if (r < 0)
		return pf_why_set(why, r, "offset %" PRIu64 ": %s: %s", f->start, pf_op_kind_name(t->kind), inner.text);
	return pf_pins_add(&t->pins, &pin);
}

_Static_assert((int)PF_OP_REGISTER == PINS__PIN_OPERATION__OPERATION_REGISTER &&
		       (int)PF_OP_RENEW == PINS__PIN_OPERATION__OPERATION_RENEW &&
		       (int)PF_OP_RELEASE == PINS__PIN_OPERATION__OPERATION_RELEASE &&
		       (int)PF_OP_EXPIRE == PINS__PIN_OPERATION__OPERATION_EXPIRE &&
		       (int)PF_OP_ENABLE == PINS__PIN_OPERATION__OPERATION_ENABLE,
	       "the kinds are numbered as the oneof is");

static int take_kind(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	struct pf_field element;

	int r = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (r < 0)
		return r;
	if (t->kind != (enum pf_op_kind)f->number)
		pf_pins_release(&t->pins);
	t->kind = (enum pf_op_kind)f->number;

	uint64_t end = pf_wire_enter(w, f);
	while ((r = pf_wire_next(w, &element, why)) > 0) {
		if (element.number != PINS__NUMBER__ELEMENT || t->kind == PF_OP_ENABLE)
			continue;
		r = take_element(w, &element, t, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

static int take_pin_operation(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	struct pf_field kind;

	int r = pf_wire_expect(f, PF_WIRE_LEN, why);
	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, f);
	while ((r = pf_wire_next(w, &kind, why)) > 0) {
		if (kind.number > PF_OP_ENABLE)
			continue;
		r = take_kind(w, &kind, t, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

static int take_field(struct pf_wire *w, const struct pf_field *f, struct pf_txn *t, struct pf_why *why)
{
	switch (f->number) {
	case LANCE__TRANSACTION__FIELD__READ_VERSION:
		return pf_wire_u64(f, &t->read_version, why);
	case LANCE__TRANSACTION__FIELD__UUID:
		return take_uuid(w, f, t, why);
	case LANCE__TRANSACTION__FIELD__PROPERTIES:
		return take_property(w, f, t, why);
	case PINS__NUMBER__FIELD:
		return take_pin_operation(w, f, t, why);
	default:
		if (f->number >= OPERATION_MIN)
			take_operation(f, t);
		return 0;
	}
}

int pf_txn_decode(struct pf_reader *r, uint64_t off, uint64_t len, const char *where, struct pf_txn *out,
		  struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	struct pf_why inner = PF_WHY_INIT;
	struct pf_field f;
	int e;

	pf_wire_init(&w, r, off, len);
	if (len == 0)
		return pf_why_set(why, -EBADMSG,
				  "%s: offset %" PRIu64 ": expected a transaction, found an empty message", where, off);
	while ((e = pf_wire_next(&w, &f, &inner)) > 0) {
		e = take_field(&w, &f, &t, &inner);
		if (e < 0)
			break;
	}
	if (e < 0)
		return pf_why_set(why, e, "%s: transaction: %s", where, inner.text[0] ? inner.text : strerror(-e));
	*out = t;
	t = (struct pf_txn)PF_TXN_INIT;
	return 0;
}

static int read_inline(struct pf_store *st, const struct pf_manifest *m, struct pf_txn *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;

	int r = pf_manifest_reopen(st, m, &file, why);
	if (r < 0)
		return r;
	r = pf_txn_decode(&file->r, m->transaction.off, m->transaction.len, m->name, out, why);
	if (r == 0)
		out->from = "inline";
	return r;
}

static int open_file(struct pf_store *st, const char *dir, const struct pf_manifest *m, char quoted[PF_QUOTE_TEXT],
		     struct pf_file **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;
	const char *base = m->transaction_file;

	if (strchr(base, '/') || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return pf_why_set(why, -EBADMSG, "%s: expected field %d to name a file in _transactions/, found %s",
				  m->name, LANCE__MANIFEST__FIELD__TRANSACTION_FILE,
				  pf_text_quote(base, strlen(base), quoted));
	int r = pf_buf_addf(&name, "%s_transactions/%s", dir, base);
	if (r < 0)
		return r;
	const char *path = pf_buf_str(&name);
	if (!path)
		return -ENOMEM;
	pf_text_quote(path, name.len, quoted);
	r = pf_store_open(st, path, out);
	if (r == -ENOENT)
		return pf_why_set(why, r, "%s: its transaction file %s is missing", m->name, quoted);
	if (r < 0)
		return pf_why_set(why, r == -EISDIR || r == -ENAMETOOLONG ? -EBADMSG : r,
				  "%s: its transaction file %s: %s", m->name, quoted, strerror(-r));
	return 0;
}

static int read_file(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_txn *out,
		     struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	char quoted[PF_QUOTE_TEXT];

	int r = open_file(st, dir, m, quoted, &file, why);
	if (r < 0)
		return r;
	r = pf_txn_decode(&file->r, 0, file->r.size, quoted, out, why);
	if (r == 0)
		out->from = "file";
	return r;
}

int pf_txn_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_txn *out,
		struct pf_why *why)
{
	if (m->transaction.present)
		return read_inline(st, m, out, why);
	if (m->transaction_file)
		return read_file(st, dir, m, out, why);
	return pf_why_set(why, -ENODATA, "%s names no transaction", m->name);
}

int pf_txn_file_name(const char *dir, uint64_t read_version, const char *uuid, char **out)
{
	if (asprintf(out, "%s_transactions/%" PRIu64 "-%s.txn", dir, read_version, uuid) < 0)
		return *out = NULL, -ENOMEM;
	return 0;
}

int pf_txn_bytes(struct pf_store *st, const char *dir, const struct pf_manifest *m, struct pf_buf *out,
		 struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	uint64_t off = m->transaction.off, len = m->transaction.len;
	char quoted[PF_QUOTE_TEXT];
	int r;

	if (m->transaction.present)
		r = pf_manifest_reopen(st, m, &file, why);
	else if (m->transaction_file)
		r = open_file(st, dir, m, quoted, &file, why);
	else
		r = pf_why_set(why, -ENODATA, "%s names no transaction", m->name);
	if (r < 0)
		return r;
	if (!m->transaction.present) {
		off = 0;
		len = file->r.size;
	}
	r = pf_buf_reserve(out, (size_t)len);
	if (r == 0 && len)
		r = file->r.read(&file->r, off, out->data + out->len, (size_t)len);
	if (r < 0)
		return pf_why_set(why, r, "cannot read the transaction of %s: %s", m->name, strerror(-r));
	out->len += (size_t)len;
	return 0;
}

/* A protobuf-c message as field `number`. */
static int put_message(struct pf_buf *b, uint32_t number, const ProtobufCMessage *m)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	size_t n = protobuf_c_message_get_packed_size(m);

	int r = pf_buf_reserve(&raw, n);
	if (r < 0)
		return r;
	if (n > 0)
		protobuf_c_message_pack(m, raw.data);
	return pf_wire_put_bytes(b, number, raw.data, n);
}

static int put_item(struct pf_buf *b, const struct pf_pin *pin, enum pf_op_kind kind)
{
	Pins__PinOperation__Renew__Item item = PINS__PIN_OPERATION__RENEW__ITEM__INIT;
	Lance__UUID id = LANCE__UUID__INIT;
	Lance__Timestamp time = LANCE__TIMESTAMP__INIT;
	struct pf_uuid bytes = pin->id;

	id.has_uuid = true;
	id.uuid = (ProtobufCBinaryData){ sizeof(bytes.b), bytes.b };
	item.id = &id;
	if (kind != PF_OP_RELEASE) {
		/* proto3 writers leave zeros out. */
		time.has_seconds = pin->expires_at.sec != 0;
		time.seconds = pin->expires_at.sec;
		time.has_nanos = pin->expires_at.nsec != 0;
		time.nanos = pin->expires_at.nsec;
		item.expires_at = &time;
	}
	return put_message(b, PINS__NUMBER__ELEMENT, &item.base);
}

static int put_record(struct pf_buf *b, const struct pf_pin *pin)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;

	int r = pf_pin_encode(pin, &raw);
	return r < 0 ? r : pf_wire_put_bytes(b, PINS__NUMBER__ELEMENT, raw.data, raw.len);
}

static int put_pin_operation(struct pf_buf *b, const struct pf_txn *t)
{
	_cleanup_(pf_buf_release) struct pf_buf elements = PF_BUF_INIT, operation = PF_BUF_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->pins.n; i++)
		r = t->kind == PF_OP_REGISTER ? put_record(&elements, &t->pins.v[i])
					      : put_item(&elements, &t->pins.v[i], t->kind);
	if (r == 0)
		r = pf_wire_put_bytes(&operation, t->kind, elements.data, elements.len);
	return r < 0 ? r : pf_wire_put_bytes(b, PINS__NUMBER__FIELD, operation.data, operation.len);
}

int pf_txn_encode(const struct pf_txn *t, struct pf_buf *out)
{
	char key[] = MESSAGE_KEY;
	Lance__PropertiesEntry message = LANCE__PROPERTIES_ENTRY__INIT;
	int r = 0;

	message.key = key;
	message.value = t->message;
	if (t->read_version)
		r = pf_wire_put_u64(out, LANCE__TRANSACTION__FIELD__READ_VERSION, t->read_version);
	if (r == 0)
		r = pf_wire_put_bytes(out, LANCE__TRANSACTION__FIELD__UUID, t->uuid, strlen(t->uuid));
	if (r == 0 && t->message)
		r = put_message(out, LANCE__TRANSACTION__FIELD__PROPERTIES, &message.base);
	/* Every released Lance can open and rebase over an empty UpdateConfig; ours stands beside it. */
	if (r == 0)
		r = pf_wire_put_bytes(out, LANCE__TRANSACTION__OPERATION__UPDATE_CONFIG, NULL, 0);
	return r < 0 || t->kind == PF_OP_NONE ? r : put_pin_operation(out, t);
}
