#include "file_set.h"

#include <string.h>

#include "text.h"

#define CHUNK (64 * 1024)

struct pf_file_state {
	uint32_t count; /* references of the version looked at */
	uint32_t was;	/* ... before this step, if step is this one */
	uint32_t step;
};

struct pf_chunk {
	struct pf_chunk *next;
	size_t used, size;
	_Alignas(8) uint8_t data[];
};

int pf_file_set_init(struct pf_file_set *s)
{
	struct pf_uuid seed;

	/* Paths are strangers' words: nobody shall choose which of them collide. */
	pf_uuid_new(&seed);
	*s = (struct pf_file_set){ .seed = pf_get_le(seed.b, 6) << 16 | pf_get_le(seed.b + 10, 6) };
	s->n_slots = 64;
	s->slots = calloc(s->n_slots, sizeof(*s->slots));
	return s->slots ? 0 : -ENOMEM;
}

void pf_file_set_release(struct pf_file_set *s)
{
	while (s->chunks) {
		struct pf_chunk *c = s->chunks;
		s->chunks = c->next;
		free(c);
	}
	free(s->v);
	free(s->state);
	free(s->slots);
	free(s->touched);
	*s = (struct pf_file_set){ NULL };
}

/* n bytes that live as long as the set, aligned for 8. */
static void *carve(struct pf_file_set *s, size_t n)
{
	struct pf_chunk *c = s->chunks;

	n = (n + 7) & ~(size_t)7;
	if (!c || c->size - c->used < n) {
		size_t size = n > CHUNK ? n : CHUNK;
		c = malloc(sizeof(*c) + size);
		if (!c)
			return NULL;
		*c = (struct pf_chunk){ .next = s->chunks, .size = size };
		s->chunks = c;
	}
	void *p = c->data + c->used;
	c->used += n;
	return p;
}

static uint32_t hash_of(const struct pf_file_set *s, uint32_t base, const char *path, size_t n)
{
	uint64_t h = s->seed ^ base, w;

	for (; n > 0; path += sizeof(w)) {
		size_t k = n < sizeof(w) ? n : sizeof(w);
		w = 0;
		memcpy(&w, path, k);
		h = (h ^ w) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
		n -= k;
	}
	h *= UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(h >> 32);
}

static size_t file_in(uint64_t slot)
{
	return (uint32_t)slot - 1;
}

/* The slot that has the file, or the empty one where it belongs. */
static uint64_t *slot_of(const struct pf_file_set *s, uint32_t hash, uint32_t base, const char *path)
{
	for (size_t i = hash & (s->n_slots - 1);; i = (i + 1) & (s->n_slots - 1)) {
		uint64_t slot = s->slots[i];
		if (!slot)
			return &s->slots[i];
		/* A look at the file itself is a cache miss: only if it is nearly sure to be the one. */
		if (slot >> 32 != hash)
			continue;
		const struct pf_surveyed_file *f = &s->v[file_in(slot)];
		if (f->base == base && strcmp(f->path, path) == 0)
			return &s->slots[i];
	}
}

int64_t pf_file_set_find(const struct pf_file_set *s, uint32_t base, const char *path)
{
	uint64_t slot = *slot_of(s, hash_of(s, base, path, strlen(path)), base, path);

	return slot ? (int64_t)file_in(slot) : -ENOENT;
}

static int grow_slots(struct pf_file_set *s, size_t n)
{
	uint64_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t k = 0; k < s->n_slots; k++) {
		size_t i = (s->slots[k] >> 32) & (n - 1);
		if (!s->slots[k])
			continue;
		while (slots[i])
			i = (i + 1) & (n - 1);
		slots[i] = s->slots[k];
	}
	free(s->slots);
	s->slots = slots;
	s->n_slots = n;
	return 0;
}

/* So many files fill a table of n slots: what is looked for and not there is then found missing after a dozen looks, in two cache lines. */
static size_t room_of(size_t n_slots)
{
	return n_slots / 5 * 4;
}

int pf_file_set_reserve(struct pf_file_set *s, size_t n)
{
	size_t slots = s->n_slots;

	while (room_of(slots) < n && slots <= SIZE_MAX / 2)
		slots *= 2;
	return slots > s->n_slots ? grow_slots(s, slots) : 0;
}

static int grow_files(struct pf_file_set *s)
{
	size_t cap = s->cap ? s->cap + s->cap / 2 : 64;

	if (cap > UINT32_MAX - 1)
		return -ENOMEM;
	struct pf_surveyed_file *v = reallocarray(s->v, cap, sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->v = v;
	struct pf_file_state *state = reallocarray(s->state, cap, sizeof(*state));
	if (!state)
		return -ENOMEM;
	s->state = state;
	s->cap = cap;
	return 0;
}

int64_t pf_file_set_add(struct pf_file_set *s, uint32_t base, const char *path, const struct pf_surveyed_file *new)
{
	size_t len = strlen(path);
	uint32_t hash = hash_of(s, base, path, len);
	uint64_t *slot = slot_of(s, hash, base, path);
	int r = 0;

	if (*slot)
		return (int64_t)file_in(*slot);
	if (s->n == s->cap)
		r = grow_files(s);
	if (r == 0 && s->n + 1 > room_of(s->n_slots)) {
		r = grow_slots(s, 2 * s->n_slots);
		slot = slot_of(s, hash, base, path);
	}
	char *copy = r == 0 ? carve(s, len + 1) : NULL;
	if (!copy)
		return -ENOMEM;
	memcpy(copy, path, len + 1);
	s->v[s->n] = (struct pf_surveyed_file){ .cls = new->cls,
						.own = new->own,
						.optional = new->optional,
						.base = base,
						.n_files = 1,
						.path = copy,
						.size = new->said,
						.said = new->said };
	s->state[s->n] = (struct pf_file_state){ 0 };
	*slot = (uint64_t)hash << 32 | ++s->n;
	return (int64_t)s->n - 1;
}

void pf_file_set_begin(struct pf_file_set *s)
{
	s->n_touched = 0;
	/* Step 0 is that of a file nobody touched yet. */
	if (++s->step == 0) {
		for (size_t i = 0; i < s->n; i++)
			s->state[i].step = 0;
		s->step = 1;
	}
}

int pf_file_set_count(struct pf_file_set *s, size_t file, int by)
{
	struct pf_file_state *st = &s->state[file];

	if (st->step != s->step) {
		if (s->n_touched == s->cap_touched) {
			size_t cap = s->cap_touched ? 2 * s->cap_touched : 64;
			uint32_t *v = reallocarray(s->touched, cap, sizeof(*v));
			if (!v)
				return -ENOMEM;
			s->touched = v;
			s->cap_touched = cap;
		}
		s->touched[s->n_touched++] = (uint32_t)file;
		st->step = s->step;
		st->was = st->count;
	}
	st->count += (uint32_t)by;
	return 0;
}

int pf_file_set_clear(struct pf_file_set *s)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (s->state[i].count)
			r = pf_file_set_count(s, i, -(int)s->state[i].count);
	return r;
}

void pf_file_set_undo(struct pf_file_set *s)
{
	for (size_t i = 0; i < s->n_touched; i++)
		s->state[s->touched[i]].count = s->state[s->touched[i]].was;
	s->n_touched = 0;
}

static int add_interval(struct pf_file_set *s, struct pf_surveyed_file *f, uint64_t first, uint64_t last)
{
	/* Room is always a power of two; what is outgrown is left to the set: hardly any file comes back more than once. */
	if ((f->n_iv & (f->n_iv - 1)) == 0) {
		struct pf_interval *iv = carve(s, (f->n_iv ? 2 * (size_t)f->n_iv : 1) * sizeof(*iv));
		if (!iv)
			return -ENOMEM;
		if (f->n_iv)
			memcpy(iv, f->iv, f->n_iv * sizeof(*iv));
		f->iv = iv;
	}
	f->iv[f->n_iv++] = (struct pf_interval){ first, last };
	return 0;
}

int pf_file_set_settle(struct pf_file_set *s, uint64_t version, uint64_t before)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n_touched; i++) {
		const struct pf_file_state *st = &s->state[s->touched[i]];
		struct pf_surveyed_file *f = &s->v[s->touched[i]];
		if (st->count && !st->was)
			r = add_interval(s, f, version, PF_STILL);
		else if (!st->count && st->was)
			f->iv[f->n_iv - 1].last = before;
	}
	s->n_touched = 0;
	return r;
}

int pf_file_set_at(struct pf_file_set *s, size_t file, uint64_t version, uint64_t before)
{
	struct pf_surveyed_file *f = &s->v[file];

	if (f->n_iv && f->iv[f->n_iv - 1].last == before) {
		f->iv[f->n_iv - 1].last = version;
		return 0;
	}
	return add_interval(s, f, version, version);
}

static size_t versions_below(struct pf_version_list l, uint64_t v)
{
	size_t lo = 0, hi = l.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (l.v[mid] < v)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Cut the intervals to kept versions, in place; two that no kept version separates become one. */
static void cut(struct pf_surveyed_file *f, struct pf_version_list kept)
{
	uint32_t out = 0;
	size_t end = 0; /* one above the index of the last version of the interval before */

	for (uint32_t i = 0; i < f->n_iv; i++) {
		struct pf_interval iv = f->iv[i];
		size_t lo = versions_below(kept, iv.first);
		size_t hi = iv.last == PF_STILL ? kept.n : versions_below(kept, iv.last + 1);
		if (lo == hi)
			continue;
		uint64_t last = iv.last == PF_STILL ? PF_STILL : kept.v[hi - 1];
		if (out && lo == end)
			f->iv[out - 1].last = last;
		else
			f->iv[out++] = (struct pf_interval){ kept.v[lo], last };
		end = hi;
	}
	f->n_iv = out;
}

/* A manifest that is damaged: of one version, itself. */
static bool is_damaged(const struct pf_surveyed_file *f, struct pf_version_list damaged)
{
	if (f->cls != PF_FILE_MANIFEST || f->n_iv != 1)
		return false;
	size_t i = versions_below(damaged, f->iv[0].first);
	return i < damaged.n && damaged.v[i] == f->iv[0].first;
}

void pf_file_set_follow(struct pf_file_set *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!s->v[i].sidecar_of)
			continue;
		const struct pf_surveyed_file *of = &s->v[s->v[i].sidecar_of - 1];
		s->v[i].iv = of->iv;
		s->v[i].n_iv = of->n_iv;
		s->v[i].needed = of->needed;
	}
}

/* Take file `i` of `from` over, whole. */
static int64_t move_file(struct pf_file_set *to, const struct pf_file_set *from, size_t i)
{
	const struct pf_surveyed_file *f = &from->v[i];
	int64_t at = pf_file_set_add(to, f->base, f->path, f);

	if (at < 0)
		return at;
	struct pf_surveyed_file *g = &to->v[at];
	g->presence = f->presence;
	g->needed = f->needed;
	g->is_dir = f->is_dir;
	g->n_files = f->n_files;
	g->size = f->size;
	to->state[at].count = from->state[i].count;
	for (uint32_t k = 0; k < f->n_iv && !f->sidecar_of; k++)
		if (add_interval(to, g, f->iv[k].first, f->iv[k].last) < 0)
			return -ENOMEM;
	return at;
}

int pf_file_set_prune(struct pf_file_set *s, struct pf_version_list kept, struct pf_version_list damaged, size_t **map)
{
	_cleanup_(pf_freep) size_t *to = calloc(s->n ? s->n : 1, sizeof(*to));
	struct pf_file_set left = { NULL };

	int r = to ? pf_file_set_init(&left) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (!s->v[i].sidecar_of && !is_damaged(&s->v[i], damaged))
			cut(&s->v[i], kept);
	if (r == 0)
		pf_file_set_follow(s);
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		to[i] = SIZE_MAX;
		if (s->v[i].n_iv == 0)
			continue;
		int64_t at = move_file(&left, s, i);
		to[i] = (size_t)at;
		r = at < 0 ? (int)at : 0;
	}
	if (r < 0) {
		pf_file_set_release(&left);
		return r;
	}
	for (size_t i = 0; i < s->n; i++)
		if (to[i] != SIZE_MAX && s->v[i].sidecar_of)
			left.v[to[i]].sidecar_of = (uint32_t)to[s->v[i].sidecar_of - 1] + 1;
	pf_file_set_release(s);
	*s = left;
	pf_file_set_follow(s);
	*map = STEAL(to);
	return 0;
}
