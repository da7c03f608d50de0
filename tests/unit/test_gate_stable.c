/* A30: the gate on tables with stable row ids, where no record can be: rows are followed by their ids, which must be those of the old fragments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/work.h"

#include "pinned.h"
#include "prepared.h"
#include "world.h"

#define UUID  "12345678-1111-4222-8333-444444444444"
#define BIT_1 UINT64_C(2)

/* Row ids from `first` up to `end`, which is none of them; ends a list: both 0. */
struct ids {
	unsigned first, end;
};

static void put(struct pf_buf *out, uint32_t number, const struct pf_buf *message)
{
	assert_int_equal(pf_wire_put_bytes(out, number, message->data, message->len), 0);
}

static void put_ids(const struct ids *v, struct pf_buf *out, unsigned *rows)
{
	for (*rows = 0; v->end; v++) {
		_cleanup_(pf_buf_release) struct pf_buf range = PF_BUF_INIT, segment = PF_BUF_INIT;

		pf_wire_put_u64(&range, 1, v->first);
		pf_wire_put_u64(&range, 2, v->end);
		put(&segment, 1, &range);
		put(out, 1, &segment);
		*rows += v->end - v->first;
	}
}

static void put_fragment(struct pf_buf *out, uint32_t number, uint64_t id, const struct ids *v, unsigned deleted)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, fragment = PF_BUF_INIT, ids = PF_BUF_INIT;
	unsigned rows, used = 1;

	put_ids(v, &ids, &rows);
	prepared_fragment(&message, 1, id, id ? PREPARED_OLD : "new.lance", rows, deleted);
	/* What stands behind its tag and its length, and the row ids. */
	while (message.data[used++] & 0x80)
		;
	assert_int_equal(pf_buf_add(&fragment, message.data + used, message.len - used), 0);
	put(&fragment, 5, &ids);
	put(out, number, &fragment);
}

/* Fragments 1 and 2 with the ids 0 to 4 and 7 to 9, the first row of 2 deleted; and a pin. */
static const struct ids one[] = { { 0, 5 }, { 0, 0 } }, two[] = { { 7, 10 }, { 0, 0 } };

static struct pf_store *new_store(void)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	static const struct table_version none = { .version = 1 };
	struct pf_store *st = table_new(0, &none);

	prepared_body("Project c0 c1 c2", &extra);
	put_fragment(&extra, 2, 1, one, 0);
	put_fragment(&extra, 2, 2, two, 1);
	pf_wire_put_u64(&extra, 11, 2);
	pf_wire_put_u64(&extra, 14, 10);
	for (uint64_t v = 1; v <= 2; v++) {
		const struct table_version t = {
			.version = v, .reader_flags = BIT_1, .writer_flags = BIT_1 | BIT_PINS, .extra = &extra
		};
		pinned_put(st, &t, &(struct pinned){ .pins = v > 1 ? "a" : NULL });
	}
	pf_store_mem_put(st, "data/new.lance", "x", 1);
	prepared_deletions(st, 2, 1);
	return st;
}

static int rewrite(struct pf_store *st, const struct ids *to, bool dry_run, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT, body = PF_BUF_INIT, bytes = PF_BUF_INIT;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	const struct pf_work w = { .operation = &o, .dry_run = dry_run, .records = true };
	struct pf_work_result result;

	put_fragment(&group, 1, 1, one, 0);
	put_fragment(&group, 1, 2, two, 1);
	put_fragment(&group, 2, 0, to, 0);
	put(&body, 3, &group);
	pf_wire_put_u64(&bytes, 1, 2);
	pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID));
	put(&bytes, 104, &body);
	assert_int_equal(pf_operation_decode(&bytes, &o, NULL), 0);
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	return pf_work_commit(b, &w, &result, why);
}

static void row_ids(void **state)
{
	static const struct {
		struct ids to[4];
		const char *refused;
	} rows[] = {
		{ { { 0, 5 }, { 8, 10 } }, NULL },
		{ { { 0, 2 }, { 2, 5 }, { 8, 10 } }, NULL },
		/* A deleted row, and not one that is live. */
		{ { { 0, 5 }, { 7, 8 }, { 9, 10 } }, "row 1 of fragment 2 has row id 8, which does not follow" },
		{ { { 8, 10 }, { 0, 5 } }, "row 0 of fragment 1 has row id 0, which does not follow" },
		{ { { 0, 4 }, { 7, 10 } }, "row 4 of fragment 1 has row id 4" },
		{ { { 0, 5 }, { 8, 9 }, { 10, 11 } }, "row 2 of fragment 2 has row id 9" },
		{ { { 0, 5 }, { 8, 11 } }, "group 0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_store();
		_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;

		table_list(st, ".", &before);
		/* Asked beforehand, and again: the same, and nothing is written. */
		for (int times = 0; times < 2; times++) {
			int r = rewrite(st, rows[i].to, true, &why);
			if (r != (rows[i].refused ? -EINVAL : 0) ||
			    !strstr(why.text, rows[i].refused ? rows[i].refused : ""))
				fail_msg("row %zu: %d, %s", i, r, why.text);
		}
		if (rows[i].refused)
			assert_int_equal(rewrite(st, rows[i].to, false, &why), -EINVAL);
		table_list(st, ".", &after);
		assert_string_equal(pf_buf_str(&after), pf_buf_str(&before));
		if (!rows[i].refused)
			assert_int_equal(rewrite(st, rows[i].to, false, &why), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(row_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
