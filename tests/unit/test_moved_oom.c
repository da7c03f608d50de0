/* Memory that runs out while rows that were moved are looked after, at every allocation: what is done is done whole or not at all, and nothing leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/branch_make.h"
#include "core/clone.h"
#include "core/restore.h"
#include "core/trim.h"

#include "alloc.h"
#include "moves.h"
#include "prepared.h"
#include "recorded.h"
#include "whole.h"
#include "world.h"

#define UUID   "12345678-1111-4222-8333-444444444444"
#define BIT_10 (UINT64_C(1) << 10)

static const struct pf_time now = { NOW, 0 };

/* Version 0, with an index that is younger than the stamp of a record and older than its publication; and two pins. */
static struct pf_store *stamped(void)
{
	static const char *const history = "L1 0:10 1:10 > 2:20; L2 2:20 > 3:10 4:10";
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10 1:10 6:10" },
		{ .version = 2, .fragments = "0:10 1:10 6:10", .index = "0 1", .built_on = 2 },
		{ .version = 3,
		  .fragments = "2:20 6:10:1",
		  .index = "0 1",
		  .built_on = 2,
		  .history = "L1 0:10 1:10 > 2:20",
		  .pins = "b" },
		{ .version = 4,
		  .fragments = "3:10 4:10 6:10:1 7:10:1",
		  .index = "0 1",
		  .built_on = 2,
		  .history = history,
		  .pins = "bc" },
		{ .version = 5,
		  .fragments = "3:10 4:10 6:10:1 7:10:1",
		  .index = "3 4",
		  .built_on = 4,
		  .history = history,
		  .pins = "bc" },
	};
	return recorded_table(v, 5);
}

/* Tagged, with a row map, content in a file, and a pin. */
static struct pf_store *tagged(void)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10 1:10 9:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "8:10 3:10 4:10",
		  .flags = BIT_10,
		  .index = "0 1",
		  .pins = "a",
		  .external = true,
		  .history = "L1 0:10 1:10 > 2:20; P 2:20 > 3:10 4:10; T 7:10 > 8:10; T 9:10 > 10:10",
		  .index_version = 1 },
	};
	return recorded_table(v, 2);
}

static struct pf_branch *line(struct pf_store *st)
{
	struct pf_branch *b = NULL;

	return pf_branch_open(st, NULL, &b, NULL) < 0 ? NULL : b;
}

static int run_trim(struct pf_store *st, struct pf_why *why)
{
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	_cleanup_(pf_branch_freep) struct pf_branch *b = line(st);
	const struct pf_trim_options o = { .apply = true, .attempts = 3 };
	struct pf_work_result result;

	return b ? pf_trim(b, &o, &t, &result, why) : -ENOMEM;
}

static int run_preview(struct pf_store *st, struct pf_why *why)
{
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = line(st);

	return b ? pf_restore_look(b, 1, &p, why) : -ENOMEM;
}

static int run_restore(struct pf_store *st, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = line(st);
	const struct pf_work w = { .operation = &o, .attempts = 3 };
	struct pf_work_result result;

	if (!b)
		return -ENOMEM;
	int r = pf_restore_operation(2, 2, &o, why);
	return r < 0 ? r : pf_work_commit(b, &w, &result, why);
}

/* One group with rows that are not known, which no pin follows, and one that is recorded. */
static int run_rewrite(struct pf_store *st, const char *const groups[2], struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, bytes = PF_BUF_INIT;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work w = { .operation = &o, .attempts = 3, .records = true };
	struct pf_work_result result;
	unsigned failing = alloc_pause();

	for (int i = 0; i < 2; i++) {
		_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;
		uint64_t rows = 0;
		recorded_fragments(groups[i], 1, &group, &rows);
		prepared_fragment(&group, 2, 0, "new.lance", rows, 0);
		assert_int_equal(pf_wire_put_bytes(&body, 3, group.data, group.len), 0);
	}
	assert_int_equal(pf_wire_put_u64(&bytes, 1, 1), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	alloc_fail(failing);
	int r = pf_operation_decode(&bytes, &o, why);
	_cleanup_(pf_branch_freep) struct pf_branch *b = r == 0 ? line(st) : NULL;
	return r < 0 ? r : !b ? -ENOMEM : pf_work_commit(b, &w, &result, why);
}

static int run_stamped_rewrite(struct pf_store *st, struct pf_why *why)
{
	return run_rewrite(st, (const char *const[2]){ "7:10:1", "3:10 4:10" }, why);
}

static int run_tagged_rewrite(struct pf_store *st, struct pf_why *why)
{
	return run_rewrite(st, (const char *const[2]){ "8:10", "3:10 4:10" }, why);
}

static int run_branch(struct pf_store *st, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = line(st);

	return b ? pf_branch_create(b, 2, "dev", now, why) : -ENOMEM;
}

static int run_clone(struct pf_store *st, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *source = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = line(st);
	_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
	struct pf_clone c = { .from = b, .to = st, .dir = "elsewhere/", .now = now };

	if (!b)
		return -ENOMEM;
	int r = pf_branch_head(b, &source, why);
	c.source = source;
	return r < 0 ? r : pf_clone_make(&c, &files, why);
}

static const struct deed {
	const char *name;
	struct pf_store *(*make)(void);
	int (*run)(struct pf_store *st, struct pf_why *why);
} deeds[] = {
	{ "trim, v0", stamped, run_trim },
	{ "trim, tagged", tagged, run_trim },
	{ "preview of a restore, v0", stamped, run_preview },
	{ "preview of a restore, tagged", tagged, run_preview },
	{ "restore", tagged, run_restore },
	{ "rewrite, v0", stamped, run_stamped_rewrite },
	{ "rewrite, tagged", tagged, run_tagged_rewrite },
	{ "branch, v0", stamped, run_branch },
	{ "branch, tagged", tagged, run_branch },
	{ "clone", tagged, run_clone },
};

/* What a failed creation could not take away is there for a deletion by force; and it is not a branch. */
static void clear(struct pf_store *st, const struct deed *d)
{
	_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;
	struct pf_stat sb;

	if (d->run == run_branch && pf_store_stat(st, "tree/dev", &sb) == 0) {
		assert_int_equal(pf_store_stat(st, "_refs/branches/dev.json", &sb), -ENOENT);
		int r = pf_branch_delete(st, "dev", true, NULL);
		assert_true(r == 0 || r == -ENOENT);
	}
	if (d->run == run_clone && pf_store_stat(st, "elsewhere", &sb) == 0) {
		table_list(st, "elsewhere", &files);
		assert_int_equal(files.len, 0);
	}
}

static void fail_each(const struct deed *d)
{
	unsigned nth = 0, calls;

	do {
		struct pf_store *st = d->make();
		struct pf_why why = PF_WHY_INIT;

		alloc_fail(++nth);
		int r = d->run(st, &why);
		calls = alloc_calls();
		alloc_fail(0);
		if (r != 0 && (r != -ENOMEM || calls < nth))
			fail_msg("%s, allocation %u of %u: %d, %s", d->name, nth, calls, r, why.text);
		assert_whole(st, "", true);
		if (r < 0) {
			clear(st, d);
			r = d->run(st, &why);
			if (r < 0)
				fail_msg("%s, again after allocation %u: %d, %s", d->name, nth, r, why.text);
			assert_whole(st, "", true);
		}
		pf_store_free(st);
	} while (calls >= nth);
	if (nth < 50)
		fail_msg("%s: %u allocations", d->name, nth);
}

static void every_allocation(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(deeds); i++)
		fail_each(&deeds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation),
	};

	return cmocka_run_group_tests_name("moved_oom", tests, NULL, NULL);
}
