/* Manifests of writers that know pins: what they may make of those, and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "carried.h"
#include "pinned.h"
#include "prepared.h"
#include "recorded.h"
#include "world.h"

#define UUID  "12345678-1111-4222-8333-444444444444"
#define PIN_A "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define PIN_B "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

struct aware {
	const char *pins;
	enum pf_op_kind kind;
	const char *named;
};

static int commit_aware(struct pf_store *st, const struct aware *a, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *scratch = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *staged = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct table_version t = { .version = 4, .writer_flags = BIT_PINS, .operation = a->kind ? 110 : 0 };
	const struct pinned p = { .pins = a->pins, .kind = a->kind, .named = a->named };
	bool changed;

	assert_int_equal(pf_store_mem_new(&scratch), 0);
	pinned_put(scratch, &t, &p);
	staged = carried_stage(st, scratch, 4, true);
	prepared("UpdateConfig ck", 1, UUID, &o);
	return carried_commit(st, staged, &o, &changed, why);
}

/* Pins a and b are there, and version 3 is the head: pin c is of it. Upper case: as after a renewal. */
static struct pf_store *new_pinned(void)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10" },
		{ .version = 2, .fragments = "1:10", .pins = "a" },
		{ .version = 3, .fragments = "1:10", .pins = "ab" },
	};
	return recorded_table(v, 3);
}

static void what_they_may_make_of_pins(void **state)
{
	static const struct aware v[] = {
		{ "ab" },
		{ "ba" },
		{ "b", PF_OP_RELEASE, "a" },
		{ "ab", PF_OP_RELEASE, "d" },
		{ "Ab", PF_OP_RENEW, "A" },
		{ "b", PF_OP_EXPIRE, "a" },
		{ "abc", PF_OP_REGISTER, "c" },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_pinned();
		_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		struct pf_why why = PF_WHY_INIT;
		if (commit_aware(st, &v[i], &why) < 0)
			fail_msg("%zu: %s", i, why.text);
		assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
		assert_int_equal(pf_branch_head(b, &m, NULL), 0);
		assert_int_equal(m->pins.n, strlen(v[i].pins));
		for (size_t k = 0; k < m->pins.n; k++) {
			_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin(v[i].pins[k]);
			assert_true(pf_uuid_eq(&p.id, &m->pins.v[k].id));
			assert_true(pf_pin_same(&p, &m->pins.v[k]));
		}
	}
}

static void what_they_may_not(void **state)
{
	static const struct {
		struct aware a;
		const char *sentence;
	} v[] = {
		{ { "b" }, "it changes pin " PIN_A ", which its transaction does not say" },
		{ { "" }, "it changes pin " PIN_A },
		{ { "Ab" }, "it changes pin " PIN_A },
		{ { "abc" }, "it changes pin cccccccc-cccc-4ccc-8ccc-cccccccccccc" },
		{ { "a", PF_OP_RELEASE, "a" }, "it changes pin " PIN_B },
		{ { "ab", PF_OP_RELEASE, "a" }, "it changes pin " PIN_A },
		{ { "abd", PF_OP_REGISTER, "d" }, "is not the head" },
		{ { "abc", PF_OP_REGISTER, "d" }, "is not the head" },
		{ { "ab", PF_OP_RENEW, "C" }, "cccccccc-cccc-4ccc-8ccc-cccccccccccc" },
		{ { "b", PF_OP_EXPIRE, "A" }, PIN_A },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_pinned();
		struct pf_why why = PF_WHY_INIT;
		int r = commit_aware(st, &v[i].a, &why);
		if (r != -EPERM || !strstr(why.text, v[i].sentence))
			fail_msg("%zu: %d: %s", i, r, why.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_they_may_make_of_pins),
		cmocka_unit_test(what_they_may_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
