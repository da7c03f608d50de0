/* Lance's JSON of fragments: what it writes becomes the message it would have written, and what is not understood is refused. */
#include "core/fragment_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/operation.h"

#define FILE                                                                                                           \
	"{\"path\": \"x.lance\", \"fields\": [0, -2], \"column_indices\": [0, 1], \"file_major_version\": 2, \"file_minor_version\": 1, \"file_size_bytes\": 342, \"base_id\": null}"

static int convert(const char *text, struct pf_buf *out, struct pf_why *why)
{
	json_t *o = NULL;
	int r = pf_lance_json(text, strlen(text), &o, why);

	if (r == 0)
		r = pf_fragment_from_json(o, out, why);
	json_decref(o);
	return r;
}

static void assert_message(const char *text, const char *want, size_t n)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (convert(text, &b, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	assert_int_equal(b.len, n);
	assert_memory_equal(b.data, want, n);
}

static void members_become_fields(void **state)
{
	static const char file[] =
		"\x12\x1d\x0a\x07x.lance\x12\x0b\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x02\x00\x01";

	assert_message("{\"id\": 3, \"files\": [], \"physical_rows\": 7}", "\x08\x03\x20\x07", 4);
	/* Zeros are left out, but for a base id, which may be 0. */
	assert_message(
		"{\"id\": 0, \"files\": [{\"path\": \"p\", \"fields\": [1], \"base_id\": 0}], \"physical_rows\": 0}",
		"\x12\x08\x0a\x01p\x12\x01\x01\x38\x00", 10);
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	assert_int_equal(convert("{\"files\": [" FILE "], \"overlays\": [], \"physical_rows\": 3}", &b, NULL), 0);
	/* The length of the message apart, since versions and size follow. */
	assert_memory_equal(b.data + 2, file + 2, sizeof(file) - 3);
	assert_message(
		"{\"files\": [], \"row_id_meta\": {\"Inline\": [10, 0]}, \"created_at_version_meta\": {\"inline\": [1]}, "
		"\"last_updated_at_version_meta\": {\"inline\": [255]}}",
		"\x2a\x02\x0a\x00\x3a\x01\xff\x4a\x01\x01", 10);
}

/* Ids of deletion files are random numbers of 64 bits. */
static void numbers_of_64_bits(void **state)
{
	assert_message(
		"{\"files\": [], \"deletion_file\": {\"read_version\": 1, \"id\": 18446744073709551615, \"file_type\": "
		"\"bitmap\", \"num_deleted_rows\": 2, \"base_id\": null}}",
		"\x1a\x11\x08\x01\x10\x01\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x02", 19);
	assert_message("{\"files\": [], \"physical_rows\": 9223372036854775807}",
		       "\x20\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
	assert_message("{\"files\": [], \"physical_rows\": 9223372036854775808}",
		       "\x20\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11);
	/* Digits in text are text. */
	assert_message("{\"files\": [{\"path\": \"\\\\\\\"18446744073709551615\", \"fields\": []}]}",
		       "\x12\x18\x0a\x16\\\"18446744073709551615", 26);
}

static void what_is_not_understood_is_refused(void **state)
{
	static const struct {
		const char *text, *sentence;
	} bad[] = {
		{ "", "not JSON" },
		{ "{\"files\": []", "not JSON" },
		{ "{\"files\": [], \"files\": []}", "not JSON" },
		{ "[]", "expected an object" },
		{ "{}", "files: expected an array" },
		{ "{\"files\": {}}", "files: expected an array" },
		{ "{\"files\": [1]}", "a file: expected an object" },
		{ "{\"files\": [{}]}", "path: expected" },
		{ "{\"files\": [{\"path\": \"p\"}]}", "fields: expected" },
		{ "{\"files\": [{\"path\": \"p\", \"fields\": [\"a\"]}]}", "fields: expected" },
		{ "{\"files\": [{\"path\": \"p\", \"fields\": [2147483648]}]}", "fields: expected" },
		{ "{\"files\": [{\"path\": \"p\", \"fields\": [1], \"key\": 1}]}", "\"key\" of a file is not known" },
		{ "{\"files\": [], \"physical_rows\": -1}", "physical_rows: expected" },
		{ "{\"files\": [], \"physical_rows\": 1.5}", "physical_rows: expected" },
		{ "{\"files\": [], \"physical_rows\": 18446744073709551616}", "physical_rows: expected" },
		{ "{\"files\": [], \"clustering_id\": 4}", "\"clustering_id\" of a fragment is not known" },
		{ "{\"files\": [], \"overlays\": [{}]}", "overlays (feature bit 6)" },
		{ "{\"files\": [], \"row_id_meta\": {\"External\": {}}}", "row_id_meta: expected its bytes inline" },
		{ "{\"files\": [], \"row_id_meta\": {\"Inline\": [256]}}", "row_id_meta: expected bytes" },
		{ "{\"files\": [], \"deletion_file\": {\"file_type\": \"other\"}}", "file_type: expected" },
		{ "{\"files\": [{\"path\": \"p\", \"fields\": [1], \"base_id\": 4294967296}]}", "base_id: expected" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		struct pf_why why = PF_WHY_INIT;
		int r = convert(bad[i].text, &b, &why);
		if (r != -EINVAL || !strstr(why.text, bad[i].sentence))
			fail_msg("%s: %d, %s", bad[i].text, r, why.text);
	}
	/* null is a member that is not there. */
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	assert_int_equal(convert("{\"files\": [], \"clustering_id\": null, \"row_id_meta\": null}", &b, NULL), 0);
}

static void fragments_become_an_append(void **state)
{
	static const char *const texts[] = { "{\"id\": 0, \"files\": [" FILE "], \"physical_rows\": 3}",
					     "[{\"id\": 0, \"files\": [" FILE "], \"physical_rows\": 3}]" };

	char uuid[PF_UUID_TEXT] = "";
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		assert_int_equal(pf_append_from_json(texts[i], strlen(texts[i]), 5 + i, &b, NULL), 0);
		assert_int_equal(pf_operation_decode(&b, &o, NULL), 0);
		assert_string_equal(pf_operation_name(&o), "Append");
		assert_int_equal(o.read_version, 5 + i);
		/* The same fragments are the same transaction, whenever it is made. */
		assert_int_equal(strlen(o.uuid), PF_UUID_TEXT - 1);
		assert_true(i == 0 || strcmp(o.uuid, uuid) == 0);
		memcpy(uuid, o.uuid, sizeof(uuid));
		assert_int_equal(o.added.n, 1);
		assert_int_equal(o.added.v[0].physical_rows, 3);
		assert_int_equal(o.added.v[0].files[0].fields[1], -2);
		assert_int_equal(o.added.v[0].files[0].minor, 1);
	}
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	assert_int_equal(pf_append_from_json("[]", 2, 5, &b, &why), -EINVAL);
	assert_int_equal(pf_append_from_json("[{}]", 4, 5, &b, &why), -EINVAL);
	assert_non_null(strstr(why.text, "fragment 0: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_become_fields),
		cmocka_unit_test(numbers_of_64_bits),
		cmocka_unit_test(what_is_not_understood_is_refused),
		cmocka_unit_test(fragments_become_an_append),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
