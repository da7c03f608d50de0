#include "pinop.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

void pf_op_release(struct pf_op *op)
{
	pf_request_release(&op->request);
	*op = (struct pf_op){ .kind = PF_OP_NONE };
}

const struct pf_uuid *pf_op_id(const struct pf_op *op)
{
	return op->kind == PF_OP_REGISTER ? &op->request.id : &op->id;
}

int pf_request_check_branch(const struct pf_request *q, const char *branch, const char *branch_id, struct pf_why *why)
{
	char asked[PF_QUOTE_TEXT], here[PF_QUOTE_TEXT];

	branch = branch ? branch : "main";
	if (q->branch && strcmp(q->branch, branch) != 0)
		return pf_why_set(why, -EINVAL, "the request is for branch %s; this is %s",
				  pf_text_quote(q->branch, strlen(q->branch), asked),
				  pf_text_quote(branch, strlen(branch), here));
	if (q->branch_id[0] && strcmp(q->branch_id, branch_id) != 0)
		return pf_why_set(why, -EINVAL, "the request is for the branch with id %s; this is %s, whose id is %s",
				  q->branch_id, pf_text_quote(branch, strlen(branch), here),
				  branch_id[0] ? branch_id : "(none)");
	return 0;
}

/* A UUID is the same one in either case; whoever wrote the transaction chose the spelling. */
static bool same_txn(const char *a, const char *b)
{
	return strcasecmp(a, b) == 0;
}

int pf_request_compare(const struct pf_request *q, const struct pf_pin *p, struct pf_why *why)
{
	const char *label = q->label ? q->label : "";
	bool source = q->has_source &&
		      (q->source_version != p->source_version || !same_txn(q->source_txn, p->source_txn));
	bool other_label = strcmp(label, p->label) != 0, shorter = pf_time_cmp(p->expires_at, q->expires_at) < 0;
	char id[PF_UUID_TEXT], has[PF_QUOTE_TEXT], asked[PF_QUOTE_TEXT], t1[PF_TIME_TEXT], t2[PF_TIME_TEXT];
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	const char *sep = "";

	if (!source && !other_label && !shorter)
		return 0;
	if (source) {
		pf_buf_addf(&text, "its source is %" PRIu64 ":%s, not %" PRIu64 ":%s", p->source_version, p->source_txn,
			    q->source_version, q->source_txn);
		sep = "; ";
	}
	if (other_label) {
		pf_buf_addf(&text, "%sits label is %s, not %s", sep, pf_text_quote(p->label, strlen(p->label), has),
			    pf_text_quote(label, strlen(label), asked));
		sep = "; ";
	}
	if (shorter) {
		pf_time_format(p->expires_at, t1);
		pf_time_format(q->expires_at, t2);
		pf_buf_addf(&text, "%sit expires at %s, before %s", sep, t1, t2);
	}
	pf_uuid_format(&p->id, id);
	/* Without memory for the words the answer is still right. */
	const char *words = pf_buf_str(&text);
	return pf_why_set(why, -EEXIST, "pin %s is there and is not as asked: %s", id, words ? words : "it differs");
}

/* Only release may leave a head whose own transaction cannot be read, while it has pins (design: section 1). */
static int check_history(const struct pf_head_facts *head, const struct pf_pins *pins, struct pf_why *why)
{
	if (!head->txn_error || pins->n == 0)
		return 0;
	return pf_why_set(why, -EBADMSG,
			  "version %" PRIu64 " has %zu pins and its transaction cannot be read, so only release is "
			  "allowed: %s",
			  head->version, pins->n, head->txn_error);
}

static int check_request(const struct pf_request *q, struct pf_why *why)
{
	/* The text forms were checked when they were parsed; a caller of the library may have filled in anything. */
	if (!pf_uuid_valid(&q->id))
		return pf_why_set(why, -EINVAL, "a pin's id may be neither all zeros nor all ones");
	if (!pf_time_valid(q->expires_at))
		return pf_why_set(why, -EINVAL, "a pin's expires_at must be within years 0001 to 9999");
	return q->label ? pf_label_check(q->label, strlen(q->label), why) : 0;
}

/* May the head become the source of a new pin for this request? */
static int check_head(const struct pf_head_facts *head, const struct pf_request *q, const struct pf_pins *pins,
		      struct pf_why *why)
{
	char t1[PF_TIME_TEXT], t2[PF_TIME_TEXT];
	struct pf_uuid ignored;

	if (pf_time_cmp(q->expires_at, head->now) <= 0) {
		pf_time_format(q->expires_at, t1);
		pf_time_format(head->now, t2);
		return pf_why_set(why, -EINVAL, "expires_at %s has passed: it is %s now", t1, t2);
	}
	if (!head->pins_enabled)
		return pf_why_set(why, -EOPNOTSUPP,
				  "pins are not enabled on this table: `pinctl enable --apply` enables them, and "
				  "released Lance 12 and newer never writes to the table directly again");
	bool identity = pf_uuid_parse(head->txn_uuid, strlen(head->txn_uuid), &ignored, NULL) == 0;
	if (q->has_source &&
	    (q->source_version != head->version || (identity && !same_txn(q->source_txn, head->txn_uuid))))
		return pf_why_set(why, -ESTALE,
				  "the source %" PRIu64 ":%s is not the head, which is %" PRIu64 ":%s now: make a new "
				  "request",
				  q->source_version, q->source_txn, head->version,
				  identity ? head->txn_uuid : "(no transaction)");
	int r = check_history(head, pins, why);
	if (r < 0)
		return r;
	if (!identity)
		return pf_why_set(why, -EOPNOTSUPP,
				  "version %" PRIu64
				  " has no transaction identity that a pin could name (%s): the next "
				  "commit of any kind gives the table one",
				  head->version, head->txn_error ? head->txn_error : "its transaction has no UUID");
	return 0;
}

static int apply_register(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
			  enum pf_effect *effect, struct pf_why *why)
{
	_cleanup_(pf_pin_release) struct pf_pin p = PF_PIN_INIT;
	const struct pf_request *q = &op->request;
	char id[PF_UUID_TEXT], t[PF_TIME_TEXT];

	int r = check_request(q, why);
	if (r < 0 || (r = pf_request_check_branch(q, head->branch, head->branch_id, why)) < 0)
		return r;
	pf_uuid_format(&q->id, id);

	const struct pf_pin *there = pf_pins_find(pins, &q->id);
	if (there) {
		r = pf_request_compare(q, there, why);
		if (r < 0)
			return r;
		*effect = PF_EFFECT_NONE;
		return pf_why_set(why, 0, "pin %s is registered already, on version %" PRIu64, id,
				  there->source_version);
	}

	r = check_head(head, q, pins, why);
	if (r < 0)
		return r;
	p.id = q->id;
	p.source_version = head->version;
	memcpy(p.source_txn, head->txn_uuid, PF_UUID_TEXT);
	p.created_at = head->now;
	p.expires_at = q->expires_at;
	p.label = strdup(q->label ? q->label : "");
	if (!p.label || pf_pins_add(pins, &p) < 0)
		return -ENOMEM;
	pf_time_format(q->expires_at, t);
	pf_why_set(why, 0, "pin %s holds version %" PRIu64 " until %s", id, head->version, t);
	*effect = PF_EFFECT_CHANGE;
	return 0;
}

static int apply_renew(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
		       enum pf_effect *effect, struct pf_why *why)
{
	char id[PF_UUID_TEXT], has[PF_TIME_TEXT], asked[PF_TIME_TEXT];
	struct pf_pin *p = pf_pins_find(pins, &op->id);

	if (!pf_time_valid(op->expires_at))
		return pf_why_set(why, -EINVAL, "a pin's expires_at must be within years 0001 to 9999");
	pf_uuid_format(&op->id, id);
	if (!p)
		return pf_why_set(why, -ENOENT,
				  "there is no pin %s to renew: it was released, expired or never registered, and a "
				  "renewal never registers",
				  id);
	pf_time_format(p->expires_at, has);
	pf_time_format(op->expires_at, asked);
	if (pf_time_cmp(p->expires_at, op->expires_at) >= 0) {
		*effect = PF_EFFECT_NONE;
		return pf_why_set(why, 0, "pin %s is already long enough: it expires at %s, asked was %s", id, has,
				  asked);
	}

	int r = check_history(head, pins, why);
	if (r < 0)
		return r;
	p->expires_at = op->expires_at;
	pf_why_set(why, 0, "pin %s expires at %s now, was %s", id, asked, has);
	*effect = PF_EFFECT_CHANGE;
	return 0;
}

static int apply_release(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
			 enum pf_effect *effect, struct pf_why *why)
{
	char id[PF_UUID_TEXT];
	struct pf_pin *p = pf_pins_find(pins, &op->id);

	pf_uuid_format(&op->id, id);
	if (!p && op->waive) {
		*effect = PF_EFFECT_CHANGE;
		return pf_why_set(why, 0, "pin %s, which is not there, is waived", id);
	}
	if (!p) {
		*effect = PF_EFFECT_NONE;
		return pf_why_set(why, 0, "there is no pin %s: nothing to release", id);
	}
	pf_pins_remove(pins, (size_t)(p - pins->v));
	pf_why_set(why, 0, "pin %s is released", id);
	*effect = PF_EFFECT_CHANGE;
	return 0;
}

static int apply_expire(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
			enum pf_effect *effect, struct pf_why *why)
{
	char id[PF_UUID_TEXT], has[PF_TIME_TEXT], then[PF_TIME_TEXT];
	struct pf_pin *p = pf_pins_find(pins, &op->id);

	pf_uuid_format(&op->id, id);
	if (!p) {
		*effect = PF_EFFECT_NONE;
		return pf_why_set(why, 0, "there is no pin %s any more: nothing to expire", id);
	}
	pf_time_format(p->expires_at, has);
	pf_time_format(op->expires_at, then);
	if (pf_time_cmp(p->expires_at, op->expires_at) != 0)
		return pf_why_set(why, -EAGAIN, "pin %s was renewed meanwhile, from %s to %s: skipped", id, then, has);
	if (pf_time_cmp(p->expires_at, head->now) > 0)
		return pf_why_set(why, -EAGAIN, "pin %s is not due before %s: skipped", id, has);

	int r = check_history(head, pins, why);
	if (r < 0)
		return r;
	pf_pins_remove(pins, (size_t)(p - pins->v));
	pf_why_set(why, 0, "pin %s, due since %s, is removed", id, has);
	*effect = PF_EFFECT_CHANGE;
	return 0;
}

static int apply_enable(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
			enum pf_effect *effect, struct pf_why *why)
{
	if (head->pins_enabled) {
		*effect = PF_EFFECT_NONE;
		return pf_why_set(why, 0, "pins are enabled already");
	}
	int r = check_history(head, pins, why);
	if (r < 0)
		return r;
	pf_why_set(why, 0, "pins are enabled: released Lance 12 and newer never writes to this table directly again");
	*effect = PF_EFFECT_CHANGE;
	return 0;
}

int pf_pinop_apply(const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
		   enum pf_effect *effect, struct pf_why *why)
{
	switch (op->kind) {
	case PF_OP_REGISTER:
		return apply_register(head, op, pins, effect, why);
	case PF_OP_RENEW:
		return apply_renew(head, op, pins, effect, why);
	case PF_OP_RELEASE:
		return apply_release(head, op, pins, effect, why);
	case PF_OP_EXPIRE:
		return apply_expire(head, op, pins, effect, why);
	case PF_OP_ENABLE:
		return apply_enable(head, op, pins, effect, why);
	case PF_OP_NONE:
		break;
	}
	return pf_why_set(why, -EINVAL, "no operation was asked for");
}
