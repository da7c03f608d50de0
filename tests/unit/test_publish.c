/* One commit attempt (design: section 1, "Local publication"; cases-open A09, A10, A11, A20), against a store that is told what others do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/publish.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "table.h"
#include "whole.h"

#define UUID	 "11111111-2222-4333-8444-555555555555"
#define BIT_PINS (UINT64_C(1) << 19)
#define V5	 "_versions/18446744073709551610.manifest"
#define V6	 "_versions/18446744073709551609.manifest"
#define TXN_6	 "_transactions/5-" UUID ".txn"

static const struct pf_time NOW = { 1800000000, 123 };

/* A table at version 5, and an attempt to make version 6. */
struct world {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_manifest *base;
	struct pf_pins pins;
	struct pf_txn txn;
	struct pf_publish p;
};

static void open_world(struct world *w, struct pf_store *st, const char *branch)
{
	struct pf_why why = PF_WHY_INIT;

	*w = (struct world){ .st = st };
	if (pf_branch_open(st, branch, &w->b, &why) < 0 || pf_branch_head(w->b, &w->base, &why) < 0)
		fail_msg("%s", why.text);
	w->txn = (struct pf_txn){
		.read_version = w->base->version, .uuid = UUID, .kind = PF_OP_ENABLE, .message = strdup("enable pins")
	};
	w->p = (struct pf_publish){
		.base = w->base, .timestamp = NOW, .writer_flags = BIT_PINS, .pins = &w->pins, .txn = &w->txn
	};
}

static void new_world(struct world *w, const struct table_version *like)
{
	open_world(w, table_new(5, like), NULL);
}

static void close_world(struct world *w)
{
	pf_manifest_unref(w->base);
	pf_branch_free(w->b);
	pf_txn_release(&w->txn);
	pf_pins_release(&w->pins);
	pf_store_free(w->st);
}

static int publish(struct world *w, struct pf_manifest **out, struct pf_why *why)
{
	*out = NULL;
	return pf_publish(w->b, &w->p, out, why);
}

static bool exists(struct pf_store *st, const char *name)
{
	struct pf_stat sb;

	return pf_store_stat(st, name, &sb) == 0;
}

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

/* Version v of main as another writer, with Lance's kind of transaction, would leave it. */
static void others_commit(struct pf_store *st, uint64_t v, bool v1)
{
	struct table_version t = { .version = v, .v1 = v1, .uuid = "99999999-9999-4999-8999-999999999999" };

	table_put(st, &t);
}

/* A script: when call `op` on a name with `name` in it is about to be made for the first time, `act` happens. */
struct script {
	const char *op, *name;
	void (*act)(struct pf_store *st);
	bool done;
};

static void run_script(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct script *s = arg;

	if (s->done || strcmp(op, s->op) != 0 || !strstr(name, s->name))
		return;
	s->done = true;
	s->act(st);
}

#define SCRIPT(o, n, a)                                                                                                \
	{                                                                                                              \
		.op = o, .name = n, .act = a                                                                           \
	}

/* Failure, and nothing of ours left: the same files as before but for what `also` lists. */
static void assert_nothing_left(struct pf_store *st)
{
	uint64_t at;

	pf_store_mem_set_hook(st, NULL, NULL);
	assert_int_equal(count_landed(st, UUID, &at), 0);
	assert_int_equal(count_staged(st, "_versions"), 0);
	assert_int_equal(count_staged(st, "_transactions"), 0);
	assert_false(exists(st, TXN_6));
}

/*
 * What is committed.
 */

static void test_files(void **state)
{
	static const struct table_version like = { .fragments = 3 };
	struct world w;
	struct pf_manifest *m;
	_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;

	new_world(&w, &like);
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
	close_world(&w);
}

static void test_v1_names(void **state)
{
	static const struct table_version like = { .v1 = true };
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_string_equal(m->name, "_versions/6.manifest");
	pf_manifest_unref(m);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void test_branch(void **state)
{
	struct pf_store *st = table_new(5, &(struct table_version){ 0 });
	static const struct table_version first = { .version = 5, .dir = "tree/feat/x/", .branch = "feat/x" };
	struct world w;
	struct pf_manifest *m;

	table_put(st, &first);
	table_put_branch(st, "feat/x", 5, "00112233445566778899aabbccddeeff");
	open_world(&w, st, "feat/x");
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_string_equal(m->name, "tree/feat/x/" V6);
	assert_string_equal(m->branch, "feat/x");
	pf_manifest_unref(m);
	assert_true(exists(st, "tree/feat/x/" TXN_6));
	assert_file(st, "tree/feat/x/_versions/latest_version_hint.json", "{\"version\":6}");
	assert_false(exists(st, V6));
	assert_whole(st, "tree/feat/x/", false);
	close_world(&w);
}

/* Tables written without transaction files have no directory for them. */
static void test_no_transactions_directory(void **state)
{
	static const struct table_version like = { .txn = TABLE_TXN_NONE };
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	assert_false(exists(w.st, "_transactions"));
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);
	assert_true(exists(w.st, TXN_6));
	close_world(&w);
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
	struct world w;
	struct pf_manifest *m;

	assert_int_equal(pf_wire_put_bytes(&pins, 10395, raw, sizeof(raw) - 1), 0);
	assert_int_equal(pf_wire_put_bytes(&extra, 16, "config", 6), 0);
	assert_int_equal(pf_wire_put_bytes(&extra, 999, "x", 1), 0);
	new_world(&w, &like);
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
	close_world(&w);
}

/* A table that has no flags field gets none from a commit that sets no flag. */
static void test_no_flags(void **state)
{
	static const struct table_version like = { 0 };
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	w.p.writer_flags = 0;
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_int_equal(m->writer_flags, 0);
	pf_manifest_unref(m);
	close_world(&w);
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
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
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
	close_world(&w);
}

/*
 * Races.
 */

static void take_6(struct pf_store *st)
{
	others_commit(st, 6, false);
}

static void test_lost_race(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, take_6);
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, &why), -ESTALE);
	assert_non_null(strstr(why.text, "version 6"));
	assert_nothing_left(w.st);
	assert_whole(w.st, "", false);
	close_world(&w);
}

static void junk_6(struct pf_store *st)
{
	assert_int_equal(pf_store_mem_put(st, V6, "ten bytes!", 10), 0);
}

/* Somebody has our number with a file that cannot be read: certainly not ours. The next look at the head will say what is wrong. */
static void test_lost_to_junk(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, junk_6);
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_int_equal(pf_store_mem_del(w.st, V6), 0);
	assert_nothing_left(w.st);
	close_world(&w);
}

static void base_goes(struct pf_store *st)
{
	others_commit(st, 6, false);
	others_commit(st, 7, false);
	for (uint64_t v = 1; v <= 6; v++) {
		char name[TABLE_NAME_MAX];
		struct table_version t = { .version = v };
		assert_int_equal(pf_store_mem_del(st, table_manifest_name(&t, name)), 0);
	}
}

/* A10: gone before we copy from it. */
static void test_base_vanished(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("open", V5, base_goes);
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_world(&w);
}

/* A09: our number is free again, below the head. */
static void test_gap(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, base_goes);
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, &why), -ESTALE);
	assert_non_null(strstr(why.text, "version 6 fell into a gap below the head, 7"));
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_world(&w);
}

/* The same with the version after ours cleaned up as well. */
static void wide_gap(struct pf_store *st)
{
	base_goes(st);
	others_commit(st, 8, false);
	assert_int_equal(pf_store_mem_del(st, "_versions/18446744073709551608.manifest"), 0);
}

static void test_wide_gap(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("link", V6, wide_gap);
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), -ESTALE);
	assert_nothing_left(w.st);
	assert_whole(w.st, "", true);
	close_world(&w);
}

static void add_7_and_8(struct pf_store *st)
{
	others_commit(st, 7, false);
	others_commit(st, 8, false);
}

/* Somebody continues from ours before we have looked back: ours is on the line. */
static void test_passed_at_once(void **state)
{
	static const struct table_version like = { 0 };
	struct script s = SCRIPT("sync_dir", "_versions", add_7_and_8);
	struct world w;
	struct pf_manifest *m;
	uint64_t at;

	new_world(&w, &like);
	pf_store_mem_set_hook(w.st, run_script, &s);
	assert_int_equal(publish(&w, &m, NULL), 0);
	assert_int_equal(m->version, 6);
	pf_manifest_unref(m);
	pf_store_mem_set_hook(w.st, NULL, NULL);
	assert_int_equal(count_landed(w.st, UUID, &at), 1);
	assert_whole(w.st, "", false);
	close_world(&w);
}

/* What migrate_manifest_paths_v2 does to versions from..to. */
static void migrate(struct pf_store *st, uint64_t from, uint64_t to)
{
	for (uint64_t v = from; v <= to; v++) {
		struct table_version v1 = { .version = v, .v1 = true }, v2 = { .version = v };
		char old[TABLE_NAME_MAX], new[TABLE_NAME_MAX];
		assert_int_equal(pf_store_rename(st, table_manifest_name(&v1, old), table_manifest_name(&v2, new)), 0);
	}
}

static void migrate_5(struct pf_store *st)
{
	migrate(st, 1, 5);
}

static void migrate_6(struct pf_store *st)
{
	migrate(st, 1, 6);
}

static void migrate_1(struct pf_store *st)
{
	migrate(st, 1, 1);
}

static void migrate_2_to_6(struct pf_store *st)
{
	migrate(st, 2, 6);
}

static void migrate_5_and_take_6(struct pf_store *st)
{
	migrate(st, 1, 5);
	others_commit(st, 6, false);
}

static void test_migration(void **state)
{
	static const struct table_version like = { .v1 = true };
	static const struct {
		const char *name;
		void (*first)(struct pf_store *st); /* before all */
		const char *op, *on;		    /* and then before this call */
		void (*act)(struct pf_store *st);
		int want;
		const char *lands;
	} rows[] = {
		{ "before the base is copied", NULL, "open", "_versions/5.manifest", migrate_5, -ESTALE, NULL },
		{ "before the link", NULL, "link", "_versions/6.manifest", migrate_5, 0, V6 },
		{ "after the link, ours not listed", NULL, "list", "_versions", migrate_5, 0, V6 },
		{ "after the link, ours taken along", NULL, "list", "_versions", migrate_6, 0, V6 },
		{ "ours taken along once we have seen it", migrate_1, "link", V6, migrate_2_to_6, 0, V6 },
		{ "and others took the number under its new name", NULL, "link", "_versions/6.manifest",
		  migrate_5_and_take_6, -ESTALE, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct script s = SCRIPT(rows[i].op, rows[i].on, rows[i].act);
		struct pf_why why = PF_WHY_INIT;
		struct world w;
		struct pf_manifest *m;

		new_world(&w, &like);
		if (rows[i].first)
			rows[i].first(w.st);
		pf_store_mem_set_hook(w.st, run_script, &s);
		int r = publish(&w, &m, &why);
		pf_store_mem_set_hook(w.st, NULL, NULL);
		if (r != rows[i].want)
			fail_msg("%s: %d, %s", rows[i].name, r, why.text);
		assert_true(s.done);
		assert_whole(w.st, "", false);
		if (r == 0) {
			assert_string_equal(m->name, rows[i].lands);
			pf_manifest_unref(m);
		} else {
			assert_nothing_left(w.st);
		}
		close_world(&w);
	}
}

/*
 * Errors of storage.
 */

/* Fails the first call `op` on a name with `name` in it, by a fault armed from the hook: the call counted next is this one. */
struct trap {
	const char *op, *name;
	enum pf_fault kind;
	int err;
	bool forever, done;
};

static void run_trap(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct trap *t = arg;

	if (t->done || strcmp(op, t->op) != 0 || !strstr(name, t->name))
		return;
	t->done = true;
	pf_store_mem_fault(st, 1, t->kind, t->err, t->forever);
}

static int publish_trapped(struct world *w, struct trap *t, struct pf_manifest **m, struct pf_why *why)
{
	pf_store_mem_set_hook(w->st, run_trap, t);
	int r = publish(w, m, why);
	pf_store_mem_set_hook(w->st, NULL, NULL);
	pf_store_mem_fault(w->st, 0, PF_FAULT_NONE, 0, false);
	assert_true(t->done);
	return r;
}

/* link(2) took effect and reported something else: a lost reply. */
static void test_link_that_landed(void **state)
{
	static const struct table_version like = { 0 };
	static const int errs[] = { -EIO, -EEXIST, -EINTR, -ENOSPC, -ENOENT };

	for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
		struct trap t = { "link", V6, PF_FAULT_AFTER, errs[i], false };
		struct world w;
		struct pf_manifest *m;
		new_world(&w, &like);
		assert_int_equal(publish_trapped(&w, &t, &m, NULL), 0);
		pf_manifest_unref(m);
		assert_int_equal(count_staged(w.st, "_versions"), 0);
		assert_whole(w.st, "", false);
		close_world(&w);
	}
}

static void test_link_that_failed(void **state)
{
	static const struct table_version like = { 0 };
	static const int errs[] = { -EIO, -EACCES, -ENOSPC, -EROFS, -EINTR, -EPERM, -EMLINK };

	for (size_t i = 0; i < ARRAY_LEN(errs); i++) {
		struct trap t = { "link", V6, PF_FAULT_BEFORE, errs[i], false };
		struct pf_why why = PF_WHY_INIT;
		struct world w;
		struct pf_manifest *m;
		new_world(&w, &like);
		assert_int_equal(publish_trapped(&w, &t, &m, &why), errs[i]);
		assert_non_null(strstr(why.text, V6));
		assert_non_null(strstr(why.text, strerror(-errs[i])));
		assert_nothing_left(w.st);
		assert_whole(w.st, "", false);
		close_world(&w);
	}
}

/* A11: the manifest is in place and cannot be made durable. */
static void test_sync_fails(void **state)
{
	static const struct table_version like = { 0 };
	struct trap once = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, false };
	struct trap forever = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO, true };
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	struct pf_manifest *m = NULL;

	new_world(&w, &like);
	assert_int_equal(publish_trapped(&w, &once, &m, NULL), 0);
	pf_manifest_unref(m);
	close_world(&w);

	new_world(&w, &like);
	assert_int_equal(publish_trapped(&w, &forever, &m, &why), -EINPROGRESS);
	assert_non_null(strstr(why.text, "version 6"));
	assert_non_null(strstr(why.text, UUID));
	/* Nothing was removed, least of all what the manifest needs. */
	assert_true(exists(w.st, V6));
	assert_true(exists(w.st, TXN_6));
	assert_whole(w.st, "", false);

	/* Storage is back: the question has an answer, and the same one each time. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pf_publish_settle(w.b, 6, UUID, &m, NULL), 1);
		assert_int_equal(m->version, 6);
		pf_manifest_unref(m);
	}
	close_world(&w);
}

static void test_settle(void **state)
{
	static const struct table_version like = { 0 };
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;
	struct world w;

	/* Nothing there: no, and its transaction file goes. */
	new_world(&w, &like);
	assert_int_equal(pf_store_mem_put(w.st, TXN_6, "x", 1), 0);
	assert_int_equal(pf_publish_settle(w.b, 6, UUID, &m, NULL), 0);
	assert_nothing_left(w.st);
	/* Another's version: no. */
	others_commit(w.st, 6, false);
	assert_int_equal(pf_publish_settle(w.b, 6, UUID, &m, NULL), 0);
	/* A number below the head that nobody has: nobody knows what was there. */
	others_commit(w.st, 7, false);
	assert_int_equal(pf_store_mem_del(w.st, V6), 0);
	assert_int_equal(pf_publish_settle(w.b, 6, UUID, &m, &why), -EINPROGRESS);
	assert_non_null(strstr(why.text, UUID));
	/* Storage that does not answer. */
	pf_store_mem_fault(w.st, 1, PF_FAULT_BEFORE, -EIO, true);
	assert_int_equal(pf_publish_settle(w.b, 8, UUID, &m, NULL), -EINPROGRESS);
	close_world(&w);
}

/* A20: whatever is wrong with the hint is no business of the commit. */
static void test_hint_is_only_a_hint(void **state)
{
	static const struct table_version like = { 0 };
	struct trap full = { "create", "-hint", PF_FAULT_BEFORE, -ENOSPC, true };
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	assert_int_equal(publish_trapped(&w, &full, &m, NULL), 0);
	pf_manifest_unref(m);
	close_world(&w);

	new_world(&w, &like);
	assert_int_equal(pf_store_mkdir(w.st, "_versions/latest_version_hint.json"), 0);
	assert_int_equal(publish(&w, &m, NULL), 0);
	pf_manifest_unref(m);
	assert_int_equal(count_staged(w.st, "_versions"), 0);
	close_world(&w);
}

static void test_unknown_writer_bit(void **state)
{
	static const struct table_version like = { .writer_flags = UINT64_C(1) << 40 };
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	struct pf_manifest *m;

	new_world(&w, &like);
	table_list(w.st, ".", &before);
	assert_int_equal(publish(&w, &m, &why), -EOPNOTSUPP);
	assert_non_null(strstr(why.text, "40"));
	table_list(w.st, ".", &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	close_world(&w);
}

static void test_last_version(void **state)
{
	struct pf_store *st = table_new(0, &(struct table_version){ 0 });
	static const struct table_version last = { .version = INT64_MAX, .timestamp = { 1700000000, 0 } };
	struct world w;
	struct pf_manifest *m;

	table_put(st, &last);
	open_world(&w, st, NULL);
	assert_int_equal(publish(&w, &m, NULL), -EOPNOTSUPP);
	close_world(&w);
}

/* Every call, every way to fail: what was answered is what happened, and the table is whole. */
static bool fail_call(unsigned n, enum pf_fault kind, int err, bool forever, bool v1)
{
	struct table_version like = { .v1 = v1 };
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	struct pf_manifest *m;
	uint64_t at = 0;

	new_world(&w, &like);
	unsigned before = pf_store_mem_calls(w.st);
	pf_store_mem_fault(w.st, n, kind, err, forever);
	int r = publish(&w, &m, &why);
	bool reached = pf_store_mem_calls(w.st) - before >= n;
	pf_store_mem_fault(w.st, 0, PF_FAULT_NONE, 0, false);

	unsigned landed = count_landed(w.st, UUID, &at);
	if (r == 0 ? landed != 1 : r != -EINPROGRESS && landed != 0)
		fail_msg("call %u, kind %d, err %d, forever %d: answered %d (%s), landed %u times", n, kind, err,
			 forever, r, why.text, landed);
	if (r == 0)
		pf_manifest_unref(m);
	else if (!why.text[0])
		fail_msg("call %u, kind %d, err %d: %d without a sentence", n, kind, err, r);
	/* With the storage gone for good nothing can be tidied; a single fault leaves at most names that cleanup collects. */
	assert_whole(w.st, "", forever || r == -EINPROGRESS);
	if (r == -EINPROGRESS)
		assert_int_equal(pf_publish_settle(w.b, 6, UUID, &m, NULL), landed);
	if (r == -EINPROGRESS && landed)
		pf_manifest_unref(m);
	close_world(&w);
	return reached;
}

static void test_every_call_fails(void **state)
{
	static const int errs[] = { -EIO, -ENOSPC, -EACCES, -EINTR };

	for (int v1 = 0; v1 <= 1; v1++) {
		for (size_t e = 0; e < ARRAY_LEN(errs); e++) {
			for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], false, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, errs[e], false, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_BEFORE, errs[e], true, v1); n++)
				;
			for (unsigned n = 1; fail_call(n, PF_FAULT_AFTER, errs[e], true, v1); n++)
				;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_v1_names),
		cmocka_unit_test(test_branch),
		cmocka_unit_test(test_no_transactions_directory),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_no_flags),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_lost_race),
		cmocka_unit_test(test_lost_to_junk),
		cmocka_unit_test(test_base_vanished),
		cmocka_unit_test(test_gap),
		cmocka_unit_test(test_wide_gap),
		cmocka_unit_test(test_passed_at_once),
		cmocka_unit_test(test_migration),
		cmocka_unit_test(test_link_that_landed),
		cmocka_unit_test(test_link_that_failed),
		cmocka_unit_test(test_sync_fails),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_hint_is_only_a_hint),
		cmocka_unit_test(test_unknown_writer_bit),
		cmocka_unit_test(test_last_version),
		cmocka_unit_test(test_every_call_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
