#include "ops.h"

#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/request.h"
#include "tree.h"

void fs_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct fs_node dir, n;
	struct fs_attr a;

	int r = fs_node_get(fs, parent, &dir);
	if (r < 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	r = fs_node_find(fs, &dir, name, &n, &why);
	if (r == 0)
		r = fs_node_attr(fs, &n, &a, &why);
	if (r == 0 && fs_kind_is_object(n.kind))
		r = fs_object_intern(fs, &n);
	if (r < 0) {
		fs_fail_look(req, "lookup", &dir, name, r, &why);
		return;
	}

	struct fuse_entry_param e = { .ino = n.ino,
				      .attr_timeout = FS_TIMEOUT,
				      .entry_timeout = fs_rows[n.kind].name ? FS_TIMEOUT_FIXED : FS_TIMEOUT };
	fs_node_stat(fs, &n, &a, &e.attr);
	if (fuse_reply_entry(req, &e) < 0 && fs_kind_is_object(n.kind))
		fs_object_forget(fs, n.ino, 1);
}

void fs_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	struct fs_node n;
	if (fs_node_get(fs_of(req), ino, &n) == 0 && fs_kind_is_object(n.kind))
		fs_object_forget(fs_of(req), ino, lookups);
	fuse_reply_none(req);
}

void fs_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct pf_why why = PF_WHY_INIT;
	struct fs_node n;
	struct fs_attr a;
	struct stat st;

	if (fs_node_get(fs, ino, &n) < 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	int r = fs_node_attr(fs, &n, &a, &why);
	if (r < 0) {
		fs_fail_look(req, "stat", &n, NULL, r, &why);
		return;
	}
	fs_node_stat(fs, &n, &a, &st);
	fuse_reply_attr(req, &st, FS_TIMEOUT);
}

/*
 * access(2), asked where the kernel does not check modes itself: nobody but the owner of everything gets in, who may do all but write what only
 * reports, or run it.
 */
void fs_op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct fs_node n;
	if (fs_node_get(fs_of(req), ino, &n) < 0) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	mode_t mode = fs_rows[n.kind].mode;
	bool no = ((mask & W_OK) && !(mode & 0200)) || ((mask & X_OK) && S_ISREG(mode));
	fuse_reply_err(req, no ? EACCES : 0);
}

/* The names are listed by the first readdir, and again by one that starts over (rewinddir). */
void fs_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_node n;

	int r = fs_node_get(fs, ino, &n);
	struct fs_handle *h = r == 0 ? fs_handle_new(fs, &n, NULL) : NULL;
	if (!h) {
		fuse_reply_err(req, r < 0 ? -r : ENOMEM);
		return;
	}
	fi->fh = (uintptr_t)h;
	if (fuse_reply_open(req, fi) < 0)
		fs_handle_unref(fs, h);
}

void fs_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fs_handle_unref(fs_of(req), fs_handle_of(fi));
	fuse_reply_err(req, 0);
}

/* As many entries from number `off` on as fit into buf; returns their bytes. `plus`: as READDIRPLUS wants them, without what it could have beside. */
static size_t pack(fuse_req_t req, const struct fs_names *l, size_t off, char *buf, size_t size, bool plus)
{
	size_t used = 0;
	for (size_t i = off; i < l->n; i++) {
		const char *name = (char *)l->text.data + l->v[i].at;
		struct fuse_entry_param e = { .attr = { .st_ino = l->v[i].ino, .st_mode = l->v[i].type } };
		size_t n = plus ? fuse_add_direntry_plus(req, buf + used, size - used, name, &e, (off_t)i + 1)
				: fuse_add_direntry(req, buf + used, size - used, name, &e.attr, (off_t)i + 1);
		if (n > size - used)
			break;
		used += n;
	}
	return used;
}

static void reply_names(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
	struct fs_handle *h = fs_handle_of(fi);

	if (off == 0) {
		struct pf_why why = PF_WHY_INIT;
		fs_names_release(&h->names);
		int r = fs_node_list(fs_of(req), &h->node, &h->names, &why);
		if (r < 0) {
			fs_fail_look(req, "list", &h->node, NULL, r, &why);
			return;
		}
	}
	_cleanup_(pf_freep) char *buf = malloc(size);
	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	fuse_reply_buf(req, buf, pack(req, &h->names, (size_t)off, buf, size, plus));
}

void fs_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	reply_names(req, size, off, fi, false);
}

void fs_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	reply_names(req, size, off, fi, true);
}

/* The one link there is: its text is where it leads. */
void fs_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	_cleanup_(fs_content_release) struct fs_content c = FS_CONTENT_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct fs_node n;

	int r = fs_node_get(fs_of(req), ino, &n);
	if (r == 0)
		r = S_ISLNK(fs_rows[n.kind].mode) ? fs_rows[n.kind].render(fs_of(req), &n, &c, &why) : -EINVAL;
	if (r == 0 && !pf_buf_str(&c.text))
		r = -ENOMEM;
	if (r < 0)
		fuse_reply_err(req, -r);
	else
		fuse_reply_readlink(req, (char *)c.text.data);
}

/* The kernel's own check lets root write anywhere. */
static int check_access(const struct fs *fs, const struct fs_node *n, int flags, struct pf_why *why)
{
	if ((flags & O_ACCMODE) == O_RDONLY)
		return 0;
	if (fs->opt.ro)
		return pf_why_set(why, -EROFS, "mounted read-only");
	if (n->kind != K_PIN)
		return pf_why_set(why, -EPERM, "this file only reports");
	return 0;
}

static int content(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	const struct fs_row *row = &fs_rows[n->kind];
	if (row->make)
		return row->make(req, n, out, why);
	return row->render ? row->render(fs_of(req), n, out, why) : -EISDIR;
}

void fs_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	_cleanup_(fs_content_release) struct fs_content c = FS_CONTENT_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct fs_handle *h = NULL;
	struct fs_node n;

	int r = fs_node_get(fs, ino, &n);
	if (r == 0)
		r = check_access(fs, &n, fi->flags, &why);
	if (r == 0)
		r = content(req, &n, &c, &why);
	if (r == 0 && !(h = fs_handle_new(fs, &n, &c)))
		r = -ENOMEM;
	if (r < 0) {
		fs_fail_look(req, "open", &n, NULL, r, &why);
		return;
	}
	/* Nothing of it may stay in the page cache: the next open may show another text, of another length. */
	fi->direct_io = 1;
	fi->fh = (uintptr_t)h;
	if (fuse_reply_open(req, fi) < 0)
		fs_handle_unref(fs, h);
}

void fs_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fs *fs = fs_of(req);
	struct fs_handle *h = fs_handle_of(fi);
	const struct pf_buf *t = &h->content.text;
	size_t at = off < 0 || (uint64_t)off > t->len ? t->len : (size_t)off;

	/* The reader goes on before our reply has returned, and may have closed the file by then. */
	fs_handle_ref(h);
	fuse_reply_buf(req, t->data ? (char *)t->data + at : NULL, t->len - at < size ? t->len - at : size);
	fs_handle_unref(fs, h);
}

void fs_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	fs_handle_unref(fs_of(req), fs_handle_of(fi));
	fuse_reply_err(req, 0);
}

/* No blocks: like /proc, it takes no space and has none to give. Names can be as long as a request. */
void fs_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs v = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = PF_REQUEST_LINE_MAX - 1 };
	fuse_reply_statfs(req, &v);
}
