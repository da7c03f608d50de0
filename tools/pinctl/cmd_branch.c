#include "pinctl.h"

#include <inttypes.h>

#include "core/branch_make.h"

static int report_created(struct ctl *c, const char *name, uint64_t version)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	ctl_say("branch %s made from version %" PRIu64 " of %s", name, version, ctl_branch(c));
	if (!c->json)
		return 0;
	int r = pf_branch_ref_read(c->store, name, &ref, &why);
	if (r == 0)
		r = pf_branch_open(c->store, name, &b, &why);
	if (r == 0)
		r = pf_branch_head(b, &head, &why);
	return r < 0 ? ctl_fail(r, &why) : ctl_print_json(pf_json_branch(&ref, head));
}

int cmd_branch_create(struct ctl *c, const struct args *a)
{
	const char *name = a->operand[0];
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	int r = ctl_open_point(c, args_value(a, "from"), &version, &why);
	if (r == 0)
		r = pf_branch_create(c->branch, version, name, pf_time_now(), &why);
	return r < 0 ? ctl_fail(r, &why) : report_created(c, name, version);
}

int cmd_branch_delete(struct ctl *c, const struct args *a)
{
	const char *name = a->operand[0];
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open_store(c, &why);
	if (r == 0)
		r = pf_branch_delete(c->store, name, args_value(a, "force") != NULL, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	ctl_say("branch %s deleted", name);
	if (!c->json)
		return 0;
	json_t *j = json_object();
	pf_json_put(&j, "deleted", json_string(name));
	return ctl_print_json(j);
}
