#include "gateway.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/place.h"
#include "core/refs.h"
#include "gateway_node.h"

/* What is reached through a link is reached without us. */
static int check_folder(struct fs *fs, const char *dir, const char *name, struct pf_why *why)
{
	char path[PATH_MAX];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s%s", dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	int r = gate_lstat(fs, path, &st);
	if (r == -ELOOP || (r == 0 && S_ISLNK(st.st_mode)))
		return pf_why_set(why, -EOPNOTSUPP,
				  "%s is a link: what it leads to would be open to everybody beside the gateway", path);
	return r == -ENOENT ? 0 : r;
}

static int check_line(struct fs *fs, const char *dir, struct pf_why *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < PF_FOLDERS; i++)
		r = check_folder(fs, dir, pf_folders[i], why);
	return r;
}

static int check_folders(struct fs *fs, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { .v = NULL };

	int r = check_folder(fs, "", "_refs", why);
	if (r == 0)
		r = check_folder(fs, "", "tree", why);
	if (r == 0)
		r = check_line(fs, "", why);
	if (r == 0)
		r = pf_branches_list(fs->store, &refs, why);
	for (size_t k = 0; r == 0 && k < refs.n; k++) {
		_cleanup_(pf_buf_release) struct pf_buf dir = PF_BUF_INIT;
		r = pf_buf_addf(&dir, "tree/%s/", refs.v[k].name);
		if (r == 0)
			r = pf_buf_str(&dir) ? check_line(fs, (char *)dir.data, why) : -ENOMEM;
	}
	return r;
}

int fs_gateway_init(struct fs *fs, struct pf_why *why)
{
	struct fs_gateway *g = &fs->gateway;
	struct rlimit files;
	struct pf_stat table;
	struct stat st;

	pthread_rwlockattr_t attr;

	int r = gate_nodes_init(&g->nodes);
	if (r < 0)
		return r;
	/* Or a long cleanup would keep everybody from publishing. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&g->files, &attr);
	pthread_rwlockattr_destroy(&attr);
	g->on = true;
	g->root = open(fs->store->at, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (g->root < 0 || fstat(g->root, &st) < 0)
		return pf_why_set(why, -errno, "cannot open the table: %s", strerror(errno));
	r = pf_store_stat(fs->store, ".", &table);
	if (r == 0 && (table.dev != st.st_dev || table.ino != st.st_ino))
		r = pf_why_set(why, -EAGAIN, "the table was replaced meanwhile");
	if (r == 0)
		r = check_folders(fs, why);
	if (r == 0)
		r = gate_tags_init(fs, why);
	/* Each file that a client has open is open here, too. */
	if (r == 0 && getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return r;
}

void fs_gateway_release(struct fs *fs)
{
	struct fs_gateway *g = &fs->gateway;

	if (!g->on)
		return;
	gate_nodes_release(&g->nodes);
	pthread_rwlock_destroy(&g->files);
	if (g->root >= 0)
		close(g->root);
}

/* What the kernel asks for at a time of a file that is read from its beginning; for more than half of a pipe (1 MiB) at once the pages would be copied once more. */
#define READ_AHEAD_KIB 512u

/* By default it is 128 KiB, which cannot be said at the mount. Only root may say it, and of where the kernel tells of its devices: without, reading is slower. */
void fs_gateway_mounted(const char *mountpoint)
{
	char path[64];
	struct statx x;

	/* Not to be asked of us: nobody answers yet. */
	if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC, 0, &x) < 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", x.stx_dev_major, x.stx_dev_minor);
	FILE *f = fopen(path, "we");
	if (!f)
		return;
	fprintf(f, "%u\n", READ_AHEAD_KIB);
	fclose(f);
}

/* --- requests: to the gateway, or to the tree of pins --- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	/* A mode alone can say more than the access control list that it stands for. */
	conn->want |= conn->capable & (FUSE_CAP_SPLICE_WRITE | FUSE_CAP_POSIX_ACL);
	/* Lance links manifests whose pages the kernel would still have: what is published must have arrived. */
	conn->want &= ~(unsigned)FUSE_CAP_WRITEBACK_CACHE;
	conn->max_readahead = READ_AHEAD_KIB << 10; /* or less, as fs_gateway_mounted could have it */
	gate_pass_init(userdata, conn);
	fs_ready(userdata);
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(gate_owns(parent) ? gate_op_lookup : fs_op_lookup)(req, parent, name);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	if (!gate_owns(ino)) {
		fs_op_forget(req, ino, lookups);
		return;
	}
	gate_forget(fs_of(req), ino, lookups);
	fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_getattr : fs_op_getattr)(req, ino, fi);
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_setattr : fs_op_setattr)(req, ino, attr, to_set, fi);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	(gate_owns(ino) ? gate_op_readlink : fs_op_readlink)(req, ino);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_opendir : fs_op_opendir)(req, ino, fi);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	if (gate_owns(ino))
		gate_op_readdir(req, ino, size, off, fi, false);
	else
		fs_op_readdir(req, ino, size, off, fi);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	if (gate_owns(ino))
		gate_op_readdir(req, ino, size, off, fi, true);
	else
		fs_op_readdirplus(req, ino, size, off, fi);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_release : fs_op_releasedir)(req, ino, fi);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	if (gate_owns(ino))
		gate_op_fsync(req, ino, datasync, fi);
	else
		fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	op_fsyncdir(req, ino, datasync, fi);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_open : fs_op_open)(req, ino, fi);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_read : fs_op_read)(req, ino, size, off, fi);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_write : fs_op_write)(req, ino, buf, size, off, fi);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(gate_owns(ino) ? gate_op_release : fs_op_release)(req, ino, fi);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	(gate_owns(ino) ? gate_op_statfs : fs_op_statfs)(req, ino);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	(gate_owns(parent) ? gate_op_mkdir : fs_op_mkdir)(req, parent, name, mode);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(gate_owns(parent) ? gate_op_unlink : fs_op_unlink)(req, parent, name);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	(gate_owns(parent) ? gate_op_rmdir : fs_op_rmdir)(req, parent, name);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	(gate_owns(parent) ? gate_op_create : fs_op_create)(req, parent, name, mode, fi);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	if (gate_owns(parent))
		gate_refuse(req, "mknod", parent, name, "a table has files and directories only");
	else
		fs_op_mknod(req, parent, name, mode, rdev);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	if (gate_owns(parent))
		gate_refuse(req, "symlink", parent, name, "what a link leads to would not be guarded");
	else
		fs_op_symlink(req, target, parent, name);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	if (gate_owns(parent) && gate_owns(ino))
		gate_op_link(req, ino, parent, name);
	else if (gate_owns(parent))
		gate_refuse(req, "link", parent, name, "pins are no files of the table");
	else
		fs_op_link(req, ino, parent, name);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent, const char *newname,
		      unsigned flags)
{
	if (gate_owns(parent) && gate_owns(newparent))
		gate_op_rename(req, parent, name, newparent, newname, flags);
	else if (gate_owns(parent))
		gate_refuse(req, "rename", parent, name, "files of the table stay in it");
	else
		fs_op_rename(req, parent, name, newparent, newname, flags);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	(gate_owns(ino) ? gate_op_getxattr : fs_op_getxattr)(req, ino, name, size);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	if (!gate_owns(ino))
		fs_op_listxattr(req, ino, size);
	else if (size == 0)
		fuse_reply_xattr(req, 0);
	else
		fuse_reply_buf(req, NULL, 0);
}

/*
 * What is missing is refused by the kernel, and must be: fallocate, copy_file_range (which becomes a read and a write), ioctl, setxattr. access is not
 * asked: the kernel checks modes and access control lists.
 */
const struct fuse_lowlevel_ops fs_gateway_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.release = op_release,
	.fsync = op_fsync,
	.statfs = op_statfs,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.create = op_create,
	.mknod = op_mknod,
	.symlink = op_symlink,
	.link = op_link,
	.rename = op_rename,
};
