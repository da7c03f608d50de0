#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

#include "core/trim.h"

/* Who needs a record. */
static json_t *needs_of(const struct pf_trim *t, size_t record)
{
	json_t *l = json_array();

	for (size_t i = 0; i < t->pins.n; i++) {
		char id[PF_UUID_TEXT];
		if (!pf_trim_needs(t, &t->pins.v[i], record))
			continue;
		pf_uuid_format(&t->pins.v[i].id, id);
		json_array_append_new(l, json_sprintf("pin:%s", id));
	}
	if (t->indexed[record])
		json_array_append_new(l, json_sprintf("index:%s", t->indices.v[t->by[record]].name));
	return l;
}

static void print_record(const struct pf_trim *t, size_t i)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	const struct pf_fri_record *record = &t->history.records[i];
	json_t *needs = needs_of(t, i), *need;
	size_t k;

	printf("%s\t%zu\t", t->keep[i] ? "keep" : "drop", i);
	if (record->legacy)
		printf("version %" PRIu64 "\t", record->stamp);
	else
		printf("transition\t");
	json_array_foreach(needs, k, need) printf("%s%s", k ? "," : "", safe(json_string_value(need), &text));
	printf("%s\n", k ? "" : "-");
	json_decref(needs);
}

static json_t *record_json(const struct pf_trim *t, size_t i)
{
	const struct pf_fri_record *record = &t->history.records[i];
	json_t *j = json_object();

	pf_json_put(&j, "record", pf_json_u64(i));
	pf_json_put(&j, "stamp", record->legacy ? pf_json_u64(record->stamp) : json_null());
	pf_json_put(&j, "kept", json_boolean(t->keep[i]));
	pf_json_put(&j, "needed_by", needs_of(t, i));
	return j;
}

static int print_json(const struct pf_trim *t, bool apply, const struct pf_work_result *result)
{
	json_t *j = json_object(), *l = json_array();

	for (size_t i = 0; i < t->history.n_records; i++)
		json_array_append_new(l, record_json(t, i));
	pf_json_put(&j, "head", pf_json_u64(t->head));
	pf_json_put(&j, "records", l);
	pf_json_put(&j, "dropped", pf_json_u64(t->history.n_records - t->kept));
	pf_json_put(&j, "committed", json_boolean(apply && result->version));
	pf_json_put(&j, "version", result->version ? pf_json_u64(result->version) : json_null());
	return ctl_print_json(j);
}

/* Without --apply it says what is left to drop. */
static void advise(struct ctl *c)
{
	_cleanup_(pf_buf_release) struct pf_buf command = PF_BUF_INIT;

	if (pf_branch_command(c->branch, &command) == 0 && pf_buf_str(&command))
		ctl_say("to find out: %s trim", (char *)command.data);
}

int cmd_trim(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	const struct pf_trim_options o = { .apply = args_value(a, "apply") != NULL };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open(c, &why);
	if (r == 0)
		r = pf_trim(c->branch, &o, &t, &result, &why);
	if (r < 0) {
		int status = ctl_fail(r, &why);
		if (r == -EINPROGRESS)
			advise(c);
		return status;
	}
	size_t dropped = t.history.n_records - t.kept;
	if (result.version == 0)
		ctl_say(t.history.n_records ? "nothing to drop: somebody needs each record"
					    : "nothing to drop: there are no records of moved rows");
	else if (o.apply)
		ctl_say("%zu of %zu records dropped in version %" PRIu64, dropped, t.history.n_records, result.version);
	else
		ctl_say("%zu of %zu records would go; run again with --apply", dropped, t.history.n_records);
	if (c->json)
		return print_json(&t, o.apply, &result);
	for (size_t i = 0; i < t.history.n_records; i++)
		print_record(&t, i);
	return 0;
}
