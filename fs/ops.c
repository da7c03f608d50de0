#include "ops.h"

#include <string.h>

#include "tree.h"

void fs_fail(fuse_req_t req, const char *op, const struct fs_node *n, const char *name, int err,
	     const struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	struct fs *fs = fs_of(req);
	int e = pf_error_errno(err);

	if (e < FS_ERRNOS)
		__atomic_add_fetch(&fs->refused[e], 1, __ATOMIC_RELAXED);
	/* Noted before it is answered, so that whoever was refused finds the reason. */
	if (fs_node_path(fs, n, name, &path) == 0 && pf_buf_str(&path)) {
		const char *text = why && why->text[0] ? why->text : strerrordesc_np(e);
		struct fs_act act = { .op = op, .path = pf_buf_str(&path), .err = e, .text = text ? text : "failed" };
		fs_control_note(&fs->control, &act);
	}
	fuse_reply_err(req, e);
}

void fs_fail_look(fuse_req_t req, const char *op, const struct fs_node *n, const char *name, int err,
		  const struct pf_why *why)
{
	if (err == -ENOENT)
		fuse_reply_err(req, ENOENT);
	else
		fs_fail(req, op, n, name, err, why);
}

/* The kernel's first request: from now on the mount answers. Whoever started us may go on. */
static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct fs *fs = userdata;
	fs_ready(fs);
}

/*
 * What is missing here is meant to be: the kernel takes a missing flush or fsync for "nothing to do, success", and a missing setxattr or
 * removexattr for "not supported", which is what section 5 asks for, and does not ask again.
 */
const struct fuse_lowlevel_ops fs_ops = {
	.init = op_init,
	.lookup = fs_op_lookup,
	.forget = fs_op_forget,
	.getattr = fs_op_getattr,
	.access = fs_op_access,
	.setattr = fs_op_setattr,
	.opendir = fs_op_opendir,
	.readdir = fs_op_readdir,
	.releasedir = fs_op_releasedir,
	.open = fs_op_open,
	.read = fs_op_read,
	.write = fs_op_write,
	.release = fs_op_release,
	.statfs = fs_op_statfs,
	.getxattr = fs_op_getxattr,
	.listxattr = fs_op_listxattr,
	.mkdir = fs_op_mkdir,
	.unlink = fs_op_unlink,
	.rmdir = fs_op_rmdir,
	.create = fs_op_create,
	.mknod = fs_op_mknod,
	.symlink = fs_op_symlink,
	.link = fs_op_link,
	.rename = fs_op_rename,
};
