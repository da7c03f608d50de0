/* The files that fragments, indices and base paths of a manifest name: from bytes to (base, path), and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/base_path.h"
#include "core/reference.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "table.h"

static void put_u64(struct pf_buf *b, uint32_t n, uint64_t v)
{
	assert_int_equal(pf_wire_put_u64(b, n, v), 0);
}

static void put_str(struct pf_buf *b, uint32_t n, const char *s)
{
	assert_int_equal(pf_wire_put_bytes(b, n, s, strlen(s)), 0);
}

/* m as field n of b; m is empty afterwards. */
static void put_message(struct pf_buf *b, uint32_t n, struct pf_buf *m)
{
	assert_int_equal(pf_wire_put_bytes(b, n, m->data, m->len), 0);
	pf_buf_release(m);
}

static int note(void *arg, const struct pf_reference *r)
{
	struct pf_buf *out = arg;

	assert_int_equal(pf_buf_addf(out, "%s %s", pf_file_class_name(r->cls), r->path), 0);
	if (r->has_base)
		assert_int_equal(pf_buf_addf(out, " base %u", r->base_id), 0);
	if (r->size)
		assert_int_equal(pf_buf_addf(out, " size %d", (int)r->size), 0);
	if (r->optional)
		assert_int_equal(pf_buf_addstr(out, " optional"), 0);
	return pf_buf_addstr(out, "\n");
}

/* Of all fragments in a run of them, through a cursor over memory. */
static int each_fragment(const struct pf_buf *fragments, pf_reference_fn fn, void *arg, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader mem;
	struct pf_field f;
	int r;

	pf_mem_reader_init(&mem, fragments->data, fragments->len);
	pf_wire_init(&w, &mem.base, 0, fragments->len);
	while ((r = pf_wire_next(&w, &f, why)) > 0) {
		r = pf_fragment_references(&w, &f, &path, fn, arg, why);
		if (r != 0)
			return r;
		assert_int_equal(w.pos, f.value + f.len);
	}
	return r;
}

static int references(const struct pf_buf *fragments, struct pf_buf *out, struct pf_why *why)
{

	pf_buf_reset(out);
	assert_int_equal(pf_buf_addstr(out, ""), 0);
	return each_fragment(fragments, note, out, why);
}

static void assert_named(const struct pf_buf *fragments, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (references(fragments, &got, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(pf_buf_str(&got), want);
}

static void assert_damaged(const struct pf_buf *fragments, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(references(fragments, &got, &why), -EBADMSG);
	assert_string_equal(why.text, text);
}

static void test_fragments(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf run = PF_BUF_INIT;
	struct pf_buf f = PF_BUF_INIT, m = PF_BUF_INIT, sub = PF_BUF_INIT;

	/* Two files, one on base 0, which is a legal id; a bitmap of deletions; row ids outside; an overlay; what nobody knows. */
	put_str(&m, 1, "a.lance");
	put_u64(&m, 4, 2);
	put_u64(&m, 6, 123);
	put_message(&f, 2, &m);
	put_str(&m, 1, "b.lance");
	put_u64(&m, 4, 2);
	put_u64(&m, 7, 0);
	put_message(&f, 2, &m);
	put_u64(&m, 1, 1);
	put_u64(&m, 2, 5);
	put_u64(&m, 3, 99);
	put_u64(&m, 7, 3);
	put_message(&f, 3, &m);
	put_str(&m, 1, "some/rows.bin");
	put_message(&f, 6, &m);
	put_str(&m, 1, "u");
	put_message(&f, 8, &m);
	put_str(&m, 1, "c");
	put_message(&f, 10, &m);
	put_str(&sub, 1, "over.lance");
	put_message(&m, 1, &sub);
	put_u64(&m, 3, 7);
	put_message(&f, 11, &m);
	put_str(&f, 400, "unknown");
	/* The id comes last here: the deletion file is named by it all the same. */
	put_u64(&f, 1, 42);
	put_message(&run, 2, &f);
	/* Fragment 0, as writers leave it: no id, an array of deletions with nothing said. */
	put_str(&m, 1, "d/e.lance");
	put_u64(&m, 6, 158); /* of a legacy file: not its length */
	put_message(&f, 2, &m);
	put_message(&f, 3, &m);
	put_message(&run, 2, &f);
	put_message(&run, 2, &f);
	assert_named(&run, "data data/a.lance size 123\n"
			   "data data/b.lance base 0\n"
			   "row-ids some/rows.bin\n"
			   "row-ids u\n"
			   "row-ids c\n"
			   "data data/over.lance\n"
			   "deletion _deletions/42-5-99.bin base 3\n"
			   "data data/d%2Fe.lance\n"
			   "deletion _deletions/0-0-0.arrow\n");
}

static void test_damaged_fragments(void **state)
{
	static const struct {
		const char *path, *text;
	} bad[] = {
		{ "", "offset 4: expected the path of a file, found \"\"" },
		{ "..", "offset 4: expected the path of a file, found \"..\"" },
		{ ".", "offset 4: expected the path of a file, found \".\"" },
		{ "../x", "offset 4: expected the path of a file, found \"../x\"" },
		{ "/etc/passwd", "offset 4: expected the path of a file, found \"/etc/passwd\"" },
		{ "a//b", "offset 4: expected the path of a file, found \"a//b\"" },
		{ "a\xff", "offset 4: expected the path of a file, found \"a\\xff\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(pf_buf_release) struct pf_buf run = PF_BUF_INIT;
		struct pf_buf f = PF_BUF_INIT, m = PF_BUF_INIT;
		put_str(&m, 1, bad[i].path);
		put_message(&f, 2, &m);
		put_message(&run, 2, &f);
		assert_damaged(&run, bad[i].text);
	}

	_cleanup_(pf_buf_release) struct pf_buf run = PF_BUF_INIT;
	struct pf_buf f = PF_BUF_INIT, m = PF_BUF_INIT;
	put_u64(&m, 4, 2);
	put_message(&f, 2, &m);
	put_message(&run, 2, &f);
	assert_damaged(&run, "offset 2: expected a data file to have a path");

	pf_buf_reset(&run);
	put_u64(&m, 1, 2);
	put_message(&f, 3, &m);
	put_message(&run, 2, &f);
	assert_damaged(&run, "offset 2: expected a deletion file of type 0 or 1, found 2");

	pf_buf_reset(&run);
	put_message(&f, 6, &m);
	put_message(&run, 2, &f);
	assert_damaged(&run, "offset 2: expected an external file to have a path");

	pf_buf_reset(&run);
	put_str(&m, 1, "a");
	put_u64(&m, 7, UINT64_C(1) << 32);
	put_message(&f, 2, &m);
	put_message(&run, 2, &f);
	assert_damaged(&run, "offset 7: expected a base id of 32 bits, found 4294967296");

	pf_buf_reset(&run);
	put_u64(&run, 2, 1);
	assert_damaged(&run, "field 2 at offset 0 has wire type 0; expected 2, bytes");
}

static int stop(void *arg, const struct pf_reference *r)
{
	++*(int *)arg;
	return 7;
}

static void test_stop(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf run = PF_BUF_INIT;
	struct pf_buf f = PF_BUF_INIT, m = PF_BUF_INIT;
	int calls = 0;

	put_str(&m, 1, "a");
	put_message(&f, 2, &m);
	put_str(&m, 1, "b");
	put_message(&f, 2, &m);
	put_message(&run, 2, &f);
	assert_int_equal(each_fragment(&run, stop, &calls, NULL), 7);
	assert_int_equal(calls, 1);
}

static void test_indices(void **state)
{
	static char name[] = "by_id", fri_name[] = PF_FRI_NAME;
	struct pf_index v[] = {
		{ .uuid = "11111111-1111-1111-1111-111111111111", .name = name },
		{ .uuid = "22222222-2222-2222-2222-222222222222", .name = name, .has_base = true, .base_id = 4 },
		{ .uuid = "33333333-3333-3333-3333-333333333333", .name = fri_name },
	};
	const struct pf_indices l = { v, ARRAY_LEN(v) };
	struct pf_fri_group groups[] = {
		{ .mapping = PF_MAPPING_ORDERED },
		{ .mapping = PF_MAPPING_PARTITION, .map_id = "44444444-4444-4444-4444-444444444444", .map_size = 9 },
		{ .mapping = PF_MAPPING_PARTITION,
		  .map_id = "55555555-5555-5555-5555-555555555555",
		  .has_base = true,
		  .base_id = 1 },
	};
	struct pf_fri fri = { .uuid = "33333333-3333-3333-3333-333333333333",
			      .groups = groups,
			      .n_groups = ARRAY_LEN(groups) };
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;

	assert_int_equal(pf_index_references(&l, note, &got), 0);
	assert_string_equal(pf_buf_str(&got), "index _indices/11111111-1111-1111-1111-111111111111\n"
					      "index _indices/22222222-2222-2222-2222-222222222222 base 4\n"
					      "index _indices/33333333-3333-3333-3333-333333333333 optional\n");
	pf_buf_reset(&got);
	assert_int_equal(pf_fri_references(&fri, note, &got), 0);
	assert_string_equal(pf_buf_str(&got), "map _fri/44444444-4444-4444-4444-444444444444 size 9\n"
					      "map _fri/55555555-5555-5555-5555-555555555555 base 1\n");
	/* Its content is a file of its own: then the directory must be there. */
	fri.external = true;
	fri.n_groups = 0;
	pf_buf_reset(&got);
	assert_int_equal(pf_fri_references(&fri, note, &got), 0);
	assert_string_equal(pf_buf_str(&got), "index _indices/33333333-3333-3333-3333-333333333333\n");
}

/* The base paths of a manifest that has `extra`. */
static int bases_of(const struct pf_buf *extra, struct pf_base_paths *out, struct pf_why *why)
{
	const struct table_version t = { .version = 1, .extra = extra };
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &t);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_manifest_open(st, table_manifest_name(&t, name), &m, NULL), 0);
	assert_int_equal(pf_store_open(st, name, &file), 0);
	return pf_base_paths_read(&file->r, m, out, why);
}

static void test_base_paths(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	_cleanup_(pf_base_paths_release) struct pf_base_paths l = { NULL, 0 };
	struct pf_buf m = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	/* In any order, and anywhere: here with something between. Id 0 and false are left out by writers. */
	put_u64(&m, 1, 9);
	put_str(&m, 2, "name");
	put_u64(&m, 3, 1);
	put_str(&m, 4, "s3://bucket/t");
	put_message(&extra, 18, &m);
	put_str(&extra, 500, "something");
	put_str(&m, 4, "/a/b");
	put_message(&extra, 18, &m);
	assert_int_equal(bases_of(&extra, &l, &why), 0);
	assert_int_equal(l.n, 2);
	assert_int_equal(l.v[0].id, 0);
	assert_false(l.v[0].is_dataset_root);
	assert_string_equal(l.v[0].path, "/a/b");
	assert_ptr_equal(pf_base_paths_find(&l, 9), &l.v[1]);
	assert_true(l.v[1].is_dataset_root);
	assert_string_equal(l.v[1].path, "s3://bucket/t");
	assert_null(pf_base_paths_find(&l, 1));

	struct pf_base_paths bad = { NULL, 0 };
	put_u64(&m, 1, 9);
	put_str(&m, 4, "/c");
	put_message(&extra, 18, &m);
	assert_int_equal(bases_of(&extra, &bad, &why), -EBADMSG);
	assert_string_equal(why.text, "expected each base id once, found two bases 9");
	pf_buf_reset(&extra);
	put_u64(&m, 1, 1);
	put_message(&extra, 18, &m);
	assert_int_equal(bases_of(&extra, &bad, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "expected a base to have a path"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fragments), cmocka_unit_test(test_damaged_fragments), cmocka_unit_test(test_stop),
		cmocka_unit_test(test_indices),	  cmocka_unit_test(test_base_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
