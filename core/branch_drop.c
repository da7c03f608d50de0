#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "branch_make.h"
#include "lost.h"
#include "ref_file.h"

/* So many of each kind are named; more are counted. */
#define NAMED_MAX 8

/* Versions that are looked at for lost pins. */
#define LOST_LOOK 1000

#define VERSIONS "_versions"

/* Directories inside each other; more are nobody's. */
#define DEPTH_MAX 64

struct dropping {
	struct pf_store *st;
	const char *name;
	char *dir, *ref_dir; /* "tree/x"; where its ref file is */
	bool has_ref;
	struct pf_branch_ref ref;
	struct pf_buf text; /* of its ref, to put it back */
};

static void dropping_release(struct dropping *d)
{
	free(d->dir);
	free(d->ref_dir);
	pf_branch_ref_release(&d->ref);
	pf_buf_release(&d->text);
}

/* What keeps it from being deleted, in words. */
struct blockers {
	struct pf_buf text;
	size_t n; /* of the kind in hand */
};

static void blockers_release(struct blockers *b)
{
	pf_buf_release(&b->text);
}

/* One more of a kind: "pins: A, B", and after them "; tags: C". */
static int add(struct blockers *b, const char *kind, const char *what)
{
	if (b->n++ >= NAMED_MAX)
		return 0;
	return b->n == 1 ? pf_buf_addf(&b->text, "%s%s: %s", b->text.len ? "; " : "", kind, what)
			 : pf_buf_addf(&b->text, ", %s", what);
}

static int end_kind(struct blockers *b)
{
	size_t n = b->n;

	b->n = 0;
	return n > NAMED_MAX ? pf_buf_addf(&b->text, " and %zu more", n - NAMED_MAX) : 0;
}

static int add_pins(struct blockers *b, const struct pf_pins *pins)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < pins->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf what = PF_BUF_INIT;

		r = pf_pin_describe(&pins->v[i], &what);
		if (r == 0)
			r = pf_buf_str(&what) ? add(b, "pins", (char *)what.data) : -ENOMEM;
	}
	return r < 0 ? r : end_kind(b);
}

static int add_lost(struct pf_branch *branch, struct blockers *b, struct pf_why *why)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { 0 };
	struct pf_why inner = PF_WHY_INIT;
	char id[PF_UUID_TEXT];

	int r = pf_lost_recent(branch, LOST_LOOK, &lost, &inner);
	/* What is damaged or gone below the head is nobody's reason to keep the branch; storage that fails says nothing of what is there. */
	if (r == -EBADMSG || r == -EOPNOTSUPP || r == -ENOENT || r == -ENODATA)
		return 0;
	if (r < 0)
		return pf_why_set(why, r, "cannot look for lost pins of the branch %s: %s", pf_branch_name(branch),
				  inner.text[0] ? inner.text : strerror(-r));
	for (size_t i = 0; r == 0 && i < lost.n; i++) {
		pf_uuid_format(&lost.v[i].pin.id, id);
		r = add(b, "lost pins, to be registered anew or waived", id);
	}
	return r < 0 ? r : end_kind(b);
}

static int add_head(const struct dropping *d, struct blockers *b, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *branch = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_branch_open_stray(d->st, d->name, &branch, &inner);
	if (r == 0)
		r = pf_branch_head(branch, &head, &inner);
	if (r == -ENOENT)
		return 0; /* no version at all */
	if (r == -EBADMSG || r == -EOPNOTSUPP)
		return add(b, "a head that cannot be read, and may have pins", inner.text) < 0 ? -ENOMEM : end_kind(b);
	if (r < 0)
		return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
	r = add_pins(b, &head->pins);
	return r == 0 && d->has_ref ? add_lost(branch, b, why) : r;
}

/* Is `other` made from a version of it, or from one of its children's? By its list of ancestors; by name where there is none. */
static bool is_child(const struct dropping *d, const struct pf_branch_ref *other)
{
	if (other->parent && strcmp(other->parent, d->name) == 0)
		return true;
	for (size_t i = 0; d->has_ref && i < other->n_mapping; i++)
		if (i + 1 < other->n_mapping && strcmp(other->mapping_id[i], d->ref.id) == 0)
			return true;
	return false;
}

static int add_children(const struct dropping *d, struct blockers *b, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };

	int r = pf_branches_list(d->st, &refs, why);
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		if (strcmp(refs.v[i].name, d->name) != 0 && is_child(d, &refs.v[i]))
			r = add(b, "branches made from it", refs.v[i].name);
	return r < 0 ? r : end_kind(b);
}

static int add_tags(const struct dropping *d, struct blockers *b, struct pf_why *why)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };

	int r = pf_tags_list(d->st, &tags, why);
	for (size_t i = 0; r == 0 && i < tags.n; i++)
		if (tags.v[i].branch && strcmp(tags.v[i].branch, d->name) == 0)
			r = add(b, "tags", tags.v[i].name);
	return r < 0 ? r : end_kind(b);
}

/* 0, or -EBUSY and everything that blocks it. */
static int check(const struct dropping *d, struct pf_why *why)
{
	_cleanup_(blockers_release) struct blockers b = { 0 };

	int r = add_head(d, &b, why);
	if (r == 0)
		r = add_children(d, &b, why);
	if (r == 0)
		r = add_tags(d, &b, why);
	if (r < 0 || b.text.len == 0)
		return r;
	const char *text = pf_buf_str(&b.text);
	return text ? pf_why_set(why, -EBUSY, "the branch %s cannot be deleted, forced or not, because of: %s", d->name,
				 text)
		    : -ENOMEM;
}

/* A removal goes on when something cannot be removed, and says what in the end. */
struct sweep {
	struct pf_store *st;
	size_t failed;
	int err; /* of the first */
	char *path;
};

static void sweep_release(struct sweep *s)
{
	free(s->path);
}

static int missed(struct sweep *s, int err, const char *path)
{
	if (s->failed++)
		return 0;
	s->err = err;
	s->path = strdup(path);
	return s->path ? 0 : -ENOMEM;
}

/* Has it versions of its own? Then it is another branch's, or was. 1, 0, or why that cannot be told. */
static int is_line(struct pf_store *st, const char *path)
{
	_cleanup_(pf_freep) char *versions = NULL;
	struct pf_stat s;

	if (asprintf(&versions, "%s/" VERSIONS, path) < 0)
		return versions = NULL, -ENOMEM;
	int r = pf_store_stat(st, versions, &s);
	return r == -ENOENT || r == -ENOTDIR ? 0 : r < 0 ? r : 1;
}

static int remove_entry(struct sweep *s, const char *path, bool is_dir)
{
	int r = pf_store_remove(s->st, path, is_dir);

	return r < 0 && r != -ENOENT && r != -ENOTEMPTY ? missed(s, r, path) : 0;
}

/*
 * The newest version last: by it a later look judges what an earlier removal has left, and an older one may have pins that were released since.
 */
static void put_newest_last(struct pf_dir_entries *l)
{
	uint64_t version, newest = 0;
	size_t at = l->n;
	bool v2;

	for (size_t i = 0; i < l->n; i++)
		if (pf_manifest_name_parse(l->v[i].name, &version, &v2) && version >= newest) {
			newest = version;
			at = i;
		}
	if (at == l->n)
		return;
	struct pf_dir_entry e = l->v[at];
	l->v[at] = l->v[l->n - 1];
	l->v[l->n - 1] = e;
}

static bool has_entry(const struct pf_dir_entries *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

/*
 * Remove what is in `dir`. `lines`: what has versions stays, _versions/ of the outermost directory with it. Judged by the list of which things are removed:
 * versions that come later are not on it.
 */
static int empty(struct sweep *s, const char *dir, bool lines, unsigned depth)
{
	_cleanup_(pf_dir_entries_release) struct pf_dir_entries l = { 0 };

	int r = depth < DEPTH_MAX ? pf_store_entries(s->st, dir, &l) : -ELOOP;
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return r == -ENOENT ? 0 : missed(s, r, dir);
	if (lines && depth > 0 && has_entry(&l, VERSIONS))
		return 0;
	put_newest_last(&l);
	for (size_t i = 0; r == 0 && i < l.n; i++) {
		_cleanup_(pf_freep) char *path = NULL;
		if (asprintf(&path, "%s/%s", dir, l.v[i].name) < 0)
			return path = NULL, -ENOMEM;
		bool is_dir = l.v[i].kind == PF_ENTRY_DIR;
		if (lines && depth == 0 && strcmp(l.v[i].name, VERSIONS) == 0)
			continue;
		if (is_dir)
			r = empty(s, path, lines, depth + 1);
		if (r == 0)
			r = remove_entry(s, path, is_dir);
	}
	return r;
}

/* A folder of the branch, with all that is in it, whatever it looks like. */
static int remove_whole(struct sweep *s, const char *dir, const char *name)
{
	_cleanup_(pf_freep) char *path = NULL;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return path = NULL, -ENOMEM;
	/* Lance makes a branch of that name, too. */
	int line = is_line(s->st, path);
	if (line)
		return missed(s, line < 0 ? line : -EBUSY, path);
	int r = empty(s, path, false, 0);
	return r == 0 ? remove_entry(s, path, true) : r;
}

/* The versions last: as long as there is one, nobody makes a branch of the name, whose first files would be among those that are removed here. */
static int remove_files(struct sweep *s, const char *branch_dir)
{
	_cleanup_(pf_freep) char *dir = strdup(branch_dir);
	int r = dir ? 0 : -ENOMEM;

	/* Generations of MemWAL have versions and are no branches. */
	if (r == 0)
		r = remove_whole(s, dir, "_mem_wal");
	if (r == 0)
		r = empty(s, dir, true, 0);
	if (r == 0)
		r = remove_whole(s, dir, VERSIONS);
	/* The directory, and those above it that are empty now: of "tree/a/b" not "tree". */
	for (char *slash; r == 0 && (slash = strrchr(dir, '/')); *slash = '\0')
		r = remove_entry(s, dir, true);
	return r;
}

static int ref_failed(const struct dropping *d, int err, struct pf_why *why)
{
	return pf_why_set(why, err, "cannot remove %s: %s", d->ref.file, strerror(-err));
}

/* Its bytes, to put it back, and that it still is the branch that was looked at. */
static int keep_ref(struct dropping *d, struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref now = { 0 };
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_store_get(d->st, d->ref.file, PF_REF_FILE_MAX, &d->text);
	if (r == 0)
		r = pf_branch_ref_read(d->st, d->name, &now, &inner);
	if (r == -ENOENT || (r == 0 && strcmp(now.id, d->ref.id) != 0))
		return pf_why_set(why, -EAGAIN, "somebody else deleted the branch %s at the same time%s: try again",
				  d->name, r == 0 ? " and made it anew" : "");
	return r < 0 ? ref_failed(d, r, why) : 0;
}

/* Its ref, which is not there any more after 0. */
static int remove_ref(struct dropping *d, struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };

	int r = pf_ref_remove(d->st, d->ref_dir, d->ref.file);
	if (r == 0 || r == -ENOENT || pf_branch_ref_read(d->st, d->name, &ref, NULL) == -ENOENT)
		return 0;
	return ref_failed(d, r, why);
}

/* Is the file there as we would put it back: by somebody else who was deleting it, too? */
static bool is_back(const struct dropping *d)
{
	_cleanup_(pf_buf_release) struct pf_buf now = PF_BUF_INIT;

	return pf_store_get(d->st, d->ref.file, PF_REF_FILE_MAX, &now) == 0 && now.len == d->text.len &&
	       memcmp(now.data, d->text.data, now.len) == 0;
}

/*
 * Somebody may have registered a pin, made a tag or a branch between the look and the removal of the ref. Who comes later finds no branch any more, and
 * whoever confirms a pin reads the ref: so what is there now is all that anybody relies on.
 */
static int check_again(struct dropping *d, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;

	int r = check(d, &inner);
	if (r == 0)
		return 0;
	int put = pf_ref_put(d->st, d->ref_dir, d->ref.file, &d->text);
	if (put < 0 && !is_back(d))
		return pf_why_set(why, -EINPROGRESS, "%s was removed, and putting it back failed (%s): %s", d->ref.file,
				  strerror(-put), inner.text);
	return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
}

static int look(struct dropping *d, bool force, struct pf_why *why)
{
	if (asprintf(&d->dir, "tree/%s", d->name) < 0)
		return d->dir = NULL, -ENOMEM;
	struct pf_stat st;
	struct pf_why inner = PF_WHY_INIT;
	int r = pf_branch_ref_read(d->st, d->name, &d->ref, &inner);
	d->has_ref = r == 0;
	if (d->has_ref) {
		d->ref_dir = strdup(d->ref.file);
		if (!d->ref_dir)
			return -ENOMEM;
		*strrchr(d->ref_dir, '/') = '\0';
		return 0;
	}
	if (r != -ENOENT)
		return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
	r = pf_store_stat(d->st, d->dir, &st);
	int line = r == 0 && !force ? is_line(d->st, d->dir) : 0;
	if (line > 0)
		return pf_why_set(
			why, -ENOENT,
			"%s, but the directory %s has versions: what a creation or deletion left. --force removes it "
			"if nothing in it is held",
			inner.text, d->dir);
	if (r == 0 && !force)
		r = line < 0 ? line : -ENOENT;
	if (r == -ENOENT)
		return pf_why_set(why, r, "%s", inner.text);
	return r < 0 ? pf_why_set(why, r, "cannot look at %s: %s", d->dir, strerror(-r)) : 0;
}

int pf_branch_delete(struct pf_store *st, const char *name, bool force, struct pf_why *why)
{
	_cleanup_(dropping_release) struct dropping d = { .st = st, .name = name };
	_cleanup_(sweep_release) struct sweep s = { .st = st };

	int r = look(&d, force, why);
	if (r == 0)
		r = check(&d, why);
	if (r == 0 && d.has_ref) {
		r = keep_ref(&d, why);
		if (r == 0)
			r = remove_ref(&d, why);
		if (r == 0)
			r = check_again(&d, why);
	}
	if (r < 0)
		return r;
	r = remove_files(&s, d.dir);
	if (r == 0 && s.failed)
		return pf_why_set(
			why, s.err,
			"the branch %s is deleted, but %zu of its files could not be removed, first %s: %s. Try `pinctl "
			"branch delete %s --force` again",
			name, s.failed, s.path, strerror(-s.err), name);
	return r;
}
