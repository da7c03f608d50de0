#include "trim.h"

#include <string.h>

#include "fri_branch.h"
#include "fri_published.h"
#include "fri_write.h"
#include "lance.pb-c.h"

void pf_trim_release(struct pf_trim *t)
{
	pf_fri_release(&t->history);
	pf_indices_release(&t->indices);
	pf_sources_release(&t->sources);
	pf_pins_release(&t->pins);
	free(t->indexed);
	free(t->by);
	free(t->keep);
	*t = (struct pf_trim){ .pins = PF_PINS_INIT };
}

static const struct pf_source *source_of(const struct pf_trim *t, const struct pf_pin *pin)
{
	for (size_t i = 0; i < t->sources.n; i++) {
		const struct pf_pin *p = t->sources.v[i].pin;
		if (p->source_version == pin->source_version && strcmp(p->source_txn, pin->source_txn) == 0)
			return &t->sources.v[i];
	}
	return NULL;
}

bool pf_trim_needs(const struct pf_trim *t, const struct pf_pin *pin, size_t record)
{
	const struct pf_source *s = source_of(t, pin);

	return s && s->needs[record];
}

static int decide(struct pf_trim *t, struct pf_branch *b, const struct pf_manifest *head, struct pf_why *why)
{
	const struct pf_fri *f = &t->history;

	t->indexed = calloc(f->n_records + 1, sizeof(*t->indexed));
	t->by = calloc(f->n_records + 1, sizeof(*t->by));
	t->keep = calloc(f->n_records + 1, sizeof(*t->keep));
	if (!t->indexed || !t->by || !t->keep)
		return -ENOMEM;
	int r = pf_fri_find_published(b, head, &t->indices, &t->history, why);
	/* Before indices are asked: of pins that cannot be told the sentence must name the pin. */
	if (r == 0)
		r = pf_sources_read(b, &t->pins, f, &t->sources, why);
	if (r == 0)
		r = pf_closure_consumers(f, &t->indices, t->indexed, t->by, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_records; i++) {
		t->keep[i] = t->indexed[i];
		for (size_t s = 0; s < t->sources.n && !t->keep[i]; s++)
			t->keep[i] = t->sources.v[s].needs[i];
		t->kept += t->keep[i];
	}
	return 0;
}

static int survivors(const struct pf_trim *t, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	const struct pf_fri *f = &t->history;
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_records; i++)
		if (t->keep[i])
			r = pf_buf_add(&content, f->content.data + f->records[i].off, f->records[i].len);
	return r < 0 ? r : pf_fri_decode(&content, f->index_version, out, why);
}

static struct pf_entry *entry_of(struct pf_next *x)
{
	for (size_t i = 0; i < x->n_entries; i++)
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) == 0)
			return &x->entries[i];
	return NULL;
}

/* As Lance leaves it: a version 0 entry stays, if empty; a tagged one goes. */
static int change_entry(struct pf_trim *t, struct pf_next *x, struct pf_time now, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *coverage = NULL;
	_cleanup_(pf_fri_release) struct pf_fri left = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf none = PF_BUF_INIT;

	/* A tag is the version's that it was given to. */
	int r = pf_next_set_field(x, LANCE__MANIFEST__FIELD__TAG, &none);
	if (r < 0)
		return r;
	if (t->kept == 0 && t->history.index_version != 0) {
		pf_next_drop_entry(x, (size_t)(entry_of(x) - x->entries));
		return 0;
	}
	r = survivors(t, &left, why);
	if (r == 0)
		r = pf_fri_coverage(&left, 0, &coverage);
	return r < 0 ? r : pf_fri_replace(x, &left, coverage, now, why);
}

/* The transaction of Lance's own trim: an index entry in place of another. */
static int put_transaction(struct pf_next *x, struct pf_span was, struct pf_operation *o)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT;
	const struct pf_entry *e = entry_of(x);
	struct pf_uuid id;
	int r = 0;

	pf_uuid_new(&id);
	pf_uuid_format(&id, o->uuid);
	o->number = LANCE__TRANSACTION__OPERATION__CREATE_INDEX;
	o->read_version = x->base->version;
	if (e)
		r = pf_put_span(&body, LANCE__TRANSACTION__CREATE_INDEX__FIELD__NEW_INDICES, e->message);
	if (r == 0)
		r = pf_put_span(&body, LANCE__TRANSACTION__CREATE_INDEX__FIELD__REMOVED_INDICES, was);
	if (r == 0)
		r = pf_wire_put_u64(&o->bytes, LANCE__TRANSACTION__FIELD__READ_VERSION, o->read_version);
	if (r == 0)
		r = pf_wire_put_bytes(&o->bytes, LANCE__TRANSACTION__FIELD__UUID, o->uuid, PF_UUID_TEXT - 1);
	return r < 0 ? r : pf_put_span(&o->bytes, LANCE__TRANSACTION__OPERATION__CREATE_INDEX, PF_SPAN_OF(&body));
}

static int derive(void *arg, struct pf_branch *b, struct pf_next *x, struct pf_time now, struct pf_operation *o,
		  struct pf_why *why)
{
	struct pf_trim *t = arg;
	const struct pf_entry *e = entry_of(x);

	pf_trim_release(t);
	t->head = x->base->version;
	if (!e)
		return PF_WORK_NONE;
	const struct pf_span was = e->message;
	int r = pf_fri_read_branch(b, x->base, &t->history, why);
	if (r == 0)
		r = pf_indices_read(pf_branch_store(b), x->base, &t->indices, why);
	if (r == 0)
		r = pf_pins_copy(&x->base->pins, &t->pins);
	if (r == 0)
		r = decide(t, b, x->base, why);
	if (r == 0 && t->kept == t->history.n_records)
		return PF_WORK_NONE;
	if (r == 0)
		r = change_entry(t, x, now, why);
	return r < 0 ? r : put_transaction(x, was, o);
}

int pf_trim(struct pf_branch *b, const struct pf_trim_options *o, struct pf_trim *out, struct pf_work_result *result,
	    struct pf_why *why)
{
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	const struct pf_work w = { .derive = derive,
				   .derive_arg = &t,
				   .dry_run = !o->apply,
				   .clock = o->clock,
				   .clock_arg = o->clock_arg,
				   .attempts = o->attempts };

	int r = pf_work_commit(b, &w, result, why);
	if (r < 0)
		return r;
	*out = t;
	t = (struct pf_trim){ .pins = PF_PINS_INIT };
	return 0;
}
