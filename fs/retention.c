#include "retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/render_retention.h"
#include "tree.h"

/* Take account, make the text of it, and say by its times which head it is of. */
static int make(fuse_req_t req, const struct fs_node *n, bool measured,
		int (*render)(struct pf_explain *e, const struct fs_node *n, struct pf_buf *out, struct pf_why *why),
		struct fs_content *out, struct pf_why *why)
{
	struct fs *fs = fuse_req_userdata(req);
	struct pf_explain *e;

	int r = fs_kept_begin(req, n, measured, &e, why);
	if (r < 0)
		return r;
	r = render(e, n, &out->text, why);
	out->mtime = out->ctime = e->survey->head->timestamp;
	fs_kept_end(fs);
	return r;
}

static int render_summary(struct pf_explain *e, const struct fs_node *n, struct pf_buf *out, struct pf_why *why)
{
	return pf_render_retention(e, out, why);
}

int fs_summary_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	return make(req, n, true, render_summary, out, why);
}

static int render_files(struct pf_explain *e, const struct fs_node *n, struct pf_buf *out, struct pf_why *why)
{
	return pf_render_files(e, out, why);
}

int fs_files_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	return make(req, n, true, render_files, out, why);
}

int fs_retention_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	int r = fs_line_view(n->branch->line, &v, why);
	if (r == 0)
		out->mtime = out->ctime = v->manifest->timestamp;
	return r;
}

int fs_expired_render(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	int r = fs_line_view(n->branch->line, &v, why);
	if (r < 0)
		return r;
	out->mtime = out->ctime = v->manifest->timestamp;
	return pf_render_expired(&v->manifest->pins, pf_time_now(), &out->text);
}

static int list_number(struct fs *fs, const struct fs_node *dir, enum fs_kind kind, uint64_t number,
		       struct fs_names *out)
{
	const struct fs_node n = { .kind = kind, .branch = dir->branch, .number = number };
	char name[24];

	snprintf(name, sizeof(name), "%" PRIu64, number);
	return fs_names_add(out, fs_object_ino(fs, &n), S_IFREG, name);
}

/* Whether there is such a thing, the look at it says. */
static int find_number(const struct fs_node *dir, enum fs_kind kind, const char *name, struct fs_node *out)
{
	*out = (struct fs_node){ .kind = kind, .branch = dir->branch };
	return pf_u64_parse(name, strlen(name), &out->number) < 0 ? -ENOENT : 0;
}

/*
 * The versions that are there, by one scan of _versions/, and when each was made, by its file: neither listing nor `ls -l` takes a walk, so that a find
 * over the mount does not read a table's manifests. Why each is kept it says itself.
 */
int fs_snapshots_list(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	size_t n_versions = 0;

	int r = fs_line_versions(n->branch->line, &v, &n_versions, why);
	for (size_t i = 0; r == 0 && i < n_versions; i++)
		r = list_number(fs, n, K_SNAPSHOT, v[i].version, out);
	return r;
}

int fs_snapshots_find(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out, struct pf_why *why)
{
	return find_number(n, K_SNAPSHOT, name, out);
}

int fs_snapshot_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	struct pf_stat st;
	int r = fs_line_stat(n->branch->line, n->number, &st, why);
	if (r == 0)
		out->mtime = out->ctime = pf_time_of_ns(st.mtime_ns);
	return r;
}

static int cmp_version(const void *key, const void *v)
{
	uint64_t a = *(const uint64_t *)key, b = ((const struct pf_surveyed_version *)v)->version;
	return a < b ? -1 : a > b;
}

static int render_snapshot(struct pf_explain *e, const struct fs_node *n, struct pf_buf *out, struct pf_why *why)
{
	const struct pf_survey *s = e->survey;
	const struct pf_surveyed_version *v = bsearch(&n->number, s->versions, s->n_versions, sizeof(*v), cmp_version);
	return v ? pf_render_kept_version(e, (size_t)(v - s->versions), out) : -ENOENT;
}

int fs_snapshot_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	return make(req, n, false, render_snapshot, out, why);
}

int fs_records_list(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	size_t n_records = 0;

	int r = fs_line_view(n->branch->line, &v, why);
	if (r == 0)
		r = fs_line_records(n->branch->line, v, &n_records, why);
	for (size_t i = 0; r == 0 && i < n_records; i++)
		r = list_number(fs, n, K_RECORD, i, out);
	return r;
}

int fs_records_find(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out, struct pf_why *why)
{
	return find_number(n, K_RECORD, name, out);
}

int fs_record_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	size_t n_records = 0;

	int r = fs_line_view(n->branch->line, &v, why);
	if (r == 0)
		r = fs_line_records(n->branch->line, v, &n_records, why);
	if (r < 0)
		return r;
	out->mtime = out->ctime = v->manifest->timestamp;
	return n->number < n_records ? 0 : -ENOENT;
}

static int render_record(struct pf_explain *e, const struct fs_node *n, struct pf_buf *out, struct pf_why *why)
{
	return pf_render_fri_record(e, n->number, out, why);
}

int fs_record_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	return make(req, n, false, render_record, out, why);
}
