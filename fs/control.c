#include "control.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"

int fs_control_init(struct fs_control *c)
{
	*c = (struct fs_control){ .when = pf_time_now() };
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

static int build(const struct fs_act *a, struct pf_time now, char **status, char **line)
{
	_cleanup_(pf_buf_release) struct pf_buf escaped = PF_BUF_INIT, s = PF_BUF_INIT, l = PF_BUF_INIT;
	char when[PF_TIME_TEXT], version[24] = "-";
	const char *result = a->err ? strerrorname_np(a->err) : "OK";

	clock_text(now, when);
	if (a->version)
		snprintf(version, sizeof(version), "%" PRIu64, a->version);
	if (!result)
		result = "UNKNOWN";

	int r = pf_text_escape(a->path, strlen(a->path), &escaped);
	const char *path = r == 0 ? pf_buf_str(&escaped) : NULL;
	if (!path)
		return -ENOMEM;
	if (pf_buf_addf(&s, "%s %s %s %s: %s\n", when, result, a->op, path, a->text) < 0 ||
	    pf_buf_addf(&l, "%s\t%s\t%s\t%s\t%s\t%s\n", when, a->op, path, result, version, a->text) < 0)
		return -ENOMEM;
	*status = take(&s);
	*line = take(&l);
	return *status && *line ? 0 : -ENOMEM;
}

void fs_control_note(struct fs_control *c, const struct fs_act *a)
{
	_cleanup_(pf_freep) char *status = NULL, *line = NULL;
	struct pf_time now = pf_time_now();

	if (build(a, now, &status, &line) < 0)
		return;
	pthread_mutex_lock(&c->lock);
	char *old_status = c->status, *old_line = c->line[c->next];
	c->status = STEAL(status);
	c->line[c->next] = STEAL(line);
	c->next = (c->next + 1) % FS_LOG_LINES;
	c->when = now;
	pthread_mutex_unlock(&c->lock);
	free(old_status);
	free(old_line);
}

int fs_control_status(struct fs_control *c, struct pf_buf *out, struct pf_time *when)
{
	pthread_mutex_lock(&c->lock);
	int r = c->status ? pf_buf_addstr(out, c->status) : 0;
	*when = c->when;
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
	*when = c->when;
	pthread_mutex_unlock(&c->lock);
	return r;
}
