#include <stdio.h>
#include <string.h>

#include "explain_parts.h"
#include "survey_parts.h"

/* As measure.c: deeper than any writer goes. */
#define DEPTH_MAX 8

static int add_uri(const char *where, const char *path, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf whole = PF_BUF_INIT;

	int r = pf_buf_addf(&whole, "%s/%s", where, path);
	const char *s = r == 0 ? pf_buf_str(&whole) : NULL;
	if (!s)
		return -ENOMEM;
	r = pf_buf_addstr(out, "file://");
	for (const char *at = s; r == 0 && *at;) {
		size_t n = strcspn(at, "/");
		r = pf_percent_encode(at, n, out);
		at += n;
		if (r == 0 && *at) {
			r = pf_buf_addch(out, '/');
			at++;
		}
	}
	return r;
}

int pf_explain_name_at(const struct pf_explain *e, uint32_t base, const char *path, struct pf_buf *out)
{
	const char *where = e->survey->bases[base].where;

	if (where[0] == '/')
		return add_uri(where, path, out);
	int r = pf_text_escape(where, strlen(where), out);
	if (r == 0 && where[0])
		r = pf_buf_addch(out, '/');
	return r < 0 ? r : pf_text_escape(path, strlen(path), out);
}

int pf_explain_name(const struct pf_explain *e, size_t file, struct pf_buf *out)
{
	const struct pf_surveyed_file *f = &e->survey->files[file];

	return pf_explain_name_at(e, f->base, f->path, out);
}

/* A file on its way to the caller, or a directory of which the files are. */
struct telling {
	const struct pf_explain *e;
	pf_kept_file_fn fn;
	void *arg;
	struct pf_store **stores; /* by base, opened when the first directory there is listed */
	size_t file;
	struct pf_why *why;
};

/* Names in a directory, to be told in order; those of directories with a slash at the end. */
struct names {
	char **v;
	size_t n;
};

static void names_release(struct names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

static int add_name(void *arg, const char *name, bool is_dir)
{
	struct names *l = arg;
	char **v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n] = NULL;
	if (asprintf(&v[l->n], "%s%s", name, is_dir ? "/" : "") < 0)
		return v[l->n] = NULL, -ENOMEM;
	l->n++;
	return 0;
}

static int cmp_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int tell(struct telling *t, const char *path, uint64_t size)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;

	int r = pf_explain_name_at(t->e, t->e->survey->files[t->file].base, path, &name);
	const char *s = r == 0 ? pf_buf_str(&name) : NULL;
	if (!s)
		return -ENOMEM;
	const struct pf_kept_file f = { .file = t->file, .name = s, .size = size };
	return t->fn(t->arg, &f);
}

static int failed(struct telling *t, int err, const char *path)
{
	char quoted[PF_QUOTE_TEXT];

	return err == -ENOMEM
		       ? err
		       : pf_why_set(t->why, err, "%s: %s", pf_text_quote(path, strlen(path), quoted), strerror(-err));
}

static int tell_dir(struct telling *t, struct pf_store *st, const char *dir, unsigned depth)
{
	_cleanup_(names_release) struct names l = { NULL };
	int r = depth == DEPTH_MAX ? 0 : pf_store_list(st, dir, add_name, &l);

	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : failed(t, r, dir);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), cmp_names);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		_cleanup_(pf_freep) char *path = NULL;
		struct pf_stat stat;
		size_t n = strlen(l.v[i]);
		bool is_dir = l.v[i][n - 1] == '/';
		if (asprintf(&path, "%s/%.*s", dir, (int)(is_dir ? n - 1 : n), l.v[i]) < 0)
			return path = NULL, -ENOMEM;
		if (is_dir) {
			r = tell_dir(t, st, path, depth + 1);
			continue;
		}
		r = pf_store_stat(st, path, &stat);
		if (r == 0)
			r = tell(t, path, stat.size);
		else
			r = r == -ENOENT ? 0 : failed(t, r, path);
	}
	return r;
}

/* The store of a base: the table's own, or one opened for it. */
static int store_of(struct telling *t, uint32_t base, struct pf_store **out)
{
	if (base == 0) {
		*out = t->e->survey->state->st;
		return 0;
	}
	int r = t->stores[base] ? 0 : pf_store_local_open(t->e->survey->bases[base].where, &t->stores[base], t->why);
	*out = t->stores[base];
	return r;
}

static int tell_file(struct telling *t, size_t file)
{
	const struct pf_surveyed_file *f = &t->e->survey->files[file];
	struct pf_store *st;

	t->file = file;
	if (!f->is_dir)
		return tell(t, f->path, f->size);
	int r = store_of(t, f->base, &st);
	return r < 0 ? r : tell_dir(t, st, f->path, 0);
}

/* A kept file and what it is called, to sort by. */
struct named {
	const struct pf_surveyed_file *f;
	size_t file;
};

/* The root first, then base by base. */
static int cmp_files(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	if (x->f->base != y->f->base)
		return x->f->base < y->f->base ? -1 : 1;
	return strcmp(x->f->path, y->f->path);
}

static void stores_free(struct telling *t)
{
	for (size_t i = 0; t->stores && i < t->e->survey->n_bases; i++)
		pf_store_free(t->stores[i]);
	free(t->stores);
}

int pf_explain_files(const struct pf_explain *e, pf_kept_file_fn fn, void *arg, struct pf_why *why)
{
	const struct pf_survey *s = e->survey;
	_cleanup_(stores_free) struct telling t = { .e = e, .fn = fn, .arg = arg, .why = why };
	_cleanup_(pf_freep) struct named *v = reallocarray(NULL, s->n_files + 1, sizeof(*v));
	size_t n = 0;
	int r = 0;

	t.stores = calloc(s->n_bases, sizeof(*t.stores));
	if (!v || !t.stores)
		return -ENOMEM;
	for (size_t i = 0; i < s->n_files; i++)
		if (pf_retention_file(e->kept, i) && s->files[i].presence != PF_MISSING)
			v[n++] = (struct named){ &s->files[i], i };
	qsort(v, n, sizeof(*v), cmp_files);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = tell_file(&t, v[i].file);
	return r;
}

/* Something refers to it: else it is only remembered. */
static bool counts(const struct pf_explain *e, size_t file)
{
	return e->survey->files[file].n_iv > 0 || pf_retention_file(e->kept, file);
}

/* The file of this name below a base, or the directory that it is in. */
static int64_t find_at(const struct pf_explain *e, uint32_t base, const char *name)
{
	_cleanup_(pf_freep) char *at = strdup(name);

	if (!at)
		return -ENOMEM;
	for (;;) {
		int64_t i = pf_file_set_find(&e->survey->state->set, base, at);
		if (i >= 0 && counts(e, (size_t)i))
			return i;
		char *slash = strrchr(at, '/');
		if (!slash)
			return -ENOENT;
		*slash = '\0';
	}
}

/* On one of the bases; `where` is its real path, or a URI. */
static int64_t find_on_base(const struct pf_explain *e, const char *where)
{
	for (uint32_t i = 1; i < e->survey->n_bases; i++) {
		const char *base = e->survey->bases[i].where;
		size_t n = strlen(base);
		if (strncmp(where, base, n) != 0 || where[n] != '/')
			continue;
		int64_t file = find_at(e, i, where + n + 1);
		if (file != -ENOENT)
			return file;
	}
	return -ENOENT;
}

/* By what it is called in our own lists. */
static int64_t find_called(const struct pf_explain *e, const char *path)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;

	for (size_t i = 0; i < e->survey->n_files; i++) {
		pf_buf_reset(&name);
		int r = counts(e, i) ? pf_explain_name(e, i, &name) : 0;
		if (r < 0)
			return r;
		if (name.len && strncmp((char *)name.data, path, name.len) == 0 &&
		    (!path[name.len] || path[name.len] == '/'))
			return (int64_t)i;
	}
	return -ENOENT;
}

int pf_explain_spelled(struct pf_store *st, const char *path, char **out)
{
	_cleanup_(pf_freep) char *rooted = NULL;

	if (path[0] != '/' && !strstr(path, "://")) {
		if (asprintf(&rooted, "/%s", path) < 0)
			return rooted = NULL, -ENOMEM;
		return pf_store_name_below("/", rooted, out);
	}
	int r = pf_store_resolve(st, path, out);
	if (r >= 0 || r == -ENOMEM)
		return r;
	/* It is not there any more: then by how it is spelled. */
	return pf_store_name_below(st->at, path, out);
}

int64_t pf_explain_find(const struct pf_explain *e, const char *path, char **name)
{
	_cleanup_(pf_freep) char *at = NULL;
	int64_t i = -ENOENT;

	*name = NULL;
	int r = pf_explain_spelled(e->survey->state->st, path, &at);
	if (r < 0)
		return r;
	if (at)
		i = r > 0 ? find_at(e, 0, at) : find_on_base(e, at);
	if (i == -ENOENT)
		i = find_called(e, path);
	if (i >= 0 || i == -ENOENT)
		*name = r > 0 ? STEAL(at) : NULL;
	return i;
}
