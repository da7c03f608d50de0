#include "kinds.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "core/refs.h"
#include "metrics.h"
#include "retention.h"

void fs_content_release(struct fs_content *c)
{
	pf_buf_release(&c->text);
}

static int render_head(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	int r = fs_line_view(n->branch->line, &v, why);
	if (r < 0)
		return r;
	out->mtime = out->ctime = v->manifest->timestamp;
	return fs_view_head(v, n->branch->line->core, &out->text, why);
}

/* mtime is what one looks for with ls and find: when the pin ends. ctime is the commit that the text was read from. */
static int render_pin(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	int r = fs_line_view(n->branch->line, &v, why);
	if (r < 0)
		return r;
	const struct pf_pin *p = fs_view_pin(v, &n->id);
	if (!p)
		return pf_why_set(why, -ENOENT, "no such pin on branch %s at version %" PRIu64,
				  fs_line_name(n->branch->line), v->manifest->version);
	out->mtime = p->expires_at;
	out->ctime = v->manifest->timestamp;
	return fs_view_pin_text(v, p, &out->text);
}

static int render_status(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	int r = fs_control_status(&fs->control, &out->text, &out->mtime);
	out->ctime = out->mtime;
	return r;
}

static int render_log(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	int r = fs_control_log(&fs->control, &out->text, &out->mtime);
	out->ctime = out->mtime;
	return r;
}

static int render_metrics(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	out->mtime = out->ctime = pf_time_now();
	return fs_metrics_render(fs, &out->text);
}

/*
 * The table itself, as this process holds it open. The kernel lets only those follow who might look into the process: its user, and root. Whoever does
 * checks that it is what was meant, as the number may be that of another process elsewhere (core/store_local.c).
 */
static int render_table(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why)
{
	out->mtime = out->ctime = fs->mounted_at;
	return pf_buf_addf(&out->text, "/proc/%d/fd/%d", (int)getpid(), fs->gateway.root);
}

static int list_pins(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	int r = fs_line_view(n->branch->line, &v, why);
	for (size_t i = 0; r == 0 && i < v->manifest->pins.n; i++) {
		const struct fs_node pin = { .kind = K_PIN, .branch = n->branch, .id = v->by_id[i].id };
		char id[PF_UUID_TEXT];
		pf_uuid_format(&pin.id, id);
		r = fs_names_add(out, fs_object_ino(fs, &pin), S_IFREG, id);
	}
	return r;
}

/* Whether there is such a pin, the rendering of its record says. */
static int find_pin(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out, struct pf_why *why)
{
	*out = (struct fs_node){ .kind = K_PIN, .branch = n->branch };
	return pf_uuid_parse(name, strlen(name), &out->id, NULL) < 0 ? -ENOENT : 0;
}

static int list_branch(struct fs *fs, const char *name, struct fs_names *out, struct pf_buf *encoded)
{
	struct fs_branch *b;
	pf_buf_reset(encoded);
	int r = fs_branch_encode(name, encoded);
	if (r == 0)
		r = fs_branch_intern(fs, name, &b);
	const char *s = pf_buf_str(encoded);
	if (r < 0 || !s)
		return r < 0 ? r : -ENOMEM;
	return fs_names_add(out, fs_node_make(K_BRANCH, b).ino, S_IFDIR, s);
}

/* main is in the root already, unless the root shows another branch. */
static int list_branches(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { .v = NULL };
	_cleanup_(pf_buf_release) struct pf_buf encoded = PF_BUF_INIT;

	int r = pf_branches_list(fs->store, &refs, why);
	if (r == 0 && n->branch->line->name)
		r = list_branch(fs, "main", out, &encoded);
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		r = list_branch(fs, refs.v[i].name, out, &encoded);
	return r;
}

static int find_branch(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out,
		       struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf branch = PF_BUF_INIT;
	struct fs_branch *b;

	int r = fs_branch_decode(name, &branch);
	const char *s = pf_buf_str(&branch);
	if (r < 0 || !s)
		return r < 0 ? r : -ENOMEM;
	if (strcmp(s, "main") != 0) {
		struct pf_branch_ref ref;
		if (pf_branch_name_check(s, NULL) < 0)
			return -ENOENT;
		r = pf_branch_ref_read(fs->store, s, &ref, why);
		if (r < 0)
			return r;
		pf_branch_ref_release(&ref);
	}
	r = fs_branch_intern(fs, s, &b);
	if (r == 0)
		*out = fs_node_make(K_BRANCH, b);
	return r;
}

/* clang-format off */
const struct fs_row fs_rows[K_COUNT] = {
	/*               name                                   mode */
	[K_ROOT]     = { NULL,                                  S_IFDIR | 0755, .children = { K_HEAD, K_PINS, K_RETENTION, K_BRANCHES, K_CONTROL } },
	[K_HEAD]     = { "head",                                S_IFREG | 0444, .render = render_head },
	[K_PINS]     = { "pins",                                S_IFDIR | 0755, .list = list_pins, .find = find_pin },
	[K_PIN]      = { NULL /* its id */,                     S_IFREG | 0644, .render = render_pin },
	[K_RETENTION] = { "retention",                          S_IFDIR | 0755, .children = { K_SUMMARY, K_SNAPSHOTS, K_FRI, K_FILES, K_EXPIRED } },
	[K_SUMMARY]  = { "summary",                             S_IFREG | 0444, .make = fs_summary_make, .look = fs_retention_look },
	[K_SNAPSHOTS] = { "snapshots",                          S_IFDIR | 0755, .list = fs_snapshots_list, .find = fs_snapshots_find },
	[K_SNAPSHOT] = { NULL /* its version */,                S_IFREG | 0444, .make = fs_snapshot_make, .look = fs_snapshot_look },
	[K_FRI]      = { "fri",                                 S_IFDIR | 0755, .list = fs_records_list, .find = fs_records_find },
	[K_RECORD]   = { NULL /* its place in the history */,   S_IFREG | 0444, .make = fs_record_make, .look = fs_record_look },
	[K_FILES]    = { "files",                               S_IFREG | 0444, .make = fs_files_make, .look = fs_retention_look },
	[K_EXPIRED]  = { "expired",                             S_IFREG | 0444, .render = fs_expired_render },
	[K_BRANCHES] = { "branches",                            S_IFDIR | 0755, .list = list_branches, .find = find_branch },
	[K_BRANCH]   = { NULL /* its name, `/` as %2F */,       S_IFDIR | 0755, .children = { K_HEAD, K_PINS, K_RETENTION } },
	[K_CONTROL]  = { ".pinfs",                              S_IFDIR | 0755, .hidden = true, .children = { K_STATUS, K_LOG, K_METRICS } },
	[K_TREE]     = { ".pinfs",                              S_IFDIR | 0755, .hidden = true, .children = { K_HEAD, K_PINS, K_RETENTION, K_BRANCHES, K_STATUS, K_LOG, K_METRICS, K_TABLE } },
	[K_TABLE]    = { "table",                               S_IFLNK | 0777, .hidden = true, .render = render_table },
	[K_STATUS]   = { "last_status",                         S_IFREG | 0444, .render = render_status },
	[K_LOG]      = { "log",                                 S_IFREG | 0444, .render = render_log },
	[K_METRICS]  = { "metrics",                             S_IFREG | 0444, .render = render_metrics },
	[K_REQUEST]  = { NULL /* nothing finds it */,           S_IFDIR | 0755 },
};
/* clang-format on */
