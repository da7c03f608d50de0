#include "table.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"
#include "core/wire.h"

#define NEW_YEAR_2026 1767225600

const char *table_uuid(uint64_t version, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "0badcafe-0000-4000-8000-%012" PRIu64, version % 1000000000000);
	return out;
}

static const char *uuid_of(const struct table_version *t, char out[PF_UUID_TEXT])
{
	return t->uuid ? t->uuid : table_uuid(t->version, out);
}

const char *table_manifest_name(const struct table_version *t, char out[TABLE_NAME_MAX])
{
	const char *dir = t->dir ? t->dir : "";

	if (t->v1)
		snprintf(out, TABLE_NAME_MAX, "%s_versions/%" PRIu64 ".manifest", dir, t->version);
	else
		snprintf(out, TABLE_NAME_MAX, "%s_versions/%020" PRIu64 ".manifest", dir, UINT64_MAX - t->version);
	return out;
}

static void txn_file(const struct table_version *t, char out[TABLE_NAME_MAX])
{
	char uuid[PF_UUID_TEXT];

	snprintf(out, TABLE_NAME_MAX, "%" PRIu64 "-%s.txn", t->version - 1, uuid_of(t, uuid));
}

const char *table_txn_name(const struct table_version *t, char out[TABLE_NAME_MAX])
{
	char file[TABLE_NAME_MAX];

	txn_file(t, file);
	snprintf(out, TABLE_NAME_MAX, "%s_transactions/%.200s", t->dir ? t->dir : "", file);
	return out;
}

static void put_u64(struct pf_buf *b, uint32_t number, uint64_t v)
{
	assert_int_equal(pf_wire_put_u64(b, number, v), 0);
}

static void put_bytes(struct pf_buf *b, uint32_t number, const void *p, size_t n)
{
	assert_int_equal(pf_wire_put_bytes(b, number, p, n), 0);
}

static void put_str(struct pf_buf *b, uint32_t number, const char *s)
{
	put_bytes(b, number, s, strlen(s));
}

static void put_buf(struct pf_buf *b, uint32_t number, const struct pf_buf *v)
{
	put_bytes(b, number, v->data, v->len);
}

static void add(struct pf_buf *b, const void *p, size_t n)
{
	assert_int_equal(pf_buf_add(b, p, n), 0);
}

static void add_le(struct pf_buf *b, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pf_buf_addch(b, (char)(v >> 8 * i)), 0);
}

/* A length-prefixed section. Returns where its prefix is. */
static uint64_t add_section(struct pf_buf *b, const struct pf_buf *message)
{
	uint64_t at = b->len;

	add_le(b, message->len, 4);
	add(b, message->data, message->len);
	return at;
}

void table_txn(const struct table_version *t, struct pf_buf *out)
{
	char uuid[PF_UUID_TEXT];

	if (t->version > 1)
		put_u64(out, 1, t->version - 1);
	put_str(out, 2, uuid_of(t, uuid));
	put_bytes(out, t->operation ? t->operation : 100, "", 0);
	if (t->txn_extra)
		add(out, t->txn_extra->data, t->txn_extra->len);
}

static void put_fragment(struct pf_buf *b, uint64_t id)
{
	_cleanup_(pf_buf_release) struct pf_buf fragment = PF_BUF_INIT;

	if (id)
		put_u64(&fragment, 1, id);
	put_u64(&fragment, 4, 10);
	put_buf(b, 2, &fragment);
}

void table_add_fragment(struct pf_buf *extra, uint64_t id, const char *file, uint64_t said, int base)
{
	_cleanup_(pf_buf_release) struct pf_buf fragment = PF_BUF_INIT, data = PF_BUF_INIT;

	put_str(&data, 1, file);
	put_u64(&data, 4, 2); /* format 2.0 */
	if (said)
		put_u64(&data, 6, said);
	if (base >= 0)
		put_u64(&data, 7, (uint64_t)base);
	if (id)
		put_u64(&fragment, 1, id);
	put_buf(&fragment, 2, &data);
	put_u64(&fragment, 4, 10);
	put_buf(extra, 2, &fragment);
}

void table_add_base(struct pf_buf *extra, uint32_t id, bool is_dataset_root, const char *path)
{
	_cleanup_(pf_buf_release) struct pf_buf base = PF_BUF_INIT;

	if (id)
		put_u64(&base, 1, id);
	if (is_dataset_root)
		put_u64(&base, 3, 1);
	put_str(&base, 4, path);
	put_buf(extra, 18, &base);
}

static void put_timestamp(struct pf_buf *b, const struct table_version *t)
{
	_cleanup_(pf_buf_release) struct pf_buf time = PF_BUF_INIT;
	bool said = t->timestamp.sec || t->timestamp.nsec;

	put_u64(&time, 1, said ? (uint64_t)t->timestamp.sec : NEW_YEAR_2026 + t->version);
	if (t->timestamp.nsec)
		put_u64(&time, 2, (uint64_t)t->timestamp.nsec);
	put_buf(b, 7, &time);
}

static void put_writer(struct pf_buf *b, const char *version)
{
	_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT;

	if (!*version)
		return;
	put_str(&writer, 1, "lance");
	put_str(&writer, 2, version);
	put_buf(b, 13, &writer);
}

void table_manifest(const struct table_version *t, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf txn = PF_BUF_INIT, m = PF_BUF_INIT;
	uint64_t index_at = 0, txn_at = 0, base = out->len;
	bool is_inline = t->txn == TABLE_TXN_14 || t->txn == TABLE_TXN_12;
	char file[TABLE_NAME_MAX];

	if (t->leading)
		add(out, t->leading->data, t->leading->len);
	if (t->index)
		index_at = add_section(out, t->index) - base;
	if (is_inline) {
		table_txn(t, &txn);
		txn_at = add_section(out, &txn) - base;
	}

	for (unsigned i = 0; i < t->fragments; i++)
		put_fragment(&m, i);
	put_u64(&m, 3, t->version);
	if (t->index)
		put_u64(&m, 6, index_at);
	if (!t->no_timestamp)
		put_timestamp(&m, t);
	if (t->reader_flags)
		put_u64(&m, 9, t->reader_flags);
	if (t->writer_flags)
		put_u64(&m, 10, t->writer_flags);
	if (t->fragments)
		put_u64(&m, 11, t->fragments - 1);
	if (t->txn != TABLE_TXN_NONE) {
		txn_file(t, file);
		put_str(&m, 12, file);
	}
	put_writer(&m, t->writer ? t->writer : "14.0.2");
	if (t->branch)
		put_str(&m, 20, t->branch);
	if (is_inline)
		put_u64(&m, t->txn == TABLE_TXN_14 ? 23 : 21, txn_at);
	if (t->pins)
		add(&m, t->pins->data, t->pins->len);
	if (t->extra)
		add(&m, t->extra->data, t->extra->len);

	uint64_t manifest_at = add_section(out, &m) - base;
	add_le(out, manifest_at, 8);
	add_le(out, 0, 2);
	add_le(out, 2, 2);
	add(out, "LANC", 4);
}

void table_put(struct pf_store *st, const struct table_version *t)
{
	_cleanup_(pf_buf_release) struct pf_buf manifest = PF_BUF_INIT, txn = PF_BUF_INIT;
	char name[TABLE_NAME_MAX];

	table_txn(t, &txn);
	if (t->txn != TABLE_TXN_LOST && t->txn != TABLE_TXN_NONE)
		assert_int_equal(pf_store_mem_put(st, table_txn_name(t, name), txn.data, txn.len), 0);
	table_manifest(t, &manifest);
	assert_int_equal(pf_store_mem_put(st, table_manifest_name(t, name), manifest.data, manifest.len), 0);
}

struct pf_store *table_new(uint64_t n, const struct table_version *t)
{
	struct pf_store *st = NULL;

	assert_int_equal(pf_store_mem_new(&st), 0);
	for (uint64_t v = 1; v <= n; v++) {
		struct table_version one = *t;
		one.version = v;
		table_put(st, &one);
	}
	return st;
}

void table_put_branch(struct pf_store *st, const char *name, uint64_t parent, const char *id)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT, text = PF_BUF_INIT;

	assert_int_equal(pf_buf_addstr(&file, "_refs/branches/"), 0);
	for (const char *p = name; *p; p++)
		assert_int_equal(*p == '/' ? pf_buf_addstr(&file, "%2F") : pf_buf_addch(&file, *p), 0);
	assert_int_equal(pf_buf_addstr(&file, ".json"), 0);
	assert_int_equal(pf_buf_addf(&text,
				     "{\n  \"parentBranch\": null,\n  \"identifier\": {\n    \"version_mapping\": "
				     "[[%" PRIu64 ", \"%s\"]]\n  },\n  \"parentVersion\": %" PRIu64
				     ",\n  \"createAt\": %d,\n  \"manifestSize\": 100\n}",
				     parent, id, parent, NEW_YEAR_2026),
			 0);
	assert_int_equal(pf_store_mem_put(st, pf_buf_str(&file), text.data, text.len), 0);
}

struct listing {
	struct pf_store *st;
	const char *dir;
	char **names;
	size_t n;
};

static int add_name(void *arg, const char *name, bool is_dir)
{
	struct listing *l = arg;
	char *path = NULL;

	bool root = strcmp(l->dir, ".") == 0;
	assert_true(asprintf(&path, "%s%s%s", root ? "" : l->dir, root ? "" : "/", name) > 0);
	if (is_dir) {
		const char *dir = l->dir;
		l->dir = path;
		assert_int_equal(pf_store_list(l->st, path, add_name, l), 0);
		l->dir = dir;
		free(path);
		return 0;
	}
	l->names = reallocarray(l->names, l->n + 1, sizeof(*l->names));
	assert_non_null(l->names);
	l->names[l->n++] = path;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void table_list(struct pf_store *st, const char *dir, struct pf_buf *out)
{
	struct listing l = { .st = st, .dir = dir };

	assert_int_equal(pf_store_list(st, dir, add_name, &l), 0);
	if (l.n)
		qsort(l.names, l.n, sizeof(*l.names), by_name);
	for (size_t i = 0; i < l.n; i++) {
		assert_int_equal(pf_buf_addf(out, "%s\n", l.names[i]), 0);
		free(l.names[i]);
	}
	free(l.names);
}
