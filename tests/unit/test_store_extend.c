/* Changing the end of a file that is there (store.h: extend, put, cut), asked of every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/store_mem.h"
#include "each_store.h"

/* The file `name` as it is now, open to be changed. */
static struct pf_stage *extend(struct pf_store *st, const char *name)
{
	struct pf_stage *sg;
	struct pf_stat is;
	assert_int_equal(pf_store_stat(st, name, &is), 0);
	assert_int_equal(pf_store_extend(st, name, &is, &sg), 0);
	return sg;
}

static void a_file_is_changed_and_changed_back(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stat before, after;
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "d/f", "0123456789");
	assert_int_equal(pf_store_link(st, "d/f", "d/g"), 0);
	assert_int_equal(pf_store_stat(st, "d/f", &before), 0);
	struct pf_stage *sg = extend(st, "d/g");
	assert_int_equal(pf_stage_put(sg, 8, "abcdef", 6), 0); /* over its end */
	assert_int_equal(pf_stage_put(sg, 1, "XY", 2), 0);
	assert_int_equal(pf_stage_put(sg, 14, "g", 1), 0);
	assert_int_equal(pf_stage_put(sg, 15, "", 0), 0);
	assert_int_equal(pf_stage_sync(sg), 0);
	store_expect(st, "d/f", "0XY34567abcdefg");
	assert_int_equal(pf_store_stat(st, "d/f", &after), 0);
	assert_int_equal(after.ino, before.ino);
	assert_int_equal(pf_stage_cut(sg, 10), 0);
	assert_int_equal(pf_stage_put(sg, 1, "12", 2), 0);
	assert_int_equal(pf_stage_put(sg, 8, "89", 2), 0);
	store_expect(st, "d/f", "0123456789");
	pf_stage_discard(sg);
}

static void only_the_file_that_is_meant_is_changed(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg = NULL;
	struct pf_stat is, other;
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "f", "abc");
	store_put(st, "g", "abc");
	assert_int_equal(pf_store_stat(st, "f", &is), 0);
	assert_int_equal(pf_store_extend(st, "g", &is, &sg), -ESTALE);
	other = is;
	other.size++;
	assert_int_equal(pf_store_extend(st, "f", &other, &sg), -ESTALE);
	other = is;
	other.mtime_ns--;
	assert_int_equal(pf_store_extend(st, "f", &other, &sg), -ESTALE);
	assert_int_equal(pf_store_extend(st, "d", &is, &sg), -EISDIR);
	assert_int_equal(pf_store_extend(st, "h", &is, &sg), -ENOENT);
	assert_int_equal(pf_store_extend(st, "f/x", &is, &sg), -ENOTDIR);
	assert_int_equal(pf_store_extend(st, "../f", &is, &sg), -EINVAL);
	assert_null(sg);
	store_expect(st, "f", "abc");
}

/* What leads elsewhere is not followed, by whatever part of the name. */
static void no_link_is_followed(void **state)
{
	struct each_store *f = *state;
	struct pf_stage *sg = NULL;
	struct pf_stat is;
	char path[128];
	assert_int_equal(pf_store_mkdir(f->st, "d"), 0);
	store_put(f->st, "d/f", "abc");
	assert_int_equal(pf_store_stat(f->st, "d/f", &is), 0);
	snprintf(path, sizeof(path), "%s/d/link", f->dir);
	assert_int_equal(symlink("f", path), 0);
	snprintf(path, sizeof(path), "%s/dir", f->dir);
	assert_int_equal(symlink("d", path), 0);
	assert_int_equal(pf_store_extend(f->st, "d/link", &is, &sg), -ELOOP);
	assert_int_equal(pf_store_extend(f->st, "dir/f", &is, &sg), -ENOTDIR);
	assert_null(sg);
}

#define EACH(t)                                                                                                        \
	cmocka_unit_test_setup_teardown(t, each_store_mem, each_store_teardown),                                       \
		cmocka_unit_test_setup_teardown(t, each_store_local, each_store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(a_file_is_changed_and_changed_back),
		EACH(only_the_file_that_is_meant_is_changed),
		cmocka_unit_test_setup_teardown(no_link_is_followed, each_store_local, each_store_teardown),
	};
	return cmocka_run_group_tests_name("store_extend", tests, NULL, NULL);
}
