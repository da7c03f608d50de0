#include "doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor_parts.h"
#include "flags.h"

/* A version and the file of its manifest are made in one moment; a file so much later was copied without its time. */
#define COPIED_NS INT64_C(86400000000000)

/* A clock may be so far ahead without anybody being worried. */
#define AHEAD_NS INT64_C(60000000000)

/* One diagnosis being made. */
struct finding {
	enum pf_health verdict;
	int err;
	struct pf_buf text, command;
	const struct pf_texts *details;
};

static const char *const verdict_names[] = {
	[PF_FINE] = "ok",
	[PF_ADVICE] = "advice",
	[PF_TROUBLE] = "trouble",
};

const char *pf_health_name(enum pf_health v)
{
	return verdict_names[v];
}

_printf_(3, 4) static int say(struct finding *d, enum pf_health verdict, const char *fmt, ...)
{
	char text[PF_WHY_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	d->verdict = verdict > d->verdict ? verdict : d->verdict;
	int r = d->text.len ? pf_buf_addstr(&d->text, "; ") : 0;
	return r == 0 ? pf_buf_addstr(&d->text, text) : r;
}

/* The first of several sentences, and how many more there are. */
static int say_texts(struct finding *d, enum pf_health verdict, const struct pf_texts *t)
{
	d->details = t;
	return t->n == 1 ? say(d, verdict, "%s", t->v[0]) : say(d, verdict, "%s; and %zu more", t->v[0], t->n - 1);
}

/* Trouble that is an error of core: `err` decides the exit status. */
static int trouble(struct finding *d, int err, const char *text)
{
	d->err = err;
	return say(d, PF_TROUBLE, "%s", text[0] ? text : strerror(-err));
}

/* The command that helps, on this table and branch. */
static int advise(struct finding *d, struct pf_store *st, const char *branch, const char *words)
{
	int r = pf_buf_addstr(&d->command, "pinctl -d ");

	if (r == 0)
		r = pf_shell_quote(st->at, &d->command);
	if (r == 0 && branch)
		r = pf_buf_addstr(&d->command, " -b ");
	if (r == 0 && branch)
		r = pf_shell_quote(branch, &d->command);
	return r == 0 ? pf_buf_addf(&d->command, " %s", words) : r;
}

static int help(struct finding *d, const struct pf_facts *f, const char *words)
{
	return advise(d, f->st, f->branch, words);
}

/* What no policy selects goes, and nothing else: no version is below 1. */
#define CLEAN_LOOSE "cleanup --before-version 1 --apply"
#define CLEAN_LEAKS "cleanup --before-version 1 --leaks --apply"

/* --- one line of versions --- */

static int check_head(const struct pf_facts *f, struct finding *d)
{
	_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT;
	char when[PF_TIME_TEXT];

	if (f->unknown < 0) {
		int r = trouble(d, f->unknown, f->unknown_why.text);
		return r == 0 ? advise(d, f->st, NULL, "check") : r;
	}
	const struct pf_manifest *head = f->e->survey->head;
	int r = pf_writer_describe(head, &writer);
	pf_time_format(head->timestamp, when);
	return r == 0 && pf_buf_str(&writer)
		       ? say(d, PF_FINE, "version %" PRIu64 " of %s, by %s", head->version, when, (char *)writer.data)
		       : -ENOMEM;
}

static int check_names(const struct pf_facts *f, struct finding *d)
{
	if (f->names_err < 0)
		return trouble(d, f->names_err, "");
	if (f->v1 && f->v2) {
		d->err = -EBADMSG;
		return say(d, PF_TROUBLE,
			   "manifests of both naming schemes, %" PRIu64 " of V1 and %" PRIu64
			   " of V2: Lance refuses such a table; its migrate_manifest_paths_v2 was interrupted",
			   f->v1, f->v2);
	}
	return say(d, PF_FINE, "%" PRIu64 " manifests, all named by scheme V%d", f->v1 + f->v2, f->v1 ? 1 : 2);
}

static int check_folders(const struct pf_facts *f, struct finding *d)
{
	if (f->sealed.n == 0)
		return say(d, PF_FINE, "all can be written");
	d->err = f->sealed_err;
	return say_texts(d, PF_TROUBLE, &f->sealed);
}

/* The newest version without bit 19 that follows one with it. */
static uint64_t dropped_bit(const struct pf_survey *s)
{
	for (size_t i = s->n_versions; i-- > 1;)
		if (!(s->versions[i].writer_flags & PF_FLAG_PINS) && s->versions[i].readable &&
		    (s->versions[i - 1].writer_flags & PF_FLAG_PINS))
			return s->versions[i].version;
	return 0;
}

static int check_flags(const struct pf_facts *f, struct finding *d)
{
	const struct pf_survey *s = f->e->survey;
	struct pf_why why = PF_WHY_INIT;
	uint64_t dropped = dropped_bit(s);
	int r = 0;

	if (pf_flags_writable(s->head->writer_flags, &why) < 0)
		r = say(d, PF_ADVICE, "%s", why.text);
	if (r == 0 && dropped)
		r = say(d, PF_ADVICE,
			"version %" PRIu64 " was made by a writer that drops bit 19 and pins: Lance up to 11", dropped);
	if (r < 0)
		return r;
	if (s->head->writer_flags & PF_FLAG_PINS)
		return say(d, PF_FINE,
			   "pins are enabled: Lance 12 and newer refuse to write here, up to 11 they drop the pins "
			   "without a word, and up to 13 their cleanup knows guard tags only");
	if (s->pins.n == 0)
		return say(d, PF_FINE, "pins are not enabled: every release of Lance writes here");
	r = say(d, PF_ADVICE, "there are pins, and bit 19 is not set: any writer may drop them");
	return r == 0 ? help(d, f, "enable --apply") : r;
}

static int check_sections(const struct pf_facts *f, struct finding *d)
{
	const struct pf_survey *s = f->e->survey;
	uint64_t n = 0, first = 0;

	for (size_t i = 0; i < s->n_versions; i++) {
		if (!s->versions[i].ambiguous)
			continue;
		first = n++ ? first : s->versions[i].version;
	}
	if (n == 0)
		return say(d, PF_FINE, "all releases of Lance read the same transaction of each version");
	d->err = -EBADMSG;
	int r = say(d, PF_TROUBLE,
		    "manifest fields 21 and 23 of %" PRIu64
		    " versions lead to different transactions, first in version %" PRIu64
		    ": Lance up to 13 reads one, 14 the other",
		    n, first);
	return r == 0 ? advise(d, f->st, NULL, "check") : r;
}

static int check_pins(const struct pf_facts *f, struct finding *d)
{
	const struct pf_pins *pins = &f->e->survey->pins;
	const struct pf_pin *soonest = pins->n ? &pins->v[0] : NULL;
	char when[PF_TIME_TEXT];
	size_t due = 0;

	if (!soonest)
		return say(d, PF_FINE, "none");
	for (size_t i = 0; i < pins->n; i++) {
		due += pf_explain_is_due(f->e, &pins->v[i]);
		if (pf_time_cmp(pins->v[i].expires_at, soonest->expires_at) < 0)
			soonest = &pins->v[i];
	}
	pf_time_format(soonest->expires_at, when);
	if (!due)
		return say(d, PF_FINE, "%zu, none overdue, soonest expiry %s", pins->n, when);
	int r = say(d, PF_ADVICE, "%zu of %zu overdue, the first since %s: they hold until they are expired", due,
		    pins->n, when);
	return r == 0 ? help(d, f, "expire --apply") : r;
}

static int check_window(const struct pf_facts *f, struct finding *d)
{
	const struct pf_retention_totals *t = &f->e->totals;

	if (f->problems.n) {
		d->err = -EBUSY;
		int r = say_texts(d, PF_TROUBLE, &f->problems);
		return r == 0 ? advise(d, f->st, NULL, "check") : r;
	}
	if (!t->has_window)
		return say(d, PF_FINE, "no pins; nothing speaks against a cleanup");
	return say(d, PF_FINE, "whole from version %" PRIu64 " to %" PRIu64, t->oldest_source,
		   f->e->survey->head->version);
}

static int check_files(const struct pf_facts *f, struct finding *d)
{
	if (f->bare.n == 0)
		return say(d, PF_FINE, "each version has its own");
	d->err = -EBADMSG;
	int r = say_texts(d, f->bare_head ? PF_TROUBLE : PF_ADVICE, &f->bare);
	if (r == 0 && !f->bare_head)
		r = say(d, PF_ADVICE, "a cleanup by Lance that was interrupted leaves that");
	if (r == 0 && f->bare_versions.len) {
		_cleanup_(pf_buf_release) struct pf_buf words = PF_BUF_INIT;
		r = pf_buf_addf(&words, "cleanup --versions %.*s --apply", (int)f->bare_versions.len,
				(const char *)f->bare_versions.data);
		r = r == 0 && pf_buf_str(&words) ? help(d, f, (const char *)words.data) : -ENOMEM;
	}
	return r;
}

static int check_lost(const struct pf_facts *f, struct finding *d)
{
	if (f->lost_err < 0)
		return trouble(d, f->lost_err, f->lost_why.text);
	if (f->lost.n == 0)
		return say(d, PF_FINE, "no pin was dropped by another writer");
	d->err = -EBUSY;
	int r = say_texts(d, PF_TROUBLE, &f->lost);
	if (r == 0)
		r = say(d, PF_TROUBLE, "register anew under a new id, or waive");
	return r == 0 ? help(d, f, "release --waive ID") : r;
}

static int check_guards(const struct pf_facts *f, struct finding *d)
{
	const struct pf_guard_repair *g = &f->guards;

	if (f->guards_err < 0)
		return trouble(d, f->guards_err, f->guards_why.text);
	if (g->failed)
		return say(d, PF_ADVICE, "%" PRIu64 " cannot be put right: %s", g->failed, f->guards_why.text);
	if (!g->put && !g->removed)
		return say(d, PF_FINE, "each pin has its tag, and no other is left");
	int r = say(d, PF_ADVICE, "%" PRIu64 " missing, %" PRIu64 " stale", g->put, g->removed);
	return r == 0 ? help(d, f, CLEAN_LOOSE) : r;
}

/* `what`: "files were written and never committed". */
static int judge_pile(const struct pf_facts *f, struct finding *d, enum pf_loose kind, const char *what,
		      const char *fine, const char *words)
{
	const struct pf_pile *p = &f->loose[kind];
	char quoted[PF_QUOTE_TEXT];
	int r = 0;

	if (p->files)
		r = say(d, PF_ADVICE, "%" PRIu64 " %s, %" PRIu64 " bytes, like %s", p->files, what, p->bytes,
			pf_text_quote(p->example, strlen(p->example), quoted));
	if (r == 0 && p->late)
		r = say(d, PF_ADVICE,
			"%" PRIu64 " of them changed after the oldest version was made, and go only with that",
			p->late);
	if (r == 0 && p->young)
		r = say(d, PF_FINE,
			"%" PRIu64 " %s, %" PRIu64 " bytes, in the last seven days: a writer may be at work", p->young,
			p->files ? "more" : what, p->young_bytes);
	if (r == 0 && p->files > p->late)
		r = help(d, f, words);
	return r < 0 || p->files || p->young ? r : say(d, PF_FINE, "%s", fine);
}

static int check_stranded(const struct pf_facts *f, struct finding *d)
{
	return judge_pile(f, d, PF_LOOSE_STRANDED, "files were written and never committed",
			  "no file but what versions name", CLEAN_LOOSE);
}

static int check_staged(const struct pf_facts *f, struct finding *d)
{
	return judge_pile(f, d, PF_LOOSE_STAGED, "files were left by commits that did not end",
			  "nothing left by commits", CLEAN_LOOSE);
}

static int check_leaks(const struct pf_facts *f, struct finding *d)
{
	return judge_pile(f, d, PF_LOOSE_LEAK, "temporary files that Lance never collects", "nothing that Lance leaks",
			  CLEAN_LEAKS);
}

/* However young: no writer needs what a cleanup had begun to delete. */
static int check_interrupted(const struct pf_facts *f, struct finding *d)
{
	const struct pf_pile *p = &f->loose[PF_LOOSE_UNDONE];

	if (f->undone_err < 0)
		return trouble(d, f->undone_err, "");
	if (!p->files && !p->young)
		return say(d, PF_FINE, "no cleanup was interrupted");
	int r = say(d, PF_ADVICE, "a cleanup was interrupted, or is at work: %" PRIu64 " versions are half removed",
		    p->files + p->young);
	return r == 0 ? help(d, f, CLEAN_LOOSE) : r;
}

/* Times are what strangers say: no sum of two need have 64 bits. */
static bool is_later(int64_t a, int64_t b, int64_t by)
{
	return (__int128)a - b > by;
}

static int check_times(const struct pf_facts *f, struct finding *d)
{
	const struct pf_survey *s = f->e->survey;
	int64_t now = f->now.sec * INT64_C(1000000000) + f->now.nsec;
	size_t copied = 0, ahead = 0;
	int r = 0;

	for (size_t i = 0; i < s->n_versions; i++) {
		const struct pf_surveyed_version *v = &s->versions[i];
		copied += v->timestamp_ns > 0 && is_later(v->mtime_ns, v->timestamp_ns, COPIED_NS);
		ahead += is_later(v->timestamp_ns, now, AHEAD_NS) || is_later(v->mtime_ns, now, AHEAD_NS);
	}
	if (ahead)
		r = say(d, PF_ADVICE, "%zu versions were made in the future of this host: a clock was wrong, or is",
			ahead);
	if (r == 0 && copied)
		r = say(d, PF_ADVICE,
			"the files of %zu versions are younger than these, as after a copy without times: Lance then "
			"leaves transactions and deletion files, and `cleanup --leaks` does not",
			copied);
	return r < 0 || copied || ahead ? r : say(d, PF_FINE, "files are as old as their versions");
}

static int check_hint(const struct pf_facts *f, struct finding *d)
{
	if (!f->hint_stale)
		return say(d, PF_FINE, "the version hint is right, or there is none");
	return say(d, PF_ADVICE, "%s, and the next commit writes it anew", f->hint_why.text);
}

static const struct {
	const char *name;
	bool always; /* also when the line cannot be read */
	int (*judge)(const struct pf_facts *f, struct finding *d);
} line_checks[] = {
	{ "head", true, check_head },	       { "names", true, check_names },
	{ "folders", true, check_folders },    { "flags", false, check_flags },
	{ "sections", false, check_sections }, { "pins", false, check_pins },
	{ "window", false, check_window },     { "files", false, check_files },
	{ "lost", false, check_lost },	       { "guards", false, check_guards },
	{ "stranded", false, check_stranded }, { "staged", false, check_staged },
	{ "leaks", false, check_leaks },       { "interrupted", false, check_interrupted },
	{ "times", false, check_times },       { "hint", false, check_hint },
};

/* --- the table --- */

static int check_branches(const struct pf_table_facts *f, struct finding *d)
{
	if (f->unread.n) {
		d->err = -EBADMSG;
		int r = say_texts(d, PF_TROUBLE, &f->unread);
		return r == 0 ? advise(d, f->st, NULL, "check") : r;
	}
	if (f->empty.n)
		return say(d, PF_ADVICE, "of %zu branches nothing is left but the ref, first of %s", f->empty.n,
			   f->empty.v[0]);
	return say(d, PF_FINE, "%zu beside main, all can be read", f->branches);
}

static int check_remains(const struct pf_table_facts *f, struct finding *d)
{
	char quoted[PF_QUOTE_TEXT];
	int r = 0;

	if (f->remains_err < 0)
		return trouble(d, f->remains_err, f->remains_why.text);
	if (f->remains.n) {
		d->details = &f->remains;
		r = say(d, PF_ADVICE,
			"%zu directories are of no branch, %" PRIu64 " bytes, first %s: Lance never collects them",
			f->remains.n, f->remains_bytes,
			pf_text_quote(f->remains.v[0], strlen(f->remains.v[0]), quoted));
		/* Not by hand: branches may have been made from one of them. */
		if (r == 0)
			r = advise(d, f->st, NULL, CLEAN_LEAKS);
	}
	if (r == 0 && f->young.n)
		r = say(d, PF_FINE,
			"%zu directories of no branch, first %s, changed in the last seven days: somebody may be making it",
			f->young.n, pf_text_quote(f->young.v[0], strlen(f->young.v[0]), quoted));
	return r < 0 || f->remains.n || f->young.n ? r : say(d, PF_FINE, "every directory of tree/ is a branch's");
}

static const struct {
	const char *name;
	int (*judge)(const struct pf_table_facts *f, struct finding *d);
} table_checks[] = {
	{ "branches", check_branches },
	{ "remains", check_remains },
};

/* --- telling --- */

struct telling {
	pf_diagnosis_fn fn;
	void *arg;
};

static int tell(const struct telling *to, const char *check, const char *branch, struct finding *d)
{
	if (!pf_buf_str(&d->text) || (d->command.len && !pf_buf_str(&d->command)))
		return -ENOMEM;
	return to->fn(to->arg,
		      &(struct pf_diagnosis){ .check = check,
					      .branch = branch,
					      .verdict = d->verdict,
					      .err = d->verdict == PF_TROUBLE ? d->err : 0,
					      .text = (const char *)d->text.data,
					      .command = d->command.len ? (const char *)d->command.data : NULL,
					      .details = d->details ? (const char *const *)d->details->v : NULL,
					      .n_details = d->details ? d->details->n : 0 });
}

static void finding_release(struct finding *d)
{
	pf_buf_release(&d->text);
	pf_buf_release(&d->command);
}

static int judge_line(const struct telling *to, const struct pf_facts *f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(line_checks); i++) {
		_cleanup_(finding_release) struct finding d = { .text = PF_BUF_INIT, .command = PF_BUF_INIT };
		if (f->unknown < 0 && !line_checks[i].always)
			continue;
		r = line_checks[i].judge(f, &d);
		if (r == 0)
			r = tell(to, line_checks[i].name, f->branch, &d);
	}
	return r;
}

static int judge_table(const struct telling *to, const struct pf_table_facts *f)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(table_checks); i++) {
		_cleanup_(finding_release) struct finding d = { .text = PF_BUF_INIT, .command = PF_BUF_INIT };
		r = table_checks[i].judge(f, &d);
		if (r == 0)
			r = tell(to, table_checks[i].name, NULL, &d);
	}
	return r;
}

static int look_at_line(const struct telling *to, struct pf_store *st, struct pf_lines *l, struct pf_line *line,
			int unknown, const struct pf_why *why, struct pf_time now)
{
	_cleanup_(pf_facts_release) struct pf_facts f = { .bare_versions = PF_BUF_INIT };

	int r = pf_facts_find(st, l, line, unknown, why, now, &f);
	return r == 0 ? judge_line(to, &f) : r;
}

static int look_at_table(const struct telling *to, struct pf_store *st, const struct pf_lines *l, struct pf_time now)
{
	_cleanup_(pf_table_facts_release) struct pf_table_facts f = { .branches = 0 };

	int r = pf_table_facts_find(st, l, now, &f);
	return r == 0 ? judge_table(to, &f) : r;
}

int pf_doctor(struct pf_store *st, const struct pf_doctor_options *o, pf_diagnosis_fn fn, void *arg, struct pf_why *why)
{
	_cleanup_(pf_lines_release) struct pf_lines l;
	const struct telling to = { fn, arg };
	struct pf_why inner = PF_WHY_INIT;

	pf_lines_init(&l, st);
	int unknown = pf_lines_refresh(&l, o->progress, o->progress_arg, &inner);
	if (unknown == -ENOENT || unknown == -EINTR || unknown == -EINVAL || unknown == -ENOMEM)
		return pf_why_set(why, unknown, "%s", inner.text);
	struct pf_line *one = unknown ? NULL : pf_lines_find(&l, o->branch);
	if (!unknown && !one)
		return pf_why_set(why, -ENOENT, "there is no branch %s", o->branch);
	int r = look_at_table(&to, st, &l, o->now);
	/* Without main nothing is known of the branches either, which need it. */
	if (r == 0 && (unknown || !o->all))
		return look_at_line(&to, st, &l, one, unknown, &inner, o->now);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		r = look_at_line(&to, st, &l, &l.v[i], 0, NULL, o->now);
	return r;
}
