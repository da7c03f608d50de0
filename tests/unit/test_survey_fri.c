/* What a survey makes of fragment reuse histories: row maps, the directories of entries, and histories that cannot be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/survey.h"

#include "moves.h"
#include "surveyed.h"
#include "table.h"

static const struct pf_surveyed_file *find(const struct pf_survey *s, const char *path)
{
	for (size_t i = 0; i < s->n_files; i++)
		if (strcmp(s->files[i].path, path) == 0)
			return &s->files[i];
	return NULL;
}

/* The gap of this kind, which must be the only one. */
static const struct pf_gap *only_gap(const struct pf_survey *s, enum pf_gap_kind kind)
{
	if (s->n_gaps != 1)
		fail_msg("expected one gap, found %zu", s->n_gaps);
	assert_int_equal(s->gaps[0].kind, kind);
	return &s->gaps[0];
}

/* An index section of an index by_id and an FRI with the history `text`, inline or in details.binpb of its directory. */
static void make_section(struct pf_store *st, uint64_t uuid, const char *text, int32_t index_version, bool external,
			 struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT;
	char id[PF_UUID_TEXT];
	_cleanup_(pf_freep) char *file = NULL;

	moves_content(text, &content);
	if (external)
		moves_details_external("details.binpb", 0, content.len, &details);
	else
		moves_details_inline(&content, &details);
	assert_true(asprintf(&file, "_indices/%s/details.binpb", moves_uuid(uuid, id)) > 0);
	if (external)
		assert_int_equal(pf_store_mem_put(st, file, content.data, content.len), 0);
	moves_index(&(struct moves_index){ .name = "by_id", .uuid = 1 }, out);
	moves_index(&(struct moves_index){ .name = "__lance_frag_reuse",
					   .uuid = uuid,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .index_version = index_version },
		    out);
}

static void assert_intervals(const struct pf_survey *s, const char *path, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	const struct pf_surveyed_file *f = find(s, path);

	assert_int_equal(pf_buf_addstr(&got, ""), 0);
	for (uint32_t i = 0; f && i < f->n_iv; i++)
		assert_int_equal(pf_buf_addf(&got, "%s%d-%d", i ? " " : "", (int)f->iv[i].first, (int)f->iv[i].last),
				 0);
	assert_string_equal(pf_buf_str(&got), want);
}

/* Row maps are known for as long as the history names them; of a version 0 history there are none. */
static void test_maps(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	_cleanup_(pf_buf_release) struct pf_buf v0 = PF_BUF_INIT, tagged = PF_BUF_INIT, longer = PF_BUF_INIT;
	char map[2][64], id[PF_UUID_TEXT];

	make_section(st, 2, "L1 0:10 > 1:10", 0, false, &v0);
	make_section(st, 3, "P 1:10 > 2:4 3:6", 1, false, &tagged);
	make_section(st, 4, "P 1:10 > 2:4 3:6; P 2:4 > 4:4", 1, true, &longer);
	for (unsigned i = 0; i < 2; i++)
		snprintf(map[i], sizeof(map[i]), "_fri/%s", moves_map_id(i, id));
	table_put(st, &(struct table_version){ .version = 2, .index = &v0 });
	table_put(st, &(struct table_version){ .version = 3, .index = &tagged });
	table_put(st, &(struct table_version){ .version = 4, .index = &tagged });
	table_put(st, &(struct table_version){ .version = 5, .index = &longer });
	table_put(st, &(struct table_version){ .version = 6, .index = &longer, .fragments = 1 });
	table_put(st, &(struct table_version){ .version = 7 });
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 0);
	assert_intervals(s, map[0], "3-6");
	assert_intervals(s, map[1], "5-6");
	assert_int_equal(find(s, map[0])->cls, PF_FILE_MAP);
	assert_intervals(s, "_indices/0badcafe-0000-4000-a000-000000000001", "2-6");
	/* What is in the entry has no directory; what is outside must. */
	assert_true(find(s, "_indices/0badcafe-0000-4000-a000-000000000003")->optional);
	assert_false(find(s, "_indices/0badcafe-0000-4000-a000-000000000004")->optional);
	assert_intervals(s, "_indices/0badcafe-0000-4000-a000-000000000004", "5-6");
}

/* A history that cannot be read is a gap of all versions that carry it, and of no others; what else they have is known. */
static void test_damaged_fri(void **state)
{
	static const char details[] = "_indices/0badcafe-0000-4000-a000-000000000004/details.binpb";
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	_cleanup_(pf_buf_release) struct pf_buf bad = PF_BUF_INIT, good = PF_BUF_INIT, content = PF_BUF_INIT;

	make_section(st, 3, "T 1:10 > 2:9", 1, false, &bad); /* a row is lost */
	make_section(st, 4, "T 1:10 > 2:10", 1, true, &good);
	table_put(st, &(struct table_version){ .version = 2, .index = &bad });
	table_put(st, &(struct table_version){ .version = 3, .index = &bad, .fragments = 1 });
	table_put(st, &(struct table_version){ .version = 4, .index = &good });
	surveyed_refresh(s);
	const struct pf_gap *g = only_gap(s, PF_GAP_FRI);
	assert_int_equal(g->first, 2);
	assert_int_equal(g->last, 3);
	assert_string_equal(g->file, "_versions/18446744073709551613.manifest");
	assert_non_null(strstr(g->text, "_versions/18446744073709551613.manifest: __lance_frag_reuse"));
	assert_intervals(s, "_indices/0badcafe-0000-4000-a000-000000000003", "2-3");

	/* The file that the head's history is in goes, and comes back. */
	assert_int_equal(pf_store_get(st, details, 4096, &content), 0);
	assert_int_equal(pf_store_mem_del(st, details), 0);
	table_put(st, &(struct table_version){ .version = 5 });
	table_put(st, &(struct table_version){ .version = 6, .index = &good });
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 2);
	assert_int_equal(s->gaps[1].first, 6);
	assert_int_equal(s->gaps[1].last, PF_STILL);
	assert_non_null(strstr(s->gaps[1].text, details));
	surveyed_refresh(s);
	assert_int_equal(s->n_gaps, 2);
	assert_int_equal(s->manifests_read, 0);
	assert_int_equal(pf_store_mem_put(st, details, content.data, content.len), 0);
	surveyed_refresh(s);
	only_gap(s, PF_GAP_FRI);
}

/* A row map on a base that is not in the manifest is a gap of the history, which Lance notices when it follows rows. */
static void test_map_nowhere(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(1, &(struct table_version){ 0 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_survey_freep) struct pf_survey *s = surveyed_open(st, &b);
	_cleanup_(pf_buf_release) struct pf_buf lost = PF_BUF_INIT, placed = PF_BUF_INIT, bases = PF_BUF_INIT;
	char id[PF_UUID_TEXT], map[64];

	make_section(st, 3, "P 0:10 > 2:10; P7 1:10 > 3:10", 1, false, &lost);
	make_section(st, 4, "P 0:10 > 2:10; P7 1:10 > 3:10", 1, false, &placed);
	table_add_base(&bases, 7, true, "/memory/shared");
	table_put(st, &(struct table_version){ .version = 2, .index = &lost });
	table_put(st, &(struct table_version){ .version = 3, .index = &placed, .extra = &bases });
	table_put(st, &(struct table_version){ .version = 4 });
	surveyed_refresh(s);
	const struct pf_gap *g = only_gap(s, PF_GAP_FRI);
	assert_int_equal(g->first, 2);
	assert_int_equal(g->last, 2);
	assert_non_null(strstr(g->text, "it is on base 7, which the manifest does not have"));
	assert_true(s->versions[1].readable);
	snprintf(map, sizeof(map), "_fri/%s", moves_map_id(0, id));
	assert_intervals(s, map, "2-3");
	snprintf(map, sizeof(map), "shared/_fri/%s", moves_map_id(1, id));
	assert_intervals(s, map, "3-3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_damaged_fri),
		cmocka_unit_test(test_map_nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
