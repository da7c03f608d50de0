#include "line.h"

#include <string.h>
#include <time.h>

#include "core/branch_make.h"

int fs_line_new(struct pf_store *store, const struct fs_options *opt, const char *name, struct fs_line **out)
{
	struct fs_line *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	if (name && !(l->name = strdup(name))) {
		free(l);
		return -ENOMEM;
	}
	l->store = store;
	l->opt = opt;
	pthread_mutex_init(&l->lock, NULL);
	pthread_mutex_init(&l->publishing, NULL);
	fs_follow_init(&l->follow);
	*out = l;
	return 0;
}

void fs_line_free(struct fs_line *l)
{
	if (!l)
		return;
	fs_view_unref(l->view);
	pf_committer_free(l->committer);
	fs_follow_release(&l->follow);
	pf_branch_free(l->core);
	pthread_mutex_destroy(&l->publishing);
	pthread_mutex_destroy(&l->lock);
	free(l->name);
	free(l);
}

const char *fs_line_name(const struct fs_line *l)
{
	return l->name ? l->name : "main";
}

/* Called locked, once. All or nothing: one that failed to open is tried again by the next request. */
static int open_core(struct fs_line *l, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *core = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	const struct pf_committer_options o = {
		.no_guard = l->opt->no_guard,
		.publishing = fs_follow_publishing,
		.publishing_arg = &l->follow,
	};

	int r = pf_branch_open(l->store, l->name, &core, why);
	if (r == 0)
		r = pf_branch_head(core, &head, why);
	if (r == 0)
		r = pf_committer_new(core, &o, &l->committer);
	if (r < 0)
		return r;
	l->follow.at = head->version;
	l->core = STEAL(core);
	return 0;
}

static int line_open(struct fs_line *l, struct pf_why *why)
{
	pthread_mutex_lock(&l->lock);
	int r = l->core ? 0 : open_core(l, why);
	pthread_mutex_unlock(&l->lock);
	return r;
}

bool fs_line_is_open(struct fs_line *l)
{
	pthread_mutex_lock(&l->lock);
	bool open = l->core;
	pthread_mutex_unlock(&l->lock);
	return open;
}

int fs_line_view(struct fs_line *l, struct fs_view **out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;

	int r = line_open(l, why);
	if (r == 0)
		r = pf_branch_head(l->core, &m, why);
	if (r < 0)
		return r;

	/* The same manifest again: what was made of it holds. Which head is the newest was core's to say, just now. */
	pthread_mutex_lock(&l->lock);
	if (l->view && l->view->manifest == m)
		v = fs_view_ref(l->view);
	pthread_mutex_unlock(&l->lock);
	if (!v) {
		r = fs_view_new(m, &v);
		if (r < 0)
			return r;
		pthread_mutex_lock(&l->lock);
		struct fs_view *old = l->view;
		l->view = fs_view_ref(v);
		pthread_mutex_unlock(&l->lock);
		fs_view_unref(old);
	}
	*out = STEAL(v);
	return 0;
}

int fs_line_versions(struct fs_line *l, struct pf_version_entry **v, size_t *n, struct pf_why *why)
{
	int r = line_open(l, why);
	return r < 0 ? r : pf_branch_versions(l->core, v, n, why);
}

int fs_line_stat(struct fs_line *l, uint64_t version, struct pf_stat *out, struct pf_why *why)
{
	int r = line_open(l, why);
	return r < 0 ? r : pf_branch_stat(l->core, version, out, why);
}

int fs_line_records(struct fs_line *l, struct fs_view *head, size_t *n, struct pf_why *why)
{
	return fs_view_records(head, l->core, n, why);
}

int fs_line_make_branch(struct fs_line *l, const char *name, uint64_t *version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = line_open(l, why);
	if (r == 0)
		r = pf_branch_head(l->core, &head, why);
	if (r == 0)
		r = pf_branch_create(l->core, head->version, name, pf_time_now(), why);
	if (r == 0)
		*version = head->version;
	return r;
}

static double clock_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int fs_line_commit(struct fs_line *l, const struct pf_op *op, struct pf_answer *answer)
{
	answer->err = line_open(l, &answer->why);
	if (answer->err < 0)
		return answer->err;

	double start = clock_seconds();
	int r = pf_commit(l->committer, op, answer);
	double seconds = clock_seconds() - start;

	if (answer->committed)
		fs_follow_landed(&l->follow, answer->version);
	pthread_mutex_lock(&l->lock);
	fs_meter_count(&l->meter, op->kind, answer, seconds);
	pthread_mutex_unlock(&l->lock);
	return r;
}

void fs_line_count_published(struct fs_line *l)
{
	pthread_mutex_lock(&l->lock);
	l->meter.published++;
	pthread_mutex_unlock(&l->lock);
}

struct fs_meter fs_line_meter(struct fs_line *l)
{
	pthread_mutex_lock(&l->lock);
	struct fs_meter m = l->meter;
	pthread_mutex_unlock(&l->lock);
	return m;
}

struct fs_account fs_line_account(struct fs_line *l)
{
	pthread_mutex_lock(&l->lock);
	struct fs_account a = l->account;
	pthread_mutex_unlock(&l->lock);
	return a;
}

void fs_line_set_account(struct fs_line *l, const struct fs_account *a)
{
	pthread_mutex_lock(&l->lock);
	l->account = *a;
	pthread_mutex_unlock(&l->lock);
}
