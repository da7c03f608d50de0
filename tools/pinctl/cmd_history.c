#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

static void print_snapshot(const struct pf_manifest *m, const struct pf_txn *t)
{
	print_version(m, t);
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

	int r = args_number(a, "since", &since, &why);
	if (r == 0)
		r = args_number(a, "limit", &limit, &why);
	if (r == 0 && args_value(a, "reasons"))
		return snapshots_with_reasons(c, since, limit);
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

/* What `log` looks for, and what it saw of the history on the way. */
struct log {
	struct ctl *c;
	const struct pf_uuid *id; /* NULL: of all pins */
	const struct pf_step *step;
	struct pf_why *why;
	struct json_list list;
	json_t *gaps;
	uint64_t from, to, versions, made_for_pins, changes;
	int status; /* of a failure to print */
};

static int log_change(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before)
{
	struct log *l = arg;

	if (l->id && !pf_uuid_eq(l->id, &pin->id))
		return 0;
	l->changes++;
	if (l->c->json)
		l->status =
			json_list_add(&l->list, pf_json_change(l->step, change_word(l->step, kind, pin), pin, before));
	else
		print_change(l->step, change_word(l->step, kind, pin), pin, before);
	return l->status || ferror(stdout);
}

static int add_gap(struct log *l, const struct pf_step *s)
{
	json_t *o = json_object();

	pf_json_put(&o, "after", pf_json_u64(s->before->version));
	pf_json_put(&o, "before", pf_json_u64(s->m->version));
	return json_array_append_new(l->gaps, o) < 0 ? -ENOMEM : 0;
}

static int log_step(void *arg, const struct pf_step *s)
{
	struct log *l = arg;

	int r = pf_step_check(s, l->why);
	if (r == 0 && s->gap) {
		say_gap(s);
		r = add_gap(l, s);
	}
	if (r < 0)
		return r;
	l->step = s;
	l->from = l->versions++ ? l->from : s->m->version;
	l->to = s->m->version;
	l->made_for_pins += s->txn && s->txn->kind != PF_OP_NONE;
	return pf_step_changes(s, log_change, l);
}

/* The members after the list of changes, which was printed as it came. */
static int end_log_json(struct log *l)
{
	json_t *o = json_object();

	json_list_end(&l->list);
	pf_json_put(&o, "from_version", pf_json_u64(l->from));
	pf_json_put(&o, "to_version", pf_json_u64(l->to));
	pf_json_put(&o, "versions", pf_json_u64(l->versions));
	pf_json_put(&o, "made_for_pins", pf_json_u64(l->made_for_pins));
	pf_json_put(&o, "gaps", json_incref(l->gaps));
	fputs(",\n\"history\": ", stdout);
	int status = ctl_print_json(o);
	fputs("}\n", stdout);
	return status;
}

int cmd_log(struct ctl *c, const struct args *a)
{
	json_auto_t *gaps = json_array();
	struct pf_why why = PF_WHY_INIT;
	struct pf_uuid id;
	struct log l = { .c = c, .why = &why, .gaps = gaps };
	int r = 0;

	if (a->n_operands) {
		r = pf_uuid_parse(a->operand[0], strlen(a->operand[0]), &id, &why);
		l.id = &id;
	}
	if (r == 0)
		r = ctl_open(c, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	if (c->json)
		fputs("{\"changes\": ", stdout);
	r = pf_history_walk(c->branch, 0, log_step, &l, &why);
	if (c->json && end_log_json(&l))
		l.status = EXIT_NO;
	if (l.versions)
		ctl_say("history is kept from version %" PRIu64 " on: %" PRIu64 " versions up to %" PRIu64 ", %" PRIu64
			" of them made for pins",
			l.from, l.versions, l.to, l.made_for_pins);
	if (r < 0)
		return ctl_fail(r, &why);
	if (l.id && l.changes == 0) {
		ctl_say("none of them names pin %s", a->operand[0]);
		return EXIT_NO;
	}
	return l.status;
}
