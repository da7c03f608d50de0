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

#include "aged.h"
#include "dice.h"

#define SEED   20261129
#define ROUNDS 4000

/* Does the pin's source have this fragment? `sure`: and nothing says that it is another one of the same id. rows: as the pin knows them. */
static bool begins_at(const struct move *m, unsigned k, bool sure, const uint64_t rows[])
{
	unsigned id = m->from[k];

	return aged.pin.fragments[id].alive && !(sure && rows && rows[id] && rows[id] != m->rows[k]);
}

/* Again and again over all records, until nothing is added. */
static void model_pin(bool tagged, bool sure, const uint64_t rows[], bool needed[])
{
	bool reached[IDS_MAX] = { false }, more = true;

	memset(needed, 0, aged.n_records);
	if (!tagged) {
		for (unsigned i = 0; i < aged.n_records; i++)
			needed[i] = aged.records[i].stamp >= aged.pin.version;
		return;
	}
	while (more) {
		more = false;
		for (unsigned i = 0; i < aged.n_records; i++) {
			const struct record *r = &aged.records[i];
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
	for (unsigned id = 0; id < aged.next_id; id++)
		for (unsigned i = 0; aged.now[id].alive && i < aged.now[id].n; i++)
			if (aged.now[id].row[i] == row && !aged.now[id].deleted[i])
				return (uint64_t)id << 32 | i;
	return PF_ROW_GONE;
}

/* Every row that the pin's source shows is found where it is now, through these records. */
static void check_rows(const struct pf_fri *f, unsigned round)
{
	for (unsigned id = 0; id < IDS_MAX; id++) {
		const struct fragment *then = &aged.pin.fragments[id];

		for (unsigned i = 0; then->alive && i < then->n; i++) {
			uint64_t addr = (uint64_t)id << 32 | i, expected = where_is(then->row[i]);

			if (then->deleted[i])
				continue;
			assert_int_equal(pf_fri_translate(f, &addr, 1, NULL), 0);
			/* A row that was deleted where it lay still has its place. */
			if (addr != expected &&
			    !(expected == PF_ROW_GONE && aged.now[addr >> 32].deleted[(uint32_t)addr]))
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

/* What is told about a needed record is true. */
static void check_path(const struct pf_fri_need *needs, unsigned i)
{
	const struct record *r = &aged.records[i];

	assert_true(aged_moves(r, needs[i].fragment, false));
	if (needs[i].via == SIZE_MAX) {
		assert_true(aged.pin.fragments[needs[i].fragment].alive);
		return;
	}
	assert_true(needs[needs[i].via].needed);
	assert_int_equal(needs[needs[i].via].ambiguous, needs[i].ambiguous);
	assert_true(aged_moves(&aged.records[needs[i].via], needs[i].fragment, true));
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
		struct pf_fri_need needs[ARRAY_LEN(aged.records)];
		uint32_t fragments[IDS_MAX];
		uint64_t rows[IDS_MAX], rows_of[IDS_MAX] = { 0 };
		bool expected[ARRAY_LEN(aged.records)], sure[ARRAY_LEN(aged.records)];
		size_t n = 0;

		aged_new(form, round / FORMS % 2);
		if (tagged)
			aged_shuffle();
		aged_decode(tagged, &f);
		for (unsigned id = 0; id < IDS_MAX; id++)
			if (aged.pin.fragments[id].alive) {
				/* Old manifests do not say how many rows a fragment has. */
				rows_of[id] = dice(8) ? aged.pin.fragments[id].n : 0;
				fragments[n] = id;
				rows[n++] = rows_of[id];
			}
		const struct pf_fri_pin pin = { aged.pin.version, fragments, with_rows ? rows : NULL, n };
		assert_int_equal(pf_closure_pin(&f, &pin, needs, NULL), 0);
		model_pin(tagged, false, with_rows ? rows_of : NULL, expected);
		model_pin(tagged, true, with_rows ? rows_of : NULL, sure);
		for (unsigned i = 0; i < aged.n_records; i++) {
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
		records += aged.n_records;
		trim(&f, needs, &left);
		/* Of rows that an overwrite removed no history knows anything. */
		if (!aged.reborn) {
			check_rows(&f, round);
			check_rows(&left, round);
		}
		aged_release();
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
	for (unsigned i = 0; i < aged.n_records; i++)
		for (unsigned id = 0; aged.records[i].legacy && id < IDS_MAX; id++)
			if (s->fragments[id] &&
			    (aged_moves(&aged.records[i], id, false) || aged_moves(&aged.records[i], id, true)))
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

	for (unsigned i = 0; i < aged.n_records; i++) {
		needed[i] = false;
		for (unsigned k = 0; aged.records[i].legacy && k < n; k++)
			if (!v0_caught_up(&v[k], &aged.records[i], &straddles))
				needed[i] = true;
		if (!aged.records[i].legacy)
			needed[i] = transition_needed(v, n, &aged.records[i]);
	}
	while (more) {
		more = false;
		for (unsigned i = 0; i < aged.n_records; i++)
			for (unsigned k = 0; k < aged.n_records; k++)
				for (unsigned id = 0; needed[i] && !needed[k] && id < aged.next_id; id++)
					if (aged_moves(&aged.records[i], id, true) &&
					    aged_moves(&aged.records[k], id, false))
						needed[k] = more = true;
	}
	return straddles;
}

static void random_segment(struct segment *s)
{
	*s = (struct segment){ .name = dice(7) ? 1 + dice(2) : 0, .has_bitmap = dice(6), .usable = dice(4) };
	s->version = dice((uint32_t)aged.version + 2);
	if (!s->has_bitmap)
		return;
	/* Some of what is alive, or was when the pin was made; sometimes a group's fragments together. */
	for (unsigned id = 0; id < aged.next_id; id++)
		if ((dice(2) ? aged.now : aged.pin.fragments)[id].alive)
			s->fragments[id] = dice(3) == 0;
	for (unsigned i = dice(4); i > 0 && aged.n_records > 0; i--) {
		const struct record *r = &aged.records[dice(aged.n_records)];

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
		bool needed[ARRAY_LEN(aged.records)], expected[ARRAY_LEN(aged.records)];
		size_t by[ARRAY_LEN(aged.records)];

		aged_new(form, false);
		if (tagged)
			aged_shuffle();
		aged_decode(tagged, &f);
		for (unsigned i = 0; i < aged.n_records; i++)
			f.records[i].published = 0; /* Lance does not know */
		for (unsigned i = 0; i < list.n; i++) {
			random_segment(&segments[i]);
			fill_index(&segments[i], &v[i]);
		}
		int r = pf_closure_consumers(&f, &list, needed, by, NULL);
		bool straddles = model_consumers(segments, (unsigned)list.n, tagged, expected);
		assert_int_equal(r, straddles ? -EBADMSG : 0);
		for (unsigned i = 0; i < aged.n_records; i++) {
			if (needed[i] != expected[i])
				fail_msg("seed %d, round %u: record %u", SEED + 1, round, i);
			assert_int_equal(needed[i], by[i] != SIZE_MAX);
			assert_true(!needed[i] || (by[i] < list.n && segments[by[i]].name != 0));
			kept += needed[i];
		}
		records += aged.n_records;
		for (unsigned i = 0; i < list.n; i++) {
			free(v[i].name);
			free(v[i].details_type);
			pf_buf_release(&v[i].bitmap);
		}
		aged_release();
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
