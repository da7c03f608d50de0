/* Where rows went, by a fragment reuse history; among them those of histories that released Lance wrote. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri.h"

#include "fixture.h"
#include "moves.h"

#define AT(fragment, row) (UINT64_C(fragment) << 32 | (row))

static int decode_text(const char *text, int32_t version, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	moves_content(text, &bytes);
	return pf_fri_decode(&bytes, version, out, why);
}

static void test_translate(void **state)
{
	/* 0: rows 1, 2 and 4 of 0 to 5 live, 1: all 3. Concatenated: 0.1 0.2 0.4 1.0 1.1 1.2, cut 2, 0, 4. */
	static const char one[] = "L1 0:6:3 1:3 > 6:2 7:0 8:4 @ 0:1-2 0:4-4 1:0-2";
	/* Sources in the order 2, 1: the rows of 2 come first. */
	static const char backwards[] = "T 2:2 1:2 > 3:4";
	/* Stored the wrong way round: 1 -> 2 -> 3. A tagged history is followed by lineage, a v0 one record by record. */
	static const char turned[] = "L9 2:2 > 3:2; L8 1:2 > 2:2";
	/* 1 moved, and its id used again for other rows, which moved too. */
	static const char again[] = "L1 1:2 > 2:2; L2 3:2 > 1:2; L3 1:2 > 4:2";
	static const struct {
		const char *text;
		int32_t version;
		uint64_t from, to;
	} rows[] = {
		{ one, 0, AT(0, 1), AT(6, 0) },
		{ one, 0, AT(0, 2), AT(6, 1) },
		{ one, 0, AT(0, 4), AT(8, 0) },
		{ one, 0, AT(1, 0), AT(8, 1) },
		{ one, 0, AT(1, 2), AT(8, 3) },
		{ one, 0, AT(0, 0), PF_ROW_GONE },
		{ one, 0, AT(0, 3), PF_ROW_GONE },
		{ one, 0, AT(0, 5), PF_ROW_GONE },
		/* Not rows of it, not fragments of it: unchanged, as Lance has it. */
		{ one, 0, AT(0, 6), AT(0, 6) },
		{ one, 0, AT(2, 0), AT(2, 0) },
		{ one, 0, AT(6, 0), AT(6, 0) },
		{ one, 1, AT(1, 2), AT(8, 3) },
		{ one, 1, AT(0, 6), AT(0, 6) },
		{ one, 0, PF_ROW_GONE, PF_ROW_GONE },
		{ backwards, 1, AT(2, 0), AT(3, 0) },
		{ backwards, 1, AT(1, 0), AT(3, 2) },
		{ turned, 0, AT(1, 1), AT(2, 1) },
		{ turned, 1, AT(1, 1), AT(3, 1) },
		{ again, 0, AT(1, 0), AT(2, 0) },
		{ again, 0, AT(3, 1), AT(4, 1) },
		{ "L1 0:2 1:1 > 5:3; L2 5:3 4:1 > 6:4; T 6:4 > 7:1 8:3", 1, AT(1, 0), AT(8, 1) },
		/* A28: everything zero. */
		{ "L0 0:1 > 1:1", 0, AT(0, 0), AT(1, 0) },
		{ "L0 1:1 > 0:1", 0, AT(1, 0), AT(0, 0) },
		/* All rows of a fragment deleted. */
		{ "T 3:2:2 1:1 > 2:1", 1, AT(3, 1), PF_ROW_GONE },
		{ "T 3:2:2 >", 1, AT(3, 1), PF_ROW_GONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		uint64_t addr = rows[i].from;

		if (decode_text(rows[i].text, rows[i].version, &f, &why) < 0 ||
		    pf_fri_translate(&f, &addr, 1, &why) < 0)
			fail_msg("%s: %s", rows[i].text, why.text);
		if (addr != rows[i].to)
			fail_msg("%s: %lu.%lu goes to %lu.%lu", rows[i].text, rows[i].from >> 32,
				 rows[i].from & UINT32_MAX, addr >> 32, addr & UINT32_MAX);
	}
}

static void test_translate_partition(void **state)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;
	uint64_t addrs[] = { AT(9, 0), AT(1, 0) };

	assert_int_equal(decode_text("T 1:2 > 2:2; P 2:2 > 3:1 4:1; T 9:1 > 8:1", 1, &f, NULL), 0);
	assert_int_equal(pf_fri_translate(&f, addrs, 1, &why), 0);
	assert_int_equal(addrs[0], AT(8, 0));
	assert_int_equal(pf_fri_translate(&f, addrs, 2, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "record 1: where its rows went is in _fri/0badcafe-0000-4000-9000-000000000001/, "
				      "which is not read here");
}

/* --- what released Lance wrote -------------------------------------------------------------------------------------- */

/*
 * Fragments 0 to 3 of 4, 4, 10 and 10 rows; row 2 of 0 deleted; then 0 and 1 compacted into 4, 4 rows appended as 5, and all that is below 100
 * rows compacted: by 12 and newer with 4, by older ones without. Stamps are two and one below the version that published.
 */
static void test_fixtures(void **state)
{
	static const char old[] = "stamp 6 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 9 [v0 2:10:0 3:10:0 > 6:20:0]\n";
	static const struct {
		const char *key, *history;
		uint64_t row_1_of_1; /* id 6, where it is at last */
	} rows[] = {
		{ "4.0.1/fri.lance", old, AT(4, 4) },
		{ "8.0.1/fri.lance", old, AT(4, 4) },
		{ "12.0.0/fri.lance", "stamp 6 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 9 [v0 2:10:0 3:10:0 4:7:0 > 6:27:0]\n",
		  AT(6, 24) },
		{ "14.0.2/fri.lance", "stamp 7 [v0 0:4:1 1:4:0 > 4:7:0]\nstamp 10 [v0 2:10:0 3:10:0 4:7:0 > 6:27:0]\n",
		  AT(6, 24) },
	};
	json_t *all = fixture_expected();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(rows[i].key);
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		uint64_t addrs[] = { AT(1, 1), AT(0, 2), AT(0, 0) };
		json_t *versions = fixture_get(json_object_get(all, rows[i].key), "versions");

		if (pf_manifest_open(st,
				     fixture_str(json_array_get(versions, json_array_size(versions) - 1), "manifest"),
				     &m, &why) < 0 ||
		    pf_fri_read(st, "", m, NULL, &f, &why) < 0)
			fail_msg("%s", why.text);
		assert_int_equal(f.index_version, 0);
		assert_false(f.unsupported);
		moves_assert_history(&f, rows[i].history);
		assert_int_equal(pf_fri_translate(&f, addrs, ARRAY_LEN(addrs), &why), 0);
		assert_int_equal(addrs[0], rows[i].row_1_of_1);
		assert_int_equal(addrs[1], PF_ROW_GONE);
		assert_int_equal(addrs[2], rows[i].row_1_of_1 - 4);
	}
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_translate),
		cmocka_unit_test(test_translate_partition),
		cmocka_unit_test(test_fixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
