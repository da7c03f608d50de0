#include "fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/lost.h"
#include "tree.h"

/* How far back the first look goes for lost pins without guard tags. */
#define LOOK_BACK_VERSIONS 1000

/* Looks that may fail in a row before what they were to see is given up. */
#define FAILURES_MAX 5

/* One look. */
struct look {
	struct fs *fs;
	struct fs_branch *branch;
	struct fs_follow *f;
	bool ours; /* the step at hand is a version that this mount made */
	const struct pf_step *step;
	struct pf_why *why;
};

void fs_follow_init(struct fs_follow *f)
{
	*f = (struct fs_follow){ .at = 0 };
	pthread_mutex_init(&f->lock, NULL);
}

void fs_follow_release(struct fs_follow *f)
{
	pf_manifest_unref(f->head);
	free(f->complaint);
	free(f->own);
	free(f->lost);
	pthread_mutex_destroy(&f->lock);
}

/* --- our own versions --- */

/* Without memory one of ours is told as if another had made it. */
void fs_follow_publishing(void *arg, uint64_t version, const char *txn_uuid)
{
	struct fs_follow *f = arg;

	pthread_mutex_lock(&f->lock);
	if (f->n_own == f->cap_own) {
		size_t cap = f->cap_own ? 2 * f->cap_own : 16;
		struct fs_own *v = reallocarray(f->own, cap, sizeof(*v));
		if (v) {
			f->own = v;
			f->cap_own = cap;
		}
	}
	if (f->n_own < f->cap_own) {
		struct fs_own *o = &f->own[f->n_own++];
		*o = (struct fs_own){ .version = version };
		memcpy(o->txn_uuid, txn_uuid, PF_UUID_TEXT);
	}
	pthread_mutex_unlock(&f->lock);
}

/* That it was answered means that the last of its attempts landed. */
void fs_follow_landed(struct fs_follow *f, uint64_t version)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = f->n_own; i-- > 0;)
		if (f->own[i].version == version) {
			f->own[i].landed = true;
			break;
		}
	pthread_mutex_unlock(&f->lock);
}

static bool is_ours(struct fs_follow *f, uint64_t version, const char *txn_uuid)
{
	bool ours = false;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_own && !ours; i++)
		ours = f->own[i].version == version && !strcmp(f->own[i].txn_uuid, txn_uuid);
	pthread_mutex_unlock(&f->lock);
	return ours;
}

/* Versions that are ours to the last need not be read. What they end or begin cannot be lost, unless some pins are already. */
static void skip_ours(struct fs_follow *f)
{
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; f->n_lost == 0 && i < f->n_own; i++)
		if (f->own[i].landed && f->own[i].version == f->at + 1)
			f->at++;
	pthread_mutex_unlock(&f->lock);
}

static void forget_ours(struct fs_follow *f)
{
	size_t n = 0;

	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->n_own; i++)
		if (f->own[i].version > f->at)
			f->own[n++] = f->own[i];
	f->n_own = n;
	pthread_mutex_unlock(&f->lock);
}

/* --- lost pins --- */

size_t fs_follow_lost(struct fs_follow *f)
{
	pthread_mutex_lock(&f->lock);
	size_t n = f->n_lost;
	pthread_mutex_unlock(&f->lock);
	return n;
}

bool fs_follow_has_looked(struct fs_follow *f)
{
	pthread_mutex_lock(&f->lock);
	bool looked = f->known;
	pthread_mutex_unlock(&f->lock);
	return looked;
}

static void set_known(struct fs_follow *f, uint64_t version)
{
	pthread_mutex_lock(&f->lock);
	f->known = version;
	pthread_mutex_unlock(&f->lock);
}

static void set_lost(struct fs_follow *f, const struct pf_uuid *id, bool lost)
{
	size_t i = 0;

	pthread_mutex_lock(&f->lock);
	while (i < f->n_lost && !pf_uuid_eq(&f->lost[i], id))
		i++;
	if (lost && i == f->n_lost) {
		struct pf_uuid *v = reallocarray(f->lost, i + 1, sizeof(*v));
		if (v) {
			v[i] = *id;
			f->lost = v;
			f->n_lost++;
		}
	} else if (!lost && i < f->n_lost) {
		f->lost[i] = f->lost[--f->n_lost];
	}
	pthread_mutex_unlock(&f->lock);
}

/* --- telling --- */

/* Into the log, about the pin `id` or, without one, the head. */
static void tell(const struct look *l, const char *op, const struct pf_uuid *id, int err, uint64_t version,
		 const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	struct fs_node n = fs_node_make(id ? K_PINS : K_HEAD, l->branch);
	char name[PF_UUID_TEXT];

	if (id)
		pf_uuid_format(id, name);
	if (fs_node_path(l->fs, &n, id ? name : NULL, &path) < 0 || !pf_buf_str(&path))
		return;
	const struct fs_act act = { op, pf_buf_str(&path), err, version, text };
	fs_control_event(&l->fs->control, &act);
}

/* A lost pin is told on stderr as well: a mount in the foreground has somebody who keeps that. */
static int tell_lost(const struct look *l, const struct pf_lost *lost)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	if (pf_lost_describe(lost, &text) < 0 || !pf_buf_str(&text))
		return -ENOMEM;
	set_lost(l->f, &lost->pin.id, true);
	tell(l, "lost", &lost->pin.id, 0, lost->version, (char *)text.data);
	fprintf(stderr, "pinfs: %s\n", (char *)text.data);
	return 0;
}

static int tell_change(const struct look *l, enum pf_change_kind kind, const struct pf_pin *pin,
		       const struct pf_pin *before)
{
	const struct pf_step *s = l->step;
	char t[PF_TIME_TEXT], was[PF_TIME_TEXT];
	struct pf_why text = PF_WHY_INIT;

	pf_time_format(pin->expires_at, t);
	if (kind == PF_CHANGE_REGISTERED) {
		pf_why_set(&text, 0, "on version %" PRIu64 ", until %s", pin->source_version, t);
	} else if (kind == PF_CHANGE_RENEWED) {
		pf_time_format(before->expires_at, was);
		pf_why_set(&text, 0, "until %s, was %s", t, was);
	} else if (kind == PF_CHANGE_WAIVED) {
		pf_why_set(&text, 0, "it was not there, and does not count as lost any more");
	} else if (kind == PF_CHANGE_UNKNOWN) {
		pf_why_set(&text, 0, "gone since version %" PRIu64 "; what happened in between is not kept",
			   s->before->version);
	} else if (before) {
		pf_why_set(&text, 0, "its time was %s", t);
	} else {
		pf_why_set(&text, 0, "no version that has it is kept");
	}
	struct pf_why said = text;
	if (s->txn && s->txn->uuid[0] && kind != PF_CHANGE_UNKNOWN)
		pf_why_set(&text, 0, "%s; by transaction %s", said.text, s->txn->uuid);
	tell(l, pf_change_name(kind), &pin->id, 0, s->m->version, text.text);
	return 0;
}

/* --- looking --- */

static int see_change(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before)
{
	const struct look *l = arg;

	if (kind == PF_CHANGE_LOST) {
		_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT;
		struct pf_lost lost = { .pin = *pin, .version = l->step->m->version };
		if (l->step->m->version <= l->f->known)
			return 0;
		if (pf_writer_describe(l->step->m, &writer) < 0 || !pf_buf_str(&writer))
			return -ENOMEM;
		if (l->step->m->writer_library[0])
			lost.writer = (char *)writer.data;
		return tell_lost(l, &lost);
	}
	if (kind != PF_CHANGE_RENEWED && kind != PF_CHANGE_UNKNOWN && l->step->m->version > l->f->known)
		set_lost(l->f, &pin->id, false);
	return l->ours ? 0 : tell_change(l, kind, pin, before);
}

static int see_step(void *arg, const struct pf_step *s)
{
	struct look *l = arg;

	if (fs_watch_stopping(&l->fs->watch))
		return 1;
	/* Damaged or gone stays so; what storage failed to read may name the pins in question. */
	if (!s->txn && s->txn_error != -ENODATA && s->txn_error != -ENOENT && s->txn_error != -EBADMSG)
		return pf_why_set(l->why, s->txn_error, "%s", s->txn_why);
	l->step = s;
	l->ours = s->txn && is_ours(l->f, s->m->version, s->txn->uuid);
	int r = pf_step_changes(s, see_change, l);
	if (r == 0)
		l->f->at = s->m->version;
	return r;
}

/* What was lost while nobody watched. */
static int look_back(struct look *l)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list list = { 0 };

	int r = pf_lost_recent(l->branch->line->core, LOOK_BACK_VERSIONS, &list, l->why);
	for (size_t i = 0; r == 0 && i < list.n; i++)
		r = tell_lost(l, &list.v[i]);
	if (r == 0)
		set_known(l->f, list.until);
	return r;
}

/* The head is older than it was: another table in its place, or another branch of the name. */
static void start_over(struct look *l, const struct pf_manifest *head)
{
	struct fs_follow *f = l->f;
	struct pf_why text = PF_WHY_INIT;

	pf_why_set(&text, 0, "made anew: version %" PRIu64 " was the newest before", f->at);
	tell(l, "watch", NULL, 0, head->version, text.text);
	pthread_mutex_lock(&f->lock);
	f->n_own = f->n_lost = 0;
	f->known = 0;
	pthread_mutex_unlock(&f->lock);
	f->at = head->version;
}

static int look_at(struct look *l, const struct pf_manifest *head)
{
	struct fs_follow *f = l->f;
	int r = 0;

	if (head->version < f->at)
		start_over(l, head);
	if (f->known == 0)
		r = look_back(l);
	skip_ours(f);
	if (r == 0 && f->at < head->version)
		r = pf_history_walk(l->branch->line->core, f->at, see_step, l, l->why);
	forget_ours(f);
	return r;
}

/* Say what failed, once for as long as it is the same; in the end, go on behind it. */
static void complain(struct look *l, int err, const struct pf_manifest *head)
{
	struct fs_follow *f = l->f;

	pf_why_default(l->why, err, "%s", strerror(-err));
	if (!f->complaint || strcmp(f->complaint, l->why->text) != 0) {
		tell(l, "watch", NULL, pf_error_errno(err), 0, l->why->text);
		free(f->complaint);
		f->complaint = strdup(l->why->text);
	}
	if (++f->failures < FAILURES_MAX || !head)
		return;
	struct pf_why text = PF_WHY_INIT;
	pf_why_set(&text, 0, "not looked at from version %" PRIu64 " on; pinctl check says whether pins were lost",
		   f->at + 1);
	tell(l, "watch", NULL, pf_error_errno(err), head->version, text.text);
	f->at = head->version;
	set_known(f, f->at);
	forget_ours(f);
}

bool fs_follow_look(struct fs *fs, struct fs_branch *b)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	struct fs_follow *f = &b->line->follow;
	struct pf_why why = PF_WHY_INIT;
	struct look l = { .fs = fs, .branch = b, .f = f, .why = &why };

	int r = pf_branch_head(b->line->core, &head, &why);
	if (r == 0 && head == f->head)
		return false;
	if (r == 0)
		r = look_at(&l, head);
	if (r < 0)
		complain(&l, r, head);
	if (r != 0)
		return false;
	f->failures = 0;
	free(STEAL(f->complaint));
	pf_manifest_unref(f->head);
	f->head = STEAL(head);
	return true;
}
