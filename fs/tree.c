#include "tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handle.h"

int fs_node_find(struct fs *fs, const struct fs_node *dir, const char *name, struct fs_node *out, struct pf_why *why)
{
	const struct fs_row *row = &fs_rows[dir->kind];
	if (!S_ISDIR(row->mode))
		return -ENOTDIR;
	for (size_t i = 0; i < FS_CHILDREN && row->children[i]; i++)
		if (!strcmp(fs_rows[row->children[i]].name, name)) {
			*out = fs_node_make(row->children[i], dir->branch);
			return 0;
		}
	return row->find ? row->find(fs, dir, name, out, why) : -ENOENT;
}

static struct fs_node parent(struct fs *fs, const struct fs_node *n)
{
	struct fs_branch *root = fs_branch_at(fs, 1);
	const enum fs_kind top = fs->gateway.on ? K_TREE : K_ROOT;
	switch (n->kind) {
	case K_PIN:
	case K_REQUEST:
		return fs_node_make(K_PINS, n->branch);
	case K_SUMMARY:
	case K_SNAPSHOTS:
	case K_FRI:
	case K_FILES:
	case K_EXPIRED:
		return fs_node_make(K_RETENTION, n->branch);
	case K_SNAPSHOT:
		return fs_node_make(K_SNAPSHOTS, n->branch);
	case K_RECORD:
		return fs_node_make(K_FRI, n->branch);
	case K_HEAD:
	case K_PINS:
	case K_RETENTION:
		return fs_node_make(n->branch == root ? top : K_BRANCH, n->branch);
	case K_BRANCH:
		return fs_node_make(K_BRANCHES, root);
	case K_STATUS:
	case K_LOG:
	case K_METRICS:
		return fs_node_make(fs->gateway.on ? K_TREE : K_CONTROL, root);
	case K_BRANCHES:
	case K_TABLE:
		return fs_node_make(top, root);
	default:
		return fs_node_make(K_ROOT, root);
	}
}

int fs_node_list(struct fs *fs, const struct fs_node *dir, struct fs_names *out, struct pf_why *why)
{
	const struct fs_row *row = &fs_rows[dir->kind];
	int r = fs_names_add(out, dir->ino, S_IFDIR, ".");
	if (r == 0)
		r = fs_names_add(out, parent(fs, dir).ino, S_IFDIR, "..");
	for (size_t i = 0; r == 0 && i < FS_CHILDREN && row->children[i]; i++) {
		const struct fs_row *c = &fs_rows[row->children[i]];
		if (!c->hidden)
			r = fs_names_add(out, fs_node_make(row->children[i], dir->branch).ino, c->mode & S_IFMT,
					 c->name);
	}
	return r == 0 && row->list ? row->list(fs, dir, out, why) : r;
}

/* A directory is as old as the head of its branch. One that cannot be read must not hide the files that say why. */
static void dir_times(struct fs *fs, const struct fs_node *n, struct fs_attr *out)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	struct pf_time t = fs->mounted_at;
	if (fs_line_view(n->branch->line, &v, NULL) == 0)
		t = v->manifest->timestamp;
	*out = (struct fs_attr){ .mtime = t, .ctime = t };
}

int fs_node_attr(struct fs *fs, const struct fs_node *n, struct fs_attr *out, struct pf_why *why)
{
	_cleanup_(fs_content_release) struct fs_content c = FS_CONTENT_INIT;
	const struct fs_row *row = &fs_rows[n->kind];
	struct fs_attr last;

	if (S_ISDIR(row->mode)) {
		dir_times(fs, n, out);
		return 0;
	}
	int r = row->render ? row->render(fs, n, &c, why) : row->look(fs, n, &c, why);
	if (r == -ENOENT && n->ino && fs_handle_last(fs, n->ino, out)) {
		out->gone = true;
		return 0;
	}
	if (r < 0)
		return r;
	*out = (struct fs_attr){ .size = c.text.len, .mtime = c.mtime, .ctime = c.ctime };
	if (row->make && n->ino && fs_handle_last(fs, n->ino, &last))
		out->size = last.size;
	return 0;
}

static struct timespec to_timespec(struct pf_time t)
{
	return (struct timespec){ .tv_sec = t.sec, .tv_nsec = t.nsec };
}

/* The option mode= is said of files that can be written. */
static mode_t permissions(const struct fs *fs, mode_t row)
{
	mode_t m = fs->opt.mode;
	if (S_ISDIR(row))
		return m | (m & 0444) >> 2;
	return row & 0222 ? m : m & ~0222u;
}

void fs_node_stat(struct fs *fs, const struct fs_node *n, const struct fs_attr *a, struct stat *out)
{
	mode_t mode = fs_rows[n->kind].mode;
	*out = (struct stat){
		.st_ino = n->ino,
		.st_mode = S_ISLNK(mode) ? mode : (mode & S_IFMT) | permissions(fs, mode),
		.st_nlink = S_ISDIR(mode) ? 2 : !a->gone,
		.st_uid = fs->opt.uid,
		.st_gid = fs->opt.gid,
		.st_size = (off_t)a->size,
		.st_blksize = 4096,
		.st_blocks = (blkcnt_t)((a->size + 511) / 512),
		.st_atim = to_timespec(a->mtime),
		.st_mtim = to_timespec(a->mtime),
		.st_ctim = to_timespec(a->ctime),
	};
}

static int add_name(struct pf_buf *out, const char *name)
{
	int r = out->len ? pf_buf_addch(out, '/') : 0;
	return r == 0 ? pf_buf_addstr(out, name) : r;
}

static int add_path(struct fs *fs, const struct fs_node *n, struct pf_buf *out)
{
	if (n->kind == K_ROOT)
		return 0;
	struct fs_node up = parent(fs, n);
	int r = add_path(fs, &up, out);
	if (r < 0)
		return r;
	if (n->kind == K_PIN) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&n->id, id);
		return add_name(out, id);
	}
	if (n->kind == K_SNAPSHOT || n->kind == K_RECORD) {
		char number[24];
		snprintf(number, sizeof(number), "%" PRIu64, n->number);
		return add_name(out, number);
	}
	if (n->kind == K_BRANCH) {
		r = add_name(out, "");
		return r == 0 ? fs_branch_encode(fs_line_name(n->branch->line), out) : r;
	}
	return add_name(out, fs_rows[n->kind].name ? fs_rows[n->kind].name : "");
}

int fs_node_path(struct fs *fs, const struct fs_node *n, const char *name, struct pf_buf *out)
{
	int r = add_path(fs, n, out);
	return r == 0 && name ? add_name(out, name) : r;
}
