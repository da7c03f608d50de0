#include "history.h"

#include <string.h>

/* One version as it is kept. */
struct kept {
	struct pf_manifest *m;
	struct pf_txn txn;
	int txn_error; /* txn is empty then */
	struct pf_why txn_why;
};

static void kept_release(struct kept *k)
{
	pf_manifest_unref(k->m);
	pf_txn_release(&k->txn);
}

/* A file that is renamed or removed again each time it is looked at is not a race. */
#define TRIES_MAX 10

/* 1 and *out; 0 if a cleanup removed it since it was listed. */
static int load(struct pf_branch *b, uint64_t version, struct kept *out, struct pf_why *why)
{
	_cleanup_(kept_release) struct kept k = { .txn = PF_TXN_INIT };
	struct pf_why inner = PF_WHY_INIT;

	for (int i = 0; i == 0 || (k.txn_error == -ESTALE && i < TRIES_MAX); i++) {
		pf_manifest_unref(STEAL(k.m));
		int r = pf_branch_version(b, version, &k.m, &inner);
		if (r == -ENOENT)
			return 0;
		if (r < 0)
			return pf_why_set(why, r, "%s", inner.text);
		/* -ESTALE: removed, or renamed by a migration to V2 names, since it was opened. */
		k.txn_error = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), k.m, &k.txn, &k.txn_why);
	}
	if (k.txn_error == -ENOMEM)
		return -ENOMEM;
	*out = k;
	k = (struct kept){ .txn = PF_TXN_INIT };
	return 1;
}

static int show(const struct kept *k, const struct pf_manifest *before, pf_step_fn fn, void *arg)
{
	struct pf_step s = {
		.m = k->m,
		.before = before,
		.gap = before && before->version != k->m->version - 1,
		.txn = k->txn_error ? NULL : &k->txn,
		.txn_error = k->txn_error,
		.txn_why = k->txn_error ? k->txn_why.text : NULL,
	};

	return fn(arg, &s);
}

/* The first `before`: the newest version at or below `after` that can still be opened. */
static int open_before(struct pf_branch *b, const struct pf_version_entry *v, size_t n, struct pf_manifest **out,
		       struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;

	while (n > 0) {
		int r = pf_branch_version(b, v[--n].version, out, &inner);
		if (r != -ENOENT)
			return r < 0 ? pf_why_set(why, r, "%s", inner.text) : 0;
	}
	return 0;
}

int pf_history_walk(struct pf_branch *b, uint64_t after, pf_step_fn fn, void *arg, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *before = NULL;
	size_t n, i = 0;

	int r = pf_branch_versions(b, &v, &n, why);
	if (r < 0)
		return r;
	while (i < n && v[i].version <= after)
		i++;
	if (i < n)
		r = open_before(b, v, i, &before, why);
	for (; r == 0 && i < n; i++) {
		_cleanup_(kept_release) struct kept k = { .txn = PF_TXN_INIT };
		r = load(b, v[i].version, &k, why);
		if (r <= 0)
			continue;
		r = show(&k, before, fn, arg);
		pf_manifest_unref(before);
		before = STEAL(k.m);
	}
	return r;
}

int pf_step_check(const struct pf_step *s, struct pf_why *why)
{
	/* Damaged or gone stays so. */
	if (s->txn || s->txn_error == -ENODATA || s->txn_error == -ENOENT || s->txn_error == -EBADMSG)
		return 0;
	return pf_why_set(why, s->txn_error, "%s", s->txn_why);
}

static const char *const change_names[] = {
	[PF_CHANGE_REGISTERED] = "registered", [PF_CHANGE_RENEWED] = "renewed", [PF_CHANGE_RELEASED] = "released",
	[PF_CHANGE_EXPIRED] = "expired",       [PF_CHANGE_WAIVED] = "waived",	[PF_CHANGE_LOST] = "lost",
	[PF_CHANGE_UNKNOWN] = "unknown",
};

const char *pf_change_name(enum pf_change_kind kind)
{
	return change_names[kind];
}

/* Commits keep the order of the list and add at its end, so a pin is nearly always behind the one that was found last. */
static const struct pf_pin *find_next(const struct pf_pins *l, const struct pf_uuid *id, size_t *next)
{
	const struct pf_pin *p = NULL;

	if (*next < l->n && pf_uuid_eq(&l->v[*next].id, id))
		p = &l->v[*next];
	else
		p = pf_pins_find(l, id);
	if (p)
		*next = (size_t)(p - l->v) + 1;
	return p;
}

static bool names(const struct pf_txn *t, enum pf_op_kind kind, const struct pf_uuid *id)
{
	return t && t->kind == kind && pf_pins_find(&t->pins, id);
}

/*
 * Ours always carry their transaction inside the manifest, so one without it, or with one that cannot be read, is taken for another
 * writer's: a loss that was none can be waived, a release that was none would delete what a job still needs.
 */
static enum pf_change_kind how_it_went(const struct pf_step *s, const struct pf_uuid *id)
{
	if (names(s->txn, PF_OP_RELEASE, id))
		return PF_CHANGE_RELEASED;
	if (names(s->txn, PF_OP_EXPIRE, id))
		return PF_CHANGE_EXPIRED;
	return s->gap ? PF_CHANGE_UNKNOWN : PF_CHANGE_LOST;
}

/* What s->txn removed and s->before did not have. */
static int show_absent(const struct pf_step *s, const struct pf_pins *was, pf_change_fn fn, void *arg)
{
	bool known = s->before && !s->gap;
	int r = 0;

	if (!s->txn || (s->txn->kind != PF_OP_RELEASE && s->txn->kind != PF_OP_EXPIRE))
		return 0;
	for (size_t i = 0; r == 0 && i < s->txn->pins.n; i++) {
		const struct pf_pin *p = &s->txn->pins.v[i];
		if (pf_pins_find(was, &p->id) || pf_pins_find(&s->m->pins, &p->id))
			continue;
		/* Across a gap, or below the oldest version kept, it may well have been there. */
		if (s->txn->kind == PF_OP_EXPIRE)
			r = fn(arg, PF_CHANGE_EXPIRED, p, NULL);
		else
			r = fn(arg, known ? PF_CHANGE_WAIVED : PF_CHANGE_RELEASED, p, NULL);
	}
	return r;
}

int pf_step_changes(const struct pf_step *s, pf_change_fn fn, void *arg)
{
	static const struct pf_pins none = PF_PINS_INIT;
	const struct pf_pins *was = s->before ? &s->before->pins : &none, *is = &s->m->pins;
	size_t next = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < was->n; i++) {
		const struct pf_pin *old = &was->v[i], *p = find_next(is, &old->id, &next);
		if (!p)
			r = fn(arg, how_it_went(s, &old->id), old, old);
		else if (!pf_pin_same(old, p))
			r = fn(arg, PF_CHANGE_RENEWED, p, old);
	}
	next = 0;
	for (size_t i = 0; r == 0 && i < is->n; i++)
		if (!find_next(was, &is->v[i].id, &next))
			r = fn(arg, PF_CHANGE_REGISTERED, &is->v[i], NULL);
	return r ? r : show_absent(s, was, fn, arg);
}

int pf_writer_describe(const struct pf_manifest *m, struct pf_buf *out)
{
	size_t before = out->len;

	if (!m->writer_library[0])
		return pf_buf_addstr(out, "unknown writer");
	int r = pf_text_escape(m->writer_library, strlen(m->writer_library), out);
	if (r == 0 && m->writer_version[0]) {
		r = pf_buf_addch(out, ' ');
		if (r == 0)
			r = pf_text_escape(m->writer_version, strlen(m->writer_version), out);
	}
	if (r < 0)
		out->len = before;
	return r;
}
