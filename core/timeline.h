/*
 * A picture of one line of versions: its versions, the window, pins from their sources to the head, tags and branches (`pinctl timeline`). The layout is
 * data, in cells of a terminal; two renderers draw it, as text and as SVG. No I/O, no clock.
 *
 * The axis is of the versions that are there, not of their numbers: a stretch of versions that were removed takes one column, however long. If there are
 * more versions than columns, a column stands for several.
 */
#ifndef PF_TIMELINE_H
#define PF_TIMELINE_H

#include <jansson.h>

#include "retention.h"

/* The narrowest that is drawn; less asks for this much. */
#define PF_TIMELINE_WIDTH_MIN 40

struct pf_timeline_input {
	const struct pf_survey *survey; /* with a version at least */
	const struct pf_retention *kept;
	const char *branch; /* its name, NULL: main */
	struct pf_time now;
	size_t width; /* in cells, all of it */
	bool ascii;   /* no other characters in any text */
};

/* Some versions next to each other, as indices into survey->versions. None of them: a stretch that is not there any more. */
struct pf_timeline_column {
	size_t from, to;      /* without `to` */
	uint64_t first, last; /* their numbers, or those that are missing */
	size_t kept, damaged; /* how many of them */
};

/* A row: one pin, or, when there are many, all whose sources are in one column. Oldest source first. */
struct pf_timeline_pin {
	size_t column;		  /* of its source */
	const struct pf_pin *pin; /* of several the one that expires first */
	size_t n;
	uint64_t oldest; /* source of all */
	bool overdue;	 /* its time has passed */
	bool no_source;	 /* the source of one of them is not there */
	char *name;	 /* "6b40c332 nightly report", "12 pins"; cut to fit */
	char *when;	 /* "3h left", "2d overdue" */
};

#define PF_TIMELINE_HIDDEN SIZE_MAX

/* A tag or a branch at a version. Its text stands in the row `lane` of its kind, right of its sign at column x, or left of it. */
struct pf_timeline_mark {
	bool branch;
	const char *name;
	size_t x, lane; /* lane PF_TIMELINE_HIDDEN: there was no room */
	bool left;
	uint64_t version;
	size_t width; /* of its text */
	char *text;
};

/* A number on the axis; begins at cell x. */
struct pf_timeline_tick {
	size_t x, column;
	char version[24], age[24];
};

struct pf_timeline {
	/* From left to right: names, two blanks, the chart, one blank, times. */
	size_t names, chart, times;
	size_t pitch;	 /* cells from one column to the next: above 1 if there is room */
	bool compressed; /* a column may stand for several versions */
	struct pf_timeline_column *columns;
	size_t n_columns;
	bool has_window;
	size_t window; /* the column where it begins; it ends at the last */
	uint64_t oldest, window_versions;
	struct pf_timeline_pin *pins;
	size_t n_pins;
	struct pf_timeline_mark *marks; /* tags, then branches */
	size_t n_marks;
	size_t lanes[2];  /* of tags and of branches */
	size_t hidden[2]; /* for which there was no lane */
	struct pf_timeline_tick ticks[8];
	size_t n_ticks;
	char *title; /* branch, head, versions, pins */
};

/* 0 or -ENOMEM. The result borrows of the survey. */
int pf_timeline_new(const struct pf_timeline_input *in, struct pf_timeline *out);
void pf_timeline_release(struct pf_timeline *t);

/* Cells from the start of the chart to the sign of a column. */
static inline size_t pf_timeline_x(const struct pf_timeline *t, size_t column)
{
	return column * t->pitch;
}

/* Append it as lines of text, no wider than asked for, without blanks at their ends. ascii as in the input; colour: with the escapes of a terminal. */
int pf_timeline_text(const struct pf_timeline *t, bool ascii, bool colour, struct pf_buf *out);

/* Append it as an SVG document that stands alone: no scripts, no fonts, nothing fetched; its colours follow the reader's light or dark. */
int pf_timeline_svg(const struct pf_timeline *t, const char *table, struct pf_buf *out);

/*
 * {"branch","head","window","columns","pins","tags","branches"}: what is drawn, names in full. window is null without pins. A column is
 * {"first","last","versions","kept","damaged"}, its versions 0 where they were removed; a pin is pf_json_pin; a tag and a branch are {"name","version"}.
 * A new reference, NULL without memory.
 */
json_t *pf_json_timeline(const struct pf_timeline_input *in, const struct pf_timeline *t);

/* How many cells of a terminal the text takes, as most of them draw it: wide characters take two, marks over others none. */
size_t pf_text_cells(const char *s);

#endif
