#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "survey_parts.h"

#define SWAP(a, b)                                                                                                     \
	do {                                                                                                           \
		__typeof__(a) _a = (a);                                                                                \
		(a) = (b);                                                                                             \
		(b) = _a;                                                                                              \
	} while (0)

void pf_indexing_release(struct pf_indexing *x)
{
	pf_buf_release(&x->section);
	pf_buf_release(&x->entry);
	free(x->indices.v);
	free(x->maps.v);
	free(x->fri_file);
}

static int uncount(struct pf_taking *t, const struct pf_file_list *l)
{
	int r = 0;

	/* A whole version was cleared already. */
	for (size_t i = 0; r == 0 && !t->whole && i < l->n; i++)
		r = pf_file_set_count(&t->s->state->set, l->v[i], -1);
	return r;
}

static bool same_bytes(const struct pf_buf *a, const struct pf_buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Which file to look at again, to notice that a history which cannot be read now can be: where its content is, if it is not in the manifest. */
static int note_file(struct pf_taking *t, const struct pf_fri_base *base, const struct pf_index *x, char **out)
{
	_cleanup_(pf_freep) char *dir = NULL;
	struct pf_stat st;

	if (base->st != t->s->state->st)
		return 0;
	if (asprintf(&dir, "%s_indices/%s", base->dir, x->uuid) < 0)
		return dir = NULL, -ENOMEM;
	if (pf_store_stat(base->st, dir, &st) == 0)
		*out = STEAL(dir);
	return 0;
}

int pf_survey_fri_base(const struct pf_survey *s, const struct pf_places *places, const struct pf_index *x,
		       struct pf_fri_base *base, struct pf_store **there, struct pf_why *why)
{
	const struct pf_place *p = x->has_base ? pf_places_find(places, x->base_id) : NULL;

	*base = (struct pf_fri_base){ s->state->st, pf_survey_dir(s) };
	if (x->has_base && !p)
		return pf_why_set(why, -EBADMSG, "it is on base %" PRIu32 ", which the manifest does not have",
				  x->base_id);
	if (p)
		base->dir = p->perhaps ? p->perhaps : p->prefix;
	if (!p || !p->base || p->perhaps)
		return 0;
	int r = pf_store_local_open(s->state->bases.v[p->base].where, there, why);
	if (r == 0)
		base->st = *there;
	return r;
}

/* Read the history that the entry x is of, wherever that is. */
static int read_fri(struct pf_taking *t, const struct pf_index *x, struct pf_fri *out, struct pf_indexing *ix)
{
	_cleanup_(pf_store_freep) struct pf_store *there = NULL;
	struct pf_fri_base base;

	int r = pf_survey_fri_base(t->s, t->from, x, &base, &there, &ix->fri_why);
	if (r < 0)
		return r;
	r = pf_fri_read_entry(&base, t->r, x, out, &ix->fri_why);
	if (r < 0 && note_file(t, &base, x, &ix->fri_file) < 0)
		return -ENOMEM;
	return r;
}

static int count_fri(struct pf_taking *t, const struct pf_index *x, struct pf_indexing *ix)
{
	_cleanup_(pf_fri_release) struct pf_fri fri = { 0 };

	ix->fri_changed = t->whole || ix->fri_error || !same_bytes(&ix->entry, &t->s->state->fri);
	if (!ix->fri_changed)
		return 0;
	int r = uncount(t, &t->s->state->maps);
	if (r < 0 || !x)
		return r;
	/* What it names may be lost, but the rest of the version is known: a gap, not a damaged version. */
	ix->fri_error = read_fri(t, x, &fri, ix);
	if (ix->fri_error == 0 && fri.unsupported)
		ix->fri_error = pf_why_set(&ix->fri_why, -EOPNOTSUPP, "%s", fri.unsupported_why);
	if (ix->fri_error == -ENOMEM)
		return -ENOMEM;
	t->list = &ix->maps;
	r = pf_fri_references(&fri, pf_taking_see, t);
	if (r != -EBADMSG)
		return r;
	/* A row map on a base that the manifest does not have. */
	ix->fri_error = pf_why_set(&ix->fri_why, r, "%s", t->why->text);
	return 0;
}

/* Is the section what it was in the version before? 1 or 0. */
static int is_same_section(struct pf_taking *t)
{
	_cleanup_(pf_buf_release) struct pf_buf copy = PF_BUF_INIT;
	const struct pf_section *x = &t->is->m->index;
	const struct pf_buf *was = &t->s->state->index;

	if (t->whole || was->len != (x->present ? x->len : 0))
		return 0;
	if (was->len == 0)
		return 1;
	if (t->r->mem)
		return memcmp(t->r->mem + x->off, was->data, was->len) == 0;
	int r = pf_read_span(t->r, x->off, x->len, &copy);
	return r < 0 ? r : same_bytes(&copy, was);
}

int pf_indexing_count(struct pf_taking *t, struct pf_indexing *ix)
{
	struct pf_survey_state *st = t->s->state;
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
	const struct pf_manifest *m = t->is->m;
	const struct pf_index *x = NULL;

	t->by = 1;
	int r = is_same_section(t);
	ix->changed = r == 0;
	if (r != 0)
		return r < 0 ? r : 0;
	r = m->index.present ? pf_read_span(t->r, m->index.off, m->index.len, &ix->section) : 0;
	if (r < 0)
		return pf_why_set(t->why, r, "index section: %s", strerror(-r));
	r = pf_indices_decode(t->r, m, &l, t->why);
	if (r == 0)
		r = uncount(t, &st->indices);
	if (r < 0)
		return r;
	ix->fri_error = pf_fri_entry(&l, &x, &ix->fri_why);
	if (x)
		r = pf_read_span(t->r, x->off, x->len, &ix->entry);
	if (r == 0)
		r = count_fri(t, x, ix);
	t->list = &ix->indices;
	if (r == 0)
		r = pf_index_references(&l, pf_taking_see, t);
	t->list = NULL;
	return r;
}

static void end_fri_gap(struct pf_survey *s, uint64_t last)
{
	for (size_t i = 0; i < s->n_gaps; i++)
		if (s->gaps[i].kind == PF_GAP_FRI && s->gaps[i].last == PF_STILL)
			s->gaps[i].last = last;
}

int pf_indexing_keep(struct pf_taking *t, struct pf_indexing *ix)
{
	struct pf_survey_state *st = t->s->state;

	if (!ix->changed)
		return 0;
	SWAP(st->index, ix->section);
	SWAP(st->indices, ix->indices);
	if (!ix->fri_changed)
		return 0;
	SWAP(st->fri, ix->entry);
	SWAP(st->maps, ix->maps);
	end_fri_gap(t->s, t->before);
	if (!ix->fri_error)
		return 0;
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	int r = pf_buf_addf(&text, "%s: %s", t->name, pf_text_of(ix->fri_error, &ix->fri_why));
	const char *sentence = r == 0 ? pf_buf_str(&text) : NULL;
	if (!sentence)
		return -ENOMEM;
	return pf_survey_add_gap(t->s, PF_GAP_FRI, t->e->version, PF_STILL, ix->fri_file ? ix->fri_file : t->name,
				 ix->fri_error, sentence);
}
