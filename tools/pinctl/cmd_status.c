#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

#include "core/flags.h"

struct state {
	struct pf_manifest *head;
	struct pf_txn txn;
	struct pf_why txn_why; /* why it could not be read */
	char branch_id[PF_BRANCH_ID_TEXT];
	struct pf_lost_list lost;
	struct pf_why lost_why; /* why they are not known */
	struct pf_why blocked;
	int damage; /* 0 or -EBADMSG, and `damaged` says what */
	const struct pf_why *damaged;
	struct pf_status st;
};

/* How many versions are asked for pins that they dropped: a screen must come at once. `pinctl check` asks all. */
#define LOOK_BACK 1000

static void state_release(struct state *s)
{
	pf_manifest_unref(s->head);
	pf_txn_release(&s->txn);
	pf_lost_list_release(&s->lost);
}

/* Pins of the head at one glance, and how much of the window is there. */
static int look_at_pins(struct ctl *c, struct pf_time now, struct state *s, struct pf_why *why)
{
	const struct pf_pins *pins = &s->head->pins;
	struct pf_version_entry *v = NULL;
	size_t n;

	if (pins->n == 0)
		return 0;
	s->st.soonest = pins->v[0].expires_at;
	s->st.oldest = pins->v[0].source_version;
	for (size_t i = 0; i < pins->n; i++) {
		const struct pf_pin *p = &pins->v[i];
		s->st.overdue += pf_time_cmp(p->expires_at, now) <= 0;
		if (pf_time_cmp(p->expires_at, s->st.soonest) < 0)
			s->st.soonest = p->expires_at;
		if (p->source_version < s->st.oldest)
			s->st.oldest = p->source_version;
	}

	if (s->st.oldest <= s->head->version)
		s->st.span = s->head->version - s->st.oldest + 1;

	int r = pf_branch_versions(c->branch, &v, &n, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		s->st.versions += v[i].version >= s->st.oldest && v[i].version <= s->head->version;
	free(v);
	return 0;
}

static void note_damage(struct state *s, int r, const struct pf_why *why)
{
	if (r != -EBADMSG)
		return;
	s->damage = r;
	s->damaged = why;
}

/* What is not known of older versions does not hide what the head says. */
static void look_for_lost(struct ctl *c, struct state *s)
{
	int r = pf_lost_recent(c->branch, LOOK_BACK, &s->lost, &s->lost_why);

	if (r == 0)
		s->st.lost = &s->lost;
	else
		pf_why_default(&s->lost_why, r, "%s", strerror(-r));
	note_damage(s, r, &s->lost_why);
}

/* A transaction that is missing is a fact about the table, a damaged one is too; only storage's failures end the command. */
static int read_txn(struct ctl *c, struct state *s, struct pf_why *why)
{
	int r = pf_txn_read(c->store, pf_branch_dir(c->branch), s->head, &s->txn, &s->txn_why);

	if (r == 0)
		s->st.txn = &s->txn;
	note_damage(s, r, &s->txn_why);
	if (r == 0 || r == -ENODATA || r == -ENOENT || r == -EBADMSG)
		return 0;
	return pf_why_set(why, r, "%s", s->txn_why.text);
}

/* Is everything there that the window needs? What is not known at once is no failure of the command. */
static int look_at_window(struct ctl *c, struct state *s)
{
	int r = account_glance(c, &s->blocked);

	s->st.blocked = r ? s->blocked.text : NULL;
	s->st.blocked_known = r >= 0;
	if (r < 0)
		pf_why_default(&s->blocked, r, "%s", strerror(-r));
	return r == -ENOMEM ? r : 0;
}

static int look(struct ctl *c, struct pf_time now, struct state *s, struct pf_why *why)
{
	int r = ctl_open(c, why);
	if (r < 0)
		return r;
	r = pf_branch_head(c->branch, &s->head, why);
	if (r < 0)
		return r;
	r = pf_branch_id(c->branch, s->branch_id, why);
	if (r < 0)
		return r;
	r = pf_manifest_count(c->store, s->head, &s->st.fragments, &s->st.rows, why);
	if (r < 0)
		return r;
	r = read_txn(c, s, why);
	if (r < 0)
		return r;
	s->st.head = s->head;
	s->st.branch_id = s->branch_id;
	s->st.enabled = (s->head->writer_flags & PF_FLAG_PINS) != 0;
	look_for_lost(c, s);
	r = look_at_pins(c, now, s, why);
	return r < 0 ? r : look_at_window(c, s);
}

static void print_gateway(const struct state *s, long pid)
{
	if (pid)
		printf("gateway    mounted over the table by process %ld: Lance reads and writes through it\n", pid);
	else if (s->st.enabled)
		puts("gateway    none here: Lance 12 and newer does not write; `pinfs TABLE TABLE` lets it");
}

static void print_flags(const char *which, uint64_t word)
{
	_cleanup_(pf_buf_release) struct pf_buf names = PF_BUF_INIT;

	const char *text = pf_flags_describe(word, &names) < 0 ? NULL : pf_buf_str(&names);
	printf("%s %s", which, word && text ? text : "none");
}

static void print_head(struct ctl *c, const struct state *s)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	const struct pf_manifest *m = s->head;
	char when[PF_TIME_TEXT] = "no time";

	if (m->has_timestamp)
		pf_time_format(m->timestamp, when);
	printf("table      %s\n", safe(c->store->where, &escaped));
	printf("branch     %s", safe(ctl_branch(c), &escaped));
	if (s->branch_id[0])
		printf(", id %s", s->branch_id);
	printf("\nhead       version %" PRIu64 ", %s", m->version, when);
	if (m->writer_library[0])
		printf(", by %s", safe(m->writer_library, &escaped));
	if (m->writer_version[0])
		printf(" %s", safe(m->writer_version, &escaped));
	printf("\ndata       %" PRIu64 " fragments", s->st.fragments);
	if (s->st.rows != UINT64_MAX)
		printf(", %" PRIu64 " rows", s->st.rows);
	print_flags("\nflags      reader:", m->reader_flags);
	print_flags("; writer:", m->writer_flags);
	putchar('\n');
}

static void print_act(const struct state *s)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	char op[32];

	if (!s->st.txn) {
		printf("operation  not known: %s\n", s->txn_why.text);
		return;
	}
	printf("operation  %s, transaction %s\n", pf_txn_operation_name(s->txn.operation, op),
	       s->txn.uuid[0] ? s->txn.uuid : "without uuid");
	if (s->txn.message)
		printf("message    %s\n", safe(s->txn.message, &escaped));
}

static void print_pins(const struct state *s, struct pf_time now)
{
	const struct pf_status *st = &s->st;
	char when[PF_TIME_TEXT], span[SPAN_TEXT];

	if (!st->enabled && s->head->pins.n)
		puts("flag       missing for the pins that are listed, as in a copy that was made through a gateway: Lance\n"
		     "           drops them at its next commit. `pinctl enable --apply` sets it");
	else if (!st->enabled)
		puts("pins       not enabled: the first pin is refused. `pinctl enable` says what enabling changes for\n"
		     "           other writers; `pinctl enable --apply` does it");
	if (s->head->pins.n == 0) {
		if (st->enabled)
			puts("pins       none");
		return;
	}

	int64_t left = st->soonest.sec - now.sec;
	pf_time_format(st->soonest, when);
	printf("pins       %zu, soonest expiry %s, ", s->head->pins.n, when);
	if (left > 0)
		printf("in %s", span_format(left, span));
	else
		printf("%s ago", span_format(-left, span));
	printf("; %zu overdue\n", st->overdue);

	printf("window     version %" PRIu64 " to %" PRIu64 ", %" PRIu64 " versions", st->oldest, s->head->version,
	       st->span);
	if (st->versions != st->span)
		printf(", %" PRIu64 " of them missing", st->span - st->versions);
	putchar('\n');
}

static void print_blocked(const struct state *s)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;

	if (!s->st.blocked_known)
		printf("blocked    not known: %s\n", safe(s->st.blocked, &escaped));
	else
		printf("blocked    %s\n", s->st.blocked ? safe(s->st.blocked, &escaped) : "no");
}

static void print_lost(const struct state *s)
{
	const struct pf_lost_list *lost = s->st.lost;

	if (!lost) {
		printf("lost       not known: %s\n", s->lost_why.text);
		return;
	}
	if (lost->n == 0) {
		printf("lost       none, looking back to version %" PRIu64 "\n", lost->since);
		return;
	}
	printf("lost       %zu pin%s, looking back to version %" PRIu64 ": " ADVICE_LOST "\n", lost->n,
	       lost->n == 1 ? "" : "s", lost->since);
	for (size_t i = 0; i < lost->n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		if (pf_lost_describe(&lost->v[i], &text) == 0 && pf_buf_str(&text))
			printf("           %s\n", (char *)text.data);
	}
}

int cmd_status(struct ctl *c, const struct args *a)
{
	_cleanup_(state_release) struct state s = { .txn = PF_TXN_INIT };
	struct pf_time now = pf_time_now();
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	int r = look(c, now, &s, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	long pid = ctl_gateway(c);
	if (c->json) {
		json_t *all = pf_json_status(c->branch, &s.st);
		pf_json_put(&all, "gateway_pid", pid ? json_integer(pid) : json_null());
		status = ctl_print_json(all);
	} else {
		print_head(c, &s);
		print_gateway(&s, pid);
		print_act(&s);
		print_pins(&s, now);
		print_blocked(&s);
		print_lost(&s);
	}
	return s.damage ? ctl_fail(s.damage, s.damaged) : status;
}
