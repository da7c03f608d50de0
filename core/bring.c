#include "bring.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text.h"

void pf_bring_release(struct pf_bring *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].from);
		free(l->v[i].to);
	}
	free(l->v);
	*l = (struct pf_bring){ 0 };
}

static int add(struct pf_bring *l, char *from, char *to)
{
	struct pf_bring_file *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n++] = (struct pf_bring_file){ from, to, false };
	return 0;
}

/* "dir/data/name", or "dir/name" if that is where it is. */
static int find_source(const char *dir, const char *name, char **out)
{
	_cleanup_(pf_freep) char *inside = NULL, *beside = NULL;
	struct stat st;

	if (asprintf(&inside, "%s/data/%s", dir, name) < 0)
		return inside = NULL, -ENOMEM;
	if (asprintf(&beside, "%s/%s", dir, name) < 0)
		return beside = NULL, -ENOMEM;
	*out = lstat(inside, &st) < 0 && lstat(beside, &st) == 0 ? STEAL(beside) : STEAL(inside);
	return 0;
}

/* Blobs of a data file are in a folder of its name without the suffix. */
static bool has_blobs(const char *file)
{
	_cleanup_(pf_freep) char *folder = strdup(file);
	char *dot = folder ? strrchr(folder, '.') : NULL;
	struct stat st;

	if (!dot)
		return false;
	*dot = '\0';
	return stat(folder, &st) == 0 && S_ISDIR(st.st_mode);
}

static int refuse(struct pf_why *why, int err, const char *file, const char *what)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "%s %s", pf_text_quote(file, strlen(file), quoted), what);
}

/* Where a file is now, and that it may come. 1: it is in the table alone. */
static int look(const char *from, const char *to, struct pf_why *why)
{
	struct stat a, b;
	bool there = lstat(from, &a) == 0, here = lstat(to, &b) == 0;

	if (!there)
		return here ? 1 : refuse(why, -EINVAL, from, "is not there, and not in the table either");
	if (!S_ISREG(a.st_mode))
		return refuse(why, -EINVAL, from, "is not a file");
	if (here && (a.st_dev != b.st_dev || a.st_ino != b.st_ino))
		return refuse(why, -EEXIST, to, "is there already, and is another file: nothing is overwritten");
	if (has_blobs(from))
		return refuse(why, -EINVAL, from,
			      "has blobs beside it, which are not brought along: move both into the table "
			      "by hand");
	return 0;
}

static int plan(struct pf_branch *b, const char *dir, const struct pf_operation *o, struct pf_bring *l,
		struct pf_why *why)
{
	const struct pf_store *st = pf_branch_store(b);

	for (size_t i = 0; i < o->added.n; i++) {
		for (size_t k = 0; k < o->added.v[i].n_files; k++) {
			const struct pf_data_file *f = &o->added.v[i].files[k];
			_cleanup_(pf_freep) char *name = NULL, *from = NULL, *to = NULL;
			if (f->has_base)
				continue;
			if (memchr(f->path.p, '/', f->path.n))
				return pf_why_set(why, -EINVAL,
						  "a data file is in a folder of its own, which is not brought");
			name = strndup((const char *)f->path.p, f->path.n);
			int r = name ? find_source(dir, name, &from) : -ENOMEM;
			if (r == 0 && asprintf(&to, "%s/%sdata/%s", st->at, pf_branch_dir(b), name) < 0)
				r = -ENOMEM, to = NULL;
			if (r == 0)
				r = look(from, to, why);
			if (r == 0)
				r = add(l, STEAL(from), STEAL(to));
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int link_all(struct pf_bring *l, struct pf_why *why)
{
	for (size_t i = 0; i < l->n; i++) {
		struct stat a, b;
		if (linkat(AT_FDCWD, l->v[i].from, AT_FDCWD, l->v[i].to, 0) == 0) {
			l->v[i].linked = true;
			continue;
		}
		int err = -errno;
		/* Of an earlier run that was ended, or of one that is under way. */
		if (err == -EEXIST && stat(l->v[i].from, &a) == 0 && stat(l->v[i].to, &b) == 0 &&
		    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			continue;
		if (err == -EXDEV)
			return refuse(why, err, l->v[i].from,
				      "is on another file system than the table: copy it into the "
				      "table's data/ first, and commit without --from");
		return pf_why_set(why, err, "cannot link %s into the table: %s", l->v[i].from, strerror(-err));
	}
	return 0;
}

int pf_bring_in(struct pf_branch *b, const char *dir, const struct pf_operation *o, struct pf_bring *out,
		struct pf_why *why)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
	_cleanup_(pf_freep) char *data = NULL;
	struct pf_store *st = pf_branch_store(b);

	if (!st->at)
		return pf_why_set(why, -EOPNOTSUPP, "the table is not on a local file system");
	if (asprintf(&data, "%sdata", pf_branch_dir(b)) < 0)
		return data = NULL, -ENOMEM;
	int r = plan(b, dir, o, &l, why);
	if (r == 0 && l.n)
		r = pf_store_mkdir(st, data);
	if (r == 0)
		r = link_all(&l, why);
	/* Durable before a version names them. */
	if (r == 0 && l.n)
		r = pf_store_sync_dir(st, data);
	if (r < 0) {
		pf_bring_undo(&l);
		return r;
	}
	*out = l;
	l = (struct pf_bring){ 0 };
	return 0;
}

/* Not if somebody else has committed the same work meanwhile, and the name in the table is its only one. */
static bool has_first_name(const struct pf_bring_file *f)
{
	struct stat a, b;

	return lstat(f->from, &a) == 0 && lstat(f->to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

void pf_bring_undo(struct pf_bring *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].linked && has_first_name(&l->v[i]))
			unlinkat(AT_FDCWD, l->v[i].to, 0);
}

size_t pf_bring_end(struct pf_bring *l)
{
	size_t left = 0;

	for (size_t i = 0; i < l->n; i++)
		left += unlinkat(AT_FDCWD, l->v[i].from, 0) < 0 && errno != ENOENT;
	return left;
}
