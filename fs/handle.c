#include "handle.h"

struct fs_handle *fs_handle_new(struct fs *fs, const struct fs_node *n, struct fs_content *content)
{
	struct fs_handle *h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	h->refs = 1;
	h->node = *n;
	if (content) {
		h->content = *content;
		*content = (struct fs_content)FS_CONTENT_INIT;
	}
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

bool fs_handle_last(struct fs *fs, uint64_t ino, struct fs_attr *out)
{
	pthread_mutex_lock(&fs->handles_lock);
	const struct fs_handle *h = fs->handles; /* the newest first */
	while (h && h->node.ino != ino)
		h = h->next;
	if (h)
		*out = (struct fs_attr){ .size = h->content.text.len,
					 .mtime = h->content.mtime,
					 .ctime = h->content.ctime };
	pthread_mutex_unlock(&fs->handles_lock);
	return h;
}
