#include "pinctl.h"

#include <inttypes.h>

#include "core/tag_make.h"

int cmd_tag_create(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_tag_release) struct pf_tag tag = { 0 };
	const char *name = a->operand[0];
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;

	int r = pf_tag_name_check(name, &why);
	if (r == 0)
		r = ctl_open_point(c, a->n_operands > 1 ? a->operand[1] : NULL, &version, &why);
	if (r == 0)
		r = pf_tag_create(c->branch, name, version, pf_time_now(), &why);
	if (r == 0 && c->json)
		r = pf_tag_read(c->store, name, &tag, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	ctl_say("tag %s: version %" PRIu64 " of %s", name, version, ctl_branch(c));
	return c->json ? ctl_print_json(pf_json_tag(&tag)) : 0;
}

int cmd_tag_delete(struct ctl *c, const struct args *a)
{
	const char *name = a->operand[0];
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open_store(c, &why);
	if (r == 0)
		r = pf_tag_delete(c->store, name, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	ctl_say("tag %s removed", name);
	if (!c->json)
		return 0;
	json_t *j = json_object();
	pf_json_put(&j, "removed", json_string(name));
	return ctl_print_json(j);
}
