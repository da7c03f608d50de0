/* What is kept: read for commands that answer from all versions, with a sign of life. */
#include "progress.h"

#include <inttypes.h>
#include <string.h>

#define GLANCE_NS INT64_C(2000000000)

struct reading {
	struct progress progress;
	int64_t until; /* pf_time_steady_ns; 0: as long as it takes */
};

static int is_over(struct reading *r)
{
	return progress_is_over(&r->progress) || (r->until && pf_time_steady_ns() > r->until);
}

static int see_version(void *arg, uint64_t done, uint64_t total)
{
	struct reading *r = arg;

	if (progress_is_due(&r->progress))
		progress_say(&r->progress, "reading versions: %" PRIu64 " of %" PRIu64, done, total);
	return is_over(r);
}

static int see_file(void *arg, uint64_t done, uint64_t total)
{
	struct reading *r = arg;

	if (progress_is_due(&r->progress))
		progress_say(&r->progress, "looking at files: %" PRIu64, done);
	return is_over(r);
}

static int read_lines(struct ctl *c, int64_t until, struct pf_lines *l, struct pf_why *why)
{
	struct reading reading = { .until = until };

	pf_lines_init(l, c->store);
	progress_open(&reading.progress);
	int r = pf_lines_refresh(l, see_version, &reading, why);
	progress_close(&reading.progress);
	return r;
}

static int explain(struct pf_lines *l, struct pf_line *line, int64_t until, struct pf_explain **out, struct pf_why *why)
{
	struct reading reading = { .until = until };
	const struct pf_looking how = { .progress = see_file, .progress_arg = &reading };

	progress_open(&reading.progress);
	int r = pf_explain_new(l, line, pf_time_now(), &how, out, why);
	progress_close(&reading.progress);
	return r;
}

int account_read(struct ctl *c, struct pf_lines *l, struct pf_why *why)
{
	return read_lines(c, 0, l, why);
}

int account_explain(struct pf_lines *l, struct pf_line *line, struct pf_explain **out, struct pf_why *why)
{
	return explain(l, line, 0, out, why);
}

static int choose(struct account *a, const char *name, int64_t until, struct pf_why *why)
{
	struct pf_line *line = pf_lines_find(&a->lines, name);

	if (!line)
		return pf_why_set(why, -ENOENT, "branch %s was deleted while this was running", name ? name : "main");
	return explain(&a->lines, line, until, &a->e, why);
}

int account_choose(struct account *a, const char *name, struct pf_why *why)
{
	return choose(a, name, 0, why);
}

int account_open(struct ctl *c, struct account *a, struct pf_why *why)
{
	int r = ctl_open(c, why);

	if (r == 0)
		r = account_read(c, &a->lines, why);
	return r < 0 ? r : account_choose(a, pf_branch_name(c->branch), why);
}

void account_close(struct account *a)
{
	pf_explain_free(a->e);
	pf_lines_release(&a->lines);
}

int account_glance(struct ctl *c, struct pf_why *why)
{
	_cleanup_(account_close) struct account a = { .e = NULL };
	int64_t until = pf_time_steady_ns() + GLANCE_NS;

	int r = read_lines(c, until, &a.lines, why);
	if (r == 0)
		r = choose(&a, pf_branch_name(c->branch), until, why);
	if (r == -EINTR)
		return pf_why_set(
			why, r, "looking at all versions and files takes longer than a glance; `pinctl check` does it");
	if (r == 0)
		r = pf_retention_verify(a.e->kept, why);
	return r == -EBUSY ? 1 : r;
}

int add_fri_path(const struct pf_fri_path *p, struct pf_buf *out)
{
	int r = p->n ? 0 : pf_buf_addstr(out, "its stamp is not below the source");

	for (size_t i = 0; r == 0 && i < p->n; i++)
		r = pf_buf_addf(out, "%sfragment %" PRIu32 " > record %zu", i ? ", " : "", p->v[i].fragment,
				p->v[i].record);
	if (r == 0 && p->ambiguous)
		r = pf_buf_addstr(out,
				  " (the fragment's id was used for other rows too: kept because nobody can tell)");
	return r;
}
