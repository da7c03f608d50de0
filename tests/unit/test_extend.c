/* The next manifest made of the staged file itself: what is added, what stays, what cannot be done so, and the way back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/extend.h"

#include "world.h"

#define V1   "_versions/1.manifest"
#define UUID "11111111-2222-4333-8444-555555555555"

/* Byte by byte, as the format pages have it: a transaction (read version 0, uuid, an Append of nothing) and a manifest that leads there by field 21. */
#define TXN	 "\x12\x24" UUID "\xa2\x06\x00"
#define TXN_LEN	 41
#define LEAD	 "\x29\0\0\0" TXN
#define VERSION	 "\x18\x01"
#define TIME	 "\x3a\x02\x08\x05"
#define FLAGS	 "\x50\x08"
#define TXN_FILE "\x62\x05x.txn"
#define AT_21	 "\xa8\x01\x00"
#define AT_23	 "\xb8\x01\x00"
#define BODY	 VERSION TIME FLAGS TXN_FILE AT_21 /* 18 bytes */
#define FOOTER	 "\x2d\0\0\0\0\0\0\0\0\0\x02\0LANC"
#define STAGED	 LEAD "\x12\0\0\0" BODY FOOTER
/* Flags 8 and bit 19; a pin of 68 bytes: id, source 4, its uuid, both times. */
#define NEW_FLAGS "\x50\x88\x80\x20"
#define PIN                                                                                                            \
	"\xda\x89\x05\x44\x0a\x12\x0a\x10"                                                                             \
	"0123456789abcdef"                                                                                             \
	"\x10\x04\x1a\x24" UUID "\x22\x02\x08\x01\x2a\x02\x08\x02"

#define BYTES(s) (s), sizeof(s) - 1

struct staged {
	struct pf_store *st;
	struct pf_manifest *m;
};

static void put(struct staged *s, const void *bytes, size_t n)
{
	struct pf_why why = PF_WHY_INIT;

	*s = (struct staged){ NULL };
	assert_int_equal(pf_store_mem_new(&s->st), 0);
	assert_int_equal(pf_store_mem_put(s->st, V1, bytes, n), 0);
	if (pf_manifest_open(s->st, V1, &s->m, &why) < 0)
		fail_msg("%s", why.text);
}

static void release(struct staged *s)
{
	pf_manifest_unref(s->m);
	pf_store_free(s->st);
}

/* Patches of whole fields, each given by its bytes. */
struct change {
	struct pf_piece piece[8];
	struct pf_patch patch[8];
	struct pf_splice how;
};

static void change(struct change *c, uint32_t number, const void *bytes, size_t n)
{
	size_t i = c->how.n_patches++;

	c->piece[i] = (struct pf_piece){ .mem = bytes, .len = n };
	c->patch[i] = (struct pf_patch){ .number = number, .pieces = &c->piece[i], .n_pieces = n > 0 };
	c->how.patches = c->patch;
	c->how.transaction = TXN;
	c->how.transaction_len = TXN_LEN;
}

/* Those of a publication. */
static void publish(struct change *c)
{
	*c = (struct change){ 0 };
	change(c, 3, BYTES(VERSION));
	change(c, 7, BYTES(TIME));
	change(c, 12, BYTES(TXN_FILE));
	change(c, 10, BYTES(NEW_FLAGS));
	change(c, 10395, NULL, 0);
}

static struct pf_stage *open_staged(struct staged *s)
{
	struct pf_stage *sg;

	assert_int_equal(pf_store_extend(s->st, V1, &s->m->st, &sg), 0);
	return sg;
}

static void assert_bytes(struct pf_store *st, const void *want, size_t n)
{
	_cleanup_(pf_buf_release) struct pf_buf is = PF_BUF_INIT;

	assert_int_equal(pf_store_get(st, V1, 1 << 20, &is), 0);
	assert_int_equal(is.len, n);
	assert_memory_equal(is.data, want, n);
}

static void extend(struct staged *s, const struct change *c)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	struct pf_extension x;

	assert_int_equal(pf_extension_plan(s->st, s->m, &c->how, &x, NULL), 1);
	sg = open_staged(s);
	assert_int_equal(pf_extension_apply(&x, sg), 0);
	pf_extension_release(&x);
}

static void what_is_new_stands_last(void **state)
{
	static const char want[] = LEAD "\x61\0\0\0" BODY AT_23 NEW_FLAGS PIN FOOTER;
	_cleanup_(release) struct staged s = { NULL };
	struct change c;

	put(&s, BYTES(STAGED));
	publish(&c);
	c.how.n_patches--;
	change(&c, 10395, BYTES(PIN));
	extend(&s, &c);
	assert_bytes(s.st, BYTES(want));
}

static void what_stands_there_is_not_repeated(void **state)
{
	static const char whole[] = LEAD "\x5f\0\0\0" VERSION TIME NEW_FLAGS TXN_FILE AT_21 AT_23 PIN FOOTER;
	_cleanup_(release) struct staged s = { NULL };
	struct change c;

	/* That of a writer that knows pins. */
	put(&s, BYTES(whole));
	publish(&c);
	c.how.n_patches--;
	change(&c, 10395, BYTES(PIN));
	extend(&s, &c);
	assert_bytes(s.st, BYTES(whole));
}

/* Lance up to 13 reads field 21, 14 reads field 23: where they lead to different places the last ones lead to one. */
static void both_fields_lead_to_the_transaction(void **state)
{
	static const char staged[] = LEAD "\x15\0\0\0" VERSION TIME FLAGS TXN_FILE "\xa8\x01\x07" AT_23 FOOTER,
			  want[] = LEAD "\x1c\0\0\0" VERSION TIME FLAGS TXN_FILE
					"\xa8\x01\x07" AT_23 AT_21 NEW_FLAGS FOOTER;
	_cleanup_(release) struct staged s = { NULL };
	struct change c;

	put(&s, BYTES(staged));
	publish(&c);
	extend(&s, &c);
	assert_bytes(s.st, BYTES(want));
}

static void assert_copied(const char *what, const void *bytes, size_t n, const struct change *c)
{
	struct pf_extension x = { 0 };
	_cleanup_(release) struct staged s = { NULL };

	put(&s, bytes, n);
	if (pf_extension_plan(s.st, s.m, &c->how, &x, NULL) != 0)
		fail_msg("%s: it is not copied", what);
	assert_null(x.tail.data);
}

static void what_would_be_merged_or_go_on_is_copied(void **state)
{
	static const char lists[] = LEAD "\x5a\0\0\0" BODY PIN FOOTER;
	static const char apart[] = LEAD "\x14\0\0\0" BODY FLAGS FOOTER;
	static const char twice[] = LEAD "\x14\0\0\0" VERSION TIME FLAGS FLAGS TXN_FILE AT_21 FOOTER;
	static const struct pf_piece of_base = { .off = 45, .len = 2 };
	static const struct {
		const char *what;
		uint32_t number;
		const char *bytes;
		size_t n;
	} v[] = {
		{ "another time", 7, BYTES("\x3a\x02\x08\x06") },
		{ "a shorter time", 7, BYTES("\x3a\x00") },
		{ "another name of the transaction's file", 12, BYTES("\x62\x05y.txn") },
		{ "a number that goes", 10, BYTES("") },
		{ "two numbers for one", 10, BYTES(NEW_FLAGS "\x50\x01") },
		{ "a text for a number", 10, BYTES("\x52\x01z") },
		{ "the offset of the indices", 6, BYTES("\x30\x00") },
		{ "the offset of the transaction", 21, BYTES(AT_21) },
		{ "a number twice", 3, BYTES(VERSION) },
	};
	struct change c;

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		publish(&c);
		if (v[i].number == 7 || v[i].number == 12 || v[i].number == 10) {
			size_t at = v[i].number == 7 ? 1 : v[i].number == 12 ? 2 : 3;
			c.piece[at] = (struct pf_piece){ .mem = v[i].bytes, .len = v[i].n };
			c.patch[at].n_pieces = v[i].n > 0;
		} else {
			change(&c, v[i].number, v[i].bytes, v[i].n);
		}
		assert_copied(v[i].what, BYTES(STAGED), &c);
	}
	publish(&c);
	assert_copied("pins that are there", BYTES(lists), &c);
	assert_copied("flags in two places", BYTES(apart), &c);
	assert_copied("flags twice in one", BYTES(twice), &c);
	c.patch[0].pieces = &of_base;
	assert_copied("bytes of the base", BYTES(STAGED), &c);
}

static void other_sections_are_copied(void **state)
{
	static const char other[] = "\x12\x24" UUID "\xaa\x06\x00",
			  none[] = "\x0f\0\0\0" VERSION TIME FLAGS TXN_FILE "\0\0\0\0\0\0\0\0\0\0\x02\0LANC";
	static const struct pf_piece index = { .mem = "", .len = 0 };
	struct change c;

	publish(&c);
	c.how.transaction = other;
	assert_copied("another transaction", BYTES(STAGED), &c);
	publish(&c);
	c.how.transaction_len--;
	assert_copied("a shorter transaction", BYTES(STAGED), &c);
	publish(&c);
	assert_copied("no transaction there", BYTES(none), &c);
	c.how.index = &index;
	c.how.n_index = 1;
	assert_copied("indices", BYTES(STAGED), &c);
	c.how.index = NULL;
	c.how.drop_index = true;
	assert_copied("no indices", BYTES(STAGED), &c);
}

/* Whatever call fails, before it is made or after: the bytes are those that the client wrote. */
static void what_fails_is_unmade(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		for (unsigned nth = 1;; nth++) {
			_cleanup_(release) struct staged s = { NULL };
			_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
			struct pf_extension x;
			struct change c;

			put(&s, BYTES(STAGED));
			publish(&c);
			assert_int_equal(pf_extension_plan(s.st, s.m, &c.how, &x, NULL), 1);
			sg = open_staged(&s);
			pf_store_mem_fault(s.st, nth, kind, -ENOSPC, false);
			int r = pf_extension_apply(&x, sg);
			heal(s.st);
			assert_int_equal(pf_extension_undo(&x, sg), 0);
			assert_bytes(s.st, BYTES(STAGED));
			pf_extension_release(&x);
			if (r == 0) {
				assert_true(nth > 1);
				break;
			}
			assert_int_equal(r, -ENOSPC);
		}
	}
}

static void a_plan_says_what_kept_it(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct pf_extension x = { 0 };
		struct pf_why why = PF_WHY_INIT;
		_cleanup_(release) struct staged s = { NULL };
		struct change c;

		put(&s, BYTES(STAGED));
		publish(&c);
		pf_store_mem_fault(s.st, nth, PF_FAULT_BEFORE, -EIO, false);
		int r = pf_extension_plan(s.st, s.m, &c.how, &x, &why);
		pf_extension_release(&x);
		if (r == 1) {
			assert_true(nth > 3);
			break;
		}
		assert_int_equal(r, -EIO);
		assert_non_null(strstr(why.text, V1));
	}
}

/* Whoever reads it takes the last flags, and whoever makes the next manifest of it says them once. */
static void the_last_number_counts(void **state)
{
	static const char want[] = LEAD "\x17\0\0\0"
					"\x18\x01" TIME "\x50\x88\x80\x30" TXN_FILE AT_21 AT_23 FOOTER;
	_cleanup_(release) struct staged s = { NULL };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_buf_release) struct pf_buf is = PF_BUF_INIT;
	struct change c;

	put(&s, BYTES(STAGED));
	publish(&c);
	extend(&s, &c);
	assert_int_equal(pf_manifest_open(s.st, V1, &m, NULL), 0);
	assert_int_equal(m->writer_flags, BIT_PINS | 8);
	assert_int_equal(m->version, 1);
	assert_int_equal(m->timestamp.sec, 5);
	memset(&c, 0, sizeof(c));
	change(&c, 10, BYTES("\x50\x88\x80\x30"));
	c.how.transaction = NULL;
	assert_int_equal(pf_store_create(s.st, "next", &sg), 0);
	assert_int_equal(pf_manifest_splice(s.st, m, &c.how, sg, NULL), 0);
	assert_int_equal(pf_store_get(s.st, "next", 1 << 20, &is), 0);
	assert_int_equal(is.len, sizeof(want) - 1);
	assert_memory_equal(is.data, want, is.len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_new_stands_last),
		cmocka_unit_test(what_stands_there_is_not_repeated),
		cmocka_unit_test(both_fields_lead_to_the_transaction),
		cmocka_unit_test(what_would_be_merged_or_go_on_is_copied),
		cmocka_unit_test(other_sections_are_copied),
		cmocka_unit_test(what_fails_is_unmade),
		cmocka_unit_test(a_plan_says_what_kept_it),
		cmocka_unit_test(the_last_number_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
