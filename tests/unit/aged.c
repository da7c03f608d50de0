#include "aged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "dice.h"
#include "moves.h"

struct aged aged;

static void append(void)
{
	struct fragment *f = &aged.now[aged.next_id++];

	f->alive = true;
	f->n = 1 + dice(ROWS_MAX);
	for (unsigned i = 0; i < f->n; i++)
		f->row[i] = aged.next_row++;
}

static void delete_some(void)
{
	for (unsigned id = 0; id < aged.next_id; id++)
		for (unsigned i = 0; i < aged.now[id].n; i++)
			if (aged.now[id].alive && dice(6) == 0)
				aged.now[id].deleted[i] = true;
}

static void describe_fragment(struct pf_buf *out, unsigned id, bool source)
{
	const struct fragment *f = &aged.now[id];
	unsigned deleted = 0;

	for (unsigned i = 0; i < f->n; i++)
		deleted += f->deleted[i];
	pf_buf_addf(out, " %u:%u", id, f->n);
	if (source && deleted)
		pf_buf_addf(out, ":%u", deleted);
}

static int by_number(const void *a, const void *b)
{
	return (int)*(const unsigned *)a - (int)*(const unsigned *)b;
}

/* Move the live rows of a group's sources to new fragments, and say so. */
static void move(struct move *g, struct pf_buf *text)
{
	int rows[ROWS_MAX * LIST_MAX * LIST_MAX];
	unsigned n = 0, sorted[LIST_MAX];
	struct pf_buf named = PF_BUF_INIT;

	for (unsigned i = 0; i < g->n_from; i++) {
		struct fragment *f = &aged.now[g->from[i]];

		describe_fragment(text, g->from[i], true);
		g->rows[i] = f->n;
		for (unsigned k = 0; k < f->n; k++)
			if (!f->deleted[k])
				rows[n++] = f->row[k];
		f->alive = false;
		sorted[i] = g->from[i];
	}
	qsort(sorted, g->n_from, sizeof(sorted[0]), by_number);
	for (unsigned i = 0; i < g->n_from; i++)
		for (unsigned k = 0; k < aged.now[sorted[i]].n; k++)
			if (!aged.now[sorted[i]].deleted[k])
				pf_buf_addf(&named, " %u:%u-%u", sorted[i], k, k);
	pf_buf_addstr(text, " >");
	for (unsigned done = 0; done < n; g->n_to++) {
		struct fragment *f = &aged.now[aged.next_id];
		unsigned left = n - done;

		f->alive = true;
		f->n = g->n_to == LIST_MAX - 1 || left > ROWS_MAX * 3 ? left : 1 + dice(left);
		if (f->n > ARRAY_LEN(f->row))
			f->n = ARRAY_LEN(f->row);
		memcpy(f->row, rows + done, f->n * sizeof(rows[0]));
		done += f->n;
		g->to[g->n_to] = aged.next_id++;
		describe_fragment(text, g->to[g->n_to], false);
	}
	pf_buf_addf(text, " @%s", named.len ? pf_buf_str(&named) : "");
	pf_buf_release(&named);
}

/* Some fragments that are alive, in any order; v0 has them ascending. */
static void choose(struct move *g, bool ascending)
{
	unsigned wanted = 1 + dice(3);

	for (unsigned tries = 0; g->n_from < wanted && tries < 20; tries++) {
		unsigned id = dice(aged.next_id);

		if (aged.now[id].alive && aged.now[id].n <= ROWS_MAX) {
			aged.now[id].alive = false; /* not twice */
			g->from[g->n_from++] = id;
		}
	}
	if (ascending)
		qsort(g->from, g->n_from, sizeof(g->from[0]), by_number);
}

static void compact(bool legacy, bool old_stamps, uint64_t planned)
{
	struct record *r = &aged.records[aged.n_records];
	unsigned n = legacy ? 1 + dice(GROUPS_MAX) : 1;

	*r = (struct record){ .legacy = legacy, .published = aged.version };
	r->stamp = old_stamps ? planned : aged.version - 1;
	if (legacy)
		pf_buf_addf(&r->text, "L%lu", r->stamp);
	else
		pf_buf_addstr(&r->text, "T");
	/* All are chosen before any row is moved: what one makes is no source of another. */
	for (; r->n < n; r->n++) {
		choose(&r->groups[r->n], legacy);
		if (r->groups[r->n].n_from == 0)
			break;
	}
	for (unsigned i = 0; i < r->n; i++) {
		pf_buf_addstr(&r->text, i ? " |" : "");
		move(&r->groups[i], &r->text);
	}
	if (r->n > 0)
		aged.n_records++;
	else
		pf_buf_release(&r->text);
}

/* As writers of 2025 and before did it: ids begin at 0 again, and the history is gone with the indices (lance-maintenance 5.2). */
static void overwrite(void)
{
	memset(aged.now, 0, sizeof(aged.now));
	aged.next_id = 0;
	for (; aged.n_records > 0; aged.n_records--)
		pf_buf_release(&aged.records[aged.n_records - 1].text);
	aged.reborn = aged.pinned;
	for (unsigned i = 1 + dice(4); i > 0; i--)
		append();
}

void aged_new(enum form form, bool reuse)
{
	unsigned steps = 6 + dice(30), switched = dice(steps);

	memset(&aged, 0, sizeof(aged));
	for (unsigned i = 0; i < 3; i++)
		append();
	for (unsigned i = 0; i < steps && aged.n_records < ARRAY_LEN(aged.records) && aged.next_id < IDS_MAX - 10;
	     i++) {
		uint64_t planned = aged.version;

		aged.version++;
		if (!aged.pinned && dice(steps) < 3) {
			aged.pin.version = aged.version - 1;
			memcpy(aged.pin.fragments, aged.now, sizeof(aged.now));
			aged.pinned = true;
		}
		if (reuse && aged.pinned && !aged.reborn && dice(3) == 0)
			overwrite();
		switch (dice(5)) {
		case 0:
			append();
			break;
		case 1:
			delete_some();
			break;
		default:
			/* Planned at some version, published after others. */
			if (form == V0_OLD_STAMPS && dice(2))
				aged.version += dice(3);
			compact(form == V0 || form == V0_OLD_STAMPS || (form == MIXED && i < switched),
				/* No release that stamps so commits to a table with pins. */
				form == V0_OLD_STAMPS && !aged.pinned, planned);
		}
	}
	if (!aged.pinned) {
		aged.pin.version = aged.version;
		memcpy(aged.pin.fragments, aged.now, sizeof(aged.now));
	}
}

void aged_release(void)
{
	for (unsigned i = 0; i < aged.n_records; i++)
		pf_buf_release(&aged.records[i].text);
}

void aged_shuffle(void)
{
	for (unsigned i = 0; i < aged.n_records; i++) {
		unsigned k = i + dice(aged.n_records - i);

		if (aged.records[i].legacy || aged.records[k].legacy)
			continue;
		struct record other = aged.records[i];
		aged.records[i] = aged.records[k];
		aged.records[k] = other;
	}
}

void aged_decode(int32_t version, struct pf_fri *out)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	for (unsigned i = 0; i < aged.n_records; i++)
		pf_buf_addf(&text, "%s%s", i ? "; " : "", pf_buf_str(&aged.records[i].text));
	moves_decode(text.len ? pf_buf_str(&text) : "", version, out);
	assert_int_equal(out->n_records, aged.n_records);
	for (unsigned i = 0; i < aged.n_records; i++)
		if (aged.records[i].legacy)
			out->records[i].published = aged.records[i].published;
}

bool aged_moves(const struct record *r, unsigned id, bool makes)
{
	for (unsigned g = 0; g < r->n; g++) {
		const struct move *m = &r->groups[g];

		for (unsigned k = 0; k < (makes ? m->n_to : m->n_from); k++)
			if ((makes ? m->to : m->from)[k] == id)
				return true;
	}
	return false;
}
