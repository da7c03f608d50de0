/* what-if: what would be kept no more if pins or tags were gone. Nothing is written. */
#include "pinctl.h"

#include <inttypes.h>
#include <string.h>

/* What is asked, and what differs. */
struct what_if {
	struct ctl *c;
	struct account account;
	struct pf_uuid *released;
	size_t n_released;
	const char **untagged;
	size_t n_untagged;
	struct pf_retention *then;
	struct pf_retention_totals totals;
	size_t *records; /* freed; */
	size_t n_records, all_records;
	struct pf_why fri_why; /* or why they are not known */
};

static void what_if_release(struct what_if *w)
{
	pf_retention_free(w->then);
	account_close(&w->account);
	free(w->released);
	free(w->untagged);
	free(w->records);
}

static bool is_released(const struct what_if *w, const struct pf_pin *p)
{
	for (size_t i = 0; i < w->n_released; i++)
		if (pf_uuid_eq(&w->released[i], &p->id))
			return true;
	return false;
}

/* Who needs a record: 1 one who stays, 0 nobody or only those who go, of whom *goes says whether there is one. */
static int stays(struct what_if *w, size_t record, bool *goes)
{
	_cleanup_(pf_freep) const char **names = NULL;
	const struct pf_pins *pins = &w->account.e->survey->pins;
	size_t n = 0;

	int r = pf_explain_fri_indices(w->account.e, record, &names, &n, &w->fri_why);
	if (r < 0 || n > 0)
		return r < 0 ? r : 1;
	for (size_t i = 0; i < pins->n; i++) {
		r = pf_explain_fri_pin(w->account.e, i, record, &w->fri_why);
		if (r > 0 && is_released(w, &pins->v[i]))
			*goes = true;
		else if (r != 0)
			return r;
	}
	return 0;
}

static int find_records(struct what_if *w)
{
	const struct pf_fri *f;
	int r = pf_explain_fri(w->account.e, &f, &w->fri_why);

	if (r == -ENODATA) {
		w->fri_why.text[0] = '\0';
		return 0;
	}
	if (r < 0)
		return r;
	w->all_records = f->n_records;
	w->records = calloc(f->n_records + 1, sizeof(*w->records));
	if (!w->records)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_records; i++) {
		bool goes = false;
		r = stays(w, i, &goes);
		if (r < 0)
			return r;
		if (r == 0 && goes)
			w->records[w->n_records++] = i;
	}
	return 0;
}

static int answer(struct what_if *w, struct pf_why *why)
{
	const struct pf_question q = { .released = w->released,
				       .n_released = w->n_released,
				       .untagged = w->untagged,
				       .n_untagged = w->n_untagged };

	int r = pf_explain_ask(w->account.e, &q, &w->then);
	if (r < 0)
		return r;
	pf_retention_totals(w->then, &w->totals);
	r = find_records(w);
	if (r == -ENOMEM)
		return r;
	/* What is known of files does not depend on it. */
	if (r < 0)
		pf_why_default(&w->fri_why, r, "%s", strerror(-r));
	return 0;
}

static bool is_freed(const struct what_if *w, size_t version)
{
	return pf_retention_version(w->account.e->kept, version) && !pf_retention_version(w->then, version);
}

static json_t *source_json(const struct pf_retention_totals *t)
{
	return t->has_window ? pf_json_u64(t->oldest_source) : json_null();
}

static int print_json(const struct what_if *w)
{
	const struct pf_retention_totals *now = &w->account.e->totals;
	const struct pf_survey *s = w->account.e->survey;
	json_t *o = json_object(), *versions = json_array(), *records = json_array();

	for (size_t i = 0; i < s->n_versions; i++)
		if (is_freed(w, i))
			pf_json_push(&versions, pf_json_u64(s->versions[i].version));
	for (size_t i = 0; i < w->n_records; i++)
		pf_json_push(&records, pf_json_u64(w->records[i]));
	if (w->fri_why.text[0]) {
		json_decref(records);
		records = json_null();
	}
	pf_json_put(&o, "head", pf_json_u64(s->head->version));
	pf_json_put(&o, "oldest_source", source_json(now));
	pf_json_put(&o, "oldest_source_then", source_json(&w->totals));
	pf_json_put(&o, "snapshots_freed", versions);
	pf_json_put(&o, "files_freed", pf_json_u64(now->files_kept - w->totals.files_kept));
	pf_json_put(&o, "bytes_freed", pf_json_u64(now->bytes_kept - w->totals.bytes_kept));
	pf_json_put(&o, "fri_records_freed", records);
	pf_json_put(&o, "fri_unknown", pf_json_str(w->fri_why.text[0] ? w->fri_why.text : NULL));
	return ctl_print_json(o);
}

static void print_window(const char *name, const struct what_if *w, const struct pf_retention_totals *t)
{
	printf("%s", name);
	if (t->has_window)
		printf("version %" PRIu64 " to %" PRIu64 "\n", t->oldest_source, w->account.e->survey->head->version);
	else
		puts("none");
}

/* Versions freed, runs of them together. */
static void print_versions(const struct what_if *w)
{
	const struct pf_survey *s = w->account.e->survey;
	const char *before = " freed: ";

	for (size_t i = 0; i < s->n_versions; i++) {
		size_t end = i;
		while (end < s->n_versions && is_freed(w, end))
			end++;
		if (end == i)
			continue;
		printf("%s%" PRIu64, before, s->versions[i].version);
		if (end > i + 1)
			printf(" to %" PRIu64, s->versions[end - 1].version);
		before = ", ";
		i = end;
	}
	puts(before[0] == ',' ? "" : " freed");
}

static void print_text(const struct what_if *w)
{
	const struct pf_retention_totals *now = &w->account.e->totals;

	print_window("window     ", w, now);
	print_window("then       ", w, &w->totals);
	printf("snapshots  %" PRIu64 " of %" PRIu64, now->versions_kept - w->totals.versions_kept, now->versions_kept);
	print_versions(w);
	printf("files      %" PRIu64 " of %" PRIu64 " freed\n", now->files_kept - w->totals.files_kept,
	       now->files_kept);
	printf("bytes      %" PRIu64 " of %" PRIu64 " freed\n", now->bytes_kept - w->totals.bytes_kept,
	       now->bytes_kept);
	if (w->fri_why.text[0]) {
		printf("records    not known: %s\n", w->fri_why.text);
		return;
	}
	printf("records    %zu of %zu freed", w->n_records, w->all_records);
	for (size_t i = 0; i < w->n_records; i++)
		printf("%s%zu", i ? ", " : ": ", w->records[i]);
	putchar('\n');
}

static int finish(struct what_if *w)
{
	struct pf_why why = PF_WHY_INIT;
	int r = answer(w, &why), status = 0;

	if (r < 0)
		return ctl_fail(r, &why);
	if (w->c->json)
		status = print_json(w);
	else
		print_text(w);
	const char *unknown = pf_explain_unknown_files(w->account.e);
	if (status == 0 && (unknown || w->fri_why.text[0])) {
		ctl_say("this cannot be determined for certain: %s", unknown ? unknown : w->fri_why.text);
		status = EXIT_DAMAGE;
	}
	return status;
}

static const struct pf_pin *find_pin(const struct what_if *w, const struct pf_uuid *id)
{
	const struct pf_pins *pins = &w->account.e->survey->pins;

	for (size_t i = 0; i < pins->n; i++)
		if (pf_uuid_eq(&pins->v[i].id, id))
			return &pins->v[i];
	return NULL;
}

int cmd_what_if_release(struct ctl *c, const struct args *a)
{
	_cleanup_(what_if_release) struct what_if w = { .c = c };
	struct pf_why why = PF_WHY_INIT;

	w.released = calloc((size_t)a->n_operands, sizeof(*w.released));
	int r = w.released ? 0 : -ENOMEM;
	for (int i = 0; r == 0 && i < a->n_operands; i++)
		r = pf_uuid_parse(a->operand[i], strlen(a->operand[i]), &w.released[w.n_released++], &why);
	if (r == 0)
		r = account_open(c, &w.account, &why);
	for (int i = 0; r == 0 && i < a->n_operands; i++)
		if (!find_pin(&w, &w.released[i]))
			r = pf_why_set(&why, -ENOENT, "there is no pin %s on %s", a->operand[i], ctl_branch(c));
	return r < 0 ? ctl_fail(r, &why) : finish(&w);
}

int cmd_what_if_expire(struct ctl *c, const struct args *a)
{
	_cleanup_(what_if_release) struct what_if w = { .c = c };
	struct pf_why why = PF_WHY_INIT;

	int r = account_open(c, &w.account, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	const struct pf_pins *pins = &w.account.e->survey->pins;
	w.released = calloc(pins->n + 1, sizeof(*w.released));
	if (!w.released)
		return ctl_fail(-ENOMEM, &why);
	for (size_t i = 0; i < pins->n; i++)
		if (pf_explain_is_due(w.account.e, &pins->v[i]))
			w.released[w.n_released++] = pins->v[i].id;
	return finish(&w);
}

static bool has_tag(const struct what_if *w, const char *name)
{
	const struct pf_tags *tags = &w->account.e->survey->tags;

	for (size_t i = 0; i < tags->n; i++)
		if (strcmp(tags->v[i].name, name) == 0)
			return true;
	return false;
}

int cmd_what_if_untag(struct ctl *c, const struct args *a)
{
	_cleanup_(what_if_release) struct what_if w = { .c = c };
	struct pf_why why = PF_WHY_INIT;
	char quoted[PF_QUOTE_TEXT];

	w.untagged = calloc((size_t)a->n_operands, sizeof(*w.untagged));
	int r = w.untagged ? account_open(c, &w.account, &why) : -ENOMEM;
	for (int i = 0; r == 0 && i < a->n_operands; i++) {
		const char *name = a->operand[i];
		if (!has_tag(&w, name))
			r = pf_why_set(&why, -ENOENT, "there is no tag %s on %s",
				       pf_text_quote(name, strlen(name), quoted), ctl_branch(c));
		w.untagged[w.n_untagged++] = name;
	}
	return r < 0 ? ctl_fail(r, &why) : finish(&w);
}
