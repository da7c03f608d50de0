/* What a cleanup of a whole table leaves alone, and what stops it before it begins (lance-14-cleanup section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"

#include "attempt.h"
#include "cleaning.h"
#include "pinned.h"
#include "table.h"

/* --- what blocks --- */

static void tagged_versions_refuse_or_stay(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_put_tag(st, "old", "null", 2);
	cleaning_init(&x, st, 1, OLD);
	assert_int_equal(cleaning_plan(&x, NULL, NULL), -EBUSY);
	assert_non_null(strstr(x.why.text, "\"old\" (version 2)"));
	x.o.skip_tagged = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "v4 v3 v1 ");
	cleaning_end(&x);
	/* One that the policy does not let go anyhow is no reason. */
	cleaning_init(&x, st, 4, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "v1 ");
	cleaning_end(&x);
}

/* D14: Lance takes it for a tag of no branch. */
static void a_tag_that_says_main_is_one_of_main(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_put_tag(st, "old", "\"main\"", 2);
	cleaning_init(&x, st, 1, OLD);
	x.o.skip_tagged = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "v4 v3 v1 ");
	cleaning_end(&x);
}

static void assert_blocked(struct pf_store *st, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct cleaning x;

	cleaning_list(st, &before);
	cleaning_init(&x, st, 1, OLD);
	assert_int_equal(cleaning_run(&x), -EBUSY);
	if (!strstr(x.why.text, text))
		fail_msg("%s", x.why.text);
	cleaning_end(&x);
	cleaning_list(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
}

static void damage_blocks(void **state)
{
	struct pf_store *st = cleaning_new_table();

	assert_int_equal(pf_store_mem_put(st, "_versions/18446744073709551613.manifest", "short", 5), 0);
	assert_blocked(st, "18446744073709551613.manifest");
	pf_store_free(st);
	st = cleaning_new_table();
	assert_int_equal(pf_store_mem_put(st, "_refs/branches/bad.json", "{}", 2), 0);
	assert_blocked(st, "bad.json");
	pf_store_free(st);
	st = cleaning_new_table();
	cleaning_put_branch(st, "dev", 3, DEV_ID, "bc");
	assert_int_equal(pf_store_mem_put(st, "tree/dev/_versions/18446744073709551612.manifest", "short", 5), 0);
	assert_blocked(st, "dev");
	pf_store_free(st);
	st = cleaning_new_table();
	table_put(st, &(struct table_version){ .version = 6, .writer_flags = UINT64_C(1) << 40 });
	assert_blocked(st, "40");
	pf_store_free(st);
}

/* --- pins --- */

/* Main 1 to 5 as new_table, pin a of source 1 or b of 2 and so on in the head. */
static struct pf_store *new_pinned(const char *pins)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	struct pf_store *st = cleaning_new_table();

	table_add_fragment(&extra, 2, "c.lance", 5, -1);
	table_add_fragment(&extra, 3, "d.lance", 5, -1);
	pinned_put(st, &(struct table_version){ .version = 6, .writer_flags = BIT_PINS, .extra = &extra },
		   &(struct pinned){ .pins = pins, .kind = PF_OP_REGISTER, .named = pins });
	return st;
}

/* Version 5 of new_table, but for its transaction. */
static void put_lost_transaction(struct pf_store *st)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	const struct table_version t = { .version = 5, .extra = &extra, .txn = TABLE_TXN_LOST };
	char name[TABLE_NAME_MAX];

	table_add_fragment(&extra, 2, "c.lance", 5, -1);
	table_add_fragment(&extra, 3, "d.lance", 5, -1);
	assert_int_equal(pf_store_mem_del(st, table_txn_name(&t, name)), 0);
	table_put(st, &t);
}

static void windows_stay(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_pinned("c");
	struct pf_uuid c = pinned_uuid('c');
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance " INDEX " v2 v1 ");
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_PIN].files,
			 7); /* manifests and transactions of 3 to 5, and b */
	/* As it will be when the pin is gone. */
	x.o.released = &c;
	x.o.n_released = 1;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance data/b.lance " INDEX " v5 v4 v3 v2 v1 ");
	cleaning_end(&x);
	cleaning_run_anew(st, 1, OLD);
	cleaning_assert_whole(st);
	assert_true(exists(st, "data/b.lance"));
}

static void a_window_that_cannot_be_verified_blocks(void **state)
{
	struct pf_store *st = new_pinned("c");

	assert_int_equal(pf_store_mem_del(st, "_versions/18446744073709551611.manifest"), 0);
	assert_blocked(st, "cccccccc-cccc-4ccc-8ccc-cccccccccccc");
	pf_store_free(st);
	st = new_pinned("c");
	assert_int_equal(pf_store_mem_del(st, "data/b.lance"), 0);
	assert_blocked(st, "data/b.lance");
	pf_store_free(st);
	/* A transaction that is neither in its manifest nor beside it. (cases-open A37) */
	st = new_pinned("c");
	put_lost_transaction(st);
	assert_blocked(st, "version 5");
	pf_store_free(st);
}

/* The file of a transaction is gone, but the manifest has it, too. */
static void an_inline_transaction_is_enough(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_pinned("c");
	char name[TABLE_NAME_MAX];
	struct cleaning x;

	assert_int_equal(pf_store_mem_del(st, table_txn_name(&(struct table_version){ .version = 5 }, name)), 0);
	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance " INDEX " v2 v1 ");
	cleaning_end(&x);
}

/* --- the dangers --- */

/* D5: Lance keeps the manifest alone. */
static void the_root_of_a_branch_stays_whole(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_put_branch(st, "dev", 2, DEV_ID, "b");
	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "v4 v3 v1 ");
	cleaning_must_run(&x);
	cleaning_end(&x);
	cleaning_assert_whole(st);
}

/* D10: on a base there is a file of the same name. */
static void a_name_on_a_base_is_another_file(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct cleaning x;

	table_add_fragment(&more, 4, "x.lance", 5, 1);
	table_add_base(&more, 1, true, "/elsewhere");
	cleaning_put_version(st, NULL, 6, "c", false, &more);
	cleaning_put_version(st, NULL, 7, "c", false, NULL);
	cleaning_put_file(st, "data/x.lance");
	cleaning_init(&x, st, 1, YOUNG);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance data/b.lance data/d.lance " INDEX " v6 v5 v4 v3 v2 v1 ");
	cleaning_end(&x);
}

/* D11. */
static void a_base_inside_the_table_is_part_of_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct cleaning x;

	table_add_fragment(&more, 4, "x.lance", 5, 1);
	table_add_base(&more, 1, false, "/memory/data/sub");
	cleaning_put_file(st, "data/sub/x.lance");
	cleaning_put_version(st, NULL, 6, "c", false, &more);
	cleaning_init(&x, st, 1, OLD);
	x.o.delete_unverified = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance data/b.lance data/d.lance " INDEX " v5 v4 v3 v2 v1 ");
	cleaning_end(&x);
}

/* D4: branch x, and branch x/data in the folder of its data. */
static void a_branch_in_a_folder_of_another_is_left_alone(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_put_branch(st, "x", 5, DEV_ID, "c");
	cleaning_put_branch(st, "x/data", 5, OTHER_ID, "c");
	cleaning_put_version(st, "x/data", 6, "f", false, NULL);
	cleaning_put_version(st, "x/_indices", 6, "g", false, NULL);
	cleaning_put_file(st, "tree/x/data/stray.lance");
	table_put_branch(st, "x/_indices", 5, OTHER_ID);
	cleaning_init(&x, st, 1, OLD);
	x.branch = "x";
	x.o.delete_unverified = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "tree/x/data/stray.lance ");
	cleaning_end(&x);
}

/* D12: Lance stops at them in the middle. */
static void names_that_are_not_text_stop_nothing(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();

	cleaning_put_file(st, "data/bad\xff.lance");
	cleaning_put_file(st, "_deletions/bad\x01.bin");
	cleaning_run_anew(st, 1, OLD);
	assert_int_equal(cleaning_count_files(st), 6);
	assert_true(exists(st, "data/bad\xff.lance"));
}

/* The listing of Lance: what was copied since, or made since. And D16. */
static void files_newer_than_the_oldest_version_stay_unless_leaks_go(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	/* The head was made at 2026-01-01T00:00:05. */
	assert_int_equal(pf_store_mem_set_mtime(st, "data/a.lance", (INT64_C(1767225605)) * 1000000000), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "data/b.lance", (INT64_C(1767225605)) * 1000000000 + 1), 0);
	cleaning_init(&x, st, 1, 1767225605 + 3600);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance " INDEX " v4 v3 v2 v1 ");
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 1);
	x.o.leaks = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance data/b.lance " INDEX " v4 v3 v2 v1 ");
	cleaning_end(&x);
}

/* A version that goes is newer than one that stays: then files of any age are looked at. */
static void an_old_tag_does_not_hide_newer_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	/* Version 1 was made at 2026-01-01T00:00:01. */
	assert_int_equal(pf_store_mem_set_mtime(st, "data/b.lance", INT64_C(1767225603) * 1000000000), 0);
	cleaning_put_tag(st, "old", "null", 1);
	cleaning_init(&x, st, 1, 1767225605 + 3600);
	x.o.skip_tagged = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/b.lance " INDEX " v4 v3 v2 ");
	cleaning_end(&x);
	/* Also if it is on its way out since the run before. */
	cleaning_hide(st, 2);
	cleaning_hide(st, 3);
	cleaning_hide(st, 4);
	cleaning_init(&x, st, 1, 1767225605 + 3600);
	x.o.skip_tagged = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/b.lance " INDEX " v4 v3 v2 ");
	cleaning_end(&x);
}

/* A version that goes was made in the same moment as the oldest that stays: it is not newer (lance-14-cleanup 21). */
static void at_one_moment_the_oldest_version_still_hides_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	const struct pf_time head = { .sec = 1767225605 }, later = { .sec = 1767225605, .nsec = 1 };
	struct cleaning x;

	cleaning_put_file(st, "data/e.lance");
	cleaning_put_file(st, "_transactions/9-orphan.txn");
	assert_int_equal(pf_store_mem_set_mtime(st, "data/a.lance", head.sec * 1000000000 + 1), 0);
	table_put(st, &(struct table_version){ .version = 4, .timestamp = head });
	cleaning_init(&x, st, 1, head.sec + 3600);
	cleaning_must_plan(&x);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 1);
	cleaning_end(&x);
	table_put(st, &(struct table_version){ .version = 4, .timestamp = later });
	cleaning_init(&x, st, 1, head.sec + 3600);
	cleaning_must_plan(&x);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 0);
	cleaning_end(&x);
}

/* However young: what was in it is gone. */
static void the_folder_of_an_index_goes_with_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct pf_stat sb;

	assert_int_equal(pf_store_mkdir(st, "_indices/young"), 0);
	cleaning_run_anew(st, 1, YOUNG);
	assert_int_equal(pf_store_stat(st, "_indices/0badcafe-0000-4000-a000-000000000001", &sb), -ENOENT);
	assert_int_equal(pf_store_stat(st, "_indices/young", &sb), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/young", 0), 0);
	cleaning_run_anew(st, 1, OLD);
	assert_int_equal(pf_store_stat(st, "_indices/young", &sb), -ENOENT);
	assert_int_equal(pf_store_stat(st, "_indices", &sb), 0);
	/* A folder that somebody touched just now, of files that nobody names. */
	cleaning_put_file(st, "_indices/stray/sub/page");
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/stray", INT64_C(1000000000) * (OLD - 1)), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/stray/sub", INT64_C(1000000000) * (OLD - 1)), 0);
	cleaning_run_anew(st, 1, OLD);
	assert_int_equal(pf_store_stat(st, "_indices/stray", &sb), -ENOENT);
}

/* D15: of a branch that has no ref. Beside it branch dev, of main's version 5. */
static void put_zombie(struct pf_store *st)
{
	cleaning_put_branch(st, "dev", 5, DEV_ID, "cd");
	cleaning_put_version(st, "z", 7, "f", false, NULL);
	cleaning_put_version(st, "z/deep", 7, "g", false, NULL);
	cleaning_put_file(st, "tree/z/_versions/latest_version_hint.json");
}

static void assert_leaks(struct pf_store *st, const char *branch, int64_t now, const char *want)
{
	struct cleaning x;

	cleaning_init(&x, st, 9, now);
	x.branch = branch;
	x.o.leaks = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, want);
	cleaning_end(&x);
}

static void folders_of_no_branch_go_whole_or_not_at_all(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct pf_stat sb;
	struct cleaning x;

	put_zombie(st);
	cleaning_init(&x, st, 9, OLD);
	x.o.delete_unverified = true;
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "");
	cleaning_end(&x);
	assert_leaks(st, NULL, YOUNG, "");
	assert_leaks(st, "dev", OLD, "");
	cleaning_put_file(st, "tree/z/data/strange");
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	assert_int_equal(pf_store_mem_del(st, "tree/z/data/strange"), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/deep/data/g.lance", INT64_C(1000000000) * OLD), 0);
	assert_leaks(st, NULL, OLD, "tree/z/_versions/latest_version_hint.json tree/z/data/f.lance v0 ");
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/deep/data/g.lance", 0), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/data", INT64_C(1000000000) * OLD), 0);
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/data", 0), 0);

	cleaning_init(&x, st, 9, OLD);
	x.o.leaks = true;
	cleaning_must_run(&x);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 0);
	assert_int_equal(pf_cleanup_report(x.c)->removed[PF_CLEAN_MANIFEST].files, 2);
	cleaning_end(&x);
	assert_int_equal(pf_store_stat(st, "tree/z", &sb), -ENOENT);
	cleaning_assert_whole(st);
}

static void folders_of_no_branch_stay_for_who_lives_in_them_or_on_them(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct pf_store *st = cleaning_new_table();

	/* One that was made from it. */
	put_zombie(st);
	table_add_fragment(&more, 5, "f.lance", 5, 0);
	table_add_base(&more, 0, true, "/memory/tree/z");
	cleaning_put_version(st, "dev", 6, "", false, &more);
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	pf_store_free(st);
	/* One in the folder of its data; and one whose name goes on from it. */
	st = cleaning_new_table();
	put_zombie(st);
	cleaning_put_branch(st, "z/data", 5, OTHER_ID, "cd");
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	pf_store_free(st);
	st = cleaning_new_table();
	put_zombie(st);
	cleaning_put_branch(st, "z/deep", 5, OTHER_ID, "cd");
	assert_leaks(st, NULL, OLD, "tree/z/_versions/latest_version_hint.json tree/z/data/f.lance v0 ");
	pf_store_free(st);
}

static void a_folder_of_no_branch_goes_from_below_a_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct pf_stat sb;
	struct cleaning x;

	cleaning_put_branch(st, "dev", 5, DEV_ID, "cd");
	cleaning_put_version(st, "dev/old", 7, "f", false, NULL);
	cleaning_init(&x, st, 9, OLD);
	x.o.leaks = true;
	cleaning_must_run(&x);
	cleaning_end(&x);
	assert_int_equal(pf_store_stat(st, "tree/dev/old", &sb), -ENOENT);
	cleaning_assert_whole(st);
}

static void a_ref_that_appears_makes_it_a_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	put_zombie(st);
	cleaning_init(&x, st, 9, OLD);
	x.o.leaks = true;
	cleaning_must_plan(&x);
	table_put_branch(st, "z", 5, OTHER_ID);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	cleaning_end(&x);
	cleaning_assert_whole(st);
	assert_true(exists(st, "tree/z/data/f.lance"));
	assert_true(exists(st, "tree/z/_versions/18446744073709551608.manifest"));
	/* What is below it is of no branch still. */
	assert_false(exists(st, "tree/z/deep/data/g.lance"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_old_tag_does_not_hide_newer_files),
		cmocka_unit_test(at_one_moment_the_oldest_version_still_hides_files),
		cmocka_unit_test(the_folder_of_an_index_goes_with_it),
		cmocka_unit_test(tagged_versions_refuse_or_stay),
		cmocka_unit_test(a_tag_that_says_main_is_one_of_main),
		cmocka_unit_test(damage_blocks),
		cmocka_unit_test(windows_stay),
		cmocka_unit_test(a_window_that_cannot_be_verified_blocks),
		cmocka_unit_test(an_inline_transaction_is_enough),
		cmocka_unit_test(the_root_of_a_branch_stays_whole),
		cmocka_unit_test(a_name_on_a_base_is_another_file),
		cmocka_unit_test(a_base_inside_the_table_is_part_of_it),
		cmocka_unit_test(a_branch_in_a_folder_of_another_is_left_alone),
		cmocka_unit_test(names_that_are_not_text_stop_nothing),
		cmocka_unit_test(files_newer_than_the_oldest_version_stay_unless_leaks_go),
		cmocka_unit_test(folders_of_no_branch_go_whole_or_not_at_all),
		cmocka_unit_test(folders_of_no_branch_stay_for_who_lives_in_them_or_on_them),
		cmocka_unit_test(a_folder_of_no_branch_goes_from_below_a_branch),
		cmocka_unit_test(a_ref_that_appears_makes_it_a_branch),
	};

	return cmocka_run_group_tests_name("cleanup_keeps", tests, NULL, NULL);
}
