#include "pinctl.h"

#include <inttypes.h>

struct findings {
	bool json;
	json_t *list;
};

static void print_finding(const struct pf_finding *f)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;

	printf("%s\t", f->severity == PF_DAMAGE ? "damage" : "note");
	printf("%s\t", f->branch ? safe(f->branch, &escaped) : "main");
	if (f->version)
		printf("%" PRIu64 "\t", f->version);
	else
		printf("-\t");
	printf("%s\t", f->file ? safe(f->file, &escaped) : "-");
	printf("%s\n", f->text);
}

static int found(void *arg, const struct pf_finding *f)
{
	struct findings *all = arg;

	if (!all->json)
		print_finding(f);
	else if (json_array_append_new(all->list, pf_json_finding(f)) < 0)
		return -ENOMEM;
	return 0;
}

int cmd_check(struct ctl *c, const struct args *a)
{
	struct findings all = { .json = c->json };
	struct pf_check_totals totals = { 0 };
	struct pf_why why = PF_WHY_INIT;
	json_auto_t *list = json_array();

	all.list = list;
	int r = ctl_open_store(c, &why);
	if (r == 0)
		r = pf_check(c->store, found, &all, &totals, &why);
	if (r < 0)
		return ctl_fail(r, &why);

	int status = totals.damages ? EXIT_DAMAGE : 0;
	if (c->json) {
		json_t *o = json_object();
		pf_json_put(&o, "findings", json_incref(list));
		pf_json_put(&o, "totals", pf_json_totals(&totals));
		r = ctl_print_json(o);
		status = r ? r : status;
	}
	ctl_say("%" PRIu64 " branches, %" PRIu64 " manifests, %" PRIu64 " transactions, %" PRIu64 " pins: %" PRIu64
		" damaged, %" PRIu64 " notes",
		totals.branches, totals.manifests, totals.transactions, totals.pins, totals.damages, totals.notes);
	return status;
}
