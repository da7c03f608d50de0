/*
 * Folders under tree/ that no ref belongs to any more: a branch that was deleted halfway, or made halfway long ago (lance-14-cleanup D15). They go whole or not
 * at all: when every file in them is older than the guard, and no branch that is there refers to any.
 */
#include <stdio.h>
#include <string.h>

#include "cleanup_parts.h"
#include "survey_parts.h"

#define TREE	  "tree"
#define DEPTH_MAX 32

struct zombies {
	struct pf_cleanup *c;
	const struct pf_branch_refs *refs;
};

/* A directory under tree/. */
struct place {
	struct zombies *z;
	const char *path;
	unsigned depth;
	bool folders[PF_FOLDERS]; /* of a branch that is not there */
	bool shared;		  /* a branch that is there lives in one of them */
	bool young;		  /* one of them was changed within the guard */
};

/* One folder of a zombie. */
struct inside {
	struct zombies *z;
	const char *dir;  /* of the zombie, with its slash */
	const char *path; /* of the folder being listed */
	unsigned depth;
	enum pf_fate *fate; /* why all of it stays, or PF_GOES_LEAK */
};

static const char *name_of(const char *path)
{
	return path + strlen(TREE "/");
}

/* Is there a branch of this name, or one whose name goes on from it? */
static bool is_alive(const struct pf_branch_refs *refs, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < refs->n; i++)
		if (strncmp(refs->v[i].name, name, n) == 0 && (refs->v[i].name[n] == '\0' || refs->v[i].name[n] == '/'))
			return true;
	return false;
}

static bool is_branch(const struct pf_branch_refs *refs, const char *name)
{
	for (size_t i = 0; i < refs->n; i++)
		if (strcmp(refs->v[i].name, name) == 0)
			return true;
	return false;
}

/* Does a version of any branch refer to it? */
static int is_known(const struct pf_lines *l, const char *path, const char *dir)
{
	for (size_t i = 0; i < l->n; i++) {
		int64_t known = l->v[i].survey ? pf_clean_known(&l->v[i].survey->state->set, path, dir) : -ENOENT;
		if (known != -ENOENT)
			return known < 0 ? (int)known : 1;
	}
	return 0;
}

static bool is_young(const struct zombies *z, const struct pf_stat *st)
{
	return st->mtime_ns >= z->c->rules.now_ns - PF_CLEAN_GUARD_NS;
}

static bool is_hint(const char *below)
{
	return strcmp(below, "_versions/latest_version_hint.json") == 0;
}

static int see_file(struct inside *in, const char *path, const struct pf_stat *st)
{
	struct pf_clean_file f = { .path = path, .size = st->size, .fate = PF_GOES_LEAK, .reasons = "" };
	struct pf_cleanup *c = in->z->c;
	const char *below = path + strlen(in->dir);
	struct pf_clean_verdict v;
	uint64_t version;

	pf_clean_judge(&c->rules, below, st->mtime_ns, PF_REF_NONE, &v);
	f.cls = pf_clean_class_of(below);
	int known = is_known(c->l, path, in->dir);
	if (known < 0)
		return known;
	if (known)
		*in->fate = PF_STAYS_BRANCH;
	else if (v.fate == PF_STAYS_UNKNOWN && !pf_clean_is_manifest(below, &version) && !is_hint(below))
		*in->fate = PF_STAYS_UNKNOWN;
	else if (is_young(in->z, st))
		*in->fate = PF_STAYS_PROGRESS;
	return pf_clean_add_victim(c, &f);
}

static int see_inside(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	_cleanup_(pf_freep) char *path = NULL;
	struct inside *in = arg;

	if (asprintf(&path, "%s/%s", in->path, name) < 0)
		return path = NULL, -ENOMEM;
	if (kind == PF_ENTRY_FILE)
		return see_file(in, path, st);
	if (kind != PF_ENTRY_DIR || in->depth == DEPTH_MAX) {
		*in->fate = PF_STAYS_UNKNOWN;
		return 0;
	}
	if (is_young(in->z, st))
		*in->fate = PF_STAYS_PROGRESS;
	struct inside below = *in;
	below.path = path;
	below.depth++;
	int r = pf_store_scan(in->z->c->l->st, path, see_inside, &below);
	return r == 0 ? pf_clean_add_folder(in->z->c, path) : r;
}

/* All of it stays: what was taken from `from` on is given back. */
static void give_back(struct pf_cleanup *c, size_t from, size_t folders, enum pf_fate fate)
{
	for (size_t i = from; i < c->n; i++) {
		c->report.kept[fate].files++;
		c->report.kept[fate].bytes += c->v[i].size;
		free(c->v[i].path);
	}
	c->n = from;
	pf_clean_drop_folders(c, folders);
}

static int tell(struct pf_cleanup *c, size_t from)
{
	int r = 0;

	for (size_t i = from; r == 0 && i < c->n; i++) {
		struct pf_victim *v = &c->v[i];
		const struct pf_clean_file f = {
			.path = v->path, .size = v->size, .cls = v->cls, .fate = v->fate, .reasons = ""
		};
		/* Nothing lists it: there is nothing to hide. */
		v->left = v->cls == PF_CLEAN_MANIFEST;
		c->report.removed[v->cls].files++;
		c->report.removed[v->cls].bytes += v->size;
		r = c->see ? c->see(c->arg, &f) : 0;
	}
	return r;
}

static int take_folders(struct place *at)
{
	_cleanup_(pf_freep) char *dir = NULL;
	struct pf_cleanup *c = at->z->c;
	size_t from = c->n, folders = c->n_folders;
	enum pf_fate fate = at->shared ? PF_STAYS_BRANCH : at->young ? PF_STAYS_PROGRESS : PF_GOES_LEAK;
	int r = 0;

	if (asprintf(&dir, "%s/", at->path) < 0)
		return dir = NULL, -ENOMEM;
	for (size_t i = 0; r == 0 && i < PF_FOLDERS; i++) {
		_cleanup_(pf_freep) char *path = NULL;
		struct inside in = { .z = at->z, .dir = dir, .depth = at->depth, .fate = &fate };
		if (!at->folders[i])
			continue;
		if (asprintf(&path, "%s%s", dir, pf_folders[i]) < 0)
			return path = NULL, -ENOMEM;
		in.path = path;
		r = pf_store_scan(c->l->st, path, see_inside, &in);
		if (r == 0)
			r = pf_clean_add_folder(c, path);
	}
	if (r == 0 && c->n_folders > folders)
		r = pf_clean_add_folder(c, at->path); /* if nothing else is in it */
	if (r == 0 && fate == PF_GOES_LEAK)
		return tell(c, from);
	give_back(c, from, folders, fate == PF_GOES_LEAK ? PF_STAYS_UNKNOWN : fate);
	return r;
}

static int walk(struct place *at);

static int see_place(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	_cleanup_(pf_freep) char *path = NULL;
	struct place *at = arg;

	if (kind != PF_ENTRY_DIR || at->depth == DEPTH_MAX)
		return 0;
	if (asprintf(&path, "%s/%s", at->path, name) < 0)
		return path = NULL, -ENOMEM;
	bool top = strcmp(at->path, TREE) == 0;
	for (size_t i = 0; !top && i < PF_FOLDERS; i++) {
		if (strcmp(name, pf_folders[i]) != 0)
			continue;
		if (is_alive(at->z->refs, name_of(path))) {
			at->shared = true;
			break;
		}
		at->folders[i] = !is_branch(at->z->refs, name_of(at->path));
		at->young |= is_young(at->z, st);
		return 0;
	}
	struct place below = { .z = at->z, .path = path, .depth = at->depth + 1 };
	return walk(&below);
}

static int walk(struct place *at)
{
	int r = pf_store_scan(at->z->c->l->st, at->path, see_place, at);

	return r == 0 ? take_folders(at) : r;
}

int pf_clean_zombies(struct pf_cleanup *c, struct pf_why *why)
{
	struct zombies z = { .c = c, .refs = &c->line->survey->refs };
	struct place top = { .z = &z, .path = TREE };

	if (!c->o.leaks || c->branch)
		return 0;
	int r = walk(&top);
	return r == -ENOENT ? 0 : r < 0 && r != -ENOMEM ? pf_why_set(why, r, TREE ": %s", strerror(-r)) : r;
}

int pf_clean_zombie_stays(const struct pf_cleanup *c, const struct pf_victim *v)
{
	const struct pf_branch_refs *refs = &c->line->survey->refs;

	if (c->branch || strncmp(v->path, TREE "/", strlen(TREE "/")) != 0)
		return 0;
	for (size_t i = 0; i < refs->n; i++) {
		_cleanup_(pf_freep) char *dir = NULL;
		if (asprintf(&dir, TREE "/%s/", refs->v[i].name) < 0)
			return dir = NULL, -ENOMEM;
		if (pf_place_is_own(v->path, dir, refs))
			return 1;
	}
	return is_known(c->l, v->path, TREE "/");
}
