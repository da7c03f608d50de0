#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

#include "core/restore.h"
#include "core/work.h"

static json_t *numbers_json(const struct pf_numbers *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		pf_json_push(&list, pf_json_u64(l->v[i]));
	return list;
}

static json_t *pins_json(const struct pf_restore_plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->n_pins; i++) {
		const struct pf_restore_pin *x = &p->pins[i];
		char id[PF_UUID_TEXT];
		json_t *o = json_object();

		pf_uuid_format(&x->id, id);
		pf_json_put(&o, "id", json_string(id));
		pf_json_put(&o, "source_version", pf_json_u64(x->source));
		pf_json_put(&o, "fragments", x->unknown ? json_null() : pf_json_u64(x->fragments));
		pf_json_put(&o, "stranded", x->unknown ? json_null() : pf_json_u64(x->stranded));
		pf_json_put(&o, "unknown", pf_json_str(x->unknown));
		pf_json_push(&list, o);
	}
	return list;
}

static int print_json(const struct pf_restore_plan *p, uint64_t result, bool committed)
{
	json_t *o = json_object();

	pf_json_put(&o, "version", pf_json_u64(result));
	pf_json_put(&o, "committed", json_boolean(committed));
	pf_json_put(&o, "restored", pf_json_u64(p->version));
	pf_json_put(&o, "head", pf_json_u64(p->head));
	pf_json_put(&o, "fragments", pf_json_u64(p->fragments));
	pf_json_put(&o, "fragments_back", numbers_json(&p->back));
	pf_json_put(&o, "fragments_gone", numbers_json(&p->gone));
	pf_json_put(&o, "records", pf_json_u64(p->records));
	pf_json_put(&o, "records_dropped", pf_json_u64(p->dropped));
	pf_json_put(&o, "pins", pins_json(p));
	return ctl_print_json(o);
}

static void print_numbers(const char *what, const struct pf_numbers *l)
{
	printf("%s", what);
	for (size_t i = 0; i < l->n; i++)
		printf("%s%" PRIu64, i ? "," : "\t", l->v[i]);
	puts(l->n ? "" : "\t-");
}

static void print_plan(const struct pf_restore_plan *p)
{
	print_numbers("fragments back", &p->back);
	print_numbers("fragments gone", &p->gone);
	printf("records of moved rows\t%" PRIu64 " stay, %" PRIu64 " go\n", p->records, p->dropped);
	for (size_t i = 0; i < p->n_pins; i++) {
		const struct pf_restore_pin *x = &p->pins[i];
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		char id[PF_UUID_TEXT];

		pf_uuid_format(&x->id, id);
		printf("pin %s\t", id);
		if (x->unknown)
			printf("unknown: %s\n", safe(x->unknown, &text));
		else if (x->stranded)
			printf("rows of %" PRIu64 " of its %" PRIu64 " fragments can be followed no more\n",
			       x->stranded, x->fragments);
		else
			puts("all of its rows can be followed");
	}
}

int cmd_restore(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan plan = { 0 };
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work w = { .operation = &o, .dry_run = !args_value(a, "apply") };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	char quoted[PF_QUOTE_TEXT];
	uint64_t version;

	if (!w.dry_run && args_value(a, "dry-run"))
		return ctl_usage("--dry-run and --apply cannot be together");
	if (pf_u64_parse(a->operand[0], strlen(a->operand[0]), &version) < 0)
		return ctl_usage("expected a version, found %s",
				 pf_text_quote(a->operand[0], strlen(a->operand[0]), quoted));
	int r = ctl_open(c, &why);
	if (r == 0)
		r = pf_restore_look(c->branch, version, &plan, &why);
	if (r == 0)
		r = pf_restore_operation(plan.head, version, &o, &why);
	if (r == 0)
		r = pf_work_commit(c->branch, &w, &result, &why);
	if (r < 0) {
		int status = ctl_fail(r, &why);
		if (r == -EINPROGRESS)
			ctl_advise_commit(c, &o);
		return status;
	}
	if (w.dry_run)
		ctl_say("version %" PRIu64 " of %s would be restored as version %" PRIu64 "; nothing was written",
			version, ctl_branch(c), result.version);
	else
		ctl_say("version %" PRIu64 " of %s restored as version %" PRIu64, version, ctl_branch(c),
			result.version);
	if (c->json)
		return print_json(&plan, result.version, !w.dry_run);
	print_plan(&plan);
	return 0;
}
