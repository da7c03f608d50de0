/* The trim, one case at a time: what it refuses, on which head it decides, what it leaves. What it decides on any history is test_trim_random.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_write.h"
#include "core/trim.h"

#include "moves.h"
#include "pinned.h"
#include "recorded.h"
#include "whole.h"
#include "world.h"

#define BIT_10 (UINT64_C(1) << 10)
#define PIN_A  "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

static int trim(struct pf_store *st, bool apply, uint64_t *version, struct pf_why *why)
{
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	const struct pf_trim_options o = { .apply = apply, .attempts = 5 };
	struct pf_work_result result = { 0 };

	int r = pf_branch_open(st, NULL, &b, why);
	if (r == 0)
		r = pf_trim(b, &o, &t, &result, why);
	*version = result.version;
	return r;
}

/* A version by this number, 0: there is nothing to drop. */
static void want_trim(struct pf_store *st, uint64_t want)
{
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	if (trim(st, true, &version, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(version, want);
	assert_whole(st, "", false);
}

static void want_refusal(struct pf_store *st, int err, const char *sentence)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	table_list(st, ".", &before);
	for (int apply = 0; apply < 2; apply++) {
		int r = trim(st, apply, &version, &why);
		if (r != err || !strstr(why.text, sentence))
			fail_msg("%d, %s", r, why.text);
	}
	table_list(st, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
}

/* A31: the source's own version is one that its records may be stamped with, and a trim that finds nothing adds no version. */
static void stamps_from_the_source_on(void **state)
{
	static const char *const history = "L4 0:10 > 1:10; L5 1:10 > 2:10; L6 2:10 > 3:10";
	static const struct recorded v[] = {
		{ .version = 5, .fragments = "1:10" },
		{ .version = 6, .fragments = "2:10", .pins = "e" },
		{ .version = 7, .fragments = "3:10", .pins = "e", .history = history },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 3);
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	table_list(st, ".", &before);
	assert_int_equal(trim(st, false, &version, &why), 0);
	assert_int_equal(version, 8);
	table_list(st, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
	want_trim(st, 8);
	recorded_want(st, "stamp 5 [v0 1:10:0 > 2:10:0]\nstamp 6 [v0 2:10:0 > 3:10:0]\n");
	want_trim(st, 0);
}

/* A28: what is numbered 0 is like any other. */
static void zeros(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2,
		  .fragments = "1:10",
		  .pins = "a",
		  .history = "T 0:10 > 1:10",
		  .index_version = 1,
		  .flags = BIT_10 },
		{ .version = 1, .fragments = "1:10", .history = "L0 0:10 > 1:10", .index = "0" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2), *other = recorded_table(v + 2, 1);

	want_trim(st, 0);
	want_trim(other, 0);
}

static void no_history(void **state)
{
	static const struct recorded v[] = { { .version = 1, .fragments = "1:10", .index = "1" },
					     { .version = 1, .fragments = "1:10", .index = "1", .history = "" } };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 1), *empty = recorded_table(v + 1, 1);

	want_trim(st, 0);
	want_trim(empty, 0);
}

/*
 * lance-14-fri correction 4: the record is stamped 1 and came with version 4, the index was built on 2, and an ordinary commit translated its bitmap since.
 * Neither says that its payload is not; the versions that are there do. Without those before version 5, so could a record of version 5 be.
 */
static void stamps_of_releases_before_14(void **state)
{
	static const char *const history = "L1 0:10 1:10 > 2:20";
	const struct recorded v[] = {
		{ .version = 2, .fragments = "0:10 1:10" },
		{ .version = 3, .fragments = "0:10 1:10", .index = "0 1", .built_on = 2 },
		{ .version = 4, .fragments = "2:20", .index = "0 1", .built_on = 2, .history = history },
		{ .version = 5, .fragments = "2:20", .index = "2", .built_on = 2, .history = history },
		/* Remapped on 5. */
		{ .version = 6, .fragments = "2:20", .index = "2", .built_on = 5, .history = history },
		/* Remapped on 4, and all before 5 is gone. */
		{ .version = 5, .fragments = "2:20", .index = "2", .built_on = 4, .history = history },
		{ .version = 6, .fragments = "2:20", .index = "2", .built_on = 4, .history = history },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 4), *remapped = recorded_table(v, 5),
						  *unknown = recorded_table(v + 5, 2);

	want_trim(st, 0);
	want_trim(remapped, 7);
	recorded_want(remapped, "");
	want_trim(unknown, 0);
}

/* A26: a record whose fragments an index covers in part. Lance drops it. */
static void what_an_index_needs_that_cannot_be_told(void **state)
{
	static const uint8_t descending[] = {
		0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0x10, 0, 0, 0, 2, 0, 1, 0, 0, 0
	};
	static const struct pf_buf bitmap = { (uint8_t *)(uintptr_t)descending, sizeof(descending),
					      sizeof(descending) };
	const struct recorded v[] = {
		{ .version = 4,
		  .fragments = "0:10 3:20",
		  .index = "0 1",
		  .built_on = 4,
		  .history = "L3 1:10 2:10 > 3:20" },
		/* E10 */
		{ .version = 4,
		  .fragments = "0:10 3:20",
		  .bitmap = &bitmap,
		  .built_on = 4,
		  .history = "L3 1:10 2:10 > 3:20" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 1), *damaged = recorded_table(v + 1, 1);

	want_refusal(st, -EBADMSG,
		     "it covers some but not all of the fragments that were compacted together; rebuild it");
	want_refusal(damaged, -EBADMSG, "its fragment bitmap is damaged");
}

/* B23: the pin is named, also where an index is broken as well; and releasing it still works. */
static void what_a_pin_needs_that_cannot_be_told(void **state)
{
	static const struct recorded v[] = {
		{ .version = 2, .fragments = "0:10", .pins = "a", .flags = BIT_10 },
		{ .version = 3,
		  .fragments = "0:10 3:20",
		  .pins = "a",
		  .flags = BIT_10,
		  .index = "0 1",
		  .built_on = 4,
		  .history = "L3 1:10 2:10 > 3:20",
		  .index_version = 1 },
	};
	struct world w = { 0 };
	struct pf_store *st = recorded_table(v, 2);

	want_refusal(st, -EBUSY,
		     "what pin " PIN_A
		     " \"job\" (expires 2026-01-02T00:00:00Z) of version 1 needs cannot be told: version 1 is missing");
	open_branch(&w, st, NULL, 0);
	run(&w, (struct pf_op){ .kind = PF_OP_RELEASE, .id = pinned_uuid('a') }, 0);
	want_refusal(st, -EBADMSG, "it covers some but not all");
	close_world(&w);
}

static void a_source_that_is_another_one(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2,
		  .fragments = "1:10",
		  .pins = "a",
		  .flags = BIT_10,
		  .history = "T 0:10 > 1:10",
		  .index_version = 1 },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);

	/* Somebody restored a backup. */
	table_put(st, &(struct table_version){ .version = 1, .uuid = "99999999-9999-4999-8999-999999999999" });
	want_refusal(st, -EBUSY,
		     "version 1 is of transaction 99999999-9999-4999-8999-999999999999, expected 0badcafe-");
}

static void a_history_that_cannot_be_interpreted(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10", .history = "T 0:10 > 1:10" },
		{ .version = 2, .fragments = "1:10", .history = "T 0:10 > 1:10", .pins = "a" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 1), *pinned = recorded_table(v, 2);

	want_refusal(st, -EOPNOTSUPP, "field 2 of a v0 history is not known");
	want_refusal(pinned, -EBUSY,
		     "what pin " PIN_A " \"job\" (expires 2026-01-02T00:00:00Z) of version 1 needs cannot be told");
}

/* --- others in between ------------------------------------------------------------------------------------------------ */

/* Whatever others publish before our link is decided on: a pin, a record, their own trim. */
static void decided_on_the_head_that_is_replaced(void **state)
{
	static const char *const history = "L1 0:10 > 1:10; L2 1:10 > 2:10";
	const struct recorded head[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2, .fragments = "1:10" },
		{ .version = 3, .fragments = "2:10 4:10", .history = history },
	};
	static const struct {
		struct recorded v;
		uint64_t version;
		const char *left;
	} rows[] = {
		{ { .version = 4, .fragments = "2:10 4:10", .history = "L1 0:10 > 1:10; L2 1:10 > 2:10", .pins = "b" },
		  5,
		  "stamp 2 [v0 1:10:0 > 2:10:0]\n" },
		{ { .version = 4, .fragments = "2:10 4:10", .history = "L1 0:10 > 1:10; L2 1:10 > 2:10", .pins = "a" },
		  0,
		  "stamp 1 [v0 0:10:0 > 1:10:0]\nstamp 2 [v0 1:10:0 > 2:10:0]\n" },
		{ { .version = 4,
		    .fragments = "2:10 5:10",
		    .index = "4",
		    .built_on = 3,
		    .history = "L1 0:10 > 1:10; L2 1:10 > 2:10; L3 4:10 > 5:10" },
		  5,
		  "stamp 3 [v0 4:10:0 > 5:10:0]\n" },
		{ { .version = 4, .fragments = "2:10 4:10", .history = "" }, 0, "" },
		{ { .version = 4, .fragments = "2:10 4:10" }, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(head, 3);
		struct recorded_meddler m = { &rows[i].v, 1, 0 };

		pf_store_mem_set_hook(st, recorded_meddle, &m);
		want_trim(st, rows[i].version);
		pf_store_mem_set_hook(st, NULL, NULL);
		assert_int_equal(m.done, 1);
		recorded_want(st, rows[i].left);
	}
}

/* --- where it is ------------------------------------------------------------------------------------------------------ */

/* A history above 204,800 bytes stays in a file, of its own: the old one is that of older versions. */
static void long_history(struct pf_buf *text, unsigned n)
{
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(pf_buf_addf(text, "T %u:10 > %u:10;", 100 + i, 101 + i), 0);
	assert_int_equal(pf_buf_addstr(text, "T 0:10 > 1:10"), 0);
	assert_non_null(pf_buf_str(text));
}

static void a_long_history(void **state)
{
	static const unsigned lengths[] = { 100, 5000 };

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, files = PF_BUF_INIT;
		long_history(&text, lengths[i]);
		const struct recorded v[] = {
			{ .version = 1, .fragments = "101:10 0:10", .flags = BIT_10 },
			{ .version = 2,
			  .fragments = "101:10 1:10",
			  .flags = BIT_10,
			  .pins = "a",
			  .external = true,
			  .history = (char *)text.data,
			  .index_version = 1 },
			{ .version = 3,
			  .fragments = "101:10 1:10",
			  .flags = BIT_10,
			  .external = true,
			  .index = "101",
			  .history = (char *)text.data,
			  .index_version = 1 },
		};
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 3);
		want_trim(st, 4);
		table_list(st, "_indices", &files);
		assert_non_null(
			strstr(pf_buf_str(&files), "_indices/0badcafe-0000-4000-a000-000000000002/details.binpb\n"));
		unsigned n = 0;
		for (const char *p = pf_buf_str(&files); (p = strstr(p, "details.binpb\n")); p++)
			n++;
		assert_int_equal(n, lengths[i] > 1000 ? 2 : 1);
		want_trim(st, 0);
	}
}

/* Storage failed, and works again: it is committed once, or not at all; what was said is true; and doing it again ends well. */
static void check_failed(struct pf_store *st, int r, const struct pf_why *why)
{
	uint64_t version;

	heal(st);
	bool landed = pf_store_stat(st, "_versions/18446744073709551612.manifest", &(struct pf_stat){ 0 }) == 0;
	if (r == 0)
		assert_true(landed);
	else if (r != -EINPROGRESS)
		assert_false(landed);
	if (r < 0)
		assert_true(why->text[0]);
	assert_whole(st, "", true);
	assert_int_equal(trim(st, true, &version, NULL), 0);
	assert_int_equal(version, landed ? 0 : 3);
	assert_whole(st, "", true);
}

static struct pf_store *long_table(unsigned records)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	long_history(&text, records);
	const struct recorded v[] = {
		{ .version = 1, .fragments = "101:10 0:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "101:10 1:10",
		  .flags = BIT_10,
		  .external = true,
		  .index = "101",
		  .history = (char *)text.data,
		  .index_version = 1 },
	};
	return recorded_table(v, 2);
}

static bool fail_call(unsigned nth, enum pf_fault kind, int err, bool forever)
{
	_cleanup_(pf_store_freep) struct pf_store *st = long_table(4);
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	unsigned calls = pf_store_mem_calls(st);
	pf_store_mem_fault(st, nth, kind, err, forever);
	int r = trim(st, true, &version, &why);
	bool hit = pf_store_mem_calls(st) - calls >= nth;
	check_failed(st, r, &why);
	return hit;
}

static void every_call_may_fail(void **state)
{
	for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, -EIO, false); n++)
		;
	for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, -EIO, false); n++)
		;
	for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, -ENOSPC, true); n++)
		;
}

/* Where its file is written or after that: nothing is left of it once the commit is known to have failed. */
static void what_a_long_history_leaves(void **state)
{
	static const struct trap traps[] = {
		{ .op = "mkdir", .name = "_indices/" },	   { .op = "create", .name = "_indices/" },
		{ .op = "write", .name = "_indices/" },	   { .op = "sync", .name = "_indices/" },
		{ .op = "sync_dir", .name = "_indices/" }, { .op = "create", .name = "_transactions/" },
		{ .op = "sync", .name = "_versions/" },	   { .op = "link", .name = "_versions/" },
	};

	for (size_t i = 0; i < ARRAY_LEN(traps); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = long_table(5000);
		_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
		struct trap t = traps[i];
		struct pf_why why = PF_WHY_INIT;
		uint64_t version;

		table_list(st, ".", &before);
		t.kind = PF_FAULT_BEFORE;
		t.err = -ENOSPC;
		set_trap(st, &t);
		int r = trim(st, true, &version, &why);
		if (t.hits != 1)
			fail_msg("%s of %s: %u calls", t.op, t.name, t.hits);
		assert_int_equal(r, -ENOSPC);
		table_list(st, ".", &after);
		assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
		check_failed(st, r, &why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stamps_from_the_source_on),
		cmocka_unit_test(zeros),
		cmocka_unit_test(no_history),
		cmocka_unit_test(stamps_of_releases_before_14),
		cmocka_unit_test(what_an_index_needs_that_cannot_be_told),
		cmocka_unit_test(what_a_pin_needs_that_cannot_be_told),
		cmocka_unit_test(a_source_that_is_another_one),
		cmocka_unit_test(a_history_that_cannot_be_interpreted),
		cmocka_unit_test(decided_on_the_head_that_is_replaced),
		cmocka_unit_test(a_long_history),
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(what_a_long_history_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
