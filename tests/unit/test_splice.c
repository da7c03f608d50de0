/* Writing the next manifest by splicing spans of its base: what is not patched is carried byte for byte (issue 3, cases-open A23, E08). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/manifest.h"
#include "core/store_mem.h"

#include "fixture.h"

#define BASE "_versions/1.manifest"

/* The file that a splice makes of `base`, in `out`. */
static int splice(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how, struct pf_buf *out,
		  struct pf_why *why)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;

	pf_store_unlink(st, "out");
	assert_int_equal(pf_store_create(st, "out", &sg), 0);
	int r = pf_manifest_splice(st, base, how, sg, why);
	if (r < 0)
		return r;
	pf_buf_reset(out);
	assert_int_equal(pf_store_get(st, "out", SIZE_MAX, out), 0);
	return 0;
}

/* The manifest file `name` of a fixture, copied to a memory store under its own name. */
static struct pf_store *copy_of(struct pf_store *from, const char *name, struct pf_buf *bytes)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_get(from, name, SIZE_MAX, bytes), 0);
	assert_int_equal(pf_store_mem_put(st, name, bytes->data, bytes->len), 0);
	return st;
}

static void same(struct pf_store *from, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = copy_of(from, name, &was);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_splice nothing = { .n_patches = 0 };

	assert_int_equal(pf_manifest_open(st, name, &m, NULL), 0);
	assert_int_equal(splice(st, m, &nothing, &is, NULL), 0);
	if (is.len != was.len || memcmp(is.data, was.data, is.len) != 0)
		fail_msg("%s: a splice that changes nothing changes bytes", name);
}

static void test_nothing_changes(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
			same(st, fixture_str(version, "manifest"));
	}
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
