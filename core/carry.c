#include "carry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "closure.h"
#include "flags.h"
#include "fri_branch.h"
#include "lance.pb-c.h"

#define IS(op, name) ((op)->number == LANCE__TRANSACTION__OPERATION__##name)

void pf_carry_release(struct pf_carry *c)
{
	pf_buf_release(&c->entry);
}

static int read_history(struct pf_branch *b, const struct pf_manifest *m, struct pf_fri *out, struct pf_why *why)
{
	int r = pf_fri_read_branch(b, m, out, why);
	return r == -ENODATA ? 0 : r < 0 ? r : 1;
}

static struct pf_span bytes_of(const struct pf_fri *f, size_t record)
{
	return (struct pf_span){ f->content.data + f->records[record].off, f->records[record].len };
}

static bool has_record(const struct pf_fri *f, struct pf_span bytes)
{
	for (size_t i = 0; i < f->n_records; i++)
		if (pf_span_eq(bytes_of(f, i), bytes))
			return true;
	return false;
}

/* How many records of `of` are not in `in`; only those that `needed` says, if it is not NULL. */
static size_t count_missing(const struct pf_fri *of, const struct pf_fri *in, const bool *needed)
{
	size_t n = 0;

	for (size_t i = 0; i < of->n_records; i++)
		n += (!needed || needed[i]) && !has_record(in, bytes_of(of, i));
	return n;
}

/* Which records pins need; of a tagged history all, since what a pin does not reach now is little. */
static int find_needed(const struct pf_fri *f, const struct pf_pins *pins, bool *needed, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_fri_need *needs = calloc(f->n_records ? f->n_records : 1, sizeof(*needs));

	if (!needs)
		return -ENOMEM;
	for (size_t k = 0; k < f->n_records; k++)
		needed[k] = f->index_version != 0;
	for (size_t i = 0; f->index_version == 0 && i < pins->n; i++) {
		const struct pf_fri_pin pin = { .source_version = pins->v[i].source_version };
		int r = pf_closure_pin(f, &pin, needs, why);
		if (r < 0)
			return r;
		for (size_t k = 0; k < f->n_records; k++)
			needed[k] |= needs[k].needed;
	}
	return 0;
}

/* --- what a compaction moved --- */

static bool has_source(const struct pf_fri_group *g, uint64_t fragment)
{
	for (size_t i = 0; i < g->n_from; i++)
		if (g->from[i].id == fragment)
			return true;
	return false;
}

/* The group of a record that is new in `theirs` and moves all that is rewritten; NULL if there is none. */
static const struct pf_fri_group *find_record(const struct pf_fri *theirs, const struct pf_fri *before,
					      const struct pf_rewrite_group *g)
{
	for (size_t i = 0; i < theirs->n_groups; i++) {
		const struct pf_fri_group *moved = &theirs->groups[i];
		size_t k = 0;
		while (k < g->from.n && has_source(moved, g->from.v[k].id))
			k++;
		if (k == g->from.n && !has_record(before, bytes_of(theirs, moved->record)))
			return moved;
	}
	return NULL;
}

/*
 * A compaction moves rows, and a pin follows rows by records alone. Which fragments it follows is not asked: any that is rewritten may hold rows of its
 * source. Releases up to 13 stamp a record with the version that was planned on, and a pin made since would not be followed by it.
 */
static int check_rewrite(const struct pf_operation *op, const struct pf_fri *theirs, const struct pf_fri *before,
			 const struct pf_pins *pins, struct pf_why *why)
{
	char id[PF_UUID_TEXT];

	for (size_t i = 0; i < op->n_groups; i++) {
		const struct pf_rewrite_group *g = &op->groups[i];
		const struct pf_fri_group *moved = g->from.n ? find_record(theirs, before, g) : NULL;
		if (g->from.n && !moved) {
			pf_uuid_format(&pins->v[0].id, id);
			return pf_why_set(why, -EPERM,
					  "it moves rows of fragment %" PRIu64
					  ", and does not record where to, which %zu pins, %s "
					  "first, need: compact with defer_index_remap=True",
					  g->from.v[0].id, pins->n, id);
		}
		const struct pf_fri_record *record = moved ? &theirs->records[moved->record] : NULL;
		for (size_t k = 0; record && record->legacy && k < pins->n; k++)
			if (pins->v[k].source_version > record->stamp) {
				pf_uuid_format(&pins->v[k].id, id);
				return pf_why_set(why, -EPERM,
						  "its record says version %" PRIu64
						  ", and pin %s was made on version %" PRIu64 " since: compact again",
						  record->stamp, id, pins->v[k].source_version);
			}
	}
	return 0;
}

/* --- carrying --- */

static int read_range(struct pf_store *st, const struct pf_manifest *m, uint64_t off, uint64_t len, struct pf_buf *out,
		      struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;

	int r = pf_manifest_reopen(st, m, &f, why);
	if (r == 0)
		r = pf_buf_reserve(out, len);
	if (r == 0)
		r = f->r.read(&f->r, off, out->data + out->len, len);
	if (r == 0)
		out->len += len;
	return r;
}

/* The index section of the staged manifest with the head's entry in the place of its own, or at its end. */
static int put_entry(struct pf_store *st, const struct pf_manifest *head, const struct pf_manifest *staged,
		     struct pf_carry *out, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices ours = { 0 }, theirs = { 0 };
	const struct pf_index *from = NULL, *at = NULL;

	int r = pf_indices_read(st, head, &ours, why);
	if (r == 0)
		r = pf_fri_entry(&ours, &from, why);
	if (r == 0)
		r = pf_indices_read(st, staged, &theirs, why);
	if (r == 0)
		r = pf_fri_entry(&theirs, &at, why);
	if (r == 0)
		r = read_range(st, head, from->off, from->len, &out->entry, why);
	if (r < 0)
		return r;
	uint64_t start = staged->index.off, end = start + (staged->index.present ? staged->index.len : 0);
	uint64_t cut = at ? at->off : end, resume = at ? at->off + at->len : end;
	size_t n = 0;
	if (cut > start)
		out->pieces[n++] = (struct pf_piece){ .off = start, .len = cut - start };
	out->pieces[n++] = (struct pf_piece){ .mem = out->entry.data, .len = out->entry.len };
	if (end > resume)
		out->pieces[n++] = (struct pf_piece){ .off = resume, .len = end - resume };
	out->splice.index = out->pieces;
	out->splice.n_index = n;
	return 0;
}

/* Records of the head that pins need stay, whatever its writer thought there were. */
static int carry_records(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
			 const struct pf_fri *ours, const struct pf_fri *theirs, struct pf_carry *out,
			 struct pf_why *why)
{
	_cleanup_(pf_freep) bool *needed = calloc(ours->n_records ? ours->n_records : 1, sizeof(*needed));

	int r = needed ? find_needed(ours, &head->pins, needed, why) : -ENOMEM;
	if (r < 0 || count_missing(ours, theirs, needed) == 0)
		return r;
	if (count_missing(theirs, ours, NULL))
		return pf_why_set(
			why, -EPERM,
			"it records moves, and has dropped records of earlier ones that pins need: open the table anew, "
			"and compact again");
	if (head->writer_flags & ~staged->writer_flags & PF_FLAGS_PAIRED)
		return pf_why_set(
			why, -EPERM,
			"it has dropped records of moved rows that pins need, and what they say of themselves in the "
			"table's flags: open the table anew");
	return put_entry(pf_branch_store(b), head, staged, out, why);
}

int pf_carry(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
	     const struct pf_operation *op, struct pf_carry *out, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri ours = { 0 }, theirs = { 0 };

	*out = (struct pf_carry){ .writer_flags = staged->writer_flags };
	/* The history that results from these is that of the data they bring back, or of none. */
	if (head->pins.n == 0 || IS(op, RESTORE) || IS(op, OVERWRITE))
		return 0;
	int has = read_history(b, head, &ours, why);
	if (has < 0 || (!has && !IS(op, REWRITE)))
		return has;
	int r = read_history(b, staged, &theirs, why);
	if (r >= 0)
		r = IS(op, REWRITE) ? check_rewrite(op, &theirs, &ours, &head->pins, why) : 0;
	return r < 0 || !has ? r : carry_records(b, head, staged, &ours, &theirs, out, why);
}

/* --- branches --- */

/* What a Clone says it was cloned from. */
static int source_flags(struct pf_store *st, const struct pf_operation *op, uint64_t *flags, struct pf_why *why)
{
	enum { REF_NAME = 2, REF_VERSION = 3 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_freep) char *name = NULL;
	struct pf_message body;
	struct pf_member f;
	struct pf_span text;
	uint64_t version = 0;
	int r;

	pf_message_init(&body, op->body);
	while ((r = pf_message_next(&body, &f, why)) > 0) {
		if (f.number == REF_VERSION)
			r = pf_member_u64(&f, &version, why);
		else if (f.number == REF_NAME && (r = pf_member_text(&f, &text, why)) == 0) {
			free(name);
			name = strndup((const char *)text.p, text.n);
			r = name ? 0 : -ENOMEM;
		}
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = pf_branch_open(st, name && name[0] ? name : NULL, &b, why);
	if (r == -ENOENT)
		r = pf_branch_open(st, NULL, &b, why); /* the name of a tag */
	if (r == 0)
		r = pf_branch_version(b, version, &m, why);
	if (r == -ENOENT) /* of another table, or gone: its head says whether pins are in use here */
		r = pf_branch_head(b, &m, why);
	if (r == 0)
		*flags = m->writer_flags;
	return r;
}

static int link_first(struct pf_store *st, const struct pf_manifest *staged, const char *name,
		      const struct pf_splice *how, struct pf_why *why)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_freep) char *temporary = NULL, *dir = NULL;
	const char *slash = strrchr(name, '/');
	char random[PF_UUID_TEXT];
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, random);
	if (!slash || !(dir = strndup(name, (size_t)(slash - name))) ||
	    asprintf(&temporary, "%s/.tmp%s", dir, random) < 0)
		return temporary = NULL, -ENOMEM;
	int r = pf_store_create(st, temporary, &sg);
	if (r < 0)
		return r;
	r = pf_manifest_splice(st, staged, how, sg, why);
	if (r == 0)
		r = pf_stage_sync(sg);
	if (r == 0)
		r = pf_store_link(st, temporary, name);
	pf_store_unlink(st, temporary);
	return r == 0 ? pf_store_sync_dir(st, dir) : r;
}

int pf_carry_first(struct pf_store *st, const struct pf_manifest *staged, const char *name,
		   const struct pf_operation *op, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	uint64_t flags = 0;

	if (staged->pins.n)
		return pf_why_set(why, -EPERM, "a branch begins without pins");
	int r = source_flags(st, op, &flags, why);
	if (r < 0)
		return r;
	flags = staged->writer_flags | (flags & PF_FLAG_PINS);
	if (flags)
		r = pf_wire_put_u64(&field, LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS, flags);
	if (r < 0)
		return r;
	const struct pf_piece piece = { .mem = field.data, .len = field.len };
	const struct pf_patch patch = { .number = LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS,
					.pieces = &piece,
					.n_pieces = field.len > 0 };
	const struct pf_splice how = { .patches = &patch, .n_patches = 1 };
	return link_first(st, staged, name, &how, why);
}
