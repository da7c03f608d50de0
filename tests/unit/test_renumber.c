/* Work of a copy in the numbers of the table: what each operation says, and what cannot be said there. */
#include "core/renumber.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/row_ids.h"
#include "core/rowaddr.h"
#include "prepared.h"

#define UUID "12345678-1111-4222-8333-444444444444"

/*
 * A copy of version 5, with fragments up to 3 and row ids up to 29. It made versions 6 to 8, fragments 4 to 6 and row ids 30 to 59; in the table they are versions
 * 7, 8 and 11, fragments 4, 9 and 10, row ids 30 to 39 and 80 to 99.
 */
static void new_map(struct pf_renumber *r, bool moved)
{
	*r = (struct pf_renumber){ .fragments = { .first = 4 }, .rows = { .first = 30 }, .versions = { .first = 6 } };
	assert_int_equal(pf_shifts_add(&r->fragments, 4, 4, 1), 0);
	assert_int_equal(pf_shifts_add(&r->fragments, 5, moved ? 9 : 5, 2), 0);
	assert_int_equal(pf_shifts_add(&r->rows, 30, 30, 10), 0);
	assert_int_equal(pf_shifts_add(&r->rows, 40, moved ? 80 : 40, 20), 0);
	assert_int_equal(pf_shifts_add(&r->versions, 6, 7, 1), 0);
	assert_int_equal(pf_shifts_add(&r->versions, 7, 8, 1), 0);
	assert_int_equal(pf_shifts_add(&r->versions, 8, 11, 1), 0);
}

static uint64_t found(const struct pf_shifts *s, uint64_t number)
{
	uint64_t to;

	assert_int_equal(pf_shifts_find(s, number, &to), 0);
	return to;
}

static void numbers(void **state)
{
	_cleanup_(pf_renumber_release) struct pf_renumber r;
	uint64_t to = 77;

	new_map(&r, true);
	for (uint64_t i = 0; i <= 4; i++)
		assert_int_equal(found(&r.fragments, i), i);
	assert_int_equal(found(&r.fragments, 5), 9);
	assert_int_equal(found(&r.fragments, 6), 10);
	assert_int_equal(pf_shifts_find(&r.fragments, 7, &to), -ENOENT);
	assert_int_equal(pf_shifts_find(&r.fragments, UINT64_MAX, &to), -ENOENT);
	assert_int_equal(to, 77);
	/* What goes on in both is one range. */
	assert_int_equal(r.versions.n, 2);
	assert_int_equal(found(&r.versions, 7), 8);
	assert_int_equal(found(&r.versions, 8), 11);
	assert_true(pf_shifts_move(&r.fragments));
	pf_shifts_take_back(&r.versions);
	assert_int_equal(pf_shifts_find(&r.versions, 8, &to), -ENOENT);
	pf_shifts_take_back(&r.versions);
	assert_int_equal(pf_shifts_find(&r.versions, 7, &to), -ENOENT);
	assert_int_equal(found(&r.versions, 6), 7);
}

static int renumber(const struct pf_renumber *r, const char *text, struct pf_operation *out, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	prepared(text, 8, UUID, &o);
	int e = pf_renumber_operation(r, &o, 5, &bytes, why);
	if (e < 0)
		return e;
	assert_int_equal(pf_operation_decode(&bytes, out, why), 0);
	assert_int_equal(out->read_version, 5);
	assert_string_equal(out->uuid, UUID);
	return 0;
}

/* In the table `text` says what `expected` says, byte for byte. */
static void becomes(const char *text, const char *expected)
{
	_cleanup_(pf_renumber_release) struct pf_renumber r;
	_cleanup_(pf_operation_release) struct pf_operation is = { 0 }, want = { 0 };
	struct pf_why why = PF_WHY_INIT;

	new_map(&r, true);
	if (renumber(&r, text, &is, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	prepared(expected, 5, UUID, &want);
	if (!pf_span_eq(is.body, want.body))
		fail_msg("%s does not become %s", text, expected);
	assert_int_equal(is.number, want.number);
}

static void operations(void **state)
{
	becomes("Append n0:a.lance n0:b.lance", "Append n0:a.lance n0:b.lance");
	becomes("Overwrite n0:a.lance c", "Overwrite n0:a.lance c");
	becomes("Delete u2 u4 u5 r6", "Delete u2 u4 u9 r10");
	becomes("Delete u2 r1", "Delete u2 r1");
	becomes("Update u5 r6 n0:a.lance f1", "Update u9 r10 n0:a.lance f1");
	becomes("Update u6 f1 i", "Update u10 f1 i");
	becomes("Rewrite g1,2 g3,5,6", "Rewrite g1,2 g3,9,10");
	becomes("Merge m1 m5 m6 c", "Merge m1 m9 m10 c");
	becomes("DataReplacement d5:1 d1:1", "DataReplacement d9:1 d1:1");
	becomes("CreateIndex na:0:1,4 rb", "CreateIndex na:0:1,4 rb");
	becomes("CreateIndex na:0:1,5,6", "CreateIndex na:0:1,9,10");
	becomes("UpdateConfig ck", "UpdateConfig ck");
	becomes("Project c0 c1", "Project c0 c1");
	becomes("ReserveFragments 7", "ReserveFragments 7");
	becomes("UpdateBases b5:/x", "UpdateBases b5:/x");
}

static void unknown_numbers(void **state)
{
	_cleanup_(pf_renumber_release) struct pf_renumber r;

	new_map(&r, true);
	for (const char *const *text = (const char *const[]){ "Delete u7", "Delete r7", "Update u1 r9",
							      "Append n7:a.lance", "Rewrite g1,7", "Merge m7 c",
							      "DataReplacement d7:0", "CreateIndex na:0:1,7", NULL };
	     *text; text++) {
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(renumber(&r, *text, &o, &why), -EINVAL);
		assert_non_null(strstr(why.text, "which no version of the copy gave"));
	}
}

/* An Update of fragment 5 as it is afterwards, with these rows. */
static void put_update(const uint64_t *ids, const uint64_t *made, const uint64_t *updated, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, fragment = PF_BUF_INIT, sequence = PF_BUF_INIT,
						whole = PF_BUF_INIT;
	struct pf_message walk;
	struct pf_member m;

	prepared_fragment(&fragment, 2, 5, "a.lance", n, 0);
	pf_message_init(&walk, PF_SPAN_OF(&fragment));
	assert_int_equal(pf_message_next(&walk, &m, NULL), 1);
	assert_int_equal(pf_buf_add(&whole, m.value.p, m.value.n), 0);
	assert_int_equal(pf_row_ids_put(ids, n, &sequence), 0);
	assert_int_equal(pf_put_span(&whole, 5, PF_SPAN_OF(&sequence)), 0);
	pf_buf_reset(&sequence);
	assert_int_equal(pf_row_versions_put(updated, n, &sequence), 0);
	assert_int_equal(pf_put_span(&whole, 7, PF_SPAN_OF(&sequence)), 0);
	pf_buf_reset(&sequence);
	assert_int_equal(pf_row_versions_put(made, n, &sequence), 0);
	assert_int_equal(pf_put_span(&whole, 9, PF_SPAN_OF(&sequence)), 0);
	assert_int_equal(pf_put_span(&body, 2, PF_SPAN_OF(&whole)), 0);
	assert_int_equal(pf_wire_put_u64(out, 1, 8), 0);
	assert_int_equal(pf_wire_put_bytes(out, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_put_span(out, 108, PF_SPAN_OF(&body)), 0);
}

static void want_numbers(const struct pf_numbers *l, const uint64_t *expected, size_t n)
{
	assert_int_equal(l->n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(l->v[i], expected[i]);
}

static void rows_of_fragments(void **state)
{
	const uint64_t ids[] = { 3, 35, 40, 59 }, made[] = { 2, 6, 7, 8 }, updated[] = { 8, 8, 5, 7 };
	_cleanup_(pf_renumber_release) struct pf_renumber r;
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, out = PF_BUF_INIT;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 }, is = { 0 };
	_cleanup_(pf_numbers_release) struct pf_numbers a = { 0 }, b = { 0 }, c = { 0 };

	new_map(&r, true);
	put_update(ids, made, updated, 4, &bytes);
	assert_int_equal(pf_operation_decode(&bytes, &o, NULL), 0);
	assert_int_equal(pf_renumber_operation(&r, &o, 5, &out, NULL), 0);
	assert_int_equal(pf_operation_decode(&out, &is, NULL), 0);
	assert_int_equal(is.updated.n, 1);
	const struct pf_fragment *f = &is.updated.v[0];
	assert_int_equal(f->id, 9);
	assert_int_equal(f->physical_rows, 4);
	assert_int_equal(pf_row_ids_read(f->row_ids.bytes, 4, &a, NULL), 0);
	want_numbers(&a, (const uint64_t[]){ 3, 35, 80, 99 }, 4);
	assert_int_equal(pf_row_versions_read(f->created_at.bytes, 4, &b, NULL), 0);
	want_numbers(&b, (const uint64_t[]){ 2, 7, 8, 11 }, 4);
	assert_int_equal(pf_row_versions_read(f->updated_at.bytes, 4, &c, NULL), 0);
	want_numbers(&c, (const uint64_t[]){ 11, 11, 5, 8 }, 4);
}

/* An index was built on version 8 of the copy, 11 of the table, but before that others moved rows, in version 10. */
static void when_an_index_was_built(void **state)
{
	static const struct {
		uint64_t said, moved, is;
	} rows[] = { { 5, 0, 5 }, { 6, 0, 7 }, { 8, 0, 11 }, { 8, 10, 9 }, { 8, 6, 5 }, { 6, 10, 7 }, { 5, 6, 5 } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_renumber_release) struct pf_renumber r;
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 }, is = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT, body = PF_BUF_INIT, bytes = PF_BUF_INIT,
							out = PF_BUF_INIT;
		new_map(&r, true);
		if (rows[i].moved)
			assert_int_equal(pf_numbers_add(&r.moves, rows[i].moved), 0);
		prepared("CreateIndex na:0:1", 8, UUID, &o);
		assert_int_equal(pf_buf_add(&index, o.new_entries[0].p, o.new_entries[0].n), 0);
		assert_int_equal(pf_wire_put_u64(&index, 4, rows[i].said), 0);
		assert_int_equal(pf_put_span(&body, 1, PF_SPAN_OF(&index)), 0);
		assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
		assert_int_equal(pf_put_span(&bytes, 103, PF_SPAN_OF(&body)), 0);
		pf_operation_release(&o);
		assert_int_equal(pf_operation_decode(&bytes, &o, NULL), 0);
		assert_int_equal(pf_renumber_operation(&r, &o, 5, &out, NULL), 0);
		assert_int_equal(pf_operation_decode(&out, &is, NULL), 0);
		assert_int_equal(is.new_indices.v[0].dataset_version, rows[i].is);
	}
}

static void index_files(void **state)
{
	static const struct {
		const char *text;
		bool moved, stable, fits;
	} rows[] = {
		{ "CreateIndex na:0:1,4", true, false, true },
		{ "CreateIndex na:0:1,5", true, false, false },
		{ "CreateIndex na:0:1,5", false, false, true },
		{ "CreateIndex na:0:-", true, false, false },
		{ "CreateIndex na:0:-", false, false, true },
		{ "CreateIndex na:0:1 nb:1:6", true, false, false },
		{ "CreateIndex ra", true, false, true },
		{ "CreateIndex na:0:1,2", true, true, true },
		/* Whose row ids fragment 4 has is not looked up. */
		{ "CreateIndex na:0:1,4", true, true, false },
		{ "CreateIndex na:0:1,5", false, true, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_renumber_release) struct pf_renumber r;
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		struct pf_why why = PF_WHY_INIT;
		new_map(&r, rows[i].moved);
		r.stable = rows[i].stable;
		prepared(rows[i].text, 8, UUID, &o);
		int e = pf_renumber_check_indices(&r, &o, &why);
		if (e != (rows[i].fits ? 0 : -EOPNOTSUPP))
			fail_msg("%s: %d, %s", rows[i].text, e, why.text);
		assert_true(rows[i].fits || strstr(why.text, "--skip-indices"));
	}
}

#define OLD "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define NEW "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"

static void put_uuid(struct pf_buf *b, uint32_t number, uint8_t byte)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
	uint8_t v[16];

	memset(v, byte, sizeof(v));
	v[6] = (uint8_t)(0x40 | (byte & 0xf));
	v[8] = (uint8_t)(0x80 | (byte & 0xf));
	assert_int_equal(pf_wire_put_bytes(&message, 1, v, sizeof(v)), 0);
	assert_int_equal(pf_put_span(b, number, PF_SPAN_OF(&message)), 0);
}

static void decode(unsigned number, const struct pf_buf *body, struct pf_operation *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_put_span(&bytes, number, PF_SPAN_OF(body)), 0);
	assert_int_equal(pf_operation_decode(&bytes, out, NULL), 0);
}

/* A compaction remapped index aa to bb, whose files do not fit: the table keeps aa, and what the copy says of bb is meant of it. */
static void remapped_indices(void **state)
{
	for (int moved = 0; moved < 2; moved++) {
		_cleanup_(pf_renumber_release) struct pf_renumber r;
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 }, is = { 0 }, drop = { 0 },
								    dropped = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, swap = PF_BUF_INIT, out = PF_BUF_INIT,
							removed = PF_BUF_INIT, index = PF_BUF_INIT, more = PF_BUF_INIT;
		new_map(&r, moved);
		put_uuid(&swap, 1, 0xaa);
		put_uuid(&swap, 2, 0xbb);
		prepared_body("Rewrite g1,5", &body);
		assert_int_equal(pf_put_span(&body, 4, PF_SPAN_OF(&swap)), 0);
		decode(104, &body, &o);
		assert_int_equal(o.n_swaps, 1);
		assert_int_equal(pf_renumber_drops(&r, &o), moved);
		assert_int_equal(pf_renumber_operation(&r, &o, 5, &out, NULL), 0);
		assert_int_equal(pf_operation_decode(&out, &is, NULL), 0);
		assert_int_equal(is.n_swaps, !moved);
		assert_int_equal(is.groups[0].from.v[1].id, moved ? 9 : 5);

		assert_int_equal(pf_renumber_remember(&r, &o), 0);
		put_uuid(&index, 1, 0xbb);
		assert_int_equal(pf_wire_put_bytes(&index, 3, "x", 1), 0);
		assert_int_equal(pf_put_span(&removed, 2, PF_SPAN_OF(&index)), 0);
		decode(103, &removed, &drop);
		assert_string_equal(drop.removed_indices.v[0].uuid, NEW);
		assert_int_equal(pf_renumber_operation(&r, &drop, 5, &more, NULL), 0);
		assert_int_equal(pf_operation_decode(&more, &dropped, NULL), 0);
		assert_string_equal(dropped.removed_indices.v[0].uuid, moved ? OLD : NEW);
	}
}

static void moved_rows(void **state)
{
	const uint64_t lengths[] = { 3, 7, 2 };
	_cleanup_(pf_renumber_release) struct pf_renumber r;
	_cleanup_(pf_rows_release) struct pf_rows rows = { NULL }, is = { NULL };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, out = PF_BUF_INIT;

	new_map(&r, true);
	rows.fragment = calloc(3, sizeof(*rows.fragment));
	rows.offsets = calloc(3, sizeof(*rows.offsets));
	assert_true(rows.fragment && rows.offsets);
	for (; rows.n < 3; rows.n++) {
		rows.fragment[rows.n] = (const uint32_t[]){ 2, 4, 5 }[rows.n];
		assert_int_equal(pf_bitmap_below(lengths[rows.n], &rows.offsets[rows.n]), 0);
	}
	assert_int_equal(pf_rows_encode(&rows, &bytes), 0);
	assert_int_equal(pf_renumber_rows(&r, PF_SPAN_OF(&bytes), &out, NULL), 0);
	assert_int_equal(pf_rows_decode(out.data, out.len, false, &is, NULL), 0);
	assert_int_equal(is.n, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(is.fragment[i], ((const uint32_t[]){ 2, 4, 9 }[i]));
		assert_int_equal(pf_bitmap_count(is.offsets[i]), lengths[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(operations),
		cmocka_unit_test(unknown_numbers),
		cmocka_unit_test(rows_of_fragments),
		cmocka_unit_test(when_an_index_was_built),
		cmocka_unit_test(index_files),
		cmocka_unit_test(remapped_indices),
		cmocka_unit_test(moved_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
