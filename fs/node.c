#include "fs.h"

#include <string.h>

#define KIND_SHIFT 56
#define OBJECT	   ((UINT64_C(1) << KIND_SHIFT) - 1)

/* One that the kernel knows. */
struct fs_object {
	struct fs_object *next;
	struct fs_node node;
	uint64_t lookups;
};

int fs_objects_init(struct fs_objects *o)
{
	*o = (struct fs_objects){ .n_buckets = 64 };
	o->bucket = calloc(o->n_buckets, sizeof(struct fs_object *));
	return o->bucket ? -pthread_mutex_init(&o->lock, NULL) : -ENOMEM;
}

/* The kernel need not have forgotten anything by now. */
void fs_objects_release(struct fs_objects *o)
{
	for (size_t i = 0; i < o->n_buckets; i++)
		for (struct fs_object *e = o->bucket[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(o->bucket);
	pthread_mutex_destroy(&o->lock);
	*o = (struct fs_objects){ .bucket = NULL };
}

bool fs_kind_is_object(enum fs_kind kind)
{
	return kind == K_PIN || kind == K_SNAPSHOT || kind == K_RECORD;
}

/* FNV-1a: ids are random already, and whoever makes them collide on purpose meets the probing. */
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	for (const uint8_t *p = data; len > 0; len--, p++)
		h = (h ^ *p) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t first_ino(const struct fs_node *n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n->branch->number;

	h = n->kind == K_PIN ? hash(h, &n->id, sizeof(n->id)) : hash(h, &n->number, sizeof(n->number));
	return (uint64_t)n->kind << KIND_SHIFT | ((h ^ h >> KIND_SHIFT) & OBJECT);
}

static bool is_same(const struct fs_node *a, const struct fs_node *b)
{
	return a->branch == b->branch && pf_uuid_eq(&a->id, &b->id) && a->number == b->number;
}

static struct fs_object **slot(struct fs_objects *o, uint64_t ino)
{
	return &o->bucket[ino & (o->n_buckets - 1)];
}

static struct fs_object *find(struct fs_objects *o, uint64_t ino)
{
	struct fs_object *e = *slot(o, ino);
	while (e && e->node.ino != ino)
		e = e->next;
	return e;
}

/* The number of an object, and its entry if it has one. */
static uint64_t probe(struct fs_objects *o, const struct fs_node *n, struct fs_object **out)
{
	uint64_t ino = first_ino(n);
	while ((*out = find(o, ino)) && !is_same(&(*out)->node, n))
		ino = (ino & ~OBJECT) | ((ino + 1) & OBJECT);
	return ino;
}

/* Chains stay short; when there is no memory for that they get longer. */
static void grow(struct fs_objects *o)
{
	struct fs_objects to = { .n_buckets = o->n_buckets * 2 };
	to.bucket = calloc(to.n_buckets, sizeof(struct fs_object *));
	if (!to.bucket)
		return;
	for (size_t i = 0; i < o->n_buckets; i++)
		for (struct fs_object *e = o->bucket[i], *next; e; e = next) {
			struct fs_object **at = slot(&to, e->node.ino);
			next = e->next;
			e->next = *at;
			*at = e;
		}
	free(o->bucket);
	o->bucket = to.bucket;
	o->n_buckets = to.n_buckets;
}

uint64_t fs_object_ino(struct fs *fs, const struct fs_node *n)
{
	struct fs_object *e;
	pthread_mutex_lock(&fs->objects.lock);
	uint64_t ino = probe(&fs->objects, n, &e);
	pthread_mutex_unlock(&fs->objects.lock);
	return ino;
}

int fs_object_intern(struct fs *fs, struct fs_node *n)
{
	struct fs_objects *o = &fs->objects;
	struct fs_object *e;
	int r = 0;

	pthread_mutex_lock(&o->lock);
	uint64_t ino = probe(o, n, &e);
	if (!e) {
		if (o->n >= o->n_buckets)
			grow(o);
		e = malloc(sizeof(*e));
		if (e) {
			struct fs_object **at = slot(o, ino);
			*e = (struct fs_object){ .next = *at, .node = *n };
			e->node.ino = ino;
			*at = e;
			o->n++;
		}
	}
	if (e) {
		e->lookups++;
		n->ino = ino;
	} else {
		r = -ENOMEM;
	}
	pthread_mutex_unlock(&o->lock);
	return r;
}

void fs_object_forget(struct fs *fs, uint64_t ino, uint64_t lookups)
{
	struct fs_objects *o = &fs->objects;

	pthread_mutex_lock(&o->lock);
	struct fs_object **at = slot(o, ino), *e = find(o, ino);
	if (e && lookups < e->lookups) {
		e->lookups -= lookups;
	} else if (e) {
		while (*at != e)
			at = &(*at)->next;
		*at = e->next;
		o->n--;
		free(e);
	}
	pthread_mutex_unlock(&o->lock);
}

struct fs_node fs_node_make(enum fs_kind kind, struct fs_branch *branch)
{
	return (struct fs_node){ .ino = (uint64_t)kind << KIND_SHIFT | branch->number, .kind = kind, .branch = branch };
}

int fs_node_get(struct fs *fs, uint64_t ino, struct fs_node *out)
{
	uint64_t kind = ino >> KIND_SHIFT;
	*out = (struct fs_node){ .ino = ino, .kind = (enum fs_kind)kind };
	if (kind < K_COUNT && fs_kind_is_object(out->kind)) {
		pthread_mutex_lock(&fs->objects.lock);
		struct fs_object *e = find(&fs->objects, ino);
		if (e)
			*out = e->node;
		pthread_mutex_unlock(&fs->objects.lock);
	} else if (kind < K_COUNT) {
		out->branch = fs_branch_at(fs, kind == K_REQUEST ? 1 : ino & OBJECT);
	}
	return out->branch ? 0 : -ENOENT;
}
