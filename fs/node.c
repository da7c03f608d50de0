#include "fs.h"

#include <string.h>

#define KIND_SHIFT 56
#define OBJECT	   ((UINT64_C(1) << KIND_SHIFT) - 1)

/* A pin the kernel knows, or has open. */
struct fs_pin {
	struct fs_pin *next;
	uint64_t object;
	struct fs_branch *branch;
	struct pf_uuid id;
	uint64_t lookups;
	unsigned opens;
	struct fs_attr last;
};

int fs_pins_init(struct fs_pins *p)
{
	*p = (struct fs_pins){ .n_buckets = 64 };
	p->bucket = calloc(p->n_buckets, sizeof(struct fs_pin *));
	return p->bucket ? -pthread_mutex_init(&p->lock, NULL) : -ENOMEM;
}

/* The kernel need not have forgotten anything by now. */
void fs_pins_release(struct fs_pins *p)
{
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct fs_pin *e = p->bucket[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(p->bucket);
	pthread_mutex_destroy(&p->lock);
	*p = (struct fs_pins){ .bucket = NULL };
}

/* FNV-1a: ids are random already, and whoever makes them collide on purpose meets the probing. */
static uint64_t pin_hash(const struct fs_branch *b, const struct pf_uuid *id)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ b->number;
	for (size_t i = 0; i < sizeof(id->b); i++)
		h = (h ^ id->b[i]) * UINT64_C(0x100000001b3);
	return (h ^ h >> KIND_SHIFT) & OBJECT;
}

static struct fs_pin **slot(struct fs_pins *p, uint64_t object)
{
	return &p->bucket[object & (p->n_buckets - 1)];
}

static struct fs_pin *find(struct fs_pins *p, uint64_t object)
{
	struct fs_pin *e = *slot(p, object);
	while (e && e->object != object)
		e = e->next;
	return e;
}

/* The object number of a pin, and its entry if it has one. */
static uint64_t probe(struct fs_pins *p, const struct fs_branch *b, const struct pf_uuid *id, struct fs_pin **out)
{
	uint64_t object = pin_hash(b, id);
	while ((*out = find(p, object)) && ((*out)->branch != b || !pf_uuid_eq(&(*out)->id, id)))
		object = (object + 1) & OBJECT;
	return object;
}

/* Chains stay short; when there is no memory for that they get longer. */
static void grow(struct fs_pins *p)
{
	struct fs_pins to = { .n_buckets = p->n_buckets * 2 };
	to.bucket = calloc(to.n_buckets, sizeof(struct fs_pin *));
	if (!to.bucket)
		return;
	for (size_t i = 0; i < p->n_buckets; i++)
		for (struct fs_pin *e = p->bucket[i], *next; e; e = next) {
			struct fs_pin **at = slot(&to, e->object);
			next = e->next;
			e->next = *at;
			*at = e;
		}
	free(p->bucket);
	p->bucket = to.bucket;
	p->n_buckets = to.n_buckets;
}

uint64_t fs_pin_ino(struct fs *fs, struct fs_branch *branch, const struct pf_uuid *id)
{
	struct fs_pin *e;
	pthread_mutex_lock(&fs->pins.lock);
	uint64_t object = probe(&fs->pins, branch, id, &e);
	pthread_mutex_unlock(&fs->pins.lock);
	return (uint64_t)K_PIN << KIND_SHIFT | object;
}

int fs_pin_intern(struct fs *fs, struct fs_node *n)
{
	struct fs_pins *p = &fs->pins;
	struct fs_pin *e;
	int r = 0;

	pthread_mutex_lock(&p->lock);
	uint64_t object = probe(p, n->branch, &n->id, &e);
	if (!e) {
		if (p->n >= p->n_buckets)
			grow(p);
		e = malloc(sizeof(*e));
		if (e) {
			struct fs_pin **at = slot(p, object);
			*e = (struct fs_pin){ .next = *at, .object = object, .branch = n->branch, .id = n->id };
			*at = e;
			p->n++;
		}
	}
	if (e) {
		e->lookups++;
		n->ino = (uint64_t)K_PIN << KIND_SHIFT | object;
	} else {
		r = -ENOMEM;
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* Nobody can name it any more, and nobody has it open. */
static void drop_unused(struct fs_pins *p, struct fs_pin *e)
{
	if (e->lookups || e->opens)
		return;
	struct fs_pin **at = slot(p, e->object);
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	p->n--;
	free(e);
}

void fs_pin_forget(struct fs *fs, uint64_t ino, uint64_t lookups)
{
	pthread_mutex_lock(&fs->pins.lock);
	struct fs_pin *e = find(&fs->pins, ino & OBJECT);
	if (e) {
		e->lookups -= lookups < e->lookups ? lookups : e->lookups;
		drop_unused(&fs->pins, e);
	}
	pthread_mutex_unlock(&fs->pins.lock);
}

void fs_pin_opened(struct fs *fs, uint64_t ino, const struct fs_attr *a)
{
	pthread_mutex_lock(&fs->pins.lock);
	struct fs_pin *e = find(&fs->pins, ino & OBJECT);
	if (e) {
		e->opens++;
		e->last = *a;
	}
	pthread_mutex_unlock(&fs->pins.lock);
}

void fs_pin_closed(struct fs *fs, uint64_t ino)
{
	pthread_mutex_lock(&fs->pins.lock);
	struct fs_pin *e = find(&fs->pins, ino & OBJECT);
	if (e && e->opens) {
		e->opens--;
		drop_unused(&fs->pins, e);
	}
	pthread_mutex_unlock(&fs->pins.lock);
}

bool fs_pin_last(struct fs *fs, uint64_t ino, struct fs_attr *out)
{
	pthread_mutex_lock(&fs->pins.lock);
	struct fs_pin *e = find(&fs->pins, ino & OBJECT);
	bool open = e && e->opens;
	if (open)
		*out = e->last;
	pthread_mutex_unlock(&fs->pins.lock);
	return open;
}

struct fs_node fs_node_make(enum fs_kind kind, struct fs_branch *branch)
{
	return (struct fs_node){ .ino = (uint64_t)kind << KIND_SHIFT | branch->number, .kind = kind, .branch = branch };
}

int fs_node_get(struct fs *fs, uint64_t ino, struct fs_node *out)
{
	uint64_t kind = ino >> KIND_SHIFT;
	*out = (struct fs_node){ .ino = ino, .kind = (enum fs_kind)kind };
	if (kind == K_PIN) {
		pthread_mutex_lock(&fs->pins.lock);
		struct fs_pin *e = find(&fs->pins, ino & OBJECT);
		if (e) {
			out->branch = e->branch;
			out->id = e->id;
		}
		pthread_mutex_unlock(&fs->pins.lock);
	} else if (kind < K_COUNT) {
		out->branch = fs_branch_at(fs, kind == K_REQUEST ? 1 : ino & OBJECT);
	}
	return out->branch ? 0 : -ENOENT;
}
