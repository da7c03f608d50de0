#include "progress.h"

#include <inttypes.h>

struct findings {
	struct progress progress;
	bool json;
	json_t *list;
};

static void print_finding(const struct pf_finding *f)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;

	printf("%s\t", f->severity == PF_DAMAGE ? "damage" : "note");
	printf("%s\t", f->branch ? safe(f->branch, &escaped) : "main");
	if (f->version)
		printf("%" PRIu64 "\t", f->version);
	else
		printf("-\t");
	printf("%s\t", f->file ? safe(f->file, &escaped) : "-");
	printf("%s\n", f->text);
}

static int print_problem(const char *branch, const struct pf_problem *p)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT, pins = PF_BUF_INIT;

	if (pf_problem_pins(p, SIZE_MAX, &pins) < 0 || !pf_buf_str(&pins))
		return -ENOMEM;
	printf("window\t%s\t", branch ? safe(branch, &escaped) : "main");
	if (p->version)
		printf("%" PRIu64 "\t", p->version);
	else
		printf("-\t");
	printf("%s\t", p->file ? safe(p->file, &escaped) : "-");
	printf("%s%s\n", safe(p->text, &escaped), (char *)pins.data);
	return 0;
}

static int found(void *arg, const struct pf_finding *f)
{
	struct findings *all = arg;

	progress_clear(&all->progress);
	if (!all->json)
		print_finding(f);
	else if (json_array_append_new(all->list, pf_json_finding(f)) < 0)
		return -ENOMEM;
	return 0;
}

static int see_version(void *arg, uint64_t done, uint64_t total)
{
	struct findings *all = arg;

	if (progress_is_due(&all->progress))
		progress_say(&all->progress, "checking versions: %" PRIu64 " of %" PRIu64, done, total);
	return progress_is_over(&all->progress);
}

static int check_all(struct ctl *c, struct findings *all, struct pf_check_totals *totals, struct pf_why *why)
{
	progress_open(&all->progress);
	int r = pf_check(c->store, found, see_version, all, totals, why);
	progress_close(&all->progress);
	return r;
}

/* What speaks against destructive work on one line. */
struct window {
	struct ctl *c;
	const char *branch;
	json_t *list;
	uint64_t problems;
};

static int add_problem(struct window *w, const struct pf_problem *p)
{
	w->problems++;
	if (!w->c->json)
		return print_problem(w->branch, p);
	pf_json_push(&w->list, pf_json_problem(w->branch, p));
	return w->list ? 0 : -ENOMEM;
}

static int problem(void *arg, const struct pf_problem *p)
{
	return add_problem(arg, p);
}

/* What indices need of the history; what pins need of it is told of their sources. */
static int check_history(struct pf_explain *e, struct window *w)
{
	_cleanup_(pf_freep) const char **names = NULL;
	struct pf_why why = PF_WHY_INIT;
	const struct pf_fri *f;
	size_t n;

	/* One that cannot be read is a problem of the window already. */
	if (pf_explain_fri(e, &f, &why) < 0 || f->n_records == 0)
		return 0;
	int r = pf_explain_fri_indices(e, 0, &names, &n, &why);
	if (r == 0 || r == -ENOMEM || r == -EOPNOTSUPP)
		return r == -ENOMEM ? r : 0;
	return add_problem(w, &(struct pf_problem){ .version = e->survey->head->version,
						    .file = e->survey->head->name,
						    .text = why.text });
}

static int check_window(struct pf_lines *l, struct pf_line *line, struct window *w, struct pf_why *why)
{
	_cleanup_(pf_explain_freep) struct pf_explain *e = NULL;

	w->branch = line->name;
	/* One that cannot be read is found by the walk, and is a problem of the others. */
	if (!line->survey)
		return 0;
	int r = account_explain(l, line, &e, why);
	if (r == 0)
		r = pf_retention_problems(e->kept, problem, w);
	return r < 0 ? r : check_history(e, w);
}

/* All lines. A table whose head is damaged has no windows to look at, and the walk has told why. */
static int check_windows(struct ctl *c, struct window *w, struct pf_why *why)
{
	_cleanup_(pf_lines_release) struct pf_lines lines = { .v = NULL };

	int r = account_read(c, &lines, why);
	for (size_t i = 0; r == 0 && i < lines.n; i++)
		r = check_window(&lines, &lines.v[i], w, why);
	return r == -EBADMSG || r == -EOPNOTSUPP ? 0 : r;
}

int cmd_check(struct ctl *c, const struct args *a)
{
	struct findings all = { .json = c->json };
	struct window w = { .c = c, .list = json_array() };
	struct pf_check_totals totals = { 0 };
	struct pf_why why = PF_WHY_INIT;
	json_auto_t *list = json_array();

	all.list = list;
	int r = ctl_open_store(c, &why);
	if (r == 0)
		r = check_all(c, &all, &totals, &why);
	if (r == 0)
		r = check_windows(c, &w, &why);
	if (r < 0) {
		json_decref(w.list);
		return ctl_fail(r, &why);
	}

	int status = totals.damages || w.problems ? EXIT_DAMAGE : 0;
	if (c->json) {
		json_t *o = json_object();
		pf_json_put(&o, "findings", json_incref(list));
		pf_json_put(&o, "window", json_incref(w.list));
		pf_json_put(&o, "totals", pf_json_totals(&totals));
		r = ctl_print_json(o);
		status = r ? r : status;
	}
	json_decref(w.list);
	ctl_say("%" PRIu64 " branches, %" PRIu64 " manifests, %" PRIu64 " transactions, %" PRIu64 " pins: %" PRIu64
		" damaged, %" PRIu64 " notes, %" PRIu64 " against destructive work",
		totals.branches, totals.manifests, totals.transactions, totals.pins, totals.damages, totals.notes,
		w.problems);
	return status;
}
