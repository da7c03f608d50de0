/* One head, frozen, with what requests look for in it. Counted; memory for as long as somebody holds it. */
#ifndef FS_VIEW_H
#define FS_VIEW_H

#include <pthread.h>

#include "core/branch.h"

/* A pin in a view. The id stands here too: a search through the pointers would miss the cache at each step. */
struct fs_view_entry {
	struct pf_uuid id;
	const struct pf_pin *pin;
};

struct fs_view {
	unsigned refs;
	struct pf_manifest *manifest;
	struct fs_view_entry *by_id; /* the manifest's pins, sorted */
	pthread_mutex_t head_lock;   /* of head_text */
	struct pf_buf head_text;     /* empty until asked for: it takes a walk over the fragments */
	pthread_mutex_t fri_lock;    /* of the next two */
	bool has_records;
	size_t records;		   /* in its fragment reuse index: not known until asked for */
	pthread_mutex_t pins_lock; /* of pin_text; the other one can be held for long */
	struct pf_buf *pin_text;   /* of each pin, in the manifest's order; empty until asked for */
};

int fs_view_new(struct pf_manifest *m, struct fs_view **out); /* takes a reference of its own; 0 or -ENOMEM */
struct fs_view *fs_view_ref(struct fs_view *v);
void fs_view_unref(struct fs_view *v);
void fs_view_unrefp(struct fs_view **v);

/* NULL if the head has no such pin. Valid as long as the view. */
const struct pf_pin *fs_view_pin(const struct fs_view *v, const struct pf_uuid *id);

/* Append the text of one of its pins, found in it. */
int fs_view_pin_text(struct fs_view *v, const struct pf_pin *p, struct pf_buf *out);

/* Append the text of the `head` file; `b` is the branch that the head is of. */
int fs_view_head(struct fs_view *v, struct pf_branch *b, struct pf_buf *out, struct pf_why *why);

/* How many records its fragment reuse index has; 0 if there is no such index. Errors of pf_fri_read_branch. */
int fs_view_records(struct fs_view *v, struct pf_branch *b, size_t *n, struct pf_why *why);

#endif
