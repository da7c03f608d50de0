/*
 * Tags of the versions that pins keep, for cleaners that know tags and no pins: they plan around those versions, or say which they are, instead of running into
 * one refusal after the other. Advice alone: what pins need is kept without (gateway_rule.c). So what cannot be told is not shown.
 */
#include "gateway_node.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/refs.h"
#include "core/tag_make.h"

#define DIR    "_refs/tags"
#define PREFIX "pinfs-"
#define SUFFIX ".json"

/* Of one branch. Lance reads each tag at each cleanup, and its message lists them all. */
#define SHOWN_MAX 1000

/* Above any inode number of a file, and of the tree of pins: of a branch's number and a version. */
#define INO_BIT	   (UINT64_C(1) << 63)
#define INO_BRANCH 44

/* The versions of a branch that its pins keep: windows end at the head, and have no gaps. */
struct window {
	struct fs_branch *branch;
	uint64_t first, last;
};

/* --- what there is --- */

/* 1, or 0: there is nothing to show, or it cannot be told. -ENOMEM. */
static int find_window(struct fs *fs, const char *branch, struct window *w)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;

	int r = fs_branch_intern(fs, branch, &w->branch);
	if (r == 0)
		r = fs_line_view(w->branch->line, &v, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	const struct pf_pins *pins = &v->manifest->pins;
	w->first = w->last = v->manifest->version;
	for (size_t i = 0; i < pins->n; i++)
		if (pins->v[i].source_version < w->first)
			w->first = pins->v[i].source_version;
	return pins->n > 0;
}

/*
 * The name of the tag, without the suffix. Tags have no slashes, and of two branches no two are called alike: `/` is `_-`, and `_` is `__`. 0, -ENOMEM, or
 * -EINVAL: Lance has no such names.
 */
static int make_name(const char *branch, uint64_t version, struct pf_buf *out)
{
	int r = pf_buf_addstr(out, PREFIX);

	for (const char *p = branch; r == 0 && p && *p; p++)
		r = *p == '/' ? pf_buf_addstr(out, "_-") : *p == '_' ? pf_buf_addstr(out, "__") : pf_buf_addch(out, *p);
	if (r == 0)
		r = pf_buf_addf(out, "%s%" PRIu64, branch ? "-" : "", version);
	if (r == 0 && !pf_buf_str(out))
		r = -ENOMEM;
	return r < 0 ? r : pf_tag_name_check((const char *)out->data, NULL);
}

/* The reverse, for make_name to confirm: *branch is empty for main. -ENOENT: no such name. */
static int split_name(const char *name, struct pf_buf *branch, uint64_t *version)
{
	size_t prefix = strlen(PREFIX), suffix = strlen(SUFFIX), len = strlen(name);

	if (len <= prefix + suffix || strncmp(name, PREFIX, prefix) != 0 || strcmp(name + len - suffix, SUFFIX) != 0)
		return -ENOENT;
	const char *begin = name + prefix, *end = name + len - suffix, *number = end;
	while (number > begin && number[-1] != '-')
		number--;
	if (pf_u64_parse(number, (size_t)(end - number), version) < 0)
		return -ENOENT;
	int r = 0;
	for (const char *p = begin; r == 0 && p < number - 1; p++) {
		bool escaped = *p == '_';
		p += escaped;
		r = pf_buf_addch(branch, escaped && *p == '-' ? '/' : *p);
	}
	return r;
}

/* Is `branch` one, by its ref? What is asked for by a made-up name is not remembered. */
static int check_branch(struct fs *fs, const char *branch)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };

	int r = pf_branch_ref_read(fs->store, branch, &ref, NULL);
	return r < 0 && r != -ENOMEM ? -ENOENT : r;
}

static uint64_t ino_of(const struct window *w, uint64_t version)
{
	return INO_BIT | w->branch->number << INO_BRANCH | (version & ((UINT64_C(1) << INO_BRANCH) - 1));
}

/* Which version is tagged by `path`, and where. -ENOENT: there is no such tag. */
static int find_tag(struct fs *fs, const char *path, struct window *w, uint64_t *version)
{
	_cleanup_(pf_buf_release) struct pf_buf split = PF_BUF_INIT, name = PF_BUF_INIT;
	size_t dir = strlen(DIR "/");

	if (!fs->opt.tags || strncmp(path, DIR "/", dir) != 0)
		return -ENOENT;
	int r = split_name(path + dir, &split, version);
	if (r < 0)
		return r;
	const char *branch = split.len ? pf_buf_str(&split) : NULL;
	if (split.len && !branch)
		return -ENOMEM;
	r = make_name(branch, *version, &name);
	if (r == 0)
		r = pf_buf_addstr(&name, SUFFIX);
	if (r == 0 && !pf_buf_str(&name))
		r = -ENOMEM;
	if (r == -EINVAL || (r == 0 && strcmp(path + dir, (const char *)name.data) != 0))
		return -ENOENT;
	if (r == 0 && branch)
		r = check_branch(fs, branch);
	if (r == 0)
		r = find_window(fs, branch, w);
	if (r < 0)
		return r;
	bool shown = r > 0 && *version >= w->first && *version <= w->last && w->last - w->first < SHOWN_MAX;
	return shown ? 0 : -ENOENT;
}

/* The text of the tag at `path`, and its stat. -ENOENT: there is none. */
static int read_tag(struct fs *fs, const char *path, struct pf_buf *text, struct stat *out)
{
	struct pf_stat manifest;
	struct stat table;
	uint64_t version;
	struct window w;

	int r = find_tag(fs, path, &w, &version);
	if (r < 0)
		return r;
	r = fs_line_stat(w.branch->line, version, &manifest, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : -ENOENT;
	const struct pf_tag_text t = {
		.branch = w.branch->line->name,
		.version = version,
		.manifest_size = manifest.size,
		.created = pf_time_of_ns(manifest.mtime_ns),
		.metadata = "{}",
	};
	r = pf_tag_render(&t, text);
	if (r < 0 || fstat(fs->gateway.root, &table) < 0)
		return r < 0 ? r : -errno;
	const struct timespec when = { .tv_sec = t.created.sec, .tv_nsec = t.created.nsec };
	*out = (struct stat){
		.st_ino = ino_of(&w, version),
		.st_mode = S_IFREG | 0444,
		.st_nlink = 1,
		.st_uid = table.st_uid,
		.st_gid = table.st_gid,
		.st_size = (off_t)text->len,
		.st_blksize = 4096,
		.st_blocks = 1,
		.st_atim = when,
		.st_mtim = when,
		.st_ctim = when,
	};
	return 0;
}

int gate_tag_stat(struct fs *fs, const char *path, struct stat *out)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	return read_tag(fs, path, &text, out);
}

/* --- the directory --- */

/* Lance makes it with the first tag; ours are shown without any. It is the table's owner's. */
static int make_dir(struct fs *fs, const char *path, struct pf_why *why)
{
	int root = fs->gateway.root;
	struct stat table;

	if (fstat(root, &table) < 0)
		return -errno;
	if (mkdirat(root, path, table.st_mode & 0777) < 0)
		return errno == EEXIST ? 0 : pf_why_set(why, -errno, "%s: cannot be made: %s", path, strerror(errno));
	if (geteuid() == 0 && fchownat(root, path, table.st_uid, table.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	return 0;
}

int gate_tags_init(struct fs *fs, struct pf_why *why)
{
	if (!fs->opt.tags || fs->opt.ro)
		return 0;
	int r = make_dir(fs, "_refs", why);
	return r < 0 ? r : make_dir(fs, DIR, why);
}

bool gate_tags_are_in(const struct fs *fs, const char *path)
{
	return fs->opt.tags && strcmp(path, DIR) == 0;
}

/* Once, until it is true no more. */
static void tell(struct fs *fs, struct fs_line *line, const char *text)
{
	struct fs_act act = { .op = "tags", .path = DIR, .text = text };

	if (!__atomic_exchange_n(&line->tags_told, true, __ATOMIC_RELAXED))
		fs_control_event(&fs->control, &act);
}

/* One name, unless it is stored. */
static int list_one(const struct window *w, uint64_t version, int fd, struct fs_names *out)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;
	struct stat st;

	int r = make_name(w->branch->line->name, version, &name);
	if (r == 0)
		r = pf_buf_addstr(&name, SUFFIX);
	const char *text = r == 0 ? pf_buf_str(&name) : NULL;
	if (!text)
		return r < 0 ? r : -ENOMEM;
	if (fstatat(fd, text, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return 0;
	return fs_names_add(out, ino_of(w, version), S_IFREG, text);
}

static int list_window(struct fs *fs, const struct window *w, int fd, struct fs_names *out)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	struct fs_line *line = w->branch->line;
	struct pf_why why = PF_WHY_INIT;
	size_t n = 0;

	if (w->last - w->first >= SHOWN_MAX) {
		pf_why_set(&why, 0,
			   "pins of branch %s keep %" PRIu64
			   " versions, and more than %d are not shown as tags: cleaners meet refusals instead",
			   fs_line_name(line), w->last - w->first + 1, SHOWN_MAX);
		tell(fs, line, why.text);
		return 0;
	}
	int r = fs_line_versions(line, &v, &n, NULL);
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (v[i].version >= w->first && v[i].version <= w->last)
			r = list_one(w, v[i].version, fd, out);
	if (r == -EINVAL) {
		pf_why_set(&why, 0, "what pins of branch %s keep is not shown as tags: Lance has no tags of such names",
			   fs_line_name(line));
		tell(fs, line, why.text);
		return 0;
	}
	if (r == 0)
		__atomic_store_n(&line->tags_told, false, __ATOMIC_RELAXED);
	return r;
}

static int list_branch(struct fs *fs, const char *branch, int fd, struct fs_names *out)
{
	struct window w;
	int r = find_window(fs, branch, &w);

	return r > 0 ? list_window(fs, &w, fd, out) : r;
}

int gate_tags_list(struct fs *fs, const struct gate_at *dir, int fd, struct fs_names *out)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { .v = NULL };

	if (!gate_tags_are_in(fs, dir->path))
		return 0;
	int r = list_branch(fs, NULL, fd, out);
	if (r == 0 && pf_branches_list(fs->store, &refs, NULL) == -ENOMEM)
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		r = list_branch(fs, refs.v[i].name, fd, out);
	return r;
}

/* --- one of them --- */

bool gate_is_tag(const struct gate_at *at)
{
	return at->dev == 0 && at->ino != 0;
}

int gate_tag_refuse(const struct gate_at *at, struct pf_why *why)
{
	const char *slash = strrchr(at->path, '/');

	return pf_why_set(why, -EBUSY,
			  "the tag %s is shown because a pin keeps its version, and goes when the pin is released",
			  slash ? slash + 1 : at->path);
}

/* Memory like a file, so that it is read and closed as others are. */
int gate_tag_open(struct fs *fs, const struct gate_at *at, int flags, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct stat st;

	if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
		return gate_tag_refuse(at, why);
	int r = read_tag(fs, at->path, &text, &st);
	if (r == 0 && st.st_ino != at->ino)
		r = -ESTALE;
	if (r < 0)
		return r;
	int fd = memfd_create("tag", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text.data, text.len);
	if (n == (ssize_t)text.len && fchmod(fd, 0444) == 0)
		return fd;
	r = n < 0 || n == (ssize_t)text.len ? -errno : -EIO;
	close(fd);
	return r;
}
