#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

struct listing {
	struct table table;
	struct json_list json;
};

static void listing_release(struct listing *l)
{
	table_release(&l->table);
}

static int add_branch_row(struct table *t, const char *name, const struct pf_branch_ref *ref,
			  const struct pf_manifest *head)
{
	_cleanup_(pf_buf_release) struct pf_buf from = PF_BUF_INIT, escaped_name = PF_BUF_INIT, escaped = PF_BUF_INIT;
	char version[24] = "-", pins[24] = "-";
	int r = 0;

	if (head) {
		snprintf(version, sizeof(version), "%" PRIu64, head->version);
		snprintf(pins, sizeof(pins), "%zu", head->pins.n);
	}
	if (ref)
		r = pf_buf_addf(&from, "%s:%" PRIu64, ref->parent ? safe(ref->parent, &escaped) : "main",
				ref->parent_version);
	const char *made = r < 0 ? NULL : pf_buf_str(&from);
	return made ? table_add(t, (const char *[]){ safe(name, &escaped_name), version, pins, made }, 4) : -ENOMEM;
}

/* One branch, ref NULL: main. A head that cannot be read is said and does not end the list. 0 or the exit status. */
static int add_branch(struct ctl *c, const struct pf_branch_ref *ref, struct listing *l)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;
	const char *name = ref ? ref->name : "main";
	int status = 0;

	int r = pf_branch_open(c->store, name, &b, &why);
	if (r == 0)
		r = pf_branch_head(b, &head, &why);
	if (r < 0)
		status = ctl_fail(r, &why);
	if (c->json)
		r = json_list_add(&l->json, pf_json_branch(ref, head));
	else if (add_branch_row(&l->table, name, ref, head) < 0)
		r = ctl_fail(-ENOMEM, &(struct pf_why)PF_WHY_INIT);
	else
		r = 0;
	return r ? r : status;
}

static void print_listing(struct ctl *c, struct listing *l)
{
	if (c->json)
		json_list_end(&l->json);
	else
		table_print(&l->table);
}

int cmd_branch_ls(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };
	_cleanup_(listing_release) struct listing l = { 0 };
	struct pf_why why = PF_WHY_INIT;

	/* A directory that is no table has no branches, and that is not an empty list. A damaged main is told in its row. */
	int r = ctl_open_branch(c, NULL, &why);
	if (r == 0 || r == -EBADMSG)
		r = pf_branches_list(c->store, &refs, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	int status = add_branch(c, NULL, &l);
	for (size_t i = 0; i < refs.n; i++) {
		r = add_branch(c, &refs.v[i], &l);
		status = r > status ? r : status;
	}
	print_listing(c, &l);
	return status;
}

static int add_tag_row(struct table *t, const struct pf_tag *tag)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT, branch = PF_BUF_INIT, created = PF_BUF_INIT;
	char version[24];

	snprintf(version, sizeof(version), "%" PRIu64, tag->version);
	return table_add(t,
			 (const char *[]){ safe(tag->name, &name), version,
					   tag->branch ? safe(tag->branch, &branch) : "main",
					   tag->created_at ? safe(tag->created_at, &created) : "-" },
			 4);
}

int cmd_tag_ls(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
	_cleanup_(listing_release) struct listing l = { 0 };
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	/* As above: no table is not an empty list. */
	int r = ctl_open(c, &why);
	if (r == 0)
		r = pf_tags_list(c->store, &tags, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	for (size_t i = 0; i < tags.n && status == 0; i++) {
		if (c->json)
			status = json_list_add(&l.json, pf_json_tag(&tags.v[i]));
		else if (add_tag_row(&l.table, &tags.v[i]) < 0)
			status = ctl_fail(-ENOMEM, &why);
	}
	print_listing(c, &l);
	return status;
}
