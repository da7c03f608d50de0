#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "timeline.h"

enum sign {
	KEPT,
	NOT_KEPT,
	ALL_KEPT,
	SOME_KEPT,
	NONE_KEPT,
	HEAD,
	DAMAGED,
	GONE,
	JOIN,
	WINDOW_START,
	WINDOW_END,
	PIN_START,
	PIN_LOST,
	PIN_BAR,
	PIN_OVERDUE,
	PIN_END,
	TAG,
	BRANCH,
	SIGNS
};

static const struct {
	const char *wide, *ascii, *colour, *means;
} signs[SIGNS] = {
	/* Of single versions, */
	[KEPT] = { "●", "*", "32", "kept" },
	[NOT_KEPT] = { "○", "o", "2", "not kept" },
	/* and of columns that stand for several. */
	[ALL_KEPT] = { "█", "#", "32", "all kept" },
	[SOME_KEPT] = { "▒", "+", "32", "some kept" },
	[NONE_KEPT] = { "░", ".", "2", "none kept" },
	[HEAD] = { "◆", "@", "1;32", "head" },
	[DAMAGED] = { "✖", "!", "31", "damaged" },
	[GONE] = { "┄", "~", "2", "removed" },
	[JOIN] = { "─", "-", "2", NULL },
	[WINDOW_START] = { "└", "\\", "2", NULL },
	[WINDOW_END] = { "┘", "/", "2", NULL },
	[PIN_START] = { "├", "|", "34", NULL },
	[PIN_LOST] = { "?", "?", "31", "the source of a pin is not there" },
	[PIN_BAR] = { "─", "-", "34", NULL },
	[PIN_OVERDUE] = { "╌", "=", "33", NULL },
	[PIN_END] = { "▶", ">", "34", NULL },
	[TAG] = { "▲", "^", "36", NULL },
	[BRANCH] = { "╰", "`", "35", NULL },
};

struct drawing {
	const struct pf_timeline *t;
	bool ascii, colour;
	struct pf_buf *out;
	size_t x;	  /* cells in this line so far */
	const char *now;  /* the colour at the end of it, NULL if none */
	bool used[SIGNS]; /* for the legend */
	int r;		  /* the first failure: the rest does nothing */
};

static void put(struct drawing *d, const char *s)
{
	if (d->r == 0)
		d->r = pf_buf_addstr(d->out, s);
}

static void set_colour(struct drawing *d, const char *colour)
{
	if (!d->colour || d->now == colour)
		return;
	if (d->now)
		put(d, "\033[0m");
	if (colour && d->r == 0)
		d->r = pf_buf_addf(d->out, "\033[%sm", colour);
	d->now = colour;
}

static void end_line(struct drawing *d)
{
	set_colour(d, NULL);
	put(d, "\n");
	d->x = 0;
}

/* Blanks up to cell x. */
static void go_to(struct drawing *d, size_t x)
{
	if (d->x < x)
		set_colour(d, NULL);
	for (; d->x < x; d->x++)
		put(d, " ");
}

static void text(struct drawing *d, size_t x, const char *s, const char *colour)
{
	if (!s[0])
		return;
	go_to(d, x);
	set_colour(d, colour);
	put(d, s);
	d->x += pf_text_cells(s);
}

static void sign_as(struct drawing *d, enum sign s, const char *colour)
{
	set_colour(d, colour);
	put(d, d->ascii ? signs[s].ascii : signs[s].wide);
	d->used[s] = true;
	d->x++;
}

static void sign(struct drawing *d, enum sign s)
{
	sign_as(d, s, signs[s].colour);
}

/* Where the chart begins. */
static size_t chart(const struct drawing *d)
{
	return d->t->names + 2;
}

static size_t last_x(const struct drawing *d)
{
	return chart(d) + pf_timeline_x(d->t, d->t->n_columns - 1);
}

static void draw_axis(struct drawing *d)
{
	text(d, 0, "version", "2");
	for (size_t i = 0; i < d->t->n_ticks; i++)
		text(d, chart(d) + d->t->ticks[i].x, d->t->ticks[i].version, NULL);
	end_line(d);
	text(d, 0, "age", "2");
	for (size_t i = 0; i < d->t->n_ticks; i++)
		text(d, chart(d) + d->t->ticks[i].x, d->t->ticks[i].age, "2");
	end_line(d);
}

static enum sign sign_of(const struct pf_timeline *t, size_t column)
{
	const struct pf_timeline_column *c = &t->columns[column];
	size_t n = c->to - c->from;

	if (n == 0)
		return GONE;
	if (c->damaged)
		return DAMAGED;
	if (column == t->n_columns - 1)
		return HEAD;
	if (!t->compressed)
		return c->kept ? KEPT : NOT_KEPT;
	return c->kept == n ? ALL_KEPT : c->kept ? SOME_KEPT : NONE_KEPT;
}

static void draw_versions(struct drawing *d)
{
	const struct pf_timeline *t = d->t;

	for (size_t i = 0; i < t->n_columns; i++) {
		enum sign s = sign_of(t, i);
		bool gone = s == GONE || (i && sign_of(t, i - 1) == GONE);
		while (i && d->x < chart(d) + pf_timeline_x(t, i))
			sign(d, gone ? GONE : JOIN);
		go_to(d, chart(d) + pf_timeline_x(t, i));
		sign(d, s);
	}
	end_line(d);
}

/* Its length stands in it, or left of it if it is too short. */
static void draw_window(struct drawing *d)
{
	const struct pf_timeline *t = d->t;
	size_t from = chart(d) + pf_timeline_x(t, t->window), to = last_x(d);
	char words[64];

	if (!t->has_window)
		return;
	snprintf(words, sizeof(words), " %" PRIu64 " version%s ", t->window_versions,
		 t->window_versions == 1 ? "" : "s");
	size_t width = strlen(words), at = from + (to - from + 1 - width) / 2;
	bool inside = from + width < to;
	text(d, 0, "window", "2");
	if (!inside && chart(d) + width <= from + 1)
		text(d, from - width + 1, words + 1, "2");
	go_to(d, from);
	if (from < to)
		sign(d, WINDOW_START);
	while (d->x < to) {
		if (inside && d->x == at)
			text(d, at, words, "2");
		else
			sign(d, JOIN);
	}
	sign(d, WINDOW_END);
	end_line(d);
}

static void draw_pin(struct drawing *d, const struct pf_timeline_pin *p)
{
	const char *colour = signs[p->overdue ? PIN_OVERDUE : PIN_BAR].colour;

	text(d, 0, p->name, NULL);
	go_to(d, chart(d) + pf_timeline_x(d->t, p->column));
	if (p->no_source)
		sign(d, PIN_LOST);
	else if (d->x < last_x(d))
		sign_as(d, PIN_START, colour);
	while (d->x < last_x(d))
		sign_as(d, p->overdue ? PIN_OVERDUE : PIN_BAR, colour);
	if (d->x == last_x(d))
		sign_as(d, PIN_END, colour);
	text(d, chart(d) + d->t->chart + 1, p->when, p->overdue ? "33" : NULL);
	end_line(d);
}

static void draw_lane(struct drawing *d, bool branch, size_t lane)
{
	if (lane == 0)
		text(d, 0, branch ? "branches" : "tags", "2");
	for (size_t i = 0; i < d->t->n_marks; i++) {
		const struct pf_timeline_mark *m = &d->t->marks[i];
		size_t x = chart(d) + m->x;
		if (m->branch != branch || m->lane != lane)
			continue;
		if (m->left)
			text(d, x - 1 - m->width, m->text, NULL);
		go_to(d, x);
		sign(d, branch ? BRANCH : TAG);
		if (!m->left)
			text(d, x + 2, m->text, NULL);
	}
	end_line(d);
}

static void draw_marks(struct drawing *d, bool branch)
{
	char words[64];

	for (size_t i = 0; i < d->t->lanes[branch]; i++)
		draw_lane(d, branch, i);
	if (d->t->hidden[branch]) {
		snprintf(words, sizeof(words), "and %zu more", d->t->hidden[branch]);
		text(d, chart(d), words, "2");
		end_line(d);
	}
}

static void draw_legend(struct drawing *d)
{
	bool used[SIGNS];

	memcpy(used, d->used, sizeof(used));
	put(d, "\n");
	for (size_t s = 0; s < SIGNS; s++) {
		if (!used[s] || !signs[s].means)
			continue;
		if (d->x && d->x + 4 + strlen(signs[s].means) > chart(d) + d->t->chart + 1 + d->t->times)
			end_line(d);
		go_to(d, d->x ? d->x + 2 : 0);
		sign(d, (enum sign)s);
		text(d, d->x + 1, signs[s].means, "2");
	}
	end_line(d);
}

int pf_timeline_text(const struct pf_timeline *t, bool ascii, bool colour, struct pf_buf *out)
{
	struct drawing d = { .t = t, .ascii = ascii, .colour = colour, .out = out };

	text(&d, 0, t->title, NULL);
	end_line(&d);
	put(&d, "\n");
	draw_axis(&d);
	draw_versions(&d);
	draw_window(&d);
	for (size_t i = 0; i < t->n_pins; i++)
		draw_pin(&d, &t->pins[i]);
	draw_marks(&d, false);
	draw_marks(&d, true);
	draw_legend(&d);
	return d.r;
}
