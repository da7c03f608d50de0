/*
 * What core says the versions of a table refer to, for tests that ask Lance the same.
 *
 *   survey_dump TABLE
 *
 * JSON by branch, main as "main": by version the files, absolute or as URIs, directories with a slash at the end; what lies in its folders that no version
 * names; what is kept and why, by version and by file; gaps and problems.
 *
 * Exit: 0; 1 and the sentence on stderr.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/lines.h"
#include "core/render.h"

struct dump {
	const struct pf_store *st;
	json_t *orphans, *problems;
};

static int add_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	struct dump *d = arg;

	return json_array_append_new(d->orphans, pf_json_str(path)) < 0 ? -ENOMEM : 0;
}

static int add_problem(void *arg, const struct pf_problem *p)
{
	struct dump *d = arg;

	return json_array_append_new(d->problems, pf_json_str(p->text)) < 0 ? -ENOMEM : 0;
}

static json_t *name_of(const struct dump *d, const struct pf_survey *s, const struct pf_surveyed_file *f)
{
	const char *base = f->base ? s->bases[f->base].where : d->st->at;
	_cleanup_(pf_freep) char *text = NULL;

	if (asprintf(&text, "%s/%s%s", base, f->path, f->is_dir ? "/" : "") < 0)
		return text = NULL, NULL;
	return pf_json_str(text);
}

static json_t *files_of(const struct dump *d, const struct pf_survey *s, uint64_t version)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n_files; i++)
		for (uint32_t k = 0; k < s->files[i].n_iv; k++)
			if (s->files[i].iv[k].first <= version && version <= s->files[i].iv[k].last)
				json_array_append_new(list, name_of(d, s, &s->files[i]));
	return list;
}

static int put_reasons(json_t *o, const char *key, struct pf_buf *reasons)
{
	const char *s = pf_buf_str(reasons);

	return s ? json_object_set_new(o, key, pf_json_str(s)) : -ENOMEM;
}

static int dump_kept(const struct dump *d, const struct pf_survey *s, const struct pf_retention *r, json_t *out)
{
	json_t *versions = json_object(), *files = json_object();
	int e = 0;

	pf_json_put(&out, "kept_versions", versions);
	pf_json_put(&out, "kept_files", files);
	for (size_t i = 0; e == 0 && i < s->n_versions; i++) {
		_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
		char key[32];
		snprintf(key, sizeof(key), "%" PRIu64, s->versions[i].version);
		e = pf_retention_version_reasons(r, i, &reasons);
		if (e == 0 && reasons.len)
			e = put_reasons(versions, key, &reasons);
	}
	for (size_t i = 0; e == 0 && i < s->n_files; i++) {
		_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
		json_t *name = name_of(d, s, &s->files[i]);
		e = pf_retention_file_reasons(r, i, &reasons);
		if (e == 0 && reasons.len)
			e = put_reasons(files, json_string_value(name), &reasons);
		json_decref(name);
	}
	return e;
}

static int dump_line(struct pf_lines *l, struct pf_line *line, json_t *out, struct pf_why *why)
{
	_cleanup_(pf_needs_release) struct pf_needs needs = { NULL, 0 };
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct dump d = { l->st, json_array(), json_array() };
	struct pf_survey *s = line->survey;
	json_t *versions = json_object(), *gaps = json_array();

	pf_json_put(&out, "orphans", d.orphans);
	pf_json_put(&out, "problems", d.problems);
	pf_json_put(&out, "versions", versions);
	pf_json_put(&out, "gaps", gaps);
	int e = pf_lines_needs(l, line, &needs);
	if (e == 0)
		e = pf_survey_measure(s, add_orphan, &d, why);
	if (e < 0)
		return e;
	for (size_t i = 0; i < s->n_versions; i++) {
		char key[32];
		snprintf(key, sizeof(key), "%" PRIu64, s->versions[i].version);
		json_object_set_new(versions, key, files_of(&d, s, s->versions[i].version));
	}
	for (size_t i = 0; i < s->n_gaps; i++)
		json_array_append_new(gaps, pf_json_str(s->gaps[i].text));
	e = pf_retention_new(&(struct pf_retention_input){ .survey = s, .branches = needs.v, .n_branches = needs.n },
			     &r);
	if (e == 0)
		e = pf_retention_problems(r, add_problem, &d);
	return e < 0 ? e : dump_kept(&d, s, r, out);
}

static int dump_table(const char *path, json_t *out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_lines_release) struct pf_lines l = { NULL };

	int r = pf_store_local_open(path, &st, why);
	if (r < 0)
		return r;
	pf_lines_init(&l, st);
	r = pf_lines_refresh(&l, NULL, NULL, why);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		json_t *line = json_object();
		pf_json_put(&out, l.v[i].name ? l.v[i].name : "main", line);
		if (l.v[i].unknown)
			pf_json_put(&line, "unknown", pf_json_str(l.v[i].unknown));
		else if (l.v[i].survey)
			r = dump_line(&l, &l.v[i], line, why);
	}
	return r;
}

int main(int argc, char **argv)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	_cleanup_(json_decrefp) json_t *o = json_object();
	struct pf_why why = PF_WHY_INIT;

	if (argc != 2) {
		fprintf(stderr, "usage: survey_dump TABLE\n");
		return 2;
	}
	int r = dump_table(argv[1], o, &why);
	if (r < 0) {
		fprintf(stderr, "survey_dump: %s (%d)\n", why.text, r);
		return 1;
	}
	if (pf_json_text(o, &text) < 0)
		return 1;
	printf("%s", pf_buf_str(&text));
	return 0;
}
