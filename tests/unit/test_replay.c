/* What was committed on a copy, committed on the table: in whose numbers, in which order, how often, and what makes a copy that cannot come back. */
#include "core/replay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/copy.h"
#include "on_disk.h"
#include "pair.h"
#include "pinned.h"
#include "prepared.h"
#include "whole.h"
#include "world.h"

/* Texts, ended by NULL, as transactions 1, 2 ... of `who`. */
static void commit_all(struct pf_branch *b, char who, const char *const *texts)
{
	char uuid[PF_UUID_TEXT];

	for (unsigned i = 0; texts[i]; i++)
		commit(b, texts[i], pair_uuid(who, i + 1, uuid));
}
#define COMMIT(b, who, ...) commit_all(b, who, (const char *const[]){ __VA_ARGS__, NULL })

/* "6>7 7>- 8?": which versions of the copy are in as which, were left out, or are not in. */
static void want_states(const struct pf_replay *r, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	uint64_t made;
	size_t n;
	const struct pf_replay_version *v = pf_replay_versions(r, &n, &made);

	assert_int_equal(made, MADE);
	for (size_t i = 0; i < n; i++) {
		pf_buf_addf(&text, "%s%d", i ? " " : "", (int)v[i].version);
		if (v[i].state == PF_REPLAY_LANDED)
			pf_buf_addf(&text, ">%d", (int)v[i].as);
		else
			pf_buf_addstr(&text, v[i].state == PF_REPLAY_SKIPPED ? ">-" : "?");
	}
	assert_string_equal(pf_buf_str(&text) ? (char *)text.data : "", expected);
}

static void want_fragments(struct pf_store *st, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf out = PF_BUF_INIT;

	assert_string_equal(prepared_ids(st, &out), expected);
}

static void want_once(struct pf_store *st, unsigned n, uint64_t version)
{
	char uuid[PF_UUID_TEXT];
	uint64_t at = 0;

	assert_int_equal(count_landed(st, pair_uuid('c', n, uuid), &at), 1);
	assert_int_equal(at, version);
}

/* --- what comes back -------------------------------------------------------------------------------------------------- */

/*
 * Fragment 4 of the copy is 5 of the table, which has given 4 to somebody else, and 5 is 6; so what is said of them, and how their files of deletions are
 * called, is said of others.
 */
static void in_the_numbers_of_the_table(void **state)
{
	struct pair p;

	new_pair_on_disk(&p);
	disk_put("c/data/a.lance", "a");
	disk_put("c/data/b.lance", "b");
	disk_put("c/_deletions/5-1-1.bin", "deleted");
	COMMIT(p.copy, 'c', "Append n0:a.lance", "Delete r2", "Append n0:b.lance", "Delete u5:b.lance", "Delete r4");
	disk_put("t/data/f.lance", "theirs");
	COMMIT(p.table, 'f', "Append n0:f.lance");
	replayed(&p, 5);
	want_fragments(p.t, "1 3 4 6-");
	assert_true(disk_same_file("t/data/b.lance", "c/data/b.lance"));
	assert_true(disk_same_file("t/_deletions/6-1-1.bin", "c/_deletions/5-1-1.bin"));
	assert_false(disk_has("t/_deletions/5-1-1.bin", "deleted"));
	for (unsigned n = 1; n <= 5; n++)
		want_once(p.t, n, 6 + n);
	assert_whole(p.t, "", false);
	close_pair(&p);
}

static void once_and_no_more(void **state)
{
	struct pair p;

	new_pair(&p);
	COMMIT(p.copy, 'c', "Delete r1", "UpdateConfig ck");
	replayed(&p, 2);
	_cleanup_(pf_replay_freep) struct pf_replay *r = opened(&p);
	want_states(r, "6>6 7>7");
	replayed(&p, 0);
	/* What is committed on the copy later follows, behind what others did. */
	COMMIT(p.table, 'f', "UpdateConfig cother");
	commit(p.copy, "Delete r3", "c0000000-0000-4000-8000-000000000003");
	replayed(&p, 1);
	want_once(p.t, 3, 9);
	want_fragments(p.t, "2");
	close_pair(&p);
}

/* Two run at once, a step each in turn: each version is in once, and both say as which. */
static void by_two_at_once(void **state)
{
	struct pair p;
	struct pf_replay_version v;
	unsigned done;

	new_pair(&p);
	COMMIT(p.copy, 'c', "Delete r1", "UpdateConfig ck", "Delete r3");
	_cleanup_(pf_replay_freep) struct pf_replay *one = opened(&p), *two = opened(&p);
	assert_int_equal(pf_replay_next(one, false, &v, NULL), 1);
	assert_int_equal(v.version, 6);
	assert_int_equal(pf_replay_next(two, false, &v, NULL), 1);
	assert_int_equal(v.version, 7);
	assert_int_equal(v.as, 7);
	assert_int_equal(replay(one, &done, NULL), 0);
	assert_int_equal(done, 1);
	assert_int_equal(replay(two, &done, NULL), 0);
	assert_int_equal(done, 0);
	want_states(two, "6>6 7>7 8>8");
	want_fragments(p.t, "2");
	close_pair(&p);
}

static void what_is_not_for_the_table(void **state)
{
	struct pair p;
	struct pf_why why = PF_WHY_INIT;

	new_pair(&p);
	pinned_put(p.c, &(struct table_version){ .version = 6, .fragments = 3 },
		   &(struct pinned){ .pins = "a", .kind = PF_OP_REGISTER, .named = "a" });
	_cleanup_(pf_replay_freep) struct pf_replay *r = NULL;
	if (pf_replay_open(p.table, p.copy, false, &r, &why) < 0)
		fail_msg("%s", why.text);
	want_states(r, "6>-");
	close_pair(&p);
}

static void a_dry_run_writes_nothing(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_replay_version v;
	struct pair p;

	new_pair_on_disk(&p);
	disk_put("c/data/a.lance", "a");
	COMMIT(p.copy, 'c', "Append n0:a.lance", "Delete r2");
	table_list(p.t, ".", &before);
	_cleanup_(pf_replay_freep) struct pf_replay *r = opened(&p);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pf_replay_next(r, true, &v, NULL), 1);
		assert_int_equal(v.version, 6);
		assert_int_equal(v.state, PF_REPLAY_PENDING);
	}
	table_list(p.t, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
	close_pair(&p);
}

/* Of the first of two that cannot follow, those before it are in, and it is named. */
static void what_conflicts_stops_it(void **state)
{
	struct pair p;
	struct pf_replay_version v;
	struct pf_why why = PF_WHY_INIT;

	new_pair(&p);
	COMMIT(p.copy, 'c', "Delete r1", "Delete r2", "Delete r3");
	COMMIT(p.table, 'f', "Delete r2");
	_cleanup_(pf_replay_freep) struct pf_replay *r = opened(&p);
	assert_int_equal(pf_replay_next(r, false, &v, &why), 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pf_replay_next(r, false, &v, &why), -EAGAIN);
		assert_int_equal(v.version, 7);
		assert_non_null(strstr(why.text, "version 6"));
	}
	want_states(r, "6>7 7? 8?");
	want_fragments(p.t, "3");
	close_pair(&p);
}

/* --- copies that cannot come back -------------------------------------------------------------------------------------- */

static void refused(struct pair *p, int err, const char *sentence)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_replay *r = NULL;
	struct pf_why why = PF_WHY_INIT;

	table_list(p->t, ".", &before);
	int e = pf_replay_open(p->table, p->copy, false, &r, &why);
	if (e != err || !strstr(why.text, sentence))
		fail_msg("%d, %s", e, why.text);
	assert_null(r);
	table_list(p->t, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
}

static void of_another_table(void **state)
{
	struct pair p;

	new_pair(&p);
	pf_store_mem_del(p.c, PF_COPY_ORIGIN);
	refused(&p, -EINVAL, "does not say of what it is a copy");
	put_origin(p.c, "5 " SOURCE_5 " tree/x/\n");
	refused(&p, -EINVAL, "this branch was not there");
	put_origin(p.c, "6 " SOURCE_5 " \n");
	refused(&p, -EINVAL, "of a later state of this one");
	put_origin(p.c, "4 " SOURCE_5 " \n");
	refused(&p, -EINVAL, "or of another state of this one");
	put_origin(p.c, "five " SOURCE_5 " \n");
	refused(&p, -EBADMSG, "expected a version, a transaction and a directory");
	close_pair(&p);
}

static void delete_version(struct pf_store *st, uint64_t version)
{
	char name[TABLE_NAME_MAX];

	table_manifest_name(&(struct table_version){ .version = version }, name);
	assert_int_equal(pf_store_mem_del(st, name), 0);
}

static void of_which_versions_are_gone(void **state)
{
	struct pair p;

	new_pair(&p);
	COMMIT(p.copy, 'c', "Delete r1", "UpdateConfig ck");
	delete_version(p.c, 6);
	refused(&p, -EINVAL, "version 6 of the copy is gone");
	close_pair(&p);

	new_pair(&p);
	delete_version(p.c, 5);
	refused(&p, -EINVAL, "its head is 4: versions of it are gone");
	close_pair(&p);

	new_pair(&p);
	COMMIT(p.table, 'f', "UpdateConfig ck", "UpdateConfig cl");
	delete_version(p.t, 5);
	refused(&p, -EINVAL, "is gone from the table: make a new copy");
	close_pair(&p);

	/* Whether something came back with it cannot be told. */
	new_pair(&p);
	COMMIT(p.table, 'f', "UpdateConfig ck", "UpdateConfig cl");
	delete_version(p.t, 6);
	refused(&p, -EAGAIN, "version 6 of the table, or its transaction, is gone");
	close_pair(&p);
}

static void with_what_is_not_replayed(void **state)
{
	static const struct {
		const char *text, *sentence;
	} rows[] = {
		{ "Restore 3", "it restores version 3" },
		{ "Future", "is not an operation that pinfs commits" },
	};
	struct pair p;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, field = PF_BUF_INIT;
		new_pair(&p);
		COMMIT(p.copy, 'c', "UpdateConfig ck");
		unsigned operation = prepared_body(rows[i].text, &body);
		assert_int_equal(pf_wire_put_bytes(&field, operation, body.data, body.len), 0);
		table_put(p.c, &(struct table_version){ .version = 7, .operation = operation, .txn_extra = &field });
		refused(&p, -EINVAL, rows[i].sentence);
		refused(&p, -EINVAL, "version 7 of the copy");
		close_pair(&p);
	}
}

static void that_are_damaged(void **state)
{
	char name[TABLE_NAME_MAX];
	struct pair p;

	new_pair(&p);
	COMMIT(p.copy, 'c', "UpdateConfig ck", "UpdateConfig cl");
	table_manifest_name(&(struct table_version){ .version = 6 }, name);
	assert_int_equal(pf_store_mem_put(p.c, name, "no manifest", 11), 0);
	refused(&p, -EBADMSG, "version 6 of the copy");
	close_pair(&p);

	new_pair(&p);
	table_put(p.c, &(struct table_version){ .version = 6, .txn = TABLE_TXN_LOST });
	refused(&p, -EINVAL, "version 6 of the copy");
	table_put(p.c, &(struct table_version){ .version = 6, .txn = TABLE_TXN_NONE });
	refused(&p, -EINVAL, "version 6 of the copy");
	close_pair(&p);
}

struct remover {
	unsigned nth, seen;
	char name[TABLE_NAME_MAX];
};

static void remove_at(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct remover *x = arg;

	if (strcmp(op, "open") == 0 && strcmp(name, x->name) == 0 && ++x->seen == x->nth)
		pf_store_mem_del(st, name);
}

/* Whenever somebody cleans the copy while it is read. */
static void of_which_versions_go(void **state)
{
	bool reached = true;

	for (unsigned n = 1; reached; n++) {
		struct remover x = { .nth = n };
		struct pf_replay *r = NULL;
		struct pf_why why = PF_WHY_INIT;
		struct pair p;

		new_pair(&p);
		COMMIT(p.copy, 'c', "UpdateConfig ck", "UpdateConfig cl");
		table_manifest_name(&(struct table_version){ .version = 6 }, x.name);
		pf_store_mem_set_hook(p.c, remove_at, &x);
		int e = pf_replay_open(p.table, p.copy, false, &r, &why);
		pf_store_mem_set_hook(p.c, NULL, NULL);
		reached = x.seen >= n;
		if (e != (reached ? -EINVAL : 0) || (e < 0 && !strstr(why.text, "version 6 of the copy")))
			fail_msg("at open %u: %d, %s", n, e, why.text);
		pf_replay_free(r);
		close_pair(&p);
	}
}

/* Fragments that go down in number: what the next ones would be called is anybody's guess. */
static void that_number_backwards(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	const struct table_version v = { .version = 6, .operation = 110, .extra = &extra };
	struct pair p;

	new_pair(&p);
	prepared_body("Project c0 c1 c2", &extra);
	prepared_fragment(&extra, 2, 1, PREPARED_OLD, 10, 0);
	table_put(p.c, &v);
	table_put(p.t, &v);
	refused(&p, -EBADMSG, "went down");
	close_pair(&p);
}

/* That a copy brings back a part of what it did, and not what was before that, somebody else must have done. */
static void out_of_order(void **state)
{
	struct pair p;

	new_pair(&p);
	COMMIT(p.copy, 'c', "Delete r1", "Delete r2", "Delete r3");
	commit(p.table, "Delete r2", "c0000000-0000-4000-8000-000000000002");
	refused(&p, -EINVAL, "version 7 of the copy was committed as version 6, and version 6 was not");
	close_pair(&p);
}

/* One of its transactions is in with other fragments than it has on the copy: ids would be taken for those of others. */
static void with_other_numbers(void **state)
{
	struct pair p;

	new_pair_on_disk(&p);
	disk_put("c/data/a.lance", "a");
	disk_put("t/data/a.lance", "a");
	COMMIT(p.copy, 'c', "Append n0:a.lance");
	commit(p.table, "Append n0:a.lance n0:a.lance", "c0000000-0000-4000-8000-000000000001");
	refused(&p, -EBADMSG, "other numbers of ids");
	close_pair(&p);
}

/* --- storage that fails ------------------------------------------------------------------------------------------------ */

static void want_all_in(struct pair *p)
{
	uint64_t at[3] = { 0 };
	char uuid[PF_UUID_TEXT];

	for (unsigned n = 0; n < 3; n++)
		assert_int_equal(count_landed(p->t, pair_uuid('c', n + 1, uuid), &at[n]), 1);
	assert_true(at[0] < at[1] && at[1] < at[2]);
	want_fragments(p->t, "2");
	/* A removal of what a failed attempt left may have failed, too. */
	assert_whole(p->t, "", true);
}

/* Whichever call fails, of the table or of the copy, before or after its effect: another run finds what is in, and does what is not, once. */
static void every_call_may_fail(void **state)
{
	for (int round = 0; round < 4; round++) {
		bool of_copy = round & 1, reached = true;
		enum pf_fault kind = round & 2 ? PF_FAULT_AFTER : PF_FAULT_BEFORE;

		for (unsigned n = 1; reached; n++) {
			_cleanup_(pf_replay_freep) struct pf_replay *r = NULL;
			struct pf_why why = PF_WHY_INIT;
			struct pair p;
			unsigned done;

			new_pair(&p);
			COMMIT(p.copy, 'c', "Delete r1", "UpdateConfig ck", "Delete r3");
			COMMIT(p.table, 'f', "UpdateConfig cother");
			struct pf_store *failing = of_copy ? p.c : p.t;
			unsigned before = pf_store_mem_calls(failing);
			pf_store_mem_fault(failing, n, kind, -EIO, false);
			int e = pf_replay_open(p.table, p.copy, false, &r, &why);
			if (e == 0)
				e = replay(r, &done, &why);
			reached = pf_store_mem_calls(failing) - before >= n;
			heal(failing);
			if (e < 0 && (!why.text[0] || !(e == -EIO || e == -EINPROGRESS)))
				fail_msg("call %u: %d, %s", n, e, why.text);
			_cleanup_(pf_replay_freep) struct pf_replay *again = opened(&p);
			if (replay(again, &done, &why) < 0)
				fail_msg("call %u, again: %s", n, why.text);
			if (e == 0)
				assert_int_equal(done, 0);
			want_all_in(&p);
			close_pair(&p);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_the_numbers_of_the_table),
		cmocka_unit_test(once_and_no_more),
		cmocka_unit_test(by_two_at_once),
		cmocka_unit_test(what_is_not_for_the_table),
		cmocka_unit_test(a_dry_run_writes_nothing),
		cmocka_unit_test(what_conflicts_stops_it),
		cmocka_unit_test(of_another_table),
		cmocka_unit_test(of_which_versions_are_gone),
		cmocka_unit_test(with_what_is_not_replayed),
		cmocka_unit_test(that_are_damaged),
		cmocka_unit_test(of_which_versions_go),
		cmocka_unit_test(that_number_backwards),
		cmocka_unit_test(out_of_order),
		cmocka_unit_test(with_other_numbers),
		cmocka_unit_test(every_call_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
