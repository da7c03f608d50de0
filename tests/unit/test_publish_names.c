/* A commit attempt, and names that change around it: Lance's migration to V2 names, copies that are made of links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "attempt.h"
#include "whole.h"

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
	others_commit(st, 6);
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
		unsigned watch_ms;
	} rows[] = {
		{ "before the base is copied", NULL, "open", "_versions/5.manifest", migrate_5, -ESTALE, NULL },
		{ "before the link", NULL, "link", "_versions/6.manifest", migrate_5, 0, V6 },
		{ "after the link, ours not listed", NULL, "list", "_versions", migrate_5, 0, V6 },
		{ "after the link, ours taken along", NULL, "list", "_versions", migrate_6, 0, V6 },
		{ "ours taken along once we have seen it", migrate_1, "link", V6, migrate_2_to_6, 0, V6 },
		{ "and others took the number under its new name", NULL, "link", "_versions/6.manifest",
		  migrate_5_and_take_6, -ESTALE, NULL },
		{ "after we have looked, ours not listed", NULL, "sync_dir", "_versions", migrate_5, 0, V6, 20 },
		{ "after we have looked, ours taken along", NULL, "sync_dir", "_versions", migrate_6, 0, V6, 20 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct script s = SCRIPT(rows[i].op, rows[i].on, rows[i].act);
		struct pf_why why = PF_WHY_INIT;
		struct attempt w;
		struct pf_manifest *m;

		new_attempt(&w, &like);
		if (rows[i].first)
			rows[i].first(w.st);
		pf_store_mem_set_hook(w.st, run_script, &s);
		w.p.watch_ms = rows[i].watch_ms;
		int r = publish(&w, &m, &why);
		heal(w.st);
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
		close_attempt(&w);
	}
}

static void migrate_7(struct pf_store *st)
{
	migrate(st, 1, 7);
}

static void copy_by_links(struct pf_store *st)
{
	assert_int_equal(pf_store_mkdir(st, "copy"), 0);
	assert_int_equal(pf_store_link(st, V6, "copy/6"), 0);
}

/* We were held up after the link: a migration had listed our name by then, and takes it along as the last. It must find it. */
static void run_held(void *arg, struct pf_store *st, const char *op, const char *name)
{
	int *step = arg;

	if (*step == 0 && strcmp(op, "list") == 0 && exists(st, "_versions/6.manifest")) {
		*step = 1;
		nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
		migrate(st, 1, 5);
	} else if (*step == 1 && strcmp(op, "stat") == 0 && strcmp(name, "_versions/6.manifest") == 0) {
		*step = 2;
		migrate(st, 6, 6);
	}
}

static void test_migration_while_held(void **state)
{
	static const struct table_version like = { .v1 = true };
	struct attempt w;
	struct pf_manifest *m;
	int step = 0;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_held, &step);
	w.p.watch_ms = 10000; /* it is over when our name is gone */
	assert_int_equal(publish(&w, &m, NULL), 0);
	heal(w.st);
	assert_int_equal(step, 2);
	assert_string_equal(m->name, V6);
	pf_manifest_unref(m);
	assert_whole(w.st, "", false);
	close_attempt(&w);
}

/* Others have gone on, and a while after that the file of ours gets another name, as we are about to look back: changed after theirs was made, it is no less on the line. */
struct late {
	bool v1;
	void (*act)(struct pf_store *st);
	int step;
};

static void run_late(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;
	const struct table_version v5 = { .version = 5, .v1 = l->v1 }, v7 = { .version = 7, .v1 = l->v1 };
	char name_5[TABLE_NAME_MAX], name_7[TABLE_NAME_MAX];

	table_manifest_name(&v5, name_5);
	table_manifest_name(&v7, name_7);
	if (l->step == 0 && strcmp(op, "open") == 0 && strcmp(name, name_5) == 0) {
		/* That nobody came between cannot be told any more. */
		l->step = 1;
		assert_int_equal(pf_store_mem_put(st, "_versions/.tmpothers", "", 0), 0);
	} else if (l->step == 1 && strcmp(op, "sync_dir") == 0 && strcmp(name, "_versions") == 0) {
		l->step = 2;
		table_put(st, &v7);
	} else if (l->step == 2 && strcmp(op, "open") == 0 && strcmp(name, name_7) == 0) {
		l->step = 3;
		pf_store_mem_set_clock(st, 1000000000);
		l->act(st);
	}
}

static void test_named_late(void **state)
{
	struct late rows[] = { { .v1 = true, .act = migrate_7 }, { .act = copy_by_links } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct table_version like = { .v1 = rows[i].v1 };
		struct pf_why why = PF_WHY_INIT;
		struct pf_manifest *m = NULL;
		struct attempt w;
		uint64_t at;

		new_attempt(&w, &like);
		pf_store_mem_set_hook(w.st, run_late, &rows[i]);
		int r = publish(&w, &m, &why);
		heal(w.st);
		assert_int_equal(rows[i].step, 3);
		if (r != 0)
			fail_msg("row %zu: %d, %s", i, r, why.text);
		pf_manifest_unref(m);
		assert_int_equal(count_landed(w.st, UUID, &at), 1);
		assert_true(exists(w.st, V6) && exists(w.st, TXN_6));
		close_attempt(&w);
	}
}

/* The same while we are held up between the link and the look at the directory, which others go on changing: the link was the last change of neither. */
static void run_before_the_look(void *arg, struct pf_store *st, const char *op, const char *name)
{
	bool *done = arg;

	if (*done || strcmp(op, "stat") != 0 || strcmp(name, "_versions") != 0 || !exists(st, V6))
		return;
	*done = true;
	others_commit(st, 7);
	pf_store_mem_set_clock(st, 1000000000);
	copy_by_links(st);
	pf_store_mem_set_clock(st, 1000000000);
	assert_int_equal(pf_store_mem_put(st, "_versions/.tmpothers", "", 0), 0);
}

static void test_named_before_the_look(void **state)
{
	static const struct table_version like = { 0 };
	struct pf_manifest *m;
	struct attempt w;
	bool done = false;
	uint64_t at;

	new_attempt(&w, &like);
	pf_store_mem_set_hook(w.st, run_before_the_look, &done);
	assert_int_equal(publish(&w, &m, NULL), -EINPROGRESS);
	heal(w.st);
	assert_true(done);
	assert_int_equal(count_landed(w.st, UUID, &at), 1);
	assert_true(exists(w.st, V6) && exists(w.st, TXN_6));
	close_attempt(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_migration),
		cmocka_unit_test(test_named_late),
		cmocka_unit_test(test_named_before_the_look),
		cmocka_unit_test(test_migration_while_held),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
