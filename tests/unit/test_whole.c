/* Whether the files are there that a transaction brings. */
#include "core/whole.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "prepared.h"

static int setup(void **state)
{
	return pf_store_mem_new((struct pf_store **)state);
}

static int teardown(void **state)
{
	pf_store_free(*state);
	return 0;
}

static int look(struct pf_store *st, const char *dir, const char *text, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	prepared(text, 1, "12345678-1111-4222-8333-444444444444", &o);
	return pf_operation_whole(st, dir, &o, why);
}

/* It is whole with the file, and only then. */
static void needs(struct pf_store *st, const char *dir, const char *text, const char *file)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(look(st, dir, text, &why), -ENOENT);
	assert_non_null(strstr(why.text, file));
	assert_non_null(strstr(why.text, "to be done again"));
	pf_store_mem_put(st, file, "x", 1);
	assert_int_equal(look(st, dir, text, NULL), 0);
}

static void test_each_operation(void **state)
{
	struct pf_store *st = *state;

	needs(st, "", "Append n0:a.lance", "data/a.lance");
	needs(st, "", "Append n0:a.lance n0:b.lance", "data/b.lance");
	needs(st, "", "Overwrite n0:c.lance c", "data/c.lance");
	needs(st, "", "Update r1 n0:d.lance", "data/d.lance");
	needs(st, "", "Merge n1:e.lance c", "data/e.lance");
	needs(st, "tree/x/", "Append n0:a.lance", "tree/x/data/a.lance");
}

static void test_deletion_file(void **state)
{
	pf_store_mem_put(*state, "data/f.lance", "x", 1);
	needs(*state, "", "Delete u7", "_deletions/7-1-1.bin");
}

static void test_without_files(void **state)
{
	assert_int_equal(look(*state, "", "UpdateConfig ca", NULL), 0);
	assert_int_equal(look(*state, "", "Delete r1", NULL), 0);
	assert_int_equal(look(*state, "", "ReserveFragments 4", NULL), 0);
}

static void test_storage_fails(void **state)
{
	struct pf_why why = PF_WHY_INIT;

	pf_store_mem_put(*state, "data/a.lance", "x", 1);
	pf_store_mem_fault(*state, 1, PF_FAULT_BEFORE, -EIO, false);
	assert_int_equal(look(*state, "", "Append n0:a.lance", &why), -EIO);
	assert_non_null(strstr(why.text, "cannot look at \"data/a.lance\""));
}

/* An Append of one fragment of one file of 10 bytes. */
static void sized(struct pf_operation *o)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT, fragment = PF_BUF_INIT, body = PF_BUF_INIT,
						bytes = PF_BUF_INIT;

	pf_wire_put_bytes(&file, 1, "a.lance", 7);
	pf_wire_put_u64(&file, 4, 2);
	pf_wire_put_u64(&file, 6, 10);
	pf_wire_put_bytes(&fragment, 2, file.data, file.len);
	pf_wire_put_bytes(&body, 1, fragment.data, fragment.len);
	pf_wire_put_u64(&bytes, 1, 1);
	pf_wire_put_bytes(&bytes, 100, body.data, body.len);
	assert_int_equal(pf_operation_decode(&bytes, o, NULL), 0);
}

static void test_sizes(void **state)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	struct pf_why why = PF_WHY_INIT;

	sized(&o);
	pf_store_mem_put(*state, "data/a.lance", "123456789", 9);
	assert_int_equal(pf_operation_whole(*state, "", &o, &why), -ENOENT);
	assert_non_null(strstr(why.text, "\"data/a.lance\" has 9 of 10 bytes"));
	pf_store_mem_put(*state, "data/a.lance", "1234567890", 10);
	assert_int_equal(pf_operation_whole(*state, "", &o, NULL), 0);
	pf_store_mem_put(*state, "data/a.lance", "12345678901", 11);
	assert_int_equal(pf_operation_whole(*state, "", &o, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_operation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_deletion_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_storage_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
