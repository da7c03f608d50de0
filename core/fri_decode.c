#include "fri.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fri_parts.h"
#include "lance.pb-c.h"

#define DIGESTS_MIN 4 /* a power of two */

struct decoding {
	struct pf_mem_reader mem;
	struct pf_wire w;
	struct pf_fri f;
	size_t records_cap, groups_cap;
};

static void decoding_release(struct decoding *d)
{
	pf_wire_release(&d->w);
	pf_fri_release(&d->f);
}

/* The first reason stays. */
static int unsupported(struct pf_fri *f, const struct pf_field *field, const char *where)
{
	if (f->unsupported)
		return 0;
	f->unsupported = true;
	if (asprintf(&f->unsupported_why, "offset %" PRIu64 ": field %" PRIu32 " %s is not known", field->start,
		     field->number, where) < 0) {
		f->unsupported_why = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int new_record(struct decoding *d, const struct pf_field *element, bool legacy)
{
	struct pf_fri *f = &d->f;

	if (f->n_records == d->records_cap) {
		size_t cap = d->records_cap ? 2 * d->records_cap : 16;
		struct pf_fri_record *v = reallocarray(f->records, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		f->records = v;
		d->records_cap = cap;
	}
	f->records[f->n_records++] = (struct pf_fri_record){
		.legacy = legacy,
		.off = element->start,
		.len = element->value + element->len - element->start,
	};
	return 0;
}

/* A group of the newest record. The pointer holds until the next one. */
static struct pf_fri_group *new_group(struct decoding *d)
{
	struct pf_fri *f = &d->f;

	if (f->n_groups == d->groups_cap) {
		size_t cap = d->groups_cap ? 2 * d->groups_cap : 16;
		struct pf_fri_group *v = reallocarray(f->groups, cap, sizeof(*v));

		if (!v)
			return NULL;
		f->groups = v;
		d->groups_cap = cap;
	}
	f->records[f->n_records - 1].n_groups++;
	struct pf_fri_group *g = &f->groups[f->n_groups++];
	*g = (struct pf_fri_group){ .record = f->n_records - 1 };
	return g;
}

static int take_digest(struct pf_wire *w, const struct pf_field *message, struct pf_digest **v, size_t *n,
		       struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(message, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	/* Room doubles where the count is a power of two, from DIGESTS_MIN on. */
	if (*n == 0 || (*n >= DIGESTS_MIN && (*n & (*n - 1)) == 0)) {
		struct pf_digest *more = reallocarray(*v, *n ? 2 * *n : DIGESTS_MIN, sizeof(*more));

		if (!more)
			return -ENOMEM;
		*v = more;
	}
	struct pf_digest *digest = &(*v)[(*n)++];
	*digest = (struct pf_digest){ 0 };

	uint64_t end = pf_wire_enter(w, message);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__ID)
			r = pf_wire_u64(&f, &digest->id, why);
		else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__PHYSICAL_ROWS)
			r = pf_wire_u64(&f, &digest->physical_rows, why);
		else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__NUM_DELETED_ROWS)
			r = pf_wire_u64(&f, &digest->deleted_rows, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

static int take_rows(const struct pf_field *f, struct pf_fri_group *g, struct pf_why *why)
{
	int r = pf_wire_expect(f, PF_WIRE_LEN, why);

	if (r == 0)
		g->rows = (struct pf_section){ true, f->value, f->len };
	return r;
}

static int take_group(struct decoding *d, const struct pf_field *message, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(message, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	struct pf_fri_group *g = new_group(d);
	if (!g)
		return -ENOMEM;
	uint64_t end = pf_wire_enter(&d->w, message);
	while ((r = pf_wire_next(&d->w, &f, why)) > 0) {
		if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__CHANGED_ROW_ADDRS)
			r = take_rows(&f, g, why);
		else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__OLD_FRAGMENTS)
			r = take_digest(&d->w, &f, &g->from, &g->n_from, why);
		else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__NEW_FRAGMENTS)
			r = take_digest(&d->w, &f, &g->to, &g->n_to, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(&d->w, end);
	return r;
}

static int take_version(struct decoding *d, const struct pf_field *element, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(element, PF_WIRE_LEN, why);

	if (r == 0)
		r = new_record(d, element, true);
	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(&d->w, element);
	while ((r = pf_wire_next(&d->w, &f, why)) > 0) {
		if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__VERSION__FIELD__DATASET_VERSION)
			r = pf_wire_u64(&f, &d->f.records[d->f.n_records - 1].stamp, why);
		else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__VERSION__FIELD__GROUPS)
			r = take_group(d, &f, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(&d->w, end);
	return r;
}

static int take_ordered(struct pf_wire *w, const struct pf_field *message, struct pf_fri_group *g, struct pf_why *why)
{
	struct pf_field f;
	int r;

	g->mapping = PF_MAPPING_ORDERED;
	uint64_t end = pf_wire_enter(w, message);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__ORDERED_COMPACTION__FIELD__CHANGED_ROW_ADDRS)
			r = take_rows(&f, g, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	return r;
}

/* With hyphens or without: Lance takes both, and makes a path of it as it stands. */
static bool is_map_id(const char *s, size_t len)
{
	if (len != 36 && len != 32)
		return false;
	for (size_t i = 0; i < len; i++) {
		bool hyphen = len == 36 && (i == 8 || i == 13 || i == 18 || i == 23);

		if (hyphen ? s[i] != '-' : !strchr("0123456789abcdefABCDEF", s[i]) || !s[i])
			return false;
	}
	return true;
}

static int take_map_id(struct pf_wire *w, const struct pf_field *f, struct pf_fri_group *g, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	int r = pf_wire_payload(w->r, f, f->len, &raw, why);

	if (r < 0)
		return r;
	const char *s = pf_buf_str(&raw);
	if (!s)
		return -ENOMEM;
	if (!is_map_id(s, raw.len))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a uuid as map_id, found %s", f->start,
				  pf_text_quote(s, raw.len, quoted));
	memcpy(g->map_id, s, raw.len + 1);
	return 0;
}

static int take_partition(struct pf_wire *w, const struct pf_field *message, struct pf_fri_group *g, struct pf_why *why)
{
	uint64_t base = 0;
	struct pf_field f;
	int r;

	g->mapping = PF_MAPPING_PARTITION;
	uint64_t end = pf_wire_enter(w, message);
	while ((r = pf_wire_next(w, &f, why)) > 0) {
		if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__STABLE_PARTITION__FIELD__MAP_ID) {
			r = take_map_id(w, &f, g, why);
		} else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__STABLE_PARTITION__FIELD__MAP_SIZE_BYTES) {
			r = pf_wire_u64(&f, &g->map_size, why);
		} else if (f.number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__STABLE_PARTITION__FIELD__BASE_ID) {
			r = pf_wire_u64(&f, &base, why);
			g->has_base = true;
			g->base_id = (uint32_t)base;
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(w, end);
	if (r < 0)
		return r;
	if (!g->map_id[0])
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a map_id, found none", message->start);
	if (g->map_size == 0)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a map_size_bytes above 0",
				  message->start);
	return 0;
}

static int take_mapping(struct pf_wire *w, const struct pf_field *f, struct pf_fri_group *g, struct pf_why *why)
{
	int r = pf_wire_expect(f, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	if (g->mapping != PF_MAPPING_UNKNOWN)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected one mapping, found another", f->start);
	return f->number == LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__ORDERED_COMPACTION
		       ? take_ordered(w, f, g, why)
		       : take_partition(w, f, g, why);
}

static int take_transition(struct decoding *d, const struct pf_field *element, struct pf_why *why)
{
	struct pf_field f, unknown = { 0 };
	int r = pf_wire_expect(element, PF_WIRE_LEN, why);

	if (r == 0)
		r = new_record(d, element, false);
	if (r < 0)
		return r;
	struct pf_fri_group *g = new_group(d);
	if (!g)
		return -ENOMEM;
	g->mapping = PF_MAPPING_UNKNOWN;

	uint64_t end = pf_wire_enter(&d->w, element);
	while ((r = pf_wire_next(&d->w, &f, why)) > 0) {
		switch (f.number) {
		case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__SOURCES:
			r = take_digest(&d->w, &f, &g->from, &g->n_from, why);
			break;
		case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__DESTINATIONS:
			r = take_digest(&d->w, &f, &g->to, &g->n_to, why);
			break;
		case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__ORDERED_COMPACTION:
		case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__STABLE_PARTITION:
			r = take_mapping(&d->w, &f, g, why);
			break;
		default:
			unknown = f;
		}
		if (r < 0)
			return r;
	}
	pf_wire_leave(&d->w, end);
	if (r < 0)
		return r;
	if (unknown.number) {
		/* It may be a mapping or change one, so nothing of this transition can be taken at its word. */
		g->mapping = PF_MAPPING_UNKNOWN;
		g->n_from = g->n_to = 0;
		return unsupported(&d->f, &unknown, "of a transition");
	}
	if (g->mapping == PF_MAPPING_UNKNOWN)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a mapping, found none", element->start);
	return 0;
}

static int take_element(struct decoding *d, const struct pf_field *f, struct pf_why *why)
{
	switch (f->number) {
	case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__LEGACY_VERSIONS:
		return take_version(d, f, why);
	case LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__TRANSITIONS:
		/* To v0 it is a field like any unknown one, but the next tagged write would make it count. */
		return d->f.index_version ? take_transition(d, f, why) : unsupported(&d->f, f, "of a v0 history");
	default:
		return unsupported(&d->f, f, "of the history");
	}
}

int pf_fri_decode(struct pf_buf *content, int32_t index_version, struct pf_fri *out, struct pf_why *why)
{
	_cleanup_(decoding_release) struct decoding d = { .f.index_version = index_version };
	struct pf_field f;
	int r = pf_fri_version_check(index_version, why);

	if (r < 0)
		return r;
	pf_mem_reader_init(&d.mem, content->data, content->len);
	pf_wire_init(&d.w, &d.mem.base, 0, content->len);
	while ((r = pf_wire_next(&d.w, &f, why)) > 0) {
		r = take_element(&d, &f, why);
		if (r < 0)
			break;
	}
	if (r < 0)
		return r;
	struct pf_fri_group *g = d.f.groups;
	for (size_t i = 0; i < d.f.n_records; i++) {
		d.f.records[i].groups = g;
		g += d.f.records[i].n_groups;
	}
	d.f.content = *content;
	r = pf_fri_check(&d.f, why);
	if (r < 0) {
		d.f.content = (struct pf_buf)PF_BUF_INIT; /* stays the caller's */
		return r;
	}
	*content = (struct pf_buf)PF_BUF_INIT;
	*out = d.f;
	d.f = (struct pf_fri){ 0 };
	return 0;
}
