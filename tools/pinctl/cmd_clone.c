#include "pinctl.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clone.h"

/* The directory that is to become a table: an empty one, or a new one. *made: it is new. */
static int make_root(struct ctl *c, const char *dir, bool *made, struct pf_store **out, struct pf_why *why)
{
	_cleanup_(pf_freep) char *found = NULL;
	char quoted[PF_QUOTE_TEXT];

	*made = mkdir(dir, 0777) == 0;
	if (!*made && errno != EEXIST)
		return pf_why_set(why, -errno, "cannot make %s: %s", pf_text_quote(dir, strlen(dir), quoted),
				  strerror(errno));
	int r = pf_store_local_open(dir, out, why);
	/* There it would be taken for a branch that is being made, or for files of the table's. */
	if (r == 0 && ctl_is_inside(c, (*out)->at))
		r = pf_why_set(why, -EINVAL, "%s is inside the table: name a directory beside it",
			       pf_text_quote(dir, strlen(dir), quoted));
	if (r == 0)
		r = pf_clone_find(*out, "", NULL, &found, why);
	return r > 0 ? pf_why_set(why, -EEXIST, "%s is a table already", pf_text_quote(dir, strlen(dir), quoted)) : r;
}

int cmd_clone(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *source = NULL;
	_cleanup_(pf_store_freep) struct pf_store *to = NULL;
	_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
	const char *dir = a->operand[0];
	struct pf_why why = PF_WHY_INIT;
	uint64_t version;
	bool made = false;

	int r = ctl_open_point(c, args_value(a, "from"), &version, &why);
	if (r == 0)
		r = pf_branch_version(c->branch, version, &source, &why);
	if (r == 0)
		r = make_root(c, dir, &made, &to, &why);
	if (r == 0) {
		const struct pf_clone clone = {
			.from = c->branch, .source = source, .to = to, .dir = "", .now = pf_time_now()
		};
		r = pf_clone_make(&clone, &files, &why);
	}
	if (r < 0) {
		if (made)
			rmdir(dir);
		return ctl_fail(r, &why);
	}
	ctl_say("%s is a clone of version %" PRIu64 " of %s, and reads its files: cleanup there does not know of it",
		dir, version, ctl_branch(c));
	if (!c->json)
		return 0;
	json_t *j = json_object();
	pf_json_put(&j, "clone", pf_json_str(to->at));
	pf_json_put(&j, "version", pf_json_u64(version));
	pf_json_put(&j, "branch", json_string(ctl_branch(c)));
	return ctl_print_json(j);
}
