/* A manifest without bit 19: one bit of its bytes differs, wherever and however its flags stand. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/mask.h"

#include "world.h"

#define V1	    "_versions/18446744073709551614.manifest"
#define FLAGS_FIELD 10

struct shown {
	struct pf_store *st;
	struct pf_manifest *m;
	struct pf_buf stored, seen;
	struct pf_mask mask;
};

static int look(const struct table_version *t, struct shown *s, struct pf_why *why)
{
	*s = (struct shown){ .st = table_new(1, t), .stored = PF_BUF_INIT, .seen = PF_BUF_INIT };
	assert_int_equal(pf_store_get(s->st, V1, 1 << 20, &s->stored), 0);
	assert_int_equal(pf_manifest_open(s->st, V1, &s->m, why), 0);
	int r = pf_mask_find(s->st, s->m, &s->mask, why);
	assert_int_equal(pf_buf_add(&s->seen, s->stored.data, s->stored.len), 0);
	if (r == 0)
		pf_mask_apply(&s->mask, 0, s->seen.data, s->seen.len);
	return r;
}

static void release(struct shown *s)
{
	pf_manifest_unref(s->m);
	pf_buf_release(&s->stored);
	pf_buf_release(&s->seen);
	pf_store_free(s->st);
}

/* How many bits differ. */
static unsigned difference(const struct shown *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->stored.len; i++)
		n += (unsigned)__builtin_popcount(s->stored.data[i] ^ s->seen.data[i]);
	return n;
}

/* Its flags as any reader takes them from these bytes. */
static uint64_t flags_seen(const struct shown *s)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_mem_reader mem;
	const struct pf_stat st = { .size = s->seen.len };

	pf_mem_reader_init(&mem, s->seen.data, s->seen.len);
	assert_int_equal(pf_manifest_read(&mem.base, V1, &st, NULL, NULL, &m, NULL), 0);
	return m->writer_flags;
}

static void without_the_bit_all_is_shown(void **state)
{
	static const uint64_t flags[] = { 0, 1, 0x1ff, BIT_PINS << 1, BIT_PINS >> 1 };

	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		const struct table_version t = { .version = 1, .writer_flags = flags[i] };
		struct shown s;
		assert_int_equal(look(&t, &s, NULL), 0);
		assert_int_equal(s.mask.n, 0);
		assert_int_equal(difference(&s), 0);
		release(&s);
	}
}

static void other_flags_stay(void **state)
{
	static const uint64_t others[] = { 0, 1, 0xffff, UINT64_C(1) << 20, UINT64_C(1) << 63 | 8, UINT64_C(3) << 18 };

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const struct table_version t = { .version = 1, .writer_flags = others[i] | BIT_PINS, .fragments = 3 };
		struct shown s;
		assert_int_equal(look(&t, &s, NULL), 0);
		assert_int_equal(difference(&s), 1);
		assert_int_equal(flags_seen(&s), others[i] & ~BIT_PINS);
		release(&s);
	}
}

/* The last occurrence counts, and some readers may take another: none shows the bit. */
static void flags_that_stand_twice(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	struct shown s;

	assert_int_equal(pf_wire_put_u64(&extra, 99, 7), 0);
	assert_int_equal(pf_wire_put_u64(&extra, FLAGS_FIELD, BIT_PINS | 1), 0);
	assert_int_equal(pf_wire_put_u64(&extra, FLAGS_FIELD, BIT_PINS | 2), 0);
	const struct table_version t = { .version = 1, .writer_flags = BIT_PINS, .extra = &extra };
	assert_int_equal(look(&t, &s, NULL), 0);
	assert_int_equal(s.mask.n, 3);
	assert_int_equal(difference(&s), 3);
	assert_int_equal(flags_seen(&s), 2);
	release(&s);
}

/* As a version is whose staged file became it: the client's flags, and behind its last field those with the bit. */
static void the_bit_stands_in_the_last_alone(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	struct shown s;

	assert_int_equal(pf_wire_put_u64(&extra, 99, 7), 0);
	assert_int_equal(pf_wire_put_u64(&extra, FLAGS_FIELD, BIT_PINS | 5), 0);
	const struct table_version t = { .version = 1, .writer_flags = 5, .extra = &extra };
	assert_int_equal(look(&t, &s, NULL), 0);
	assert_int_equal(difference(&s), 1);
	assert_int_equal(flags_seen(&s), 5);
	release(&s);
}

/* A number may be longer than it needs to be. */
static void numbers_of_any_length(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		uint64_t seen;
	} v[] = {
		{ "\x50\x81\x80\x20", 4, 1 },
		{ "\x50\x81\x80\xa0\x00", 5, 1 },
		{ "\x50\x80\x80\xa0\x80\x80\x80\x80\x80\x80\x00", 11, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
		struct shown s;
		assert_int_equal(pf_buf_add(&extra, v[i].bytes, v[i].n), 0);
		const struct table_version t = { .version = 1, .extra = &extra };
		assert_int_equal(look(&t, &s, NULL), 0);
		assert_int_equal(difference(&s), 1);
		assert_int_equal(flags_seen(&s), v[i].seen);
		release(&s);
	}
}

/* Read in pieces, of any length from anywhere, it is the same. */
static void pieces(void **state)
{
	const struct table_version t = { .version = 1, .writer_flags = BIT_PINS | 1, .fragments = 2 };
	struct shown s;

	assert_int_equal(look(&t, &s, NULL), 0);
	for (size_t from = 0; from < s.stored.len; from++)
		for (size_t n = 0; n <= s.stored.len - from && n < 9; n++) {
			uint8_t piece[9] = { 0 };
			memcpy(piece, s.stored.data + from, n);
			pf_mask_apply(&s.mask, from, piece, n);
			assert_int_equal(memcmp(piece, s.seen.data + from, n), 0);
		}
	release(&s);
}

static void what_no_writer_writes(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf many = PF_BUF_INIT, tag = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct shown s;

	for (unsigned i = 0; i < PF_MASK_MAX + 1; i++)
		assert_int_equal(pf_wire_put_u64(&many, FLAGS_FIELD, BIT_PINS), 0);
	assert_int_equal(look(&(struct table_version){ .version = 1, .extra = &many }, &s, &why), -EBADMSG);
	assert_string_equal(why.text, "the writer's flags are there more than 4 times");
	release(&s);

	assert_int_equal(pf_buf_add(&tag, "\xd0\x00\x80\x80\x20", 5), 0);
	assert_int_equal(look(&(struct table_version){ .version = 1, .extra = &tag }, &s, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "a tag that is too long"));
	release(&s);
}

static void another_file_by_now(void **state)
{
	const struct table_version t = { .version = 1, .writer_flags = BIT_PINS };
	const struct table_version other = { .version = 1, .writer_flags = BIT_PINS, .fragments = 1 };
	struct pf_mask mask;
	struct shown s;

	assert_int_equal(look(&t, &s, NULL), 0);
	table_put(s.st, &other);
	assert_int_equal(pf_mask_find(s.st, s.m, &mask, NULL), -ESTALE);
	assert_int_equal(pf_store_mem_del(s.st, V1), 0);
	assert_int_equal(pf_mask_find(s.st, s.m, &mask, NULL), -ESTALE);
	release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_the_bit_all_is_shown), cmocka_unit_test(other_flags_stay),
		cmocka_unit_test(flags_that_stand_twice),	cmocka_unit_test(the_bit_stands_in_the_last_alone),
		cmocka_unit_test(numbers_of_any_length),	cmocka_unit_test(pieces),
		cmocka_unit_test(what_no_writer_writes),	cmocka_unit_test(another_file_by_now),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
