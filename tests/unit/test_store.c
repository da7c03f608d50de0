/* The contract of store.h, asked of every store: whoever writes against it may rely on all of this in production and in tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/store_mem.h"
#include "each_store.h"

static void expect_error(struct pf_store *st, const char *name, int err)
{
	struct pf_file *f = NULL;
	assert_int_equal(pf_store_open(st, name, &f), err);
	assert_null(f);
}

static int never(void *arg, const char *name, bool is_dir)
{
	fail_msg("listed %s", name);
	return 0;
}

static int never_scan(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *sb)
{
	fail_msg("listed %s", name);
	return 0;
}

static void names_outside_are_refused(void **state)
{
	static const char *const bad[] = { "",	  "/",	 "/etc/passwd", "..",	"../x", "a/..", "a/../b", "a/../../b",
					   "./a", "a/.", "a/./b",	"a//b", "a/",	"a//",	"//a" };
	struct pf_store *st = store_of(state);
	store_put(st, "ok", "kept");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const char *n = bad[i];
		struct pf_file *f = NULL;
		struct pf_stage *sg = NULL;
		struct pf_stat sb;
		struct pf_buf b = PF_BUF_INIT;
		assert_int_equal(pf_store_open(st, n, &f), -EINVAL);
		assert_int_equal(pf_store_stat(st, n, &sb), -EINVAL);
		assert_int_equal(pf_store_list(st, n, never, NULL), -EINVAL);
		assert_int_equal(pf_store_create(st, n, &sg), -EINVAL);
		assert_int_equal(pf_store_link(st, n, "new"), -EINVAL);
		assert_int_equal(pf_store_link(st, "ok", n), -EINVAL);
		assert_int_equal(pf_store_rename(st, n, "new"), -EINVAL);
		assert_int_equal(pf_store_rename(st, "ok", n), -EINVAL);
		assert_int_equal(pf_store_unlink(st, n), -EINVAL);
		assert_int_equal(pf_store_remove(st, n, false), -EINVAL);
		assert_int_equal(pf_store_scan(st, n, never_scan, NULL), -EINVAL);
		assert_int_equal(pf_store_mkdir(st, n), -EINVAL);
		assert_int_equal(pf_store_sync_dir(st, n), -EINVAL);
		assert_int_equal(pf_store_writable(st, n), -EINVAL);
		assert_int_equal(pf_store_get(st, n, 100, &b), -EINVAL);
	}
	store_expect(st, "ok", "kept");
	expect_error(st, "new", -ENOENT);
}

static void names_that_only_look_strange_work(void **state)
{
	static const char *const good[] = { ".tmp1",	     "..a",	   "a..",      "...", "6.manifest#1",
					    "feat%2Fx.json", "with space", "\xc3\xa9", "-rf" };
	struct pf_store *st = store_of(state);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		store_put(st, good[i], good[i]);
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		store_expect(st, good[i], good[i]);
}

static void create_takes_only_free_names(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg = NULL;
	store_put(st, "a", "first");
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	assert_int_equal(pf_store_create(st, "a", &sg), -EEXIST);
	assert_int_equal(pf_store_create(st, "d", &sg), -EEXIST);
	assert_int_equal(pf_store_create(st, ".", &sg), -EEXIST);
	assert_int_equal(pf_store_create(st, "missing/a", &sg), -ENOENT);
	assert_int_equal(pf_store_create(st, "a/b", &sg), -ENOTDIR);
	assert_null(sg);
	store_expect(st, "a", "first");
}

static void writes_append_in_order(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg;
	struct pf_file *from;
	store_put(st, "from", "0123456789");
	assert_int_equal(pf_store_open(st, "from", &from), 0);

	assert_int_equal(pf_store_create(st, "new", &sg), 0);
	store_expect(st, "new", ""); /* visible under its name from the start */
	assert_int_equal(pf_stage_write(sg, "a", 1), 0);
	assert_int_equal(pf_stage_copy(sg, from, 2, 3), 0);
	assert_int_equal(pf_stage_write(sg, NULL, 0), 0);
	assert_int_equal(pf_stage_copy(sg, from, 10, 0), 0);
	assert_int_equal(pf_stage_write(sg, "bc", 2), 0);
	assert_int_equal(pf_stage_copy(sg, from, 0, 10), 0);
	pf_stage_discard(sg);
	pf_file_close(from);
	store_expect(st, "new", "a234bc0123456789");
}

static void copy_moves_large_ranges_exactly(void **state)
{
	struct pf_store *st = store_of(state);
	size_t n = 3 * 1024 * 1024 + 7;
	uint8_t *bytes = malloc(n);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 13);

	struct pf_stage *sg;
	struct pf_file *from;
	assert_int_equal(pf_store_create(st, "big", &sg), 0);
	assert_int_equal(pf_stage_write(sg, bytes, n), 0);
	pf_stage_discard(sg);
	assert_int_equal(pf_store_open(st, "big", &from), 0);
	assert_int_equal(pf_store_create(st, "part", &sg), 0);
	assert_int_equal(pf_stage_copy(sg, from, 5, n - 6), 0);
	pf_stage_discard(sg);
	pf_file_close(from);

	struct pf_buf got = PF_BUF_INIT;
	assert_int_equal(pf_store_get(st, "part", n, &got), 0);
	assert_int_equal(got.len, n - 6);
	assert_memory_equal(got.data, bytes + 5, n - 6);
	pf_buf_release(&got);
	free(bytes);
}

static void copy_beyond_the_source_is_refused_whole(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg;
	struct pf_file *from;
	store_put(st, "from", "0123456789");
	assert_int_equal(pf_store_open(st, "from", &from), 0);
	assert_int_equal(pf_store_create(st, "new", &sg), 0);
	assert_int_equal(pf_stage_copy(sg, from, 0, 11), -EBADMSG);
	assert_int_equal(pf_stage_copy(sg, from, 11, 0), -EBADMSG);
	assert_int_equal(pf_stage_copy(sg, from, 5, UINT64_MAX), -EBADMSG);
	assert_int_equal(pf_stage_copy(sg, from, UINT64_MAX, 1), -EBADMSG);
	pf_stage_discard(sg);
	pf_file_close(from);
	store_expect(st, "new", "");
}

static void open_says_what_is_wrong(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "f", "x");
	expect_error(st, "missing", -ENOENT);
	expect_error(st, "missing/below", -ENOENT);
	expect_error(st, "f/below", -ENOTDIR);
	expect_error(st, "d", -EISDIR);
	expect_error(st, ".", -EISDIR);
}

static void reads_stay_within_the_size_at_open(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stage *sg;
	struct pf_file *f;
	char b[8] = "";
	assert_int_equal(pf_store_create(st, "f", &sg), 0);
	assert_int_equal(pf_stage_write(sg, "abcdef", 6), 0);
	assert_int_equal(pf_store_open(st, "f", &f), 0);
	assert_int_equal(pf_stage_write(sg, "ghi", 3), 0);
	pf_stage_discard(sg);

	assert_int_equal(f->r.size, 6);
	assert_int_equal(f->st.size, 6);
	assert_int_equal(f->r.read(&f->r, 2, b, 4), 0);
	assert_string_equal(b, "cdef");
	assert_int_equal(f->r.read(&f->r, 6, b, 0), 0);
	assert_int_equal(f->r.read(&f->r, 6, b, 1), -EBADMSG);
	assert_int_equal(f->r.read(&f->r, 3, b, 4), -EBADMSG);
	assert_int_equal(f->r.read(&f->r, 7, b, 0), -EBADMSG);
	assert_int_equal(f->r.read(&f->r, UINT64_MAX, b, 2), -EBADMSG);
	assert_int_equal(f->r.read(&f->r, 2, b, SIZE_MAX), -EBADMSG);
	pf_file_close(f);
}

static void an_open_file_keeps_its_bytes(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_file *f;
	char b[4] = "";
	store_put(st, "f", "old");
	store_put(st, "g", "new");
	assert_int_equal(pf_store_open(st, "f", &f), 0);
	assert_int_equal(pf_store_rename(st, "g", "f"), 0);
	assert_int_equal(pf_store_unlink(st, "f"), 0);
	assert_int_equal(f->r.read(&f->r, 0, b, 3), 0);
	assert_string_equal(b, "old");
	pf_file_close(f);
}

static void link_gives_a_second_name_or_nothing(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stat a, b;
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "staged", "mine");
	store_put(st, "taken", "theirs");

	assert_int_equal(pf_store_link(st, "staged", "taken"), -EEXIST);
	assert_int_equal(pf_store_link(st, "staged", "d"), -EEXIST);
	assert_int_equal(pf_store_link(st, "staged", "staged"), -EEXIST);
	assert_int_equal(pf_store_link(st, "missing", "new"), -ENOENT);
	assert_int_equal(pf_store_link(st, "staged", "missing/new"), -ENOENT);
	assert_int_equal(pf_store_link(st, "staged", "taken/new"), -ENOTDIR);
	assert_int_equal(pf_store_link(st, "d", "new"), -EPERM);
	store_expect(st, "taken", "theirs");
	expect_error(st, "new", -ENOENT);

	assert_int_equal(pf_store_link(st, "staged", "d/final"), 0);
	assert_int_equal(pf_store_stat(st, "staged", &a), 0);
	assert_int_equal(pf_store_stat(st, "d/final", &b), 0);
	assert_true(pf_stat_same(&a, &b));
	assert_int_equal(pf_store_unlink(st, "staged"), 0);
	store_expect(st, "d/final", "mine");
	expect_error(st, "staged", -ENOENT);

	/* What a reader remembers of a version still holds after the staged name is gone. */
	assert_int_equal(pf_store_stat(st, "d/final", &b), 0);
	assert_true(pf_stat_same(&a, &b));
}

static void rename_replaces(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "d/hint", "old");
	store_put(st, "tmp", "new");
	assert_int_equal(pf_store_rename(st, "tmp", "d/hint"), 0);
	store_expect(st, "d/hint", "new");
	expect_error(st, "tmp", -ENOENT);

	store_put(st, "tmp", "kept");
	assert_int_equal(pf_store_rename(st, "missing", "d/hint"), -ENOENT);
	assert_int_equal(pf_store_rename(st, "tmp", "missing/x"), -ENOENT);
	assert_int_equal(pf_store_rename(st, "tmp", "d/hint/x"), -ENOTDIR);
	assert_int_equal(pf_store_rename(st, "tmp", "d"), -EISDIR);
	store_expect(st, "tmp", "kept");
	store_expect(st, "d/hint", "new");

	/* POSIX, and a trap: the old name stays if the new one is the same file already. */
	assert_int_equal(pf_store_link(st, "tmp", "same"), 0);
	assert_int_equal(pf_store_rename(st, "tmp", "same"), 0);
	store_expect(st, "tmp", "kept");
	store_expect(st, "same", "kept");
}

static void unlink_takes_files_only(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "d/f", "x");
	assert_int_equal(pf_store_unlink(st, "d"), -EISDIR);
	assert_int_equal(pf_store_unlink(st, "d/f/x"), -ENOTDIR);
	assert_int_equal(pf_store_unlink(st, "d/f"), 0);
	assert_int_equal(pf_store_unlink(st, "d/f"), -ENOENT);
	store_put(st, "d/f", "again");
	store_expect(st, "d/f", "again");
}

static void mkdir_makes_parents_and_may_be_repeated(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stat sb;
	assert_int_equal(pf_store_mkdir(st, "tree/feat/x/_versions"), 0);
	assert_int_equal(pf_store_mkdir(st, "tree/feat/x/_versions"), 0);
	assert_int_equal(pf_store_mkdir(st, "tree/feat/y"), 0);
	assert_int_equal(pf_store_mkdir(st, "."), 0);
	store_put(st, "tree/feat/x/_versions/f", "x");
	assert_int_equal(pf_store_mkdir(st, "tree/feat/x/_versions/f"), -ENOTDIR);
	assert_int_equal(pf_store_mkdir(st, "tree/feat/x/_versions/f/d"), -ENOTDIR);
	assert_int_equal(pf_store_stat(st, "tree/feat", &sb), 0);
	assert_true(sb.is_dir);
	store_expect(st, "tree/feat/x/_versions/f", "x");
}

static int collect(void *arg, const char *name, bool is_dir)
{
	return pf_buf_addf(arg, "%s%s ", name, is_dir ? "/" : "");
}

/* All of `entries`, each once, and nothing else. */
static void expect_list(struct pf_store *st, const char *dir, const char *const *entries)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	size_t len = 0;
	assert_int_equal(pf_buf_addch(&b, ' '), 0);
	assert_int_equal(pf_store_list(st, dir, collect, &b), 0);
	for (; *entries; entries++) {
		char word[64];
		len += (size_t)snprintf(word, sizeof(word), " %s ", *entries) - 1;
		assert_non_null(strstr(pf_buf_str(&b), word));
	}
	assert_int_equal(b.len, len + 1);
}

static int stop(void *arg, const char *name, bool is_dir)
{
	return ++*(int *)arg == 2 ? 77 : 0;
}

static void list_gives_each_entry_once(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d/e/empty"), 0);
	store_put(st, "f", "");
	store_put(st, "d/f", "");
	store_put(st, "d/.hidden", "");
	store_put(st, "dd", ""); /* shares a prefix with d, not a parent */
	expect_list(st, ".", (const char *const[]){ "d/", "dd", "f", NULL });
	expect_list(st, "d", (const char *const[]){ "e/", "f", ".hidden", NULL });
	expect_list(st, "d/e", (const char *const[]){ "empty/", NULL });
	expect_list(st, "d/e/empty", (const char *const[]){ NULL });
	assert_int_equal(pf_store_list(st, "missing", never, NULL), -ENOENT);
	assert_int_equal(pf_store_list(st, "f", never, NULL), -ENOTDIR);

	int seen = 0;
	assert_int_equal(pf_store_list(st, ".", stop, &seen), 77);
	assert_int_equal(seen, 2);
}

static int remove_it(void *arg, const char *name, bool is_dir)
{
	char path[64];
	snprintf(path, sizeof(path), "many/%s", name);
	return pf_store_unlink(arg, path);
}

static void a_listing_may_delete_what_it_lists(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "many"), 0);
	for (int i = 0; i < 500; i++) {
		char name[64];
		snprintf(name, sizeof(name), "many/%d.manifest", i);
		store_put(st, name, "");
	}
	assert_int_equal(pf_store_list(st, "many", remove_it, st), 0);
	expect_list(st, "many", (const char *const[]){ NULL });
}

static int collect_scanned(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *sb)
{
	if (strcmp(name, "unlisted") == 0)
		return 77;
	return pf_buf_addf(arg, "%s%s %d ", name, kind == PF_ENTRY_DIR ? "/" : "",
			   kind == PF_ENTRY_FILE ? (int)sb->size : -1);
}

static void scan_says_what_each_entry_is(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf one = PF_BUF_INIT, other = PF_BUF_INIT;
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d/e"), 0);
	store_put(st, "d/e/f", "123");
	store_put(st, "unlisted", "");
	assert_int_equal(pf_store_scan(st, "d", collect_scanned, &one), 0);
	assert_string_equal(pf_buf_str(&one), "e/ -1 ");
	assert_int_equal(pf_store_scan(st, "d/e", collect_scanned, &other), 0);
	assert_string_equal(pf_buf_str(&other), "f 3 ");
	assert_int_equal(pf_store_scan(st, ".", collect_scanned, &other), 77);
	assert_int_equal(pf_store_scan(st, "missing", never_scan, NULL), -ENOENT);
	assert_int_equal(pf_store_scan(st, "d/e/f", never_scan, NULL), -ENOTDIR);
}

static void remove_takes_files_and_empty_directories(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d/e"), 0);
	store_put(st, "d/e/f", "");
	assert_int_equal(pf_store_remove(st, "d/e", true), -ENOTEMPTY);
	assert_int_equal(pf_store_remove(st, "d/e/f", true), -ENOTDIR);
	assert_true(pf_store_remove(st, "d/e", false) < 0);
	assert_int_equal(pf_store_remove(st, "d/e/f", false), 0);
	assert_int_equal(pf_store_remove(st, "d/e/f", false), -ENOENT);
	assert_int_equal(pf_store_remove(st, "d/e", true), 0);
	assert_int_equal(pf_store_remove(st, "d/e", true), -ENOENT);
	expect_list(st, "d", (const char *const[]){ NULL });
}

static void stat_tells_another_file_or_other_content(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_stat a, b;
	store_put(st, "f", "same size");
	store_put(st, "g", "size same");
	assert_int_equal(pf_store_stat(st, "f", &a), 0);
	assert_false(a.is_dir);
	assert_int_equal(a.size, 9);
	assert_int_equal(pf_store_stat(st, "g", &b), 0);
	assert_false(pf_stat_same(&a, &b));
	assert_int_equal(pf_store_rename(st, "g", "f"), 0);
	assert_int_equal(pf_store_stat(st, "f", &b), 0);
	assert_false(pf_stat_same(&a, &b));
	assert_int_equal(pf_store_stat(st, ".", &b), 0);
	assert_true(b.is_dir);
	assert_int_equal(pf_store_stat(st, "missing", &b), -ENOENT);
	assert_int_equal(pf_store_stat(st, "f/below", &b), -ENOTDIR);
}

static void get_appends_up_to_its_limit(void **state)
{
	struct pf_store *st = store_of(state);
	struct pf_buf b = PF_BUF_INIT;
	store_put(st, "empty", "");
	store_put(st, "f", "1234");
	assert_int_equal(pf_store_get(st, "empty", 0, &b), 0);
	assert_int_equal(b.len, 0);
	assert_int_equal(pf_store_get(st, "f", 4, &b), 0);
	assert_int_equal(pf_store_get(st, "f", 4, &b), 0);
	assert_int_equal(pf_store_get(st, "f", 3, &b), -EFBIG);
	assert_int_equal(pf_store_get(st, "missing", 3, &b), -ENOENT);
	assert_string_equal(pf_buf_str(&b), "12341234");
	assert_int_equal(b.len, 8);
	pf_buf_release(&b);
}

static void directories_can_be_synced_and_asked(void **state)
{
	struct pf_store *st = store_of(state);
	assert_int_equal(pf_store_mkdir(st, "d"), 0);
	store_put(st, "f", "");
	assert_int_equal(pf_store_sync_dir(st, "d"), 0);
	assert_int_equal(pf_store_sync_dir(st, "."), 0);
	assert_int_equal(pf_store_sync_dir(st, "missing"), -ENOENT);
	assert_int_equal(pf_store_sync_dir(st, "f"), -ENOTDIR);
	assert_int_equal(pf_store_writable(st, "d"), 0);
	assert_int_equal(pf_store_writable(st, "."), 0);
	assert_int_equal(pf_store_writable(st, "missing"), -ENOENT);
	assert_int_equal(pf_store_writable(st, "f"), -ENOTDIR);
	expect_list(st, "d", (const char *const[]){ NULL });
}

struct racer {
	struct pf_store *st;
	pthread_barrier_t *start;
	int id, wins;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	char tmp[32], final[32];
	snprintf(tmp, sizeof(tmp), ".tmp%d", r->id);
	pthread_barrier_wait(r->start);
	for (int v = 0; v < 50; v++) {
		snprintf(final, sizeof(final), "%d.manifest", v);
		int res = pf_store_link(r->st, tmp, final);
		if (res == 0)
			r->wins++;
		else if (res != -EEXIST)
			r->wins = -1000;
	}
	return NULL;
}

static void one_of_many_gets_a_name(void **state)
{
	struct pf_store *st = store_of(state);
	struct racer racers[4];
	pthread_t threads[4];
	pthread_barrier_t start;
	int wins = 0;
	pthread_barrier_init(&start, NULL, ARRAY_LEN(racers));
	for (int i = 0; i < (int)ARRAY_LEN(racers); i++) {
		char tmp[32];
		snprintf(tmp, sizeof(tmp), ".tmp%d", i);
		store_put(st, tmp, tmp);
		racers[i] = (struct racer){ .st = st, .start = &start, .id = i };
		assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(racers); i++) {
		pthread_join(threads[i], NULL);
		wins += racers[i].wins;
	}
	pthread_barrier_destroy(&start);
	assert_int_equal(wins, 50);
}

#define EACH(fn)                                                                                                       \
	{ #fn " (local)", fn, each_store_local, each_store_teardown, NULL },                                           \
	{                                                                                                              \
#fn " (memory)", fn, each_store_mem, each_store_teardown, NULL                                         \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(names_outside_are_refused),
		EACH(names_that_only_look_strange_work),
		EACH(create_takes_only_free_names),
		EACH(writes_append_in_order),
		EACH(copy_moves_large_ranges_exactly),
		EACH(copy_beyond_the_source_is_refused_whole),
		EACH(open_says_what_is_wrong),
		EACH(reads_stay_within_the_size_at_open),
		EACH(an_open_file_keeps_its_bytes),
		EACH(link_gives_a_second_name_or_nothing),
		EACH(rename_replaces),
		EACH(unlink_takes_files_only),
		EACH(mkdir_makes_parents_and_may_be_repeated),
		EACH(list_gives_each_entry_once),
		EACH(a_listing_may_delete_what_it_lists),
		EACH(scan_says_what_each_entry_is),
		EACH(remove_takes_files_and_empty_directories),
		EACH(stat_tells_another_file_or_other_content),
		EACH(get_appends_up_to_its_limit),
		EACH(directories_can_be_synced_and_asked),
		EACH(one_of_many_gets_a_name),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
