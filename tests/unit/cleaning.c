#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cleaning.h"

#include "core/store_mem.h"

#include "moves.h"
#include "table.h"

void cleaning_put_file(struct pf_store *st, const char *name)
{
	assert_int_equal(pf_store_mem_put(st, name, "12345", 5), 0);
}

void cleaning_put_version(struct pf_store *st, const char *branch, uint64_t version, const char *letters, bool index,
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
		cleaning_put_file(st, name);
	}
	if (more)
		assert_int_equal(pf_buf_add(&extra, more->data, more->len), 0);
	if (index) {
		moves_index(&(struct moves_index){ .name = "by_a", .uuid = 1 }, &section);
		cleaning_put_file(st, INDEX);
	}
	table_put(st, &(struct table_version){ .version = version,
					       .dir = branch ? dir : NULL,
					       .branch = branch,
					       .extra = &extra,
					       .index = index ? &section : NULL });
}

struct pf_store *cleaning_new_table(void)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	cleaning_put_version(st, NULL, 1, "a", false, NULL);
	cleaning_put_version(st, NULL, 2, "ab", true, NULL);
	cleaning_put_version(st, NULL, 3, "bc", false, NULL);
	cleaning_put_version(st, NULL, 4, "c", false, NULL);
	cleaning_put_version(st, NULL, 5, "cd", false, NULL);
	return st;
}

void cleaning_init(struct cleaning *x, struct pf_store *st, uint64_t retain, int64_t now)
{
	*x = (struct cleaning){ .st = st };
	x->o.policy = (struct pf_policy){ .any = true, .retain = retain };
	x->o.now.sec = now;
	pf_lines_init(&x->l, st);
}

void cleaning_end(struct cleaning *x)
{
	pf_cleanup_free(STEAL(x->c));
	pf_lines_release(&x->l);
}

int cleaning_plan(struct cleaning *x, pf_clean_file_fn see, void *arg)
{
	pf_cleanup_free(STEAL(x->c));
	int r = pf_lines_refresh(&x->l, NULL, NULL, &x->why);
	if (r < 0)
		return r;
	struct pf_line *line = pf_lines_find(&x->l, x->branch);
	assert_non_null(line);
	return pf_cleanup_new(&x->l, line, &x->o, see, arg, &x->c, &x->why);
}

void cleaning_must_plan(struct cleaning *x)
{
	if (cleaning_plan(x, NULL, NULL) < 0)
		fail_msg("%s", x->why.text);
}

int cleaning_run(struct cleaning *x)
{
	int r = cleaning_plan(x, NULL, NULL);

	return r < 0 ? r : pf_cleanup_run(x->c, &x->how, &x->why);
}

void cleaning_must_run(struct cleaning *x)
{
	if (cleaning_run(x) < 0)
		fail_msg("%s", x->why.text);
}

void cleaning_run_anew(struct pf_store *st, uint64_t retain, int64_t now)
{
	struct cleaning x;

	cleaning_init(&x, st, retain, now);
	cleaning_must_run(&x);
	cleaning_end(&x);
}

void cleaning_assert_goes(struct cleaning *x, const char *want)
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

void cleaning_list(struct pf_store *st, struct pf_buf *out)
{
	pf_buf_reset(out);
	table_list(st, ".", out);
	assert_non_null(pf_buf_str(out));
}

void cleaning_assert_whole(struct pf_store *st)
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

int cleaning_count_files(struct pf_store *st)
{
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT;
	int n = 0;

	cleaning_list(st, &all);
	for (size_t i = 0; i < all.len; i++)
		n += all.data[i] == '\n';
	return n;
}

void cleaning_put_tag(struct pf_store *st, const char *name, const char *branch, int version)
{
	char file[64], text[128];

	snprintf(file, sizeof(file), "_refs/tags/%s.json", name);
	snprintf(text, sizeof(text), "{\"branch\":%s,\"version\":%d,\"manifestSize\":1}", branch, version);
	assert_int_equal(pf_store_mem_put(st, file, text, strlen(text)), 0);
}

void cleaning_put_branch(struct pf_store *st, const char *name, uint64_t root, const char *id, const char *from)
{
	_cleanup_(pf_buf_release) struct pf_buf more = PF_BUF_INIT;

	for (const char *p = from; *p; p++) {
		char file[] = { *p, '.', 'l', 'a', 'n', 'c', 'e', '\0' };
		table_add_fragment(&more, (uint64_t)(*p - 'a'), file, 5, 0);
	}
	table_add_base(&more, 0, true, "/memory");
	table_put_branch(st, name, root, id);
	cleaning_put_version(st, name, root, "", false, &more);
}

void cleaning_hide(struct pf_store *st, uint64_t version)
{
	char base[PF_MANIFEST_NAME_MAX], from[96], to[96];

	pf_manifest_name_format(version, true, base);
	snprintf(from, sizeof(from), "_versions/%s", base);
	snprintf(to, sizeof(to), "_versions/.tmp-removed-%s.aside", base);
	assert_int_equal(pf_store_rename(st, from, to), 0);
}
