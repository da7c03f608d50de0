/* The account of a line: what is kept, under which names, who needs which record of the history and by which way, and the texts made of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/render_retention.h"
#include "core/store_mem.h"

#include "moved.h"
#include "moves.h"
#include "pinned.h"
#include "table.h"

#define A     "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
#define B     "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
#define JOB   " \"job\" (expires 2026-01-02T00:00:00Z)"
#define BY_ID MOVED_INDEX

/* One second after pin b was made, and before both expire. */
static const struct pf_time now = { .sec = 1767225600 + 3602, .nsec = 7000000 };

struct account {
	struct pf_store *st;
	struct pf_lines lines;
	struct pf_explain *e;
};

static void open_account(struct account *a, struct pf_store *st, const char *branch)
{
	struct pf_why why = PF_WHY_INIT;

	a->st = st;
	pf_lines_init(&a->lines, st);
	if (pf_lines_refresh(&a->lines, NULL, NULL, &why) < 0)
		fail_msg("%s", why.text);
	struct pf_line *line = pf_lines_find(&a->lines, branch);
	assert_non_null(line);
	if (pf_explain_new(&a->lines, line, now, NULL, &a->e, &why) < 0)
		fail_msg("%s", why.text);
}

static void close_account(struct account *a)
{
	pf_explain_free(a->e);
	pf_lines_release(&a->lines);
	pf_store_free(a->st);
}

static void assert_path(struct pf_explain *e, size_t pin, size_t record, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	struct pf_fri_path path = { NULL };
	struct pf_why why = PF_WHY_INIT;

	int r = pf_explain_fri_path(e, pin, record, &path, &why);
	if (r < 0)
		fail_msg("%s", why.text);
	assert_int_equal(pf_explain_fri_pin(e, pin, record, &why), r);
	assert_int_equal(pf_buf_addstr(&got, r ? "" : "not needed"), 0);
	for (size_t i = 0; i < path.n; i++)
		assert_int_equal(
			pf_buf_addf(&got, "%s%d:%d", i ? " " : "", (int)path.v[i].fragment, (int)path.v[i].record), 0);
	pf_fri_path_release(&path);
	assert_string_equal(pf_buf_str(&got), want);
}

/* Who needs a record, and by which fragments. */
static void test_paths(void **state)
{
	struct account a = { NULL };

	open_account(&a, moved_table(), NULL);
	assert_path(a.e, 0, 0, "0:0");
	assert_path(a.e, 0, 1, "0:0 2:1");
	assert_path(a.e, 0, 2, "not needed");
	assert_path(a.e, 1, 0, "0:0");
	assert_path(a.e, 1, 1, "0:0 2:1");
	assert_path(a.e, 1, 2, "not needed");

	struct pf_why why = PF_WHY_INIT;
	assert_int_equal(pf_explain_fri_pin(a.e, 0, 3, &why), -ENOENT);
	assert_string_equal(why.text, "there is no record 3: the history has 3");
	close_account(&a);
}

/* A source whose manifest is not what the pin says, or cannot be read: nobody can tell, and says so. The stamps of version 0 need no manifest. */
static void test_untold(void **state)
{
	struct pf_store *st = moved_table();
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;
	char name[TABLE_NAME_MAX];

	table_manifest_name(&(struct table_version){ .version = 1 }, name);
	assert_int_equal(pf_store_mem_del(st, name), 0);
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_fri_pin(a.e, 0, 0, &why), -ENOENT);
	assert_string_equal(why.text, "version 1, the source, is missing");
	assert_path(a.e, 1, 0, "0:0");
	json_auto_t *j = NULL;
	assert_int_equal(pf_json_fri_record(a.e, 0, &j, &why), 0);
	json_t *by = json_object_get(j, "needed_by");
	assert_string_equal(json_string_value(json_object_get(by, "unknown")), "version 1, the source, is missing");
	assert_int_equal(json_array_size(json_object_get(by, "pins")), 1);
	close_account(&a);

	st = moved_table();
	assert_int_equal(pf_store_mem_del(st, name), 0);
	table_put(st, &(struct table_version){ .version = 1, .uuid = "0badcafe-0000-4000-8000-0000000000ff" });
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_fri_pin(a.e, 0, 0, &why), -EBADMSG);
	assert_string_equal(why.text,
			    "version 1: expected the source to be of transaction "
			    "0badcafe-0000-4000-8000-000000000001, found 0badcafe-0000-4000-8000-0000000000ff");
	close_account(&a);
}

/* Version 0: by stamps, the source included (cases-open A31). */
static void test_stamps(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT;
	struct pf_store *st = NULL;
	struct account a = { NULL };
	char name[TABLE_NAME_MAX];

	assert_int_equal(pf_store_mem_new(&st), 0);
	for (uint64_t v = 1; v < 4; v++)
		pinned_put(st, &(struct table_version){ .version = v }, &(struct pinned){ .pins = NULL });
	moved_put_history("L1 0:10 > 1:10; L2 1:10 > 2:10", 0, 0, &index);
	pinned_put(st, &(struct table_version){ .version = 4, .index = &index }, &(struct pinned){ .pins = "ab" });
	open_account(&a, st, NULL);
	/* Not a byte of the source is read for it. */
	table_manifest_name(&(struct table_version){ .version = 1 }, name);
	assert_int_equal(pf_store_mem_del(st, name), 0);
	assert_path(a.e, 0, 0, "");
	assert_path(a.e, 0, 1, "");
	assert_path(a.e, 1, 0, "not needed");
	assert_path(a.e, 1, 1, "");
	close_account(&a);
}

/* An index that covers a part of what a record moved: it is named as one that needs the record, and that it may be more is said (cases-open A26). */
static void test_covered_in_part(void **state)
{
	static const uint8_t fragment_1[] = { 0x3a, 0x30, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 0 };
	_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT, bitmap = PF_BUF_INIT;
	_cleanup_(pf_freep) const char **names = NULL;
	_cleanup_(pf_freep) const char **others = NULL;
	struct pf_store *st = NULL;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;
	size_t n;

	assert_int_equal(pf_store_mem_new(&st), 0);
	pinned_put(st, &(struct table_version){ .version = 1 }, &(struct pinned){ .pins = NULL });
	assert_int_equal(pf_buf_add(&bitmap, fragment_1, sizeof(fragment_1)), 0);
	moves_index(&(struct moves_index){ .name = "half", .uuid = 2, .bitmap = &bitmap, .dataset_version = 9 },
		    &index);
	moved_put_history("L1 1:10 2:10 > 3:20; L2 4:10 > 5:10", 0, 0, &index);
	pinned_put(st, &(struct table_version){ .version = 2, .index = &index }, &(struct pinned){ .pins = NULL });
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_fri_indices(a.e, 0, &names, &n, &why), -EBADMSG);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "half");
	assert_string_equal(names[1], "by_id");
	assert_non_null(strstr(why.text, "half"));
	assert_int_equal(pf_explain_fri_indices(a.e, 1, &others, &n, &why), -EBADMSG);
	assert_int_equal(n, 1);
	assert_string_equal(others[0], "by_id");
	json_auto_t *j = NULL;
	assert_int_equal(pf_json_fri_record(a.e, 0, &j, &why), 0);
	json_t *by = json_object_get(j, "needed_by");
	assert_int_equal(json_array_size(json_object_get(by, "indices")), 2);
	assert_non_null(json_string_value(json_object_get(by, "unknown")));
	close_account(&a);
}

static void test_no_history(void **state)
{
	struct pf_store *st = NULL;
	struct account a = { NULL };
	const struct pf_fri *f;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	moved_put_version(st, 1, "0", NULL, NULL);
	moved_put_file(st, "data/0.lance", 100);
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_fri(a.e, &f, &why), -ENODATA);
	assert_string_equal(why.text, "_versions/18446744073709551614.manifest has no fragment reuse index");
	json_auto_t *j = NULL;
	assert_int_equal(pf_json_fri_record(a.e, 0, &j, &why), -ENODATA);
	close_account(&a);
}

static void test_fri_json(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;
	char id[PF_UUID_TEXT], want[2048];

	open_account(&a, moved_table(), NULL);
	assert_int_equal(pf_render_fri_record(a.e, 1, &text, &why), 0);
	snprintf(
		want, sizeof(want),
		"{\n  \"record\": 1,\n  \"head\": 6,\n  \"kind\": \"transition\",\n  \"stamp\": null,\n  \"groups\": [\n"
		"    {\n      \"from\": [\n        {\n          \"fragment\": 2,\n          \"physical_rows\": 20,\n"
		"          \"deleted_rows\": 0\n        }\n      ],\n      \"to\": [\n        {\n"
		"          \"fragment\": 3,\n          \"physical_rows\": 10,\n          \"deleted_rows\": 0\n        },\n"
		"        {\n          \"fragment\": 4,\n          \"physical_rows\": 10,\n          \"deleted_rows\": 0\n"
		"        }\n      ],\n      \"mapping\": \"partition\",\n      \"map\": \"_fri/%s/\",\n"
		"      \"map_bytes\": 1000\n    }\n  ],\n  \"needed_by\": {\n    \"pins\": [\n      {\n"
		"        \"id\": \"" A "\",\n        \"source_version\": 1,\n        \"ambiguous\": false,\n"
		"        \"path\": [\n          {\n            \"fragment\": 0,\n            \"record\": 0\n          },\n"
		"          {\n            \"fragment\": 2,\n            \"record\": 1\n          }\n        ]\n      },\n"
		"      {\n        \"id\": \"" B "\",\n        \"source_version\": 2,\n        \"ambiguous\": false,\n"
		"        \"path\": [\n          {\n            \"fragment\": 0,\n            \"record\": 0\n          },\n"
		"          {\n            \"fragment\": 2,\n            \"record\": 1\n          }\n        ]\n      }\n"
		"    ],\n    \"indices\": [],\n    \"unknown\": null\n  }\n}\n",
		moves_map_id(1, id));
	assert_string_equal(pf_buf_str(&text), want);
	close_account(&a);
}

/* Sizes of manifests and transactions are what the builder makes them: asked of the store. */
static uint64_t size_of(struct pf_store *st, const char *name)
{
	struct pf_stat s;

	assert_int_equal(pf_store_stat(st, name, &s), 0);
	return s.size;
}

/* Everything that is kept, each file once, those of directories too, and the sums of the summary. */
static void test_files(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, want = PF_BUF_INIT;
	struct account a = { NULL };
	char name[TABLE_NAME_MAX], id[PF_UUID_TEXT];
	struct pf_why why = PF_WHY_INIT;
	uint64_t files = 0, bytes = 0;

	open_account(&a, moved_table(), NULL);
	assert_int_equal(pf_render_files(a.e, &text, &why), 0);

	assert_int_equal(pf_buf_addf(&want, "1000\tpin:" A ",pin:" B ",head\t_fri/%s/stable_partition.lance\n",
				     moves_map_id(1, id)),
			 0);
	assert_int_equal(pf_buf_addstr(&want, "20\tpin:" A ",pin:" B ",head\t_indices/" BY_ID "/page.lance\n"
					      "30\tpin:" A ",pin:" B ",head\t_indices/" BY_ID "/sub/more.lance\n"),
			 0);
	for (uint64_t v = 1; v <= 6; v++) {
		table_txn_name(&(struct table_version){ .version = v }, name);
		assert_int_equal(pf_buf_addf(&want, "%d\tpin:" A "%s%s\t%s\n", (int)size_of(a.st, name),
					     v > 1 ? ",pin:" B : "", v == 6 ? ",head" : "", name),
				 0);
	}
	for (uint64_t v = 6; v >= 1; v--) {
		table_manifest_name(&(struct table_version){ .version = v }, name);
		assert_int_equal(pf_buf_addf(&want, "%d\tpin:" A "%s%s\t%s\n", (int)size_of(a.st, name),
					     v > 1 ? ",pin:" B : "", v == 6 ? ",head" : "", name),
				 0);
	}
	assert_int_equal(pf_buf_addstr(&want, "100\tpin:" A ",pin:" B "\tdata/0.lance\n"
					      "100\tpin:" A ",pin:" B "\tdata/1.lance\n"
					      "100\tpin:" A ",pin:" B "\tdata/2.lance\n"
					      "100\tpin:" A ",pin:" B ",head\tdata/3.lance\n"
					      "100\tpin:" A ",pin:" B ",head\tdata/4.lance\n"
					      "100\tpin:" A ",pin:" B ",head\tdata/5.lance\n"
					      "100\tpin:" A ",pin:" B "\tdata/9.lance\n"),
			 0);
	assert_string_equal(pf_buf_str(&text), pf_buf_str(&want));

	for (char *line = strtok((char *)text.data, "\n"); line; line = strtok(NULL, "\n")) {
		files++;
		bytes += strtoull(line, NULL, 10);
	}
	assert_int_equal(files, a.e->totals.files_kept + a.e->totals.files_elsewhere);
	assert_int_equal(bytes, a.e->totals.bytes_kept + a.e->totals.bytes_elsewhere);
	close_account(&a);
}

static void assert_found(const struct account *a, const char *path, const char *want, const char *called)
{
	_cleanup_(pf_freep) char *name = NULL;
	int64_t i = pf_explain_find(a->e, path, &name);

	if (want)
		assert_string_equal(a->e->survey->files[i].path, want);
	else
		assert_int_equal(i, -ENOENT);
	if (called)
		assert_string_equal(name, called);
	else
		assert_null(name);
}

/* However somebody spells it (cases-open B17). */
static void test_find(void **state)
{
	struct account a = { NULL };

	open_account(&a, moved_table(), NULL);
	assert_found(&a, "data/0.lance", "data/0.lance", "data/0.lance");
	assert_found(&a, "./data//0.lance", "data/0.lance", "data/0.lance");
	assert_found(&a, "/memory/data/0.lance", "data/0.lance", "data/0.lance");
	assert_found(&a, "_indices/" BY_ID "/sub/more.lance", "_indices/" BY_ID, "_indices/" BY_ID "/sub/more.lance");
	assert_found(&a, "_indices/" BY_ID "/", "_indices/" BY_ID, "_indices/" BY_ID);
	assert_found(&a, "data", NULL, "data");
	assert_found(&a, "data/8.lance", NULL, "data/8.lance");
	assert_found(&a, "/elsewhere/data/0.lance", NULL, NULL);
	close_account(&a);
}

/* Names that a line cannot hold, and files on a base. */
static void test_names(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, text = PF_BUF_INIT;
	struct pf_store *st = NULL;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_add_fragment(&extra, 0, "a\tb\n\\.lance", 5, -1);
	table_add_fragment(&extra, 1, "on base.lance", 7, 1);
	table_add_fragment(&extra, 2, "far.lance", 8, 2);
	table_add_base(&extra, 1, true, "/other place");
	table_add_base(&extra, 2, false, "s3://bucket/x");
	moved_put_file(st, "data/a\tb\n\\.lance", 5);
	table_put(st, &(struct table_version){ .version = 1, .txn = TABLE_TXN_NONE, .extra = &extra });
	open_account(&a, st, NULL);
	for (size_t i = 0; i < a.e->survey->n_files; i++) {
		assert_int_equal(pf_explain_name(a.e, i, &text), 0);
		assert_int_equal(pf_buf_addch(&text, '|'), 0);
	}
	assert_string_equal(pf_buf_str(&text), "data/a\\tb\\n\\\\.lance|file:///other%20place/data/on%20base.lance|"
					       "s3://bucket/x/far.lance|_versions/18446744073709551614.manifest|");
	assert_found(&a, "data/a\\tb\\n\\\\.lance", "data/a\tb\n\\.lance", "data/a\\tb\\n\\\\.lance");
	assert_found(&a, "file:///other%20place/data/on%20base.lance", "data/on base.lance", NULL);
	assert_found(&a, "/other place/data/on base.lance", "data/on base.lance", NULL);
	assert_found(&a, "s3://bucket/x/far.lance", "far.lance", NULL);
	assert_null(pf_explain_unknown_files(a.e));
	/* Pins or not: what the head shares with others is gone there (A33). */
	assert_int_equal(pf_explain_blocked(a.e, &why), -EBUSY);
	assert_string_equal(why.text, "version 1: /other place/data/on base.lance is missing");
	close_account(&a);
}

static void test_summary(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, expired = PF_BUF_INIT;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;
	uint64_t meta = 0, first = 0;
	char name[TABLE_NAME_MAX], want[4096];

	open_account(&a, moved_table(), NULL);
	for (uint64_t v = 1; v <= 6; v++) {
		table_manifest_name(&(struct table_version){ .version = v }, name);
		meta += size_of(a.st, name);
		table_txn_name(&(struct table_version){ .version = v }, name);
		meta += size_of(a.st, name);
		first = v == 1 ? meta : first;
	}
	/* The head's manifest and transaction, its data, index and map are no burden of the pins. */
	table_manifest_name(&(struct table_version){ .version = 6 }, name);
	uint64_t head = size_of(a.st, name);
	table_txn_name(&(struct table_version){ .version = 6 }, name);
	head += size_of(a.st, name);
	assert_int_equal(pf_render_retention(a.e, &text, &why), 0);
	snprintf(
		want, sizeof(want),
		"{\n  \"branch\": \"main\",\n  \"head\": 6,\n"
		"  \"head_transaction\": \"0badcafe-0000-4000-8000-000000000006\",\n  \"oldest_source\": 1,\n"
		"  \"pins\": 2,\n  \"expired\": 0,\n  \"versions\": {\n    \"kept\": 6,\n    \"free\": 0\n  },\n"
		"  \"files\": {\n    \"kept\": 22,\n    \"free\": 0\n  },\n  \"bytes\": {\n    \"kept\": %d,\n"
		"    \"free\": 0\n  },\n  \"elsewhere\": {\n    \"files\": 0,\n    \"bytes\": 0\n  },\n  \"usage\": [\n"
		"    {\n      \"id\": \"" A "\",\n      \"label\": \"job\",\n      \"source_version\": 1,\n"
		"      \"created_at\": \"2026-01-01T00:00:01.007Z\",\n      \"expires_at\": \"2026-01-02T00:00:00Z\",\n"
		"      \"versions\": 6,\n      \"exclusive_bytes\": %d,\n      \"shared_bytes\": %d,\n"
		"      \"old_bytes\": %d,\n      \"age_seconds\": 3601,\n      \"bytes_per_hour\": %d\n    },\n    {\n"
		"      \"id\": \"" B "\",\n      \"label\": \"job\",\n      \"source_version\": 2,\n"
		"      \"created_at\": \"2026-01-01T00:00:02.007Z\",\n      \"expires_at\": \"2026-01-02T00:00:00Z\",\n"
		"      \"versions\": 5,\n      \"exclusive_bytes\": 0,\n      \"shared_bytes\": %d,\n"
		"      \"old_bytes\": %d,\n      \"age_seconds\": 3600,\n      \"bytes_per_hour\": %d\n    }\n  ],\n"
		"  \"blocked\": null\n}\n",
		(int)(meta + 1750), (int)first, (int)(meta + 1750 - first), (int)(meta - head + 400),
		(int)((meta - head + 400) * 3600 / 3601), (int)(meta + 1750 - first), (int)(meta - head - first + 400),
		(int)(meta - head - first + 400));
	assert_string_equal(pf_buf_str(&text), want);
	assert_int_equal(pf_render_expired(&a.e->survey->pins, a.e->now, &expired), 0);
	assert_int_equal(expired.len, 0);
	a.e->now.sec += 86400;
	assert_int_equal(pf_render_expired(&a.e->survey->pins, a.e->now, &expired), 0);
	assert_string_equal(pf_buf_str(&expired), A "\n" B "\n");
	close_account(&a);
}

static void test_snapshot(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct account a = { NULL };
	char name[TABLE_NAME_MAX], want[1024];

	open_account(&a, moved_table(), NULL);
	assert_int_equal(pf_render_kept_version(a.e, 1, &text), 0);
	table_manifest_name(&(struct table_version){ .version = 2 }, name);
	snprintf(want, sizeof(want),
		 "{\n  \"version\": 2,\n  \"head\": 6,\n  \"manifest\": \"%s\",\n  \"manifest_bytes\": %d,\n"
		 "  \"transaction\": \"0badcafe-0000-4000-8000-000000000002\",\n  \"operation\": \"Append\",\n"
		 "  \"pin_operation\": null,\n  \"timestamp\": \"2026-01-01T00:00:02Z\",\n  \"readable\": true,\n"
		 "  \"reasons\": [\n    \"pin:" A "\",\n    \"pin:" B "\"\n  ]\n}\n",
		 name, (int)size_of(a.st, name));
	assert_string_equal(pf_buf_str(&text), want);
	close_account(&a);
}

/* Blocked says why, and with which pins; releasing makes it better: what-if asks without releasing. */
static void test_blocked(void **state)
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct pf_store *st = moved_table();
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;
	struct pf_uuid gone[] = { pinned_uuid('a'), pinned_uuid('b') };

	assert_int_equal(pf_store_mem_del(st, "data/9.lance"), 0);
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_blocked(a.e, &why), -EBUSY);
	assert_string_equal(why.text, "version 5: data/9.lance is missing; it is needed by pins " A JOB ", " B JOB);
	assert_int_equal(pf_explain_ask(a.e, &(struct pf_question){ .released = gone, .n_released = 2 }, &r), 0);
	assert_int_equal(pf_retention_verify(r, &why), 0);
	assert_int_equal(pf_retention_version(r, 0), 0);
	close_account(&a);
}

/* A pin that a writer dropped blocks too. */
static void test_lost(void **state)
{
	struct pf_store *st = NULL;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	moved_put_version(st, 1, "0", NULL, NULL);
	moved_put_version(st, 2, "0", NULL, "a");
	table_put(st, &(struct table_version){ .version = 3, .writer = "8.0.1" });
	moved_put_file(st, "data/0.lance", 100);
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_blocked(a.e, &why), -EBUSY);
	assert_string_equal(why.text, "pin " A " of source 1:0badcafe-0000-4000-8000-000000000001 is lost: version 3, "
				      "written by lance 8.0.1, dropped it without naming it");
	close_account(&a);
}

static void count_opens(void *arg, struct pf_store *st, const char *op, const char *name)
{
	unsigned *n = arg;

	*n += strcmp(op, "open") == 0;
}

/* The account after another commit. Returns what it says of being blocked; how many files that took in *opens. */
static int ask_anew(struct account *a, unsigned *opens)
{
	pf_explain_free(a->e);
	if (pf_lines_refresh(&a->lines, NULL, NULL, NULL) < 0 ||
	    pf_explain_new(&a->lines, &a->lines.v[0], now, NULL, &a->e, NULL) < 0)
		fail();
	*opens = 0;
	pf_store_mem_set_hook(a->st, count_opens, opens);
	int r = pf_explain_blocked(a->e, NULL);
	pf_store_mem_set_hook(a->st, NULL, NULL);
	return r;
}

/* Whoever asks again after each commit has what is new looked at, and what was lost is not forgotten. */
static void test_lost_since(void **state)
{
	struct pf_store *st = NULL;
	struct account a = { NULL };
	unsigned opens;

	assert_int_equal(pf_store_mem_new(&st), 0);
	moved_put_version(st, 1, "0", NULL, NULL);
	for (uint64_t v = 2; v <= 40; v++)
		moved_put_version(st, v, "0", NULL, "a");
	moved_put_file(st, "data/0.lance", 100);
	moved_put_file(st, "_indices/" BY_ID "/page.lance", 20);
	open_account(&a, st, NULL);
	assert_int_equal(ask_anew(&a, &opens), 0);
	assert_true(opens >= 40);
	assert_int_equal(ask_anew(&a, &opens), 0);
	assert_int_equal(opens, 0);

	moved_put_version(st, 41, "0", NULL, "a");
	assert_int_equal(ask_anew(&a, &opens), 0);
	assert_in_range(opens, 1, 3); /* version 41, the one before, the transaction */

	table_put(st, &(struct table_version){ .version = 42, .writer = "8.0.1" });
	assert_int_equal(ask_anew(&a, &opens), -EBUSY);
	assert_int_equal(ask_anew(&a, &opens), -EBUSY);
	table_put(st, &(struct table_version){ .version = 43, .writer = "8.0.1" });
	assert_int_equal(ask_anew(&a, &opens), -EBUSY);
	moved_put_version(st, 44, "0", NULL, "a");
	assert_int_equal(ask_anew(&a, &opens), 0);
	close_account(&a);
}

/* A transaction of the window that is lost stops destructive work; one whose copy in the manifest is there does not (cases-open A37). */
static void test_lost_transaction(void **state)
{
	struct table_version v = { .version = 3, .txn = TABLE_TXN_LOST };
	char name[TABLE_NAME_MAX];

	for (unsigned inside = 0; inside < 2; inside++) {
		struct account a = { NULL };
		struct pf_store *st = table_new(2, &(struct table_version){ 0 });
		struct pf_why why = PF_WHY_INIT;
		v.txn = inside ? TABLE_TXN_14 : TABLE_TXN_LOST;
		table_put(st, &v);
		table_txn_name(&v, name);
		assert_int_equal(pf_store_mem_del(st, name), inside ? 0 : -ENOENT);
		pinned_put(st, &(struct table_version){ .version = 4 }, &(struct pinned){ .pins = "b" });
		open_account(&a, st, NULL);
		assert_int_equal(pf_explain_blocked(a.e, &why), inside ? 0 : -EBUSY);
		if (!inside) {
			assert_memory_equal(why.text, "version 3: ", strlen("version 3: "));
			assert_non_null(strstr(why.text, name));
			assert_non_null(strstr(why.text, "; it is needed by pin " B));
		}
		close_account(&a);
	}
}

/* A clone whose base has lost a file: named, and no longer trusted (cases-open A33). */
static void test_lost_base(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, text = PF_BUF_INIT;
	struct pf_store *st = NULL;
	struct account a = { NULL };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_add_fragment(&extra, 0, "far.lance", 7, 1);
	table_add_base(&extra, 1, true, "/nowhere/source.lance");
	table_put(st, &(struct table_version){ .version = 1, .extra = &extra });
	pinned_put(st, &(struct table_version){ .version = 2, .extra = &extra }, &(struct pinned){ .pins = "a" });
	open_account(&a, st, NULL);
	assert_int_equal(pf_explain_blocked(a.e, &why), -EBUSY);
	assert_string_equal(why.text,
			    "version 1: /nowhere/source.lance/data/far.lance is missing; it is needed by pin " A JOB);
	assert_int_equal(pf_render_files(a.e, &text, &why), 0);
	assert_null(strstr(pf_buf_str(&text), "far.lance"));
	close_account(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),	   cmocka_unit_test(test_untold),
		cmocka_unit_test(test_stamps),	   cmocka_unit_test(test_covered_in_part),
		cmocka_unit_test(test_no_history), cmocka_unit_test(test_fri_json),
		cmocka_unit_test(test_files),	   cmocka_unit_test(test_find),
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_summary),
		cmocka_unit_test(test_snapshot),   cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_lost),	   cmocka_unit_test(test_lost_transaction),
		cmocka_unit_test(test_lost_base),  cmocka_unit_test(test_lost_since),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
