/* Cleanups of whole tables as they run: what appears meanwhile, and whatever fails or ends them (lance-14-cleanup section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"

#include "attempt.h"
#include "cleaning.h"
#include "whole.h"

static void sum_up(const struct pf_cleanup_report *r, struct pf_clean_count *all)
{
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++) {
		all->files += r->removed[i].files + r->failed[i].files;
		all->bytes += r->removed[i].bytes + r->failed[i].bytes;
	}
	for (size_t i = 0; i < PF_FATES; i++) {
		all->files += r->kept[i].files;
		all->bytes += r->kept[i].bytes;
	}
}

static void files_go_that_only_versions_name_that_go(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_clean_count all = { 0 };
	struct cleaning x;

	int there = cleaning_count_files(st);
	cleaning_list(st, &before);
	cleaning_init(&x, st, 2, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/a.lance data/b.lance " INDEX " v3 v2 v1 ");
	cleaning_list(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	sum_up(pf_cleanup_report(x.c), &all);
	assert_int_equal(all.files, there);

	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	const struct pf_cleanup_report *r = pf_cleanup_report(x.c);
	assert_int_equal(r->versions, 3);
	assert_int_equal(r->removed[PF_CLEAN_MANIFEST].files, 3);
	assert_int_equal(r->removed[PF_CLEAN_TRANSACTION].files, 3);
	assert_int_equal(r->removed[PF_CLEAN_DATA].files, 2);
	assert_int_equal(r->removed[PF_CLEAN_DATA].bytes, 10);
	assert_int_equal(r->removed[PF_CLEAN_INDEX].files, 1);
	assert_int_equal(r->folders, 1);
	assert_int_equal(r->kept[PF_STAYS_HEAD].files, 4);   /* with its transaction, c and d */
	assert_int_equal(r->kept[PF_STAYS_POLICY].files, 2); /* version 4, which has no other */
	all = (struct pf_clean_count){ 0 };
	sum_up(r, &all);
	assert_int_equal(all.files, there);
	assert_int_equal(cleaning_count_files(st), 6);
	cleaning_assert_whole(st);
	cleaning_end(&x);
}

static void a_second_run_finds_nothing(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_run_anew(st, 1, OLD);
	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "");
	cleaning_end(&x);
}

/* --- failures --- */

/* Fail call n of the run, and say whether that was reached. */
static bool fail_at(unsigned n, enum pf_fault kind, bool forever, const char *want)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_clean_count all = { 0 };
	struct cleaning x;

	cleaning_put_file(st, "data/stray.lance");
	int there = cleaning_count_files(st);
	cleaning_init(&x, st, 2, YOUNG);
	cleaning_must_plan(&x);
	unsigned before = pf_store_mem_calls(st);
	pf_store_mem_fault(st, n, kind, -EIO, forever);
	int r = pf_cleanup_run(x.c, &x.how, &x.why);
	bool reached = pf_store_mem_calls(st) - before >= n;
	heal(st);
	sum_up(pf_cleanup_report(x.c), &all);
	assert_int_equal(all.files, there);
	if (r < 0)
		assert_true(x.why.text[0]);
	cleaning_end(&x);

	cleaning_assert_whole(st);
	cleaning_run_anew(st, 2, YOUNG);
	cleaning_list(st, &got);
	if (strcmp(pf_buf_str(&got), want) != 0)
		fail_msg("call %u: expected\n%sfound\n%s", n, want, pf_buf_str(&got));
	return reached;
}

/* However young the files are: the next run knows what this one was about. */
static void whatever_fails_the_next_run_ends_the_same(void **state)
{
	static const struct {
		enum pf_fault kind;
		bool forever;
	} ways[] = { { PF_FAULT_BEFORE, false },
		     { PF_FAULT_AFTER, false },
		     { PF_FAULT_BEFORE, true },
		     { PF_FAULT_AFTER, true } };
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;

	cleaning_put_file(st, "data/stray.lance");
	cleaning_run_anew(st, 2, YOUNG);
	cleaning_list(st, &want);
	assert_non_null(strstr(pf_buf_str(&want), "stray"));
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		unsigned n = 1;
		while (fail_at(n, ways[i].kind, ways[i].forever, pf_buf_str(&want)))
			n++;
		if (n < 25)
			fail_msg("only %u calls", n);
	}
}

static int refuse_removal(struct pf_store *st, const char *name, struct trap *t)
{
	*t = (struct trap){ .op = "remove", .name = name, .kind = PF_FAULT_BEFORE, .err = -EBUSY };
	set_trap(st, t);
	return 0;
}

static void note_failure(void *arg, const struct pf_victim *v, int err)
{
	if (err < 0)
		assert_int_equal(pf_buf_addf(arg, "%s %d ", v->path, err), 0);
}

/* A file that cannot be removed is named, and its versions' manifests tell the next run of it. */
static void what_cannot_be_removed_is_told_and_tried_again(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf told = PF_BUF_INIT;
	char want[64];
	struct trap t;
	struct cleaning x;

	cleaning_init(&x, st, 1, YOUNG);
	x.how = (struct pf_cleanup_how){ .told = note_failure, .arg = &told };
	refuse_removal(st, "data/b.lance", &t);
	cleaning_must_run(&x);
	snprintf(want, sizeof(want), "data/b.lance %d ", -EBUSY);
	assert_string_equal(pf_buf_str(&told), want);
	const struct pf_cleanup_report *r = pf_cleanup_report(x.c);
	assert_int_equal(r->failed[PF_CLEAN_DATA].files, 1);
	assert_int_equal(r->versions, 2); /* 1 and 4: b is of 2 and 3 */
	assert_int_equal(r->kept[PF_STAYS_UNDONE].files, 2);
	cleaning_end(&x);
	assert_int_equal(count_staged(st, "_versions"), 2);
	cleaning_assert_whole(st);
	heal(st);

	cleaning_init(&x, st, 1, YOUNG);
	cleaning_must_plan(&x);
	cleaning_assert_goes(&x, "data/b.lance v3 v2 ");
	cleaning_end(&x);
	cleaning_run_anew(st, 1, YOUNG);
	assert_int_equal(count_staged(st, "_versions"), 0);
	assert_int_equal(cleaning_count_files(st), 4);
}

static void a_manifest_that_cannot_be_renamed_keeps_its_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct trap t = {
		.op = "rename", .name = "18446744073709551613.manifest", .kind = PF_FAULT_BEFORE, .err = -EPERM
	};
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	set_trap(st, &t);
	cleaning_must_run(&x);
	heal(st);
	assert_int_equal(pf_cleanup_report(x.c)->failed[PF_CLEAN_MANIFEST].files, 1);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 3);
	cleaning_end(&x);
	cleaning_assert_whole(st); /* version 2 is there, with a, b and its index */
	assert_true(exists(st, INDEX));
	cleaning_run_anew(st, 1, OLD);
	assert_false(exists(st, INDEX));
}

struct interrupting {
	unsigned after;
};

static int interrupt(void *arg, const struct pf_cleanup_report *so_far)
{
	struct interrupting *i = arg;

	return i->after-- == 0;
}

static void an_interrupted_run_leaves_whole_versions(void **state)
{
	for (unsigned n = 0; n < 11; n++) {
		_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
		struct interrupting i = { n };
		struct cleaning x;
		cleaning_init(&x, st, 1, YOUNG);
		x.how = (struct pf_cleanup_how){ .go_on = interrupt, .arg = &i };
		assert_int_equal(cleaning_run(&x), -EINTR);
		cleaning_end(&x);
		cleaning_assert_whole(st);
		/* Before anything is deleted everything is put back. */
		if (n == 0)
			assert_int_equal(count_staged(st, "_versions"), 0);
		cleaning_run_anew(st, 1, YOUNG);
		assert_int_equal(cleaning_count_files(st), 4);
	}
}

static void many_threads_and_a_rate_do_the_same(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	x.how = (struct pf_cleanup_how){ .jobs = 8, .rate = 1000 };
	cleaning_must_run(&x);
	cleaning_end(&x);
	assert_int_equal(cleaning_count_files(st), 4);
	cleaning_assert_whole(st);
}

/* --- what appears after the plan, or is gone --- */

/* D19: whatever was its own is not known any more, and nothing that the plan relied on is. */
static void a_head_that_is_lost_stops_everything(void **state)
{
	for (unsigned retain = 1; retain <= 2; retain++) {
		_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
		_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
		char name[PF_MANIFEST_NAME_MAX + 16] = "_versions/";
		struct cleaning x;
		cleaning_init(&x, st, retain, OLD);
		cleaning_must_plan(&x);
		pf_manifest_name_format(5, true, name + strlen(name));
		assert_int_equal(pf_store_remove(st, name, false), 0);
		cleaning_list(st, &before);
		assert_true(pf_cleanup_run(x.c, &x.how, &x.why) < 0);
		assert_non_null(strstr(x.why.text, "version"));
		cleaning_end(&x);
		cleaning_list(st, &after);
		assert_string_equal((char *)after.data, (char *)before.data);
	}
}

static void a_tag_that_appears_keeps_its_version(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_put_tag(st, "late", "null", 2);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 3);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_APPEARED].files,
			 5); /* its manifest, transaction, a, b and index */
	cleaning_end(&x);
	cleaning_assert_whole(st);
	assert_true(exists(st, "data/a.lance"));
	assert_true(exists(st, "_versions/18446744073709551613.manifest"));
	assert_int_equal(count_staged(st, "_versions"), 0);
}

/* A restore of version 1: the new head has its files. */
static void a_head_that_appears_keeps_its_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_put_version(st, NULL, 6, "a", false, NULL);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	cleaning_end(&x);
	cleaning_assert_whole(st);
	assert_true(exists(st, "data/a.lance"));
	assert_false(exists(st, "data/b.lance"));
}

static void a_branch_that_appears_keeps_its_root(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	cleaning_put_branch(st, "dev", 3, DEV_ID, "bc");
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	cleaning_end(&x);
	cleaning_assert_whole(st);
	assert_true(exists(st, "data/b.lance"));
	assert_true(exists(st, "_versions/18446744073709551612.manifest"));
	assert_false(exists(st, "data/a.lance"));
}

struct late {
	bool done;
};

static void a_damaged_tag_that_appears_stops_everything(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct cleaning x;

	cleaning_init(&x, st, 1, OLD);
	cleaning_must_plan(&x);
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/bad.json", "{", 1), 0);
	cleaning_list(st, &before);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), -EBUSY);
	cleaning_list(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	cleaning_end(&x);
}

/* Two at once: what the other has in hand is left to it, and both end well. */
static void run_other(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;

	if (l->done || strcmp(op, "rename") != 0)
		return;
	l->done = true;
	cleaning_run_anew(st, 2, YOUNG);
}

static void a_second_cleaner_in_between_does_no_harm(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct late l = { false };

	pf_store_mem_set_hook(st, run_other, &l);
	cleaning_run_anew(st, 1, YOUNG);
	heal(st);
	assert_true(l.done);
	cleaning_assert_whole(st);
	cleaning_run_anew(st, 1, YOUNG);
	assert_int_equal(cleaning_count_files(st), 4);
}

/* Another has hidden version 2, and may yet put it back. */
static void hide_2(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;

	if (l->done || strcmp(op, "rename") != 0)
		return;
	l->done = true;
	cleaning_hide(st, 2);
}

static void what_another_cleaner_has_in_hand_is_left_to_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct late l = { false };

	pf_store_mem_set_hook(st, hide_2, &l);
	cleaning_run_anew(st, 1, OLD);
	heal(st);
	assert_true(l.done);
	assert_int_equal(pf_store_rename(st, "_versions/.tmp-removed-18446744073709551613.manifest.aside",
					 "_versions/18446744073709551613.manifest"),
			 0);
	cleaning_assert_whole(st);
	assert_true(exists(st, INDEX));
}

/* A run was killed that had renamed version 2, and had not looked again: a tag came between its plan and that. */
static void what_a_killed_run_hid_gets_its_name_back_for_a_tag(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();

	cleaning_hide(st, 2);
	cleaning_put_tag(st, "kept", "null", 2);
	cleaning_run_anew(st, 1, OLD);
	assert_true(exists(st, "_versions/18446744073709551613.manifest"));
	assert_true(exists(st, "data/a.lance") && exists(st, INDEX));
	cleaning_assert_whole(st);
}

/* The run that had renamed it is alive, and is faster. */
static void show_2(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;

	if (l->done || strcmp(op, "rename") != 0 || strcmp(name, "_versions/18446744073709551613.manifest") != 0)
		return;
	l->done = true;
	assert_int_equal(pf_store_rename(st, "_versions/.tmp-removed-18446744073709551613.manifest.aside", name), 0);
}

static void two_cleaners_may_give_it_its_name_back(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = cleaning_new_table();
	struct late l = { false };

	cleaning_hide(st, 2);
	cleaning_put_tag(st, "kept", "null", 2);
	pf_store_mem_set_hook(st, show_2, &l);
	cleaning_run_anew(st, 1, OLD);
	heal(st);
	assert_true(l.done);
	assert_true(exists(st, "data/a.lance") && exists(st, INDEX));
	cleaning_assert_whole(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_go_that_only_versions_name_that_go),
		cmocka_unit_test(a_second_run_finds_nothing),
		cmocka_unit_test(whatever_fails_the_next_run_ends_the_same),
		cmocka_unit_test(what_cannot_be_removed_is_told_and_tried_again),
		cmocka_unit_test(a_manifest_that_cannot_be_renamed_keeps_its_files),
		cmocka_unit_test(an_interrupted_run_leaves_whole_versions),
		cmocka_unit_test(many_threads_and_a_rate_do_the_same),
		cmocka_unit_test(a_head_that_is_lost_stops_everything),
		cmocka_unit_test(a_tag_that_appears_keeps_its_version),
		cmocka_unit_test(a_head_that_appears_keeps_its_files),
		cmocka_unit_test(a_branch_that_appears_keeps_its_root),
		cmocka_unit_test(a_damaged_tag_that_appears_stops_everything),
		cmocka_unit_test(a_second_cleaner_in_between_does_no_harm),
		cmocka_unit_test(what_another_cleaner_has_in_hand_is_left_to_it),
		cmocka_unit_test(what_a_killed_run_hid_gets_its_name_back_for_a_tag),
		cmocka_unit_test(two_cleaners_may_give_it_its_name_back),
	};

	return cmocka_run_group_tests_name("cleanup", tests, NULL, NULL);
}
