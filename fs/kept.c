#include "fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tree.h"

/* Each one that waits has a thread of the session's: they must not be all (main.c). */
#define WAITING_MAX 256
/* How often one that waits looks whether it is still wanted. */
#define PATIENCE_NS 50000000
/* A walk that is through sooner is not worth a word. Then words come as often as its length doubles. */
#define WORD_NS INT64_C(1000000000)
/* Of the coarsest kernel's clock, many ticks: what changed earlier than that before a look cannot change again without another time. */
#define SETTLED_NS 100000000
/* The same where file systems keep whole seconds, as with small inodes, or every other one. */
#define SETTLED_SECONDS_NS INT64_C(2100000000)

int fs_kept_init(struct fs_kept *k)
{
	pthread_condattr_t attr;

	*k = (struct fs_kept){ .busy = false };
	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int r = -pthread_cond_init(&k->turn, &attr);
	pthread_condattr_destroy(&attr);
	return r;
}

void fs_kept_start(struct fs_kept *k, struct pf_store *st)
{
	pf_lines_init(&k->lines, st);
}

static void seen_clear(struct fs_seen *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	s->n = 0;
}

static void seen_release(struct fs_seen *s)
{
	seen_clear(s);
	free(s->v);
}

void fs_kept_release(struct fs_kept *k)
{
	pf_explain_free(k->answer);
	pf_shield_free(k->shield);
	pf_lines_release(&k->lines);
	seen_release(&k->seen);
	pthread_cond_destroy(&k->turn);
	pthread_mutex_destroy(&k->lock);
}

static bool is_wanted(struct fs *fs, fuse_req_t req)
{
	return !fuse_req_interrupted(req) && !fuse_session_exited(fs->session);
}

/* Called locked. */
static int wait_turn(struct fs *fs, fuse_req_t req, struct pf_why *why)
{
	struct fs_kept *k = &fs->kept;

	while (k->busy) {
		struct timespec until;
		if (!is_wanted(fs, req))
			return pf_why_set(why, -EINTR, "interrupted while waiting for another caller");
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += PATIENCE_NS;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&k->turn, &k->lock, &until);
	}
	return 0;
}

static int take_turn(struct fs *fs, fuse_req_t req, struct pf_why *why)
{
	struct fs_kept *k = &fs->kept;
	int r = -EAGAIN;

	pthread_mutex_lock(&k->lock);
	if (k->waiting < WAITING_MAX) {
		k->waiting++;
		r = wait_turn(fs, req, why);
		k->waiting--;
	} else {
		pf_why_set(why, r, "%d others wait for the same answer: ask again", WAITING_MAX);
	}
	if (r == 0)
		k->busy = true;
	pthread_mutex_unlock(&k->lock);
	return r;
}

void fs_kept_end(struct fs *fs)
{
	struct fs_kept *k = &fs->kept;

	pthread_mutex_lock(&k->lock);
	k->busy = false;
	pthread_cond_signal(&k->turn);
	pthread_mutex_unlock(&k->lock);
}

/* What `dir` is now; all zero if it is not there. */
static int stat_dir(struct pf_store *st, const char *dir, struct pf_stat *out)
{
	int r = pf_store_stat(st, dir, out);

	if (r == -ENOENT)
		*out = (struct pf_stat){ 0 };
	return r == -ENOENT ? 0 : r;
}

/* Would a change from now on give it another time than ctime_ns? */
static bool is_settled(int64_t ctime_ns, int64_t now_ns)
{
	return ctime_ns <= now_ns - (ctime_ns % 1000000000 ? SETTLED_NS : SETTLED_SECONDS_NS);
}

struct looking {
	struct fs_seen *seen;
	struct pf_store *st;
	const char *dir;
	int64_t now_ns;
};

/* Takes path over. */
static int see_one(struct looking *l, char *path)
{
	_cleanup_(pf_freep) char *own = path;
	struct fs_seen *s = l->seen;
	struct pf_stat st;

	if (!path)
		return -ENOMEM;
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 8;
		struct fs_seen_dir *v = reallocarray(s->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	int r = stat_dir(l->st, path, &st);
	if (r < 0)
		return r;
	s->settled &= is_settled(st.ctime_ns, l->now_ns);
	s->v[s->n++] = (struct fs_seen_dir){ STEAL(own), st };
	return 0;
}

static int see(struct looking *l, char *path);

static int see_below(void *arg, const char *name, bool is_dir)
{
	struct looking *l = arg;
	char *path;

	return is_dir ? see(l, asprintf(&path, "%s/%s", l->dir, name) < 0 ? NULL : path) : 0;
}

/* A directory and those below it: names of refs can have slashes. */
static int see(struct looking *l, char *path)
{
	struct looking below = *l;

	below.dir = path;
	int r = see_one(l, path);
	if (r == 0)
		r = pf_store_list(l->st, path, see_below, &below);
	return r == -ENOENT ? 0 : r;
}

static char *versions_of(const struct pf_branch *b)
{
	char *path;

	return asprintf(&path, "%s_versions", pf_branch_dir(b)) < 0 ? NULL : path;
}

/* Whatever adds or removes a version, a tag or a branch changes one of these. */
static int look(struct fs_kept *k)
{
	struct pf_time now = pf_time_now();
	struct looking l = { .seen = &k->seen, .st = k->lines.st, .now_ns = now.sec * 1000000000 + now.nsec };

	seen_clear(&k->seen);
	k->seen.settled = true;
	int r = see(&l, strdup("_refs/tags"));
	if (r == 0)
		r = see(&l, strdup("_refs/branches"));
	k->seen.first_line = k->seen.n;
	for (size_t i = 0; r == 0 && i < k->lines.n; i++)
		if (k->lines.v[i].branch)
			r = see_one(&l, versions_of(k->lines.v[i].branch));
	return r;
}

/* Was all looked at that the lines, as they are now, are made of? What could not be read is looked at each time. */
static bool is_whole(const struct fs_kept *k)
{
	size_t at = k->seen.first_line;

	for (size_t i = 0; i < k->lines.n; i++) {
		const struct pf_line *line = &k->lines.v[i];
		if (!line->branch || !line->survey || line->survey->n_gaps || at == k->seen.n)
			return false;
		_cleanup_(pf_freep) char *path = versions_of(line->branch);
		if (!path || strcmp(path, k->seen.v[at++].path) != 0)
			return false;
	}
	return at == k->seen.n;
}

/* A walk over all versions, then all files, and whom it is for. */
struct walk {
	struct fs *fs;
	fuse_req_t req;
	const struct fs_node *node;
	int64_t began, next; /* pf_time_steady_ns; when the next word is due */
	bool told;
};

static struct walk begin_walk(struct fs *fs, fuse_req_t req, const struct fs_node *n)
{
	int64_t now = pf_time_steady_ns();

	return (struct walk){ .fs = fs, .req = req, .node = n, .began = now, .next = now + WORD_NS };
}

static void tell(struct walk *w, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	const struct fs_node dir = fs_node_make(K_RETENTION, w->node->branch);

	if (fs_node_path(w->fs, &dir, NULL, &path) == 0 && pf_buf_str(&path)) {
		struct fs_act act = { .op = "account", .path = pf_buf_str(&path), .text = text };
		fs_control_event(&w->fs->control, &act);
	}
	w->told = true;
}

/* Is it time for a word? Then *seconds is for how long it has gone on. */
static bool is_due(struct walk *w, int64_t *seconds)
{
	int64_t now = pf_time_steady_ns();

	if (now < w->next)
		return false;
	w->next = now + (now - w->began);
	*seconds = (now - w->began) / 1000000000;
	return true;
}

static int see_version(void *arg, uint64_t done, uint64_t total)
{
	struct walk *w = arg;
	struct pf_why text;
	int64_t seconds;

	if (is_due(w, &seconds)) {
		pf_why_set(&text, 0, "%" PRIu64 " of %" PRIu64 " versions read in %" PRId64 " s", done, total, seconds);
		tell(w, text.text);
	}
	return !is_wanted(w->fs, w->req);
}

static int see_file(void *arg, uint64_t done, uint64_t total)
{
	struct walk *w = arg;
	struct pf_why text;
	int64_t seconds;

	if (is_due(w, &seconds)) {
		pf_why_set(&text, 0, "all versions read, and %" PRIu64 " files looked at in %" PRId64 " s", done,
			   seconds);
		tell(w, text.text);
	}
	return !is_wanted(w->fs, w->req);
}

/* Bring everything up to the heads as they are now. */
static int refresh(struct fs_kept *k, struct walk *w, struct pf_why *why)
{
	pf_explain_free(STEAL(k->answer));
	pf_shield_free(STEAL(k->shield));
	int r = look(k); /* before: what comes meanwhile is seen the next time */
	if (r == 0)
		r = pf_lines_refresh(&k->lines, see_version, w, why);
	if (r < 0 || !is_whole(k))
		k->seen.settled = false;
	return r;
}

static int explain(struct fs_kept *k, struct fs_line *of, struct walk *w, struct pf_why *why)
{
	const struct pf_looking how = { .progress = see_file, .progress_arg = w };
	struct pf_line *line = pf_lines_find(&k->lines, of->name);
	if (!line)
		return pf_why_set(why, -ENOENT, "no such branch");
	/* Both look into the surveys, and this one adds to them. */
	pf_shield_free(STEAL(k->shield));
	pf_explain_free(STEAL(k->answer));
	int r = pf_explain_new(&k->lines, line, pf_time_now(), &how, &k->answer, why);
	if (r < 0)
		return r;
	if (w->told)
		tell(w, "all versions read, and all files looked at");
	const struct fs_account a = {
		.version = k->answer->survey->head->version,
		.bytes_kept = k->answer->totals.bytes_kept,
		.bytes_free = k->answer->totals.bytes_free,
	};
	fs_line_set_account(of, &a);
	return 0;
}

/* The time of its last modification anybody can set back. */
static bool is_same(const struct pf_stat *a, const struct pf_stat *b)
{
	return pf_stat_same(a, b) && a->ctime_ns == b->ctime_ns;
}

/*
 * Is everything as it was when all versions were read? Not one of these directories is listed for that: what is in it, and so which other ones there are, is
 * what it was.
 */
static bool holds(struct fs_kept *k)
{
	const struct fs_seen *s = &k->seen;
	struct pf_stat now;

	for (size_t i = 0; s->settled && i < s->n; i++)
		if (stat_dir(k->lines.st, s->v[i].path, &now) < 0 || !is_same(&now, &s->v[i].st))
			return false;
	return s->settled;
}

int fs_kept_begin(fuse_req_t req, const struct fs_node *n, bool measured, struct pf_explain **out, struct pf_why *why)
{
	struct fs *fs = fuse_req_userdata(req);
	struct fs_kept *k = &fs->kept;
	struct fs_line *line = n->branch->line;

	int r = take_turn(fs, req, why);
	if (r < 0)
		return r;
	if (measured || !k->answer || k->answer->line != pf_lines_find(&k->lines, line->name) || !holds(k)) {
		struct walk w = begin_walk(fs, req, n);
		r = refresh(k, &w, why);
		if (r == 0)
			r = explain(k, line, &w, why);
	}
	if (r < 0)
		fs_kept_end(fs);
	else
		*out = k->answer;
	return r;
}

/* Open all lines that have versions: what others do to the pins of a line is followed from then on (follow.h). */
static int follow_lines(struct fs *fs, struct pf_why *why)
{
	const struct pf_lines *l = &fs->kept.lines;
	int r = 0;

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
		struct fs_branch *b;
		if (!l->v[i].survey)
			continue;
		r = fs_branch_intern(fs, l->v[i].name, &b);
		if (r == 0 && !fs_line_is_open(b->line))
			r = fs_line_view(b->line, &v, why);
	}
	return r;
}

int fs_kept_check(fuse_req_t req, const struct fs_node *n, const char *path, bool *known, struct pf_why *why)
{
	struct fs *fs = fuse_req_userdata(req);
	struct fs_kept *k = &fs->kept;

	int r = take_turn(fs, req, why);
	if (r < 0)
		return r;
	if (!holds(k)) {
		struct walk w = begin_walk(fs, req, n);
		r = refresh(k, &w, why);
	}
	if (r == 0 && !k->shield) {
		r = follow_lines(fs, why);
		if (r == 0)
			r = pf_shield_new(&k->lines, &k->shield);
	}
	if (r == 0)
		r = pf_shield_check(k->shield, path, known, why);
	fs_kept_end(fs);
	return r;
}
