#include "ops.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/render.h"
#include "tree.h"

/* No value is longer: a record's text with the longest label is far below. */
#define VALUE_MAX 65536

/*
 * Commit a change to the end and note it: a failure under the name it was asked by (see fs_fail), a success under the pin's. What is committed
 * stays so whether or not the caller is still there to be told. Answers failures; returns 0 if success is still to be answered.
 */
static int change(fuse_req_t req, const struct fs_node *n, const char *name, const struct pf_op *op,
		  struct pf_answer *answer)
{
	struct fs *fs = fs_of(req);
	const char *verb = pf_op_kind_name(op->kind);
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;

	if (fs->opt.ro)
		pf_why_set(&answer->why, answer->err = -EROFS, "mounted read-only");
	else
		fs_line_commit(n->branch->line, op, answer);
	if (answer->err < 0) {
		fs_fail(req, verb, n, name, answer->err, &answer->why);
		return answer->err;
	}

	const struct fs_node pin = { .kind = K_PIN,
				     .branch = n->branch,
				     .id = op->kind == PF_OP_REGISTER ? op->request.id : op->id };
	if (fs_node_path(fs, &pin, NULL, &path) == 0 && pf_buf_str(&path)) {
		const char *text = answer->why.text[0] ? answer->why.text : "committed";
		struct fs_act act = { verb, pf_buf_str(&path), 0, answer->version, text };
		fs_control_note(&fs->control, &act);
	}
	return 0;
}

static int renew(fuse_req_t req, const struct fs_node *pin, struct pf_time expires_at, struct pf_answer *answer)
{
	const struct pf_op op = { .kind = PF_OP_RENEW, .id = pin->id, .expires_at = expires_at };
	return change(req, pin, NULL, &op, answer);
}

/* What was written, as a time: a time, or the record's text as it is now with another expires_at. */
static int parse_value(const struct fs_node *pin, const char *s, size_t len, struct pf_time *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	if (len > VALUE_MAX)
		return pf_why_set(why, -EINVAL, "a value has at most %d bytes", VALUE_MAX);
	int r = fs_line_view(pin->branch->line, &v, why);
	if (r < 0)
		return r;
	const struct pf_pin *p = fs_view_pin(v, &pin->id);
	if (!p)
		return pf_why_set(why, -ENOENT, "the pin is gone: released or expired");
	return pf_renewal_parse(s, len, pf_time_now(), p, out, why);
}

static bool only_newlines(const char *s, size_t len)
{
	while (len > 0 && s[len - 1] == '\n')
		len--;
	return len == 0;
}

/* What this write asks for, or why it cannot be a request. */
static int parse_write(const struct fs_handle *f, const char *s, size_t len, off_t off, bool append,
		       struct pf_time *out, struct pf_why *why)
{
	if (f->spoiled)
		return pf_why_set(why, -EINVAL, "an earlier write to this open file was no value, so open it again: %s",
				  f->reason ? f->reason : "it was none");
	if (off != 0 && !append)
		return pf_why_set(why, -EINVAL,
				  "one write is one request, the whole value: this one starts at byte %jd",
				  (intmax_t)off);
	return parse_value(&f->node, s, len, out, why);
}

/* Programs write again what was refused (Python when it closes a file): the reason must not be lost by that. */
static void spoil(struct fs_handle *f, const struct pf_why *why)
{
	if (!f->spoiled)
		f->reason = strdup(why->text);
	f->spoiled = true;
}

/*
 * One write is one request: the whole value, wherever an append thinks it goes. Shells send text line by line, so after a value there may be
 * empty lines; and after a line that was none, no later line may be taken for the value.
 */
void fs_op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs_handle *f = fs_handle_of(fi);
	_cleanup_(pf_answer_release) struct pf_answer answer = { .err = 0 };
	bool append = fi->flags & O_APPEND;
	struct pf_why why = PF_WHY_INIT;
	struct pf_time expires_at;

	if (!f->end || !(append || off == f->end) || !only_newlines(buf, size)) {
		int r = parse_write(f, buf, size, off, append, &expires_at, &why);
		if (r < 0) {
			if (r == -EINVAL)
				spoil(f, &why);
			fs_fail(req, "renew", &f->node, NULL, r, &why);
			return;
		}
		if (renew(req, &f->node, expires_at, &answer) < 0)
			return;
	}
	f->end = off + (off_t)size;
	fuse_reply_write(req, size);
}

/* 0, or -EPERM for a mode or owner other than what is there. Setting them to what they are is what cp -p and editors do. */
static int check_owner(const struct stat *now, const struct stat *asked, int to_set, struct pf_why *why)
{
	if ((to_set & FUSE_SET_ATTR_MODE) && (asked->st_mode & 07777) != (now->st_mode & 07777))
		return pf_why_set(why, -EPERM, "modes are set by the mount option mode=");
	if (((to_set & FUSE_SET_ATTR_UID) && asked->st_uid != now->st_uid) ||
	    ((to_set & FUSE_SET_ATTR_GID) && asked->st_gid != now->st_gid))
		return pf_why_set(why, -EPERM, "owners are set by the mount options uid= and gid=");
	return 0;
}

/*
 * A time given for mtime renews, like a write of it. Everything else that succeeds changes nothing: truncation (also of an open with O_TRUNC)
 * carries no value, and neither does "now".
 */
void fs_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	_cleanup_(pf_answer_release) struct pf_answer answer = { .err = 0 };
	struct pf_why why = PF_WHY_INIT;
	struct fs_node n;
	struct fs_attr a;
	struct stat st;

	int r = fs_node_get(fs, ino, &n);
	if (r == 0)
		r = fs_node_attr(fs, &n, &a, &why);
	if (r < 0) {
		fs_fail_look(req, "setattr", &n, NULL, r, &why);
		return;
	}
	fs_node_stat(fs, &n, &a, &st);

	bool mtime = (to_set & FUSE_SET_ATTR_MTIME) && !(to_set & FUSE_SET_ATTR_MTIME_NOW);
	r = check_owner(&st, attr, to_set, &why);
	if (r == 0 && n.kind != K_PIN && (mtime || (to_set & FUSE_SET_ATTR_SIZE)))
		r = pf_why_set(&why, -EPERM, "only pins can be renewed");
	if (r < 0) {
		fs_fail(req, "setattr", &n, NULL, r, &why);
		return;
	}
	if (mtime) {
		struct pf_time t = { .sec = attr->st_mtim.tv_sec, .nsec = (int32_t)attr->st_mtim.tv_nsec };
		if (!pf_time_valid(t)) {
			pf_why_set(&why, -EINVAL, "years go from 0001 to 9999");
			fs_fail(req, "renew", &n, NULL, -EINVAL, &why);
			return;
		}
		if (renew(req, &n, t, &answer) < 0)
			return;
		/* The record as the commit left it, even if somebody released it since: this request succeeded. */
		fs_node_attr(fs, &n, &a, NULL);
		fs_node_stat(fs, &n, &a, &st);
	}
	fuse_reply_attr(req, &st, FS_TIMEOUT);
}

/* mkdir wants a directory back. This one is found by no name; the kernel forgets it when it looks again. */
static void reply_request(fuse_req_t req)
{
	struct fs *fs = fs_of(req);
	uint64_t number = __atomic_add_fetch(&fs->requests, 1, __ATOMIC_RELAXED);
	struct fs_node n = fs_node_make(K_REQUEST, fs_branch_at(fs, 1));
	struct fs_attr a = { .mtime = pf_time_now() };

	a.ctime = a.mtime;
	n.ino = (uint64_t)K_REQUEST << 56 | number;
	struct fuse_entry_param e = { .ino = n.ino, .attr_timeout = FS_TIMEOUT, .entry_timeout = FS_TIMEOUT };
	fs_node_stat(fs, &n, &a, &e.attr);
	fuse_reply_entry(req, &e);
}

static void register_pin(fuse_req_t req, const struct fs_node *pins, const char *line)
{
	_cleanup_(pf_op_release) struct pf_op op = { .kind = PF_OP_REGISTER, .request = PF_REQUEST_INIT };
	_cleanup_(pf_answer_release) struct pf_answer answer = { .err = 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = pf_request_parse(line, strlen(line), pf_time_now(), &op.request, &why);
	if (r < 0) {
		fs_fail(req, "register", pins, line, r, &why);
		return;
	}
	if (change(req, pins, line, &op, &answer) == 0)
		reply_request(req);
}

/* Resolve the directory and refuse. Names that nothing can have, and things that no file of this mount can do. */
static void refuse(fuse_req_t req, const char *op, fuse_ino_t parent, const char *name, int err, const char *text)
{
	struct pf_why why = PF_WHY_INIT;
	struct fs_node dir;

	if (fs_node_get(fs_of(req), parent, &dir) < 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	pf_why_set(&why, err, "%s", text);
	fs_fail(req, op, &dir, name, err, &why);
}

static bool is_in(fuse_req_t req, fuse_ino_t ino, enum fs_kind kind, struct fs_node *out)
{
	return fs_node_get(fs_of(req), ino, out) == 0 && out->kind == kind;
}

void fs_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct fs_node dir;
	if (is_in(req, parent, K_PINS, &dir))
		register_pin(req, &dir, name);
	else if (is_in(req, parent, K_BRANCHES, &dir))
		fs_make_branch(req, &dir, name);
	else
		refuse(req, "mkdir", parent, name, -EPERM,
		       "directories can be made in pins/, where each registers a pin, and in branches/");
}

void fs_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct pf_op op = { .kind = PF_OP_RELEASE };
	_cleanup_(pf_answer_release) struct pf_answer answer = { .err = 0 };
	struct fs_node dir;

	if (!is_in(req, parent, K_PINS, &dir))
		refuse(req, "unlink", parent, name, -EPERM, "only pins can be removed");
	else if (pf_uuid_parse(name, strlen(name), &op.id, NULL) < 0)
		refuse(req, "release", parent, name, -ENOENT, "no pin has such a name");
	else if (change(req, &dir, name, &op, &answer) == 0)
		fuse_reply_err(req, 0);
}

void fs_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs_node dir;
	if (is_in(req, parent, K_BRANCHES, &dir))
		fs_delete_branch(req, &dir, name);
	else
		refuse(req, "rmdir", parent, name, -EPERM, "only the directories in branches/ can be removed");
}

#define HOW_TO_PIN "a pin is made by mkdir of ID,expires_at=T in pins/"

void fs_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct fs_node dir;
	if (is_in(req, parent, K_PINS, &dir))
		refuse(req, "create", parent, name, -ENOENT, "no such pin, and writing does not make one: " HOW_TO_PIN);
	else
		refuse(req, "create", parent, name, -EPERM, "no files can be made here: " HOW_TO_PIN);
}

void fs_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	refuse(req, "mknod", parent, name, -EPERM, "no files can be made here: " HOW_TO_PIN);
}

void fs_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	refuse(req, "symlink", parent, name, -EPERM, "no links can be made here");
}

void fs_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	refuse(req, "link", parent, name, -EPERM, "no links can be made here");
}

/* Never EXDEV: mv would answer it with a copy, which is a write, and an unlink, which is a release. */
void fs_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		  unsigned flags)
{
	refuse(req, "rename", parent, name, -EPERM, "an id is for good: pins cannot be renamed or replaced");
}
