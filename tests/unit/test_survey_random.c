/*
 * Surveys of random histories against what a naive reader would say: the sets of files that the test itself put into each version. After each step the
 * survey that was kept up to date must say the same as one made from nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/survey.h"
#include "core/wire.h"

#include "table.h"

#define FRAGMENTS_MAX 40
#define VERSIONS_MAX  64
#define INDICES_MAX   3

/* Numbers, of which names are made. */
struct frag {
	uint64_t id;
	unsigned file, second, base; /* second: 0 none */
	unsigned deletion;	     /* 0 none */
	unsigned overlay, row_ids;   /* 0 none */
};

struct ver {
	bool kept, damaged;
	struct frag f[FRAGMENTS_MAX];
	size_t n;
	unsigned index[INDICES_MAX];
	size_t n_indices;
	unsigned bases; /* how its base paths are ordered and spelled, and where base 1 is */
};

struct history {
	struct pf_store *st;
	struct ver v[VERSIONS_MAX + 1]; /* [0] is the empty table */
	unsigned head;
	uint64_t next_id;
	unsigned next; /* name */
};

/* A generator of our own: a failure must come again. */
static uint64_t seed;
static unsigned which;

static unsigned dice(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static void put_u64(struct pf_buf *b, uint32_t n, uint64_t v)
{
	if (v)
		assert_int_equal(pf_wire_put_u64(b, n, v), 0);
}

static void put_str(struct pf_buf *b, uint32_t n, const char *s)
{
	assert_int_equal(pf_wire_put_bytes(b, n, s, strlen(s)), 0);
}

static void put_message(struct pf_buf *b, uint32_t n, struct pf_buf *m)
{
	assert_int_equal(pf_wire_put_bytes(b, n, m->data, m->len), 0);
	pf_buf_release(m);
}

/* Base 0: none given. 1: elsewhere, in one place or another. 2: the directory data/sub of the table. 3: the table itself, by another spelling. */
static void put_data_file(struct pf_buf *b, uint32_t number, unsigned name, unsigned base)
{
	struct pf_buf file = PF_BUF_INIT;
	char path[32];

	snprintf(path, sizeof(path), "f%u.lance", name);
	put_str(&file, 1, path);
	put_u64(&file, 6, 1000 + name);
	if (base)
		assert_int_equal(pf_wire_put_u64(&file, 7, base), 0);
	put_message(b, number, &file);
}

static void put_fragment(struct pf_buf *b, const struct frag *f)
{
	struct pf_buf m = PF_BUF_INIT, sub = PF_BUF_INIT, file = PF_BUF_INIT;
	char path[32];

	put_u64(&m, 1, f->id);
	put_data_file(&m, 2, f->file, f->base);
	if (f->second)
		put_data_file(&m, 2, f->second, 0);
	if (f->deletion) {
		put_u64(&sub, 1, f->deletion % 2);
		put_u64(&sub, 2, f->deletion);
		put_u64(&sub, 3, 7);
		put_message(&m, 3, &sub);
	}
	put_u64(&m, 4, 10);
	if (f->row_ids) {
		snprintf(path, sizeof(path), "_rowids/r%u", f->row_ids);
		put_str(&sub, 1, path);
		put_message(&m, 6, &sub);
	}
	if (f->overlay) {
		put_data_file(&file, 1, f->overlay, 0);
		put_message(&m, 11, &file);
	}
	put_message(b, 2, &m);
}

static void put_base(struct pf_buf *b, unsigned id, bool root, const char *path)
{
	struct pf_buf m = PF_BUF_INIT;

	put_u64(&m, 1, id);
	put_u64(&m, 3, root);
	put_str(&m, 4, path);
	put_message(b, 18, &m);
}

static void put_bases(struct pf_buf *b, unsigned how)
{
	const char *first = how & 8 ? "/elsewhere/two" : "/elsewhere/one";

	/* Writers keep them in a hash map: any order. */
	if (how & 1)
		put_base(b, 1, true, first);
	put_base(b, 2, false, how & 2 ? "//memory/data/./sub/" : "/memory/data/sub");
	put_base(b, 3, true, how & 4 ? "/memory" : "/memory/.");
	if (!(how & 1))
		put_base(b, 1, true, first);
}

static void index_uuid(unsigned name, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "%08x-0000-4000-8000-000000000000", name);
}

static void put_index(struct pf_buf *b, unsigned name)
{
	struct pf_buf m = PF_BUF_INIT, uuid = PF_BUF_INIT;
	uint8_t bytes[16] = {
		(uint8_t)(name >> 24), (uint8_t)(name >> 16), (uint8_t)(name >> 8), (uint8_t)name, 0, 0, 0x40, 0, 0x80
	};

	assert_int_equal(pf_wire_put_bytes(&uuid, 1, bytes, sizeof(bytes)), 0);
	put_message(&m, 1, &uuid);
	put_str(&m, 3, "idx");
	put_message(b, 1, &m);
}

static void put_version(struct history *h, unsigned version)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, index = PF_BUF_INIT;
	const struct ver *v = &h->v[version];
	struct table_version t = { .version = version, .extra = &extra };

	/* Base paths may even stand between fragments. */
	size_t first = v->bases & 16 ? v->n / 2 : v->n;
	for (size_t i = 0; i < first; i++)
		put_fragment(&extra, &v->f[i]);
	put_bases(&extra, v->bases);
	for (size_t i = first; i < v->n; i++)
		put_fragment(&extra, &v->f[i]);
	for (size_t i = 0; i < v->n_indices; i++)
		put_index(&index, v->index[i]);
	if (v->n_indices)
		t.index = &index;
	if (v->damaged && dice(2)) {
		/* A fragment whose length passes the end of the message: after all that is good. */
		assert_int_equal(pf_buf_add(&extra, "\x12\x7f\x08", 3), 0);
	} else if (v->damaged) {
		/* A file on a base that is not there: found when fragments are decoded. */
		put_fragment(&extra, &(struct frag){ .id = 9999, .file = 1, .base = 77 });
	}
	table_put(h->st, &t);
}

/* One line a file, sorted: what version v refers to by the numbers it was made of. */
struct lines {
	char *v[4096];
	size_t n;
};

_printf_(2, 3) static void add_line(struct lines *l, const char *fmt, ...)
{
	va_list ap;

	assert_true(l->n < ARRAY_LEN(l->v));
	va_start(ap, fmt);
	assert_true(vasprintf(&l->v[l->n++], fmt, ap) > 0);
	va_end(ap);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_lines(struct lines *l)
{
	size_t n = 0;

	qsort(l->v, l->n, sizeof(*l->v), by_text);
	for (size_t i = 0; i < l->n; i++) {
		if (n && strcmp(l->v[n - 1], l->v[i]) == 0)
			free(l->v[i]);
		else
			l->v[n++] = l->v[i];
	}
	l->n = n;
}

static void free_lines(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	l->n = 0;
}

static void add_data(struct lines *l, const struct ver *v, unsigned name, unsigned base)
{
	static const char *const where[] = { ":data/", "/elsewhere/one:data/", ":data/sub/", ":data/",
					     "/elsewhere/two:data/" };

	add_line(l, "%sf%u.lance", where[base == 1 && v->bases & 8 ? 4 : base], name);
}

static void model_of(const struct history *h, unsigned version, struct lines *l)
{
	const struct ver *v = &h->v[version];
	char name[TABLE_NAME_MAX], uuid[PF_UUID_TEXT];

	add_line(l, ":%s", table_manifest_name(&(struct table_version){ .version = version }, name));
	if (!v->damaged)
		add_line(l, ":%s", table_txn_name(&(struct table_version){ .version = version }, name));
	for (size_t i = 0; !v->damaged && i < v->n; i++) {
		const struct frag *f = &v->f[i];
		add_data(l, v, f->file, f->base);
		if (f->second)
			add_data(l, v, f->second, 0);
		if (f->overlay)
			add_data(l, v, f->overlay, 0);
		if (f->row_ids)
			add_line(l, ":_rowids/r%u", f->row_ids);
		if (f->deletion)
			add_line(l, ":_deletions/%u-%u-7.%s", (unsigned)f->id, f->deletion,
				 f->deletion % 2 ? "bin" : "arrow");
	}
	for (size_t i = 0; !v->damaged && i < v->n_indices; i++) {
		index_uuid(v->index[i], uuid);
		add_line(l, ":_indices/%s", uuid);
	}
	sort_lines(l);
}

static void survey_of(const struct pf_survey *s, uint64_t version, struct lines *l)
{
	for (size_t i = 0; i < s->n_files; i++) {
		const struct pf_surveyed_file *f = &s->files[i];
		for (uint32_t k = 0; k < f->n_iv; k++)
			if (f->iv[k].first <= version && version <= f->iv[k].last)
				add_line(l, "%s:%s", s->bases[f->base].where, f->path);
	}
	sort_lines(l);
}

static void assert_same(const struct lines *a, const struct lines *b, unsigned version)
{
	size_t i = 0;

	while (i < a->n && i < b->n && strcmp(a->v[i], b->v[i]) == 0)
		i++;
	if (i < a->n || i < b->n)
		fail_msg("history %u, version %u: expected %s, found %s", which, version,
			 i < a->n ? a->v[i] : "no more", i < b->n ? b->v[i] : "no more");
}

/* Each file as a line with its intervals: the whole of a survey. */
static void all_of(const struct pf_survey *s, struct lines *out)
{
	for (size_t i = 0; i < s->n_files; i++) {
		_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;
		const struct pf_surveyed_file *f = &s->files[i];
		assert_int_equal(
			pf_buf_addf(&line, "%s:%s %d %d", s->bases[f->base].where, f->path, (int)f->cls, f->own), 0);
		for (uint32_t k = 0; k < f->n_iv; k++)
			assert_int_equal(pf_buf_addf(&line, " %d-%d", (int)f->iv[k].first, (int)f->iv[k].last), 0);
		add_line(out, "%s", pf_buf_str(&line));
	}
	sort_lines(out);
}

static void check(const struct history *h, const struct pf_survey *s)
{
	struct lines kept = { .n = 0 }, fresh = { .n = 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *again = NULL;
	size_t at = 0;

	for (unsigned v = 1; v <= h->head; v++) {
		struct lines want = { .n = 0 }, got = { .n = 0 };
		if (!h->v[v].kept)
			continue;
		assert_true(at < s->n_versions);
		assert_int_equal(s->versions[at].version, v);
		assert_int_equal(s->versions[at].readable, !h->v[v].damaged);
		at++;
		if (h->v[v].damaged)
			continue; /* what it refers to is not known: a gap says so */
		model_of(h, v, &want);
		survey_of(s, v, &got);
		assert_same(&want, &got, v);
		free_lines(&want);
		free_lines(&got);
	}
	assert_int_equal(at, s->n_versions);

	assert_int_equal(pf_branch_open(h->st, NULL, &b, NULL), 0);
	assert_int_equal(pf_survey_new(b, &again), 0);
	assert_int_equal(pf_survey_refresh(again, NULL, NULL, NULL), 0);
	assert_int_equal(again->manifests_read, again->n_versions);
	all_of(s, &kept);
	all_of(again, &fresh);
	assert_same(&fresh, &kept, h->head);
	free_lines(&fresh);
	free_lines(&kept);
	assert_int_equal(s->n_gaps, again->n_gaps);
}

static void remove_fragment(struct ver *v, size_t i)
{
	memmove(&v->f[i], &v->f[i + 1], (v->n - i - 1) * sizeof(*v->f));
	v->n--;
}

static void append(struct history *h, struct ver *v)
{
	if (v->n < FRAGMENTS_MAX)
		v->f[v->n++] = (struct frag){ .id = h->next_id++,
					      .file = ++h->next,
					      .base = dice(4) ? 0 : dice(4),
					      .row_ids = dice(10) ? 0 : ++h->next };
}

/* The next version, as a commit of Lance's or of a stranger's might make it of the one before. */
static void change(struct history *h, struct ver *v)
{
	size_t i = v->n ? dice((unsigned)v->n) : 0, n;

	switch (dice(11)) {
	case 0:
	case 1:
	case 2:
		for (n = 1 + dice(5); n > 0; n--)
			append(h, v);
		break;
	case 3:
		if (v->n)
			v->f[i].deletion = ++h->next;
		break;
	case 4:
		if (v->n)
			remove_fragment(v, i);
		break;
	case 5: /* compaction: neighbours into a new one */
		for (n = 1 + dice(6); n > 0 && v->n > i; n--)
			remove_fragment(v, i);
		append(h, v);
		break;
	case 6: /* columns */
		for (n = 0; n < v->n; n++)
			v->f[n].second = ++h->next;
		break;
	case 7: /* overwrite */
		v->n = 0;
		append(h, v);
		break;
	case 8: /* restore */
		n = dice(h->head + 1);
		h->v[h->head + 1] = h->v[n];
		break;
	case 9:
		if (v->n)
			v->f[i].overlay = ++h->next;
		break;
	default: /* out of order, as no writer does and any reader must take it */
		if (v->n > 1) {
			struct frag f = v->f[0];
			v->f[0] = v->f[i];
			v->f[i] = f;
		}
		break;
	}
	if (dice(4) == 0) {
		v->n_indices = dice(INDICES_MAX + 1);
		for (n = 0; n < v->n_indices; n++)
			v->index[n] = dice(3) ? ++h->next : 1;
	}
	if (dice(6) == 0)
		v->bases = dice(32);
}

static void commit(struct history *h)
{
	struct ver *v = &h->v[h->head + 1];

	*v = h->v[h->head];
	change(h, v);
	v->kept = true;
	v->damaged = false;
	put_version(h, ++h->head);
}

/* A version in the middle is hit; the head is whole again, or it would have no pins to speak of. */
static void commit_damaged(struct history *h)
{
	h->v[h->head + 1] = h->v[h->head];
	h->v[h->head + 1].damaged = true;
	h->v[h->head + 1].kept = true;
	put_version(h, ++h->head);
	h->v[h->head].damaged = false; /* the next one is made of it */
	commit(h);
	h->v[h->head - 1].damaged = true;
}

static void clean(struct history *h)
{
	char name[TABLE_NAME_MAX];

	for (unsigned v = 1; v < h->head; v++) {
		if (!h->v[v].kept || dice(3))
			continue;
		h->v[v].kept = false;
		table_manifest_name(&(struct table_version){ .version = v }, name);
		assert_int_equal(pf_store_mem_del(h->st, name), 0);
	}
}

static int now_and_then(void *arg, uint64_t done, uint64_t total)
{
	assert_true(done >= 1 && done <= total);
	return dice(3) == 0;
}

/* Interrupted now and then. Returns how many manifests were read in all. */
static uint64_t refresh(struct pf_survey *s)
{
	struct pf_why why = PF_WHY_INIT;
	uint64_t manifests = 0;
	int r = -EINTR;

	for (int i = 0; r == -EINTR; i++) {
		r = pf_survey_refresh(s, i < 40 ? now_and_then : NULL, NULL, &why);
		if (r != 0 && r != -EINTR)
			fail_msg("%s", why.text);
		manifests += s->manifests_read;
	}
	return manifests;
}

static unsigned count_kept(const struct history *h, unsigned from)
{
	unsigned n = 0;

	for (unsigned v = from; v <= h->head; v++)
		n += h->v[v].kept;
	return n;
}

static void live(struct history *h)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = NULL;

	commit(h);
	assert_int_equal(pf_branch_open(h->st, NULL, &b, NULL), 0);
	assert_int_equal(pf_survey_new(b, &s), 0);
	for (unsigned seen = 0; h->head + 4 < VERSIONS_MAX;) {
		for (unsigned n = dice(4); n > 0; n--)
			commit(h);
		if (dice(8) == 0)
			commit_damaged(h);
		if (dice(6) == 0)
			clean(h);
		/* Each manifest once, and none again. */
		assert_int_equal(refresh(s), count_kept(h, seen + 1));
		seen = h->head;
		check(h, s);
		if (dice(12) == 0)
			break;
	}
}

static void test_histories(void **state)
{
	for (which = 0; which < 250; which++) {
		struct history h = { .next = 1 };
		seed = which;
		h.v[0].kept = false;
		assert_int_equal(pf_store_mem_new(&h.st), 0);
		live(&h);
		pf_store_free(h.st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
