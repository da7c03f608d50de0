#include "rewritten.h"

#include <inttypes.h>

#include "lance.pb-c.h"
#include "next.h"
#include "text.h"

void pf_rewrites_release(struct pf_rewrites *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_numbers_release(&l->v[i].fields);
	free(l->v);
	*l = (struct pf_rewrites){ 0 };
}

static struct pf_rewritten *grow(struct pf_rewrites *l, uint64_t fragment)
{
	struct pf_rewritten *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return NULL;
	l->v = v;
	v[l->n] = (struct pf_rewritten){ .fragment = fragment };
	return &v[l->n++];
}

int pf_rewrites_add(struct pf_rewrites *l, const struct pf_operation *o)
{
	int r = 0;

	for (size_t i = 0; r == 0 && o->fields_modified.n && i < o->updated.n; i++) {
		struct pf_rewritten *w = grow(l, o->updated.v[i].id);
		if (!w)
			return -ENOMEM;
		for (size_t k = 0; r == 0 && k < o->fields_modified.n; k++)
			r = pf_numbers_add(&w->fields, o->fields_modified.v[k]);
	}
	for (size_t i = 0; r == 0 && i < o->n_replacements; i++) {
		const struct pf_data_file *f = &o->replacements[i].file;
		struct pf_rewritten *w = grow(l, o->replacements[i].fragment);
		if (!w)
			return -ENOMEM;
		for (size_t k = 0; r == 0 && k < f->n_fields; k++)
			if (f->fields[k] >= 0)
				r = pf_numbers_add(&w->fields, (uint64_t)f->fields[k]);
	}
	return r;
}

int pf_rewrites_add_fragment(struct pf_rewrites *l, const struct pf_fragment *was, const struct pf_fragment *is)
{
	_cleanup_(pf_numbers_release) struct pf_numbers fields = { 0 };
	int r = 0;

	for (size_t i = 0; i < is->n_files; i++) {
		for (size_t k = 0; r == 0 && k < is->files[i].n_fields; k++) {
			int32_t id = is->files[i].fields[k];
			bool had = false, same = false;
			for (size_t j = 0; id >= 0 && j < was->n_files; j++) {
				if (!pf_data_file_has(&was->files[j], id))
					continue;
				had = true;
				same |= pf_span_eq(was->files[j].path, is->files[i].path);
			}
			if (had && !same)
				r = pf_numbers_add(&fields, (uint64_t)id);
		}
	}
	if (r < 0 || fields.n == 0)
		return r;
	struct pf_rewritten *w = grow(l, is->id);
	if (!w)
		return -ENOMEM;
	w->fields = fields;
	fields = (struct pf_numbers){ 0 };
	return 0;
}

/* A column of the index that is of another type now. */
static const struct pf_column *find_retyped(const struct pf_indices *l, const struct pf_schema *was,
					    const struct pf_schema *is)
{
	for (size_t i = 0; i < l->n; i++)
		for (size_t k = 0; k < l->v[i].n_fields; k++) {
			const struct pf_column *a = pf_schema_find(was, l->v[i].fields[k]),
					       *b = pf_schema_find(is, l->v[i].fields[k]);
			if (a && b && !pf_span_eq(a->type, b->type))
				return b;
		}
	return NULL;
}

/* Those that were there come first, each once; what follows is new. */
static int add_fragments(struct pf_rewrites *l, struct pf_reader *rd, const struct pf_roster *before,
			 const struct pf_operation *merge, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < merge->added.n && i < before->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
		_cleanup_(pf_fragment_release) struct pf_fragment was = { 0 };
		const struct pf_slot *s = pf_roster_find(before, merge->added.v[i].id);
		if (!s)
			continue;
		r = pf_slot_load(rd, s, &message, why);
		if (r == 0)
			r = pf_fragment_decode(PF_SPAN_OF(&message), &was, why);
		if (r == 0)
			r = pf_rewrites_add_fragment(l, &was, &merge->added.v[i]);
	}
	return r;
}

int pf_rewrites_add_merge(struct pf_rewrites *l, struct pf_branch *b, const struct pf_operation *merge,
			  uint64_t version, const struct pf_operation *index, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *before = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_roster_release) struct pf_roster roster = { 0 };
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];

	int r = pf_branch_version(b, version - 1, &before, why);
	if (r == 0)
		r = pf_manifest_reopen(pf_branch_store(b), before, &file, why);
	if (r == -ENOENT || r == -ESTALE)
		return pf_why_set(why, -EAGAIN,
				  "version %" PRIu64 " is gone, to which the Merge of version %" PRIu64
				  " was applied: what it rewrote cannot be told, prepare the index anew",
				  version - 1, version);
	if (r == 0)
		r = pf_manifest_get_field(&file->r, before, LANCE__MANIFEST__FIELD__FIELDS, &fields, why);
	if (r == 0)
		r = pf_schema_read(PF_SPAN_OF(&fields), LANCE__MANIFEST__FIELD__FIELDS, &schema, why);
	if (r < 0)
		return r;
	const struct pf_column *c = find_retyped(&index->new_indices, &schema, &merge->schema);
	if (c)
		return pf_why_set(why, -EAGAIN,
				  "the Merge of version %" PRIu64
				  " changed the type of column %s: build the index anew",
				  version, pf_text_quote((const char *)c->name.p, c->name.n, quoted));
	r = pf_roster_read(&file->r, before, &roster, why);
	return r < 0 ? r : add_fragments(l, &file->r, &roster, merge, why);
}
