/* Which files may be removed while pins are held, asked one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/shield.h"
#include "core/store_mem.h"

#include "pinned.h"
#include "world.h"

#define DEV_ID	    "0123456789abcdef0123456789abcdef"
#define MANIFEST(n) "_versions/1844674407370955161" #n ".manifest" /* of version 5 - n */

/* A version of these data files, a letter each, with pins (pinned.h). */
static void put(struct pf_store *st, const char *branch, uint64_t version, const char *letters, uint64_t flags,
		const char *pins)
{
	_cleanup_(pf_buf_release) struct pf_buf x = PF_BUF_INIT;
	char dir[32];

	snprintf(dir, sizeof(dir), "tree/%s/", branch ? branch : "");
	for (const char *c = letters; *c; c++) {
		const char file[] = { *c, '.', 'l', 'a', 'n', 'c', 'e', '\0' };
		/* What a branch was made with is its parent's: base 0. */
		table_add_fragment(&x, (uint64_t)(*c - 'a'), file, 0, branch && *c < 'n' ? 0 : -1);
	}
	if (branch)
		table_add_base(&x, 0, true, "/memory");
	const struct table_version t = {
		.version = version, .dir = branch ? dir : NULL, .branch = branch, .writer_flags = flags, .extra = &x
	};
	pinned_put(st, &t, &(struct pinned){ .pins = pins });
}

/* Main 1 to 5; pin b is of version 2. */
static struct pf_store *new_table(uint64_t flags, const char *pins)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	put(st, NULL, 1, "ab", flags, NULL);
	put(st, NULL, 2, "bc", flags, NULL);
	put(st, NULL, 3, "cd", flags, pins);
	put(st, NULL, 4, "de", flags, pins);
	put(st, NULL, 5, "ef", flags, pins);
	return st;
}

struct asked {
	struct pf_lines l;
	struct pf_shield *s;
};

static void ask(struct pf_store *st, struct asked *a)
{
	struct pf_why why = PF_WHY_INIT;

	pf_lines_init(&a->l, st);
	if (pf_lines_refresh(&a->l, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_shield_new(&a->l, &a->s), 0);
}

static void asked_release(struct asked *a)
{
	pf_shield_free(a->s);
	pf_lines_release(&a->l);
}

static void want_free(const struct asked *a, const char *path, bool known)
{
	struct pf_why why = PF_WHY_INIT;
	bool is;

	int r = pf_shield_check(a->s, path, &is, &why);
	if (r < 0 || is != known)
		fail_msg("%s: %d, %sknown: %s", path, r, is ? "" : "not ", why.text);
}

static void want_kept(const struct asked *a, const char *path, const char *sentence)
{
	struct pf_why why = PF_WHY_INIT;
	bool known;

	int r = pf_shield_check(a->s, path, &known, &why);
	if (r != -EBUSY || !strstr(why.text, sentence))
		fail_msg("%s: %d: %s", path, r, why.text);
}

static void the_window_of_a_pin(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(BIT_PINS, "b");
	_cleanup_(asked_release) struct asked a;
	char txn[TABLE_NAME_MAX];

	ask(st, &a);
	want_free(&a, "data/a.lance", true);
	want_kept(
		&a, "data/b.lance",
		"branch main needs data/b.lance: pin:bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb; `pinctl why` names all that keep it");
	for (const char *c = "cdef"; *c; c++) {
		const char path[] = { 'd', 'a', 't', 'a', '/', *c, '.', 'l', 'a', 'n', 'c', 'e', '\0' };
		want_kept(&a, path, path);
	}
	want_free(&a, MANIFEST(4), true);
	want_kept(&a, MANIFEST(3), "pin:bbbbbbbb");
	want_kept(&a, MANIFEST(1), "pin:bbbbbbbb");
	want_kept(&a, MANIFEST(0), "branch main needs");
	want_free(&a, table_txn_name(&(struct table_version){ .version = 1 }, txn), true);
	want_kept(&a, table_txn_name(&(struct table_version){ .version = 3 }, txn), "pin:bbbbbbbb");
	want_kept(&a, table_txn_name(&(struct table_version){ .version = 5 }, txn), "branch main needs");
	/* What nobody names is for others to judge. */
	want_free(&a, "data/z.lance", false);
	want_free(&a, "elsewhere", false);
}

/* A pin may begin on a head at any moment. */
static void a_head_is_whole_without_pins(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(BIT_PINS, NULL);
	_cleanup_(asked_release) struct asked a;

	ask(st, &a);
	want_kept(&a, "data/e.lance", "branch main needs data/e.lance: head; `pinctl why` names all that keep it");
	want_kept(&a, "data/f.lance", "head");
	want_kept(&a, MANIFEST(0), "head");
	want_free(&a, "data/d.lance", true);
	want_free(&a, MANIFEST(1), true);
}

static void without_the_flag_there_is_no_shield(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(0, NULL);
	_cleanup_(asked_release) struct asked a;

	ask(st, &a);
	want_free(&a, "data/f.lance", true);
	want_free(&a, MANIFEST(0), true);
	want_free(&a, "data/z.lance", true);
}

/* What a branch was made from lies in its parent's folders. */
static void what_another_line_refers_to(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(BIT_PINS, NULL);
	_cleanup_(asked_release) struct asked a;

	table_put_branch(st, "dev", 1, DEV_ID);
	put(st, "dev", 1, "a", BIT_PINS, NULL);
	put(st, "dev", 2, "ax", BIT_PINS, NULL);
	put(st, "dev", 3, "ay", BIT_PINS, NULL);
	ask(st, &a);
	want_kept(&a, "data/a.lance", "versions of branch dev refer to data/a.lance");
	want_free(&a, "data/b.lance", true);
	want_free(&a, "tree/dev/data/x.lance", true);
	want_kept(&a, "tree/dev/data/y.lance",
		  "branch dev needs tree/dev/data/y.lance: head; `pinctl why` names all that keep it");
	want_free(&a, "data/x.lance", false);
}

/* Then nobody knows what else a pin needs. */
static void a_window_that_cannot_be_read(void **state)
{
	static const char *const bad[] = { "", "LANC", "no manifest, but longer than its end" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_table(BIT_PINS, "b");
		_cleanup_(asked_release) struct asked a;
		assert_int_equal(pf_store_mem_put(st, MANIFEST(2), bad[i], strlen(bad[i])), 0);
		ask(st, &a);
		want_kept(&a, "data/a.lance", "what pins need cannot be told, so nothing is removed");
		want_kept(&a, "data/z.lance", "what pins need cannot be told");
		want_kept(&a, "data/b.lance", "data/b.lance");
	}
}

/* Its pins are not known, and what it needs of others is not. */
static void a_branch_that_cannot_be_read(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table(BIT_PINS, NULL);
	_cleanup_(asked_release) struct asked a;

	table_put_branch(st, "dev", 1, DEV_ID);
	put(st, "dev", 1, "x", BIT_PINS, NULL);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/" MANIFEST(4), "broken", 6), 0);
	ask(st, &a);
	want_kept(&a, "data/a.lance", "what pins need cannot be told, so nothing is removed");
	want_kept(&a, "data/f.lance", "head");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_window_of_a_pin),
		cmocka_unit_test(a_head_is_whole_without_pins),
		cmocka_unit_test(without_the_flag_there_is_no_shield),
		cmocka_unit_test(what_another_line_refers_to),
		cmocka_unit_test(a_window_that_cannot_be_read),
		cmocka_unit_test(a_branch_that_cannot_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
