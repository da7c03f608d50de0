/* Messages in memory: walked, and changed without losing what is not known. */
#include "core/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define SPAN(s) ((struct pf_span){ (const uint8_t *)(s), sizeof(s) - 1 })

static void assert_changed(struct pf_span message, const struct pf_change *v, size_t n, struct pf_span want)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	assert_int_equal(pf_message_change(message, v, n, &b, NULL), 0);
	assert_int_equal(b.len, want.n);
	assert_memory_equal(b.data, want.p, want.n);
}

static void what_is_not_changed_stays_as_it_is(void **state)
{
	/* 1: 7, 99: "x" (known to nobody), 4: 1 */
	const struct pf_span m = SPAN("\x08\x07\x9a\x06\x01x\x20\x01");
	const struct pf_change four = { 4, SPAN("\x20\x02") }, gone = { .number = 1 }, two = { 2, SPAN("\x10\x05") };

	assert_changed(m, NULL, 0, m);
	assert_changed(m, &four, 1, SPAN("\x08\x07\x20\x02\x9a\x06\x01x"));
	assert_changed(m, &gone, 1, SPAN("\x9a\x06\x01x\x20\x01"));
	assert_changed(m, &two, 1, SPAN("\x08\x07\x10\x05\x9a\x06\x01x\x20\x01"));
	assert_changed(SPAN(""), &two, 1, SPAN("\x10\x05"));
}

static void all_occurrences_go_and_new_ones_stand_once(void **state)
{
	const struct pf_change two = { 2, SPAN("\x12\x01z") };

	assert_changed(SPAN("\x12\x01x\x12\x01y\x18\x01\x12\x01w"), &two, 1, SPAN("\x12\x01z\x18\x01"));
}

static void changes_come_in_any_order(void **state)
{
	const struct pf_change v[] = { { 5, SPAN("\x28\x05") }, { 1, SPAN("\x08\x01") }, { .number = 3 } };

	assert_changed(SPAN("\x10\x02\x18\x03\x30\x06"), v, 3, SPAN("\x08\x01\x10\x02\x28\x05\x30\x06"));
}

static void damage_is_told(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_message_change(SPAN("\x12\x05x"), NULL, 0, &b, &why), -EBADMSG);
	assert_true(why.text[0]);
}

static void numbers_are_packed_or_not(void **state)
{
	_cleanup_(pf_numbers_release) struct pf_numbers l = { 0 };
	struct pf_message walk;
	struct pf_member m;
	struct pf_span span = SPAN("\x0a\x03\x01\xac\x02\x08\x05\x0a\x00");

	pf_message_init(&walk, span);
	while (pf_message_next(&walk, &m, NULL) > 0)
		assert_int_equal(pf_member_numbers(&m, &l, NULL), 0);
	assert_int_equal(l.n, 3);
	assert_int_equal(l.v[0], 1);
	assert_int_equal(l.v[1], 300);
	assert_int_equal(l.v[2], 5);
	assert_true(pf_numbers_has(&l, 300));
	assert_false(pf_numbers_has(&l, 2));
}

static void values_are_of_their_types(void **state)
{
	struct pf_member number = { .number = 1, .type = PF_WIRE_VARINT, .num = UINT64_C(1) << 32 },
			 text = { .number = 2, .type = PF_WIRE_LEN, .value = SPAN("a\0b") };
	struct pf_span s;
	uint32_t v;

	assert_int_equal(pf_member_u32(&number, &v, NULL), -EBADMSG);
	assert_int_equal(pf_member_span(&number, &s, NULL), -EBADMSG);
	assert_int_equal(pf_member_text(&text, &s, NULL), -EBADMSG);
	assert_int_equal(pf_member_span(&text, &s, NULL), 0);
	text.value = SPAN("\xff");
	assert_int_equal(pf_member_text(&text, &s, NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_changed_stays_as_it_is),
		cmocka_unit_test(all_occurrences_go_and_new_ones_stand_once),
		cmocka_unit_test(changes_come_in_any_order),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(numbers_are_packed_or_not),
		cmocka_unit_test(values_are_of_their_types),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
