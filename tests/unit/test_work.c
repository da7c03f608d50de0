/* Prepared work on a table in memory: what is published, what is judged anew on each attempt, and what storage may do to it. */
#include "core/work.h"
#include "core/landed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "prepared.h"
#include "whole.h"
#include "world.h"

#define UUID  "12345678-1111-4222-8333-444444444444"
#define TXN   "_transactions/5-" UUID ".txn"
#define V2    "_versions/18446744073709551613.manifest"
#define PLAIN 0 /* flags of the head */

/* Versions 1 to 5 with columns a, b, c, fragments 1 to 3 of 10 rows, and a pin. */
static void new_table_of(struct world *w, uint64_t flags)
{
	static struct pf_buf extra = PF_BUF_INIT;
	static struct table_version like;

	pf_buf_reset(&extra);
	/* The columns of a Project are those of a manifest, under the same number. */
	prepared_body("Project c0 c1 c2", &extra);
	for (uint64_t id = 1; id <= 3; id++)
		prepared_fragment(&extra, 2, id, PREPARED_OLD, 10, 0);
	like = (struct table_version){ .writer_flags = BIT_PINS | flags, .reader_flags = flags, .extra = &extra };
	new_world(w, &like);
	for (const char *const *f = (const char *const[]){ PREPARED_OLD, "f.lance", "g.lance", NULL }; *f; f++) {
		char name[64];
		snprintf(name, sizeof(name), "data/%s", *f);
		pf_store_mem_put(w->st, name, "x", 1);
	}
	pf_store_mem_put(w->st, "_deletions/1-1-1.bin", "x", 1);
}

static int commit(struct world *w, const char *text, uint64_t read_version, struct pf_work_result *result,
		  struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o, .attempts = 5 };

	prepared(text, read_version, UUID, &o);
	return pf_work_commit(w->b, &work, result, why);
}

static void want_commit(struct world *w, const char *text, uint64_t version)
{
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	if (commit(w, text, 5, &result, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	assert_int_equal(result.version, version);
}

static void want_refusal(struct world *w, const char *text, int err, const char *sentence)
{
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	uint64_t before = head_version(w);

	int r = commit(w, text, 5, &result, &why);
	if (r != err || !strstr(why.text, sentence))
		fail_msg("%s: %d, %s", text, r, why.text);
	assert_int_equal(head_version(w), before);
	assert_int_equal(count_staged(w->st, "_versions"), 0);
	assert_int_equal(count_staged(w->st, "_transactions"), 0);
}

static uint64_t field(struct world *w, uint32_t number)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	uint64_t v;
	bool has;

	assert_int_equal(pf_manifest_reopen(w->st, m, &file, NULL), 0);
	assert_int_equal(pf_manifest_get_u64(&file->r, m, number, &has, &v, NULL), 0);
	return v;
}

static void pins_and_the_transaction_are_kept(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT, inlined = PF_BUF_INIT, file = PF_BUF_INIT,
						ids = PF_BUF_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	run(&w, op_register(1, 100), 0);
	want_commit(&w, "Append n0:f.lance", 7);
	assert_int_equal(stored(&w, 1), 100);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(&w);
	assert_true(m->writer_flags & BIT_PINS);
	assert_string_equal(prepared_ids(w.st, &ids), "1 2 3 4");
	assert_int_equal(field(&w, 11), 4);

	prepared_bytes("Append n0:f.lance", 5, UUID, &want);
	assert_int_equal(pf_txn_bytes(w.st, "", m, &inlined, NULL), 0);
	assert_int_equal(pf_store_get(w.st, TXN, 1 << 20, &file), 0);
	assert_int_equal(inlined.len, want.len);
	assert_memory_equal(inlined.data, want.data, want.len);
	assert_int_equal(file.len, want.len);
	assert_memory_equal(file.data, want.data, want.len);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void ids_count_on_from_the_highest_ever(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf ids = PF_BUF_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "ReserveFragments 10", 6);
	assert_int_equal(field(&w, 11), 13);
	assert_string_equal(prepared_ids(w.st, &ids), "1 2 3");
	close_world(&w);
}

/* Indices go on saying that they cover what had an id before: they would be asked for rows that they do not have. */
static void ids_of_others_are_not_given_again(void **state)
{
	static const char *const texts[] = { "Append n2:f.lance", "Append n0:f.lance n2:f.lance",
					     "Update u1 n2:f.lance", "Merge c m1 m3 n2:f.lance" };
	_cleanup_(pf_buf_release) struct pf_buf ids = PF_BUF_INIT;
	_cleanup_(pf_operation_release) struct pf_operation last = { 0 };
	struct pf_work work = { .operation = &last };
	struct pf_work_result result;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "Delete r2", 6);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		struct pf_why why = PF_WHY_INIT;
		work.operation = &o;
		prepared(texts[i], 6, "99999999-1111-4222-8333-444444444444", &o);
		int r = pf_work_commit(w.b, &work, &result, &why);
		if (r != -EINVAL || !strstr(why.text, "has the id 2, which was given to another one before"))
			fail_msg("%s: %d, %s", texts[i], r, why.text);
	}
	work.operation = &last;
	prepared("Append n7:f.lance", 6, "99999999-1111-4222-8333-444444444444", &last);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	assert_string_equal(prepared_ids(w.st, &ids), "1 3 7");
	close_world(&w);
}

static void deletions(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf ids = PF_BUF_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "Delete u1 r2", 6);
	assert_string_equal(prepared_ids(w.st, &ids), "1- 3");
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(&w);
	assert_int_equal(m->reader_flags, 1);
	assert_int_equal(m->writer_flags, 1 | BIT_PINS);
	close_world(&w);
}

static void bad_work_changes_nothing(void **state)
{
	struct world w;

	new_table_of(&w, PLAIN);
	want_refusal(&w, "Append n0:none.lance", -EINVAL, "data/none.lance\", which is not there");
	want_refusal(&w, "Append n0:f.lance=2", -EINVAL, "as one of 2 bytes, and it has 1");
	want_refusal(&w, "DataReplacement d1:0=7", -EINVAL, "as one of 7 bytes, and it has 1");
	want_refusal(&w, "Append n2:f.lance", -EINVAL, "two fragments with the id 2");
	want_refusal(&w, "Delete u9", -EINVAL, "fragment 9, which is not there");
	want_refusal(&w, "Delete r9", -EINVAL, "fragment 9, which is not there");
	want_refusal(&w, "Delete u2", -EINVAL, "_deletions/2-1-1.bin\", which is not there");
	want_refusal(&w, "Rewrite g1,1", -EINVAL, "fragment 1 twice");
	want_refusal(&w, "Rewrite g1,9", -EINVAL, "fragment 9, which is not there");
	want_refusal(&w, "CreateIndex nx:7:1", -EINVAL, "id 7, which is not there");
	want_refusal(&w, "CreateIndex nx:0:1", -EINVAL, "index files");
	want_refusal(&w, "CreateIndex nx:0/1:1:0/1", -EINVAL, "is keyed on none");
	want_refusal(&w, "CreateIndex nx:0/1:1:0", -EINVAL, "only carries last");
	want_refusal(&w, "CreateIndex nx:0/1/2:1:2/1", -EINVAL, "only carries last");
	want_refusal(&w, "CreateIndex nx:0/1/1:1:1/1", -EINVAL, "each once");
	want_refusal(&w, "CreateIndex nx:0/1/2:1:1/2", -EINVAL, "index files");
	want_refusal(&w, "CreateIndex r__lance_frag_reuse", -EOPNOTSUPP, "history of moved rows");
	want_refusal(&w, "Merge c m1 m2", -EINVAL, "lacks fragment 3");
	want_refusal(&w, "Project", -EINVAL, "no schema");
	want_refusal(&w, "DataReplacement d9:0", -EINVAL, "fragment 9, which is not there");
	want_refusal(&w, "UpdateConfig m9", -EINVAL, "id 9, which is not there");
	want_refusal(&w, "Restore 99", -EINVAL, "version 99, which is not there");
	want_refusal(&w, "ReserveFragments 4294967295", -EOPNOTSUPP, "no fragment ids are left");
	want_refusal(&w, "DataOverlay o1", -EINVAL, "DataOverlay is not an operation");
	want_refusal(&w, "Clone", -EINVAL, "Clone is not an operation");
	want_refusal(&w, "UpdateMemWalState", -EINVAL, "UpdateMemWalState is not an operation");
	want_refusal(&w, "Future", -EINVAL, "Unknown is not an operation");
	close_world(&w);
}

static void a_version_to_come_is_of_another_table(void **state)
{
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	assert_int_equal(commit(&w, "Append n0:f.lance", 6, &result, &why), -EINVAL);
	assert_non_null(strstr(why.text, "another table"));
	close_world(&w);
}

static void a_table_that_needs_more_is_left_alone(void **state)
{
	struct world w;

	new_table_of(&w, UINT64_C(1) << 6);
	want_refusal(&w, "Append n0:f.lance", -EOPNOTSUPP, "6 data-overlays");
	close_world(&w);
}

static void rewrites(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf ids = PF_BUF_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "Rewrite g1,2", 6);
	assert_string_equal(prepared_ids(w.st, &ids), "3 4");
	close_world(&w);
}

/* Queries would fail that were answered before. */
static void a_remapped_index_has_its_files(void **state)
{
	static const char x[] = "_indices/696e6465-7820-7820-2020-202020202020/index.idx",
			  y[] = "_indices/696e6465-7820-7920-2020-202020202020/index.idx";
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	assert_int_equal(pf_store_mem_put(w.st, x, "x", 1), 0);
	want_commit(&w, "CreateIndex nx:0:1,2", 6);
	prepared("Rewrite g1,2 sx:y", 6, "99999999-1111-4222-8333-444444444444", &o);
	assert_int_equal(pf_work_commit(w.b, &work, &result, &why), -EINVAL);
	assert_non_null(strstr(why.text, "696e6465-7820-7920-2020-202020202020, which are not there"));
	assert_int_equal(head_version(&w), 6);
	assert_int_equal(pf_store_mem_put(w.st, y, "y", 1), 0);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	assert_int_equal(head_version(&w), 7);
	close_world(&w);
}

/* Lance 14 leaves it on the base of the parent, where its new files are not, and every query by it fails. */
static void an_index_of_the_parent_that_is_remapped_is_here(void **state)
{
	static const char y[] = "696e6465-7820-7920-2020-202020202020";
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_indices_release) struct pf_indices before = { 0 }, after = { 0 };
	const struct pf_work work = { .operation = &o };
	struct pf_work_result result;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "CreateIndex nbased:0:1,2", 6);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *was = head_of(&w);
	assert_int_equal(pf_indices_read(w.st, was, &before, NULL), 0);
	assert_true(before.n == 1 && before.v[0].has_base);
	prepared("Rewrite g1,2 sbased:y", 6, "99999999-1111-4222-8333-444444444444", &o);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), -EINVAL);
	assert_int_equal(pf_store_mem_put(w.st, "_indices/696e6465-7820-7920-2020-202020202020/index.idx", "y", 1), 0);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *is = head_of(&w);
	assert_int_equal(pf_indices_read(w.st, is, &after, NULL), 0);
	assert_int_equal(after.n, 1);
	assert_string_equal(after.v[0].uuid, y);
	assert_false(after.v[0].has_base);
	close_world(&w);
}

static void once_is_once(void **state)
{
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO };
	struct pf_work_result result;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "Append n0:f.lance", 6);
	run(&w, op_register(1, 100), 0);
	set_trap(w.st, &t);
	assert_int_equal(commit(&w, "Append n0:f.lance", 5, &result, NULL), -EINPROGRESS);
	assert_int_equal(result.version, 6);
	heal(w.st);
	assert_int_equal(commit(&w, "Append n0:f.lance", 5, &result, NULL), 0);
	assert_true(result.already);
	assert_int_equal(result.version, 6);
	assert_int_equal(head_version(&w), 7);
	close_world(&w);
}

/* It is found by its uuid; what an attempt left that was ended is not taken for it. */
static void what_has_landed_is_found(void **state)
{
	struct pf_why why = PF_WHY_INIT;
	uint64_t read_version = 0;
	struct world w;

	new_table_of(&w, PLAIN);
	assert_int_equal(pf_landed_find(w.b, UUID, &read_version, &why), -ENOENT);
	pf_store_mem_put(w.st, "_transactions/4-" UUID ".txn", "x", 1);
	assert_int_equal(pf_landed_find(w.b, UUID, &read_version, &why), -ENOENT);
	want_commit(&w, "Append n0:f.lance", 6);
	run(&w, op_register(1, 100), 0);
	assert_int_equal(pf_landed_find(w.b, UUID, &read_version, &why), 0);
	assert_int_equal(read_version, 5);
	/* It may have been version 6. */
	pf_store_mem_del(w.st, V6);
	assert_int_equal(pf_landed_find(w.b, UUID, &read_version, &why), -EAGAIN);
	assert_non_null(strstr(why.text, "version 6, which is gone"));
	close_world(&w);
}

/* cases: somebody registers a pin between our look at the head and our link. */
static void a_lost_race_starts_over(void **state)
{
	struct others o = { .act = op_register(2, 50) };
	struct world w;

	new_table_of(&w, PLAIN);
	interfere(&w, &o);
	want_commit(&w, "Append n0:f.lance", 7);
	heal(w.st);
	assert_int_equal(stored(&w, 2), 50);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* What the other one committed is judged, too. */
static void a_conflict_that_comes_between(void **state)
{
	static const struct table_version overwrite = { .version = 6, .operation = 102 };
	struct world w;

	new_table_of(&w, PLAIN);
	table_put(w.st, &overwrite);
	want_refusal(&w, "Append n0:f.lance", -ESTALE, "incompatible with the Overwrite committed as version 6");
	want_refusal(&w, "UpdateConfig sk", -ESTALE, "Overwrite");
	close_world(&w);
}

static void a_gap_is_not_skipped(void **state)
{
	struct world w;

	new_table_of(&w, PLAIN);
	run(&w, op_register(1, 100), 0);
	run(&w, op_register(2, 100), 0);
	pf_store_mem_del(w.st, V6);
	want_refusal(&w, "Append n0:f.lance", -EAGAIN, "version 6 is gone");
	close_world(&w);
}

static void the_callers_file_is_left_alone(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_stat st;
	struct world w;

	new_table_of(&w, PLAIN);
	prepared_bytes("Delete u9", 5, UUID, &bytes);
	pf_store_mem_put(w.st, TXN, bytes.data, bytes.len);
	want_refusal(&w, "Delete u9", -EINVAL, "fragment 9");
	assert_int_equal(pf_store_stat(w.st, TXN, &st), 0);
	want_refusal(&w, "Append n0:f.lance", -EEXIST, "another transaction under the same uuid");
	assert_int_equal(pf_store_stat(w.st, TXN, &st), 0);
	close_world(&w);
}

/* Restore: the old content, and marks that never go back. */
static void restore(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf ids = PF_BUF_INIT;
	struct pf_work_result result;
	struct world w;

	new_table_of(&w, PLAIN);
	run(&w, op_register(1, 100), 0);
	want_commit(&w, "Append n0:f.lance", 7);
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o };
	prepared("Restore 2", 7, "99999999-1111-4222-8333-444444444444", &o);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	assert_string_equal(prepared_ids(w.st, &ids), "1 2 3");
	assert_int_equal(field(&w, 11), 4);
	assert_int_equal(stored(&w, 1), 100);
	close_world(&w);
}

/* What a cleanup is at, or somebody removed, is not made the head. */
static void restore_of_what_is_gone(void **state)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	struct world w;

	new_table_of(&w, PLAIN);
	want_commit(&w, "Overwrite n0:f.lance c", 6);
	assert_int_equal(pf_store_unlink(w.st, "data/" PREPARED_OLD), 0);
	prepared("Restore 2", 6, "99999999-1111-4222-8333-444444444444", &o);
	assert_int_equal(pf_work_commit(w.b, &work, &result, &why), -ENOENT);
	assert_non_null(
		strstr(why.text, "version 2 is not restored, another one may be: its file \"data/old.lance\" is gone"));
	assert_int_equal(head_version(&w), 6);
	pf_store_mem_put(w.st, "data/" PREPARED_OLD, "x", 1);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	assert_int_equal(head_version(&w), 7);
	close_world(&w);
}

/* Removed between two looks: no other writer was faster. */
static void removes_2(void *arg, struct pf_store *st, const char *op, const char *name)
{
	unsigned *opened = arg;

	if (strcmp(op, "open") == 0 && strcmp(name, V2) == 0 && ++*opened == 2)
		assert_int_equal(pf_store_mem_del(st, V2), 0);
}

static void restore_of_what_goes_meanwhile(void **state)
{
	unsigned opened = 0;
	struct world w;

	new_table_of(&w, PLAIN);
	pf_store_mem_set_hook(w.st, removes_2, &opened);
	want_refusal(&w, "Restore 2", -EINVAL, "version 2, which is not there");
	assert_true(opened >= 2);
	heal(w.st);
	close_world(&w);
}

/* Storage fails at each call in turn: it is committed once, or not at all; what is said is true; and doing it again ends well. */
static bool fail_call(unsigned n, enum pf_fault kind, int err, bool forever)
{
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	uint64_t at;

	new_table_of(&w, PLAIN);
	run(&w, op_register(1, 100), 0);
	unsigned before = pf_store_mem_calls(w.st);
	pf_store_mem_fault(w.st, n, kind, err, forever);
	int r = commit(&w, "Delete u1 r2", 5, &result, &why);
	bool hit = pf_store_mem_calls(w.st) - before >= n;
	heal(w.st);
	unsigned landed = count_landed(w.st, UUID, &at);
	if (r == 0)
		assert_int_equal(landed, 1);
	else if (r != -EINPROGRESS)
		assert_int_equal(landed, 0);
	if (r < 0)
		assert_true(why.text[0]);
	assert_whole(w.st, "", true);
	assert_int_equal(commit(&w, "Delete u1 r2", 5, &result, NULL), 0);
	assert_int_equal(count_landed(w.st, UUID, &at), 1);
	assert_int_equal(stored(&w, 1), 100);
	assert_whole(w.st, "", true);
	close_world(&w);
	return hit;
}

static void every_call_may_fail(void **state)
{
	static const int errs[] = { -EIO, -ENOSPC };

	for (size_t e = 0; e < ARRAY_LEN(errs); e++) {
		for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], false); n++)
			;
		for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, errs[e], false); n++)
			;
		for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], true); n++)
			;
	}
}

static void a_dry_run_writes_nothing(void **state)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o, .dry_run = true };
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_work_result result;
	struct world w;

	new_table_of(&w, PLAIN);
	table_list(w.st, ".", &before);
	prepared("Append n0:f.lance", 5, UUID, &o);
	assert_int_equal(pf_work_commit(w.b, &work, &result, NULL), 0);
	assert_int_equal(result.version, 6);
	table_list(w.st, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pins_and_the_transaction_are_kept),
		cmocka_unit_test(ids_count_on_from_the_highest_ever),
		cmocka_unit_test(ids_of_others_are_not_given_again),
		cmocka_unit_test(deletions),
		cmocka_unit_test(bad_work_changes_nothing),
		cmocka_unit_test(a_version_to_come_is_of_another_table),
		cmocka_unit_test(a_table_that_needs_more_is_left_alone),
		cmocka_unit_test(rewrites),
		cmocka_unit_test(a_remapped_index_has_its_files),
		cmocka_unit_test(an_index_of_the_parent_that_is_remapped_is_here),
		cmocka_unit_test(once_is_once),
		cmocka_unit_test(what_has_landed_is_found),
		cmocka_unit_test(a_lost_race_starts_over),
		cmocka_unit_test(a_conflict_that_comes_between),
		cmocka_unit_test(a_gap_is_not_skipped),
		cmocka_unit_test(the_callers_file_is_left_alone),
		cmocka_unit_test(restore),
		cmocka_unit_test(restore_of_what_is_gone),
		cmocka_unit_test(restore_of_what_goes_meanwhile),
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(a_dry_run_writes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
