#include "prepared.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/roster.h"
#include "core/rowaddr.h"
#include "core/store_mem.h"

static const char *const names[] = {
	"Append",	"Delete",	   "Overwrite",		"CreateIndex", "Rewrite",
	"Merge",	"Restore",	   "ReserveFragments",	"Update",      "Project",
	"UpdateConfig", "DataReplacement", "UpdateMemWalState", "Clone",       "UpdateBases",
	"DataOverlay"
};

static void put(struct pf_buf *b, uint32_t number, uint64_t v)
{
	assert_int_equal(pf_wire_put_u64(b, number, v), 0);
}

static void put_text(struct pf_buf *b, uint32_t number, const char *s)
{
	assert_int_equal(pf_wire_put_bytes(b, number, s, strlen(s)), 0);
}

static void put_buf(struct pf_buf *b, uint32_t number, const struct pf_buf *v)
{
	assert_int_equal(pf_wire_put_bytes(b, number, v->data, v->len), 0);
}

/* A data file of columns 0 to 2, or of one: "f.lance", or "f.lance=7" if it is said to have 7 bytes. */
static void put_file(struct pf_buf *b, uint32_t number, const char *path, int field)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	const uint8_t one[] = { (uint8_t)field };
	size_t n = strcspn(path, "=");

	assert_int_equal(pf_wire_put_bytes(&file, 1, path, n), 0);
	assert_int_equal(pf_wire_put_bytes(&file, 2, field < 0 ? (const void *)"\0\1\2" : one, field < 0 ? 3 : 1), 0);
	put(&file, 4, 2);
	if (path[n])
		put(&file, 6, strtoull(path + n + 1, NULL, 10));
	put_buf(b, number, &file);
}

void prepared_fragment(struct pf_buf *b, uint32_t number, uint64_t id, const char *file, uint64_t rows,
		       uint64_t deleted)
{
	_cleanup_(pf_buf_release) struct pf_buf fragment = PF_BUF_INIT, deletion = PF_BUF_INIT;

	if (id)
		put(&fragment, 1, id);
	put_file(&fragment, 2, file, -1);
	if (deleted) {
		put(&deletion, 1, 1); /* a bitmap */
		put(&deletion, 2, 1);
		put(&deletion, 3, 1);
		put(&deletion, 4, deleted);
		put_buf(&fragment, 3, &deletion);
	}
	put(&fragment, 4, rows);
	put_buf(b, number, &fragment);
}

void prepared_deletions(struct pf_store *st, uint64_t id, uint64_t deleted)
{
	/* A cookie of one container, which is of runs; key and count; one run from 0 on. */
	uint8_t bitmap[15] = { 0x3b, 0x30, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0 };
	char name[64];

	bitmap[7] = bitmap[13] = (uint8_t)(deleted - 1);
	bitmap[8] = bitmap[14] = (uint8_t)((deleted - 1) >> 8);
	snprintf(name, sizeof(name), "_deletions/%" PRIu64 "-1-1.bin", id);
	assert_int_equal(pf_store_mem_put(st, name, bitmap, sizeof(bitmap)), 0);
}

/* "7:x.lance", or an id alone. with_deletions: a deletion file 1-1 of one row. */
static void put_fragment(struct pf_buf *b, uint32_t number, const char *text, bool with_deletions)
{
	const char *colon = strchr(text, ':');

	prepared_fragment(b, number, strtoull(text, NULL, 10), colon ? colon + 1 : "f.lance", 10, with_deletions);
}

static void put_column(struct pf_buf *b, uint32_t number, unsigned id)
{
	_cleanup_(pf_buf_release) struct pf_buf column = PF_BUF_INIT;
	const char name[] = { (char)('a' + id), '\0' };

	put_text(&column, 2, name);
	put(&column, 3, id);
	put(&column, 4, UINT64_MAX); /* no parent */
	put_text(&column, 5, "int64");
	put_buf(b, number, &column);
}

/* Those of every table: 0 to 2. */
static void put_columns(struct pf_buf *b)
{
	for (unsigned i = 0; i < 3; i++)
		put_column(b, 2, i);
}

/* Numbers below 10, joined by slashes. */
static void put_columns_of(struct pf_buf *b, uint32_t number, const char *text)
{
	uint8_t v[8];
	size_t n = 0;

	for (; text && *text; text++)
		if (*text != '/')
			v[n++] = (uint8_t)(*text - '0');
	if (n)
		assert_int_equal(pf_wire_put_bytes(b, number, v, n), 0);
}

/* The uuid of an index is made of its name. */
static void put_index_id(struct pf_buf *b, uint32_t number, const char *name)
{
	_cleanup_(pf_buf_release) struct pf_buf id = PF_BUF_INIT;
	uint8_t uuid[16] = "index           ";

	memcpy(uuid + 6, name, strlen(name) < 10 ? strlen(name) : 10);
	assert_int_equal(pf_wire_put_bytes(&id, 1, uuid, 16), 0);
	put_buf(b, number, &id);
}

/* NAME:FIELD:FRAGMENTS */
static void put_index(struct pf_buf *b, uint32_t number, char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf index = PF_BUF_INIT, bitmap = PF_BUF_INIT, details = PF_BUF_INIT;
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *set = NULL;
	char *save, *name = strtok_r(text, ":", &save), *field = strtok_r(NULL, ":", &save),
		    *fragments = strtok_r(NULL, ":", &save), *carried = strtok_r(NULL, ":", &save);
	uint32_t v[16];
	size_t n = 0;

	put_index_id(&index, 1, name);
	put_columns_of(&index, 2, field);
	put_text(&index, 3, name);
	for (char *f = fragments ? strtok_r(fragments, ",", &save) : NULL; f && *f != '-';
	     f = strtok_r(NULL, ",", &save))
		v[n++] = (uint32_t)atoi(f);
	if (n) {
		assert_int_equal(pf_bitmap_from(v, n, &set), 0);
		assert_int_equal(pf_bitmap_encode(set, &bitmap), 0);
		put_buf(&index, 5, &bitmap);
	}
	if (strncmp(name, "ngram", 5) == 0) {
		put_text(&details, 1, "/lance.table.NGramIndexDetails");
		put_buf(&index, 6, &details);
	}
	if (strncmp(name, "based", 5) == 0)
		put(&index, 9, 1);
	put_columns_of(&index, 11, carried);
	put_buf(b, number, &index);
}

static void put_group(struct pf_buf *b, char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;
	uint64_t rows = 0;
	char *save;

	for (char *id = strtok_r(text, ",", &save); id; id = strtok_r(NULL, ",", &save), rows += 10)
		prepared_fragment(&group, 1, strtoull(id, NULL, 10), PREPARED_OLD, 10, 0);
	prepared_fragment(&group, 2, 0, "f.lance", rows, 0);
	put_buf(b, 3, &group);
}

/* OLD:NEW, names of indices. */
static void put_swap(struct pf_buf *b, char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf swap = PF_BUF_INIT;
	char *save, *old = strtok_r(text, ":", &save);

	put_index_id(&swap, 1, old);
	put_index_id(&swap, 2, strtok_r(NULL, ":", &save));
	put_buf(b, 4, &swap);
}

/* An entry of a map edit that is field `map` of the operation. */
static void put_edit(struct pf_buf *b, uint32_t map, const char *key, bool set, bool replace)
{
	_cleanup_(pf_buf_release) struct pf_buf edit = PF_BUF_INIT, entry = PF_BUF_INIT;

	put_text(&entry, 1, key);
	if (set)
		put_text(&entry, 2, "v");
	put_buf(&edit, 1, &entry);
	if (replace)
		put(&edit, 2, 1);
	put_buf(b, map, &edit);
}

static void put_field_edit(struct pf_buf *b, unsigned field)
{
	_cleanup_(pf_buf_release) struct pf_buf entry = PF_BUF_INIT;

	put(&entry, 1, field);
	put_edit(&entry, 2, "k", true, false);
	put_buf(b, 9, &entry);
}

static void put_config(struct pf_buf *b, char c, const char *rest)
{
	switch (c) {
	case 'c':
		put_edit(b, 6, rest, true, false);
		break;
	case 'd':
		put_edit(b, 6, rest, false, false);
		break;
	case 'R':
		put_edit(b, 6, rest, true, true);
		break;
	case 'o':
		put_edit(b, 1, rest, true, false);
		break;
	case 't':
		put_edit(b, 7, rest, true, false);
		break;
	case 's':
		put_edit(b, 8, rest, true, false);
		break;
	default:
		put_field_edit(b, (unsigned)atoi(rest));
	}
}

static void put_replacement(struct pf_buf *b, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;

	const char *field = strchr(text, ':') + 1, *said = strchr(field, '=');
	char path[32];

	snprintf(path, sizeof(path), "f.lance%s", said ? said : "");
	put(&group, 1, strtoull(text, NULL, 10));
	put_file(&group, 2, path, atoi(field));
	put_buf(b, 1, &group);
}

static void put_base(struct pf_buf *b, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf base = PF_BUF_INIT;

	put(&base, 1, strtoull(text, NULL, 10));
	put_text(&base, 4, strchr(text, ':') + 1);
	put_buf(b, 1, &base);
}

static void put_keys(struct pf_buf *b, uint64_t hash)
{
	_cleanup_(pf_buf_release) struct pf_buf filter = PF_BUF_INIT, exact = PF_BUF_INIT;

	put(&exact, 1, hash);
	assert_int_equal(pf_wire_put_bytes(&filter, 1, "\0", 1), 0);
	put_buf(&filter, 2, &exact);
	put_buf(b, 8, &filter);
}

static void put_update(struct pf_buf *b, char c, const char *rest)
{
	const uint8_t one[] = { (uint8_t)atoi(rest) };

	if (c == 'r')
		put(b, 1, strtoull(rest, NULL, 10));
	else if (c == 'u')
		put_fragment(b, 2, rest, true);
	else if (c == 'n')
		put_fragment(b, 3, rest, false);
	else if (c == 'f')
		assert_int_equal(pf_wire_put_bytes(b, 4, one, 1), 0);
	else if (c == 'i')
		put(b, 7, 1);
	else if (c == 'k')
		put_keys(b, strtoull(rest, NULL, 10));
}

static void put_part(struct pf_buf *b, unsigned operation, char *part)
{
	char c = part[0], *rest = part + 1;

	switch (operation) {
	case 100:
	case 102:
		if (c == 'c')
			put_columns(b);
		else
			put_fragment(b, 1, rest, false);
		break;
	case 101:
		if (c == 'r')
			put(b, 2, strtoull(rest, NULL, 10));
		else
			put_fragment(b, 1, rest, true);
		break;
	case 103:
		put_index(b, c == 'n' ? 1 : 2, rest);
		break;
	case 104:
		if (c == 's')
			put_swap(b, rest);
		else
			put_group(b, rest);
		break;
	case 105:
		if (c == 'c')
			put_columns(b);
		else if (c == 'p')
			put(b, 4, 1);
		else
			put_fragment(b, 1, rest, false);
		break;
	case 106:
	case 107:
		put(b, 1, strtoull(part, NULL, 10));
		break;
	case 108:
		put_update(b, c, rest);
		break;
	case 109:
		if (c == 'p')
			put(b, 2, 1);
		else
			put_column(b, 1, (unsigned)atoi(rest));
		break;
	case 110:
		put_config(b, c, rest);
		break;
	case 111:
		put_replacement(b, rest);
		break;
	case 114:
		put_base(b, rest);
		break;
	case 115: {
		_cleanup_(pf_buf_release) struct pf_buf group = PF_BUF_INIT;
		put(&group, 1, strtoull(rest, NULL, 10));
		put_buf(b, 1, &group);
		break;
	}
	default:
		fail_msg("no such part: %s", part);
	}
}

unsigned prepared_body(const char *text, struct pf_buf *out)
{
	char copy[256], *save, *name;
	unsigned operation = 0;

	assert_true(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	name = strtok_r(copy, " ", &save);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], name) == 0)
			operation = 100 + i;
	if (!operation) /* of a Lance of the future */
		return 117;
	for (char *part = strtok_r(NULL, " ", &save); part; part = strtok_r(NULL, " ", &save))
		put_part(out, operation, part);
	return operation;
}

void prepared_bytes(const char *text, uint64_t read_version, const char *uuid, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT;
	unsigned operation = prepared_body(text, &body);

	put(out, 1, read_version);
	if (uuid)
		put_text(out, 2, uuid);
	put_buf(out, operation, &body);
}

void prepared(const char *text, uint64_t read_version, const char *uuid, struct pf_operation *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	prepared_bytes(text, read_version, uuid, &bytes);
	if (pf_operation_decode(&bytes, out, &why) < 0)
		fail_msg("%s: %s", text, why.text);
}

const char *prepared_ids(struct pf_store *st, struct pf_buf *out)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_roster_release) struct pf_roster l = { 0 };

	pf_buf_reset(out);
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_manifest_reopen(st, m, &file, NULL), 0);
	assert_int_equal(pf_roster_read(&file->r, m, &l, NULL), 0);
	for (size_t i = 0; i < l.n; i++)
		pf_buf_addf(out, "%s%d%s", i ? " " : "", (int)l.v[i].id, l.v[i].facts & PF_SLOT_DELETIONS ? "-" : "");
	return pf_buf_str(out) ? (char *)out->data : "";
}
