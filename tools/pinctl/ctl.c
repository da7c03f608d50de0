#include "pinctl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void ctl_close(struct ctl *c)
{
	pf_branch_free(STEAL(c->branch));
	pf_store_free(STEAL(c->store));
}

int ctl_open_store(struct ctl *c, struct pf_why *why)
{
	if (!c->dataset || !c->dataset[0])
		return pf_why_set(why, -EINVAL, "no table given: name it with -d DATASET or in PINFS_DATASET");
	return pf_store_local_open(c->dataset, &c->store, why);
}

int ctl_open_branch(struct ctl *c, const char *name, struct pf_why *why)
{
	int r = ctl_open_store(c, why);
	if (r < 0)
		return r;
	return pf_branch_open(c->store, name, &c->branch, why);
}

int ctl_open(struct ctl *c, struct pf_why *why)
{
	return ctl_open_branch(c, c->branch_name, why);
}

bool ctl_is_inside(const struct ctl *c, const char *at)
{
	size_t n = strlen(c->store->at);

	return strncmp(at, c->store->at, n) == 0 && at[n] == '/';
}

const char *ctl_branch(const struct ctl *c)
{
	const char *name = c->branch ? pf_branch_name(c->branch) : NULL;

	return name ? name : "main";
}

static void vsay(const char *fmt, va_list ap)
{
	fputs("pinctl: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void ctl_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
}

int ctl_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(fmt, ap);
	va_end(ap);
	return EXIT_USAGE;
}

int ctl_fail(int err, const struct pf_why *why)
{
	ctl_say("%s", why->text[0] ? why->text : strerror(-err));
	return pf_error_exit(err);
}

static void committer_freep(struct pf_committer **c)
{
	pf_committer_free(*c);
}

int ctl_commit(struct ctl *c, const struct pf_op *ops, size_t n, struct pf_answer *answers, struct pf_why *why)
{
	_cleanup_(committer_freep) struct pf_committer *committer = NULL;
	const struct pf_committer_options options = { .no_guard = c->no_guard };

	int r = pf_committer_new(c->branch, &options, &committer);
	if (r < 0)
		return pf_why_set(why, r, "cannot start a commit: %s", strerror(-r));
	pf_commit_many(committer, ops, n, answers);
	return 0;
}

int ctl_judge(const struct pf_answer *answer)
{
	if (answer->err < 0)
		return ctl_fail(answer->err, &answer->why);
	if (answer->committed)
		ctl_say("%s (committed as version %" PRIu64 ")", answer->why.text, answer->version);
	else
		ctl_say("%s (nothing to commit on version %" PRIu64 ")", answer->why.text, answer->version);
	return 0;
}

long ctl_gateway(const struct ctl *c)
{
	_cleanup_(pf_buf_release) struct pf_buf path = PF_BUF_INIT;
	char link[64];
	long pid;

	if (!c->store->at || pf_buf_addf(&path, "%s/.pinfs/table", c->store->at) < 0 || !pf_buf_str(&path))
		return 0;
	ssize_t n = readlink((const char *)path.data, link, sizeof(link) - 1);
	if (n < 0)
		return 0;
	link[n] = '\0';
	return sscanf(link, "/proc/%ld/fd/", &pid) == 1 ? pid : 0;
}

int ctl_flush(struct ctl *c)
{
	if (fflush(stdout) != 0)
		c->write_error = errno;
	return -c->write_error;
}

void say_lost(struct ctl *c, uint64_t versions)
{
	_cleanup_(pf_lost_list_release) struct pf_lost_list lost = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = pf_lost_recent(c->branch, versions, &lost, &why);
	if (r < 0)
		ctl_say("whether pins were lost is not known: %s", why.text[0] ? why.text : strerror(-r));
	for (size_t i = 0; i < lost.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		if (pf_lost_describe(&lost.v[i], &text) == 0 && pf_buf_str(&text))
			ctl_say("%s; " ADVICE_LOST, (char *)text.data);
	}
}
