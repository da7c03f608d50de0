/* Reading one manifest file: real ones against what Lance says of them, and damaged ones (cases-open A18, E01, E03, E05, E06). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/manifest.h"

#include "fixture.h"

/* Lance's Python passes the time through a float of seconds: it is right to 2 microseconds. */
static void check_timestamp(json_t *version, const struct pf_manifest *m)
{
	const char *text = fixture_str(version, "timestamp");
	struct pf_time said;

	assert_int_equal(pf_time_parse(text, strlen(text), (struct pf_time){ 0, 0 }, &said, NULL), 0);
	assert_true(m->has_timestamp);
	int64_t off = (m->timestamp.sec - said.sec) * 1000000000 + m->timestamp.nsec - said.nsec;
	assert_true(off >= -2000 && off <= 2000);
}

static void check_version(struct pf_store *st, json_t *version)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const char *name = fixture_str(version, "manifest");
	uint64_t fragments, rows;
	struct pf_why why = PF_WHY_INIT;

	if (pf_manifest_open(st, name, &m, &why) < 0 || pf_manifest_count(st, m, &fragments, &rows, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(m->name, name);
	assert_int_equal(m->version, fixture_u64(version, "version"));
	assert_int_equal(fragments, fixture_u64(version, "fragments"));
	assert_int_equal(rows, fixture_u64(version, "rows"));
	check_timestamp(version, m);
	assert_null(m->branch);
	assert_int_equal(m->pins.n, 0);
	assert_string_equal(m->writer_library, "lance");
	assert_string_equal(why.text, "");
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i, n = 0;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
		{
			check_version(st, version);
			n++;
		}
	}
	assert_true(n > 600);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
