#include "apply_parts.h"

#include <inttypes.h>

#include "flags.h"
#include "fri_branch.h"
#include "lance.pb-c.h"

static int append(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;

	int r = pf_apply_schema(x, &fields, &schema, why);
	for (size_t i = 0; r == 0 && i < o->added.n; i++)
		r = pf_apply_add_new(a, x, &o->added.v[i], &schema, true, why);
	return r;
}

/* Only the deletion file is the transaction's: all else of the fragment may have changed since. */
static int set_deletion(const struct pf_apply *a, struct pf_next *x, const struct pf_fragment *f, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, changed = PF_BUF_INIT, field = PF_BUF_INIT;
	struct pf_slot *s = pf_roster_find(&x->roster, f->id);

	if (!s)
		return pf_why_set(why, -EINVAL, "it deletes from fragment %" PRIu64 ", which is not there", f->id);
	if (s->mem)
		return pf_why_set(why, -EINVAL, "it updates fragment %" PRIu64 " twice", f->id);
	if (!f->has_deletions)
		return pf_why_set(why, -EINVAL, "it updates fragment %" PRIu64 " without saying what is deleted",
				  f->id);
	int r = pf_apply_check_deletion(a, x, f, why);
	if (r == 0)
		r = pf_put_span(&field, LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE, f->deletion.message);
	if (r == 0)
		r = pf_next_load(x, s, &message, why);
	const struct pf_change change = { LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE, PF_SPAN_OF(&field) };
	if (r == 0)
		r = pf_message_change(PF_SPAN_OF(&message), &change, 1, &changed, why);
	return r < 0 ? r : pf_next_replace_fragment(x, s, PF_SPAN_OF(&changed), why);
}

/* -EINVAL if a fragment is to be removed that is not there. */
static int check_removed(struct pf_next *x, const struct pf_numbers *ids, struct pf_why *why)
{
	for (size_t i = 0; i < ids->n; i++)
		if (!pf_roster_find(&x->roster, ids->v[i]))
			return pf_why_set(why, -EINVAL, "it removes fragment %" PRIu64 ", which is not there",
					  ids->v[i]);
	return 0;
}

static int delete (const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_schema_release) struct pf_schema schema = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf fields = PF_BUF_INIT;

	int r = pf_apply_schema(x, &fields, &schema, why);
	if (r == 0)
		r = check_removed(x, &o->removed, why);
	for (size_t i = 0; r == 0 && i < o->updated.n; i++)
		r = set_deletion(a, x, &o->updated.v[i], why);
	if (r == 0)
		r = pf_next_remove_fragments(x, &o->removed);
	return r < 0 ? r : pf_apply_retain_indices(x, &schema, why);
}

static int reserve(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	uint64_t max = x->has_max_fragment_id ? x->max_fragment_id : 0;

	/* Lance counts from 0 where no id was given yet, and from the largest id where fragments are there. */
	for (size_t i = 0; i < x->roster.n; i++)
		max = x->roster.v[i].id > max ? x->roster.v[i].id : max;
	if (o->count >= UINT32_MAX - max)
		return pf_why_set(why, -EOPNOTSUPP, "no fragment ids are left for a reservation of %" PRIu64, o->count);
	x->has_max_fragment_id = true;
	x->max_fragment_id = max + o->count;
	return 0;
}

/* Nothing is published that Lance could not read: a bad history would block every later commit (lance-14-fri section 2). */
static int check_restored_history(const struct pf_apply *a, const struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri fri = { 0 };
	int r = pf_fri_read_branch(a->branch, x->from, &fri, why);

	if (r == 0 || r == -ENODATA)
		return 0;
	return pf_why_prefix(why, r == -ENOENT ? -EINVAL : r,
			     "version %" PRIu64 " cannot be restored, for its history of moved rows", x->from->version);
}

/* x has the old version's content; what must never go back is the head's. */
static int restore(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	const uint32_t field_mark = LANCE__MANIFEST__FIELD__MAX_ALLOCATED_FIELD_ID;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_buf_release) struct pf_buf mark = PF_BUF_INIT;
	uint64_t max, row_id, theirs, ours;
	bool has_max, has, has_theirs, has_ours;

	int r = pf_manifest_reopen(pf_branch_store(a->branch), x->base, &file, why);
	if (r == 0)
		r = pf_manifest_get_u64(&file->r, x->base, LANCE__MANIFEST__FIELD__MAX_FRAGMENT_ID, &has_max, &max,
					why);
	if (r == 0)
		r = pf_manifest_get_u64(&file->r, x->base, LANCE__MANIFEST__FIELD__NEXT_ROW_ID, &has, &row_id, why);
	if (r == 0)
		r = pf_manifest_get_u64(&file->r, x->base, field_mark, &has_ours, &ours, why);
	if (r == 0)
		r = pf_manifest_get_u64(&x->file->r, x->from, field_mark, &has_theirs, &theirs, why);
	if (r < 0)
		return r;
	if ((x->base->reader_flags & PF_FLAG_STABLE_ROW_IDS) && !x->stable)
		return pf_why_set(why, -EINVAL,
				  "version %" PRIu64
				  " cannot be restored: stable row ids were enabled after it, and without "
				  "them row addresses would collide with ids that were given out",
				  o->version);
	if ((x->base->writer_flags & PF_FLAG_FIXED_FIELD_IDS) && !has_theirs)
		return pf_why_set(why, -EINVAL,
				  "version %" PRIu64 " cannot be restored: field ids became non-reusable after it",
				  o->version);
	r = check_restored_history(a, x, why);
	if (r < 0)
		return r;
	if (has_max && (!x->has_max_fragment_id || max > x->max_fragment_id)) {
		x->has_max_fragment_id = true;
		x->max_fragment_id = max;
	}
	x->next_row_id = row_id > x->next_row_id ? row_id : x->next_row_id;
	x->sticky |= x->from->writer_flags & PF_FLAGS_STICKY;
	if (has_ours && ours > theirs) {
		r = pf_wire_put_u64(&mark, field_mark, ours);
		if (r == 0)
			r = pf_next_set_field(x, field_mark, &mark);
	}
	return r;
}

/* The tag of the transaction is the version's. */
static int set_tag(const struct pf_operation *o, struct pf_next *x)
{
	_cleanup_(pf_buf_release) struct pf_buf tag = PF_BUF_INIT;
	int r = o->tag.n ? pf_put_span(&tag, LANCE__MANIFEST__FIELD__TAG, o->tag) : 0;

	return r < 0 ? r : pf_next_set_field(x, LANCE__MANIFEST__FIELD__TAG, &tag);
}

static int check_table(const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	bool replaces_schema = o->number == LANCE__TRANSACTION__OPERATION__OVERWRITE ||
			       o->number == LANCE__TRANSACTION__OPERATION__MERGE ||
			       o->number == LANCE__TRANSACTION__OPERATION__PROJECT;

	for (size_t i = 0; i < x->n_entries; i++)
		if (strcmp(x->entries[i].x.name, PF_MEM_WAL_NAME) == 0)
			return pf_why_set(
				why, -EOPNOTSUPP,
				"the table has a MemWAL index, which a commit must maintain and pinfs does not");
	if (replaces_schema && x->from->lead_len > 0)
		return pf_why_set(
			why, -EOPNOTSUPP,
			"%s cannot be committed on a table in the legacy format: its schema points into bytes of "
			"the manifest",
			pf_operation_name(o));
	if (replaces_schema && o->number != LANCE__TRANSACTION__OPERATION__PROJECT &&
	    (x->base->writer_flags & PF_FLAG_FIXED_FIELD_IDS))
		return pf_why_set(
			why, -EOPNOTSUPP,
			"%s cannot be committed on a table with non-reusable field ids (feature bit 15): pinfs does "
			"not assign them",
			pf_operation_name(o));
	return 0;
}

static int dispatch(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	switch (o->number) {
	case LANCE__TRANSACTION__OPERATION__APPEND:
		return append(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__DELETE:
		return delete (a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__OVERWRITE:
		return pf_apply_overwrite(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__CREATE_INDEX:
		return pf_apply_create_index(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__REWRITE:
		return pf_apply_rewrite(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__MERGE:
		return pf_apply_merge(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__RESTORE:
		return restore(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__RESERVE_FRAGMENTS:
		return reserve(o, x, why);
	case LANCE__TRANSACTION__OPERATION__UPDATE:
		return pf_apply_update(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__PROJECT:
		return pf_apply_project(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__UPDATE_CONFIG:
		return pf_apply_update_config(o, x, why);
	case LANCE__TRANSACTION__OPERATION__DATA_REPLACEMENT:
		return pf_apply_replacement(a, o, x, why);
	case LANCE__TRANSACTION__OPERATION__UPDATE_BASES:
		return pf_apply_update_bases(o, x, why);
	default:
		return -EINVAL; /* pf_apply_can */
	}
}

bool pf_apply_can(const struct pf_operation *o)
{
	return (o->number >= LANCE__TRANSACTION__OPERATION__APPEND &&
		o->number <= LANCE__TRANSACTION__OPERATION__DATA_REPLACEMENT) ||
	       o->number == LANCE__TRANSACTION__OPERATION__UPDATE_BASES;
}

int pf_apply(const struct pf_apply *a, const struct pf_operation *o, struct pf_next *x, struct pf_why *why)
{
	int r = check_table(o, x, why);

	if (r == 0)
		r = dispatch(a, o, x, why);
	/* A version that is restored stays as it was. */
	if (r == 0 && o->number != LANCE__TRANSACTION__OPERATION__RESTORE)
		r = pf_apply_settle(a, x, why);
	return r < 0 ? r : set_tag(o, x);
}
