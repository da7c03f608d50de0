#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "timeline.h"

/* One cell of the layout, in pixels: a character of the font below is a bit narrower. */
#define CELL	   8
#define ROW	   26
#define MARGIN	   24
#define STRIP	   22 /* height of the row of versions */
#define WINDOW_MIN 12 /* cells that the length of the window takes */

/* Of each class, on light and on dark paper. */
static const struct {
	const char *class, *property, *light, *dark;
} colours[] = {
	{ "paper", "fill", "#ffffff", "#14171c" },  { "ink", "fill", "#1f2430", "#e6e8ec" },
	{ "soft", "fill", "#6b7280", "#99a1ad" },   { "line", "stroke", "#c3c9d2", "#4a515d" },
	{ "kept", "fill", "#2f855a", "#48bb78" },   { "free", "fill", "#cfd4dc", "#454c58" },
	{ "bad", "fill", "#c53030", "#f56565" },    { "pin", "fill", "#2b6cb0", "#63a4e8" },
	{ "late", "fill", "#b7791f", "#e0a63c" },   { "tag", "fill", "#0e7490", "#4fc3d9" },
	{ "branch", "fill", "#7b4bb3", "#b794f4" },
};

struct svg {
	const struct pf_timeline *t;
	struct pf_buf *out;
	size_t y; /* top of the row at hand */
	int r;	  /* the first failure: the rest does nothing */
};

static void put(struct svg *s, const char *fmt, ...) _printf_(2, 3);
static void put(struct svg *s, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		s->r = -ENOMEM;
	if (s->r == 0)
		s->r = pf_buf_add(s->out, text, (size_t)n);
	if (n >= 0)
		free(text);
}

/* Text of others. Control characters are not in it: the layout made them visible. */
static void put_text(struct svg *s, const char *text)
{
	for (; *text && s->r == 0; text++) {
		if (*text == '&')
			s->r = pf_buf_addstr(s->out, "&amp;");
		else if (*text == '<')
			s->r = pf_buf_addstr(s->out, "&lt;");
		else if (*text == '>')
			s->r = pf_buf_addstr(s->out, "&gt;");
		else
			s->r = pf_buf_addch(s->out, *text);
	}
}

static size_t x_of_cell(const struct svg *s, size_t cell)
{
	return MARGIN + (s->t->names + 2 + cell) * CELL;
}

/* The middle of a column's sign. */
static size_t x_of(const struct svg *s, size_t column)
{
	return x_of_cell(s, pf_timeline_x(s->t, column)) + CELL / 2;
}

static size_t x_of_head(const struct svg *s)
{
	return x_of(s, s->t->n_columns - 1);
}

/* Begins at x, on the middle of this row. */
static void put_label(struct svg *s, size_t x, const char *class, const char *text)
{
	put(s, "<text class=\"%s\" x=\"%zu\" y=\"%zu\">", class, x, s->y + ROW / 2 + 4);
	put_text(s, text);
	put(s, "</text>\n");
}

static void put_styles(struct svg *s)
{
	put(s, "<style>\ntext { font: 12.5px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace }\n"
	       ".line { fill: none }\n.title { font-weight: bold; font-size: 14px }\n");
	for (size_t i = 0; i < ARRAY_LEN(colours); i++)
		put(s, ".%s { %s: %s }\n", colours[i].class, colours[i].property, colours[i].light);
	put(s, "@media (prefers-color-scheme: dark) {\n");
	for (size_t i = 0; i < ARRAY_LEN(colours); i++)
		put(s, ".%s { %s: %s }\n", colours[i].class, colours[i].property, colours[i].dark);
	put(s, "}\n</style>\n");
}

static void draw_axis(struct svg *s)
{
	const struct pf_timeline *t = s->t;

	put_label(s, MARGIN, "soft", "version");
	for (size_t i = 0; i < t->n_ticks; i++)
		put_label(s, x_of_cell(s, t->ticks[i].x), "ink", t->ticks[i].version);
	s->y += ROW * 2 / 3;
	put_label(s, MARGIN, "soft", "age");
	for (size_t i = 0; i < t->n_ticks; i++)
		put_label(s, x_of_cell(s, t->ticks[i].x), "soft", t->ticks[i].age);
	s->y += ROW;
}

/* What a reader of the picture sees when the pointer rests on a column. */
static void put_hint(struct svg *s, const struct pf_timeline_column *c)
{
	size_t n = c->to - c->from;

	put(s, "<title>");
	if (c->first == c->last)
		put(s, "version %" PRIu64, c->first);
	else
		put(s, "versions %" PRIu64 " to %" PRIu64, c->first, c->last);
	if (n == 0)
		put(s, ": removed");
	else if (n == 1)
		put(s, "%s", c->kept ? ": kept" : ": not kept");
	else
		put(s, ": %zu, %zu kept", n, c->kept);
	if (c->damaged)
		put(s, ", %zu damaged", c->damaged);
	put(s, "</title>");
}

/* A version of its own is a disc, several are a bar that is filled as far as they are kept. */
static void draw_column(struct svg *s, size_t column)
{
	const struct pf_timeline_column *c = &s->t->columns[column];
	size_t x = x_of(s, column), n = c->to - c->from, middle = s->y + STRIP / 2;
	bool head = column == s->t->n_columns - 1;

	put(s, "<g>");
	put_hint(s, c);
	if (n == 0) {
		/* A line that is broken, and something to point at. */
		put(s, "<path class=\"line\" d=\"M%zu %zul4-10m2 10l4-10\"/>", x - 5, middle + 5);
		put(s, "<path fill-opacity=\"0\" d=\"M%zu %zuh%dv%dh-%dz\"/>", x - CELL / 2, s->y, CELL, STRIP, CELL);
	} else if (!s->t->compressed) {
		const char *class = c->damaged ? "bad" : c->kept ? "kept" : "free";
		if (head)
			put(s, "<path class=\"%s\" d=\"M%zu %zul8 8-8 8-8-8z\"/>", class, x, middle - 8);
		else
			put(s, "<circle class=\"%s\" cx=\"%zu\" cy=\"%zu\" r=\"%s\"/>", class, x, middle,
			    s->t->pitch > 1 ? "5" : "3.5");
	} else {
		size_t full = c->kept * STRIP / n;
		if (c->kept && full == 0)
			full = 1; /* something is */
		put(s, "<path class=\"free\" d=\"M%zu %zuh%dv%dh-%dz\"/>", x - CELL / 2, s->y, CELL - 1, STRIP,
		    CELL - 1);
		if (full)
			put(s, "<path class=\"kept\" d=\"M%zu %zuh%dv%zuh-%dz\"/>", x - CELL / 2, s->y + STRIP - full,
			    CELL - 1, full, CELL - 1);
		if (c->damaged)
			put(s, "<path class=\"bad\" d=\"M%zu %zuh%dv4h-%dz\"/>", x - CELL / 2, s->y, CELL - 1,
			    CELL - 1);
	}
	put(s, "</g>\n");
}

/* From each version to the next; broken where some between them are not there. */
static void draw_thread(struct svg *s)
{
	const struct pf_timeline *t = s->t;

	for (size_t i = 1; i < t->n_columns; i++) {
		size_t from = x_of(s, i - 1), to = x_of(s, i);
		if (t->columns[i].from == t->columns[i].to)
			to -= 3;
		if (t->columns[i - 1].from == t->columns[i - 1].to)
			from += 3;
		put(s, "<path class=\"line\" d=\"M%zu %zuH%zu\"/>\n", from, s->y + STRIP / 2, to);
	}
}

static void draw_versions(struct svg *s)
{
	if (!s->t->compressed)
		draw_thread(s);
	for (size_t i = 0; i < s->t->n_columns; i++)
		draw_column(s, i);
	s->y += STRIP + 8;
}

/* Behind the versions and the pins: what the pins keep. */
static void shade_window(struct svg *s)
{
	const struct pf_timeline *t = s->t;
	size_t from = x_of(s, t->window) - CELL, to = x_of_head(s) + CELL + 2;

	if (t->has_window)
		put(s,
		    "<rect class=\"pin\" fill-opacity=\"0.07\" rx=\"4\" x=\"%zu\" y=\"%zu\" width=\"%zu\" height=\"%zu\"/>\n",
		    from, s->y - 4, to - from, STRIP + 8 + 4 + ROW * (1 + t->n_pins));
}

static void draw_window(struct svg *s)
{
	const struct pf_timeline *t = s->t;
	char words[64];

	if (!t->has_window)
		return;
	size_t from = x_of(s, t->window), to = x_of_head(s);
	snprintf(words, sizeof(words), "%" PRIu64 " version%s", t->window_versions, t->window_versions == 1 ? "" : "s");
	put_label(s, MARGIN, "soft", "window");
	put(s, "<path class=\"line\" d=\"M%zu %zuv4H%zuv-4\"/>\n", from, s->y, to);
	/* Under it, or left of it if it is too short. */
	bool under = to - from >= WINDOW_MIN * CELL || pf_timeline_x(t, t->window) < WINDOW_MIN;
	put(s, "<text class=\"soft\" text-anchor=\"%s\" x=\"%zu\" y=\"%zu\">%s</text>\n", under ? "middle" : "end",
	    under ? from + (to - from) / 2 : from - CELL, s->y + ROW / 2 + 4, words);
	s->y += ROW;
}

static void draw_pin(struct svg *s, const struct pf_timeline_pin *p)
{
	const char *class = p->overdue ? "late" : "pin";
	size_t from = x_of(s, p->column), to = x_of_head(s), middle = s->y + ROW / 2;

	put_label(s, MARGIN, "ink", p->name);
	put(s, "<g><title>");
	if (p->n == 1) {
		char id[PF_UUID_TEXT], until[PF_TIME_TEXT];
		pf_uuid_format(&p->pin->id, id);
		pf_time_format(p->pin->expires_at, until);
		put(s, "pin %s, from version %" PRIu64 ", until %s", id, p->pin->source_version, until);
	} else {
		put(s, "%zu pins of versions from %" PRIu64 " on", p->n, p->oldest);
	}
	put(s, "%s</title>", p->no_source ? "; its source is not there" : "");
	put(s, "<path class=\"%s\"%s d=\"M%zu %zuH%zuv4H%zuz\"/>", class, p->overdue ? " fill-opacity=\"0.55\"" : "",
	    from, middle - 2, to, from);
	if (p->no_source)
		put(s, "<path class=\"bad\" d=\"M%zu %zul6 6-6 6-6-6z\"/>", from, middle - 6);
	else
		put(s, "<circle class=\"%s\" cx=\"%zu\" cy=\"%zu\" r=\"5\"/>", class, from, middle);
	put(s, "<path class=\"%s\" d=\"M%zu %zul9 6-9 6z\"/></g>\n", class, to - 3, middle - 6);
	put_label(s, x_of_cell(s, s->t->chart + 1), p->overdue ? "late" : "soft", p->when);
	s->y += ROW;
}

static void draw_mark(struct svg *s, const struct pf_timeline_mark *m)
{
	size_t x = x_of_cell(s, m->x) + CELL / 2, middle = s->y + ROW / 2;

	put(s, "<g><title>%s at version %" PRIu64 "</title>", m->branch ? "branch" : "tag", m->version);
	if (m->branch)
		put(s,
		    "<path class=\"line\" d=\"M%zu %zuv7q0 6 6 6\"/><circle class=\"branch\" cx=\"%zu\" cy=\"%zu\" r=\"4\"/>",
		    x, s->y, x, middle);
	else
		put(s, "<path class=\"tag\" d=\"M%zu %zul5 9h-10z\"/>", x, middle - 5);
	put(s, "</g>\n");
	put(s, "<text class=\"ink\" y=\"%zu\" x=\"%zu\" text-anchor=\"%s\">", middle + 4,
	    m->left ? x - CELL - 2 : x + CELL + 2, m->left ? "end" : "start");
	put_text(s, m->text);
	put(s, "</text>\n");
}

static void draw_marks(struct svg *s, bool branch)
{
	const struct pf_timeline *t = s->t;
	char words[64];

	for (size_t lane = 0; lane < t->lanes[branch]; lane++) {
		if (lane == 0)
			put_label(s, MARGIN, "soft", branch ? "branches" : "tags");
		for (size_t i = 0; i < t->n_marks; i++)
			if (t->marks[i].branch == branch && t->marks[i].lane == lane)
				draw_mark(s, &t->marks[i]);
		s->y += ROW;
	}
	if (t->hidden[branch]) {
		snprintf(words, sizeof(words), "and %zu more", t->hidden[branch]);
		put_label(s, x_of_cell(s, 0), "soft", words);
		s->y += ROW;
	}
}

static size_t height_of(const struct pf_timeline *t)
{
	size_t rows = t->n_pins + t->lanes[0] + t->lanes[1] + (t->hidden[0] > 0) + (t->hidden[1] > 0) + t->has_window;

	return 2 * MARGIN + ROW + 8 + ROW * 2 / 3 + ROW + STRIP + 8 + ROW * rows;
}

int pf_timeline_svg(const struct pf_timeline *t, const char *table, struct pf_buf *out)
{
	struct svg s = { .t = t, .out = out, .y = MARGIN };
	size_t width = 2 * MARGIN + (t->names + 2 + t->chart + 1 + t->times) * CELL, height = height_of(t);

	put(&s,
	    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" viewBox=\"0 0 %zu %zu\" role=\"img\">\n",
	    width, height, width, height);
	put(&s, "<title>");
	put_text(&s, table);
	put(&s, "</title>\n");
	put_styles(&s);
	put(&s, "<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n");
	put_label(&s, MARGIN, "ink title", t->title);
	s.y += ROW + 8;
	draw_axis(&s);
	shade_window(&s);
	draw_versions(&s);
	draw_window(&s);
	for (size_t i = 0; i < t->n_pins; i++)
		draw_pin(&s, &t->pins[i]);
	draw_marks(&s, false);
	draw_marks(&s, true);
	put(&s, "</svg>\n");
	return s.r;
}
