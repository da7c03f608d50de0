/* Tags made and removed by hand: the bytes that Lance 14 writes, its rules for names, and what storage may do meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/tag_make.h"

#include "table.h"

#define TAG "_refs/tags/v1.0.json"

static const struct pf_time now = { 1800000000, 12 };

static struct pf_branch *branch(struct pf_store *st, const char *name)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, name, &b, &why) < 0)
		fail_msg("%s", why.text);
	return b;
}

static bool there(struct pf_store *st, const char *name)
{
	struct pf_stat s;

	return pf_store_stat(st, name, &s) == 0;
}

/* As 14.0.2 printed one of version 2 (pretty JSON, nine digits, empty metadata), with our time and size. */
static void writes_what_lance_writes(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	struct pf_branch *b = branch(st, NULL);
	struct pf_stat manifest;
	char expected[512];

	assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), 0);
	assert_int_equal(pf_store_stat(st, "_versions/18446744073709551613.manifest", &manifest), 0);
	snprintf(expected, sizeof(expected),
		 "{\n  \"branch\": null,\n  \"version\": 2,\n  \"createdAt\": \"2027-01-15T08:00:00.000000012Z\",\n"
		 "  \"updatedAt\": \"2027-01-15T08:00:00.000000012Z\",\n  \"manifestSize\": %d,\n  \"metadata\": {}\n}",
		 (int)manifest.size);
	assert_int_equal(pf_store_get(st, TAG, 4096, &text), 0);
	assert_string_equal(pf_buf_str(&text), expected);
	pf_branch_free(b);
	pf_store_free(st);
}

static void names_its_branch(void **state)
{
	struct pf_store *st = table_new(2, &(struct table_version){ 0 });
	struct pf_tag t = { 0 };

	table_put(st, &(struct table_version){ .version = 2, .dir = "tree/feat/x/", .branch = "feat/x" });
	table_put_branch(st, "feat/x", 2, "0123456789abcdef0123456789abcdef");
	struct pf_branch *b = branch(st, "feat/x");
	assert_int_equal(pf_tag_create(b, "v1.0", 1, now, NULL), -ENOENT); /* main's version 1 is not this branch's */
	assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), 0);
	assert_int_equal(pf_tag_read(st, "v1.0", &t, NULL), 0);
	assert_string_equal(t.branch, "feat/x");
	pf_tag_release(&t);
	pf_branch_free(b);
	pf_store_free(st);
}

static void one_name_one_tag(void **state)
{
	struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	struct pf_branch *b = branch(st, NULL);
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), 0);
	assert_int_equal(pf_tag_create(b, "v1.0", 3, now, &why), -EEXIST);
	assert_non_null(strstr(why.text, "version 2 of main"));
	assert_int_equal(pf_tag_delete(st, "v1.0", NULL), 0);
	assert_false(there(st, TAG));
	assert_int_equal(pf_tag_delete(st, "v1.0", &why), -ENOENT);
	assert_int_equal(pf_tag_create(b, "none", 4, now, NULL), -ENOENT);
	pf_branch_free(b);
	pf_store_free(st);
}

/* refs.rs of Lance 14, and ASCII: it writes a tag é, and then lists none any more. */
static void rules_of_names(void **state)
{
	static const char *const good[] = { "a", "v1.0", "A-b_c", "1", "-" };
	static const char *const bad[] = { "",
					   ".a",
					   "a.",
					   "a..b",
					   "a.lock",
					   "a/b",
					   "a b",
					   "a:b",
					   "\xc3\xa9",
					   "a%2F",
					   "a\n",
					   "..",
					   "pinfs-01234567-89ab-4cde-8f01-23456789abcd" };
	char longest[252];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_int_equal(pf_tag_name_check(good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(pf_tag_name_check(bad[i], NULL), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[251] = '\0';
	assert_int_equal(pf_tag_name_check(longest, NULL), -EINVAL);
	longest[250] = '\0';
	assert_int_equal(pf_tag_name_check(longest, NULL), 0);
}

static void guards_are_not_made_by_hand(void **state)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_tag_name_check("pinfs-01234567-89ab-4cde-8f01-23456789abcd", &why), -EINVAL);
	assert_non_null(strstr(why.text, "pinctl release"));
	assert_int_equal(pf_tag_name_check("pinfs-notes", NULL), 0);
}

/* A cleanup or a deletion looked for tags before ours was there. */
struct remover {
	const char *file;
	bool done;
};

static void removes(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct remover *r = arg;

	if (r->done || strcmp(op, "link") != 0 || strcmp(name, TAG) != 0)
		return;
	r->done = true;
	assert_int_equal(pf_store_mem_del(st, r->file), 0);
}

static void a_version_that_goes_meanwhile(void **state)
{
	struct remover version = { .file = "_versions/18446744073709551613.manifest" },
		       ref = { .file = "_refs/branches/x.json" };
	struct pf_store *st = table_new(3, &(struct table_version){ 0 });
	struct pf_branch *b = branch(st, NULL);

	pf_store_mem_set_hook(st, removes, &version);
	assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), -ENOENT);
	assert_true(version.done);
	assert_false(there(st, TAG));
	pf_branch_free(b);

	table_put(st, &(struct table_version){ .version = 2, .dir = "tree/x/", .branch = "x" });
	table_put_branch(st, "x", 2, "0123456789abcdef0123456789abcdef");
	b = branch(st, "x");
	pf_store_mem_set_hook(st, removes, &ref);
	assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), -ENOENT);
	assert_true(ref.done);
	assert_false(there(st, TAG));
	pf_branch_free(b);
	pf_store_free(st);
}

/* Whichever call fails, before or after its effect: success means that it is there, failure that it is not, and unknown either. Nothing else is left. */
static void every_call_fails_once(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		for (unsigned n = 1;; n++) {
			_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;
			struct pf_store *st = table_new(3, &(struct table_version){ 0 });
			struct pf_branch *b = branch(st, NULL);

			assert_int_equal(pf_store_mkdir(st, "_refs"), 0);
			unsigned before = pf_store_mem_calls(st);
			pf_store_mem_fault(st, n, kind, -EIO, false);
			int r = pf_tag_create(b, "v1.0", 2, now, NULL);
			bool reached = pf_store_mem_calls(st) - before >= n;
			pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);
			if (r != -EINPROGRESS)
				assert_int_equal(there(st, TAG), r == 0);
			table_list(st, "_refs", &files);
			if (r == -EIO)
				assert_string_equal(pf_buf_str(&files), "");
			pf_branch_free(b);
			pf_store_free(st);
			if (!reached) {
				assert_int_equal(r, 0);
				break;
			}
		}
	}
}

/* Interrupted: tried again, and what the interrupted try did counts. */
static void an_interrupted_removal_counts(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		struct pf_store *st = table_new(3, &(struct table_version){ 0 });
		struct pf_branch *b = branch(st, NULL);

		assert_int_equal(pf_tag_create(b, "v1.0", 2, now, NULL), 0);
		pf_store_mem_fault(st, 1, kind, -EINTR, false);
		assert_int_equal(pf_tag_delete(st, "v1.0", NULL), 0);
		assert_false(there(st, TAG));
		pf_branch_free(b);
		pf_store_free(st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_what_lance_writes),
		cmocka_unit_test(names_its_branch),
		cmocka_unit_test(one_name_one_tag),
		cmocka_unit_test(rules_of_names),
		cmocka_unit_test(guards_are_not_made_by_hand),
		cmocka_unit_test(a_version_that_goes_meanwhile),
		cmocka_unit_test(every_call_fails_once),
		cmocka_unit_test(an_interrupted_removal_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
