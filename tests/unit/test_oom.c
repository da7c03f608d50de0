/* Every allocation of core's readers fails in its turn (cases-open E03): -ENOMEM comes out, nothing leaks, nothing is used half built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/check.h"
#include "core/closure.h"
#include "core/store_mem.h"
#include "core/txn.h"

#include "alloc.h"
#include "moves.h"
#include "table.h"

#define ID "0123456789abcdef0123456789abcdef"

static int do_branch(struct pf_store *st)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	return pf_branch_open(st, "feat/x", &b, NULL);
}

static int do_versions(struct pf_store *st)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	size_t n;

	int r = pf_branch_open(st, NULL, &b, NULL);
	return r < 0 ? r : pf_branch_versions(b, &v, &n, NULL);
}

static int do_head(struct pf_store *st)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;
	uint64_t fragments, rows;

	int r = pf_branch_open(st, NULL, &b, NULL);
	if (r == 0)
		r = pf_branch_head(b, &m, NULL);
	if (r == 0)
		r = pf_manifest_count(st, m, &fragments, &rows, NULL);
	return r < 0 ? r : pf_txn_read(st, "", m, &t, NULL);
}

static int do_old_txn(struct pf_store *st)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = PF_TXN_INIT;

	int r = pf_manifest_open(st, "_versions/1.manifest", &m, NULL);
	return r < 0 ? r : pf_txn_read(st, "", m, &t, NULL);
}

static int do_tags(struct pf_store *st)
{
	_cleanup_(pf_tags_release) struct pf_tags l = { 0 };

	return pf_tags_list(st, &l, NULL);
}

static int do_branches(struct pf_store *st)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs l = { 0 };

	return pf_branches_list(st, &l, NULL);
}

static int do_splice(struct pf_store *st)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_buf_release) struct pf_buf txn = PF_BUF_INIT;

	int r = pf_manifest_open(st, "_versions/2.manifest", &m, NULL);
	if (r < 0)
		return r;
	struct pf_txn t = { .read_version = 2,
			    .uuid = "0badcafe-0000-4000-8000-000000000003",
			    .kind = PF_OP_REGISTER,
			    .pins = m->pins };
	r = pf_txn_encode(&t, &txn);
	if (r < 0)
		return r;
	pf_store_unlink(st, "out");
	r = pf_store_create(st, "out", &sg);
	const struct pf_splice how = { .transaction = txn.data, .transaction_len = txn.len };
	return r < 0 ? r : pf_manifest_splice(st, m, &how, sg, NULL);
}

static int ignore(void *arg, const struct pf_finding *f)
{
	return 0;
}

static int do_check(struct pf_store *st)
{
	struct pf_check_totals t;

	int r = pf_check(st, ignore, NULL, NULL, &t, NULL);
	/* One manifest that no memory was there for is told like one that cannot be read. */
	return r == 0 && t.damages + t.notes > 0 ? -ENOMEM : r;
}

/* A mixed history, what a pin and an index need of it, and where a row went. */
static int do_fri(struct pf_store *st)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	const struct pf_fri_pin pin = { .fragments = (uint32_t[]){ 0 }, .n_fragments = 1 };
	struct pf_fri_need needs[2];
	bool needed[2];
	size_t by[2];
	uint64_t addr = 0;

	int r = pf_manifest_open(st, "moved/_versions/1.manifest", &m, NULL);
	if (r == 0)
		r = pf_indices_read(st, m, &list, NULL);
	if (r == 0)
		r = pf_fri_read(st, "moved/", m, NULL, &f, NULL);
	if (r == 0)
		r = pf_closure_pin(&f, &pin, needs, NULL);
	if (r == 0)
		r = pf_closure_consumers(&f, &list, needed, by, NULL);
	return r < 0 ? r : pf_fri_translate(&f, &addr, 1, NULL);
}

static void put_moved(struct pf_store *st)
{
	static const uint32_t fragments[] = { 0, 1 };
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *set = NULL;
	_cleanup_(pf_buf_release) struct pf_buf section = PF_BUF_INIT, content = PF_BUF_INIT, details = PF_BUF_INIT,
						bitmap = PF_BUF_INIT;
	char uuid[PF_UUID_TEXT], name[TABLE_NAME_MAX];

	moves_content("L5 0:2 1:2 > 6:4; T 6:4 2:2 > 8:6", &content);
	moves_details_external("details.binpb", 0, content.len, &details);
	assert_int_equal(pf_bitmap_from(fragments, ARRAY_LEN(fragments), &set), 0);
	assert_int_equal(pf_bitmap_encode(set, &bitmap), 0);
	moves_index(&(struct moves_index){ .name = "a", .type = "/x.Y", .bitmap = &bitmap, .dataset_version = 4 },
		    &section);
	moves_index(&(struct moves_index){ .name = PF_FRI_NAME,
					   .uuid = 7,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .index_version = 1 },
		    &section);
	table_put(st, &(struct table_version){ .version = 1, .v1 = true, .dir = "moved/", .index = &section });
	snprintf(name, sizeof(name), "moved/_indices/%s/details.binpb", moves_uuid(7, uuid));
	assert_int_equal(pf_store_mem_put(st, name, content.data, content.len), 0);
}

static struct pf_store *new_table(void)
{
	_cleanup_(pf_buf_release) struct pf_buf pin = PF_BUF_INIT, pins = PF_BUF_INIT;
	struct pf_buf index = { (uint8_t[]){ "\x0a\x02\x1a\x00" }, 4, 4 };
	static const char tag[] = "{\"version\":1,\"manifestSize\":1,\"createdAt\":\"x\",\"metadata\":{\"a\":\"b\"}}";
	static const uint8_t id[16] = { 0xaa };
	struct pf_store *st = NULL;

	assert_int_equal(pf_buf_add(&pin, "\x0a\x12\x0a\x10", 4), 0);
	assert_int_equal(pf_buf_add(&pin, id, sizeof(id)), 0);
	assert_int_equal(pf_buf_addstr(&pin, "\x10\x01\x1a\x24"
					     "0badcafe-0000-4000-8000-000000000001"
					     "\x22\x02\x08\x01\x2a\x02\x08\x02"),
			 0);
	assert_int_equal(pf_wire_put_bytes(&pins, 10395, pin.data, pin.len), 0);

	assert_int_equal(pf_store_mem_new(&st), 0);
	const struct table_version v[] = {
		{ 1, .v1 = true, .txn = TABLE_TXN_FILE, .fragments = 1 },
		{ 2, .v1 = true, .writer_flags = 1 << 19, .pins = &pins, .index = &index, .fragments = 3 },
		{ 1, .dir = "tree/feat/x/", .branch = "feat/x" },
	};
	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		table_put(st, &v[i]);
	table_put_branch(st, "feat/x", 1, ID);
	table_put_branch(st, "dev", 1, ID);
	const struct table_version dev = { 1, .dir = "tree/dev/", .branch = "dev" };
	table_put(st, &dev);
	put_moved(st);
	assert_int_equal(pf_store_mem_put(st, "_refs/tags/a.json", tag, sizeof(tag) - 1), 0);
	return st;
}

static void test_every_allocation(void **state)
{
	static const struct {
		const char *name;
		int (*run)(struct pf_store *st);
		unsigned at_least;
	} rows[] = {
		{ "branch", do_branch, 20 },	      { "versions", do_versions, 12 }, { "head", do_head, 14 },
		{ "old transaction", do_old_txn, 8 }, { "tags", do_tags, 8 },	       { "branches", do_branches, 14 },
		{ "splice", do_splice, 16 },	      { "check", do_check, 60 },       { "moved rows", do_fri, 60 },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = new_table();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		unsigned nth = 0;
		int r;
		do {
			alloc_fail(++nth);
			r = rows[i].run(st);
			if (r != 0 && r != -ENOMEM)
				fail_msg("%s: allocation %u: %d", rows[i].name, nth, r);
		} while (alloc_calls() >= nth);
		assert_int_equal(r, 0);
		if (nth < rows[i].at_least)
			fail_msg("%s: only %u allocations were seen", rows[i].name, nth - 1);
	}
	alloc_fail(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
