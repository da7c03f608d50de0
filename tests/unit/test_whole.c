/* Whether all is there that a staged manifest names, and whether Lance can decode it. */
#include "core/whole.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "table.h"

/* A table of one version, and what may be its next. */
struct pair {
	struct pf_store *st;
	struct table_version base, next;
	struct pf_buf had, has; /* more fields of each */
};

static int setup(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	if (!p || pf_store_mem_new(&p->st) < 0)
		return -1;
	p->base = (struct table_version){ .version = 1, .extra = &p->had };
	p->next = (struct table_version){ .version = 2, .extra = &p->has };
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	pf_store_free(p->st);
	pf_buf_release(&p->had);
	pf_buf_release(&p->has);
	free(p);
	return 0;
}

static int look(struct pair *p, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *base = NULL, *staged = NULL;
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	const char *dir = p->next.dir ? p->next.dir : "";
	char was[TABLE_NAME_MAX], is[TABLE_NAME_MAX], as[TABLE_NAME_MAX + 2];

	table_put(p->st, &p->base);
	table_manifest(&p->next, &bytes);
	table_manifest_name(&p->base, was);
	table_manifest_name(&p->next, is);
	snprintf(as, sizeof(as), "%s#1", is);
	assert_int_equal(pf_store_mem_put(p->st, as, bytes.data, bytes.len), 0);
	assert_int_equal(pf_manifest_open(p->st, was, &base, NULL), 0);
	int r = pf_manifest_open_staged(p->st, as, is, &staged, why);
	return r < 0 ? r : pf_manifest_whole(p->st, dir, base, staged, is, why);
}

/* It is whole with the file, and only then. */
static void needs(struct pair *p, const char *file)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(look(p, &why), -ENOENT);
	assert_true(strncmp(why.text, "its file \"", 10) == 0 && strstr(why.text, file));
	assert_non_null(strstr(why.text, "to be done again"));
	pf_store_mem_put(p->st, file, "x", 1);
	assert_int_equal(look(p, NULL), 0);
}

static void test_data_file(void **state)
{
	struct pair *p = *state;

	assert_int_equal(look(p, NULL), 0);
	table_add_fragment(&p->has, 0, "a.lance", 0, -1);
	needs(p, "data/a.lance");
	table_add_fragment(&p->has, 1, "b.lance", 0, -1);
	needs(p, "data/b.lance");
}

static void test_branch(void **state)
{
	struct pair *p = *state;

	p->base.dir = p->next.dir = "tree/x/";
	p->base.branch = p->next.branch = "x";
	table_add_fragment(&p->has, 0, "a.lance", 0, -1);
	pf_store_mem_put(p->st, "data/a.lance", "x", 1);
	needs(p, "tree/x/data/a.lance");
}

/* What was lost before is not this writer's to say; and of a table of many fragments only what is new costs anything. */
static void test_what_was_there(void **state)
{
	struct pair *p = *state;

	for (unsigned i = 0; i < 50; i++) {
		table_add_fragment(&p->had, i, "lost.lance", 0, -1);
		if (i != 20)
			table_add_fragment(&p->has, i, "lost.lance", 0, -1);
	}
	assert_int_equal(look(p, NULL), 0);
	table_add_fragment(&p->has, 50, "new.lance", 0, -1);
	needs(p, "data/new.lance");
}

static void test_other_bases(void **state)
{
	struct pair *p = *state;

	table_add_base(&p->has, 1, true, "/elsewhere");
	table_add_fragment(&p->has, 0, "a.lance", 0, 1);
	assert_int_equal(look(p, NULL), 0);
}

static void test_sizes(void **state)
{
	struct pair *p = *state;
	struct pf_why why = PF_WHY_INIT;

	table_add_fragment(&p->has, 0, "a.lance", 10, -1);
	pf_store_mem_put(p->st, "data/a.lance", "123456789", 9);
	assert_int_equal(look(p, &why), -ENOENT);
	assert_non_null(strstr(why.text, "\"data/a.lance\" has 9 of 10 bytes"));
	pf_store_mem_put(p->st, "data/a.lance", "1234567890", 10);
	assert_int_equal(look(p, NULL), 0);
	pf_store_mem_put(p->st, "data/a.lance", "12345678901", 11);
	assert_int_equal(look(p, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "\"data/a.lance\" has 11 bytes"));
}

static void put_message(struct pf_buf *out, uint32_t number, const void *bytes, size_t len)
{
	assert_int_equal(pf_wire_put_bytes(out, number, bytes, len), 0);
}

static void test_deletion_file(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf deletion = PF_BUF_INIT, fragment = PF_BUF_INIT;
	struct pair *p = *state;

	pf_wire_put_u64(&deletion, 1, 1);
	pf_wire_put_u64(&deletion, 2, 1);
	pf_wire_put_u64(&deletion, 3, 5);
	pf_wire_put_u64(&fragment, 1, 7);
	put_message(&fragment, 3, deletion.data, deletion.len);
	put_message(&p->has, 2, fragment.data, fragment.len);
	needs(p, "_deletions/7-1-5.bin");
}

/* An index section of one entry, with the bitmap. */
static void add_index(struct pf_buf *section, const void *bitmap, size_t len)
{
	_cleanup_(pf_buf_release) struct pf_buf uuid = PF_BUF_INIT, entry = PF_BUF_INIT;

	put_message(&uuid, 1, "0123456789abcdef", 16);
	put_message(&entry, 1, uuid.data, uuid.len);
	put_message(&entry, 3, "i", 1);
	put_message(&entry, 5, bitmap, len);
	put_message(section, 1, entry.data, entry.len);
}

static void test_index(void **state)
{
	/* Of CRoaring's portable form: no containers. */
	static const uint8_t empty[] = { 0x3a, 0x30, 0, 0, 0, 0, 0, 0 }, wrong[] = { 0x3b, 0x31, 0, 0, 0, 0, 0, 0 };
	_cleanup_(pf_buf_release) struct pf_buf good = PF_BUF_INIT, bad = PF_BUF_INIT;
	struct pair *p = *state;
	struct pf_why why = PF_WHY_INIT;

	add_index(&good, empty, sizeof(empty));
	add_index(&bad, wrong, sizeof(wrong));
	p->next.index = &good;
	assert_int_equal(look(p, &why), -ENOENT);
	assert_non_null(strstr(why.text, "\"_indices/30313233-3435-3637-3839-616263646566\" is gone"));
	pf_store_mem_put(p->st, "_indices/30313233-3435-3637-3839-616263646566/index.idx", "x", 1);
	assert_int_equal(look(p, NULL), 0);
	p->next.index = &bad;
	assert_int_equal(look(p, &why), -EBADMSG);
	/* The one that the base has is its own. */
	p->base.index = p->next.index = &good;
	assert_int_equal(pf_store_unlink(p->st, "_indices/30313233-3435-3637-3839-616263646566/index.idx"), 0);
	assert_int_equal(look(p, NULL), 0);
}

/* Fields of the manifest, of a column, a fragment and a file of one, in another shape than Lance's: prost 0.14 refuses each, and so the whole manifest. */
static void test_shapes(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} bad[] = {
#define BYTES(s) { s, sizeof(s) - 1 }
		BYTES("\x0a\x03\x12\x01\xff"),	       /* the name of a column is no text */
		BYTES("\x0a\x03\x2a\x01\xff"),	       /* nor is its type */
		BYTES("\x0a\x02\x10\x01"),	       /* it is a number */
		BYTES("\x0a\x03\x1a\x01\x01"),	       /* its id is none */
		BYTES("\x0a\x02\x1a\x7f"),	       /* longer than what it is in */
		BYTES("\x42\x01\xff"),		       /* a tag of the version */
		BYTES("\x58\x01\x5a\x01\x01"),	       /* max_fragment_id is bytes */
		BYTES("\x7a\x03\x12\x01\xff"),	       /* the version of the file format */
		BYTES("\x82\x01\x03\x0a\x01\xff"),     /* a key of the configuration */
		BYTES("\x12\x05\x12\x03\x15\x00\x00"), /* cut off */
		BYTES("\x12\x05\x12\x03\x12\x01\x80"), /* a column of a file does not end */
		BYTES("\x12\x05\x12\x03\x32\x01\x01"), /* the size of a file is bytes */
		BYTES("\x12\x03\x22\x01\x01"),	       /* the rows of a fragment are bytes */
	};
	struct pair *p = *state;

	pf_store_mem_put(p->st, "data/", "x", 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		pf_buf_reset(&p->has);
		assert_int_equal(pf_buf_add(&p->has, bad[i].bytes, bad[i].len), 0);
		int r = look(p, NULL);
		if (r != -EBADMSG)
			fail_msg("shape %zu: %d", i, r);
	}
}

static void test_storage_fails(void **state)
{
	struct pair *p = *state;
	struct pf_why why = PF_WHY_INIT;
	bool said = false;
	int r = -EIO;

	table_add_fragment(&p->has, 0, "a.lance", 0, -1);
	pf_store_mem_put(p->st, "data/a.lance", "x", 1);
	for (unsigned nth = 1; r < 0; nth++) {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *base = NULL, *staged = NULL;
		char was[TABLE_NAME_MAX], is[TABLE_NAME_MAX];
		assert_int_equal(look(p, NULL), 0);
		table_manifest_name(&p->base, was);
		table_manifest_name(&p->next, is);
		_cleanup_(pf_freep) char *as = NULL;
		assert_true(asprintf(&as, "%s#1", is) > 0);
		assert_int_equal(pf_manifest_open(p->st, was, &base, NULL), 0);
		assert_int_equal(pf_manifest_open_staged(p->st, as, is, &staged, NULL), 0);
		pf_store_mem_fault(p->st, nth, PF_FAULT_BEFORE, -EIO, false);
		r = pf_manifest_whole(p->st, "", base, staged, is, &why);
		pf_store_mem_fault(p->st, 0, PF_FAULT_BEFORE, 0, false);
		assert_true(r == 0 || r == -EIO);
		said |= r < 0 && strstr(why.text, "cannot look at \"data/a.lance\"");
	}
	assert_true(said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_data_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_branch, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_was_there, setup, teardown),
		cmocka_unit_test_setup_teardown(test_other_bases, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deletion_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_index, setup, teardown),
		cmocka_unit_test_setup_teardown(test_shapes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_storage_fails, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
