/* Deletion files that six releases of Lance wrote are read, and damaged ones are refused whatever is wrong with them. */
#include "core/deletions.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/arrow.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "alloc.h"
#include "fixture.h"

#define ARROW	 0
#define BITMAP	 1
#define NAME	 "_deletions/3-7-18446744073709551615.arrow"
#define BIN_NAME "_deletions/3-7-18446744073709551615.bin"

static const char *const releases[] = { "0.39.0", "1.0.4", "4.0.1", "8.0.1", "12.0.0", "14.0.2" };

static struct pf_fragment fragment(uint64_t type, uint64_t rows, uint64_t deleted)
{
	return (struct pf_fragment){ .id = 3,
				     .physical_rows = rows,
				     .has_deletions = true,
				     .deletion = { .type = type, .read_version = 7, .id = UINT64_MAX },
				     .deleted_rows = deleted };
}

/* A file of tests/, by its path there. */
static void load(const char *path, struct pf_buf *out)
{
	_cleanup_(pf_freep) char *dir = NULL;
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;

	assert_true(asprintf(&dir, "%s/tests", getenv("PINFS_SOURCE")) > 0);
	assert_int_equal(pf_store_local_open(dir, &st, NULL), 0);
	assert_int_equal(pf_store_get(st, path, 1 << 20, out), 0);
}

static void load_release(const char *release, struct pf_buf *out)
{
	char path[64];

	snprintf(path, sizeof(path), "data/deletions/%s.arrow", release);
	load(path, out);
}

static struct pf_store *holding(const struct pf_buf *file, const char *name)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_mem_put(st, name, file->data, file->len), 0);
	return st;
}

static int read_file(const struct pf_buf *file, const struct pf_fragment *f, struct pf_bitmap **out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *st = holding(file, f->deletion.type == BITMAP ? BIN_NAME : NAME);

	return pf_deletions_read(st, "", f, out, why);
}

/* Of `rows` rows those are deleted that `is_deleted` says, and no others. */
static void assert_deleted(const struct pf_bitmap *b, uint32_t rows, bool (*is_deleted)(uint32_t row))
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < rows; i++) {
		if (pf_bitmap_has(b, i) != is_deleted(i))
			fail_msg("row %" PRIu32, i);
		n += is_deleted(i);
	}
	assert_int_equal(pf_bitmap_count(b), n);
}

static bool every_third(uint32_t row)
{
	return row % 3 == 1;
}

static void assert_says(const char *file, const struct pf_why *why, const char *name, const char *says)
{
	if (strncmp(why->text, "deletion file ", 14) != 0 || !strstr(why->text, name) || !strstr(why->text, says))
		fail_msg("%s: %s; expected %s", file, why->text, says);
}

static void check_line(const char *file, uint64_t rows, const char *says)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fragment f = fragment(ARROW, rows, 0);
	char path[128];

	snprintf(path, sizeof(path), "data/deletions/%s", file);
	load(path, &bytes);
	if (strcmp(says, "every third") == 0) {
		if (read_file(&bytes, &f, &b, &why) < 0)
			fail_msg("%s: %s", file, why.text);
		assert_deleted(b, (uint32_t)rows, every_third);
	} else {
		assert_int_equal(read_file(&bytes, &f, &b, &why), -EBADMSG);
		assert_says(file, &why, NAME, says);
		assert_null(b);
	}
}

/* Each line of tests/data/deletions/expected. */
static void arrow_files(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	char *save = NULL, file[64], says[128];
	uint64_t rows;
	unsigned n = 0;

	load("data/deletions/expected", &text);
	assert_non_null(pf_buf_str(&text));
	for (char *line = strtok_r((char *)text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
		assert_int_equal(sscanf(line, "%63[^\t]\t%" SCNu64 "\t%127[^\n]", file, &rows, says), 3);
		check_line(file, rows, says);
	}
	assert_true(n > 20);
}

/* The rows of the fixture table `deletions` (tests/fixtures/make), by fragment and the version that was read. */
static bool first_ids(uint32_t row)
{
	return row + 1 == 2 || row + 1 == 5;
}

static bool second_ids(uint32_t row)
{
	return first_ids(row) || row + 1 == 7;
}

static bool first_block(uint32_t row)
{
	return row + 1001 > 1000 && row + 1001 <= 8000 && (row + 1001) % 8 != 0;
}

static bool second_block(uint32_t row)
{
	return first_block(row) || row + 1001 == 1008;
}

static const struct file {
	uint64_t fragment, read_version, type, rows;
	bool (*is_deleted)(uint32_t row);
} files[] = {
	{ 0, 3, ARROW, 8, first_ids },
	{ 0, 6, ARROW, 8, second_ids },
	{ 1, 4, BITMAP, 7000, first_block },
	{ 1, 6, BITMAP, 7000, second_block },
};

struct found {
	struct pf_store *st;
	unsigned n;
};

static int check_fixture(void *arg, const char *name, bool is_dir)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	struct found *found = arg;
	struct pf_fragment f = { .has_deletions = true };
	struct pf_deletion_file *d = &f.deletion;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(sscanf(name, "%" SCNu64 "-%" SCNu64 "-%" SCNu64, &f.id, &d->read_version, &d->id), 3);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		const struct file *x = &files[i];

		if (x->fragment != f.id || x->read_version != d->read_version)
			continue;
		f.physical_rows = x->rows;
		d->type = x->type;
		for (uint32_t row = 0; row < x->rows; row++)
			f.deleted_rows += x->is_deleted(row);
		if (pf_deletions_read(found->st, "", &f, &b, &why) < 0)
			fail_msg("%s", why.text);
		assert_deleted(b, (uint32_t)x->rows, x->is_deleted);
		found->n++;
	}
	return 0;
}

static void files_of_six_releases(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(releases); i++) {
		char key[64];

		snprintf(key, sizeof(key), "%s/deletions.lance", releases[i]);
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		struct found found = { st, 0 };
		assert_int_equal(pf_store_list(st, "_deletions", check_fixture, &found), 0);
		assert_int_equal(found.n, ARRAY_LEN(files));
	}
}

static int take_name(void *arg, const char *name, bool is_dir)
{
	return strncmp(name, "1-4-", 4) == 0 ? snprintf(arg, 64, "_deletions/%s", name) : 0;
}

/* The bitmap of a real table: 6125 of 7000 rows, the first of which is the first. */
static void load_bitmap(struct pf_buf *out)
{
	_cleanup_(pf_store_freep) struct pf_store *st = fixture_open("14.0.2/deletions.lance");
	char name[64];

	assert_true(pf_store_list(st, "_deletions", take_name, name) > 0);
	assert_int_equal(pf_store_get(st, name, 1 << 20, out), 0);
}

/* What the manifest says of the file. */
static void counts_are_compared(void **state)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT, bitmap = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fragment f = fragment(ARROW, 900, 300);

	load_release("14.0.2", &list);
	load_bitmap(&bitmap);
	assert_int_equal(read_file(&list, &f, &b, &why), 0);
	pf_bitmap_free(STEAL(b));
	f = fragment(ARROW, 900, 299);
	assert_int_equal(read_file(&list, &f, &b, &why), -EBADMSG);
	assert_says("", &why, NAME, "expected 299 deleted rows as the manifest says, found 300");
	f = fragment(BITMAP, 7000, 6126);
	assert_int_equal(read_file(&bitmap, &f, &b, &why), -EBADMSG);
	assert_says("", &why, BIN_NAME, "expected 6126 deleted rows as the manifest says, found 6125");
	f = fragment(BITMAP, 6998, 6125);
	assert_int_equal(read_file(&bitmap, &f, &b, &why), -EBADMSG);
	assert_says("", &why, BIN_NAME, "row 6998 is deleted of a fragment that has 6998 rows");
	f = fragment(2, 900, 300);
	assert_int_equal(read_file(&list, &f, &b, &why), -EBADMSG);
	assert_string_equal(why.text, "fragment 3: expected a deletion file of type 0 or 1, found 2");
	assert_null(b);
}

static void what_storage_says(void **state)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	struct pf_fragment f = fragment(ARROW, 900, 300);
	struct pf_why why = PF_WHY_INIT;

	load_release("8.0.1", &list);
	st = holding(&list, "tree/x/" NAME);
	assert_int_equal(pf_deletions_read(st, "tree/x/", &f, &b, &why), 0);
	pf_bitmap_free(STEAL(b));
	assert_int_equal(pf_deletions_read(st, "", &f, &b, &why), -EBADMSG);
	assert_string_equal(why.text, "deletion file " NAME " is missing");
	for (unsigned nth = 1; nth <= 2; nth++) {
		why = (struct pf_why)PF_WHY_INIT;
		pf_store_mem_fault(st, nth, PF_FAULT_BEFORE, -EIO, false);
		assert_int_equal(pf_deletions_read(st, "tree/x/", &f, &b, &why), -EIO);
		assert_non_null(strstr(why.text, NAME));
	}
	assert_null(b);
}

/* A file that goes on for ever is not read: of 10 rows not more than 64 KiB and a bit. */
static void long_files_are_not_read(void **state)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_fragment f = fragment(BITMAP, 10, 1);

	assert_int_equal(pf_buf_reserve(&file, 70000), 0);
	memset(file.data, 0, 70000);
	file.len = 70000;
	assert_int_equal(read_file(&file, &f, &b, &why), -EBADMSG);
	assert_says("", &why, BIN_NAME, "is longer than one of 10 rows is");
}

/* Copied to where a read past their end is seen, and all there is. */
static int read_exactly(const uint8_t *bytes, size_t n, uint64_t type, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_buf_release) struct pf_buf values = PF_BUF_INIT;
	_cleanup_(pf_freep) uint8_t *exact = malloc(n ? n : 1);

	assert_non_null(exact);
	memcpy(exact, bytes, n);
	if (type == BITMAP)
		return pf_bitmap_decode(exact, n, &b, why);
	return pf_arrow_read_u32(exact, n, "row_id", 900, &values, why);
}

static void assert_refused_or_sane(struct pf_buf *file, const struct pf_fragment *f)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (read_exactly(file->data, file->len, f->deletion.type, &why) < 0) {
		assert_true(*why.text);
		return;
	}
	/* Nothing tells another row from the one that was meant; but there are as many, and the fragment has them. */
	if (read_file(file, f, &b, &why) < 0) {
		assert_says("", &why, "_deletions/3-7-", "");
		return;
	}
	assert_int_equal(pf_bitmap_count(b), f->deleted_rows);
	assert_true(pf_bitmap_max(b) < f->physical_rows);
}

static void every_truncation(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf bitmap = PF_BUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(releases); i++) {
		_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT;
		load_release(releases[i], &list);
		for (size_t n = 0; n < list.len; n++)
			assert_int_equal(read_exactly(list.data, n, ARROW, NULL), -EBADMSG);
	}
	load_bitmap(&bitmap);
	for (size_t n = 0; n < bitmap.len; n++)
		assert_int_equal(read_exactly(bitmap.data, n, BITMAP, NULL), -EBADMSG);
}

/* The footer is cut, and says so: what it tells of does not lie behind its end. */
static void every_footer(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;

	load_release("14.0.2", &file);
	uint32_t len = (uint32_t)pf_get_le(file.data + file.len - 10, 4);
	size_t from = file.len - 10 - len;
	for (uint32_t n = 0; n <= len; n++) {
		_cleanup_(pf_buf_release) struct pf_buf cut = PF_BUF_INIT;
		assert_int_equal(pf_buf_add(&cut, file.data, from + n), 0);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(pf_buf_addch(&cut, (char)(n >> 8 * i)), 0);
		assert_int_equal(pf_buf_addstr(&cut, "ARROW1"), 0);
		int r = read_exactly(cut.data, cut.len, ARROW, NULL);
		if (r != (n < len ? -EBADMSG : 0))
			fail_msg("%u of %u bytes: %d", n, len, r);
	}
}

static void flip_all(struct pf_buf *file, const struct pf_fragment *f, size_t step)
{
	for (size_t bit = 0; bit < 8 * file->len; bit += step) {
		file->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_refused_or_sane(file, f);
		file->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void every_bit(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf bitmap = PF_BUF_INIT, plain = PF_BUF_INIT;
	struct pf_fragment list = fragment(ARROW, 900, 300), set = fragment(BITMAP, 7000, 6125);

	for (size_t i = 0; i < ARRAY_LEN(releases); i++) {
		_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
		load_release(releases[i], &file);
		flip_all(&file, &list, 1);
	}
	load("data/deletions/plain.arrow", &plain);
	flip_all(&plain, &list, 1);
	load_bitmap(&bitmap);
	flip_all(&bitmap, &set, 7);
}

/* Four bytes at a time, as lengths, counts and offsets are: the largest and the smallest of each kind. */
static void every_word(void **state)
{
	static const uint32_t words[] = { 0, 1, INT32_MAX, (uint32_t)INT32_MIN, UINT32_MAX, UINT32_MAX - 7 };
	struct pf_fragment f = fragment(ARROW, 900, 300);
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;

	load_release("14.0.2", &file);
	for (size_t at = 0; at + 4 <= file.len; at += 2) {
		uint8_t was[4];

		memcpy(was, file.data + at, 4);
		for (size_t i = 0; i < ARRAY_LEN(words); i++) {
			memcpy(file.data + at, &words[i], 4);
			assert_refused_or_sane(&file, &f);
		}
		memcpy(file.data + at, was, 4);
	}
}

static void every_allocation(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT, bitmap = PF_BUF_INIT;

	load_release("14.0.2", &list);
	load_bitmap(&bitmap);
	for (uint64_t type = ARROW; type <= BITMAP; type++) {
		struct pf_fragment f = type == BITMAP ? fragment(BITMAP, 7000, 6125) : fragment(ARROW, 900, 300);
		_cleanup_(pf_store_freep) struct pf_store *st =
			holding(type == BITMAP ? &bitmap : &list, type == BITMAP ? BIN_NAME : NAME);
		unsigned nth = 0, calls;

		do {
			_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
			alloc_fail(++nth);
			int r = pf_deletions_read(st, "", &f, &b, NULL);
			calls = alloc_calls();
			alloc_fail(0);
			assert_int_equal(r, calls >= nth ? -ENOMEM : 0);
			assert_true((r == 0) == (b != NULL));
		} while (calls >= nth);
		assert_true(nth > 3);
	}
}

static void same_file(void **state)
{
	struct pf_fragment a = fragment(ARROW, 900, 300), b = a, none = { 0 };

	assert_true(pf_deletions_same(&a, &b));
	assert_true(pf_deletions_same(&none, &none));
	assert_false(pf_deletions_same(&a, &none));
	b.deletion.id--;
	assert_false(pf_deletions_same(&a, &b));
	b = a;
	b.deletion.read_version++;
	assert_false(pf_deletions_same(&a, &b));
	b = a;
	b.deletion.has_base = true;
	assert_false(pf_deletions_same(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrow_files),
		cmocka_unit_test(files_of_six_releases),
		cmocka_unit_test(counts_are_compared),
		cmocka_unit_test(what_storage_says),
		cmocka_unit_test(long_files_are_not_read),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(every_footer),
		cmocka_unit_test(every_bit),
		cmocka_unit_test(every_word),
		cmocka_unit_test(every_allocation),
		cmocka_unit_test(same_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
