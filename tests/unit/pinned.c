#include "pinned.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire.h"

#define FIELD	 10395
#define NEW_YEAR 1767225600 /* 2026-01-01T00:00:00Z */
#define DAY	 86400

const char *pinned_id(char letter, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx");
	for (char *p = out; *p; p++)
		if (*p == 'x')
			*p = (char)tolower(letter);
	return out;
}

struct pf_uuid pinned_uuid(char letter)
{
	char text[PF_UUID_TEXT];
	struct pf_uuid id;

	pinned_id(letter, text);
	assert_int_equal(pf_uuid_parse(text, strlen(text), &id, NULL), 0);
	return id;
}

char pinned_letter(const struct pf_uuid *id)
{
	char text[PF_UUID_TEXT];

	pf_uuid_format(id, text);
	return text[0];
}

struct pf_pin pinned_pin(char letter)
{
	struct pf_pin p = PF_PIN_INIT;

	p.id = pinned_uuid(letter);
	p.source_version = (uint64_t)(tolower(letter) - 'a' + 1);
	table_uuid(p.source_version, p.source_txn);
	p.created_at = (struct pf_time){ .sec = NEW_YEAR + (int64_t)p.source_version, .nsec = 7000000 };
	p.expires_at = (struct pf_time){ .sec = NEW_YEAR + (isupper(letter) ? 2 * DAY : DAY) };
	p.label = strdup("job");
	assert_non_null(p.label);
	return p;
}

static void put(struct pf_buf *b, uint32_t number, const struct pf_buf *v)
{
	assert_int_equal(pf_wire_put_bytes(b, number, v->data, v->len), 0);
}

static void put_time(struct pf_buf *b, uint32_t number, struct pf_time t)
{
	_cleanup_(pf_buf_release) struct pf_buf time = PF_BUF_INIT;

	assert_int_equal(pf_wire_put_u64(&time, 1, (uint64_t)t.sec), 0);
	assert_int_equal(pf_wire_put_u64(&time, 2, (uint64_t)t.nsec), 0);
	put(b, number, &time);
}

/* The record of a manifest and of Register; renew and expire have id and time alone, release the id. */
static void put_pin(struct pf_buf *b, uint32_t number, char letter, enum pf_op_kind kind)
{
	_cleanup_(pf_buf_release) struct pf_buf id = PF_BUF_INIT, raw = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin(letter);

	assert_int_equal(pf_wire_put_bytes(&id, 1, p.id.b, sizeof(p.id.b)), 0);
	put(&raw, 1, &id);
	if (kind == PF_OP_RENEW || kind == PF_OP_EXPIRE)
		put_time(&raw, 2, p.expires_at);
	if (kind == PF_OP_REGISTER) {
		assert_int_equal(pf_wire_put_u64(&raw, 2, p.source_version), 0);
		assert_int_equal(pf_wire_put_bytes(&raw, 3, p.source_txn, strlen(p.source_txn)), 0);
		put_time(&raw, 4, p.created_at);
		put_time(&raw, 5, p.expires_at);
		assert_int_equal(pf_wire_put_bytes(&raw, 6, p.label, strlen(p.label)), 0);
	}
	put(b, number, &raw);
}

void pinned_put(struct pf_store *st, const struct table_version *t, const struct pinned *p)
{
	_cleanup_(pf_buf_release) struct pf_buf pins = PF_BUF_INIT, elements = PF_BUF_INIT, operation = PF_BUF_INIT,
						field = PF_BUF_INIT;
	struct table_version v = *t;

	for (const char *c = p->pins; c && *c; c++)
		put_pin(&pins, FIELD, *c, PF_OP_REGISTER);
	v.pins = &pins;
	for (const char *c = p->named; c && *c; c++)
		put_pin(&elements, 1, *c, p->kind);
	if (p->kind) {
		put(&operation, (uint32_t)p->kind, &elements);
		put(&field, FIELD, &operation);
		v.txn_extra = &field;
		v.operation = 110;
	}
	table_put(st, &v);
}
