#include "store.h"

#include <string.h>

/*
 * The one place that decides which names reach a backend, so that no store can be talked out of its root. One file has one
 * spelling: no empty and no `.` components either, so that names compare as strings. `.` alone is the root.
 */
static bool name_ok(const char *name)
{
	if (strcmp(name, ".") == 0)
		return true;
	for (const char *p = name;; p++) {
		size_t n = strcspn(p, "/");
		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

bool pf_stat_same(const struct pf_stat *a, const struct pf_stat *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

void pf_store_free(struct pf_store *st)
{
	if (!st)
		return;
	free(st->where);
	free(st->at);
	st->ops->free(st);
}

void pf_store_freep(struct pf_store **st)
{
	pf_store_free(*st);
}

int pf_store_open(struct pf_store *st, const char *name, struct pf_file **out)
{
	return name_ok(name) ? st->ops->open(st, name, out) : -EINVAL;
}

void pf_file_close(struct pf_file *f)
{
	if (f)
		f->store->ops->close(f);
}

void pf_file_closep(struct pf_file **f)
{
	pf_file_close(*f);
}

int pf_store_stat(struct pf_store *st, const char *name, struct pf_stat *out)
{
	return name_ok(name) ? st->ops->stat(st, name, out) : -EINVAL;
}

int pf_store_list(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg)
{
	return name_ok(dir) ? st->ops->list(st, dir, fn, arg) : -EINVAL;
}

int pf_store_scan(struct pf_store *st, const char *dir, pf_scan_fn fn, void *arg)
{
	return name_ok(dir) ? st->ops->scan(st, dir, fn, arg) : -EINVAL;
}

static int take_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	struct pf_dir_entries *l = arg;
	struct pf_dir_entry *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n] = (struct pf_dir_entry){ strdup(name), kind };
	return v[l->n].name ? (l->n++, 0) : -ENOMEM;
}

int pf_store_entries(struct pf_store *st, const char *dir, struct pf_dir_entries *out)
{
	return pf_store_scan(st, dir, take_entry, out);
}

void pf_dir_entries_release(struct pf_dir_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
}

int pf_store_create(struct pf_store *st, const char *name, struct pf_stage **out)
{
	return name_ok(name) ? st->ops->create(st, name, out) : -EINVAL;
}

int pf_stage_write(struct pf_stage *sg, const void *p, size_t n)
{
	return sg->store->ops->write(sg, p, n);
}

int pf_stage_copy(struct pf_stage *sg, struct pf_file *from, uint64_t off, uint64_t len)
{
	return sg->store->ops->copy(sg, from, off, len);
}

int pf_store_extend(struct pf_store *st, const char *name, const struct pf_stat *is, struct pf_stage **out)
{
	return name_ok(name) ? st->ops->extend(st, name, is, out) : -EINVAL;
}

int pf_stage_put(struct pf_stage *sg, uint64_t off, const void *p, size_t n)
{
	return sg->store->ops->put(sg, off, p, n);
}

int pf_stage_cut(struct pf_stage *sg, uint64_t size)
{
	return sg->store->ops->cut(sg, size);
}

int pf_stage_sync(struct pf_stage *sg)
{
	return sg->store->ops->sync(sg);
}

void pf_stage_discard(struct pf_stage *sg)
{
	if (sg)
		sg->store->ops->discard(sg);
}

void pf_stage_discardp(struct pf_stage **sg)
{
	pf_stage_discard(*sg);
}

int pf_store_link(struct pf_store *st, const char *from, const char *to)
{
	return name_ok(from) && name_ok(to) ? st->ops->link(st, from, to) : -EINVAL;
}

int pf_store_rename(struct pf_store *st, const char *from, const char *to)
{
	return name_ok(from) && name_ok(to) ? st->ops->rename(st, from, to) : -EINVAL;
}

int pf_store_unlink(struct pf_store *st, const char *name)
{
	return name_ok(name) ? st->ops->unlink(st, name) : -EINVAL;
}

int pf_store_remove(struct pf_store *st, const char *name, bool is_dir)
{
	return name_ok(name) ? st->ops->remove(st, name, is_dir) : -EINVAL;
}

int pf_store_mkdir(struct pf_store *st, const char *dir)
{
	return name_ok(dir) ? st->ops->mkdir(st, dir) : -EINVAL;
}

int pf_store_sync_dir(struct pf_store *st, const char *dir)
{
	return name_ok(dir) ? st->ops->sync_dir(st, dir) : -EINVAL;
}

int pf_store_writable(struct pf_store *st, const char *dir)
{
	return name_ok(dir) ? st->ops->writable(st, dir) : -EINVAL;
}

int pf_store_resolve(struct pf_store *st, const char *path, char **out)
{
	return st->ops->resolve(st, path, out);
}

/* Append `path` without empty and `.` components. 0 if it has `..`. */
static int clean(const char *path, struct pf_buf *out)
{
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		if (n == 2 && p[0] == '.' && p[1] == '.')
			return 0;
		bool named = n > 0 && !(n == 1 && p[0] == '.');
		if (named && (pf_buf_addch(out, '/') < 0 || pf_buf_add(out, p, n) < 0))
			return -ENOMEM;
		p += n + (p[n] == '/');
	}
	return 1;
}

int pf_store_name_below(const char *root, const char *path, char **out)
{
	_cleanup_(pf_buf_release) struct pf_buf spelled = PF_BUF_INIT;
	size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);

	int r = path[0] == '/' ? clean(path, &spelled) : 0;
	if (r <= 0)
		return r;
	const char *s = pf_buf_str(&spelled);
	if (!s)
		return -ENOMEM;
	if (strncmp(s, root, n) != 0 || (s[n] && s[n] != '/'))
		return 0;
	*out = strdup(s[n] ? s + n + 1 : ".");
	return *out ? 1 : -ENOMEM;
}

int pf_store_write_new(struct pf_store *st, const char *name, const void *p, size_t n, bool sync)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;

	int r = pf_store_create(st, name, &sg);
	if (r == 0)
		r = pf_stage_write(sg, p, n);
	if (r == 0 && sync)
		r = pf_stage_sync(sg);
	return r;
}

int pf_store_get(struct pf_store *st, const char *name, size_t max, struct pf_buf *out)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;
	int r = pf_store_open(st, name, &f);
	if (r < 0)
		return r;
	if (f->r.size > max)
		return -EFBIG;

	size_t n = (size_t)f->r.size;
	r = pf_buf_reserve(out, n);
	if (r < 0)
		return r;
	if (n == 0)
		return 0; /* an empty buffer has no memory to read into */
	r = f->r.read(&f->r, 0, out->data + out->len, n);
	if (r < 0)
		return r;
	out->len += n;
	return 0;
}
