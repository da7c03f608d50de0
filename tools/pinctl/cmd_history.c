#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

/* The number given to an option, or what it is by default. */
static int number_option(const struct args *a, const char *name, uint64_t *out, struct pf_why *why)
{
	const char *s = args_value(a, name);
	char quoted[PF_QUOTE_TEXT];

	if (!s || pf_u64_parse(s, strlen(s), out) == 0)
		return 0;
	return pf_why_set(why, -EINVAL, "--%s %s is not a number", name, pf_text_quote(s, strlen(s), quoted));
}

static void print_snapshot(const struct pf_manifest *m, const struct pf_txn *t)
{
	char when[PF_TIME_TEXT] = "-", op[32];

	if (m->has_timestamp)
		pf_time_format(m->timestamp, when);
	printf("%" PRIu64 "\t%s\t%s", m->version, when,
	       t && t->operation ? pf_txn_operation_name(t->operation, op) : "-");
	if (t && t->kind != PF_OP_NONE)
		printf(" (%s)", pf_op_kind_name(t->kind));
	putchar('\n');
}

/* One version. 0, or the exit status; a version that is damaged does not end the list. */
static int snapshot(struct ctl *c, uint64_t version, struct json_list *list)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	int r = pf_branch_version(c->branch, version, &m, &why);
	if (r == -ENOENT) {
		ctl_say("version %" PRIu64 " was removed while this was running", version);
		return 0;
	}
	if (r < 0)
		return ctl_fail(r, &why);
	r = pf_txn_read(c->store, pf_branch_dir(c->branch), m, &txn, &why);
	if (r < 0 && r != -ENODATA && r != -ENOENT)
		status = ctl_fail(r, &why);
	const struct pf_txn *t = r < 0 ? NULL : &txn;
	if (c->json) {
		r = json_list_add(list, pf_json_snapshot(m, t));
		return status ? status : r;
	}
	print_snapshot(m, t);
	return status;
}

int cmd_snapshots(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	uint64_t since = 0, limit = UINT64_MAX;
	struct json_list list = { 0 };
	struct pf_why why = PF_WHY_INIT;
	size_t n = 0, i = 0;
	int status = 0;

	int r = number_option(a, "since", &since, &why);
	if (r == 0)
		r = number_option(a, "limit", &limit, &why);
	if (r == 0)
		r = ctl_open(c, &why);
	if (r == 0)
		r = pf_branch_versions(c->branch, &v, &n, &why);
	if (r < 0)
		return ctl_fail(r, &why);

	while (i < n && v[i].version < since)
		i++;
	if (n - i > limit)
		i = n - (size_t)limit;
	for (; i < n && !ferror(stdout); i++) {
		r = snapshot(c, v[i].version, &list);
		status = r > status ? r : status;
	}
	if (c->json)
		json_list_end(&list);
	return status;
}
