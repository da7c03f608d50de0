/* Everything that is in a branch's folders, listed and judged before anything is deleted (lance-14-cleanup D12). */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cleanup_parts.h"
#include "survey_parts.h"

/* Deeper than any writer goes; what is below stays. */
#define DEPTH_MAX 16

struct sweep {
	struct pf_cleanup *c;
	struct pf_store *st;
	struct pf_survey *s;
	struct pf_why *why;
};

/* A directory being listed, and what was found in it so far. */
struct level {
	struct sweep *w;
	const char *dir; /* in the store */
	unsigned depth;
	bool stays; /* something in it does */
	bool holds; /* a file in it stays, however deep, */
	bool goes;  /* or goes */
};

/* The file itself, or a directory that it is in. */
static int64_t find_in(const struct pf_file_set *set, const char *path, const char *dir)
{
	char name[PATH_MAX];
	size_t n = strlen(path), top = strlen(dir);

	if (n >= sizeof(name))
		return -ENOENT;
	memcpy(name, path, n + 1);
	for (char *end = name + n; end && end > name + top; end = strrchr(name, '/')) {
		*end = '\0';
		int64_t i = pf_file_set_find(set, 0, name);
		if (i >= 0 && (set->v[i].n_iv || set->v[i].needed))
			return i;
	}
	return -ENOENT;
}

int64_t pf_clean_known(const struct pf_file_set *set, const char *path, const char *dir)
{
	const char *below = path + strlen(dir), *slash = strrchr(path, '/');
	_cleanup_(pf_freep) char *data = NULL;
	size_t n = strlen(path);

	int64_t i = find_in(set, path, dir);
	if (i != -ENOENT || strncmp(below, "data/", 5) != 0 || slash <= below + 5 || n < 5 ||
	    strcmp(path + n - 5, ".blob") != 0)
		return i;
	if (asprintf(&data, "%.*s.lance", (int)(slash - path), path) < 0)
		return data = NULL, -ENOMEM;
	return find_in(set, data, dir);
}

static enum pf_fate fate_of(unsigned reasons)
{
	static const struct {
		enum pf_reason reason;
		enum pf_fate fate;
	} order[] = {
		{ PF_KEPT_HEAD, PF_STAYS_HEAD },     { PF_KEPT_POLICY, PF_STAYS_POLICY }, { PF_KEPT_TAG, PF_STAYS_TAG },
		{ PF_KEPT_BRANCH, PF_STAYS_BRANCH }, { PF_KEPT_PIN, PF_STAYS_PIN },
	};

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (reasons & order[i].reason)
			return order[i].fate;
	return PF_GOES_NAMED;
}

int pf_clean_add_victim(struct pf_cleanup *c, const struct pf_clean_file *f)
{
	if (c->n == c->cap) {
		size_t cap = c->cap ? 2 * c->cap : 256;
		struct pf_victim *v = reallocarray(c->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		c->v = v;
		c->cap = cap;
	}
	struct pf_victim *v = &c->v[c->n];
	*v = (struct pf_victim){ .path = strdup(f->path),
				 .size = f->size,
				 .first = f->first,
				 .last = f->last,
				 .cls = f->cls,
				 .fate = f->fate };
	if (!v->path)
		return -ENOMEM;
	v->left = pf_clean_is_left(f->path + strlen(c->dir), &v->first, &(bool){ 0 });
	if (v->left)
		v->last = v->first;
	c->n++;
	return 0;
}

static int take(struct level *at, struct pf_clean_file *f, const struct pf_buf *reasons)
{
	struct pf_cleanup *c = at->w->c;
	struct pf_clean_count *n = PF_FATE_GOES(f->fate) ? &c->report.removed[f->cls] : &c->report.kept[f->fate];

	f->reasons = reasons->len ? (const char *)reasons->data : "";
	n->files++;
	n->bytes += f->size;
	*(PF_FATE_GOES(f->fate) ? &at->goes : &at->stays) = true;
	at->holds |= at->stays;
	int r = PF_FATE_GOES(f->fate) ? pf_clean_add_victim(c, f) : 0;
	return r == 0 && c->see ? c->see(c->arg, f) : r;
}

/* The reasons in words, only for who wants to see them. */
static int explain(struct pf_cleanup *c, const struct pf_surveyed_file *file, int64_t version, struct pf_buf *out)
{
	int r = 0;

	if (c->see)
		r = file ? pf_retention_file_reasons(c->kept, (size_t)(file - c->line->survey->files), out)
			 : pf_retention_version_reasons(c->kept, (size_t)version, out);
	return r == 0 && out->len && !pf_buf_str(out) ? -ENOMEM : r;
}

/* The manifest of an attached version: the version decides. One that the survey does not know is newer than it. */
static int judge_manifest(struct level *at, struct pf_clean_file *f, uint64_t version)
{
	_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
	const struct pf_survey *s = at->w->s;
	struct pf_cleanup *c = at->w->c;
	size_t i = pf_survey_below(s, version);

	f->cls = PF_CLEAN_MANIFEST;
	f->fate = PF_STAYS_HEAD;
	if (i < s->n_versions && s->versions[i].version == version) {
		f->fate = fate_of(pf_retention_version(c->kept, i));
		int r = explain(c, NULL, (int64_t)i, &reasons);
		if (r < 0)
			return r;
	}
	f->first = f->last = f->fate == PF_GOES_NAMED ? version : 0;
	return take(at, f, &reasons);
}

static void name_versions(const struct pf_surveyed_file *file, struct pf_clean_file *f)
{
	f->first = file->iv[0].first;
	f->last = file->iv[file->n_iv - 1].last;
}

static int judge_file(struct level *at, struct pf_clean_file *f, int64_t mtime_ns)
{
	_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
	struct pf_cleanup *c = at->w->c;
	const struct pf_file_set *set = &at->w->s->state->set;
	const char *below = f->path + strlen(c->dir);
	enum pf_clean_ref ref = PF_REF_NONE;
	const struct pf_surveyed_file *file = NULL;
	struct pf_clean_verdict v;
	uint64_t version;
	int r = 0;

	if (pf_clean_is_manifest(below, &version))
		return judge_manifest(at, f, version);
	int64_t i = pf_clean_known(set, f->path, c->dir);
	if (i >= 0) {
		file = &set->v[i];
		unsigned bits = pf_retention_file(c->kept, (size_t)i);
		ref = bits ? PF_REF_KEPT : PF_REF_GOING;
		f->fate = fate_of(bits);
		r = bits ? explain(c, file, 0, &reasons) : 0;
	} else if (i == -ENOENT) {
		i = pf_clean_known(&c->left.set, f->path, c->dir);
		file = i >= 0 ? &c->left.set.v[i] : NULL;
		ref = file ? PF_REF_GOING : PF_REF_NONE;
	}
	if (r < 0 || (i < 0 && i != -ENOENT))
		return r < 0 ? r : (int)i;
	f->cls = pf_clean_class_of(below);
	if (ref != PF_REF_KEPT) {
		pf_clean_judge(&c->rules, below, mtime_ns, ref, &v);
		f->fate = v.fate;
		f->cls = v.cls;
	}
	if (PF_FATE_GOES(f->fate) && file)
		name_versions(file, f);
	return take(at, f, &reasons);
}

static int see_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st);

int pf_clean_add_folder(struct pf_cleanup *c, const char *dir)
{
	char **v = reallocarray(c->folders, c->n_folders + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	c->folders = v;
	v[c->n_folders] = strdup(dir);
	if (!v[c->n_folders])
		return -ENOMEM;
	c->n_folders++;
	return 0;
}

void pf_clean_drop_folders(struct pf_cleanup *c, size_t n)
{
	while (c->n_folders > n)
		free(c->folders[--c->n_folders]);
}

/*
 * May a folder go when nothing is in it any more? Lance removes those of indices: if it emptied them, or nobody can be about to fill them. What an earlier
 * run emptied is known by whom it belonged to.
 */
static bool folder_goes(const struct level *at, int64_t mtime_ns)
{
	const struct pf_cleanup *c = at->w->c;
	const char *below = at->dir + strlen(c->dir);
	bool indices = strncmp(below, "_indices/", 9) == 0;
	bool leaks = c->o.leaks && (strncmp(below, "data/", 5) == 0 || strncmp(below, "_fri/", 5) == 0 ||
				    strncmp(below, "_blobs/", 7) == 0);

	if (at->stays || (!indices && !leaks))
		return false;
	int64_t i = find_in(&at->w->s->state->set, at->dir, c->dir);
	if (i >= 0 && pf_retention_file(c->kept, (size_t)i))
		return false;
	return at->goes || c->o.delete_unverified || mtime_ns < c->rules.now_ns - PF_CLEAN_GUARD_NS || i >= 0 ||
	       find_in(&c->left.set, at->dir, c->dir) >= 0;
}

static int walk(struct level *at, struct level *parent, int64_t mtime_ns)
{
	size_t before = at->w->c->n_folders;
	char quoted[PF_QUOTE_TEXT];

	int r = pf_store_scan(at->w->st, at->dir, see_entry, at);
	if (r == -ENOENT)
		r = 0; /* removed meanwhile, or never made */
	else if (!parent && (r == -ENOTDIR || r == -ELOOP))
		return pf_why_set(
			at->w->why, -EBUSY,
			"%s is a link, or no directory: what it leads to is not deleted, and nothing else without it",
			at->dir);
	else if (r < 0 && r != -ENOMEM && at->w->why && !at->w->why->text[0])
		pf_why_set(at->w->why, r, "%s: %s", pf_text_quote(at->dir, strlen(at->dir), quoted), strerror(-r));
	if (r != 0 || !parent)
		return r;
	parent->goes |= at->goes;
	parent->holds |= at->holds;
	/* Lance leaves the folders of an index alone while anything is in one of them. */
	if (at->depth == 1 && at->holds)
		pf_clean_drop_folders(at->w->c, before);
	if (folder_goes(at, mtime_ns))
		return pf_clean_add_folder(at->w->c, at->dir);
	parent->stays = true;
	return 0;
}

static int see_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	struct level *at = arg;
	_cleanup_(pf_buf_release) struct pf_buf none = PF_BUF_INIT;
	_cleanup_(pf_freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", at->dir, name) < 0)
		return path = NULL, -ENOMEM;
	/* Another branch lives here (lance-14-cleanup D4). */
	bool elsewhere = !pf_place_is_own(path, at->w->c->dir, &at->w->s->refs);
	if (elsewhere || (kind == PF_ENTRY_DIR && at->depth == DEPTH_MAX)) {
		at->stays = at->holds = true;
		return 0;
	}
	if (kind == PF_ENTRY_DIR) {
		struct level below = { .w = at->w, .dir = path, .depth = at->depth + 1 };
		return walk(&below, at, st->mtime_ns);
	}
	struct pf_clean_file f = { .path = path, .size = st->size, .cls = PF_CLEAN_OTHER, .fate = PF_STAYS_UNKNOWN };
	return kind == PF_ENTRY_FILE ? judge_file(at, &f, st->mtime_ns) : take(at, &f, &none);
}

/* In the order in which Lance deletes, temporary files first and manifests last. */
static unsigned turn(enum pf_clean_class c)
{
	static const unsigned turns[PF_CLEAN_CLASSES] = {
		[PF_CLEAN_OTHER] = 0,	 [PF_CLEAN_TRANSACTION] = 1, [PF_CLEAN_DATA] = 2,     [PF_CLEAN_INDEX] = 3,
		[PF_CLEAN_DELETION] = 4, [PF_CLEAN_MAP] = 5,	     [PF_CLEAN_MANIFEST] = 6,
	};

	return turns[c];
}

static int cmp_victim(const void *a, const void *b)
{
	const struct pf_victim *x = a, *y = b;
	unsigned i = turn(x->cls), k = turn(y->cls);

	return i != k ? (i < k ? -1 : 1) : strcmp(x->path, y->path);
}

int pf_clean_sweep(struct pf_cleanup *c, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	struct sweep w = { .c = c, .st = c->l->st, .s = c->line->survey, .why = &inner };
	int r = 0;

	for (size_t i = 0; r == 0 && i < PF_FOLDERS; i++) {
		_cleanup_(pf_freep) char *dir = NULL;
		if (asprintf(&dir, "%s%s", c->dir, pf_folders[i]) < 0)
			return dir = NULL, -ENOMEM;
		struct level top = { .w = &w, .dir = dir };
		r = walk(&top, NULL, 0);
	}
	if (r == 0)
		r = pf_clean_zombies(c, &inner);
	if (r == 0 && c->n)
		qsort(c->v, c->n, sizeof(*c->v), cmp_victim);
	return r < 0 && inner.text[0] ? pf_why_set(why, r, "%s", inner.text) : r;
}
