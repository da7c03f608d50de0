#include "lost.h"

#include <inttypes.h>
#include <string.h>

/* What is read when no guard tag tells how far back a pin goes: about a tenth of a second. */
#define LOOK_BACK_BYTES (UINT64_C(64) << 20)

/* A guard tag and what was seen of its pin. */
struct look {
	struct pf_guards
		guards; /* listed before the versions, so that a tag is never newer than what is known of its pin */
	bool *named;	/* for each guard: the last thing seen of its pin is an operation that ended it */
	struct pf_manifest *head; /* the newest version that was looked at, NULL if there was none */
	struct pf_lost_list lost;
	const struct pf_step *step; /* while it is being looked at */
	struct pf_why *why;
};

void pf_lost_release(struct pf_lost *l)
{
	pf_pin_release(&l->pin);
	free(l->writer);
	*l = (struct pf_lost){ .pin = PF_PIN_INIT };
}

void pf_lost_list_release(struct pf_lost_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_lost_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_lost_list){ 0 };
}

int pf_lost_describe(const struct pf_lost *l, struct pf_buf *out)
{
	char id[PF_UUID_TEXT];
	size_t before = out->len;

	pf_uuid_format(&l->pin.id, id);
	int r = pf_buf_addf(out, "pin %s of source %" PRIu64 ":%s is lost: ", id, l->pin.source_version,
			    l->pin.source_txn);
	if (r == 0 && l->version)
		r = pf_buf_addf(out, "version %" PRIu64 ", written by %s, dropped it without naming it", l->version,
				l->writer ? l->writer : "an unknown writer");
	else if (r == 0)
		r = pf_buf_addstr(out, "its guard tag is there, and no version that is kept says where it went");
	if (r < 0)
		out->len = before;
	return r;
}

static void look_release(struct look *l)
{
	pf_guards_release(&l->guards);
	free(l->named);
	pf_manifest_unref(l->head);
	pf_lost_list_release(&l->lost);
}

static size_t find_lost(const struct pf_lost_list *l, const struct pf_uuid *id)
{
	size_t i = 0;

	while (i < l->n && !pf_uuid_eq(&l->v[i].pin.id, id))
		i++;
	return i;
}

static void take_out(struct pf_lost_list *l, size_t i)
{
	pf_lost_release(&l->v[i]);
	memmove(&l->v[i], &l->v[i + 1], (l->n - i - 1) * sizeof(*l->v));
	l->n--;
}

/* A new entry for `pin`, its version and writer still unknown. */
static struct pf_lost *add_lost(struct pf_lost_list *l, const struct pf_pin *pin)
{
	struct pf_lost *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return NULL;
	l->v = v;
	v[l->n] = (struct pf_lost){ .pin = PF_PIN_INIT };
	return pf_pin_copy(pin, &v[l->n].pin) < 0 ? NULL : &v[l->n++];
}

static int lose(struct pf_lost_list *list, const struct pf_pin *pin, const struct pf_manifest *by)
{
	_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT;
	struct pf_lost *l = add_lost(list, pin);

	if (!l)
		return -ENOMEM;
	l->version = by->version;
	if (!by->writer_library[0])
		return 0;
	const char *text = pf_writer_describe(by, &writer) < 0 ? NULL : pf_buf_str(&writer);
	l->writer = text ? strdup(text) : NULL;
	return l->writer ? 0 : -ENOMEM;
}

static int see_change(void *arg, enum pf_change_kind kind, const struct pf_pin *pin, const struct pf_pin *before)
{
	struct look *l = arg;
	struct pf_guard *g = pf_guards_find(&l->guards, &pin->id);
	bool *named = g ? &l->named[g - l->guards.v] : NULL;
	size_t i = find_lost(&l->lost, &pin->id);

	if (kind == PF_CHANGE_RENEWED || kind == PF_CHANGE_UNKNOWN)
		return 0;
	if (i < l->lost.n)
		take_out(&l->lost, i);
	if (named)
		*named = kind == PF_CHANGE_RELEASED || kind == PF_CHANGE_EXPIRED || kind == PF_CHANGE_WAIVED;
	return kind == PF_CHANGE_LOST ? lose(&l->lost, pin, l->step->m) : 0;
}

static int see_step(void *arg, const struct pf_step *s)
{
	struct look *l = arg;

	if (!l->head)
		l->lost.since = s->before ? s->before->version : s->m->version;
	int r = pf_step_check(s, l->why);
	if (r < 0)
		return r;
	pf_manifest_unref(l->head);
	l->head = pf_manifest_ref(s->m);
	l->lost.until = s->m->version;
	l->step = s;
	return pf_step_changes(s, see_change, l);
}

/* A guard tag whose pin is neither there nor named. */
static bool is_orphan(const struct look *l, const struct pf_guard *g)
{
	return !l->named[g - l->guards.v] && !pf_pins_find(&l->head->pins, &g->pin);
}

static int add_orphans(struct look *l, uint64_t after)
{
	char no_label[] = "";

	for (size_t i = 0; i < l->guards.n; i++) {
		const struct pf_guard *g = &l->guards.v[i];
		struct pf_pin pin = { .id = g->pin, .source_version = g->source_version, .label = no_label };
		/* Registered at source_version + 1: if that is not above `after`, neither need its end be. */
		if (g->source_version < after || !is_orphan(l, g) || find_lost(&l->lost, &g->pin) < l->lost.n)
			continue;
		memcpy(pin.source_txn, g->source_txn, PF_UUID_TEXT);
		if (!add_lost(&l->lost, &pin))
			return -ENOMEM;
	}
	return 0;
}

/* Takes the guards over. l->head stays NULL if there is no version above `after`. */
static int look(struct pf_branch *b, struct pf_guards *guards, uint64_t after, struct look *l, struct pf_why *why)
{
	l->guards = *guards;
	*guards = (struct pf_guards){ 0 };
	l->named = calloc(l->guards.n ? l->guards.n : 1, sizeof(*l->named));
	if (!l->named)
		return -ENOMEM;
	l->lost.since = l->lost.until = after;
	l->why = why;
	int r = pf_history_walk(b, after, see_step, l, why);
	return r == 0 && l->head ? add_orphans(l, after) : r;
}

int pf_lost_find(struct pf_branch *b, uint64_t after, struct pf_lost_list *out, struct pf_why *why)
{
	_cleanup_(pf_guards_release) struct pf_guards guards = { 0 };
	_cleanup_(look_release) struct look l = { .head = NULL };

	int r = pf_guards_list(b, &guards, why);
	if (r == 0)
		r = look(b, &guards, after, &l, why);
	if (r < 0)
		return r;
	*out = l.lost;
	l.lost = (struct pf_lost_list){ 0 };
	return 0;
}

/* The version to begin after, to look at the newest `versions` at most. */
static uint64_t look_back(const struct pf_manifest *head, uint64_t versions)
{
	uint64_t most = LOOK_BACK_BYTES / (head->st.size ? head->st.size : 1) + 1;

	if (versions > most)
		versions = most;
	return head->version > versions ? head->version - versions : 0;
}

/* Below which version nothing needs to be known: the oldest source of a tag without a pin. */
static uint64_t oldest_orphan(const struct pf_guards *guards, const struct pf_manifest *head)
{
	uint64_t oldest = head->version;

	for (size_t i = 0; i < guards->n; i++)
		if (guards->v[i].source_version < oldest && !pf_pins_find(&head->pins, &guards->v[i].pin))
			oldest = guards->v[i].source_version;
	return oldest;
}

int pf_lost_recent(struct pf_branch *b, uint64_t versions, struct pf_lost_list *out, struct pf_why *why)
{
	_cleanup_(pf_guards_release) struct pf_guards guards = { 0 };
	_cleanup_(look_release) struct look l = { .head = NULL };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = pf_guards_list(b, &guards, why);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r < 0)
		return r;
	uint64_t after = look_back(head, versions), oldest = oldest_orphan(&guards, head);
	r = look(b, &guards, after < oldest ? after : oldest, &l, why);
	if (r < 0)
		return r;
	*out = l.lost;
	l.lost = (struct pf_lost_list){ 0 };
	return 0;
}

int pf_lost_one(struct pf_branch *b, const struct pf_uuid *id, struct pf_lost *out, struct pf_why *why)
{
	_cleanup_(pf_guards_release) struct pf_guards guards = { 0 };
	_cleanup_(look_release) struct look l = { .head = NULL };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	int r = pf_guards_list(b, &guards, why);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r < 0)
		return r;
	uint64_t after = look_back(head, UINT64_MAX);
	const struct pf_guard *g = pf_guards_find(&guards, id);
	if (g && g->source_version < after)
		after = g->source_version;
	r = look(b, &guards, after, &l, why);
	if (r < 0)
		return r;
	size_t i = find_lost(&l.lost, id);
	if (i == l.lost.n)
		return 0;
	*out = l.lost.v[i];
	l.lost.v[i] = (struct pf_lost){ .pin = PF_PIN_INIT };
	return 1;
}

static void count(int r, uint64_t *done, struct pf_guard_repair *n)
{
	if (r < 0)
		n->failed++;
	else
		(*done)++;
}

int pf_guard_repair(struct pf_branch *b, bool dry_run, struct pf_guard_repair *out, struct pf_why *why)
{
	_cleanup_(pf_guards_release) struct pf_guards guards = { 0 };
	_cleanup_(look_release) struct look l = { .head = NULL };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	struct pf_guard_repair n = { 0 };

	int r = pf_guards_list(b, &guards, why);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r == 0)
		r = look(b, &guards, oldest_orphan(&guards, head), &l, why);
	if (r < 0)
		return r;
	if (!l.head)
		l.head = STEAL(head);
	for (size_t i = 0; i < l.guards.n; i++) {
		const struct pf_guard *g = &l.guards.v[i];
		if (is_orphan(&l, g))
			n.lost++;
		else if (!pf_pins_find(&l.head->pins, &g->pin))
			count(dry_run ? 0 : pf_guard_remove(b, &g->pin, why), &n.removed, &n);
	}
	for (size_t i = 0; i < l.head->pins.n; i++) {
		const struct pf_pin *p = &l.head->pins.v[i];
		const struct pf_guard *g = pf_guards_find(&l.guards, &p->id);
		if (!g || !pf_guard_is_of(g, p))
			count(dry_run ? 0 : pf_guard_put(b, p, why), &n.put, &n);
	}
	*out = n;
	return 0;
}
