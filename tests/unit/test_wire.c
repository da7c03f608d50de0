/* The protobuf cursor on true and on hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "core/wire.h"

/* A reader that counts what it is asked for, and can fail. Bytes past `len`, up to base.size, read as zeros. */
struct probe {
	struct pf_reader base;
	const uint8_t *data;
	size_t len;
	unsigned reads, fail_at; /* fail_at: which read fails, from 1; 0 for none */
	uint64_t bytes, last;	 /* delivered in all; where the last read began */
};

static int probe_read(struct pf_reader *r, uint64_t off, void *buf, size_t n)
{
	struct probe *p = (struct probe *)r;

	p->reads++;
	if (p->reads == p->fail_at)
		return -EIO;
	assert_true(off <= r->size && n <= r->size - off);
	assert_true(off >= p->last); /* one pass, never back */
	p->last = off;
	p->bytes += n;
	memset(buf, 0, n);
	if (off < p->len)
		memcpy(buf, p->data + off, n < p->len - off ? n : p->len - off);
	return 0;
}

static void probe_init(struct probe *p, const struct pf_buf *b, uint64_t size)
{
	*p = (struct probe){ { probe_read, size }, .data = b->data, .len = b->len };
}

/* Walk n bytes, copied to where a read past their end is seen. Returns the last result, the fields in out. */
static int walk(const void *bytes, size_t n, struct pf_field *out, size_t max, size_t *count, struct pf_why *why)
{
	_cleanup_(pf_freep) uint8_t *exact = malloc(n ? n : 1);
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader mem;
	int r;

	memcpy(exact, bytes, n);
	pf_mem_reader_init(&mem, exact, n);
	pf_wire_init(&w, &mem.base, 0, n);
	for (*count = 0; (r = pf_wire_next(&w, &out[*count], why)) == 1; ++*count)
		assert_true(*count + 1 < max);
	return r;
}

#define ROW(name, bytes, ...)                                                                                          \
	{                                                                                                              \
		name, bytes, sizeof(bytes) - 1, __VA_ARGS__                                                            \
	}

static void test_one_field(void **state)
{
	static const struct {
		const char *name, *bytes;
		size_t n;
		struct pf_field f;
	} rows[] = {
		/* The first two are the examples of the protobuf encoding guide. */
		ROW("varint 150", "\x08\x96\x01", { 1, PF_WIRE_VARINT, 0, 1, 2, 150 }),
		ROW("string", "\x12\x07testing", { 2, PF_WIRE_LEN, 0, 2, 7, 0 }),
		ROW("empty string", "\x12\x00", { 2, PF_WIRE_LEN, 0, 2, 0, 0 }),
		ROW("fixed64", "\x09\x01\x02\x03\x04\x05\x06\x07\x88", { 1, PF_WIRE_I64, 0, 1, 8, 0x8807060504030201 }),
		ROW("fixed32", "\x0d\x01\x02\x03\x84", { 1, PF_WIRE_I32, 0, 1, 4, 0x84030201 }),
		ROW("largest number", "\xf8\xff\xff\xff\x0f\x01", { (1 << 29) - 1, PF_WIRE_VARINT, 0, 5, 1, 1 }),
		ROW("bit 19", "\x50\x80\x80\x20", { 10, PF_WIRE_VARINT, 0, 1, 3, 1 << 19 }),
		ROW("E01 2^64-1 in ten bytes", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		    { 3, PF_WIRE_VARINT, 0, 1, 10, UINT64_MAX }),
		ROW("E01 uint32 above its range", "\x58\x81\x80\x80\x80\x80\x01",
		    { 11, PF_WIRE_VARINT, 0, 1, 6, (1ull << 35) + 1 }),
		ROW("varint with needless bytes", "\x08\x81\x80\x00", { 1, PF_WIRE_VARINT, 0, 1, 3, 1 }),
		ROW("tag with needless bytes", "\x88\x80\x80\x80\x80\x80\x80\x80\x80\x00\x05",
		    { 1, PF_WIRE_VARINT, 0, 10, 1, 5 }),
		ROW("length with needless bytes", "\x12\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00x",
		    { 2, PF_WIRE_LEN, 0, 11, 1, 0 }),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_field got[4];
		struct pf_why why = PF_WHY_INIT;
		size_t count;

		if (walk(rows[i].bytes, rows[i].n, got, ARRAY_LEN(got), &count, &why) != 0 || count != 1)
			fail_msg("%s: %zu fields, %s", rows[i].name, count, why.text);
		if (got[0].number != rows[i].f.number || got[0].type != rows[i].f.type ||
		    got[0].start != rows[i].f.start || got[0].value != rows[i].f.value || got[0].len != rows[i].f.len ||
		    got[0].num != rows[i].f.num)
			fail_msg("%s", rows[i].name);
	}
}

static void test_refused(void **state)
{
	static const struct {
		const char *name, *bytes;
		size_t n;
		const char *says;
	} rows[] = {
		ROW("E01 eleven bytes", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		    "offset 1 is above 64 bits"),
		ROW("E01 twelve bytes", "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "offset 1 is above"),
		ROW("E01 tenth byte 2", "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02", "offset 1 is above 64 bits"),
		ROW("E01 tenth byte with more", "\x18\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
		    "offset 1 is above"),
		ROW("E05 tag at the end", "\x80", "varint at offset 0 does not end"),
		ROW("E05 tag at the end, after a field", "\x08\x01\x80", "varint at offset 2 does not end"),
		ROW("E05 length at the end", "\x12\x80", "varint at offset 1 does not end"),
		ROW("E05 tag alone", "\x08", "varint at offset 1 does not end"),
		ROW("E05 tag of bytes alone", "\x12", "varint at offset 1 does not end"),
		ROW("E06 4 GiB - 1", "\x12\xff\xff\xff\xff\x0f",
		    "claims 4294967295 bytes where its message has 0 left"),
		ROW("E06 2 GiB - 1", "\x12\xff\xff\xff\xff\x07", "claims 2147483647 bytes"),
		ROW("E06 2^64 - 1", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		    "claims 18446744073709551615 bytes"),
		ROW("E06 2^63 - 1", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "claims 9223372036854775807 bytes"),
		ROW("E06 wraps to the tag", "\x12\xf5\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		    "claims 18446744073709551605"),
		ROW("E06 above 64 bits", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "offset 1 is above 64 bits"),
		ROW("E06 string field 12", "\x62\xff\xff\xff\xff\x0f", "field 12 at offset 0 claims 4294967295"),
		ROW("one byte too many", "\x12\x03xy",
		    "field 2 at offset 0 claims 3 bytes where its message has 2 left"),
		ROW("field number 0", "\x00\x01", "field number 0 at offset 0"),
		ROW("field number 0, bytes", "\x02\x00", "field number 0 at offset 0"),
		ROW("field number 2^29", "\x80\x80\x80\x80\x10\x01", "field number 536870912 at offset 0"),
		ROW("field number 2^61 - 1", "\xf8\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01",
		    "field number 2305843009213693951 at offset 0"),
		ROW("field number 2^32 + 1", "\x88\x80\x80\x80\x80\x01\x01", "field number 4294967297 at offset 0"),
		ROW("group", "\x0b\x0c", "field 1 at offset 0 has wire type 3"),
		ROW("end of a group", "\x0c", "field 1 at offset 0 has wire type 4"),
		ROW("wire type 6", "\x0e\x01", "has wire type 6"),
		ROW("wire type 7", "\x0f\x01", "has wire type 7"),
		ROW("fixed64 cut", "\x09\x01\x02\x03\x04\x05\x06\x07", "needs 8 bytes where its message has 7 left"),
		ROW("fixed32 cut", "\x08\x01\x0d\x01\x02\x03", "field 1 at offset 2 needs 4 bytes"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_field got[4];
		struct pf_why why = PF_WHY_INIT;
		size_t count;

		if (walk(rows[i].bytes, rows[i].n, got, ARRAY_LEN(got), &count, &why) != -EBADMSG)
			fail_msg("%s: not refused", rows[i].name);
		if (!strstr(why.text, rows[i].says))
			fail_msg("%s: %s", rows[i].name, why.text);
	}
}

/* All wire types, long and short forms; ends[] receives where each field ends. */
static size_t sample(struct pf_buf *b, size_t *ends)
{
	size_t n = 0;

	assert_int_equal(pf_wire_put_u64(b, 1, UINT64_MAX), 0);
	ends[n++] = b->len;
	assert_int_equal(pf_wire_put_bytes(b, 2, "0123456789", 10), 0);
	ends[n++] = b->len;
	assert_int_equal(pf_buf_add(b, "\x19\1\2\3\4\5\6\7\10", 9), 0);
	ends[n++] = b->len;
	assert_int_equal(pf_wire_put_bytes(b, (1u << 29) - 1, "", 0), 0);
	ends[n++] = b->len;
	assert_int_equal(pf_buf_add(b, "\x25\1\2\3\4", 5), 0);
	ends[n++] = b->len;
	assert_int_equal(pf_wire_put_u64(b, 100, 0), 0);
	ends[n++] = b->len;
	/* The longest head there can be: 1 byte of field 3, tag and length in ten bytes each. */
	assert_int_equal(pf_buf_addstr(b, "\x9a\x80\x80\x80\x80\x80\x80\x80\x80"), 0);
	assert_int_equal(pf_buf_add(b, "\0\x81\x80\x80\x80\x80\x80\x80\x80\x80\0x", 12), 0);
	ends[n++] = b->len;
	return n;
}

static void test_every_truncation(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	size_t ends[16], n = sample(&b, ends);

	for (size_t cut = 0; cut <= b.len; cut++) {
		struct pf_field got[16];
		struct pf_why why = PF_WHY_INIT;
		size_t whole = 0, count;

		while (whole < n && ends[whole] <= cut)
			whole++;
		bool between = cut == 0 || (whole && ends[whole - 1] == cut);
		int r = walk(b.data, cut, got, ARRAY_LEN(got), &count, &why);
		assert_int_equal(r, between ? 0 : -EBADMSG);
		assert_int_equal(count, whole);
		assert_int_equal(why.text[0] == '\0', between);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(got[i].value + got[i].len, ends[i]);
	}
}

/* A nested message ends where its parent says, whatever bytes follow. */
static void test_bounded_by_its_message(void **state)
{
	static const char bytes[] = "\xff\x08\x96\x01\x08";
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader mem;
	struct pf_field f;

	pf_mem_reader_init(&mem, bytes, sizeof(bytes) - 1);
	pf_wire_init(&w, &mem.base, 1, 3);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(f.start, 1);
	assert_int_equal(f.num, 150);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0); /* and stays there */
	pf_wire_release(&w);

	pf_wire_init(&w, &mem.base, 1, 2);
	assert_int_equal(pf_wire_next(&w, &f, NULL), -EBADMSG);
	assert_int_equal(pf_wire_next(&w, &f, NULL), -EBADMSG);
}

static void test_message_outside_its_bytes(void **state)
{
	static const struct {
		uint64_t off, len;
	} rows[] = { { 0, 4 }, { 3, 1 }, { 4, 0 }, { 2, UINT64_MAX - 1 }, { 2, UINT64_MAX }, { UINT64_MAX, 1 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_wire_release) struct pf_wire w;
		struct pf_mem_reader mem;
		struct pf_field f;
		struct pf_why why = PF_WHY_INIT;

		pf_mem_reader_init(&mem, "\x08\x96\x01", 3);
		pf_wire_init(&w, &mem.base, rows[i].off, rows[i].len);
		assert_int_equal(pf_wire_next(&w, &f, &why), -EBADMSG);
		assert_non_null(strstr(why.text, "passes the end of its bytes, 3"));
	}
}

/* Field heads at every place around the edge of the window, reached by one long payload and by many short ones. */
static void test_heads_across_the_window(void **state)
{
	for (size_t filler = 0; filler < 2; filler++)
		for (size_t edge = PF_WIRE_WINDOW - 100; edge < PF_WIRE_WINDOW + 4; edge++) {
			_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
			_cleanup_(pf_wire_release) struct pf_wire w;
			size_t ends[16], skip = 0;
			struct pf_field f;
			struct probe p;

			if (filler == 0) {
				assert_int_equal(pf_buf_add(&b, "\x7a\x80\x80\x04", 4), 0); /* length patched below */
				size_t payload = edge - 4;
				b.data[1] = (uint8_t)(payload | 0x80), b.data[2] = (uint8_t)(payload >> 7 | 0x80);
				b.data[3] = (uint8_t)(payload >> 14);
				assert_int_equal(pf_buf_reserve(&b, payload), 0);
				memset(b.data + 4, 0xff, payload);
				b.len = edge;
				skip = 1;
			} else {
				if (edge & 1)
					assert_int_equal(pf_buf_add(&b, "\x78\x80\x01", 3), 0), skip++;
				for (; b.len < edge; skip++)
					assert_int_equal(pf_buf_add(&b, "\x78\x01", 2), 0);
			}
			assert_int_equal(b.len, edge);
			size_t n = sample(&b, ends);

			probe_init(&p, &b, b.len);
			pf_wire_init(&w, &p.base, 0, b.len);
			for (size_t i = 0; i < skip; i++)
				assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
			for (size_t i = 0; i < n; i++) {
				assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
				assert_int_equal(f.start, i ? ends[i - 1] : edge);
				assert_int_equal(f.value + f.len, ends[i]);
				if (f.number == 1)
					assert_true(f.num == UINT64_MAX);
				if (f.type == PF_WIRE_I64)
					assert_true(f.num == 0x0807060504030201);
			}
			assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
		}
}

/* Payloads of terabytes are stepped over; only windows are read, and no memory is taken for them. */
static void test_huge_payloads_are_not_read(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_wire_release) struct pf_wire w;
	const uint64_t huge = 1ull << 40;
	struct pf_field f;
	struct probe p;

	assert_int_equal(pf_wire_put_u64(&b, 1, 5), 0);
	assert_int_equal(pf_wire_put_tag(&b, 2, PF_WIRE_LEN), 0);
	assert_int_equal(pf_wire_put_varint(&b, huge), 0);
	uint64_t size = b.len + huge;
	probe_init(&p, &b, size);
	pf_wire_init(&w, &p.base, 0, size);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_true(f.len == huge && f.value == b.len);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
	assert_int_equal(p.reads, 1);
	assert_int_equal(p.bytes, PF_WIRE_WINDOW);
}

/* The same with fields after it: the second window starts behind the payload. */
static void test_fields_after_a_skipped_payload(void **state)
{
	enum { BIG = 1 << 20 };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_freep) uint8_t *big = calloc(1, BIG);
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	struct probe p;

	assert_int_equal(pf_wire_put_bytes(&b, 2, big, BIG), 0);
	assert_int_equal(pf_wire_put_u64(&b, 3, 7), 0);
	probe_init(&p, &b, b.len);
	pf_wire_init(&w, &p.base, 0, b.len);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(f.number, 3);
	assert_int_equal(f.num, 7);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
	assert_int_equal(p.reads, 2);
	assert_int_equal(p.bytes, PF_WIRE_WINDOW + 2);
}

/* A manifest is this: fields of a kilobyte. Each byte is asked for once, but for heads that a window cuts. */
static void test_one_sequential_pass(void **state)
{
	enum { FIELDS = 2000, PAYLOAD = 1000 };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_wire_release) struct pf_wire w;
	uint8_t payload[PAYLOAD] = { 0 };
	struct pf_field f;
	struct probe p;
	size_t n = 0;

	for (size_t i = 0; i < FIELDS; i++)
		assert_int_equal(pf_wire_put_bytes(&b, 2, payload, PAYLOAD), 0);
	probe_init(&p, &b, b.len);
	pf_wire_init(&w, &p.base, 0, b.len);
	while (pf_wire_next(&w, &f, NULL) == 1) {
		assert_int_equal(f.len, PAYLOAD);
		n++;
	}
	assert_int_equal(n, FIELDS);
	assert_true(p.reads <= b.len / (PF_WIRE_WINDOW - 20) + 1);
	assert_true(p.bytes <= b.len + 20 * p.reads);
}

static void test_small_messages_read_their_own_bytes_only(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	struct probe p;

	assert_int_equal(pf_wire_put_u64(&b, 1, 5), 0);
	probe_init(&p, &b, 1 << 20);
	pf_wire_init(&w, &p.base, 0, b.len);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
	assert_int_equal(p.bytes, b.len);
}

/* A failed read is the reader's error; the cursor stands where it was, and asking again works. */
static void test_read_failure(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_freep) uint8_t *payload = calloc(1, PF_WIRE_WINDOW);

	assert_int_equal(pf_wire_put_bytes(&b, 1, payload, PF_WIRE_WINDOW), 0);
	assert_int_equal(pf_wire_put_u64(&b, 2, 9), 0);
	for (unsigned fail_at = 1; fail_at <= 2; fail_at++) {
		_cleanup_(pf_wire_release) struct pf_wire w;
		struct pf_field f = { .number = 77 };
		struct pf_why why = PF_WHY_INIT;
		struct probe p;

		probe_init(&p, &b, b.len);
		p.fail_at = fail_at;
		pf_wire_init(&w, &p.base, 0, b.len);
		if (fail_at == 2)
			assert_int_equal(pf_wire_next(&w, &f, &why), 1);
		struct pf_field was = f;
		assert_int_equal(pf_wire_next(&w, &f, &why), -EIO);
		assert_non_null(strstr(why.text, fail_at == 1 ? "at offset 0" : "at offset 65540"));
		assert_memory_equal(&f, &was, sizeof(f));
		assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
		assert_int_equal(f.number, fail_at);
	}
}

static void test_mem_reader(void **state)
{
	struct pf_mem_reader mem;
	char buf[4];

	pf_mem_reader_init(&mem, "abc", 3);
	assert_int_equal(mem.base.size, 3);
	assert_int_equal(mem.base.read(&mem.base, 1, buf, 2), 0);
	assert_memory_equal(buf, "bc", 2);
	assert_int_equal(mem.base.read(&mem.base, 3, buf, 0), 0);
	assert_int_equal(mem.base.read(&mem.base, 1, buf, 3), -EBADMSG);
	assert_int_equal(mem.base.read(&mem.base, 4, buf, 0), -EBADMSG);
	assert_int_equal(mem.base.read(&mem.base, UINT64_MAX, buf, 2), -EBADMSG);
	assert_int_equal(mem.base.read(&mem.base, 1, buf, SIZE_MAX), -EBADMSG);
	pf_mem_reader_init(&mem, NULL, 0);
	assert_int_equal(mem.base.read(&mem.base, 0, buf, 0), 0);
}

/* Bytes in memory are looked at where they are. */
static void test_memory_has_no_window(void **state)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader mem;
	struct pf_field f;

	pf_mem_reader_init(&mem, "\x08\x96\x01\x12\x01z", 6);
	pf_wire_init(&w, &mem.base, 0, 6);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(f.num, 150);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 0);
	assert_null(w.win);
}

/* A payload that the window has is not read again; one that passes its end is. */
static void test_take(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, got = PF_BUF_INIT;
	_cleanup_(pf_freep) uint8_t *long_one = calloc(1, PF_WIRE_WINDOW);
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct probe p;
	struct pf_field f;

	memset(long_one, 'y', PF_WIRE_WINDOW);
	assert_int_equal(pf_wire_put_bytes(&b, 1, "short", 5), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 2, "", 0), 0);
	assert_int_equal(pf_wire_put_bytes(&b, 3, long_one, PF_WIRE_WINDOW), 0);
	probe_init(&p, &b, b.len);
	pf_wire_init(&w, &p.base, 0, b.len);

	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_take(&w, &f, 4, &got, NULL), -EBADMSG);
	assert_int_equal(pf_wire_take(&w, &f, 5, &got, NULL), 0);
	assert_string_equal(pf_buf_str(&got), "short");
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(pf_wire_take(&w, &f, 0, &got, NULL), 0);
	assert_int_equal(pf_wire_next(&w, &f, NULL), 1);
	assert_int_equal(p.reads, 1);
	pf_buf_reset(&got);
	assert_int_equal(pf_wire_take(&w, &f, PF_WIRE_WINDOW, &got, NULL), 0);
	assert_int_equal(p.reads, 2);
	assert_int_equal(got.len, PF_WIRE_WINDOW);
	assert_memory_equal(got.data, long_one, PF_WIRE_WINDOW);

	f.type = PF_WIRE_VARINT;
	assert_int_equal(pf_wire_take(&w, &f, 5, &got, NULL), -EBADMSG);
}

static void test_payload(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_mem_reader mem;
	struct pf_field f = { 2, PF_WIRE_LEN, 0, 2, 7, 0 }, varint = { 1, PF_WIRE_VARINT, 0, 1, 2, 150 };
	struct pf_field empty = { 2, PF_WIRE_LEN, 0, 2, 0, 0 }, outside = { 2, PF_WIRE_LEN, 0, 2, 8, 0 };
	struct pf_why why = PF_WHY_INIT;

	pf_mem_reader_init(&mem, "\x12\x07testing", 9);
	assert_int_equal(pf_buf_addstr(&b, "<"), 0);
	assert_int_equal(pf_wire_payload(&mem.base, &empty, 0, &b, NULL), 0);
	assert_int_equal(pf_wire_payload(&mem.base, &f, 7, &b, NULL), 0);
	assert_string_equal(pf_buf_str(&b), "<testing");

	assert_int_equal(pf_wire_payload(&mem.base, &f, 6, &b, &why), -EBADMSG);
	assert_string_equal(why.text, "field 2 at offset 0 has 7 bytes; expected at most 6");
	assert_int_equal(pf_wire_payload(&mem.base, &varint, 7, &b, &why), -EBADMSG);
	assert_string_equal(why.text, "field 1 at offset 0 has wire type 0; expected 2, bytes");
	assert_int_equal(pf_wire_payload(&mem.base, &outside, 100, &b, NULL), -EBADMSG);
	assert_string_equal(pf_buf_str(&b), "<testing");
}

static void test_get_le(void **state)
{
	static const uint8_t p[] = { 1, 2, 3, 4, 5, 6, 7, 0xff };

	assert_true(pf_get_le(p, 0) == 0);
	assert_true(pf_get_le(p, 2) == 0x0201);
	assert_true(pf_get_le(p + 4, 4) == 0xff070605);
	assert_true(pf_get_le(p, 8) == 0xff07060504030201);
}

/* Fields 1, 2 {1, 3 {5}}, 4: in and out again, in one pass, and the inner end is not crossed. */
static void test_nested(void **state)
{
	static const char bytes[] = "\x08\x01\x12\x06\x08\x02\x1a\x02\x28\x03\x20\x04\x12\x02\x28\x80\x08\x00";
	const struct pf_buf b = { (uint8_t *)(uintptr_t)bytes, sizeof(bytes) - 1, 0 };
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_why why = PF_WHY_INIT;
	struct probe p;
	struct pf_field f;
	uint64_t v = 7;

	probe_init(&p, &b, b.len);
	pf_wire_init(&w, &p.base, 0, b.len);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && pf_wire_u64(&f, &v, &why) == 0 && v == 1);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 2);
	assert_int_equal(pf_wire_u64(&f, &v, &why), -EBADMSG);
	assert_int_equal(v, 1);
	uint64_t outer = pf_wire_enter(&w, &f);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 1 && f.num == 2);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 3);
	uint64_t inner = pf_wire_enter(&w, &f);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 5 && f.num == 3);
	assert_int_equal(pf_wire_next(&w, &f, &why), 0);
	pf_wire_leave(&w, inner);
	assert_int_equal(pf_wire_next(&w, &f, &why), 0);
	pf_wire_leave(&w, outer);
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 4 && f.num == 4);
	assert_int_equal(p.reads, 1);

	/* Its varint would go on in the field behind it. */
	assert_true(pf_wire_next(&w, &f, &why) == 1 && f.number == 2);
	pf_wire_enter(&w, &f);
	assert_int_equal(pf_wire_next(&w, &f, &why), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_field),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_every_truncation),
		cmocka_unit_test(test_bounded_by_its_message),
		cmocka_unit_test(test_message_outside_its_bytes),
		cmocka_unit_test(test_heads_across_the_window),
		cmocka_unit_test(test_huge_payloads_are_not_read),
		cmocka_unit_test(test_fields_after_a_skipped_payload),
		cmocka_unit_test(test_one_sequential_pass),
		cmocka_unit_test(test_small_messages_read_their_own_bytes_only),
		cmocka_unit_test(test_read_failure),
		cmocka_unit_test(test_mem_reader),
		cmocka_unit_test(test_memory_has_no_window),
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_payload),
		cmocka_unit_test(test_get_le),
		cmocka_unit_test(test_nested),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
