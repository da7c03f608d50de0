/* mkdir and rmdir in branches/: branches made and deleted (core/branch_make.h). */
#include "ops.h"

#include <inttypes.h>
#include <string.h>

#include "core/branch_make.h"
#include "tree.h"

static void note(struct fs *fs, const char *op, const struct fs_node *dir, const char *name, uint64_t version,
		 const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;

	if (fs_node_path(fs, dir, name, &path) < 0 || !pf_buf_str(&path))
		return;
	const struct fs_act act = { op, pf_buf_str(&path), 0, version, text };
	fs_control_note(&fs->control, &act);
}

/* The branch that a name in branches/ says; what no branch can be called is core's to refuse. */
static int decode(const char *name, struct pf_buf *out, const char **branch, struct pf_why *why)
{
	int r = fs_branch_decode(name, out);

	if (r == -ENOENT)
		return pf_why_set(why, -EINVAL, "a branch name has no %% but in %%2F, for a slash");
	*branch = r == 0 ? pf_buf_str(out) : NULL;
	return *branch ? 0 : -ENOMEM;
}

/* It is there, and looks like this; if somebody deleted it again, it was there. */
static void reply_directory(fuse_req_t req, const struct fs_node *dir, const char *name)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct fs_node n;
	struct fs_attr a;

	int r = fs_node_find(fs, dir, name, &n, &why);
	if (r == 0)
		r = fs_node_attr(fs, &n, &a, &why);
	if (r < 0) {
		fs_fail(req, "mkdir", dir, name, r, &why);
		return;
	}
	struct fuse_entry_param e = { .ino = n.ino, .attr_timeout = FS_TIMEOUT, .entry_timeout = FS_TIMEOUT };
	fs_node_stat(fs, &n, &a, &e.attr);
	fuse_reply_entry(req, &e);
}

void fs_make_branch(fuse_req_t req, const struct fs_node *dir, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf decoded = PF_BUF_INIT;
	struct fs *fs = fs_of(req);
	struct fs_line *from = fs_branch_at(fs, 1)->line;
	struct pf_why why = PF_WHY_INIT;
	const char *branch = NULL;
	uint64_t version = 0;

	int r = fs->opt.ro ? pf_why_set(&why, -EROFS, "mounted read-only") : decode(name, &decoded, &branch, &why);
	if (r == 0)
		r = fs_line_make_branch(from, branch, &version, &why);
	if (r < 0) {
		fs_fail(req, "mkdir", dir, name, r, &why);
		return;
	}
	pf_why_set(&why, 0, "made from version %" PRIu64 " of %s", version, fs_line_name(from));
	note(fs, "mkdir", dir, name, version, why.text);
	reply_directory(req, dir, name);
}

void fs_delete_branch(fuse_req_t req, const struct fs_node *dir, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf decoded = PF_BUF_INIT;
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	const char *branch = NULL;

	int r = fs->opt.ro ? pf_why_set(&why, -EROFS, "mounted read-only") : decode(name, &decoded, &branch, &why);
	if (r == 0 && strcmp(branch, "main") == 0)
		r = pf_why_set(&why, -EPERM, "main is not deleted by anybody");
	if (r == 0 && strcmp(branch, fs_line_name(fs_branch_at(fs, 1)->line)) == 0)
		r = pf_why_set(&why, -EBUSY,
			       "this mount shows the branch %s: unmount it, and delete the branch elsewhere", branch);
	if (r == 0)
		r = pf_branch_delete(fs->store, branch, false, &why);
	if (r < 0) {
		fs_fail(req, "rmdir", dir, name, r, &why);
		return;
	}
	fs_branch_retire(fs, branch);
	note(fs, "rmdir", dir, name, 0, "deleted");
	fuse_reply_err(req, 0);
}
