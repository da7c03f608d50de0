#include "recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"

#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "world.h"

#define OVERLAYS 11
#define INDEX	 1 /* of the uuid of the index, */
#define ENTRY	 2 /* and of a history */

static const char *next_fragment(const char *text, unsigned v[3])
{
	int n = 0;

	v[2] = 0;
	if (sscanf(text, " %u:%u%n", &v[0], &v[1], &n) < 2)
		return NULL;
	text += n;
	if (sscanf(text, ":%u%n", &v[2], &n) == 1)
		text += n;
	return text;
}

void recorded_fragments(const char *text, uint32_t number, struct pf_buf *out, uint64_t *rows)
{
	char name[32];
	unsigned v[3];

	while ((text = next_fragment(text, v))) {
		snprintf(name, sizeof(name), "%u.lance", v[0]);
		prepared_fragment(out, number, v[0], name, v[1], v[2]);
		*rows += v[1] - v[2];
	}
}

static void put_overlaid(struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT, fragment = PF_BUF_INIT;

	prepared_fragment(&all, 2, 9, "9.lance", 10, 0);
	/* Tag and length are two bytes. */
	assert_int_equal(pf_buf_add(&fragment, all.data + 2, all.len - 2), 0);
	assert_int_equal(pf_wire_put_bytes(&fragment, OVERLAYS, "", 0), 0);
	assert_int_equal(pf_wire_put_bytes(out, 2, fragment.data, fragment.len), 0);
}

static void put_bitmap(const char *text, struct pf_buf *out)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *set = NULL;
	uint32_t ids[32];
	size_t n = 0;
	int used;

	for (; sscanf(text, " %u%n", &ids[n], &used) == 1; text += used)
		n++;
	assert_int_equal(pf_bitmap_from(ids, n, &set), 0);
	assert_int_equal(pf_bitmap_encode(set, out), 0);
}

static void put_index(const struct recorded *v, struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf bitmap = PF_BUF_INIT;

	put_bitmap(v->index ? v->index : "", &bitmap);
	moves_index(&(struct moves_index){ .name = "by_id",
					   .uuid = INDEX,
					   .type = "/lance.table.BTreeIndexDetails",
					   .bitmap = v->bitmap ? v->bitmap : &bitmap,
					   .dataset_version = v->built_on },
		    section);
}

static void put_history(struct pf_store *st, const struct recorded *v, struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT, bitmap = PF_BUF_INIT;
	char name[128], uuid[PF_UUID_TEXT];

	moves_content(v->history, &content);
	if (v->covers)
		put_bitmap(v->covers, &bitmap);
	if (v->external) {
		snprintf(name, sizeof(name), "_indices/%s/details.binpb", moves_uuid(ENTRY, uuid));
		assert_int_equal(pf_store_mem_put(st, name, content.data, content.len), 0);
		moves_details_external("details.binpb", 0, content.len, &details);
	} else {
		moves_details_inline(&content, &details);
	}
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = ENTRY,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .bitmap = v->covers ? &bitmap : NULL,
					   .index_version = v->index_version },
		    section);
}

static void put_files(struct pf_store *st, const struct recorded *v)
{
	char name[128], uuid[PF_UUID_TEXT];
	const char *text = v->fragments;
	unsigned of[3];

	while ((text = next_fragment(text, of))) {
		snprintf(name, sizeof(name), "data/%u.lance", of[0]);
		assert_int_equal(pf_store_mem_put(st, name, "x", 1), 0);
		if (of[2])
			prepared_deletions(st, of[0], of[2]);
	}
	snprintf(name, sizeof(name), "_indices/%s/x", moves_uuid(INDEX, uuid));
	if (v->index || v->bitmap)
		assert_int_equal(pf_store_mem_put(st, name, "x", 1), 0);
}

void recorded_put(struct pf_store *st, const struct recorded *v)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, section = PF_BUF_INIT;
	uint64_t rows = 0;

	prepared_body("Project c0 c1 c2", &extra);
	recorded_fragments(v->fragments, 2, &extra, &rows);
	put_files(st, v);
	if (v->overlaid)
		put_overlaid(&extra);
	assert_int_equal(pf_wire_put_u64(&extra, 11, 20), 0);
	if (v->index || v->bitmap)
		put_index(v, &section);
	if (v->history)
		put_history(st, v, &section);
	const struct table_version t = { .version = v->version,
					 .reader_flags = v->flags,
					 .writer_flags = BIT_PINS | v->flags,
					 .extra = &extra,
					 .index = section.len ? &section : NULL };
	pinned_put(st, &t, &(struct pinned){ .pins = v->pins });
}

struct pf_store *recorded_table(const struct recorded *v, size_t n)
{
	struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	for (size_t i = 0; i < n; i++)
		recorded_put(st, &v[i]);
	assert_int_equal(pf_store_mem_put(st, "data/new.lance", "x", 1), 0);
	return st;
}

void recorded_want(struct pf_store *st, const char *text)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_fri_read_branch(b, m, &f, NULL), text ? 0 : -ENODATA);
	if (text)
		moves_assert_history(&f, text);
}

void recorded_meddle(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct recorded_meddler *m = arg;

	if (strcmp(op, "link") == 0 && strstr(name, "_versions") && m->done < m->n)
		recorded_put(st, &m->v[m->done++]);
}
