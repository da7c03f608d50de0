#include "cleanup.h"

#include <inttypes.h>
#include <string.h>

static int worst(int a, int b)
{
	return a > b ? a : b;
}

static int see_version(void *arg, uint64_t done, uint64_t total)
{
	struct cleaning *x = arg;

	if (progress_is_due(&x->progress))
		progress_say(&x->progress, "reading versions: %" PRIu64 " of %" PRIu64, done, total);
	return progress_is_over(&x->progress);
}

static int refresh(struct cleaning *x, struct pf_lines *l, struct pf_why *why)
{
	int r = pf_lines_refresh(l, see_version, x, why);

	progress_clear(&x->progress);
	return r;
}

static void say_pin(void *arg, const char *text)
{
	struct cleaning *x = arg;

	progress_clear(&x->progress);
	ctl_say("%s", text);
}

static void told(void *arg, const struct pf_victim *v, int err)
{
	struct cleaning *x = arg;
	int r = cleanup_print_file(x, v, err);

	/* Whatever ends the run: what was removed so far was told. */
	fflush(stdout);
	if (r < 0 && x->print_error == 0)
		x->print_error = r;
}

static int go_on(void *arg, const struct pf_cleanup_report *so_far)
{
	struct cleaning *x = arg;
	struct pf_clean_count done = { 0 }, all = { 0 };
	char left[SPAN_TEXT];

	if (!progress_is_due(&x->progress))
		return progress_is_over(&x->progress);
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++) {
		done.files += so_far->removed[i].files + so_far->failed[i].files;
		done.bytes += so_far->removed[i].bytes;
		all.files += x->plan.removed[i].files;
	}
	double seconds = (double)(pf_time_steady_ns() - x->began_ns) / 1e9;
	double rate = seconds > 0 ? (double)done.files / seconds : 0;
	uint64_t rest = all.files > done.files ? all.files - done.files : 0;
	progress_say(&x->progress,
		     "removed %" PRIu64 " of %" PRIu64 " files, %" PRIu64 " bytes, %.0f a second, %s left", done.files,
		     all.files, done.bytes, rate, rate > 0 ? span_format((int64_t)((double)rest / rate), left) : "?");
	return progress_is_over(&x->progress);
}

static void pins_releasep(struct pf_clean_pins *p)
{
	pf_clean_pins_release(p);
}

static int delete_files(struct cleaning *x, struct pf_cleanup *cleanup, struct pf_why *why)
{
	size_t n;
	const struct pf_victim *v = pf_cleanup_victims(cleanup, &n);
	int r = 0;

	if (!x->apply) {
		for (size_t i = 0; r == 0 && i < n; i++)
			r = cleanup_print_file(x, &v[i], 0);
		return r;
	}
	x->plan = *pf_cleanup_report(cleanup);
	x->began_ns = pf_time_steady_ns();
	r = pf_cleanup_run(cleanup, &x->how, why);
	return r < 0 ? r : x->print_error;
}

static int was_clean(const struct pf_cleanup_report *r)
{
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++)
		if (r->failed[i].files)
			return EXIT_NO;
	return r->folders_failed ? EXIT_NO : 0;
}

/* What is due goes first, and that makes another head. */
static int settle_pins(struct cleaning *x, struct pf_lines *l, const char *name, struct pf_line **line,
		       struct pf_clean_pins *pins, struct pf_why *why)
{
	int r = pf_cleanup_pins(*line, x->options.now, !x->apply, say_pin, x, pins, why);

	if (r == 0 && x->apply && (pins->n_due || pins->skipped))
		r = refresh(x, l, why);
	*line = r == 0 ? pf_lines_find(l, name) : NULL;
	if (r == 0 && !*line)
		return pf_why_set(why, -ENOENT, "branch %s is gone", name);
	for (size_t i = 0; r == 0 && !x->apply && i < pins->n_due; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&pins->due[i], id);
		ctl_say("pin %s is due: --apply expires it first, in a version of its own that is the head then, and what only the pin "
			"holds is listed",
			id);
	}
	return r;
}

static int clean_line(struct cleaning *x, struct pf_lines *l, const char *name)
{
	_cleanup_(pf_cleanup_freep) struct pf_cleanup *cleanup = NULL;
	_cleanup_(pins_releasep) struct pf_clean_pins pins = { NULL, 0 };
	struct pf_line *line = pf_lines_find(l, name);
	struct pf_cleanup_options o = x->options;
	struct pf_why why = PF_WHY_INIT;
	json_auto_t *files = json_array(), *failed = json_array(), *explained = json_array();

	x->files = files;
	x->failed = failed;
	x->explained = explained;
	int r = line ? settle_pins(x, l, name, &line, &pins, &why)
		     : pf_why_set(&why, -ENOENT, "there is no branch %s", name);
	if (r == 0 && !x->apply) {
		o.released = pins.due;
		o.n_released = pins.n_due;
		/* Their expiry makes a version, which is one of the newest then. */
		if (pins.n_due && o.policy.retain > 1)
			o.policy.retain--;
	}
	if (r == 0)
		r = pf_cleanup_new(l, line, &o, x->explain ? cleanup_explain_file : NULL, x, &cleanup, &why);
	cleanup_print_lines(x);
	if (r == 0)
		r = delete_files(x, cleanup, &why);
	int status = 0;
	if (cleanup) {
		status = cleanup_print_end(x, name, &pins, pf_cleanup_report(cleanup));
		status = worst(status, was_clean(pf_cleanup_report(cleanup)));
	}
	progress_clear(&x->progress);
	return r < 0 ? worst(status, ctl_fail(r, &why)) : status;
}

struct named {
	const char *name;
	size_t depth;
};

static int cmp_depth(const void *a, const void *b)
{
	const struct named *x = a, *y = b;

	return x->depth != y->depth ? (x->depth > y->depth ? -1 : 1) : strcmp(x->name, y->name);
}

/* Names of all branches, children before what they hang from and main last: what a branch needs no more, its parent may give up in the same call. */
static int list_names(const struct pf_lines *l, char ***names)
{
	_cleanup_(pf_freep) struct named *order = calloc(l->n, sizeof(*order));

	*names = calloc(l->n, sizeof(**names));
	if (!order || !*names)
		return -ENOMEM;
	for (size_t i = 1; i < l->n; i++)
		order[i - 1] = (struct named){ l->v[i].name, pf_lines_depth(l, l->v[i].name) };
	qsort(order, l->n - 1, sizeof(*order), cmp_depth);
	for (size_t i = 0; i + 1 < l->n; i++) {
		(*names)[i] = strdup(order[i].name);
		if (!(*names)[i])
			return -ENOMEM;
	}
	return 0;
}

static void free_names(char ***names)
{
	for (size_t i = 0; *names && (*names)[i]; i++)
		free((*names)[i]);
	free(*names);
}

static int clean_all(struct cleaning *x, struct pf_lines *l)
{
	_cleanup_(free_names) char **names = NULL;
	struct pf_why why = PF_WHY_INIT;
	int status = 0;

	int r = list_names(l, &names);
	for (size_t i = 0; r == 0 && names[i]; i++) {
		status = worst(status, clean_line(x, l, names[i]));
		if (x->apply)
			r = refresh(x, l, &why);
	}
	return r < 0 ? worst(status, ctl_fail(r, &why)) : worst(status, clean_line(x, l, NULL));
}

static int run(struct cleaning *x, bool all, struct pf_why *why)
{
	_cleanup_(pf_lines_release) struct pf_lines l;
	const char *name = x->c->branch_name && strcmp(x->c->branch_name, "main") != 0 ? x->c->branch_name : NULL;

	pf_lines_init(&l, x->c->store);
	int r = refresh(x, &l, why);
	if (r < 0)
		return ctl_fail(r, why);
	return all ? clean_all(x, &l) : clean_line(x, &l, name);
}

int cmd_cleanup(struct ctl *c, const struct args *a)
{
	json_auto_t *branches = json_array();
	struct cleaning x = { .c = c, .branches = branches };
	struct pf_why why = PF_WHY_INIT;
	bool all = args_value(a, "all-branches") != NULL;

	if (all && c->branch_name)
		return ctl_usage("--all-branches is of all: not with -b");
	int r = cleanup_options(&x, a, &why);
	if (r == 0)
		r = ctl_open_store(c, &why);
	if (r < 0) {
		free(x.versions);
		return ctl_fail(r, &why);
	}
	x.how.told = told;
	x.how.go_on = go_on;
	x.how.arg = &x;
	progress_open(&x.progress);
	int status = run(&x, all, &why);
	progress_close(&x.progress);
	free(x.versions);
	if (c->json && json_array_size(branches) > 0) {
		json_t *o = json_object();
		pf_json_put(&o, "branches", json_incref(branches));
		status = worst(status, ctl_print_json(o));
	}
	return status;
}
