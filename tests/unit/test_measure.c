/* What a survey finds on disk: presence, sizes, sidecars, orphans, other places; and each file of a window that is taken away is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <sys/stat.h>
#include <unistd.h>

#include "core/retention.h"
#include "core/store_mem.h"

#include "on_disk.h"
#include "pinned.h"
#include "table.h"

#define INDEX "_indices/01010101-0101-0101-0101-010101010101"

/*
 * Versions 1 to 3, pin a of source 1. Version 1 has data/a.lance, 2 also data/b.lance, 3 only b; from 2 on there is an index. The transaction of 2 is
 * a file alone.
 */
static void put_table(struct pf_store *st)
{
	_cleanup_(pf_buf_release) struct pf_buf first = PF_BUF_INIT, second = PF_BUF_INIT, third = PF_BUF_INIT;
	static const uint8_t index[] = "\x0a\x1b\x0a\x12\x0a\x10\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\x1a\x05"
				       "by_id";
	struct pf_buf section = { .data = (uint8_t *)(uintptr_t)index, .len = sizeof(index) - 1 };

	table_add_fragment(&first, 0, "a.lance", 5, -1);
	table_add_fragment(&second, 0, "a.lance", 5, -1);
	table_add_fragment(&second, 1, "b.lance", 6, -1);
	table_add_fragment(&third, 1, "b.lance", 6, -1);
	table_put(st, &(struct table_version){ .version = 1, .extra = &first });
	table_put(st,
		  &(struct table_version){ .version = 2, .extra = &second, .index = &section, .txn = TABLE_TXN_FILE });
	pinned_put(st, &(struct table_version){ .version = 3, .extra = &third, .index = &section },
		   &(struct pinned){ .pins = "a", .kind = PF_OP_REGISTER, .named = "a" });
	assert_int_equal(pf_store_mem_put(st, "data/a.lance", "aaaaa", 5), 0);
	assert_int_equal(pf_store_mem_put(st, "data/b.lance", "bbbbbb", 6), 0);
	assert_int_equal(pf_store_mem_put(st, INDEX "/page.lance", "1234", 4), 0);
	assert_int_equal(pf_store_mem_put(st, INDEX "/sub/more.bin", "56", 2), 0);
}

struct world {
	struct pf_store *st;
	struct pf_branch *b;
	struct pf_survey *s;
};

static void open_world(struct world *w, struct pf_store *st)
{
	struct pf_why why = PF_WHY_INIT;

	w->st = st;
	if (pf_branch_open(st, NULL, &w->b, &why) < 0 || pf_survey_new(w->b, &w->s) < 0 ||
	    pf_survey_refresh(w->s, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
}

static void new_world(struct world *w)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	put_table(st);
	open_world(w, st);
}

static void close_world(struct world *w)
{
	pf_survey_free(w->s);
	pf_branch_free(w->b);
	pf_store_free(w->st);
}

static int note_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	/* How long a transaction is, is not ours to say. */
	return strstr(path, ".txn") ? pf_buf_addf(arg, "%s\n", path) : pf_buf_addf(arg, "%s %d\n", path, (int)st->size);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Measure; the orphans as sorted lines. */
static void assert_orphans(struct world *w, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT, sorted = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	char *line[32], *save;
	size_t n = 0;

	assert_int_equal(pf_buf_addstr(&sorted, ""), 0);
	if (pf_survey_measure(w->s, &(struct pf_looking){ .orphan = note_orphan, .orphan_arg = &got }, &why) < 0)
		fail_msg("%s", why.text);
	for (char *p = strtok_r((char *)(uintptr_t)pf_buf_str(&got), "\n", &save); p; p = strtok_r(NULL, "\n", &save))
		line[n++] = p;
	qsort(line, n, sizeof(*line), by_text);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(pf_buf_addf(&sorted, "%s\n", line[i]), 0);
	assert_string_equal(pf_buf_str(&sorted), want);
}

static const struct pf_surveyed_file *find(const struct world *w, const char *path)
{
	for (size_t i = 0; i < w->s->n_files; i++)
		if (strcmp(w->s->files[i].path, path) == 0)
			return &w->s->files[i];
	fail_msg("%s is not in the survey", path);
	return NULL;
}

static void assert_file(const struct world *w, const char *path, enum pf_presence presence, uint64_t size, uint32_t n)
{
	const struct pf_surveyed_file *f = find(w, path);

	assert_int_equal(f->presence, presence);
	assert_int_equal(f->size, size);
	assert_int_equal(f->n_files, n);
}

static void test_sizes(void **state)
{
	struct world w;

	new_world(&w);
	assert_file(&w, "data/a.lance", PF_UNSEEN, 5, 1);
	assert_file(&w, INDEX, PF_UNSEEN, 0, 1);
	assert_orphans(&w, "");
	assert_file(&w, "data/a.lance", PF_PRESENT, 5, 1);
	assert_file(&w, INDEX, PF_PRESENT, 6, 2);
	assert_true(find(&w, INDEX)->is_dir);

	/* It holds for as long as nobody looks again. */
	assert_int_equal(pf_store_mem_put(w.st, INDEX "/page.lance", "12345", 5), 0);
	assert_int_equal(pf_store_mem_del(w.st, "data/a.lance"), 0);
	assert_int_equal(pf_survey_refresh(w.s, NULL, NULL, NULL), 0);
	assert_file(&w, INDEX, PF_PRESENT, 6, 2);
	assert_orphans(&w, "");
	assert_file(&w, INDEX, PF_PRESENT, 7, 2);
	assert_file(&w, "data/a.lance", PF_MISSING, 0, 0);
	close_world(&w);
}

static void test_orphans(void **state)
{
	static const char *const strange[] = {
		"_versions/.tmp1",	 "_versions/latest_version_hint.json",
		"_transactions/9-x.txn", "data/c.lance",
		"data/c/1.blob",	 "data/deep/er/x",
		"_deletions/0-1-2.bin",	 "_indices/f/x",
		"_indices/stray",	 "_fri/m/stable_partition.lance",
		"_blobs/x.blob",	 "data/.tmpx",
		"_versions/d9.manifest",
	};
	struct world w;

	new_world(&w);
	for (size_t i = 0; i < ARRAY_LEN(strange); i++)
		assert_int_equal(pf_store_mem_put(w.st, strange[i], "xyz", 3), 0);
	/* Not in a folder of the table's: nobody looks (cases-open A08). */
	assert_int_equal(pf_store_mem_put(w.st, "videos/data/k.lance", "xyz", 3), 0);
	assert_int_equal(pf_store_mem_put(w.st, "README", "xyz", 3), 0);
	assert_int_equal(pf_store_mem_put(w.st, "tree/gone/data/k.lance", "xyz", 3), 0);
	assert_orphans(&w, "_blobs/x.blob 3\n"
			   "_deletions/0-1-2.bin 3\n"
			   "_fri/m/stable_partition.lance 3\n"
			   "_indices/f/x 3\n"
			   "_indices/stray 3\n"
			   "_transactions/9-x.txn\n"
			   "_versions/.tmp1 3\n"
			   "_versions/d9.manifest 3\n"
			   "_versions/latest_version_hint.json 3\n"
			   "data/.tmpx 3\n"
			   "data/c.lance 3\n"
			   "data/c/1.blob 3\n"
			   "data/deep/er/x 3\n");
	close_world(&w);
}

static int stop(void *arg, const char *path, const struct pf_stat *st)
{
	return 42;
}

static void test_stopped(void **state)
{
	struct world w;

	new_world(&w);
	assert_int_equal(pf_store_mem_put(w.st, "data/c.lance", "x", 1), 0);
	assert_int_equal(pf_survey_measure(w.s, &(struct pf_looking){ .orphan = stop, .orphan_arg = NULL }, NULL), 42);
	close_world(&w);
}

static int see_progress(void *arg, uint64_t done, uint64_t total)
{
	uint64_t *left = arg;

	assert_true(done > 0);
	assert_int_equal(total, 0);
	return --*left == 0;
}

/* A sign of life while many files are looked at, whether anybody names them or not; it may be interrupted, and is right the next time. */
static void test_progress(void **state)
{
	struct pf_why why = PF_WHY_INIT;
	struct world w;
	uint64_t left = UINT64_MAX;
	const struct pf_looking how = { .progress = see_progress, .progress_arg = &left };

	new_world(&w);
	for (int i = 0; i < 1000; i++) {
		char path[32];
		snprintf(path, sizeof(path), i % 2 ? "data/%d.lance" : "_indices/u/%d", i);
		assert_int_equal(pf_store_mem_put(w.st, path, "x", 1), 0);
	}
	assert_int_equal(pf_survey_measure(w.s, &how, &why), 0);
	uint64_t words = UINT64_MAX - left;
	assert_in_range(words, 4, 100);
	for (uint64_t n = 1; n <= words; n++) {
		left = n;
		why.text[0] = '\0';
		assert_int_equal(pf_survey_measure(w.s, &how, &why), -EINTR);
		assert_non_null(strstr(why.text, "interrupted after looking at "));
	}
	left = words + 1;
	assert_int_equal(pf_survey_measure(w.s, &how, &why), 0);
	assert_int_equal(find(&w, "data/a.lance")->presence, PF_PRESENT);
	close_world(&w);
}

/* Which versions have sidecars only the disk knows: those of the data file have them. */
static void test_sidecars(void **state)
{
	struct world w;

	new_world(&w);
	assert_int_equal(pf_store_mem_put(w.st, "data/b/1.blob", "one", 3), 0);
	assert_int_equal(pf_store_mem_put(w.st, "data/b/2.blob", "two", 3), 0);
	assert_orphans(&w, "");
	assert_file(&w, "data/b", PF_PRESENT, 6, 2);
	assert_int_equal(find(&w, "data/b")->cls, PF_FILE_BLOB);
	assert_int_equal(find(&w, "data/b")->n_iv, 1);
	assert_int_equal(find(&w, "data/b")->iv[0].first, 2);
	assert_int_equal(find(&w, "data/b")->iv[0].last, PF_STILL);

	/* The file leaves with the next version, and the sidecars with it; then both are gone with the versions that had them. */
	char name[TABLE_NAME_MAX];
	table_put(w.st, &(struct table_version){ .version = 4 });
	assert_int_equal(pf_survey_refresh(w.s, NULL, NULL, NULL), 0);
	assert_int_equal(find(&w, "data/b")->iv[0].last, 3);
	for (uint64_t v = 1; v <= 2; v++)
		assert_int_equal(
			pf_store_mem_del(w.st, table_manifest_name(&(struct table_version){ .version = v }, name)), 0);
	assert_int_equal(pf_survey_refresh(w.s, NULL, NULL, NULL), 0);
	assert_int_equal(find(&w, "data/b")->iv[0].first, 3);
	assert_int_equal(pf_store_mem_del(w.st, table_manifest_name(&(struct table_version){ .version = 3 }, name)), 0);
	assert_int_equal(pf_survey_refresh(w.s, NULL, NULL, NULL), 0);
	assert_orphans(&w, INDEX "/page.lance 4\n" INDEX "/sub/more.bin 2\n"
				 "_transactions/0-0badcafe-0000-4000-8000-000000000001.txn\n"
				 "_transactions/1-0badcafe-0000-4000-8000-000000000002.txn\n"
				 "_transactions/2-0badcafe-0000-4000-8000-000000000003.txn\n"
				 "data/a.lance 5\n"
				 "data/b.lance 6\n"
				 "data/b/1.blob 3\n"
				 "data/b/2.blob 3\n");
	close_world(&w);
}

/* The first problem of a measured table, "" if there is none. */
static void verify(struct world *w, struct pf_why *why)
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;

	*why = (struct pf_why)PF_WHY_INIT;
	assert_int_equal(pf_survey_refresh(w->s, NULL, NULL, why), 0);
	assert_int_equal(pf_survey_measure(w->s, NULL, why), 0);
	assert_int_equal(pf_retention_new(&(struct pf_retention_input){ .survey = w->s }, &r), 0);
	int e = pf_retention_verify(r, why);
	assert_int_equal(e, why->text[0] ? -EBUSY : 0);
}

/* Take each file of the window away, and cut each short. */
static void test_each_is_missed(void **state)
{
	static const char pin[] = "it is needed by pin aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT;
	struct world w;
	struct pf_why why;
	char *save;

	new_world(&w);
	verify(&w, &why);
	assert_string_equal(why.text, "");
	table_list(w.st, ".", &all);
	for (char *name = strtok_r((char *)(uintptr_t)pf_buf_str(&all), "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save)) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		bool head = strcmp(name, w.s->head->name) == 0, index = strncmp(name, INDEX, strlen(INDEX)) == 0;
		bool copy = strncmp(name, "_transactions/", 14) == 0 && !strstr(name, "/1-"); /* it is inside, too */
		assert_int_equal(pf_store_get(w.st, name, 1 << 20, &bytes), 0);
		if (head || index)
			continue;
		assert_int_equal(pf_store_mem_del(w.st, name), 0);
		verify(&w, &why);
		if (!copy && (!strstr(why.text, pin) || (!strstr(why.text, name) && !strstr(why.text, "is missing"))))
			fail_msg("%s is not missed: %s", name, why.text);
		assert_int_equal(pf_store_mem_put(w.st, name, bytes.data, bytes.len - 1), 0);
		verify(&w, &why);
		if (!copy && (!strstr(why.text, pin) || !strstr(why.text, name)))
			fail_msg("%s is not missed: %s", name, why.text);
		assert_int_equal(pf_store_mem_put(w.st, name, bytes.data, bytes.len), 0);
		verify(&w, &why);
		assert_string_equal(why.text, "");
	}
	/* All files of an index. */
	assert_int_equal(pf_store_mem_del(w.st, INDEX "/page.lance"), 0);
	assert_int_equal(pf_store_mem_del(w.st, INDEX "/sub/more.bin"), 0);
	verify(&w, &why);
	assert_string_equal(why.text, "version 2: " INDEX " is missing; it is needed by pin aaaaaaaa-aaaa-4aaa-8aaa-"
				      "aaaaaaaaaaaa \"job\" (expires 2026-01-02T00:00:00Z)");
	close_world(&w);
}

/* A link that leads up is not followed for ever. */
static void test_links(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *mem = NULL;
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_store *st;
	struct world w;
	char dir[64];

	disk_enter(dir);
	assert_int_equal(pf_store_mem_new(&mem), 0);
	put_table(mem);
	st = disk_table(mem, "t");
	assert_int_equal(symlink("..", "t/data/up"), 0);
	assert_int_equal(symlink("nowhere", "t/data/nowhere.lance"), 0);
	assert_int_equal(mkfifo("t/data/fifo", 0600), 0);
	open_world(&w, st);
	assert_int_equal(
		pf_survey_measure(w.s, &(struct pf_looking){ .orphan = note_orphan, .orphan_arg = &got }, NULL), 0);
	assert_file(&w, "data/a.lance", PF_PRESENT, 5, 1);
	close_world(&w);
	disk_leave(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),	 cmocka_unit_test(test_orphans),  cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_progress), cmocka_unit_test(test_sidecars), cmocka_unit_test(test_each_is_missed),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
