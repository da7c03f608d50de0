/* Each damaged file of tests/data/bad in its place in a table: what is said of it, and what it may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/check.h"
#include "core/store_mem.h"

#include "alloc.h"
#include "table.h"

/* The largest of these files has 3,000 bytes, most claim 4 GiB. A window of the wire cursor is 64 KiB. */
#define BYTES_MAX (1 << 20)

static char *data_path(const char *name)
{
	const char *source = getenv("PINFS_SOURCE");
	char *path;

	assert_non_null(source);
	assert_true(asprintf(&path, "%s/tests/data/bad/%s", source, name) > 0);
	return path;
}

static void read_file(const char *name, struct pf_buf *out)
{
	_cleanup_(pf_freep) char *path = data_path(name);
	char chunk[4096];
	size_t n;
	FILE *f = fopen(path, "rb");

	if (!f)
		fail_msg("%s: cannot be opened", path);
	while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		assert_int_equal(pf_buf_add(out, chunk, n), 0);
	fclose(f);
}

static bool is_kind(const char *file, const char *kind)
{
	return strncmp(file, kind, strlen(kind)) == 0 && file[strlen(kind)] == '/';
}

/* A table of version 7, good but for this one file. Returns where it is. */
static const char *place(struct pf_store *st, const char *file, const struct pf_buf *bytes, char name[TABLE_NAME_MAX])
{
	const struct table_version v = { 7, .v1 = true,
					 .txn = is_kind(file, "txn-file") ? TABLE_TXN_FILE : TABLE_TXN_14 };

	table_put(st, &v);
	if (is_kind(file, "txn-file"))
		table_txn_name(&v, name);
	else if (is_kind(file, "tag"))
		strcpy(name, "_refs/tags/keep.json");
	else if (is_kind(file, "branch"))
		strcpy(name, "_refs/branches/feat%2Fx.json");
	else
		strcpy(name, "_versions/7.manifest");
	assert_int_equal(pf_store_mem_put(st, name, bytes->data, bytes->len), 0);
	return name;
}

static void reads_only(void *arg, struct pf_store *st, const char *op, const char *name)
{
	assert_true(strcmp(op, "open") == 0 || strcmp(op, "read") == 0 || strcmp(op, "stat") == 0 ||
		    strcmp(op, "list") == 0);
}

struct looking {
	const char *file, *says;
	bool seen;
};

static int look(void *arg, const struct pf_finding *f)
{
	struct looking *l = arg;

	if (f->severity == PF_DAMAGE && strstr(f->text, l->file) && strstr(f->text, l->says))
		l->seen = true;
	return 0;
}

static void check_one(const char *file, const char *says)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_check_totals totals;
	struct pf_tags tags = { 0 };
	struct pf_branch_refs refs = { 0 };
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_new(&st), 0);
	read_file(file, &bytes);
	struct looking l = { place(st, file, &bytes, name), says };
	pf_store_mem_set_hook(st, reads_only, NULL);

	alloc_fail(0);
	assert_int_equal(pf_check(st, look, NULL, &l, &totals, &why), 0);
	if (!l.seen)
		fail_msg("%s: check does not say \"%s\"", file, says);
	if (alloc_bytes() > BYTES_MAX)
		fail_msg("%s: check asks for %zu bytes", file, alloc_bytes());

	alloc_fail(0);
	if (is_kind(file, "tag"))
		assert_int_equal(pf_tags_list(st, &tags, &why), -EBADMSG);
	else if (is_kind(file, "branch"))
		assert_int_equal(pf_branches_list(st, &refs, &why), -EBADMSG);
	else if (is_kind(file, "manifest"))
		assert_int_equal(pf_branch_open(st, NULL, &b, &why), -EBADMSG);
	else
		return; /* what a head does not need: only the walk reads it */
	if (!strstr(why.text, l.file) || !strstr(why.text, says))
		fail_msg("%s: \"%s\" does not say \"%s\"", file, why.text, says);
	assert_true(alloc_bytes() < BYTES_MAX);
}

static void test_every_file(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf expected = PF_BUF_INIT;
	size_t n = 0;

	read_file("expected", &expected);
	assert_non_null(pf_buf_str(&expected));
	for (char *line = (char *)expected.data, *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		char *tab = strchr(line, '\t');
		assert_non_null(tab);
		*tab = '\0';
		check_one(line, tab + 1);
		n++;
	}
	assert_true(n > 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
