#include "render_retention.h"

#include <inttypes.h>
#include <string.h>

static json_t *text_json(struct pf_buf *b)
{
	const char *s = pf_buf_str(b);

	return s ? pf_json_str(s) : NULL;
}

static json_t *pair(const char *first, uint64_t a, const char *second, uint64_t b)
{
	json_t *o = json_object();

	pf_json_put(&o, first, pf_json_u64(a));
	pf_json_put(&o, second, pf_json_u64(b));
	return o;
}

static int64_t age_of(const struct pf_explain *e, const struct pf_pin *p)
{
	return e->now.sec > p->created_at.sec ? e->now.sec - p->created_at.sec : 0;
}

bool pf_usage_rate(const struct pf_explain *e, const struct pf_pin_usage *u, uint64_t *bytes_per_hour)
{
	int64_t age = age_of(e, u->pin);

	if (age == 0)
		return false;
	*bytes_per_hour = (uint64_t)((unsigned __int128)u->old_bytes * 3600 / (uint64_t)age);
	return true;
}

json_t *pf_json_usage(const struct pf_explain *e, const struct pf_pin_usage *u)
{
	char id[PF_UUID_TEXT];
	json_t *o = json_object();
	uint64_t rate;
	bool known = pf_usage_rate(e, u, &rate);

	pf_uuid_format(&u->pin->id, id);
	pf_json_put(&o, "id", json_string(id));
	pf_json_put(&o, "label", pf_json_str(u->pin->label));
	pf_json_put(&o, "source_version", pf_json_u64(u->pin->source_version));
	pf_json_put(&o, "created_at", pf_json_time(u->pin->created_at));
	pf_json_put(&o, "expires_at", pf_json_time(u->pin->expires_at));
	pf_json_put(&o, "versions", pf_json_u64(u->versions));
	pf_json_put(&o, "exclusive_bytes", pf_json_u64(u->exclusive_bytes));
	pf_json_put(&o, "shared_bytes", pf_json_u64(u->shared_bytes));
	pf_json_put(&o, "old_bytes", pf_json_u64(u->old_bytes));
	pf_json_put(&o, "age_seconds", pf_json_u64((uint64_t)age_of(e, u->pin)));
	pf_json_put(&o, "bytes_per_hour", known ? pf_json_u64(rate) : json_null());
	return o;
}

static int usage_list(const struct pf_explain *e, json_t **out)
{
	_cleanup_(pf_freep) struct pf_pin_usage *v = calloc(e->survey->pins.n + 1, sizeof(*v));
	json_t *list = json_array();
	size_t n = 0;

	int r = v ? pf_retention_usage(e->kept, v, &n) : -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		pf_json_push(&list, pf_json_usage(e, &v[i]));
	if (r == 0 && !list)
		r = -ENOMEM;
	if (r == 0)
		*out = STEAL(list);
	json_decref(list);
	return r;
}

static const struct pf_surveyed_version *head_of(const struct pf_explain *e)
{
	return &e->survey->versions[e->survey->n_versions - 1];
}

static json_t *branch_json(const struct pf_explain *e)
{
	return pf_json_str(e->line->name ? e->line->name : "main");
}

static size_t count_due(const struct pf_explain *e)
{
	size_t n = 0;

	for (size_t i = 0; i < e->survey->pins.n; i++)
		n += pf_explain_is_due(e, &e->survey->pins.v[i]);
	return n;
}

int pf_json_retention(struct pf_explain *e, json_t **out, struct pf_why *why)
{
	const struct pf_retention_totals *t = &e->totals;
	const struct pf_surveyed_version *head = head_of(e);
	struct pf_why blocked = PF_WHY_INIT;
	json_t *usage = NULL;

	int r = pf_explain_blocked(e, &blocked);
	if (r < 0 && r != -EBUSY)
		return pf_why_set(why, r, "%s", blocked.text[0] ? blocked.text : strerror(-r));
	r = usage_list(e, &usage);
	if (r < 0)
		return r;
	json_t *o = json_object();
	pf_json_put(&o, "branch", branch_json(e));
	pf_json_put(&o, "head", pf_json_u64(head->version));
	pf_json_put(&o, "head_transaction", pf_json_str(head->txn[0] ? head->txn : NULL));
	pf_json_put(&o, "oldest_source", t->has_window ? pf_json_u64(t->oldest_source) : json_null());
	pf_json_put(&o, "pins", pf_json_u64(e->survey->pins.n));
	pf_json_put(&o, "expired", pf_json_u64(count_due(e)));
	pf_json_put(&o, "versions", pair("kept", t->versions_kept, "free", t->versions_free));
	pf_json_put(&o, "files", pair("kept", t->files_kept, "free", t->files_free));
	pf_json_put(&o, "bytes", pair("kept", t->bytes_kept, "free", t->bytes_free));
	pf_json_put(&o, "elsewhere", pair("files", t->files_elsewhere, "bytes", t->bytes_elsewhere));
	pf_json_put(&o, "usage", usage);
	pf_json_put(&o, "blocked", pf_json_str(blocked.text[0] ? blocked.text : NULL));
	*out = o;
	return o ? 0 : -ENOMEM;
}

static int push_reason(void *arg, const struct pf_named_reason *reason)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	json_t **list = arg;

	if (pf_reason_text(reason, &text) < 0)
		return -ENOMEM;
	pf_json_push(list, text_json(&text));
	return *list ? 0 : -ENOMEM;
}

json_t *pf_json_kept_version(const struct pf_explain *e, const struct pf_retention *r, size_t i)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;
	const struct pf_surveyed_version *v = &e->survey->versions[i];
	char base[PF_MANIFEST_NAME_MAX], operation[32];
	json_t *o = json_object(), *reasons = json_array();

	pf_manifest_name_format(v->version, v->v2, base);
	if (pf_buf_addf(&name, "%s_versions/%s", pf_survey_dir(e->survey), base) < 0 ||
	    pf_retention_version_each(r, i, push_reason, &reasons) < 0) {
		json_decref(reasons);
		reasons = NULL;
	}
	pf_json_put(&o, "version", pf_json_u64(v->version));
	pf_json_put(&o, "head", pf_json_u64(head_of(e)->version));
	pf_json_put(&o, "manifest", text_json(&name));
	pf_json_put(&o, "manifest_bytes", pf_json_u64(v->manifest_size));
	pf_json_put(&o, "transaction", pf_json_str(v->txn[0] ? v->txn : NULL));
	pf_json_put(&o, "operation", pf_json_str(v->operation ? pf_txn_operation_name(v->operation, operation) : NULL));
	pf_json_put(&o, "pin_operation", pf_json_str(v->kind != PF_OP_NONE ? pf_op_kind_name(v->kind) : NULL));
	pf_json_put(&o, "timestamp", v->timestamp_ns ? pf_json_time(pf_time_of_ns(v->timestamp_ns)) : json_null());
	pf_json_put(&o, "readable", json_boolean(v->readable));
	pf_json_put(&o, "reasons", reasons);
	return o;
}

json_t *pf_json_problem(const char *branch, const struct pf_problem *p)
{
	json_t *o = json_object(), *pins = json_array();

	for (size_t i = 0; i < p->n_pins; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&p->pins[i]->id, id);
		pf_json_push(&pins, json_string(id));
	}
	pf_json_put(&o, "branch", pf_json_str(branch ? branch : "main"));
	pf_json_put(&o, "version", p->version ? pf_json_u64(p->version) : json_null());
	pf_json_put(&o, "file", pf_json_str(p->file));
	pf_json_put(&o, "text", pf_json_str(p->text));
	pf_json_put(&o, "pins", pins);
	return o;
}

static json_t *digests_json(const struct pf_digest *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *o = pair("fragment", v[i].id, "physical_rows", v[i].physical_rows);
		pf_json_put(&o, "deleted_rows", pf_json_u64(v[i].deleted_rows));
		pf_json_push(&list, o);
	}
	return list;
}

static int group_json(const struct pf_explain *e, const struct pf_fri_group *g, json_t **out, struct pf_why *why)
{
	static const char *const mapping[] = { "version 0", "ordered", "partition", "unknown" };
	_cleanup_(pf_buf_release) struct pf_buf map = PF_BUF_INIT;
	bool has_map = g->mapping == PF_MAPPING_PARTITION;

	int r = has_map ? pf_explain_fri_map(e, g, &map, why) : 0;
	if (r < 0)
		return r;
	json_t *o = json_object();
	pf_json_put(&o, "from", digests_json(g->from, g->n_from));
	pf_json_put(&o, "to", digests_json(g->to, g->n_to));
	pf_json_put(&o, "mapping", json_string(mapping[g->mapping]));
	pf_json_put(&o, "map", has_map ? text_json(&map) : json_null());
	pf_json_put(&o, "map_bytes", has_map ? pf_json_u64(g->map_size) : json_null());
	*out = o;
	return o ? 0 : -ENOMEM;
}

static int groups_json(const struct pf_explain *e, const struct pf_fri_record *record, json_t **out, struct pf_why *why)
{
	json_auto_t *list = json_array();
	int r = 0;

	for (size_t i = 0; r == 0 && i < record->n_groups; i++) {
		json_t *group;
		r = group_json(e, &record->groups[i], &group, why);
		if (r == 0)
			pf_json_push(&list, group);
	}
	if (r == 0 && !list)
		r = -ENOMEM;
	if (r == 0)
		*out = STEAL(list);
	return r;
}

static json_t *pin_need_json(const struct pf_pin *p, const struct pf_fri_path *path)
{
	char id[PF_UUID_TEXT];
	json_t *o = json_object(), *hops = json_array();

	for (size_t i = 0; i < path->n; i++)
		pf_json_push(&hops, pair("fragment", path->v[i].fragment, "record", path->v[i].record));
	pf_uuid_format(&p->id, id);
	pf_json_put(&o, "id", json_string(id));
	pf_json_put(&o, "source_version", pf_json_u64(p->source_version));
	pf_json_put(&o, "ambiguous", json_boolean(path->ambiguous));
	pf_json_put(&o, "path", hops);
	return o;
}

/* Those who need a record, as far as it can be told; *unknown says why not all. Only memory can be lacking. */
static int needed_by_pins(struct pf_explain *e, size_t record, json_t **pins, struct pf_why *unknown)
{
	for (size_t i = 0; i < e->survey->pins.n; i++) {
		struct pf_why why = PF_WHY_INIT;
		struct pf_fri_path path = { NULL };
		int r = pf_explain_fri_path(e, i, record, &path, &why);
		if (r == -ENOMEM)
			return r;
		if (r < 0)
			pf_why_default(unknown, r, "%s", why.text[0] ? why.text : strerror(-r));
		if (r > 0)
			pf_json_push(pins, pin_need_json(&e->survey->pins.v[i], &path));
		pf_fri_path_release(&path);
	}
	return *pins ? 0 : -ENOMEM;
}

static int needed_by_indices(struct pf_explain *e, size_t record, json_t **indices, struct pf_why *unknown)
{
	_cleanup_(pf_freep) const char **names = NULL;
	struct pf_why why = PF_WHY_INIT;
	size_t n = 0;
	int r = pf_explain_fri_indices(e, record, &names, &n, &why);

	if (r == -ENOMEM)
		return r;
	if (r < 0)
		pf_why_default(unknown, r, "%s", why.text[0] ? why.text : strerror(-r));
	for (size_t i = 0; i < n; i++)
		pf_json_push(indices, pf_json_str(names[i]));
	return *indices ? 0 : -ENOMEM;
}

static int needed_by(struct pf_explain *e, size_t record, json_t **out)
{
	json_t *pins = json_array(), *indices = json_array(), *o = json_object();
	struct pf_why unknown = PF_WHY_INIT;

	int r = needed_by_pins(e, record, &pins, &unknown);
	int r2 = needed_by_indices(e, record, &indices, &unknown);
	pf_json_put(&o, "pins", pins);
	pf_json_put(&o, "indices", indices);
	pf_json_put(&o, "unknown", pf_json_str(unknown.text[0] ? unknown.text : NULL));
	if (r < 0 || r2 < 0 || !o) {
		json_decref(o);
		return -ENOMEM;
	}
	*out = o;
	return 0;
}

int pf_json_fri_record(struct pf_explain *e, size_t record, json_t **out, struct pf_why *why)
{
	json_t *groups = NULL, *by = NULL;
	const struct pf_fri *f;

	int r = pf_explain_fri(e, &f, why);
	if (r < 0)
		return r;
	if (record >= f->n_records)
		return pf_why_set(why, -ENOENT, "there is no record %zu: the history has %zu", record, f->n_records);
	const struct pf_fri_record *x = &f->records[record];
	r = groups_json(e, x, &groups, why);
	if (r == 0)
		r = needed_by(e, record, &by);
	if (r < 0) {
		json_decref(groups);
		return r;
	}
	json_t *o = json_object();
	pf_json_put(&o, "record", pf_json_u64(record));
	pf_json_put(&o, "head", pf_json_u64(head_of(e)->version));
	pf_json_put(&o, "kind", json_string(x->legacy ? "version" : "transition"));
	pf_json_put(&o, "stamp", x->legacy ? pf_json_u64(x->stamp) : json_null());
	pf_json_put(&o, "groups", groups);
	pf_json_put(&o, "needed_by", by);
	*out = o;
	return o ? 0 : -ENOMEM;
}

int pf_render_retention(struct pf_explain *e, struct pf_buf *out, struct pf_why *why)
{
	json_auto_t *j = NULL;
	int r = pf_json_retention(e, &j, why);

	return r < 0 ? r : pf_json_text(j, out);
}

int pf_render_kept_version(const struct pf_explain *e, size_t i, struct pf_buf *out)
{
	json_auto_t *j = pf_json_kept_version(e, e->kept, i);

	return pf_json_text(j, out);
}

int pf_render_fri_record(struct pf_explain *e, size_t record, struct pf_buf *out, struct pf_why *why)
{
	json_auto_t *j = NULL;
	int r = pf_json_fri_record(e, record, &j, why);

	return r < 0 ? r : pf_json_text(j, out);
}

struct lines_of_files {
	const struct pf_explain *e;
	struct pf_buf *out;
};

static int add_file(void *arg, const struct pf_kept_file *f)
{
	const struct lines_of_files *l = arg;

	int r = pf_buf_addf(l->out, "%" PRIu64 "\t", f->size);
	if (r == 0)
		r = pf_retention_file_reasons(l->e->kept, f->file, l->out);
	return r < 0 ? r : pf_buf_addf(l->out, "\t%s\n", f->name);
}

int pf_render_files(const struct pf_explain *e, struct pf_buf *out, struct pf_why *why)
{
	return pf_explain_files(e, add_file, &(struct lines_of_files){ e, out }, why);
}

int pf_render_expired(const struct pf_pins *pins, struct pf_time now, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < pins->n; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&pins->v[i].id, id);
		if (pf_time_cmp(pins->v[i].expires_at, now) <= 0)
			r = pf_buf_addf(out, "%s\n", id);
	}
	return r;
}
