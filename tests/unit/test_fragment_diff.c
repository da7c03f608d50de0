/* What changed among fragments, against the difference of the lists that the test made the two manifests of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fragment_diff.h"
#include "core/store_mem.h"

#include "table.h"

#define N_MAX 60

struct frag {
	uint64_t id;
	uint32_t salt, size;
};

struct list {
	struct frag v[N_MAX];
	size_t n;
};

static uint64_t seed;
static unsigned dice(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static void put(struct pf_buf *b, const struct frag *f)
{
	_cleanup_(pf_buf_release) struct pf_buf m = PF_BUF_INIT;
	_cleanup_(pf_freep) uint8_t *filler = malloc(f->size ? f->size : 1);

	assert_non_null(filler);
	memset(filler, 'x', f->size);
	if (f->id)
		assert_int_equal(pf_wire_put_u64(&m, 1, f->id), 0);
	assert_int_equal(pf_wire_put_bytes(&m, 5, filler, f->size), 0);
	assert_int_equal(pf_wire_put_u64(&m, 4, f->salt), 0);
	assert_int_equal(pf_wire_put_bytes(b, 2, m.data, m.len), 0);
}

/* One of two manifests, read as a file or from memory. */
struct side {
	struct pf_file *file;
	struct pf_buf bytes;
	struct pf_mem_reader mem;
	struct pf_reader *r;
	struct pf_fragment_list list;
	char name[TABLE_NAME_MAX];
};

static void open_side(struct pf_store *st, uint64_t version, const struct list *l, bool in_memory, struct side *out)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;
	const struct table_version t = { .version = version, .extra = &extra };

	*out = (struct side){ NULL };
	for (size_t i = 0; i < l->n; i++)
		put(&extra, &l->v[i]);
	table_put(st, &t);
	table_manifest_name(&t, out->name);
	assert_int_equal(pf_store_open(st, out->name, &out->file), 0);
	out->r = &out->file->r;
	assert_null(out->r->mem);
	if (!in_memory)
		return;
	table_manifest(&t, &out->bytes);
	pf_mem_reader_init(&out->mem, out->bytes.data, out->bytes.len);
	out->r = &out->mem.base;
}

static void close_side(struct side *s)
{
	pf_file_close(s->file);
	pf_buf_release(&s->bytes);
	pf_fragment_list_release(&s->list);
}

/* What was told. */
struct told {
	struct list gone, come;
};

static int note(void *arg, struct pf_wire *w, const struct pf_field *f, int by, struct pf_why *why)
{
	struct told *t = arg;
	struct list *l = by < 0 ? &t->gone : &t->come;
	struct frag *one = &l->v[l->n++];
	struct pf_field inner;

	assert_true(l->n <= N_MAX);
	*one = (struct frag){ 0 };
	assert_int_equal(f->number, 2);
	uint64_t end = pf_wire_enter(w, f);
	while (pf_wire_next(w, &inner, NULL) > 0) {
		if (inner.number == 1)
			one->id = inner.num;
		else if (inner.number == 4)
			one->salt = (uint32_t)inner.num;
		else
			one->size = (uint32_t)inner.len;
	}
	pf_wire_leave(w, end);
	return 0;
}

/* Read `new`, against `old` if there is one. */
static void read_side(struct side *new, const struct side *old, struct told *told)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_fragment_diff_release) struct pf_fragment_diff d;
	struct pf_why why = PF_WHY_INIT;

	told->gone.n = told->come.n = 0;
	pf_fragment_diff_init(&d, old ? &old->list : NULL, old ? old->r : NULL, &new->list, new->r, note, told);
	if (pf_manifest_read(new->r, new->name, &new->file->st, pf_fragment_diff_see, &d, &m, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_fragment_diff_end(&d, NULL), 0);
	/* The run that the manifest knows is the fragments, skipped or not. */
	for (size_t i = 0; i < m->n_runs; i++) {
		if (m->runs[i].number != 2)
			continue;
		assert_int_equal(m->runs[i].off, new->list.at[0]);
		assert_int_equal(m->runs[i].off + m->runs[i].len, new->list.end);
	}
}

static bool has(const struct list *l, const struct frag *f)
{
	for (size_t i = 0; i < l->n; i++)
		if (memcmp(&l->v[i], f, sizeof(*f)) == 0)
			return true;
	return false;
}

/* `got` is what a has and b has not, in a's order. */
static void assert_minus(const struct list *got, const struct list *a, const struct list *b)
{
	size_t at = 0;

	for (size_t i = 0; i < a->n; i++) {
		if (has(b, &a->v[i]))
			continue;
		if (at == got->n || memcmp(&got->v[at], &a->v[i], sizeof(a->v[i])) != 0)
			fail_msg("seed %d: fragment %d is not told", (int)seed, (int)a->v[i].id);
		at++;
	}
	assert_int_equal(at, got->n);
}

static void compare(const struct list *a, const struct list *b, bool old_in_memory, bool new_in_memory)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	struct side old, new, again;
	struct told told;

	assert_int_equal(pf_store_mem_new(&st), 0);
	open_side(st, 1, a, old_in_memory, &old);
	open_side(st, 2, b, new_in_memory, &new);
	open_side(st, 2, b, true, &again);
	read_side(&old, NULL, &told);
	assert_int_equal(old.list.n, a->n);
	assert_int_equal(told.come.n, a->n);
	assert_int_equal(told.gone.n, 0);

	read_side(&new, &old, &told);
	assert_minus(&told.gone, a, b);
	assert_minus(&told.come, b, a);

	/* What was skipped has its places all the same. */
	read_side(&again, NULL, &told);
	assert_int_equal(new.list.n, b->n);
	assert_int_equal(new.list.end, again.list.end);
	if (b->n)
		assert_memory_equal(new.list.at, again.list.at, b->n * sizeof(*new.list.at));
	assert_false(new.list.scattered);

	close_side(&old);
	close_side(&new);
	close_side(&again);
}

static struct frag new_frag(uint64_t id, uint32_t large)
{
	return (struct frag){ id, dice(300), dice(8) ? dice(100) : dice(large) };
}

/* b is a with fragments removed, changed and added, ids ascending. */
static void derive(const struct list *a, struct list *b, uint32_t large)
{
	unsigned rate = 1 + dice(12);

	b->n = 0;
	for (size_t i = 0; i < a->n; i++) {
		switch (dice(rate * 3)) {
		case 0:
			break;
		case 1:
			b->v[b->n++] = new_frag(a->v[i].id, large);
			break;
		default:
			b->v[b->n++] = a->v[i];
			break;
		}
	}
	uint64_t next = a->n ? a->v[a->n - 1].id + 1 : 0;
	for (unsigned k = dice(6); k > 0 && b->n < N_MAX; k--)
		b->v[b->n++] = new_frag(next += dice(3), large), next++;
}

static void run(unsigned rounds, uint32_t large)
{
	for (unsigned i = 0; i < rounds; i++) {
		struct list a = { .n = 0 }, b;
		uint64_t id = dice(3);
		seed = i;
		for (unsigned n = dice(40); n > 0; n--, id += 1 + dice(2))
			a.v[a.n++] = new_frag(id, large);
		derive(&a, &b, large);
		compare(&a, &b, dice(2), dice(2));
	}
}

static void test_small(void **state)
{
	run(2000, 5000);
}

/* Fragments that fill windows and pass their ends. */
static void test_large(void **state)
{
	run(40, 1500000);
}

/* Same bytes to the end, and one file goes on; one begins inside what was a fragment of the other. */
static void test_edges(void **state)
{
	static const struct list none = { .n = 0 };
	const struct list one = { { { 0, 1, 10 } }, 1 }, two = { { { 0, 1, 10 }, { 1, 1, 10 } }, 2 };
	const struct list shorter = { { { 0, 1, 9 } }, 1 }, other = { { { 1, 1, 10 } }, 1 };

	for (int m = 0; m < 4; m++) {
		compare(&none, &none, m & 1, m & 2);
		compare(&none, &two, m & 1, m & 2);
		compare(&two, &none, m & 1, m & 2);
		compare(&one, &two, m & 1, m & 2);
		compare(&two, &one, m & 1, m & 2);
		compare(&two, &other, m & 1, m & 2);
		compare(&other, &two, m & 1, m & 2);
		compare(&one, &shorter, m & 1, m & 2);
		compare(&two, &two, m & 1, m & 2);
	}
}

/* Equal manifests of a megabyte: not one fragment is walked. */
static int count_fields(void *arg, struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	struct pf_fragment_diff **d = arg;

	*(unsigned *)(void *)(d + 1) += 1;
	return pf_fragment_diff_see(*d, w, f, why);
}

static void test_nothing_is_walked(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_fragment_diff_release) struct pf_fragment_diff d;
	struct side old, new;
	struct list l = { .n = 0 };
	struct told told;
	struct {
		struct pf_fragment_diff *d;
		unsigned calls;
	} counted = { &d, 0 };

	while (l.n < N_MAX)
		l.v[l.n] = (struct frag){ l.n, 1, 20000 }, l.n++;
	assert_int_equal(pf_store_mem_new(&st), 0);
	open_side(st, 1, &l, true, &old);
	open_side(st, 2, &l, true, &new);
	read_side(&old, NULL, &told);
	told.come.n = 0;
	pf_fragment_diff_init(&d, &old.list, old.r, &new.list, new.r, note, &told);
	assert_int_equal(pf_manifest_read(new.r, new.name, &new.file->st, count_fields, &counted, &m, NULL), 0);
	assert_int_equal(counted.calls, 1);
	assert_int_equal(told.come.n, 0);
	close_side(&old);
	close_side(&new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_large),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_nothing_is_walked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
