#include "gateway_node.h"

#include <fcntl.h>

#ifdef FUSE_CAP_PASSTHROUGH

/* The file that the kernel reads in place of a node, known to it by `id`: one for all who have the node open, or the kernel refuses the others. */
struct gate_pass {
	struct gate_pass *next;
	int id;
	unsigned opens;
};

void gate_pass_init(struct fs *fs, struct fuse_conn_info *conn)
{
	fs->gateway.passes = (conn->capable & FUSE_CAP_PASSTHROUGH) != 0;
	if (fs->gateway.passes)
		conn->want |= FUSE_CAP_PASSTHROUGH;
}

/* Called locked. NULL: it cannot be had, and then nor can any other: the daemon is not root's, or the file system below is one that is stacked itself. */
static struct gate_pass *new_pass(fuse_req_t req, int fd)
{
	struct gate_pass *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->id = fuse_passthrough_open(req, fd);
	if (p->id > 0)
		return p;
	free(p);
	fs_of(req)->gateway.passes = false;
	return NULL;
}

/*
 * Where one open is passed through, the kernel wants all others of the node to be, too. Who writes then does so by us all the same, directly; but not with a
 * shared mapping, which would be of the file below.
 */
int gate_pass_open(fuse_req_t req, struct gate_file *f, bool may_pass, struct fuse_file_info *fi)
{
	bool maps = (fi->flags & O_ACCMODE) == O_RDWR;
	struct fs *fs = fs_of(req);
	struct gate_pass *p = NULL;
	bool cached = false;

	pthread_mutex_lock(&fs->gateway.nodes.lock);
	for (const struct gate_file *other = f->all ? *f->all : NULL; other; other = other->next) {
		cached |= other->io == GATE_IO_CACHED;
		p = other->pass ? other->pass : p;
	}
	if (!p && may_pass && !cached && f->all && fs->gateway.passes)
		p = new_pass(req, f->fd);
	if (p && (may_pass || !maps)) {
		p->opens++;
		f->pass = p;
		fi->backing_id = p->id;
		fi->direct_io = !may_pass;
		/* The kernel has no pages of its own of such a file. */
		fi->keep_cache = false;
	}
	f->io = f->pass || fi->direct_io ? GATE_IO_UNCACHED : GATE_IO_CACHED;
	pthread_mutex_unlock(&fs->gateway.nodes.lock);
	return p && !f->pass ? -ETXTBSY : 0;
}

void gate_pass_leave(struct gate_nodes *l, struct gate_file *f)
{
	struct gate_pass *p = STEAL(f->pass);

	if (!p || --p->opens > 0)
		return;
	p->next = l->passed;
	l->passed = p;
}

void gate_pass_close(fuse_req_t req)
{
	struct gate_nodes *l = &fs_of(req)->gateway.nodes;

	pthread_mutex_lock(&l->lock);
	struct gate_pass *p = STEAL(l->passed);
	pthread_mutex_unlock(&l->lock);
	while (p) {
		struct gate_pass *next = p->next;

		fuse_passthrough_close(req, p->id);
		free(p);
		p = next;
	}
}

void gate_pass_release(struct gate_nodes *l)
{
	for (struct gate_pass *p = l->passed, *next; p; p = next) {
		next = p->next;
		free(p);
	}
}

#else

void gate_pass_init(struct fs *fs, struct fuse_conn_info *conn)
{
}

int gate_pass_open(fuse_req_t req, struct gate_file *f, bool may_pass, struct fuse_file_info *fi)
{
	return 0;
}

void gate_pass_leave(struct gate_nodes *l, struct gate_file *f)
{
}

void gate_pass_close(fuse_req_t req)
{
}

void gate_pass_release(struct gate_nodes *l)
{
}

#endif
