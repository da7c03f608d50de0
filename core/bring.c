#include "bring.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "landed.h"
#include "reference.h"
#include "text.h"

void pf_bring_release(struct pf_bring *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].from);
		free(l->v[i].to);
	}
	for (size_t i = 0; i < l->n_dirs; i++) {
		free(l->dirs[i].from);
		free(l->dirs[i].name);
		free(l->dirs[i].path);
	}
	free(l->v);
	free(l->dirs);
	*l = (struct pf_bring){ 0 };
}

/* What is being planned: from `dir` into the branch `b`. */
struct plan {
	struct pf_branch *b;
	const char *dir;
	struct pf_bring *l;
	struct pf_why *why;
};

static int refuse(struct pf_why *why, int err, const char *file, const char *what)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "%s %s", pf_text_quote(file, strlen(file), quoted), what);
}

/* "cannot list "x": Permission denied" */
static int failed(struct pf_why *why, int err, const char *what, const char *file)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "cannot %s %s: %s", what, pf_text_quote(file, strlen(file), quoted),
			  strerror(-err));
}

/* 1: it is there. 0: it is not. What cannot be looked at is neither. */
static int is_there(const char *path, struct stat *st, struct pf_why *why)
{
	if (lstat(path, st) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : failed(why, -errno, "look at", path);
}

/* Are these two paths of one file one name of it, spelled in two ways? */
static int is_one_name(const char *a, const char *b, struct pf_why *why)
{
	const char *a_end = strrchr(a, '/'), *b_end = strrchr(b, '/');
	_cleanup_(pf_freep) char *a_dir = NULL, *b_dir = NULL;
	struct stat x, y;

	if (strcmp(a_end, b_end) != 0)
		return 0;
	a_dir = strndup(a, (size_t)(a_end - a));
	b_dir = strndup(b, (size_t)(b_end - b));
	if (!a_dir || !b_dir)
		return -ENOMEM;
	if (stat(a_dir, &x) < 0)
		return failed(why, -errno, "look at", a_dir);
	if (stat(b_dir, &y) < 0)
		return failed(why, -errno, "look at", b_dir);
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Where a file is now, and that it may come. 1: it is in the table alone, if perhaps by the name that was given for a scratch dataset's. */
static int look(const char *from, const char *to, struct pf_why *why)
{
	struct stat a, b;
	int there = is_there(from, &a, why), here = there < 0 ? there : is_there(to, &b, why);

	if (here < 0)
		return here;
	if (!there)
		return here ? 1 : refuse(why, -EINVAL, from, "is not there, and not in the table either");
	if (!S_ISREG(a.st_mode))
		return refuse(why, -EINVAL, from, "is not a file");
	if (here && (a.st_dev != b.st_dev || a.st_ino != b.st_ino))
		return refuse(why, -EEXIST, to, "is there already, and is another file: nothing is overwritten");
	return here ? is_one_name(from, to, why) : 0;
}

/* The file `from` as `name` of the table. 1: there is nothing to bring. */
static int add_file(const struct plan *p, const char *from, const char *name)
{
	_cleanup_(pf_freep) char *source = strdup(from), *to = pf_store_local_path(pf_branch_store(p->b), name);

	if (!source || !to)
		return -ENOMEM;
	int r = look(from, to, p->why);
	if (r != 0)
		return r;
	struct pf_bring_file *v = reallocarray(p->l->v, p->l->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	p->l->v = v;
	v[p->l->n++] = (struct pf_bring_file){ STEAL(source), STEAL(to), false };
	return 0;
}

/* The directory `name` of the table will be needed; `from`: where what comes into it lies, if that is to go. */
static int add_dir(const struct plan *p, const char *from, const char *name)
{
	struct pf_bring *l = p->l;

	for (size_t i = l->n_dirs; i-- > 0;)
		if (strcmp(l->dirs[i].name, name) == 0)
			return 0;
	_cleanup_(pf_freep) char *source = from ? strdup(from) : NULL, *to = strdup(name);
	struct pf_bring_dir *v = reallocarray(l->dirs, l->n_dirs + 1, sizeof(*v));
	if (v)
		l->dirs = v;
	if (!v || !to || (from && !source))
		return -ENOMEM;
	char *path = pf_store_local_path(pf_branch_store(p->b), name);
	if (!path)
		return -ENOMEM;
	v[l->n_dirs++] = (struct pf_bring_dir){ STEAL(source), STEAL(to), path, false };
	return 0;
}

/* All files of the directory `from`, which has no other ones in it, as the directory `name`. */
static int add_folder(const struct plan *p, const char *from, const char *name)
{
	DIR *d = opendir(from);
	struct dirent *e;

	if (!d)
		return failed(p->why, -errno, "list", from);
	int r = add_dir(p, from, name);
	while (r >= 0 && (errno = 0, e = readdir(d))) {
		_cleanup_(pf_freep) char *file = NULL, *to = NULL;
		/* Nor what somebody is still writing. */
		if (e->d_name[0] == '.')
			continue;
		if (asprintf(&file, "%s/%s", from, e->d_name) < 0)
			r = -ENOMEM, file = NULL;
		else if (asprintf(&to, "%s/%s", name, e->d_name) < 0)
			r = -ENOMEM, to = NULL;
		else
			r = add_file(p, file, to);
	}
	if (r >= 0 && errno)
		r = failed(p->why, -errno, "list", from);
	closedir(d);
	return r < 0 ? r : 0;
}

/* Blobs of a data file are in a folder of its name without the suffix. */
static int add_blobs(const struct plan *p, const char *from, const char *name)
{
	_cleanup_(pf_freep) char *folder = strdup(from), *to = strdup(name);
	struct stat st;

	if (!folder || !to)
		return -ENOMEM;
	char *dot = strrchr(folder, '.'), *end = strrchr(to, '.');
	if (!dot || !end || strchr(dot, '/'))
		return 0;
	*dot = *end = '\0';
	int r = is_there(folder, &st, p->why);
	if (r > 0 && !S_ISREG(st.st_mode))
		r = add_folder(p, folder, to);
	return r < 0 ? r : 0;
}

/* "dir/data/name", or "dir/name" if that is where it is. */
static int find_source(const char *dir, const char *name, char **out, struct pf_why *why)
{
	_cleanup_(pf_freep) char *inside = NULL, *beside = NULL;
	struct stat st;

	if (asprintf(&inside, "%s/data/%s", dir, name) < 0)
		return inside = NULL, -ENOMEM;
	if (asprintf(&beside, "%s/%s", dir, name) < 0)
		return beside = NULL, -ENOMEM;
	int r = is_there(inside, &st, why);
	bool is_beside = false;
	if (r == 0) {
		r = is_there(beside, &st, why);
		is_beside = r > 0;
	}
	if (r < 0)
		return r;
	*out = is_beside ? STEAL(beside) : STEAL(inside);
	return 0;
}

static int add_data(const struct plan *p, const struct pf_data_file *f)
{
	_cleanup_(pf_freep) char *name = NULL, *from = NULL, *folder = NULL, *to = NULL;

	if (f->has_base)
		return 0;
	if (memchr(f->path.p, '/', f->path.n))
		return pf_why_set(p->why, -EINVAL, "a data file is in a folder of its own, which is not brought");
	name = strndup((const char *)f->path.p, f->path.n);
	int r = name ? find_source(p->dir, name, &from, p->why) : -ENOMEM;
	if (r == 0 && asprintf(&folder, "%sdata", pf_branch_dir(p->b)) < 0)
		r = -ENOMEM, folder = NULL;
	if (r == 0 && asprintf(&to, "%s/%s", folder, name) < 0)
		r = -ENOMEM, to = NULL;
	if (r == 0)
		r = add_dir(p, NULL, folder);
	if (r == 0)
		r = add_file(p, from, to);
	if (r == 0)
		r = add_blobs(p, from, to);
	return r < 0 ? r : 0;
}

static int add_fragments(const struct plan *p, const struct pf_fragments *l)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++)
		for (size_t k = 0; r == 0 && k < l->v[i].n_files; k++)
			r = add_data(p, &l->v[i].files[k]);
	return r;
}

/* The data files of what is new. */
static int add_new(const struct plan *p, const struct pf_operation *o)
{
	int r = add_fragments(p, &o->added);

	for (size_t i = 0; r == 0 && i < o->n_groups; i++)
		r = add_fragments(p, &o->groups[i].to);
	for (size_t i = 0; r == 0 && i < o->n_replacements; i++)
		r = add_data(p, &o->replacements[i].file);
	return r;
}

static int put_deletion_name(const struct pf_fragment *f, struct pf_buf *out)
{
	const struct pf_deletion_file *d = &f->deletion;

	return pf_deletion_file_name(f->id, d->read_version, d->id, d->type, out);
}

/* Deletion files of fragments as they are on the copy, under the names that they have in the table. */
static int add_deletions(const struct plan *p, const struct pf_fragments *theirs, const struct pf_fragments *ours)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < theirs->n && i < ours->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf from = PF_BUF_INIT, to = PF_BUF_INIT, folder = PF_BUF_INIT;
		if (!theirs->v[i].has_deletions || theirs->v[i].deletion.has_base)
			continue;
		r = pf_buf_addf(&from, "%s/", p->dir);
		if (r == 0)
			r = put_deletion_name(&theirs->v[i], &from);
		if (r == 0)
			r = pf_buf_addf(&folder, "%s_deletions", pf_branch_dir(p->b));
		if (r == 0)
			r = pf_buf_addstr(&to, pf_branch_dir(p->b));
		if (r == 0)
			r = put_deletion_name(&ours->v[i], &to);
		if (r < 0)
			return r;
		if (!pf_buf_str(&from) || !pf_buf_str(&to) || !pf_buf_str(&folder))
			return -ENOMEM;
		r = add_dir(p, NULL, (char *)folder.data);
		if (r == 0)
			r = add_file(p, (char *)from.data, (char *)to.data);
	}
	return r < 0 ? r : 0;
}

static int add_index(const struct plan *p, const char *uuid)
{
	_cleanup_(pf_freep) char *from = NULL, *to = NULL;
	struct stat st;

	if (asprintf(&from, "%s/_indices/%s", p->dir, uuid) < 0)
		return from = NULL, -ENOMEM;
	if (asprintf(&to, "%s_indices/%s", pf_branch_dir(p->b), uuid) < 0)
		return to = NULL, -ENOMEM;
	/* Lance makes no directory for an index without files. */
	int r = is_there(from, &st, p->why);
	return r > 0 ? add_folder(p, from, to) : r;
}

static int add_indices(const struct plan *p, const struct pf_operation *o)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->new_indices.n; i++)
		if (!o->new_indices.v[i].has_base)
			r = add_index(p, o->new_indices.v[i].uuid);
	for (size_t i = 0; r == 0 && i < o->n_swaps; i++)
		r = add_index(p, o->swaps[i].to);
	return r;
}

static int link_one(struct pf_bring_file *f, struct pf_why *why)
{
	struct stat a, b;

	if (linkat(AT_FDCWD, f->from, AT_FDCWD, f->to, 0) == 0) {
		f->linked = true;
		return 0;
	}
	int err = -errno;
	/* Of an earlier run that was ended, of one that is under way, or as the copy was made. */
	if (err == -EEXIST && stat(f->from, &a) == 0 && stat(f->to, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return 0;
	if (err == -EXDEV)
		return refuse(why, err, f->from,
			      "is on another file system than the table: copy it into the table's data/ first, and "
			      "commit without --from");
	return failed(why, err, "link into the table", f->from);
}

/* All names are durable before a version has them. */
static int bring(struct pf_store *st, struct pf_bring *l, struct pf_why *why)
{
	struct pf_stat was;
	int r = 0;

	for (size_t i = 0; r == 0 && l->n && i < l->n_dirs; i++) {
		l->dirs[i].made = pf_store_stat(st, l->dirs[i].name, &was) == -ENOENT;
		r = pf_store_mkdir(st, l->dirs[i].name);
		if (r < 0)
			failed(why, r, "make", l->dirs[i].name);
	}
	for (size_t i = 0; r == 0 && i < l->n; i++)
		r = link_one(&l->v[i], why);
	for (size_t i = 0; r == 0 && l->n && i < l->n_dirs; i++) {
		r = pf_store_sync_dir(st, l->dirs[i].name);
		if (r < 0)
			failed(why, r, "sync", l->dirs[i].name);
	}
	return r;
}

static int carry_out(struct pf_branch *b, const struct pf_operation *o, struct pf_bring *l, struct pf_bring *out,
		     struct pf_why *why)
{
	int r = bring(pf_branch_store(b), l, why);

	if (r < 0) {
		pf_bring_undo(b, o, l);
		return r;
	}
	*out = *l;
	*l = (struct pf_bring){ 0 };
	return 0;
}

static int check_local(struct pf_branch *b, struct pf_why *why)
{
	return pf_branch_store(b)->at ? 0 : pf_why_set(why, -EOPNOTSUPP, "the table is not on a local file system");
}

/* `dir`, malloc'ed; where it is the table or below, past what is mounted over that. */
static char *past_mount(struct pf_store *st, const char *dir)
{
	_cleanup_(pf_freep) char *real = realpath(dir, NULL);
	size_t n = strlen(st->at);

	if (!real || strncmp(real, st->at, n) != 0 || (real[n] && real[n] != '/'))
		return strdup(dir);
	return pf_store_local_path(st, real[n] ? real + n + 1 : ".");
}

int pf_bring_in(struct pf_branch *b, const char *dir, const struct pf_operation *o, struct pf_bring *out,
		struct pf_why *why)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
	_cleanup_(pf_freep) char *own = NULL;

	int r = check_local(b, why);
	if (r == 0 && !(own = past_mount(pf_branch_store(b), dir)))
		r = -ENOMEM;
	const struct plan p = { b, own, &l, why };
	if (r == 0)
		r = add_new(&p, o);
	return r < 0 ? r : carry_out(b, o, &l, out, why);
}

int pf_bring_copied(struct pf_branch *b, struct pf_branch *copy, const struct pf_operation *theirs,
		    const struct pf_operation *ours, struct pf_bring *out, struct pf_why *why)
{
	_cleanup_(pf_bring_release) struct pf_bring l = { 0 };
	_cleanup_(pf_freep) char *dir = NULL;

	int r = check_local(b, why);
	if (r == 0)
		r = check_local(copy, why);
	if (r < 0)
		return r;
	dir = pf_store_local_path(pf_branch_store(copy), pf_branch_dir(copy));
	if (!dir)
		return -ENOMEM;
	dir[strlen(dir) - 1] = '\0'; /* the last slash */
	const struct plan p = { b, dir, &l, why };
	r = add_new(&p, ours);
	if (r == 0)
		r = add_fragments(&p, &ours->updated);
	if (r == 0)
		r = add_deletions(&p, &theirs->updated, &ours->updated);
	if (r == 0)
		r = add_deletions(&p, &theirs->added, &ours->added);
	if (r == 0)
		r = add_indices(&p, ours);
	return r < 0 ? r : carry_out(b, ours, &l, out, why);
}

/* Not if somebody else has committed the same work meanwhile, and the name in the table is its only one. */
static bool has_first_name(const struct pf_bring_file *f)
{
	struct stat a, b;

	return lstat(f->from, &a) == 0 && lstat(f->to, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* By somebody else, who found our names there and took them for good; or it cannot be told. */
static bool may_have_landed(struct pf_branch *b, const struct pf_operation *o)
{
	uint64_t read_version;

	return pf_landed_find(b, o->uuid, &read_version, NULL) != -ENOENT;
}

void pf_bring_undo(struct pf_branch *b, const struct pf_operation *o, struct pf_bring *l)
{
	bool any = false;

	for (size_t i = 0; i < l->n; i++)
		any |= l->v[i].linked;
	/* What no version names is for cleanup to collect. */
	if (any && may_have_landed(b, o))
		return;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].linked && has_first_name(&l->v[i]))
			unlinkat(AT_FDCWD, l->v[i].to, 0);
	/* One that somebody else has put something into stays. */
	for (size_t i = l->n_dirs; i-- > 0;)
		if (l->dirs[i].made)
			rmdir(l->dirs[i].path);
}

int pf_bring_keep(struct pf_branch *b, struct pf_bring *l, struct pf_why *why)
{
	struct stat st;
	size_t i = 0;

	while (i < l->n && lstat(l->v[i].to, &st) == 0)
		i++;
	int r = i < l->n ? bring(pf_branch_store(b), l, why) : 0;
	return r < 0 ? pf_why_prefix(why, r, "it is committed, but not all of its files are in the table") : 0;
}

size_t pf_bring_end(struct pf_bring *l)
{
	size_t left = 0;

	for (size_t i = 0; i < l->n; i++)
		left += unlinkat(AT_FDCWD, l->v[i].from, 0) < 0 && errno != ENOENT;
	for (size_t i = 0; i < l->n_dirs; i++)
		if (l->dirs[i].from)
			rmdir(l->dirs[i].from);
	return left;
}
