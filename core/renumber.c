#include "renumber.h"

#include <inttypes.h>

#include "lance.pb-c.h"
#include "row_ids.h"
#include "rowaddr.h"

void pf_shifts_release(struct pf_shifts *s)
{
	free(s->v);
	*s = (struct pf_shifts){ 0 };
}

int pf_shifts_add(struct pf_shifts *s, uint64_t from, uint64_t to, uint64_t n)
{
	struct pf_shift *last = s->n ? &s->v[s->n - 1] : NULL;

	if (n == 0)
		return 0;
	if (last && last->from + last->n == from && last->to + last->n == to) {
		last->n += n;
		return 0;
	}
	if (s->n == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 8;
		struct pf_shift *v = reallocarray(s->v, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	s->v[s->n++] = (struct pf_shift){ from, to, n };
	return 0;
}

void pf_shifts_take_back(struct pf_shifts *s)
{
	if (s->n && --s->v[s->n - 1].n == 0)
		s->n--;
}

int pf_shifts_find(const struct pf_shifts *s, uint64_t number, uint64_t *out)
{
	size_t low = 0, high = s->n;

	if (number < s->first) {
		*out = number;
		return 0;
	}
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (number < s->v[mid].from)
			high = mid;
		else if (number - s->v[mid].from >= s->v[mid].n)
			low = mid + 1;
		else {
			*out = s->v[mid].to + (number - s->v[mid].from);
			return 0;
		}
	}
	return -ENOENT;
}

bool pf_shifts_move(const struct pf_shifts *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].from != s->v[i].to)
			return true;
	return false;
}

void pf_renumber_release(struct pf_renumber *r)
{
	pf_shifts_release(&r->fragments);
	pf_shifts_release(&r->rows);
	pf_shifts_release(&r->versions);
	pf_numbers_release(&r->moves);
	free(r->aliases);
}

static int find(const struct pf_shifts *s, uint64_t number, const char *what, uint64_t *out, struct pf_why *why)
{
	if (pf_shifts_find(s, number, out) == 0)
		return 0;
	return pf_why_set(why, -EINVAL, "it refers to %s %" PRIu64 ", which no version of the copy gave", what, number);
}

static int find_fragment(const struct pf_renumber *r, uint64_t id, uint64_t *out, struct pf_why *why)
{
	return find(&r->fragments, id, "fragment", out, why);
}

/* All numbers of l. 1 if any became another. */
static int shift_all(const struct pf_shifts *s, const char *what, struct pf_numbers *l, struct pf_why *why)
{
	bool changed = false;

	for (size_t i = 0; i < l->n; i++) {
		uint64_t to;
		int r = find(s, l->v[i], what, &to, why);
		if (r < 0)
			return r;
		changed |= to != l->v[i];
		l->v[i] = to;
	}
	return changed;
}

/* --- fragments --- */

static int in_a_file(const struct pf_fragment *f, const char *what, struct pf_why *why)
{
	return pf_why_set(why, -EOPNOTSUPP,
			  "fragment %" PRIu64 " has %s in a file, where they are not changed, and the table has others",
			  f->id, what);
}

/* 1 and the field of its row ids, if they are others. */
static int shift_row_ids(const struct pf_renumber *r, const struct pf_fragment *f, struct pf_buf *field,
			 struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf sequence = PF_BUF_INIT;
	uint64_t low, high;

	if (f->row_ids.kind == PF_LINEAGE_NONE || !pf_shifts_move(&r->rows))
		return 0;
	if (f->row_ids.kind != PF_LINEAGE_INLINE)
		return in_a_file(f, "row ids", why);
	int e = pf_row_ids_bounds(f->row_ids.bytes, &low, &high, why);
	if (e < 0 || low > high || high < r->rows.first)
		return e;
	e = pf_row_ids_read(f->row_ids.bytes, f->physical_rows, &ids, why);
	if (e == 0)
		e = shift_all(&r->rows, "row id", &ids, why);
	if (e <= 0)
		return e;
	e = pf_row_ids_put(ids.v, ids.n, &sequence);
	if (e == 0)
		e = pf_put_span(field, LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&sequence));
	return e < 0 ? e : 1;
}

/* The same of versions that made or changed its rows. */
static int shift_versions(const struct pf_renumber *r, const struct pf_fragment *f, const struct pf_lineage *l,
			  uint32_t number, struct pf_buf *field, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers versions = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf sequence = PF_BUF_INIT;

	if (l->kind == PF_LINEAGE_NONE || !pf_shifts_move(&r->versions))
		return 0;
	if (l->kind != PF_LINEAGE_INLINE)
		return in_a_file(f, "versions of its rows", why);
	int e = pf_row_versions_read(l->bytes, f->physical_rows, &versions, why);
	if (e == 0)
		e = shift_all(&r->versions, "version", &versions, why);
	if (e <= 0)
		return e;
	e = pf_row_versions_put(versions.v, versions.n, &sequence);
	if (e == 0)
		e = pf_put_span(field, number, PF_SPAN_OF(&sequence));
	return e < 0 ? e : 1;
}

/* `is_new`: 0 is no id. */
static int put_fragment(const struct pf_renumber *r, struct pf_span message, bool is_new, struct pf_buf *out,
			struct pf_why *why)
{
	const uint32_t made_number = LANCE__DATA_FRAGMENT__FIELD__INLINE_CREATED_AT_VERSIONS,
		       updated_number = LANCE__DATA_FRAGMENT__FIELD__INLINE_LAST_UPDATED_AT_VERSIONS;
	_cleanup_(pf_fragment_release) struct pf_fragment f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf id = PF_BUF_INIT, ids = PF_BUF_INIT, made = PF_BUF_INIT,
						updated = PF_BUF_INIT;
	struct pf_change v[4];
	uint64_t to = 0;
	size_t n = 0;

	int e = pf_fragment_decode(message, &f, why);
	if (e == 0 && !(is_new && f.id == 0))
		e = find_fragment(r, f.id, &to, why);
	if (e == 0 && to != f.id) {
		e = pf_wire_put_u64(&id, LANCE__DATA_FRAGMENT__FIELD__ID, to);
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__ID, PF_SPAN_OF(&id) };
	}
	if (e >= 0)
		e = shift_row_ids(r, &f, &ids, why);
	if (e > 0)
		v[n++] = (struct pf_change){ LANCE__DATA_FRAGMENT__FIELD__INLINE_ROW_IDS, PF_SPAN_OF(&ids) };
	if (e >= 0)
		e = shift_versions(r, &f, &f.created_at, made_number, &made, why);
	if (e > 0)
		v[n++] = (struct pf_change){ made_number, PF_SPAN_OF(&made) };
	if (e >= 0)
		e = shift_versions(r, &f, &f.updated_at, updated_number, &updated, why);
	if (e > 0)
		v[n++] = (struct pf_change){ updated_number, PF_SPAN_OF(&updated) };
	return e < 0 ? e : pf_message_change(message, v, n, out, why);
}

/* --- indices --- */

static int add_value(void *arg, uint32_t v)
{
	return pf_numbers_add(arg, v);
}

static int bitmap_ids(const struct pf_index *x, struct pf_numbers *out, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	int e = pf_bitmap_decode(x->bitmap.data, x->bitmap.len, &b, why);

	return e < 0 ? e : pf_bitmap_each(b, add_value, out);
}

static int put_bitmap(const struct pf_renumber *r, const struct pf_index *x, struct pf_buf *field, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	int e = bitmap_ids(x, &ids, why);
	if (e == 0)
		e = shift_all(&r->fragments, "fragment", &ids, why);
	if (e <= 0)
		return e;
	_cleanup_(pf_freep) uint32_t *v = calloc(ids.n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < ids.n; i++)
		v[i] = (uint32_t)ids.v[i];
	e = pf_bitmap_from(v, ids.n, &b);
	if (e == 0)
		e = pf_bitmap_encode(b, &bytes);
	if (e == 0)
		e = pf_put_span(field, LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&bytes));
	return e < 0 ? e : 1;
}

/* The version that an index was built on. What others moved before the table came to it, the index does not know of. */
static int built_on(const struct pf_renumber *r, uint64_t version, uint64_t *out, struct pf_why *why)
{
	int e = find(&r->versions, version, "version", out, why);

	for (size_t i = 0; e == 0 && version >= r->versions.first && i < r->moves.n; i++)
		if (r->moves.v[i] < *out) {
			*out = r->moves.v[i] - 1;
			break;
		}
	return e;
}

static const char *alias_of(const struct pf_renumber *r, const char *uuid)
{
	for (size_t i = 0; i < r->n_aliases; i++)
		if (strcmp(r->aliases[i].theirs, uuid) == 0)
			return r->aliases[i].ours;
	return NULL;
}

bool pf_renumber_drops(const struct pf_renumber *r, const struct pf_operation *o)
{
	return o->n_swaps > 0 && pf_shifts_move(&r->fragments);
}

int pf_renumber_remember(struct pf_renumber *r, const struct pf_operation *o)
{
	if (!pf_renumber_drops(r, o))
		return 0;
	struct pf_alias *v = reallocarray(r->aliases, r->n_aliases + o->n_swaps, sizeof(*v));
	if (!v)
		return -ENOMEM;
	r->aliases = v;
	for (size_t i = 0; i < o->n_swaps; i++) {
		struct pf_alias one;
		const char *ours = alias_of(r, o->swaps[i].from);
		memcpy(one.theirs, o->swaps[i].to, sizeof(one.theirs));
		memcpy(one.ours, ours ? ours : o->swaps[i].from, sizeof(one.ours));
		v[r->n_aliases++] = one;
	}
	return 0;
}

static int put_uuid(const char *text, struct pf_buf *field)
{
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT;
	struct pf_uuid id;

	int e = pf_uuid_parse(text, strlen(text), &id, NULL);
	if (e == 0)
		e = pf_wire_put_bytes(&message, 1, id.b, sizeof(id.b));
	return e < 0 ? e : pf_put_span(field, LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&message));
}

static int put_index(const struct pf_renumber *r, struct pf_span message, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices one = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT, version = PF_BUF_INIT, bitmap = PF_BUF_INIT,
						uuid = PF_BUF_INIT;
	struct pf_mem_reader mem;
	struct pf_change v[3];
	uint64_t to;
	size_t n = 0;

	int e = pf_put_span(&field, 1, message);
	if (e < 0)
		return e;
	pf_mem_reader_init(&mem, field.data, field.len);
	e = pf_indices_take(&mem.base, 0, field.len, 1, &one, why);
	if (e == 0)
		e = built_on(r, one.v[0].dataset_version, &to, why);
	if (e == 0 && to != one.v[0].dataset_version) {
		e = pf_wire_put_u64(&version, LANCE__INDEX_METADATA__FIELD__DATASET_VERSION, to);
		v[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__DATASET_VERSION, PF_SPAN_OF(&version) };
	}
	const char *alias = e == 0 ? alias_of(r, one.v[0].uuid) : NULL;
	if (alias) {
		e = put_uuid(alias, &uuid);
		v[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&uuid) };
	}
	if (e == 0 && one.v[0].has_bitmap)
		e = put_bitmap(r, &one.v[0], &bitmap, why);
	if (e > 0)
		v[n++] = (struct pf_change){ LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&bitmap) };
	return e < 0 ? e : pf_message_change(message, v, n, out, why);
}

/* --- operations --- */

/* What stands in a field of an operation. */
enum what { NUMBERS, OLD_FRAGMENT, NEW_FRAGMENT, INDEX, GROUP, REPLACEMENT, OFFSETS, SWAP };

static const struct rule {
	unsigned operation;
	uint32_t field;
	enum what what;
} rules[] = {
	{ LANCE__TRANSACTION__OPERATION__APPEND, LANCE__TRANSACTION__APPEND__FIELD__FRAGMENTS, NEW_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__DELETE, LANCE__TRANSACTION__DELETE__FIELD__UPDATED_FRAGMENTS, OLD_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__DELETE, LANCE__TRANSACTION__DELETE__FIELD__DELETED_FRAGMENT_IDS, NUMBERS },
	{ LANCE__TRANSACTION__OPERATION__OVERWRITE, LANCE__TRANSACTION__OVERWRITE__FIELD__FRAGMENTS, NEW_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__CREATE_INDEX, LANCE__TRANSACTION__CREATE_INDEX__FIELD__NEW_INDICES, INDEX },
	{ LANCE__TRANSACTION__OPERATION__CREATE_INDEX, LANCE__TRANSACTION__CREATE_INDEX__FIELD__REMOVED_INDICES,
	  INDEX },
	{ LANCE__TRANSACTION__OPERATION__REWRITE, LANCE__TRANSACTION__REWRITE__FIELD__OLD_FRAGMENTS, OLD_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__REWRITE, LANCE__TRANSACTION__REWRITE__FIELD__NEW_FRAGMENTS, NEW_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__REWRITE, LANCE__TRANSACTION__REWRITE__FIELD__GROUPS, GROUP },
	{ LANCE__TRANSACTION__OPERATION__REWRITE, LANCE__TRANSACTION__REWRITE__FIELD__REWRITTEN_INDICES, SWAP },
	{ LANCE__TRANSACTION__OPERATION__MERGE, LANCE__TRANSACTION__MERGE__FIELD__FRAGMENTS, OLD_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__UPDATE, LANCE__TRANSACTION__UPDATE__FIELD__REMOVED_FRAGMENT_IDS, NUMBERS },
	{ LANCE__TRANSACTION__OPERATION__UPDATE, LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_FRAGMENTS, OLD_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__UPDATE, LANCE__TRANSACTION__UPDATE__FIELD__NEW_FRAGMENTS, NEW_FRAGMENT },
	{ LANCE__TRANSACTION__OPERATION__UPDATE, LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_OFFSETS, OFFSETS },
	{ LANCE__TRANSACTION__OPERATION__UPDATE, LANCE__TRANSACTION__UPDATE__FIELD__UPDATED_OFFSET_BITMAPS, OFFSETS },
	{ LANCE__TRANSACTION__OPERATION__DATA_REPLACEMENT, LANCE__TRANSACTION__DATA_REPLACEMENT__FIELD__REPLACEMENTS,
	  REPLACEMENT },
};

static const struct rule *rule_of(unsigned operation, uint32_t field)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (rules[i].operation == operation && rules[i].field == field)
			return &rules[i];
	return NULL;
}

static int put_numbers(const struct pf_renumber *r, const struct pf_member *m, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers l = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf packed = PF_BUF_INIT;

	int e = pf_member_numbers(m, &l, why);
	if (e == 0)
		e = shift_all(&r->fragments, "fragment", &l, why);
	if (e < 0)
		return e;
	if (m->type == PF_WIRE_VARINT)
		return pf_wire_put_u64(out, m->number, l.v[0]);
	for (size_t i = 0; e >= 0 && i < l.n; i++)
		e = pf_wire_put_varint(&packed, l.v[i]);
	return e < 0 ? e : pf_put_span(out, m->number, PF_SPAN_OF(&packed));
}

/* A message whose field `number` is the id of a fragment. */
static int put_keyed(const struct pf_renumber *r, struct pf_span message, uint32_t number, struct pf_buf *out,
		     struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	struct pf_message walk;
	struct pf_member m;
	uint64_t id = 0, to;
	int e;

	pf_message_init(&walk, message);
	while ((e = pf_message_next(&walk, &m, why)) > 0)
		if (m.number == number && (e = pf_member_u64(&m, &id, why)) < 0)
			return e;
	if (e == 0)
		e = find_fragment(r, id, &to, why);
	if (e == 0 && to != id)
		e = pf_wire_put_u64(&field, number, to);
	if (e < 0)
		return e;
	const struct pf_change change = { number, PF_SPAN_OF(&field) };
	return pf_message_change(message, &change, to != id, out, why);
}

static int put_group(const struct pf_renumber *r, struct pf_span message, struct pf_buf *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int e;

	pf_message_init(&walk, message);
	while ((e = pf_message_next(&walk, &m, why)) > 0) {
		_cleanup_(pf_buf_release) struct pf_buf one = PF_BUF_INIT;
		bool is_new = m.number == LANCE__TRANSACTION__REWRITE__GROUP__FIELD__NEW_FRAGMENTS;
		if (!is_new && m.number != LANCE__TRANSACTION__REWRITE__GROUP__FIELD__OLD_FRAGMENTS) {
			e = pf_buf_add(out, m.whole.p, m.whole.n);
		} else {
			e = put_fragment(r, m.value, is_new, &one, why);
			if (e == 0)
				e = pf_put_span(out, m.number, PF_SPAN_OF(&one));
		}
		if (e < 0)
			return e;
	}
	return e;
}

static int put_message(const struct pf_renumber *r, enum what what, struct pf_span message, struct pf_buf *out,
		       struct pf_why *why)
{
	switch (what) {
	case OLD_FRAGMENT:
		return put_fragment(r, message, false, out, why);
	case NEW_FRAGMENT:
		return put_fragment(r, message, true, out, why);
	case INDEX:
		return put_index(r, message, out, why);
	case GROUP:
		return put_group(r, message, out, why);
	case REPLACEMENT:
		return put_keyed(r, message, LANCE__TRANSACTION__DATA_REPLACEMENT__GROUP__FIELD__FRAGMENT_ID, out, why);
	default: /* OFFSETS */
		return put_keyed(r, message, LANCE__MAP_ENTRY__FIELD__KEY, out, why);
	}
}

static int put_body(const struct pf_renumber *r, const struct pf_operation *o, struct pf_buf *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	struct pf_span message;
	int e;

	pf_message_init(&walk, o->body);
	while ((e = pf_message_next(&walk, &m, why)) > 0) {
		_cleanup_(pf_buf_release) struct pf_buf one = PF_BUF_INIT;
		const struct rule *rule = rule_of(o->number, m.number);
		if (!rule || (rule->what == SWAP && !pf_renumber_drops(r, o))) {
			e = pf_buf_add(out, m.whole.p, m.whole.n);
		} else if (rule->what == NUMBERS) {
			e = put_numbers(r, &m, out, why);
		} else if (rule->what != SWAP) {
			e = pf_member_span(&m, &message, why);
			if (e == 0)
				e = put_message(r, rule->what, message, &one, why);
			if (e == 0)
				e = pf_put_span(out, m.number, PF_SPAN_OF(&one));
		}
		if (e < 0)
			return e;
	}
	return e;
}

int pf_renumber_operation(const struct pf_renumber *r, const struct pf_operation *o, uint64_t read_version,
			  struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf body = PF_BUF_INIT, field = PF_BUF_INIT, version = PF_BUF_INIT;

	int e = put_body(r, o, &body, why);
	if (e == 0)
		e = pf_put_span(&field, o->number, PF_SPAN_OF(&body));
	if (e == 0)
		e = pf_wire_put_u64(&version, LANCE__TRANSACTION__FIELD__READ_VERSION, read_version);
	if (e < 0)
		return e;
	const struct pf_change v[] = {
		{ LANCE__TRANSACTION__FIELD__READ_VERSION, PF_SPAN_OF(&version) },
		{ o->number, PF_SPAN_OF(&field) },
	};
	return pf_message_change(PF_SPAN_OF(&o->bytes), v, ARRAY_LEN(v), out, why);
}

int pf_renumber_rows(const struct pf_renumber *r, struct pf_span rows, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_rows_release) struct pf_rows l = { NULL };

	if (!pf_shifts_move(&r->fragments))
		return pf_buf_add(out, rows.p, rows.n);
	int e = pf_rows_decode(rows.p, rows.n, true, &l, why);
	for (size_t i = 0; e == 0 && i < l.n; i++) {
		uint64_t to;
		e = find_fragment(r, l.fragment[i], &to, why);
		if (e == 0)
			l.fragment[i] = (uint32_t)to;
	}
	return e < 0 ? e : pf_rows_encode(&l, out);
}

/* --- what index files say --- */

/* Does it have rows whose numbers changed? One that does not say what it covers may. */
static int fits(const struct pf_renumber *r, const struct pf_index *x, struct pf_why *why)
{
	_cleanup_(pf_numbers_release) struct pf_numbers ids = { 0 };
	bool by_address = !r->stable || pf_index_has_addresses(x);

	if (!pf_shifts_move(by_address ? &r->fragments : &r->rows))
		return 0;
	int e = x->has_bitmap ? bitmap_ids(x, &ids, why) : 0;
	bool moved = !x->has_bitmap;
	for (size_t i = 0; e == 0 && !moved && i < ids.n; i++) {
		uint64_t to = ids.v[i];
		if (by_address)
			e = find_fragment(r, ids.v[i], &to, why);
		/* Whose row ids are the copy's own is not looked up: any of its fragments may have some. */
		moved = by_address ? to != ids.v[i] : ids.v[i] >= r->fragments.first;
	}
	if (e < 0 || !moved)
		return e;
	return pf_why_set(
		why, -EOPNOTSUPP,
		"the files of index %s %s refer to rows by numbers of the copy, and the table has given those to "
		"others meanwhile: leave it out with --skip-indices, and build it on the table",
		x->name, x->uuid);
}

int pf_renumber_check_indices(const struct pf_renumber *r, const struct pf_operation *o, struct pf_why *why)
{
	int e = 0;

	for (size_t i = 0; e == 0 && i < o->new_indices.n; i++)
		e = fits(r, &o->new_indices.v[i], why);
	return e;
}
