/*
 * A23, E08: what nobody here knows goes from version to version byte for byte, whoever commits: at the top of the manifest, in a fragment and a file of it, in
 * an entry of the index section, in the entry of a history of moved rows and its details.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/restore.h"
#include "core/trim.h"

#include "moves.h"
#include "prepared.h"
#include "whole.h"
#include "world.h"

#define UUID "12345678-1111-4222-8333-444444444444"
#define TOP  "\xba\x3e\x03TOP" /* 999 */
#define ENTRY                                                                                                          \
	"\x7a\x05"                                                                                                     \
	"ENTRY" /* 15 */

/* Fragment 1 with fields 777 and 40, an unknown member of a oneof, its file with field 500; it has 10 rows. */
static void put_fragment(struct pf_buf *out, struct pf_buf *bytes)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;

	pf_wire_put_bytes(&file, 1, "old.lance", 9);
	pf_wire_put_bytes(&file, 2, "\0\1\2", 3);
	pf_wire_put_u64(&file, 4, 2);
	pf_wire_put_bytes(&file, 500, "FILE", 4);
	pf_wire_put_u64(bytes, 1, 1);
	pf_wire_put_bytes(bytes, 2, file.data, file.len);
	pf_wire_put_u64(bytes, 4, 10);
	pf_wire_put_bytes(bytes, 777, "FRAGMENT", 8);
	pf_wire_put_bytes(bytes, 40, "ROW IDS", 7);
	pf_wire_put_bytes(out, 2, bytes->data, bytes->len);
}

/* An index of a type to come, on fragment 3: with field 888, and an enum value that nobody has. */
static void put_index(struct pf_buf *section, struct pf_buf *bytes)
{
	_cleanup_(pf_buf_release) struct pf_buf id = PF_BUF_INIT, any = PF_BUF_INIT, bitmap = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *set = NULL;
	const uint32_t on = 3;

	pf_wire_put_bytes(&id, 1, "0123456789abcdef", 16);
	pf_wire_put_bytes(bytes, 1, id.data, id.len);
	pf_wire_put_bytes(bytes, 2, "\2", 1);
	pf_wire_put_bytes(bytes, 3, "later", 5);
	pf_wire_put_u64(bytes, 4, 9);
	assert_int_equal(pf_bitmap_from(&on, 1, &set), 0);
	assert_int_equal(pf_bitmap_encode(set, &bitmap), 0);
	pf_wire_put_bytes(bytes, 5, bitmap.data, bitmap.len);
	pf_wire_put_bytes(&any, 1, "/x.Y", 4);
	pf_wire_put_bytes(&any, 2, "\xff\xff\xff", 3);
	pf_wire_put_bytes(bytes, 6, any.data, any.len);
	pf_wire_put_u64(bytes, 887, 99);
	pf_wire_put_bytes(bytes, 888, "INDEX", 5);
	pf_wire_put_bytes(section, 1, bytes->data, bytes->len);
}

/* Of version 0, two records; field 15 of the entry, 5 of the Any, 9 of the details, 77 of the group. */
static void put_history(struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT, any = PF_BUF_INIT,
						entry = PF_BUF_INIT, id = PF_BUF_INIT;

	moves_content("L1 7:10 > 8:10; L5 8:10 > 3:10", &content);
	moves_details_inline(&content, &details);
	pf_wire_put_bytes(&details, 9, "DETAILS", 7);
	pf_wire_put_bytes(&id, 1, "fedcba9876543210", 16);
	pf_wire_put_bytes(&entry, 1, id.data, id.len);
	pf_wire_put_bytes(&entry, 3, PF_FRI_NAME, strlen(PF_FRI_NAME));
	pf_wire_put_bytes(&any, 1, MOVES_FRI_TYPE, strlen(MOVES_FRI_TYPE));
	pf_wire_put_bytes(&any, 2, details.data, details.len);
	pf_wire_put_bytes(&any, 5, "ANY", 3);
	pf_wire_put_bytes(&entry, 6, any.data, any.len);
	pf_wire_put_bytes(&entry, 15, "ENTRY", 5);
	pf_wire_put_bytes(section, 1, entry.data, entry.len);
}

static struct pf_buf fragment, index_entry;

/* Versions 1 to 5, all alike; a pin of version 5, so that version 6 is the head. */
static void new_table(struct world *w)
{
	static struct pf_buf extra, section;
	static struct table_version like;

	for (struct pf_buf **b = (struct pf_buf *[]){ &extra, &section, &fragment, &index_entry, NULL }; *b; b++)
		pf_buf_reset(*b);
	prepared_body("Project c0 c1 c2", &extra);
	put_fragment(&extra, &fragment);
	prepared_fragment(&extra, 2, 2, PREPARED_OLD, 10, 0);
	prepared_fragment(&extra, 2, 3, PREPARED_OLD, 10, 0);
	pf_wire_put_u64(&extra, 11, 10);
	pf_buf_add(&extra, TOP, strlen(TOP));
	put_index(&section, &index_entry);
	put_history(&section);
	like = (struct table_version){ .writer_flags = BIT_PINS, .extra = &extra, .index = &section };
	new_world(w, &like);
	pf_store_mem_put(w->st, "data/f.lance", "x", 1);
	pf_store_mem_put(w->st, "_deletions/2-1-1.bin", "x", 1);
	pf_store_mem_put(w->st, "_indices/696e6465-7820-7820-2020-202020202020/x", "x", 1);
	run(w, op_register(1, 3600), 0);
}

static bool has_bytes(const struct pf_buf *b, const void *p, size_t n)
{
	return memmem(b->data, b->len, p, n) != NULL;
}

static void check_head(struct world *w, const char *deed)
{
	static const char *const texts[] = { TOP, ENTRY,
					     "\x4a\x07"
					     "DETAILS",
					     "\x2a\x03"
					     "ANY" };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = head_of(w);
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	assert_int_equal(pf_store_get(w->st, m->name, 1 << 20, &bytes), 0);
	if (!has_bytes(&bytes, fragment.data, fragment.len))
		fail_msg("%s: the fragment is another one", deed);
	if (!has_bytes(&bytes, index_entry.data, index_entry.len))
		fail_msg("%s: the entry of the index is another one", deed);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (!has_bytes(&bytes, texts[i], strlen(texts[i])))
			fail_msg("%s: no %s any more", deed, texts[i]);
}

static void pins(void **state)
{
	struct world w;

	new_table(&w);
	check_head(&w, "register");
	run(&w, op_on(PF_OP_RENEW, 1, 7200), 0);
	check_head(&w, "renew");
	run(&w, op_on(PF_OP_RELEASE, 1, 0), 0);
	check_head(&w, "release");
	assert_int_equal(head_version(&w), 8);
	close_world(&w);
}

static void prepared_work(void **state)
{
	static const char *const texts[] = {
		"Append n0:f.lance",
		"Delete u2",
		"Delete r3",
		"CreateIndex nx:0:2",
		"Rewrite g2,3",
		"Restore 2",
		"ReserveFragments 2",
		"Update u2 n0:f.lance",
		"Project c0 c1 c2 p",
		"UpdateConfig ca ta",
		"DataReplacement d2:0",
		"UpdateBases b1:/x",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
		const struct pf_work work = { .operation = &o, .records = true };
		struct pf_work_result result;
		struct pf_why why = PF_WHY_INIT;
		struct world w;

		new_table(&w);
		prepared(texts[i], 6, UUID, &o);
		if (pf_work_commit(w.b, &work, &result, &why) < 0)
			fail_msg("%s: %s", texts[i], why.text);
		check_head(&w, texts[i]);
		close_world(&w);
	}
}

/* The record that goes is another one; of the entry, which is made anew, the unknown stays. */
static void trim(void **state)
{
	_cleanup_(pf_trim_release) struct pf_trim t = { .pins = PF_PINS_INIT };
	const struct pf_trim_options o = { .apply = true };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	struct world w;

	new_table(&w);
	if (pf_trim(w.b, &o, &t, &result, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(result.version, 7);
	assert_int_equal(t.history.n_records - t.kept, 1);
	check_head(&w, "trim");
	close_world(&w);
}

static int forget(void **state)
{
	pf_buf_release(&fragment);
	pf_buf_release(&index_entry);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pins),
		cmocka_unit_test(prepared_work),
		cmocka_unit_test(trim),
	};

	return cmocka_run_group_tests(tests, NULL, forget);
}
