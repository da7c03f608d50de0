#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "survey_parts.h"

/* Deeper than any writer goes. Links may make a directory look endless. */
#define DEPTH_MAX 8

/* Asking whether to go on costs about as much as looking at a file. */
#define FILES_A_WORD 128

struct measuring {
	struct pf_survey *s;
	struct pf_store *st; /* looked at just now: the table's, or a base's */
	const struct pf_looking *how;
	uint64_t *looked; /* at so many files */
	struct pf_why *why;
	/* Of the directory being listed: */
	const char *dir;
	unsigned depth;
	struct pf_surveyed_file *into; /* what is found is part of this; NULL: look it up */
};

static int failed(struct measuring *m, int err, const char *path)
{
	char quoted[PF_QUOTE_TEXT];

	return err == -ENOMEM || err == -EINTR
		       ? err
		       : pf_why_set(m->why, err, "%s: %s", pf_text_quote(path, strlen(path), quoted), strerror(-err));
}

static int see_entry(void *arg, const char *name, bool is_dir);

/* Look at a file, with a sign of life once in a while. */
static int look_at(struct measuring *m, const char *path, struct pf_stat *st)
{
	const struct pf_looking *how = m->how;

	if (++*m->looked % FILES_A_WORD == 0 && how->progress && how->progress(how->progress_arg, *m->looked, 0) != 0)
		return pf_why_set(m->why, -EINTR, "interrupted after looking at %" PRIu64 " files", *m->looked);
	return pf_store_stat(m->st, path, st);
}

/* List a directory, all the way down. */
static int walk(struct measuring *m, const char *dir, struct pf_surveyed_file *into)
{
	struct measuring below = *m;

	if (m->depth == DEPTH_MAX)
		return 0;
	below.dir = dir;
	below.depth++;
	below.into = into;
	int r = pf_store_list(m->st, dir, see_entry, &below);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	return r < 0 && m->why && !m->why->text[0] ? failed(m, r, dir) : r;
}

/* The directory f, with everything in it. */
static int measure_dir(struct measuring *m, const char *path, struct pf_surveyed_file *f)
{
	f->presence = PF_PRESENT;
	f->is_dir = true;
	f->size = 0;
	f->n_files = 0;
	return walk(m, path, f);
}

static bool is_known(const struct pf_surveyed_file *f)
{
	return f->n_iv > 0 || f->needed;
}

/* The data file whose sidecars a folder has, -ENOENT if there is none. */
static int64_t data_file_of(struct measuring *m, const char *dir)
{
	_cleanup_(pf_freep) char *path = NULL;
	const struct pf_file_set *set = &m->s->state->set;

	if (asprintf(&path, "%s.lance", dir) < 0)
		return path = NULL, -ENOMEM;
	int64_t i = pf_file_set_find(set, 0, path);
	return i >= 0 && (set->v[i].cls != PF_FILE_DATA || !is_known(&set->v[i])) ? -ENOENT : i;
}

static int see_dir(struct measuring *m, const char *path)
{
	struct pf_file_set *set = &m->s->state->set;

	int64_t i = pf_file_set_find(set, 0, path);
	if (i >= 0 && is_known(&set->v[i]))
		return measure_dir(m, path, &set->v[i]);
	int64_t of = data_file_of(m, path);
	if (of < 0)
		return of == -ENOENT ? walk(m, path, NULL) : (int)of;
	const struct pf_surveyed_file like = { .cls = PF_FILE_BLOB, .own = set->v[of].own, .optional = true };
	i = pf_file_set_add(set, 0, path, &like);
	if (i < 0)
		return (int)i;
	set->v[i].sidecar_of = (uint32_t)of + 1;
	return measure_dir(m, path, &set->v[i]);
}

static int see_file(struct measuring *m, const char *path)
{
	const struct pf_file_set *set = &m->s->state->set;
	struct pf_stat st;

	int r = look_at(m, path, &st);
	if (r < 0)
		return r == -ENOENT ? 0 : failed(m, r, path); /* removed meanwhile, or a link that leads nowhere */
	if (m->into) {
		m->into->size += st.size;
		m->into->n_files++;
		return 0;
	}
	int64_t i = pf_file_set_find(set, 0, path);
	if (i < 0 || !is_known(&set->v[i]))
		return m->how->orphan ? m->how->orphan(m->how->orphan_arg, path, &st) : 0;
	set->v[i].presence = PF_PRESENT;
	set->v[i].size = st.size;
	return 0;
}

static int see_entry(void *arg, const char *name, bool is_dir)
{
	struct measuring *m = arg;
	_cleanup_(pf_freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", m->dir, name) < 0)
		return path = NULL, -ENOMEM;
	if (!m->into && !pf_place_is_own(path, pf_survey_dir(m->s), &m->s->refs))
		return 0;
	if (!is_dir)
		return see_file(m, path);
	return m->into ? walk(m, path, m->into) : see_dir(m, path);
}

static int walk_folders(struct measuring *m)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < PF_FOLDERS; i++) {
		_cleanup_(pf_freep) char *dir = NULL;
		if (asprintf(&dir, "%s%s", pf_survey_dir(m->s), pf_folders[i]) < 0)
			return dir = NULL, -ENOMEM;
		r = walk(m, dir, NULL);
	}
	return r;
}

/* What is not there takes no room, whatever the manifest says. */
static void set_missing(struct pf_surveyed_file *f)
{
	f->presence = PF_MISSING;
	f->size = 0;
	f->n_files = 0;
}

/* Look at one file or directory by its name. */
static int look(struct measuring *m, struct pf_surveyed_file *f)
{
	struct pf_stat st;

	int r = look_at(m, f->path, &st);
	if (r == -ENOENT || r == -ENOTDIR) {
		set_missing(f);
		return 0;
	}
	if (r < 0)
		return failed(m, r, f->path);
	if (st.is_dir)
		return measure_dir(m, f->path, f);
	f->presence = PF_PRESENT;
	f->size = st.size;
	return 0;
}

static bool is_there(const struct pf_survey *s, const char *dir, const char *in, const char *path)
{
	_cleanup_(pf_freep) char *name = NULL;

	if (asprintf(&name, "%s%s%s", dir, in, path) < 0)
		return name = NULL, false;
	int64_t i = pf_file_set_find(&s->state->set, 0, name);
	return i >= 0 && s->state->set.v[i].presence == PF_PRESENT && s->state->set.v[i].n_files > 0;
}

/* A file that is not where it was named: is it at another place where it was named too (pf_taking_see)? */
static bool is_twin_there(const struct pf_survey *s, const struct pf_surveyed_file *f)
{
	static const char *const folder[PF_FILE_CLASSES] = { [PF_FILE_DATA] = "data/", [PF_FILE_MAP] = "_fri/" };
	const char *perhaps = s->bases[f->base].perhaps, *slash = strrchr(f->path, '/');

	if (f->cls == PF_FILE_INDEX && is_there(s, pf_survey_dir(s), "_indices/", slash ? slash + 1 : f->path))
		return true;
	/* The base may be a table's root, or the folder itself. */
	return perhaps &&
	       (is_there(s, perhaps, "", f->path) || (folder[f->cls] && is_there(s, perhaps, folder[f->cls], f->path)));
}

/* What the walk of the branch's folders did not come across. */
static int look_at_rest(struct measuring *m)
{
	struct pf_file_set *set = &m->s->state->set;
	int r = 0;

	for (size_t i = 0; r == 0 && i < set->n; i++)
		if (set->v[i].base == 0 && set->v[i].presence != PF_PRESENT && is_known(&set->v[i]))
			r = look(m, &set->v[i]);
	return r;
}

static int look_at_base(struct measuring *m, uint32_t base)
{
	_cleanup_(pf_store_freep) struct pf_store *there = NULL;
	struct pf_survey *s = m->s;
	const char *where = s->bases[base].where;
	int r = 0;

	int e = where[0] == '/' ? pf_store_local_open(where, &there, NULL) : -EOPNOTSUPP;
	if (e == -ENOMEM)
		return e;
	bool gone = e == -ENOENT || e == -ENOTDIR;
	struct measuring at = *m;
	at.st = there;
	for (size_t i = 0; r == 0 && i < s->n_files; i++) {
		struct pf_surveyed_file *f = &s->files[i];
		if (f->base != base || !is_known(f))
			continue;
		if (there)
			r = look(&at, f);
		else if (gone)
			set_missing(f);
	}
	return r;
}

int pf_survey_measure(struct pf_survey *s, const struct pf_looking *how, struct pf_why *why)
{
	static const struct pf_looking quietly = { NULL };
	uint64_t looked = 0;
	struct pf_why inner = PF_WHY_INIT;
	struct measuring m = {
		.s = s, .st = s->state->st, .how = how ? how : &quietly, .looked = &looked, .why = &inner
	};
	struct pf_file_set *set = &s->state->set;

	for (size_t i = 0; i < set->n; i++) {
		set->v[i].presence = PF_UNSEEN;
		set->v[i].size = set->v[i].said;
		set->v[i].n_files = 1;
	}
	int r = walk_folders(&m);
	pf_file_set_follow(set);
	if (r == 0)
		r = look_at_rest(&m);
	pf_survey_show(s);
	for (uint32_t base = 1; r == 0 && base < s->n_bases; base++)
		r = look_at_base(&m, base);
	for (size_t i = 0; r == 0 && i < s->n_files; i++)
		if (s->files[i].presence == PF_MISSING && is_twin_there(s, &s->files[i]))
			s->files[i].presence = PF_UNSEEN;
	return r < 0 && inner.text[0] ? pf_why_set(why, r, "%s", inner.text) : r;
}
