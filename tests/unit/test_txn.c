/* Transactions: who Lance says committed what, our own message, and damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/txn.h"

#include "fixture.h"

static void check_version(struct pf_store *st, json_t *version, const char *release)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	json_t *said = fixture_get(version, "transaction");
	const json_t *message = json_object_get(said, "message"), *operation = json_object_get(said, "operation");
	struct pf_why why = PF_WHY_INIT;
	char buf[32];

	if (pf_manifest_open(st, fixture_str(version, "manifest"), &m, &why) < 0 ||
	    pf_txn_read(st, "", m, &t, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(t.read_version, fixture_u64(said, "read_version"));
	assert_string_equal(t.uuid, fixture_str(said, "uuid"));
	/* Lance's Python has no name for ReserveFragments. */
	assert_string_equal(pf_txn_operation_name(t.operation, buf),
			    operation ? json_string_value(operation) : "ReserveFragments");
	if (message)
		assert_string_equal(t.message, json_string_value(message));
	else
		assert_null(t.message);
	assert_int_equal(t.kind, PF_OP_NONE);
	assert_string_equal(t.from, strcmp(release, "0.39.0") == 0 ? "file" : "inline");
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
			check_version(st, version, fixture_str(table, "release"));
	}
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
