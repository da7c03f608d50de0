#include "lived.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri.h"

#include "dice.h"
#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "world.h"

#define BIT_10	(UINT64_C(1) << 10)
#define NOWHERE UINT64_MAX

uint64_t lived_bit(unsigned i)
{
	return UINT64_C(1) << i;
}

uint64_t lived_alive(const struct lived *m)
{
	uint64_t set = 0;

	for (unsigned id = 0; id < m->next; id++)
		set |= m->now[id].alive ? lived_bit(id) : 0;
	return set;
}

uint64_t lived_place(unsigned id, unsigned at)
{
	return (uint64_t)id << 32 | at;
}

static void append(struct lived *m)
{
	struct fragment *f = &m->now[m->next++];

	*f = (struct fragment){ .alive = true, .n = 2 + dice(4), .born = m->version + 1 };
	for (unsigned i = 0; i < f->n; i++)
		f->row[i] = m->next_row++;
	assert_true(m->next_row < LIVED_ROWS_MAX);
}

static void delete_some(struct lived *m)
{
	for (unsigned id = 0; id < m->next; id++)
		if (m->now[id].alive && dice(4) == 0 && m->now[id].deleted + 1 < m->now[id].n)
			m->now[id].deleted++;
}

/* --- compactions ------------------------------------------------------------------------------------------------------ */

/* One to three living fragments that are not taken. */
static uint64_t choose(struct lived *m, uint64_t taken)
{
	uint64_t set = 0;
	unsigned wanted = 1 + dice(3);

	for (unsigned id = 0; id < m->next && wanted; id++)
		if (m->now[id].alive && !(taken & lived_bit(id)) && dice(3) == 0) {
			set |= lived_bit(id);
			wanted--;
		}
	return set;
}

/* The rows of a group go into one fragment or two, in their order; its text is appended. */
static void move(struct lived *m, struct record *r, uint64_t from)
{
	struct moving *g = &r->group[r->n++];
	unsigned rows[LIVED_ROWS_MAX], n = 0, done = 0;

	*g = (struct moving){ from, 0 };
	for (unsigned id = 0; id < m->next; id++) {
		struct fragment *f = &m->now[id];

		if (!(from & lived_bit(id)))
			continue;
		f->alive = false;
		pf_buf_addf(&m->text, " %u:%u:%u", id, f->n, f->deleted);
		for (unsigned i = f->deleted; i < f->n; i++) {
			r->from[f->row[i]] = lived_place(id, i);
			rows[n++] = f->row[i];
		}
	}
	pf_buf_addstr(&m->text, " >");
	for (unsigned parts = n > 1 ? 1 + dice(2) : 1; parts; parts--) {
		struct fragment *f = &m->now[m->next];

		*f = (struct fragment){ .alive = true,
					.n = parts == 1 ? n - done : 1 + dice(n - 1),
					.born = m->version + 1 };
		for (unsigned i = 0; i < f->n; i++) {
			f->row[i] = rows[done++];
			r->to[f->row[i]] = lived_place(m->next, i);
		}
		g->to |= lived_bit(m->next);
		pf_buf_addf(&m->text, " %u:%u", m->next++, f->n);
	}
}

/* Lance 14 stamps what is published next with the version before; 12 and 13 with the one that it was planned on, but not on a table with pins. */
static uint64_t make_stamp(struct lived *m, uint64_t from)
{
	uint64_t least = m->n_records ? m->records[m->n_records - 1].stamp : 1;

	if (m->form != V0_OLD_STAMPS || m->n_pins)
		return m->version;
	for (unsigned id = 0; id < m->next; id++)
		if ((from & lived_bit(id)) && m->now[id].born > least)
			least = m->now[id].born;
	return least + dice((unsigned)(m->version - least) + 1);
}

static void compact(struct lived *m)
{
	struct record *r = &m->records[m->n_records];
	uint64_t from = choose(m, 0), more = choose(m, from);

	if (!from)
		return;
	m->tagged |= m->form == TAGGED || (m->form == MIXED && dice(3) == 0);
	*r = (struct record){ .legacy = !m->tagged, .published = m->version + 1 };
	memset(r->from, 0xff, sizeof(r->from));
	memset(r->to, 0xff, sizeof(r->to));
	if (r->legacy) {
		r->stamp = make_stamp(m, from | more);
		pf_buf_addf(&m->text, "L%u", (unsigned)r->stamp);
	} else {
		pf_buf_addch(&m->text, dice(3) ? 'T' : 'P');
	}
	move(m, r, from);
	if (r->legacy && more) {
		pf_buf_addstr(&m->text, " |");
		move(m, r, more);
	}
	pf_buf_addch(&m->text, ';');
	assert_non_null(pf_buf_str(&m->text));
	m->n_records++;
}

/* --- indices ---------------------------------------------------------------------------------------------------------- */

uint64_t lived_translate(const struct lived *m, uint64_t addr, uint64_t records)
{
	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned row = 0; (records & lived_bit(i)) && row < m->next_row; row++)
			if (m->records[i].from[row] == addr && addr != NOWHERE) {
				addr = m->records[i].to[row];
				break;
			}
	return addr;
}

uint64_t lived_carry(const struct lived *m, uint64_t covers, uint64_t records)
{
	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned k = 0; (records & lived_bit(i)) && k < m->records[i].n; k++) {
			const struct moving *g = &m->records[i].group[k];
			bool all = (covers & g->from) == g->from;
			covers = (covers & ~g->from) | (all ? g->to : 0);
		}
	return covers;
}

static void build_segment(struct lived *m, struct segment *s)
{
	uint64_t alive = lived_alive(m);
	bool whole = dice(2);

	*s = (struct segment){ .name = (char)('a' + dice(2)),
			       .has_bitmap = dice(12),
			       .usable = dice(8),
			       .version = m->version,
			       .serial = ++m->serial };
	memset(s->at, 0xff, sizeof(s->at));
	for (unsigned id = 0; id < m->next; id++) {
		const struct fragment *f = &m->now[id];
		if (!(alive & lived_bit(id)) || (!whole && dice(3) == 0))
			continue;
		s->covers |= lived_bit(id);
		for (unsigned i = f->deleted; i < f->n; i++)
			s->at[f->row[i]] = lived_place(id, i);
	}
}

/* Often in place of all others of its name. */
static void attach(struct lived *m, const struct segment *s)
{
	bool rebuilt = dice(2);

	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++)
		if (m->segments[i].name == s->name && rebuilt)
			m->segments[i].name = '\0';
	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++)
		if (!m->segments[i].name) {
			m->segments[i] = *s;
			return;
		}
}

/* Its payload and its bitmap follow, and it is as young as the version that this was done on. */
static void remap(struct lived *m, struct segment *s)
{
	for (unsigned row = 0; row < m->next_row; row++)
		s->at[row] = lived_translate(m, s->at[row], ~UINT64_C(0));
	s->covers = lived_carry(m, s->covers, ~UINT64_C(0)) & lived_alive(m);
	s->version = m->version;
	s->serial = ++m->serial;
}

static void change_indices(struct lived *m)
{
	struct segment one;

	switch (dice(6)) {
	case 0:
		build_segment(m, &one);
		attach(m, &one);
		break;
	case 1:
		build_segment(m, &m->building);
		break;
	case 2:
		if (m->building.name)
			attach(m, &m->building);
		m->building.name = '\0';
		break;
	case 3:
		remap(m, &m->segments[dice(LIVED_SEGMENTS_MAX)]);
		break;
	default:
		break;
	}
	/* What Lance 14 does with each ordinary commit to a history of version 0: the bitmaps follow, the payloads do not (correction 3). */
	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX && !m->tagged && dice(3) == 0; i++)
		m->segments[i].covers = lived_carry(m, m->segments[i].covers, ~UINT64_C(0));
}

/* --- on disk ---------------------------------------------------------------------------------------------------------- */

void lived_encode(uint64_t set, struct pf_buf *out)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	uint32_t ids[LIVED_IDS_MAX];
	size_t n = 0;

	for (unsigned id = 0; id < LIVED_IDS_MAX; id++)
		if (set & lived_bit(id))
			ids[n++] = id;
	assert_int_equal(pf_bitmap_from(ids, n, &b), 0);
	assert_int_equal(pf_bitmap_encode(b, out), 0);
}

uint64_t lived_mentions(const struct lived *m, uint64_t records)
{
	uint64_t set = 0;

	for (unsigned i = 0; i < m->n_records; i++)
		for (unsigned k = 0; (records & lived_bit(i)) && k < m->records[i].n; k++) {
			const struct moving *g = &m->records[i].group[k];
			set = m->tagged ? set | g->from | g->to : (set & ~g->from) | g->to;
		}
	return set;
}

static void put_indices(struct lived *m, struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT, covers = PF_BUF_INIT;
	char uuid[PF_UUID_TEXT], path[128];

	for (unsigned i = 0; i < LIVED_SEGMENTS_MAX; i++) {
		_cleanup_(pf_buf_release) struct pf_buf bitmap = PF_BUF_INIT;
		const struct segment *s = &m->segments[i];
		const char name[] = { s->name, '\0' };
		if (!s->name)
			continue;
		lived_encode(s->covers, &bitmap);
		moves_index(&(struct moves_index){ .name = name,
						   .uuid = 1000 + s->serial,
						   .type = s->usable ? "/lance.table.BTreeIndexDetails" : "/x.Y",
						   .bitmap = s->has_bitmap ? &bitmap : NULL,
						   .dataset_version = s->version },
			    section);
		snprintf(path, sizeof(path), "_indices/%s/x", moves_uuid(1000 + s->serial, uuid));
		assert_int_equal(pf_store_mem_put(m->st, path, "x", 1), 0);
	}
	if (m->n_records == 0)
		return;
	moves_content((char *)m->text.data, &content);
	moves_details_inline(&content, &details);
	lived_encode(lived_mentions(m, ~UINT64_C(0)), &covers);
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = m->version,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .bitmap = &covers,
					   .dataset_version = m->version - 1,
					   .index_version = m->tagged },
		    section);
}

static void publish(struct lived *m)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, section = PF_BUF_INIT;
	uint64_t tagged = m->tagged ? BIT_10 : 0;

	m->version++;
	m->alive[m->version] = lived_alive(m);
	prepared_body("Project c0 c1 c2", &extra);
	for (unsigned id = 0; id < m->next; id++)
		if (m->now[id].alive) {
			prepared_fragment(&extra, 2, id, "x.lance", m->now[id].n, m->now[id].deleted);
			if (m->now[id].deleted)
				prepared_deletions(m->st, id, m->now[id].deleted);
		}
	assert_int_equal(pf_store_mem_put(m->st, "data/x.lance", "x", 1), 0);
	assert_int_equal(pf_wire_put_u64(&extra, 11, m->next - 1), 0);
	put_indices(m, &section);
	const struct table_version t = { .version = m->version,
					 .reader_flags = tagged,
					 .writer_flags = BIT_PINS | tagged,
					 .extra = &extra,
					 .index = section.len ? &section : NULL };
	pinned_put(m->st, &t, &(struct pinned){ .pins = m->n_pins ? m->pins : NULL });
}

/* Somebody cleaned up: nobody knows any more which of the oldest versions had which records. */
static void clean(struct lived *m)
{
	uint64_t upto = m->n_pins ? (uint64_t)(m->pins[0] - 'a') + 1 : m->version;
	char name[TABLE_NAME_MAX];

	for (; m->first + 1 < upto && dice(3); m->first++)
		assert_int_equal(pf_store_mem_del(m->st, table_manifest_name(
								 &(struct table_version){ .version = m->first }, name)),
				 0);
}

void lived_new(struct lived *m, unsigned round)
{
	static const struct table_version none = { .version = 1 };

	*m = (struct lived){ .form = (enum form)(round % FORMS), .st = table_new(0, &none), .first = 1 };
	append(m);
	append(m);
	publish(m);
	while (m->version < LIVED_STEPS) {
		/* Pin a is of version 1, b of 2 and so on: it is there from the next version on. */
		if (m->n_pins < LIVED_PINS_MAX && m->version < 7 && dice(5) == 0)
			m->pins[m->n_pins++] = (char)('a' + m->version - 1);
		/* What is built or compacted is of the version before. */
		change_indices(m);
		if (dice(2))
			compact(m);
		if (dice(3) == 0)
			append(m);
		delete_some(m);
		publish(m);
	}
	if (dice(3) == 0)
		clean(m);
}

void lived_release(struct lived *m)
{
	pf_store_free(m->st);
	pf_buf_release(&m->text);
}
