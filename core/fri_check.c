#include "fri_parts.h"

#include <inttypes.h>
#include <string.h>

/* No fragment has it: the addresses in it mean "gone". */
#define TOMBSTONE UINT32_MAX

struct checking {
	struct pf_fri *f;
	bool strict;		    /* index_version 1: the rules of tagged histories, legacy records included */
	struct pf_fri_source *made; /* destinations of all groups, sorted as the sources are */
	size_t n_made;
};

static void checking_release(struct checking *c)
{
	free(c->made);
}

static int compare(const void *a, const void *b)
{
	const struct pf_fri_source *x = a, *y = b;

	if (x->fragment != y->fragment)
		return x->fragment < y->fragment ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* The first that does not stand before (fragment, group). */
static size_t lower(const struct pf_fri_source *v, size_t n, uint32_t fragment, size_t group)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid].fragment < fragment || (v[mid].fragment == fragment && v[mid].group < group))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct pf_fri_source *pf_fri_source_of(const struct pf_fri *f, uint32_t fragment, size_t from)
{
	size_t at = lower(f->sources, f->n_sources, fragment, from);

	return at < f->n_sources && f->sources[at].fragment == fragment ? &f->sources[at] : NULL;
}

static int check_digests(const struct checking *c, const struct pf_digest *v, size_t n, bool destination,
			 struct pf_why *why)
{
	for (size_t i = 0; i < n; i++) {
		/* What a v0 digest says of deletions is not looked at by Lance. */
		if (v[i].id >= TOMBSTONE || v[i].physical_rows > UINT32_MAX ||
		    (c->strict && v[i].deleted_rows > v[i].physical_rows))
			return pf_why_set(why, -EBADMSG,
					  "fragment %" PRIu64 " cannot have %" PRIu64 " rows and %" PRIu64 " deleted",
					  v[i].id, v[i].physical_rows, v[i].deleted_rows);
		if (c->strict && destination && v[i].deleted_rows > 0)
			return pf_why_set(why, -EBADMSG,
					  "its destination %" PRIu64 " has %" PRIu64 " deleted rows; expected none",
					  v[i].id, v[i].deleted_rows);
	}
	return 0;
}

/* Ids are given out in ascending order, so mostly there is nothing to sort. */
static void sort(struct pf_fri_source *v, size_t n)
{
	size_t i = 1;

	while (i < n && compare(&v[i - 1], &v[i]) <= 0)
		i++;
	if (i < n)
		qsort(v, n, sizeof(*v), compare);
}

/* All digests of one role, sorted by fragment. */
static int collect(const struct pf_fri *f, bool destinations, struct pf_fri_source **out, size_t *out_n)
{
	size_t n = 0;

	for (size_t g = 0; g < f->n_groups; g++)
		n += destinations ? f->groups[g].n_to : f->groups[g].n_from;
	if (n == 0)
		return 0;
	struct pf_fri_source *v = reallocarray(NULL, n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (size_t g = 0; g < f->n_groups; g++) {
		const struct pf_fri_group *group = &f->groups[g];
		size_t n_of = destinations ? group->n_to : group->n_from;

		for (size_t i = 0; i < n_of; i++)
			v[n++] = (struct pf_fri_source){
				.fragment = (uint32_t)(destinations ? group->to : group->from)[i].id,
				.group = g,
				.at = i,
			};
	}
	sort(v, n);
	*out = v;
	*out_n = n;
	return 0;
}

/* Neighbours in sorted order that may not both be there. v0 lets a fragment come back in a later record. */
static int check_repeats(const struct checking *c, const struct pf_fri_source *v, size_t n, const char *role,
			 struct pf_why *why)
{
	for (size_t i = 1; i < n; i++) {
		if (v[i].fragment != v[i - 1].fragment)
			continue;
		size_t a = c->f->groups[v[i - 1].group].record, b = c->f->groups[v[i].group].record;
		if (v[i].group == v[i - 1].group)
			return pf_why_set(why, -EBADMSG, "record %zu: fragment %" PRIu32 " stands twice as %s", a,
					  v[i].fragment, role);
		if (c->strict || a == b)
			return pf_why_set(why, -EBADMSG,
					  "fragment %" PRIu32 " is %s of two groups, of record %zu and record %zu",
					  v[i].fragment, role, a, b);
	}
	return 0;
}

static uint64_t live_rows(const struct pf_digest *d)
{
	return d->physical_rows - d->deleted_rows;
}

struct rows {
	const struct checking *c;
	size_t group, next; /* next: the source that is likely to be told */
	uint64_t total;
	struct pf_why *why;
};

/* The source of the group that is this fragment, NULL if none is. Rows are told by fragment, and sources mostly stand in that order. */
static const struct pf_digest *source_in(struct rows *rows, uint32_t fragment)
{
	const struct pf_fri *f = rows->c->f;
	const struct pf_fri_group *g = &f->groups[rows->group];

	if (rows->next == g->n_from || g->from[rows->next].id != fragment) {
		const struct pf_fri_source *s = pf_fri_source_of(f, fragment, rows->group);
		if (!s || s->group != rows->group)
			return NULL;
		rows->next = s->at;
	}
	return &g->from[rows->next++];
}

/* The rows of one fragment that a group moves. */
static int check_part(void *arg, const struct pf_rows_part *part)
{
	struct rows *rows = arg;
	const struct pf_digest *d = source_in(rows, part->fragment);

	if (!d)
		return pf_why_set(rows->why, -EBADMSG, "it moves rows of fragment %" PRIu32 ", not one of its sources",
				  part->fragment);
	if (part->max >= d->physical_rows)
		return pf_why_set(rows->why, -EBADMSG,
				  "it moves row %" PRIu32 " of fragment %" PRIu32 ", which has %" PRIu64, part->max,
				  part->fragment, d->physical_rows);
	if (rows->c->strict && part->count != live_rows(d))
		return pf_why_set(rows->why, -EBADMSG,
				  "it moves %" PRIu64 " rows of fragment %" PRIu32 ", which had %" PRIu64 " live",
				  part->count, part->fragment, live_rows(d));
	rows->total += part->count;
	return 0;
}

static int check_rows(const struct checking *c, size_t group, struct pf_why *why)
{
	const struct pf_fri_group *g = &c->f->groups[group];
	struct rows rows = { .c = c, .group = group, .why = why };
	uint64_t live = 0, made = 0;

	for (size_t i = 0; i < g->n_from; i++)
		live += live_rows(&g->from[i]);
	for (size_t i = 0; i < g->n_to; i++)
		made += g->to[i].physical_rows;
	if (c->strict && g->n_from == 0)
		return pf_why_set(why, -EBADMSG, "expected source fragments, found none");
	if (c->strict && live != made)
		return pf_why_set(why, -EBADMSG, "its sources have %" PRIu64 " live rows, its destinations %" PRIu64,
				  live, made);
	if (g->mapping == PF_MAPPING_PARTITION)
		return 0;
	int r = pf_rows_scan(c->f->content.data + g->rows.off, g->rows.len, !c->strict, check_part, &rows, why);
	if (r < 0)
		return r;
	/* Each fragment that is named has its live rows, so what is missing are whole fragments. */
	if (rows.total != made)
		return pf_why_set(why, -EBADMSG, "it moves %" PRIu64 " rows, its destinations have %" PRIu64,
				  rows.total, made);
	return 0;
}

static int check_group(const struct checking *c, size_t group,
		       int (*check)(const struct checking *c, size_t group, struct pf_why *why), struct pf_why *why)
{
	const struct pf_fri_group *g = &c->f->groups[group];
	const struct pf_fri_record *record = &c->f->records[g->record];

	if (g->mapping == PF_MAPPING_UNKNOWN)
		return 0;
	int r = check(c, group, why);
	if (r < 0 && record->legacy)
		return pf_why_prefix(why, r, "record %zu, group %zu", g->record, (size_t)(g - record->groups));
	return r < 0 ? pf_why_prefix(why, r, "record %zu", g->record) : 0;
}

static int check_group_digests(const struct checking *c, size_t group, struct pf_why *why)
{
	const struct pf_fri_group *g = &c->f->groups[group];
	int r = check_digests(c, g->from, g->n_from, false, why);

	return r < 0 ? r : check_digests(c, g->to, g->n_to, true, why);
}

/* How many sources of each group come from another; a fragment has one size, whoever speaks of it. */
static int count_incoming(const struct checking *c, size_t *incoming, struct pf_why *why)
{
	const struct pf_fri *f = c->f;

	for (size_t i = 0, at = 0; i < f->n_sources; i++) {
		const struct pf_fri_source *s = &f->sources[i];

		while (at < c->n_made && c->made[at].fragment < s->fragment)
			at++;
		if (at == c->n_made || c->made[at].fragment != s->fragment)
			continue;
		const struct pf_fri_group *maker = &f->groups[c->made[at].group], *taker = &f->groups[s->group];
		uint64_t then = maker->to[c->made[at].at].physical_rows, now = taker->from[s->at].physical_rows;
		if (then != now)
			return pf_why_set(why, -EBADMSG,
					  "fragment %" PRIu32 " has %" PRIu64 " rows in record %zu and %" PRIu64
					  " in record %zu",
					  s->fragment, then, maker->record, now, taker->record);
		incoming[s->group]++;
	}
	return 0;
}

/* Groups whose sources are all there go first, and let go those that wait for what they make. */
static int check_order(const struct checking *c, struct pf_why *why)
{
	const struct pf_fri *f = c->f;
	_cleanup_(pf_freep) size_t *incoming = calloc(f->n_groups + 1, sizeof(*incoming));
	_cleanup_(pf_freep) size_t *ready = reallocarray(NULL, f->n_groups + 1, sizeof(*ready));
	size_t n_ready = 0, n_done = 0;

	if (!incoming || !ready)
		return -ENOMEM;
	int r = count_incoming(c, incoming, why);
	if (r < 0)
		return r;
	for (size_t g = 0; g < f->n_groups; g++)
		if (incoming[g] == 0)
			ready[n_ready++] = g;
	while (n_done < n_ready) {
		const struct pf_fri_group *g = &f->groups[ready[n_done++]];

		for (size_t i = 0; i < g->n_to; i++) {
			const struct pf_fri_source *s = pf_fri_source_of(f, (uint32_t)g->to[i].id, 0);

			if (s && --incoming[s->group] == 0)
				ready[n_ready++] = s->group;
		}
	}
	for (size_t g = 0; g < f->n_groups; g++)
		if (incoming[g] > 0)
			return pf_why_set(why, -EBADMSG, "record %zu moves rows in a circle", f->groups[g].record);
	return 0;
}

int pf_fri_check(struct pf_fri *f, struct pf_why *why)
{
	_cleanup_(checking_release) struct checking c = { .f = f, .strict = f->index_version != 0 };
	int r = 0;

	for (size_t g = 0; r == 0 && g < f->n_groups; g++)
		r = check_group(&c, g, check_group_digests, why);
	if (r == 0)
		r = collect(f, false, &f->sources, &f->n_sources);
	if (r == 0)
		r = check_repeats(&c, f->sources, f->n_sources, "source", why);
	if (r == 0 && c.strict)
		r = collect(f, true, &c.made, &c.n_made);
	if (r == 0)
		r = check_repeats(&c, c.made, c.n_made, "destination", why);
	for (size_t g = 0; r == 0 && g < f->n_groups; g++)
		r = check_group(&c, g, check_rows, why);
	if (r == 0 && c.strict)
		r = check_order(&c, why);
	return r;
}
