#include "handle.h"

struct fs_handle *fs_handle_new(struct fs *fs, const struct fs_node *n)
{
	struct fs_handle *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->refs = 1;
	h->node = *n;
	pthread_mutex_lock(&fs->handles_lock);
	h->next = fs->handles;
	h->link = &fs->handles;
	if (h->next)
		h->next->link = &h->next;
	fs->handles = h;
	pthread_mutex_unlock(&fs->handles_lock);
	return h;
}

void fs_handle_ref(struct fs_handle *h)
{
	__atomic_add_fetch(&h->refs, 1, __ATOMIC_RELAXED);
}

void fs_handle_unref(struct fs *fs, struct fs_handle *h)
{
	if (__atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	pthread_mutex_lock(&fs->handles_lock);
	*h->link = h->next;
	if (h->next)
		h->next->link = h->link;
	pthread_mutex_unlock(&fs->handles_lock);
	fs_content_release(&h->content);
	fs_names_release(&h->names);
	free(h->reason);
	free(h);
}

void fs_handles_release(struct fs *fs)
{
	while (fs->handles)
		fs_handle_unref(fs, fs->handles);
}
