#include "gateway_node.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/manifest.h"

/* Above every kind of the tree of pins (node.h). */
#define GATE_BIT (UINT64_C(1) << 63)

struct gate_node {
	struct gate_node *next, *next_file;
	uint64_t number, lookups;
	char *path;
	uint64_t dev, ino;
	bool created;
	struct gate_view view;
	struct gate_file *open;
};

/* --- names --- */

/* Is the directory of `path`, n bytes of it, one called `folder` of main or of a branch? *dir_len: where that is. */
static bool is_folder(const char *path, size_t n, const char *folder, size_t *dir_len)
{
	size_t len = strlen(folder);

	if (n < len || memcmp(path + n - len, folder, len) != 0)
		return false;
	*dir_len = n - len;
	return n == len || (path[n - len - 1] == '/' && n - len > 6 && strncmp(path, "tree/", 5) == 0);
}

void gate_name_parse(const char *path, struct gate_name *out)
{
	const char *slash = strrchr(path, '/');

	*out = (struct gate_name){ .cls = path[0] ? GATE_OTHER : GATE_ROOT };
	if (strcmp(path, "_refs") == 0 || strncmp(path, "_refs/", 6) == 0)
		out->cls = GATE_REF;
	else if (slash && is_folder(path, (size_t)(slash - path), "_versions", &out->dir_len))
		out->cls = pf_manifest_name_parse(slash + 1, &out->version, &out->v2) ? GATE_MANIFEST : GATE_VERSIONS;
}

int gate_join(const struct gate_at *dir, const char *name, char out[PATH_MAX])
{
	/* The kernel never sends these. */
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/'))
		return -EINVAL;
	int n = snprintf(out, PATH_MAX, "%s%s%s", dir->path, dir->path[0] ? "/" : "", name);
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* --- the table --- */

int gate_nodes_init(struct gate_nodes *l)
{
	*l = (struct gate_nodes){ .n_buckets = 1024 };
	l->by_number = calloc(l->n_buckets, sizeof(*l->by_number));
	l->by_file = calloc(l->n_buckets, sizeof(*l->by_file));
	pthread_mutex_init(&l->lock, NULL);
	return l->by_number && l->by_file ? 0 : -ENOMEM;
}

/* That they are closed the kernel may say too late. */
static void release_open(struct gate_nodes *l, struct gate_file *f)
{
	for (struct gate_file *next; f; f = next) {
		next = f->next;
		gate_pass_leave(l, f);
		close(f->fd);
		fs_names_release(&f->names);
		free(f);
	}
}

void gate_nodes_release(struct gate_nodes *l)
{
	for (size_t i = 0; l->by_number && i < l->n_buckets; i++)
		for (struct gate_node *e = l->by_number[i], *next; e; e = next) {
			next = e->next;
			release_open(l, e->open);
			free(e->path);
			free(e);
		}
	release_open(l, l->root);
	gate_pass_release(l);
	free(l->by_number);
	free(l->by_file);
	pthread_mutex_destroy(&l->lock);
}

bool gate_owns(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID || (ino & GATE_BIT);
}

static uint64_t hash_of(const char *path, uint64_t dev, uint64_t ino)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ dev;

	for (; *path; path++)
		h = (h ^ (uint8_t)*path) * UINT64_C(0x100000001b3);
	return (h ^ ino) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static struct gate_node **bucket_of(struct gate_nodes *l, const struct gate_node *e)
{
	return &l->by_file[hash_of(e->path, e->dev, e->ino) & (l->n_buckets - 1)];
}

static struct gate_node *find(struct gate_nodes *l, uint64_t number)
{
	struct gate_node *e = l->by_number[number & (l->n_buckets - 1)];

	while (e && e->number != number)
		e = e->next;
	return e;
}

static void put(struct gate_nodes *l, struct gate_node *e)
{
	struct gate_node **file = bucket_of(l, e), **number = &l->by_number[e->number & (l->n_buckets - 1)];

	e->next_file = *file;
	*file = e;
	e->next = *number;
	*number = e;
}

static void take_file(struct gate_nodes *l, struct gate_node *e)
{
	struct gate_node **at = bucket_of(l, e);

	while (*at != e)
		at = &(*at)->next_file;
	*at = e->next_file;
}

/* Without memory chains get longer. */
static void grow(struct gate_nodes *l)
{
	struct gate_nodes to = { .n_buckets = l->n_buckets * 4 };

	to.by_number = calloc(to.n_buckets, sizeof(*to.by_number));
	to.by_file = calloc(to.n_buckets, sizeof(*to.by_file));
	if (!to.by_number || !to.by_file) {
		free(to.by_number);
		free(to.by_file);
		return;
	}
	for (size_t i = 0; i < l->n_buckets; i++)
		for (struct gate_node *e = l->by_number[i], *next; e; e = next) {
			next = e->next;
			put(&to, e);
		}
	free(l->by_number);
	free(l->by_file);
	l->by_number = to.by_number;
	l->by_file = to.by_file;
	l->n_buckets = to.n_buckets;
}

int gate_get(struct fs *fs, fuse_ino_t ino, struct gate_at *out)
{
	struct gate_nodes *l = &fs->gateway.nodes;
	int r = 0;

	out->number = ino;
	out->ctime = (struct timespec){ 0 };
	out->created = false;
	out->view = (struct gate_view){ .known = false };
	if (ino == FUSE_ROOT_ID) {
		out->path[0] = '\0';
		out->dev = out->ino = 0;
	} else {
		pthread_mutex_lock(&l->lock);
		const struct gate_node *e = find(l, ino);
		if (e) {
			strcpy(out->path, e->path); /* gate_join made it: it fits */
			out->dev = e->dev;
			out->ino = e->ino;
			out->created = e->created;
			out->view = e->view;
		} else {
			r = -ESTALE;
		}
		pthread_mutex_unlock(&l->lock);
	}
	if (r == 0)
		gate_name_parse(out->path, &out->name);
	return r;
}

/* Called locked. */
static struct gate_node *new_node(struct gate_nodes *l, const char *path, const struct stat *st)
{
	struct gate_node *e = calloc(1, sizeof(*e));

	if (!e || !(e->path = strdup(path))) {
		free(e);
		return NULL;
	}
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->number = GATE_BIT | ++l->last;
	if (l->n++ >= l->n_buckets)
		grow(l);
	put(l, e);
	return e;
}

/* Called locked. */
static struct gate_node *find_file(struct gate_nodes *l, const char *path, const struct stat *st)
{
	struct gate_node *e = l->by_file[hash_of(path, st->st_dev, st->st_ino) & (l->n_buckets - 1)];

	while (e && (e->ino != st->st_ino || e->dev != st->st_dev || strcmp(e->path, path) != 0))
		e = e->next_file;
	return e;
}

void gate_look(struct fs *fs, const struct stat *st, struct gate_at *out)
{
	struct gate_nodes *l = &fs->gateway.nodes;

	out->dev = st->st_dev;
	out->ino = st->st_ino;
	out->ctime = st->st_ctim;
	out->view = (struct gate_view){ .known = false };
	gate_name_parse(out->path, &out->name);
	pthread_mutex_lock(&l->lock);
	const struct gate_node *e = find_file(l, out->path, st);
	out->number = e ? e->number : 0;
	out->created = e && e->created;
	pthread_mutex_unlock(&l->lock);
}

int gate_intern(struct fs *fs, const char *path, const struct stat *st, bool created, uint64_t *number)
{
	struct gate_nodes *l = &fs->gateway.nodes;

	pthread_mutex_lock(&l->lock);
	struct gate_node *e = find_file(l, path, st);
	if (!e)
		e = new_node(l, path, st);
	if (e) {
		e->lookups++;
		e->created |= created;
		*number = e->number;
	}
	pthread_mutex_unlock(&l->lock);
	return e ? 0 : -ENOMEM;
}

void gate_forget(struct fs *fs, fuse_ino_t ino, uint64_t lookups)
{
	struct gate_nodes *l = &fs->gateway.nodes;

	if (ino == FUSE_ROOT_ID)
		return;
	pthread_mutex_lock(&l->lock);
	struct gate_node *e = find(l, ino);
	if (e && lookups < e->lookups) {
		e->lookups -= lookups;
	} else if (e) {
		struct gate_node **at = &l->by_number[e->number & (l->n_buckets - 1)];
		while (*at != e)
			at = &(*at)->next;
		*at = e->next;
		take_file(l, e);
		l->n--;
		free(e->path);
		free(e);
	}
	pthread_mutex_unlock(&l->lock);
}

int gate_moved(struct fs *fs, const struct gate_at *from, const char *to)
{
	struct gate_nodes *l = &fs->gateway.nodes;
	struct gate_name name;
	char *path = strdup(to);

	if (!path)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	struct gate_node *e = find(l, from->number);
	if (e) {
		take_file(l, e);
		free(e->path);
		e->path = STEAL(path);
		gate_name_parse(to, &name);
		/* Writes may be under way that were let pass by the old name. */
		e->created &= name.cls == from->name.cls;
		struct gate_node **at = bucket_of(l, e);
		e->next_file = *at;
		*at = e;
	}
	pthread_mutex_unlock(&l->lock);
	free(path);
	return 0;
}

void gate_set_view(struct fs *fs, fuse_ino_t ino, const struct gate_view *view)
{
	struct gate_nodes *l = &fs->gateway.nodes;

	pthread_mutex_lock(&l->lock);
	struct gate_node *e = find(l, ino);
	if (e)
		e->view = *view;
	pthread_mutex_unlock(&l->lock);
}

/* --- what is open --- */

struct gate_file *gate_file_new(struct fs *fs, fuse_ino_t ino, int fd)
{
	struct gate_nodes *l = &fs->gateway.nodes;
	struct gate_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->fd = fd;
	pthread_mutex_lock(&l->lock);
	struct gate_node *e = find(l, ino);
	f->all = e ? &e->open : ino == FUSE_ROOT_ID ? &l->root : NULL;
	if (f->all) {
		f->next = *f->all;
		f->link = f->all;
		if (f->next)
			f->next->link = &f->next;
		*f->all = f;
	}
	pthread_mutex_unlock(&l->lock);
	return f;
}

void gate_file_free(struct fs *fs, struct gate_file *f)
{
	struct gate_nodes *l = &fs->gateway.nodes;

	pthread_mutex_lock(&l->lock);
	gate_pass_leave(l, f);
	if (f->link) {
		*f->link = f->next;
		if (f->next)
			f->next->link = f->link;
	}
	pthread_mutex_unlock(&l->lock);
	close(f->fd);
	fs_names_release(&f->names);
	free(f);
}

int gate_fstat(struct fs *fs, fuse_ino_t ino, struct stat *out)
{
	struct gate_nodes *l = &fs->gateway.nodes;
	int r = -ENOENT;

	pthread_mutex_lock(&l->lock);
	const struct gate_node *e = find(l, ino);
	if (e && e->open)
		r = fstat(e->open->fd, out) < 0 ? -errno : 0;
	pthread_mutex_unlock(&l->lock);
	return r;
}

/* --- the way into the table --- */

int gate_open(struct fs *fs, const char *path, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_NOFOLLOW | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	do
		fd = syscall(SYS_openat2, fs->gateway.root, path[0] ? path : ".", &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || errno == EAGAIN)); /* EAGAIN: something was renamed on the way */
	return fd < 0 ? -errno : (int)fd;
}

int gate_open_parent(struct fs *fs, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char dir[PATH_MAX];
	size_t n = slash ? (size_t)(slash - path) : 0;

	memcpy(dir, path, n);
	dir[n] = '\0';
	*name = slash ? slash + 1 : path;
	return gate_open(fs, dir, O_PATH | O_DIRECTORY);
}

int gate_open_node(struct fs *fs, const struct gate_at *at, int flags, struct stat *st)
{
	int fd = gate_open(fs, at->path, flags);
	if (fd < 0)
		return fd;
	int r = fstat(fd, st) < 0 ? -errno : 0;
	if (r == 0 && at->number != FUSE_ROOT_ID && (st->st_dev != at->dev || st->st_ino != at->ino))
		r = -ESTALE;
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

int gate_lstat(struct fs *fs, const char *path, struct stat *out)
{
	int fd = gate_open(fs, path, O_PATH);
	if (fd == -ENOENT)
		return gate_tag_stat(fs, path, out);
	if (fd < 0)
		return fd;
	int r = fstat(fd, out) < 0 ? -errno : 0;
	close(fd);
	return r;
}
