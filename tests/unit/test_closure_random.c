/*
 * The closure on thousands of random histories, against models that know nothing of how core does it: tables whose fragments are appended, deleted
 * from and compacted, with rows that keep a name wherever they go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/closure.h"

#include "dice.h"
#include "moves.h"

static void decode(const char *text, int32_t version, struct pf_fri *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	moves_content(text, &bytes);
	if (pf_fri_decode(&bytes, version, out, &why) < 0)
		fail_msg("%s: %s", text, why.text);
}

#define SEED	   20261129
#define ROUNDS	   4000
#define IDS_MAX	   256
#define ROWS_MAX   9
#define GROUPS_MAX 2
#define LIST_MAX   4

/* Rows have names, which they keep wherever they go. */
struct fragment {
	bool alive;
	unsigned n;
	int row[ROWS_MAX * LIST_MAX];
	bool deleted[ROWS_MAX * LIST_MAX];
};

struct move {
	unsigned n_from, n_to, from[LIST_MAX], to[LIST_MAX];
	unsigned rows[LIST_MAX]; /* physical, of each source */
};

struct record {
	bool legacy;
	uint64_t stamp, published;
	struct move groups[GROUPS_MAX];
	unsigned n;
	struct pf_buf text;
};

struct snapshot {
	uint64_t version;
	struct fragment fragments[IDS_MAX];
};

struct world {
	struct fragment now[IDS_MAX];
	unsigned next_id;
	int next_row;
	uint64_t version;
	struct record records[16];
	unsigned n_records;
	struct snapshot pin;
	bool pinned;
	bool reborn; /* since the pin, ids were given a second time */
};

static struct world w;

static void append(void)
{
	struct fragment *f = &w.now[w.next_id++];

	f->alive = true;
	f->n = 1 + dice(ROWS_MAX);
	for (unsigned i = 0; i < f->n; i++)
		f->row[i] = w.next_row++;
}

static void delete_some(void)
{
	for (unsigned id = 0; id < w.next_id; id++)
		for (unsigned i = 0; i < w.now[id].n; i++)
			if (w.now[id].alive && dice(6) == 0)
				w.now[id].deleted[i] = true;
}

static void describe_fragment(struct pf_buf *out, unsigned id, bool source)
{
	const struct fragment *f = &w.now[id];
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
		struct fragment *f = &w.now[g->from[i]];

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
		for (unsigned k = 0; k < w.now[sorted[i]].n; k++)
			if (!w.now[sorted[i]].deleted[k])
				pf_buf_addf(&named, " %u:%u-%u", sorted[i], k, k);
	pf_buf_addstr(text, " >");
	for (unsigned done = 0; done < n; g->n_to++) {
		struct fragment *f = &w.now[w.next_id];
		unsigned left = n - done;

		f->alive = true;
		f->n = g->n_to == LIST_MAX - 1 || left > ROWS_MAX * 3 ? left : 1 + dice(left);
		if (f->n > ARRAY_LEN(f->row))
			f->n = ARRAY_LEN(f->row);
		memcpy(f->row, rows + done, f->n * sizeof(rows[0]));
		done += f->n;
		g->to[g->n_to] = w.next_id++;
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
		unsigned id = dice(w.next_id);

		if (w.now[id].alive && w.now[id].n <= ROWS_MAX) {
			w.now[id].alive = false; /* not twice */
			g->from[g->n_from++] = id;
		}
	}
	if (ascending)
		qsort(g->from, g->n_from, sizeof(g->from[0]), by_number);
}

static void compact(bool legacy, bool old_stamps, uint64_t planned)
{
	struct record *r = &w.records[w.n_records];
	unsigned n = legacy ? 1 + dice(GROUPS_MAX) : 1;

	*r = (struct record){ .legacy = legacy, .published = w.version };
	r->stamp = old_stamps ? planned : w.version - 1;
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
		w.n_records++;
	else
		pf_buf_release(&r->text);
}

/* As writers of 2025 and before did it: ids begin at 0 again, and the history is gone with the indices (lance-maintenance 5.2). */
static void overwrite(void)
{
	memset(w.now, 0, sizeof(w.now));
	w.next_id = 0;
	for (; w.n_records > 0; w.n_records--)
		pf_buf_release(&w.records[w.n_records - 1].text);
	w.reborn = w.pinned;
	for (unsigned i = 1 + dice(4); i > 0; i--)
		append();
}

enum form { V0, V0_OLD_STAMPS, TAGGED, MIXED, FORMS };

static void world_new(enum form form, bool reuse)
{
	unsigned steps = 6 + dice(30), switched = dice(steps);

	memset(&w, 0, sizeof(w));
	for (unsigned i = 0; i < 3; i++)
		append();
	for (unsigned i = 0; i < steps && w.n_records < ARRAY_LEN(w.records) && w.next_id < IDS_MAX - 10; i++) {
		uint64_t planned = w.version;

		w.version++;
		if (!w.pinned && dice(steps) < 3) {
			w.pin.version = w.version - 1;
			memcpy(w.pin.fragments, w.now, sizeof(w.now));
			w.pinned = true;
		}
		if (reuse && w.pinned && !w.reborn && dice(3) == 0)
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
				w.version += dice(3);
			compact(form == V0 || form == V0_OLD_STAMPS || (form == MIXED && i < switched),
				/* No release that stamps so commits to a table with pins. */
				form == V0_OLD_STAMPS && !w.pinned, planned);
		}
	}
	if (!w.pinned) {
		w.pin.version = w.version;
		memcpy(w.pin.fragments, w.now, sizeof(w.now));
	}
}

static void world_release(void)
{
	for (unsigned i = 0; i < w.n_records; i++)
		pf_buf_release(&w.records[i].text);
}

/* Legacy records keep their order; transitions may stand in any. */
static void shuffle_transitions(void)
{
	for (unsigned i = 0; i < w.n_records; i++) {
		unsigned k = i + dice(w.n_records - i);

		if (w.records[i].legacy || w.records[k].legacy)
			continue;
		struct record other = w.records[i];
		w.records[i] = w.records[k];
		w.records[k] = other;
	}
}

static void world_decode(int32_t version, struct pf_fri *out)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	for (unsigned i = 0; i < w.n_records; i++)
		pf_buf_addf(&text, "%s%s", i ? "; " : "", pf_buf_str(&w.records[i].text));
	decode(text.len ? pf_buf_str(&text) : "", version, out);
	assert_int_equal(out->n_records, w.n_records);
	for (unsigned i = 0; i < w.n_records; i++)
		if (w.records[i].legacy)
			out->records[i].published = w.records[i].published;
}

/* Does the pin's source have this fragment? `sure`: and nothing says that it is another one of the same id. rows: as the pin knows them. */
static bool begins_at(const struct move *m, unsigned k, bool sure, const uint64_t rows[])
{
	unsigned id = m->from[k];

	return w.pin.fragments[id].alive && !(sure && rows && rows[id] && rows[id] != m->rows[k]);
}

/* Again and again over all records, until nothing is added. */
static void model_pin(bool tagged, bool sure, const uint64_t rows[], bool needed[])
{
	bool reached[IDS_MAX] = { false }, more = true;

	memset(needed, 0, w.n_records);
	if (!tagged) {
		for (unsigned i = 0; i < w.n_records; i++)
			needed[i] = w.records[i].stamp >= w.pin.version;
		return;
	}
	while (more) {
		more = false;
		for (unsigned i = 0; i < w.n_records; i++) {
			const struct record *r = &w.records[i];
			bool hit = false;

			for (unsigned g = 0; g < r->n; g++)
				for (unsigned k = 0; k < r->groups[g].n_from; k++)
					hit = hit || reached[r->groups[g].from[k]] ||
					      begins_at(&r->groups[g], k, sure, rows);
			if (!hit || needed[i])
				continue;
			needed[i] = more = true;
			for (unsigned g = 0; g < r->n; g++)
				for (unsigned k = 0; k < r->groups[g].n_to; k++)
					reached[r->groups[g].to[k]] = true;
		}
	}
}

static uint64_t where_is(int row)
{
	for (unsigned id = 0; id < w.next_id; id++)
		for (unsigned i = 0; w.now[id].alive && i < w.now[id].n; i++)
			if (w.now[id].row[i] == row && !w.now[id].deleted[i])
				return (uint64_t)id << 32 | i;
	return PF_ROW_GONE;
}

/* Every row that the pin's source shows is found where it is now, through these records. */
static void check_rows(const struct pf_fri *f, unsigned round)
{
	for (unsigned id = 0; id < IDS_MAX; id++) {
		const struct fragment *then = &w.pin.fragments[id];

		for (unsigned i = 0; then->alive && i < then->n; i++) {
			uint64_t addr = (uint64_t)id << 32 | i, expected = where_is(then->row[i]);

			if (then->deleted[i])
				continue;
			assert_int_equal(pf_fri_translate(f, &addr, 1, NULL), 0);
			/* A row that was deleted where it lay still has its place. */
			if (addr != expected && !(expected == PF_ROW_GONE && w.now[addr >> 32].deleted[(uint32_t)addr]))
				fail_msg("seed %d, round %u: row %u of %u: %lx, expected %lx", SEED, round, i, id, addr,
					 expected);
		}
	}
}

/* The records that are needed, as a trim would leave them. */
static void trim(const struct pf_fri *f, const struct pf_fri_need *needs, struct pf_fri *out)
{
	_cleanup_(pf_buf_release) struct pf_buf kept = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	for (size_t i = 0; i < f->n_records; i++)
		if (needs[i].needed)
			pf_buf_add(&kept, f->content.data + f->records[i].off, f->records[i].len);
	if (pf_fri_decode(&kept, f->index_version, out, &why) < 0)
		fail_msg("%s", why.text);
}

/* Whether a record moves a fragment, or makes it. */
static bool moves(const struct record *r, unsigned id, bool makes)
{
	for (unsigned g = 0; g < r->n; g++) {
		const struct move *m = &r->groups[g];

		for (unsigned k = 0; k < (makes ? m->n_to : m->n_from); k++)
			if ((makes ? m->to : m->from)[k] == id)
				return true;
	}
	return false;
}

/* What is told about a needed record is true. */
static void check_path(const struct pf_fri_need *needs, unsigned i)
{
	const struct record *r = &w.records[i];

	assert_true(moves(r, needs[i].fragment, false));
	if (needs[i].via == SIZE_MAX) {
		assert_true(w.pin.fragments[needs[i].fragment].alive);
		return;
	}
	assert_true(needs[needs[i].via].needed);
	assert_int_equal(needs[needs[i].via].ambiguous, needs[i].ambiguous);
	assert_true(moves(&w.records[needs[i].via], needs[i].fragment, true));
}

static void test_random_pins(void **state)
{
	unsigned records = 0, kept = 0, ambiguous = 0;

	dice_seed(SEED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		enum form form = (enum form)(round % FORMS);
		bool tagged = form == TAGGED || form == MIXED, with_rows = dice(4) != 0;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		_cleanup_(pf_fri_release) struct pf_fri left = { 0 };
		struct pf_fri_need needs[ARRAY_LEN(w.records)];
		uint32_t fragments[IDS_MAX];
		uint64_t rows[IDS_MAX], rows_of[IDS_MAX] = { 0 };
		bool expected[ARRAY_LEN(w.records)], sure[ARRAY_LEN(w.records)];
		size_t n = 0;

		world_new(form, round / FORMS % 2);
		if (tagged)
			shuffle_transitions();
		world_decode(tagged, &f);
		for (unsigned id = 0; id < IDS_MAX; id++)
			if (w.pin.fragments[id].alive) {
				/* Old manifests do not say how many rows a fragment has. */
				rows_of[id] = dice(8) ? w.pin.fragments[id].n : 0;
				fragments[n] = id;
				rows[n++] = rows_of[id];
			}
		const struct pf_fri_pin pin = { w.pin.version, fragments, with_rows ? rows : NULL, n };
		assert_int_equal(pf_closure_pin(&f, &pin, needs, NULL), 0);
		model_pin(tagged, false, with_rows ? rows_of : NULL, expected);
		model_pin(tagged, true, with_rows ? rows_of : NULL, sure);
		for (unsigned i = 0; i < w.n_records; i++) {
			if (needs[i].needed != expected[i])
				fail_msg("seed %d, round %u: record %u", SEED, round, i);
			if (needs[i].ambiguous != (expected[i] && !sure[i]))
				fail_msg("seed %d, round %u: record %u is%s ambiguous", SEED, round, i,
					 needs[i].ambiguous ? "" : " not");
			if (needs[i].needed && tagged)
				check_path(needs, i);
			kept += needs[i].needed;
			ambiguous += needs[i].ambiguous;
		}
		records += w.n_records;
		trim(&f, needs, &left);
		/* Of rows that an overwrite removed no history knows anything. */
		if (!w.reborn) {
			check_rows(&f, round);
			check_rows(&left, round);
		}
		world_release();
	}
	/* The histories are worth something only if some records go and some stay. */
	assert_true(records > 4 * ROUNDS && kept > records / 4 && kept < records * 3 / 4 && ambiguous > records / 50);
}

/* --- Lance's rule for indices, read off lance-maintenance 2.5 and 3.5 ----------------------------------------------- */

struct segment {
	unsigned name; /* 0: a system index */
	bool has_bitmap, usable;
	uint64_t version;
	bool fragments[IDS_MAX];
};

#define SEGMENTS_MAX 4

static bool v0_caught_up(const struct segment *s, const struct record *r, bool *straddles)
{
	bool apart = true;

	if (s->name == 0)
		return true;
	for (unsigned i = 0; i < w.n_records; i++)
		for (unsigned id = 0; w.records[i].legacy && id < IDS_MAX; id++)
			if (s->fragments[id] && (moves(&w.records[i], id, false) || moves(&w.records[i], id, true)))
				apart = false;
	if (s->has_bitmap && apart)
		return true;
	if (s->version <= r->stamp)
		return false;
	if (!s->has_bitmap)
		return true;
	bool covers = false;
	for (unsigned g = 0; g < r->n; g++) {
		unsigned in = 0;

		for (unsigned k = 0; k < r->groups[g].n_from; k++)
			in += s->fragments[r->groups[g].from[k]];
		covers = covers || in > 0;
		/* Lance drops the record; ours keeps it, and says so. */
		*straddles = *straddles || (in > 0 && in < r->groups[g].n_from);
	}
	return !covers;
}

static bool transition_needed(const struct segment *v, unsigned n, const struct record *r)
{
	for (unsigned name = 1; name <= 2; name++) {
		bool provenance[IDS_MAX] = { false }, direct[IDS_MAX] = { false }, hit = false, missing = false;

		for (unsigned i = 0; i < n; i++)
			for (unsigned id = 0; v[i].name == name && id < IDS_MAX; id++) {
				provenance[id] = provenance[id] || v[i].fragments[id];
				direct[id] = direct[id] || (v[i].usable && v[i].fragments[id]);
			}
		for (unsigned k = 0; k < r->groups[0].n_from; k++)
			hit = hit || provenance[r->groups[0].from[k]];
		for (unsigned k = 0; k < r->groups[0].n_to; k++)
			missing = missing || !direct[r->groups[0].to[k]];
		if (hit && missing)
			return true;
	}
	return false;
}

static bool model_consumers(const struct segment *v, unsigned n, bool tagged, bool needed[])
{
	bool straddles = false, more = tagged;

	for (unsigned i = 0; i < w.n_records; i++) {
		needed[i] = false;
		for (unsigned k = 0; w.records[i].legacy && k < n; k++)
			if (!v0_caught_up(&v[k], &w.records[i], &straddles))
				needed[i] = true;
		if (!w.records[i].legacy)
			needed[i] = transition_needed(v, n, &w.records[i]);
	}
	while (more) {
		more = false;
		for (unsigned i = 0; i < w.n_records; i++)
			for (unsigned k = 0; k < w.n_records; k++)
				for (unsigned id = 0; needed[i] && !needed[k] && id < w.next_id; id++)
					if (moves(&w.records[i], id, true) && moves(&w.records[k], id, false))
						needed[k] = more = true;
	}
	return straddles;
}

static void random_segment(struct segment *s)
{
	*s = (struct segment){ .name = dice(7) ? 1 + dice(2) : 0, .has_bitmap = dice(6), .usable = dice(4) };
	s->version = dice((uint32_t)w.version + 2);
	if (!s->has_bitmap)
		return;
	/* Some of what is alive, or was when the pin was made; sometimes a group's fragments together. */
	for (unsigned id = 0; id < w.next_id; id++)
		if ((dice(2) ? w.now : w.pin.fragments)[id].alive)
			s->fragments[id] = dice(3) == 0;
	for (unsigned i = dice(4); i > 0 && w.n_records > 0; i--) {
		const struct record *r = &w.records[dice(w.n_records)];

		for (unsigned k = 0; k < r->groups[0].n_from; k++)
			s->fragments[r->groups[0].from[k]] = true;
		for (unsigned k = 0; dice(2) && k < r->groups[0].n_to; k++)
			s->fragments[r->groups[0].to[k]] = true;
	}
}

static void fill_index(const struct segment *s, struct pf_index *x)
{
	static const char *const names[] = { "__lance_mem_wal", "a", "b" };
	struct pf_bitmap *b = NULL;
	uint32_t fragments[IDS_MAX];
	size_t n = 0;

	*x = (struct pf_index){ .dataset_version = s->version, .has_bitmap = s->has_bitmap };
	x->name = strdup(names[s->name]);
	x->details_type = strdup(s->usable ? "/lance.table.BTreeIndexDetails" : "/x.Y");
	for (unsigned id = 0; id < IDS_MAX; id++)
		if (s->fragments[id])
			fragments[n++] = id;
	if (!s->has_bitmap)
		return;
	assert_int_equal(pf_bitmap_from(fragments, n, &b), 0);
	assert_int_equal(pf_bitmap_encode(b, &x->bitmap), 0);
	pf_bitmap_free(b);
}

static void test_random_consumers(void **state)
{
	unsigned records = 0, kept = 0;

	dice_seed(SEED + 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		enum form form = (enum form)(round % FORMS);
		bool tagged = form == TAGGED || form == MIXED;
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct segment segments[SEGMENTS_MAX];
		struct pf_index v[SEGMENTS_MAX];
		struct pf_indices list = { v, dice(SEGMENTS_MAX + 1) };
		bool needed[ARRAY_LEN(w.records)], expected[ARRAY_LEN(w.records)];
		size_t by[ARRAY_LEN(w.records)];

		world_new(form, false);
		if (tagged)
			shuffle_transitions();
		world_decode(tagged, &f);
		for (unsigned i = 0; i < w.n_records; i++)
			f.records[i].published = 0; /* Lance does not know */
		for (unsigned i = 0; i < list.n; i++) {
			random_segment(&segments[i]);
			fill_index(&segments[i], &v[i]);
		}
		int r = pf_closure_consumers(&f, &list, needed, by, NULL);
		bool straddles = model_consumers(segments, (unsigned)list.n, tagged, expected);
		assert_int_equal(r, straddles ? -EBADMSG : 0);
		for (unsigned i = 0; i < w.n_records; i++) {
			if (needed[i] != expected[i])
				fail_msg("seed %d, round %u: record %u", SEED + 1, round, i);
			assert_int_equal(needed[i], by[i] != SIZE_MAX);
			assert_true(!needed[i] || (by[i] < list.n && segments[by[i]].name != 0));
			kept += needed[i];
		}
		records += w.n_records;
		for (unsigned i = 0; i < list.n; i++) {
			free(v[i].name);
			free(v[i].details_type);
			pf_buf_release(&v[i].bitmap);
		}
		world_release();
	}
	assert_true(kept > records / 4 && kept < records * 3 / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_pins),
		cmocka_unit_test(test_random_consumers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
