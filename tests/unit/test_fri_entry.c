/*
 * The index entry of a fragment reuse history: where its content is, and what is said of one that is not there, or wrong (lance-14-fri section 3,
 * cases-open E09, E10, E13).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "moves.h"
#include "table.h"

#define B(s) s, sizeof(s) - 1

/* A table of one version, `1.manifest`, and what its FRI is. */
struct entry {
	struct pf_store *st;
	struct pf_buf section, content, details;
};

static void entry_release(struct entry *t)
{
	pf_store_free(t->st);
	pf_buf_release(&t->section);
	pf_buf_release(&t->content);
	pf_buf_release(&t->details);
}

static void entry_new(struct entry *t, const char *text)
{
	*t = (struct entry){ 0 };
	assert_int_equal(pf_store_mem_new(&t->st), 0);
	moves_content(text, &t->content);
}

/* An entry with t->details. */
static void entry_put(struct entry *t, int32_t version)
{
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 7,
					   .type = MOVES_FRI_TYPE,
					   .details = &t->details,
					   .dataset_version = 11,
					   .index_version = version },
		    &t->section);
}

static int entry_read(struct entry *t, const struct pf_fri_base *base, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	table_put(t->st, &(struct table_version){ .version = 1, .v1 = true, .index = &t->section });
	int r = pf_manifest_open(t->st, "_versions/1.manifest", &m, why);
	return r < 0 ? r : pf_fri_read(t->st, "", m, base, out, why);
}

#define ENTRY "_versions/1.manifest: __lance_frag_reuse 0badcafe-0000-4000-a000-000000000007: "
#define FILE_ "_indices/0badcafe-0000-4000-a000-000000000007/details.binpb"

static void test_inline(void **state)
{
	_cleanup_(entry_release) struct entry t;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_inline(&t.content, &t.details);
	moves_index(&(struct moves_index){ .name = "a" }, &t.section);
	entry_put(&t, 0);
	if (entry_read(&t, NULL, &f, &why) < 0)
		fail_msg("%s", why.text);
	moves_assert_history(&f, "stamp 5 [v0 0:1:0 > 1:1:0]\n");
	assert_string_equal(f.uuid, "0badcafe-0000-4000-a000-000000000007");
	assert_int_equal(f.dataset_version, 11);
	assert_int_equal(f.index_version, 0);
	assert_false(f.external || f.has_base);
	assert_null(f.external_path);
}

static void test_no_entry(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENODATA);
	moves_index(&(struct moves_index){ .name = "a" }, &t.section);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENODATA);
	assert_string_equal(why.text, "_versions/1.manifest has no fragment reuse index");
}

static void test_details(void **state)
{
	static const struct {
		const char *type;
		const char *bytes; /* NULL: none */
		size_t n;
		int r;
		const char *why;
	} rows[] = {
		{ NULL, NULL, 0, -EBADMSG, ENTRY "expected details, found none" },
		{ MOVES_FRI_TYPE, NULL, 0, -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B(""), -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B("\x18\x01"), -EBADMSG, ENTRY "expected a content, inline or external, found none" },
		{ MOVES_FRI_TYPE, B("\x0a\x00"), 0, "" },
		{ MOVES_FRI_TYPE, B("\x18\x01\x0a\x00"), 0, "" },
		{ "type.googleapis.com/lance.table.FragmentReuseIndexDetails", B("\x0a\x00"), 0, "" },
		{ "lance.table.FragmentReuseIndexDetails", B("\x0a\x00"), 0, "" },
		{ "/lance.table.BTreeIndexDetails", B("\x0a\x00"), -EBADMSG,
		  ENTRY
		  "expected details of type lance.table.FragmentReuseIndexDetails, found \"/lance.table.BTreeIndexDetails\"" },
		{ "", B("\x0a\x00"), -EBADMSG,
		  ENTRY "expected details of type lance.table.FragmentReuseIndexDetails, found \"\"" },
		{ MOVES_FRI_TYPE, B("\x08\x00"), -EBADMSG,
		  ENTRY "field 1 at offset 90 has wire type 0; expected 2, bytes" },
		{ MOVES_FRI_TYPE, B("\x0a\x00\x0a\x00"), -EBADMSG,
		  ENTRY "offset 92: expected one content, found another" },
		{ MOVES_FRI_TYPE, B("\x0a\x00\x12\x00"), -EBADMSG,
		  ENTRY "offset 92: expected one content, found another" },
		{ MOVES_FRI_TYPE, B("\x12\x00"), -EBADMSG,
		  ENTRY "expected external content to be the name of a file, found \"\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x05\x0a\x03"
		    "a/b"),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"a/b\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x04\x0a\x02"
		    ".."),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"..\"" },
		{ MOVES_FRI_TYPE,
		  B("\x12\x05\x0a\x03"
		    "a\0b"),
		  -EBADMSG, ENTRY "expected external content to be the name of a file, found \"a\\x00b\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;
		struct pf_buf details = { (uint8_t *)(uintptr_t)rows[i].bytes, rows[i].n, rows[i].n };

		entry_new(&t, "");
		moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
						   .uuid = 7,
						   .type = rows[i].type,
						   .details = rows[i].bytes ? &details : NULL },
			    &t.section);
		int r = entry_read(&t, NULL, &f, &why);
		assert_string_equal(why.text, rows[i].why);
		assert_int_equal(r, rows[i].r);
	}
}

static void test_entries(void **state)
{
	static const struct {
		int32_t a, b;
		int r;
	} rows[] = { { 0, 0, 0 }, { 0, 1, -EBADMSG }, { 1, 0, -EBADMSG }, { 1, 1, -EBADMSG } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		entry_new(&t, "L5 0:1 > 1:1");
		moves_details_inline(&t.content, &t.details);
		entry_put(&t, rows[i].a);
		pf_buf_reset(&t.details);
		assert_int_equal(pf_buf_add(&t.details, "\x0a\x00", 2), 0);
		entry_put(&t, rows[i].b);
		assert_int_equal(entry_read(&t, NULL, &f, &why), rows[i].r);
		if (rows[i].r == 0)
			assert_int_equal(f.n_records, 1); /* the first one counts */
		else
			assert_string_equal(why.text, "_versions/1.manifest: expected one entry __lance_frag_reuse, "
						      "found 2 of which one is tagged");
	}
}

static void test_future_version(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	entry_put(&t, 2);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -EOPNOTSUPP);
	assert_string_equal(why.text, ENTRY "index_version 2; pinfs understands 0 and 1");
}

/* A range of a file in the directory of the entry: what stands around it is nobody's business. */
static void test_external(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;

	moves_content("L5 0:1 > 1:1", &content);
	const struct {
		uint64_t offset, size;
		int r;
		const char *why;
	} rows[] = {
		{ 3, content.len, 0, "" },
		{ 3, 0, 0, "" },
		{ 2, content.len, -EBADMSG,
		  ENTRY FILE_ ": field 7 at offset 0 has wire type 7; expected 0, 1, 2 or 5" },
		{ 3, content.len + 2, -EBADMSG, ENTRY FILE_ ": expected 47 bytes from 3 on, found a file of 49" },
		{ 50, 0, -EBADMSG, ENTRY FILE_ ": expected 0 bytes from 50 on, found a file of 49" },
		{ UINT64_MAX, UINT64_MAX, -EBADMSG,
		  ENTRY FILE_
		  ": expected 18446744073709551615 bytes from 18446744073709551615 on, found a file of 49" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(entry_release) struct entry t;
		_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		entry_new(&t, "");
		assert_int_equal(pf_buf_addstr(&file, "???"), 0);
		assert_int_equal(pf_buf_add(&file, content.data, content.len), 0);
		assert_int_equal(pf_buf_addstr(&file, "?"), 0);
		assert_int_equal(pf_store_mem_put(t.st, FILE_, file.data, file.len), 0);
		moves_details_external("details.binpb", rows[i].offset, rows[i].size, &t.details);
		entry_put(&t, 0);
		int r = entry_read(&t, NULL, &f, &why);
		assert_string_equal(why.text, rows[i].why);
		assert_int_equal(r, rows[i].r);
		if (r < 0)
			continue;
		moves_assert_history(&f, rows[i].size ? "stamp 5 [v0 0:1:0 > 1:1:0]\n" : "");
		assert_true(f.external);
		assert_string_equal(f.external_path, "details.binpb");
		assert_int_equal(f.external_offset, rows[i].offset);
		assert_int_equal(f.external_size, rows[i].size);
	}
}

static void test_external_gone(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fri f;

	entry_new(&t, "");
	moves_details_external("details.binpb", 0, 10, &t.details);
	entry_put(&t, 1);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -ENOENT);
	assert_string_equal(why.text, ENTRY FILE_ ": missing");
}

/* A clone's entry: its file is where the base says, which the caller knows. */
static void test_base(void **state)
{
	_cleanup_(entry_release) struct entry t;
	_cleanup_(pf_store_freep) struct pf_store *other = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_external("details.binpb", 0, t.content.len, &t.details);
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 7,
					   .type = MOVES_FRI_TYPE,
					   .details = &t.details,
					   .has_base = true,
					   .base_id = 3 },
		    &t.section);
	assert_int_equal(entry_read(&t, NULL, &f, &why), -EINVAL);
	assert_string_equal(why.text, ENTRY "its content is on base 3, which was not given");

	assert_int_equal(pf_store_mem_new(&other), 0);
	assert_int_equal(pf_store_mem_put(other, "b/" FILE_, t.content.data, t.content.len), 0);
	const struct pf_fri_base base = { other, "b/" };
	if (entry_read(&t, &base, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_true(f.has_base && f.external);
	assert_int_equal(f.base_id, 3);
	assert_int_equal(f.n_records, 1);
}

/* Whichever call of the store fails, its error comes out, with a sentence, and nothing stays behind. */
static void test_faults(void **state)
{
	_cleanup_(entry_release) struct entry t;
	struct pf_manifest *m;
	unsigned n = 0;

	entry_new(&t, "L5 0:1 > 1:1");
	moves_details_external("details.binpb", 0, t.content.len, &t.details);
	entry_put(&t, 0);
	assert_int_equal(pf_store_mem_put(t.st, FILE_, t.content.data, t.content.len), 0);
	table_put(t.st, &(struct table_version){ .version = 1, .v1 = true, .index = &t.section });
	assert_int_equal(pf_manifest_open(t.st, "_versions/1.manifest", &m, NULL), 0);
	for (int r = -EIO; r < 0;) {
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct pf_why why = PF_WHY_INIT;

		pf_store_mem_fault(t.st, ++n, PF_FAULT_BEFORE, -EIO, false);
		r = pf_fri_read(t.st, "", m, NULL, &f, &why);
		if (r < 0) {
			assert_int_equal(r, -EIO);
			assert_true(why.text[0]);
		}
		pf_store_mem_fault(t.st, 0, PF_FAULT_NONE, 0, false);
	}
	assert_true(n >= 6);
	pf_manifest_unref(m);
}

/* --- bitmaps of strangers (E09, E10, E13) --------------------------------------------------------------------------- */

#define PLAIN "\x3a\x30\x00\x00"

/* The verdict and the sentence are the same for an inline entry and an external file, v0 and tagged. */
static void test_bad_bitmaps(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char
			*why; /* behind the record, offsets within the treemap, which has 12 bytes before the bitmap */
	} rows[] = {
		{ B(""), "offset 12: expected 4 bytes of a cookie, found 0" },
		{ B("\x3a"), "offset 12: expected 4 bytes of a cookie, found 1" },
		{ B(PLAIN), "offset 16: expected 4 bytes of a count of containers, found 0" },
		{ B(PLAIN "\xff\xff\xff\xff"), "offset 16: expected at most 65536 containers, found 4294967295" },
		{ B(PLAIN "\x01\x00\x01\x00"), "offset 16: expected at most 65536 containers, found 65537" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\x10\x00\x00\x00\x00\x00\x01"),
		  "offset 28: expected 4 bytes of an array, found 3" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\xff\x00\x00\x00\x00\x00\x01\x00"),
		  "offset 12: expected container 0 16 bytes on, found 255" },
		{ B("\x3a\x30\x00\x00\x01\x00\x00\x00\x00\x00\x02\x00\x10\x00\x00\x00\x02\x00\x01\x00\x00\x00"),
		  "offset 30: expected values in ascending order" },
		{ B(PLAIN "\x01\x00\x00\x00\x00\x00\x01\x00\x10\x00\x00\x00\x01\x00\x01\x00"),
		  "offset 30: expected values in ascending order" },
		{ B(PLAIN "\x02\x00\x00\x00"
			  "\x01\x00\x00\x00\x00\x00\x00\x00"
			  "\x18\x00\x00\x00\x1a\x00\x00\x00"
			  "\0\0\0\0"),
		  "offset 12: expected container 1 to have a key above 1, found 0" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x02\x00\x02\x00\x00\x00\x01\x00\x01\x00\x00\x00"),
		  "offset 27: expected a run that begins behind 2, found 1" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x01\x00\x01\x00\xff\xff\x01\x00"),
		  "offset 23: a run from 65535 ends at 65536, past 65535" },
		{ B("\x3b\x30\x00\x00\x01\x00\x00\x03\x00\x01\x00\x00\x00\x01\x00"),
		  "offset 21: expected runs of 4 values, found 2" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int32_t version = 0; version <= 1; version++) {
			for (int external = 0; external < 2; external++) {
				_cleanup_(entry_release) struct entry t;
				_cleanup_(pf_buf_release) struct pf_buf rowset = PF_BUF_INIT, group = PF_BUF_INIT,
									record = PF_BUF_INIT;
				_cleanup_(pf_freep) char *expected = NULL;
				struct pf_why why = PF_WHY_INIT;
				struct pf_fri f;

				entry_new(&t, "");
				assert_int_equal(pf_buf_add(&rowset, B("\x01\0\0\0\0\0\0\0"
								       "\x01\0\0\0")),
						 0);
				assert_int_equal(pf_buf_add(&rowset, rows[i].bytes, rows[i].n), 0);
				assert_int_equal(pf_wire_put_bytes(&group, 1, rowset.data, rowset.len), 0);
				moves_digest(&group, 2, 1, 2, 0);
				moves_digest(&group, 3, 2, 2, 0);
				assert_int_equal(pf_wire_put_bytes(&record, 3, group.data, group.len), 0);
				assert_int_equal(pf_wire_put_bytes(&t.content, 1, record.data, record.len), 0);
				if (external) {
					moves_details_external("details.binpb", 0, t.content.len, &t.details);
					assert_int_equal(pf_store_mem_put(t.st, FILE_, t.content.data, t.content.len),
							 0);
				} else {
					moves_details_inline(&t.content, &t.details);
				}
				entry_put(&t, version);
				assert_int_equal(entry_read(&t, NULL, &f, &why), -EBADMSG);
				assert_true(asprintf(&expected, ENTRY "%srecord 0, group 0: %s",
						     external ? FILE_ ": " : "", rows[i].why) > 0);
				assert_string_equal(why.text, expected);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inline),	       cmocka_unit_test(test_no_entry),
		cmocka_unit_test(test_details),	       cmocka_unit_test(test_entries),
		cmocka_unit_test(test_future_version), cmocka_unit_test(test_external),
		cmocka_unit_test(test_external_gone),  cmocka_unit_test(test_base),
		cmocka_unit_test(test_faults),	       cmocka_unit_test(test_bad_bitmaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
