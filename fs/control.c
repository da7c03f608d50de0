#include "control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

int fs_control_init(struct fs_control *c)
{
	*c = (struct fs_control){ .line_when = pf_time_now() };
	c->status_when = c->line_when;
	return -pthread_mutex_init(&c->lock, NULL);
}

void fs_control_release(struct fs_control *c)
{
	for (size_t i = 0; i < FS_LOG_LINES; i++)
		free(c->line[i]);
	free(c->status);
	pthread_mutex_destroy(&c->lock);
}

/* Milliseconds are plenty for people. */
static void clock_text(struct pf_time t, char out[PF_TIME_TEXT])
{
	t.nsec -= t.nsec % 1000000;
	pf_time_format(t, out);
}

/* The text of b as a string of its own; NULL without memory. */
static char *take(struct pf_buf *b)
{
	char *s = pf_buf_str(b) ? (char *)b->data : NULL;
	if (s)
		*b = (struct pf_buf)PF_BUF_INIT;
	return s;
}

/* What both texts about an act have. */
struct words {
	char when[PF_TIME_TEXT];
	struct pf_buf path, text; /* escaped */
	const char *result;
};

static void words_release(struct words *w)
{
	pf_buf_release(&w->path);
	pf_buf_release(&w->text);
}

/* A sentence may tell names, and these are anybody's: a line stays one line. Backslashes are of what the sentence quotes already. */
static int escape_sentence(const char *s, struct pf_buf *out)
{
	for (;;) {
		size_t n = strcspn(s, "\\");
		int r = pf_text_escape(s, n, out);
		if (r < 0 || !s[n])
			return r;
		r = pf_buf_addch(out, s[n]);
		if (r < 0)
			return r;
		s += n + 1;
	}
}

/* `ok` is what the result of an act without error is called. 0 or -ENOMEM. */
static int find_words(const struct fs_act *a, const char *ok, struct pf_time now, struct words *out)
{
	const char *name = a->err ? strerrorname_np(a->err) : ok;

	out->result = name ? name : "UNKNOWN";
	clock_text(now, out->when);
	int r = pf_text_escape(a->path, strlen(a->path), &out->path);
	if (r == 0)
		r = escape_sentence(a->text, &out->text);
	return r < 0 || !pf_buf_str(&out->path) || !pf_buf_str(&out->text) ? -ENOMEM : 0;
}

static char *build_status(const struct fs_act *a, const struct words *w)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	return pf_buf_addf(&b, "%s %s %s %s: %s\n", w->when, w->result, a->op, (const char *)w->path.data,
			   (const char *)w->text.data) < 0
		       ? NULL
		       : take(&b);
}

static char *build_line(const struct fs_act *a, const struct words *w)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	char version[24] = "-";

	if (a->version)
		snprintf(version, sizeof(version), "%" PRIu64, a->version);
	return pf_buf_addf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", w->when, a->op, (const char *)w->path.data, w->result,
			   version, (const char *)w->text.data) < 0
		       ? NULL
		       : take(&b);
}

/* Called locked; takes *line over and gives what it replaces. */
static void swap_line(struct fs_control *c, char **line, struct pf_time now)
{
	char *old = c->line[c->next];
	c->line[c->next] = *line;
	c->next = (c->next + 1) % FS_LOG_LINES;
	c->line_when = now;
	*line = old;
}

void fs_control_note(struct fs_control *c, const struct fs_act *a)
{
	_cleanup_(words_release) struct words w = { .path = PF_BUF_INIT };
	struct pf_time now = pf_time_now();

	if (find_words(a, "OK", now, &w) < 0)
		return;
	_cleanup_(pf_freep) char *status = build_status(a, &w), *line = build_line(a, &w);
	if (!status || !line)
		return;
	pthread_mutex_lock(&c->lock);
	char *old = c->status;
	c->status = status;
	c->status_when = now;
	status = old;
	swap_line(c, &line, now);
	pthread_mutex_unlock(&c->lock);
}

void fs_control_event(struct fs_control *c, const struct fs_act *a)
{
	_cleanup_(words_release) struct words w = { .path = PF_BUF_INIT };
	struct pf_time now = pf_time_now();

	if (find_words(a, "-", now, &w) < 0)
		return;
	_cleanup_(pf_freep) char *line = build_line(a, &w);
	if (!line)
		return;
	pthread_mutex_lock(&c->lock);
	swap_line(c, &line, now);
	pthread_mutex_unlock(&c->lock);
}

int fs_control_status(struct fs_control *c, struct pf_buf *out, struct pf_time *when)
{
	pthread_mutex_lock(&c->lock);
	int r = c->status ? pf_buf_addstr(out, c->status) : 0;
	*when = c->status_when;
	pthread_mutex_unlock(&c->lock);
	return r;
}

int fs_control_log(struct fs_control *c, struct pf_buf *out, struct pf_time *when)
{
	int r = 0;
	pthread_mutex_lock(&c->lock);
	for (size_t i = 0; i < FS_LOG_LINES && r == 0; i++) {
		const char *line = c->line[(c->next + i) % FS_LOG_LINES];
		if (line)
			r = pf_buf_addstr(out, line);
	}
	*when = c->line_when;
	pthread_mutex_unlock(&c->lock);
	return r;
}
