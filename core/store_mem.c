#include "store_mem.h"
#include "ramfs.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A thread that is inside the hook, on that thread's stack. */
struct hooked {
	pthread_t thread;
	struct hooked *next;
};

struct mem {
	struct pf_store base;
	pthread_mutex_t lock; /* everything below, and all inodes */
	struct pf_ramfs fs;
	atomic_uint calls;
	unsigned fault_in; /* the call to fail, counted from now; 0: none */
	enum pf_fault fault_kind;
	int fault_err;
	bool fault_forever;
	pf_store_mem_hook hook;
	void *hook_arg;
	struct hooked *hooked;
};

/* The bases stay first, as in store_local.c. */
struct mem_file {
	struct pf_file base;
	struct pf_inode *inode; /* counted */
	char *name;
};

struct mem_stage {
	struct pf_stage base;
	struct pf_inode *inode; /* counted */
	char *name;
};

static struct mem *mem_of(struct pf_store *st)
{
	return (struct mem *)st;
}

/*
 * The frame of every counted call: hook, count, lock, fault. begin returns the error of a fault before the call; end turns the
 * result r into the one to report and unlocks.
 */
struct call {
	struct mem *m;
	int after; /* the error of a fault after the call, or 0 */
};

static void run_hook(struct mem *m, const char *op, const char *name)
{
	struct hooked self = { .thread = pthread_self(), .next = m->hooked };
	pf_store_mem_hook hook = m->hook;
	void *arg = m->hook_arg;

	m->hooked = &self;
	pthread_mutex_unlock(&m->lock);
	hook(arg, &m->base, op, name);
	pthread_mutex_lock(&m->lock);
	struct hooked **p = &m->hooked;
	while (*p != &self)
		p = &(*p)->next;
	*p = self.next;
}

static bool in_hook(const struct mem *m)
{
	for (const struct hooked *h = m->hooked; h; h = h->next)
		if (pthread_equal(h->thread, pthread_self()))
			return true;
	return false;
}

static int call_begin(struct call *c, struct pf_store *st, const char *op, const char *name)
{
	struct mem *m = mem_of(st);
	*c = (struct call){ .m = m };
	pthread_mutex_lock(&m->lock);
	if (in_hook(m))
		return 0;
	if (m->hook)
		run_hook(m, op, name);

	m->calls++;
	if (m->fault_in == 0 || --m->fault_in > 0)
		return 0;
	enum pf_fault kind = m->fault_kind;
	if (m->fault_forever) {
		m->fault_in = 1;
		m->fault_kind = PF_FAULT_BEFORE; /* a disk that is gone does nothing more */
	}
	if (kind == PF_FAULT_BEFORE)
		return m->fault_err;
	c->after = m->fault_err;
	return 0;
}

static int call_end(struct call *c, int r)
{
	pthread_mutex_unlock(&c->m->lock);
	return c->after ? c->after : r;
}

/* The n bytes at off, or NULL if the file had no such bytes when it was opened. */
static const uint8_t *bytes_at(const struct mem_file *f, uint64_t off, uint64_t n)
{
	const struct pf_buf *data = &f->inode->data;
	if (off > f->base.r.size || n > f->base.r.size - off)
		return NULL;
	return n > 0 ? data->data + off : (const uint8_t *)"";
}

static int mem_read(struct pf_reader *r, uint64_t off, void *buf, size_t n)
{
	const struct mem_file *f = (struct mem_file *)r;
	struct call c;
	int res = call_begin(&c, f->base.store, "read", f->name);
	if (res == 0) {
		const uint8_t *p = bytes_at(f, off, n);
		if (p)
			memcpy(buf, p, n);
		else
			res = -EBADMSG;
	}
	return call_end(&c, res);
}

static int open_locked(struct mem *m, const char *name, struct mem_file *f)
{
	struct pf_inode *ino;
	int r = pf_ramfs_file(&m->fs, name, &ino);
	if (r < 0)
		return r;
	f->inode = pf_inode_ref(ino);
	pf_inode_stat(ino, &f->base.st);
	f->base.r.size = f->base.st.size;
	return 0;
}

static void mem_close(struct pf_file *base)
{
	struct mem_file *f = (struct mem_file *)base;
	struct mem *m = mem_of(base->store);
	pthread_mutex_lock(&m->lock);
	pf_inode_unrefp(&f->inode);
	pthread_mutex_unlock(&m->lock);
	free(f->name);
	free(f);
}

static int mem_open(struct pf_store *st, const char *name, struct pf_file **out)
{
	struct mem_file *f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->base.store = st;
	f->base.r.read = mem_read;
	f->name = strdup(name);

	struct call c;
	int r = call_begin(&c, st, "open", name);
	if (r == 0)
		r = f->name ? open_locked(c.m, name, f) : -ENOMEM;
	r = call_end(&c, r);
	if (r < 0)
		mem_close(&f->base);
	else
		*out = &f->base;
	return r;
}

static int mem_stat(struct pf_store *st, const char *name, struct pf_stat *out)
{
	struct call c;
	struct pf_inode *ino;
	struct pf_stat found;
	int r = call_begin(&c, st, "stat", name);
	if (r == 0)
		r = pf_ramfs_lookup(&c.m->fs, name, &ino);
	if (r == 0)
		pf_inode_stat(ino, &found);
	r = call_end(&c, r);
	if (r == 0)
		*out = found;
	return r;
}

static int mem_list(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg)
{
	_cleanup_(pf_buf_release) struct pf_buf found = PF_BUF_INIT;
	struct call c;
	int r = call_begin(&c, st, "list", dir);
	if (r == 0)
		r = pf_ramfs_list(&c.m->fs, dir, &found);
	r = call_end(&c, r);
	/* Unlocked, so that fn may use the store. */
	for (size_t i = 0; r == 0 && i < found.len;) {
		const char *name = (const char *)found.data + i;
		i += strlen(name) + 1;
		r = fn(arg, name, found.data[i++]);
	}
	return r;
}

static int mem_scan(struct pf_store *st, const char *dir, pf_scan_fn fn, void *arg)
{
	_cleanup_(pf_buf_release) struct pf_buf found = PF_BUF_INIT;
	struct mem *m = mem_of(st);
	struct call c;
	int r = call_begin(&c, st, "scan", dir);
	if (r == 0)
		r = pf_ramfs_list(&c.m->fs, dir, &found);
	r = call_end(&c, r);
	for (size_t i = 0; r == 0 && i < found.len;) {
		_cleanup_(pf_freep) char *path = NULL;
		const char *name = (const char *)found.data + i;
		struct pf_inode *ino;
		struct pf_stat sb;
		i += strlen(name) + 2;
		if (asprintf(&path, "%s%s%s", strcmp(dir, ".") == 0 ? "" : dir, strcmp(dir, ".") == 0 ? "" : "/",
			     name) < 0)
			return path = NULL, -ENOMEM;
		pthread_mutex_lock(&m->lock);
		int gone = pf_ramfs_lookup(&m->fs, path, &ino);
		if (!gone)
			pf_inode_stat(ino, &sb);
		pthread_mutex_unlock(&m->lock);
		if (!gone)
			r = fn(arg, name, sb.is_dir ? PF_ENTRY_DIR : PF_ENTRY_FILE, &sb);
	}
	return r;
}

static void mem_discard(struct pf_stage *base)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct mem *m = mem_of(base->store);
	pthread_mutex_lock(&m->lock);
	pf_inode_unrefp(&sg->inode);
	pthread_mutex_unlock(&m->lock);
	free(sg->name);
	free(sg);
}

static struct mem_stage *stage_new(struct pf_store *st, const char *name)
{
	struct mem_stage *sg = calloc(1, sizeof(*sg));
	if (!sg || !(sg->name = strdup(name))) {
		free(sg);
		return NULL;
	}
	sg->base.store = st;
	return sg;
}

/* The stage is there if the call succeeded. */
static int stage_end(struct call *c, int r, struct mem_stage *sg, struct pf_stage **out)
{
	r = call_end(c, r);
	if (r < 0)
		mem_discard(&sg->base);
	else
		*out = &sg->base;
	return r;
}

static int mem_create(struct pf_store *st, const char *name, struct pf_stage **out)
{
	struct mem_stage *sg = stage_new(st, name);
	if (!sg)
		return -ENOMEM;

	struct call c;
	int r = call_begin(&c, st, "create", name);
	if (r == 0)
		r = pf_ramfs_create(&c.m->fs, name, &sg->inode);
	return stage_end(&c, r, sg, out);
}

static int extend_locked(struct mem *m, const char *name, const struct pf_stat *is, struct mem_stage *sg)
{
	struct pf_inode *ino;
	struct pf_stat found;
	int r = pf_ramfs_file(&m->fs, name, &ino);
	if (r < 0)
		return r;
	pf_inode_stat(ino, &found);
	if (!pf_stat_same(&found, is))
		return -ESTALE;
	sg->inode = pf_inode_ref(ino);
	return 0;
}

static int mem_extend(struct pf_store *st, const char *name, const struct pf_stat *is, struct pf_stage **out)
{
	struct mem_stage *sg = stage_new(st, name);
	if (!sg)
		return -ENOMEM;

	struct call c;
	int r = call_begin(&c, st, "extend", name);
	if (r == 0)
		r = extend_locked(c.m, name, is, sg);
	return stage_end(&c, r, sg, out);
}

static int mem_put(struct pf_stage *base, uint64_t off, const void *p, size_t n)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "put", sg->name);
	if (r == 0)
		r = off > sg->inode->data.len ? -EINVAL : pf_ramfs_write(&c.m->fs, sg->inode, off, p, n);
	return call_end(&c, r);
}

static int mem_cut(struct pf_stage *base, uint64_t size)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "cut", sg->name);
	if (r == 0 && size > sg->inode->data.len)
		r = -EINVAL;
	else if (r == 0)
		pf_ramfs_cut(&c.m->fs, sg->inode, size);
	return call_end(&c, r);
}

static int mem_write(struct pf_stage *base, const void *p, size_t n)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "write", sg->name);
	if (r == 0)
		r = pf_ramfs_append(&c.m->fs, sg->inode, p, n);
	return call_end(&c, r);
}

static int mem_copy(struct pf_stage *base, struct pf_file *from, uint64_t off, uint64_t len)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "copy", sg->name);
	if (r == 0) {
		const uint8_t *p = bytes_at((const struct mem_file *)from, off, len);
		r = p ? pf_ramfs_append(&c.m->fs, sg->inode, p, len) : -EBADMSG;
	}
	return call_end(&c, r);
}

static int mem_sync(struct pf_stage *base)
{
	struct call c;
	return call_end(&c, call_begin(&c, base->store, "sync", ((struct mem_stage *)base)->name));
}

static int mem_link(struct pf_store *st, const char *from, const char *to)
{
	struct call c;
	int r = call_begin(&c, st, "link", to);
	if (r == 0)
		r = pf_ramfs_link(&c.m->fs, from, to);
	return call_end(&c, r);
}

static int mem_rename(struct pf_store *st, const char *from, const char *to)
{
	struct call c;
	int r = call_begin(&c, st, "rename", to);
	if (r == 0)
		r = pf_ramfs_rename(&c.m->fs, from, to);
	return call_end(&c, r);
}

static int mem_unlink(struct pf_store *st, const char *name)
{
	struct call c;
	int r = call_begin(&c, st, "unlink", name);
	if (r == 0)
		r = pf_ramfs_unlink(&c.m->fs, name);
	return call_end(&c, r);
}

static int mem_remove(struct pf_store *st, const char *name, bool is_dir)
{
	struct call c;
	int r = call_begin(&c, st, "remove", name);
	if (r == 0)
		r = is_dir ? pf_ramfs_rmdir(&c.m->fs, name) : pf_ramfs_unlink(&c.m->fs, name);
	return call_end(&c, r);
}

static int mem_mkdir(struct pf_store *st, const char *dir)
{
	struct call c;
	int r = call_begin(&c, st, "mkdir", dir);
	if (r == 0)
		r = pf_ramfs_mkdir(&c.m->fs, dir);
	return call_end(&c, r);
}

static int mem_sync_dir(struct pf_store *st, const char *dir)
{
	struct call c;
	int r = call_begin(&c, st, "sync_dir", dir);
	if (r == 0)
		r = pf_ramfs_dir(&c.m->fs, dir);
	return call_end(&c, r);
}

static int mem_writable(struct pf_store *st, const char *dir)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = pf_ramfs_dir(&m->fs, dir);
	pthread_mutex_unlock(&m->lock);
	return r;
}

static int mem_resolve(struct pf_store *st, const char *path, char **out)
{
	if (path[0] != '/' && !strstr(path, "://"))
		return -EINVAL;
	int r = pf_store_name_below(st->at, path, out);
	if (r != 0)
		return r;
	if (strncmp(path, PF_STORE_MEM_GONE, strlen(PF_STORE_MEM_GONE)) == 0)
		return -ENOENT;
	*out = strdup(path);
	return *out ? 0 : -ENOMEM;
}

static void mem_free(struct pf_store *st)
{
	struct mem *m = mem_of(st);
	pf_ramfs_release(&m->fs);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static const struct pf_store_ops mem_ops = {
	.open = mem_open,
	.close = mem_close,
	.stat = mem_stat,
	.list = mem_list,
	.scan = mem_scan,
	.create = mem_create,
	.write = mem_write,
	.copy = mem_copy,
	.extend = mem_extend,
	.put = mem_put,
	.cut = mem_cut,
	.sync = mem_sync,
	.discard = mem_discard,
	.link = mem_link,
	.rename = mem_rename,
	.unlink = mem_unlink,
	.remove = mem_remove,
	.mkdir = mem_mkdir,
	.sync_dir = mem_sync_dir,
	.writable = mem_writable,
	.resolve = mem_resolve,
	.free = mem_free,
};

int pf_store_mem_new(struct pf_store **out)
{
	struct mem *m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	pthread_mutex_init(&m->lock, NULL);
	m->base.ops = &mem_ops;
	m->base.where = strdup("memory");
	m->base.at = strdup("/memory");
	if (!m->base.where || !m->base.at || pf_ramfs_init(&m->fs) < 0) {
		pf_store_free(&m->base);
		return -ENOMEM;
	}
	*out = &m->base;
	return 0;
}

int pf_store_mem_put(struct pf_store *st, const char *name, const void *data, size_t len)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = pf_ramfs_put(&m->fs, name, data, len);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int pf_store_mem_del(struct pf_store *st, const char *name)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = pf_ramfs_unlink(&m->fs, name);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int pf_store_mem_set_mtime(struct pf_store *st, const char *name, int64_t mtime_ns)
{
	struct mem *m = mem_of(st);
	struct pf_inode *ino;
	pthread_mutex_lock(&m->lock);
	int r = pf_ramfs_lookup(&m->fs, name, &ino);
	if (r == 0)
		ino->st.mtime_ns = mtime_ns;
	pthread_mutex_unlock(&m->lock);
	return r;
}

void pf_store_mem_set_clock(struct pf_store *st, int64_t by_ns)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	m->fs.clock_ns += by_ns;
	pthread_mutex_unlock(&m->lock);
}

void pf_store_mem_fault(struct pf_store *st, unsigned nth, enum pf_fault kind, int err, bool forever)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	m->fault_in = kind == PF_FAULT_NONE ? 0 : nth;
	m->fault_kind = kind;
	m->fault_err = err;
	m->fault_forever = forever;
	pthread_mutex_unlock(&m->lock);
}

unsigned pf_store_mem_calls(const struct pf_store *st)
{
	return ((const struct mem *)st)->calls;
}

void pf_store_mem_set_hook(struct pf_store *st, pf_store_mem_hook hook, void *arg)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	m->hook = hook;
	m->hook_arg = arg;
	pthread_mutex_unlock(&m->lock);
}
