/*
 * What core says the versions of a table refer to, for tests that ask Lance the same.
 *
 *   survey_dump TABLE
 *
 * JSON by branch, main as "main": by version the files and their classes, absolute or as URIs, directories with a slash at the end; what lies in its
 * folders that no version names; what is kept and why, by version and by file; how much that is, and what is free; what each pin costs; gaps and problems.
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
	uint64_t orphan_bytes;
};

static int add_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	struct dump *d = arg;

	d->orphan_bytes += st->size;
	return json_array_append_new(d->orphans, pf_json_str(path)) < 0 ? -ENOMEM : 0;
}

static int add_problem(void *arg, const struct pf_problem *p)
{
	struct dump *d = arg;
	json_t *o = json_object(), *pins = json_array();

	for (size_t i = 0; i < p->n_pins; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&p->pins[i]->id, id);
		json_array_append_new(pins, pf_json_str(id));
	}
	pf_json_put(&o, "pins", pins);
	pf_json_put(&o, "text", pf_json_str(p->text));
	pf_json_put(&o, "file", p->file ? pf_json_str(p->file) : json_null());
	pf_json_put(&o, "version", pf_json_u64(p->version));
	return json_array_append_new(d->problems, o) < 0 ? -ENOMEM : 0;
}

/* Under the name of a file. NULL is -ENOMEM. */
static int put_file(json_t *o, const struct dump *d, const struct pf_survey *s, const struct pf_surveyed_file *f,
		    json_t *value)
{
	const char *base = f->base ? s->bases[f->base].where : d->st->at;
	_cleanup_(pf_freep) char *name = NULL;

	if (asprintf(&name, "%s/%s%s", base, f->path, f->is_dir ? "/" : "") < 0) {
		name = NULL;
		json_decref(value);
		return -ENOMEM;
	}
	return json_object_set_new(o, name, value) < 0 ? -ENOMEM : 0;
}

static int put_files_of(json_t *versions, const struct dump *d, const struct pf_survey *s, uint64_t version)
{
	json_t *files = json_object();
	char key[32];
	int e = 0;

	snprintf(key, sizeof(key), "%" PRIu64, version);
	if (json_object_set_new(versions, key, files) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		for (uint32_t k = 0; e == 0 && k < f->n_iv; k++)
			if (f->iv[k].first <= version && version <= f->iv[k].last)
				e = put_file(files, d, s, f, pf_json_str(pf_file_class_name(f->cls)));
	}
	return e;
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
			e = json_object_set_new(versions, key, pf_json_str(pf_buf_str(&reasons))) < 0 ? -ENOMEM : 0;
	}
	for (size_t i = 0; e == 0 && i < s->n_files; i++) {
		_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
		e = pf_retention_file_reasons(r, i, &reasons);
		if (e == 0 && reasons.len)
			e = put_file(files, d, s, &s->files[i], pf_json_str(pf_buf_str(&reasons)));
	}
	return e;
}

static int dump_amounts(const struct dump *d, const struct pf_survey *s, const struct pf_retention *r, json_t *out)
{
	struct pf_retention_totals t;
	size_t n = s->pins.n;
	_cleanup_(pf_freep) struct pf_pin_usage *usage = calloc(n ? n : 1, sizeof(*usage));
	json_t *totals = json_object(), *pins = json_object();

	pf_json_put(&out, "totals", totals);
	pf_json_put(&out, "usage", pins);
	int e = usage ? pf_retention_usage(r, usage, &n) : -ENOMEM;
	if (e < 0)
		return e;
	pf_retention_totals(r, &t);
	pf_json_put(&totals, "files_kept", pf_json_u64(t.files_kept));
	pf_json_put(&totals, "files_free", pf_json_u64(t.files_free));
	pf_json_put(&totals, "bytes_kept", pf_json_u64(t.bytes_kept));
	pf_json_put(&totals, "bytes_free", pf_json_u64(t.bytes_free));
	pf_json_put(&totals, "bytes_orphaned", pf_json_u64(d->orphan_bytes));
	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();
		char id[PF_UUID_TEXT];
		pf_uuid_format(&usage[i].pin->id, id);
		pf_json_put(&o, "exclusive", pf_json_u64(usage[i].exclusive_bytes));
		pf_json_put(&o, "shared", pf_json_u64(usage[i].shared_bytes));
		pf_json_put(&o, "old", pf_json_u64(usage[i].old_bytes));
		pf_json_put(&pins, id, o);
	}
	return 0;
}

static int dump_line(struct pf_lines *l, struct pf_line *line, json_t *out, struct pf_why *why)
{
	_cleanup_(pf_needs_release) struct pf_needs needs = { NULL, 0 };
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct dump d = { l->st, json_array(), json_array(), 0 };
	struct pf_survey *s = line->survey;
	json_t *versions = json_object(), *gaps = json_array();

	pf_json_put(&out, "orphans", d.orphans);
	pf_json_put(&out, "problems", d.problems);
	pf_json_put(&out, "versions", versions);
	pf_json_put(&out, "gaps", gaps);
	int e = pf_lines_needs(l, line, &needs);
	if (e == 0)
		e = pf_survey_measure(s, &(struct pf_looking){ .orphan = add_orphan, .orphan_arg = &d }, why);
	if (e < 0)
		return e;
	for (size_t i = 0; e == 0 && i < s->n_versions; i++)
		e = put_files_of(versions, &d, s, s->versions[i].version);
	for (size_t i = 0; i < s->n_gaps; i++)
		json_array_append_new(gaps, pf_json_str(s->gaps[i].text));
	if (e == 0)
		e = pf_retention_new(
			&(struct pf_retention_input){ .survey = s, .branches = needs.v, .n_branches = needs.n }, &r);
	if (e == 0)
		e = pf_retention_problems(r, add_problem, &d);
	if (e == 0)
		e = dump_kept(&d, s, r, out);
	return e < 0 ? e : dump_amounts(&d, s, r, out);
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
