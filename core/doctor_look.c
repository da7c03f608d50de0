/* What is to be judged of one line of versions. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cleanup_parts.h"
#include "doctor_parts.h"
#include "flags.h"
#include "hint.h"

/* Versions named one by one; the others are counted. */
#define VERSIONS_MAX 50

int pf_texts_add(struct pf_texts *t, const char *fmt, ...)
{
	char **v = reallocarray(t->v, t->n + 1, sizeof(*v));
	va_list ap;

	if (!v)
		return -ENOMEM;
	t->v = v;
	va_start(ap, fmt);
	int n = vasprintf(&v[t->n], fmt, ap);
	va_end(ap);
	return n < 0 ? -ENOMEM : (t->n++, 0);
}

void pf_texts_release(struct pf_texts *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	*t = (struct pf_texts){ NULL, 0 };
}

void pf_facts_release(struct pf_facts *f)
{
	pf_explain_free(f->e);
	free(f->dir);
	for (size_t i = 0; i < PF_LOOSE_KINDS; i++)
		free(f->loose[i].example);
	pf_buf_release(&f->bare_versions);
	pf_texts_release(&f->sealed);
	pf_texts_release(&f->problems);
	pf_texts_release(&f->bare);
	pf_texts_release(&f->lost);
}

/* --- what the directories say --- */

static int count_scheme(void *arg, const char *name, bool is_dir)
{
	struct pf_facts *f = arg;
	uint64_t version;
	bool v2;

	if (!is_dir && pf_manifest_name_parse(name, &version, &v2))
		*(v2 ? &f->v2 : &f->v1) += 1;
	return 0;
}

static int count_schemes(struct pf_facts *f)
{
	_cleanup_(pf_freep) char *versions = NULL;

	if (asprintf(&versions, "%s_versions", f->dir) < 0)
		return versions = NULL, -ENOMEM;
	f->names_err = pf_store_list(f->st, versions, count_scheme, f);
	return f->names_err == -ENOMEM ? -ENOMEM : 0;
}

static int try_folder(struct pf_facts *f, const char *dir, const char *folder)
{
	_cleanup_(pf_freep) char *name = NULL;

	if (asprintf(&name, "%s%s", dir, folder) < 0)
		return name = NULL, -ENOMEM;
	int r = pf_store_writable(f->st, name);
	if (r == -ENOMEM)
		return r;
	if (r == 0 || r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (!f->sealed_err)
		f->sealed_err = r;
	return pf_texts_add(&f->sealed, "%s: %s", name, strerror(-r));
}

static int try_folders(struct pf_facts *f)
{
	int r = try_folder(f, "", "_refs/tags");

	for (size_t i = 0; r == 0 && i < PF_FOLDERS; i++)
		r = try_folder(f, f->dir, pf_folders[i]);
	return r;
}

/* --- files that no version names --- */

struct looking {
	struct pf_facts *f;
	struct pf_clean_rules all, late; /* everything that might ever go; what a cleanup comes to now */
	struct pf_leftovers left;
};

static void looking_release(struct looking *k)
{
	pf_leftovers_release(&k->left);
}

static enum pf_loose kind_of(const char *below, const struct pf_clean_verdict *v)
{
	const char *slash = strrchr(below, '/');
	const char *name = slash ? slash + 1 : below;

	if (pf_clean_is_left(below, &(uint64_t){ 0 }, &(bool){ 0 }))
		return PF_LOOSE_UNDONE;
	if (v->fate == PF_GOES_LEAK)
		return PF_LOOSE_LEAK;
	return strncmp(name, ".tmp", 4) == 0 || v->cls == PF_CLEAN_OTHER ? PF_LOOSE_STAGED : PF_LOOSE_STRANDED;
}

/* An old one says more than a young one. */
static int add_loose(struct pf_pile *p, const char *path, uint64_t size, bool young, bool late)
{
	bool first = young ? p->young + p->files == 0 : p->files == 0;

	if (first) {
		free(p->example);
		p->example = strdup(path);
		if (!p->example)
			return -ENOMEM;
	}
	*(young ? &p->young : &p->files) += 1;
	*(young ? &p->young_bytes : &p->bytes) += size;
	p->late += !young && late;
	return 0;
}

static int see_orphan(void *arg, const char *path, const struct pf_stat *st)
{
	struct looking *k = arg;
	const char *below = path + strlen(k->f->dir);
	struct pf_clean_verdict v, now;

	int64_t i = pf_clean_known(&k->left.set, path, k->f->dir);
	if (i < 0 && i != -ENOENT)
		return (int)i;
	enum pf_clean_ref ref = i >= 0 ? PF_REF_GOING : PF_REF_NONE;
	pf_clean_judge(&k->all, below, st->mtime_ns, ref, &v);
	/* What is not Lance's, and what the interrupted cleanup had still to delete: its manifests tell of that. */
	if (!PF_FATE_GOES(v.fate) || ref == PF_REF_GOING)
		return 0;
	pf_clean_judge(&k->late, below, st->mtime_ns, ref, &now);
	return add_loose(&k->f->loose[kind_of(below, &v)], path, st->size,
			 st->mtime_ns >= k->all.now_ns - PF_CLEAN_GUARD_NS, now.fate == PF_STAYS_AGE);
}

static int look_open(struct looking *k, const struct pf_survey *s)
{
	int64_t oldest = INT64_MAX;

	for (size_t i = 0; i < s->n_versions; i++)
		oldest = s->versions[i].timestamp_ns < oldest ? s->versions[i].timestamp_ns : oldest;
	k->all = (struct pf_clean_rules){ .now_ns = k->f->now.sec * INT64_C(1000000000) + k->f->now.nsec,
					  .delete_unverified = true,
					  .leaks = true,
					  .flagged = s->head->writer_flags & PF_FLAG_PINS };
	k->late = k->all;
	k->late.has_cut = true;
	k->late.cut_ns = oldest;
	k->f->undone_err = pf_leftovers_find(k->f->st, k->f->dir, &k->left, NULL);
	return k->f->undone_err == -ENOMEM ? -ENOMEM : 0;
}

/* --- the versions --- */

static int note_problem(void *arg, const struct pf_problem *p)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_facts *f = arg;
	char quoted[PF_QUOTE_TEXT];
	int r = 0;

	if (p->version)
		r = pf_buf_addf(&text, "version %" PRIu64 ": ", p->version);
	/* The sentence of a gap names its file. */
	if (r == 0 && p->file && p->file[0] && !strstr(p->text, p->file))
		r = pf_buf_addf(&text, "%s: ", pf_text_quote(p->file, strlen(p->file), quoted));
	if (r == 0)
		r = pf_buf_addstr(&text, p->text);
	if (r == 0)
		r = pf_problem_pins(p, 3, &text);
	return r == 0 && pf_buf_str(&text) ? pf_texts_add(&f->problems, "%s", (char *)text.data) : -ENOMEM;
}

static bool is_content(const struct pf_surveyed_file *file)
{
	return !file->optional && file->cls != PF_FILE_MANIFEST && file->cls != PF_FILE_TRANSACTION;
}

/* Listed, and nobody can read them: what Lance's own cleanup leaves when it is killed (lance-14-cleanup D13). */
static int find_bare(struct pf_facts *f)
{
	const struct pf_survey *s = f->e->survey;
	_cleanup_(pf_freep) size_t *lacks = calloc(s->n_versions ? s->n_versions : 1, sizeof(*lacks)); /* file + 1 */
	char quoted[PF_QUOTE_TEXT];
	int r = lacks ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < s->n_files; i++) {
		const struct pf_surveyed_file *file = &s->files[i];
		if (file->presence != PF_MISSING || !is_content(file))
			continue;
		for (uint32_t k = 0; k < file->n_iv; k++)
			for (size_t v = pf_survey_below(s, file->iv[k].first);
			     v < s->n_versions && s->versions[v].version <= file->iv[k].last; v++)
				lacks[v] = i + 1;
	}
	for (size_t v = 0; r == 0 && v < s->n_versions; v++) {
		if (!lacks[v])
			continue;
		const char *path = s->files[lacks[v] - 1].path;
		unsigned kept = pf_retention_version(f->e->kept, v);
		r = pf_texts_add(&f->bare, "version %" PRIu64 " lacks files, like %s", s->versions[v].version,
				 pf_text_quote(path, strlen(path), quoted));
		f->bare_head |= kept & PF_KEPT_HEAD;
		if (r == 0 && !kept && f->bare.n <= VERSIONS_MAX)
			r = pf_buf_addf(&f->bare_versions, "%s%" PRIu64, f->bare_versions.len ? "," : "",
					s->versions[v].version);
	}
	return r;
}

static int find_lost(struct pf_facts *f, struct pf_branch *b)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { 0 };

	f->lost_err = pf_lost_find(b, 0, &lost, &f->lost_why);
	int r = f->lost_err == -ENOMEM ? -ENOMEM : 0;
	for (size_t i = 0; r == 0 && i < lost.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		r = pf_lost_describe(&lost.v[i], &text);
		if (r == 0)
			r = pf_buf_str(&text) ? pf_texts_add(&f->lost, "%s", (char *)text.data) : -ENOMEM;
	}
	return r;
}

static int find_hint(struct pf_facts *f)
{
	_cleanup_(pf_freep) char *versions = NULL;

	if (asprintf(&versions, "%s_versions", f->dir) < 0)
		return versions = NULL, -ENOMEM;
	int r = pf_hint_check(f->st, versions, f->e->survey->head->version, &f->hint_why);
	f->hint_stale = r > 0;
	return r < 0 ? r : 0;
}

static int look_at(struct pf_facts *f, struct pf_lines *l, struct pf_line *line)
{
	_cleanup_(looking_release) struct looking k = { .f = f };

	const struct pf_looking how = { .orphan = see_orphan, .orphan_arg = &k };
	int r = look_open(&k, line->survey);
	if (r == 0)
		f->unknown = pf_explain_new(l, line, f->now, &how, &f->e, &f->unknown_why);
	if (r < 0 || f->unknown < 0)
		return r < 0 || f->unknown == -ENOMEM ? -ENOMEM : 0;
	r = pf_retention_problems(f->e->kept, note_problem, f);
	if (r == 0)
		r = find_bare(f);
	if (r == 0)
		r = find_lost(f, line->branch);
	if (r == 0) {
		f->guards_err = pf_guard_repair(line->branch, true, &f->guards, &f->guards_why);
		r = f->guards_err == -ENOMEM ? -ENOMEM : find_hint(f);
	}
	return r;
}

int pf_facts_find(struct pf_store *st, struct pf_lines *l, struct pf_line *line, int unknown,
		  const struct pf_why *unknown_why, struct pf_time now, struct pf_facts *out)
{
	struct pf_facts f = { .st = st, .now = now, .bare_versions = PF_BUF_INIT };

	f.branch = line ? line->name : NULL;
	if (asprintf(&f.dir, "%s%s%s", f.branch ? "tree/" : "", f.branch ? f.branch : "", f.branch ? "/" : "") < 0)
		return f.dir = NULL, -ENOMEM;
	f.unknown = unknown;
	if (unknown_why)
		f.unknown_why = *unknown_why;
	if (line && line->unknown)
		f.unknown = pf_why_set(&f.unknown_why, -EBADMSG, "%s", line->unknown);
	else if (line && !line->survey)
		f.unknown = pf_why_set(&f.unknown_why, -EBADMSG, "nothing is left of it but its ref");
	int r = count_schemes(&f);
	if (r == 0)
		r = try_folders(&f);
	if (r == 0 && f.unknown == 0)
		r = look_at(&f, l, line);
	if (r < 0)
		pf_facts_release(&f);
	else
		*out = f;
	return r;
}
