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

/* The escaped path, as a C string in *out. */
static const char *escape(const char *path, struct pf_buf *out)
{
	return pf_text_escape(path, strlen(path), out) == 0 ? pf_buf_str(out) : NULL;
}

/* `ok` is what the result of an act without error is called. */
static const char *result_name(const struct fs_act *a, const char *ok)
{
	const char *name = a->err ? strerrorname_np(a->err) : ok;
	return name ? name : "UNKNOWN";
}

static char *build_status(const struct fs_act *a, struct pf_time now)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT, b = PF_BUF_INIT;
	const char *path = escape(a->path, &escaped);
	char when[PF_TIME_TEXT];

	clock_text(now, when);
	if (!path || pf_buf_addf(&b, "%s %s %s %s: %s\n", when, result_name(a, "OK"), a->op, path, a->text) < 0)
		return NULL;
	return take(&b);
}

static char *build_line(const struct fs_act *a, const char *ok, struct pf_time now)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT, b = PF_BUF_INIT;
	const char *path = escape(a->path, &escaped);
	char when[PF_TIME_TEXT], version[24] = "-";

	clock_text(now, when);
	if (a->version)
		snprintf(version, sizeof(version), "%" PRIu64, a->version);
	if (!path ||
	    pf_buf_addf(&b, "%s\t%s\t%s\t%s\t%s\t%s\n", when, a->op, path, result_name(a, ok), version, a->text) < 0)
		return NULL;
	return take(&b);
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
	struct pf_time now = pf_time_now();
	_cleanup_(pf_freep) char *status = build_status(a, now), *line = build_line(a, "OK", now);

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
	struct pf_time now = pf_time_now();
	_cleanup_(pf_freep) char *line = build_line(a, "-", now);

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
