#include "branch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "flags.h"

#define VERSIONS "_versions"

/* A head and the directory it was found in. Whatever is answered from it was compared with storage first. */
struct found {
	struct pf_manifest *head; /* NULL: nothing yet */
	struct pf_stat dir;	  /* of _versions/, taken before it was listed */
};

struct pf_branch {
	struct pf_store *st;
	char *name; /* NULL: main */
	char *dir;
	char *versions;		/* the directory */
	pthread_mutex_t lock;	/* guards `last` and `mixed` */
	pthread_mutex_t search; /* one search at a time: whoever waited finds its result in `last` */
	struct found last;
	struct pf_stat mixed; /* _versions/ as it was when both naming schemes were in it, and stayed */
};

/* The name in the store of a version's manifest, malloc'ed. */
static char *manifest_path(const struct pf_branch *b, uint64_t version, bool v2)
{
	char base[PF_MANIFEST_NAME_MAX], *path;

	pf_manifest_name_format(version, v2, base);
	return asprintf(&path, "%s/%s", b->versions, base) < 0 ? NULL : path;
}

static int not_a_table(const struct pf_branch *b, struct pf_why *why)
{
	return pf_why_set(why, -ENOENT, "%s is not a Lance table: no manifest in %s/", b->st->where, b->versions);
}

struct scan {
	struct pf_branch *b;
	struct pf_stat dir; /* before it was listed */
	bool seen[2];	    /* a name of scheme V1, of V2 */
	struct pf_version_entry example[2], newest;
	struct pf_version_entry *v; /* all of them, if keep */
	size_t n, cap;
	bool keep;
};

static int scan_name(void *arg, const char *name, bool is_dir)
{
	struct scan *s = arg;
	struct pf_version_entry e;

	if (!pf_manifest_name_parse(name, &e.version, &e.v2))
		return 0;
	if (!(s->seen[0] || s->seen[1]) || e.version > s->newest.version)
		s->newest = e;
	s->seen[e.v2] = true;
	s->example[e.v2] = e;
	if (!s->keep)
		return 0;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct pf_version_entry *v = realloc(s->v, cap * sizeof(*v));
		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = e;
	return 0;
}

static int list_versions(struct scan *s)
{
	struct pf_branch *b = s->b;

	s->seen[0] = s->seen[1] = false;
	s->n = 0;
	int r = pf_store_stat(b->st, b->versions, &s->dir);
	return r < 0 ? r : pf_store_list(b->st, b->versions, scan_name, s);
}

/*
 * Lance's migration to V2 names shows both schemes until it is through. Nothing changes in the directory for two seconds: nobody is at it. The
 * other limit is for somebody who changes other things there.
 */
#define MIGRATION_STILL_NS INT64_C(2000000000)
#define MIGRATION_MAX_NS   (5 * MIGRATION_STILL_NS)
#define PAUSE_MAX_MS	   64 /* each pause is twice the one before */

static bool was_mixed(struct pf_branch *b, const struct pf_stat *dir)
{
	pthread_mutex_lock(&b->lock);
	bool same = pf_stat_same(&b->mixed, dir);
	pthread_mutex_unlock(&b->lock);
	return same;
}

static int refuse_mixed(const struct scan *s, struct pf_why *why)
{
	char v1[PF_MANIFEST_NAME_MAX], v2[PF_MANIFEST_NAME_MAX];

	pthread_mutex_lock(&s->b->lock);
	s->b->mixed = s->dir;
	pthread_mutex_unlock(&s->b->lock);
	pf_manifest_name_format(s->example[0].version, false, v1);
	pf_manifest_name_format(s->example[1].version, true, v2);
	return pf_why_set(why, -EBADMSG,
			  "%s/: expected one naming scheme, found both: V1 (%s) and V2 (%s). Lance refuses such a "
			  "table too; finish its migrate_manifest_paths_v2",
			  s->b->versions, v1, v2);
}

/* List _versions/. -ENOENT if no version is in it, -EBADMSG if both naming schemes are, and stay. */
static int scan_versions(struct scan *s, struct pf_why *why)
{
	struct pf_branch *b = s->b;
	int64_t now = pf_time_steady_ns(), began = now, changed = now;
	struct pf_stat before;

	for (unsigned ms = 1;; ms = ms < PAUSE_MAX_MS ? 2 * ms : ms) {
		before = s->dir;
		int r = list_versions(s);
		if (r == -ENOENT || r == -ENOTDIR)
			return not_a_table(b, why);
		if (r < 0)
			return pf_why_set(why, r, "%s/: %s", b->versions, strerror(-r));
		if (!s->seen[0] || !s->seen[1])
			return s->seen[0] || s->seen[1] ? 0 : not_a_table(b, why);
		now = pf_time_steady_ns();
		if (!pf_stat_same(&s->dir, &before))
			changed = now;
		if (now - changed > MIGRATION_STILL_NS || now - began > MIGRATION_MAX_NS || was_mixed(b, &s->dir))
			return refuse_mixed(s, why);
		nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000L }, NULL);
	}
}

/* The one after *e, in either scheme. 0 or -ENOENT. V1 is asked for first: a migration goes from there to V2. */
static int next_version(struct pf_branch *b, const struct pf_version_entry *e, struct pf_version_entry *out)
{
	struct pf_stat st;
	int r = -ENOENT;

	for (int v2 = 0; r == -ENOENT && v2 <= 1 && e->version < UINT64_MAX; v2++) {
		*out = (struct pf_version_entry){ e->version + 1, v2 };
		_cleanup_(pf_freep) char *path = manifest_path(b, out->version, out->v2);
		r = path ? pf_store_stat(b->st, path, &st) : -ENOMEM;
	}
	return r;
}

/* A manifest of this branch whose flags allow reading. */
static int open_manifest(struct pf_branch *b, uint64_t version, bool v2, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_freep) char *path = manifest_path(b, version, v2);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	char quoted[PF_QUOTE_TEXT];

	if (!path)
		return -ENOMEM;
	int r = pf_manifest_open(b->st, path, &m, why);
	if (r < 0)
		return r;
	struct pf_why inner = PF_WHY_INIT;
	r = pf_flags_readable(m->reader_flags, m->writer_flags, &inner);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", path, inner.text);
	if (!b->name && m->branch)
		return pf_why_set(why, -EINVAL,
				  "%s belongs to the branch %s: open the table's root, and that branch by its name",
				  path, pf_text_quote(m->branch, strlen(m->branch), quoted));
	if (b->name && (!m->branch || strcmp(m->branch, b->name) != 0))
		return pf_why_set(why, -EBADMSG, "%s: expected a manifest of branch %s, found one of %s", path, b->name,
				  m->branch ? pf_text_quote(m->branch, strlen(m->branch), quoted) : "main");
	*out = STEAL(m);
	return 0;
}

/* 1 if `f` is still what storage has, 0 if it may not be. */
static int still_there(struct pf_branch *b, const struct found *f)
{
	struct pf_stat now;

	if (!f->head)
		return 0;
	/*
	 * Nothing was created or removed since. This alone would miss what happens within one tick of the file system's clock, so the
	 * next version is asked for too; that alone would miss commits whose first successor a cleanup has already removed.
	 */
	int r = pf_store_stat(b->st, b->versions, &now);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!pf_stat_same(&now, &f->dir))
		return 0;
	r = pf_store_stat(b->st, f->head->name, &now);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!pf_stat_same(&now, &f->head->st))
		return 0;
	if (f->head->version == UINT64_MAX)
		return 1;
	_cleanup_(pf_freep) char *next = manifest_path(b, f->head->version + 1, f->head->v2);
	if (!next)
		return -ENOMEM;
	r = pf_store_stat(b->st, next, &now);
	return r == -ENOENT ? 1 : r;
}

/* A copy of what was found last, with a reference of its own. */
static struct found take_last(struct pf_branch *b)
{
	pthread_mutex_lock(&b->lock);
	struct found f = b->last;
	if (f.head)
		pf_manifest_ref(f.head);
	pthread_mutex_unlock(&b->lock);
	return f;
}

static void found_release(struct found *f)
{
	pf_manifest_unref(f->head);
}

/* Remember `f`, whose reference it takes over; given `was`, only if that is still what is remembered: else somebody has seen more. */
static void put_last(struct pf_branch *b, const struct found *was, struct found f)
{
	pthread_mutex_lock(&b->lock);
	if (!was || (b->last.head == was->head && pf_stat_same(&b->last.dir, &was->dir))) {
		struct pf_manifest *old = b->last.head;
		b->last = f;
		f.head = old;
	}
	pthread_mutex_unlock(&b->lock);
	pf_manifest_unref(f.head);
}

/* Find the head by listing, and open it unless it is `known`. A head that was removed meanwhile is searched anew by the caller. */
static int search(struct pf_branch *b, const struct found *known, struct found *out, struct pf_why *why)
{
	struct scan s = { .b = b };
	struct pf_version_entry next;
	struct found f = { NULL };
	struct pf_stat st;

	int r = scan_versions(&s, why);
	if (r < 0)
		return r;
	/* A name that a migration changes while the directory is listed can be missed under both. */
	while ((r = next_version(b, &s.newest, &next)) == 0)
		s.newest = next;
	if (r != -ENOENT)
		return pf_why_set(why, r, "%s/: %s", b->versions, strerror(-r));
	f.dir = s.dir;
	if (known->head && known->head->version == s.newest.version && known->head->v2 == s.newest.v2 &&
	    pf_store_stat(b->st, known->head->name, &st) == 0 && pf_stat_same(&st, &known->head->st)) {
		f.head = pf_manifest_ref(known->head);
	} else {
		r = open_manifest(b, s.newest.version, s.newest.v2, &f.head, why);
		if (r < 0)
			return r == -ENOENT ? -ESTALE : r;
	}
	*out = f;
	return 0;
}

/* Searches that find their head gone before it is open: more in a row than this is not a race. */
#define SEARCHES_MAX 10

static int search_and_remember(struct pf_branch *b, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(found_release) struct found known = take_last(b);
	struct found f = { NULL };

	int r = still_there(b, &known);
	if (r < 0)
		return pf_why_set(why, r, "%s/: %s", b->versions, strerror(-r));
	if (r > 0) {
		*out = STEAL(known.head);
		return 0;
	}
	struct pf_why inner = PF_WHY_INIT;
	r = -ESTALE;
	for (int i = 0; r == -ESTALE && i < SEARCHES_MAX; i++)
		r = search(b, &known, &f, &inner);
	if (r == -ESTALE)
		return pf_why_set(why, -EIO, "%s/: its newest manifest is listed and cannot be found", b->versions);
	if (r < 0)
		return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
	*out = pf_manifest_ref(f.head);
	put_last(b, NULL, f);
	return 0;
}

int pf_branch_head(struct pf_branch *b, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(found_release) struct found last = take_last(b);

	int r = still_there(b, &last);
	if (r > 0) {
		*out = STEAL(last.head);
		return 0;
	}
	if (r < 0)
		return pf_why_set(why, r, "%s/: %s", b->versions, strerror(-r));
	pthread_mutex_lock(&b->search);
	r = search_and_remember(b, out, why);
	pthread_mutex_unlock(&b->search);
	return r;
}

/* Two ticks of the coarsest kernel's clock: what falls into one step and its two looks cannot be told from the step. */
#define STEP_MAX_NS 20000000

void pf_branch_step_begin(struct pf_branch *b, struct pf_branch_step *s)
{
	_cleanup_(found_release) struct found last = take_last(b);

	s->began = pf_time_steady_ns();
	s->head = still_there(b, &last) > 0 ? STEAL(last.head) : NULL;
	s->dir = last.dir;
}

bool pf_branch_step_end(struct pf_branch *b, struct pf_branch_step *s, uint64_t made)
{
	struct found was = { STEAL(s->head), s->dir }, f = { NULL };
	struct pf_stat base;

	s->dir = (struct pf_stat){ 0 };
	int r = pf_store_stat(b->st, b->versions, &s->dir);
	s->ended = pf_time_steady_ns();
	bool known = r == 0 && was.head && s->ended - s->began < STEP_MAX_NS;

	f.dir = s->dir;
	if (known && made) {
		/*
		 * Nobody has made this number free again, having taken it and gone on: they would have removed the base first, unless a tag
		 * holds it, and left a next version, unless that was removed too.
		 */
		known = was.head->version + 1 == made && pf_store_stat(b->st, was.head->name, &base) == 0 &&
			pf_stat_same(&base, &was.head->st) &&
			open_manifest(b, made, was.head->v2, &f.head, NULL) == 0 && still_there(b, &f) > 0;
	} else if (known) {
		f.head = pf_manifest_ref(was.head);
	}
	if (known)
		put_last(b, &was, f);
	else
		found_release(&f);
	found_release(&was);
	return known;
}

int pf_branch_sync(struct pf_branch *b)
{
	int r = pf_store_sync_dir(b->st, b->versions);

	return r == -EROFS ? 0 : r; /* nobody commits there */
}

static int no_version(const struct pf_branch *b, uint64_t version, struct pf_why *why)
{
	return pf_why_set(why, -ENOENT, "no version %" PRIu64 " in %s/", version, b->versions);
}

/* V2, V1, and V2 again: Lance's migration renames a manifest, and may have done so between the two looks. */
static const bool schemes[] = { true, false, true };

int pf_branch_stat(struct pf_branch *b, uint64_t version, struct pf_stat *out, struct pf_why *why)
{
	int r = -ENOENT;

	for (size_t i = 0; r == -ENOENT && i < ARRAY_LEN(schemes); i++) {
		_cleanup_(pf_freep) char *path = manifest_path(b, version, schemes[i]);
		r = path ? pf_store_stat(b->st, path, out) : -ENOMEM;
	}
	if (r == -ENOENT)
		return no_version(b, version, why);
	return r < 0 ? pf_why_set(why, r, "%s/: %s", b->versions, strerror(-r)) : 0;
}

int pf_branch_version(struct pf_branch *b, uint64_t version, struct pf_manifest **out, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	int r = -ENOENT;

	for (size_t i = 0; r == -ENOENT && i < ARRAY_LEN(schemes); i++)
		r = open_manifest(b, version, schemes[i], out, &inner);
	if (r == -ENOENT)
		return no_version(b, version, why);
	return r < 0 ? pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r)) : 0;
}

static int cmp_entries(const void *a, const void *b)
{
	const struct pf_version_entry *x = a, *y = b;

	return x->version < y->version ? -1 : x->version > y->version;
}

int pf_branch_versions(struct pf_branch *b, struct pf_version_entry **v, size_t *n, struct pf_why *why)
{
	struct scan s = { .b = b, .keep = true };

	int r = scan_versions(&s, why);
	if (r < 0) {
		free(s.v);
		return r;
	}
	qsort(s.v, s.n, sizeof(*s.v), cmp_entries);
	*v = s.v;
	*n = s.n;
	return 0;
}

static int new_branch(struct pf_store *st, const char *name, struct pf_branch **out)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->st = st;
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->search, NULL);
	if (name && !(b->name = strdup(name)))
		return -ENOMEM;
	if (asprintf(&b->dir, "%s%s%s", name ? "tree/" : "", name ? name : "", name ? "/" : "") < 0)
		return b->dir = NULL, -ENOMEM;
	if (asprintf(&b->versions, "%s" VERSIONS, b->dir) < 0)
		return b->versions = NULL, -ENOMEM;
	*out = STEAL(b);
	return 0;
}

int pf_branch_open_stray(struct pf_store *st, const char *name, struct pf_branch **out, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = pf_branch_name_check(name, why);
	if (r == 0)
		r = new_branch(st, name, &b);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r < 0)
		return r;
	*out = STEAL(b);
	return 0;
}

int pf_branch_open(struct pf_store *st, const char *name, struct pf_branch **out, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	char id[PF_BRANCH_ID_TEXT];

	if (name && strcmp(name, "main") == 0)
		name = NULL;
	int r = new_branch(st, name, &b);
	if (r == 0)
		r = pf_branch_id(b, id, why);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r < 0)
		return r;
	*out = STEAL(b);
	return 0;
}

void pf_branch_free(struct pf_branch *b)
{
	if (!b)
		return;
	found_release(&b->last);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->search);
	free(b->name);
	free(b->dir);
	free(b->versions);
	free(b);
}

void pf_branch_freep(struct pf_branch **b)
{
	pf_branch_free(*b);
}

struct pf_store *pf_branch_store(const struct pf_branch *b)
{
	return b->st;
}

const char *pf_branch_name(const struct pf_branch *b)
{
	return b->name;
}

const char *pf_branch_dir(const struct pf_branch *b)
{
	return b->dir;
}

int pf_branch_command(const struct pf_branch *b, struct pf_buf *out)
{
	size_t before = out->len;

	int r = pf_buf_addstr(out, "pinctl -d ");
	if (r == 0)
		r = pf_shell_quote(b->st->at, out);
	if (r == 0 && b->name)
		r = pf_buf_addstr(out, " -b ");
	if (r == 0 && b->name)
		r = pf_shell_quote(b->name, out);
	if (r < 0)
		out->len = before;
	return r;
}

int pf_branch_id(struct pf_branch *b, char out[PF_BRANCH_ID_TEXT], struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };

	out[0] = '\0';
	if (!b->name)
		return 0;
	int r = pf_branch_ref_read(b->st, b->name, &ref, why);
	if (r == 0)
		memcpy(out, ref.id, PF_BRANCH_ID_TEXT);
	return r;
}
