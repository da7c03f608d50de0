/* The index section: what Lance wrote, what a stranger could write (cases-open E06, E08), and which indices answer queries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "core/index.h"
#include "core/rowaddr.h"
#include "core/store_mem.h"
#include "core/wire.h"

#include "fixture.h"
#include "moves.h"
#include "table.h"

#define B(s) s, sizeof(s) - 1

static struct pf_manifest *open_head(struct pf_store *st, const char *name)
{
	struct pf_manifest *m;
	struct pf_why why = PF_WHY_INIT;

	if (pf_manifest_open(st, name, &m, &why) < 0)
		fail_msg("%s", why.text);
	return m;
}

/* A table in memory whose version 1 has this index section, and what is read of it. */
static int read_section(const void *section, size_t n, struct pf_indices *out, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_buf_add(&index, section, n), 0);
	table_put(st, &(struct table_version){ .version = 1, .v1 = true, .index = &index });
	m = open_head(st, "_versions/1.manifest");
	return pf_indices_read(st, m, out, why);
}

static const struct pf_index *find(const struct pf_indices *l, const char *uuid)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].uuid, uuid) == 0)
			return &l->v[i];
	fail_msg("no index %s", uuid);
	return NULL;
}

static int next_fragment(void *arg, uint32_t v)
{
	json_t **left = arg;

	assert_true(json_array_size(*left) > 0);
	assert_int_equal(v, json_number_value(json_array_get(*left, 0)));
	json_array_remove(*left, 0);
	return 0;
}

/* Lance lists the fragments that an index covers, which is what its entry says until rows are moved. */
static void check_entry(const struct pf_index *x, json_t *said, bool moved)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	assert_string_equal(x->name, fixture_str(said, "name"));
	assert_int_equal(x->dataset_version, fixture_u64(said, "dataset_version"));
	assert_true(x->has_bitmap);
	if (pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &b, &why) < 0)
		fail_msg("%s", why.text);
	json_t *left = json_deep_copy(fixture_get(said, "fragments"));
	if (!moved) {
		assert_int_equal(pf_bitmap_each(b, next_fragment, &left), 0);
		assert_int_equal(json_array_size(left), 0);
	}
	json_decref(left);
}

static void test_fixtures(void **state)
{
	json_t *all = fixture_expected(), *table, *said;
	const char *key;
	size_t i, checked = 0;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = NULL;
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
		_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
		json_t *versions = fixture_get(table, "versions"), *indices = fixture_get(table, "head.indices");
		struct pf_why why = PF_WHY_INIT;

		st = fixture_open(key);
		m = open_head(st, fixture_str(json_array_get(versions, json_array_size(versions) - 1), "manifest"));
		if (pf_indices_read(st, m, &list, &why) < 0)
			fail_msg("%s: %s", key, why.text);
		assert_int_equal(list.n, json_array_size(indices));
		json_array_foreach(indices, i, said)
		{
			check_entry(find(&list, fixture_str(said, "uuid")), said, strstr(key, "/fri.lance"));
			checked++;
		}
	}
	assert_true(checked >= 14);
	json_decref(all);
}

/* Every member, and where the entry and its details stand. */
static void test_members(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf section = PF_BUF_INIT, bitmap = PF_BUF_INIT, details = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	char uuid[PF_UUID_TEXT], bytes[256];

	assert_int_equal(pf_buf_addstr(&bitmap, "not looked at"), 0);
	assert_int_equal(pf_buf_addstr(&details, "nor this"), 0);
	moves_index(&(struct moves_index){ .name = "a" }, &section);
	size_t first = section.len;
	moves_index(&(struct moves_index){ .name = "id_idx",
					   .uuid = 7,
					   .type = "/x.Y",
					   .details = &details,
					   .bitmap = &bitmap,
					   .dataset_version = UINT64_MAX,
					   .index_version = -1,
					   .has_base = true },
		    &section);
	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &(struct table_version){ .version = 1, .v1 = true, .index = &section });
	m = open_head(st, "_versions/1.manifest");
	if (pf_indices_read(st, m, &list, &why) < 0)
		fail_msg("%s", why.text);

	assert_int_equal(list.n, 2);
	assert_string_equal(list.v[0].name, "a");
	assert_false(list.v[0].has_bitmap || list.v[0].has_base || list.v[0].details.present);
	assert_null(list.v[0].details_type);
	const struct pf_index *x = &list.v[1];
	assert_string_equal(x->name, "id_idx");
	assert_string_equal(x->uuid, moves_uuid(7, uuid));
	assert_string_equal(x->details_type, "/x.Y");
	assert_true(x->has_bitmap && x->bitmap.len == bitmap.len && x->has_base);
	assert_memory_equal(x->bitmap.data, bitmap.data, bitmap.len);
	assert_int_equal(x->base_id, 0);
	assert_int_equal(x->dataset_version, UINT64_MAX);
	assert_int_equal(x->index_version, -1);

	assert_int_equal(pf_store_open(st, m->name, &file), 0);
	assert_int_equal(x->len, section.len - first);
	assert_int_equal(file->r.read(&file->r, x->off, bytes, x->len), 0);
	assert_memory_equal(bytes, section.data + first, x->len);
	assert_int_equal(x->details.len, details.len);
	assert_int_equal(file->r.read(&file->r, x->details.off, bytes, details.len), 0);
	assert_memory_equal(bytes, details.data, details.len);
}

#define UUID                                                                                                           \
	"\x0a\x12\x0a\x10"                                                                                             \
	"0123456789abcdef"

/* As other writers may put it: columns packed and one by one, unknown fields, an Any of no known type, a member twice. */
static void test_accepted(void **state)
{
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
	static const char section[] = "\x0a\x4d" UUID "\x12\x0c\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
				      "\x10\x05"
				      "\x1a\x01z"
				      "\x1a\x02id"
				      "\x20\x07"
				      "\x20\x08"
				      "\x32\x09\x0a\x04/x.Y\x12\x01!"
				      "\xa2\x1f\x02??"
				      "\x2a\x01!"
				      "\x2a\x00"
				      "\x48\x83\x80\x80\x80\x10"
				      "\x7a\x01?";
	struct pf_why why = PF_WHY_INIT;

	if (read_section(B(section), &list, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(list.n, 1);
	const struct pf_index *x = &list.v[0];
	assert_string_equal(x->uuid, "30313233-3435-3637-3839-616263646566");
	assert_int_equal(x->n_fields, 4);
	assert_int_equal(x->fields[0], 1);
	assert_int_equal(x->fields[1], 0);
	assert_int_equal(x->fields[2], -1);
	assert_int_equal(x->fields[3], 5);
	assert_string_equal(x->name, "id");
	assert_int_equal(x->dataset_version, 8);
	assert_false(x->has_bitmap);	 /* there, and empty: as good as not */
	assert_int_equal(x->base_id, 3); /* 2^32 + 3 in 32 bits */
	assert_int_equal(x->index_version, 0);
	assert_string_equal(x->details_type, "/x.Y");
	assert_int_equal(x->details.len, 1);
}

static void test_none(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_indices_release) struct pf_indices list = { 0 };

	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &(struct table_version){ .version = 1, .v1 = true });
	m = open_head(st, "_versions/1.manifest");
	assert_int_equal(pf_indices_read(st, m, &list, NULL), 0);
	assert_int_equal(list.n, 0);
	assert_int_equal(read_section("", 0, &list, NULL), 0);
	assert_int_equal(list.n, 0);
}

static void test_damaged(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *why; /* after the file's name; offset 4: the section begins the file, behind its length */
	} rows[] = {
		{ B("\x08\x01"), "field 1 at offset 4 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x00"), "offset 4: expected an index with a uuid" },
		{ B("\x0a\x03\x1a\x01z"), "offset 4: expected an index with a uuid" },
		{ B("\x0a\x05\x0a\x03\x0a\x01x"), "offset 6: expected a uuid of 16 bytes" },
		{ B("\x0a\x02\x0a\x00"), "offset 6: expected a uuid of 16 bytes" },
		{ B("\x0a\x18" UUID "\x1a\x02\xc3("), "offset 26: expected UTF-8 text in field 3" },
		{ B("\x0a\x18" UUID "\x1a\x02z\0"), "offset 26: expected UTF-8 text in field 3" },
		{ B("\x0a\x16" UUID "\x18\x01"), "field 3 at offset 26 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x16" UUID "\x22\x00"), "field 4 at offset 26 has wire type 2; expected 0" },
		{ B("\x0a\x16" UUID "\x30\x00"), "field 6 at offset 26 has wire type 0; expected 2, bytes" },
		{ B("\x0a\x18" UUID "\x32\x02\x10\x01"), "field 2 at offset 28 has wire type 0; expected 2, bytes" },
		/* E06: lengths that pass the end, and a packed value that does not end. */
		{ B("\x0a\xff\xff\xff\xff\x0f"),
		  "field 1 at offset 4 claims 4294967295 bytes where its message has 0 left" },
		{ B("\x0a\x1a" UUID "\x1a\xff\xff\xff\xff\x07"),
		  "field 3 at offset 26 claims 2147483647 bytes where its message has 0 left" },
		{ B("\x0a\x1f" UUID "\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
		  "field 5 at offset 26 claims 18446744073709551615 bytes where its message has 0 left" },
		{ B("\x0a\x18" UUID "\x12\x02\x01\x80"),
		  "the varint at offset 29 does not end within its message, 1 bytes on" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_indices_release) struct pf_indices list = { 0 };
		_cleanup_(pf_freep) char *expected = NULL;
		struct pf_why why = PF_WHY_INIT;

		assert_true(asprintf(&expected, "_versions/1.manifest: index section: %s", rows[i].why) > 0);
		assert_int_equal(read_section(rows[i].bytes, rows[i].n, &list, &why), -EBADMSG);
		assert_string_equal(why.text, expected);
		assert_null(list.v);
	}
}

static void test_replaced(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_buf_release) struct pf_buf section = PF_BUF_INIT;
	struct pf_indices list = { 0 };
	struct pf_why why = PF_WHY_INIT;

	moves_index(&(struct moves_index){ .name = "a" }, &section);
	assert_int_equal(pf_store_mem_new(&st), 0);
	table_put(st, &(struct table_version){ .version = 1, .v1 = true, .index = &section });
	m = open_head(st, "_versions/1.manifest");
	assert_int_equal(pf_store_mem_del(st, "_versions/1.manifest"), 0);
	assert_int_equal(pf_indices_read(st, m, &list, &why), -ESTALE);
	assert_string_equal(why.text, "_versions/1.manifest is gone or was replaced since it was read");
}

static void test_system(void **state)
{
	assert_true(pf_index_is_system(&(struct pf_index){ .name = (char[]){ "__lance_frag_reuse" } }));
	assert_true(pf_index_is_system(&(struct pf_index){ .name = (char[]){ "__lance_mem_wal" } }));
	assert_false(pf_index_is_system(&(struct pf_index){ .name = (char[]){ "__lance_other" } }));
	assert_false(pf_index_is_system(&(struct pf_index){ .name = (char[]){ "" } }));
}

/* By Lance 14.0.2's readers: an exact message name in any case behind the last slash, and its highest version. */
static void test_usable(void **state)
{
	static const struct {
		const char *type;
		int32_t version;
		bool usable;
	} rows[] = {
		{ "/lance.table.BTreeIndexDetails", 0, true },
		{ "/lance.table.BTreeIndexDetails", 1, true },
		{ "/lance.table.BTreeIndexDetails", 2, false },
		{ "type.googleapis.com/LANCE.table.btreeindexdetails", 1, true },
		{ "lance.table.BTreeIndexDetails", 0, false },
		{ "/other.BTreeIndexDetails", 0, false },
		{ "/lance.table.InvertedIndexDetails", 3, true },
		{ "/lance.table.InvertedIndexDetails", 4, false },
		{ "/lance.index.pb.VectorIndexDetails", 2, true },
		{ "/lance.index.pb.VectorIndexDetails", 3, false },
		{ "/lance.index.pb.BitmapIndexDetails", 0, true },
		{ "/lance.table.VectorIndexDetails", 0, false },
		{ "/", 0, false },
		{ "", 0, false },
		{ NULL, 0, true },
		{ NULL, 1, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_freep) char *type = rows[i].type ? strdup(rows[i].type) : NULL;
		struct pf_index x = { .details_type = type, .index_version = rows[i].version };

		if (pf_index_usable(&x) != rows[i].usable)
			fail_msg("%s version %d", type, rows[i].version);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fixtures), cmocka_unit_test(test_members), cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_none),	 cmocka_unit_test(test_damaged), cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_system),	 cmocka_unit_test(test_usable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
