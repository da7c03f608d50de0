/* Which file goes, by its name, its time and what versions have to do with it: the table of lance-14-cleanup section 2, measured to the nanosecond. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/cleanup_parts.h"

#define DAY  (INT64_C(24) * 3600 * 1000000000)
#define NOW  (INT64_C(1800000000) * 1000000000)
#define WEEK (NOW - 7 * DAY)  /* the youngest time that is young */
#define CUT  (NOW - 30 * DAY) /* when the oldest version that stays was made */
#define LATE (NOW - 3 * DAY)  /* the same on a table that is younger than a week */

enum { NONE = PF_REF_NONE, NAMED = PF_REF_GOING };

struct row {
	const char *path;
	int64_t mtime;
	int ref;
	enum pf_fate fate;
	enum pf_clean_class cls;
};

static void check(const struct pf_clean_rules *rules, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pf_clean_verdict v;
		pf_clean_judge(rules, rows[i].path, rows[i].mtime, (enum pf_clean_ref)rows[i].ref, &v);
		if (v.fate != rows[i].fate || v.cls != rows[i].cls)
			fail_msg("row %zu: %s is %s %s, expected %s %s", i, rows[i].path, pf_clean_class_name(v.cls),
				 pf_fate_name(v.fate), pf_clean_class_name(rows[i].cls), pf_fate_name(rows[i].fate));
	}
}

#define CHECK(rules, ...)                                                                                              \
	do {                                                                                                           \
		const struct row rows[] = __VA_ARGS__;                                                                 \
		check(&(rules), rows, ARRAY_LEN(rows));                                                                \
	} while (0)

/* No version names it: older than seven days, strictly. */
static void the_guard_ends_after_seven_days(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW };

	CHECK(r, { { "data/x.lance", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "data/x.lance", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_DATA },
		   { "data/x.lance", WEEK + 1, NONE, PF_STAYS_PROGRESS, PF_CLEAN_DATA },
		   { "data/x.lance", NOW + DAY, NONE, PF_STAYS_PROGRESS, PF_CLEAN_DATA },
		   { "_transactions/1-x.txn", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_TRANSACTION },
		   { "_transactions/1-x.txn", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_TRANSACTION },
		   { "_deletions/0-1-2.bin", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_DELETION },
		   { "_deletions/0-1-2.arrow", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_DELETION },
		   { "_indices/u/page", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX },
		   { "_indices/u/page", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_INDEX },
		   { "_fri/m/map", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_MAP },
		   { "_fri/m/map", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_MAP },
		   { "_blobs/x.blob", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "_versions/.tmpx", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_OTHER },
		   { "_versions/.tmpx", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER },
		   { "data/a/b/.tmpx", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "data/.tmpx.lance", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_DATA } });
}

/* What versions that go name is no unfinished write, however young. */
static void what_versions_name_that_go_needs_no_guard(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW };

	CHECK(r, { { "data/x.lance", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_DATA },
		   { "data/x/1.blob", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_DATA },
		   { "_transactions/1-x.txn", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_TRANSACTION },
		   { "_deletions/0-1-2.bin", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_DELETION },
		   { "_indices/u/sub/page", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_INDEX },
		   { "_fri/m/map", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_MAP } });
}

static void whoever_says_that_nobody_writes_drops_the_guard(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW, .delete_unverified = true, .has_cut = true, .cut_ns = CUT };

	CHECK(r, { { "data/x.lance", NOW + DAY, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "_blobs/x.blob", NOW, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "_indices/u/page", NOW, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX },
		   /* The listing ends where it does: these are not seen. */
		   { "_versions/.tmpx", CUT, NONE, PF_GOES_ORPHAN, PF_CLEAN_OTHER },
		   { "_versions/.tmpx", CUT + 1, NONE, PF_STAYS_AGE, PF_CLEAN_OTHER },
		   { "_transactions/1-x.txn", CUT + 1, NONE, PF_STAYS_AGE, PF_CLEAN_TRANSACTION },
		   { "_deletions/0-1-2.bin", CUT + 1, NONE, PF_STAYS_AGE, PF_CLEAN_DELETION },
		   /* And nothing makes a stranger's file ours. */
		   { "data/x.parquet", CUT, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_OTHER } });
}

/* Inclusive; of data the week counts where it reaches further. */
static void files_made_after_the_oldest_version_are_not_looked_at(void **state)
{
	const struct pf_clean_rules old = { .now_ns = NOW, .has_cut = true, .cut_ns = CUT };
	const struct pf_clean_rules young = { .now_ns = NOW, .has_cut = true, .cut_ns = LATE };

	CHECK(old, { { "_transactions/1-x.txn", CUT, NONE, PF_GOES_ORPHAN, PF_CLEAN_TRANSACTION },
		     { "_transactions/1-x.txn", CUT + 1, NONE, PF_STAYS_AGE, PF_CLEAN_TRANSACTION },
		     { "_transactions/1-x.txn", CUT, NAMED, PF_GOES_NAMED, PF_CLEAN_TRANSACTION },
		     { "_transactions/1-x.txn", CUT + 1, NAMED, PF_STAYS_AGE, PF_CLEAN_TRANSACTION },
		     { "_deletions/0-1-2.bin", CUT, NAMED, PF_GOES_NAMED, PF_CLEAN_DELETION },
		     { "_deletions/0-1-2.bin", CUT + 1, NAMED, PF_STAYS_AGE, PF_CLEAN_DELETION },
		     { "_versions/.tmpx", CUT, NONE, PF_GOES_ORPHAN, PF_CLEAN_OTHER },
		     { "_versions/.tmpx", CUT + 1, NONE, PF_STAYS_AGE, PF_CLEAN_OTHER },
		     { "data/x.lance", WEEK - 1, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		     { "data/x.lance", WEEK, NAMED, PF_GOES_NAMED, PF_CLEAN_DATA },
		     { "data/x.lance", WEEK + 1, NAMED, PF_STAYS_AGE, PF_CLEAN_DATA },
		     { "data/x/1.blob", WEEK + 1, NAMED, PF_STAYS_AGE, PF_CLEAN_DATA },
		     { "_indices/u/page", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_INDEX },
		     { "_fri/m/map", NOW, NAMED, PF_GOES_NAMED, PF_CLEAN_MAP } });
	CHECK(young, { { "data/x.lance", LATE, NAMED, PF_GOES_NAMED, PF_CLEAN_DATA },
		       { "data/x.lance", LATE + 1, NAMED, PF_STAYS_AGE, PF_CLEAN_DATA },
		       { "_transactions/1-x.txn", LATE, NAMED, PF_GOES_NAMED, PF_CLEAN_TRANSACTION },
		       { "_transactions/1-x.txn", LATE + 1, NONE, PF_STAYS_PROGRESS, PF_CLEAN_TRANSACTION } });
}

#define UNKNOWN(path)                                                                                                  \
	{                                                                                                              \
		path, 0, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_OTHER                                                        \
	}

static void what_is_not_of_lance_stays(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW, .delete_unverified = true };

	CHECK(r,
	      { UNKNOWN("data/x.parquet"), UNKNOWN("data/x.LANCE"), UNKNOWN("data/x.lance.bak"), UNKNOWN("data/x.blob"),
		UNKNOWN("data/a/b/x.blob"), UNKNOWN("_deletions/x.ARROW"), UNKNOWN("_deletions/x.parquet"),
		UNKNOWN("_transactions/x"), UNKNOWN("_transactions/x.txn.tmp"), UNKNOWN("_blobs/x"),
		UNKNOWN("_versions/latest_version_hint.json"), UNKNOWN("_versions/d9223372036854775809.manifest"),
		UNKNOWN("_versions/7.manifest-uuid"), UNKNOWN("_versions/sub/7.manifest"),
		UNKNOWN("_versions/sub/.tmpx"), UNKNOWN("_versions/7.manifest#1"), UNKNOWN("_transactions/.tmpx"),
		UNKNOWN("_deletions/.tmpx"), UNKNOWN("data/x.lance#1"), UNKNOWN("_indices/u/page#12"),
		/* Lance stops at such names. */
		UNKNOWN("data/bad\xff.lance"), UNKNOWN("_indices/u/bad\x01"), UNKNOWN("_fri/\x7f/map") });
	/* These only look so. */
	CHECK(r, { { "_indices/u/page#", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX },
		   { "_indices/u/page#a", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX },
		   { "data/x#1.lance", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA },
		   { "_indices/stray", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX },
		   { "_fri/stray", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_MAP },
		   { "_versions/.tmpdir/f", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_OTHER },
		   { "_transactions/sub/x.txn", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_TRANSACTION },
		   { "_transactions/.tmpx.txn", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_TRANSACTION },
		   { "data/\xc3\xa9.lance", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_DATA } });
}

/* D13, D15, D16. */
static void leaks_go_when_they_are_asked_for(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW, .leaks = true, .has_cut = true, .cut_ns = CUT };

	CHECK(r, { { "data/x.lance#1", WEEK - 1, NONE, PF_GOES_LEAK, PF_CLEAN_OTHER },
		   { "data/x.lance#1", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER },
		   { "_versions/7.manifest#1", WEEK - 1, NONE, PF_GOES_LEAK, PF_CLEAN_OTHER },
		   { "_transactions/.tmpx", WEEK - 1, NONE, PF_GOES_LEAK, PF_CLEAN_OTHER },
		   { "_deletions/.tmpx", WEEK - 1, NONE, PF_GOES_LEAK, PF_CLEAN_OTHER },
		   { "_deletions/.tmpx", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER },
		   { "_transactions/1-x.txn", NOW, NAMED, PF_GOES_LEAK, PF_CLEAN_TRANSACTION },
		   { "data/x.lance", NOW, NAMED, PF_GOES_LEAK, PF_CLEAN_DATA },
		   { "data/x.parquet", 0, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_OTHER } });
}

static void where_lance_never_cleans_its_leftovers_go(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW, .flagged = true };

	CHECK(r, { { "_transactions/.tmpx", WEEK - 1, NONE, PF_GOES_LEAK, PF_CLEAN_OTHER },
		   { "_transactions/.tmpx", WEEK, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER },
		   { "_deletions/.tmpx", WEEK - 1, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_OTHER } });
}

static void nothing_goes_whose_users_are_not_known(void **state)
{
	const struct pf_clean_rules maps = { .now_ns = NOW, .delete_unverified = true, .maps_unknown = true };
	const struct pf_clean_rules blobs = { .now_ns = NOW, .delete_unverified = true, .blobs_unknown = true };

	CHECK(maps, { { "_fri/m/map", 0, NAMED, PF_STAYS_UNKNOWN, PF_CLEAN_MAP },
		      { "_fri/m/map", 0, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_MAP },
		      { "_indices/u/x", 0, NONE, PF_GOES_ORPHAN, PF_CLEAN_INDEX } });
	CHECK(blobs, { { "_blobs/x.blob", 0, NONE, PF_STAYS_UNKNOWN, PF_CLEAN_DATA },
		       { "data/x/1.blob", 0, NAMED, PF_STAYS_UNKNOWN, PF_CLEAN_DATA },
		       { "data/x.lance", 0, NAMED, PF_GOES_NAMED, PF_CLEAN_DATA } });
}

/* Of an earlier run: it was decided then. */
static void a_renamed_manifest_goes_at_any_age(void **state)
{
	const struct pf_clean_rules r = { .now_ns = NOW, .has_cut = true, .cut_ns = CUT };
	uint64_t version;
	bool v2;

	CHECK(r, { { "_versions/.tmp-removed-7.manifest.aside", NOW + DAY, NONE, PF_GOES_NAMED, PF_CLEAN_MANIFEST },
		   { "_versions/.tmp-removed-.aside", NOW, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER },
		   { "_versions/.tmp-removed-7", NOW, NONE, PF_STAYS_PROGRESS, PF_CLEAN_OTHER } });
	assert_int_equal(pf_clean_is_left("_versions/.tmp-removed-18446744073709551610.manifest.aside", &version, &v2),
			 1);
	assert_int_equal(version, 5);
	assert_true(v2);
	assert_int_equal(pf_clean_is_left("_versions/.tmp-removed-5.manifest.aside", &version, &v2), 1);
	assert_int_equal(version, 5);
	assert_false(v2);
	assert_int_equal(pf_clean_is_left("_versions/5.manifest", &version, &v2), 0);
	assert_int_equal(pf_clean_is_left("_versions/.tmp-removed-aside", &version, &v2), 0);
	assert_int_equal(pf_clean_is_manifest("_versions/.tmp-removed-5.manifest.aside", &version), 0);
	assert_int_equal(pf_clean_is_manifest("_versions/5.manifest", &version), 1);
	assert_int_equal(pf_clean_is_manifest("_versions/sub/5.manifest", &version), 0);
	assert_int_equal(pf_clean_is_manifest("data/5.manifest", &version), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_guard_ends_after_seven_days),
		cmocka_unit_test(what_versions_name_that_go_needs_no_guard),
		cmocka_unit_test(whoever_says_that_nobody_writes_drops_the_guard),
		cmocka_unit_test(files_made_after_the_oldest_version_are_not_looked_at),
		cmocka_unit_test(what_is_not_of_lance_stays),
		cmocka_unit_test(leaks_go_when_they_are_asked_for),
		cmocka_unit_test(where_lance_never_cleans_its_leftovers_go),
		cmocka_unit_test(nothing_goes_whose_users_are_not_known),
		cmocka_unit_test(a_renamed_manifest_goes_at_any_age),
	};

	return cmocka_run_group_tests_name("cleanup_rule", tests, NULL, NULL);
}
