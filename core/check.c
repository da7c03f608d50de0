#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "flags.h"
#include "hint.h"
#include "lost.h"
#include "txn.h"

struct check {
	struct pf_store *st;
	int (*found)(void *arg, const struct pf_finding *f);
	pf_progress_fn progress;
	void *arg;
	struct pf_why *why;
	bool stopped; /* by found: what it returned is no error of storage */
	struct pf_check_totals totals;
};

/* One version as the walk saw it. */
struct seen {
	uint64_t version;
	bool v2, readable;
	bool gone;		 /* since it was listed */
	char uuid[PF_UUID_TEXT]; /* of its transaction, "" if that is unknown */
};

/* One line of versions, main or a branch. */
struct line {
	struct check *c;
	const char *branch; /* NULL: main */
	char *dir, *versions;
	char **others; /* names in _versions/ that are no version */
	size_t n_others;
	struct seen *v; /* ascending */
	size_t n;
	struct seen *at;	  /* the version being walked */
	struct pf_manifest *prev; /* the version walked last; NULL if it was not readable */
};

static void line_release(struct line *l)
{
	for (size_t i = 0; i < l->n_others; i++)
		free(l->others[i]);
	free(l->others);
	free(l->v);
	free(l->dir);
	free(l->versions);
	pf_manifest_unref(l->prev);
}

_printf_(6, 7) static int report(struct check *c, enum pf_severity severity, const char *branch, uint64_t version,
				 const char *file, const char *fmt, ...)
{
	char text[PF_WHY_MAX];
	const struct pf_finding f = {
		.severity = severity, .branch = branch, .version = version, .file = file, .text = text
	};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (severity == PF_DAMAGE)
		c->totals.damages++;
	else
		c->totals.notes++;
	int r = c->found(c->arg, &f);
	c->stopped = r != 0;
	return r;
}

#define NOTE(l, version, file, ...)   report((l)->c, PF_NOTE, (l)->branch, version, file, __VA_ARGS__)
#define DAMAGE(l, version, file, ...) report((l)->c, PF_DAMAGE, (l)->branch, version, file, __VA_ARGS__)

static const char *text_of(int err, const struct pf_why *why)
{
	return why->text[0] ? why->text : strerror(-err);
}

static int collect(void *arg, const char *name, bool is_dir)
{
	struct line *l = arg;
	struct seen s = { 0 };

	if (pf_manifest_name_parse(name, &s.version, &s.v2)) {
		struct seen *v = reallocarray(l->v, l->n + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		l->v = v;
		v[l->n++] = s;
		return 0;
	}
	char **others = reallocarray(l->others, l->n_others + 1, sizeof(*others));
	if (!others)
		return -ENOMEM;
	l->others = others;
	others[l->n_others] = strdup(name);
	return others[l->n_others] ? (l->n_others++, 0) : -ENOMEM;
}

static int cmp_seen(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return x->v2 - y->v2;
}

static int cmp_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const struct seen *find_version(const struct line *l, uint64_t version)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].version == version)
			return &l->v[i];
	return NULL;
}

static int check_hint(struct line *l, const char *file)
{
	struct pf_why why = PF_WHY_INIT;

	int r = pf_hint_check(l->c->st, l->versions, l->v[l->n - 1].version, &why);
	return r > 0 ? NOTE(l, 0, file, "%s", why.text) : r;
}

static bool is_staging(const char *name)
{
	return strncmp(name, ".tmp", 4) == 0 || strstr(name, ".manifest-") || strstr(name, ".manifest#");
}

static int check_others(struct line *l)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n_others; i++) {
		_cleanup_(pf_freep) char *file = NULL;
		if (asprintf(&file, "%s/%s", l->versions, l->others[i]) < 0)
			return file = NULL, -ENOMEM;
		if (strcmp(l->others[i], PF_HINT_NAME) == 0)
			r = check_hint(l, file);
		else if (is_staging(l->others[i]))
			r = NOTE(l, 0, file, "left over by a commit that did not end, or being written now");
	}
	return r;
}

static int is_name(void *arg, const char *name, bool is_dir)
{
	return strcmp(name, arg) == 0;
}

/* Was the manifest removed, or renamed, since it was listed? 1, 0 or -ENOMEM. */
static int is_gone(struct line *l, const char *file)
{
	_cleanup_(pf_freep) char *name = strdup(strrchr(file, '/') + 1);
	int r = name ? pf_store_list(l->c->st, l->versions, is_name, name) : -ENOMEM;

	return r < 0 ? (r == -ENOMEM ? r : 0) : !r;
}

/* What is wrong with the version at hand; nothing is, if somebody removes it while we look. */
static int blame(struct line *l, const char *file, const char *text, const char *more)
{
	int r = l->at->gone ? 1 : is_gone(l, file);

	if (r < 0)
		return r;
	if (r == 0)
		return DAMAGE(l, l->at->version, file, "%s%s", text, more);
	if (l->at->gone)
		return 0;
	l->at->gone = true;
	return NOTE(l, l->at->version, file, "%s was removed, or got another name, while this looked", file);
}

/* Holes are what a cleanup leaves; the window of a pin must have none. */
static int check_gaps(struct line *l, uint64_t oldest_source)
{
	for (size_t i = 1; i < l->n; i++) {
		uint64_t from = l->v[i - 1].version + 1, to = l->v[i].version - 1;
		if (from > to || l->v[i].version == l->v[i - 1].version)
			continue;
		bool needed = to >= oldest_source;
		int r = report(l->c, needed ? PF_DAMAGE : PF_NOTE, l->branch, from, l->versions,
			       "versions %" PRIu64 " to %" PRIu64 " are missing%s", from, to,
			       needed ? ", and pins need them" : ", as a cleanup leaves it");
		if (r)
			return r;
	}
	return 0;
}

/* An index section must be a list of messages. */
static int walk_index(struct pf_reader *r, const struct pf_manifest *m, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f, inner;
	int e;

	pf_wire_init(&w, r, m->index.off, m->index.len);
	while ((e = pf_wire_next(&w, &f, why)) > 0) {
		e = pf_wire_expect(&f, PF_WIRE_LEN, why);
		if (e < 0)
			return e;
		uint64_t end = pf_wire_enter(&w, &f);
		while ((e = pf_wire_next(&w, &inner, why)) > 0)
			;
		if (e < 0)
			return e;
		pf_wire_leave(&w, end);
	}
	return e;
}

static int check_index(struct line *l, const struct pf_manifest *m)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_why why = PF_WHY_INIT;
	char text[PF_WHY_MAX];

	if (!m->index.present)
		return 0;
	int r = pf_store_open(l->c->st, m->name, &file);
	if (r == 0)
		r = walk_index(&file->r, m, &why);
	snprintf(text, sizeof(text), "%s: the index section: ", m->name);
	return r < 0 ? blame(l, m->name, text, text_of(r, &why)) : 0;
}

static int check_fragments(struct line *l, const struct pf_manifest *m)
{
	uint64_t fragments, rows;
	struct pf_why why = PF_WHY_INIT;

	int r = pf_manifest_count(l->c->st, m, &fragments, &rows, &why);
	return r < 0 ? blame(l, m->name, text_of(r, &why), "") : 0;
}

static int check_txn(struct line *l, const struct pf_manifest *m, struct seen *s)
{
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_stat st;

	int r = pf_txn_read(l->c->st, l->dir, m, &t, &why);
	if (r == -ENODATA && m->pins.n == 0)
		return NOTE(l, m->version, m->name, "%s", text_of(r, &why));
	if (r < 0)
		return blame(l, m->name, text_of(r, &why),
			     m->pins.n ? "; a version with pins must have a readable transaction" : "");
	l->c->totals.transactions++;
	memcpy(s->uuid, t.uuid, sizeof(s->uuid));
	if (s > l->v && s->uuid[0] && strcmp(s->uuid, s[-1].uuid) == 0)
		return NOTE(l, m->version, m->name, "%s: its transaction %s is that of version %" PRIu64, m->name,
			    s->uuid, s[-1].version);
	if (!m->transaction.present || !m->transaction_file)
		return 0;
	_cleanup_(pf_freep) char *file = NULL;
	if (asprintf(&file, "%s_transactions/%s", l->dir, m->transaction_file) < 0)
		return file = NULL, -ENOMEM;
	r = pf_store_stat(l->c->st, file, &st);
	if (r == 0)
		return 0;
	return NOTE(l, m->version, file, "%s: its transaction file: %s; the copy inside is there", m->name,
		    strerror(-r));
}

static int check_flags(struct line *l, const struct pf_manifest *m)
{
	struct pf_why why = PF_WHY_INIT;
	int r = pf_flags_readable(m->reader_flags, m->writer_flags, &why);

	if (r == -EBADMSG)
		return DAMAGE(l, m->version, m->name, "%s: %s", m->name, why.text);
	if (r == 0)
		r = pf_flags_writable(m->writer_flags, &why);
	if (r < 0) {
		r = NOTE(l, m->version, m->name, "%s: %s", m->name, text_of(r, &why));
		if (r)
			return r;
	}
	bool has_bit = m->writer_flags & PF_FLAG_PINS;
	if (m->pins.n && !has_bit)
		return NOTE(l, m->version, m->name, "%s has pins, and not the feature bit that keeps other writers out",
			    m->name);
	if (l->prev && (l->prev->writer_flags & PF_FLAG_PINS) && !has_bit) {
		_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT;
		r = pf_writer_describe(m, &writer);
		const char *by = r < 0 ? NULL : pf_buf_str(&writer);
		return by ? NOTE(l, m->version, m->name,
				 "%s was written by %s, without the feature bit of pins that version %" PRIu64 " has",
				 m->name, by, l->prev->version)
			  : -ENOMEM;
	}
	return 0;
}

static int check_branch_field(struct line *l, const struct pf_manifest *m)
{
	char quoted[PF_QUOTE_TEXT];
	const char *is = m->branch ? m->branch : "", *want = l->branch ? l->branch : "";

	if (strcmp(is, want) == 0)
		return 0;
	return DAMAGE(l, m->version, m->name, "%s: expected a manifest of %s, found one of %s", m->name,
		      l->branch ? l->branch : "main", m->branch ? pf_text_quote(is, strlen(is), quoted) : "main");
}

static int check_version(struct line *l, struct seen *s)
{
	char base[PF_MANIFEST_NAME_MAX];
	_cleanup_(pf_freep) char *file = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	pf_manifest_name_format(s->version, s->v2, base);
	if (asprintf(&file, "%s/%s", l->versions, base) < 0)
		return file = NULL, -ENOMEM;
	l->c->totals.manifests++;
	l->at = s;
	int r = pf_manifest_open(l->c->st, file, &m, &why);
	if (r < 0)
		r = blame(l, file, text_of(r, &why), "");
	else if ((r = check_branch_field(l, m)) || (r = check_flags(l, m)) || (r = check_txn(l, m, s)) ||
		 (r = check_index(l, m)))
		return r;
	else
		r = check_fragments(l, m);
	s->readable = m;
	pf_manifest_unref(l->prev);
	l->prev = STEAL(m);
	return r;
}

/* Only the head's pins count: their sources must be there, and be who the pins say. */
static int check_pins(struct line *l, uint64_t *oldest)
{
	const struct pf_manifest *head = l->prev;

	*oldest = UINT64_MAX;
	for (size_t i = 0; head && i < head->pins.n; i++) {
		const struct pf_pin *p = &head->pins.v[i];
		const struct seen *source = find_version(l, p->source_version);
		char id[PF_UUID_TEXT];
		int r = 0;
		pf_uuid_format(&p->id, id);
		l->c->totals.pins++;
		if (p->source_version < *oldest)
			*oldest = p->source_version;
		if (p->source_version >= head->version)
			r = DAMAGE(l, head->version, head->name,
				   "pin %s: expected a source before version %" PRIu64 ", found %" PRIu64, id,
				   head->version, p->source_version);
		else if (!source)
			r = DAMAGE(l, p->source_version, l->versions,
				   "pin %s: its source, version %" PRIu64 ", is missing", id, p->source_version);
		else if (source->readable && strcmp(source->uuid, p->source_txn) != 0)
			r = DAMAGE(l, p->source_version, l->versions,
				   "pin %s: expected version %" PRIu64 " to be of transaction %s, found %s", id,
				   p->source_version, p->source_txn, source->uuid[0] ? source->uuid : "none");
		if (r)
			return r;
	}
	return 0;
}

/* By history and guard tags. */
static int check_lost(struct line *l)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { NULL };

	struct pf_why why = PF_WHY_INIT;
	int r = pf_branch_open(l->c->st, l->branch, &b, &why);
	if (r == 0)
		r = pf_lost_find(b, 0, &lost, &why);
	if (r < 0)
		return r == -ENOMEM ? r
				    : NOTE(l, 0, l->versions, "lost pins were not looked for: %s", text_of(r, &why));
	for (size_t i = 0; r == 0 && i < lost.n; i++) {
		const struct pf_lost *p = &lost.v[i];
		char id[PF_UUID_TEXT];
		pf_uuid_format(&p->pin.id, id);
		if (p->version)
			r = DAMAGE(l, p->version, l->versions,
				   "pin %s was lost: version %" PRIu64
				   ", written by %s, dropped it and names it in no operation",
				   id, p->version, p->writer ? p->writer : "an unknown writer");
		else
			r = DAMAGE(l, 0, l->versions, "pin %s was lost: it has a guard tag, and no operation ended it",
				   id);
	}
	return r;
}

static int check_schemes(struct line *l)
{
	bool seen[2] = { false };

	for (size_t i = 0; i < l->n; i++)
		seen[l->v[i].v2] = true;
	if (!seen[0] || !seen[1])
		return 0;
	return DAMAGE(l, 0, l->versions, "%s/: expected one naming scheme, found both, V1 and V2", l->versions);
}

static int walk_line(struct line *l)
{
	const struct check *c = l->c;
	uint64_t oldest;
	int r = check_schemes(l);

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		r = check_version(l, &l->v[i]);
		if (r == 0 && c->progress && c->progress(c->arg, i + 1, l->n) != 0)
			return pf_why_set(c->why, -EINTR, "interrupted after %zu of %zu versions", i + 1, l->n);
	}
	if (r == 0)
		r = check_pins(l, &oldest);
	if (r == 0)
		r = check_gaps(l, oldest);
	if (r == 0)
		r = check_lost(l);
	return r ? r : check_others(l);
}

/* Walk main (branch NULL) or a branch. -ENOENT if it has no version at all. */
static int check_line(struct check *c, const char *branch)
{
	_cleanup_(line_release) struct line l = { .c = c, .branch = branch };

	if (asprintf(&l.dir, "%s%s%s", branch ? "tree/" : "", branch ? branch : "", branch ? "/" : "") < 0)
		return l.dir = NULL, -ENOMEM;
	if (asprintf(&l.versions, "%s_versions", l.dir) < 0)
		return l.versions = NULL, -ENOMEM;
	int r = pf_store_list(c->st, l.versions, collect, &l);
	if (r < 0 && r != -ENOENT && r != -ENOTDIR)
		return r == -ENOMEM ? r : DAMAGE(&l, 0, l.versions, "%s/: %s", l.versions, strerror(-r));
	c->totals.branches++;
	if (l.n == 0)
		return branch ? DAMAGE(&l, 0, l.versions, "no manifest in %s/", l.versions) : -ENOENT;
	qsort(l.v, l.n, sizeof(*l.v), cmp_seen);
	if (l.n_others)
		qsort(l.others, l.n_others, sizeof(*l.others), cmp_names);
	return walk_line(&l);
}

/* A tag on what is not there is allowed (Lance lists it and fails on checkout), and is never what somebody wants. */
static int check_tag(struct check *c, const struct pf_tag *t, const struct pf_branch_refs *refs)
{
	const char *branch = t->branch ? t->branch : "main";
	bool known = !t->branch;
	char quoted[PF_QUOTE_TEXT];
	struct pf_stat st;

	for (size_t i = 0; !known && i < refs->n; i++)
		known = strcmp(refs->v[i].name, t->branch) == 0;
	pf_text_quote(t->name, strlen(t->name), quoted);
	if (!known)
		return report(c, PF_NOTE, t->branch, t->version, "_refs/tags",
			      "tag %s names a branch that is not there", quoted);
	for (int v2 = 0; v2 < 2; v2++) {
		char base[PF_MANIFEST_NAME_MAX];
		_cleanup_(pf_freep) char *file = NULL;
		pf_manifest_name_format(t->version, v2, base);
		if (asprintf(&file, "%s%s%s_versions/%s", t->branch ? "tree/" : "", t->branch ? t->branch : "",
			     t->branch ? "/" : "", base) < 0)
			return file = NULL, -ENOMEM;
		int r = pf_store_stat(c->st, file, &st);
		if (r == 0)
			return 0;
		if (r != -ENOENT)
			return report(c, PF_DAMAGE, t->branch, t->version, file, "%s: %s", file, strerror(-r));
	}
	return report(c, PF_NOTE, t->branch, t->version, "_refs/tags",
		      "tag %s names version %" PRIu64 " of %s, which is not there", quoted, t->version, branch);
}

static int bad_ref(void *arg, const char *file, const char *text)
{
	return report(arg, PF_DAMAGE, NULL, 0, file, "%s", text);
}

static int check_tags(struct check *c, const struct pf_branch_refs *refs)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
	struct pf_why why = PF_WHY_INIT;
	int r = pf_tags_scan(c->st, bad_ref, c, &tags, &why);

	if (r && r != -ENOMEM && !c->stopped)
		return bad_ref(c, "_refs/tags", text_of(r, &why));
	for (size_t i = 0; r == 0 && i < tags.n; i++)
		r = check_tag(c, &tags.v[i], refs);
	return r;
}

static int check_table(struct check *c, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };
	struct pf_why inner = PF_WHY_INIT;

	int r = check_line(c, NULL);
	if (r == -ENOENT && !c->stopped)
		return pf_why_set(why, r, "%s is not a Lance table: no manifest in _versions/", c->st->where);
	if (r)
		return r;
	r = pf_branches_scan(c->st, bad_ref, c, &refs, &inner);
	if (r && r != -ENOMEM && !c->stopped)
		r = bad_ref(c, "_refs/branches", text_of(r, &inner));
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		r = check_line(c, refs.v[i].name);
	return r ? r : check_tags(c, &refs);
}

int pf_check(struct pf_store *st, int (*found)(void *arg, const struct pf_finding *f), pf_progress_fn progress,
	     void *arg, struct pf_check_totals *out, struct pf_why *why)
{
	struct check c = { .st = st, .found = found, .progress = progress, .arg = arg, .why = why };

	int r = check_table(&c, why);
	*out = c.totals;
	return r;
}
