#include "render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "flags.h"

json_t *pf_json_u64(uint64_t v)
{
	char digits[24];

	if (v <= INT64_MAX)
		return json_integer((json_int_t)v);
	snprintf(digits, sizeof(digits), "%" PRIu64, v);
	return json_string(digits);
}

json_t *pf_json_time(struct pf_time t)
{
	char text[PF_TIME_TEXT];

	pf_time_format(t, text);
	return json_string(text);
}

json_t *pf_json_str(const char *s)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;

	if (!s)
		return json_null();
	if (pf_utf8_valid(s, strlen(s)))
		return json_string(s);
	if (pf_text_escape(s, strlen(s), &escaped) < 0)
		return NULL;
	s = pf_buf_str(&escaped);
	return s ? json_string(s) : NULL;
}

void pf_json_put(json_t **o, const char *key, json_t *v)
{
	/* jansson takes v over on failure too, and fails for NULL on either side. */
	if (json_object_set_new(*o, key, v) < 0) {
		json_decref(*o);
		*o = NULL;
	}
}

void pf_json_push(json_t **list, json_t *v)
{
	if (json_array_append_new(*list, v) < 0) {
		json_decref(*list);
		*list = NULL;
	}
}

struct dump {
	struct pf_buf *out;
	bool failed; /* jansson forgets that a callback failed within a nested value */
};

static int append(const char *p, size_t n, void *arg)
{
	struct dump *d = arg;

	d->failed = d->failed || pf_buf_add(d->out, p, n) < 0;
	return d->failed ? -1 : 0;
}

static int dump(const json_t *j, size_t flags, struct pf_buf *out)
{
	struct dump d = { .out = out };
	size_t before = out->len;

	if (!j || json_dump_callback(j, append, &d, flags) < 0 || d.failed) {
		out->len = before;
		return -ENOMEM;
	}
	return 0;
}

int pf_json_text(const json_t *j, struct pf_buf *out)
{
	int r = dump(j, JSON_INDENT(2), out);
	if (r < 0)
		return r;
	return pf_buf_addch(out, '\n');
}

int pf_json_line(const json_t *j, struct pf_buf *out)
{
	return dump(j, 0, out);
}

/* NULL if it has none, as everywhere where "" means that. */
static const char *text_or_null(const char *s)
{
	return s && s[0] ? s : NULL;
}

static const char *branch_or_main(const char *name)
{
	return name ? name : "main";
}

json_t *pf_json_pin(const struct pf_pin *p)
{
	char id[PF_UUID_TEXT];
	json_t *o = json_object();

	pf_uuid_format(&p->id, id);
	pf_json_put(&o, "id", json_string(id));
	pf_json_put(&o, "source_version", pf_json_u64(p->source_version));
	pf_json_put(&o, "source_transaction_uuid", pf_json_str(p->source_txn));
	pf_json_put(&o, "created_at", pf_json_time(p->created_at));
	pf_json_put(&o, "expires_at", pf_json_time(p->expires_at));
	pf_json_put(&o, "label", pf_json_str(p->label));
	return o;
}

static json_t *flags_json(uint64_t word)
{
	json_t *o = json_object();

	for (unsigned bit = 0; bit < 64; bit++) {
		char key[4];
		if (!(word >> bit & 1))
			continue;
		snprintf(key, sizeof(key), "%u", bit);
		pf_json_put(&o, key, json_string(pf_flag_name(bit)));
	}
	return o;
}

static json_t *timestamp_json(const struct pf_manifest *m)
{
	return m->has_timestamp ? pf_json_time(m->timestamp) : json_null();
}

static json_t *head_json(struct pf_branch *b, const struct pf_status *s)
{
	json_t *flags = json_object(), *o = json_object();

	pf_json_put(&flags, "reader", flags_json(s->head->reader_flags));
	pf_json_put(&flags, "writer", flags_json(s->head->writer_flags));

	pf_json_put(&o, "version", pf_json_u64(s->head->version));
	pf_json_put(&o, "transaction", pf_json_str(s->txn ? text_or_null(s->txn->uuid) : NULL));
	pf_json_put(&o, "timestamp", timestamp_json(s->head));
	pf_json_put(&o, "branch", pf_json_str(branch_or_main(pf_branch_name(b))));
	pf_json_put(&o, "branch_id", pf_json_str(text_or_null(s->branch_id)));
	pf_json_put(&o, "flags", flags);
	pf_json_put(&o, "fragments", pf_json_u64(s->fragments));
	pf_json_put(&o, "rows", s->rows == UINT64_MAX ? json_null() : pf_json_u64(s->rows));
	pf_json_put(&o, "pins", pf_json_u64(s->head->pins.n));
	return o;
}

int pf_json_head(struct pf_branch *b, const struct pf_manifest *m, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	char branch_id[PF_BRANCH_ID_TEXT];
	struct pf_status s = { .head = m, .branch_id = branch_id };

	int r = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), m, &txn, why);
	if (r == 0)
		s.txn = &txn;
	else if (r != -ENODATA && r != -ENOENT)
		return r;
	r = pf_branch_id(b, branch_id, why);
	if (r < 0)
		return r;
	r = pf_manifest_count(pf_branch_store(b), m, &s.fragments, &s.rows, why);
	if (r < 0)
		return r;

	json_t *o = head_json(b, &s);
	if (!o)
		return pf_why_set(why, -ENOMEM, "out of memory");
	*out = o;
	return 0;
}

/* Who wrote it: "lance 14.0.2"; null if the manifest does not say. */
static json_t *writer_json(const struct pf_manifest *m)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	if (!m->writer_library[0])
		return json_null();
	if (pf_buf_addstr(&text, m->writer_library) < 0 ||
	    (m->writer_version[0] && pf_buf_addf(&text, " %s", m->writer_version) < 0))
		return NULL;
	const char *s = pf_buf_str(&text);
	return s ? pf_json_str(s) : NULL;
}

/* What a version did: "operation","pin_operation","message","writer". */
static void put_act(json_t **o, const struct pf_manifest *m, const struct pf_txn *t)
{
	char buf[32];
	bool known = t && t->operation, ours = t && t->kind != PF_OP_NONE;

	pf_json_put(o, "operation", pf_json_str(known ? pf_txn_operation_name(t->operation, buf) : NULL));
	pf_json_put(o, "pin_operation", pf_json_str(ours ? pf_op_kind_name(t->kind) : NULL));
	pf_json_put(o, "message", pf_json_str(t ? t->message : NULL));
	pf_json_put(o, "writer", writer_json(m));
}

json_t *pf_json_lost(const struct pf_lost *l)
{
	json_t *o = pf_json_pin(&l->pin);

	if (l->version == 0) { /* of its guard tag alone */
		pf_json_put(&o, "created_at", json_null());
		pf_json_put(&o, "expires_at", json_null());
	}
	pf_json_put(&o, "version", l->version ? pf_json_u64(l->version) : json_null());
	pf_json_put(&o, "writer", pf_json_str(l->writer));
	return o;
}

static void put_lost(json_t **o, const struct pf_lost_list *lost)
{
	json_t *list = lost ? json_array() : json_null();

	for (size_t i = 0; lost && i < lost->n; i++)
		pf_json_push(&list, pf_json_lost(&lost->v[i]));
	pf_json_put(o, "lost", list);
	pf_json_put(o, "lost_since", lost ? pf_json_u64(lost->since) : json_null());
}

json_t *pf_json_status(struct pf_branch *b, const struct pf_status *s)
{
	json_t *o = head_json(b, s), *window = json_null();
	bool pinned = s->head->pins.n > 0;

	if (pinned) {
		window = json_object();
		pf_json_put(&window, "oldest_source", pf_json_u64(s->oldest));
		pf_json_put(&window, "head", pf_json_u64(s->head->version));
		pf_json_put(&window, "versions", pf_json_u64(s->versions));
		pf_json_put(&window, "missing", pf_json_u64(s->span - s->versions));
	}
	pf_json_put(&o, "table", pf_json_str(pf_branch_store(b)->where));
	put_act(&o, s->head, s->txn);
	pf_json_put(&o, "pins_enabled", json_boolean(s->enabled));
	pf_json_put(&o, "overdue", pf_json_u64(s->overdue));
	pf_json_put(&o, "soonest_expiry", pinned ? pf_json_time(s->soonest) : json_null());
	pf_json_put(&o, "window", window);
	put_lost(&o, s->lost);
	pf_json_put(&o, "blocked", pf_json_str(s->blocked_known ? s->blocked : NULL));
	pf_json_put(&o, "blocked_unknown", pf_json_str(s->blocked_known ? NULL : s->blocked));
	return o;
}

json_t *pf_json_snapshot(const struct pf_manifest *m, const struct pf_txn *t)
{
	json_t *o = json_object();

	pf_json_put(&o, "version", pf_json_u64(m->version));
	pf_json_put(&o, "timestamp", timestamp_json(m));
	pf_json_put(&o, "transaction", pf_json_str(t ? text_or_null(t->uuid) : NULL));
	put_act(&o, m, t);
	return o;
}

json_t *pf_json_change(const struct pf_step *s, const char *change, const struct pf_pin *pin,
		       const struct pf_pin *before)
{
	json_t *o = pf_json_snapshot(s->m, s->txn);
	bool renewed = before && before != pin;
	char id[PF_UUID_TEXT];

	if (pin)
		pf_uuid_format(&pin->id, id);
	pf_json_put(&o, "change", pf_json_str(change));
	pf_json_put(&o, "id", pf_json_str(pin ? id : NULL));
	pf_json_put(&o, "pin", pin && pin->source_txn[0] ? pf_json_pin(pin) : json_null());
	pf_json_put(&o, "previous_expires_at", renewed ? pf_json_time(before->expires_at) : json_null());
	return o;
}

json_t *pf_json_branch(const struct pf_branch_ref *ref, const struct pf_manifest *head)
{
	json_t *o = json_object();

	pf_json_put(&o, "name", pf_json_str(ref ? ref->name : "main"));
	pf_json_put(&o, "head", head ? pf_json_u64(head->version) : json_null());
	pf_json_put(&o, "pins", head ? pf_json_u64(head->pins.n) : json_null());
	pf_json_put(&o, "parent", ref ? pf_json_str(branch_or_main(ref->parent)) : json_null());
	pf_json_put(&o, "parent_version", ref ? pf_json_u64(ref->parent_version) : json_null());
	pf_json_put(&o, "created_at", ref ? pf_json_time((struct pf_time){ .sec = ref->created_at }) : json_null());
	pf_json_put(&o, "id", ref ? pf_json_str(ref->id) : json_null());
	return o;
}

json_t *pf_json_tag(const struct pf_tag *t)
{
	json_t *o = json_object();
	/* Its depth is what jansson's parser let through, and so bounded for the encoder. */
	json_t *metadata = t->metadata ? json_loads(t->metadata, 0, NULL) : json_null();

	pf_json_put(&o, "name", pf_json_str(t->name));
	pf_json_put(&o, "branch", pf_json_str(branch_or_main(t->branch)));
	pf_json_put(&o, "version", pf_json_u64(t->version));
	pf_json_put(&o, "manifest_size", pf_json_u64(t->manifest_size));
	pf_json_put(&o, "created_at", pf_json_str(t->created_at));
	pf_json_put(&o, "updated_at", pf_json_str(t->updated_at));
	pf_json_put(&o, "metadata", metadata);
	return o;
}

json_t *pf_json_finding(const struct pf_finding *f)
{
	json_t *o = json_object();

	pf_json_put(&o, "severity", json_string(f->severity == PF_DAMAGE ? "damage" : "note"));
	pf_json_put(&o, "branch", pf_json_str(branch_or_main(f->branch)));
	pf_json_put(&o, "version", f->version ? pf_json_u64(f->version) : json_null());
	pf_json_put(&o, "file", pf_json_str(f->file));
	pf_json_put(&o, "text", pf_json_str(f->text));
	return o;
}

json_t *pf_json_diagnosis(const struct pf_diagnosis *d)
{
	json_t *o = json_object(), *details = json_array();

	for (size_t i = 0; i < d->n_details; i++)
		pf_json_push(&details, pf_json_str(d->details[i]));
	pf_json_put(&o, "check", json_string(d->check));
	pf_json_put(&o, "branch", pf_json_str(branch_or_main(d->branch)));
	pf_json_put(&o, "verdict", json_string(pf_health_name(d->verdict)));
	pf_json_put(&o, "text", pf_json_str(d->text));
	pf_json_put(&o, "command", pf_json_str(d->command));
	pf_json_put(&o, "details", details);
	return o;
}

json_t *pf_json_totals(const struct pf_check_totals *t)
{
	json_t *o = json_object();

	pf_json_put(&o, "branches", pf_json_u64(t->branches));
	pf_json_put(&o, "manifests", pf_json_u64(t->manifests));
	pf_json_put(&o, "transactions", pf_json_u64(t->transactions));
	pf_json_put(&o, "pins", pf_json_u64(t->pins));
	pf_json_put(&o, "notes", pf_json_u64(t->notes));
	pf_json_put(&o, "damages", pf_json_u64(t->damages));
	return o;
}

json_t *pf_json_request(const struct pf_request *q)
{
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;
	char id[PF_UUID_TEXT];
	json_t *o = json_object();

	const char *text = pf_request_format(q, &line) < 0 ? NULL : pf_buf_str(&line);
	pf_uuid_format(&q->id, id);
	pf_json_put(&o, "request", text ? json_string(text) : NULL);
	pf_json_put(&o, "id", json_string(id));
	pf_json_put(&o, "expires_at", pf_json_time(q->expires_at));
	pf_json_put(&o, "label", pf_json_str(q->label));
	pf_json_put(&o, "source_version", q->has_source ? pf_json_u64(q->source_version) : json_null());
	pf_json_put(&o, "source_transaction_uuid", q->has_source ? pf_json_str(q->source_txn) : json_null());
	pf_json_put(&o, "branch", pf_json_str(q->branch));
	pf_json_put(&o, "branch_id", pf_json_str(text_or_null(q->branch_id)));
	return o;
}

json_t *pf_json_answer(const struct pf_answer *a)
{
	json_t *o = json_object();
	bool pin = pf_uuid_valid(&a->pin.id);

	pf_json_put(&o, "committed", json_boolean(a->committed));
	pf_json_put(&o, "version", pf_json_u64(a->version));
	pf_json_put(&o, "message", pf_json_str(text_or_null(a->why.text)));
	pf_json_put(&o, "pin", pin ? pf_json_pin(&a->pin) : json_null());
	return o;
}

json_t *pf_json_confirmation(const struct pf_confirmation *c, const char *branch, const struct pf_why *why)
{
	json_t *o = json_object();
	bool pin = pf_uuid_valid(&c->pin.id);

	pf_json_put(&o, "held", json_boolean(c->held));
	pf_json_put(&o, "version", pf_json_u64(c->version));
	pf_json_put(&o, "branch", pf_json_str(branch_or_main(branch)));
	pf_json_put(&o, "branch_id", pf_json_str(text_or_null(c->branch_id)));
	pf_json_put(&o, "reason", pf_json_str(c->held ? NULL : text_or_null(why->text)));
	pf_json_put(&o, "pin", pin ? pf_json_pin(&c->pin) : json_null());
	return o;
}

int pf_render_pin(const struct pf_pin *p, struct pf_buf *out)
{
	json_auto_t *j = pf_json_pin(p);

	return pf_json_text(j, out);
}

int pf_render_head(struct pf_branch *b, const struct pf_manifest *m, struct pf_buf *out, struct pf_why *why)
{
	json_auto_t *j = NULL;

	int r = pf_json_head(b, m, &j, why);
	if (r < 0)
		return r;
	return pf_json_text(j, out);
}
