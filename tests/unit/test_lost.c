/* Pins that a writer dropped: what counts as lost, what settles it, and what guard tags tell when the versions are gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/lost.h"
#include "core/store_mem.h"

#include "pinned.h"

struct table {
	struct pf_store *st;
	struct pf_branch *b;
};

/* Version 1 is a plain append, and nothing has a guard tag. */
static int setup(void **state)
{
	struct table *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	t->st = table_new(1, &(struct table_version){ 0 });
	assert_int_equal(pf_branch_open(t->st, NULL, &t->b, NULL), 0);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct table *t = *state;

	pf_branch_free(t->b);
	pf_store_free(t->st);
	free(t);
	return 0;
}

static void put(struct table *t, uint64_t version, const char *pins, enum pf_op_kind kind, const char *named)
{
	pinned_put(t->st, &(struct table_version){ .version = version },
		   &(struct pinned){ .pins = pins, .kind = kind, .named = named });
}

/* A commit of a Lance that knows nothing of pins. */
static void append_by(struct table *t, uint64_t version, const char *writer)
{
	table_put(t->st, &(struct table_version){ .version = version, .writer = writer });
}

static void del(struct table *t, uint64_t version)
{
	char name[TABLE_NAME_MAX];

	table_manifest_name(&(struct table_version){ .version = version }, name);
	assert_int_equal(pf_store_mem_del(t->st, name), 0);
}

static void guard(struct table *t, const char *letters)
{
	for (; *letters; letters++) {
		_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin(*letters);
		assert_int_equal(pf_guard_put(t->b, &p, NULL), 0);
	}
}

static void describe(const struct pf_lost *l, struct pf_buf *out)
{
	assert_int_equal(pf_buf_addf(out, "%c of %d:%s by %d %s\n", pinned_letter(&l->pin.id),
				     (int)l->pin.source_version, l->pin.source_txn, (int)l->version,
				     l->writer ? l->writer : "?"),
			 0);
}

#define TXN "0badcafe-0000-4000-8000-00000000000"

static void assert_lost_after(struct table *t, uint64_t after, const char *expected)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list l = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (pf_lost_find(t->b, after, &l, &why) < 0)
		fail_msg("%s", why.text);
	for (size_t i = 0; i < l.n; i++)
		describe(&l.v[i], &text);
	assert_string_equal(pf_buf_str(&text), expected);
}

static void assert_lost(struct table *t, const char *expected)
{
	assert_lost_after(t, 0, expected);
}

static void assert_one(struct table *t, char letter, const char *expected)
{
	_cleanup_(pf_lost_release) struct pf_lost l = { .version = 77 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_uuid id = pinned_uuid(letter);
	struct pf_why why = PF_WHY_INIT;

	int r = pf_lost_one(t->b, &id, &l, &why);
	if (r < 0)
		fail_msg("%s", why.text);
	assert_int_equal(r, *expected != '\0');
	if (r == 1)
		describe(&l, &text);
	else
		assert_int_equal(l.version, 77);
	assert_string_equal(pf_buf_str(&text), expected);
}

static void test_dropped_by_an_append(void **state)
{
	struct table *t = *state;

	put(t, 2, "ab", PF_OP_REGISTER, "ab");
	append_by(t, 3, "8.0.1");
	append_by(t, 4, "14.0.2");
	assert_lost(t, "a of 1:" TXN "1 by 3 lance 8.0.1\nb of 2:" TXN "2 by 3 lance 8.0.1\n");
	assert_one(t, 'b', "b of 2:" TXN "2 by 3 lance 8.0.1\n");
	assert_one(t, 'c', "");
}

static void test_the_last_record_is_told(void **state)
{
	struct table *t = *state;
	_cleanup_(pf_lost_list_release) struct pf_lost_list l = { 0 };
	_cleanup_(pf_pin_release) struct pf_pin renewed = pinned_pin('A');

	put(t, 2, "a", PF_OP_REGISTER, "a");
	put(t, 3, "A", PF_OP_RENEW, "A");
	append_by(t, 4, "");
	assert_int_equal(pf_lost_find(t->b, 0, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(pf_time_cmp(l.v[0].pin.expires_at, renewed.expires_at), 0);
	assert_string_equal(l.v[0].pin.label, "job");
	assert_null(l.v[0].writer);
	assert_int_equal(l.since, 1);
	assert_int_equal(l.until, 4);
}

static void test_released_and_expired_are_not_lost(void **state)
{
	struct table *t = *state;

	put(t, 2, "abc", PF_OP_REGISTER, "abc");
	guard(t, "ab");
	put(t, 3, "c", PF_OP_RELEASE, "ab");
	put(t, 4, "", PF_OP_EXPIRE, "c");
	assert_lost(t, "");
	assert_one(t, 'a', "");
	assert_one(t, 'c', "");
}

static void test_waived(void **state)
{
	struct table *t = *state;

	put(t, 2, "ab", PF_OP_REGISTER, "ab");
	guard(t, "ab");
	append_by(t, 3, "8.0.1");
	put(t, 4, "", PF_OP_RELEASE, "a");
	assert_lost(t, "b of 2:" TXN "2 by 3 lance 8.0.1\n");
	assert_one(t, 'a', "");
}

static void test_active_again(void **state)
{
	struct table *t = *state;

	put(t, 2, "ab", PF_OP_REGISTER, "ab");
	append_by(t, 3, "8.0.1");
	put(t, 4, "a", PF_OP_REGISTER, "a");
	assert_lost(t, "b of 2:" TXN "2 by 3 lance 8.0.1\n");
	/* and lost once more */
	append_by(t, 5, "10.0.0");
	assert_lost(t, "b of 2:" TXN "2 by 3 lance 8.0.1\na of 1:" TXN "1 by 5 lance 10.0.0\n");
	put(t, 6, "", PF_OP_RELEASE, "ab");
	assert_lost(t, "");
}

/* A release before the registration does not excuse a later loss. */
static void test_named_before_is_not_named(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	put(t, 3, "", PF_OP_RELEASE, "a");
	put(t, 4, "a", PF_OP_REGISTER, "a");
	guard(t, "a");
	append_by(t, 5, "8.0.1");
	assert_lost(t, "a of 1:" TXN "1 by 5 lance 8.0.1\n");
	/* nor where only the tag is left to tell */
	append_by(t, 6, "14.0.2");
	del(t, 5);
	assert_lost(t, "a of 1:" TXN "1 by 0 ?\n");
}

static void test_across_a_gap_only_the_tag_knows(void **state)
{
	struct table *t = *state;

	put(t, 2, "ab", PF_OP_REGISTER, "ab");
	guard(t, "b");
	append_by(t, 3, "8.0.1");
	append_by(t, 4, "12.0.0");
	del(t, 3);
	assert_lost(t, "b of 2:" TXN "2 by 0 ?\n");
	assert_one(t, 'b', "b of 2:" TXN "2 by 0 ?\n");
	assert_one(t, 'a', "");
	/* what dropped it, and all that knew it, is gone */
	del(t, 2);
	assert_lost(t, "b of 2:" TXN "2 by 0 ?\n");
	put(t, 5, "", PF_OP_RELEASE, "b");
	assert_lost(t, "");
}

static void test_a_tag_with_its_pin_is_no_loss(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	guard(t, "a");
	assert_lost(t, "");
	assert_lost_after(t, 1, "");
}

static void test_only_what_came_after(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	guard(t, "a");
	append_by(t, 3, "8.0.1");
	put(t, 4, "c", PF_OP_REGISTER, "c");
	guard(t, "c");
	append_by(t, 5, "9.0.0");
	assert_lost_after(t, 3, "c of 3:" TXN "3 by 5 lance 9.0.0\n");
	assert_lost_after(t, 2, "a of 1:" TXN "1 by 3 lance 8.0.1\nc of 3:" TXN "3 by 5 lance 9.0.0\n");
	/* nothing is new, and tags alone are no news */
	assert_lost_after(t, 5, "");
}

/* An error's sentence may look at 64 MB of manifests, and as far as a guard tag says. */
static void test_one_does_not_look_back_for_ever(void **state)
{
	struct table *t = *state;
	_cleanup_(pf_freep) char *blob = calloc(1, 40 << 20);
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;

	assert_non_null(blob);
	assert_int_equal(pf_wire_put_bytes(&extra, 9999, blob, 40 << 20), 0);
	put(t, 2, "a", PF_OP_REGISTER, "a");
	append_by(t, 3, "8.0.1");
	append_by(t, 4, "8.0.1");
	table_put(t->st, &(struct table_version){ .version = 5, .extra = &extra });
	assert_one(t, 'a', "");
	guard(t, "a");
	assert_one(t, 'a', "a of 1:" TXN "1 by 3 lance 8.0.1\n");
}

static void assert_recent(struct table *t, uint64_t versions, uint64_t since, const char *expected)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list l = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (pf_lost_recent(t->b, versions, &l, &why) < 0)
		fail_msg("%s", why.text);
	for (size_t i = 0; i < l.n; i++)
		describe(&l.v[i], &text);
	assert_string_equal(pf_buf_str(&text), expected);
	assert_int_equal(l.since, since);
}

/* A screen may look at so many versions, and as far as a guard tag without its pin says. */
static void test_recent(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	append_by(t, 3, "8.0.1");
	put(t, 4, "d", PF_OP_REGISTER, "d");
	guard(t, "d");
	assert_recent(t, 0, 4, "");
	assert_recent(t, 1, 3, "");
	assert_recent(t, 2, 2, "a of 1:" TXN "1 by 3 lance 8.0.1\n");
	assert_recent(t, UINT64_MAX, 1, "a of 1:" TXN "1 by 3 lance 8.0.1\n");
	guard(t, "a");
	assert_recent(t, 0, 1, "a of 1:" TXN "1 by 3 lance 8.0.1\n");
}

static void test_a_damaged_transaction_names_nobody(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	table_put(t->st, &(struct table_version){ .version = 3, .txn = TABLE_TXN_LOST });
	assert_lost(t, "a of 1:" TXN "1 by 3 lance 14.0.2\n");
}

static void test_storage_that_fails_is_no_answer(void **state)
{
	struct table *t = *state;

	put(t, 2, "a", PF_OP_REGISTER, "a");
	guard(t, "a");
	put(t, 3, "", PF_OP_RELEASE, "a");
	for (unsigned n = 1;; n++) {
		struct pf_lost_list l = { 0 };
		struct pf_why why = PF_WHY_INIT;
		unsigned before = pf_store_mem_calls(t->st);
		pf_store_mem_fault(t->st, n, PF_FAULT_BEFORE, -EIO, false);
		int r = pf_lost_find(t->b, 0, &l, &why);
		bool reached = pf_store_mem_calls(t->st) - before >= n;
		pf_store_mem_fault(t->st, 0, PF_FAULT_NONE, 0, false);
		assert_int_equal(r, reached ? -EIO : 0);
		assert_int_equal(why.text[0] != '\0', reached);
		if (!reached)
			break;
	}
}

static void assert_repair(struct table *t, bool dry_run, unsigned put_, unsigned removed, unsigned failed,
			  unsigned lost)
{
	struct pf_guard_repair n = { 0 };
	struct pf_why why = PF_WHY_INIT;

	if (pf_guard_repair(t->b, dry_run, &n, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(n.put, put_);
	assert_int_equal(n.removed, removed);
	assert_int_equal(n.failed, failed);
	assert_int_equal(n.lost, lost);
}

static void assert_guards(struct table *t, const char *letters)
{
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };

	assert_int_equal(pf_guards_list(t->b, &l, NULL), 0);
	assert_int_equal(l.n, strlen(letters));
	for (size_t i = 0; i < l.n; i++)
		assert_int_equal(pinned_letter(&l.v[i].pin), letters[i]);
}

static void test_repair(void **state)
{
	struct table *t = *state;

	put(t, 2, "abcd", PF_OP_REGISTER, "abcd");
	put(t, 3, "abcd", PF_OP_NONE, "");
	put(t, 4, "ad", PF_OP_RELEASE, "bc");
	guard(t, "ab");
	/* a's tag is right, b's and c's pins were released, d's tag is missing */
	assert_repair(t, true, 1, 1, 0, 0);
	assert_guards(t, "ab");
	assert_repair(t, false, 1, 1, 0, 0);
	assert_guards(t, "ad");
	assert_repair(t, false, 0, 0, 0, 0);
}

static void test_repair_leaves_the_lost(void **state)
{
	struct table *t = *state;

	put(t, 2, "abc", PF_OP_REGISTER, "abc");
	append_by(t, 3, "8.0.1");
	guard(t, "abc");
	put(t, 4, "", PF_OP_RELEASE, "b");
	assert_repair(t, false, 0, 1, 0, 2);
	assert_guards(t, "ac");
}

static void test_repair_replaces_a_stale_tag(void **state)
{
	struct table *t = *state;
	_cleanup_(pf_pin_release) struct pf_pin p = pinned_pin('b');
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };

	p.source_version = 1;
	table_uuid(1, p.source_txn);
	assert_int_equal(pf_guard_put(t->b, &p, NULL), 0);
	append_by(t, 2, "14.0.2");
	put(t, 3, "b", PF_OP_REGISTER, "b");
	assert_repair(t, false, 1, 0, 0, 0);
	assert_int_equal(pf_guards_list(t->b, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.v[0].source_version, 2);
}

static void fail_tags(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "create") == 0 || strcmp(op, "unlink") == 0)
		pf_store_mem_fault(st, 1, PF_FAULT_BEFORE, -EROFS, false);
}

static void test_repair_counts_what_fails(void **state)
{
	struct table *t = *state;

	put(t, 2, "ab", PF_OP_REGISTER, "ab");
	guard(t, "a");
	put(t, 3, "b", PF_OP_RELEASE, "a");
	put(t, 4, "b", PF_OP_NONE, "");
	pf_store_mem_set_hook(t->st, fail_tags, NULL);
	assert_repair(t, false, 0, 0, 2, 0);
	pf_store_mem_set_hook(t->st, NULL, NULL);
	assert_guards(t, "a");
}

static void test_on_a_branch(void **state)
{
	struct table *t = *state;
	struct table_version v = { .version = 1, .dir = "tree/dev/", .branch = "dev" };
	struct table dev = { .st = t->st };

	table_put_branch(t->st, "dev", 1, "0123456789abcdef0123456789abcdef");
	table_put(t->st, &v);
	v.version = 2;
	pinned_put(t->st, &v, &(struct pinned){ .pins = "a", .kind = PF_OP_REGISTER, .named = "a" });
	assert_int_equal(pf_branch_open(t->st, "dev", &dev.b, NULL), 0);
	guard(&dev, "a");
	assert_lost(t, "");
	assert_lost(&dev, "");
	v.version = 3;
	v.writer = "8.0.1";
	table_put(t->st, &v);
	assert_lost(t, "");
	assert_lost(&dev, "a of 1:" TXN "1 by 3 lance 8.0.1\n");
	pf_branch_free(dev.b);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_dropped_by_an_append),
		TEST(test_the_last_record_is_told),
		TEST(test_released_and_expired_are_not_lost),
		TEST(test_waived),
		TEST(test_active_again),
		TEST(test_named_before_is_not_named),
		TEST(test_across_a_gap_only_the_tag_knows),
		TEST(test_a_tag_with_its_pin_is_no_loss),
		TEST(test_only_what_came_after),
		TEST(test_one_does_not_look_back_for_ever),
		TEST(test_recent),
		TEST(test_a_damaged_transaction_names_nobody),
		TEST(test_storage_that_fails_is_no_answer),
		TEST(test_repair),
		TEST(test_repair_leaves_the_lost),
		TEST(test_repair_replaces_a_stale_tag),
		TEST(test_repair_counts_what_fails),
		TEST(test_on_a_branch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
