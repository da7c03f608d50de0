#include "whole.h"

#include <inttypes.h>
#include <string.h>

#include "fragment_diff.h"
#include "lance.pb-c.h"
#include "reference.h"
#include "rowaddr.h"
#include "shape.h"
#include "text.h"

struct looking {
	struct pf_store *st;
	const char *dir;
	struct pf_buf path; /* room for names of references, */
	struct pf_buf name; /* and for those in the store */
	struct pf_why *why;
};

static void looking_release(struct looking *l)
{
	pf_buf_release(&l->path);
	pf_buf_release(&l->name);
}

static int missing(const struct looking *l, int err)
{
	const char *name = (const char *)l->name.data;
	char quoted[PF_QUOTE_TEXT];

	pf_text_quote(name, strlen(name), quoted);
	if (err == -ENOENT || err == -ENOTDIR)
		return pf_why_set(
			l->why, -ENOENT,
			"its file %s is gone: a cleanup took it for left over, and the work is to be done again",
			quoted);
	return pf_why_set(l->why, err, "cannot look at %s: %s", quoted, strerror(-err));
}

static int too_short(const struct looking *l, uint64_t size, uint64_t expected)
{
	const char *name = (const char *)l->name.data;
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(l->why, -ENOENT,
			  "its file %s has %" PRIu64 " of %" PRIu64
			  " bytes: some were never written, or removed since, and "
			  "the work is to be done again",
			  pf_text_quote(name, strlen(name), quoted), size, expected);
}

static int too_long(const struct looking *l, uint64_t size, uint64_t expected)
{
	const char *name = (const char *)l->name.data;
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(l->why, -EBADMSG, "its file %s has %" PRIu64 " bytes, and it tells of %" PRIu64,
			  pf_text_quote(name, strlen(name), quoted), size, expected);
}

static int add_size(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	uint64_t *sum = arg;

	*sum += st->size;
	return 0;
}

static int see(void *arg, const struct pf_reference *ref)
{
	struct looking *l = arg;
	uint64_t size = 0;
	struct pf_stat st;

	if (ref->has_base || ref->optional)
		return 0;
	pf_buf_reset(&l->name);
	int r = pf_buf_addf(&l->name, "%s%s", l->dir, ref->path);
	if (r < 0 || !pf_buf_str(&l->name))
		return -ENOMEM;
	if (ref->cls == PF_FILE_INDEX) {
		r = pf_store_scan(l->st, (char *)l->name.data, add_size, &size);
	} else {
		r = pf_store_stat(l->st, (char *)l->name.data, &st);
		size = r < 0 ? 0 : st.size;
	}
	if (r < 0)
		return missing(l, r);
	if (size < ref->size)
		return too_short(l, size, ref->size);
	/* Lance looks for the end of a data file where the manifest says that it is. */
	return ref->cls == PF_FILE_DATA && ref->size && size > ref->size ? too_long(l, size, ref->size) : 0;
}

static int ignore(void *arg, struct pf_wire *w, const struct pf_field *f, int by, struct pf_why *why)
{
	return 0;
}

/* Of one that the base does not have. */
static int look_at_new(void *arg, struct pf_wire *w, const struct pf_field *f, int by, struct pf_why *why)
{
	struct looking *l = arg;

	if (by < 0)
		return 0;
	int r = pf_fragment_references(w, f, &l->path, see, l, why);
	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(w, f);
	r = pf_shape_check(&pf_shape_fragment, w, why);
	pf_wire_leave(w, end);
	return r;
}

/* Read m, and tell fn of the fragments that `was`, which `old` reads, does not have. */
static int read_fragments(struct pf_reader *r, const struct pf_manifest *m, const char *name,
			  const struct pf_fragment_list *was, struct pf_reader *old, struct pf_fragment_list *is,
			  pf_fragment_fn fn, void *arg, struct pf_why *why)
{
	_cleanup_(pf_fragment_diff_release) struct pf_fragment_diff diff;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *again = NULL;

	pf_fragment_diff_init(&diff, was, old, is, r, fn, arg);
	return pf_manifest_read(r, name, &m->st, pf_fragment_diff_see, &diff, &again, why);
}

static bool has_index(const struct pf_indices *l, const char *uuid)
{
	size_t i = 0;

	while (i < l->n && strcmp(l->v[i].uuid, uuid) != 0)
		i++;
	return i < l->n;
}

static int look_at_index(struct looking *l, struct pf_index *x, bool known)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *covered = NULL;
	const struct pf_indices one = { x, 1 };

	int r = x->has_bitmap ? pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &covered, l->why) : 0;
	return r < 0 || known ? r : pf_index_references(&one, see, l);
}

static int look_at_indices(struct looking *l, struct pf_reader *r, const struct pf_manifest *m, struct pf_reader *old,
			   const struct pf_manifest *base)
{
	_cleanup_(pf_indices_release) struct pf_indices now = { NULL }, then = { NULL };

	int e = pf_indices_decode(r, m, &now, l->why);
	if (e == 0)
		e = pf_indices_decode(old, base, &then, l->why);
	for (size_t i = 0; e == 0 && i < now.n; i++)
		e = look_at_index(l, &now.v[i], has_index(&then, now.v[i].uuid));
	return e;
}

int pf_manifest_whole(struct pf_store *st, const char *dir, const struct pf_manifest *base,
		      const struct pf_manifest *staged, const char *name, struct pf_why *why)
{
	_cleanup_(pf_fragment_list_release) struct pf_fragment_list was = { NULL }, is = { NULL };
	_cleanup_(pf_file_closep) struct pf_file *old = NULL, *file = NULL;
	struct pf_why said = PF_WHY_INIT; /* of files: what reads the manifest would put its name before it */
	_cleanup_(looking_release) struct looking l = { .st = st, .dir = dir, .why = &said };

	int r = pf_manifest_reopen(st, base, &old, why);
	if (r == 0)
		r = pf_manifest_reopen(st, staged, &file, why);
	if (r == 0)
		r = read_fragments(&old->r, base, base->name, NULL, NULL, &was, ignore, NULL, why);
	if (r == 0)
		r = read_fragments(&file->r, staged, name, &was, &old->r, &is, look_at_new, &l, why);
	if (r == 0)
		r = pf_shape_check_manifest(&file->r, staged, is.scattered ? 0 : is.end, why);
	if (r == 0)
		r = look_at_indices(&l, &file->r, staged, &old->r, base);
	return r < 0 && said.text[0] ? pf_why_set(why, r, "%s", said.text) : r;
}
