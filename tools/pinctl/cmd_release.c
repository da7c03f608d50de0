#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

/* Several operations of one commit, with room for their answers. */
struct batch {
	struct pf_op *op;
	struct pf_answer *answer;
	size_t n;
};

static void batch_release(struct batch *b)
{
	for (size_t i = 0; b->answer && i < b->n; i++)
		pf_answer_release(&b->answer[i]);
	free(b->answer);
	free(b->op);
}

static int batch_init(struct batch *b, size_t n)
{
	b->op = calloc(n ? n : 1, sizeof(*b->op));
	b->answer = calloc(n ? n : 1, sizeof(*b->answer));
	b->n = n;
	return b->op && b->answer ? 0 : -ENOMEM;
}

static int worst(int a, int b)
{
	return a > b ? a : b;
}

/* {"id","released","version","message","pin"}: one element of what `release --json` prints. */
static json_t *released_json(const char *id, const struct pf_answer *answer)
{
	json_t *o = json_object(), *rest = pf_json_answer(answer);

	pf_json_put(&o, "id", json_string(id));
	pf_json_put(&o, "released", json_boolean(answer->err == 0));
	json_object_update(o, rest);
	json_decref(rest);
	return o;
}

static int report_release(struct ctl *c, const struct batch *b)
{
	struct json_list list = { 0 };
	int status = 0;

	for (size_t i = 0; i < b->n; i++) {
		const struct pf_answer *answer = &b->answer[i];
		char id[PF_UUID_TEXT];
		pf_uuid_format(&b->op[i].id, id);
		status = worst(status, ctl_judge(answer));
		if (c->json)
			status = worst(status, json_list_add(&list, released_json(id, answer)));
	}
	if (c->json)
		json_list_end(&list);
	return status;
}

int cmd_release(struct ctl *c, const struct args *a)
{
	_cleanup_(batch_release) struct batch b = { 0 };
	struct pf_why why = PF_WHY_INIT;

	/* All ids are read before anything is done: a typing error releases nothing. */
	int r = batch_init(&b, (size_t)a->n_operands);
	for (size_t i = 0; i < b.n && r == 0; i++) {
		b.op[i].kind = PF_OP_RELEASE;
		b.op[i].waive = args_value(a, "waive") != NULL;
		r = pf_uuid_parse(a->operand[i], strlen(a->operand[i]), &b.op[i].id, &why);
	}
	if (r == 0)
		r = ctl_open(c, &why);
	if (r == 0)
		r = ctl_commit(c, b.op, b.n, b.answer, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	return report_release(c, &b);
}

/* The pins of the head that are due, as operations to expire them as they were seen. */
static int due_pins(const struct pf_pins *pins, struct pf_time now, struct batch *b)
{
	int r = batch_init(b, pins->n);
	if (r < 0)
		return r;
	b->n = 0;
	for (size_t i = 0; i < pins->n; i++)
		if (pf_time_cmp(pins->v[i].expires_at, now) <= 0)
			b->op[b->n++] = (struct pf_op){ .kind = PF_OP_EXPIRE,
							.id = pins->v[i].id,
							.expires_at = pins->v[i].expires_at };
	return 0;
}

static int print_due(struct ctl *c, const struct pf_pins *pins, const struct batch *b, bool applied, struct pf_time now)
{
	_cleanup_(table_release) struct table table = { 0 };
	struct json_list list = { 0 };
	int r = 0;

	for (size_t i = 0; i < b->n && r == 0; i++) {
		const struct pf_pin *p = pf_pins_find(pins, &b->op[i].id);
		bool removed = applied && b->answer[i].err == 0;
		if (c->json) {
			json_t *o = pf_json_pin(p);
			pf_json_put(&o, "removed", json_boolean(removed));
			r = json_list_add(&list, o);
		} else if (removed || !applied) {
			r = pins_table_add(&table, p, now);
		}
	}
	if (c->json)
		json_list_end(&list);
	if (r < 0)
		return ctl_fail(r, &(struct pf_why)PF_WHY_INIT);
	table_print(&table);
	return r;
}

/* Renewed since it was listed: judged on a head, which a commit that lost its races never was. That is no failure. */
static bool skipped(const struct pf_answer *answer)
{
	return answer->err == -EAGAIN && answer->version != 0;
}

static int judge_expiry(const struct pf_answer *answer)
{
	int status = ctl_judge(answer);

	return skipped(answer) ? 0 : status;
}

int cmd_expire(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(batch_release) struct batch b = { 0 };
	bool apply = args_value(a, "apply") != NULL;
	struct pf_time now = pf_time_now();
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	int r = ctl_open(c, &why);
	if (r == 0)
		r = pf_branch_head(c->branch, &head, &why);
	if (r == 0)
		r = due_pins(&head->pins, now, &b);
	if (r == 0 && apply && b.n > 0)
		r = ctl_commit(c, b.op, b.n, b.answer, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	for (size_t i = 0; apply && i < b.n; i++)
		status = worst(status, judge_expiry(&b.answer[i]));
	return worst(status, print_due(c, &head->pins, &b, apply, now));
}
