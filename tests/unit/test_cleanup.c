/* Cleanup of whole tables: what goes and what stays, what appears meanwhile, and whatever fails or ends it (lance-14-cleanup section 3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/cleanup.h"
#include "core/store_mem.h"

#include "attempt.h"
#include "moves.h"
#include "pinned.h"
#include "table.h"
#include "whole.h"
#include "world.h"

#define DEV_ID	 "0123456789abcdef0123456789abcdef"
#define OTHER_ID "fedcba9876543210fedcba9876543210"
#define INDEX	 "_indices/0badcafe-0000-4000-a000-000000000001/page"

/* Everything in memory was changed in the first minutes of 1970: at this time it is all too young for the guard, and later old. */
#define YOUNG 3600
#define OLD   NOW

static void put_file(struct pf_store *st, const char *name)
{
	assert_int_equal(pf_store_mem_put(st, name, "12345", 5), 0);
}

/* A version of a branch (NULL: main) with these data files, a letter each, and base paths in `more`. */
static void put_version(struct pf_store *st, const char *branch, uint64_t version, const char *letters, bool index,
			const struct pf_buf *more)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, section = PF_BUF_INIT;
	char dir[64] = "", name[96];

	if (branch)
		snprintf(dir, sizeof(dir), "tree/%s/", branch);
	for (const char *p = letters; *p; p++) {
		snprintf(name, sizeof(name), "%c.lance", *p);
		table_add_fragment(&extra, (uint64_t)(*p - 'a'), name, 5, -1);
		snprintf(name, sizeof(name), "%sdata/%c.lance", dir, *p);
		put_file(st, name);
	}
	if (more)
		assert_int_equal(pf_buf_add(&extra, more->data, more->len), 0);
	if (index) {
		moves_index(&(struct moves_index){ .name = "by_a", .uuid = 1 }, &section);
		put_file(st, INDEX);
	}
	table_put(st, &(struct table_version){ .version = version,
					       .dir = branch ? dir : NULL,
					       .branch = branch,
					       .extra = &extra,
					       .index = index ? &section : NULL });
}

/* Main 1 to 5: a; a, b and an index; b and c; c; c and d. Nothing is anybody's but what they name. */
static struct pf_store *new_table(void)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	put_version(st, NULL, 1, "a", false, NULL);
	put_version(st, NULL, 2, "ab", true, NULL);
	put_version(st, NULL, 3, "bc", false, NULL);
	put_version(st, NULL, 4, "c", false, NULL);
	put_version(st, NULL, 5, "cd", false, NULL);
	return st;
}

struct cleaning {
	struct pf_store *st;
	const char *branch;
	struct pf_cleanup_options o;
	struct pf_cleanup_how how;
	struct pf_lines l;
	struct pf_cleanup *c;
	struct pf_why why;
};

static void init(struct cleaning *x, struct pf_store *st, uint64_t retain, int64_t now)
{
	*x = (struct cleaning){ .st = st };
	x->o.policy = (struct pf_policy){ .any = true, .retain = retain };
	x->o.now.sec = now;
	pf_lines_init(&x->l, st);
}

static void end(struct cleaning *x)
{
	pf_cleanup_free(STEAL(x->c));
	pf_lines_release(&x->l);
}

static int plan(struct cleaning *x, pf_clean_file_fn see, void *arg)
{
	pf_cleanup_free(STEAL(x->c));
	int r = pf_lines_refresh(&x->l, NULL, NULL, &x->why);
	if (r < 0)
		return r;
	struct pf_line *line = pf_lines_find(&x->l, x->branch);
	assert_non_null(line);
	return pf_cleanup_new(&x->l, line, &x->o, see, arg, &x->c, &x->why);
}

static void must_plan(struct cleaning *x)
{
	if (plan(x, NULL, NULL) < 0)
		fail_msg("%s", x->why.text);
}

static int clean(struct cleaning *x)
{
	int r = plan(x, NULL, NULL);

	return r < 0 ? r : pf_cleanup_run(x->c, &x->how, &x->why);
}

static void must_clean(struct cleaning *x)
{
	if (clean(x) < 0)
		fail_msg("%s", x->why.text);
}

/* One with a fresh mind. */
static void clean_anew(struct pf_store *st, uint64_t retain, int64_t now)
{
	struct cleaning x;

	init(&x, st, retain, now);
	must_clean(&x);
	end(&x);
}

/* What the plan takes, a path each, in its order; names of manifests as the version, of transactions left out. */
static void assert_goes(struct cleaning *x, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	size_t n;

	const struct pf_victim *v = pf_cleanup_victims(x->c, &n);
	assert_int_equal(pf_buf_addstr(&got, ""), 0);
	for (size_t i = 0; i < n; i++) {
		if (v[i].cls == PF_CLEAN_TRANSACTION)
			continue;
		if (v[i].cls == PF_CLEAN_MANIFEST)
			assert_int_equal(pf_buf_addf(&got, "v%d ", (int)v[i].first), 0);
		else
			assert_int_equal(pf_buf_addf(&got, "%s ", v[i].path), 0);
	}
	assert_string_equal(pf_buf_str(&got), want);
}

/* All files, sorted. */
static void list_all(struct pf_store *st, struct pf_buf *out)
{
	pf_buf_reset(out);
	table_list(st, ".", out);
	assert_non_null(pf_buf_str(out));
}

/* Every version that is listed, of every branch, has all its files. */
static void assert_whole_versions(struct pf_store *st)
{
	_cleanup_(pf_lines_release) struct pf_lines l;
	struct pf_why why = PF_WHY_INIT;

	pf_lines_init(&l, st);
	if (pf_lines_refresh(&l, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
	for (size_t i = 0; i < l.n; i++) {
		struct pf_survey *s = l.v[i].survey;
		assert_non_null(s);
		assert_int_equal(s->n_gaps, 0);
		assert_int_equal(pf_survey_measure(s, NULL, &why), 0);
		for (size_t k = 0; k < s->n_files; k++)
			if (s->files[k].n_iv && s->files[k].presence == PF_MISSING)
				fail_msg("%s is missing", s->files[k].path);
	}
}

static void sum_up(const struct pf_cleanup_report *r, struct pf_clean_count *all)
{
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++) {
		all->files += r->removed[i].files + r->failed[i].files;
		all->bytes += r->removed[i].bytes + r->failed[i].bytes;
	}
	for (size_t i = 0; i < PF_FATES; i++) {
		all->files += r->kept[i].files;
		all->bytes += r->kept[i].bytes;
	}
}

static int count_lines(struct pf_store *st)
{
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT;
	int n = 0;

	list_all(st, &all);
	for (size_t i = 0; i < all.len; i++)
		n += all.data[i] == '\n';
	return n;
}

static void files_go_that_only_versions_name_that_go(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct pf_clean_count all = { 0 };
	struct cleaning x;

	int there = count_lines(st);
	list_all(st, &before);
	init(&x, st, 2, OLD);
	must_plan(&x);
	assert_goes(&x, "data/a.lance data/b.lance " INDEX " v3 v2 v1 ");
	list_all(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	sum_up(pf_cleanup_report(x.c), &all);
	assert_int_equal(all.files, there);

	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	const struct pf_cleanup_report *r = pf_cleanup_report(x.c);
	assert_int_equal(r->versions, 3);
	assert_int_equal(r->removed[PF_CLEAN_MANIFEST].files, 3);
	assert_int_equal(r->removed[PF_CLEAN_TRANSACTION].files, 3);
	assert_int_equal(r->removed[PF_CLEAN_DATA].files, 2);
	assert_int_equal(r->removed[PF_CLEAN_DATA].bytes, 10);
	assert_int_equal(r->removed[PF_CLEAN_INDEX].files, 1);
	assert_int_equal(r->folders, 1);
	assert_int_equal(r->kept[PF_STAYS_HEAD].files, 4);   /* with its transaction, c and d */
	assert_int_equal(r->kept[PF_STAYS_POLICY].files, 2); /* version 4, which has no other */
	all = (struct pf_clean_count){ 0 };
	sum_up(r, &all);
	assert_int_equal(all.files, there);
	assert_int_equal(count_lines(st), 6);
	assert_whole_versions(st);
	end(&x);
}

static void a_second_run_finds_nothing(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	clean_anew(st, 1, OLD);
	init(&x, st, 1, OLD);
	must_plan(&x);
	assert_goes(&x, "");
	end(&x);
}

/* --- failures --- */

/* Fail call n of the run, and say whether that was reached. */
static bool fail_at(unsigned n, enum pf_fault kind, bool forever, const char *want)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_clean_count all = { 0 };
	struct cleaning x;

	put_file(st, "data/stray.lance");
	int there = count_lines(st);
	init(&x, st, 2, YOUNG);
	must_plan(&x);
	unsigned before = pf_store_mem_calls(st);
	pf_store_mem_fault(st, n, kind, -EIO, forever);
	int r = pf_cleanup_run(x.c, &x.how, &x.why);
	bool reached = pf_store_mem_calls(st) - before >= n;
	heal(st);
	sum_up(pf_cleanup_report(x.c), &all);
	assert_int_equal(all.files, there);
	if (r < 0)
		assert_true(x.why.text[0]);
	end(&x);

	assert_whole_versions(st);
	clean_anew(st, 2, YOUNG);
	list_all(st, &got);
	if (strcmp(pf_buf_str(&got), want) != 0)
		fail_msg("call %u: expected\n%sfound\n%s", n, want, pf_buf_str(&got));
	return reached;
}

/* However young the files are: the next run knows what this one was about. */
static void whatever_fails_the_next_run_ends_the_same(void **state)
{
	static const struct {
		enum pf_fault kind;
		bool forever;
	} ways[] = { { PF_FAULT_BEFORE, false },
		     { PF_FAULT_AFTER, false },
		     { PF_FAULT_BEFORE, true },
		     { PF_FAULT_AFTER, true } };
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;

	put_file(st, "data/stray.lance");
	clean_anew(st, 2, YOUNG);
	list_all(st, &want);
	assert_non_null(strstr(pf_buf_str(&want), "stray"));
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		unsigned n = 1;
		while (fail_at(n, ways[i].kind, ways[i].forever, pf_buf_str(&want)))
			n++;
		if (n < 25)
			fail_msg("only %u calls", n);
	}
}

static int refuse_removal(struct pf_store *st, const char *name, struct trap *t)
{
	*t = (struct trap){ .op = "remove", .name = name, .kind = PF_FAULT_BEFORE, .err = -EBUSY };
	set_trap(st, t);
	return 0;
}

static void note_failure(void *arg, const struct pf_victim *v, int err)
{
	if (err < 0)
		assert_int_equal(pf_buf_addf(arg, "%s %d ", v->path, err), 0);
}

/* A file that cannot be removed is named, and its versions' manifests tell the next run of it. */
static void what_cannot_be_removed_is_told_and_tried_again(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf told = PF_BUF_INIT;
	char want[64];
	struct trap t;
	struct cleaning x;

	init(&x, st, 1, YOUNG);
	x.how = (struct pf_cleanup_how){ .told = note_failure, .arg = &told };
	refuse_removal(st, "data/b.lance", &t);
	must_clean(&x);
	snprintf(want, sizeof(want), "data/b.lance %d ", -EBUSY);
	assert_string_equal(pf_buf_str(&told), want);
	const struct pf_cleanup_report *r = pf_cleanup_report(x.c);
	assert_int_equal(r->failed[PF_CLEAN_DATA].files, 1);
	assert_int_equal(r->versions, 2); /* 1 and 4: b is of 2 and 3 */
	assert_int_equal(r->kept[PF_STAYS_UNDONE].files, 2);
	end(&x);
	assert_int_equal(count_staged(st, "_versions"), 2);
	assert_whole_versions(st);
	heal(st);

	init(&x, st, 1, YOUNG);
	must_plan(&x);
	assert_goes(&x, "data/b.lance v3 v2 ");
	end(&x);
	clean_anew(st, 1, YOUNG);
	assert_int_equal(count_staged(st, "_versions"), 0);
	assert_int_equal(count_lines(st), 4);
}

static void a_manifest_that_cannot_be_renamed_keeps_its_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct trap t = {
		.op = "rename", .name = "18446744073709551613.manifest", .kind = PF_FAULT_BEFORE, .err = -EPERM
	};
	struct cleaning x;

	init(&x, st, 1, OLD);
	set_trap(st, &t);
	must_clean(&x);
	heal(st);
	assert_int_equal(pf_cleanup_report(x.c)->failed[PF_CLEAN_MANIFEST].files, 1);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 3);
	end(&x);
	assert_whole_versions(st); /* version 2 is there, with a, b and its index */
	assert_true(exists(st, INDEX));
	clean_anew(st, 1, OLD);
	assert_false(exists(st, INDEX));
}

struct interrupting {
	unsigned after;
};

static int interrupt(void *arg, const struct pf_cleanup_report *so_far)
{
	struct interrupting *i = arg;

	return i->after-- == 0;
}

static void an_interrupted_run_leaves_whole_versions(void **state)
{
	for (unsigned n = 0; n < 11; n++) {
		_cleanup_(pf_store_freep) struct pf_store *st = new_table();
		struct interrupting i = { n };
		struct cleaning x;
		init(&x, st, 1, YOUNG);
		x.how = (struct pf_cleanup_how){ .go_on = interrupt, .arg = &i };
		assert_int_equal(clean(&x), -EINTR);
		end(&x);
		assert_whole_versions(st);
		/* Before anything is deleted everything is put back. */
		if (n == 0)
			assert_int_equal(count_staged(st, "_versions"), 0);
		clean_anew(st, 1, YOUNG);
		assert_int_equal(count_lines(st), 4);
	}
}

static void many_threads_and_a_rate_do_the_same(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	init(&x, st, 1, OLD);
	x.how = (struct pf_cleanup_how){ .jobs = 8, .rate = 1000 };
	must_clean(&x);
	end(&x);
	assert_int_equal(count_lines(st), 4);
	assert_whole_versions(st);
}

/* --- what appears after the plan, or is gone --- */

/* D19: whatever was its own is not known any more, and nothing that the plan relied on is. */
static void a_head_that_is_lost_stops_everything(void **state)
{
	for (unsigned retain = 1; retain <= 2; retain++) {
		_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
		_cleanup_(pf_store_freep) struct pf_store *st = new_table();
		char name[PF_MANIFEST_NAME_MAX + 16] = "_versions/";
		struct cleaning x;
		init(&x, st, retain, OLD);
		must_plan(&x);
		pf_manifest_name_format(5, true, name + strlen(name));
		assert_int_equal(pf_store_remove(st, name, false), 0);
		list_all(st, &before);
		assert_true(pf_cleanup_run(x.c, &x.how, &x.why) < 0);
		assert_non_null(strstr(x.why.text, "version"));
		end(&x);
		list_all(st, &after);
		assert_string_equal((char *)after.data, (char *)before.data);
	}
}

static void put_tag(struct pf_store *st, const char *name, const char *branch, int version)
{
	char file[64], text[128];

	snprintf(file, sizeof(file), "_refs/tags/%s.json", name);
	snprintf(text, sizeof(text), "{\"branch\":%s,\"version\":%d,\"manifestSize\":1}", branch, version);
	assert_int_equal(pf_store_mem_put(st, file, text, strlen(text)), 0);
}

static void a_tag_that_appears_keeps_its_version(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	init(&x, st, 1, OLD);
	must_plan(&x);
	put_tag(st, "late", "null", 2);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 3);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_APPEARED].files,
			 5); /* its manifest, transaction, a, b and index */
	end(&x);
	assert_whole_versions(st);
	assert_true(exists(st, "data/a.lance"));
	assert_true(exists(st, "_versions/18446744073709551613.manifest"));
	assert_int_equal(count_staged(st, "_versions"), 0);
}

/* A restore of version 1: the new head has its files. */
static void a_head_that_appears_keeps_its_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	init(&x, st, 1, OLD);
	must_plan(&x);
	put_version(st, NULL, 6, "a", false, NULL);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	end(&x);
	assert_whole_versions(st);
	assert_true(exists(st, "data/a.lance"));
	assert_false(exists(st, "data/b.lance"));
}

static void put_branch(struct pf_store *st, const char *name, uint64_t root, const char *id, const char *from)
{
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;

	for (const char *p = from; *p; p++) {
		char file[] = { *p, '.', 'l', 'a', 'n', 'c', 'e', '\0' };
		table_add_fragment(&more, (uint64_t)(*p - 'a'), file, 5, 0);
	}
	table_add_base(&more, 0, true, "/memory");
	table_put_branch(st, name, root, id);
	put_version(st, name, root, "", false, &more);
}

static void a_branch_that_appears_keeps_its_root(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	init(&x, st, 1, OLD);
	must_plan(&x);
	put_branch(st, "dev", 3, DEV_ID, "bc");
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	end(&x);
	assert_whole_versions(st);
	assert_true(exists(st, "data/b.lance"));
	assert_true(exists(st, "_versions/18446744073709551612.manifest"));
	assert_false(exists(st, "data/a.lance"));
}

struct late {
	bool done;
};

static void a_damaged_tag_that_appears_stops_everything(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct cleaning x;

	init(&x, st, 1, OLD);
	must_plan(&x);
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/bad.json", "{", 1), 0);
	list_all(st, &before);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), -EBUSY);
	list_all(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
	end(&x);
}

/* Two at once: what the other has in hand is left to it, and both end well. */
static void run_other(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;

	if (l->done || strcmp(op, "rename") != 0)
		return;
	l->done = true;
	clean_anew(st, 2, YOUNG);
}

static void a_second_cleaner_in_between_does_no_harm(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct late l = { false };

	pf_store_mem_set_hook(st, run_other, &l);
	clean_anew(st, 1, YOUNG);
	heal(st);
	assert_true(l.done);
	assert_whole_versions(st);
	clean_anew(st, 1, YOUNG);
	assert_int_equal(count_lines(st), 4);
}

/* As a run leaves it that was killed, or is still going on. */
static void hide(struct pf_store *st, uint64_t version)
{
	char base[PF_MANIFEST_NAME_MAX], from[96], to[96];

	pf_manifest_name_format(version, true, base);
	snprintf(from, sizeof(from), "_versions/%s", base);
	snprintf(to, sizeof(to), "_versions/.tmp-removed-%s", base);
	assert_int_equal(pf_store_rename(st, from, to), 0);
}

/* Another has hidden version 2, and may yet put it back. */
static void hide_2(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct late *l = arg;

	if (l->done || strcmp(op, "rename") != 0)
		return;
	l->done = true;
	hide(st, 2);
}

static void what_another_cleaner_has_in_hand_is_left_to_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct late l = { false };

	pf_store_mem_set_hook(st, hide_2, &l);
	clean_anew(st, 1, OLD);
	heal(st);
	assert_true(l.done);
	assert_int_equal(pf_store_rename(st, "_versions/.tmp-removed-18446744073709551613.manifest",
					 "_versions/18446744073709551613.manifest"),
			 0);
	assert_whole_versions(st);
	assert_true(exists(st, INDEX));
}

/* --- what blocks --- */

static void tagged_versions_refuse_or_stay(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	put_tag(st, "old", "null", 2);
	init(&x, st, 1, OLD);
	assert_int_equal(plan(&x, NULL, NULL), -EBUSY);
	assert_non_null(strstr(x.why.text, "\"old\" (version 2)"));
	x.o.skip_tagged = true;
	must_plan(&x);
	assert_goes(&x, "v4 v3 v1 ");
	end(&x);
	/* One that the policy does not let go anyhow is no reason. */
	init(&x, st, 4, OLD);
	must_plan(&x);
	assert_goes(&x, "v1 ");
	end(&x);
}

/* D14: Lance takes it for a tag of no branch. */
static void a_tag_that_says_main_is_one_of_main(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	put_tag(st, "old", "\"main\"", 2);
	init(&x, st, 1, OLD);
	x.o.skip_tagged = true;
	must_plan(&x);
	assert_goes(&x, "v4 v3 v1 ");
	end(&x);
}

static void assert_blocked(struct pf_store *st, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf before = PF_BUF_INIT, after = PF_BUF_INIT;
	struct cleaning x;

	list_all(st, &before);
	init(&x, st, 1, OLD);
	assert_int_equal(clean(&x), -EBUSY);
	if (!strstr(x.why.text, text))
		fail_msg("%s", x.why.text);
	end(&x);
	list_all(st, &after);
	assert_string_equal(pf_buf_str(&before), pf_buf_str(&after));
}

static void damage_blocks(void **state)
{
	struct pf_store *st = new_table();

	assert_int_equal(pf_store_mem_put(st, "_versions/18446744073709551613.manifest", "short", 5), 0);
	assert_blocked(st, "18446744073709551613.manifest");
	pf_store_free(st);
	st = new_table();
	assert_int_equal(pf_store_mem_put(st, "_refs/branches/bad.json", "{}", 2), 0);
	assert_blocked(st, "bad.json");
	pf_store_free(st);
	st = new_table();
	put_branch(st, "dev", 3, DEV_ID, "bc");
	assert_int_equal(pf_store_mem_put(st, "tree/dev/_versions/18446744073709551612.manifest", "short", 5), 0);
	assert_blocked(st, "dev");
	pf_store_free(st);
	st = new_table();
	table_put(st, &(struct table_version){ .version = 6, .writer_flags = UINT64_C(1) << 40 });
	assert_blocked(st, "40");
	pf_store_free(st);
}

/* --- pins --- */

/* Main 1 to 5 as new_table, pin a of source 1 or b of 2 and so on in the head. */
static struct pf_store *new_pinned(const char *pins)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	struct pf_store *st = new_table();

	table_add_fragment(&extra, 2, "c.lance", 5, -1);
	table_add_fragment(&extra, 3, "d.lance", 5, -1);
	pinned_put(st, &(struct table_version){ .version = 6, .writer_flags = BIT_PINS, .extra = &extra },
		   &(struct pinned){ .pins = pins, .kind = PF_OP_REGISTER, .named = pins });
	return st;
}

/* Version 5 of new_table, but for its transaction. */
static void put_lost_transaction(struct pf_store *st)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	const struct table_version t = { .version = 5, .extra = &extra, .txn = TABLE_TXN_LOST };
	char name[TABLE_NAME_MAX];

	table_add_fragment(&extra, 2, "c.lance", 5, -1);
	table_add_fragment(&extra, 3, "d.lance", 5, -1);
	assert_int_equal(pf_store_mem_del(st, table_txn_name(&t, name)), 0);
	table_put(st, &t);
}

static void windows_stay(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_pinned("c");
	struct pf_uuid c = pinned_uuid('c');
	struct cleaning x;

	init(&x, st, 1, OLD);
	must_plan(&x);
	assert_goes(&x, "data/a.lance " INDEX " v2 v1 ");
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_PIN].files,
			 7); /* manifests and transactions of 3 to 5, and b */
	/* As it will be when the pin is gone. */
	x.o.released = &c;
	x.o.n_released = 1;
	must_plan(&x);
	assert_goes(&x, "data/a.lance data/b.lance " INDEX " v5 v4 v3 v2 v1 ");
	end(&x);
	clean_anew(st, 1, OLD);
	assert_whole_versions(st);
	assert_true(exists(st, "data/b.lance"));
}

static void a_window_that_cannot_be_verified_blocks(void **state)
{
	struct pf_store *st = new_pinned("c");

	assert_int_equal(pf_store_mem_del(st, "_versions/18446744073709551611.manifest"), 0);
	assert_blocked(st, "cccccccc-cccc-4ccc-8ccc-cccccccccccc");
	pf_store_free(st);
	st = new_pinned("c");
	assert_int_equal(pf_store_mem_del(st, "data/b.lance"), 0);
	assert_blocked(st, "data/b.lance");
	pf_store_free(st);
	/* A transaction that is neither in its manifest nor beside it. (cases-open A37) */
	st = new_pinned("c");
	put_lost_transaction(st);
	assert_blocked(st, "version 5");
	pf_store_free(st);
}

/* The file of a transaction is gone, but the manifest has it, too. */
static void an_inline_transaction_is_enough(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_pinned("c");
	char name[TABLE_NAME_MAX];
	struct cleaning x;

	assert_int_equal(pf_store_mem_del(st, table_txn_name(&(struct table_version){ .version = 5 }, name)), 0);
	init(&x, st, 1, OLD);
	must_plan(&x);
	assert_goes(&x, "data/a.lance " INDEX " v2 v1 ");
	end(&x);
}

/* --- the dangers --- */

/* D5: Lance keeps the manifest alone. */
static void the_root_of_a_branch_stays_whole(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	put_branch(st, "dev", 2, DEV_ID, "b");
	init(&x, st, 1, OLD);
	must_plan(&x);
	assert_goes(&x, "v4 v3 v1 ");
	must_clean(&x);
	end(&x);
	assert_whole_versions(st);
}

/* D10: on a base there is a file of the same name. */
static void a_name_on_a_base_is_another_file(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct cleaning x;

	table_add_fragment(&more, 4, "x.lance", 5, 1);
	table_add_base(&more, 1, true, "/elsewhere");
	put_version(st, NULL, 6, "c", false, &more);
	put_version(st, NULL, 7, "c", false, NULL);
	put_file(st, "data/x.lance");
	init(&x, st, 1, YOUNG);
	must_plan(&x);
	assert_goes(&x, "data/a.lance data/b.lance data/d.lance " INDEX " v6 v5 v4 v3 v2 v1 ");
	end(&x);
}

/* D11. */
static void a_base_inside_the_table_is_part_of_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct cleaning x;

	table_add_fragment(&more, 4, "x.lance", 5, 1);
	table_add_base(&more, 1, false, "/memory/data/sub");
	put_file(st, "data/sub/x.lance");
	put_version(st, NULL, 6, "c", false, &more);
	init(&x, st, 1, OLD);
	x.o.delete_unverified = true;
	must_plan(&x);
	assert_goes(&x, "data/a.lance data/b.lance data/d.lance " INDEX " v5 v4 v3 v2 v1 ");
	end(&x);
}

/* D4: branch x, and branch x/data in the folder of its data. */
static void a_branch_in_a_folder_of_another_is_left_alone(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	put_branch(st, "x", 5, DEV_ID, "c");
	put_branch(st, "x/data", 5, OTHER_ID, "c");
	put_version(st, "x/data", 6, "f", false, NULL);
	put_version(st, "x/_indices", 6, "g", false, NULL);
	put_file(st, "tree/x/data/stray.lance");
	table_put_branch(st, "x/_indices", 5, OTHER_ID);
	init(&x, st, 1, OLD);
	x.branch = "x";
	x.o.delete_unverified = true;
	must_plan(&x);
	assert_goes(&x, "tree/x/data/stray.lance ");
	end(&x);
}

/* D12: Lance stops at them in the middle. */
static void names_that_are_not_text_stop_nothing(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();

	put_file(st, "data/bad\xff.lance");
	put_file(st, "_deletions/bad\x01.bin");
	clean_anew(st, 1, OLD);
	assert_int_equal(count_lines(st), 6);
	assert_true(exists(st, "data/bad\xff.lance"));
}

/* The listing of Lance: what was copied since, or made since. And D16. */
static void files_newer_than_the_oldest_version_stay_unless_leaks_go(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	/* The head was made at 2026-01-01T00:00:05. */
	assert_int_equal(pf_store_mem_set_mtime(st, "data/a.lance", (INT64_C(1767225605)) * 1000000000), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "data/b.lance", (INT64_C(1767225605)) * 1000000000 + 1), 0);
	init(&x, st, 1, 1767225605 + 3600);
	must_plan(&x);
	assert_goes(&x, "data/a.lance " INDEX " v4 v3 v2 v1 ");
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 1);
	x.o.leaks = true;
	must_plan(&x);
	assert_goes(&x, "data/a.lance data/b.lance " INDEX " v4 v3 v2 v1 ");
	end(&x);
}

/* A version that goes is newer than one that stays: then files of any age are looked at. */
static void an_old_tag_does_not_hide_newer_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	/* Version 1 was made at 2026-01-01T00:00:01. */
	assert_int_equal(pf_store_mem_set_mtime(st, "data/b.lance", INT64_C(1767225603) * 1000000000), 0);
	put_tag(st, "old", "null", 1);
	init(&x, st, 1, 1767225605 + 3600);
	x.o.skip_tagged = true;
	must_plan(&x);
	assert_goes(&x, "data/b.lance " INDEX " v4 v3 v2 ");
	end(&x);
	/* Also if it is on its way out since the run before. */
	hide(st, 2);
	hide(st, 3);
	hide(st, 4);
	init(&x, st, 1, 1767225605 + 3600);
	x.o.skip_tagged = true;
	must_plan(&x);
	assert_goes(&x, "data/b.lance " INDEX " v4 v3 v2 ");
	end(&x);
}

/* A version that goes was made in the same moment as the oldest that stays: it is not newer (lance-14-cleanup 21). */
static void at_one_moment_the_oldest_version_still_hides_files(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	const struct pf_time head = { .sec = 1767225605 }, later = { .sec = 1767225605, .nsec = 1 };
	struct cleaning x;

	put_file(st, "data/e.lance");
	put_file(st, "_transactions/9-orphan.txn");
	assert_int_equal(pf_store_mem_set_mtime(st, "data/a.lance", head.sec * 1000000000 + 1), 0);
	table_put(st, &(struct table_version){ .version = 4, .timestamp = head });
	init(&x, st, 1, head.sec + 3600);
	must_plan(&x);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 1);
	end(&x);
	table_put(st, &(struct table_version){ .version = 4, .timestamp = later });
	init(&x, st, 1, head.sec + 3600);
	must_plan(&x);
	assert_int_equal(pf_cleanup_report(x.c)->kept[PF_STAYS_AGE].files, 0);
	end(&x);
}

/* However young: what was in it is gone. */
static void the_folder_of_an_index_goes_with_it(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct pf_stat sb;

	assert_int_equal(pf_store_mkdir(st, "_indices/young"), 0);
	clean_anew(st, 1, YOUNG);
	assert_int_equal(pf_store_stat(st, "_indices/0badcafe-0000-4000-a000-000000000001", &sb), -ENOENT);
	assert_int_equal(pf_store_stat(st, "_indices/young", &sb), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/young", 0), 0);
	clean_anew(st, 1, OLD);
	assert_int_equal(pf_store_stat(st, "_indices/young", &sb), -ENOENT);
	assert_int_equal(pf_store_stat(st, "_indices", &sb), 0);
	/* A folder that somebody touched just now, of files that nobody names. */
	put_file(st, "_indices/stray/sub/page");
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/stray", INT64_C(1000000000) * (OLD - 1)), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "_indices/stray/sub", INT64_C(1000000000) * (OLD - 1)), 0);
	clean_anew(st, 1, OLD);
	assert_int_equal(pf_store_stat(st, "_indices/stray", &sb), -ENOENT);
}

/* D15: of a branch that has no ref. Beside it branch dev, of main's version 5. */
static void put_zombie(struct pf_store *st)
{
	put_branch(st, "dev", 5, DEV_ID, "cd");
	put_version(st, "z", 7, "f", false, NULL);
	put_version(st, "z/deep", 7, "g", false, NULL);
	put_file(st, "tree/z/_versions/latest_version_hint.json");
}

static void assert_leaks(struct pf_store *st, const char *branch, int64_t now, const char *want)
{
	struct cleaning x;

	init(&x, st, 9, now);
	x.branch = branch;
	x.o.leaks = true;
	must_plan(&x);
	assert_goes(&x, want);
	end(&x);
}

static void folders_of_no_branch_go_whole_or_not_at_all(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct pf_stat sb;
	struct cleaning x;

	put_zombie(st);
	init(&x, st, 9, OLD);
	x.o.delete_unverified = true;
	must_plan(&x);
	assert_goes(&x, "");
	end(&x);
	assert_leaks(st, NULL, YOUNG, "");
	assert_leaks(st, "dev", OLD, "");
	put_file(st, "tree/z/data/strange");
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	assert_int_equal(pf_store_mem_del(st, "tree/z/data/strange"), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/deep/data/g.lance", INT64_C(1000000000) * OLD), 0);
	assert_leaks(st, NULL, OLD, "tree/z/_versions/latest_version_hint.json tree/z/data/f.lance v0 ");
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/deep/data/g.lance", 0), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/data", INT64_C(1000000000) * OLD), 0);
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	assert_int_equal(pf_store_mem_set_mtime(st, "tree/z/data", 0), 0);

	init(&x, st, 9, OLD);
	x.o.leaks = true;
	must_clean(&x);
	assert_int_equal(pf_cleanup_report(x.c)->versions, 0);
	assert_int_equal(pf_cleanup_report(x.c)->removed[PF_CLEAN_MANIFEST].files, 2);
	end(&x);
	assert_int_equal(pf_store_stat(st, "tree/z", &sb), -ENOENT);
	assert_whole_versions(st);
}

static void folders_of_no_branch_stay_for_who_lives_in_them_or_on_them(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;
	struct pf_store *st = new_table();

	/* One that was made from it. */
	put_zombie(st);
	table_add_fragment(&more, 5, "f.lance", 5, 0);
	table_add_base(&more, 0, true, "/memory/tree/z");
	put_version(st, "dev", 6, "", false, &more);
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	pf_store_free(st);
	/* One in the folder of its data; and one whose name goes on from it. */
	st = new_table();
	put_zombie(st);
	put_branch(st, "z/data", 5, OTHER_ID, "cd");
	assert_leaks(st, NULL, OLD, "tree/z/deep/data/g.lance v0 ");
	pf_store_free(st);
	st = new_table();
	put_zombie(st);
	put_branch(st, "z/deep", 5, OTHER_ID, "cd");
	assert_leaks(st, NULL, OLD, "tree/z/_versions/latest_version_hint.json tree/z/data/f.lance v0 ");
	pf_store_free(st);
}

static void a_ref_that_appears_makes_it_a_branch(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();
	struct cleaning x;

	put_zombie(st);
	init(&x, st, 9, OLD);
	x.o.leaks = true;
	must_plan(&x);
	table_put_branch(st, "z", 5, OTHER_ID);
	assert_int_equal(pf_cleanup_run(x.c, &x.how, &x.why), 0);
	end(&x);
	assert_whole_versions(st);
	assert_true(exists(st, "tree/z/data/f.lance"));
	assert_true(exists(st, "tree/z/_versions/18446744073709551608.manifest"));
	/* Whatever is below it is left to another run. */
	assert_true(exists(st, "tree/z/deep/data/g.lance"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_go_that_only_versions_name_that_go),
		cmocka_unit_test(a_second_run_finds_nothing),
		cmocka_unit_test(whatever_fails_the_next_run_ends_the_same),
		cmocka_unit_test(what_cannot_be_removed_is_told_and_tried_again),
		cmocka_unit_test(a_manifest_that_cannot_be_renamed_keeps_its_files),
		cmocka_unit_test(an_interrupted_run_leaves_whole_versions),
		cmocka_unit_test(many_threads_and_a_rate_do_the_same),
		cmocka_unit_test(a_head_that_is_lost_stops_everything),
		cmocka_unit_test(a_tag_that_appears_keeps_its_version),
		cmocka_unit_test(a_head_that_appears_keeps_its_files),
		cmocka_unit_test(a_branch_that_appears_keeps_its_root),
		cmocka_unit_test(a_damaged_tag_that_appears_stops_everything),
		cmocka_unit_test(a_second_cleaner_in_between_does_no_harm),
		cmocka_unit_test(what_another_cleaner_has_in_hand_is_left_to_it),
		cmocka_unit_test(an_old_tag_does_not_hide_newer_files),
		cmocka_unit_test(at_one_moment_the_oldest_version_still_hides_files),
		cmocka_unit_test(the_folder_of_an_index_goes_with_it),
		cmocka_unit_test(tagged_versions_refuse_or_stay),
		cmocka_unit_test(a_tag_that_says_main_is_one_of_main),
		cmocka_unit_test(damage_blocks),
		cmocka_unit_test(windows_stay),
		cmocka_unit_test(a_window_that_cannot_be_verified_blocks),
		cmocka_unit_test(an_inline_transaction_is_enough),
		cmocka_unit_test(the_root_of_a_branch_stays_whole),
		cmocka_unit_test(a_name_on_a_base_is_another_file),
		cmocka_unit_test(a_base_inside_the_table_is_part_of_it),
		cmocka_unit_test(a_branch_in_a_folder_of_another_is_left_alone),
		cmocka_unit_test(names_that_are_not_text_stop_nothing),
		cmocka_unit_test(files_newer_than_the_oldest_version_stay_unless_leaks_go),
		cmocka_unit_test(folders_of_no_branch_go_whole_or_not_at_all),
		cmocka_unit_test(folders_of_no_branch_stay_for_who_lives_in_them_or_on_them),
		cmocka_unit_test(a_ref_that_appears_makes_it_a_branch),
	};

	return cmocka_run_group_tests_name("cleanup", tests, NULL, NULL);
}
