#include "progress.h"

#include "core/doctor.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct visit {
	struct ctl *c;
	struct progress progress;
	bool colour;
	json_t *list;
	int status;
	uint64_t advice, trouble;
};

static int see_version(void *arg, uint64_t done, uint64_t total)
{
	struct visit *x = arg;

	if (progress_is_due(&x->progress))
		progress_say(&x->progress, "reading versions: %" PRIu64 " of %" PRIu64, done, total);
	return progress_is_over(&x->progress);
}

static void print_diagnosis(const struct visit *x, const struct pf_diagnosis *d)
{
	static const char *const colours[] = {
		[PF_FINE] = "\033[32m", [PF_ADVICE] = "\033[33m", [PF_TROUBLE] = "\033[31m"
	};
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT;
	const char *name = pf_health_name(d->verdict);

	printf("%s%s%s\t", x->colour ? colours[d->verdict] : "", name, x->colour ? "\033[0m" : "");
	printf("%s\t%s\t", d->branch ? safe(d->branch, &escaped) : "main", d->check);
	printf("%s\t%s\n", d->text, d->command ? d->command : "-");
}

static int note(void *arg, const struct pf_diagnosis *d)
{
	struct visit *x = arg;
	int status = d->err ? pf_error_exit(d->err) : 0;

	progress_clear(&x->progress);
	x->status = status > x->status ? status : x->status;
	x->advice += d->verdict == PF_ADVICE;
	x->trouble += d->verdict == PF_TROUBLE;
	if (!x->c->json) {
		print_diagnosis(x, d);
		return 0;
	}
	return json_array_append_new(x->list, pf_json_diagnosis(d)) < 0 ? -ENOMEM : 0;
}

/* What the flags say of Lance is of who does not come through it. */
static int note_gateway(struct visit *x)
{
	long pid = ctl_gateway(x->c);
	char text[96];

	if (!pid)
		return 0;
	snprintf(text, sizeof(text), "mounted over the table by process %ld: Lance reads and writes through it", pid);
	return note(x, &(struct pf_diagnosis){ .check = "gateway", .verdict = PF_FINE, .text = text });
}

int cmd_doctor(struct ctl *c, const struct args *a)
{
	json_auto_t *list = json_array();
	struct visit x = { .c = c, .list = list, .colour = !c->json && isatty(STDOUT_FILENO) };
	struct pf_why why = PF_WHY_INIT;
	struct pf_doctor_options o = { .now = pf_time_now(), .progress = see_version, .progress_arg = &x };

	o.all = args_value(a, "all-branches") != NULL;
	if (o.all && c->branch_name)
		return ctl_usage("--all-branches is of all: not with -b");
	if (c->branch_name && strcmp(c->branch_name, "main") != 0)
		o.branch = c->branch_name;
	int r = ctl_open_store(c, &why);
	if (r == 0) {
		progress_open(&x.progress);
		r = note_gateway(&x);
		if (r == 0)
			r = pf_doctor(c->store, &o, note, &x, &why);
		progress_close(&x.progress);
	}
	if (r < 0)
		return ctl_fail(r, &why);
	if (c->json) {
		json_t *all = json_object();
		pf_json_put(&all, "checks", json_incref(list));
		r = ctl_print_json(all);
	}
	ctl_say("%" PRIu64 " in trouble, %" PRIu64 " to be attended to", x.trouble, x.advice);
	return r > x.status ? r : x.status;
}
