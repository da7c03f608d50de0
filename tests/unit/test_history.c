/* What a branch's versions say happened to its pins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/history.h"
#include "core/store_mem.h"

#include "pinned.h"

/* Collects what the walk shows, a line a step: "3: 2 Append" (before, operation); then a line a change. */
struct seen {
	struct pf_buf text;
	uint64_t stop_at;
};

static int see_change(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before)
{
	struct seen *seen = arg;

	assert_int_equal(pf_buf_addf(&seen->text, " %s %c%s", pf_change_name(kind), pinned_letter(&pin->id),
				     before ? "" : "*"),
			 0);
	return 0;
}

static int see(void *arg, const struct pf_step *s)
{
	struct seen *seen = arg;
	char buf[32];

	assert_int_equal(pf_buf_addf(&seen->text, "%d<%d%s %s", (int)s->m->version,
				     s->before ? (int)s->before->version : 0, s->gap ? " gap" : "",
				     s->txn ? pf_txn_operation_name(s->txn->operation, buf) : "?"),
			 0);
	assert_int_equal(pf_step_changes(s, see_change, seen), 0);
	assert_int_equal(pf_buf_addstr(&seen->text, "\n"), 0);
	return s->m->version == seen->stop_at ? 7 : 0;
}

static int walk(struct pf_store *st, uint64_t after, struct seen *seen, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	assert_int_equal(pf_branch_open(st, NULL, &b, why), 0);
	return pf_history_walk(b, after, see, seen, why);
}

static void assert_walk(struct pf_store *st, uint64_t after, const char *expected)
{
	struct seen seen = { .text = PF_BUF_INIT };
	struct pf_why why = PF_WHY_INIT;

	if (walk(st, after, &seen, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(pf_buf_str(&seen.text), expected);
	pf_buf_release(&seen.text);
}

static void put(struct pf_store *st, uint64_t version, const char *pins, enum pf_op_kind kind, const char *named)
{
	pinned_put(st, &(struct table_version){ .version = version },
		   &(struct pinned){ .pins = pins, .kind = kind, .named = named });
}

static void test_life_of_pins(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "", PF_OP_ENABLE, "");
	put(st, 3, "a", PF_OP_REGISTER, "a");
	put(st, 4, "abc", PF_OP_REGISTER, "bc");
	put(st, 5, "abc", PF_OP_NONE, "");
	put(st, 6, "AbC", PF_OP_RENEW, "AC");
	put(st, 7, "AC", PF_OP_RELEASE, "b");
	put(st, 8, "A", PF_OP_EXPIRE, "C");
	put(st, 9, "", PF_OP_RELEASE, "a");
	assert_walk(st, 0,
		    "1<0 Append\n"
		    "2<1 UpdateConfig\n"
		    "3<2 UpdateConfig registered a*\n"
		    "4<3 UpdateConfig registered b* registered c*\n"
		    "5<4 Append\n"
		    "6<5 UpdateConfig renewed a renewed c\n"
		    "7<6 UpdateConfig released b\n"
		    "8<7 UpdateConfig expired c\n"
		    "9<8 UpdateConfig released a\n");
}

static void test_after_starts_above(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(4, &(struct table_version){ 0 });

	assert_walk(st, 2, "3<2 Append\n4<3 Append\n");
	assert_walk(st, 4, "");
	assert_walk(st, 9, "");
}

static void test_dropped_by_a_writer(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "ab", PF_OP_REGISTER, "ab");
	put(st, 3, "", PF_OP_NONE, "");
	assert_walk(st, 1, "2<1 UpdateConfig registered a* registered b*\n3<2 Append lost a lost b\n");
}

/* An operation that names some pins excuses only those, and only by what it does. */
static void test_named_is_named(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "abc", PF_OP_REGISTER, "abc");
	put(st, 3, "c", PF_OP_RELEASE, "a");
	put(st, 4, "", PF_OP_RENEW, "c");
	assert_walk(st, 2, "3<2 UpdateConfig released a lost b\n4<3 UpdateConfig lost c\n");
}

static void test_waived(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "ab", PF_OP_REGISTER, "ab");
	put(st, 3, "b", PF_OP_NONE, "");
	put(st, 4, "", PF_OP_RELEASE, "ab");
	assert_walk(st, 2, "3<2 Append lost a\n4<3 UpdateConfig released b waived a*\n");
}

static void test_a_gap_hides_what_happened(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "ab", PF_OP_REGISTER, "ab");
	/* 3: released a and registered c, and is gone */
	put(st, 4, "c", PF_OP_RELEASE, "bd");
	assert_walk(st, 1,
		    "2<1 UpdateConfig registered a* registered b*\n"
		    "4<2 gap UpdateConfig unknown a released b registered c* released d*\n");
}

static void test_below_the_oldest_nothing_is_known(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	put(st, 5, "", PF_OP_EXPIRE, "a");
	put(st, 6, "", PF_OP_NONE, "");
	assert_walk(st, 0, "5<0 UpdateConfig expired a*\n6<5 Append\n");
	put(st, 5, "b", PF_OP_RELEASE, "a");
	assert_walk(st, 0, "5<0 UpdateConfig registered b* released a*\n6<5 Append lost b\n");
}

static void test_unreadable_transaction(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });

	put(st, 2, "a", PF_OP_REGISTER, "a");
	table_put(st, &(struct table_version){ .version = 3, .txn = TABLE_TXN_LOST });
	table_put(st, &(struct table_version){ .version = 4, .txn = TABLE_TXN_NONE });
	assert_walk(st, 2, "3<2 ? lost a\n4<3 ?\n");
}

struct txn_seen {
	int error;
	char why[PF_WHY_MAX];
};

static int see_txn(void *arg, const struct pf_step *s)
{
	struct txn_seen *seen = arg;

	assert_null(s->txn);
	seen->error = s->txn_error;
	snprintf(seen->why, sizeof(seen->why), "%s", s->txn_why);
	return 0;
}

static void test_says_why_a_transaction_is_not_there(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ .txn = TABLE_TXN_LOST });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct txn_seen seen = { 0 };

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_history_walk(b, 0, see_txn, &seen, NULL), 0);
	assert_int_equal(seen.error, -ENOENT);
	assert_non_null(strstr(seen.why, "0-0badcafe-0000-4000-8000-000000000001.txn"));
}

static void test_stops_when_told(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(4, &(struct table_version){ 0 });
	struct seen seen = { .text = PF_BUF_INIT, .stop_at = 2 };

	assert_int_equal(walk(st, 0, &seen, NULL), 7);
	assert_string_equal(pf_buf_str(&seen.text), "1<0 Append\n2<1 Append\n");
	pf_buf_release(&seen.text);
}

static void test_damage_is_named_and_what_is_below_was_seen(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(4, &(struct table_version){ 0 });
	struct seen seen = { .text = PF_BUF_INIT };
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	table_manifest_name(&(struct table_version){ .version = 3 }, name);
	assert_int_equal(pf_store_mem_put(st, name, "short", 5), 0);
	assert_int_equal(walk(st, 0, &seen, &why), -EBADMSG);
	assert_non_null(strstr(why.text, name));
	assert_string_equal(pf_buf_str(&seen.text), "1<0 Append\n2<1 Append\n");
	pf_buf_release(&seen.text);
}

/* Others' acts while the walk goes on: when version `at` is opened for the nth time (its transaction is the second), do one thing, once. */
struct meanwhile {
	uint64_t at, remove;
	unsigned nth;
	bool migrate, done;
};

static void act(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct meanwhile *w = arg;
	struct table_version v = { .version = w->at, .v1 = w->migrate };
	char from[TABLE_NAME_MAX], to[TABLE_NAME_MAX];

	if (w->done || strcmp(op, "open") != 0 || strcmp(name, table_manifest_name(&v, from)) != 0 || --w->nth)
		return;
	w->done = true;
	if (w->remove) {
		v.version = w->remove;
		assert_int_equal(pf_store_unlink(st, table_manifest_name(&v, from)), 0);
	}
	for (v.version = 1; w->migrate && v.version <= 4; v.version++) {
		struct table_version v2 = { .version = v.version };
		assert_int_equal(pf_store_rename(st, table_manifest_name(&v, from), table_manifest_name(&v2, to)), 0);
	}
}

static void assert_meanwhile(const struct meanwhile *what, const char *expected)
{
	for (unsigned nth = 1; nth <= 2; nth++) {
		_cleanup_(pf_store_freep) struct pf_store *st =
			table_new(4, &(struct table_version){ .v1 = what->migrate });
		struct meanwhile w = *what;
		w.nth = nth;
		pf_store_mem_set_hook(st, act, &w);
		assert_walk(st, 0, expected);
		assert_true(w.done);
	}
}

static void test_a_cleanup_meanwhile(void **state)
{
	assert_meanwhile(&(struct meanwhile){ .at = 1, .remove = 2 }, "1<0 Append\n3<1 gap Append\n4<3 Append\n");
	assert_meanwhile(&(struct meanwhile){ .at = 2, .remove = 2 }, "1<0 Append\n3<1 gap Append\n4<3 Append\n");
}

static void test_a_migration_meanwhile(void **state)
{
	assert_meanwhile(&(struct meanwhile){ .at = 1, .migrate = true },
			 "1<0 Append\n2<1 Append\n3<2 Append\n4<3 Append\n");
}

static void test_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct table_version v = { .version = 2, .dir = "tree/dev/", .branch = "dev" };
	struct seen seen = { .text = PF_BUF_INIT };
	struct pf_why why = PF_WHY_INIT;

	table_put_branch(st, "dev", 2, "0123456789abcdef0123456789abcdef");
	table_put(st, &v);
	v.version = 3;
	pinned_put(st, &v, &(struct pinned){ .pins = "b", .kind = PF_OP_REGISTER, .named = "b" });
	if (pf_branch_open(st, "dev", &b, &why) < 0 || pf_history_walk(b, 0, see, &seen, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(pf_buf_str(&seen.text), "2<0 Append\n3<2 UpdateConfig registered b*\n");
	pf_buf_release(&seen.text);
}

static void test_every_failure_of_storage_is_an_answer(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct seen whole = { .text = PF_BUF_INIT };

	put(st, 2, "a", PF_OP_REGISTER, "a");
	put(st, 3, "", PF_OP_RELEASE, "a");
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	unsigned before = pf_store_mem_calls(st);
	assert_int_equal(pf_history_walk(b, 0, see, &whole, NULL), 0);
	unsigned calls = pf_store_mem_calls(st) - before;

	for (unsigned n = 1; n <= calls; n++) {
		struct seen seen = { .text = PF_BUF_INIT };
		pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, false);
		int r = pf_history_walk(b, 0, see, &seen, NULL);
		pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);
		/* Either the walk fails, or one transaction is shown as not readable. */
		if (r == 0)
			assert_non_null(strstr(pf_buf_str(&seen.text), "?"));
		else
			assert_int_equal(r, -EIO);
		pf_buf_release(&seen.text);
	}
	pf_buf_release(&whole.text);
}

static void assert_writer(const char *library, const char *version, const char *expected)
{
	_cleanup_(pf_freep) char *l = strdup(library), *v = strdup(version);
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;
	struct pf_manifest m = { .writer_library = l, .writer_version = v };

	assert_int_equal(pf_buf_addstr(&out, "by "), 0);
	assert_int_equal(pf_writer_describe(&m, &out), 0);
	assert_string_equal(pf_buf_str(&out), expected);
}

static void test_writer(void **state)
{
	assert_writer("lance", "8.0.1", "by lance 8.0.1");
	assert_writer("lance", "", "by lance");
	assert_writer("", "", "by unknown writer");
	assert_writer("evil\n", "\033[2J", "by evil\\n \\x1b[2J");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_life_of_pins),
		cmocka_unit_test(test_after_starts_above),
		cmocka_unit_test(test_dropped_by_a_writer),
		cmocka_unit_test(test_named_is_named),
		cmocka_unit_test(test_waived),
		cmocka_unit_test(test_a_gap_hides_what_happened),
		cmocka_unit_test(test_below_the_oldest_nothing_is_known),
		cmocka_unit_test(test_unreadable_transaction),
		cmocka_unit_test(test_says_why_a_transaction_is_not_there),
		cmocka_unit_test(test_stops_when_told),
		cmocka_unit_test(test_damage_is_named_and_what_is_below_was_seen),
		cmocka_unit_test(test_a_cleanup_meanwhile),
		cmocka_unit_test(test_a_migration_meanwhile),
		cmocka_unit_test(test_branch),
		cmocka_unit_test(test_every_failure_of_storage_is_an_answer),
		cmocka_unit_test(test_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
