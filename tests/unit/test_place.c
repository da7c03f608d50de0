/* Base paths compared by what they lead to (cases-open B17; lance-14-cleanup D2, D11): every spelling of the table's root is the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/place.h"
#include "core/store_mem.h"

/* A directory with a table `t #+é`, its branch, links to it, and something else; a store on the table. */
struct fixture {
	char dir[PATH_MAX];
	struct pf_store *st;
};

#define TABLE "t #+\xc3\xa9"

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	char made[] = "/tmp/pf-place-XXXXXX";

	assert_non_null(x);
	assert_non_null(mkdtemp(made));
	assert_non_null(realpath(made, x->dir));
	assert_int_equal(chdir(x->dir), 0);
	assert_int_equal(mkdir(TABLE, 0755), 0);
	assert_int_equal(mkdir(TABLE "/data", 0755), 0);
	assert_int_equal(mkdir(TABLE "/data/sub", 0755), 0);
	assert_int_equal(mkdir(TABLE "2", 0755), 0);
	assert_int_equal(symlink(TABLE, "link"), 0);
	assert_int_equal(symlink(TABLE "/data/sub", "deep"), 0);
	assert_int_equal(pf_store_local_open("link", &x->st, NULL), 0);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	char cmd[PATH_MAX + 16];

	pf_store_free(x->st);
	assert_int_equal(chdir("/"), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", x->dir);
	assert_int_equal(system(cmd), 0);
	free(x);
	return 0;
}

/* `format` with the fixture's directory leads to `name` in the store; to elsewhere, if that starts with a slash or is a URI; or fails. */
static void assert_leads(void **state, const char *format, int want, const char *name)
{
	const struct fixture *x = *state;
	_cleanup_(pf_freep) char *path = NULL, *out = NULL, *real = NULL;
	const char *at = strstr(format, "%s");

	if (at)
		assert_true(asprintf(&path, "%.*s%s%s", (int)(at - format), format, x->dir, at + 2) > 0);
	else
		path = strdup(format);
	int r = pf_store_resolve(x->st, path, &out);
	if (r != want)
		fail_msg("%s: expected %d, found %d", path, want, r);
	if (r < 0)
		return;
	if (name[0] == '%')
		assert_true(asprintf(&real, "%s%s", x->dir, name + 2) > 0);
	assert_string_equal(out, real ? real : name);
}

static void test_spellings(void **state)
{
	assert_leads(state, "%s/" TABLE, 1, ".");
	assert_leads(state, "%s/" TABLE "/", 1, ".");
	assert_leads(state, "%s//" TABLE "///", 1, ".");
	assert_leads(state, "%s/./" TABLE "/.", 1, ".");
	assert_leads(state, "%s/" TABLE "2/../" TABLE, 1, ".");
	assert_leads(state, "%s/link", 1, ".");
	assert_leads(state, "%s/link/../" TABLE, 1, ".");
	assert_leads(state, "file://%s/t%20%23+%C3%A9", 1, ".");
	assert_leads(state, "FILE://%s/link", 1, ".");
	assert_leads(state, "file-object-store://%s/link", 1, ".");

	assert_leads(state, "%s/" TABLE "/tree/feat/x", 1, "tree/feat/x"); /* it need not be there (any more) */
	assert_leads(state, "%s/" TABLE "/data/sub", 1, "data/sub");
	assert_leads(state, "%s/deep", 1, "data/sub");
	assert_leads(state, "file://%s/deep/", 1, "data/sub");

	assert_leads(state, "%s/" TABLE "2", 0, "%s/" TABLE "2");
	assert_leads(state, "%s", 0, "%s");
	assert_leads(state, "/", 0, "/");
	assert_leads(state, "s3://bucket/t", 0, "s3://bucket/t");

	assert_leads(state, "%s/gone", -ENOENT, NULL);
	assert_leads(state, "%s/gone/../" TABLE, -ENOENT, NULL);
	assert_leads(state, TABLE, -EINVAL, NULL);
	assert_leads(state, "", -EINVAL, NULL);
	assert_leads(state, "file://host/t", -EINVAL, NULL);
}

/* The table is moved while it is open: by its new name it is known by what it is. */
static void test_moved(void **state)
{
	assert_int_equal(rename(TABLE, "new"), 0);
	assert_leads(state, "%s/new", 1, ".");
	assert_leads(state, "%s/new/data/sub", 1, "data/sub");
	assert_leads(state, "%s/" TABLE, 1, "."); /* as it was when it was opened */
}

static void test_memory(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	static const struct {
		const char *path;
		int want;
		const char *name;
	} rows[] = {
		{ "/memory", 1, "." },
		{ "/memory/", 1, "." },
		{ "//memory/./a//b/", 1, "a/b" },
		{ "/memory2", 0, "/memory2" },
		{ "s3://b/t", 0, "s3://b/t" },
		{ "memory", -EINVAL, NULL },
		{ "/gone/t", -ENOENT, NULL },
		{ "/a/../memory", 0, "/a/../memory" },
	};

	assert_int_equal(pf_store_mem_new(&st), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_freep) char *out = NULL;
		assert_int_equal(pf_store_resolve(st, rows[i].path, &out), rows[i].want);
		if (rows[i].name)
			assert_string_equal(out, rows[i].name);
	}
}

/* Base paths of a survey, and what they are resolved to. */
struct bases {
	struct pf_store *st;
	struct pf_base_list list;
	struct pf_places places;
};

static char none[] = "", dev[] = "dev", nested[] = "dev/data", dotted[] = "a";

static void resolve(struct bases *b, const char *dir, const char *path, bool root)
{
	struct pf_branch_ref refs[] = { { .name = dev }, { .name = nested }, { .name = dotted } };
	_cleanup_(pf_freep) char *copy = strdup(path);
	struct pf_base_path one = { .id = 7, .is_dataset_root = root, .path = copy };
	const struct pf_branch_refs all = { refs, ARRAY_LEN(refs) };
	const struct pf_base_paths paths = { &one, 1 };

	pf_places_release(&b->places);
	assert_int_equal(pf_places_resolve(b->st, dir, &all, &paths, &b->list, &b->places), 0);
	assert_int_equal(b->places.n, 1);
}

static void assert_place(struct bases *b, uint32_t base, const char *prefix, bool own, const char *perhaps)
{
	const struct pf_place *p = pf_places_find(&b->places, 7);

	assert_non_null(p);
	assert_int_equal(p->base, base);
	assert_string_equal(p->prefix, prefix);
	assert_int_equal(p->own, own);
	if (perhaps)
		assert_string_equal(p->perhaps, perhaps);
	else
		assert_null(p->perhaps);
}

static void test_places(void **state)
{
	struct pf_survey_base *first = calloc(1, sizeof(*first));
	struct bases b = { .list = { first, 1 } };

	assert_int_equal(pf_store_mem_new(&b.st), 0);
	first->where = strdup(none);
	resolve(&b, "", "/memory/", true);
	assert_place(&b, 0, "", true, NULL);
	resolve(&b, "", "/memory/data/sub", false);
	assert_place(&b, 0, "data/sub/", true, NULL);
	/* Main's directory is not main's alone. */
	resolve(&b, "", "/memory/tree/dev", true);
	assert_place(&b, 0, "tree/dev/", false, NULL);
	resolve(&b, "tree/dev/", "/memory", true);
	assert_place(&b, 0, "", false, NULL);
	resolve(&b, "tree/dev/", "/memory/tree/dev", true);
	assert_place(&b, 0, "tree/dev/", true, NULL);
	/* A branch in a directory of another (lance-14-cleanup D4). */
	resolve(&b, "tree/dev/", "/memory/tree/dev/data", true);
	assert_place(&b, 0, "tree/dev/data/", false, NULL);
	resolve(&b, "tree/dev/", "/memory/tree/dev/database", true);
	assert_place(&b, 0, "tree/dev/database/", false, NULL);
	resolve(&b, "tree/dev/", "/memory/tree/dev/data/sub", true);
	assert_place(&b, 0, "tree/dev/data/sub/", true, NULL);
	resolve(&b, "tree/dev/data/", "/memory/tree/dev/data/sub", true);
	assert_place(&b, 0, "tree/dev/data/sub/", false, NULL);
	resolve(&b, "", "/memory/other", true);
	assert_place(&b, 0, "other/", false, NULL);
	resolve(&b, "tree/dev/data/", "/memory/tree/dev", true);
	assert_place(&b, 0, "tree/dev/", false, NULL);

	/* Elsewhere: each place once. */
	resolve(&b, "", "/other", true);
	assert_place(&b, 1, "", false, NULL);
	resolve(&b, "", "s3://bucket/t", true);
	assert_place(&b, 2, "", false, NULL);
	resolve(&b, "", "/other", false);
	assert_place(&b, 1, "", false, NULL);
	assert_int_equal(b.list.n, 3);

	/* It leads nowhere: the table may have been moved, and be what was meant. */
	resolve(&b, "", "/gone/t", true);
	assert_place(&b, 3, "", false, "");
	resolve(&b, "", "/gone/t/tree/dev/", true);
	assert_place(&b, 4, "", false, "tree/dev/");
	resolve(&b, "", "/gone/t/tree/dev/data", true);
	assert_place(&b, 5, "", false, "tree/dev/data/");
	resolve(&b, "", "/gone/t/tree/unknown", true);
	assert_place(&b, 6, "", false, "");
	assert_string_equal(b.list.v[6].where, "/gone/t/tree/unknown");
	assert_string_equal(b.list.v[6].perhaps, "");

	for (size_t i = 0; i < b.list.n; i++) {
		free(b.list.v[i].where);
		free(b.list.v[i].perhaps);
	}
	free(b.list.v);
	pf_places_release(&b.places);
	pf_store_free(b.st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_spellings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_moved, setup, teardown),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
