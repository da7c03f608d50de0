/* The pin record: field numbers and rules of design.md section 1, cases-open D14 and E08. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/pin.h"
#include "core/wire.h"

#define ID     "\x01\x23\x45\x67\x89\xab\x4c\xde\x8f\x01\x23\x45\x67\x89\xab\xcd"
#define SOURCE "0badcafe-0000-4000-8000-000000000041"

static void put_id(struct pf_buf *b, const void *id, size_t n)
{
	_cleanup_(pf_buf_release) struct pf_buf m = PF_BUF_INIT;

	assert_int_equal(pf_wire_put_bytes(&m, 1, id, n), 0);
	assert_int_equal(pf_wire_put_bytes(b, 1, m.data, m.len), 0);
}

static void put_time(struct pf_buf *b, uint32_t number, int64_t sec, int32_t nsec)
{
	_cleanup_(pf_buf_release) struct pf_buf m = PF_BUF_INIT;

	assert_int_equal(pf_wire_put_u64(&m, 1, (uint64_t)sec), 0);
	assert_int_equal(pf_wire_put_u64(&m, 2, (uint64_t)(int64_t)nsec), 0);
	assert_int_equal(pf_wire_put_bytes(b, number, m.data, m.len), 0);
}

static void put_str(struct pf_buf *b, uint32_t number, const char *s, size_t n)
{
	assert_int_equal(pf_wire_put_bytes(b, number, s, n), 0);
}

/* Another implementation's record: fields in an order of its own, zeros spelled out, fields 9 and (in a time) 7 that nobody here knows. */
static void foreign_record(struct pf_buf *b)
{
	_cleanup_(pf_buf_release) struct pf_buf expires = PF_BUF_INIT;

	put_str(b, 9, "new", 3);
	put_str(b, 6, "nightly", 7);
	assert_int_equal(pf_wire_put_u64(b, 2, 41), 0);
	put_str(b, 3, SOURCE, 36);
	put_time(b, 4, 1767225600, 0);
	assert_int_equal(pf_wire_put_u64(&expires, 1, 1924992000), 0);
	assert_int_equal(pf_wire_put_u64(&expires, 7, 5), 0);
	put_str(b, 5, (const char *)expires.data, expires.len);
	put_id(b, ID, 16);
}

static void test_decode(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT;
	struct pf_why why = PF_WHY_INIT;

	foreign_record(&b);
	assert_int_equal(pf_pin_decode(b.data, b.len, &p, &why), 0);
	assert_memory_equal(p.id.b, ID, 16);
	assert_int_equal(p.source_version, 41);
	assert_string_equal(p.source_txn, SOURCE);
	assert_int_equal(p.created_at.sec, 1767225600);
	assert_int_equal(p.created_at.nsec, 0);
	assert_int_equal(p.expires_at.sec, 1924992000);
	assert_string_equal(p.label, "nightly");
	assert_string_equal(why.text, "");
}

/* Every way to spoil one member of a good record. */
enum { M_ID, M_SOURCE, M_CREATED, M_EXPIRES, M_LABEL, M_EXTRA };

static void test_damage(void **state)
{
	static const struct {
		int member; /* replaced by `bytes`, a whole field, or left out */
		const char *bytes;
		size_t len;
		const char *says;
	} rows[] = {
		{ M_ID, "", 0, "has no id" },
		{ M_ID, "\x0a\x00", 2, "has no id" },
		{ M_ID, "\x0a\x02\x0a\x00", 4, "id has 0 bytes; expected 16" },
		{ M_ID, "\x0a\x11\x0a\x0f" ID, 19, "id has 15 bytes; expected 16" },
		{ M_ID, "\x0a\x13\x0a\x11" ID "!", 21, "id has 17 bytes; expected 16" },
		{ M_ID, "\x0a\x26\x0a\x24" SOURCE, 40, "id has 36 bytes; expected 16" },
		{ M_ID, "\x0a\x12\x0a\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20, "all zeros" },
		{ M_ID, "\x0a\x12\x0a\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 20,
		  "all ones" },
		{ M_SOURCE, "", 0, "source_transaction_uuid is \"\"" },
		{ M_SOURCE,
		  "\x1a\x20"
		  "0badcafe000040008000000000000041",
		  34, "expected 36 characters" },
		{ M_SOURCE,
		  "\x1a\x23"
		  "0badcafe-0000-4000-8000-00000000004",
		  37, "expected 36 characters" },
		{ M_SOURCE,
		  "\x1a\x26"
		  "0badcafe-0000-4000-8000-000000000041\0z",
		  40, "source_transaction_uuid has a NUL" },
		{ M_CREATED, "", 0, "no created_at" },
		{ M_CREATED, "\x22\x07\x08\x80\xdf\xd4\xc9\xc4\x07", 9,
		  "years 0001 to 9999" }, /* 9999-12-31 and more */
		{ M_EXPIRES, "", 0, "no expires_at" },
		{ M_EXPIRES, "\x2a\x08\x08\x01\x10\x80\x94\xeb\xdc\x03", 10, "years 0001 to 9999" }, /* 10^9 ns */
		{ M_EXPIRES, "\x2a\x0d\x08\x01\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 15, "-1 nanoseconds" },
		{ M_LABEL, "\x32\x02\xc3\x28", 4, "not valid UTF-8" },
		{ M_LABEL,
		  "\x32\x03"
		  "a\nb",
		  5, "control character" },
		{ M_LABEL,
		  "\x32\x03"
		  "a\0b",
		  5, "label has a NUL" },
		{ M_EXTRA, "\x32\x7f", 2, "" },			     /* passes the end */
		{ M_EXTRA, "\x10\xff", 2, "" },			     /* a varint that does not end */
		{ M_EXTRA, "\x30\x05", 2, "not an OngoingWorkPin" }, /* a number where the label's bytes belong */
		{ M_EXTRA, "\x0b\x0c", 2, "" },			     /* a group */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		struct pf_pin untouched = { .source_version = 77 };
		struct pf_why why = PF_WHY_INIT;

		if (rows[i].member != M_ID)
			put_id(&b, ID, 16);
		if (rows[i].member != M_SOURCE)
			put_str(&b, 3, SOURCE, 36);
		if (rows[i].member != M_CREATED)
			put_time(&b, 4, 1767225600, 0);
		if (rows[i].member != M_EXPIRES)
			put_time(&b, 5, 1924992000, 999999999);
		assert_int_equal(pf_buf_add(&b, rows[i].bytes, rows[i].len), 0);

		if (pf_pin_decode(b.data, b.len, &untouched, &why) != -EBADMSG || !strstr(why.text, rows[i].says) ||
		    !why.text[0])
			fail_msg("row %zu: %s", i, why.text);
		assert_int_equal(untouched.source_version, 77);
	}
}

static void test_every_cut(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_pin p;

	foreign_record(&b);
	for (size_t n = 0; n < b.len; n++) {
		/* A copy of exactly n bytes, so that the sanitizer sees one read too many. */
		void *cut = malloc(n ? n : 1);
		assert_non_null(cut);
		memcpy(cut, b.data, n);
		assert_int_equal(pf_pin_decode(cut, n, &p, NULL), -EBADMSG);
		free(cut);
	}
}

static void test_too_long(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_freep) char *much = calloc(1, PF_PIN_RECORD_MAX);
	struct pf_pin p;

	foreign_record(&b);
	put_str(&b, 9, much, PF_PIN_RECORD_MAX);
	assert_int_equal(pf_pin_decode(b.data, b.len, &p, NULL), -EBADMSG);
}

static void test_new_bytes(void **state)
{
	static const char want[] = "\x0a\x12\x0a\x10" ID	      /* 1 id { 1 uuid } */
				   "\x10\x29"			      /* 2 source_version 41 */
				   "\x1a\x24" SOURCE		      /* 3 */
				   "\x22\x06\x08\x80\xf2\xd6\xca\x06" /* 4 { 1 1767225600 } */
				   "\x2a\x0c\x08\x80\x98\xf4\x95\x07" /* 5 { 1 1924992000, */
				   "\x10\x80\xca\xb5\xee\x01"	      /*     2 500000000 } */
				   "\x32\x03\xc3\xa9!";		      /* 6 */
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_pin p = {
		.source_version = 41,
		.source_txn = SOURCE,
		.created_at = { 1767225600, 0 },
		.expires_at = { 1924992000, 500000000 },
		.label = (char[]){ "\xc3\xa9!" },
	};

	memcpy(p.id.b, ID, 16);
	assert_int_equal(pf_pin_encode(&p, &got), 0);
	assert_int_equal(got.len, sizeof(want) - 1);
	assert_memory_equal(got.data, want, got.len);

	/* No label is no field. */
	p.label = (char[]){ "" };
	pf_buf_reset(&got);
	assert_int_equal(pf_pin_encode(&p, &got), 0);
	assert_int_equal(got.len, sizeof(want) - 1 - 5);
	assert_memory_equal(got.data, want, got.len);
}

static void test_unchanged_is_verbatim(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, got = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT, copy = PF_PIN_INIT;

	foreign_record(&b);
	assert_int_equal(pf_pin_decode(b.data, b.len, &p, NULL), 0);
	assert_int_equal(pf_pin_copy(&p, &copy), 0);
	assert_int_equal(pf_pin_encode(&copy, &got), 0);
	assert_int_equal(got.len, b.len);
	assert_memory_equal(got.data, b.data, b.len);
}

/* The payload of field `number` of a message, as text of bytes; len SIZE_MAX if it is not there. */
static const uint8_t *field(const uint8_t *data, size_t size, uint32_t number, size_t *len)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader r;
	struct pf_field f;
	const uint8_t *found = NULL;

	*len = SIZE_MAX;
	pf_mem_reader_init(&r, data, size);
	pf_wire_init(&w, &r.base, 0, size);
	while (pf_wire_next(&w, &f, NULL) > 0) {
		if (f.number == number) {
			found = data + f.value;
			*len = f.len;
		}
	}
	return found;
}

static void assert_same_field(const struct pf_buf *a, const struct pf_buf *b, uint32_t number)
{
	size_t n, m;
	const uint8_t *p = field(a->data, a->len, number, &n), *q = field(b->data, b->len, number, &m);

	assert_int_not_equal(n, SIZE_MAX);
	assert_int_equal(n, m);
	assert_memory_equal(p, q, n);
}

static void test_renewal_keeps_the_rest(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, got = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT, again = PF_PIN_INIT;
	size_t n, m;

	foreign_record(&b);
	assert_int_equal(pf_pin_decode(b.data, b.len, &p, NULL), 0);
	p.expires_at = (struct pf_time){ 253402300799, 999999999 };
	assert_int_equal(pf_pin_encode(&p, &got), 0);

	for (uint32_t number = 1; number <= 9; number++)
		if (number != 5 && (number < 7 || number > 8))
			assert_same_field(&b, &got, number);
	const uint8_t *expires = field(got.data, got.len, 5, &n);
	const uint8_t *unknown = field(expires, n, 7, &m);
	assert_int_equal(m, 1);
	assert_int_equal(*unknown, 5);

	assert_int_equal(pf_pin_decode(got.data, got.len, &again, NULL), 0);
	assert_int_equal(again.expires_at.sec, 253402300799);
	assert_int_equal(again.expires_at.nsec, 999999999);
}

/* What a record leaves out because it is zero, a renewal leaves out as well. */
static void test_renewal_adds_no_zeros(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, got = PF_BUF_INIT;
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT;

	put_id(&b, ID, 16);
	put_str(&b, 3, SOURCE, 36);
	put_str(&b, 4, "", 0);	       /* created at the epoch */
	put_str(&b, 5, "\x08\x05", 2); /* expires 5 s later */
	assert_int_equal(pf_pin_decode(b.data, b.len, &p, NULL), 0);
	p.expires_at.sec = 6;
	assert_int_equal(pf_pin_encode(&p, &got), 0);
	b.data[b.len - 1] = 6;
	assert_int_equal(got.len, b.len);
	assert_memory_equal(got.data, b.data, b.len);
}

static void test_list(void **state)
{
	_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT, copy = PF_PINS_INIT;
	struct pf_uuid id = { .b = { 1 } };

	assert_null(pf_pins_find(&l, &id));
	for (uint8_t i = 0; i < 5; i++) {
		struct pf_pin p = { .id = { .b = { 1, i } }, .source_version = i, .label = strdup("x") };
		assert_int_equal(pf_pins_add(&l, &p), 0);
		assert_null(p.label);
	}
	/* An id is the whole id: another with the same first bytes is another. */
	id.b[1] = 3;
	assert_ptr_equal(pf_pins_find(&l, &id), &l.v[3]);
	id.b[15] = 1;
	assert_null(pf_pins_find(&l, &id));

	assert_int_equal(pf_pins_copy(&l, &copy), 0);
	pf_pins_remove(&l, 1);
	pf_pins_remove(&l, 3);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.v[0].source_version, 0);
	assert_int_equal(l.v[1].source_version, 2);
	assert_int_equal(l.v[2].source_version, 3);
	assert_int_equal(copy.n, 5);
	assert_string_equal(copy.v[4].label, "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_new_bytes),
		cmocka_unit_test(test_unchanged_is_verbatim),
		cmocka_unit_test(test_renewal_keeps_the_rest),
		cmocka_unit_test(test_renewal_adds_no_zeros),
		cmocka_unit_test(test_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
