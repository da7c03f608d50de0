#include "gate.h"

#include <inttypes.h>
#include <stdio.h>

#include "flags.h"
#include "fri_branch.h"
#include "fri_write.h"
#include "lance.pb-c.h"
#include "source.h"

struct gate {
	const struct pf_gate *g;
	struct pf_branch *b;
	struct pf_next *x;
	struct pf_moves moves;
	struct pf_fri history; /* of the head */
	struct pf_sources sources;
	bool tagged;
	bool *must; /* each group */
};

static void gate_release(struct gate *t)
{
	pf_moves_release(&t->moves);
	pf_fri_release(&t->history);
	pf_sources_release(&t->sources);
	free(t->must);
}

/* An empty history, if there is none. */
static int read_history(struct gate *t, struct pf_why *why)
{
	int r = pf_fri_read_branch(t->b, t->x->base, &t->history, why);

	if (r == -ENODATA)
		r = 0;
	if (r < 0)
		return r;
	if (t->history.unsupported)
		return pf_why_set(why, -EOPNOTSUPP, "nothing can be added to the history of moved rows: %s",
				  t->history.unsupported_why);
	/* Once the bit is set, every record is a tagged one, whatever stands before it. */
	t->tagged = t->history.index_version != 0 || (t->x->base->writer_flags & PF_FLAG_TAGGED_FRI);
	t->history.index_version = t->tagged;
	return 0;
}

/* Is a fragment of the group one of the source, or one where its rows may have gone? */
static bool follows(const struct pf_source *s, const struct pf_group_moves *m)
{
	for (size_t i = 0; i < m->n_from; i++)
		if (pf_bitmap_has(s->reached, (uint32_t)m->from[i].id))
			return true;
	return false;
}

static bool is_followed(const struct gate *t, const struct pf_group_moves *m)
{
	for (size_t s = 0; s < t->sources.n; s++)
		if (follows(&t->sources.v[s], m))
			return true;
	return false;
}

/* Does an index, or the history itself, have rows of a group? One without a bitmap may. */
static int is_covered(struct gate *t, const struct pf_group_moves *m, bool *out, struct pf_why *why)
{
	*out = false;
	for (size_t i = 0; i < t->x->n_entries && !*out; i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		const struct pf_entry *e = &t->x->entries[i];
		if (strcmp(e->x.name, PF_MEM_WAL_NAME) == 0)
			continue;
		int r = pf_entry_bitmap(e, &b, why);
		if (r < 0)
			return r;
		*out = !b && t->tagged;
		for (size_t k = 0; b && k < m->n_from; k++)
			*out |= pf_bitmap_has(b, (uint32_t)m->from[k].id);
	}
	return 0;
}

/* "fragments 1, 2, 5 and 9 more" */
#define LIST_MAX 8
static void list_fragments(const struct pf_group_moves *m, char *out, size_t size)
{
	int at = snprintf(out, size, m->n_from == 1 ? "fragment" : "fragments");

	for (size_t i = 0; i < m->n_from && i < LIST_MAX; i++)
		at += snprintf(out + at, size - (size_t)at, "%s%" PRIu64, i ? ", " : " ", m->from[i].id);
	if (m->n_from > LIST_MAX)
		snprintf(out + at, size - (size_t)at, " and %zu more", m->n_from - LIST_MAX);
}

#define LIST_TEXT (LIST_MAX * 24 + 64)

/* Which pins a group cannot be committed for. */
static int blocked(const struct gate *t, size_t group, const char *because, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf pins = PF_BUF_INIT;
	const struct pf_group_moves *m = &t->moves.v[group];
	char fragments[LIST_TEXT];
	const struct pf_pins *l = &t->x->base->pins;
	size_t n = 0;
	int r = 0;

	for (size_t s = 0; r == 0 && s < t->sources.n; s++) {
		const struct pf_source *source = &t->sources.v[s];
		for (size_t i = 0; r == 0 && follows(source, m) && i < l->n; i++) {
			if (l->v[i].source_version != source->pin->source_version ||
			    strcmp(l->v[i].source_txn, source->pin->source_txn) != 0 || n++ >= LIST_MAX)
				continue;
			r = pf_buf_addstr(&pins, n > 1 ? ", " : "");
			if (r == 0)
				r = pf_pin_describe(&l->v[i], &pins);
		}
	}
	if (r == 0 && n > LIST_MAX)
		r = pf_buf_addf(&pins, " and %zu more", n - LIST_MAX);
	if (r < 0 || !pf_buf_str(&pins))
		return -ENOMEM;
	list_fragments(m, fragments, sizeof(fragments));
	/* The pins come last: there may be many, with long labels, and a sentence is cut at its end. */
	return pf_why_set(why, -EBUSY, "%s the rows of %s, group %zu, and %s: replan. %s %s",
			  n == 1 ? "a pin follows" : "pins follow", fragments, group, because,
			  n == 1 ? "It is" : "They are", (char *)pins.data);
}

static int cannot_record(const struct gate *t, size_t group, struct pf_why *why)
{
	const struct pf_group_moves *m = &t->moves.v[group];
	char fragments[LIST_TEXT], because[128];

	snprintf(because, sizeof(because), "where they went is not known, since %s", m->unknown);
	if (is_followed(t, m))
		return blocked(t, group, because, why);
	list_fragments(m, fragments, sizeof(fragments));
	return pf_why_set(why, -EAGAIN,
			  "an index, or the history of moved rows, covers rows of %s, group %zu, and %s: replan",
			  fragments, group, because);
}

/* New ids must be new to the history: rows of others would be taken for theirs. */
static int check_fresh(const struct gate *t, size_t group, struct pf_why *why)
{
	const struct pf_group_moves *m = &t->moves.v[group];

	for (size_t i = 0; i < m->n_to; i++) {
		bool used = pf_fri_source_of(&t->history, (uint32_t)m->to[i].id, 0) != NULL;
		for (size_t g = 0; g < t->history.n_groups && !used; g++)
			for (size_t k = 0; k < t->history.groups[g].n_to; k++)
				used |= t->history.groups[g].to[k].id == m->to[i].id;
		if (used)
			return pf_why_set(why, -EINVAL,
					  "group %zu: a new fragment has the id %" PRIu64
					  ", which the history of moved rows knows as another one",
					  group, m->to[i].id);
	}
	return 0;
}

/* Overlaid rows cannot be followed by a tagged record (lance-14-fri section 4). */
static int check_overlays(const struct gate *t, size_t group, struct pf_why *why)
{
	const struct pf_group_moves *m = &t->moves.v[group];

	for (size_t i = 0; t->tagged && i < m->n_from; i++) {
		const struct pf_slot *s = pf_roster_find(&t->x->gone, m->from[i].id);
		if (s && (s->facts & PF_SLOT_OVERLAYS))
			return pf_why_set(why, -EOPNOTSUPP,
					  "group %zu: fragment %" PRIu64
					  " has overlays, which a tagged history cannot follow",
					  group, m->from[i].id);
	}
	return 0;
}

/*
 * A history of version 0 has each movement that can be recorded while there are pins, followed or not: by their stamps, later records are kept for them all the
 * same. So who follows a group matters only if it cannot be, and only then the sources are read.
 */
static int must_record(struct gate *t, size_t group, struct pf_why *why)
{
	const struct pf_group_moves *m = &t->moves.v[group];

	if (t->sources.n == 0)
		return 0;
	if (!t->tagged && !m->unknown)
		return 1;
	int r = pf_sources_reach(t->b, &t->history, &t->sources, why);
	return r < 0 ? r : is_followed(t, m);
}

/* Does it have rows that an earlier record brought there? */
static bool moves_again(const struct gate *t, const struct pf_group_moves *m)
{
	for (size_t g = 0; g < t->history.n_groups; g++)
		for (size_t k = 0; k < t->history.groups[g].n_to; k++)
			for (size_t i = 0; i < m->n_from; i++)
				if (t->history.groups[g].to[k].id == m->from[i].id)
					return true;
	return false;
}

/* Which groups must be recorded. *any: some, and then all are that can be. */
static int decide(struct gate *t, bool *any, struct pf_why *why)
{
	bool covered_any = false;
	/* Of such a history all are made below anyway; here it shows which cannot be. */
	int r = t->sources.n && !t->tagged ? pf_moves_make(t->b, t->x, &t->moves, why) : 0;

	*any = false;
	if (r < 0)
		return r;
	t->must = calloc(t->moves.n + 1, sizeof(*t->must));
	if (!t->must)
		return -ENOMEM;
	for (size_t g = 0; g < t->moves.n; g++) {
		bool covered;
		r = is_covered(t, &t->moves.v[g], &covered, why);
		if (r < 0)
			return r;
		covered_any |= covered;
		r = must_record(t, g, why);
		if (r < 0)
			return r;
		t->must[g] = r || (t->tagged && covered) || (t->g->remapped && moves_again(t, &t->moves.v[g]));
		*any |= t->must[g];
	}
	if (!*any && t->g->records && covered_any) {
		*any = true;
		for (size_t g = 0; g < t->moves.n; g++)
			t->must[g] = true;
	}
	return 0;
}

/* The content of the new history: what was there, and the new records. */
static int put_records(const struct gate *t, struct pf_buf *content)
{
	_cleanup_(pf_freep) struct pf_move *v = calloc(t->moves.n + 1, sizeof(*v));
	size_t n = 0;

	if (!v)
		return -ENOMEM;
	for (size_t g = 0; g < t->moves.n; g++) {
		const struct pf_group_moves *m = &t->moves.v[g];
		if (m->rows.n)
			v[n++] = (struct pf_move){ m->from, m->to, m->n_from, m->n_to, m->rows };
	}
	int r = pf_buf_add(content, t->history.content.data, t->history.content.len);
	if (r == 0 && !t->tagged)
		return pf_fri_put_version(t->x->version - 1, v, n, content);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = pf_fri_put_transition(&v[i], content);
	return r;
}

static int keep_coverage(struct pf_next *x, struct pf_bitmap *into, struct pf_why *why)
{
	for (size_t i = 0; i < x->n_entries; i++) {
		_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) != 0)
			continue;
		int r = pf_entry_bitmap(&x->entries[i], &b, why);
		return r < 0 || !b ? r : pf_bitmap_merge(into, b);
	}
	return 0;
}

/* v0: of all records; tagged: what the entry had, and what the new records mention. */
static int make_coverage(const struct gate *t, const struct pf_fri *history, struct pf_bitmap **out, struct pf_why *why)
{
	int r = pf_fri_coverage(history, t->tagged ? t->history.n_groups : 0, out);

	return r < 0 || !t->tagged ? r : keep_coverage(t->x, *out, why);
}

/* Does the history's entry cover some of the fragments of a group and not all, with which old releases cannot open the table (fri_write.h)? */
static int is_torn(const struct gate *t, const struct pf_fri *f, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *covered = NULL;

	int r = pf_bitmap_from(NULL, 0, &covered);
	if (r == 0)
		r = keep_coverage(t->x, covered, why);
	for (size_t g = 0; r == 0 && g < f->n_groups; g++) {
		size_t n = 0;
		for (size_t i = 0; i < f->groups[g].n_from; i++)
			n += pf_bitmap_has(covered, (uint32_t)f->groups[g].from[i].id);
		r = n > 0 && n < f->groups[g].n_from;
	}
	return r;
}

/* Does whoever made x say the same already? */
static int is_there(const struct gate *t, const struct pf_buf *content, struct pf_why *why)
{
	const struct pf_fri *f = t->g->there;

	if (!f || (f->index_version != 0) != t->tagged || !pf_span_eq(PF_SPAN_OF(&f->content), PF_SPAN_OF(content)))
		return 0;
	int torn = t->tagged ? 0 : is_torn(t, f, why);
	return torn < 0 ? torn : !torn;
}

static int record(struct gate *t, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *coverage = NULL;
	_cleanup_(pf_fri_release) struct pf_fri history = { 0 };
	int r = pf_moves_make(t->b, t->x, &t->moves, why);

	for (size_t g = 0; r == 0 && g < t->moves.n; g++) {
		if (t->moves.v[g].unknown && t->must[g])
			return cannot_record(t, g, why);
		r = check_overlays(t, g, why);
		if (r == 0)
			r = check_fresh(t, g, why);
	}
	if (r == 0)
		r = put_records(t, &content);
	if (r == 0)
		r = is_there(t, &content, why);
	if (r != 0)
		return r < 0 ? r : 0;
	/* Nothing is published that Lance could not read: a bad record would block every later commit (lance-14-fri section 2). */
	r = pf_fri_decode(&content, t->tagged, &history, why);
	if (r == -EBADMSG)
		return pf_why_prefix(why, -EINVAL, "with these moves the history would not be valid");
	if (r == 0)
		r = make_coverage(t, &history, &coverage, why);
	return r < 0 ? r : pf_fri_replace(t->x, &history, coverage, t->g->now, why);
}

int pf_gate(const struct pf_gate *g, struct pf_branch *b, const struct pf_operation *o, struct pf_next *x,
	    struct pf_why *why)
{
	_cleanup_(gate_release) struct gate t = { .g = g, .b = b, .x = x };
	bool any = false;

	if (o->number != LANCE__TRANSACTION__OPERATION__REWRITE)
		return 0;
	int r = pf_next_check_history(x, why);
	if (r < 0)
		return r;
	if (x->stable)
		return pf_moves_check_ids(b, o, x, why);
	r = pf_moves_read(b, o, x, g->moved, &t.moves, why);
	if (r == 0)
		r = read_history(&t, why);
	if (r == 0)
		r = pf_sources_read(b, &x->base->pins, &t.history, &t.sources, why);
	if (r == 0)
		r = decide(&t, &any, why);
	return r < 0 || !any ? r : record(&t, why);
}
