#include "base_path.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"

/* A URI with credentials and options is long; this is longer. */
#define PATH_MAX_BYTES 65536

void pf_base_paths_release(struct pf_base_paths *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	*l = (struct pf_base_paths){ 0 };
}

static int cmp_id(const void *a, const void *b)
{
	const struct pf_base_path *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

const struct pf_base_path *pf_base_paths_find(const struct pf_base_paths *l, uint32_t id)
{
	const struct pf_base_path key = { .id = id };

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), cmp_id) : NULL;
}

static int take_path(struct pf_reader *r, const struct pf_field *f, char **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;

	int e = pf_wire_payload(r, f, PATH_MAX_BYTES, &raw, why);
	if (e < 0)
		return e;
	const char *s = pf_buf_str(&raw);
	if (!s)
		return -ENOMEM;
	if (memchr(s, '\0', raw.len) || !pf_utf8_valid(s, raw.len))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a path in UTF-8", f->start);
	free(*out);
	*out = strdup(s);
	return *out ? 0 : -ENOMEM;
}

static int take_base(struct pf_wire *w, const struct pf_field *field, struct pf_base_path *out, struct pf_why *why)
{
	struct pf_field f;
	uint64_t v;
	int r = pf_wire_expect(field, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, field);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__BASE_PATH__FIELD__ID) {
			r = pf_wire_u64(&f, &v, why);
			if (r == 0 && v > UINT32_MAX)
				r = pf_why_set(why, -EBADMSG,
					       "offset %" PRIu64 ": expected a base id of 32 bits, found %" PRIu64,
					       f.start, v);
			out->id = r == 0 ? (uint32_t)v : 0;
		} else if (f.number == LANCE__BASE_PATH__FIELD__IS_DATASET_ROOT) {
			r = pf_wire_u64(&f, &v, why);
			out->is_dataset_root = r == 0 && v != 0;
		} else if (f.number == LANCE__BASE_PATH__FIELD__PATH) {
			r = take_path(w->r, &f, &out->path, why);
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	if (r == 0 && !out->path)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a base to have a path", field->start);
	return r;
}

static int take_run(struct pf_reader *r, const struct pf_run *run, struct pf_base_paths *l, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	int e;

	pf_wire_init(&w, r, run->off, run->len);
	while ((e = pf_wire_next(&w, &f, why)) > 0) {
		struct pf_base_path *v = reallocarray(l->v, l->n + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		v[l->n] = (struct pf_base_path){ 0 };
		e = take_base(&w, &f, &v[l->n++], why);
		if (e < 0)
			return e;
	}
	return e;
}

int pf_base_paths_read(struct pf_reader *r, const struct pf_manifest *m, struct pf_base_paths *out, struct pf_why *why)
{
	_cleanup_(pf_base_paths_release) struct pf_base_paths l = { NULL, 0 };
	int e = 0;

	for (size_t i = 0; e == 0 && i < m->n_runs; i++)
		if (m->runs[i].number == LANCE__MANIFEST__FIELD__BASE_PATHS)
			e = take_run(r, &m->runs[i], &l, why);
	if (e < 0)
		return e;
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), cmp_id);
	for (size_t i = 1; i < l.n; i++)
		if (l.v[i].id == l.v[i - 1].id)
			return pf_why_set(why, -EBADMSG, "expected each base id once, found two bases %" PRIu32,
					  l.v[i].id);
	*out = l;
	l = (struct pf_base_paths){ 0 };
	return 0;
}
