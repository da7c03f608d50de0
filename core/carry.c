#include "carry.h"

#include <string.h>

#include "carry_pins.h"
#include "carry_rewrite.h"
#include "fri_branch.h"
#include "fri_write.h"
#include "gate.h"
#include "lance.pb-c.h"
#include "source.h"

#define IS(op, name) ((op)->number == LANCE__TRANSACTION__OPERATION__##name)

void pf_carry_release(struct pf_carry *c)
{
	pf_next_release(&c->next);
	pf_pins_release(&c->pins);
}

/* --- records --- */

/* An empty history if there is none. */
static int read_history(struct pf_branch *b, const struct pf_manifest *m, struct pf_fri *out, struct pf_why *why)
{
	int r = pf_fri_read_branch(b, m, out, why);
	return r == -ENODATA ? 0 : r;
}

/* The entry of a history as its manifest has it. */
struct entry {
	struct pf_indices indices;
	const struct pf_index *x; /* NULL: there is none */
	struct pf_buf field;	  /* all of it, tag and length included */
};

static void entry_release(struct entry *e)
{
	pf_indices_release(&e->indices);
	pf_buf_release(&e->field);
}

static int read_entry(struct pf_branch *b, const struct pf_manifest *m, struct entry *e, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;

	int r = pf_manifest_reopen(pf_branch_store(b), m, &f, why);
	if (r == 0)
		r = pf_indices_decode(&f->r, m, &e->indices, why);
	if (r == 0)
		r = pf_fri_entry(&e->indices, &e->x, why);
	if (r == 0 && e->x)
		r = pf_buf_reserve(&e->field, (size_t)e->x->len);
	if (r < 0 || !e->x)
		return r;
	e->field.len = (size_t)e->x->len;
	return f->r.read(&f->r, e->x->off, e->field.data, e->field.len);
}

static struct pf_span details_of(const struct entry *e)
{
	if (!e->x->details.present)
		return (struct pf_span){ NULL, 0 };
	return (struct pf_span){ e->field.data + (e->x->details.off - e->x->off), (size_t)e->x->details.len };
}

/* An entry is written once: where uuid and details are the same, nothing need be decoded to know that nothing is missing. */
static int has_same_entry(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
			  struct pf_why *why)
{
	_cleanup_(entry_release) struct entry ours = { .x = NULL }, theirs = { .x = NULL };

	int r = read_entry(b, head, &ours, why);
	if (r == 0 && ours.x)
		r = read_entry(b, staged, &theirs, why);
	if (r < 0 || !ours.x)
		return r < 0 ? r : 1;
	return theirs.x && strcmp(ours.x->uuid, theirs.x->uuid) == 0 &&
	       ours.x->index_version == theirs.x->index_version && ours.x->has_base == theirs.x->has_base &&
	       ours.x->base_id == theirs.x->base_id && pf_span_eq(details_of(&ours), details_of(&theirs));
}

static struct pf_span bytes_of(const struct pf_fri *f, size_t record)
{
	return (struct pf_span){ f->content.data + f->records[record].off, (size_t)f->records[record].len };
}

static struct pf_span rows_of(const struct pf_fri *f, const struct pf_fri_group *g)
{
	return (struct pf_span){ f->content.data + g->rows.off, (size_t)g->rows.len };
}

static bool same_digests(const struct pf_digest *a, size_t n, const struct pf_digest *b, size_t m)
{
	return n == m && (n == 0 || memcmp(a, b, n * sizeof(*a)) == 0);
}

/* The same but for the stamp, which a record got anew when it was published. */
static bool same_moves(const struct pf_fri *f, const struct pf_fri_record *a, const struct pf_fri *h,
		       const struct pf_fri_record *b)
{
	if (!a->legacy || !b->legacy || a->n_groups != b->n_groups)
		return false;
	for (size_t i = 0; i < a->n_groups; i++) {
		const struct pf_fri_group *x = &a->groups[i], *y = &b->groups[i];
		if (!same_digests(x->from, x->n_from, y->from, y->n_from) ||
		    !same_digests(x->to, x->n_to, y->to, y->n_to) || !pf_span_eq(rows_of(f, x), rows_of(h, y)))
			return false;
	}
	return true;
}

static bool has_record(const struct pf_fri *f, const struct pf_fri *of, size_t record, bool any_stamp)
{
	/* It is mostly where it was. */
	for (size_t k = 0; k < f->n_records; k++) {
		size_t i = (record + k) % f->n_records;
		if (pf_span_eq(bytes_of(f, i), bytes_of(of, record)) ||
		    (any_stamp && same_moves(f, &f->records[i], of, &of->records[record])))
			return true;
	}
	return false;
}

/* Of `ours`, a record each, what pins need; all of it where that cannot be told. */
static int find_needed(struct pf_branch *b, const struct pf_manifest *head, const struct pf_fri *ours, bool *needed)
{
	_cleanup_(pf_sources_release) struct pf_sources sources = { NULL };

	int r = pf_sources_read(b, &head->pins, ours, &sources, NULL);
	for (size_t i = 0; i < ours->n_records; i++) {
		needed[i] = r == -EBUSY;
		for (size_t s = 0; r == 0 && s < sources.n; s++)
			needed[i] |= sources.v[s].needs[i];
	}
	return r == -EBUSY ? 0 : r;
}

/* What is to be put back, and what else stays. */
struct merging {
	struct pf_branch *b;
	const struct pf_manifest *head;
	struct pf_next *x;
	const struct pf_fri *ours;
	const struct pf_fri *theirs;
	bool adds; /* what the head does not have is new, and not a copy that is out of date */
	bool *needed;
};

static bool is_missing(const struct merging *m)
{
	for (size_t i = 0; i < m->ours->n_records; i++)
		if (m->needed[i] && !has_record(m->theirs, m->ours, i, false))
			return true;
	return false;
}

static int merge(const struct merging *m, struct pf_buf *content, bool *whole)
{
	int r = 0;

	*whole = true;
	for (size_t i = 0; r == 0 && i < m->ours->n_records; i++) {
		if (!m->needed[i] && !has_record(m->theirs, m->ours, i, true)) {
			*whole = false;
			continue;
		}
		r = pf_buf_add(content, bytes_of(m->ours, i).p, bytes_of(m->ours, i).n);
	}
	for (size_t i = 0; r == 0 && m->adds && i < m->theirs->n_records; i++) {
		if (has_record(m->ours, m->theirs, i, true))
			continue;
		*whole = false;
		r = pf_buf_add(content, bytes_of(m->theirs, i).p, bytes_of(m->theirs, i).n);
	}
	return r;
}

/* The very entry of the head in the place of what x has. */
static int put_entry(const struct merging *m, struct pf_why *why)
{
	_cleanup_(entry_release) struct entry e = { .x = NULL };
	struct pf_message walk;
	struct pf_member member;

	int r = read_entry(m->b, m->head, &e, why);
	if (r < 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(&e.field));
	r = pf_message_next(&walk, &member, why);
	if (r < 0)
		return r;
	for (size_t i = m->x->n_entries; i-- > 0;)
		if (strcmp(m->x->entries[i].x.name, PF_FRI_NAME) == 0)
			pf_next_drop_entry(m->x, i);
	return pf_next_add_entry(m->x, member.value, why);
}

/* Records of the head that pins need stay, whatever the client thought there were. */
static int carry_records(const struct merging *m, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *coverage = NULL;
	_cleanup_(pf_fri_release) struct pf_fri merged = { 0 };
	int32_t version = m->ours->index_version;
	bool whole;

	int r = merge(m, &content, &whole);
	if (r < 0 || whole)
		return r < 0 ? r : put_entry(m, why);
	if (m->theirs->index_version > version)
		version = m->theirs->index_version;
	r = pf_fri_decode(&content, version, &merged, why);
	if (r == 0)
		r = pf_fri_coverage(&merged, 0, &coverage);
	return r < 0 ? r : pf_fri_replace(m->x, &merged, coverage, m->x->from->timestamp, why);
}

/* --- the commit --- */

static int ask_gate(struct pf_branch *b, const struct pf_operation *op, const struct pf_fri *theirs, struct pf_next *x,
		    struct pf_why *why)
{
	_cleanup_(pf_moved_release) struct pf_moved said = { NULL };
	struct pf_gate g = { .moved = &said, .there = theirs, .now = x->from->timestamp };

	int r = pf_carry_rewrite(x, pf_branch_store(b), op, theirs, &said, &g.records, why);
	return r < 0 ? r : pf_gate(&g, b, op, x, why);
}

/* Does the head have records that pins need and the staged manifest has not? m->needed is filled for those who put them back. */
static int find_missing(struct merging *m)
{
	memset(m->needed, true, m->ours->n_records);
	if (!is_missing(m))
		return 0;
	int r = find_needed(m->b, m->head, m->ours, m->needed);
	return r < 0 ? r : is_missing(m);
}

static int carry(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
		 const struct pf_operation *op, struct pf_carry *out, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri ours = { 0 }, theirs = { 0 };
	_cleanup_(pf_freep) bool *needed = NULL;
	struct pf_next *x = &out->next;
	bool rewrite = IS(op, REWRITE);

	int r = rewrite ? 0 : has_same_entry(b, head, staged, why);
	if (r != 0)
		return r < 0 ? r : 0;
	r = read_history(b, head, &ours, why);
	if (r == 0)
		r = read_history(b, staged, &theirs, why);
	if (r < 0)
		return r;
	needed = calloc(ours.n_records + 1, sizeof(*needed));
	if (!needed)
		return -ENOMEM;
	struct merging m = {
		.b = b,
		.head = head,
		.x = x,
		.ours = &ours,
		.theirs = &theirs,
		.adds = rewrite,
		.needed = needed,
	};
	int missing = find_missing(&m);
	if (missing < 0 || (missing == 0 && !rewrite))
		return missing;
	r = pf_next_init_staged(x, pf_branch_store(b), head, staged, why);
	if (r == 0 && rewrite)
		r = ask_gate(b, op, &theirs, x, why);
	/* What the gate wrote has all records of the head. */
	if (r == 0 && missing && !x->indices_changed)
		r = carry_records(&m, why);
	return r < 0 ? r : pf_next_finish_staged(x, &out->splice, &out->writer_flags);
}

/* A client understands one refusal; what is wrong with storage or stored bytes is another matter. */
static int refusal(int r)
{
	return r == -EBUSY || r == -EAGAIN || r == -EINVAL || r == -EOPNOTSUPP ? -EPERM : r;
}

int pf_carry(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
	     const struct pf_operation *op, struct pf_carry *out, struct pf_why *why)
{
	/* In its place from the start: the splice points into it. */
	*out = (struct pf_carry){ .writer_flags = staged->writer_flags };
	int r = pf_carry_pins(b, head, staged, &out->pins, why);
	/* The history that results from these is that of the data they bring back, or of none. */
	if (r == 0 && head->pins.n && !IS(op, RESTORE) && !IS(op, OVERWRITE))
		r = carry(b, head, staged, op, out, why);
	if (r < 0) {
		pf_carry_release(out);
		*out = (struct pf_carry){ .pins = PF_PINS_INIT };
	}
	return refusal(r);
}
