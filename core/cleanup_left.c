/* Manifests that an earlier run renamed and did not come to delete: what they name was on its way out. */
#include <stdio.h>
#include <string.h>

#include "cleanup_parts.h"
#include "survey_parts.h"

struct reading {
	struct pf_leftovers *out;
	const char *dir;
	uint64_t version;
	struct pf_buf path;   /* room for names of references, */
	struct pf_buf joined; /* and for those in the store */
};

static void reading_release(struct reading *x)
{
	pf_buf_release(&x->path);
	pf_buf_release(&x->joined);
}

static int note_name(struct reading *x, enum pf_file_class cls, const char *folder, const char *name)
{
	const struct pf_surveyed_file like = { .cls = cls, .own = true };
	struct pf_file_set *set = &x->out->set;

	pf_buf_reset(&x->joined);
	int r = pf_buf_addf(&x->joined, "%s%s%s", x->dir, folder, name);
	const char *path = r == 0 ? pf_buf_str(&x->joined) : NULL;
	if (!path)
		return -ENOMEM;
	int64_t f = pf_file_set_add(set, 0, path, &like);
	if (f < 0)
		return (int)f;
	if (set->v[f].n_iv == 0)
		return pf_file_set_at(set, (size_t)f, x->version, 0);
	struct pf_interval *iv = set->v[f].iv;
	iv->first = x->version < iv->first ? x->version : iv->first;
	iv->last = x->version > iv->last ? x->version : iv->last;
	return 0;
}

/* What lies on bases is not deleted from here. */
static int see_reference(void *arg, const struct pf_reference *ref)
{
	return ref->has_base ? 0 : note_name(arg, ref->cls, "", ref->path);
}

static int see_fragment(void *arg, struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	struct reading *x = arg;

	return pf_fragment_references(w, f, &x->path, see_reference, x, why);
}

static int read_indices(struct pf_store *st, struct reading *x, struct pf_reader *r, const struct pf_manifest *m)
{
	_cleanup_(pf_indices_release) struct pf_indices l = { NULL, 0 };
	_cleanup_(pf_fri_release) struct pf_fri fri = { .index_version = 0 };
	const struct pf_fri_base where = { st, x->dir };
	const struct pf_index *entry = NULL;

	int e = pf_indices_decode(r, m, &l, NULL);
	if (e == 0)
		e = pf_index_references(&l, see_reference, x);
	if (e == 0)
		e = pf_fri_entry(&l, &entry, NULL);
	if (e < 0 || !entry || entry->has_base)
		return e;
	/* Its content may be among what is deleted already. */
	e = pf_fri_read_entry(&where, r, entry, &fri, NULL);
	return e == 0 ? pf_fri_references(&fri, see_reference, x) : e == -ENOMEM ? e : 0;
}

static int64_t newest(const struct reading *x, const struct pf_manifest *m)
{
	__int128 ns = (__int128)m->timestamp.sec * 1000000000 + m->timestamp.nsec;
	int64_t at = !m->has_timestamp ? 0 : ns > INT64_MAX ? INT64_MAX : ns < INT64_MIN ? INT64_MIN : (int64_t)ns;

	return at > x->out->newest_ns ? at : x->out->newest_ns;
}

/* `as`: the name that it had, by which its bytes are judged. */
static int read_manifest(struct pf_store *st, struct reading *x, const char *name, const char *as)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;

	int r = pf_store_open(st, name, &f);
	if (r == 0)
		r = pf_manifest_read(&f->r, as, &f->st, see_fragment, x, &m, NULL);
	if (r == 0)
		r = read_indices(st, x, &f->r, m);
	if (r == 0 && m->transaction_file && !strchr(m->transaction_file, '/'))
		r = note_name(x, PF_FILE_TRANSACTION, "_transactions/", m->transaction_file);
	if (r == 0)
		x->out->newest_ns = newest(x, m);
	/* One that cannot be read tells nothing: what it named grows old, and goes then. */
	return r == -ENOMEM ? r : 0;
}

struct finding {
	struct pf_store *st;
	struct reading *x;
};

static int see_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	_cleanup_(pf_freep) char *below = NULL, *path = NULL, *as = NULL;
	char was[PF_MANIFEST_NAME_MAX];
	struct finding *f = arg;
	bool v2;

	if (asprintf(&below, "_versions/%s", name) < 0)
		return below = NULL, -ENOMEM;
	if (kind != PF_ENTRY_FILE || !pf_clean_is_left(below, &f->x->version, &v2))
		return 0;
	pf_manifest_name_format(f->x->version, v2, was);
	if (asprintf(&path, "%s_versions/%s", f->x->dir, name) < 0)
		return path = NULL, -ENOMEM;
	if (asprintf(&as, "%s_versions/%s", f->x->dir, was) < 0)
		return as = NULL, -ENOMEM;
	return read_manifest(f->st, f->x, path, as);
}

int pf_leftovers_find(struct pf_store *st, const char *dir, struct pf_leftovers *out, struct pf_why *why)
{
	_cleanup_(reading_release) struct reading x = { .out = out, .dir = dir };
	_cleanup_(pf_freep) char *versions = NULL;
	struct finding f = { st, &x };

	out->newest_ns = INT64_MIN;
	int r = pf_file_set_init(&out->set);
	if (r < 0)
		return r;
	if (asprintf(&versions, "%s_versions", dir) < 0)
		return versions = NULL, -ENOMEM;
	r = pf_store_scan(st, versions, see_entry, &f);
	return r < 0 && r != -ENOMEM ? pf_why_set(why, r, "%s: %s", versions, strerror(-r)) : r;
}

void pf_leftovers_release(struct pf_leftovers *l)
{
	pf_file_set_release(&l->set);
}
