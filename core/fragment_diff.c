#include "fragment_diff.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"

#define WINDOW (1024 * 1024)
#define BLOCK  4096 /* compared at once: a C library compares far faster than a loop that looks for the difference */

void pf_fragment_list_release(struct pf_fragment_list *l)
{
	free(l->at);
	*l = (struct pf_fragment_list){ NULL };
}

void pf_fragment_diff_init(struct pf_fragment_diff *d, const struct pf_fragment_list *was, struct pf_reader *old,
			   struct pf_fragment_list *is, struct pf_reader *new, pf_fragment_fn fn, void *arg)
{
	*d = (struct pf_fragment_diff){
		.was = was, .is = is, .old = { .r = old }, .new = { .r = new }, .fn = fn, .arg = arg
	};
	is->n = 0;
	is->end = 0;
	is->scattered = false;
	if (was)
		pf_wire_init(&d->old_wire, old, 0, was->end);
}

void pf_fragment_diff_release(struct pf_fragment_diff *d)
{
	if (d->was)
		pf_wire_release(&d->old_wire);
	free(d->old.win);
	free(d->new.win);
	*d = (struct pf_fragment_diff){ NULL };
}

/* n fragments of the new manifest stand at off..end; their places, if they are not just one, are those of `like`, moved there. */
static int add_places(struct pf_fragment_list *is, uint64_t off, uint64_t end, const uint64_t *like, size_t n)
{
	if (is->cap - is->n < n) {
		size_t cap = is->cap ? is->cap : 64;
		while (cap - is->n < n)
			if (__builtin_mul_overflow(cap, 2, &cap))
				return -ENOMEM;
		uint64_t *at = reallocarray(is->at, cap, sizeof(*at));
		if (!at)
			return -ENOMEM;
		is->at = at;
		is->cap = cap;
	}
	if (is->n && is->end != off)
		is->scattered = true;
	is->at[is->n] = off;
	for (size_t i = 1; i < n; i++)
		is->at[is->n + i] = like[i] - like[0] + off;
	is->n += n;
	is->end = end;
	return 0;
}

/* Some bytes at `off`, at most `want`, at least one: *p and how many. */
static int look(struct pf_view *v, uint64_t off, uint64_t want, const uint8_t **p, size_t *n)
{
	if (v->r->mem) {
		*p = v->r->mem + off;
		*n = want;
		return 0;
	}
	if (off < v->win_off || off - v->win_off >= v->win_len) {
		uint64_t left = v->r->size - off;
		size_t len = left < WINDOW ? left : WINDOW;
		if (!v->win && !(v->win = malloc(WINDOW)))
			return -ENOMEM;
		v->win_len = 0;
		int r = v->r->read(v->r, off, v->win, len);
		if (r < 0)
			return r;
		v->win_off = off;
		v->win_len = len;
	}
	size_t at = off - v->win_off, have = v->win_len - at;
	*p = v->win + at;
	*n = have < want ? have : want;
	return 0;
}

/* How many of the n bytes at p and q are the same, from the first on. */
static size_t same_bytes(const uint8_t *p, const uint8_t *q, size_t n)
{
	size_t i = 0;

	while (n - i >= BLOCK && memcmp(p + i, q + i, BLOCK) == 0)
		i += BLOCK;
	while (i < n && p[i] == q[i])
		i++;
	return i;
}

/* The same of old from `a` and new from `b`, up to max. */
static int same_run(struct pf_fragment_diff *d, uint64_t a, uint64_t b, uint64_t max, uint64_t *out)
{
	uint64_t done = 0;

	while (done < max) {
		const uint8_t *p = NULL, *q = NULL;
		size_t n = 0, m = 0;
		int r = look(&d->old, a + done, max - done, &p, &n);
		if (r == 0)
			r = look(&d->new, b + done, max - done, &q, &m);
		if (r < 0)
			return r;
		if (m < n)
			n = m;
		size_t same = same_bytes(p, q, n);
		done += same;
		if (same < n)
			break;
	}
	*out = done;
	return 0;
}

static uint64_t end_of(const struct pf_fragment_list *l, size_t i)
{
	return i + 1 < l->n ? l->at[i + 1] : l->end;
}

/* How many fragments of `l`, from i on, end at or below `limit`. */
static size_t whole_below(const struct pf_fragment_list *l, size_t i, uint64_t limit)
{
	size_t lo = i, hi = l->n; /* all below lo do, none from hi on does */

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (end_of(l, mid) <= limit)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo - i;
}

/* Step over what is the same from d->next and from f on: 1 if that is a fragment or more. */
static int skip_same(struct pf_fragment_diff *d, struct pf_wire *w, const struct pf_field *f)
{
	const struct pf_fragment_list *was = d->was;
	uint64_t from = was->at[d->next], same;
	uint64_t old_left = was->end - from, new_left = w->end - f->start;

	int r = same_run(d, from, f->start, old_left < new_left ? old_left : new_left, &same);
	if (r < 0)
		return r;
	size_t n = whole_below(was, d->next, from + same);
	if (n == 0)
		return 0;
	uint64_t end = f->start + (end_of(was, d->next + n - 1) - from);
	r = add_places(d->is, f->start, end, &was->at[d->next], n);
	if (r < 0)
		return r;
	d->next += n;
	w->pos = end;
	return 1;
}

/* The id of the fragment f. w is behind it again afterwards. */
static int id_of(struct pf_wire *w, const struct pf_field *f, uint64_t *out, struct pf_why *why)
{
	struct pf_field inner;
	uint64_t id = 0;
	int r = pf_wire_expect(f, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, f);
	while ((r = pf_wire_next(w, &inner, why)) > 0) {
		if (inner.number != LANCE__DATA_FRAGMENT__FIELD__ID)
			continue;
		r = pf_wire_u64(&inner, &id, why);
		break; /* ours is the first field of its message in every writer; another one only costs a decode */
	}
	pf_wire_leave(w, end);
	*out = id;
	return r < 0 ? r : 0;
}

static int old_id(struct pf_fragment_diff *d, uint64_t *out, struct pf_why *why)
{
	d->old_wire.pos = d->was->at[d->next];
	int r = pf_wire_next(&d->old_wire, &d->old_field, why);
	return r < 0 ? r : id_of(&d->old_wire, &d->old_field, out, why);
}

/* The next of the old ones is gone. Its id was asked for. */
static int lose_next(struct pf_fragment_diff *d, struct pf_why *why)
{
	d->next++;
	return d->fn(d->arg, &d->old_wire, &d->old_field, -1, why);
}

int pf_fragment_diff_see(void *arg, struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	struct pf_fragment_diff *d = arg;
	uint64_t id = 0, old = 0;
	bool left = d->was && d->next < d->was->n;
	int r = left ? id_of(w, f, &id, why) : 0;

	/* Both ascend. If they did not, the same fragment would be told as gone and come: more work, the same sum. */
	while (r == 0 && left && d->next < d->was->n) {
		r = skip_same(d, w, f);
		if (r != 0)
			return r < 0 ? r : 0;
		r = old_id(d, &old, why);
		if (r < 0 || old > id)
			break;
		r = lose_next(d, why);
		if (old == id)
			break;
	}
	if (r == 0)
		r = add_places(d->is, f->start, f->value + f->len, NULL, 1);
	return r < 0 ? r : d->fn(d->arg, w, f, 1, why);
}

int pf_fragment_diff_end(struct pf_fragment_diff *d, struct pf_why *why)
{
	uint64_t id;
	int r = 0;

	while (r == 0 && d->was && d->next < d->was->n) {
		r = old_id(d, &id, why);
		if (r == 0)
			r = lose_next(d, why);
	}
	return r;
}
