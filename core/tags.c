#include "ref_file.h"

#include <string.h>

#define TAGS "_refs/tags"

void pf_tag_release(struct pf_tag *t)
{
	free(t->name);
	free(t->branch);
	free(t->created_at);
	free(t->updated_at);
	free(t->metadata);
	*t = (struct pf_tag){ 0 };
}

void pf_tags_release(struct pf_tags *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_tag_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_tags){ 0 };
}

static int read_tag(struct pf_store *st, const char *file, struct pf_tag *out, struct pf_why *why)
{
	_cleanup_(pf_ref_json_release) json_t *j = NULL;
	_cleanup_(pf_tag_release) struct pf_tag t = { 0 };
	const json_t *metadata;

	int r = pf_ref_name(file + strlen(TAGS "/"), &t.name, why);
	if (r == 0)
		r = pf_ref_load(st, file, &j, why);
	if (r == 0)
		r = pf_ref_branch(j, "branch", &t.branch, why);
	if (r == 0)
		r = pf_ref_u64(j, "version", &t.version, why);
	if (r == 0)
		r = pf_ref_u64(j, "manifestSize", &t.manifest_size, why);
	if (r == 0)
		r = pf_ref_string(j, "createdAt", &t.created_at, why);
	if (r == 0)
		r = pf_ref_string(j, "updatedAt", &t.updated_at, why);
	if (r == 0)
		r = pf_ref_metadata(j, &metadata, why);
	if (r < 0)
		return r;
	if (metadata && !(t.metadata = json_dumps(metadata, 0)))
		return -ENOMEM;
	*out = t;
	t = (struct pf_tag){ 0 };
	return 0;
}

int pf_tag_read(struct pf_store *st, const char *name, struct pf_tag *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_buf_addstr(&file, TAGS "/");
	if (r == 0)
		r = pf_percent_encode(name, strlen(name), &file);
	if (r == 0)
		r = pf_buf_addstr(&file, PF_REF_SUFFIX);
	const char *path = r == 0 ? pf_buf_str(&file) : NULL;
	if (!path)
		return -ENOMEM;
	r = read_tag(st, path, out, &inner);
	if (r == -ENOENT)
		return pf_why_set(why, r, "no such tag: %s is missing", path);
	return r < 0 ? pf_ref_blame(path, r, &inner, why) : 0;
}

static int cmp_tags(const void *a, const void *b)
{
	const struct pf_tag *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int pf_tags_list(struct pf_store *st, struct pf_tags *out, struct pf_why *why)
{
	return pf_tags_scan(st, NULL, NULL, out, why);
}

int pf_tags_scan(struct pf_store *st, pf_ref_bad_fn bad, void *arg, struct pf_tags *out, struct pf_why *why)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { NULL };
	_cleanup_(pf_ref_files_release) struct pf_ref_files files = { NULL };

	int r = pf_ref_files_find(st, TAGS, 1, &files, why);
	if (r < 0)
		return r;
	tags.v = calloc(files.n + 1, sizeof(*tags.v));
	if (!tags.v)
		return -ENOMEM;
	for (size_t i = 0; i < files.n; i++) {
		struct pf_why inner = PF_WHY_INIT;
		r = read_tag(st, files.v[i], &tags.v[tags.n], &inner);
		if (r == 0)
			tags.n++;
		else if (r != -ENOENT && (r = pf_ref_bad(files.v[i], r, &inner, bad, arg, why)))
			return r;
		/* -ENOENT: deleted since it was listed */
	}
	qsort(tags.v, tags.n, sizeof(*tags.v), cmp_tags);
	*out = tags;
	tags = (struct pf_tags){ NULL };
	return 0;
}
