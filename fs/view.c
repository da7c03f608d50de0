#include "view.h"

#include <string.h>

#include "core/fri_branch.h"
#include "core/render.h"

static int by_id(const void *a, const void *b)
{
	const struct fs_view_entry *p = a, *q = b;
	return memcmp(&p->id, &q->id, sizeof(p->id));
}

int fs_view_new(struct pf_manifest *m, struct fs_view **out)
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
	pthread_mutex_init(&v->fri_lock, NULL);
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
	pthread_mutex_destroy(&v->fri_lock);
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

struct fs_view *fs_view_ref(struct fs_view *v)
{
	__atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
	return v;
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

int fs_view_head(struct fs_view *v, struct pf_branch *b, struct pf_buf *out, struct pf_why *why)
{
	int r = 0;
	pthread_mutex_lock(&v->head_lock);
	if (v->head_text.len == 0) {
		r = pf_render_head(b, v->manifest, &v->head_text, why);
		if (r < 0)
			pf_buf_reset(&v->head_text);
	}
	if (r >= 0)
		r = pf_buf_add(out, v->head_text.data, v->head_text.len);
	pthread_mutex_unlock(&v->head_lock);
	return r;
}

static int count_records(struct pf_branch *b, const struct pf_manifest *m, size_t *n, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri fri = { .records = NULL };
	int r = pf_fri_read_branch(b, m, &fri, why);
	if (r == 0)
		*n = fri.n_records;
	return r == -ENODATA ? 0 : r;
}

int fs_view_records(struct fs_view *v, struct pf_branch *b, size_t *n, struct pf_why *why)
{
	int r = 0;
	pthread_mutex_lock(&v->fri_lock);
	if (!v->has_records) {
		r = count_records(b, v->manifest, &v->records, why);
		v->has_records = r == 0;
	}
	*n = v->records;
	pthread_mutex_unlock(&v->fri_lock);
	return r;
}
