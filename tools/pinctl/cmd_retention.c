/* What is kept: versions with their reasons, records of moved rows, and what each pin costs. */
#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

/* One version, in the words of print_version, and the reasons. */
static int print_kept_version(const struct pf_explain *e, size_t i)
{
	_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;
	const struct pf_surveyed_version *v = &e->survey->versions[i];
	char when[PF_TIME_TEXT] = "-", op[32];

	if (pf_retention_version_reasons(e->kept, i, &reasons) < 0 || !pf_buf_str(&reasons))
		return -ENOMEM;
	if (v->timestamp_ns)
		pf_time_format(pf_time_of_ns(v->timestamp_ns), when);
	printf("%" PRIu64 "\t%s\t%s", v->version, when, v->operation ? pf_txn_operation_name(v->operation, op) : "-");
	if (v->kind != PF_OP_NONE)
		printf(" (%s)", pf_op_kind_name(v->kind));
	printf("\t%s\n", reasons.len ? (char *)reasons.data : "-");
	return 0;
}

int snapshots_with_reasons(struct ctl *c, uint64_t since, uint64_t limit)
{
	_cleanup_(account_close) struct account a = { .e = NULL };
	struct json_list list = { 0 };
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	int r = account_open(c, &a, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	const struct pf_survey *s = a.e->survey;
	size_t i = 0;
	while (i < s->n_versions && s->versions[i].version < since)
		i++;
	if (s->n_versions - i > limit)
		i = s->n_versions - (size_t)limit;
	for (; i < s->n_versions && status == 0 && !ferror(stdout); i++) {
		if (c->json)
			status = json_list_add(&list, pf_json_kept_version(a.e, a.e->kept, i));
		else if (print_kept_version(a.e, i) < 0)
			status = ctl_fail(-ENOMEM, &why);
	}
	if (c->json)
		json_list_end(&list);
	const char *unknown = pf_explain_unknown_versions(a.e);
	if (status == 0 && unknown) {
		ctl_say("more may be kept: %s", unknown);
		status = EXIT_DAMAGE;
	}
	return status;
}

static int add_ids(const struct pf_digest *v, size_t n, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = pf_buf_addf(out, "%s%" PRIu64, i ? "," : "", v[i].id);
	return r;
}

/* "0,1>2" a group. */
static int add_moves(const struct pf_fri_record *record, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < record->n_groups; i++) {
		const struct pf_fri_group *g = &record->groups[i];
		r = i ? pf_buf_addch(out, ' ') : 0;
		if (r == 0)
			r = add_ids(g->from, g->n_from, out);
		if (r == 0)
			r = pf_buf_addch(out, '>');
		if (r == 0)
			r = add_ids(g->to, g->n_to, out);
	}
	return r;
}

/* Who needs a record, a word each, as far as it can be told; else why not in *why and 1. */
static int add_needed_by(struct pf_explain *e, size_t record, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_freep) const char **names = NULL;
	size_t n = 0, start = out->len;
	bool unknown = false;
	int r = 0;

	for (size_t i = 0; i < e->survey->pins.n && r != -ENOMEM; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&e->survey->pins.v[i].id, id);
		r = pf_explain_fri_pin(e, i, record, why);
		unknown = unknown || r < 0;
		if (r > 0)
			r = pf_buf_addf(out, "%spin:%s", out->len > start ? "," : "", id);
	}
	if (r != -ENOMEM)
		r = pf_explain_fri_indices(e, record, &names, &n, why);
	unknown = unknown || r < 0;
	for (size_t i = 0; i < n && r != -ENOMEM; i++) {
		r = pf_buf_addf(out, "%sindex:", out->len > start ? "," : "");
		if (r == 0)
			r = pf_text_escape(names[i], strlen(names[i]), out);
	}
	if (r == -ENOMEM)
		return r;
	if (unknown)
		r = pf_buf_addstr(out, out->len > start ? ",unknown" : "unknown");
	else if (out->len == start)
		r = pf_buf_addch(out, '-');
	return r < 0 ? r : unknown;
}

static int print_record(struct pf_explain *e, const struct pf_fri_record *x, size_t record, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf moves = PF_BUF_INIT, by = PF_BUF_INIT;

	int r = add_moves(x, &moves);
	if (r == 0)
		r = add_needed_by(e, record, &by, why);
	if (r < 0 || !pf_buf_str(&moves) || !pf_buf_str(&by))
		return -ENOMEM;
	printf("%zu\t", record);
	if (x->legacy)
		printf("version %" PRIu64, x->stamp);
	else
		printf("transition");
	printf("\t%s\t%s\n", (char *)moves.data, (char *)by.data);
	return r;
}

static int list_records(struct ctl *c, struct pf_explain *e, const struct pf_fri *f)
{
	struct json_list list = { 0 };
	struct pf_why why = PF_WHY_INIT;
	int status = 0, unknown = 0;

	for (size_t i = 0; i < f->n_records && status == 0 && !ferror(stdout); i++) {
		json_t *o;
		int r = c->json ? pf_json_fri_record(e, i, &o, &why) : print_record(e, &f->records[i], i, &why);
		if (r < 0)
			status = ctl_fail(r, &why);
		else if (c->json)
			status = json_list_add(&list, o);
		unknown |= r;
	}
	if (c->json)
		json_list_end(&list);
	if (status == 0 && unknown)
		return ctl_fail(-EBADMSG, &why);
	return status;
}

static void print_fragments(const struct pf_digest *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		printf("%s%" PRIu64 " (%" PRIu64 " rows", i ? ", " : "", v[i].id, v[i].physical_rows);
		if (v[i].deleted_rows)
			printf(", %" PRIu64 " deleted", v[i].deleted_rows);
		putchar(')');
	}
}

static int show_group(const struct pf_explain *e, const struct pf_fri_group *g, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf map = PF_BUF_INIT;

	printf("moved      ");
	print_fragments(g->from, g->n_from);
	printf(" > ");
	print_fragments(g->to, g->n_to);
	putchar('\n');
	if (g->mapping != PF_MAPPING_PARTITION)
		return 0;
	int r = pf_explain_fri_map(e, g, &map, why);
	if (r < 0)
		return r;
	if (!pf_buf_str(&map))
		return -ENOMEM;
	printf("map        %s, %" PRIu64 " bytes\n", (char *)map.data, g->map_size);
	return 0;
}

static int show_pins(struct pf_explain *e, size_t record, struct pf_why *why)
{
	int unknown = 0;

	for (size_t i = 0; i < e->survey->pins.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		struct pf_fri_path path = { NULL };
		char id[PF_UUID_TEXT];
		pf_uuid_format(&e->survey->pins.v[i].id, id);
		int r = pf_explain_fri_path(e, i, record, &path, why);
		if (r < 0)
			unknown = r;
		if (r > 0)
			r = add_fri_path(&path, &text);
		pf_fri_path_release(&path);
		if (r == -ENOMEM)
			return r;
		if (text.len && pf_buf_str(&text))
			printf("pin        %s, source %" PRIu64 ": %s\n", id, e->survey->pins.v[i].source_version,
			       (char *)text.data);
	}
	return unknown;
}

static int show_indices(struct pf_explain *e, size_t record, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	_cleanup_(pf_freep) const char **names = NULL;
	size_t n = 0;
	int r = pf_explain_fri_indices(e, record, &names, &n, why);

	for (size_t i = 0; i < n; i++)
		printf("index      %s\n", safe(names[i], &escaped));
	return r;
}

static int show_record(struct ctl *c, struct pf_explain *e, const struct pf_fri *f, size_t record)
{
	struct pf_why why = PF_WHY_INIT;
	json_t *o;
	int r = 0;

	if (c->json) {
		r = pf_json_fri_record(e, record, &o, &why);
		return r < 0 ? ctl_fail(r, &why) : ctl_print_json(o);
	}
	const struct pf_fri_record *x = &f->records[record];
	printf("record     %zu of %zu: ", record, f->n_records);
	if (x->legacy)
		printf("version, stamp %" PRIu64 "\n", x->stamp);
	else
		puts("transition");
	for (size_t i = 0; r == 0 && i < x->n_groups; i++)
		r = show_group(e, &x->groups[i], &why);
	int pins = show_pins(e, record, &why), indices = show_indices(e, record, &why);
	r = r ? r : pins ? pins : indices;
	return r < 0 ? ctl_fail(r == -ENOMEM ? r : -EBADMSG, &why) : 0;
}

int cmd_fri(struct ctl *c, const struct args *a)
{
	_cleanup_(account_close) struct account account = { .e = NULL };
	struct pf_why why = PF_WHY_INIT;
	char quoted[PF_QUOTE_TEXT];
	const struct pf_fri *f;
	uint64_t record = 0;

	if (a->n_operands && pf_u64_parse(a->operand[0], strlen(a->operand[0]), &record) < 0)
		return ctl_usage("%s is not the number of a record; `pinctl fri` lists them",
				 pf_text_quote(a->operand[0], strlen(a->operand[0]), quoted));
	int r = account_open(c, &account, &why);
	if (r == 0)
		r = pf_explain_fri(account.e, &f, &why);
	if (r == -ENODATA && a->n_operands == 0) {
		if (c->json)
			puts("[]");
		ctl_say("%s", why.text);
		return 0;
	}
	if (r < 0)
		return ctl_fail(r, &why);
	if (a->n_operands == 0)
		return list_records(c, account.e, f);
	if (record >= f->n_records) {
		ctl_say("there is no record %" PRIu64 ": the history has %zu", record, f->n_records);
		return EXIT_NO;
	}
	return show_record(c, account.e, f, (size_t)record);
}

/* What only it holds first, then what it shares. */
static int cmp_usage(const void *a, const void *b)
{
	const struct pf_pin_usage *x = a, *y = b;

	if (x->exclusive_bytes != y->exclusive_bytes)
		return x->exclusive_bytes > y->exclusive_bytes ? -1 : 1;
	if (x->shared_bytes != y->shared_bytes)
		return x->shared_bytes > y->shared_bytes ? -1 : 1;
	return memcmp(x->pin->id.b, y->pin->id.b, sizeof(x->pin->id.b));
}

static int add_usage(struct table *t, const struct pf_explain *e, const struct pf_pin_usage *u)
{
	_cleanup_(pf_buf_release) struct pf_buf label = PF_BUF_INIT;
	char id[PF_UUID_TEXT], exclusive[24], shared[24], growth[32] = "-", versions[24], age[SPAN_TEXT];
	int64_t seconds = e->now.sec - u->pin->created_at.sec;
	uint64_t rate;

	pf_uuid_format(&u->pin->id, id);
	snprintf(exclusive, sizeof(exclusive), "%" PRIu64, u->exclusive_bytes);
	snprintf(shared, sizeof(shared), "%" PRIu64, u->shared_bytes);
	if (pf_usage_rate(e, u, &rate))
		snprintf(growth, sizeof(growth), "%" PRIu64 "/h", rate);
	snprintf(versions, sizeof(versions), "%" PRIu64, u->versions);
	span_format(seconds > 0 ? seconds : 0, age);
	return table_add(
		t, (const char *[]){ id, exclusive, shared, growth, versions, age, safe(u->pin->label, &label) }, 7);
}

static int print_usage(struct ctl *c, const struct pf_explain *e, const struct pf_pin_usage *v, size_t n)
{
	_cleanup_(table_release) struct table table = { 0 };
	struct json_list list = { 0 };
	int status = 0;

	for (size_t i = 0; i < n && status == 0; i++) {
		if (c->json)
			status = json_list_add(&list, pf_json_usage(e, &v[i]));
		else if (add_usage(&table, e, &v[i]) < 0)
			status = ctl_fail(-ENOMEM, &(struct pf_why)PF_WHY_INIT);
	}
	if (c->json)
		json_list_end(&list);
	else if (status == 0)
		table_print(&table);
	return status;
}

int cmd_usage(struct ctl *c, const struct args *a)
{
	_cleanup_(account_close) struct account account = { .e = NULL };
	_cleanup_(pf_freep) struct pf_pin_usage *v = NULL;
	struct pf_why why = PF_WHY_INIT;
	size_t n = 0;

	int r = account_open(c, &account, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	v = calloc(account.e->survey->pins.n + 1, sizeof(*v));
	r = v ? pf_retention_usage(account.e->kept, v, &n) : -ENOMEM;
	if (r < 0)
		return ctl_fail(r, &why);
	qsort(v, n, sizeof(*v), cmp_usage);
	return print_usage(c, account.e, v, n);
}
