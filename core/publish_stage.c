#include "publish_parts.h"

#include <string.h>

#include "flags.h"
#include "lance.pb-c.h"
#include "pins.pb-c.h"

/* The patches of a commit, and the bytes they point to. */
enum { VERSION, TIMESTAMP, FLAGS, TXN_FILE, PINS, N_PATCHES };

struct patches {
	struct pf_buf bytes[N_PATCHES];
	struct pf_piece piece[N_PATCHES];
	struct pf_patch patch[N_PATCHES];
};

static void patches_release(struct patches *p)
{
	for (size_t i = 0; i < N_PATCHES; i++)
		pf_buf_release(&p->bytes[i]);
}

static int put_pins(const struct pf_pins *pins, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf record = PF_BUF_INIT;
	int r = 0;

	for (size_t i = 0; r == 0 && i < pins->n; i++) {
		pf_buf_reset(&record);
		r = pf_pin_encode(&pins->v[i], &record);
		if (r == 0)
			r = pf_wire_put_bytes(out, PINS__NUMBER__FIELD, record.data, record.len);
	}
	return r;
}

static int make_patches(const struct pf_attempt *a, struct patches *p)
{
	static const uint32_t number[N_PATCHES] = {
		[VERSION] = LANCE__MANIFEST__FIELD__VERSION,
		[TIMESTAMP] = LANCE__MANIFEST__FIELD__TIMESTAMP,
		[FLAGS] = LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS,
		[TXN_FILE] = LANCE__MANIFEST__FIELD__TRANSACTION_FILE,
		[PINS] = PINS__NUMBER__FIELD,
	};
	const char *txn_file = a->txn_file + strlen(a->txn_dir) + 1;
	uint64_t flags = a->p->base->writer_flags | a->p->writer_flags;
	int r;

	if (a->work)
		flags = (a->work->writer_flags & ~PF_FLAG_PINS) | (a->p->base->writer_flags & PF_FLAG_PINS);
	if ((r = pf_wire_put_u64(&p->bytes[VERSION], number[VERSION], a->version)) < 0 ||
	    (r = pf_manifest_put_timestamp(a->p->timestamp, &p->bytes[TIMESTAMP])) < 0 ||
	    (flags && (r = pf_wire_put_u64(&p->bytes[FLAGS], number[FLAGS], flags)) < 0) ||
	    (r = pf_wire_put_bytes(&p->bytes[TXN_FILE], number[TXN_FILE], txn_file, strlen(txn_file))) < 0 ||
	    (r = put_pins(a->p->pins, &p->bytes[PINS])) < 0)
		return r;
	for (size_t i = 0; i < N_PATCHES; i++) {
		p->piece[i] = (struct pf_piece){ .mem = p->bytes[i].data, .len = p->bytes[i].len };
		p->patch[i] = (struct pf_patch){ .number = number[i],
						 .pieces = &p->piece[i],
						 .n_pieces = p->bytes[i].len > 0 };
	}
	return 0;
}

static int stage_copy(struct pf_attempt *a, const struct pf_splice *how, struct pf_why *why)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;

	pf_branch_step_begin(a->b, &a->staging);
	int r = pf_store_create(a->st, a->staged, &sg);
	pf_branch_step_end(a->b, &a->staging, 0);
	if (r < 0)
		return pf_publish_failed(why, r, "create", a->staged);
	r = pf_manifest_splice(a->st, a->work && a->work->from ? a->work->from : a->p->base, how, sg, why);
	if (r < 0)
		return r;
	r = pf_stage_sync(sg);
	return r < 0 ? pf_publish_failed(why, r, "write", a->staged) : 0;
}

/* 1, or 0 if it has to be copied. */
static int stage_in_place(struct pf_attempt *a, const struct pf_splice *how, struct pf_why *why)
{
	const struct pf_manifest *from = a->work->from;

	int r = pf_extension_plan(a->st, from, how, &a->extension, why);
	if (r <= 0)
		return r;
	/* By a name of our own, so that whatever its writer does with theirs nothing else is linked. */
	pf_branch_step_begin(a->b, &a->staging);
	r = pf_store_link(a->st, from->name, a->staged);
	pf_branch_step_end(a->b, &a->staging, 0);
	if (r < 0)
		return pf_publish_failed(why, r, "create", a->staged);
	r = pf_store_extend(a->st, a->staged, &from->st, &a->extended);
	if (r == -ESTALE)
		return pf_why_set(why, r, "%s was replaced since it was read", from->name);
	if (r == 0)
		r = pf_extension_apply(&a->extension, a->extended);
	if (r == 0)
		r = pf_stage_sync(a->extended);
	return r < 0 ? pf_publish_failed(why, r, "write", a->staged) : 1;
}

int pf_publish_stage(struct pf_attempt *a, struct pf_why *why)
{
	_cleanup_(patches_release) struct patches p = { .bytes = { PF_BUF_INIT } };
	_cleanup_(pf_freep) struct pf_patch *patches = NULL;
	const struct pf_splice *work = a->work ? a->work->splice : NULL;
	size_t n_work = work ? work->n_patches : 0;

	int r = make_patches(a, &p);
	if (r < 0)
		return r;
	patches = calloc(N_PATCHES + n_work, sizeof(*patches));
	if (!patches)
		return -ENOMEM;
	memcpy(patches, p.patch, sizeof(p.patch));
	if (n_work)
		memcpy(patches + N_PATCHES, work->patches, n_work * sizeof(*patches));
	const struct pf_splice how = {
		.patches = patches,
		.n_patches = N_PATCHES + n_work,
		.transaction = a->txn.data,
		.transaction_len = a->txn.len,
		.index = work ? work->index : NULL,
		.n_index = work ? work->n_index : 0,
		.drop_index = work && work->drop_index,
	};
	r = a->work && a->work->in_place ? stage_in_place(a, &how, why) : 0;
	return r == 0 ? stage_copy(a, &how, why) : r < 0 ? r : 0;
}

void pf_publish_unstage(struct pf_attempt *a)
{
	if (a->extended && !a->named)
		pf_extension_undo(&a->extension, a->extended);
}
