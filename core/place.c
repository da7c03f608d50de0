#include "place.h"

#include <stdio.h>
#include <string.h>

void pf_places_release(struct pf_places *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].spelled);
		free(l->v[i].prefix);
		free(l->v[i].perhaps);
	}
	free(l->v);
	*l = (struct pf_places){ NULL, 0 };
}

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

const char *const pf_folders[PF_FOLDERS] = { "_versions", "_transactions", "data",  "_deletions",
					     "_indices",  "_fri",	   "_blobs" };

/* Is `rest` what may follow the directory of a branch: nothing, or one of its folders? */
static bool in_folder(const char *rest)
{
	size_t n = strcspn(rest, "/");

	for (size_t i = 0; i < PF_FOLDERS; i++)
		if (strlen(pf_folders[i]) == n && strncmp(rest, pf_folders[i], n) == 0)
			return true;
	return n == 0;
}

bool pf_place_is_own(const char *name, const char *dir, const struct pf_branch_refs *refs)
{
	if (!starts(name, dir) || !in_folder(name + strlen(dir)))
		return false;
	for (size_t i = 0; i < refs->n && starts(name, "tree/"); i++) {
		const char *other = refs->v[i].name;
		size_t n = strlen(other), at = strlen("tree/");
		if (at + n + 1 > strlen(dir) && strncmp(name + at, other, n) == 0 && name[at + n] == '/' &&
		    in_folder(name + at + n + 1))
			return false;
	}
	return true;
}

/* The directory of the branch that a path ends in, "" if in none: what a base path says that leads nowhere any more. */
static int guess(const char *path, const struct pf_branch_refs *refs, char **out)
{
	size_t len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	for (size_t i = 0; i < refs->n; i++) {
		_cleanup_(pf_freep) char *tail = NULL;
		int n = asprintf(&tail, "/tree/%s", refs->v[i].name);
		if (n < 0)
			return tail = NULL, -ENOMEM;
		if ((size_t)n <= len && memcmp(path + len - (size_t)n, tail, (size_t)n) == 0)
			return asprintf(out, "%s/", tail + 1) < 0 ? -ENOMEM : 0;
	}
	*out = strdup("");
	return *out ? 0 : -ENOMEM;
}

static int find_base(struct pf_base_list *l, const char *where, const char *perhaps, uint32_t *out)
{
	for (size_t i = 1; i < l->n; i++) {
		if (strcmp(l->v[i].where, where) == 0) {
			*out = (uint32_t)i;
			return 0;
		}
	}
	struct pf_survey_base *v = reallocarray(l->v, l->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n] = (struct pf_survey_base){ .where = strdup(where), .perhaps = perhaps ? strdup(perhaps) : NULL };
	*out = (uint32_t)l->n++;
	return !v[*out].where || (perhaps && !v[*out].perhaps) ? -ENOMEM : 0;
}

static int resolve_one(struct pf_store *st, const char *dir, const struct pf_branch_refs *refs,
		       const struct pf_base_path *path, struct pf_base_list *bases, struct pf_place *out)
{
	_cleanup_(pf_freep) char *where = NULL;

	out->id = path->id;
	out->is_dataset_root = path->is_dataset_root;
	out->spelled = strdup(path->path);
	if (!out->spelled)
		return -ENOMEM;
	int r = pf_store_resolve(st, path->path, &where);
	if (r == -ENOMEM)
		return r;
	if (r > 0) {
		bool root = strcmp(where, ".") == 0;
		if (asprintf(&out->prefix, "%s%s", root ? "" : where, root ? "" : "/") < 0)
			return out->prefix = NULL, -ENOMEM;
		out->own = pf_place_is_own(out->prefix, dir, refs);
		return 0;
	}
	out->prefix = strdup("");
	if (!out->prefix)
		return -ENOMEM;
	if (r < 0 && guess(path->path, refs, &out->perhaps) < 0)
		return out->perhaps = NULL, -ENOMEM;
	return find_base(bases, r < 0 ? path->path : where, out->perhaps, &out->base);
}

int pf_places_resolve(struct pf_store *st, const char *dir, const struct pf_branch_refs *refs,
		      const struct pf_base_paths *l, struct pf_base_list *bases, struct pf_places *out)
{
	_cleanup_(pf_places_release) struct pf_places places = { NULL, 0 };

	places.v = calloc(l->n ? l->n : 1, sizeof(*places.v));
	if (!places.v)
		return -ENOMEM;
	while (places.n < l->n) {
		size_t i = places.n++;
		int r = resolve_one(st, dir, refs, &l->v[i], bases, &places.v[i]);
		if (r < 0)
			return r;
	}
	*out = places;
	places = (struct pf_places){ NULL, 0 };
	return 0;
}

bool pf_places_are_of(const struct pf_places *l, const struct pf_base_paths *paths)
{
	if (l->n != paths->n)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].id != paths->v[i].id || l->v[i].is_dataset_root != paths->v[i].is_dataset_root ||
		    strcmp(l->v[i].spelled, paths->v[i].path) != 0)
			return false;
	return true;
}

static int cmp_id(const void *a, const void *b)
{
	const struct pf_place *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

const struct pf_place *pf_places_find(const struct pf_places *l, uint32_t id)
{
	const struct pf_place key = { .id = id };

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), cmp_id) : NULL;
}

bool pf_places_hold(const struct pf_places *was, const struct pf_places *is)
{
	for (size_t i = 0; i < was->n; i++) {
		const struct pf_place *a = &was->v[i], *b = pf_places_find(is, a->id);
		if (!b || a->base != b->base || a->is_dataset_root != b->is_dataset_root ||
		    strcmp(a->prefix, b->prefix) != 0 ||
		    strcmp(a->perhaps ? a->perhaps : "-", b->perhaps ? b->perhaps : "-") != 0)
			return false;
	}
	return true;
}
