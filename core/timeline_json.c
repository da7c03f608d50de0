#include "render.h"
#include "timeline.h"

static json_t *column(const struct pf_timeline_column *c)
{
	json_t *o = json_object();

	pf_json_put(&o, "first", pf_json_u64(c->first));
	pf_json_put(&o, "last", pf_json_u64(c->last));
	pf_json_put(&o, "versions", pf_json_u64(c->to - c->from));
	pf_json_put(&o, "kept", pf_json_u64(c->kept));
	pf_json_put(&o, "damaged", pf_json_u64(c->damaged));
	return o;
}

static json_t *mark(const struct pf_timeline_mark *m)
{
	json_t *o = json_object();

	pf_json_put(&o, "name", pf_json_str(m->name));
	pf_json_put(&o, "version", pf_json_u64(m->version));
	return o;
}

static json_t *window(const struct pf_timeline *t)
{
	json_t *o = json_object();

	pf_json_put(&o, "oldest_source", pf_json_u64(t->oldest));
	pf_json_put(&o, "versions", pf_json_u64(t->window_versions));
	return o;
}

/* Takes `element` over. Out of memory makes *list NULL. */
static void add(json_t **list, json_t *element)
{
	if (*list && (!element || json_array_append_new(*list, element) < 0)) {
		json_decref(*list);
		*list = NULL;
	} else if (!*list) {
		json_decref(element);
	}
}

json_t *pf_json_timeline(const struct pf_timeline_input *in, const struct pf_timeline *t)
{
	const struct pf_survey *s = in->survey;
	json_t *o = json_object(), *columns = json_array(), *pins = json_array();
	json_t *marks[2] = { json_array(), json_array() };

	for (size_t i = 0; i < t->n_columns; i++)
		add(&columns, column(&t->columns[i]));
	for (size_t i = 0; i < s->pins.n; i++)
		add(&pins, pf_json_pin(&s->pins.v[i]));
	for (size_t i = 0; i < t->n_marks; i++)
		add(&marks[t->marks[i].branch], mark(&t->marks[i]));
	pf_json_put(&o, "branch", pf_json_str(in->branch ? in->branch : "main"));
	pf_json_put(&o, "head", pf_json_u64(s->versions[s->n_versions - 1].version));
	pf_json_put(&o, "window", t->has_window ? window(t) : json_null());
	pf_json_put(&o, "columns", columns);
	pf_json_put(&o, "pins", pins);
	pf_json_put(&o, "tags", marks[0]);
	pf_json_put(&o, "branches", marks[1]);
	return o;
}
