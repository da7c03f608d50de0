/* why: every reason that keeps a file, a version or a record of moved rows. */
#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

struct question {
	struct ctl *c;
	struct pf_explain *e;
	const struct pf_surveyed_file *file; /* what is asked about, if it is a file */
	uint64_t version;		     /* if it is a version */
	bool named;			     /* it is known, whether it is kept or not */
	json_t *reasons;
	size_t n;
};

/* One reason: the word, and the sentence. */
static int give(struct question *q, const char *word, struct pf_buf *sentence)
{
	const char *text = pf_buf_str(sentence);

	if (!text)
		return -ENOMEM;
	q->n++;
	if (!q->c->json) {
		printf("%s\t%s\n", word, text);
		return 0;
	}
	json_t *o = json_object();
	pf_json_put(&o, "reason", pf_json_str(word));
	pf_json_put(&o, "text", pf_json_str(text));
	pf_json_push(&q->reasons, o);
	return q->reasons ? 0 : -ENOMEM;
}

/* "version 4" or "versions 4 to 6, 9": those from `from` on that refer to the file. */
static int add_versions(const struct question *q, uint64_t from, struct pf_buf *out)
{
	const struct pf_survey *s = q->e->survey;
	uint64_t head = s->versions[s->n_versions - 1].version;
	_cleanup_(pf_buf_release) struct pf_buf list = PF_BUF_INIT;
	bool many = false;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < q->file->n_iv; i++) {
		uint64_t first = q->file->iv[i].first, last = q->file->iv[i].last;
		last = last == PF_STILL ? head : last;
		first = first < from ? from : first;
		if (last < first)
			continue;
		many = many || list.len || last > first;
		r = pf_buf_addf(&list, "%s%" PRIu64, list.len ? ", " : "", first);
		if (r == 0 && last > first)
			r = pf_buf_addf(&list, " to %" PRIu64, last);
	}
	const char *text = r == 0 ? pf_buf_str(&list) : NULL;
	return text ? pf_buf_addf(out, "version%s %s", many ? "s" : "", text) : -ENOMEM;
}

static int explain_file(const struct question *q, const struct pf_named_reason *reason, struct pf_buf *out)
{
	const struct pf_survey *s = q->e->survey;
	int r;

	switch (reason->kind) {
	case PF_KEPT_PIN:
		r = pf_buf_addf(out, "its source is version %" PRIu64 "; named by ", reason->pin->source_version);
		return r < 0 ? r : add_versions(q, reason->pin->source_version, out);
	case PF_KEPT_HEAD:
		return pf_buf_addf(out, "named by version %" PRIu64, s->versions[s->n_versions - 1].version);
	case PF_KEPT_TAG:
		for (size_t i = 0; i < s->tags.n; i++)
			if (strcmp(s->tags.v[i].name, reason->name) == 0)
				return pf_buf_addf(out, "named by version %" PRIu64, s->tags.v[i].version);
		return 0;
	case PF_KEPT_BRANCH:
		return pf_buf_addstr(out, "needed by a version of that branch, or by the one that it was made from");
	case PF_KEPT_POLICY:
		break;
	}
	return 0;
}

static int explain_version(const struct question *q, const struct pf_named_reason *reason, struct pf_buf *out)
{
	switch (reason->kind) {
	case PF_KEPT_PIN:
		if (reason->pin->source_version == q->version)
			return pf_buf_addstr(out, "it is the source");
		return pf_buf_addf(out, "in the window from its source, version %" PRIu64, reason->pin->source_version);
	case PF_KEPT_HEAD:
		return pf_buf_addstr(out, "it is the newest");
	case PF_KEPT_TAG:
		return pf_buf_addstr(out, "the tag names it");
	case PF_KEPT_BRANCH:
		return pf_buf_addstr(out, "the branch was made from it, and needs files of this one");
	case PF_KEPT_POLICY:
		break;
	}
	return 0;
}

static int reason_of(void *arg, const struct pf_named_reason *reason)
{
	_cleanup_(pf_buf_release) struct pf_buf word = PF_BUF_INIT, text = PF_BUF_INIT;
	struct question *q = arg;

	int r = pf_reason_text(reason, &word);
	if (r == 0)
		r = q->file ? explain_file(q, reason, &text) : explain_version(q, reason, &text);
	const char *s = r == 0 ? pf_buf_str(&word) : NULL;
	return s ? give(q, s, &text) : -ENOMEM;
}

/* Print what was found out. `unknown`: why there may be more reasons, NULL if there cannot. */
static int conclude(struct question *q, const char *kind, const char *name, const char *unknown)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	int status = q->n ? 0 : unknown ? EXIT_DAMAGE : EXIT_NO;

	if (q->c->json) {
		json_t *o = json_object();
		pf_json_put(&o, "kind", json_string(kind));
		pf_json_put(&o, "name", pf_json_str(name));
		pf_json_put(&o, "kept", status == EXIT_DAMAGE ? json_null() : json_boolean(q->n > 0));
		pf_json_put(&o, "reasons", json_incref(q->reasons));
		pf_json_put(&o, "unknown", pf_json_str(unknown));
		int r = ctl_print_json(o);
		status = r ? r : status;
	}
	if (status == EXIT_DAMAGE)
		ctl_say("whether %s %s is kept cannot be determined: %s", kind, safe(name, &escaped), unknown);
	else if (unknown)
		ctl_say("there may be more reasons: %s", unknown);
	else if (status == EXIT_NO)
		ctl_say("nothing keeps %s %s%s", kind, safe(name, &escaped), q->named ? "" : ": no version names it");
	return status;
}

static int why_version(struct question *q, const char *name, uint64_t version)
{
	const struct pf_survey *s = q->e->survey;
	size_t i = 0;

	while (i < s->n_versions && s->versions[i].version != version)
		i++;
	if (i == s->n_versions) {
		ctl_say("there is no version %" PRIu64 " on %s", version, ctl_branch(q->c));
		return EXIT_NO;
	}
	q->version = version;
	q->named = true;
	int r = pf_retention_version_each(q->e->kept, i, reason_of, q);
	if (r < 0)
		return ctl_fail(r, &(struct pf_why)PF_WHY_INIT);
	return conclude(q, "version", name, pf_explain_unknown_versions(q->e));
}

static int give_pins(struct question *q, size_t record, struct pf_why *unknown)
{
	for (size_t i = 0; i < q->e->survey->pins.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		struct pf_fri_path path = { NULL };
		char word[PF_UUID_TEXT + 8] = "pin:";
		int r = pf_explain_fri_path(q->e, i, record, &path, unknown);
		pf_uuid_format(&q->e->survey->pins.v[i].id, word + strlen(word));
		if (r > 0) {
			r = add_fri_path(&path, &text);
			if (r == 0)
				r = give(q, word, &text);
		}
		pf_fri_path_release(&path);
		if (r == -ENOMEM)
			return r;
	}
	return 0;
}

static int give_indices(struct question *q, size_t record, struct pf_why *unknown)
{
	_cleanup_(pf_freep) const char **names = NULL;
	size_t n = 0;
	int r = pf_explain_fri_indices(q->e, record, &names, &n, unknown);

	for (size_t i = 0; r != -ENOMEM && i < n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf word = PF_BUF_INIT, text = PF_BUF_INIT;
		r = pf_buf_addstr(&word, "index:");
		if (r == 0)
			r = pf_text_escape(names[i], strlen(names[i]), &word);
		if (r == 0)
			r = pf_buf_addstr(&text, "it finds its rows through it");
		const char *s = r == 0 ? pf_buf_str(&word) : NULL;
		r = s ? give(q, s, &text) : -ENOMEM;
	}
	return r == -ENOMEM ? r : 0;
}

static int why_record(struct question *q, const char *name, uint64_t record)
{
	struct pf_why unknown = PF_WHY_INIT;
	const struct pf_fri *f;
	int r = pf_explain_fri(q->e, &f, &unknown);

	if (r == 0 && record >= f->n_records)
		r = pf_why_set(&unknown, -ENOENT, "there is no record %" PRIu64 ": the history has %zu", record,
			       f->n_records);
	q->named = true;
	if (r == 0)
		r = give_pins(q, (size_t)record, &unknown);
	if (r == 0)
		r = give_indices(q, (size_t)record, &unknown);
	if (r < 0)
		return ctl_fail(r, &unknown);
	return conclude(q, "record", name, unknown.text[0] ? unknown.text : NULL);
}

static int why_file(struct question *q, const char *path)
{
	_cleanup_(pf_buf_release) struct pf_buf called = PF_BUF_INIT;
	_cleanup_(pf_freep) char *name = NULL;
	int64_t i = pf_explain_find(q->e, path, &name);
	int r = i < 0 && i != -ENOENT ? (int)i : 0;

	q->named = i >= 0;
	if (q->named) {
		q->file = &q->e->survey->files[i];
		r = pf_explain_name(q->e, (size_t)i, &called);
		if (r == 0 && !pf_buf_str(&called))
			r = -ENOMEM;
		if (r == 0)
			r = pf_retention_file_each(q->e->kept, (size_t)i, reason_of, q);
	}
	if (r < 0)
		return ctl_fail(r, &(struct pf_why)PF_WHY_INIT);
	if (q->named && q->file->presence == PF_MISSING)
		ctl_say("file %s is missing", (char *)called.data);
	return conclude(q, "file", name ? name : path, pf_explain_unknown_files(q->e));
}

/*
 * The line to ask about a file: without -b that whose folders it is in, for what others need of it is a reason there; what another line refers to is no
 * reason of its own.
 */
static const char *owner_of(struct ctl *c, const struct pf_lines *l, const char *path)
{
	_cleanup_(pf_freep) char *name = NULL;

	if (c->branch_name)
		return pf_branch_name(c->branch);
	if (pf_explain_spelled(c->store, path, &name) <= 0)
		return NULL;
	for (size_t i = 1; i < l->n; i++)
		if (l->v[i].survey && pf_place_is_own(name, pf_survey_dir(l->v[i].survey), &l->v[i].survey->refs))
			return l->v[i].name;
	return NULL;
}

static const char fri_prefix[] = "fri/";

/* What is asked about: a version is a number, a record as the mount calls it, everything else is a file. */
static int ask(struct question *q, const char *what)
{
	uint64_t n;

	if (pf_u64_parse(what, strlen(what), &n) == 0)
		return why_version(q, what, n);
	if (strncmp(what, fri_prefix, strlen(fri_prefix)) == 0 &&
	    pf_u64_parse(what + strlen(fri_prefix), strlen(what + strlen(fri_prefix)), &n) == 0)
		return why_record(q, what + strlen(fri_prefix), n);
	return why_file(q, what);
}

int cmd_why(struct ctl *c, const struct args *a)
{
	_cleanup_(account_close) struct account account = { .e = NULL };
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open(c, &why);
	if (r == 0)
		r = account_read(c, &account.lines, &why);
	if (r == 0)
		r = account_choose(&account, owner_of(c, &account.lines, a->operand[0]), &why);
	if (r < 0)
		return ctl_fail(r, &why);
	struct question q = { .c = c, .e = account.e, .reasons = json_array() };
	int status = ask(&q, a->operand[0]);
	json_decref(q.reasons);
	return status;
}
