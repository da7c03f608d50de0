/*
 * What may be done to files of the table. What pins need is core's to say (core/shield.h); here is what follows from a name, and which questions need not
 * be asked.
 */
#include "gateway_node.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/cleanup.h"
#include "core/flags.h"
#include "core/ref_file.h"
#include "core/guard.h"
#include "core/refs.h"

/* A commit that takes longer from its first file to its manifest is not expected. */
#define UNDER_WAY_SECONDS 60

/* How long to wait for the watcher's first look at a line; it gives up after some that fail. */
#define LOOK_NS INT64_C(10000000000)

int gate_line(struct fs *fs, const char *path, size_t dir_len, struct fs_line **out)
{
	_cleanup_(pf_freep) char *name = NULL;
	struct fs_branch *b;

	/* "tree/x/": is_folder saw to that. */
	if (dir_len && !(name = strndup(path + 5, dir_len - 6)))
		return -ENOMEM;
	int r = fs_branch_intern(fs, name, &b);
	if (r == 0)
		*out = b->line;
	return r;
}

typedef bool (*manifest_fn)(const struct pf_manifest *m, const void *arg);

static int line_has(struct fs *fs, const char *branch, manifest_fn has, const void *arg)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	struct fs_branch *b;

	int r = fs_branch_intern(fs, branch, &b);
	if (r == 0)
		r = fs_line_view(b->line, &v, NULL);
	return r < 0 ? r : has(v->manifest, arg);
}

/* Is it so of the head of any line? 1, 0, or what kept it from being told. */
static int any_line_has(struct fs *fs, manifest_fn has, const void *arg)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { .v = NULL };

	int r = line_has(fs, NULL, has, arg);
	if (r != 0)
		return r;
	r = pf_branches_list(fs->store, &refs, NULL);
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		r = line_has(fs, refs.v[i].name, has, arg);
	return r;
}

static bool has_flag(const struct pf_manifest *m, const void *arg)
{
	return m->writer_flags & PF_FLAG_PINS;
}

static bool has_pin(const struct pf_manifest *m, const void *id)
{
	return pf_pins_find(&m->pins, id) != NULL;
}

/*
 * Are pins enabled on any line? Where that cannot be told, the long way will. They may be enabled past us, and a pin registered, between this answer and
 * the removal that it allows. That is as if the file had gone just before: nothing forbade it, and the pin is on a head that had lost it. Who removes what the
 * head of a table needs leaves none to be pinned whole, pins or not; a cleanup does not.
 */
static bool is_enabled(struct fs *fs)
{
	return any_line_has(fs, has_flag, NULL) != 0;
}

/* Once they were, the account of all lines says whether they are, and asks less of storage. */
static bool were_enabled(struct fs *fs)
{
	bool *were = &fs->gateway.were_enabled;

	if (__atomic_load_n(were, __ATOMIC_RELAXED))
		return true;
	bool enabled = is_enabled(fs);
	if (enabled)
		__atomic_store_n(were, true, __ATOMIC_RELAXED);
	return enabled;
}

/* A branch that somebody deleted since: it has no versions, or no ref, without which nobody commits to it. */
static bool is_gone(struct fs_line *line)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;

	return fs_line_view(line, &v, NULL) == -ENOENT ||
	       (line->name && pf_branch_ref_read(line->store, line->name, &ref, NULL) == -ENOENT);
}

/* The watcher looks at a line within a second after it was opened. 1, or 0: it has not by now. */
static int wait_for_look(fuse_req_t req, struct fs_line *line)
{
	int64_t until = pf_time_steady_ns() + LOOK_NS;

	while (!fs_follow_has_looked(&line->follow)) {
		if (fuse_req_interrupted(req) || fuse_session_exited(fs_of(req)->session))
			return -EINTR;
		if (pf_time_steady_ns() > until || is_gone(line))
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return 1;
}

/* On any line that is open: all are that have versions. */
static int check_lost(fuse_req_t req, struct pf_why *why)
{
	uint64_t number = 0;
	struct fs_branch *b;

	while ((b = fs_branch_next(fs_of(req), &number))) {
		int looked = wait_for_look(req, b->line);
		size_t n = fs_follow_lost(&b->line->follow);
		if (looked < 0)
			return looked;
		if ((looked && !n) || is_gone(b->line))
			continue;
		if (!looked)
			return pf_why_set(why, -EBUSY,
					  "whether pins of branch %s were lost is not known yet: try again",
					  fs_line_name(b->line));
		return pf_why_set(why, -EBUSY,
				  "%zu pins of branch %s were dropped by a writer, so what they need is not known: "
				  "pinctl check tells what to do",
				  n, fs_line_name(b->line));
	}
	return 0;
}

/* *known: a version names it. */
static int check_shield(fuse_req_t req, const struct gate_at *at, bool *known, struct pf_why *why)
{
	struct fs *fs = fs_of(req);
	const struct fs_node n = fs_node_make(K_RETENTION, fs_branch_at(fs, 1));

	*known = true;
	/* Who drops pins drops bit 19 with them: that no line has it says nothing of lost ones. */
	int r = were_enabled(fs) ? fs_kept_check(req, &n, at->path, known, why) : 0;
	if (r == 0)
		r = check_lost(req, why);
	/* Whatever kept it from being told: nothing goes. */
	if (r < 0 && r != -EBUSY && r != -EINTR && r != -EAGAIN && r != -ENOMEM)
		r = -EBUSY;
	return r;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* A guard tag is for when no gateway is here, and goes with its pin. */
static int check_guard(struct fs *fs, const char *path, struct pf_why *why)
{
	_cleanup_(pf_freep) char *tag = NULL;
	const char *name = last_name(path), *end = strrchr(name, '.');
	struct pf_uuid id;

	if (strncmp(path, "_refs/tags/", 11) != 0 || !end || strcmp(end, ".json") != 0)
		return 0;
	tag = strndup(name, (size_t)(end - name));
	if (!tag)
		return -ENOMEM;
	if (!pf_guard_name_parse(tag, &id))
		return 0;
	int r = any_line_has(fs, has_pin, &id);
	if (r < 0)
		return pf_why_set(why, -EBUSY, "whether the pin is there that this tag guards cannot be told");
	return r == 0 ? 0
		      : pf_why_set(why, -EBUSY,
				   "this tag guards the pin of that id, and goes with it: release the pin");
}

static int is_attached(void *arg, const char *entry, bool is_dir)
{
	uint64_t version;
	bool v2;

	return !is_dir && pf_manifest_name_parse(entry, &version, &v2);
}

int gate_has_versions(struct fs *fs, const char *dir)
{
	char versions[PATH_MAX];

	if (snprintf(versions, sizeof(versions), "%s_versions", dir) >= (int)sizeof(versions))
		return -ENAMETOOLONG;
	int r = pf_store_list(fs->store, versions, is_attached, NULL);
	/* -EINVAL: of a branch called `.`, whose directory nobody has. */
	return r == -ENOENT || r == -ENOTDIR || r == -EINVAL ? 0 : r;
}

/* Is the ref at `path` nobody's, whatever is in it: no branch can be called so, or the one that is has no versions? It may be one that was not written to its end. */
static bool is_nobodys(struct fs *fs, const char *path)
{
	_cleanup_(pf_freep) char *name = NULL;
	size_t len = strlen(path), end = strlen(PF_REF_SUFFIX);
	char dir[PATH_MAX];

	if (len < end || strcmp(path + len - end, PF_REF_SUFFIX) != 0)
		return true;
	int r = pf_ref_name(path + strlen("_refs/branches/"), &name, NULL);
	if (r == 0)
		r = pf_branch_name_check(name, NULL);
	if (r < 0)
		return r != -ENOMEM;
	return snprintf(dir, sizeof(dir), "tree/%s/", name) < (int)sizeof(dir) && gate_has_versions(fs, dir) == 0;
}

/* The first thing that Lance removes of a branch is its ref: what stays then is the whole branch. */
static int check_ref(struct fs *fs, const char *path, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { .v = NULL };
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	char id[PF_UUID_TEXT];
	struct fs_branch *b;

	if (strncmp(path, "_refs/branches/", 15) != 0)
		return check_guard(fs, path, why);
	int r = pf_branches_list(fs->store, &refs, why);
	if (r < 0 && is_nobodys(fs, path))
		return 0;
	if (r < 0)
		return pf_why_prefix(why, -EBUSY, "whose ref it is, and whether that has pins, cannot be told");
	size_t i = 0;
	while (i < refs.n && strcmp(refs.v[i].file, path) != 0)
		i++;
	if (i == refs.n)
		return 0; /* staged, or nobody's */
	r = fs_branch_intern(fs, refs.v[i].name, &b);
	if (r == 0)
		r = fs_line_view(b->line, &v, why);
	if (r == -ENOENT)
		return 0; /* nothing but its ref is left */
	if (r < 0)
		return pf_why_prefix(why, -EBUSY, "whether branch %s has pins cannot be told", refs.v[i].name);
	if (v->manifest->pins.n == 0)
		return 0;
	pf_uuid_format(&v->manifest->pins.v[0].id, id);
	return pf_why_set(why, -EBUSY, "branch %s has %zu pins, %s first: release them before it is deleted",
			  refs.v[i].name, v->manifest->pins.n, id);
}

/* Uploads have a name of their own until they are whole, which no manifest names: x#1 of object_store, .tmpABC of Lance. */
static bool is_upload(const struct gate_at *at)
{
	const char *name = last_name(at->path);

	return at->created && (strchr(name, '#') || strncmp(name, ".tmp", 4) == 0);
}

/* A cleanup that goes past us puts manifests aside, and back if somebody came to need them. */
static int check_aside(const char *path, struct pf_why *why)
{
	return strncmp(last_name(path), PF_CLEAN_LEFT, strlen(PF_CLEAN_LEFT)) == 0
		       ? pf_why_set(why, -EBUSY, "a cleanup put this manifest aside: pinctl cleanup ends what it began")
		       : 0;
}

/* What came past us since we are here, and no version names yet, may be of a commit that is under way: of a pin, or of prepared work. */
static int check_young(struct fs *fs, const struct gate_at *at, struct pf_why *why)
{
	const struct pf_time made = { at->ctime.tv_sec, (int32_t)at->ctime.tv_nsec };

	if (at->created || pf_time_cmp(made, fs->mounted_at) < 0 || pf_time_now().sec - made.sec >= UNDER_WAY_SECONDS)
		return 0;
	return pf_why_set(why, -EBUSY,
			  "another program made this within the minute, and may be about to commit it; later it can be "
			  "removed");
}

static int may_remove_other(fuse_req_t req, const struct gate_at *at, struct pf_why *why)
{
	bool known;

	if (is_upload(at))
		return 0;
	int r = check_shield(req, at, &known, why);
	return r == 0 && !known ? check_young(fs_of(req), at, why) : r;
}

static int may_remove_staged(fuse_req_t req, const struct gate_at *at, struct pf_why *why)
{
	int r = check_aside(at->path, why);

	if (r == 0 && strncmp(last_name(at->path), ".tmp", 4) == 0 && is_enabled(fs_of(req)))
		r = check_young(fs_of(req), at, why);
	return r;
}

int gate_may_remove(fuse_req_t req, const struct gate_at *at, struct pf_why *why)
{
	if (gate_is_tag(at))
		return gate_tag_refuse(at, why);
	switch (at->name.cls) {
	case GATE_ROOT:
		return pf_why_set(why, -EPERM, "this is the table");
	case GATE_VERSIONS:
		return may_remove_staged(req, at, why);
	case GATE_REF:
		return check_ref(fs_of(req), at->path, why);
	default:
		return may_remove_other(req, at, why);
	}
}

/* Does `by` say of the branch whose ref `path` is what that does, but for its metadata, which Lance replaces? */
static bool is_same_branch(struct pf_store *st, const char *path, const char *by)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref is = { 0 }, was = { 0 };

	return pf_branch_ref_read_as(st, path, path, &was, NULL) == 0 &&
	       pf_branch_ref_read_as(st, by, path, &is, NULL) == 0 && strcmp(is.id, was.id) == 0 &&
	       is.parent_version == was.parent_version &&
	       strcmp(is.parent ? is.parent : "", was.parent ? was.parent : "") == 0;
}

int gate_may_replace(fuse_req_t req, const struct gate_at *at, const struct gate_at *by, struct pf_why *why)
{
	int r = gate_may_remove(req, at, why);

	if (r != -EBUSY || strncmp(at->path, "_refs/branches/", 15) != 0 ||
	    !is_same_branch(fs_of(req)->store, at->path, by->path))
		return r;
	*why = (struct pf_why)PF_WHY_INIT;
	return 0;
}

int gate_may_change(fuse_req_t req, const struct gate_at *at, const struct stat *st, struct pf_why *why)
{
	bool known;

	if (at->name.cls == GATE_MANIFEST)
		return pf_why_set(why, -EPERM, "the manifest of a version never changes");
	/* Under another name, it may be one that must not. */
	if (S_ISREG(st->st_mode) && st->st_nlink > 1)
		return pf_why_set(why, -EPERM, "this file has other names, by which it may be needed as it is");
	switch (at->name.cls) {
	case GATE_VERSIONS:
		return check_aside(at->path, why);
	case GATE_REF:
		return check_ref(fs_of(req), at->path, why);
	default:
		return is_upload(at) ? 0 : check_shield(req, at, &known, why);
	}
}

/* At each write: under the name that it was opened by, or another one since, it may be needed by now. */
int gate_may_write(fuse_req_t req, fuse_ino_t ino, int fd, struct gate_at *at, struct pf_why *why)
{
	struct stat st, named;

	int r = gate_get(fs_of(req), ino, at);
	if (r == 0 && fstat(fd, &st) < 0)
		r = -errno;
	if (r < 0 || st.st_nlink == 0)
		return r;
	r = gate_lstat(fs_of(req), at->path, &named);
	if (r == -ENOENT || (r == 0 && (named.st_dev != st.st_dev || named.st_ino != st.st_ino)))
		return pf_why_set(why, -EPERM, "this file has another name by now, by which it may be needed as it is");
	return r < 0 ? r : gate_may_change(req, at, &st, why);
}

int gate_may_make(const char *path, struct pf_why *why)
{
	struct gate_name name;

	gate_name_parse(path, &name);
	if (name.cls == GATE_MANIFEST)
		return pf_why_set(why, -EPERM,
				  "a version is published by a link of its staged manifest, so that it keeps the pins");
	if (name.cls == GATE_VERSIONS && pf_manifest_name_misleads(last_name(path)))
		return pf_why_set(why, -EPERM, "Lance would take this name for a version's");
	if (strcmp(path, GATE_TREE) == 0)
		return pf_why_set(why, -EPERM, "the pins are here");
	return 0;
}
