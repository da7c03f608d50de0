#include "fri.h"

#include <inttypes.h>
#include <string.h>

/* What following needs of a group, made when the first address comes through it. */
struct step {
	bool ready;
	struct pf_rows rows;
	uint64_t *before; /* rows moved from the sources ahead of each source */
	uint64_t *ends;	  /* rows of the destinations up to and with each */
};

struct following {
	const struct pf_fri *f;
	struct step *steps; /* of each group */
};

static void following_release(struct following *w)
{
	for (size_t i = 0; w->steps && i < w->f->n_groups; i++) {
		pf_rows_release(&w->steps[i].rows);
		free(w->steps[i].before);
		free(w->steps[i].ends);
	}
	free(w->steps);
}

static int prepare(const struct pf_fri *f, const struct pf_fri_group *g, struct step *s, struct pf_why *why)
{
	uint64_t sum = 0;

	if (g->mapping == PF_MAPPING_PARTITION)
		return pf_why_set(why, -EOPNOTSUPP,
				  "record %zu: where its rows went is in _fri/%s/, which is not read here", g->record,
				  g->map_id);
	int r = pf_rows_decode(f->content.data + g->rows.off, g->rows.len, true, &s->rows, why);
	if (r < 0)
		return r;
	s->before = reallocarray(NULL, g->n_from, sizeof(*s->before));
	s->ends = reallocarray(NULL, g->n_to ? g->n_to : 1, sizeof(*s->ends));
	if (!s->before || !s->ends)
		return -ENOMEM;
	for (size_t i = 0; i < g->n_from; i++) {
		const struct pf_bitmap *offsets = pf_rows_of(&s->rows, (uint32_t)g->from[i].id);

		s->before[i] = sum;
		sum += offsets ? pf_bitmap_count(offsets) : 0;
	}
	sum = 0;
	for (size_t i = 0; i < g->n_to; i++)
		s->ends[i] = sum += g->to[i].physical_rows;
	s->ready = true;
	return 0;
}

/* Where row `offset` of a group's source `at` went. */
static uint64_t move(const struct pf_fri_group *g, const struct step *s, size_t at, uint32_t offset)
{
	const struct pf_bitmap *offsets = pf_rows_of(&s->rows, (uint32_t)g->from[at].id);

	if (!offsets || !pf_bitmap_has(offsets, offset))
		return PF_ROW_GONE;
	uint64_t position = s->before[at] + pf_bitmap_rank(offsets, offset);
	size_t lo = 0, hi = g->n_to;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (s->ends[mid] <= position)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* Decoding made sure that there are as many rows as places. */
	return g->to[lo].id << 32 | (position - (lo ? s->ends[lo - 1] : 0));
}

static int follow(struct following *w, uint64_t *addr, struct pf_why *why)
{
	const struct pf_fri *f = w->f;
	const struct pf_fri_source *s;
	size_t from = 0;

	while ((s = pf_fri_source_of(f, (uint32_t)(*addr >> 32), from))) {
		const struct pf_fri_group *g = &f->groups[s->group];
		const struct pf_fri_record *record = &f->records[g->record];
		bool inside = (uint32_t)*addr < g->from[s->at].physical_rows;

		if (inside) {
			struct step *step = &w->steps[s->group];
			int r = step->ready ? 0 : prepare(f, g, step, why);

			if (r < 0)
				return r;
			*addr = move(g, step, s->at, (uint32_t)*addr);
		}
		/* v0 applies record after record; a tagged history follows lineage, whatever order its records stand in. */
		if (f->index_version == 0)
			from = (size_t)(record->groups - f->groups) + record->n_groups;
		else if (!inside)
			break;
	}
	return 0;
}

int pf_fri_translate(const struct pf_fri *f, uint64_t *addrs, size_t n, struct pf_why *why)
{
	_cleanup_(following_release) struct following w = { .f = f };
	int r = 0;

	if (f->unsupported)
		return pf_why_set(why, -EOPNOTSUPP, "the history cannot be followed: %s", f->unsupported_why);
	w.steps = calloc(f->n_groups + 1, sizeof(*w.steps));
	if (!w.steps)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = follow(&w, &addrs[i], why);
	return r;
}
