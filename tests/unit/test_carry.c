/* Manifests that clients made whole, on heads with pins: what is put into them, what stays as it was made, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/carry.h"
#include "core/fri_write.h"

#include "carried.h"
#include "cleaning.h"
#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "recorded.h"
#include "world.h"

#define UUID   "12345678-1111-4222-8333-444444444444"
#define BIT_10 (UINT64_C(1) << 10)
#define PIN_A  "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

/* Groups separated by `|`, each "1:10 2:10 > 20:20"; any other operation as prepared.h has it. */
static void make_operation(const char *text, struct pf_operation *out)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, bytes = PF_BUF_INIT;

	if (!strchr(text, '>')) {
		prepared(text, 1, UUID, out);
		return;
	}
	for (const char *group = text; group; group = strchr(group, '|') ? strchr(group, '|') + 1 : NULL) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		uint64_t rows = 0;
		recorded_fragments(group, 1, &message, &rows);
		recorded_fragments(strchr(group, '>') + 1, 2, &message, &rows);
		assert_int_equal(pf_wire_put_bytes(&body, 3, message.data, message.len), 0);
	}
	assert_int_equal(pf_wire_put_u64(&bytes, 1, 1), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	assert_int_equal(pf_operation_decode(&bytes, out, NULL), 0);
}

static int commit_staged(struct pf_store *st, const struct pf_manifest *staged, const char *operation, bool *changed,
			 struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	make_operation(operation, &o);
	return carried_commit(st, staged, &o, changed, why);
}

static int commit(struct pf_store *st, const struct recorded *v, const char *operation, bool *changed,
		  struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *scratch = recorded_table(v, 1);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *staged = carried_stage(st, scratch, v->version, false);

	return commit_staged(st, staged, operation, changed, why);
}

/* It becomes a version with this history (recorded_want); `changed`: other index entries than it came with. */
static void want_history(struct pf_store *st, const struct recorded *v, const char *operation, bool changed,
			 const char *history)
{
	struct pf_why why = PF_WHY_INIT;
	bool did;

	if (commit(st, v, operation, &did, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(did, changed);
	recorded_want(st, history);
}

static void want_refusal(struct pf_store *st, const struct recorded *v, const char *operation, const char *sentence)
{
	struct pf_why why = PF_WHY_INIT;
	bool did;

	int r = commit(st, v, operation, &did, &why);
	if (r != -EPERM || !strstr(why.text, sentence))
		fail_msg("%d: %s", r, why.text);
}

/* The entry of the head's history, in its indices. */
static const struct pf_index *read_entry(struct pf_store *st, struct pf_indices *l)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_index *x;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_indices_read(st, m, l, NULL), 0);
	assert_int_equal(pf_fri_entry(l, &x, NULL), 0);
	return x;
}

/* Its uuid. */
static void want_entry(struct pf_store *st, uint64_t number, bool same)
{
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
	char uuid[PF_UUID_TEXT];

	assert_int_equal(strcmp(read_entry(st, &l)->uuid, moves_uuid(number, uuid)) == 0, same);
}

/* It covers this fragment and no other. */
static void want_covered(struct pf_store *st, uint32_t fragment)
{
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	const struct pf_index *x = read_entry(st, &l);

	assert_int_equal(pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &b, NULL), 0);
	assert_int_equal(pf_bitmap_count(b), 1);
	assert_true(pf_bitmap_has(b, fragment));
}

#define ENTRY 2 /* of recorded.h */

/* --- compactions --- */

static const struct recorded plain[] = {
	{ .version = 1, .fragments = "1:10 2:10 3:10" },
	{ .version = 2, .fragments = "1:10 2:10 3:10", .pins = "a" },
};

static void what_nobody_recorded_is(void **state)
{
	static const struct recorded v = { .version = 3, .fragments = "3:10 20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);

	want_history(st, &v, "1:10 2:10 > 20:20", true, "stamp 2 [v0 1:10:0 2:10:0 > 20:20:0]\n");
}

/* In which order their results were given shows in the transaction, and ids that were left to be assigned ascend. */
static void groups_of_any_order(void **state)
{
	static const struct recorded v = { .version = 3, .fragments = "20:10 21:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);

	want_history(st, &v, "2:10 3:10 > 21:20|1:10 > 20:10", true,
		     "stamp 2 [v0 2:10:0 3:10:0 > 21:20:0] [v0 1:10:0 > 20:10:0]\n");
}

static void a_record_that_lags_is_stamped_anew(void **state)
{
	static const struct recorded v = { .version = 3, .fragments = "3:10 20:20", .history = "L1 1:10 2:10 > 20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);

	want_history(st, &v, "1:10 2:10 > 20:20", true, "stamp 2 [v0 1:10:0 2:10:0 > 20:20:0]\n");
	want_entry(st, ENTRY, false);
}

static void a_good_record_stays_as_it_is(void **state)
{
	static const struct recorded v = { .version = 3, .fragments = "3:10 20:20", .history = "L2 1:10 2:10 > 20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);

	want_history(st, &v, "1:10 2:10 > 20:20", false, "stamp 2 [v0 1:10:0 2:10:0 > 20:20:0]\n");
	want_entry(st, ENTRY, true);
}

/* Which rows went where is told by its record, where fragments have deletions. */
static void what_its_record_says_counts(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10:2 2:10" },
		{ .version = 2, .fragments = "1:10:2 2:10", .pins = "a" },
	};
	static const struct recorded v = { .version = 3, .fragments = "20:18", .history = "L1 1:10:2 2:10 > 20:18" };
	static const struct recorded wrong = { .version = 3,
					       .fragments = "20:18",
					       .history = "L1 1:10:2 2:10 > 20:18 @ 1:0-8 2:0-8" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 2);

	want_refusal(st, &wrong, "1:10:2 2:10 > 20:18", "9 row addresses of fragment 1, which has 8 live rows");
	want_history(st, &v, "1:10:2 2:10 > 20:18", true, "stamp 2 [v0 1:10:2 2:10:0 > 20:18:0]\n");
}

static void records_that_it_did_not_write_stay(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10 2:10 3:10" },
		{ .version = 2, .fragments = "1:10 2:10 3:10", .pins = "a" },
		{ .version = 3, .fragments = "1:10 2:10 19:10", .pins = "a", .history = "L2 3:10 > 19:10" },
	};
	static const struct recorded v = { .version = 4,
					   .fragments = "19:10 20:20",
					   .history = "L3 1:10 2:10 > 20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 3);

	want_history(st, &v, "1:10 2:10 > 20:20", true,
		     "stamp 2 [v0 3:10:0 > 19:10:0]\nstamp 3 [v0 1:10:0 2:10:0 > 20:20:0]\n");
}

/* Lance 4 cannot open a table whose entry covers some of the fragments of a group and not all; Lance 14 puts them together, and covers all it ever made. */
static void no_group_is_covered_in_part(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10 2:10" },
		{ .version = 2, .fragments = "1:10 2:10", .pins = "a" },
		{ .version = 3, .fragments = "2:10 19:10", .pins = "a", .history = "L2 1:10 > 19:10", .covers = "19" },
	};
	static const struct recorded v[] = {
		{ .version = 4, .fragments = "20:20", .history = "L2 1:10 > 19:10", .covers = "19" },
		{ .version = 4,
		  .fragments = "20:20",
		  .history = "L2 1:10 > 19:10; L3 2:10 19:10 > 20:20",
		  .covers = "19 20" },
		{ .version = 4,
		  .fragments = "20:20",
		  .history = "L2 1:10 > 19:10; L3 2:10 19:10 > 20:20",
		  .covers = "20" },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 3);
		want_history(st, &v[i], "2:10 19:10 > 20:20", i < 2,
			     "stamp 2 [v0 1:10:0 > 19:10:0]\nstamp 3 [v0 2:10:0 19:10:0 > 20:20:0]\n");
		want_covered(st, 20);
		want_entry(st, ENTRY, i == 2);
	}
}

static void without_pins_it_is_the_clients_own(void **state)
{
	static const struct recorded before = { .version = 1, .fragments = "1:10 2:10", .history = "L1 0:10 > 2:10" };
	static const struct recorded v = { .version = 2, .fragments = "20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(&before, 1);

	want_history(st, &v, "1:10 2:10 > 20:20", false, NULL);
}

static void transitions(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10 2:10 3:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "1:10 2:10 19:10",
		  .flags = BIT_10,
		  .pins = "a",
		  .history = "T 3:10 > 19:10",
		  .index_version = 1 },
	};
	static const struct recorded v = { .version = 3,
					   .fragments = "19:10 20:20",
					   .flags = BIT_10,
					   .history = "T 1:10 2:10 > 20:20",
					   .index_version = 1 };
	static const struct recorded partition = { .version = 3,
						   .fragments = "19:10 20:20",
						   .flags = BIT_10,
						   .history = "P 1:10 2:10 > 20:20",
						   .index_version = 1 };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 2);

	want_refusal(st, &partition, "1:10 2:10 > 20:20", "group 0: its record of moved rows is a partition");
	want_history(st, &v, "1:10 2:10 > 20:20", true,
		     " [ordered 3:10:0 > 19:10:0]\n [ordered 1:10:0 2:10:0 > 20:20:0]\n");
}

static void compactions_that_are_refused(void **state)
{
	static const struct {
		struct recorded staged;
		const char *operation, *sentence;
	} v[] = {
		{ { .version = 3, .fragments = "1:10 20:20" },
		  "1:10 2:10 > 20:20",
		  "it replaces fragment 1, and keeps it" },
		{ { .version = 3, .fragments = "3:10 20:20" },
		  "1:10 7:10 > 20:20",
		  "it replaces fragment 7, which is not there" },
		{ { .version = 3, .fragments = "3:10 20:20" },
		  "1:10 > 20:10|1:10 > 21:10",
		  "it replaces fragment 1 twice" },
		{ { .version = 3, .fragments = "3:10 20:20" },
		  "1:10 2:10 > 21:20",
		  "a new fragment of its transaction is not there" },
		{ { .version = 3, .fragments = "3:10 20:19" },
		  "1:10 2:10 > 20:20",
		  "fragment 20 is not what the transaction says" },
		{ { .version = 3, .fragments = "3:10 20:19" },
		  "1:10 2:10 > 20:19",
		  "its old fragments have 20 live rows, its new ones 19" },
		{ { .version = 3, .fragments = "3:10 20:20" },
		  "1:10 2:11 > 20:20",
		  "fragment 2 has other data than what was compacted" },
		{ { .version = 3, .fragments = "3:10 20:10", .history = "L2 1:9 2:9 > 20:18" },
		  "1:10 > 3:10",
		  "a new fragment of its transaction is not there" },
	};

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);
		want_refusal(st, &v[i].staged, v[i].operation, v[i].sentence);
	}
}

/* Rows come out in the order of the fragments, and records can only tell of ascending ones. */
static void a_movement_that_cannot_be_known(void **state)
{
	static const struct recorded v = { .version = 3, .fragments = "3:10 20:20" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(plain, 2);

	want_refusal(st, &v, "2:10 1:10 > 20:20", "follows the rows of fragments 2, 1, group 0");
	want_refusal(st, &v, "2:10 1:10 > 20:20", "replan");
	want_refusal(st, &v, "2:10 1:10 > 20:20", PIN_A);
}

/* No refusal: something is broken. */
static void a_deletion_file_that_is_missing(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10:2 2:10" },
		{ .version = 2, .fragments = "1:10:2 2:10", .pins = "a" },
	};
	static const struct recorded v = { .version = 3, .fragments = "20:18" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 2);
	struct pf_why why = PF_WHY_INIT;
	bool changed;

	assert_int_equal(pf_store_mem_del(st, "_deletions/1-1-1.bin"), 0);
	assert_int_equal(commit(st, &v, "1:10:2 2:10 > 20:18", &changed, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "deletion file _deletions/1-1-1.bin is missing"));
}

/* --- other operations --- */

/* A pin of version 1, and one of version 3; records of versions 2 and 4. */
static const struct recorded chain[] = {
	{ .version = 1, .fragments = "1:10 2:10" },
	{ .version = 2, .fragments = "1:10 2:10", .pins = "a" },
	{ .version = 3, .fragments = "2:10 19:10", .pins = "a", .history = "L2 1:10 > 19:10" },
	{ .version = 4, .fragments = "2:10 19:10", .pins = "ac", .history = "L2 1:10 > 19:10" },
	{ .version = 5, .fragments = "19:10 20:10", .pins = "ac", .history = "L2 1:10 > 19:10; L4 2:10 > 20:10" },
};
#define CHAIN "stamp 2 [v0 1:10:0 > 19:10:0]\nstamp 4 [v0 2:10:0 > 20:10:0]\n"

static void dropped_records_are_put_back(void **state)
{
	static const char *const histories[] = { NULL, "L2 1:10 > 19:10", "L4 2:10 > 20:10", "" };

	for (size_t i = 0; i < ARRAY_LEN(histories); i++) {
		const struct recorded v = { .version = 6, .fragments = "19:10 20:10 21:10", .history = histories[i] };
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 5);
		want_history(st, &v, "Append n21:x", true, CHAIN);
		want_entry(st, ENTRY, true); /* the head's very entry */
	}
}

static void what_is_whole_stays(void **state)
{
	static const struct recorded v = { .version = 6,
					   .fragments = "19:10 20:10 21:10",
					   .history = "L2 1:10 > 19:10; L4 2:10 > 20:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 5);

	want_history(st, &v, "Append n21:x", false, CHAIN);
}

/* Its very entry is not looked into: a commit costs what it costs however long the history is, and does not fail if that is gone. */
static void an_entry_that_is_the_same_is_not_read(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10 2:10" },
		{ .version = 2, .fragments = "1:10 2:10", .pins = "a" },
		{ .version = 3,
		  .fragments = "2:10 19:10",
		  .pins = "a",
		  .history = "L2 1:10 > 19:10",
		  .external = true },
	};
	static const struct recorded v = {
		.version = 4, .fragments = "2:10 19:10 21:10", .history = "L2 1:10 > 19:10", .external = true
	};
	static const struct recorded other = { .version = 4,
					       .fragments = "2:10 19:10 21:10",
					       .history = "L2 1:10 > 19:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 3);
	struct pf_why why = PF_WHY_INIT;
	char uuid[PF_UUID_TEXT], name[128];
	bool changed;

	snprintf(name, sizeof(name), "_indices/%s/details.binpb", moves_uuid(ENTRY, uuid));
	assert_int_equal(pf_store_mem_del(st, name), 0);
	assert_int_equal(commit(st, &other, "Append n21:x", &changed, &why), -ENOENT);
	assert_int_equal(commit(st, &v, "Append n21:x", &changed, &why), 0);
	assert_false(changed);
	want_entry(st, ENTRY, true);
}

/* A client that wrote its record with the stamp that it planned on has it like that for as long as it goes on. */
static void a_copy_with_another_stamp_is_out_of_date(void **state)
{
	static const struct recorded v = { .version = 6,
					   .fragments = "19:10 20:10 21:10",
					   .history = "L1 1:10 > 19:10; L1 2:10 > 20:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 5);

	want_history(st, &v, "Append n21:x", true, CHAIN);
}

/* And is no reason for the record to go that the head has of it, needed or not. */
static void a_copy_stands_for_its_record(void **state)
{
	static const struct recorded head = {
		.version = 5, .fragments = "19:10 20:10", .pins = "c", .history = "L2 1:10 > 19:10; L4 2:10 > 20:10"
	};
	static const struct recorded v = { .version = 6, .fragments = "19:10 20:10", .history = "L1 1:10 > 19:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 4);

	recorded_put(st, &head);
	want_history(st, &v, "Append n21:x", true, CHAIN);
}

/* A trim may take what no pin needs. */
static void what_no_pin_needs_may_go(void **state)
{
	static const struct recorded head = {
		.version = 5, .fragments = "19:10 20:10", .pins = "c", .history = "L2 1:10 > 19:10; L4 2:10 > 20:10"
	};
	static const struct recorded none = { .version = 6, .fragments = "19:10 20:10" };
	static const struct recorded second = { .version = 6,
						.fragments = "19:10 20:10",
						.history = "L4 2:10 > 20:10" };
	static const struct recorded first = { .version = 6, .fragments = "19:10 20:10", .history = "L2 1:10 > 19:10" };

	for (unsigned i = 0; i < 3; i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 4);
		recorded_put(st, &head);
		want_history(st,
			     i == 0   ? &none
			     : i == 1 ? &second
				      : &first,
			     "CreateIndex rby_id", i != 1, i == 2 ? CHAIN : "stamp 4 [v0 2:10:0 > 20:10:0]\n");
	}
}

/* Nobody knows what a pin needs whose source cannot be read, so all stays. */
static void without_a_source_all_is_needed(void **state)
{
	static const struct recorded before[] = {
		{ .version = 2, .fragments = "1:10 2:10", .flags = BIT_10, .pins = "a" },
		{ .version = 3,
		  .fragments = "2:10 19:10",
		  .flags = BIT_10,
		  .pins = "a",
		  .history = "T 1:10 > 19:10",
		  .index_version = 1 },
	};
	static const struct recorded v = { .version = 4, .fragments = "2:10 19:10", .flags = BIT_10 };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 2);

	want_history(st, &v, "Append n21:x", true, " [ordered 1:10:0 > 19:10:0]\n");
}

/* A tagged history says so in both words of flags. */
static void a_tagged_history_brings_its_flag(void **state)
{
	static const struct recorded before[] = {
		{ .version = 1, .fragments = "1:10 2:10" },
		{ .version = 2,
		  .fragments = "2:10 19:10",
		  .flags = BIT_10,
		  .pins = "a",
		  .history = "T 1:10 > 19:10",
		  .index_version = 1 },
	};
	static const struct recorded v = { .version = 3, .fragments = "2:10 19:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(before, 2);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	want_history(st, &v, "Append n21:x", true, " [ordered 1:10:0 > 19:10:0]\n");
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(m->reader_flags, BIT_10);
	assert_int_equal(m->writer_flags, BIT_10 | BIT_PINS);
	assert_int_equal(m->pins.n, 1);
}

/* The history of data that comes back, or of none. */
static void restored_and_overwritten(void **state)
{
	static const struct recorded restored = { .version = 6,
						  .fragments = "2:10 19:10",
						  .history = "L2 1:10 > 19:10" };
	static const struct recorded overwritten = { .version = 7, .fragments = "21:10" };
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(chain, 5);
	struct pf_why why = PF_WHY_INIT;
	bool changed;

	want_history(st, &restored, "Restore 3", false, "stamp 2 [v0 1:10:0 > 19:10:0]\n");
	if (commit(st, &overwritten, "Overwrite c n0:x", &changed, &why) < 0)
		fail_msg("%s", why.text);
	recorded_want(st, NULL);
}

/* --- histories that are too long for their entry --- */

/* Killed at any call while it brings the file: no version names that, so that cleanup takes it once it is old, and no other. */
static void a_file_that_was_brought_for_nothing_goes(void **state)
{
	static const char uuid[] = "0badcafe-0000-4000-a000-000000000009";
	unsigned left = 0, nth = 0;
	int r;

	do {
		_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
		struct pf_store *st = cleaning_new_table();
		struct pf_next x = { .history = { (const uint8_t *)"12345", 5 } };

		snprintf(x.history_uuid, sizeof(x.history_uuid), "%s", uuid);
		cleaning_run_anew(st, 4, OLD);
		cleaning_list(st, &before);
		assert_non_null(strstr(pf_buf_str(&before), INDEX));
		pf_store_mem_fault(st, ++nth, PF_FAULT_BEFORE, -EIO, true);
		r = pf_fri_store(st, "", &x, NULL);
		heal(st);
		cleaning_list(st, &after);
		left += strstr(pf_buf_str(&after), uuid) != NULL;
		cleaning_run_anew(st, 4, OLD);
		cleaning_list(st, &after);
		assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
		cleaning_assert_whole(st);
		pf_store_free(st);
	} while (r < 0);
	assert_true(left > 1 && nth > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_nobody_recorded_is),
		cmocka_unit_test(groups_of_any_order),
		cmocka_unit_test(a_record_that_lags_is_stamped_anew),
		cmocka_unit_test(a_good_record_stays_as_it_is),
		cmocka_unit_test(what_its_record_says_counts),
		cmocka_unit_test(records_that_it_did_not_write_stay),
		cmocka_unit_test(no_group_is_covered_in_part),
		cmocka_unit_test(without_pins_it_is_the_clients_own),
		cmocka_unit_test(transitions),
		cmocka_unit_test(compactions_that_are_refused),
		cmocka_unit_test(a_movement_that_cannot_be_known),
		cmocka_unit_test(a_deletion_file_that_is_missing),
		cmocka_unit_test(dropped_records_are_put_back),
		cmocka_unit_test(what_is_whole_stays),
		cmocka_unit_test(an_entry_that_is_the_same_is_not_read),
		cmocka_unit_test(a_copy_with_another_stamp_is_out_of_date),
		cmocka_unit_test(a_copy_stands_for_its_record),
		cmocka_unit_test(what_no_pin_needs_may_go),
		cmocka_unit_test(without_a_source_all_is_needed),
		cmocka_unit_test(a_tagged_history_brings_its_flag),
		cmocka_unit_test(restored_and_overwritten),
		cmocka_unit_test(a_file_that_was_brought_for_nothing_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
