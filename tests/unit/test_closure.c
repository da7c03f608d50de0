/* Which records pins and indices need: by hand, and by the tables that were measured on Lance 14 (lance-14-fri section 5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/closure.h"

#include "moves.h"

/* --- pins, by hand -------------------------------------------------------------------------------------------------- */

#define RECORDS_MAX 64

/* `0 1<0:6` : record 0 by a source fragment or a stamp, record 1 because record 0 made fragment 6; `?` if ambiguous. */
static void describe(const struct pf_fri *f, const struct pf_fri_need *needs, struct pf_buf *out)
{
	for (size_t i = 0; i < f->n_records; i++) {
		if (!needs[i].needed)
			continue;
		pf_buf_addf(out, "%s%zu%s", out->len ? " " : "", i, needs[i].ambiguous ? "?" : "");
		if (needs[i].via != SIZE_MAX)
			pf_buf_addf(out, "<%zu:%u", needs[i].via, needs[i].fragment);
	}
}

struct pin_row {
	const char *text;
	int32_t version;
	uint64_t source;
	uint32_t fragments[8];
	uint64_t rows[8];
	size_t n;
	const char *needed;
};

static void check_pin(const struct pin_row *row)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf found = PF_BUF_INIT;
	struct pf_fri_need needs[RECORDS_MAX];
	struct pf_why why = PF_WHY_INIT;
	const struct pf_fri_pin pin = {
		.source_version = row->source,
		.fragments = row->n ? row->fragments : NULL,
		.rows = row->rows[0] ? row->rows : NULL,
		.n_fragments = row->n,
	};

	moves_decode(row->text, row->version, &f);
	if (pf_closure_pin(&f, &pin, needs, &why) < 0)
		fail_msg("%s: %s", row->text, why.text);
	describe(&f, needs, &found);
	if (strcmp(pf_buf_str(&found), row->needed) != 0)
		fail_msg("%s, from %lu: %s, expected %s", row->text, row->source, pf_buf_str(&found), row->needed);
}

static void test_pin(void **state)
{
	/* A31 */
	static const char v0[] = "L4 0:1 > 1:1; L5 1:1 > 2:1; L6 2:1 > 3:1";
	/* The chain of lance-14-fri section 5. */
	static const char chain[] = "T 0:2 1:2 > 6:2 7:2; T 2:2 6:2 > 8:2 9:2; T 4:1 5:1 > 10:2";
	/* A legacy record is kept whole: group 0 brings group 1, and what follows from it. */
	static const char mixed[] = "L5 0:1 > 5:1 | 1:1 > 6:1; T 6:1 > 7:1; T 2:1 > 8:1; P 8:1 > 9:1";
	static const struct pin_row rows[] = {
		{ v0, 0, 5, { 0 }, { 0 }, 0, "1 2" },
		{ v0, 0, 4, { 0 }, { 0 }, 0, "0 1 2" },
		{ v0, 0, 6, { 0 }, { 0 }, 0, "2" },
		{ v0, 0, 7, { 0 }, { 0 }, 0, "" },
		/* By stamps also where fragments are known: 9 was never moved. */
		{ v0, 0, 5, { 9 }, { 0 }, 1, "1 2" },
		/* A28: stamp 0, version 0, fragment 0. */
		{ "L0 0:1 > 1:1", 0, 0, { 0 }, { 0 }, 0, "0" },
		{ "L0 0:1 > 1:1", 0, 1, { 0 }, { 0 }, 0, "" },
		{ "L0 0:1 > 1:1", 1, 1, { 0 }, { 0 }, 1, "0" },
		{ chain, 1, 1, { 0 }, { 0 }, 1, "0 1<0:6" },
		{ chain, 1, 1, { 1 }, { 0 }, 1, "0 1<0:6" },
		{ chain, 1, 1, { 2 }, { 0 }, 1, "1" },
		{ chain, 1, 1, { 4 }, { 0 }, 1, "2" },
		{ chain, 1, 1, { 0, 1, 2, 4, 5 }, { 0 }, 5, "0 1 2" },
		/* What a record made is not where it came from. */
		{ chain, 1, 1, { 7 }, { 0 }, 1, "" },
		{ chain, 1, 1, { 6, 7 }, { 0 }, 2, "1" },
		{ chain, 1, 1, { 3, 8, 9, 10, UINT32_MAX }, { 0 }, 5, "" },
		{ "T 2:2 6:2 > 8:2 9:2; T 0:2 1:2 > 6:2 7:2", 1, 1, { 0 }, { 0 }, 1, "0<1:6 1" },
		{ mixed, 1, 1, { 0 }, { 0 }, 1, "0 1<0:6" },
		{ mixed, 1, 1, { 1 }, { 0 }, 1, "0 1<0:6" },
		{ mixed, 1, 1, { 2 }, { 0 }, 1, "2 3<2:8" },
		/* Stamps say nothing in a mixed history. */
		{ mixed, 1, 6, { 0 }, { 0 }, 1, "0 1<0:6" },
		{ mixed, 1, 1, { 9 }, { 0 }, 1, "" },
		/* Fragment 0 of the source had 3 rows, the one that was moved 2: the id was used twice. */
		{ chain, 1, 1, { 0 }, { 3 }, 1, "0? 1?<0:6" },
		{ chain, 1, 1, { 0 }, { 2 }, 1, "0 1<0:6" },
		{ chain, 1, 1, { 0, 1 }, { 3, 2 }, 2, "0 1<0:6" },
		{ chain, 1, 1, { 0, 2 }, { 3, 2 }, 2, "0? 1" },
		/* A manifest that does not say how many rows there were settles nothing, and is no sign of anything. */
		{ chain, 1, 1, { 1, 4 }, { 2, 0 }, 2, "0 1<0:6 2" },
		/* The shortest way is told. */
		{ "T 0:2 > 1:1 2:1; T 1:1 > 3:1; T 3:1 2:1 > 4:2", 1, 1, { 0 }, { 0 }, 1, "0 1<0:1 2<0:2" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_pin(&rows[i]);
}

static void test_refused(void **state)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri strange = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri empty = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	const struct pf_fri_pin pin = { .source_version = 3 };
	const struct pf_indices none = { 0 };
	struct pf_fri_need needs[2];
	struct pf_why why = PF_WHY_INIT;
	bool needed[2];
	size_t by[2];

	moves_decode("T 0:1 > 1:1", 1, &f);
	assert_int_equal(pf_closure_pin(&f, &pin, needs, &why), -EINVAL);
	assert_string_equal(why.text, "the fragments of version 3 are needed");
	moves_decode("", 1, &empty);
	assert_int_equal(pf_closure_pin(&empty, &pin, needs, &why), 0);

	moves_content("L5 0:1 > 1:1", &bytes);
	assert_int_equal(pf_buf_add(&bytes, "\x1a\x00", 2), 0);
	assert_int_equal(pf_fri_decode(&bytes, 0, &strange, NULL), 0);
	assert_int_equal(pf_closure_pin(&strange, &pin, needs, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, "what is needed of the fragment reuse history cannot be told: "
				      "offset 45: field 3 of the history is not known");
	assert_int_equal(pf_closure_consumers(&strange, &none, needed, by, &why), -EOPNOTSUPP);
}

/* --- indices, by hand ----------------------------------------------------------------------------------------------- */

#define BTREE "/lance.table.BTreeIndexDetails"

/* name/dataset_version/fragments, separated by `;`; fragments: `0 1`, `-` for no bitmap, `!` for a damaged one. A `*` before the name: of no known type. */
static void make_indices(const char *text, struct pf_indices *out)
{
	static struct pf_index v[8];

	*out = (struct pf_indices){ v, 0 };
	while (*text) {
		struct pf_index *x = &v[out->n++];
		bool unknown = *text == '*';
		uint32_t fragments[16];
		size_t n = 0;
		char name[32];
		int used;

		text += unknown;
		assert_int_equal(sscanf(text, "%31[^/]/%lu/%n", name, &x->dataset_version, &used), 2);
		*x = (struct pf_index){ .dataset_version = x->dataset_version };
		x->name = strdup(name);
		x->details_type = strdup(unknown ? "/x.Y" : BTREE);
		moves_uuid(out->n, x->uuid);
		text += used;
		for (; *text && *text != ';'; text += used) {
			used = 1;
			if (*text == '!') {
				assert_int_equal(pf_buf_addstr(&x->bitmap, "?"), 0);
				x->has_bitmap = true;
			} else if (*text != '-' && *text != ' ') {
				assert_int_equal(sscanf(text, "%u%n", &fragments[n++], &used), 1);
				x->has_bitmap = true;
			}
		}
		if (n > 0) {
			struct pf_bitmap *b = NULL;

			assert_int_equal(pf_bitmap_from(fragments, n, &b), 0);
			assert_int_equal(pf_bitmap_encode(b, &x->bitmap), 0);
			pf_bitmap_free(b);
		}
		text += *text == ';';
	}
}

static void free_indices(struct pf_indices *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].name);
		free(l->v[i].details_type);
		pf_buf_release(&l->v[i].bitmap);
	}
}

static void test_consumers(void **state)
{
	static const char v0[] = "L5 0:2 1:2 > 6:4; L7 6:4 2:2 > 8:6";
	static const char chain[] = "T 0:2 1:2 > 6:2 7:2; T 2:2 6:2 > 8:2 9:2; T 4:1 5:1 > 10:2";
	static const char mixed[] = "L5 0:2 1:2 > 6:4 | 30:1 > 31:1; T 6:4 2:2 > 8:6; T 31:1 > 32:1; T 40:1 > 41:1";
	static const char straddled[] =
		"index \"a\", 0badcafe-0000-4000-a000-000000000001: it covers some but not all of the "
		"fragments that were compacted together; rebuild it";
	static const char damaged[] =
		"index \"a\", 0badcafe-0000-4000-a000-000000000001: its fragment bitmap is damaged: "
		"offset 0: expected 4 bytes of a cookie, found 1; rebuild it";
	static const struct {
		const char *text;
		int32_t version;
		const char *indices, *needed; /* record<index */
		const char *why;
	} rows[] = {
		/* Nobody there. */
		{ v0, 0, "", "" },
		{ v0, 0, "__lance_frag_reuse/1/0 1;__lance_mem_wal/1/0", "" },
		/* Behind: with the bitmap as it was, and with what an ordinary commit made of it. */
		{ v0, 0, "a/4/0 1 2 3", "0<0 1<0" },
		{ v0, 0, "a/4/3 8", "0<0 1<0" },
		{ v0, 0, "a/4/3 8;b/4/3 8", "0<0 1<0" },
		{ v0, 0, "a/4/3 6 2", "0<0 1<0" },
		/* One of two caught up, or both; after the first record, or after both. */
		{ v0, 0, "a/9/3 8;b/4/0 1 2 3", "0<1 1<1" },
		{ v0, 0, "a/9/3 8;b/9/8", "" },
		{ v0, 0, "a/6/3 6 2", "1<0" },
		/* Elsewhere, however old. */
		{ v0, 0, "a/1/3 4", "" },
		/* The stamp is included. */
		{ v0, 0, "a/5/3 8", "0<0 1<0" },
		{ v0, 0, "a/7/3 8", "1<0" },
		{ v0, 0, "a/8/3 8", "" },
		/* Younger than the stamp and still on the sources. */
		{ v0, 0, "a/9/0 1", "0<0" },
		{ v0, 0, "a/9/6 2", "1<0" },
		/* Without a bitmap it counts while it is no younger. */
		{ v0, 0, "a/5/-", "0<0 1<0" },
		{ v0, 0, "a/6/-", "1<0" },
		{ v0, 0, "a/9/-", "" },
		/* A26: half a group. Lance drops the record. */
		{ v0, 0, "a/9/0 3", "0<0", straddled },
		{ v0, 0, "a/9/0 3;b/9/2", "0<0 1<1", straddled },
		/* Only where it is what decides. */
		{ v0, 0, "a/4/0 3", "0<0 1<0" },
		{ v0, 0, "a/9/!;b/9/8", "0<0 1<0", damaged },
		/* Provenance on the sources; after a remap the bitmap has what is alive. */
		{ chain, 1, "a/9/0 1 2 3 4 5", "0<0 1<0 2<0" },
		{ chain, 1, "a/9/3 7 8 9 10", "" },
		{ chain, 1, "a/9/0 1", "0<0 1<0" },
		{ chain, 1, "b/9/3;a/9/0 1", "0<1 1<1" },
		{ chain, 1, "a/9/2", "1<0" },
		{ chain, 1, "a/9/6", "1<0" },
		/* Versions do not matter, and what has no bitmap needs nothing. */
		{ chain, 1, "a/1/7 8 9 10", "" },
		{ chain, 1, "a/1/-", "" },
		{ chain, 1, "__lance_mem_wal/1/0", "" },
		/* Segments of one index: another one answers for all that became of the rows, or for some, or cannot answer. */
		{ chain, 1, "a/9/4 5;a/9/10", "" },
		{ chain, 1, "a/9/0 1;a/9/6 7", "1<1" },
		{ chain, 1, "a/9/0 1;a/9/7", "0<0 1<0" },
		{ chain, 1, "a/9/4 5;*a/9/10", "2<0" },
		{ chain, 1, "a/9/4 5;b/9/10", "2<0" },
		{ chain, 1, "b/9/4 5 10;a/9/5", "2<1" },
		{ chain, 1, "*a/9/4", "2<0" },
		{ chain, 1, "b/9/3;a/9/10;a/9/5", "" },
		{ chain, 1, "b/9/5;a/9/10;a/9/5", "2<0" },
		{ chain, 1, "a/9/!", "0<0 1<0 2<0", damaged },
		{ "T 0:2:2 >", 1, "a/9/0", "" },
		/* Mixed: legacy records by the v0 rule, whole, and whatever follows from them. */
		{ mixed, 1, "a/4/0 1 2 3 30 40", "0<0 1<0 2<0 3<0" },
		{ mixed, 1, "a/9/8 32 41", "" },
		{ mixed, 1, "a/9/30", "0<0 1<0 2<0" },
		{ mixed, 1, "a/9/2;b/9/40", "1<0 3<1" },
		{ mixed, 1, "a/3/40", "3<0" }, /* apart from the legacy chain */
		{ mixed, 1, "a/5/41 6", "0<0 1<0 2<0" },
		{ mixed, 1, "a/9/0 3", "0<0 1<0 2<0", straddled },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf found = PF_BUF_INIT;
		struct pf_indices list;
		struct pf_why why = PF_WHY_INIT;
		bool needed[RECORDS_MAX];
		size_t by[RECORDS_MAX];

		moves_decode(rows[i].text, rows[i].version, &f);
		make_indices(rows[i].indices, &list);
		int r = pf_closure_consumers(&f, &list, needed, by, &why);
		for (size_t k = 0; k < f.n_records; k++) {
			if (needed[k])
				pf_buf_addf(&found, "%s%zu<%zu", found.len ? " " : "", k, by[k]);
			else
				assert_int_equal(by[k], SIZE_MAX);
		}
		if (strcmp(pf_buf_str(&found), rows[i].needed) != 0)
			fail_msg("%s for %s: %s, expected %s", rows[i].text, rows[i].indices, pf_buf_str(&found),
				 rows[i].needed);
		assert_int_equal(r, rows[i].why ? -EBADMSG : 0);
		assert_string_equal(why.text, rows[i].why ? rows[i].why : "");
		free_indices(&list);
	}
}

/*
 * lance-14-fri correction 4: the record is stamped 3 and was published as 6; the index was built on 4, and an ordinary commit translated its
 * bitmap. By the stamp alone the record would go, and half of the rows with it.
 */
static void test_old_stamp(void **state)
{
	static const struct {
		uint64_t published;
		bool needed;
	} rows[] = { { 0, false }, { 4, false }, { 5, true }, { 6, true } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_indices list;
		bool needed;
		size_t by;

		moves_decode("L3 0:2 1:2 > 6:4", 0, &f);
		f.records[0].published = rows[i].published;
		make_indices("a/4/6 7", &list);
		assert_int_equal(pf_closure_consumers(&f, &list, &needed, &by, NULL), 0);
		assert_int_equal(needed, rows[i].needed);
		free_indices(&list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pin),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_consumers),
		cmocka_unit_test(test_old_stamp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
