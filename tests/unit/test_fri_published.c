/* When a record was published, as far as the versions that are there tell: never earlier than it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/fri_published.h"

#include "recorded.h"
#include "table.h"

#define BOTH  "L1 0:10 > 1:10; L2 1:10 > 2:10"
#define FIRST "L1 0:10 > 1:10"

/* Record 0 came with version 4, record 1 with version 6. */
static const struct recorded versions[] = {
	{ .version = 2, .fragments = "0:10" },
	{ .version = 3, .fragments = "0:10" },
	{ .version = 4, .fragments = "1:10", .history = FIRST },
	{ .version = 5, .fragments = "1:10", .history = FIRST },
	{ .version = 6, .fragments = "2:10", .history = BOTH },
	{ .version = 7, .fragments = "2:10", .history = BOTH, .index = "2", .built_on = 3 },
};

static struct pf_store *new_table(void)
{
	return recorded_table(versions, ARRAY_LEN(versions));
}

static void want(struct pf_store *st, uint64_t first, uint64_t second)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_indices_release) struct pf_indices l = { NULL };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(pf_indices_read(st, head, &l, NULL), 0);
	assert_int_equal(pf_fri_read_branch(b, head, &f, NULL), 0);
	if (pf_fri_find_published(b, head, &l, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(f.n_records, 2);
	assert_int_equal(f.records[0].published, first);
	assert_int_equal(f.records[1].published, second);
}

static void remove_version(struct pf_store *st, uint64_t v)
{
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_del(st, table_manifest_name(&(struct table_version){ .version = v }, name)), 0);
}

static void the_first_version_that_has_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();

	want(st, 4, 6);
	/* What is gone may have had it or not: then it is taken to be younger. */
	remove_version(st, 4);
	want(st, 5, 6);
	remove_version(st, 2);
	remove_version(st, 3);
	remove_version(st, 5);
	want(st, 6, 6);
	remove_version(st, 6);
	want(st, 7, 7);
}

/* As is what a version says that cannot be read. */
static void versions_that_cannot_be_read(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	char name[TABLE_NAME_MAX];

	assert_int_equal(
		pf_store_mem_put(st, table_manifest_name(&(struct table_version){ .version = 4 }, name), "?", 1), 0);
	want(st, 5, 6);
}

/* A restore to before the record, and one that brought it back: its first time is long ago, and any of the others is safe. */
static void gone_and_there_again(void **state)
{
	static const struct recorded more[] = {
		{ .version = 8, .fragments = "0:10" },
		{ .version = 9, .fragments = "2:10", .history = BOTH, .index = "2", .built_on = 3 },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_indices_release) struct pf_indices l = { NULL };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };

	recorded_put(st, &more[0]);
	recorded_put(st, &more[1]);
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(pf_indices_read(st, head, &l, NULL), 0);
	assert_int_equal(pf_fri_read_branch(b, head, &f, NULL), 0);
	assert_int_equal(pf_fri_find_published(b, head, &l, &f, NULL), 0);
	assert_true(f.records[0].published >= 4 && f.records[0].published <= 9);
	assert_true(f.records[1].published >= 6 && f.records[1].published <= 9);
}

/* Nobody asks where the stamp settles it: no index is younger, and a transition has none. */
static void where_it_does_not_matter(void **state)
{
	static const struct recorded old = {
		.version = 7, .fragments = "2:10", .history = BOTH, .index = "2", .built_on = 1
	};
	static const struct recorded tagged = { .version = 7,
						.fragments = "2:10",
						.history = "L1 0:10 > 1:10; T 1:10 > 2:10",
						.index = "2",
						.built_on = 9,
						.index_version = 1,
						.flags = 1 << 10 };
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();

	recorded_put(st, &old);
	want(st, 0, 0);
	recorded_put(st, &tagged);
	want(st, 4, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_version_that_has_it),
		cmocka_unit_test(versions_that_cannot_be_read),
		cmocka_unit_test(gone_and_there_again),
		cmocka_unit_test(where_it_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
