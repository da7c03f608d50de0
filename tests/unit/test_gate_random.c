/* The compaction gate on random histories, against a model that knows nothing of how core does it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/fri_write.h"
#include "core/work.h"

#include "dice.h"
#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "whole.h"
#include "world.h"

#define SEED	 20261129
#define ROUNDS	 600
#define IDS_MAX	 64
#define STEPS	 8
#define UUID	 "12345678-1111-4222-8333-444444444444"
#define BIT_10	 (UINT64_C(1) << 10)
#define PINS_MAX 3

enum form { V0, TAGGED, MIXED };

struct fragment {
	bool alive;
	unsigned rows, deleted;
};

/* One group of one record. */
struct moving {
	unsigned record;
	uint64_t from, to; /* sets of ids, as bits */
};

struct model {
	enum form form;
	struct pf_store *st;
	struct fragment now[IDS_MAX];
	unsigned next;
	struct pf_buf text; /* of the history, moves.h */
	struct moving moves[2 * STEPS];
	unsigned n_moves, n_records;
	uint64_t version;
	uint64_t alive[2 * STEPS]; /* of each version */
	char pins[PINS_MAX + 1];
	unsigned n_pins;
};

static uint64_t bit(unsigned id)
{
	return UINT64_C(1) << id;
}

static uint64_t living(const struct model *m)
{
	uint64_t set = 0;

	for (unsigned id = 0; id < m->next; id++)
		if (m->now[id].alive)
			set |= bit(id);
	return set;
}

static void put_section(const struct model *m, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT, bitmap = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	uint32_t ids[IDS_MAX];
	size_t n = 0;

	if (m->n_records == 0)
		return;
	moves_content((char *)m->text.data, &content);
	moves_details_inline(&content, &details);
	for (unsigned id = 0; id < m->next; id++)
		for (unsigned i = 0; i < m->n_moves; i++)
			if ((m->moves[i].to | (m->form ? m->moves[i].from : 0)) & bit(id)) {
				ids[n++] = id;
				break;
			}
	assert_int_equal(pf_bitmap_from(ids, n, &b), 0);
	assert_int_equal(pf_bitmap_encode(b, &bitmap), 0);
	const struct moves_index x = { .name = "__lance_frag_reuse",
				       .uuid = m->version,
				       .type = MOVES_FRI_TYPE,
				       .details = &details,
				       .bitmap = &bitmap,
				       .dataset_version = m->version - 1,
				       .index_version = m->form != V0 };
	moves_index(&x, out);
}

static void publish(struct model *m)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, section = PF_BUF_INIT;
	uint64_t tagged = m->form == V0 ? 0 : BIT_10;
	char name[32];

	m->version++;
	m->alive[m->version] = living(m);
	prepared_body("Project c0 c1 c2", &extra);
	for (unsigned id = 0; id < m->next; id++) {
		snprintf(name, sizeof(name), "%u.lance", id);
		if (!m->now[id].alive)
			continue;
		prepared_fragment(&extra, 2, id, name, m->now[id].rows, m->now[id].deleted);
		if (m->now[id].deleted)
			prepared_deletions(m->st, id, m->now[id].deleted);
	}
	assert_int_equal(pf_wire_put_u64(&extra, 11, m->next - 1), 0);
	put_section(m, &section);
	const struct table_version t = { .version = m->version,
					 .reader_flags = tagged,
					 .writer_flags = BIT_PINS | tagged,
					 .extra = &extra,
					 .index = m->n_records ? &section : NULL };
	const struct pinned p = { .pins = m->n_pins ? m->pins : NULL };
	pinned_put(m->st, &t, &p);
}

static void append(struct model *m)
{
	m->now[m->next++] = (struct fragment){ true, 2 + dice(6), 0 };
}

/* One or two living fragments that are not taken yet; 0: there is none. */
static uint64_t choose(const struct model *m, uint64_t taken)
{
	uint64_t set = 0;
	unsigned want = 1 + dice(2);

	for (unsigned id = 0; id < m->next && want; id++)
		if (m->now[id].alive && !(taken & bit(id)) && dice(3) == 0) {
			set |= bit(id);
			want--;
		}
	return set;
}

static unsigned describe(const struct model *m, uint64_t from, struct pf_buf *out)
{
	unsigned rows = 0;

	for (unsigned id = 0; id < m->next; id++) {
		const struct fragment *f = &m->now[id];
		if (!(from & bit(id)))
			continue;
		rows += f->rows - f->deleted;
		assert_int_equal(pf_buf_addf(out, f->deleted ? " %u:%u:%u" : " %u:%u", id, f->rows, f->deleted), 0);
	}
	return rows;
}

/* A recorded compaction, published in the next version. */
static void compact(struct model *m)
{
	uint64_t from = choose(m, 0), more = choose(m, from);
	bool legacy = m->form == V0 || (m->form == MIXED && m->version < STEPS / 2);

	if (!from)
		return;
	if (!legacy)
		more = 0;
	assert_int_equal(legacy ? pf_buf_addf(&m->text, "L%u", (unsigned)m->version) : pf_buf_addstr(&m->text, "T"), 0);
	for (uint64_t set = from; set; set = set == from ? more : 0) {
		unsigned rows = describe(m, set, &m->text);
		assert_int_equal(pf_buf_addf(&m->text, " > %u:%u %s", m->next, rows, set == from && more ? "|" : ";"),
				 0);
		m->moves[m->n_moves++] = (struct moving){ m->n_records, set, bit(m->next) };
		for (unsigned id = 0; id < m->next; id++)
			if (set & bit(id))
				m->now[id].alive = false;
		m->now[m->next++] = (struct fragment){ true, rows, 0 };
	}
	m->n_records++;
	assert_non_null(pf_buf_str(&m->text));
}

static void build(struct model *m)
{
	static const struct table_version none = { .version = 1 };

	*m = (struct model){ .form = (enum form)dice(3), .st = table_new(0, &none), .text = PF_BUF_INIT };
	append(m);
	append(m);
	for (unsigned step = 0; step < STEPS; step++) {
		if (dice(2))
			append(m);
		for (unsigned id = 0; id < m->next; id++)
			if (m->now[id].alive && dice(5) == 0 && m->now[id].deleted + 1 < m->now[id].rows)
				m->now[id].deleted++;
		if (step && dice(2))
			compact(m);
		/* Pin a is of version 1, b of 2 and so on: it is there from the next version on. */
		if (step && m->n_pins < PINS_MAX && m->version < 7 && dice(4) == 0)
			m->pins[m->n_pins++] = (char)('a' + m->version - 1);
		publish(m);
	}
}

static void release(struct model *m)
{
	pf_store_free(m->st);
	pf_buf_release(&m->text);
}

/* What pin p reaches: whole records, again and again until nothing is added. */
static uint64_t reached_by(const struct model *m, char p)
{
	uint64_t reached = m->alive[p - 'a' + 1], records = 0, before;

	do {
		before = records;
		for (unsigned i = 0; i < m->n_moves; i++)
			if (m->moves[i].from & reached)
				records |= bit(m->moves[i].record);
		for (unsigned i = 0; i < m->n_moves; i++)
			if (records & bit(m->moves[i].record))
				reached |= m->moves[i].to;
	} while (records != before);
	return reached;
}

/* A Rewrite of these groups; of which some say their rows. */
struct rewrite {
	uint64_t from[2];
	bool says[2], backwards[2];
	unsigned n;
	struct pf_operation o;
	struct pf_moved moved;
};

static void put_group(const struct model *m, struct rewrite *w, unsigned g, struct pf_buf *body)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;
	struct moves_range v[IDS_MAX];
	char name[32];
	unsigned rows = 0;
	size_t n = 0;

	for (unsigned i = 0; i < m->next; i++) {
		unsigned id = w->backwards[g] ? m->next - 1 - i : i;
		const struct fragment *f = &m->now[id];
		if (!(w->from[g] & bit(id)))
			continue;
		snprintf(name, sizeof(name), "%u.lance", id);
		prepared_fragment(&group, 1, id, name, f->rows, f->deleted);
		v[n++] = (struct moves_range){ id, f->deleted, f->rows - 1 };
		rows += f->rows - f->deleted;
	}
	prepared_fragment(&group, 2, 0, "new.lance", rows, 0);
	assert_int_equal(pf_wire_put_bytes(body, 3, group.data, group.len), 0);
	if (w->says[g])
		moves_treemap(v, n, &w->moved.v[g]);
}

static void prepare(const struct model *m, struct rewrite *w)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, bytes = PF_BUF_INIT;
	uint64_t taken = 0;

	*w = (struct rewrite){ .n = 0 };
	w->moved.v = calloc(2, sizeof(*w->moved.v));
	assert_non_null(w->moved.v);
	w->moved.n = 2;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t set = choose(m, taken);
		while (!set && i == 0)
			set = choose(m, taken);
		if (!set)
			continue;
		taken |= set;
		w->from[w->n] = set;
		w->says[w->n] = dice(2);
		w->backwards[w->n] = !w->says[w->n] && dice(2);
		put_group(m, w, w->n, &body);
		w->n++;
	}
	/* Planned at any time: pins that were registered since count as well. */
	assert_int_equal(pf_wire_put_u64(&bytes, 1, 1 + dice((uint32_t)m->version)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 2, UUID, strlen(UUID)), 0);
	assert_int_equal(pf_wire_put_bytes(&bytes, 104, body.data, body.len), 0);
	assert_int_equal(pf_operation_decode(&bytes, &w->o, NULL), 0);
}

/* Rows of fragments that are not in their order cannot be told; those of one fragment are. */
static bool known(const struct rewrite *w, unsigned g)
{
	return !w->backwards[g] || (w->from[g] & (w->from[g] - 1)) == 0;
}

/* What the gate is to say, and which groups it is to record. */
static int expected(const struct model *m, const struct rewrite *w, unsigned *records)
{
	bool must[2] = { false }, any = false;
	int r = 0;

	*records = 0;
	for (unsigned g = 0; g < w->n; g++) {
		for (unsigned p = 0; p < m->n_pins; p++)
			must[g] |= (w->from[g] & reached_by(m, m->pins[p])) != 0;
		bool pinned = must[g];
		for (unsigned i = 0; m->form != V0 && i < m->n_moves; i++)
			must[g] |= (w->from[g] & (m->moves[i].from | m->moves[i].to)) != 0;
		/* Version 0 records all that it can while there are pins. */
		any |= must[g] || (m->form == V0 && m->n_pins && known(w, g));
		if (must[g] && !known(w, g) && r == 0)
			r = pinned ? -EBUSY : -EAGAIN;
	}
	for (unsigned g = 0; any && g < w->n; g++)
		*records += known(w, g);
	return r;
}

/* All live rows were moved, whether it was said or the deletion files were read. */
static void check_rows(const struct model *m, uint64_t from, const struct pf_fri *f, const struct pf_fri_group *g)
{
	_cleanup_(pf_rows_release) struct pf_rows rows = { NULL };

	assert_int_equal(pf_rows_decode(f->content.data + g->rows.off, g->rows.len, false, &rows, NULL), 0);
	for (unsigned id = 0; id < m->next; id++) {
		const struct pf_bitmap *moved = pf_rows_of(&rows, id);
		assert_int_equal(moved != NULL, (from & bit(id)) != 0);
		for (uint32_t row = 0; moved && row < m->now[id].rows; row++)
			assert_int_equal(pf_bitmap_has(moved, row), row >= m->now[id].deleted);
	}
}

/* The records that were there are there, byte for byte; then those of the groups. */
static void check_history(const struct model *m, const struct rewrite *w, struct pf_branch *b, unsigned records)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf old = PF_BUF_INIT;
	unsigned g = 0;

	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(head->pins.n, m->n_pins);
	int r = pf_fri_read_branch(b, head, &f, NULL);
	if (m->n_records == 0 && records == 0) {
		assert_int_equal(r, -ENODATA);
		return;
	}
	assert_int_equal(r, 0);
	if (m->n_records)
		moves_content((char *)m->text.data, &old);
	assert_true(f.content.len >= old.len);
	if (old.len)
		assert_memory_equal(f.content.data, old.data, old.len);
	assert_int_equal(f.index_version, m->form != V0);
	assert_int_equal(f.n_groups, m->n_moves + records);
	for (size_t i = m->n_moves; i < f.n_groups; i++, g++) {
		uint64_t from = 0;
		while (!known(w, g))
			g++;
		for (size_t k = 0; k < f.groups[i].n_from; k++)
			from |= bit((unsigned)f.groups[i].from[k].id);
		assert_int_equal(from, w->from[g]);
		check_rows(m, from, &f, &f.groups[i]);
		assert_int_equal(f.groups[i].n_to, 1);
		assert_int_equal(f.groups[i].to[0].id, m->next + g);
		const struct pf_fri_record *record = &f.records[f.groups[i].record];
		assert_int_equal(record->legacy, m->form == V0);
		if (record->legacy)
			assert_int_equal(record->stamp, head->version - 1);
	}
}

static void the_gate(void **state)
{
	unsigned passed = 0, refused = 0;

	dice_seed(SEED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
		struct pf_work_result result;
		struct pf_why why = PF_WHY_INIT;
		struct rewrite w;
		struct model m;
		unsigned records;

		build(&m);
		pf_store_mem_put(m.st, "data/new.lance", "x", 1);
		prepare(&m, &w);
		int want = expected(&m, &w, &records);
		struct pf_work work = { .operation = &w.o, .moved = &w.moved, .dry_run = true };
		assert_int_equal(pf_branch_open(m.st, NULL, &b, NULL), 0);
		/* Whoever asks beforehand is told the same, and nothing happens. */
		assert_int_equal(pf_work_commit(b, &work, &result, NULL), want);
		work.dry_run = false;
		int r = pf_work_commit(b, &work, &result, &why);
		assert_true(r < 0 || result.version == m.version + 1);
		if (r != want)
			fail_msg("round %u: %d, expected %d: %s", round, r, want, why.text);
		if (r == 0)
			check_history(&m, &w, b, records);
		if (r == -EBUSY)
			assert_true(strstr(why.text, "replan") && strstr(why.text, "pin"));
		passed += r == 0;
		refused += r == -EBUSY;
		pf_operation_release(&w.o);
		pf_moved_release(&w.moved);
		release(&m);
	}
	assert_true(passed > ROUNDS / 10 && refused > ROUNDS / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_gate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
