/*
 * The picture of a line of versions: small ones cell by cell, drawn by hand from what the versions are; and of thousands that are made up, that every
 * version is in one column, that nothing overlaps and no line is too wide.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/render.h"
#include "core/timeline.h"

#define NOW   INT64_C(1767225600) /* 2026-01-01T00:00:00Z */
#define S     INT64_C(1000000000)
#define V_MAX 400
#define P_MAX 40
#define T_MAX 60

static uint64_t seed;
static unsigned dice(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

struct world {
	struct pf_survey s;
	struct pf_surveyed_version versions[V_MAX];
	struct pf_pin pins[P_MAX];
	struct pf_tag tags[T_MAX];
	struct pf_branch_ref refs[T_MAX];
	char names[2][T_MAX][24];
	struct pf_retention *kept;
	struct pf_timeline_input in;
	struct pf_timeline t;
};

/* Version v is an hour older than v + 1. */
static void add_version(struct world *w, uint64_t v, uint64_t head)
{
	w->s.versions = w->versions;
	w->versions[w->s.n_versions++] = (struct pf_surveyed_version){
		.version = v, .timestamp_ns = (NOW - 3600 * (int64_t)(head - v)) * S, .readable = true
	};
}

static void add_pin(struct world *w, uint64_t source, int64_t left, const char *label)
{
	size_t i = w->s.pins.n++;

	w->s.pins.v = w->pins;
	w->pins[i] = (struct pf_pin){ .source_version = source,
				      .expires_at = { NOW + left, 0 },
				      .label = (char *)(uintptr_t)label };
	memset(w->pins[i].id.b, 0x10 + (int)i, sizeof(w->pins[i].id.b));
}

static void add_tag(struct world *w, uint64_t version, const char *name)
{
	w->s.tags.v = w->tags;
	w->tags[w->s.tags.n++] = (struct pf_tag){ .name = (char *)(uintptr_t)name, .version = version };
}

static void add_branch(struct world *w, uint64_t version, const char *name)
{
	w->s.refs.v = w->refs;
	w->refs[w->s.refs.n++] = (struct pf_branch_ref){ .name = (char *)(uintptr_t)name, .parent_version = version };
}

static void lay(struct world *w, size_t width)
{
	pf_retention_free(w->kept);
	pf_timeline_release(&w->t);
	assert_int_equal(pf_retention_new(&(struct pf_retention_input){ .survey = &w->s }, &w->kept), 0);
	w->in.survey = &w->s;
	w->in.kept = w->kept;
	w->in.now = (struct pf_time){ NOW, 0 };
	w->in.width = width;
	assert_int_equal(pf_timeline_new(&w->in, &w->t), 0);
}

static void world_release(struct world *w)
{
	pf_retention_free(w->kept);
	pf_timeline_release(&w->t);
}

static void assert_text(struct world *w, size_t width, bool ascii, const char *expected)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	w->in.ascii = ascii;
	lay(w, width);
	assert_int_equal(pf_timeline_text(&w->t, ascii, false, &text), 0);
	assert_string_equal(pf_buf_str(&text), expected);
}

static void test_one_version(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };

	add_version(&w, 7, 7);
	assert_text(&w, 40, false,
		    "main · head 7 · 1 version, 1 kept · 0 pins\n"
		    "\n"
		    "version   7\n"
		    "age       0s\n"
		    "          ◆\n"
		    "\n"
		    "◆ head\n");
}

/* Versions 1, 4 to 7 and 9, of which 5 is damaged. */
static void make_small(struct world *w)
{
	static const uint64_t versions[] = { 1, 4, 5, 6, 7, 9 };

	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		add_version(w, versions[i], 9);
	w->versions[2].readable = false;
	add_pin(w, 7, 3 * 3600 + 59, "übung");
	add_pin(w, 6, -86400 * 3, "");
	add_pin(w, 9, 30, "long label that has no room");
	add_tag(w, 1, "v1.0");
	add_tag(w, 4, "rc");
	add_tag(w, 8, "t");
	add_branch(w, 9, "dev");
	add_branch(w, 5, "x/y");
}

/*
 * A third of 60 cells are for names and 12 for times, so 25 are left for 8 columns, two of them gaps: one every 3 cells. The versions that are not
 * damaged are all kept: by a tag, by a pin, or as the head.
 */
static void test_small(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };

	make_small(&w);
	assert_text(&w, 60, false,
		    "main · head 9 · 6 versions, 5 kept, 3 missing between them, 1 damaged · 3 pins\n"
		    "\n"
		    "version               1        5  6        9\n"
		    "age                   8h       ?  3h       0s\n"
		    "                      ●┄┄┄┄┄●──✖──●──●┄┄┄┄┄◆\n"
		    "window                 3 versions └────────┘\n"
		    "11111111                          ├╌╌╌╌╌╌╌╌▶    3d overdue\n"
		    "10101010 übung                       ├─────▶    3h left\n"
		    "12121212 long label…                       ▶    30s left\n"
		    "tags                  ▲ v1.0\n"
		    "                          t (8 is gone) ▲\n"
		    "                            ▲ rc\n"
		    "branches                       ╰ x/y   dev ╰\n"
		    "\n"
		    "● kept  ◆ head  ✖ damaged  ┄ removed\n");
}

static void test_ascii(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };

	make_small(&w);
	w.tags[1].name = (char *)(uintptr_t) "日\n本";
	w.in.branch = "größe";
	for (size_t i = 0; i < w.s.refs.n; i++)
		w.refs[i].parent = (char *)(uintptr_t) "größe";
	assert_text(&w, 60, true,
		    "gr??e; head 9; 6 versions, 5 kept, 3 missing between them, 1 damaged; 3 pins\n"
		    "\n"
		    "version               1        5  6        9\n"
		    "age                   8h       ?  3h       0s\n"
		    "                      *~~~~~*--!--*--*~~~~~@\n"
		    "window                 3 versions \\--------/\n"
		    "11111111                          |========>    3d overdue\n"
		    "10101010 ?bung                       |----->    3h left\n"
		    "12121212 long label~                       >    30s left\n"
		    "tags                  ^ v1.0\n"
		    "                          t (8 is gone) ^\n"
		    "                            ^ ?\\n?\n"
		    "branches                       ` x/y   dev `\n"
		    "\n"
		    "* kept  @ head  ! damaged  ~ removed\n");
}

/* Branches of others are not drawn, nor the tags that guard pins. */
static void test_others(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };
	static char guard[] =
		"{\"pinfs.pin\": \"10101010-1010-1010-1010-101010101010\", "
		"\"pinfs.source\": \"2:bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb\", \"pinfs.branch_id\": \"\"}";

	for (uint64_t v = 1; v <= 3; v++)
		add_version(&w, v, 3);
	add_pin(&w, 2, 60, "");
	add_tag(&w, 2, "pinfs-10101010-1010-1010-1010-101010101010");
	w.tags[0].metadata = guard;
	add_branch(&w, 2, "grandchild");
	w.refs[0].parent = (char *)(uintptr_t) "dev";
	lay(&w, 80);
	assert_int_equal(w.t.n_marks, 0);
	w.in.branch = "dev";
	lay(&w, 80);
	assert_int_equal(w.t.n_marks, 1);
	assert_string_equal(w.t.marks[0].text, "grandchild");
}

static void test_lost_source(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };

	add_version(&w, 1, 4);
	add_version(&w, 3, 4);
	add_version(&w, 4, 4);
	add_pin(&w, 2, 7200, "a");
	/* 40 cells: 10 for names, 12 for times, 15 for 4 columns, one every 4. */
	assert_text(&w, 40, false,
		    "main · head 4 · 3 versions, 2 kept, 1 missing between them · 1 pin\n"
		    "\n"
		    "version     1           4\n"
		    "age         3h          0s\n"
		    "            ○┄┄┄┄┄┄┄●───◆\n"
		    "window          └───────┘\n"
		    "10101010 a      ?───────▶   2h left\n"
		    "\n"
		    "● kept  ○ not kept  ◆ head  ┄ removed\n"
		    "? the source of a pin is not there\n");
}

static struct pf_surveyed_version many[70000];

/* However many, the picture is as wide as asked for, and no version is left out. */
static void test_many(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf svg = PF_BUF_INIT;
	size_t n = 0, kept = 0;

	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = (struct pf_surveyed_version){ .version = i + 1, .readable = true };
	w.s.versions = many;
	w.s.n_versions = ARRAY_LEN(many);
	add_pin(&w, 60000, 10, "");
	lay(&w, 80);
	/* names 9 and 2, times 12 and 1. */
	assert_int_equal(w.t.chart, 56);
	assert_int_equal(w.t.n_columns, 56);
	assert_true(w.t.compressed);
	for (size_t i = 0; i < w.t.n_columns; i++) {
		size_t k = w.t.columns[i].to - w.t.columns[i].from;
		assert_true(k == 1250);
		n += k;
		kept += w.t.columns[i].kept;
	}
	assert_int_equal(n, 70000);
	assert_int_equal(kept, 10001);
	assert_true(w.t.columns[w.t.pins[0].column].first <= 60000 && w.t.columns[w.t.pins[0].column].last >= 60000);
	assert_int_equal(pf_timeline_svg(&w.t, "t", &svg), 0);
	assert_true(svg.len < 20000);
}

/* More pins than rows: those whose sources are in one column share one, with the time of the first to expire. */
static void test_many_pins(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };

	for (uint64_t v = 1; v <= 4; v++)
		add_version(&w, v, 4);
	for (unsigned i = 0; i < 30; i++)
		add_pin(&w, 2 + i % 2, 86400 * (int64_t)(40 - i), "");
	add_pin(&w, 4, 86400 * 5, "alone");
	lay(&w, 80);
	assert_int_equal(w.t.n_pins, 3);
	assert_string_equal(w.t.pins[0].name, "15 pins");
	assert_string_equal(w.t.pins[0].when, "12d left");
	assert_string_equal(w.t.pins[1].name, "15 pins");
	assert_string_equal(w.t.pins[1].when, "11d left");
	assert_string_equal(w.t.pins[2].name, "2e2e2e2e alone");
}

/* Tags for which there is no room are counted, and all of them are in the JSON. */
static void test_many_tags(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	add_version(&w, 1, 1);
	for (unsigned i = 0; i < 9; i++) {
		snprintf(w.names[0][i], sizeof(w.names[0][i]), "tag%u", i);
		add_tag(&w, 1, w.names[0][i]);
	}
	lay(&w, 80);
	assert_int_equal(w.t.lanes[0], 6);
	assert_int_equal(w.t.hidden[0], 3);
	assert_int_equal(pf_timeline_text(&w.t, false, false, &text), 0);
	assert_non_null(strstr(pf_buf_str(&text), "▲ tag5\n          and 3 more\n"));
	json_auto_t *o = pf_json_timeline(&w.in, &w.t);
	assert_int_equal(json_array_size(json_object_get(o, "tags")), 9);
}

static void test_json(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	add_version(&w, 1, 4);
	add_version(&w, 4, 4);
	add_branch(&w, 1, "dev");
	lay(&w, 80);
	json_auto_t *o = pf_json_timeline(&w.in, &w.t);
	assert_int_equal(pf_json_line(o, &text), 0);
	assert_string_equal(pf_buf_str(&text),
			    "{\"branch\": \"main\", \"head\": 4, \"window\": null, \"columns\": ["
			    "{\"first\": 1, \"last\": 1, \"versions\": 1, \"kept\": 0, \"damaged\": 0}, "
			    "{\"first\": 2, \"last\": 3, \"versions\": 0, \"kept\": 0, \"damaged\": 0}, "
			    "{\"first\": 4, \"last\": 4, \"versions\": 1, \"kept\": 1, \"damaged\": 0}], "
			    "\"pins\": [], \"tags\": [], \"branches\": [{\"name\": \"dev\", \"version\": 1}]}");
}

/* Whatever stands in labels and names, the document is one: each tag that is opened is closed, and nothing in it runs or is fetched. */
static void assert_svg(const char *svg)
{
	size_t depth = 0;

	assert_memory_equal(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39);
	assert_null(strstr(svg, "<script"));
	assert_null(strstr(svg, "url("));
	assert_null(strstr(svg, "href"));
	for (const char *p = svg; (p = strchr(p, '<'));) {
		const char *end = strchr(p, '>');
		assert_non_null(end);
		if (p[1] == '/')
			depth--;
		else if (end[-1] != '/')
			depth++;
		p = end;
	}
	assert_int_equal(depth, 0);
	for (const char *p = svg; (p = strchr(p, '&')); p++)
		assert_true(strncmp(p, "&amp;", 5) == 0 || strncmp(p, "&lt;", 4) == 0 || strncmp(p, "&gt;", 4) == 0);
}

static void test_svg(void **state)
{
	_cleanup_(world_release) struct world w = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf svg = PF_BUF_INIT;

	make_small(&w);
	w.pins[0].label = (char *)(uintptr_t) "<b>&\"x";
	w.tags[0].name = (char *)(uintptr_t) "</svg><script>";
	add_pin(&w, 8, 10, "");
	lay(&w, 132);
	assert_int_equal(pf_timeline_svg(&w.t, "a<b.lance", &svg), 0);
	const char *s = pf_buf_str(&svg);
	assert_svg(s);
	assert_non_null(strstr(s, "<title>a&lt;b.lance</title>"));
	assert_non_null(strstr(s, ">10101010 &lt;b&gt;&amp;\"x</text>"));
	assert_non_null(strstr(s, ">&lt;/svg&gt;&lt;script&gt;</text>"));
	assert_non_null(strstr(s, "<title>version 5: not kept, 1 damaged</title>"));
	assert_non_null(strstr(s, "<title>versions 2 to 3: removed</title>"));
	assert_non_null(strstr(s, "from version 8, until 2026-01-01T00:00:10Z; its source is not there</title>"));
}

static void test_cells(void **state)
{
	assert_int_equal(pf_text_cells(""), 0);
	assert_int_equal(pf_text_cells("abc"), 3);
	assert_int_equal(pf_text_cells("äöü"), 3);
	assert_int_equal(pf_text_cells("e\xcc\x81"), 1); /* e and an accent over it */
	assert_int_equal(pf_text_cells("数据"), 4);
	assert_int_equal(pf_text_cells("🚀"), 2);
}

static void make_world(struct world *w)
{
	uint64_t v = 1 + dice(5), sparse = dice(4);

	for (size_t n = 1 + dice(dice(2) ? 20 : V_MAX - 1); w->s.n_versions < n;
	     v += 1 + (sparse && dice(9) < sparse ? dice(50) : 0))
		add_version(w, v, v);
	uint64_t head = w->versions[w->s.n_versions - 1].version;
	for (size_t n = dice(P_MAX); n > 0; n--)
		add_pin(w, 1 + dice((unsigned)head), (int64_t)dice(1000000) - 300000,
			dice(2) ? "数据 and more of it" : "");
	for (unsigned k = 0; k < 2; k++)
		for (unsigned n = dice(T_MAX); n > 0; n--) {
			char *name = w->names[k][n];
			snprintf(name, sizeof(w->names[k][n]), "%.*s", 1 + (int)dice(20), "abcdefghijklmnopqrstuvwxyz");
			if (k)
				add_branch(w, dice((unsigned)head + 3), name);
			else
				add_tag(w, dice((unsigned)head + 3), name);
		}
}

/* Every version in one column; a column without any stands for those that are missing there. */
static void check_columns(const struct world *w)
{
	const struct pf_timeline *t = &w->t;
	size_t next = 0;

	for (size_t i = 0; i < t->n_columns; i++) {
		const struct pf_timeline_column *c = &t->columns[i];
		assert_int_equal(c->from, next);
		next = c->to;
		if (c->from < c->to) {
			assert_int_equal(c->first, w->versions[c->from].version);
			assert_int_equal(c->last, w->versions[c->to - 1].version);
		} else {
			assert_int_equal(c->first, w->versions[c->from - 1].version + 1);
			assert_int_equal(c->last, w->versions[c->from].version - 1);
			assert_true(c->first <= c->last);
		}
		assert_true(t->compressed || c->to - c->from <= 1);
	}
	assert_int_equal(next, w->s.n_versions);
	assert_true(pf_timeline_x(t, t->n_columns - 1) < t->chart);
}

/* What stands in a row does not overlap. */
static void check_rows(const struct world *w)
{
	const struct pf_timeline *t = &w->t;
	size_t pins = 0, hidden[2] = { 0 };

	for (size_t i = 0; i < t->n_pins; i++)
		pins += t->pins[i].n;
	assert_int_equal(pins, w->s.pins.n);
	for (size_t i = 0; i < t->n_marks; i++) {
		const struct pf_timeline_mark *m = &t->marks[i];
		size_t from = m->left ? m->x - 1 - m->width : m->x;
		if (m->lane == PF_TIMELINE_HIDDEN) {
			hidden[m->branch]++;
			continue;
		}
		assert_true(m->lane < t->lanes[m->branch]);
		assert_true(from + m->width + 2 <= t->chart);
		for (size_t k = 0; k < i; k++) {
			const struct pf_timeline_mark *o = &t->marks[k];
			size_t other = o->left ? o->x - 1 - o->width : o->x;
			if (o->branch == m->branch && o->lane == m->lane)
				assert_true(from >= other + o->width + 4 || other >= from + m->width + 4);
		}
	}
	assert_int_equal(hidden[0], t->hidden[0]);
	assert_int_equal(hidden[1], t->hidden[1]);
}

static void check_text(const struct world *w, size_t width, bool ascii)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	size_t row = 0;

	assert_int_equal(pf_timeline_text(&w->t, ascii, false, &text), 0);
	for (char *save, *line = strtok_r((char *)(uintptr_t)pf_buf_str(&text), "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		/* The title is as long as it is. */
		if (row++ && pf_text_cells(line) > width)
			fail_msg("wider than %zu: %s", width, line);
		assert_true(line[strlen(line) - 1] != ' ');
		for (const char *p = line; ascii && *p; p++)
			assert_true(*p > 0);
	}
}

static void test_random(void **state)
{
	for (unsigned i = 0; i < 2000; i++) {
		_cleanup_(world_release) struct world w = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf svg = PF_BUF_INIT;
		seed = i;
		make_world(&w);
		size_t width = 40 + dice(200);
		w.in.ascii = dice(2);
		lay(&w, width);
		check_columns(&w);
		check_rows(&w);
		check_text(&w, width, w.in.ascii);
		assert_int_equal(pf_timeline_svg(&w.t, "t", &svg), 0);
		assert_svg(pf_buf_str(&svg));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_version), cmocka_unit_test(test_small),	cmocka_unit_test(test_ascii),
		cmocka_unit_test(test_others),	    cmocka_unit_test(test_lost_source), cmocka_unit_test(test_many),
		cmocka_unit_test(test_many_pins),   cmocka_unit_test(test_many_tags),	cmocka_unit_test(test_json),
		cmocka_unit_test(test_svg),	    cmocka_unit_test(test_cells),	cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
