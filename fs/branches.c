#include "fs.h"

#include <string.h>

int fs_branches_init(struct fs_branches *b)
{
	*b = (struct fs_branches){ .v = NULL };
	return -pthread_mutex_init(&b->lock, NULL);
}

/* Whether it is the one whose line is its own, and not the root's. */
static bool owns_line(const struct fs_branches *l, const struct fs_branch *b)
{
	return b->number == 1 || b->line != l->v[0]->line;
}

void fs_branches_release(struct fs_branches *l)
{
	for (size_t i = l->n; i-- > 0;) {
		if (owns_line(l, l->v[i]))
			fs_line_free(l->v[i]->line);
		free(l->v[i]);
	}
	free(l->v);
	pthread_mutex_destroy(&l->lock);
	*l = (struct fs_branches){ .v = NULL };
}

int fs_branch_encode(const char *name, struct pf_buf *out)
{
	int r = 0;
	for (; *name && r == 0; name++)
		r = *name == '/' ? pf_buf_addstr(out, "%2F") : pf_buf_addch(out, *name);
	return r;
}

int fs_branch_decode(const char *file, struct pf_buf *out)
{
	int r = 0;
	while (*file && r == 0) {
		bool slash = !strncmp(file, "%2F", 3);
		if (*file == '%' && !slash)
			return -ENOENT;
		r = pf_buf_addch(out, slash ? '/' : *file);
		file += slash ? 3 : 1;
	}
	return r;
}

static bool is_called(const struct fs_branch *b, const char *name)
{
	return !b->retired && !strcmp(fs_line_name(b->line), name ? name : "main");
}

static int append(struct fs *fs, const char *name, struct fs_branch **out)
{
	struct fs_branches *l = &fs->branches;
	struct fs_branch **v = realloc(l->v, (l->n + 1) * sizeof(struct fs_branch *));
	if (!v)
		return -ENOMEM;
	l->v = v;

	struct fs_branch *b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	if (l->n > 0 && is_called(v[0], name)) {
		b->line = v[0]->line;
	} else if (fs_line_new(fs->store, &fs->opt, name, &b->line) < 0) {
		free(b);
		return -ENOMEM;
	}
	v[l->n++] = b;
	b->number = l->n;
	*out = b;
	return 0;
}

int fs_branch_intern(struct fs *fs, const char *name, struct fs_branch **out)
{
	struct fs_branches *l = &fs->branches;
	int r = 0;

	if (name && !strcmp(name, "main"))
		name = NULL;
	pthread_mutex_lock(&l->lock);
	/* The root's own entry is not shared: a directory cannot be in two places, so branches/<name> needs numbers of its own. */
	size_t i = 1;
	while (i < l->n && !is_called(l->v[i], name))
		i++;
	if (i < l->n)
		*out = l->v[i];
	else
		r = append(fs, name, out);
	pthread_mutex_unlock(&l->lock);
	return r;
}

void fs_branch_retire(struct fs *fs, const char *name)
{
	struct fs_branches *l = &fs->branches;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 1; i < l->n; i++)
		l->v[i]->retired |= is_called(l->v[i], name);
	pthread_mutex_unlock(&l->lock);
}

struct fs_branch *fs_branch_at(struct fs *fs, uint64_t number)
{
	struct fs_branches *l = &fs->branches;
	pthread_mutex_lock(&l->lock);
	struct fs_branch *b = number >= 1 && number <= l->n ? l->v[number - 1] : NULL;
	pthread_mutex_unlock(&l->lock);
	return b;
}

struct fs_branch *fs_branch_next(struct fs *fs, uint64_t *number)
{
	struct fs_branches *l = &fs->branches;
	struct fs_branch *next = NULL;

	pthread_mutex_lock(&l->lock);
	while (!next && *number < l->n) {
		struct fs_branch *b = l->v[(*number)++];
		if (!b->retired && owns_line(l, b) && fs_line_is_open(b->line))
			next = b;
	}
	pthread_mutex_unlock(&l->lock);
	return next;
}
