/*
 * The trim on random tables (lived.h). What is kept is what a model says that tries everything; no index answers less than it did, by the names of rows; and
 * what is kept is byte for byte what it was. Cases A26, A31, E08.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/trim.h"

#include "dice.h"
#include "lived.h"
#include "moves.h"
#include "pinned.h"
#include "world.h"

#define SEED   20261130
#define ROUNDS 800
#define BIT_10 (UINT64_C(1) << 10)

/* --- what is to be kept ----------------------------------------------------------------------------------------------- */

/* The version before the one that published a record, as far as the versions that are there tell. */
static uint64_t known_stamp(const struct lived *m, const struct record *r)
{
	uint64_t seen = r->published > m->first ? r->published : m->first;

	if (seen <= r->stamp)
		seen = r->stamp + 1;
	return seen - 1;
}

/* By its stamp an index is younger than a record, and has some of its sources: Lance takes it for broken. */
static bool looks_broken(const struct lived *m)
{
	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned s = 0; m->records[i].legacy && s < LIVED_SEGMENTS_MAX; s++)
			for (unsigned k = 0; k < m->records[i].n; k++) {
				const struct segment *x = &m->segments[s];
				uint64_t from = m->records[i].group[k].from, has = x->covers & from;
				if (x->name && x->has_bitmap && x->version > m->records[i].stamp && has && has != from)
					return true;
			}
	return false;
}

static bool index_needs_legacy(const struct lived *m, const struct segment *s, const struct record *r)
{
	uint64_t chain = 0;

	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned k = 0; m->records[i].legacy && k < m->records[i].n; k++)
			chain |= m->records[i].group[k].from | m->records[i].group[k].to;
	if (s->has_bitmap && !(s->covers & chain))
		return false;
	if (s->version <= known_stamp(m, r))
		return true;
	for (unsigned k = 0; s->has_bitmap && k < r->n; k++)
		if (s->covers & r->group[k].from)
			return true;
	return false;
}

static bool index_needs_transition(const struct lived *m, char name, const struct record *r)
{
	uint64_t rows_of = 0, answered = 0;

	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++) {
		const struct segment *s = &m->segments[i];
		if (s->name != name || !s->has_bitmap)
			continue;
		rows_of |= s->covers;
		answered |= s->usable ? s->covers : 0;
	}
	return (rows_of & r->group[0].from) && (r->group[0].to & ~answered);
}

/* And whatever moves on what these have moved. */
static uint64_t followed(const struct lived *m, uint64_t records)
{
	uint64_t before;

	do {
		uint64_t made = 0;

		before = records;
		for (unsigned i = 0; i < m->n_records; i++)
			for (unsigned k = 0; (records & lived_bit(i)) && k < m->records[i].n; k++)
				made |= m->records[i].group[k].to;
		for (unsigned i = 0; i < m->n_records; i++)
			for (unsigned k = 0; k < m->records[i].n; k++)
				if (m->records[i].group[k].from & made)
					records |= lived_bit(i);
	} while (records != before);
	return records;
}

static uint64_t needed_by_indices(const struct lived *m)
{
	uint64_t records = 0;

	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned k = 0; k < LIVED_SEGMENTS_MAX; k++)
			if (m->segments[k].name &&
			    (m->records[i].legacy ? index_needs_legacy(m, &m->segments[k], &m->records[i])
						  : index_needs_transition(m, m->segments[k].name, &m->records[i])))
				records |= lived_bit(i);
	return m->tagged ? followed(m, records) : records;
}

static uint64_t needed_by_pin(const struct lived *m, char pin)
{
	uint64_t source = (uint64_t)(pin - 'a') + 1, records = 0;

	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned k = 0; k < m->records[i].n; k++)
			if (m->tagged ? (m->records[i].group[k].from & m->alive[source]) != 0
				      : m->records[i].stamp >= source)
				records |= lived_bit(i);
	return m->tagged ? followed(m, records) : records;
}

/* --- what is kept ----------------------------------------------------------------------------------------------------- */

/* Each index answers for as many fragments as before, and each row of these with the right address. */
static void check_answers(const struct lived *m, uint64_t kept, unsigned round)
{
	for (char name = 'a'; name <= 'b'; name++) {
		uint64_t before = 0, after = 0;
		for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++) {
			const struct segment *s = &m->segments[i];
			if (s->name != name || !s->usable || !s->has_bitmap)
				continue;
			before |= lived_carry(m, s->covers, ~UINT64_C(0)) & lived_alive(m);
			after |= lived_carry(m, s->covers, kept) & lived_alive(m);
		}
		if (after != before)
			fail_msg("round %u: index %c answers for %lx, was %lx", round, name, after, before);
	}
	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++) {
		const struct segment *s = &m->segments[i];
		uint64_t covers = lived_carry(m, s->covers, kept);
		for (unsigned id = 0; s->name && s->has_bitmap && id < m->next; id++)
			for (unsigned k = m->now[id].deleted;
			     (covers & lived_bit(id)) && m->now[id].alive && k < m->now[id].n; k++)
				if (lived_translate(m, s->at[m->now[id].row[k]], kept) != lived_place(id, k))
					fail_msg("round %u: row %u of index %c", round, m->now[id].row[k], s->name);
	}
}

/* The entries of indices, but for that of the history, as they stand in the file. */
static void other_entries(const struct lived *m, struct pf_branch *b, uint64_t version, struct pf_buf *out)
{
	_cleanup_(pf_indices_release) struct pf_indices l = { NULL };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *x = NULL;
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	assert_int_equal(pf_branch_version(b, version, &x, NULL), 0);
	assert_int_equal(pf_indices_read(m->st, x, &l, NULL), 0);
	assert_int_equal(pf_store_get(m->st, x->name, 1 << 20, &bytes), 0);
	for (size_t i = 0; i < l.n; i++)
		if (strcmp(l.v[i].name, PF_FRI_NAME) != 0)
			pf_buf_add(out, bytes.data + l.v[i].off, l.v[i].len);
}

/* The new entry: of its own id, with the records that are kept and a bitmap of what they mention. */
static void check_entry(const struct lived *m, struct pf_branch *b, const struct pf_manifest *head,
			const struct pf_fri *before, uint64_t kept)
{
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT, covers = PF_BUF_INIT;
	_cleanup_(pf_indices_release) struct pf_indices l = { NULL };
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	const struct pf_index *x;
	char old[PF_UUID_TEXT];

	int r = pf_fri_read_branch(b, head, &f, NULL);
	/* As Lance leaves it: an empty entry of version 0, none of a tagged one. */
	assert_int_equal(r, m->tagged && kept == 0 ? -ENODATA : 0);
	for (unsigned i = 0; i < m->n_records; i++)
		if (kept & lived_bit(i))
			pf_buf_add(&want, before->content.data + before->records[i].off, before->records[i].len);
	assert_int_equal(f.content.len, want.len);
	if (want.len)
		assert_memory_equal(f.content.data, want.data, want.len);
	if (r < 0)
		return;
	assert_int_equal(f.index_version, m->tagged);
	assert_int_equal(f.dataset_version, head->version - 1);
	assert_string_not_equal(f.uuid, moves_uuid(m->version, old));
	assert_int_equal(pf_indices_read(m->st, head, &l, NULL), 0);
	assert_int_equal(pf_fri_entry(&l, &x, NULL), 0);
	lived_encode(lived_mentions(m, kept), &covers);
	assert_int_equal(x->bitmap.len, covers.len);
	assert_memory_equal(x->bitmap.data, covers.data, covers.len);
}

/* Bit 0, which each commit makes anew. */
static uint64_t has_deletions(const struct lived *m)
{
	for (unsigned id = 0; id < m->next; id++)
		if (m->now[id].alive && m->now[id].deleted)
			return 1;
	return 0;
}

struct counts {
	unsigned kept, dropped, nothing, by_index, older, broken;
};

static void check_trim(const struct lived *m, unsigned round, struct counts *c)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT, content = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_fri_release) struct pf_fri before = { 0 };
	uint64_t indexed = needed_by_indices(m), pinned = 0, all = lived_bit(m->n_records) - 1;
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	for (unsigned p = 0; p < m->n_pins; p++)
		pinned |= needed_by_pin(m, m->pins[p]);
	uint64_t keep = indexed | pinned;
	assert_int_equal(pf_branch_open(m->st, NULL, &b, NULL), 0);
	int r = pf_trim(b, &(struct pf_trim_options){ .apply = true }, &t, &result, &why);
	if (r != (looks_broken(m) ? -EBADMSG : 0))
		fail_msg("round %u: %d: %s", round, r, why.text);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	if (r < 0) {
		assert_int_equal(head->version, m->version);
		c->broken++;
		return;
	}
	assert_int_equal(t.history.n_records, m->n_records);
	for (unsigned i = 0; i < m->n_records; i++) {
		if (t.keep[i] != ((keep & lived_bit(i)) != 0) || t.indexed[i] != ((indexed & lived_bit(i)) != 0))
			fail_msg("round %u: record %u: kept %d, for an index %d", round, i, t.keep[i], t.indexed[i]);
		for (size_t p = 0; p < t.pins.n; p++)
			assert_int_equal(pf_trim_needs(&t, &t.pins.v[p], i),
					 (needed_by_pin(m, pinned_letter(&t.pins.v[p].id)) & lived_bit(i)) != 0);
		c->kept += (keep & lived_bit(i)) != 0;
		c->dropped += !(keep & lived_bit(i));
		c->by_index += (indexed & ~pinned & lived_bit(i)) != 0;
		for (unsigned k = 0; k < LIVED_SEGMENTS_MAX; k++)
			c->older += m->segments[k].name && m->records[i].legacy && (keep & lived_bit(i)) &&
				    m->segments[k].version > m->records[i].stamp &&
				    m->segments[k].version < m->records[i].published;
	}
	check_answers(m, keep, round);
	assert_int_equal(head->version, m->version + (keep != all));
	assert_int_equal(result.version, keep == all ? 0 : m->version + 1);
	c->nothing += keep == all;
	if (keep == all)
		return;
	assert_int_equal(head->pins.n, m->n_pins);
	assert_int_equal(head->writer_flags, BIT_PINS | has_deletions(m) | (m->tagged ? BIT_10 : 0));
	other_entries(m, b, m->version, &was);
	other_entries(m, b, head->version, &is);
	assert_int_equal(is.len, was.len);
	if (is.len)
		assert_memory_equal(is.data, was.data, is.len);
	moves_content((char *)m->text.data, &content);
	assert_int_equal(pf_fri_decode(&content, m->tagged, &before, NULL), 0);
	check_entry(m, b, head, &before, keep);
}

static void random_tables(void **state)
{
	static struct lived m;
	struct counts c = { 0 };

	dice_seed(SEED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		lived_new(&m, round);
		check_trim(&m, round, &c);
		lived_release(&m);
	}
	/* They are worth something only if all of it happens. */
	if (c.kept < ROUNDS || c.dropped < ROUNDS || c.nothing < ROUNDS / 20 || c.by_index < ROUNDS / 2 ||
	    c.older < ROUNDS / 50 || c.broken == 0 || c.broken > ROUNDS / 10)
		fail_msg(
			"kept %u, dropped %u, nothing %u, only for an index %u, older than their stamp says %u, broken %u",
			c.kept, c.dropped, c.nothing, c.by_index, c.older, c.broken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
