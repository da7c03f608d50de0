/* The plan carried out: cleanup.h says in which order, and why. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cleanup_parts.h"
#include "survey_parts.h"

/* A long run looks again so often whether something needs what is still to go; but of its time it gives a tenth to that. */
#define LOOK_NS	   INT64_C(2000000000)
#define LOOK_TENTH 9

struct run {
	struct pf_cleanup *c;
	const struct pf_cleanup_how *how;
	struct pf_why *why;
	pthread_mutex_t lock; /* everything below, the report, and calls of `how` */
	size_t next, end;     /* of c->v: to be taken by whoever is free */
	int64_t slot_ns;      /* when the next removal may be made */
	int64_t look_ns;      /* when to look again */
	bool manifests;	      /* it is their turn: what they named is gone */
	int result;	      /* what ends the run before it is through */
};

/* --- manifests out of sight --- */

static int names_of(const struct pf_cleanup *c, const struct pf_going *g, char **name, char **hidden)
{
	char base[PF_MANIFEST_NAME_MAX];

	pf_manifest_name_format(g->version, g->v2, base);
	if (asprintf(name, "%s_versions/%s", c->dir, base) < 0)
		return *name = NULL, -ENOMEM;
	if (asprintf(hidden, "%s_versions/" PF_CLEAN_LEFT "%s" PF_CLEAN_LEFT_END, c->dir, base) < 0)
		return *hidden = NULL, -ENOMEM;
	return 0;
}

static int move(struct pf_cleanup *c, struct pf_going *g, bool back)
{
	_cleanup_(pf_freep) char *name = NULL, *hidden = NULL;

	int r = names_of(c, g, &name, &hidden);
	if (r == 0)
		r = back ? pf_store_rename(c->l->st, hidden, name) : pf_store_rename(c->l->st, name, hidden);
	if (r == 0)
		g->hidden = !back;
	return r;
}

static int sync_versions(struct pf_cleanup *c)
{
	_cleanup_(pf_freep) char *dir = NULL;

	if (asprintf(&dir, "%s_versions", c->dir) < 0)
		return dir = NULL, -ENOMEM;
	return pf_store_sync_dir(c->l->st, dir);
}

/* Nothing was deleted yet, and nothing will be. What cannot be put back the next run takes up. */
static void put_all_back(struct pf_cleanup *c)
{
	for (size_t i = 0; i < c->n_going; i++)
		if (c->going[i].hidden)
			move(c, &c->going[i], true);
	sync_versions(c);
}

/* The index of the first that goes from `version` on. */
static size_t going_from(const struct pf_cleanup *c, uint64_t version)
{
	size_t lo = 0, hi = c->n_going;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (c->going[mid].version < version)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct pf_going *going_of(struct pf_cleanup *c, uint64_t version)
{
	size_t i = going_from(c, version);

	return i < c->n_going && c->going[i].version == version ? &c->going[i] : NULL;
}

static void count_failure(struct run *w, struct pf_victim *v, int err)
{
	struct pf_clean_count *n = &w->c->report.failed[v->cls];

	v->fate = PF_STAYS_UNDONE;
	n->files++;
	n->bytes += v->size;
	if (w->how->told)
		w->how->told(w->how->arg, v, err);
}

static void count_stay(struct run *w, struct pf_victim *v, enum pf_fate fate)
{
	v->fate = fate;
	w->c->report.kept[fate].files++;
	w->c->report.kept[fate].bytes += v->size;
}

/* Manifests are the last of the victims. */
static size_t first_manifest(const struct pf_cleanup *c)
{
	size_t i = c->n;

	while (i > 0 && c->v[i - 1].cls == PF_CLEAN_MANIFEST)
		i--;
	return i;
}

static int hide(struct run *w)
{
	struct pf_cleanup *c = w->c;
	uint64_t lost = UINT64_MAX;

	for (size_t i = first_manifest(c); i < c->n; i++) {
		struct pf_victim *v = &c->v[i];
		struct pf_going *g = v->left ? NULL : going_of(c, v->first);
		if (v->left)
			continue;
		int r = move(c, g, false);
		if (r == -ENOMEM)
			return r;
		g->lost = r == -ENOENT;
		if (r == -ENOENT)
			count_stay(w, v, PF_STAYS_APPEARED);
		else if (r < 0)
			count_failure(w, v, r);
	}
	for (size_t i = c->n_going; i > 0; i--) {
		struct pf_going *g = &c->going[i - 1];
		lost = g->next_lost = g->lost ? g->version : lost;
	}
	return sync_versions(c);
}

/* --- what appeared meanwhile --- */

static bool is_wanted(const struct pf_cleanup *c, uint64_t version)
{
	const struct pf_survey *s = c->line->survey;
	struct pf_guard guard;

	for (size_t i = 0; i < s->tags.n; i++)
		if (s->tags.v[i].version == version && pf_guard_from_tag(&s->tags.v[i], &guard, NULL) != 1)
			return true;
	for (size_t i = 0; i < s->pins.n; i++)
		if (s->pins.v[i].source_version <= version)
			return true;
	for (size_t i = 0; i < c->needs.n; i++)
		if (c->needs.v[i].root_version == version)
			return true;
	return false;
}

/* The version whose manifest the victim is, if that is out of sight: by us, or by a run before us; what is told of it then is in *left. */
static struct pf_going *hidden_of(struct pf_cleanup *c, const struct pf_victim *v, struct pf_going *left)
{
	struct pf_going *g = v->left ? left : going_of(c, v->first);

	*left = (struct pf_going){ .hidden = true };
	if (v->left && (!pf_clean_is_left(v->path + strlen(c->dir), &left->version, &left->v2) ||
			pf_survey_has(c->line->survey, left->version)))
		return NULL;
	return PF_FATE_GOES(v->fate) && g && g->hidden ? g : NULL;
}

/* Give those that are wanted again their names back. How many, or storage's error: then it is hidden from who wants it. */
static int put_back(struct run *w)
{
	struct pf_cleanup *c = w->c;
	int n = 0;

	for (size_t i = first_manifest(c); i < c->n; i++) {
		struct pf_going left, *g = hidden_of(c, &c->v[i], &left);
		if (!g || !is_wanted(c, g->version))
			continue;
		int r = move(c, g, true);
		/* Another cleaner came to it first: what it did is seen when we look again. */
		if (r < 0 && !(r == -ENOENT && c->v[i].left))
			return pf_why_set(w->why, r, "%s: it is needed again, and cannot be put back: %s", c->v[i].path,
					  strerror(-r));
		count_stay(w, &c->v[i], PF_STAYS_APPEARED);
		n++;
	}
	int r = n ? sync_versions(c) : 0;
	return r < 0 ? r : n;
}

/* Does a version name it that another cleaner has in hand? */
static bool is_lost(const struct pf_cleanup *c, const struct pf_victim *v)
{
	size_t i = going_from(c, v->first);

	return i < c->n_going && c->going[i].next_lost <= v->last;
}

/* Of the files from `from` on, leave those that a version or a branch refers to now; and those that another cleaner has in hand. */
static int spare(struct run *w, size_t from)
{
	struct pf_cleanup *c = w->c;
	const struct pf_file_set *set = &c->line->survey->state->set;
	size_t end = first_manifest(c);

	for (size_t i = from; i < c->n; i++) {
		struct pf_victim *v = &c->v[i];
		if (!PF_FATE_GOES(v->fate) || v->done)
			continue;
		int zombie = pf_clean_zombie_stays(c, v);
		if (zombie < 0)
			return zombie;
		if (zombie)
			count_stay(w, v, PF_STAYS_APPEARED);
		if (zombie || i >= end)
			continue;
		int64_t known = pf_clean_known(set, v->path, c->dir);
		if (known < 0 && known != -ENOENT)
			return (int)known;
		if (known >= 0 || is_lost(c, v))
			count_stay(w, v, PF_STAYS_APPEARED);
	}
	return 0;
}

static int look_before(struct run *w)
{
	int r, back;

	do {
		r = pf_clean_look_again(w->c, w->why);
		back = r == 0 ? put_back(w) : r;
	} while (back > 0);
	return back < 0 ? back : spare(w, 0);
}

static int look_meanwhile(struct run *w)
{
	int64_t began = pf_time_steady_ns();

	int r = pf_clean_look_again(w->c, w->why);
	if (r == 0)
		r = spare(w, w->next);
	int64_t now = pf_time_steady_ns(), pause = LOOK_TENTH * (now - began);
	w->look_ns = now + (pause > LOOK_NS ? pause : LOOK_NS);
	return r;
}

/* --- removing --- */

static int remove_victim(struct run *w, struct pf_victim *v)
{
	_cleanup_(pf_freep) char *name = NULL, *hidden = NULL;
	struct pf_cleanup *c = w->c;
	int r;

	if (v->cls != PF_CLEAN_MANIFEST || v->left) {
		r = pf_store_remove(c->l->st, v->path, false);
	} else {
		r = names_of(c, going_of(c, v->first), &name, &hidden);
		if (r == 0)
			r = pf_store_remove(c->l->st, hidden, false);
	}
	return r == -ENOENT ? 0 : r; /* somebody else was faster */
}

static void settle(struct run *w, struct pf_victim *v, int r)
{
	struct pf_cleanup_report *n = &w->c->report;

	if (r < 0) {
		count_failure(w, v, r);
		return;
	}
	v->done = true;
	n->removed[v->cls].files++;
	n->removed[v->cls].bytes += v->size;
	n->versions += v->cls == PF_CLEAN_MANIFEST && v->first;
	if (w->how->told)
		w->how->told(w->how->arg, v, 0);
}

static void wait_until(int64_t at_ns)
{
	int64_t left;

	while ((left = at_ns - pf_time_steady_ns()) > 0)
		nanosleep(&(struct timespec){ left / 1000000000, left % 1000000000 }, NULL);
}

/* Wait for the next turn. Locked, so that one thread waits for one turn: whoever interrupts waits no longer than that. */
static void take_turn(struct run *w)
{
	if (!w->how->rate)
		return;
	wait_until(w->slot_ns);
	int64_t now = pf_time_steady_ns(), next = w->slot_ns + (int64_t)(1000000000 / w->how->rate);
	w->slot_ns = next > now ? next : now;
}

/* The next file to remove, NULL if there is none, or the run is over. Locked. */
static struct pf_victim *take_next(struct run *w)
{
	struct pf_cleanup *c = w->c;

	if (w->result == 0 && !w->manifests && pf_time_steady_ns() >= w->look_ns)
		w->result = look_meanwhile(w);
	while (w->next < w->end && !PF_FATE_GOES(c->v[w->next].fate))
		w->next++;
	if (w->result < 0 || w->next == w->end)
		return NULL;
	take_turn(w);
	if (w->how->go_on && w->how->go_on(w->how->arg, &c->report))
		w->result = -EINTR;
	return w->result < 0 ? NULL : &c->v[w->next++];
}

static void *work(void *arg)
{
	struct run *w = arg;
	struct pf_victim *v;

	pthread_mutex_lock(&w->lock);
	while ((v = take_next(w))) {
		pthread_mutex_unlock(&w->lock);
		int r = remove_victim(w, v);
		pthread_mutex_lock(&w->lock);
		settle(w, v, r);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* The victims from `from` up to `end`. All of them are done with, or the run is over, when this returns. */
static int remove_range(struct run *w, size_t from, size_t end)
{
	unsigned jobs = w->how->jobs ? w->how->jobs : 1, n = 0;
	_cleanup_(pf_freep) pthread_t *threads = calloc(jobs, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	w->next = from;
	w->end = end;
	/* This thread is one of them: fewer others, if there are not enough, are no failure. */
	while (n + 1 < jobs && pthread_create(&threads[n], NULL, work, w) == 0)
		n++;
	work(w);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return w->result;
}

/* Those of indices before the manifests, which tell the next run of them; what only manifests were in `last`. */
static void remove_folders(struct run *w, bool last)
{
	struct pf_cleanup *c = w->c;

	for (size_t i = 0; i < c->n_folders; i++) {
		int r = pf_store_remove(c->l->st, c->folders[i], true);
		if (r == 0)
			c->report.folders++;
		else if (last && r != -ENOENT && r != -ENOTEMPTY && r != -EEXIST) /* somebody put something there */
			c->report.folders_failed++;
	}
}

/* Is a file of this version still there that was to go? Then its manifest is what tells the next run. */
static void keep_manifests(struct run *w)
{
	struct pf_cleanup *c = w->c;
	size_t end = first_manifest(c), left = c->n - end;

	for (size_t i = 0; left && i < end; i++) {
		const struct pf_victim *v = &c->v[i];
		if (v->fate != PF_STAYS_UNDONE || v->last == 0)
			continue;
		left = 0;
		for (size_t k = end; k < c->n; k++) {
			bool goes = PF_FATE_GOES(c->v[k].fate);
			if (goes && v->first <= c->v[k].first && c->v[k].first <= v->last)
				count_stay(w, &c->v[k], PF_STAYS_UNDONE);
			else
				left += goes;
		}
	}
}

/* The run ended before these came to their turn. */
static void count_rest(struct run *w)
{
	for (size_t i = 0; i < w->c->n; i++)
		if (PF_FATE_GOES(w->c->v[i].fate) && !w->c->v[i].done)
			count_stay(w, &w->c->v[i], PF_STAYS_UNDONE);
}

static int run(struct run *w)
{
	struct pf_cleanup *c = w->c;
	size_t manifests = first_manifest(c);

	int r = hide(w);
	if (r == 0)
		r = look_before(w);
	if (r == 0 && w->how->go_on && w->how->go_on(w->how->arg, &c->report))
		r = -EINTR;
	if (r < 0) {
		put_all_back(c);
		return r;
	}
	w->look_ns = pf_time_steady_ns() + LOOK_NS;
	r = remove_range(w, 0, manifests);
	if (r < 0)
		return r;
	remove_folders(w, false);
	keep_manifests(w);
	w->manifests = true;
	r = pf_clean_look_again(c, w->why);
	if (r == 0)
		r = spare(w, manifests);
	if (r == 0)
		r = remove_range(w, manifests, c->n);
	if (r == 0)
		remove_folders(w, true);
	return r;
}

int pf_cleanup_run(struct pf_cleanup *c, const struct pf_cleanup_how *how, struct pf_why *why)
{
	struct run w = { .c = c, .how = how, .why = why };
	_cleanup_(pf_freep) char *dir = NULL;

	memset(c->report.removed, 0, sizeof(c->report.removed));
	c->report.versions = 0;
	if (asprintf(&dir, "%s_versions", c->dir) < 0)
		return dir = NULL, -ENOMEM;
	int r = c->n ? pf_store_writable(c->l->st, dir) : 0;
	pthread_mutex_init(&w.lock, NULL);
	if (r == 0)
		r = c->n ? run(&w) : (remove_folders(&w, true), 0);
	pthread_mutex_destroy(&w.lock);
	count_rest(&w);
	if (r < 0)
		pf_why_default(why, r, "%s: %s", dir, r == -EINTR ? "interrupted; the next run goes on" : strerror(-r));
	return r;
}
