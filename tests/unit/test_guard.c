/* Guard tags: the bytes that released Lance reads, what is left alone, and what storage may do meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/guard.h"
#include "core/store_mem.h"

#include "pinned.h"

#define TAG_A	  "_refs/tags/pinfs-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa.json"
#define ID_A	  "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define BRANCH_ID "0123456789abcdef0123456789abcdef"

/* Versions 1 to 3 of main. Pin a is on 1, b on 2, c on 3. */
static int setup(void **state)
{
	*state = table_new(3, &(struct table_version){ 0 });
	return 0;
}

static int teardown(void **state)
{
	pf_store_free(*state);
	return 0;
}

static struct pf_branch *open_branch(struct pf_store *st, const char *name)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, name, &b, &why) < 0)
		fail_msg("%s", why.text);
	return b;
}

static int put(struct pf_branch *b, char letter, struct pf_why *why)
{
	_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin(letter);

	return pf_guard_put(b, &p, why);
}

static int take(struct pf_branch *b, char letter, struct pf_why *why)
{
	struct pf_uuid id = pinned_uuid(letter);

	return pf_guard_remove(b, &id, why);
}

static void assert_file(struct pf_store *st, const char *name, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	assert_int_equal(pf_store_get(st, name, 1 << 20, &text), 0);
	assert_string_equal(pf_buf_str(&text), expected);
}

static void assert_tags(struct pf_store *st, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	table_list(st, "_refs/tags", &text);
	assert_string_equal(pf_buf_str(&text), expected);
}

static uint64_t manifest_size(const struct table_version *t)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	table_manifest(t, &bytes);
	return bytes.len;
}

/* As 14.0.2 prints a tag (tests/fixtures, tags.lance): two blanks, null for main, nine digits of a second, no newline at the end. */
static const char *expected_text(char out[1024], const char *branch, const char *branch_id,
				 const struct table_version *source)
{
	snprintf(out, 1024,
		 "{\n"
		 "  \"branch\": %s,\n"
		 "  \"version\": %d,\n"
		 "  \"createdAt\": \"2026-01-01T00:00:0%d.007000000Z\",\n"
		 "  \"updatedAt\": \"2026-01-01T00:00:0%d.007000000Z\",\n"
		 "  \"manifestSize\": %d,\n"
		 "  \"metadata\": {\n"
		 "    \"pinfs.pin\": \"" ID_A "\",\n"
		 "    \"pinfs.source\": \"%d:0badcafe-0000-4000-8000-%012d\",\n"
		 "    \"pinfs.branch_id\": \"%s\"\n"
		 "  }\n"
		 "}",
		 branch, (int)source->version, (int)source->version, (int)source->version, (int)manifest_size(source),
		 (int)source->version, (int)source->version, branch_id);
	return out;
}

static void test_bytes(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	char text[1024];

	assert_int_equal(put(b, 'a', NULL), 0);
	assert_tags(*state, TAG_A "\n");
	assert_file(*state, TAG_A, expected_text(text, "null", "", &(struct table_version){ .version = 1 }));
}

static void test_bytes_on_a_branch(void **state)
{
	struct table_version v = { .version = 1, .dir = "tree/feat/x/", .branch = "feat/x", .v1 = true };
	char text[1024];

	table_put_branch(*state, "feat/x", 1, BRANCH_ID);
	table_put(*state, &v);
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, "feat/x");
	assert_int_equal(put(b, 'a', NULL), 0);
	assert_file(*state, TAG_A, expected_text(text, "\"feat/x\"", BRANCH_ID, &v));
}

static void test_read_as_what_it_is(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	_cleanup_(pf_pin_release) struct pf_pin c = pinned_pin('c');
	struct pf_uuid id = pinned_uuid('d');
	char uuid[PF_UUID_TEXT];

	assert_int_equal(put(b, 'c', NULL), 0);
	assert_int_equal(put(b, 'a', NULL), 0);
	assert_int_equal(put(b, 'b', NULL), 0);
	assert_int_equal(pf_store_mem_put(*state, "_refs/tags/v1.json", "{\"version\": 1, \"manifestSize\": 9}", 33),
			 0);
	assert_int_equal(pf_guards_list(b, &l, NULL), 0);
	assert_int_equal(l.n, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pinned_letter(&l.v[i].pin), 'a' + (int)i);
		assert_int_equal(l.v[i].source_version, i + 1);
		assert_string_equal(l.v[i].source_txn, table_uuid(i + 1, uuid));
		assert_string_equal(l.v[i].branch_id, "");
	}
	assert_ptr_equal(pf_guards_find(&l, &c.id), &l.v[2]);
	assert_null(pf_guards_find(&l, &id));
	assert_true(pf_guard_is_of(&l.v[2], &c));
	assert_false(pf_guard_is_of(&l.v[1], &c));
}

static void test_no_tags_at_all(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	struct pf_uuid id = pinned_uuid('a');

	assert_int_equal(pf_guards_list(b, &l, NULL), 0);
	assert_int_equal(l.n, 0);
	assert_null(pf_guards_find(&l, &id));
	assert_int_equal(take(b, 'a', NULL), 0);
}

static void test_put_twice_and_remove_twice(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	struct pf_stat first, second;

	assert_int_equal(put(b, 'a', NULL), 0);
	assert_int_equal(pf_store_stat(*state, TAG_A, &first), 0);
	assert_int_equal(put(b, 'a', NULL), 0);
	assert_int_equal(pf_store_stat(*state, TAG_A, &second), 0);
	assert_true(pf_stat_same(&first, &second));
	assert_int_equal(take(b, 'a', NULL), 0);
	assert_int_equal(take(b, 'a', NULL), 0);
	assert_tags(*state, "");
}

/* The pin was released, its tag could not be removed, and the same id was registered again. */
static void test_a_stale_tag_is_replaced(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin('a');
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };

	assert_int_equal(put(b, 'a', NULL), 0);
	p.source_version = 3;
	table_uuid(3, p.source_txn);
	assert_int_equal(pf_guard_put(b, &p, NULL), 0);
	assert_int_equal(pf_guards_list(b, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_true(pf_guard_is_of(&l.v[0], &p));
}

static void assert_left_alone(struct pf_branch *b, const char *text, int put_err, int remove_err, const char *says)
{
	struct pf_store *st = pf_branch_store(b);
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_put(st, TAG_A, text, strlen(text)), 0);
	assert_int_equal(put(b, 'a', &why), put_err);
	if (!strstr(why.text, says))
		fail_msg("%s", why.text);
	assert_int_equal(take(b, 'a', &why), remove_err);
	if (!strstr(why.text, says))
		fail_msg("%s", why.text);
	assert_file(st, TAG_A, text);
}

static void test_what_others_put_there_is_left(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	char text[1024];

	assert_left_alone(b, "{\"version\": 1, \"manifestSize\": 9}", -EEXIST, -EEXIST, "\"pinfs.pin\"");
	/* tags.update of Lance keeps the metadata */
	expected_text(text, "null", "", &(struct table_version){ .version = 1 });
	strstr(text, "\"version\": 1")[strlen("\"version\": ")] = '2';
	assert_left_alone(b, text, -EEXIST, -EEXIST, "\"pinfs.source\"");
	assert_left_alone(b, "{", -EBADMSG, -EBADMSG, TAG_A);
}

static void test_another_branchs_pin_of_the_same_id(void **state)
{
	struct table_version v = { .version = 1, .dir = "tree/dev/", .branch = "dev" };
	_cleanup_(pf_branch_freep) struct pf_branch *main_ = open_branch(*state, NULL), *dev = NULL;
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	table_put_branch(*state, "dev", 1, BRANCH_ID);
	table_put(*state, &v);
	dev = open_branch(*state, "dev");
	assert_int_equal(put(dev, 'a', NULL), 0);
	assert_int_equal(put(main_, 'a', &why), -EEXIST);
	assert_non_null(strstr(why.text, "another branch"));
	assert_int_equal(take(main_, 'a', NULL), 0);
	assert_tags(*state, TAG_A "\n");
	assert_int_equal(pf_guards_list(main_, &l, NULL), 0);
	assert_int_equal(l.n, 0);
	assert_int_equal(take(dev, 'a', NULL), 0);
	assert_tags(*state, "");
}

static void test_source_is_gone(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(put(b, 'd', &why), -ENOENT);
	assert_non_null(strstr(why.text, "version 4"));
}

static void assert_shape(const char *name, const char *branch, uint64_t version, const char *metadata, int expected)
{
	char n[64], b[64], m[256];
	struct pf_tag t = {
		.name = n, .branch = branch ? b : NULL, .version = version, .metadata = metadata ? m : NULL
	};
	struct pf_guard g = { .source_version = 99 };
	struct pf_why why = PF_WHY_INIT;

	snprintf(n, sizeof(n), "%s", name);
	snprintf(b, sizeof(b), "%s", branch ? branch : "");
	snprintf(m, sizeof(m), "%s", metadata ? metadata : "");
	assert_int_equal(pf_guard_from_tag(&t, &g, &why), expected);
	assert_int_equal(why.text[0] != '\0', expected < 0);
	assert_int_equal(g.source_version == 99, expected <= 0);
}

#define PIN    "\"pinfs.pin\": \"" ID_A "\""
#define SOURCE "\"pinfs.source\": \"2:0badcafe-0000-4000-8000-000000000002\""
#define MAIN   "\"pinfs.branch_id\": \"\""

static void test_shape(void **state)
{
	const char *name = "pinfs-" ID_A, *whole = "{" PIN ", " SOURCE ", " MAIN "}";
	const char *on_dev = "{" PIN ", " SOURCE ", \"pinfs.branch_id\": \"" BRANCH_ID "\"}";

	assert_shape(name, NULL, 2, whole, 1);
	assert_shape(name, NULL, 2, "{\"note\": \"x\", " PIN ", " SOURCE ", " MAIN "}", 1);
	assert_shape(name, "dev", 2, on_dev, 1);

	/* nobody's and other people's */
	assert_shape("v1", NULL, 2, NULL, 0);
	assert_shape("v1", NULL, 2, "{\"note\": \"x\"}", 0);
	assert_shape("pinfs-demo", NULL, 2, "{}", 0);
	assert_shape("pinfs-AAAAAAAA-aaaa-4aaa-8aaa-aaaaaaaaaaaa", NULL, 2, "{}", 0);

	assert_shape(name, NULL, 2, NULL, -EBADMSG);
	assert_shape(name, NULL, 2, "{}", -EBADMSG);
	assert_shape("v1", NULL, 2, whole, -EBADMSG);
	assert_shape(name, NULL, 3, whole, -EBADMSG);
	assert_shape(name, "dev", 2, whole, -EBADMSG);
	assert_shape(name, NULL, 2, on_dev, -EBADMSG);
	assert_shape(name, "dev", 2, "{" PIN ", " SOURCE ", \"pinfs.branch_id\": \"" BRANCH_ID "0\"}", -EBADMSG);
	assert_shape(name, NULL, 2, "{" PIN ", " SOURCE "}", -EBADMSG);
	assert_shape(name, NULL, 2, "{" PIN ", " MAIN "}", -EBADMSG);
	assert_shape(name, NULL, 2, "{" SOURCE ", " MAIN "}", -EBADMSG);
	assert_shape("pinfs-bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb", NULL, 2, whole, -EBADMSG);
}

static void test_a_damaged_tag_is_named(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	struct pf_guards l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_put(*state, "_refs/tags/v1.json", "{", 1), 0);
	assert_int_equal(pf_guards_list(b, &l, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "_refs/tags/v1.json"));
}

/* Two processes put the tag of one pin at once: the second finds the name taken at the last step. */
static void link_first(void *arg, struct pf_store *st, const char *op, const char *name)
{
	const char *text = arg;

	if (strcmp(op, "link") == 0)
		assert_int_equal(pf_store_mem_put(st, name, text, strlen(text)), 0);
}

static void test_two_at_once(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	struct pf_why why = PF_WHY_INIT;
	char text[1024], foreign[] = "{\"version\": 1, \"manifestSize\": 9}";

	expected_text(text, "null", "", &(struct table_version){ .version = 1 });
	pf_store_mem_set_hook(*state, link_first, text);
	assert_int_equal(put(b, 'a', NULL), 0);
	assert_tags(*state, TAG_A "\n");
	assert_int_equal(pf_store_mem_del(*state, TAG_A), 0);
	pf_store_mem_set_hook(*state, link_first, foreign);
	assert_int_equal(put(b, 'a', &why), -EEXIST);
	assert_file(*state, TAG_A, foreign);
	assert_tags(*state, TAG_A "\n");
}

/* However storage fails: the answer is its error or the tag is there whole; and the next try succeeds. */
static void fail_every_call(void **state, enum pf_fault kind, bool stale)
{
	for (unsigned n = 1;; n++) {
		_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
		_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(st, NULL);
		_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin('a');
		struct pf_why why = PF_WHY_INIT;
		char text[1024];

		if (stale) {
			p.source_version = 3;
			assert_int_equal(pf_guard_put(b, &p, NULL), 0);
			p.source_version = 1;
		}
		unsigned before = pf_store_mem_calls(st);
		pf_store_mem_fault(st, n, kind, -EIO, false);
		int r = pf_guard_put(b, &p, &why);
		bool reached = pf_store_mem_calls(st) - before >= n;
		pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);

		expected_text(text, "null", "", &(struct table_version){ .version = 1 });
		if (r == 0)
			assert_file(st, TAG_A, text);
		else
			assert_int_equal(r, -EIO);
		assert_int_equal(r == 0, why.text[0] == '\0');
		assert_int_equal(put(b, 'a', NULL), 0);
		assert_file(st, TAG_A, text);
		if (!reached)
			return;
	}
}

static void test_failures_of_put(void **state)
{
	fail_every_call(state, PF_FAULT_BEFORE, false);
	fail_every_call(state, PF_FAULT_AFTER, false);
	fail_every_call(state, PF_FAULT_BEFORE, true);
	fail_every_call(state, PF_FAULT_AFTER, true);
}

static void test_failures_of_remove(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	bool reached = true;

	for (unsigned n = 1; reached; n++) {
		struct pf_why why = PF_WHY_INIT;
		assert_int_equal(put(b, 'a', NULL), 0);
		unsigned before = pf_store_mem_calls(*state);
		pf_store_mem_fault(*state, n, PF_FAULT_BEFORE, -EIO, false);
		int r = take(b, 'a', &why);
		reached = pf_store_mem_calls(*state) - before >= n;
		pf_store_mem_fault(*state, 0, PF_FAULT_NONE, 0, false);
		assert_int_equal(r, reached ? -EIO : 0);
		assert_int_equal(r == 0, why.text[0] == '\0');
		assert_int_equal(take(b, 'a', NULL), 0);
		assert_tags(*state, "");
	}
}

/* A signal, or a network file system that passes one on: the step may have been taken or not. `times` 0: for good. */
struct interruption {
	const char *op, *name;
	enum pf_fault kind;
	unsigned times, hits;
	bool synced; /* the directory of tags, after it */
};

static void interrupt(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct interruption *x = arg;

	x->synced |= x->hits && strcmp(op, "sync_dir") == 0 && strcmp(name, "_refs/tags") == 0;
	if (strcmp(op, x->op) != 0 || !strstr(name, x->name) || (x->times && x->hits == x->times))
		return;
	x->hits++;
	x->synced = false;
	pf_store_mem_fault(st, 1, x->kind, -EINTR, false);
}

static void test_interrupted_steps_are_tried_again(void **state)
{
	static const enum pf_fault kinds[] = { PF_FAULT_BEFORE, PF_FAULT_AFTER };
	static const struct {
		const char *op, *name;
		bool remove;
	} steps[] = {
		{ "create", ".tmp", false },
		{ "link", TAG_A, false },
		{ "unlink", ".tmp", false },
		{ "unlink", TAG_A, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(steps) * ARRAY_LEN(kinds); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = table_new(3, &(struct table_version){ 0 });
		_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(st, NULL);
		bool remove = steps[i / 2].remove;
		struct interruption x = { steps[i / 2].op, steps[i / 2].name, kinds[i % 2], .times = 1 };
		struct pf_why why = PF_WHY_INIT;
		char text[1024];

		if (remove)
			assert_int_equal(put(b, 'a', NULL), 0);
		pf_store_mem_set_hook(st, interrupt, &x);
		assert_int_equal(remove ? take(b, 'a', &why) : put(b, 'a', &why), 0);
		assert_int_equal(x.hits, 1);
		assert_true(x.synced);
		assert_string_equal(why.text, "");
		if (remove) {
			assert_tags(st, "");
			continue;
		}
		expected_text(text, "null", "", &(struct table_version){ .version = 1 });
		assert_file(st, TAG_A, text);
		/* and the one that stays is not tried for ever */
		x = (struct interruption){ "unlink", TAG_A, kinds[i % 2] };
		if (x.kind == PF_FAULT_BEFORE)
			assert_int_equal(take(b, 'a', &why), -EINTR);
	}
}

/* Lance cannot list any tag while one file is half written, so it must be complete and durable before it has its name. */
struct steps {
	struct pf_buf text;
};

static void note(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct steps *s = arg;

	static const char *const reads[] = { "stat", "open", "read" };

	for (size_t i = 0; i < ARRAY_LEN(reads); i++)
		if (strcmp(op, reads[i]) == 0)
			return;
	if (strncmp(name, "_refs/tags", strlen("_refs/tags")) == 0)
		assert_int_equal(pf_buf_addf(&s->text, "%s %s\n", op, name), 0);
	else if (strncmp(name, "_transactions/.tmp", strlen("_transactions/.tmp")) == 0)
		assert_int_equal(pf_buf_addf(&s->text, "%s temp\n", op), 0);
}

static void test_order(void **state)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = open_branch(*state, NULL);
	struct steps s = { PF_BUF_INIT };

	pf_store_mem_set_hook(*state, note, &s);
	assert_int_equal(put(b, 'a', NULL), 0);
	assert_int_equal(take(b, 'a', NULL), 0);
	assert_string_equal(pf_buf_str(&s.text), "mkdir _refs/tags\n"
						 "create temp\n"
						 "write temp\n"
						 "sync temp\n"
						 "link " TAG_A "\n"
						 "unlink temp\n"
						 "sync_dir _refs/tags\n"
						 "unlink " TAG_A "\n"
						 "sync_dir _refs/tags\n");
	pf_buf_release(&s.text);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_bytes),
		TEST(test_bytes_on_a_branch),
		TEST(test_read_as_what_it_is),
		TEST(test_no_tags_at_all),
		TEST(test_put_twice_and_remove_twice),
		TEST(test_a_stale_tag_is_replaced),
		TEST(test_what_others_put_there_is_left),
		TEST(test_another_branchs_pin_of_the_same_id),
		TEST(test_source_is_gone),
		TEST(test_shape),
		TEST(test_a_damaged_tag_is_named),
		TEST(test_two_at_once),
		TEST(test_failures_of_put),
		TEST(test_failures_of_remove),
		TEST(test_interrupted_steps_are_tried_again),
		TEST(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
