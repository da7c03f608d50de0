#include "ramfs.h"

#include <string.h>

static struct pf_inode *inode_new(struct pf_ramfs *fs, bool is_dir)
{
	struct pf_inode *ino = calloc(1, sizeof(*ino));
	if (!ino)
		return NULL;
	ino->refs = 1;
	fs->clock_ns += PF_RAMFS_TICK_NS;
	ino->st = (struct pf_stat){
		.dev = 1,
		.ino = ++fs->last_ino,
		.mtime_ns = fs->clock_ns,
		.ctime_ns = fs->clock_ns,
		.is_dir = is_dir,
	};
	return ino;
}

struct pf_inode *pf_inode_ref(struct pf_inode *ino)
{
	ino->refs++;
	return ino;
}

void pf_inode_unref(struct pf_inode *ino)
{
	if (--ino->refs > 0)
		return;
	pf_buf_release(&ino->data);
	free(ino);
}

void pf_inode_unrefp(struct pf_inode **ino)
{
	if (*ino)
		pf_inode_unref(*ino);
}

int pf_ramfs_init(struct pf_ramfs *fs)
{
	*fs = (struct pf_ramfs){ 0 };
	fs->root = inode_new(fs, true);
	return fs->root ? 0 : -ENOMEM;
}

void pf_ramfs_release(struct pf_ramfs *fs)
{
	for (size_t i = 0; i < fs->n; i++) {
		free(fs->entries[i].name);
		pf_inode_unref(fs->entries[i].inode);
	}
	free(fs->entries);
	pf_inode_unrefp(&fs->root);
	*fs = (struct pf_ramfs){ 0 };
}

static void changed(struct pf_ramfs *fs, struct pf_inode *ino)
{
	ino->st.mtime_ns = ino->st.ctime_ns = fs->clock_ns += PF_RAMFS_TICK_NS;
}

void pf_inode_stat(const struct pf_inode *ino, struct pf_stat *out)
{
	*out = ino->st;
	out->size = ino->data.len;
}

static uint64_t hash_of(const char *name, size_t len)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * 1099511628211u;
	return h;
}

/* Where a name with this hash is, or belongs. */
static size_t place_of(const struct pf_ramfs *fs, uint64_t hash)
{
	size_t lo = 0, hi = fs->n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (fs->entries[mid].hash < hash)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct pf_ramfs_entry *find(const struct pf_ramfs *fs, const char *name, size_t len)
{
	uint64_t hash = hash_of(name, len);
	for (size_t i = place_of(fs, hash); i < fs->n && fs->entries[i].hash == hash; i++)
		if (strncmp(fs->entries[i].name, name, len) == 0 && !fs->entries[i].name[len])
			return &fs->entries[i];
	return NULL;
}

/* The directory that holds `name`: 0, -ENOENT or -ENOTDIR, as a walk from the root would find. */
static int parent_of(const struct pf_ramfs *fs, const char *name, struct pf_inode **out)
{
	struct pf_inode *dir = fs->root;
	for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
		const struct pf_ramfs_entry *e = find(fs, name, (size_t)(p - name));
		if (!e)
			return -ENOENT;
		if (!e->inode->st.is_dir)
			return -ENOTDIR;
		dir = e->inode;
	}
	*out = dir;
	return 0;
}

int pf_ramfs_lookup(const struct pf_ramfs *fs, const char *name, struct pf_inode **out)
{
	if (strcmp(name, ".") == 0) {
		*out = fs->root;
		return 0;
	}
	struct pf_inode *dir;
	int r = parent_of(fs, name, &dir);
	if (r < 0)
		return r;
	const struct pf_ramfs_entry *e = find(fs, name, strlen(name));
	if (!e)
		return -ENOENT;
	*out = e->inode;
	return 0;
}

int pf_ramfs_file(const struct pf_ramfs *fs, const char *name, struct pf_inode **out)
{
	struct pf_inode *ino;
	int r = pf_ramfs_lookup(fs, name, &ino);
	if (r < 0)
		return r;
	if (ino->st.is_dir)
		return -EISDIR;
	*out = ino;
	return 0;
}

int pf_ramfs_dir(const struct pf_ramfs *fs, const char *name)
{
	struct pf_inode *ino;
	int r = pf_ramfs_lookup(fs, name, &ino);
	if (r < 0)
		return r;
	return ino->st.is_dir ? 0 : -ENOTDIR;
}

/* Give ino, one more reference to it, a name that nothing has. */
static int entry_add(struct pf_ramfs *fs, const char *name, struct pf_inode *ino)
{
	struct pf_inode *old, *dir;
	int r = pf_ramfs_lookup(fs, name, &old);
	if (r == 0)
		return -EEXIST;
	r = parent_of(fs, name, &dir);
	if (r < 0)
		return r;

	if (fs->n == fs->cap) {
		size_t cap = fs->cap ? 2 * fs->cap : 16;
		struct pf_ramfs_entry *p = reallocarray(fs->entries, cap, sizeof(*p));
		if (!p)
			return -ENOMEM;
		fs->entries = p;
		fs->cap = cap;
	}
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	uint64_t hash = hash_of(name, strlen(name));
	struct pf_ramfs_entry *e = fs->entries + place_of(fs, hash);
	memmove(e + 1, e, (size_t)(fs->entries + fs->n++ - e) * sizeof(*e));
	*e = (struct pf_ramfs_entry){ .hash = hash, .name = copy, .inode = pf_inode_ref(ino) };
	/* One change of both, as on a disk. */
	changed(fs, dir);
	ino->st.ctime_ns = fs->clock_ns;
	return 0;
}

/* The same for a name that a file may have, which then loses it. */
static int entry_set(struct pf_ramfs *fs, const char *name, struct pf_inode *ino)
{
	struct pf_inode *old;
	int r = pf_ramfs_file(fs, name, &old);
	if (r == -ENOENT)
		return entry_add(fs, name, ino);
	if (r < 0)
		return r;
	find(fs, name, strlen(name))->inode = pf_inode_ref(ino);
	pf_inode_unref(old);
	return 0;
}

/* Take its name from ino, which has it. */
static int entry_remove(struct pf_ramfs *fs, const char *name, struct pf_inode *ino)
{
	struct pf_inode *dir;
	int r = parent_of(fs, name, &dir);
	if (r < 0)
		return r;
	struct pf_ramfs_entry *e = find(fs, name, strlen(name));
	free(e->name);
	memmove(e, e + 1, (size_t)(fs->entries + --fs->n - e) * sizeof(*e));
	ino->st.ctime_ns = fs->clock_ns += PF_RAMFS_TICK_NS;
	pf_inode_unref(ino);
	changed(fs, dir);
	return 0;
}

int pf_ramfs_unlink(struct pf_ramfs *fs, const char *name)
{
	struct pf_inode *ino;
	int r = pf_ramfs_file(fs, name, &ino);
	return r < 0 ? r : entry_remove(fs, name, ino);
}

int pf_ramfs_rmdir(struct pf_ramfs *fs, const char *dir)
{
	struct pf_inode *ino;
	size_t len = strlen(dir);
	int r = pf_ramfs_lookup(fs, dir, &ino);
	if (r < 0)
		return r;
	if (!ino->st.is_dir)
		return -ENOTDIR;
	for (size_t i = 0; i < fs->n; i++)
		if (strncmp(fs->entries[i].name, dir, len) == 0 && fs->entries[i].name[len] == '/')
			return -ENOTEMPTY;
	return entry_remove(fs, dir, ino);
}

/* The directories dir[..len] names, outermost first. */
static int make_dirs(struct pf_ramfs *fs, const char *dir, size_t len)
{
	for (size_t n = 0; n < len; n++) {
		if (n + 1 < len && dir[n + 1] != '/')
			continue;
		_cleanup_(pf_freep) char *part = strndup(dir, n + 1);
		if (!part)
			return -ENOMEM;
		int r = pf_ramfs_dir(fs, part);
		if (r == -ENOENT) {
			_cleanup_(pf_inode_unrefp) struct pf_inode *ino = inode_new(fs, true);
			r = ino ? entry_add(fs, part, ino) : -ENOMEM;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int pf_ramfs_list(const struct pf_ramfs *fs, const char *dir, struct pf_buf *out)
{
	int r = pf_ramfs_dir(fs, dir);
	size_t skip = strcmp(dir, ".") == 0 ? 0 : strlen(dir) + 1;
	for (size_t i = 0; r == 0 && i < fs->n; i++) {
		const char *name = fs->entries[i].name;
		if (skip && (strncmp(name, dir, skip - 1) != 0 || name[skip - 1] != '/'))
			continue;
		if (strchr(name + skip, '/'))
			continue;
		r = pf_buf_add(out, name + skip, strlen(name + skip) + 1);
		if (r == 0)
			r = pf_buf_addch(out, fs->entries[i].inode->st.is_dir);
	}
	return r;
}

int pf_ramfs_create(struct pf_ramfs *fs, const char *name, struct pf_inode **out)
{
	_cleanup_(pf_inode_unrefp) struct pf_inode *ino = inode_new(fs, false);
	int r = ino ? entry_add(fs, name, ino) : -ENOMEM;
	if (r == 0)
		*out = STEAL(ino);
	return r;
}

int pf_ramfs_append(struct pf_ramfs *fs, struct pf_inode *ino, const void *p, size_t n)
{
	int r = pf_buf_add(&ino->data, p, n);
	if (r == 0)
		changed(fs, ino);
	return r;
}

int pf_ramfs_write(struct pf_ramfs *fs, struct pf_inode *ino, uint64_t off, const void *p, size_t n)
{
	size_t over = ino->data.len - off < n ? (size_t)(ino->data.len - off) : n;
	int r = pf_buf_add(&ino->data, (const uint8_t *)p + over, n - over);

	if (r < 0)
		return r;
	if (over)
		memcpy(ino->data.data + off, p, over);
	changed(fs, ino);
	return 0;
}

void pf_ramfs_cut(struct pf_ramfs *fs, struct pf_inode *ino, uint64_t size)
{
	ino->data.len = (size_t)size;
	changed(fs, ino);
}

int pf_ramfs_put(struct pf_ramfs *fs, const char *name, const void *p, size_t n)
{
	_cleanup_(pf_inode_unrefp) struct pf_inode *ino = inode_new(fs, false);
	int r = ino ? pf_buf_add(&ino->data, p, n) : -ENOMEM;
	const char *slash = strrchr(name, '/');
	if (r == 0 && slash)
		r = make_dirs(fs, name, (size_t)(slash - name));
	return r < 0 ? r : entry_set(fs, name, ino);
}

int pf_ramfs_mkdir(struct pf_ramfs *fs, const char *dir)
{
	return make_dirs(fs, dir, strlen(dir));
}

int pf_ramfs_link(struct pf_ramfs *fs, const char *from, const char *to)
{
	struct pf_inode *ino;
	int r = pf_ramfs_lookup(fs, from, &ino);
	if (r < 0)
		return r;
	return ino->st.is_dir ? -EPERM : entry_add(fs, to, ino);
}

int pf_ramfs_rename(struct pf_ramfs *fs, const char *from, const char *to)
{
	struct pf_inode *ino, *old;
	int r = pf_ramfs_file(fs, from, &ino);
	if (r < 0)
		return r;
	if (pf_ramfs_lookup(fs, to, &old) == 0 && old == ino)
		return 0; /* POSIX: two names of one file both stay */
	r = entry_set(fs, to, ino);
	return r < 0 ? r : pf_ramfs_unlink(fs, from);
}
