/* The history of a head, with its content on a base: in the table, beside it, nowhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fri_branch.h"
#include "core/store_mem.h"

#include "moves.h"
#include "table.h"

#define FILE_ "_indices/0badcafe-0000-4000-a000-000000000003/details.binpb"

/* A head whose history of one record is in FILE_ on base 3, which leads to `path`; NULL: nowhere, as it has no base. */
static struct pf_store *table_at(const char *path, struct pf_buf *content)
{
	_cleanup_(pf_buf_release) struct pf_buf details = PF_BUF_INIT, section = PF_BUF_INIT, extra = PF_BUF_INIT;
	struct pf_store *st = NULL;

	moves_content("L5 0:1 > 1:1", content);
	moves_details_external("details.binpb", 0, content->len, &details);
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 3,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .has_base = true,
					   .base_id = 3 },
		    &section);
	if (path)
		table_add_base(&extra, 3, true, path);
	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &(struct table_version){ .version = 1, .index = &section, .extra = &extra });
	return st;
}

static int read_head(struct pf_store *st, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	assert_int_equal(pf_branch_open(st, NULL, &b, why), 0);
	assert_int_equal(pf_branch_head(b, &m, why), 0);
	return pf_fri_read_branch(b, m, out, why);
}

static void test_inside(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = table_at("/memory//tree/x/", &content);
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(read_head(st, &f, &why), -ENOENT);
	assert_int_equal(pf_store_mem_put(st, "tree/x/" FILE_, content.data, content.len), 0);
	if (read_head(st, &f, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(f.n_records, 1);
}

static void write_below(const char *dir, const struct pf_buf *content)
{
	char path[256], *slash = path + strlen(dir);

	snprintf(path, sizeof(path), "%s/" FILE_, dir);
	while ((slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		assert_int_equal(mkdir(path, 0700), 0);
		*slash = '/';
	}
	FILE *f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(content->data, 1, content->len, f), content->len);
	assert_int_equal(fclose(f), 0);
}

static void remove_below(const char *dir)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/" FILE_, dir);
	assert_int_equal(unlink(path), 0);
	while (strcmp(path, dir) != 0) {
		*strrchr(path, '/') = '\0';
		assert_int_equal(rmdir(path), 0);
	}
}

static void test_beside(void **state)
{
	char dir[] = "/tmp/fri_branch.XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = table_at(dir, &content);
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	write_below(dir, &content);
	int r = read_head(st, &f, &why);
	remove_below(dir);
	if (r < 0)
		fail_msg("%s", why.text);
	assert_int_equal(f.n_records, 1);
}

static void test_nowhere(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = table_at(NULL, &content);
	_cleanup_(pf_store_freep) struct pf_store *plain = table_new(1, &(struct table_version){ 0 });
	struct pf_fri f = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(read_head(plain, &f, NULL), -ENODATA);
	assert_int_equal(read_head(st, &f, &why), -EBADMSG);
	assert_string_equal(why.text,
			    "the history of moved rows: _versions/18446744073709551614.manifest: base 3, which it "
			    "names, is not there");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_beside),
		cmocka_unit_test(test_nowhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
