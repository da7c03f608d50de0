#include "timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard.h"

#define ROWS_MAX  24 /* more pins than this share rows */
#define LANES_MAX 6  /* of tags, and of branches: more would hide what the picture is about */
#define PITCH_MAX 6
#define TIMES_MAX 12
#define TEXT_MAX  40 /* of a tag or branch */
#define LABEL_MIN 5  /* from one number on the axis to the next */
#define NS_PER_S  INT64_C(1000000000)

/* Of one code point: most terminals go by East Asian Width. */
static size_t cells_of(uint32_t c)
{
	static const struct {
		uint32_t first, last;
		size_t cells;
	} special[] = {
		{ 0x0300, 0x036f, 0 },	 { 0x1100, 0x115f, 2 },	  { 0x200b, 0x200f, 0 },   { 0x20d0, 0x20ff, 0 },
		{ 0x2e80, 0xa4cf, 2 },	 { 0xac00, 0xd7a3, 2 },	  { 0xf900, 0xfaff, 2 },   { 0xfe00, 0xfe0f, 0 },
		{ 0xfe30, 0xfe6f, 2 },	 { 0xff00, 0xff60, 2 },	  { 0xffe0, 0xffe6, 2 },   { 0x1f300, 0x1f64f, 2 },
		{ 0x1f680, 0x1f6ff, 2 }, { 0x1f900, 0x1f9ff, 2 }, { 0x20000, 0x3fffd, 2 },
	};

	for (size_t i = 0; i < ARRAY_LEN(special); i++)
		if (c >= special[i].first && c <= special[i].last)
			return special[i].cells;
	return 1;
}

/* The character at s, which is valid UTF-8; returns its length. */
static size_t next_char(const char *s, uint32_t *c)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	*c = n == 1 ? p[0] : p[0] & (0xffU >> (n + 1));
	for (size_t i = 1; i < n; i++)
		*c = *c << 6 | (p[i] & 0x3f);
	return n;
}

size_t pf_text_cells(const char *s)
{
	size_t cells = 0;
	uint32_t c;

	while (*s) {
		s += next_char(s, &c);
		cells += cells_of(c);
	}
	return cells;
}

/* Append s, safe to show and at most `max` cells wide. */
static int add_text(struct pf_buf *out, const char *s, size_t max, bool ascii)
{
	_cleanup_(pf_buf_release) struct pf_buf safe = PF_BUF_INIT;
	size_t cells = 0, used = out->len, fits = out->len;
	uint32_t c;

	int r = pf_text_escape(s, strlen(s), &safe);
	s = r == 0 ? pf_buf_str(&safe) : NULL;
	while (s && *s) {
		size_t n = next_char(s, &c), wide = ascii ? 1 : cells_of(c);
		if (cells + wide > max)
			break;
		r = ascii && n > 1 ? pf_buf_addch(out, '?') : pf_buf_add(out, s, n);
		if (r < 0)
			return r;
		s += n;
		cells += wide;
		used = out->len;
		if (cells < max)
			fits = used; /* and the sign that something was cut */
	}
	if (!s)
		return -ENOMEM;
	if (!*s || max == 0)
		return 0;
	out->len = fits;
	return pf_buf_addstr(out, ascii ? "~" : "\xe2\x80\xa6");
}

/* The same as a string of its own. */
static char *text_of(const char *s, size_t max, bool ascii)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	if (add_text(&b, s, max, ascii) < 0 || !pf_buf_str(&b))
		return NULL;
	return (char *)STEAL(b.data);
}

/* One unit, cut downwards: it has to be short. */
static void span_of(int64_t s, char *out, size_t size)
{
	if (s >= 2 * INT64_C(365) * 86400)
		snprintf(out, size, "%" PRId64 "y", s / (INT64_C(365) * 86400));
	else if (s >= 2 * 86400)
		snprintf(out, size, "%" PRId64 "d", s / 86400);
	else if (s >= 2 * 3600)
		snprintf(out, size, "%" PRId64 "h", s / 3600);
	else if (s >= 2 * 60)
		snprintf(out, size, "%" PRId64 "m", s / 60);
	else
		snprintf(out, size, "%" PRId64 "s", s);
}

void pf_timeline_release(struct pf_timeline *t)
{
	for (size_t i = 0; i < t->n_pins; i++) {
		free(t->pins[i].name);
		free(t->pins[i].when);
	}
	for (size_t i = 0; i < t->n_marks; i++)
		free(t->marks[i].text);
	free(t->columns);
	free(t->pins);
	free(t->marks);
	free(t->title);
	*t = (struct pf_timeline){ 0 };
}

static bool follows(const struct pf_survey *s, size_t i)
{
	return s->versions[i].version == s->versions[i - 1].version + 1;
}

/* --- columns --- */

static void add_column(struct pf_timeline *t, const struct pf_timeline_input *in, size_t from, size_t to)
{
	const struct pf_surveyed_version *v = in->survey->versions;
	struct pf_timeline_column c = { .from = from, .to = to };

	if (from == to) {
		c.first = v[from - 1].version + 1;
		c.last = v[from].version - 1;
	} else {
		c.first = v[from].version;
		c.last = v[to - 1].version;
	}
	for (size_t i = from; i < to; i++) {
		c.kept += pf_retention_version(in->kept, i) != 0;
		c.damaged += !v[i].readable;
	}
	t->columns[t->n_columns++] = c;
}

/* n versions from `from` on in `columns` columns, as evenly as can be. */
static void add_stretch(struct pf_timeline *t, const struct pf_timeline_input *in, size_t from, size_t n,
			size_t columns)
{
	for (size_t c = 0; c < columns; c++)
		add_column(t, in, from + n * c / columns, from + n * (c + 1) / columns);
}

/*
 * Stretches of versions without a gap get columns by their length, one at least, and each gap one. If there are too many for that, gaps are not drawn.
 */
static int lay_columns(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	const struct pf_survey *s = in->survey;
	size_t n = s->n_versions, stretches = 1;

	t->columns = calloc(t->chart, sizeof(*t->columns));
	if (!t->columns)
		return -ENOMEM;
	for (size_t i = 1; i < n; i++)
		stretches += !follows(s, i);
	bool gaps = 2 * stretches <= t->chart + 1;
	size_t room = gaps ? t->chart - (stretches - 1) : t->chart;
	t->compressed = n > room;
	if (!gaps)
		add_stretch(t, in, 0, n, n < room ? n : room);
	for (size_t from = 0, to; gaps && from < n; from = to) {
		for (to = from + 1; to < n && follows(s, to);)
			to++;
		if (from)
			add_column(t, in, from, from);
		size_t more = to - from - 1; /* than one */
		if (t->compressed)
			more = more * (room - stretches) / (n - stretches);
		add_stretch(t, in, from, to - from, 1 + more);
	}
	t->pitch = t->n_columns > 1 ? (t->chart - 1) / (t->n_columns - 1) : 1;
	if (t->pitch > PITCH_MAX)
		t->pitch = PITCH_MAX;
	return 0;
}

/* The column of a version; of one that is not there the gap where it was, or the nearest. */
static size_t column_of(const struct pf_timeline *t, uint64_t version)
{
	size_t lo = 0, hi = t->n_columns - 1;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (t->columns[mid].last < version)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- pins --- */

static int cmp_pin(const void *a, const void *b)
{
	const struct pf_pin *const *x = a, *const *y = b;

	if ((*x)->source_version != (*y)->source_version)
		return (*x)->source_version < (*y)->source_version ? -1 : 1;
	return pf_time_cmp((*x)->expires_at, (*y)->expires_at);
}

static char *when_of(const struct pf_pin *p, struct pf_time now)
{
	char span[24], *out;
	int64_t left = p->expires_at.sec - now.sec;
	bool overdue = pf_time_cmp(p->expires_at, now) <= 0;

	span_of(left < 0 ? -left : left, span, sizeof(span));
	return asprintf(&out, "%s %s", span, overdue ? "overdue" : "left") < 0 ? NULL : out;
}

static char *name_of(const struct pf_timeline *t, const struct pf_timeline_pin *row, bool ascii)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	char id[PF_UUID_TEXT];

	pf_uuid_format(&row->pin->id, id);
	int r = row->n > 1	     ? pf_buf_addf(&text, "%zu pins", row->n)
		: row->pin->label[0] ? pf_buf_addf(&text, "%.8s %s", id, row->pin->label)
				     : pf_buf_addf(&text, "%.8s", id);
	const char *s = r == 0 ? pf_buf_str(&text) : NULL;
	return s ? text_of(s, t->names, ascii) : NULL;
}

/* By source. */
static int sort_pins(const struct pf_pins *l, const struct pf_pin ***out)
{
	const struct pf_pin **v = calloc(l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < l->n; i++)
		v[i] = &l->v[i];
	qsort(v, l->n, sizeof(*v), cmp_pin);
	*out = v;
	return 0;
}

static int lay_pins(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	const struct pf_survey *s = in->survey;
	_cleanup_(pf_freep) const struct pf_pin **v = NULL;
	size_t n = s->pins.n;

	int r = sort_pins(&s->pins, &v);
	if (r < 0)
		return r;
	t->pins = calloc(n + 1, sizeof(*t->pins));
	if (!t->pins)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct pf_timeline_pin row = { .column = column_of(t, v[i]->source_version),
					       .pin = v[i],
					       .n = 1,
					       .oldest = v[i]->source_version };
		struct pf_timeline_pin *last = t->n_pins ? &t->pins[t->n_pins - 1] : NULL;
		if (n <= ROWS_MAX || !last || last->column != row.column)
			t->pins[t->n_pins++] = row;
		else if (last->n++ && pf_time_cmp(v[i]->expires_at, last->pin->expires_at) < 0)
			last->pin = v[i];
		t->pins[t->n_pins - 1].no_source |= !pf_survey_has(s, v[i]->source_version);
	}
	for (size_t i = 0; i < t->n_pins; i++) {
		struct pf_timeline_pin *row = &t->pins[i];
		row->overdue = pf_time_cmp(row->pin->expires_at, in->now) <= 0;
		row->name = name_of(t, row, in->ascii);
		row->when = when_of(row->pin, in->now);
		if (!row->name || !row->when)
			return -ENOMEM;
	}
	return 0;
}

/* --- tags and branches --- */

static int add_mark(struct pf_timeline *t, const struct pf_timeline_input *in, bool branch, const char *name,
		    uint64_t version)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_timeline_mark m = { .branch = branch, .name = name, .version = version };

	int r = pf_survey_has(in->survey, version) ? pf_buf_addstr(&text, name)
						   : pf_buf_addf(&text, "%s (%" PRIu64 " is gone)", name, version);
	const char *s = r == 0 ? pf_buf_str(&text) : NULL;
	m.x = pf_timeline_x(t, column_of(t, version));
	size_t right = t->chart > m.x + 2 ? t->chart - m.x - 2 : 0, left = m.x ? m.x - 1 : 0;
	size_t room = right > left ? right : left;
	m.text = s ? text_of(s, room < TEXT_MAX ? room : TEXT_MAX, in->ascii) : NULL;
	if (!m.text)
		return -ENOMEM;
	m.width = pf_text_cells(m.text);
	m.left = m.width > right;
	t->marks[t->n_marks++] = m;
	return 0;
}

/* The cells that it takes. */
static size_t start_of(const struct pf_timeline_mark *m)
{
	return m->left ? m->x - m->width - 1 : m->x;
}

static int cmp_mark(const void *a, const void *b)
{
	const struct pf_timeline_mark *x = a, *y = b;

	if (start_of(x) != start_of(y))
		return start_of(x) < start_of(y) ? -1 : 1;
	return x->version != y->version ? (x->version < y->version ? -1 : 1) : strcmp(x->text, y->text);
}

/* Give each of those from `from` on the first row where there is room. */
static void lay_lanes(struct pf_timeline *t, size_t from, bool branch)
{
	size_t end[LANES_MAX] = { 0 };

	qsort(t->marks + from, t->n_marks - from, sizeof(*t->marks), cmp_mark);
	for (size_t i = from; i < t->n_marks; i++) {
		struct pf_timeline_mark *m = &t->marks[i];
		while (m->lane < LANES_MAX && end[m->lane] > start_of(m))
			m->lane++;
		if (m->lane == LANES_MAX) {
			m->lane = PF_TIMELINE_HIDDEN;
			t->hidden[branch]++;
			continue;
		}
		end[m->lane] = start_of(m) + m->width + 2 + 2;
		if (m->lane >= t->lanes[branch])
			t->lanes[branch] = m->lane + 1;
	}
}

/* Does this branch hang from the line that is drawn? */
static bool is_child(const struct pf_branch_ref *b, const char *of)
{
	return of ? b->parent && strcmp(b->parent, of) == 0 : !b->parent;
}

static int lay_marks(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	const struct pf_survey *s = in->survey;
	struct pf_guard guard;
	int r = 0;

	t->marks = calloc(s->tags.n + s->refs.n + 1, sizeof(*t->marks));
	if (!t->marks)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < s->tags.n; i++) {
		int g = pf_guard_from_tag(&s->tags.v[i], &guard, NULL);
		if (g == -ENOMEM)
			return g;
		if (g != 1)
			r = add_mark(t, in, false, s->tags.v[i].name, s->tags.v[i].version);
	}
	lay_lanes(t, 0, false);
	size_t from = t->n_marks;
	for (size_t i = 0; r == 0 && i < s->refs.n; i++)
		if (is_child(&s->refs.v[i], in->branch))
			r = add_mark(t, in, true, s->refs.v[i].name, s->refs.v[i].parent_version);
	lay_lanes(t, from, true);
	return r;
}

/* --- the axis --- */

static void add_tick(struct pf_timeline *t, const struct pf_timeline_input *in, size_t column)
{
	const struct pf_timeline_column *c = &t->columns[column];
	struct pf_timeline_tick tick = { .column = column };
	bool last = column == t->n_columns - 1;

	if (c->from == c->to || t->n_ticks == ARRAY_LEN(t->ticks))
		return;
	const struct pf_surveyed_version *v = &in->survey->versions[last ? c->to - 1 : c->from];
	snprintf(tick.version, sizeof(tick.version), "%" PRIu64, v->version);
	int64_t age = in->now.sec - v->timestamp_ns / NS_PER_S;
	if (v->readable && v->timestamp_ns)
		span_of(age < 0 ? 0 : age, tick.age, sizeof(tick.age));
	else
		snprintf(tick.age, sizeof(tick.age), "?");
	size_t a = strlen(tick.version), b = strlen(tick.age), width = a > b ? a : b;
	tick.x = pf_timeline_x(t, column);
	if (tick.x + width > t->chart)
		tick.x = t->chart - width;
	/* Two blanks between them. */
	for (size_t i = 0; i < t->n_ticks; i++) {
		size_t va = strlen(t->ticks[i].version), vb = strlen(t->ticks[i].age), w = va > vb ? va : vb;
		if (tick.x < t->ticks[i].x + w + 2 && t->ticks[i].x < tick.x + width + 2)
			return;
	}
	t->ticks[t->n_ticks++] = tick;
}

static int cmp_tick(const void *a, const void *b)
{
	const struct pf_timeline_tick *x = a, *y = b;

	return x->x < y->x ? -1 : x->x > y->x;
}

/* What matters first: there may be no room for the others. */
static void lay_ticks(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	size_t last = t->n_columns - 1;

	add_tick(t, in, last);
	if (t->has_window)
		add_tick(t, in, t->window);
	add_tick(t, in, 0);
	/* Back from the head in equal steps. */
	size_t wide = (LABEL_MIN + t->pitch - 1) / t->pitch, step = (last + 4) / 5;
	if (step < wide)
		step = wide;
	for (size_t c = last; c > step; c -= step)
		add_tick(t, in, c - step);
	qsort(t->ticks, t->n_ticks, sizeof(t->ticks[0]), cmp_tick);
}

/* --- all of it --- */

static int lay_title(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	const struct pf_survey *s = in->survey;
	const char *dot = in->ascii ? "; " : " \xc2\xb7 ";
	size_t kept = 0, damaged = 0;
	size_t n = s->n_versions;
	uint64_t missing = s->versions[n - 1].version - s->versions[0].version + 1 - n;

	for (size_t i = 0; i < n; i++) {
		kept += pf_retention_version(in->kept, i) != 0;
		damaged += !s->versions[i].readable;
	}
	int r = add_text(&b, in->branch ? in->branch : "main", 40, in->ascii);
	if (r == 0)
		r = pf_buf_addf(&b, "%shead %" PRIu64 "%s%zu version%s, %zu kept", dot, s->versions[n - 1].version, dot,
				n, n == 1 ? "" : "s", kept);
	if (r == 0 && missing)
		r = pf_buf_addf(&b, ", %" PRIu64 " missing between them", missing);
	if (r == 0 && damaged)
		r = pf_buf_addf(&b, ", %zu damaged", damaged);
	if (r == 0)
		r = pf_buf_addf(&b, "%s%zu pin%s", dot, s->pins.n, s->pins.n == 1 ? "" : "s");
	if (r < 0 || !pf_buf_str(&b))
		return -ENOMEM;
	t->title = (char *)STEAL(b.data);
	return 0;
}

/* How the width is shared out. */
static void lay_width(struct pf_timeline *t, const struct pf_timeline_input *in)
{
	const struct pf_pins *pins = &in->survey->pins;
	size_t width = in->width < PF_TIMELINE_WIDTH_MIN ? PF_TIMELINE_WIDTH_MIN : in->width;

	t->names = strlen("branches");
	for (size_t i = 0; i < pins->n; i++) {
		size_t cells = strlen("01234567 ") + pf_text_cells(pins->v[i].label);
		if (cells > t->names)
			t->names = cells;
	}
	if (t->names > width / 3)
		t->names = width / 3;
	t->times = pins->n ? TIMES_MAX : 0;
	t->chart = width - t->names - 2 - t->times - (t->times > 0);
}

int pf_timeline_new(const struct pf_timeline_input *in, struct pf_timeline *out)
{
	_cleanup_(pf_timeline_release) struct pf_timeline t = { 0 };
	struct pf_retention_totals totals;

	lay_width(&t, in);
	int r = lay_columns(&t, in);
	if (r < 0)
		return r;
	pf_retention_totals(in->kept, &totals);
	t.has_window = totals.has_window;
	t.oldest = totals.oldest_source;
	t.window = t.has_window ? column_of(&t, t.oldest) : 0;
	t.window_versions = t.has_window ? in->survey->n_versions - pf_survey_below(in->survey, t.oldest) : 0;
	lay_ticks(&t, in);
	r = lay_pins(&t, in);
	if (r == 0)
		r = lay_marks(&t, in);
	if (r == 0)
		r = lay_title(&t, in);
	if (r == 0) {
		*out = t;
		t = (struct pf_timeline){ 0 };
	}
	return r;
}
