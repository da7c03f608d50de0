/* What clients make of the next version of random tables that have lived (lived.h): they drop records and keep copies that are out of date. Every row of every pinned
 * version is followed to the head by brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/fri_write.h"
#include "core/store_mem.h"

#include "carried.h"
#include "dice.h"
#include "lived.h"
#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "world.h"

#define SEED   20261130
#define ROUNDS 600
#define UUID   "12345678-1111-4222-8333-444444444444"
#define BIT_10 (UINT64_C(1) << 10)
#define GONE   UINT64_MAX

/* The commit that comes. */
struct commit {
	uint64_t version;
	uint64_t from; /* what a compaction takes; 0: an append */
	unsigned to, rows;
	bool says; /* and the client recorded it */
	struct pf_operation o;
};

static void draw(const struct lived *m, struct commit *c)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT, body = PF_BUF_INIT, bytes = PF_BUF_INIT;
	char append[32];

	*c = (struct commit){ .version = m->version + 1, .to = m->next };
	bool moves = dice(3);
	for (unsigned id = 0; moves && id < m->next; id++)
		if (m->now[id].alive && dice(3) == 0)
			c->from |= lived_bit(id);
	if (!c->from) {
		snprintf(append, sizeof(append), "Append n%u:new", c->to);
		c->rows = 10;
		prepared(append, m->version, UUID, &c->o);
		return;
	}
	for (unsigned id = 0; id < m->next; id++) {
		const struct fragment *f = &m->now[id];
		if (!(c->from & lived_bit(id)))
			continue;
		prepared_fragment(&group, 1, id, "x.lance", f->n, f->deleted);
		if (f->deleted)
			prepared_deletions(m->st, id, f->deleted);
		c->rows += f->n - f->deleted;
	}
	prepared_fragment(&group, 2, c->to, "new.lance", c->rows, 0);
	assert_int_equal(pf_wire_put_bytes(&body, 3, group.data, group.len), 0);
	assert_int_equal(pf_wire_put_u64(&bytes, 1, m->version), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	assert_int_equal(pf_operation_decode(&bytes, &c->o, NULL), 0);
}

/* A record as it is, or with the stamp of the version that was planned on. */
static void put_record(const char *record, size_t len, struct pf_buf *text)
{
	unsigned long stamp;
	int used;

	if (record[0] == 'L' && dice(4) == 0) {
		assert_int_equal(sscanf(record, "L%lu%n", &stamp, &used), 1);
		assert_int_equal(pf_buf_addf(text, "L%lu", stamp - dice((uint32_t)stamp)), 0);
		record += used;
		len -= (size_t)used;
	}
	assert_int_equal(pf_buf_add(text, record, len), 0);
	assert_int_equal(pf_buf_addch(text, ';'), 0);
}

/* What the client has of the records, some of them or none; and its own. P in a text is a map by its place: it keeps those all or none. */
static void put_history(const struct lived *m, struct commit *c, struct pf_buf *text)
{
	const char *at = m->n_records ? (const char *)m->text.data : "", *end;
	bool any = dice(4), all = strchr(at, 'P') != NULL;

	for (; any && (end = strchr(at, ';')); at = end + 1)
		if (all || dice(3))
			put_record(at, (size_t)(end - at), text);
	c->says = c->from && dice(2);
	if (!c->says)
		return;
	if (m->tagged)
		pf_buf_addstr(text, "T");
	else
		pf_buf_addf(text, "L%u", (unsigned)m->version - dice(2));
	for (unsigned id = 0; id < m->next; id++)
		if (c->from & lived_bit(id))
			pf_buf_addf(text, m->now[id].deleted ? " %u:%u:%u" : " %u:%u", id, m->now[id].n,
				    m->now[id].deleted);
	pf_buf_addf(text, " > %u:%u;", c->to, c->rows);
}

static struct pf_manifest *stage(const struct lived *m, struct commit *c)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, section = PF_BUF_INIT, text = PF_BUF_INIT,
						content = PF_BUF_INIT, details = PF_BUF_INIT, covers = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *scratch = NULL;
	uint64_t tagged = m->tagged ? BIT_10 : 0;

	prepared_body("Project c0 c1 c2", &extra);
	for (unsigned id = 0; id < m->next; id++)
		if (m->now[id].alive && !(c->from & lived_bit(id)))
			prepared_fragment(&extra, 2, id, "x.lance", m->now[id].n, m->now[id].deleted);
	prepared_fragment(&extra, 2, c->to, "new.lance", c->rows, 0);
	assert_int_equal(pf_wire_put_u64(&extra, 11, c->to), 0);
	put_history(m, c, &text);
	if (text.len) {
		assert_non_null(pf_buf_str(&text));
		moves_content((const char *)text.data, &content);
		moves_details_inline(&content, &details);
		lived_encode(lived_mentions(m, ~UINT64_C(0)), &covers);
		moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
						   .uuid = dice(2) ? m->version : 99,
						   .type = MOVES_FRI_TYPE,
						   .details = &details,
						   .bitmap = dice(2) ? &covers : NULL,
						   .index_version = m->tagged },
			    &section);
	}
	const struct table_version t = { .version = c->version,
					 .reader_flags = tagged,
					 .writer_flags = BIT_PINS | tagged,
					 .extra = &extra,
					 .index = section.len ? &section : NULL };
	assert_int_equal(pf_store_mem_new(&scratch), 0);
	pinned_put(scratch, &t, &(struct pinned){ .pins = NULL });
	return carried_stage(m->st, scratch, c->version, false);
}

static struct pf_span bytes_of(const struct pf_fri *f, size_t record)
{
	return (struct pf_span){ f->content.data + f->records[record].off, (size_t)f->records[record].len };
}

/* The record of the compaction: of all its rows, in their order. */
static void check_own(const struct lived *m, const struct commit *c, const struct pf_fri *f, size_t record)
{
	_cleanup_(pf_rows_release) struct pf_rows rows = { NULL };
	const struct pf_fri_record *r = &f->records[record];
	const struct pf_fri_group *g = r->groups;
	uint64_t from = 0;

	assert_int_equal(record, f->n_records - 1);
	assert_int_equal(r->legacy, !m->tagged);
	if (r->legacy)
		assert_int_equal(r->stamp, m->version);
	assert_int_equal(r->n_groups, 1);
	assert_int_equal(g->n_to, 1);
	assert_int_equal(g->to[0].id, c->to);
	for (size_t i = 0; i < g->n_from; i++)
		from |= lived_bit((unsigned)g->from[i].id);
	assert_int_equal(from, c->from);
	assert_int_equal(pf_rows_decode(f->content.data + g->rows.off, g->rows.len, false, &rows, NULL), 0);
	assert_int_equal(pf_rows_count(&rows), c->rows);
	for (unsigned id = 0; id < m->next; id++)
		for (unsigned k = m->now[id].deleted; (from & lived_bit(id)) && k < m->now[id].n; k++)
			assert_true(pf_bitmap_has(pf_rows_of(&rows, id), k));
}

/* Is it a copy that is out of date, of a record that no pin needs? Those stay as the client has them. */
static bool is_copy(const struct lived *m, const struct pf_fri_record *is, const struct pf_fri_record *was)
{
	for (unsigned p = 0; p < m->n_pins; p++)
		if (!is->legacy || !was->legacy || was->stamp >= (uint64_t)(m->pins[p] - 'a') + 1)
			return false;
	return is->groups[0].from[0].id == was->groups[0].from[0].id;
}

/* Which records of before the head has, and whether that of the compaction: no others, and no one twice. */
static uint64_t find_records(const struct lived *m, const struct commit *c, const struct pf_fri *before,
			     const struct pf_fri *after, bool *own)
{
	uint64_t kept = 0;

	*own = false;
	for (size_t i = 0; i < after->n_records; i++) {
		size_t k = 0;
		while (k < before->n_records && !pf_span_eq(bytes_of(after, i), bytes_of(before, k)) &&
		       !is_copy(m, &after->records[i], &before->records[k]))
			k++;
		if (k < before->n_records) {
			assert_false(kept & lived_bit((unsigned)k));
			kept |= lived_bit((unsigned)k);
			continue;
		}
		assert_true(c->from);
		check_own(m, c, after, i);
		*own = true;
	}
	return kept;
}

/* Where a row is after the commit; GONE if it was deleted. */
static uint64_t place_of(const struct lived *m, const struct commit *c, unsigned row)
{
	unsigned at = 0;

	for (unsigned id = 0; id < m->next; id++)
		for (unsigned k = m->now[id].deleted; m->now[id].alive && k < m->now[id].n; k++) {
			bool moved = c->from & lived_bit(id);
			if (m->now[id].row[k] == row)
				return moved ? lived_place(c->to, at) : lived_place(id, k);
			at += moved;
		}
	return GONE;
}

/* The same by the records. */
static uint64_t follow(const struct lived *m, const struct commit *c, uint64_t kept, bool own, uint64_t addr)
{
	unsigned at = 0;

	addr = lived_translate(m, addr, kept);
	for (unsigned id = 0; own && id < m->next; id++)
		for (unsigned k = m->now[id].deleted; (c->from & lived_bit(id)) && k < m->now[id].n; k++, at++)
			if (addr == lived_place(id, k))
				return lived_place(c->to, at);
	return addr;
}

static bool is_live(const struct lived *m, const struct commit *c, uint64_t addr)
{
	unsigned id = (unsigned)(addr >> 32), k = (unsigned)addr;

	if (id == c->to)
		return k < c->rows;
	return id < m->next && m->now[id].alive && !(c->from & lived_bit(id)) && k >= m->now[id].deleted &&
	       k < m->now[id].n;
}

static unsigned check_pins(const struct lived *m, const struct commit *c, uint64_t kept, bool own, unsigned round)
{
	unsigned followed = 0;

	for (unsigned p = 0; p < m->n_pins; p++) {
		uint64_t source = m->alive[m->pins[p] - 'a' + 1];
		for (unsigned id = 0; id < m->next; id++)
			for (unsigned k = 0; (source & lived_bit(id)) && k < m->now[id].n; k++) {
				uint64_t want = place_of(m, c, m->now[id].row[k]);
				uint64_t found = follow(m, c, kept, own, lived_place(id, k));
				if (want != GONE ? found != want : is_live(m, c, found))
					fail_msg("round %u: row %u of pin %c is at %lx, found at %lx", round,
						 m->now[id].row[k], m->pins[p], want, found);
				followed += want != GONE && want != lived_place(id, k);
			}
	}
	return followed;
}

static void read_history(struct pf_store *st, uint64_t version, struct pf_fri *out)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_version(b, version, &m, NULL), 0);
	int r = pf_fri_read_branch(b, m, out, NULL);
	assert_true(r == 0 || r == -ENODATA);
}

/* How many rows of pinned versions were found where they had been moved to. *put: something was put back. */
static unsigned commit(const struct lived *m, unsigned round, bool *changed)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *staged = NULL;
	_cleanup_(pf_fri_release) struct pf_fri before = { 0 }, after = { 0 };
	struct pf_why why = PF_WHY_INIT;
	struct commit c;
	bool own = false;

	pf_store_mem_put(m->st, "data/new.lance", "x", 1);
	draw(m, &c);
	staged = stage(m, &c);
	read_history(m->st, m->version, &before);
	if (carried_commit(m->st, staged, &c.o, changed, &why) < 0)
		fail_msg("round %u: %s", round, why.text);
	read_history(m->st, c.version, &after);
	uint64_t kept = m->n_pins ? find_records(m, &c, &before, &after, &own) : 0;
	pf_operation_release(&c.o);
	assert_true(own || !c.says || !m->n_pins);
	/* Without pins it is the client's own. */
	if (!m->n_pins)
		assert_false(*changed);
	return m->n_pins ? check_pins(m, &c, kept, own, round) : 0;
}

static void every_row_can_be_followed(void **state)
{
	unsigned followed = 0, changes = 0;

	dice_seed(SEED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct lived m;
		bool changed;

		lived_new(&m, round);
		/* Pins were there before there were stamps that lag: whoever publishes beside them stamps anew. */
		if (m.form != V0_OLD_STAMPS) {
			followed += commit(&m, round, &changed);
			changes += changed;
		}
		lived_release(&m);
	}
	assert_true(followed > 2 * ROUNDS && changes > ROUNDS / 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_can_be_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
