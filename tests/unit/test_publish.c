/* What a commit attempt writes, and in which order (design: section 1, "Local publication"). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire.h"

#include "attempt.h"
#include "whole.h"

static void get(struct pf_store *st, const char *name, struct pf_buf *out)
{
	assert_int_equal(pf_store_get(st, name, 1 << 20, out), 0);
}

static void assert_file(struct pf_store *st, const char *name, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;

	get(st, name, &got);
	assert_string_equal(pf_buf_str(&got), want);
}

/*
 * What is committed.
 */

static void test_files(void **state)
{
	static const struct table_version like = { .fragments = 3 };
	struct attempt w;
	struct pf_manifest *m;
	_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;

	new_attempt(&w, &like);
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_int_equal(m->version, 6);
	assert_string_equal(m->name, V6);
	pf_manifest_unref(m);

	table_list(w.st, "_versions", &files);
	assert_string_equal(pf_buf_str(&files), V6 "\n" V5 "\n"
						   "_versions/18446744073709551611.manifest\n"
						   "_versions/18446744073709551612.manifest\n"
						   "_versions/18446744073709551613.manifest\n"
						   "_versions/18446744073709551614.manifest\n"
						   "_versions/latest_version_hint.json\n");
	assert_file(w.st, "_versions/latest_version_hint.json", "{\"version\":6}");
	assert_true(exists(w.st, TXN_6));
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

static void test_v1_names(void **state)
{
	static const struct table_version like = { .v1 = true };
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_string_equal(m->name, "_versions/6.manifest");
	pf_manifest_unref(m);
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

static void test_branch(void **state)
{
	struct pf_store *st = table_new(5, &(struct table_version){ 0 });
	static const struct table_version first = { .version = 5, .dir = "tree/feat/x/", .branch = "feat/x" };
	struct attempt w;
	struct pf_manifest *m;

	table_put(st, &first);
	table_put_branch(st, "feat/x", 5, "00112233445566778899aabbccddeeff");
	open_attempt(&w, st, "feat/x");
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_string_equal(m->name, "tree/feat/x/" V6);
	assert_string_equal(m->branch, "feat/x");
	pf_manifest_unref(m);
	assert_true(exists(st, "tree/feat/x/" TXN_6));
	assert_file(st, "tree/feat/x/_versions/latest_version_hint.json", "{\"version\":6}");
	assert_false(exists(st, V6));
	assert_whole(st, "tree/feat/x/", false);
	close_attempt(&w);
}

/* Tables written without transaction files have no directory for them. */
static void test_no_transactions_directory(void **state)
{
	static const struct table_version like = { .txn = TABLE_TXN_NONE };
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	assert_false(exists(w.st, "_transactions"));
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);
	assert_true(exists(w.st, TXN_6));
	close_attempt(&w);
}

/* Where a top-level field of a manifest's message stands, tag included; fails if it is not there exactly once. */
static struct pf_field the_field(const struct pf_buf *file, uint32_t number)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader r;
	struct pf_field f, found = { .number = 0 };
	uint64_t at = pf_get_le(file->data + file->len - 16, 8);

	pf_mem_reader_init(&r, file->data, file->len);
	pf_wire_init(&w, &r.base, at + 4, pf_get_le(file->data + at, 4));
	while (pf_wire_next(&w, &f, NULL) > 0) {
		if (f.number != number)
			continue;
		assert_int_equal(found.number, 0);
		found = f;
	}
	assert_int_equal(found.number, number);
	return found;
}

static void assert_payload(const struct pf_buf *file, uint32_t number, const char *want, size_t len)
{
	struct pf_field f = the_field(file, number);

	assert_int_equal(f.len, len);
	assert_memory_equal(file->data + f.value, want, len);
}

static void test_fields(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, record = PF_BUF_INIT, pins = PF_BUF_INIT,
						before = PF_BUF_INIT, after = PF_BUF_INIT, txn = PF_BUF_INIT;
	/* id, source 4, its uuid, both times, and a field 9 that nobody knows */
	static const char raw[] = "\x4a\x01z\x0a\x12\x0a\x10"
				  "0123456789abcdef"
				  "\x10\x04\x1a\x24" UUID "\x22\x02\x08\x01\x2a\x02\x08\x02";
	struct table_version like = { .writer_flags = BIT_PINS | 8, .pins = &pins, .extra = &extra, .fragments = 2 };
	struct attempt w;
	struct pf_manifest *m;

	assert_int_equal(pf_wire_put_bytes(&pins, 10395, raw, sizeof(raw) - 1), 0);
	assert_int_equal(pf_wire_put_bytes(&extra, 16, "config", 6), 0);
	assert_int_equal(pf_wire_put_bytes(&extra, 999, "x", 1), 0);
	new_attempt(&w, &like);
	w.p.writer_flags = 0;
	assert_int_equal(pf_pins_copy(&w.base->pins, &w.pins), 0);
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);

	get(w.st, V5, &before);
	get(w.st, V6, &after);
	get(w.st, TXN_6, &txn);
	assert_int_equal(the_field(&after, 3).num, 6);
	assert_payload(&after, 7, "\x08\x80\xa4\xa7\xda\x06\x10\x7b", 8); /* 1800000000 s, 123 ns */
	assert_int_equal(the_field(&after, 10).num, BIT_PINS | 8);	  /* the base's, though none was given */
	assert_payload(&after, 12, TXN_6 + 14, strlen(TXN_6) - 14);
	assert_payload(&after, 10395, raw, sizeof(raw) - 1);
	/* Both numbers, one offset: of the u32 length before the message. */
	uint64_t at = the_field(&after, 21).num;
	assert_int_equal(at, the_field(&after, 23).num);
	assert_int_equal(pf_get_le(after.data + at, 4), txn.len);
	assert_memory_equal(after.data + at + 4, txn.data, txn.len);
	/* Everything else as it was. */
	for (size_t i = 0; i < 4; i++) {
		uint32_t number = (uint32_t[]){ 11, 13, 16, 999 }[i];
		struct pf_field a = the_field(&before, number), b = the_field(&after, number);
		uint64_t n = a.value + a.len - a.start;
		assert_int_equal(n, b.value + b.len - b.start);
		assert_memory_equal(before.data + a.start, after.data + b.start, n);
	}
	close_attempt(&w);
}

/* A table that has no flags field gets none from a commit that sets no flag. */
static void test_no_flags(void **state)
{
	static const struct table_version like = { 0 };
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	w.p.writer_flags = 0;
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_int_equal(m->writer_flags, 0);
	pf_manifest_unref(m);
	close_attempt(&w);
}

/*
 * The order of steps: what may be seen before what.
 */

static void trace(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct pf_buf *log = arg;
	const char *tmp = strstr(name, "/.tmp");

	/* Random names end at .tmp. */
	assert_int_equal(pf_buf_addf(log, "%s %.*s\n", op, tmp ? (int)(tmp - name) + 5 : (int)strlen(name), name), 0);
}

static void test_order(void **state)
{
	static const char *const steps[] = {
		"create _transactions/.tmp\n",
		"sync _transactions/.tmp\n", /* complete before it has its name */
		"rename " TXN_6 "\n",
		"sync_dir _transactions\n", /* durable before a manifest names it */
		"create _versions/.tmp\n",
		"sync _versions/.tmp\n",
		"link " V6 "\n",
		"sync_dir _versions\n", /* durable before anybody is told */
		"open " V6 "\n",	/* read back */
		"unlink _versions/.tmp\n",
		"rename _versions/latest_version_hint.json\n",
	};
	static const struct table_version like = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf log = PF_BUF_INIT;
	struct attempt w;
	struct pf_manifest *m;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, trace, &log);
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);
	const char *at = pf_buf_str(&log);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		const char *found = strstr(at, steps[i]);
		if (!found)
			fail_msg("\"%.*s\" does not come in its place in\n%s", (int)strlen(steps[i]) - 1, steps[i],
				 pf_buf_str(&log));
		at = found + strlen(steps[i]);
	}
	close_attempt(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),  cmocka_unit_test(test_v1_names),
		cmocka_unit_test(test_branch), cmocka_unit_test(test_no_transactions_directory),
		cmocka_unit_test(test_fields), cmocka_unit_test(test_no_flags),
		cmocka_unit_test(test_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
