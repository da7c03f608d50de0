#include "store_mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* What an inode is to a file system: a file keeps its bytes while it has a name or somebody has it open. */
struct node {
	unsigned refs;
	struct pf_buf data;
	struct pf_stat st; /* size is kept in data.len */
};

struct entry {
	char *name;
	struct node *node; /* counted */
};

/* A thread that is inside the hook, on that thread's stack. */
struct hooked {
	pthread_t thread;
	struct hooked *next;
};

struct mem {
	struct pf_store base;
	pthread_mutex_t lock; /* everything below, and all nodes */
	struct node *root;
	struct entry *entries; /* all but the root, under their full names */
	size_t n, cap;
	uint64_t last_ino;
	int64_t clock_ns; /* a tick for every change: no test depends on the real time */
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
	struct node *node; /* counted */
	char *name;
};

struct mem_stage {
	struct pf_stage base;
	struct node *node; /* counted */
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

/* Names and nodes. All of these run with the lock held. */

static struct node *node_new(struct mem *m, bool is_dir)
{
	struct node *nd = calloc(1, sizeof(*nd));
	if (!nd)
		return NULL;
	nd->refs = 1;
	m->clock_ns++;
	nd->st = (struct pf_stat){
		.dev = 1,
		.ino = ++m->last_ino,
		.mtime_ns = m->clock_ns,
		.ctime_ns = m->clock_ns,
		.is_dir = is_dir,
	};
	return nd;
}

static struct node *node_ref(struct node *nd)
{
	nd->refs++;
	return nd;
}

static void node_unref(struct node *nd)
{
	if (--nd->refs > 0)
		return;
	pf_buf_release(&nd->data);
	free(nd);
}

static void node_unrefp(struct node **nd)
{
	if (*nd)
		node_unref(*nd);
}

static void node_changed(struct mem *m, struct node *nd)
{
	nd->st.mtime_ns = nd->st.ctime_ns = ++m->clock_ns;
}

static void node_stat(const struct node *nd, struct pf_stat *out)
{
	*out = nd->st;
	out->size = nd->data.len;
}

static struct entry *find(const struct mem *m, const char *name, size_t len)
{
	for (size_t i = 0; i < m->n; i++)
		if (strlen(m->entries[i].name) == len && memcmp(m->entries[i].name, name, len) == 0)
			return &m->entries[i];
	return NULL;
}

/* The directory that holds `name`: 0, -ENOENT or -ENOTDIR, as a walk from the root would find. */
static int parent_of(const struct mem *m, const char *name, struct node **out)
{
	struct node *dir = m->root;
	for (const char *p = strchr(name, '/'); p; p = strchr(p + 1, '/')) {
		const struct entry *e = find(m, name, (size_t)(p - name));
		if (!e)
			return -ENOENT;
		if (!e->node->st.is_dir)
			return -ENOTDIR;
		dir = e->node;
	}
	*out = dir;
	return 0;
}

static int lookup(const struct mem *m, const char *name, struct node **out)
{
	if (strcmp(name, ".") == 0) {
		*out = m->root;
		return 0;
	}
	struct node *dir;
	int r = parent_of(m, name, &dir);
	if (r < 0)
		return r;
	const struct entry *e = find(m, name, strlen(name));
	if (!e)
		return -ENOENT;
	*out = e->node;
	return 0;
}

static int lookup_file(const struct mem *m, const char *name, struct node **out)
{
	struct node *nd;
	int r = lookup(m, name, &nd);
	if (r < 0)
		return r;
	if (nd->st.is_dir)
		return -EISDIR;
	*out = nd;
	return 0;
}

static int lookup_dir(const struct mem *m, const char *name)
{
	struct node *nd;
	int r = lookup(m, name, &nd);
	if (r < 0)
		return r;
	return nd->st.is_dir ? 0 : -ENOTDIR;
}

/* Give nd, one more reference to it, a name that nothing has. */
static int entry_add(struct mem *m, const char *name, struct node *nd)
{
	struct node *old, *dir;
	int r = lookup(m, name, &old);
	if (r == 0)
		return -EEXIST;
	r = parent_of(m, name, &dir);
	if (r < 0)
		return r;

	if (m->n == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 16;
		struct entry *p = reallocarray(m->entries, cap, sizeof(*p));
		if (!p)
			return -ENOMEM;
		m->entries = p;
		m->cap = cap;
	}
	char *copy = strdup(name);
	if (!copy)
		return -ENOMEM;
	m->entries[m->n++] = (struct entry){ .name = copy, .node = node_ref(nd) };
	nd->st.ctime_ns = ++m->clock_ns;
	node_changed(m, dir);
	return 0;
}

/* The same for a name that a file may have, which then loses it. */
static int entry_set(struct mem *m, const char *name, struct node *nd)
{
	struct node *old;
	int r = lookup_file(m, name, &old);
	if (r == -ENOENT)
		return entry_add(m, name, nd);
	if (r < 0)
		return r;
	find(m, name, strlen(name))->node = node_ref(nd);
	node_unref(old);
	return 0;
}

static int entry_del(struct mem *m, const char *name)
{
	struct node *nd, *dir;
	int r = lookup_file(m, name, &nd);
	if (r < 0)
		return r;
	r = parent_of(m, name, &dir);
	if (r < 0)
		return r;
	struct entry *e = find(m, name, strlen(name));
	free(e->name);
	*e = m->entries[--m->n];
	nd->st.ctime_ns = ++m->clock_ns;
	node_unref(nd);
	node_changed(m, dir);
	return 0;
}

/* The directories dir[..len] names, outermost first. */
static int make_dirs(struct mem *m, const char *dir, size_t len)
{
	for (size_t n = 0; n < len; n++) {
		if (n + 1 < len && dir[n + 1] != '/')
			continue;
		_cleanup_(pf_freep) char *part = strndup(dir, n + 1);
		if (!part)
			return -ENOMEM;
		int r = lookup_dir(m, part);
		if (r == -ENOENT) {
			_cleanup_(node_unrefp) struct node *nd = node_new(m, true);
			r = nd ? entry_add(m, part, nd) : -ENOMEM;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* The calls. */

static int read_locked(const struct node *nd, uint64_t size, uint64_t off, void *buf, size_t n)
{
	if (off > size || n > size - off)
		return -EBADMSG;
	if (n > 0) /* nothing to copy may mean nowhere to copy from */
		memcpy(buf, nd->data.data + off, n);
	return 0;
}

static int mem_read(struct pf_reader *r, uint64_t off, void *buf, size_t n)
{
	const struct mem_file *f = (struct mem_file *)r;
	struct call c;
	int res = call_begin(&c, f->base.store, "read", f->name);
	if (res == 0)
		res = read_locked(f->node, r->size, off, buf, n);
	return call_end(&c, res);
}

static int open_locked(struct mem *m, const char *name, struct mem_file *f)
{
	struct node *nd;
	int r = lookup_file(m, name, &nd);
	if (r < 0)
		return r;
	f->node = node_ref(nd);
	node_stat(nd, &f->base.st);
	f->base.r.size = f->base.st.size;
	return 0;
}

static void mem_close(struct pf_file *base)
{
	struct mem_file *f = (struct mem_file *)base;
	struct mem *m = mem_of(base->store);
	pthread_mutex_lock(&m->lock);
	node_unrefp(&f->node);
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
	struct node *nd;
	struct pf_stat found;
	int r = call_begin(&c, st, "stat", name);
	if (r == 0)
		r = lookup(c.m, name, &nd);
	if (r == 0)
		node_stat(nd, &found);
	r = call_end(&c, r);
	if (r == 0)
		*out = found;
	return r;
}

/* The entries of dir as `name NUL is_dir`, one after the other. */
static int list_locked(const struct mem *m, const char *dir, struct pf_buf *out)
{
	int r = lookup_dir(m, dir);
	size_t skip = strcmp(dir, ".") == 0 ? 0 : strlen(dir) + 1;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		const char *name = m->entries[i].name;
		if (skip && (strncmp(name, dir, skip - 1) != 0 || name[skip - 1] != '/'))
			continue;
		if (strchr(name + skip, '/'))
			continue;
		r = pf_buf_add(out, name + skip, strlen(name + skip) + 1);
		if (r == 0)
			r = pf_buf_addch(out, m->entries[i].node->st.is_dir);
	}
	return r;
}

static int mem_list(struct pf_store *st, const char *dir, pf_list_fn fn, void *arg)
{
	_cleanup_(pf_buf_release) struct pf_buf found = PF_BUF_INIT;
	struct call c;
	int r = call_begin(&c, st, "list", dir);
	if (r == 0)
		r = list_locked(c.m, dir, &found);
	r = call_end(&c, r);
	/* Unlocked, so that fn may use the store. */
	for (size_t i = 0; r == 0 && i < found.len;) {
		const char *name = (const char *)found.data + i;
		i += strlen(name) + 1;
		r = fn(arg, name, found.data[i++]);
	}
	return r;
}

static int create_locked(struct mem *m, const char *name, struct mem_stage *sg)
{
	_cleanup_(node_unrefp) struct node *nd = node_new(m, false);
	if (!nd)
		return -ENOMEM;
	int r = entry_add(m, name, nd);
	if (r == 0)
		sg->node = STEAL(nd);
	return r;
}

static void mem_discard(struct pf_stage *base)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct mem *m = mem_of(base->store);
	pthread_mutex_lock(&m->lock);
	node_unrefp(&sg->node);
	pthread_mutex_unlock(&m->lock);
	free(sg->name);
	free(sg);
}

static int mem_create(struct pf_store *st, const char *name, struct pf_stage **out)
{
	struct mem_stage *sg = calloc(1, sizeof(*sg));
	if (!sg)
		return -ENOMEM;
	sg->base.store = st;
	sg->name = strdup(name);

	struct call c;
	int r = call_begin(&c, st, "create", name);
	if (r == 0)
		r = sg->name ? create_locked(c.m, name, sg) : -ENOMEM;
	r = call_end(&c, r);
	if (r < 0)
		mem_discard(&sg->base);
	else
		*out = &sg->base;
	return r;
}

static int mem_write(struct pf_stage *base, const void *p, size_t n)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "write", sg->name);
	if (r == 0)
		r = pf_buf_add(&sg->node->data, p, n);
	if (r == 0)
		node_changed(c.m, sg->node);
	return call_end(&c, r);
}

static int copy_locked(struct mem *m, struct node *to, const struct pf_file *from, uint64_t off, uint64_t len)
{
	int r = pf_buf_reserve(&to->data, len);
	if (r < 0)
		return r;
	r = read_locked(((const struct mem_file *)from)->node, from->r.size, off, to->data.data + to->data.len, len);
	if (r < 0)
		return r;
	to->data.len += len;
	node_changed(m, to);
	return 0;
}

static int mem_copy(struct pf_stage *base, struct pf_file *from, uint64_t off, uint64_t len)
{
	struct mem_stage *sg = (struct mem_stage *)base;
	struct call c;
	int r = call_begin(&c, base->store, "copy", sg->name);
	if (r == 0)
		r = copy_locked(c.m, sg->node, from, off, len);
	return call_end(&c, r);
}

static int mem_sync(struct pf_stage *base)
{
	struct call c;
	return call_end(&c, call_begin(&c, base->store, "sync", ((struct mem_stage *)base)->name));
}

static int link_locked(struct mem *m, const char *from, const char *to)
{
	struct node *nd;
	int r = lookup(m, from, &nd);
	if (r < 0)
		return r;
	return nd->st.is_dir ? -EPERM : entry_add(m, to, nd);
}

static int mem_link(struct pf_store *st, const char *from, const char *to)
{
	struct call c;
	int r = call_begin(&c, st, "link", to);
	if (r == 0)
		r = link_locked(c.m, from, to);
	return call_end(&c, r);
}

static int rename_locked(struct mem *m, const char *from, const char *to)
{
	struct node *nd, *old;
	int r = lookup_file(m, from, &nd);
	if (r < 0)
		return r;
	if (lookup(m, to, &old) == 0 && old == nd)
		return 0; /* POSIX: two names of one file both stay */
	r = entry_set(m, to, nd);
	return r < 0 ? r : entry_del(m, from);
}

static int mem_rename(struct pf_store *st, const char *from, const char *to)
{
	struct call c;
	int r = call_begin(&c, st, "rename", to);
	if (r == 0)
		r = rename_locked(c.m, from, to);
	return call_end(&c, r);
}

static int mem_unlink(struct pf_store *st, const char *name)
{
	struct call c;
	int r = call_begin(&c, st, "unlink", name);
	if (r == 0)
		r = entry_del(c.m, name);
	return call_end(&c, r);
}

static int mem_mkdir(struct pf_store *st, const char *dir)
{
	struct call c;
	int r = call_begin(&c, st, "mkdir", dir);
	if (r == 0)
		r = make_dirs(c.m, dir, strlen(dir));
	return call_end(&c, r);
}

static int mem_sync_dir(struct pf_store *st, const char *dir)
{
	struct call c;
	int r = call_begin(&c, st, "sync_dir", dir);
	if (r == 0)
		r = lookup_dir(c.m, dir);
	return call_end(&c, r);
}

static int mem_writable(struct pf_store *st, const char *dir)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = lookup_dir(m, dir);
	pthread_mutex_unlock(&m->lock);
	return r;
}

static void mem_free(struct pf_store *st)
{
	struct mem *m = mem_of(st);
	for (size_t i = 0; i < m->n; i++) {
		free(m->entries[i].name);
		node_unref(m->entries[i].node);
	}
	free(m->entries);
	node_unrefp(&m->root);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static const struct pf_store_ops mem_ops = {
	.open = mem_open,
	.close = mem_close,
	.stat = mem_stat,
	.list = mem_list,
	.create = mem_create,
	.write = mem_write,
	.copy = mem_copy,
	.sync = mem_sync,
	.discard = mem_discard,
	.link = mem_link,
	.rename = mem_rename,
	.unlink = mem_unlink,
	.mkdir = mem_mkdir,
	.sync_dir = mem_sync_dir,
	.writable = mem_writable,
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
	m->root = node_new(m, true);
	if (!m->base.where || !m->root) {
		pf_store_free(&m->base);
		return -ENOMEM;
	}
	*out = &m->base;
	return 0;
}

static int put_locked(struct mem *m, const char *name, const void *data, size_t len)
{
	_cleanup_(node_unrefp) struct node *nd = node_new(m, false);
	if (!nd)
		return -ENOMEM;
	int r = pf_buf_add(&nd->data, data, len);
	const char *slash = strrchr(name, '/');
	if (r == 0 && slash)
		r = make_dirs(m, name, (size_t)(slash - name));
	return r < 0 ? r : entry_set(m, name, nd);
}

int pf_store_mem_put(struct pf_store *st, const char *name, const void *data, size_t len)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = put_locked(m, name, data, len);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int pf_store_mem_del(struct pf_store *st, const char *name)
{
	struct mem *m = mem_of(st);
	pthread_mutex_lock(&m->lock);
	int r = entry_del(m, name);
	pthread_mutex_unlock(&m->lock);
	return r;
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
