#include "fri_published.h"

#include <string.h>

#include "fri_branch.h"

struct search {
	struct pf_branch *b;
	const struct pf_fri *f;
	struct pf_version_entry *versions;
	size_t n;
	bool **has; /* of each version that was looked at, for each record: is it there? */
};

static void search_release(struct search *s)
{
	for (size_t i = 0; s->has && i < s->n; i++)
		free(s->has[i]);
	free(s->has);
	free(s->versions);
}

static bool same(const struct pf_fri *a, size_t i, const struct pf_fri *b, size_t k)
{
	const struct pf_fri_record *x = &a->records[i], *y = &b->records[k];

	return x->len == y->len && memcmp(a->content.data + x->off, b->content.data + y->off, x->len) == 0;
}

/* Records are only ever appended, or trimmed, so those of both stand in one order. */
static void compare(const struct pf_fri *f, const struct pf_fri *then, bool *has)
{
	size_t next = 0;

	for (size_t i = 0; i < f->n_records; i++) {
		size_t k = next;
		while (k < then->n_records && !same(f, i, then, k))
			k++;
		has[i] = k < then->n_records;
		if (has[i])
			next = k + 1;
	}
}

/* What cannot be read does not show a record, which only makes it seem younger. */
static int look(struct search *s, size_t at)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_fri_release) struct pf_fri then = { 0 };

	s->has[at] = calloc(s->f->n_records + 1, sizeof(**s->has));
	if (!s->has[at])
		return -ENOMEM;
	int r = pf_branch_version(s->b, s->versions[at].version, &m, NULL);
	if (r == 0)
		r = pf_fri_read_branch(s->b, m, &then, NULL);
	if (r == 0)
		compare(s->f, &then, s->has[at]);
	return r == -ENOMEM ? r : 0;
}

static int find(struct search *s, size_t record, uint64_t head, uint64_t *out)
{
	uint64_t stamp = s->f->records[record].stamp;
	size_t lo = 0, hi = 0;

	while (hi < s->n && s->versions[hi].version < head)
		hi++;
	while (lo < hi && s->versions[lo].version <= stamp)
		lo++;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int r = s->has[mid] ? 0 : look(s, mid);
		if (r < 0)
			return r;
		if (s->has[mid][record])
			hi = mid;
		else
			lo = mid + 1;
	}
	*out = lo < s->n && s->versions[lo].version < head ? s->versions[lo].version : head;
	return 0;
}

static bool matters(const struct pf_fri_record *record, const struct pf_indices *l)
{
	if (!record->legacy)
		return false;
	for (size_t i = 0; i < l->n; i++)
		if (!pf_index_is_system(&l->v[i]) && l->v[i].dataset_version > record->stamp)
			return true;
	return false;
}

int pf_fri_find_published(struct pf_branch *b, const struct pf_manifest *head, const struct pf_indices *l,
			  struct pf_fri *f, struct pf_why *why)
{
	_cleanup_(search_release) struct search s = { .b = b, .f = f };
	int r = 0;

	for (size_t i = 0; r == 0 && i < f->n_records; i++) {
		if (!matters(&f->records[i], l))
			continue;
		if (!s.has) {
			r = pf_branch_versions(b, &s.versions, &s.n, why);
			if (r < 0)
				return r;
			s.has = calloc(s.n + 1, sizeof(*s.has));
			if (!s.has)
				return -ENOMEM;
		}
		r = find(&s, i, head->version, &f->records[i].published);
	}
	return r;
}
