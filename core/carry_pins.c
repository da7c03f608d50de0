#include "carry_pins.h"

#include <string.h>

#include "flags.h"
#include "pinop.h"
#include "txn.h"

/* The operation of one element of a transaction, as if it were asked for now; what is registered was made when it says. */
static int apply(const struct pf_txn *txn, const struct pf_pin *p, struct pf_head_facts facts, struct pf_pins *pins,
		 struct pf_why *why)
{
	struct pf_op op = { .kind = txn->kind, .id = p->id, .expires_at = p->expires_at, .waive = true };
	enum pf_effect effect;

	if (txn->kind == PF_OP_REGISTER) {
		facts.now = p->created_at;
		op.request = (struct pf_request){ .id = p->id,
						  .expires_at = p->expires_at,
						  .label = p->label, /* borrowed, as nothing of op is released */
						  .has_source = true,
						  .source_version = p->source_version };
		memcpy(op.request.source_txn, p->source_txn, sizeof(op.request.source_txn));
	}
	return pf_pinop_apply(&facts, &op, pins, &effect, why);
}

static int apply_all(struct pf_branch *b, const struct pf_manifest *head, const struct pf_txn *txn,
		     struct pf_pins *pins, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn of_head = PF_TXN_INIT;
	struct pf_why unread = PF_WHY_INIT;
	char branch_id[PF_BRANCH_ID_TEXT];

	if (txn->kind == PF_OP_NONE || txn->kind == PF_OP_ENABLE)
		return 0;
	int r = pf_branch_id(b, branch_id, why);
	if (r < 0)
		return r;
	int known = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), head, &of_head, &unread);
	const struct pf_head_facts facts = {
		.branch = pf_branch_name(b),
		.branch_id = branch_id,
		.version = head->version,
		.txn_uuid = of_head.uuid,
		.txn_error = known < 0 ? unread.text : NULL,
		.pins_enabled = head->writer_flags & PF_FLAG_PINS,
		.now = pf_time_now(),
	};
	for (size_t i = 0; r == 0 && i < txn->pins.n; i++)
		r = apply(txn, &txn->pins.v[i], facts, pins, why);
	return r == -ENOMEM ? r : r < 0 ? -EPERM : 0;
}

static int compare(const struct pf_pins *is, const struct pf_pins *should, struct pf_why *why)
{
	const struct pf_pin *differs = NULL;
	char id[PF_UUID_TEXT];

	for (size_t i = 0; i < should->n && !differs; i++) {
		const struct pf_pin *p = pf_pins_find(is, &should->v[i].id);
		if (!p || !pf_pin_same(p, &should->v[i]))
			differs = &should->v[i];
	}
	for (size_t i = 0; i < is->n && !differs; i++)
		if (!pf_pins_find(should, &is->v[i].id))
			differs = &is->v[i];
	if (!differs)
		return 0;
	pf_uuid_format(&differs->id, id);
	return pf_why_set(why, -EPERM, "it changes pin %s, which its transaction does not say", id);
}

int pf_carry_pins(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
		  struct pf_pins *out, struct pf_why *why)
{
	_cleanup_(pf_pins_release) struct pf_pins pins = PF_PINS_INIT;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	if (!(staged->writer_flags & PF_FLAG_PINS))
		return pf_pins_copy(&head->pins, out);
	int r = pf_pins_copy(&head->pins, &pins);
	if (r == 0)
		r = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), staged, &txn, why);
	if (r == 0)
		r = apply_all(b, head, &txn, &pins, why);
	if (r == 0)
		r = compare(&staged->pins, &pins, why);
	return r < 0 ? r : pf_pins_copy(&staged->pins, out);
}
