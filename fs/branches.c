#include "fs.h"

#include <string.h>

#include "core/render.h"

int fs_branches_init(struct fs_branches *b)
{
	*b = (struct fs_branches){ .v = NULL };
	return -pthread_mutex_init(&b->lock, NULL);
}

static void branch_free(struct fs_branch *b)
{
	fs_view_unref(b->view);
	pf_committer_free(b->committer);
	pf_branch_free(b->core);
	pthread_mutex_destroy(&b->lock);
	free(b->name);
	free(b);
}

void fs_branches_release(struct fs_branches *b)
{
	for (size_t i = 0; i < b->n; i++)
		branch_free(b->v[i]);
	free(b->v);
	pthread_mutex_destroy(&b->lock);
	*b = (struct fs_branches){ .v = NULL };
}

const char *fs_branch_name(const struct fs_branch *b)
{
	return b->name ? b->name : "main";
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
	if (name && !(b->name = strdup(name))) {
		free(b);
		return -ENOMEM;
	}
	pthread_mutex_init(&b->lock, NULL);
	b->store = fs->store;
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
	while (i < l->n && strcmp(fs_branch_name(l->v[i]), name ? name : "main") != 0)
		i++;
	if (i < l->n)
		*out = l->v[i];
	else
		r = append(fs, name, out);
	pthread_mutex_unlock(&l->lock);
	return r;
}

struct fs_branch *fs_branch_at(struct fs *fs, uint64_t number)
{
	struct fs_branches *l = &fs->branches;
	pthread_mutex_lock(&l->lock);
	struct fs_branch *b = number >= 1 && number <= l->n ? l->v[number - 1] : NULL;
	pthread_mutex_unlock(&l->lock);
	return b;
}

/* Open what core keeps for the branch, once. A branch that failed to open is tried again by the next request. */
static int branch_open(struct fs_branch *b, struct pf_why *why)
{
	int r = 0;
	pthread_mutex_lock(&b->lock);
	if (!b->core)
		r = pf_branch_open(b->store, b->name, &b->core, why);
	if (r == 0 && !b->committer)
		r = pf_committer_new(b->core, NULL, &b->committer);
	pthread_mutex_unlock(&b->lock);
	return r;
}

static int by_id(const void *a, const void *b)
{
	const struct fs_view_entry *p = a, *q = b;
	return memcmp(&p->id, &q->id, sizeof(p->id));
}

/* Takes a reference of the manifest. */
static int view_new(struct pf_manifest *m, struct fs_view **out)
{
	struct fs_view *v = calloc(1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	v->by_id = calloc(m->pins.n + 1, sizeof(*v->by_id));
	v->pin_text = calloc(m->pins.n + 1, sizeof(struct pf_buf));
	if (!v->by_id || !v->pin_text) {
		free(v->by_id);
		free(v->pin_text);
		free(v);
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->pins.n; i++)
		v->by_id[i] = (struct fs_view_entry){ m->pins.v[i].id, &m->pins.v[i] };
	qsort(v->by_id, m->pins.n, sizeof(*v->by_id), by_id);
	pthread_mutex_init(&v->head_lock, NULL);
	pthread_mutex_init(&v->pins_lock, NULL);
	v->manifest = pf_manifest_ref(m);
	v->refs = 1;
	*out = v;
	return 0;
}

void fs_view_unref(struct fs_view *v)
{
	if (!v || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	pf_buf_release(&v->head_text);
	for (size_t i = 0; i < v->manifest->pins.n; i++)
		pf_buf_release(&v->pin_text[i]);
	pthread_mutex_destroy(&v->head_lock);
	pthread_mutex_destroy(&v->pins_lock);
	free(v->pin_text);
	free(v->by_id);
	pf_manifest_unref(v->manifest);
	free(v);
}

void fs_view_unrefp(struct fs_view **v)
{
	fs_view_unref(*v);
}

static struct fs_view *view_ref(struct fs_view *v)
{
	__atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
	return v;
}

int fs_branch_view(struct fs_branch *b, struct fs_view **out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;

	int r = branch_open(b, why);
	if (r == 0)
		r = pf_branch_head(b->core, &m, why);
	if (r < 0)
		return r;

	/* The same manifest again: what was made of it holds. Which head is the newest was core's to say, just now. */
	pthread_mutex_lock(&b->lock);
	if (b->view && b->view->manifest == m)
		v = view_ref(b->view);
	pthread_mutex_unlock(&b->lock);
	if (!v) {
		r = view_new(m, &v);
		if (r < 0)
			return r;
		pthread_mutex_lock(&b->lock);
		struct fs_view *old = b->view;
		b->view = view_ref(v);
		pthread_mutex_unlock(&b->lock);
		fs_view_unref(old);
	}
	*out = STEAL(v);
	return 0;
}

const struct pf_pin *fs_view_pin(const struct fs_view *v, const struct pf_uuid *id)
{
	const struct fs_view_entry key = { .id = *id };
	const struct fs_view_entry *hit = bsearch(&key, v->by_id, v->manifest->pins.n, sizeof(key), by_id);
	return hit ? hit->pin : NULL;
}

int fs_view_pin_text(struct fs_view *v, const struct pf_pin *p, struct pf_buf *out)
{
	struct pf_buf *text = &v->pin_text[p - v->manifest->pins.v];

	pthread_mutex_lock(&v->pins_lock);
	int r = text->len == 0 ? pf_render_pin(p, text) : 0;
	if (r == 0)
		r = pf_buf_add(out, text->data, text->len);
	pthread_mutex_unlock(&v->pins_lock);
	return r;
}

int fs_view_head(struct fs_branch *b, struct fs_view *v, struct pf_buf *out, struct pf_why *why)
{
	int r = 0;
	pthread_mutex_lock(&v->head_lock);
	if (v->head_text.len == 0) {
		r = pf_render_head(b->core, v->manifest, &v->head_text, why);
		if (r < 0)
			pf_buf_reset(&v->head_text);
	}
	if (r >= 0)
		r = pf_buf_add(out, v->head_text.data, v->head_text.len);
	pthread_mutex_unlock(&v->head_lock);
	return r;
}

int fs_branch_commit(struct fs_branch *b, const struct pf_op *op, struct pf_answer *answer)
{
	answer->err = branch_open(b, &answer->why);
	return answer->err < 0 ? answer->err : pf_commit(b->committer, op, answer);
}
