#include "fri.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "fri_parts.h"
#include "lance.pb-c.h"

#define DETAILS_TYPE "lance.table.FragmentReuseIndexDetails"

void pf_fri_release(struct pf_fri *f)
{
	for (size_t i = 0; i < f->n_groups; i++) {
		free(f->groups[i].from);
		free(f->groups[i].to);
	}
	free(f->groups);
	free(f->records);
	free(f->sources);
	free(f->external_path);
	free(f->unsupported_why);
	pf_buf_release(&f->content);
	*f = (struct pf_fri){ 0 };
}

int pf_fri_entry(const struct pf_indices *l, const struct pf_index **out, struct pf_why *why)
{
	const struct pf_index *first = NULL;
	bool tagged = false;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].name, PF_FRI_NAME) != 0)
			continue;
		if (n++ == 0)
			first = &l->v[i];
		tagged = tagged || l->v[i].index_version != 0;
	}
	if (n > 1 && tagged)
		return pf_why_set(why, -EBADMSG, "expected one entry %s, found %zu of which one is tagged", PF_FRI_NAME,
				  n);
	/* Of several v0 entries Lance takes the first. */
	*out = first;
	return 0;
}

int pf_fri_version_check(int32_t index_version, struct pf_why *why)
{
	if (index_version == 0 || index_version == 1)
		return 0;
	return pf_why_set(why, -EOPNOTSUPP, "index_version %" PRId32 "; pinfs understands 0 and 1", index_version);
}

/* Where the content is: the one field of the details, which are in the manifest file. */
static int find_content(struct pf_reader *r, const struct pf_index *x, struct pf_field *out, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	size_t n = 0;
	int e;

	pf_wire_init(&w, r, x->details.off, x->details.len);
	while ((e = pf_wire_next(&w, &f, why)) > 0) {
		if (f.number != LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FIELD__INLINE &&
		    f.number != LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FIELD__EXTERNAL)
			continue;
		e = pf_wire_expect(&f, PF_WIRE_LEN, why);
		if (e < 0)
			return e;
		if (n++ > 0)
			return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected one content, found another",
					  f.start);
		*out = f;
	}
	if (e < 0)
		return e;
	return n ? 0 : pf_why_set(why, -EBADMSG, "expected a content, inline or external, found none");
}

static int check_details(const struct pf_index *x, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	if (!x->details_type)
		return pf_why_set(why, -EBADMSG, "expected details, found none");
	const char *slash = strrchr(x->details_type, '/');
	if (strcmp(slash ? slash + 1 : x->details_type, DETAILS_TYPE) != 0)
		return pf_why_set(why, -EBADMSG, "expected details of type %s, found %s", DETAILS_TYPE,
				  pf_text_quote(x->details_type, strlen(x->details_type), quoted));
	return 0;
}

/* A range of a file in _indices/<uuid>/. */
struct external {
	struct pf_buf name;
	uint64_t offset, size;
};

static void external_release(struct external *e)
{
	pf_buf_release(&e->name);
}

/* Decode the ExternalFile that a field of the details holds. */
static int take_external(struct pf_reader *r, const struct pf_field *message, struct external *out, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	char quoted[PF_QUOTE_TEXT];
	struct pf_field f;
	int e;

	pf_wire_init(&w, r, message->value, message->len);
	while ((e = pf_wire_next(&w, &f, why)) > 0) {
		if (f.number == LANCE__EXTERNAL_FILE__FIELD__PATH) {
			pf_buf_reset(&out->name);
			e = pf_wire_payload(r, &f, NAME_MAX, &out->name, why);
		} else if (f.number == LANCE__EXTERNAL_FILE__FIELD__OFFSET) {
			e = pf_wire_u64(&f, &out->offset, why);
		} else if (f.number == LANCE__EXTERNAL_FILE__FIELD__SIZE) {
			e = pf_wire_u64(&f, &out->size, why);
		}
		if (e < 0)
			return e;
	}
	if (e < 0)
		return e;
	const char *s = pf_buf_str(&out->name);
	if (!s)
		return -ENOMEM;
	if (out->name.len == 0 || strlen(s) != out->name.len || strchr(s, '/') || strcmp(s, ".") == 0 ||
	    strcmp(s, "..") == 0)
		return pf_why_set(why, -EBADMSG, "expected external content to be the name of a file, found %s",
				  pf_text_quote(s, out->name.len, quoted));
	return 0;
}

static int read_range(struct pf_store *st, const char *path, const struct external *e, struct pf_buf *content,
		      struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	int r = pf_store_open(st, path, &file);

	if (r == -ENOENT)
		return pf_why_set(why, r, "missing");
	if (r < 0)
		return pf_why_set(why, r, "%s", strerror(-r));
	/* A longer file is fine: only this range counts. */
	if (e->offset > file->r.size || e->size > file->r.size - e->offset)
		return pf_why_set(why, -EBADMSG,
				  "expected %" PRIu64 " bytes from %" PRIu64 " on, found a file of %" PRIu64, e->size,
				  e->offset, file->r.size);
	if (e->size == 0)
		return 0;
	r = pf_buf_reserve(content, e->size);
	if (r == 0)
		r = file->r.read(&file->r, e->offset, content->data, e->size);
	if (r < 0)
		return pf_why_default(why, r, "%s", strerror(-r));
	content->len = e->size;
	return 0;
}

/* Content in a file of the directory `dir` of st, NULL if that is on a base that nobody named. */
static int read_external(struct pf_store *st, const char *dir, const struct pf_index *x, struct external *e,
			 struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, path = PF_BUF_INIT;

	if (!st)
		return pf_why_set(why, -EINVAL, "its content is on base %" PRIu32 ", which was not given", x->base_id);
	int r = pf_buf_addf(&path, "%s_indices/%s/%s", dir, x->uuid, (const char *)e->name.data);
	const char *s = r == 0 ? pf_buf_str(&path) : NULL;
	if (!s)
		return -ENOMEM;
	r = read_range(st, s, e, &content, why);
	if (r == 0)
		r = pf_fri_decode(&content, x->index_version, out, why);
	if (r < 0) {
		pf_why_default(why, r, "%s", strerror(-r));
		return pf_why_prefix(why, r, "%s", s);
	}
	out->external = true;
	out->external_path = (char *)STEAL(e->name.data);
	out->external_offset = e->offset;
	out->external_size = e->size;
	return 0;
}

static int read_entry(struct pf_store *st, const char *dir, struct pf_reader *manifest, const struct pf_index *x,
		      struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(external_release) struct external external = { .size = 0 };
	struct pf_field f;
	int r = pf_fri_version_check(x->index_version, why);

	if (r == 0)
		r = check_details(x, why);
	if (r == 0)
		r = find_content(manifest, x, &f, why);
	if (r < 0)
		return r;
	if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FIELD__EXTERNAL) {
		r = take_external(manifest, &f, &external, why);
		return r < 0 ? r : read_external(st, dir, x, &external, out, why);
	}
	r = pf_wire_payload(manifest, &f, f.len, &content, why);
	return r < 0 ? r : pf_fri_decode(&content, x->index_version, out, why);
}

int pf_fri_read_entry(const struct pf_fri_base *where, struct pf_reader *manifest, const struct pf_index *x,
		      struct pf_fri *out, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	int r = read_entry(where->st, where->dir, manifest, x, out, &inner);

	if (r < 0)
		return pf_why_set(why, r, "%s %s: %s", PF_FRI_NAME, x->uuid, inner.text[0] ? inner.text : strerror(-r));
	memcpy(out->uuid, x->uuid, sizeof(out->uuid));
	out->dataset_version = x->dataset_version;
	out->has_base = x->has_base;
	out->base_id = x->base_id;
	return 0;
}

int pf_fri_read(struct pf_store *st, const char *dir, const struct pf_manifest *m, const struct pf_fri_base *base,
		struct pf_fri *out, struct pf_why *why)
{
	static const struct pf_fri_base nowhere = { 0 };
	const struct pf_fri_base here = { st, dir };
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	const struct pf_index *x = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_indices_read(st, m, &list, why);
	if (r < 0)
		return r;
	r = pf_fri_entry(&list, &x, &inner);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", m->name, inner.text);
	if (!x)
		return pf_why_set(why, -ENODATA, "%s has no fragment reuse index", m->name);
	r = pf_manifest_reopen(st, m, &file, why);
	if (r < 0)
		return r;
	if (!x->has_base)
		base = &here;
	else if (!base)
		base = &nowhere;
	r = pf_fri_read_entry(base, &file->r, x, out, &inner);
	return r < 0 ? pf_why_set(why, r, "%s: %s", m->name, inner.text) : 0;
}

int pf_fri_ancestors(const struct pf_fri *f, uint64_t fragment, struct pf_numbers *out)
{
	size_t done = out->n;
	int r = 0;

	for (uint64_t at = fragment;; at = out->v[done++]) {
		for (size_t g = 0; r == 0 && g < f->n_groups; g++) {
			bool makes = false;
			for (size_t i = 0; i < f->groups[g].n_to; i++)
				makes |= f->groups[g].to[i].id == at;
			for (size_t i = 0; makes && r == 0 && i < f->groups[g].n_from; i++)
				if (!pf_numbers_has(out, f->groups[g].from[i].id))
					r = pf_numbers_add(out, f->groups[g].from[i].id);
		}
		if (r < 0 || done == out->n)
			return r;
	}
}
