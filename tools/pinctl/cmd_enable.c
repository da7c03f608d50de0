#include "pinctl.h"

#include <inttypes.h>

#include "core/flags.h"

/* What writer bit 19 means to released Lance, which does not know it. */
static const struct {
	const char *who, *what;
} effects[] = {
	{ "Lance 12 and newer",
	  "reads as before; refuses append, overwrite, delete, update, indexing and every other commit" },
	{ "Lance 11 and older",
	  "reads as before; refuses append and overwrite by URI; a handle opened before, and every other commit, "
	  "goes through and drops the bit and all pins without a word" },
	{ "compaction by Lance", "plans and executes as before; the commit is refused" },
	{ "cleanup by Lance 14", "is refused while any version left has the bit" },
	{ "cleanup by Lance 13 and older, LanceDB optimize()",
	  "goes through and deletes what pins keep, unless a tag stops it by default, as the one that register puts on a source" },
	{ "tags, deletion of branches, migration to V2 names", "go on as before" },
	{ "commits and cleanup through a gateway, which `pinfs TABLE TABLE` mounts over the table",
	  "go on as before, and what pins keep is not deleted" },
};

static int print_effects_json(const struct ctl *c, const struct pf_manifest *head, bool enabled)
{
	json_t *o = json_object(), *list = json_array();

	for (size_t i = 0; i < ARRAY_LEN(effects); i++) {
		json_t *e = json_object();
		pf_json_put(&e, "who", json_string(effects[i].who));
		pf_json_put(&e, "what", json_string(effects[i].what));
		json_array_append_new(list, e);
	}
	pf_json_put(&o, "pins_enabled", json_boolean(enabled));
	pf_json_put(&o, "branch", pf_json_str(ctl_branch(c)));
	pf_json_put(&o, "version", pf_json_u64(head->version));
	pf_json_put(&o, "effects", list);
	return ctl_print_json(o);
}

static int explain(struct ctl *c, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = pf_branch_head(c->branch, &head, why);
	if (r < 0)
		return ctl_fail(r, why);
	bool enabled = (head->writer_flags & PF_FLAG_PINS) != 0;
	if (c->json)
		return print_effects_json(c, head, enabled);

	if (enabled)
		printf("Pins are enabled on %s: version %" PRIu64 " has writer feature bit 19.", ctl_branch(c),
		       head->version);
	else
		printf("Enabling pins on %s sets writer feature bit 19 in a commit of its own, after version %" PRIu64
		       ".",
		       ctl_branch(c), head->version);
	puts(" The bit is\nnever cleared, and branches made from here inherit it. What it means to other programs:\n");
	for (size_t i = 0; i < ARRAY_LEN(effects); i++)
		printf("  %s\n      %s\n", effects[i].who, effects[i].what);
	if (!enabled)
		puts("\nNothing has changed yet. `pinctl enable --apply` does it.");
	return 0;
}

int cmd_enable(struct ctl *c, const struct args *a)
{
	struct pf_op op = { .kind = PF_OP_ENABLE };
	struct pf_answer answer = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open(c, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	if (!args_value(a, "apply"))
		return explain(c, &why);

	r = ctl_commit(c, &op, 1, &answer, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	int status = ctl_judge(&answer);
	if (status == 0 && c->json)
		status = ctl_print_json(pf_json_answer(&answer));
	pf_answer_release(&answer);
	return status;
}
