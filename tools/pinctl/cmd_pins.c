#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

int pins_table_add(struct table *t, const struct pf_pin *p, struct pf_time now)
{
	_cleanup_(pf_buf_release) struct pf_buf label = PF_BUF_INIT;
	char id[PF_UUID_TEXT], source[24], expires[PF_TIME_TEXT], span[SPAN_TEXT], remaining[SPAN_TEXT + 16];
	int64_t left = p->expires_at.sec - now.sec;

	pf_uuid_format(&p->id, id);
	snprintf(source, sizeof(source), "%" PRIu64, p->source_version);
	pf_time_format(p->expires_at, expires);
	if (pf_time_cmp(p->expires_at, now) > 0)
		snprintf(remaining, sizeof(remaining), "%s", span_format(left, span));
	else
		snprintf(remaining, sizeof(remaining), "overdue %s", span_format(-left, span));
	return table_add(t, (const char *[]){ id, source, expires, remaining, safe(p->label, &label) }, 5);
}

static int open_head(struct ctl *c, struct pf_manifest **head, struct pf_why *why)
{
	int r = ctl_open(c, why);
	if (r < 0)
		return r;
	return pf_branch_head(c->branch, head, why);
}

static int ls_json(const struct pf_pins *pins, bool expired, struct pf_time now)
{
	struct json_list list = { 0 };
	int status = 0;

	for (size_t i = 0; i < pins->n && status == 0; i++) {
		bool overdue = pf_time_cmp(pins->v[i].expires_at, now) <= 0;
		if (expired && !overdue)
			continue;
		json_t *o = pf_json_pin(&pins->v[i]);
		pf_json_put(&o, "overdue", json_boolean(overdue));
		status = json_list_add(&list, o);
	}
	json_list_end(&list);
	return status;
}

int cmd_ls(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(table_release) struct table table = { 0 };
	bool expired = args_value(a, "expired") != NULL;
	struct pf_time now = pf_time_now();
	struct pf_why why = PF_WHY_INIT;

	int r = open_head(c, &head, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	/* Only those that a guard tag tells of: a list must come at once. */
	say_lost(c, 0);
	if (c->json)
		return ls_json(&head->pins, expired, now);
	for (size_t i = 0; i < head->pins.n && r == 0; i++)
		if (!expired || pf_time_cmp(head->pins.v[i].expires_at, now) <= 0)
			r = pins_table_add(&table, &head->pins.v[i], now);
	if (r < 0)
		return ctl_fail(r, &why);
	table_print(&table);
	return 0;
}

int cmd_show(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_uuid id;

	int r = pf_uuid_parse(a->operand[0], strlen(a->operand[0]), &id, &why);
	if (r == 0)
		r = open_head(c, &head, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	const struct pf_pin *pin = pf_pins_find(&head->pins, &id);
	if (!pin) {
		ctl_say("there is no pin %s in version %" PRIu64 " of %s", a->operand[0], head->version, ctl_branch(c));
		return EXIT_NO;
	}
	r = pf_render_pin(pin, &text);
	if (r < 0)
		return ctl_fail(r, &why);
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

/* 0 or the exit status. */
static int report_renewal(struct ctl *c, const struct pf_answer *answer)
{
	char expires[PF_TIME_TEXT];

	int status = ctl_judge(answer);
	if (status)
		return status;
	if (c->json)
		return ctl_print_json(pf_json_answer(answer));
	pf_time_format(answer->pin.expires_at, expires);
	puts(expires);
	return 0;
}

int cmd_renew(struct ctl *c, const struct args *a)
{
	struct pf_op op = { .kind = PF_OP_RENEW };
	struct pf_answer answer = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = pf_uuid_parse(a->operand[0], strlen(a->operand[0]), &op.id, &why);
	if (r == 0)
		r = pf_time_parse(a->operand[1], strlen(a->operand[1]), pf_time_now(), &op.expires_at, &why);
	if (r == 0)
		r = ctl_open(c, &why);
	if (r == 0)
		r = ctl_commit(c, &op, 1, &answer, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	int status = report_renewal(c, &answer);
	pf_answer_release(&answer);
	return status;
}
