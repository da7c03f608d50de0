/* Tags and branches: Lance's own files, both layouts, ids made up as Lance does, and damage (cases-open A03, B10, E14, E16, E18). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/refs.h"
#include "core/store_mem.h"

#include "fixture.h"
#include "table.h"

static const struct pf_tag *find_tag(const struct pf_tags *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return &l->v[i];
	fail_msg("no tag %s", name);
	return NULL;
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *said;
	const char *key, *name;
	size_t seen = 0;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
		_cleanup_(pf_branch_refs_release) struct pf_branch_refs branches = { 0 };
		struct pf_why why = PF_WHY_INIT;
		if (pf_tags_list(st, &tags, &why) < 0 || pf_branches_list(st, &branches, &why) < 0)
			fail_msg("%s: %s", key, why.text);
		assert_int_equal(branches.n, 0);
		assert_int_equal(tags.n, json_object_size(fixture_get(table, "tags")));
		json_object_foreach(fixture_get(table, "tags"), name, said)
		{
			const struct pf_tag *t = find_tag(&tags, name);
			assert_int_equal(t->version, fixture_u64(said, "version"));
			assert_int_equal(t->manifest_size, fixture_u64(said, "manifest_size"));
			assert_null(t->branch);
			seen++;
		}
	}
	assert_true(seen >= 18);
	json_decref(all);
}

static void put_text(struct pf_store *st, const char *name, const char *text)
{
	assert_int_equal(pf_store_mem_put(st, name, text, strlen(text)), 0);
}

static struct pf_store *new_store(void)
{
	struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	return st;
}

static void test_no_refs(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs branches = { 0 };

	assert_int_equal(pf_tags_list(st, &tags, NULL), 0);
	assert_int_equal(pf_branches_list(st, &branches, NULL), 0);
	assert_true(tags.n == 0 && branches.n == 0);
}

static void test_tag(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_tags_release) struct pf_tags l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	put_text(st, "_refs/tags/full.json",
		 "{\"branch\":\"feat/x\",\"version\":9223372036854775807,\"createdAt\":\"2026-01-01T00:00:00.1Z\","
		 "\"updatedAt\":null,\"manifestSize\":435,\"metadata\":{\"pinfs.pin\":\"a\"},\"newer\":[1.5,{}]}");
	put_text(st, "_refs/tags/bare.json", "{\"version\":0,\"manifestSize\":0}\n");
	put_text(st, "_refs/tags/.hidden.json", "{\"branch\":null,\"version\":2,\"manifestSize\":3,\"metadata\":{}}");
	put_text(st, "_refs/tags/t%C3%A4g.json", "{\"branch\":\"main\",\"version\":2,\"manifestSize\":3}");
	/* Neither of these is a tag. */
	put_text(st, "_refs/tags/full.json.tmp.0123456789abcdef0123456789abcdef", "half");
	put_text(st, "_refs/tags/full.JSON", "x");
	put_text(st, "_refs/tags/sub/inner.json", "x");
	put_text(st, "_refs/tags/README", "x");

	if (pf_tags_list(st, &l, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(l.n, 4);
	assert_string_equal(l.v[0].name, ".hidden");
	assert_string_equal(l.v[0].metadata, "{}");
	assert_string_equal(l.v[1].name, "bare");
	assert_true(!l.v[1].branch && !l.v[1].created_at && !l.v[1].updated_at && !l.v[1].metadata);
	assert_string_equal(l.v[2].name, "full");
	assert_string_equal(l.v[2].branch, "feat/x");
	assert_int_equal(l.v[2].version, INT64_MAX);
	assert_int_equal(l.v[2].manifest_size, 435);
	assert_string_equal(l.v[2].created_at, "2026-01-01T00:00:00.1Z");
	assert_null(l.v[2].updated_at);
	assert_string_equal(l.v[2].metadata, "{\"pinfs.pin\": \"a\"}");
	assert_string_equal(l.v[3].name, "t\xc3\xa4g");
	/* Lance protects nothing for a tag that spells main out; it can mean nothing else. */
	assert_null(l.v[3].branch);
}

/* One tag is read whatever the others are. */
static void test_tag_by_name(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_tag_release) struct pf_tag t = { 0 };
	struct pf_why why = PF_WHY_INIT;

	put_text(st, "_refs/tags/t%C3%A4g.json", "{\"branch\":\"dev\",\"version\":2,\"manifestSize\":3}");
	put_text(st, "_refs/tags/bad.json", "{");
	/* Lance tags detached versions, whose top bit is set (lance-14-cleanup 37). */
	put_text(st, "_refs/tags/alone.json", "{\"version\":9223372036854788153,\"manifestSize\":3}");
	assert_int_equal(pf_tag_read(st, "alone", &t, NULL), 0);
	assert_true(t.version == UINT64_C(9223372036854788153) && t.manifest_size == 3);
	pf_tag_release(&t);
	assert_int_equal(pf_tag_read(st, "t\xc3\xa4g", &t, NULL), 0);
	assert_string_equal(t.name, "t\xc3\xa4g");
	assert_string_equal(t.branch, "dev");
	assert_true(t.version == 2 && t.manifest_size == 3);
	assert_int_equal(pf_tag_read(st, "bad", &t, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "_refs/tags/bad.json"));
	assert_int_equal(pf_tag_read(st, "tag", &t, &why), -ENOENT);
	assert_non_null(strstr(why.text, "_refs/tags/tag.json"));
	assert_int_equal(t.version, 2);
}

/* `text` as a ref file: what the listing says of it must name the file and hold `says`. */
static void expect_damage(const char *file, const void *text, size_t len, const char *says)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	struct pf_tags tags = { 0 };
	struct pf_branch_refs branches = { 0 };
	struct pf_why why = PF_WHY_INIT;
	char quoted[200];

	assert_int_equal(pf_store_mem_put(st, file, text, len), 0);
	if (strstr(file, "_refs/tags/"))
		assert_int_equal(pf_tags_list(st, &tags, &why), -EBADMSG);
	else
		assert_int_equal(pf_branches_list(st, &branches, &why), -EBADMSG);
	assert_true(tags.n == 0 && branches.n == 0);
	snprintf(quoted, sizeof(quoted), "\"%s\": ", file);
	if (strncmp(why.text, quoted, strlen(quoted)) != 0 || !strstr(why.text, says))
		fail_msg("\"%s\" does not begin with %s or does not say \"%s\"", why.text, quoted, says);
}

#define TAG "_refs/tags/keep.json"

static void test_damaged_json(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "offset 0: expected a JSON object, found an empty file" },
		{ "{", "expected a JSON object" },
		{ "[]", "offset 0: expected a JSON object" },
		{ "\"x\"", "expected a JSON object" },
		{ "3", "expected a JSON object" },
		{ "{'version':1}", "expected a JSON object" },
		{ "{\"version\":1,\"manifestSize\":1} {}", "expected a JSON object" },
		{ "{\"version\":1,\"version\":2,\"manifestSize\":1}",
		  "expected a JSON object: \"duplicate object key" },
		{ "{\"version\":1,\"manifestSize\":1,\"x\":{\"a\":1,\"a\":1}}", "duplicate object key" },
		{ "{\"version\":NaN,\"manifestSize\":1}", "expected a JSON object" },
		{ "{\"version\":012,\"manifestSize\":1}", "expected a JSON object" },
		{ "{\"version\":1,\"manifestSize\":1,\"a\\u0000b\":1}", "expected a JSON object" },
		{ "{\"version\":1,\"manifestSize\":1,\"a\":\"\\ud800\"}", "expected a JSON object" },
		{ "{\"version\":1,\"manifestSize\":1,\"a\":\"\xff\"}", "expected a JSON object" },
		{ "\xef\xbb\xbf{\"version\":1,\"manifestSize\":1}", "expected a JSON object" },
		{ "{\"version\":18446744073709551616,\"manifestSize\":1}",
		  "expected \"version\" to be a whole number" },
		{ "{\"version\":-9223372036854775809,\"manifestSize\":1}", "too big negative integer" },
		{ "{\"version\":-1,\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":1.0,\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":1e3,\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":\"3\",\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":true,\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":null,\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"manifestSize\":1}", "expected \"version\" to be a whole number" },
		{ "{\"version\":1}", "expected \"manifestSize\" to be a whole number" },
		{ "{\"version\":1,\"manifestSize\":1,\"branch\":1}", "expected \"branch\" to be text" },
		{ "{\"version\":1,\"manifestSize\":1,\"createdAt\":1}", "expected \"createdAt\" to be text" },
		{ "{\"version\":1,\"manifestSize\":1,\"updatedAt\":{}}", "expected \"updatedAt\" to be text" },
		{ "{\"version\":1,\"manifestSize\":1,\"metadata\":null}", "expected \"metadata\" to be an object" },
		{ "{\"version\":1,\"manifestSize\":1,\"metadata\":[]}", "expected \"metadata\" to be an object" },
		{ "{\"version\":1,\"manifestSize\":1,\"metadata\":{\"a\":1}}", "members of \"metadata\" to be text" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_damage(TAG, rows[i].text, strlen(rows[i].text), rows[i].says);
	expect_damage(TAG, "{\"version\":1,\"manifestSize\":1}\0", 31, "expected a JSON object");
	/* A directory where the tag should be, and names that are no encoding of one. */
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	struct pf_tags tags;
	struct pf_why why = PF_WHY_INIT;
	put_text(st, TAG "/x", "");
	assert_int_equal(pf_tags_list(st, &tags, &why), -EBADMSG);
	assert_string_equal(why.text, "\"" TAG "\": expected a file, found a directory");
	expect_damage("_refs/tags/a%zz.json", "{\"version\":1,\"manifestSize\":1}", 30, "percent-encoded ref name");
	expect_damage("_refs/tags/a%0A.json", "{\"version\":1,\"manifestSize\":1}", 30, "percent-encoded ref name");
	expect_damage("_refs/tags/a%FF.json", "{\"version\":1,\"manifestSize\":1}", 30, "percent-encoded ref name");
}

/* Much of something: refused, before it costs a stack or memory. */
static void test_much(void **state)
{
	static const char *const units[] = { "[", "{\"a\":" };
	static const size_t levels[] = { 2047, 2049, 100000 };
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		for (size_t k = 0; k < ARRAY_LEN(levels); k++) {
			pf_buf_reset(&b);
			for (size_t n = 0; n < levels[k]; n++)
				assert_int_equal(pf_buf_addstr(&b, units[i]), 0);
			expect_damage(TAG, b.data, b.len, "expected a JSON object");
		}
	}
	/* 2,000 closed levels parse: in `metadata` they are no text, and nothing prints them. */
	pf_buf_reset(&b);
	assert_int_equal(pf_buf_addstr(&b, "{\"version\":1,\"manifestSize\":1,\"metadata\":{\"a\":"), 0);
	for (size_t n = 0; n < 2000; n++)
		assert_int_equal(pf_buf_addch(&b, '['), 0);
	for (size_t n = 0; n < 2000; n++)
		assert_int_equal(pf_buf_addch(&b, ']'), 0);
	assert_int_equal(pf_buf_addstr(&b, "}}"), 0);
	expect_damage(TAG, b.data, b.len, "members of \"metadata\" to be text");

	_cleanup_(pf_freep) char *blanks = malloc(10 << 20);
	memset(blanks, ' ', 10 << 20);
	expect_damage(TAG, blanks, 10 << 20, "expected at most 1048576 bytes");
	memcpy(blanks, "{\"", 2);
	expect_damage(TAG, blanks, 1 << 20, "expected a JSON object");
}

static void test_cannot_read(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	struct pf_tags tags;
	struct pf_branch_refs branches;
	struct pf_why why = PF_WHY_INIT;

	put_text(st, TAG, "{\"version\":1,\"manifestSize\":1}");
	pf_store_mem_fault(st, 2, PF_FAULT_BEFORE, -EACCES, true);
	assert_int_equal(pf_tags_list(st, &tags, &why), -EACCES);
	assert_string_equal(why.text, "\"" TAG "\": Permission denied");
	why = (struct pf_why)PF_WHY_INIT;
	pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EACCES, true);
	assert_int_equal(pf_tags_list(st, &tags, &why), -EACCES);
	assert_string_equal(why.text, "_refs/tags: Permission denied");
	why = (struct pf_why)PF_WHY_INIT;
	assert_int_equal(pf_branches_list(st, &branches, &why), -EACCES);
	assert_string_equal(why.text, "_refs/branches: Permission denied");
}

#define ID_A "0123456789abcdef0123456789abcdef"
#define ID_B "fedcba9876543210FEDCBA9876543210"

static void test_branches(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs l = { 0 };
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref r = { 0 };
	struct pf_why why = PF_WHY_INIT;

	put_text(st, "_refs/branches/kid.json",
		 "{\"parentBranch\":\"feat/x\",\"identifier\":{\"version_mapping\":[[2,\"" ID_A "\"],[5,\"" ID_B
		 "\"]],\"x\":1},\"parentVersion\":5,\"createAt\":1795982057,\"manifestSize\":369,\"metadata\":{}}");
	table_put_branch(st, "feat/x", 2, ID_A);
	table_put_branch(st, "dev", 1, ID_B);
	put_text(
		st, "_refs/branches/%C3%A9.json",
		"{\"parentVersion\":1,\"createAt\":0,\"manifestSize\":0,\"identifier\":{\"version_mapping\":[[1,\"" ID_A
		"\"]]}}");
	put_text(st, "_refs/branches/kid.json.tmp.0123456789abcdef0123456789abcdef#1", "half");

	if (pf_branches_list(st, &l, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(l.n, 4);
	assert_string_equal(l.v[0].name, "dev");
	assert_string_equal(l.v[1].name, "feat/x");
	assert_string_equal(l.v[1].file, "_refs/branches/feat%2Fx.json");
	assert_string_equal(l.v[1].id, ID_A);
	assert_null(l.v[1].parent);
	assert_string_equal(l.v[2].name, "kid");
	assert_string_equal(l.v[2].parent, "feat/x");
	assert_int_equal(l.v[2].parent_version, 5);
	assert_int_equal(l.v[2].created_at, 1795982057);
	assert_int_equal(l.v[2].n_mapping, 2);
	assert_int_equal(l.v[2].mapping_version[0], 2);
	assert_string_equal(l.v[2].mapping_id[0], ID_A);
	assert_int_equal(l.v[2].mapping_version[1], 5);
	assert_string_equal(l.v[2].id, ID_B);
	assert_false(l.v[2].synthetic_id);
	assert_string_equal(l.v[3].name, "\xc3\xa9");

	assert_int_equal(pf_branch_ref_read(st, "kid", &r, &why), 0);
	assert_string_equal(r.id, ID_B);
	pf_branch_ref_release(&r);
	assert_int_equal(pf_branch_ref_read(st, "\xc3\xa9", &r, &why), 0);
	assert_int_equal(pf_branch_ref_read(st, "feat", &r, &why), -ENOENT);
	assert_int_equal(pf_branch_ref_read(st, "kid/s", &r, &why), -ENOENT);
	put_text(st, "_refs/branches/a-file", "");
	assert_int_equal(pf_branch_ref_read(st, "a-file/s", &r, &why), -ENOENT);
	assert_int_equal(pf_branch_ref_read(st, "main", &r, &why), -EINVAL);
}

/* cases-open A03: stored as `feat/x.json`, the branch is listed and read all the same; in both layouts at once it is nobody's. */
static void test_both_layouts(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs l = { 0 };
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref r = { 0 };
	static const char text[] =
		"{\"parentVersion\":1,\"createAt\":0,\"manifestSize\":0,\"identifier\":{\"version_mapping\":[[1,\"" ID_A
		"\"]]}}";
	struct pf_why why = PF_WHY_INIT;

	put_text(st, "_refs/branches/feat/x.json", text);
	put_text(st, "_refs/branches/feat/y/z.json", text);
	put_text(st, "_refs/branches/feat.json", text);
	if (pf_branches_list(st, &l, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(l.n, 3);
	assert_string_equal(l.v[0].name, "feat");
	assert_string_equal(l.v[1].name, "feat/x");
	assert_string_equal(l.v[1].file, "_refs/branches/feat/x.json");
	assert_string_equal(l.v[2].name, "feat/y/z");
	assert_int_equal(pf_branch_ref_read(st, "feat/x", &r, &why), 0);
	assert_string_equal(r.file, "_refs/branches/feat/x.json");
	pf_branch_ref_release(&r);
	pf_branch_refs_release(&l);

	put_text(st, "_refs/branches/feat%2Fx.json", text);
	const char *both = "\"_refs/branches/feat/x.json\": expected one file for the branch feat/x, found "
			   "\"_refs/branches/feat%2Fx.json\" too";
	assert_int_equal(pf_branches_list(st, &l, &why), -EBADMSG);
	assert_string_equal(why.text, both);
	assert_int_equal(pf_branch_ref_read(st, "feat/x", &r, &why), -EBADMSG);
	assert_string_equal(why.text, both);
	/* Damaged in one of them is damaged. */
	put_text(st, "_refs/branches/feat/x.json", "{");
	assert_int_equal(pf_branch_ref_read(st, "feat/x", &r, &why), -EBADMSG);
}

/* What pylance 14.0.2 lists as branch_identifier for these files of 1.0.4's kind. */
static void test_made_up_ids(void **state)
{
	static const struct {
		const char *parent, *identifier, *id;
	} rows[] = {
		{ "null", "", "f5db5af32a6d7eda7c91e8562cc8b9a9" },
		{ "\"main\"", "", "bd9e88d394cc11bfd6e0ebdfcdae8810" },
		{ "\"main\"", ",\"identifier\":{\"version_mapping\":[[0,\"00000000000000000000000000000000\"]]}",
		  "bd9e88d394cc11bfd6e0ebdfcdae8810" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_store();
		_cleanup_(pf_branch_ref_release) struct pf_branch_ref r = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		assert_int_equal(pf_buf_addf(&b,
					     "{\"parentBranch\":%s,\"parentVersion\":1,\"createAt\":1795982057,"
					     "\"manifestSize\":369%s}",
					     rows[i].parent, rows[i].identifier),
				 0);
		assert_int_equal(pf_store_mem_put(st, "_refs/branches/feat%2Fx.json", b.data, b.len), 0);
		assert_int_equal(pf_branch_ref_read(st, "feat/x", &r, NULL), 0);
		assert_string_equal(r.id, rows[i].id);
		assert_true(r.synthetic_id);
		assert_null(r.parent);
	}
}

static void test_damaged_branches(void **state)
{
#define REST "\"parentVersion\":1,\"createAt\":1,\"manifestSize\":1"
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "{}", "expected \"parentVersion\"" },
		{ "{\"parentVersion\":1,\"manifestSize\":1}", "expected \"createAt\"" },
		{ "{\"parentVersion\":1,\"createAt\":-1,\"manifestSize\":1}", "expected \"createAt\"" },
		{ "{\"parentVersion\":1,\"createAt\":1.0,\"manifestSize\":1}", "expected \"createAt\"" },
		{ "{\"parentVersion\":1,\"createAt\":1}", "expected \"manifestSize\"" },
		{ "{\"parentBranch\":1," REST "}", "expected \"parentBranch\" to be text" },
		{ "{\"metadata\":null," REST "}", "expected \"metadata\"" },
		{ "{\"identifier\":null," REST "}", "expected \"identifier\" to hold" },
		{ "{\"identifier\":{}," REST "}", "expected \"identifier\" to hold" },
		{ "{\"identifier\":{\"version_mapping\":[]}," REST "}", "expected \"identifier\" to hold" },
		{ "{\"identifier\":{\"version_mapping\":{}}," REST "}", "expected \"identifier\" to hold" },
		{ "{\"identifier\":{\"version_mapping\":[1]}," REST "}", "expected item 0 of \"version_mapping\"" },
		{ "{\"identifier\":{\"version_mapping\":[[1]]}," REST "}", "expected item 0" },
		{ "{\"identifier\":{\"version_mapping\":[[1,\"" ID_A "\"],[-1,\"" ID_A "\"]]}," REST "}",
		  "expected item 1" },
		{ "{\"identifier\":{\"version_mapping\":[[1,\"" ID_A "\",2]]}," REST "}", "expected item 0" },
		{ "{\"identifier\":{\"version_mapping\":[[1,\"" ID_A "0\"]]}," REST "}", "expected item 0" },
		{ "{\"identifier\":{\"version_mapping\":[[1,\"" ID_A
		  "\"],[2,\"../../0123456789abcdef0123456789\"]]}," REST "}",
		  "expected item 1" },
	};
	static const char good[] = "{\"identifier\":{\"version_mapping\":[[1,\"" ID_A "\"]]}," REST "}";

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		expect_damage("_refs/branches/dev.json", rows[i].text, strlen(rows[i].text), rows[i].says);
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	struct pf_branch_refs l;
	struct pf_why why = PF_WHY_INIT;
	put_text(st, "_refs/branches/dev.json/x.json", good);
	assert_int_equal(pf_branches_list(st, &l, &why), -EBADMSG);
	assert_string_equal(why.text, "\"_refs/branches/dev.json\": expected a file, found a directory");
	/* Names that would lead out of tree/. */
	expect_damage("_refs/branches/..%2Fx.json", good, sizeof(good) - 1,
		      "the branch name \"../x\" has two dots in a row");
	expect_damage("_refs/branches/%2Fx.json", good, sizeof(good) - 1, "has an empty segment");
	expect_damage("_refs/branches/main.json", good, sizeof(good) - 1, "is taken by the main line");
	expect_damage("_refs/branches/a%2525b.json", good, sizeof(good) - 1, "other than letters");
}

static void test_directory_loop(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_store();
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	struct pf_branch_refs l;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_buf_addstr(&path, "_refs/branches"), 0);
	for (int i = 0; i < 65; i++)
		assert_int_equal(pf_buf_addstr(&path, "/a"), 0);
	assert_int_equal(pf_buf_addstr(&path, ".json"), 0);
	put_text(st, pf_buf_str(&path), "{}");
	assert_int_equal(pf_branches_list(st, &l, &why), -EBADMSG);
	assert_string_equal(why.text, "_refs/branches: expected at most 64 directories inside each other");
}

static void test_branch_names(void **state)
{
	static const char *const good[] = {
		"a",	"feat/x",   "user/someone/my-feature", "v1.2.3", "with_underscore", "a/b/c/d", ".hidden", "-x",
		"lock", "x.lock/y", "\xc3\xa9t\xc3\xa9",       "mainly"
	};
	static const char *const bad[] = { "",	   "main",   "/a",   "a/",   "a//b",	 "..",		 "a..b",
					   "../a", "a/../b", "a\\b", "a b",  "a@b",	 "a.lock",	 "a%2Fb",
					   "a\nb", "a:b",    "a*",   "\xff", "\xc2\xa0", "\xe2\x80\xae", "a\x7f" };
	char long_name[PF_LABEL_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct pf_why why = PF_WHY_INIT;
		if (pf_branch_name_check(good[i], &why) != 0)
			fail_msg("%s", why.text);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(pf_branch_name_check(bad[i], &why), -EINVAL);
		assert_int_equal(strncmp(why.text, "the branch name \"", 17), 0);
	}
	memset(long_name, 'a', sizeof(long_name));
	long_name[PF_LABEL_MAX] = '\0';
	assert_int_equal(pf_branch_name_check(long_name, NULL), 0);
	long_name[PF_LABEL_MAX] = 'a';
	long_name[PF_LABEL_MAX + 1] = '\0';
	assert_int_equal(pf_branch_name_check(long_name, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures),
		cmocka_unit_test(test_no_refs),
		cmocka_unit_test(test_tag),
		cmocka_unit_test(test_tag_by_name),
		cmocka_unit_test(test_damaged_json),
		cmocka_unit_test(test_much),
		cmocka_unit_test(test_cannot_read),
		cmocka_unit_test(test_branches),
		cmocka_unit_test(test_both_layouts),
		cmocka_unit_test(test_made_up_ids),
		cmocka_unit_test(test_damaged_branches),
		cmocka_unit_test(test_directory_loop),
		cmocka_unit_test(test_branch_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
