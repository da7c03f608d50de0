/* Writing the next manifest by splicing spans of its base: what is not patched is carried byte for byte (issue 3, cases-open A23, E08). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/manifest.h"
#include "core/store_mem.h"
#include "core/txn.h"

#include "fixture.h"
#include "table.h"

/* The file that a splice makes of `base`, in `out`. */
static int splice(struct pf_store *st, const struct pf_manifest *base, const struct pf_splice *how, struct pf_buf *out,
		  struct pf_why *why)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;

	pf_store_unlink(st, "out");
	assert_int_equal(pf_store_create(st, "out", &sg), 0);
	int r = pf_manifest_splice(st, base, how, sg, why);
	if (r < 0)
		return r;
	pf_buf_reset(out);
	assert_int_equal(pf_store_get(st, "out", SIZE_MAX, out), 0);
	return 0;
}

/* The manifest file `name` of a fixture, copied to a memory store under its own name. */
static struct pf_store *copy_of(struct pf_store *from, const char *name, struct pf_buf *bytes)
{
	struct pf_store *st;

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_get(from, name, SIZE_MAX, bytes), 0);
	assert_int_equal(pf_store_mem_put(st, name, bytes->data, bytes->len), 0);
	return st;
}

static void same(struct pf_store *from, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = copy_of(from, name, &was);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_splice nothing = { .n_patches = 0 };

	assert_int_equal(pf_manifest_open(st, name, &m, NULL), 0);
	assert_int_equal(splice(st, m, &nothing, &is, NULL), 0);
	if (is.len != was.len || memcmp(is.data, was.data, is.len) != 0)
		fail_msg("%s: a splice that changes nothing changes bytes", name);
}

static void test_nothing_changes(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
			same(st, fixture_str(version, "manifest"));
	}
	json_decref(all);
}

/* One top-level field: its number and its bytes, tag included. */
struct span {
	uint32_t number;
	const uint8_t *p;
	size_t len;
};

/* The top-level fields of the Manifest message in a manifest file. Returns how many. */
static size_t split(const struct pf_buf *file, struct span *v, size_t max)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_mem_reader mem;
	struct pf_field f;
	size_t n = 0;
	uint64_t pos = pf_get_le(file->data + file->len - 16, 8);

	pf_mem_reader_init(&mem, file->data, file->len);
	pf_wire_init(&w, &mem.base, pos + 4, pf_get_le(file->data + pos, 4));
	while (pf_wire_next(&w, &f, NULL) == 1) {
		assert_true(n < max);
		v[n++] = (struct span){ f.number, file->data + f.start, f.value + f.len - f.start };
	}
	return n;
}

/* Drop the fields of these numbers. Returns how many are left. */
static size_t without(struct span *v, size_t n, const uint32_t *numbers)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		const uint32_t *p = numbers;
		while (*p && *p != v[i].number)
			p++;
		if (!*p)
			v[left++] = v[i];
	}
	return left;
}

/* Both files say the same in every field but those of `patched` (0 at its end), in the same order. */
static void assert_carried(const struct pf_buf *was, const struct pf_buf *is, const uint32_t *patched)
{
	static struct span a[32768], b[32768];
	size_t na = without(a, split(was, a, ARRAY_LEN(a)), patched),
	       nb = without(b, split(is, b, ARRAY_LEN(b)), patched);

	assert_int_equal(na, nb);
	for (size_t i = 0; i < na; i++)
		if (a[i].number != b[i].number || a[i].len != b[i].len || memcmp(a[i].p, b[i].p, a[i].len) != 0)
			fail_msg("field %u was not carried as it was", a[i].number);
}

/* Field `number` of the file's Manifest, which must stand there once. */
static struct span only(const struct pf_buf *file, uint32_t number)
{
	static struct span v[1024];
	size_t n = split(file, v, ARRAY_LEN(v)), found = n;

	for (size_t i = 0; i < n; i++) {
		if (v[i].number != number)
			continue;
		assert_int_equal(found, n);
		found = i;
	}
	assert_true(found < n);
	return v[found];
}

#define PIN                                                                                                            \
	"\xda\x89\x05\x44\x0a\x12\x0a\x10\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\x10\x07"     \
	"\x1a\x24"                                                                                                     \
	"0badcafe-0000-4000-8000-000000000001"                                                                         \
	"\x22\x02\x08\x01\x2a\x02\x08\x02"

/* What a pin commit does to each real manifest: version, flags, transaction and pins, and nothing else. */
static void pinned(struct pf_store *from, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT, txn = PF_BUF_INIT,
						version = PF_BUF_INIT;
	_cleanup_(pf_store_freep) struct pf_store *st = copy_of(from, name, &was);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL, *next = NULL;
	_cleanup_(pf_txn_release) struct pf_txn t = { .kind = PF_OP_ENABLE,
						      .uuid = "0badcafe-0000-4000-8000-00000000000a" },
						read = PF_TXN_INIT;
	char next_name[PF_MANIFEST_NAME_MAX], path[64];
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_manifest_open(st, name, &m, NULL), 0);
	t.read_version = m->version;
	assert_int_equal(pf_txn_encode(&t, &txn), 0);
	assert_int_equal(pf_wire_put_u64(&version, 3, m->version + 1), 0);
	const struct pf_piece piece[] = { { version.data, 0, version.len },
					  { "\x50\x80\x80\x20", 0, 4 },
					  { PIN, 0, sizeof(PIN) - 1 } };
	const struct pf_patch patch[] = { { 3, &piece[0], 1 }, { 10, &piece[1], 1 }, { 10395, &piece[2], 1 } };
	const struct pf_splice how = {
		.patches = patch, .n_patches = ARRAY_LEN(patch), .transaction = txn.data, .transaction_len = txn.len
	};
	assert_int_equal(splice(st, m, &how, &is, &why), 0);

	assert_carried(&was, &is, (const uint32_t[]){ 3, 6, 10, 21, 23, 10395, 0 });
	assert_memory_equal(is.data, was.data, m->lead_len);
	assert_memory_equal(is.data + is.len - 8, was.data + was.len - 8, 8);

	pf_manifest_name_format(m->version + 1, m->v2, next_name);
	snprintf(path, sizeof(path), "_versions/%s", next_name);
	assert_int_equal(pf_store_mem_put(st, path, is.data, is.len), 0);
	if (pf_manifest_open(st, path, &next, &why) < 0 || pf_txn_read(st, "", next, &read, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(next->writer_flags, 1 << 19);
	assert_int_equal(next->pins.n, 1);
	assert_string_equal(read.uuid, t.uuid);
	assert_int_equal(read.read_version, m->version);
	assert_int_equal(read.kind, PF_OP_ENABLE);
	assert_int_equal(next->lead_len, m->lead_len);
	assert_int_equal(next->index.present, m->index.present);
	assert_int_equal(next->index.len, m->index.len);
	if (m->index.present)
		assert_memory_equal(is.data + next->index.off, was.data + m->index.off, m->index.len);
	/* The same offset in both. */
	struct span f21 = only(&is, 21), f23 = only(&is, 23);
	assert_true(f21.len == f23.len && memcmp(f21.p + 2, f23.p + 2, f21.len - 2) == 0);
}

static void test_pinned(void **state)
{
	json_t *all = fixture_expected(), *table, *version;
	const char *key;
	size_t i;

	json_object_foreach(all, key, table)
	{
		_cleanup_(pf_store_freep) struct pf_store *st = fixture_open(key);
		json_array_foreach(fixture_get(table, "versions"), i, version)
			pinned(st, fixture_str(version, "manifest"));
	}
	json_decref(all);
}

#define NAME "_versions/7.manifest"

/* Version 7 as `t` says, in a store of its own, open as *m. */
static struct pf_store *base_of(struct table_version t, struct pf_buf *bytes, struct pf_manifest **m)
{
	struct pf_store *st;
	struct pf_why why = PF_WHY_INIT;

	t.version = 7;
	t.v1 = true;
	table_manifest(&t, bytes);
	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(pf_store_mem_put(st, NAME, bytes->data, bytes->len), 0);
	if (pf_manifest_open(st, NAME, m, &why) < 0)
		fail_msg("%s", why.text);
	return st;
}

/* The top-level fields of what `how` makes of a base without fragments, sections and transaction, and with `extra` last. */
static void expect_message(const char *extra, size_t n_extra, const struct pf_splice *how, const char *want,
			   size_t n_want)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_buf more = { (uint8_t *)(uintptr_t)extra, n_extra, n_extra };
	_cleanup_(pf_store_freep) struct pf_store *st = base_of(
		(struct table_version){ .txn = TABLE_TXN_NONE, .no_timestamp = true, .extra = &more }, &was, &m);
	struct pf_why why = PF_WHY_INIT;

	if (splice(st, m, how, &is, &why) < 0)
		fail_msg("%s", why.text);
	uint64_t pos = pf_get_le(is.data + is.len - 16, 8);
	assert_int_equal(pf_get_le(is.data + pos, 4), n_want);
	assert_memory_equal(is.data + pos + 4, want, n_want);
	assert_int_equal(is.len, pos + 4 + n_want + 16);
}

#define VERSION "\x18\x07"
#define WRITER                                                                                                         \
	"\x6a\x0f\x0a\x05lance\x12\x06"                                                                                \
	"14.0.2"

/* Where a patch stands: where the field stood, else before the first greater number, else last. */
static void test_places(void **state)
{
	static const char out_of_order[] = "\x28\x05\x20\x04\x28\x06"; /* 5, 4, 5 behind 3 and 13 */
	const struct pf_piece f[] = { { "\x08\x01", 0, 2 },
				      { "\x20\x44", 0, 2 },
				      { "\x28\x55", 0, 2 },
				      { "\x40\x08", 0, 2 },
				      { "\x78\x0f", 0, 2 } };
	const struct pf_patch all[] = {
		{ 15, &f[4], 1 }, { 1, &f[0], 1 }, { 4, &f[1], 1 }, { 5, &f[2], 1 }, { 8, &f[3], 1 }
	};
	const struct pf_patch gone[] = { { 5, NULL, 0 }, { 13, NULL, 0 }, { 999, NULL, 0 } };
	const struct pf_patch twice[] = { { 3, f, 2 } };
#define EXPECT(patches, want)                                                                                          \
	expect_message(out_of_order, 6, &(struct pf_splice){ patches, ARRAY_LEN(patches) }, want, sizeof(want) - 1)

	EXPECT(all, "\x08\x01" VERSION "\x40\x08" WRITER "\x28\x55"
		    "\x20\x44"
		    "\x78\x0f");
	EXPECT(gone, VERSION "\x20\x04");
	EXPECT(twice, "\x08\x01\x20\x44" WRITER "\x28\x05\x20\x04\x28\x06");
	expect_message(out_of_order, 6, &(struct pf_splice){ NULL, 0 }, VERSION WRITER "\x28\x05\x20\x04\x28\x06",
		       2 + 17 + 6);
}

/* Pieces of the base, of memory, and both, in a patch and in the index section. */
static void test_pieces(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_buf index = { (uint8_t[]){ "\x0a\x02\x1a\x00\x0a\x00" }, 6, 6 };
	_cleanup_(pf_store_freep) struct pf_store *st =
		base_of((struct table_version){ .fragments = 3, .index = &index }, &was, &m);
	struct pf_why why = PF_WHY_INIT;

	/* Of the fragments keep the second; put one of memory behind it. */
	assert_int_equal(m->runs[0].number, 2);
	const struct pf_piece fragment[] = { { NULL, m->runs[0].off + 4, 6 }, { "\x12\x02\x08\x09", 0, 4 } };
	const struct pf_patch patch = { 2, fragment, 2 };
	/* Of the indices keep the second; put one of memory before it. */
	const struct pf_piece list[] = { { "\x0a\x02\x08\x01", 0, 4 }, { NULL, m->index.off + 4, 2 } };
	struct pf_splice how = { .patches = &patch, .n_patches = 1, .index = list, .n_index = 2 };

	assert_int_equal(splice(st, m, &how, &is, &why), 0);
	assert_memory_equal(is.data, "\6\0\0\0\x0a\x02\x08\x01\x0a\x00", 10);
	uint64_t pos = pf_get_le(is.data + is.len - 16, 8);
	assert_memory_equal(is.data + pos + 4, "\x12\x04\x08\x01\x20\x0a\x12\x02\x08\x09\x18\x07\x30\x00", 14);
	assert_carried(&was, &is, (const uint32_t[]){ 2, 0 });

	/* No pieces at all is a section of an empty message; drop_index is none. */
	how.n_index = 0;
	assert_int_equal(splice(st, m, &how, &is, &why), 0);
	assert_memory_equal(is.data, "\0\0\0\0", 4);
	assert_memory_equal(only(&is, 6).p, "\x30\x00", 2);
	how.index = NULL;
	how.drop_index = true;
	assert_int_equal(splice(st, m, &how, &is, &why), 0);
	assert_carried(&was, &is, (const uint32_t[]){ 2, 6, 23, 0 });
	static struct span v[64];
	for (size_t i = split(&is, v, ARRAY_LEN(v)); i > 0; i--)
		assert_int_not_equal(v[i - 1].number, 6);
	assert_memory_equal(only(&is, 23).p, "\xb8\x01\x00", 3);
}

/* A section where the base has none, behind bytes that stay where they are. */
static void test_new_index(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_buf leading = { (uint8_t[]){ "dictionary" }, 10, 10 };
	_cleanup_(pf_store_freep) struct pf_store *st =
		base_of((struct table_version){ .leading = &leading, .txn = TABLE_TXN_12 }, &was, &m);
	const struct pf_piece list = { "\x0a\x00", 0, 2 };

	assert_int_equal(splice(st, m, &(struct pf_splice){ .index = &list, .n_index = 1 }, &is, NULL), 0);
	assert_memory_equal(is.data, "dictionary\2\0\0\0\x0a\0", 16);
	assert_memory_equal(only(&is, 6).p, "\x30\x0a", 2);
	/* The transaction is carried as the base has it: 21 alone. */
	assert_memory_equal(only(&is, 21).p, "\xa8\x01\x10", 3);
	assert_carried(&was, &is, (const uint32_t[]){ 6, 21, 0 });
	assert_memory_equal(is.data + 16, was.data + 10, m->transaction.len + 4);
}

/* cases-open A23, E08: what nobody here knows, at the top, in a fragment, in an index entry. */
static void test_unknown_fields(void **state)
{
	static const char fragment[] =
		"\x12\x0e\x08\x05\x8a\x30\x02\xff\x00\x2a\x03\xa2\x1f\x00\x20\x63"; /* 777, oneof 5 */
	static const char tail[] = "\xba\x3e\x01x\xbd\x3e\x01\x02\x03\x04";	    /* 999 twice */
	static const char entry[] = "\x0a\x12\x32\x09\x0a\x04/x.Y\x12\x01\xff\xc2\x37\x03\x01\x02\x03"; /* 6, 888 */
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT, extra = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_buf index = { (uint8_t *)(uintptr_t)entry, sizeof(entry) - 1, 0 };

	assert_int_equal(pf_buf_add(&extra, fragment, sizeof(fragment) - 1), 0);
	assert_int_equal(pf_buf_add(&extra, tail, sizeof(tail) - 1), 0);
	_cleanup_(pf_store_freep) struct pf_store *st =
		base_of((struct table_version){ .fragments = 2, .extra = &extra, .index = &index }, &was, &m);
	const struct pf_piece pin = { PIN, 0, sizeof(PIN) - 1 };
	const struct pf_patch patch = { 10395, &pin, 1 };

	assert_int_equal(splice(st, m, &(struct pf_splice){ &patch, 1, "\x12\x00", 2 }, &is, NULL), 0);
	assert_carried(&was, &is, (const uint32_t[]){ 21, 23, 10395, 0 });
	assert_memory_equal(is.data + 4, entry, sizeof(entry) - 1);
	assert_non_null(memmem(is.data, is.len, fragment, sizeof(fragment) - 1));
	/* The pins come after all smaller numbers; 999 is the last of them. */
	assert_memory_equal(is.data + is.len - 16 - (sizeof(PIN) - 1) - (sizeof(tail) - 1), tail, sizeof(tail) - 1);
}

/* The calls that a splice makes grow neither with the fragments nor with the fields. */
static void test_cost(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;

	for (uint32_t number = 1000; number < 1100; number++)
		assert_int_equal(pf_wire_put_u64(&extra, number, 1), 0);
	_cleanup_(pf_store_freep) struct pf_store *st =
		base_of((struct table_version){ .fragments = 20000, .extra = &extra }, &was, &m);
	const struct pf_piece f[] = { { "\x18\x08", 0, 2 }, { PIN, 0, sizeof(PIN) - 1 } };
	const struct pf_patch patch[] = { { 3, &f[0], 1 }, { 10395, &f[1], 1 } };

	assert_true(m->n_runs < 116);
	unsigned before = pf_store_mem_calls(st);
	assert_int_equal(splice(st, m, &(struct pf_splice){ patch, 2, "\x12\x00", 2 }, &is, NULL), 0);
	assert_true(pf_store_mem_calls(st) - before < 32);
	assert_carried(&was, &is, (const uint32_t[]){ 3, 21, 23, 10395, 0 });
}

static void test_refused(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_store_freep) struct pf_store *st = base_of((struct table_version){ .fragments = 1 }, &was, &m);
	struct pf_why why = PF_WHY_INIT;
	const struct pf_piece outside = { NULL, was.len - 1, 2 }, far = { NULL, UINT64_MAX, 2 },
			      huge = { "", 0, UINT64_C(1) << 32 }, half = { "", 0, UINT64_C(3) << 30 };
	const struct {
		struct pf_patch v[2];
		int err;
	} rows[] = {
		{ { { 6 }, { 7 } }, -EINVAL },
		{ { { 21 }, { 7 } }, -EINVAL },
		{ { { 7 }, { 23 } }, -EINVAL },
		{ { { 7 }, { 7 } }, -EINVAL },
		{ { { 7, &outside, 1 }, { 8 } }, -EINVAL },
		{ { { 7, &far, 1 }, { 8 } }, -EINVAL },
		{ { { 7, &huge, 1 }, { 8 } }, -EFBIG },
		{ { { 7, &half, 1 }, { 8, &half, 1 } }, -EFBIG },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(splice(st, m, &(struct pf_splice){ rows[i].v, 2 }, &is, &why), rows[i].err);
	assert_int_equal(splice(st, m, &(struct pf_splice){ .transaction = "", .transaction_len = UINT64_C(1) << 32 },
				&is, &why),
			 -EFBIG);
	assert_int_equal(splice(st, m, &(struct pf_splice){ .index = &huge, .n_index = 1 }, &is, &why), -EFBIG);
	assert_int_equal(splice(st, m, &(struct pf_splice){ .index = &outside, .n_index = 1 }, &is, &why), -EINVAL);

	/* The same bytes in another file are not the base that was read. */
	assert_int_equal(pf_store_mem_del(st, NAME), 0);
	assert_int_equal(splice(st, m, &(struct pf_splice){ NULL }, &is, &why), -ESTALE);
	assert_int_equal(pf_store_mem_put(st, NAME, was.data, was.len), 0);
	assert_int_equal(splice(st, m, &(struct pf_splice){ NULL }, &is, &why), -ESTALE);
	assert_string_equal(why.text, NAME " is gone or was replaced since it was read");
}

/* Storage that fails at each call in turn: its error comes out, never a short file taken for a whole one. */
static void test_storage_fails(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_store_freep) struct pf_store *st = base_of((struct table_version){ .fragments = 1 }, &was, &m);
	const struct pf_piece f[] = { { "\x18\x08", 0, 2 } };
	const struct pf_patch patch[] = { { 3, f, 1 } };
	unsigned nth = 0;
	int r;

	do {
		_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
		struct pf_why why = PF_WHY_INIT;
		pf_store_mem_del(st, "out");
		assert_int_equal(pf_store_create(st, "out", &sg), 0);
		pf_store_mem_fault(st, ++nth, PF_FAULT_BEFORE, -ENOSPC, false);
		r = pf_manifest_splice(st, m, &(struct pf_splice){ patch, 1, "\x12\x00", 2 }, sg, &why);
		if (r < 0)
			assert_string_equal(why.text,
					    "cannot write the successor of " NAME ": No space left on device");
	} while (r == -ENOSPC);
	assert_int_equal(r, 0);
	assert_true(nth > 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_changes),
		cmocka_unit_test(test_pinned),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_new_index),
		cmocka_unit_test(test_unknown_fields),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_storage_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
