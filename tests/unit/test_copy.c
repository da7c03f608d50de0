/* Copies of a table that released Lance can write to: what is shared, what is new, what stays behind, and of what it says that it is a copy. */
#include "core/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/branch.h"
#include "core/base_path.h"
#include "core/store_mem.h"
#include "on_disk.h"
#include "pinned.h"
#include "world.h"

#define BRANCH "tree/feat/x/"

struct fixture {
	char dir[64], at[96];
	struct pf_store *mem, *table, *copy;
};

/* Versions 1 to 3 with pin a, and branch feat/x of version 2, whose head is 4. */
static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	const struct table_version like = { .version = 1, .writer_flags = BIT_PINS };

	disk_enter(x->dir);
	snprintf(x->at, sizeof(x->at), "%s/copy", x->dir);
	x->mem = table_new(1, &like);
	for (uint64_t v = 2; v <= 3; v++)
		pinned_put(x->mem, &(struct table_version){ .version = v, .writer_flags = BIT_PINS },
			   &(struct pinned){ .pins = "a" });
	for (uint64_t v = 3; v <= 4; v++)
		table_put(x->mem, &(struct table_version){
					  .version = v, .dir = BRANCH, .branch = "feat/x", .writer_flags = BIT_PINS });
	table_put_branch(x->mem, "feat/x", 2, "0123456789abcdef0123456789abcdef");
	pf_store_mem_put(x->mem, "data/a.lance", "data", 4);
	pf_store_mem_put(x->mem, BRANCH "data/b.lance", "more", 4);
	x->table = disk_table(x->mem, "t");
	assert_int_equal(mkdir("copy", 0755), 0);
	assert_int_equal(pf_store_local_open("copy", &x->copy, NULL), 0);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	pf_store_free(x->copy);
	pf_store_free(x->table);
	pf_store_free(x->mem);
	disk_leave(x->dir);
	free(x);
	return 0;
}

static void copy(struct fixture *x, struct pf_copied *done)
{
	struct pf_why why = PF_WHY_INIT;

	if (pf_copy_table(x->table, x->copy, x->at, done, &why) < 0)
		fail_msg("%s", why.text);
}

static void want_origin(struct pf_store *st, const char *dir, uint64_t version)
{
	struct pf_copy_origin o;
	char uuid[PF_UUID_TEXT];

	assert_int_equal(pf_copy_origin(st, dir, &o, NULL), 0);
	assert_int_equal(o.version, version);
	assert_string_equal(o.uuid, table_uuid(version, uuid));
}

/* All of its versions can be opened, and none says anything of pins. */
static void want_unpinned(struct pf_store *st, const char *branch, uint64_t first, uint64_t last)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	assert_int_equal(pf_branch_open(st, branch, &b, NULL), 0);
	for (uint64_t v = first; v <= last; v++) {
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		assert_int_equal(pf_branch_version(b, v, &m, NULL), 0);
		assert_int_equal(m->writer_flags, 0);
		assert_int_equal(m->pins.n, 0);
	}
}

static void what_is_in_it(void **state)
{
	struct fixture *x = *state;
	struct pf_copied done;
	char txn[96], uuid[PF_UUID_TEXT];

	copy(x, &done);
	want_unpinned(x->copy, NULL, 1, 3);
	want_unpinned(x->copy, "feat/x", 3, 4);
	assert_int_equal(done.manifests, 5);
	assert_true(disk_same_file("t/data/a.lance", "copy/data/a.lance"));
	assert_true(disk_same_file("t/" BRANCH "data/b.lance", "copy/" BRANCH "data/b.lance"));
	snprintf(txn, sizeof(txn), "_transactions/2-%s.txn", table_uuid(3, uuid));
	char there[320], here[320];
	snprintf(there, sizeof(there), "t/%s", txn);
	snprintf(here, sizeof(here), "copy/%s", txn);
	assert_true(disk_same_file(there, here));
	const struct table_version head = { .version = 3 };
	char name[TABLE_NAME_MAX];
	snprintf(there, sizeof(there), "t/%s", table_manifest_name(&head, name));
	snprintf(here, sizeof(here), "copy/%s", name);
	assert_int_equal(access(here, F_OK), 0);
	assert_false(disk_same_file(there, here));
	want_origin(x->copy, "", 3);
	want_origin(x->copy, BRANCH, 4);
}

static void what_stays_behind(void **state)
{
	struct fixture *x = *state;
	struct pf_copied done;

	disk_put("t/_versions/.tmpabc", "half");
	disk_put("t/_transactions/.tmp1-x.txn", "half");
	disk_put("t/_refs/tags/pinfs-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json", "{}");
	disk_put("t/_refs/tags/pinfs-mine.json", "{}");
	copy(x, &done);
	assert_int_not_equal(access("copy/_versions/.tmpabc", F_OK), 0);
	assert_int_not_equal(access("copy/_transactions/.tmp1-x.txn", F_OK), 0);
	assert_int_not_equal(access("copy/_refs/tags/pinfs-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json", F_OK), 0);
	/* A name that only begins like that of a guard is somebody's tag. */
	assert_int_equal(access("copy/_refs/tags/pinfs-mine.json", F_OK), 0);
}

/* What the copy of a copy says of itself is not what the copy says. */
static void copies_of_copies(void **state)
{
	struct fixture *x = *state;
	_cleanup_(pf_store_freep) struct pf_store *second = NULL;
	struct pf_copied done;
	struct pf_copy_origin o;
	char at[128];

	copy(x, &done);
	disk_put("copy/" PF_COPY_ORIGIN, "9 " SOURCE_5 " tree/gone/\n");
	assert_int_equal(mkdir("second", 0755), 0);
	assert_int_equal(pf_store_local_open("second", &second, NULL), 0);
	snprintf(at, sizeof(at), "%s/second", x->dir);
	assert_int_equal(pf_copy_table(x->copy, second, at, &done, NULL), 0);
	want_origin(second, "", 3);
	want_origin(second, BRANCH, 4);
	assert_int_equal(pf_copy_origin(second, "tree/gone/", &o, NULL), -EINVAL);
}

static void links_are_refused(void **state)
{
	struct fixture *x = *state;
	struct pf_copied done;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(symlink("a.lance", "t/data/link.lance"), 0);
	assert_int_equal(pf_copy_table(x->table, x->copy, x->at, &done, &why), -EOPNOTSUPP);
	assert_non_null(strstr(why.text, "data/link.lance is a link"));
}

/* Base paths: of the table, of a branch in it, and elsewhere. */
static void base_paths(void **state)
{
	struct fixture *x = *state;
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *table = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;
	_cleanup_(pf_base_paths_release) struct pf_base_paths l = { 0 };
	struct pf_copied done;
	char path[160], inside[160];

	snprintf(path, sizeof(path), "%s/t", x->dir);
	table_add_base(&extra, 1, true, path);
	snprintf(path, sizeof(path), "file://%s/t/tree/feat/x", x->dir);
	table_add_base(&extra, 2, true, path);
	table_add_base(&extra, 3, false, "/tmp");
	table_put(x->mem, &(struct table_version){ .version = 4, .extra = &extra });
	pf_store_free(STEAL(x->table));
	assert_int_equal(system("rm -r t"), 0);
	x->table = disk_table(x->mem, "t");
	copy(x, &done);
	assert_int_equal(pf_branch_open(x->copy, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(pf_manifest_reopen(x->copy, head, &f, NULL), 0);
	assert_int_equal(pf_base_paths_read(&f->r, head, &l, NULL), 0);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].path, x->at);
	snprintf(inside, sizeof(inside), "%s/tree/feat/x", x->at);
	assert_string_equal(l.v[1].path, inside);
	assert_true(l.v[1].is_dataset_root);
	assert_string_equal(l.v[2].path, "/tmp");
}

/* A base path that perhaps leads into the table is not left to lead there from the copy, whose writers would delete by it. */
static void a_base_path_that_cannot_be_followed(void **state)
{
	struct fixture *x = *state;
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	struct pf_copied done;
	struct pf_why why = PF_WHY_INIT;
	char path[160];

	assert_int_equal(symlink("loop", "loop"), 0);
	snprintf(path, sizeof(path), "%s/loop/t", x->dir);
	table_add_base(&extra, 1, true, path);
	table_put(x->mem, &(struct table_version){ .version = 4, .extra = &extra });
	pf_store_free(STEAL(x->table));
	assert_int_equal(system("rm -r t"), 0);
	x->table = disk_table(x->mem, "t");
	assert_int_equal(pf_copy_table(x->table, x->copy, x->at, &done, &why), -ELOOP);
	assert_non_null(strstr(why.text, "cannot tell whether the base path"));
	/* Where nothing is, nothing is deleted. */
	assert_int_equal(unlink("loop"), 0);
	assert_int_equal(system("rm -r copy/*"), 0);
	assert_int_equal(pf_copy_table(x->table, x->copy, x->at, &done, &why), 0);
}

static void origins_that_are_damaged(void **state)
{
	static const struct {
		const char *text;
		int err;
	} rows[] = {
		{ "", -EINVAL },
		{ "3 " SOURCE_5 " tree/y/\n", -EINVAL },
		{ "3 " SOURCE_5 "\n", -EBADMSG },
		{ "x " SOURCE_5 " \n", -EBADMSG },
		{ "0 " SOURCE_5 " \n", -EBADMSG },
		{ "-1 " SOURCE_5 " \n", -EBADMSG },
		{ "+3 " SOURCE_5 " \n", -EBADMSG },
		{ " " SOURCE_5 " \n", -EBADMSG },
		{ "99999999999999999999 " SOURCE_5 " \n", -EBADMSG },
		{ "3 " SOURCE_5 "0 \n", -EBADMSG },
		{ "3 none \n", -EBADMSG },
		{ "3 " SOURCE_5 " tree/y/\n4\n", -EBADMSG },
		{ "3 " SOURCE_5 " tree/y/\n4 " SOURCE_5 " \n", 0 },
	};
	struct fixture *x = *state;
	struct pf_copy_origin o;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_copy_origin(x->copy, "", &o, &why), -EINVAL);
	assert_non_null(strstr(why.text, "does not say of what it is a copy"));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		disk_put("copy/" PF_COPY_ORIGIN, rows[i].text);
		int r = pf_copy_origin(x->copy, "", &o, &why);
		if (r != rows[i].err)
			fail_msg("%s: %d", rows[i].text, r);
	}
	assert_int_equal(o.version, 4);

	static const char nul[] = "3 " SOURCE_5 " tree/y/\0\n4 " SOURCE_5 " \n";
	assert_int_equal(unlink("copy/" PF_COPY_ORIGIN), 0);
	assert_int_equal(pf_store_write_new(x->copy, PF_COPY_ORIGIN, nul, sizeof(nul) - 1, false), 0);
	assert_int_equal(pf_copy_origin(x->copy, "", &o, &why), -EBADMSG);
	assert_int_equal(truncate("copy/" PF_COPY_ORIGIN, (1 << 24) + 1), 0);
	assert_int_equal(pf_copy_origin(x->copy, "", &o, &why), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_in_it, setup, teardown),
		cmocka_unit_test_setup_teardown(what_stays_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_of_copies, setup, teardown),
		cmocka_unit_test_setup_teardown(links_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(base_paths, setup, teardown),
		cmocka_unit_test_setup_teardown(a_base_path_that_cannot_be_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(origins_that_are_damaged, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
