#include "moves.h"

#include <ctype.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire.h"

static void put_u64(struct pf_buf *b, uint32_t number, uint64_t v)
{
	assert_int_equal(pf_wire_put_u64(b, number, v), 0);
}

static void put_bytes(struct pf_buf *b, uint32_t number, const void *p, size_t n)
{
	assert_int_equal(pf_wire_put_bytes(b, number, p, n), 0);
}

static void put_buf(struct pf_buf *b, uint32_t number, const struct pf_buf *message)
{
	put_bytes(b, number, message->data, message->len);
}

static void put_le(struct pf_buf *b, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pf_buf_addch(b, (char)(v >> (8 * i))), 0);
}

void moves_digest(struct pf_buf *out, uint32_t number, uint64_t id, uint64_t rows, uint64_t deleted)
{
	_cleanup_(pf_buf_release) struct pf_buf m = PF_BUF_INIT;

	/* proto3 writers leave zeros out. */
	if (id)
		put_u64(&m, 1, id);
	if (rows)
		put_u64(&m, 2, rows);
	if (deleted)
		put_u64(&m, 3, deleted);
	put_buf(out, number, &m);
}

void moves_treemap(const struct moves_range *v, size_t n, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf parts = PF_BUF_INIT;
	uint64_t fragments = 0;

	for (size_t i = 0; i < n; fragments++) {
		_cleanup_(pf_buf_release) struct pf_buf runs = PF_BUF_INIT;
		uint32_t fragment = v[i].fragment, count = 0, n_runs = 0;

		while (i < n && v[i].fragment == fragment) {
			uint32_t first = v[i].first, last = v[i].last;

			/* Runs may not touch. */
			for (i++; i < n && v[i].fragment == fragment && v[i].first == last + 1; i++)
				last = v[i].last;
			put_le(&runs, first, 2);
			put_le(&runs, last - first, 2);
			count += last - first + 1;
			n_runs++;
		}
		/* One run container, key 0. */
		put_le(&parts, fragment, 4);
		put_le(&parts, 12347, 4);
		put_le(&parts, 1, 1);
		put_le(&parts, 0, 2);
		put_le(&parts, count - 1, 2);
		put_le(&parts, n_runs, 2);
		assert_int_equal(pf_buf_add(&parts, runs.data, runs.len), 0);
	}
	put_le(out, fragments, 8);
	assert_int_equal(pf_buf_add(out, parts.data, parts.len), 0);
}

#define RANGES_MAX 64

/* A group as the text has it. */
struct group {
	struct pf_buf from, to; /* digests, as fields 1 and 2 */
	struct moves_range v[RANGES_MAX];
	size_t n;
};

static void group_release(struct group *g)
{
	pf_buf_release(&g->from);
	pf_buf_release(&g->to);
}

static int by_fragment(const void *a, const void *b)
{
	const struct moves_range *x = a, *y = b;

	return (x->fragment > y->fragment) - (x->fragment < y->fragment);
}

static uint64_t number(const char **p)
{
	char *end;
	uint64_t v = strtoull(*p, &end, 10);

	if (end == *p)
		fail_msg("expected a number: %s", *p);
	*p = end;
	return v;
}

static bool eat(const char **p, char c)
{
	*p += strspn(*p, " ");
	if (**p != c)
		return false;
	++*p;
	return true;
}

static bool at_number(const char **p)
{
	*p += strspn(*p, " ");
	return **p >= '0' && **p <= '9';
}

static void parse_ranges(const char **p, struct group *g)
{
	for (g->n = 0; at_number(p); g->n++) {
		assert_true(g->n < RANGES_MAX);
		g->v[g->n].fragment = (uint32_t)number(p);
		assert_true(eat(p, ':'));
		g->v[g->n].first = (uint32_t)number(p);
		assert_true(eat(p, '-'));
		g->v[g->n].last = (uint32_t)number(p);
	}
}

/* Digests as fields `from` and `to`. */
static void parse_group(const char **p, struct group *g, uint32_t from, uint32_t to)
{
	for (int side = 0; side < 2; side++) {
		while (at_number(p)) {
			uint64_t id = number(p), rows, deleted = 0;

			assert_true(eat(p, ':'));
			rows = number(p);
			if (**p == ':') {
				++*p;
				deleted = number(p);
			}
			moves_digest(side ? &g->to : &g->from, side ? to : from, id, rows, deleted);
			if (side || deleted >= rows)
				continue;
			assert_true(g->n < RANGES_MAX);
			g->v[g->n++] = (struct moves_range){ (uint32_t)id, (uint32_t)deleted, (uint32_t)rows - 1 };
		}
		if (side == 0)
			assert_true(eat(p, '>'));
	}
	qsort(g->v, g->n, sizeof(g->v[0]), by_fragment);
	if (eat(p, '@'))
		parse_ranges(p, g);
}

static void put_legacy(const char **p, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf version = PF_BUF_INIT;
	uint64_t stamp = number(p);

	if (stamp)
		put_u64(&version, 1, stamp);
	do {
		_cleanup_(group_release) struct group g = { 0 };
		_cleanup_(pf_buf_release) struct pf_buf rows = PF_BUF_INIT, message = PF_BUF_INIT;

		parse_group(p, &g, 2, 3);
		moves_treemap(g.v, g.n, &rows);
		put_buf(&message, 1, &rows);
		assert_int_equal(pf_buf_add(&message, g.from.data, g.from.len), 0);
		assert_int_equal(pf_buf_add(&message, g.to.data, g.to.len), 0);
		put_buf(&version, 3, &message);
	} while (eat(p, '|'));
	put_buf(out, 1, &version);
}

const char *moves_map_id(unsigned place, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "0badcafe-0000-4000-9000-%012u", place);
	return out;
}

static void put_transition(const char **p, bool partition, unsigned place, struct pf_buf *out)
{
	_cleanup_(group_release) struct group g = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf rows = PF_BUF_INIT, mapping = PF_BUF_INIT, transition = PF_BUF_INIT;
	char id[PF_UUID_TEXT];
	uint64_t base = partition && isdigit(**p) ? number(p) : 0;

	parse_group(p, &g, 1, 2);
	assert_int_equal(pf_buf_add(&transition, g.from.data, g.from.len), 0);
	assert_int_equal(pf_buf_add(&transition, g.to.data, g.to.len), 0);
	if (partition) {
		moves_map_id(place, id);
		put_bytes(&mapping, 1, id, strlen(id));
		put_u64(&mapping, 2, 1000);
		if (base)
			put_u64(&mapping, 3, base);
	} else {
		moves_treemap(g.v, g.n, &rows);
		put_buf(&mapping, 1, &rows);
	}
	put_buf(&transition, partition ? 4 : 3, &mapping);
	put_buf(out, 2, &transition);
}

void moves_content(const char *text, struct pf_buf *out)
{
	const char *p = text;

	for (unsigned place = 0; *p; place++) {
		if (eat(&p, 'L'))
			put_legacy(&p, out);
		else if (eat(&p, 'T'))
			put_transition(&p, false, place, out);
		else if (eat(&p, 'P'))
			put_transition(&p, true, place, out);
		else
			fail_msg("expected L, T or P: %s", p);
		if (!eat(&p, ';') && *p)
			fail_msg("expected `;`: %s", p);
	}
}

void moves_details_inline(const struct pf_buf *content, struct pf_buf *out)
{
	put_buf(out, 1, content);
}

void moves_details_external(const char *path, uint64_t offset, uint64_t size, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;

	put_bytes(&file, 1, path, strlen(path));
	if (offset)
		put_u64(&file, 2, offset);
	if (size)
		put_u64(&file, 3, size);
	put_buf(out, 2, &file);
}

const char *moves_uuid(uint64_t n, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "0badcafe-0000-4000-a000-%012" PRIu64, n % 1000000000000);
	return out;
}

void moves_index(const struct moves_index *x, struct pf_buf *section)
{
	_cleanup_(pf_buf_release) struct pf_buf m = PF_BUF_INIT, any = PF_BUF_INIT, id = PF_BUF_INIT;
	char text[PF_UUID_TEXT];
	struct pf_uuid uuid;

	assert_int_equal(pf_uuid_parse(moves_uuid(x->uuid, text), PF_UUID_TEXT - 1, &uuid, NULL), 0);
	put_bytes(&id, 1, uuid.b, sizeof(uuid.b));
	put_buf(&m, 1, &id);
	put_bytes(&m, 3, x->name, strlen(x->name));
	if (x->dataset_version)
		put_u64(&m, 4, x->dataset_version);
	if (x->bitmap)
		put_buf(&m, 5, x->bitmap);
	if (x->type) {
		put_bytes(&any, 1, x->type, strlen(x->type));
		if (x->details)
			put_buf(&any, 2, x->details);
		put_buf(&m, 6, &any);
	}
	put_u64(&m, 7, (uint64_t)(int64_t)x->index_version);
	put_u64(&m, 8, 1767225600000);
	if (x->has_base)
		put_u64(&m, 9, x->base_id);
	put_buf(section, 1, &m);
}

static void describe_digests(struct pf_buf *out, const struct pf_digest *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		pf_buf_addf(out, " %lu:%lu:%lu", v[i].id, v[i].physical_rows, v[i].deleted_rows);
}

void moves_assert_history(const struct pf_fri *f, const char *expected)
{
	static const char *const names[] = { "v0", "ordered", "partition", "unknown" };
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	for (size_t i = 0; i < f->n_records; i++) {
		const struct pf_fri_record *record = &f->records[i];

		if (record->legacy)
			pf_buf_addf(&text, "stamp %lu", record->stamp);
		for (size_t k = 0; k < record->n_groups; k++) {
			const struct pf_fri_group *g = &record->groups[k];

			assert_int_equal(g->record, i);
			assert_int_equal(record->published, 0);
			pf_buf_addf(&text, " [%s", names[g->mapping]);
			describe_digests(&text, g->from, g->n_from);
			pf_buf_addstr(&text, " >");
			describe_digests(&text, g->to, g->n_to);
			pf_buf_addch(&text, ']');
		}
		pf_buf_addch(&text, '\n');
	}
	assert_string_equal(pf_buf_str(&text), expected);
}

void moves_decode(const char *text, int32_t version, struct pf_fri *out)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	moves_content(text, &bytes);
	if (pf_fri_decode(&bytes, version, out, &why) < 0)
		fail_msg("%s: %s", text, why.text);
}
