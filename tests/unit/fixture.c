#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static char *path_of(const char *rest)
{
	const char *source = getenv("PINFS_SOURCE");
	char *path;

	assert_non_null(source);
	assert_true(asprintf(&path, "%s/tests/fixtures/%s", source, rest) > 0);
	return path;
}

json_t *fixture_expected(void)
{
	_cleanup_(pf_freep) char *path = path_of("expected.json");
	json_error_t error;
	/* Detached versions pass 2^63, which jansson refuses as integers; all that a test compares is below 2^53. */
	json_t *j = json_load_file(path, JSON_DECODE_INT_AS_REAL, &error);

	if (!j)
		fail_msg("%s: %s", path, error.text);
	return j;
}

struct pf_store *fixture_open(const char *key)
{
	_cleanup_(pf_freep) char *tables = path_of("tables");
	_cleanup_(pf_freep) char *path = NULL;
	struct pf_store *st;
	struct pf_why why = PF_WHY_INIT;

	assert_true(asprintf(&path, "%s/%s", tables, key) > 0);
	if (pf_store_local_open(path, &st, &why) < 0)
		fail_msg("%s", why.text);
	return st;
}

json_t *fixture_get(json_t *o, const char *path)
{
	const char *p = path;

	while (o && *p) {
		size_t n = strcspn(p, ".");
		_cleanup_(pf_freep) char *key = strndup(p, n);

		o = json_object_get(o, key);
		p += n + (p[n] == '.');
	}
	if (!o)
		fail_msg("expected.json has no %s", path);
	return o;
}

uint64_t fixture_u64(json_t *o, const char *path)
{
	return (uint64_t)json_number_value(fixture_get(o, path));
}

const char *fixture_str(json_t *o, const char *path)
{
	return json_string_value(fixture_get(o, path));
}
