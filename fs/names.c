#include "names.h"

#include <errno.h>
#include <string.h>

void fs_names_release(struct fs_names *l)
{
	free(l->v);
	pf_buf_release(&l->text);
	*l = (struct fs_names){ .v = NULL };
}

int fs_names_add(struct fs_names *l, uint64_t ino, mode_t type, const char *name)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct fs_name *v = reallocarray(l->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	size_t at = l->text.len;
	int r = pf_buf_add(&l->text, name, strlen(name) + 1);
	if (r == 0)
		l->v[l->n++] = (struct fs_name){ .ino = ino, .type = type, .at = at };
	return r;
}
