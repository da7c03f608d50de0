/* Head resolution: real tables, and what others do to a table between two looks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/branch.h"
#include "core/store_mem.h"

#include "fixture.h"
#include "table.h"

static void check_table(const char *key, json_t *table)
{
	_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	struct pf_why why = PF_WHY_INIT;
	size_t n, i;
	json_t *version, *versions = fixture_get(table, "versions");

	if (pf_branch_open(st, NULL, &b, &why) < 0 || pf_branch_head(b, &head, &why) < 0)
		fail_msg("%s: %s", key, why.text);
	assert_int_equal(head->version, fixture_u64(table, "latest_version"));
	assert_int_equal(pf_branch_versions(b, &v, &n, &why), 0);
	assert_int_equal(n, json_array_size(versions));
	json_array_foreach(versions, i, version)
	{
		char name[PF_MANIFEST_NAME_MAX];
		assert_int_equal(v[i].version, fixture_u64(version, "version"));
		pf_manifest_name_format(v[i].version, v[i].v2, name);
		assert_string_equal(name, fixture_str(version, "manifest") + strlen("_versions/"));
	}
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table;
	const char *key;

	json_object_foreach(all, key, table) check_table(key, table);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
