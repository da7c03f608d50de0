/* Files of prepared work, brought into a table: what gets a name there, what is never overwritten, and what is left when it comes to nothing. */
#include "core/bring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "on_disk.h"
#include "prepared.h"
#include "world.h"

struct fixture {
	char dir[64];
	struct pf_store *mem, *table;
	struct pf_branch *b;
};

/* A table without data/, and a scratch dataset with a.lance, which has blobs, and b.lance beside its data/. */
static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	disk_enter(x->dir);
	x->mem = table_new(1, &(struct table_version){ .version = 1 });
	x->table = disk_table(x->mem, "t");
	assert_int_equal(pf_branch_open(x->table, NULL, &x->b, NULL), 0);
	disk_put("s/data/a.lance", "a");
	disk_put("s/data/a/0.blob", "blob");
	disk_put("s/b.lance", "b");
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	pf_branch_free(x->b);
	pf_store_free(x->table);
	pf_store_free(x->mem);
	disk_leave(x->dir);
	free(x);
	return 0;
}

static int bring(struct fixture *x, const char *text, struct pf_bring *out, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	prepared(text, 1, SOURCE_5, &o);
	return pf_bring_in(x->b, "s", &o, out, why);
}

/* What was brought by this: SOURCE_5 came to nothing. */
static void undo(struct fixture *x, struct pf_bring *l)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	prepared("Append n0:a.lance", 1, SOURCE_5, &o);
	pf_bring_undo(x->b, &o, l);
}

/* SOURCE_5 becomes version 2. */
static void land(struct fixture *x)
{
	const struct table_version v = { .version = 2, .uuid = SOURCE_5 };
	char manifest[TABLE_NAME_MAX], txn[TABLE_NAME_MAX];

	table_put(x->mem, &v);
	for (const char *const *name =
		     (const char *const[]){ table_manifest_name(&v, manifest), table_txn_name(&v, txn), NULL };
	     *name; name++) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
		assert_int_equal(pf_store_get(x->mem, *name, 1 << 20, &bytes), 0);
		assert_int_equal(pf_store_create(x->table, *name, &sg), 0);
		assert_int_equal(pf_stage_write(sg, bytes.data, bytes.len), 0);
	}
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static void in_and_done(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };

	assert_int_equal(bring(*state, "Append n0:a.lance n0:b.lance", &l, NULL), 0);
	assert_true(disk_same_file("t/data/a.lance", "s/data/a.lance"));
	assert_true(disk_same_file("t/data/a/0.blob", "s/data/a/0.blob"));
	assert_true(disk_same_file("t/data/b.lance", "s/b.lance"));
	assert_int_equal(pf_bring_end(&l), 0);
	assert_true(disk_has("t/data/a.lance", "a") && disk_has("t/data/a/0.blob", "blob") &&
		    disk_has("t/data/b.lance", "b"));
	assert_false(is_there("s/data/a.lance") || is_there("s/data/a") || is_there("s/b.lance"));
	assert_true(is_there("s/data"));
}

static void in_and_undone(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };

	assert_int_equal(bring(*state, "Append n0:a.lance n0:b.lance", &l, NULL), 0);
	undo(*state, &l);
	assert_false(is_there("t/data"));
	assert_true(disk_has("s/data/a.lance", "a") && disk_has("s/data/a/0.blob", "blob") &&
		    disk_has("s/b.lance", "b"));
}

/* Each form of work that brings files. */
static void all_kinds(void **state)
{
	for (const char *const *text = (const char *const[]){ "Rewrite g1,2", "Update u1 n0:f.lance",
							      "DataReplacement d1:0", "Overwrite n0:f.lance", NULL };
	     *text; text++) {
		_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
		disk_put("s/data/f.lance", "f");
		assert_int_equal(bring(*state, *text, &l, NULL), 0);
		assert_true(disk_same_file("t/data/f.lance", "s/data/f.lance"));
		assert_int_equal(pf_bring_end(&l), 0);
		assert_int_equal(unlink("t/data/f.lance"), 0);
	}
}

/* That would be a version without its data, or without its blobs. */
static void what_cannot_be_looked_at_is_not_missing(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(rename("s/data", "s/kept"), 0);
	assert_int_equal(symlink("data", "s/data"), 0);
	assert_int_equal(bring(*state, "Append n0:a.lance", &l, &why), -ELOOP);
	assert_non_null(strstr(why.text, "cannot look at \"s/data/a.lance\""));
	assert_int_equal(unlink("s/data"), 0);
	assert_int_equal(rename("s/kept", "s/data"), 0);
	assert_int_equal(rename("s/data/a", "s/kept"), 0);
	assert_int_equal(symlink("a", "s/data/a"), 0);
	assert_int_equal(bring(*state, "Append n0:a.lance", &l, &why), -ELOOP);
	assert_non_null(strstr(why.text, "cannot list \"s/data/a\""));
	assert_false(is_there("t/data"));
}

static void again(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring first = { 0 }, second = { 0 }, third = { 0 };

	assert_int_equal(bring(*state, "Append n0:a.lance", &first, NULL), 0);
	/* Ended before it was committed: what is there is taken for what it is, and not taken back. */
	assert_int_equal(bring(*state, "Append n0:a.lance", &second, NULL), 0);
	undo(*state, &second);
	assert_true(disk_has("t/data/a.lance", "a") && disk_has("t/data/a/0.blob", "blob"));
	assert_int_equal(pf_bring_end(&first), 0);
	/* Ended after that. */
	assert_int_equal(bring(*state, "Append n0:a.lance", &third, NULL), 0);
	assert_int_equal(third.n, 0);
}

/* Two runs of the same share the names in the table: what lands keeps them, whatever becomes of the other. */
static void landed_by_another(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring first = { 0 }, second = { 0 };

	assert_int_equal(bring(*state, "Append n0:a.lance", &first, NULL), 0);
	assert_int_equal(bring(*state, "Append n0:a.lance", &second, NULL), 0);
	land(*state);
	undo(*state, &first);
	assert_true(disk_same_file("t/data/a.lance", "s/data/a.lance"));
	assert_true(disk_same_file("t/data/a/0.blob", "s/data/a/0.blob"));
}

static void taken_back_before_it_landed(void **state)
{
	_cleanup_(pf_bring_release) struct pf_bring first = { 0 }, second = { 0 };
	struct fixture *x = *state;

	assert_int_equal(bring(*state, "Append n0:a.lance", &first, NULL), 0);
	assert_int_equal(bring(*state, "Append n0:a.lance", &second, NULL), 0);
	undo(*state, &first);
	assert_false(is_there("t/data"));
	land(*state);
	assert_int_equal(pf_bring_keep(x->b, &second, NULL), 0);
	assert_int_equal(pf_bring_end(&second), 0);
	assert_true(disk_has("t/data/a.lance", "a") && disk_has("t/data/a/0.blob", "blob"));
}

/* Whoever names the table itself, or a link to it, loses nothing: the name that would go is the one that stays. */
static void from_the_table_itself(void **state)
{
	struct fixture *x = *state;

	disk_put("t/data/a.lance", "a");
	disk_put("t/data/a/0.blob", "blob");
	assert_int_equal(symlink("t", "same"), 0);
	assert_int_equal(link("t/data/a.lance", "another_name"), 0);
	for (const char *const *dir = (const char *const[]){ "t", "t/", "same", "./t/data", NULL }; *dir; dir++) {
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
		prepared("Append n0:a.lance", 1, SOURCE_5, &o);
		assert_int_equal(pf_bring_in(x->b, *dir, &o, &l, NULL), 0);
		assert_int_equal(pf_bring_end(&l), 0);
		assert_true(disk_has("t/data/a.lance", "a") && disk_has("t/data/a/0.blob", "blob"));
	}
}

static void refused(struct fixture *x, int err, const char *sentence)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(bring(x, "Append n0:b.lance n0:a.lance", &l, &why), err);
	if (!strstr(why.text, sentence))
		fail_msg("%s", why.text);
	assert_int_equal(l.n, 0);
	assert_false(is_there("t/data/b.lance"));
}

static void nothing_is_overwritten(void **state)
{
	disk_put("t/data/a.lance", "another");
	refused(*state, -EEXIST, "nothing is overwritten");
	assert_true(disk_has("t/data/a.lance", "another"));
	assert_int_equal(unlink("t/data/a.lance"), 0);
	disk_put("t/data/a/0.blob", "another");
	refused(*state, -EEXIST, "nothing is overwritten");
	assert_true(disk_has("t/data/a/0.blob", "another"));
	assert_false(is_there("t/data/a.lance"));
}

static void what_cannot_come(void **state)
{
	assert_int_equal(unlink("s/data/a.lance"), 0);
	refused(*state, -EINVAL, "is not there, and not in the table either");
	assert_int_equal(symlink("../b.lance", "s/data/a.lance"), 0);
	refused(*state, -EINVAL, "is not a file");
	assert_int_equal(unlink("s/data/a.lance"), 0);
	assert_int_equal(mkdir("s/data/a.lance", 0755), 0);
	refused(*state, -EINVAL, "is not a file");
}

/* Of a copy: what is new there, and deletion files under the name of the fragment that they are of here. */
static void from_a_copy(void **state)
{
	struct fixture *x = *state;
	_cleanup_(pf_store_freep) struct pf_store *st = disk_table(x->mem, "c");
	_cleanup_(pf_branch_freep) struct pf_branch *copy = NULL;
	_cleanup_(pf_operation_release) struct pf_operation theirs = { 0 }, ours = { 0 }, index = { 0 };
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 }, more = { 0 };
	char from[128], to[128];

	assert_int_equal(pf_branch_open(st, NULL, &copy, NULL), 0);
	disk_put("c/data/f.lance", "f");
	disk_put("c/data/a.lance", "new");
	disk_put("c/_deletions/5-1-1.bin", "deleted");
	prepared("Update u5:f.lance n0:a.lance", 1, SOURCE_5, &theirs);
	prepared("Update u9:f.lance n0:a.lance", 1, SOURCE_5, &ours);
	assert_int_equal(pf_bring_copied(x->b, copy, &theirs, &ours, &l, NULL), 0);
	assert_true(disk_same_file("t/data/a.lance", "c/data/a.lance"));
	assert_true(disk_same_file("t/data/f.lance", "c/data/f.lance"));
	assert_true(disk_same_file("t/_deletions/9-1-1.bin", "c/_deletions/5-1-1.bin"));
	assert_false(is_there("t/_deletions/5-1-1.bin"));

	prepared("CreateIndex na:0:1", 1, SOURCE_5, &index);
	snprintf(from, sizeof(from), "c/_indices/%s/index.idx", index.new_indices.v[0].uuid);
	snprintf(to, sizeof(to), "t/_indices/%s/index.idx", index.new_indices.v[0].uuid);
	disk_put(from, "index");
	assert_int_equal(pf_bring_copied(x->b, copy, &index, &index, &more, NULL), 0);
	assert_true(disk_same_file(from, to));

	pf_bring_undo(x->b, &index, &more);
	pf_bring_undo(x->b, &ours, &l);
	assert_false(is_there("t/data") || is_there("t/_deletions"));
	assert_false(is_there(to));
	assert_true(disk_has("c/_deletions/5-1-1.bin", "deleted") && disk_has(from, "index"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_and_done, setup, teardown),
		cmocka_unit_test_setup_teardown(in_and_undone, setup, teardown),
		cmocka_unit_test_setup_teardown(all_kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_be_looked_at_is_not_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(again, setup, teardown),
		cmocka_unit_test_setup_teardown(landed_by_another, setup, teardown),
		cmocka_unit_test_setup_teardown(taken_back_before_it_landed, setup, teardown),
		cmocka_unit_test_setup_teardown(from_the_table_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_overwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(what_cannot_come, setup, teardown),
		cmocka_unit_test_setup_teardown(from_a_copy, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
