#include "pinctl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/timeline.h"

#define WIDTH	  80
#define WIDTH_SVG 132
#define WIDTH_MAX 10000

static bool is_utf8(void)
{
	locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
	bool is = l && strcmp(nl_langinfo_l(CODESET, l), "UTF-8") == 0;

	if (l)
		freelocale(l);
	return is;
}

static size_t terminal_width(void)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	uint64_t n;

	if (columns && pf_u64_parse(columns, strlen(columns), &n) == 0 && n > 0 && n <= WIDTH_MAX)
		return n;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return WIDTH;
}

static bool is_coloured(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && no[0]) && term && strcmp(term, "dumb") != 0;
}

static int take_width(const struct args *a, size_t *out, struct pf_why *why)
{
	uint64_t n = args_value(a, "svg") ? WIDTH_SVG : terminal_width();
	int r = args_number(a, "width", &n, why);

	if (r < 0)
		return r;
	if (args_value(a, "width") && (n < PF_TIMELINE_WIDTH_MIN || n > WIDTH_MAX))
		return pf_why_set(why, -EINVAL, "--width %" PRIu64 ": expected %d to %d columns", n,
				  PF_TIMELINE_WIDTH_MIN, WIDTH_MAX);
	*out = n;
	return 0;
}

static int write_all(int fd, const struct pf_buf *b)
{
	for (size_t done = 0; done < b->len;) {
		ssize_t n = write(fd, b->data + done, b->len - done);
		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* To a name beside it, and then rename: nobody sees half of it, and a failure leaves what was there. */
static int replace(const char *path, const struct pf_buf *b)
{
	_cleanup_(pf_freep) char *temp = NULL;
	mode_t mask = umask(0);

	umask(mask);
	if (asprintf(&temp, "%s.XXXXXX", path) < 0)
		return temp = NULL, -ENOMEM;
	int fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fchmod(fd, 0666 & ~mask) < 0 ? -errno : write_all(fd, b);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temp, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temp);
	return r;
}

static int save(const char *path, const struct pf_buf *b, struct pf_why *why)
{
	struct stat st;
	int r, fd;

	/* What is no file, a pipe or a terminal, is written to. */
	if (stat(path, &st) < 0 || S_ISREG(st.st_mode)) {
		r = replace(path, b);
	} else {
		fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
		r = fd < 0 ? -errno : write_all(fd, b);
		if (fd >= 0 && close(fd) < 0 && r == 0)
			r = -errno;
	}
	return r < 0 ? pf_why_set(why, r, "cannot write %s: %s", path, strerror(-r)) : 0;
}

static int draw_svg(const struct ctl *c, const struct pf_timeline *t, const char *path, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, table = PF_BUF_INIT;

	int r = pf_timeline_svg(t, safe(c->dataset, &table), &text);
	if (r < 0)
		return r;
	if (strcmp(path, "-") != 0)
		return save(path, &text, why);
	fwrite(text.data, 1, text.len, stdout);
	return 0;
}

static int draw(const struct ctl *c, const struct args *a, struct pf_timeline_input *in, struct pf_why *why)
{
	_cleanup_(pf_timeline_release) struct pf_timeline t = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	const char *svg = args_value(a, "svg");

	in->ascii = args_value(a, "ascii") || (!svg && !c->json && !is_utf8());
	int r = pf_timeline_new(in, &t);
	if (r < 0)
		return r;
	if (svg)
		return draw_svg(c, &t, svg, why);
	json_auto_t *o = c->json ? pf_json_timeline(in, &t) : NULL;
	r = c->json ? pf_json_text(o, &text) : pf_timeline_text(&t, in->ascii, is_coloured(), &text);
	if (r == 0)
		fwrite(text.data, 1, text.len, stdout);
	return r;
}

int cmd_timeline(struct ctl *c, const struct args *a)
{
	_cleanup_(account_close) struct account account = { .e = NULL };
	struct pf_timeline_input in = { .width = 0 };
	struct pf_why why = PF_WHY_INIT;

	if (c->json && args_value(a, "svg"))
		return ctl_usage("--json and --svg: one of them");
	int r = take_width(a, &in.width, &why);
	if (r == 0)
		r = account_open(c, &account, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	in.survey = account.e->survey;
	in.kept = account.e->kept;
	in.branch = pf_branch_name(c->branch);
	in.now = account.e->now;
	r = draw(c, a, &in, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	const char *unknown = pf_explain_unknown_versions(account.e);
	if (unknown)
		ctl_say("more may be kept: %s", unknown);
	return unknown ? EXIT_DAMAGE : 0;
}
