/* The compaction gate, one case at a time: what it asks of whom, on which attempt, and what it says. What it decides on any history is test_gate_random.c's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/fri_write.h"
#include "core/work.h"

#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "recorded.h"
#include "world.h"

#define UUID   "12345678-1111-4222-8333-444444444444"
#define BIT_1  UINT64_C(2)
#define BIT_10 (UINT64_C(1) << 10)
#define PIN_A  "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define PIN_B  "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

/* Groups separated by `|`, each fragments that become one; prepared on a version. */
static void prepare_rewrite(const char *text, uint64_t read_version, uint64_t new_id, struct pf_operation *out)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, bytes = PF_BUF_INIT;

	for (const char *group = text; group; group = strchr(group, '|') ? strchr(group, '|') + 1 : NULL) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		uint64_t rows = 0;
		recorded_fragments(group, 1, &message, &rows);
		prepared_fragment(&message, 2, new_id, "new.lance", rows, 0);
		assert_int_equal(pf_wire_put_bytes(&body, 3, message.data, message.len), 0);
	}
	assert_int_equal(pf_wire_put_u64(&bytes, 1, read_version), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	assert_int_equal(pf_operation_decode(&bytes, out, NULL), 0);
}

/* What becomes of a Rewrite of these groups; rows: what its first group says that it moved, NULL: nothing. */
static int rewrite(struct pf_store *st, const char *text, const struct pf_buf *rows, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_buf copy = PF_BUF_INIT;
	struct pf_moved moved = { &copy, 1 };
	const struct pf_work w = { .operation = &o, .moved = rows ? &moved : NULL, .records = true };
	struct pf_work_result result;

	if (rows)
		assert_int_equal(pf_buf_add(&copy, rows->data, rows->len), 0);
	prepare_rewrite(text, 1, 0, &o);
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	int r = pf_work_commit(b, &w, &result, why);
	pf_buf_release(&copy);
	return r;
}

/* It is refused, with a sentence that has this in it, and nothing is left of it. */
static void want_refusal(struct pf_store *st, const char *text, const struct pf_buf *rows, int err,
			 const char *sentence)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	table_list(st, ".", &before);
	int r = rewrite(st, text, rows, &why);
	if (r != err || !strstr(why.text, sentence))
		fail_msg("%s: %d, %s", text, r, why.text);
	table_list(st, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
}

static void want_pass(struct pf_store *st, const char *text)
{
	struct pf_why why = PF_WHY_INIT;

	if (rewrite(st, text, NULL, &why) < 0)
		fail_msg("%s: %s", text, why.text);
}

/* Version 0, or none: what is not known is asked for only where a pin follows it, through records as well. */
static void what_no_pin_follows_need_not_be_known(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10 2:10" },
		{ .version = 2, .fragments = "1:10 2:10", .pins = "a" },
		{ .version = 3, .fragments = "2:10 3:10 4:10 5:10 6:10", .pins = "a", .history = "L2 1:10 > 3:10" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 3);

	want_refusal(st, "5:10 2:10", NULL, -EBUSY, "a pin follows the rows of fragments 5, 2, group 0, and ");
	want_refusal(st, "6:10 5:10|4:10 3:10", NULL, -EBUSY,
		     "a pin follows the rows of fragments 4, 3, group 1, and ");
	want_pass(st, "6:10 5:10");
	recorded_want(st, "stamp 2 [v0 1:10:0 > 3:10:0]\n");
}

/* Without its source nobody knows what a pin follows; where all movements are known, that does not matter to version 0. */
static void a_source_that_cannot_be_read(void **state)
{
	static const struct recorded v[] = {
		{ .version = 2, .fragments = "1:10 2:10", .pins = "a" },
		{ .version = 3, .fragments = "1:10 2:10 3:10", .pins = "a" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);
	struct pf_why why = PF_WHY_INIT;
	struct pf_operation o = { 0 };
	struct pf_work_result result;

	prepare_rewrite("3:10 1:10", 2, 0, &o);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	struct pf_work w = { .operation = &o };
	assert_int_equal(pf_work_commit(b, &w, &result, &why), -EBUSY);
	assert_string_equal(
		why.text,
		"what pin " PIN_A
		" \"job\" (expires 2026-01-02T00:00:00Z) of version 1 needs cannot be told: version 1 is missing");
	pf_operation_release(&o);
	prepare_rewrite("2:10", 2, 0, &o);
	if (pf_work_commit(b, &w, &result, &why) < 0)
		fail_msg("%s", why.text);
	recorded_want(st, "stamp 3 [v0 2:10:0 > 21:10:0]\n");
	pf_operation_release(&o);
}

/* A pin that is registered after planning, even after we looked, counts as well. */
static void pins_are_judged_anew_on_each_attempt(void **state)
{
	static const struct recorded first = { .version = 1, .fragments = "1:10 2:10" };
	static const struct recorded then = { .version = 2, .fragments = "1:10 2:10", .pins = "a" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&first, 1);
	_cleanup_(pf_buf_release) struct pf_buf left = PF_BUF_INIT;
	struct recorded_meddler m = { &then, 1, 0 };
	struct pf_why why = PF_WHY_INIT;

	pf_store_mem_set_hook(st, recorded_meddle, &m);
	assert_int_equal(rewrite(st, "2:10 1:10", NULL, &why), -EBUSY);
	pf_store_mem_set_hook(st, NULL, NULL);
	assert_int_equal(m.done, 1);
	assert_non_null(strstr(why.text, PIN_A));
	table_list(st, "_versions", &left);
	assert_string_equal(pf_buf_str(&left), "_versions/18446744073709551613.manifest\n"
					       "_versions/18446744073709551614.manifest\n");
}

/* A31: a record is stamped with the version before its own, after lost races too, and is put behind what others have recorded meanwhile. */
static void the_stamp_is_that_of_the_attempt(void **state)
{
	static const struct recorded first[] = {
		{ .version = 1, .fragments = "1:10 2:10 3:10" },
		{ .version = 2, .fragments = "1:10 2:10 3:10", .pins = "a" },
	};
	static const struct recorded then[] = {
		{ .version = 3, .fragments = "1:10 2:10 3:10", .pins = "ab" },
		{ .version = 4, .fragments = "1:10 2:10 20:10", .pins = "ab", .history = "L3 3:10 > 20:10" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(first, 2);
	struct recorded_meddler m = { then, 2, 0 };

	pf_store_mem_set_hook(st, recorded_meddle, &m);
	want_pass(st, "1:10 2:10");
	pf_store_mem_set_hook(st, NULL, NULL);
	assert_int_equal(m.done, 2);
	recorded_want(st, "stamp 3 [v0 3:10:0 > 20:10:0]\nstamp 4 [v0 1:10:0 2:10:0 > 21:20:0]\n");
}

/* A30: a table with stable row ids cannot have a record. It is told from the head's flags alone, before anything is written, and each time alike. */
static void stable_row_ids(void **state)
{
	static const struct recorded v = { .version = 1, .flags = BIT_1, .fragments = "1:10", .history = "" };
	static const struct recorded plain = { .version = 1, .flags = BIT_1, .fragments = "1:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&v, 1), *other = recorded_table(&plain, 1);

	for (int i = 0; i < 2; i++) {
		want_refusal(
			st, "1:10", NULL, -EOPNOTSUPP,
			"the table has stable row ids and a history of moved rows, which no release of Lance commits to");
		want_refusal(other, "1:10", NULL, -EOPNOTSUPP,
			     "whether fragment 0 has the right row ids cannot be checked");
	}
}

static void overlaid_fragments(void **state)
{
	static const struct recorded v = { .version = 1,
					   .flags = BIT_10,
					   .fragments = "1:10",
					   .overlaid = true,
					   .history = "T 2:10 > 9:10",
					   .index_version = 1 };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&v, 1);

	want_refusal(st, "9:10", NULL, -EOPNOTSUPP, "fragment 9 has overlays, which a tagged history cannot follow");
}

/* Rows of others would be taken for its own. */
static void an_id_that_the_history_knows(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10 2:10 4:10" },
		{ .version = 2, .fragments = "1:10 3:10", .pins = "a", .history = "L1 2:10 > 3:10 | 4:10 > 5:10" },
	};
	static const uint64_t ids[] = { 2, 5 };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);

	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
		const struct pf_work w = { .operation = &o, .ids_given = true };
		struct pf_work_result result;
		struct pf_why why = PF_WHY_INIT;

		prepare_rewrite("1:10", 2, ids[i], &o);
		assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
		assert_int_equal(pf_work_commit(b, &w, &result, &why), -EINVAL);
		if (!strstr(why.text, "which the history of moved rows knows as another one"))
			fail_msg("%s", why.text);
	}
}

/* What the history holds that nobody here knows could be anything: nothing is put behind it. */
static void a_history_that_cannot_be_interpreted(void **state)
{
	static const struct recorded v = { .version = 1, .fragments = "1:10", .history = "T 2:10 > 3:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&v, 1);

	want_refusal(st, "1:10", NULL, -EOPNOTSUPP, "nothing can be added to the history of moved rows");
}

/* E09, E10: a bitmap that is no bitmap covers nobody knows what. */
static void a_damaged_bitmap_of_an_index(void **state)
{
	static const uint8_t bytes[] = { 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 0x10, 0, 0, 0, 2, 0, 1, 0, 0, 0 };

	for (size_t n = 1; n <= sizeof(bytes); n++) {
		const struct pf_buf bitmap = { (uint8_t *)(uintptr_t)bytes, n, n };
		const struct recorded v = { .version = 1, .fragments = "1:10", .bitmap = &bitmap };
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&v, 1);
		want_refusal(st, "1:10", NULL, -EBADMSG, "bitmap");
	}
}

/* E13: what a rewrite says that it moved is held against the fragments before it is in any history. */
static void moves_that_do_not_fit(void **state)
{
	static const struct recorded v = { .version = 1, .fragments = "1:10:2 2:10" };
	static const struct {
		struct moves_range v[3];
		size_t n;
		const char *sentence;
	} bad[] = {
		{ { { 1, 2, 9 } }, 1, "no row addresses of fragment 2" },
		{ { { 1, 2, 9 }, { 2, 0, 8 } }, 2, "it has 9 row addresses of fragment 2, which has 10 live rows" },
		{ { { 1, 2, 9 }, { 2, 1, 10 } }, 2, "a row address is row 10 of fragment 2, which has 10" },
		{ { { 1, 0, 9 }, { 2, 0, 9 } }, 2, "it has 10 row addresses of fragment 1, which has 8 live rows" },
		{ { { 1, 0, 0 }, { 1, 3, 9 }, { 2, 0, 9 } },
		  3,
		  "a row address is row 0 of fragment 1, which is deleted" },
		{ { { 1, 1, 8 }, { 2, 0, 9 } }, 2, "a row address is row 1 of fragment 1, which is deleted" },
		{ { { 1, 2, 9 }, { 3, 0, 9 } }, 2, "expected row addresses of fragment 2, found some of fragment 3" },
		{ { { 1, 2, 9 }, { 2, 0, 9 }, { 3, 0, 0 } }, 3, "found some of fragment 3" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&v, 1);

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(pf_buf_release) struct pf_buf rows = PF_BUF_INIT;
		moves_treemap(bad[i].v, bad[i].n, &rows);
		want_refusal(st, "1:10:2 2:10", &rows, -EINVAL, bad[i].sentence);
	}
	_cleanup_(pf_buf_release) struct pf_buf rows = PF_BUF_INIT;
	moves_treemap((struct moves_range[]){ { 1, 2, 9 }, { 2, 0, 9 } }, 2, &rows);
	/* Nor is a part of such a set taken, or more. */
	for (size_t n = 1; n < rows.len; n++) {
		const struct pf_buf part = { rows.data, n, n };
		want_refusal(st, "1:10:2 2:10", &part, -EBADMSG, "row addresses");
	}
	pf_buf_addch(&rows, 0);
	want_refusal(st, "1:10:2 2:10", &rows, -EBADMSG, "row addresses");
}

/* Which deletion files are read, a line each. */
static void note_deletions(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "open") == 0 && strstr(name, "_deletions"))
		assert_int_equal(pf_buf_addf(arg, "%s\n", name), 0);
}

/* Where nothing is said the deletion files of the groups tell which rows went in: those, and no others, and only if it matters. */
static void deleted_rows_are_read(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10:2 2:10:5 3:10:4 4:10" },
		{ .version = 2, .fragments = "1:10:2 2:10:5 3:10:4 4:10", .pins = "a" },
	};
	_cleanup_(pf_buf_release) struct pf_buf read = PF_BUF_INIT, want = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *none = recorded_table(v, 1), *st = recorded_table(v, 2);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };

	assert_int_equal(pf_store_mem_del(none, "_deletions/1-1-1.bin"), 0);
	pf_store_mem_set_hook(none, note_deletions, &read);
	want_pass(none, "1:10:2 2:10:5");
	assert_int_equal(read.len, 0);
	pf_store_mem_set_hook(st, note_deletions, &read);
	want_pass(st, "1:10:2 2:10:5 4:10");
	assert_string_equal(pf_buf_str(&read), "_deletions/1-1-1.bin\n_deletions/2-1-1.bin\n");
	recorded_want(st, "stamp 2 [v0 1:10:2 2:10:5 4:10:0 > 21:23:0]\n");
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_fri_read_branch(b, m, &f, NULL), 0);
	moves_treemap((struct moves_range[]){ { 1, 2, 9 }, { 2, 5, 9 }, { 4, 0, 9 } }, 3, &want);
	assert_int_equal(f.groups[0].rows.len, want.len);
	assert_memory_equal(f.content.data + f.groups[0].rows.off, want.data, want.len);
}

static void a_deletion_file_that_cannot_be_read(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10:2 2:10:3" },
		{ .version = 2, .fragments = "1:10:2 2:10:3", .pins = "a" },
	};
	static const char *const text = "1:10:2 2:10:3", *const name = "_deletions/2-1-1.bin";
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);

	prepared_deletions(st, 2, 4);
	want_refusal(
		st, text, NULL, -EBADMSG,
		"group 0: deletion file _deletions/2-1-1.bin: expected 3 deleted rows as the manifest says, found 4");
	assert_int_equal(pf_store_mem_put(st, name, "x", 1), 0);
	want_refusal(st, text, NULL, -EBADMSG, "group 0: deletion file _deletions/2-1-1.bin: offset 0: ");
	assert_int_equal(pf_store_mem_del(st, name), 0);
	want_refusal(st, text, NULL, -EBADMSG, "group 0: deletion file _deletions/2-1-1.bin is missing");
	prepared_deletions(st, 2, 3);
	want_pass(st, text);
}

/* B23: who is in the way is named, however many they are. */
static void all_that_are_in_the_way(void **state)
{
	static const char *const fragments = "9:9 1:9 2:9 3:9 4:9 5:9 6:9 7:9 8:9";
	const struct recorded v[] = {
		{ .version = 1, .fragments = fragments },
		{ .version = 2, .fragments = fragments, .pins = "a" },
		{ .version = 3, .fragments = fragments, .pins = "ab" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 3);

	want_refusal(st, fragments, NULL, -EBUSY,
		     "pins follow the rows of fragments 9, 1, 2, 3, 4, 5, 6, 7 and 1 more, group 0, and ");
	want_refusal(st, fragments, NULL, -EBUSY,
		     ": replan. They are " PIN_A " \"job\" (expires 2026-01-02T00:00:00Z), " PIN_B
		     " \"job\" (expires 2026-01-02T00:00:00Z)");
	want_refusal(st, "1:9|9:9 8:9", NULL, -EBUSY, "pins follow the rows of fragments 9, 8, group 1, and ");
}

/* A history of more than 204,800 bytes lies in a file of its own, which goes if the commit is known to have failed. */
#define LONG 5000
static void a_long_history(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, content = PF_BUF_INIT, details = PF_BUF_INIT,
						bitmap = PF_BUF_INIT, section = PF_BUF_INIT, extra = PF_BUF_INIT,
						body = PF_BUF_INIT, bytes = PF_BUF_INIT, group = PF_BUF_INIT,
						before = PF_BUF_INIT, after = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *covered = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	static const struct table_version none = { .version = 1 };
	struct trap trap = { .op = "link", .name = "_versions", .kind = PF_FAULT_BEFORE, .err = -ENOSPC };
	const uint32_t id = LONG;
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	for (unsigned i = 1; i < LONG; i++)
		assert_int_equal(pf_buf_addf(&text, "T %u:10 > %u:10;", i, i + 1), 0);
	assert_non_null(pf_buf_str(&text));
	moves_content((char *)text.data, &content);
	assert_true(content.len > PF_FRI_INLINE_MAX);
	moves_details_inline(&content, &details);
	assert_int_equal(pf_bitmap_from(&id, 1, &covered), 0);
	assert_int_equal(pf_bitmap_encode(covered, &bitmap), 0);
	const struct moves_index x = { .name = "__lance_frag_reuse",
				       .type = MOVES_FRI_TYPE,
				       .details = &details,
				       .bitmap = &bitmap,
				       .index_version = 1 };
	moves_index(&x, &section);
	prepared_body("Project c0 c1 c2", &extra);
	prepared_fragment(&extra, 2, LONG, PREPARED_OLD, 10, 0);
	assert_int_equal(pf_wire_put_u64(&extra, 11, LONG), 0);
	const struct table_version t = { .version = 1,
					 .reader_flags = BIT_10,
					 .writer_flags = BIT_PINS | BIT_10,
					 .extra = &extra,
					 .index = &section };
	struct pf_store *st = table_new(0, &none);
	table_put(st, &t);
	pf_store_mem_put(st, "data/new.lance", "x", 1);

	prepared_fragment(&group, 1, LONG, PREPARED_OLD, 10, 0);
	prepared_fragment(&group, 2, 0, "new.lance", 10, 0);
	assert_int_equal(pf_wire_put_bytes(&body, 3, group.data, group.len), 0);
	assert_int_equal(pf_wire_put_u64(&bytes, 1, 1), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	assert_int_equal(pf_operation_decode(&bytes, &o, NULL), 0);
	const struct pf_work work = { .operation = &o };
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);

	table_list(st, ".", &before);
	set_trap(st, &trap);
	assert_int_equal(pf_work_commit(b, &work, &result, &why), -ENOSPC);
	heal(st);
	table_list(st, ".", &after);
	assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));

	if (pf_work_commit(b, &work, &result, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(pf_fri_read_branch(b, head, &f, NULL), 0);
	assert_true(f.external);
	assert_string_equal(f.external_path, "details.binpb");
	assert_int_equal(f.external_size, f.content.len);
	assert_int_equal(f.n_records, LONG);
	assert_memory_equal(f.content.data, content.data, content.len);
	pf_branch_free(STEAL(b));
	pf_store_free(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_no_pin_follows_need_not_be_known),
		cmocka_unit_test(a_source_that_cannot_be_read),
		cmocka_unit_test(pins_are_judged_anew_on_each_attempt),
		cmocka_unit_test(the_stamp_is_that_of_the_attempt),
		cmocka_unit_test(stable_row_ids),
		cmocka_unit_test(overlaid_fragments),
		cmocka_unit_test(an_id_that_the_history_knows),
		cmocka_unit_test(a_history_that_cannot_be_interpreted),
		cmocka_unit_test(a_damaged_bitmap_of_an_index),
		cmocka_unit_test(moves_that_do_not_fit),
		cmocka_unit_test(deleted_rows_are_read),
		cmocka_unit_test(a_deletion_file_that_cannot_be_read),
		cmocka_unit_test(all_that_are_in_the_way),
		cmocka_unit_test(a_long_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
