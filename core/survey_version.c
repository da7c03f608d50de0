#include "survey_parts.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "flags.h"
#include "lance.pb-c.h"

/* About what a fragment of one file takes in a manifest. */
#define FRAGMENT_LEN 96

void pf_held_release(struct pf_held *h)
{
	pf_manifest_unref(h->m);
	pf_buf_release(&h->bytes);
	pf_file_close(h->file);
	pf_fragment_list_release(&h->fragments);
	*h = (struct pf_held){ NULL };
}

/* Empty, memory kept. */
static void held_reset(struct pf_held *h)
{
	pf_manifest_unref(STEAL(h->m));
	pf_file_close(STEAL(h->file));
	pf_buf_reset(&h->bytes);
	h->fragments.n = 0;
}

static void taking_release(struct pf_taking *t)
{
	pf_places_release(&t->places);
	pf_buf_release(&t->path);
	free(t->name);
}

int pf_file_list_add(struct pf_file_list *l, size_t file)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 16;
		size_t *v = reallocarray(l->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		l->cap = cap;
	}
	l->v[l->n++] = file;
	return 0;
}

int pf_survey_add_gap(struct pf_survey *s, enum pf_gap_kind kind, uint64_t first, uint64_t last, const char *file,
		      int err, const char *text)
{
	struct pf_gap *v = reallocarray(s->gaps, s->n_gaps + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	s->gaps = v;

	struct pf_gap g = { .kind = kind, .first = first, .last = last, .file = strdup(file), .text = strdup(text) };
	if (!g.file || !g.text) {
		free(g.file);
		free(g.text);
		return -ENOMEM;
	}
	g.passing = err != -EBADMSG && err != -EOPNOTSUPP && err != -ENOENT && err != -ENODATA;
	if (pf_store_stat(s->state->st, file, &g.seen) < 0)
		g.seen = (struct pf_stat){ 0 };
	v[s->n_gaps++] = g;
	return 0;
}

/* Count a file below a place: the class's folder is there already, or the place is that folder. */
static int count_at(struct pf_taking *t, uint32_t base, const char *prefix, const char *path,
		    const struct pf_surveyed_file *like)
{
	_cleanup_(pf_buf_release) struct pf_buf joined = PF_BUF_INIT;

	if (prefix[0]) {
		if (pf_buf_addstr(&joined, prefix) < 0 || pf_buf_addstr(&joined, path) < 0)
			return -ENOMEM;
		path = pf_buf_str(&joined);
		if (!path)
			return -ENOMEM;
	}
	int64_t f = pf_file_set_add(&t->s->state->set, base, path, like);
	int r = f < 0 ? (int)f : pf_file_set_count(&t->s->state->set, (size_t)f, t->by);
	return r == 0 && t->list ? pf_file_list_add(t->list, (size_t)f) : r;
}

int pf_taking_see(void *arg, const struct pf_reference *ref)
{
	struct pf_taking *t = arg;
	struct pf_surveyed_file like = { .cls = ref->cls, .own = true, .optional = ref->optional, .said = ref->size };

	if (!ref->has_base)
		return count_at(t, 0, pf_survey_dir(t->s), ref->path, &like);
	const struct pf_place *p = pf_places_find(t->from, ref->base_id);
	if (!p && !t->is->m) {
		/* Base paths stand behind the fragments: it may be a new one. */
		t->unplaced = true;
		return 0;
	}
	if (!p)
		return pf_why_set(t->why, -EBADMSG, "%s: it is on base %" PRIu32 ", which the manifest does not have",
				  ref->path, ref->base_id);
	like.own = p->own;
	const char *below = p->is_dataset_root ? ref->path : strchr(ref->path, '/') + 1;
	int r = count_at(t, p->base, p->prefix, below, &like);
	like.optional = true;
	if (r == 0 && p->perhaps)
		r = count_at(t, 0, p->perhaps, ref->path, &like);
	/* Lance 14 writes an index that it remaps beside the branch, and leaves the base of the old one in the entry. */
	like.own = true;
	if (r == 0 && ref->cls == PF_FILE_INDEX && !p->own)
		r = count_at(t, 0, pf_survey_dir(t->s), ref->path, &like);
	return r;
}

static int see_fragment(void *arg, struct pf_wire *w, const struct pf_field *f, int by, struct pf_why *why)
{
	struct pf_taking *t = arg;

	if (t->unplaced)
		return 0;
	t->by = by;
	t->why = why;
	return pf_fragment_references(w, f, &t->path, pf_taking_see, t, why);
}

/* Nothing is shared with the version before: all its counts go to zero. */
static int begin_whole(struct pf_taking *t)
{
	t->whole = true;
	return pf_file_set_clear(&t->s->state->set);
}

/* What was counted was not so. Files that nothing else names are left in the set: to be pruned. */
static void take_back(struct pf_taking *t)
{
	pf_file_set_undo(&t->s->state->set);
	t->s->state->prune = true;
}

/* Count all fragments once more, now that their bases are known. */
static int count_again(struct pf_taking *t, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	const struct pf_manifest *m = t->is->m;
	struct pf_field f;

	take_back(t);
	pf_file_set_begin(&t->s->state->set);
	t->unplaced = false;
	int r = begin_whole(t);
	pf_wire_init(&w, t->r, m->body_off, m->body_len);
	while (r == 0 && (r = pf_wire_next(&w, &f, why)) > 0)
		r = f.number == LANCE__MANIFEST__FIELD__FRAGMENTS ? see_fragment(t, &w, &f, 1, why) : 0;
	return r;
}

static int check_branch(struct pf_taking *t, struct pf_why *why)
{
	const char *is = t->is->m->branch ? t->is->m->branch : "";
	const char *want = pf_survey_branch(t->s) ? pf_survey_branch(t->s) : "";
	char quoted[PF_QUOTE_TEXT];

	if (strcmp(is, want) == 0)
		return 0;
	return pf_why_set(why, -EBADMSG, "expected a manifest of %s, found one of %s", want[0] ? want : "main",
			  is[0] ? pf_text_quote(is, strlen(is), quoted) : "main");
}

/* Where its files are, if that is not where those of the version before are. */
static int resolve_bases(struct pf_taking *t, struct pf_why *why)
{
	_cleanup_(pf_base_paths_release) struct pf_base_paths paths = { NULL, 0 };
	struct pf_survey_state *st = t->s->state;

	int r = pf_base_paths_read(t->r, t->is->m, &paths, why);
	if (r < 0)
		return r;
	if (!pf_places_are_of(&st->places, &paths)) {
		r = pf_places_resolve(st->st, pf_survey_dir(t->s), &t->s->refs, &paths, &st->bases, &t->places);
		if (r < 0)
			return r;
		t->moved = true;
		t->from = &t->places;
	}
	return t->unplaced || (t->moved && !pf_places_hold(&st->places, &t->places)) ? count_again(t, why) : 0;
}

int pf_read_span(struct pf_reader *r, uint64_t off, uint64_t len, struct pf_buf *out)
{
	int e = len ? pf_buf_reserve(out, len) : 0;

	if (e == 0 && len)
		e = r->read(r, off, out->data, len);
	if (e == 0)
		out->len = len;
	return e;
}

/* The bytes of the manifest, in memory or behind a window. */
static int hold(struct pf_taking *t, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_held *h = t->is;

	int r = pf_store_open(t->s->state->st, t->name, &file);
	if (r == -EISDIR)
		return pf_why_set(why, -EBADMSG, "%s: expected a file, found a directory", t->name);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", t->name, strerror(-r));
	t->st = file->st;
	t->s->manifests_read++;
	if (file->r.size > PF_SURVEY_WHOLE_MAX) {
		h->file = STEAL(file);
		t->r = &h->file->r;
		return 0;
	}
	r = pf_read_span(&file->r, 0, file->r.size, &h->bytes);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", t->name, strerror(-r));
	pf_mem_reader_init(&h->mem, h->bytes.data, h->bytes.len);
	t->r = &h->mem.base;
	return 0;
}

/* What the version before was read from; NULL if that is not at hand any more: the next one is then taken in whole. */
static struct pf_reader *reader_before(struct pf_taking *t)
{
	struct pf_held *h = t->was;

	if (!h->m || h->fragments.scattered)
		return NULL;
	if (h->bytes.len)
		return &h->mem.base;
	if (!h->file && pf_manifest_reopen(t->s->state->st, h->m, &h->file, NULL) < 0)
		return NULL;
	return &h->file->r;
}

/* For as many files as the manifest may have more than the one before. */
static int make_room(struct pf_taking *t, const struct pf_reader *old)
{
	struct pf_file_set *set = &t->s->state->set;
	uint64_t before = old ? old->size : 0;

	return t->r->size > before ? pf_file_set_reserve(set, set->n + (t->r->size - before) / FRAGMENT_LEN) : 0;
}

/* Read the manifest, and count what differs from the version before, in one pass. */
static int read_manifest(struct pf_taking *t, struct pf_why *why)
{
	_cleanup_(pf_fragment_diff_release) struct pf_fragment_diff diff;
	struct pf_reader *old = reader_before(t);

	pf_file_set_begin(&t->s->state->set);
	t->from = &t->s->state->places;
	pf_fragment_diff_init(&diff, old ? &t->was->fragments : NULL, old, &t->is->fragments, t->r, see_fragment, t);
	int r = old ? 0 : begin_whole(t);
	if (r == 0)
		r = make_room(t, old);
	if (r == 0)
		r = pf_manifest_read(t->r, t->name, &t->st, pf_fragment_diff_see, &diff, &t->is->m, why);
	return r < 0 ? r : pf_fragment_diff_end(&diff, why);
}

/* All that the version refers to. */
static int count_all(struct pf_taking *t, struct pf_indexing *ix, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	int r = read_manifest(t, why);

	if (r < 0)
		return r;
	t->why = &inner;
	r = check_branch(t, &inner);
	if (r == 0)
		r = pf_flags_readable(t->is->m->reader_flags, t->is->m->writer_flags, &inner);
	if (r == 0)
		r = resolve_bases(t, &inner);
	t->why = &inner;
	if (r == 0)
		r = pf_indexing_count(t, ix);
	return r < 0 ? pf_why_set(why, r, "%s: %s", t->name, pf_text_of(r, &inner)) : 0;
}

static int add_alone(struct pf_taking *t, enum pf_file_class cls, const char *path, uint64_t size, bool optional)
{
	const struct pf_surveyed_file like = { .cls = cls, .own = true, .optional = optional, .said = size };
	struct pf_file_set *set = &t->s->state->set;

	int64_t f = pf_file_set_add(set, 0, path, &like);
	return f < 0 ? (int)f : pf_file_set_at(set, (size_t)f, t->e->version, t->before);
}

static int take_txn(struct pf_taking *t, struct pf_surveyed_version *v)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	_cleanup_(pf_freep) char *file = NULL;
	const struct pf_manifest *m = t->is->m;
	struct pf_why why = PF_WHY_INIT;
	struct pf_stat st = { 0 };
	int r, e;

	if (m->transaction.present)
		r = pf_txn_decode(t->r, m->transaction.off, m->transaction.len, t->name, &txn, &why);
	else
		r = pf_txn_read(t->s->state->st, pf_survey_dir(t->s), m, &txn, &why);
	if (r == -ENOMEM)
		return r;
	if (m->transaction_file && !strchr(m->transaction_file, '/')) {
		if (asprintf(&file, "%s_transactions/%s", pf_survey_dir(t->s), m->transaction_file) < 0)
			return file = NULL, -ENOMEM;
		/* Nothing else says how long it is: as long as when it could be read. */
		if (r == 0 && !m->transaction.present)
			pf_store_stat(t->s->state->st, file, &st);
		e = add_alone(t, PF_FILE_TRANSACTION, file, st.size, m->transaction.present);
		if (e < 0)
			return e;
	}
	if (r < 0)
		return pf_survey_add_gap(t->s, PF_GAP_TRANSACTION, t->e->version, t->e->version,
					 file && !m->transaction.present ? file : t->name, r, pf_text_of(r, &why));
	memcpy(v->txn, txn.uuid, sizeof(v->txn));
	v->operation = txn.operation;
	v->kind = txn.kind;
	return 0;
}

static int check_flags(struct pf_taking *t)
{
	const struct pf_manifest *m = t->is->m;
	struct pf_why why = PF_WHY_INIT;
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	int r = pf_flags_writable(m->writer_flags, &why);
	if (r == 0 || r == -ENOMEM)
		return r;
	int e = pf_buf_addf(&text, "%s: %s", t->name, why.text);
	const char *s = e == 0 ? pf_buf_str(&text) : NULL;
	return s ? pf_survey_add_gap(t->s, PF_GAP_FLAGS, t->e->version, t->e->version, t->name, r, s) : -ENOMEM;
}

static int64_t ns_of(struct pf_time t)
{
	int64_t ns;

	if (!__builtin_mul_overflow(t.sec, INT64_C(1000000000), &ns) && !__builtin_add_overflow(ns, t.nsec, &ns))
		return ns;
	return t.sec < 0 ? INT64_MIN : INT64_MAX;
}

static struct pf_surveyed_version *new_version(struct pf_survey *s)
{
	if (s->n_versions == s->state->cap_versions) {
		size_t cap = s->state->cap_versions ? 2 * s->state->cap_versions : 64;
		struct pf_surveyed_version *v = reallocarray(s->versions, cap, sizeof(*v));
		if (!v)
			return NULL;
		s->versions = v;
		s->state->cap_versions = cap;
	}
	s->versions[s->n_versions] = (struct pf_surveyed_version){ 0 };
	return &s->versions[s->n_versions];
}

/* Everything is counted: make it so. Only memory can be lacking from here on. */
static int settle(struct pf_taking *t, struct pf_indexing *ix, struct pf_surveyed_version *v)
{
	struct pf_survey_state *st = t->s->state;
	const struct pf_manifest *m = t->is->m;

	int r = pf_file_set_settle(&st->set, t->e->version, t->before);
	if (r == 0)
		r = pf_indexing_keep(t, ix);
	if (r == 0)
		r = take_txn(t, v);
	if (r == 0)
		r = check_flags(t);
	if (r < 0)
		return r;
	if (t->moved) {
		pf_places_release(&st->places);
		st->places = t->places;
		t->places = (struct pf_places){ NULL, 0 };
	}
	v->timestamp_ns = m->has_timestamp ? ns_of(m->timestamp) : 0;
	v->writer_flags = m->writer_flags;
	v->ambiguous = m->ambiguous;
	v->readable = true;
	held_reset(t->was);
	st->now = !st->now;
	return 0;
}

static int take_version(struct pf_taking *t, struct pf_surveyed_version *v, struct pf_why *why)
{
	_cleanup_(pf_indexing_release) struct pf_indexing ix = { .changed = false };

	int r = count_all(t, &ix, why);
	if (r < 0) {
		take_back(t);
		return r;
	}
	r = settle(t, &ix, v);
	t->s->state->broken = r < 0;
	return r;
}

/* The version is damaged: all that is known of it is its name. */
static int take_damaged(struct pf_taking *t, int err, const struct pf_why *why)
{
	held_reset(t->is);
	return pf_survey_add_gap(t->s, PF_GAP_MANIFEST, t->e->version, t->e->version, t->name, err, why->text);
}

int pf_survey_take(struct pf_survey *s, const struct pf_version_entry *e)
{
	struct pf_survey_state *st = s->state;
	struct pf_why why = PF_WHY_INIT;
	_cleanup_(taking_release) struct pf_taking t = { .s = s, .e = e, .path = PF_BUF_INIT };
	char base[PF_MANIFEST_NAME_MAX];

	t.was = &st->held[st->now];
	t.is = &st->held[!st->now];
	t.before = t.was->m ? t.was->m->version : 0;
	pf_manifest_name_format(e->version, e->v2, base);
	if (asprintf(&t.name, "%s_versions/%s", pf_survey_dir(s), base) < 0)
		return t.name = NULL, -ENOMEM;
	struct pf_surveyed_version *v = new_version(s);
	if (!v)
		return -ENOMEM;

	held_reset(t.is);
	int r = hold(&t, &why);
	if (r == -ENOENT)
		return 1;
	if (r == 0)
		r = take_version(&t, v, &why);
	if (r < 0)
		r = r == -ENOMEM ? r : take_damaged(&t, r, &why);
	if (r == 0)
		r = add_alone(&t, PF_FILE_MANIFEST, t.name, t.st.size, false);
	if (r < 0) {
		st->broken = true;
		return r;
	}
	v->version = e->version;
	v->v2 = e->v2;
	v->manifest_size = t.st.size;
	v->ino = t.st.ino;
	v->mtime_ns = t.st.mtime_ns;
	s->n_versions++;
	return 0;
}
