#include "fri_write.h"

#include <string.h>

#include "lance.pb-c.h"

#define DETAILS_TYPE "/lance.table.FragmentReuseIndexDetails"
#define MS_PER_S     1000
#define NS_PER_MS    1000000

/* proto3 writers leave zeros out. */
static int put_nonzero(struct pf_buf *b, uint32_t number, uint64_t v)
{
	return v ? pf_wire_put_u64(b, number, v) : 0;
}

static int put_digests(const struct pf_digest *v, size_t n, uint32_t number, struct pf_buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
		r = put_nonzero(&b, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__ID, v[i].id);
		if (r == 0)
			r = put_nonzero(&b, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__PHYSICAL_ROWS,
					v[i].physical_rows);
		if (r == 0)
			r = put_nonzero(&b,
					LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__NUM_DELETED_ROWS,
					v[i].deleted_rows);
		if (r == 0)
			r = pf_put_span(out, number, PF_SPAN_OF(&b));
	}
	return r;
}

static int put_group(const struct pf_move *v, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	int r = pf_put_span(&b, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__CHANGED_ROW_ADDRS, v->rows);
	if (r == 0)
		r = put_digests(v->from, v->n_from, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__OLD_FRAGMENTS,
				&b);
	if (r == 0)
		r = put_digests(v->to, v->n_to, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__NEW_FRAGMENTS, &b);
	return r < 0 ? r
		     : pf_put_span(out, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__VERSION__FIELD__GROUPS, PF_SPAN_OF(&b));
}

int pf_fri_put_version(uint64_t stamp, const struct pf_move *v, size_t n, struct pf_buf *content)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	int r = put_nonzero(&b, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__VERSION__FIELD__DATASET_VERSION, stamp);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_group(&v[i], &b);
	return r < 0 ? r
		     : pf_put_span(content, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__LEGACY_VERSIONS,
				   PF_SPAN_OF(&b));
}

int pf_fri_put_transition(const struct pf_move *v, struct pf_buf *content)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT, ordered = PF_BUF_INIT;

	int r = put_digests(v->from, v->n_from, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__SOURCES, &b);
	if (r == 0)
		r = put_digests(v->to, v->n_to, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__DESTINATIONS,
				&b);
	if (r == 0)
		r = pf_put_span(&ordered,
				LANCE__FRAGMENT_REUSE_INDEX_DETAILS__ORDERED_COMPACTION__FIELD__CHANGED_ROW_ADDRS,
				v->rows);
	if (r == 0)
		r = pf_put_span(&b, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__ORDERED_COMPACTION,
				PF_SPAN_OF(&ordered));
	return r < 0 ? r
		     : pf_put_span(content, LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__TRANSITIONS,
				   PF_SPAN_OF(&b));
}

int pf_fri_coverage(const struct pf_fri *f, size_t first, struct pf_bitmap **out)
{
	size_t n = 0;

	for (size_t g = first; g < f->n_groups; g++)
		n += f->groups[g].n_to + f->groups[g].n_from;
	_cleanup_(pf_freep) uint32_t *ids = reallocarray(NULL, n + 1, sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	n = 0;
	for (size_t g = first; g < f->n_groups; g++) {
		const struct pf_fri_group *group = &f->groups[g];
		for (size_t i = 0; i < group->n_to; i++)
			if (f->index_version != 0 || !pf_fri_source_of(f, (uint32_t)group->to[i].id, g + 1))
				ids[n++] = (uint32_t)group->to[i].id;
		for (size_t i = 0; f->index_version != 0 && i < group->n_from; i++)
			ids[n++] = (uint32_t)group->from[i].id;
	}
	return pf_bitmap_from(ids, n, out);
}

/* The last occurrence of a field that has a length, in a message that was decoded before; none: empty. */
static int find(struct pf_span message, uint32_t number, struct pf_span *out, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	int r;

	*out = (struct pf_span){ NULL, 0 };
	pf_message_init(&walk, message);
	while ((r = pf_message_next(&walk, &m, why)) > 0)
		if (m.number == number)
			*out = m.value;
	return r;
}

/* The details: of those that were there only the content changes. */
static int put_details(struct pf_span old, const struct pf_buf *content, bool external, struct pf_buf *out,
		       struct pf_why *why)
{
	const uint32_t in = LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FIELD__INLINE;
	const uint32_t beside = LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FIELD__EXTERNAL;
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT, field = PF_BUF_INIT;
	int r;

	if (external) {
		r = pf_wire_put_bytes(&file, LANCE__EXTERNAL_FILE__FIELD__PATH, PF_FRI_FILE, strlen(PF_FRI_FILE));
		if (r == 0)
			r = pf_wire_put_u64(&file, LANCE__EXTERNAL_FILE__FIELD__SIZE, content->len);
		if (r == 0)
			r = pf_put_span(&field, beside, PF_SPAN_OF(&file));
	} else {
		r = pf_put_span(&field, in, PF_SPAN_OF(content));
	}
	if (r < 0)
		return r;
	const struct pf_change v[] = {
		{ external ? beside : in, PF_SPAN_OF(&field) },
		{ .number = external ? in : beside },
	};
	return pf_message_change(old, v, ARRAY_LEN(v), out, why);
}

static int put_any(struct pf_span old, const struct pf_buf *content, bool external, struct pf_buf *out,
		   struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf details = PF_BUF_INIT, type = PF_BUF_INIT, value = PF_BUF_INIT;
	struct pf_span was, before;

	int r = find(old, LANCE__ANY__FIELD__TYPE_URL, &was, why);
	if (r == 0)
		r = find(old, LANCE__ANY__FIELD__VALUE, &before, why);
	if (r == 0)
		r = put_details(before, content, external, &details, why);
	if (r == 0)
		r = pf_wire_put_bytes(&type, LANCE__ANY__FIELD__TYPE_URL, was.n ? (const void *)was.p : DETAILS_TYPE,
				      was.n ? was.n : strlen(DETAILS_TYPE));
	if (r == 0)
		r = pf_put_span(&value, LANCE__ANY__FIELD__VALUE, PF_SPAN_OF(&details));
	if (r < 0)
		return r;
	const struct pf_change v[] = {
		{ LANCE__ANY__FIELD__TYPE_URL, PF_SPAN_OF(&type) },
		{ LANCE__ANY__FIELD__VALUE, PF_SPAN_OF(&value) },
	};
	return pf_message_change(old, v, ARRAY_LEN(v), out, why);
}

int pf_fri_put_details(struct pf_span entry, const struct pf_buf *content, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf any = PF_BUF_INIT;
	struct pf_span before;

	int r = find(entry, LANCE__INDEX_METADATA__FIELD__INDEX_DETAILS, &before, why);
	if (r == 0)
		r = put_any(before, content, content->len > PF_FRI_INLINE_MAX, &any, why);
	return r < 0 ? r : pf_put_span(out, LANCE__INDEX_METADATA__FIELD__INDEX_DETAILS, PF_SPAN_OF(&any));
}

/* What a new entry says, each as a whole field. */
struct parts {
	struct pf_buf id, name, version, bitmap, details, index_version, made;
};

static void parts_release(struct parts *p)
{
	pf_buf_release(&p->id);
	pf_buf_release(&p->name);
	pf_buf_release(&p->version);
	pf_buf_release(&p->bitmap);
	pf_buf_release(&p->details);
	pf_buf_release(&p->index_version);
	pf_buf_release(&p->made);
}

static int put_parts(const struct pf_next *x, const struct pf_uuid *id, const struct pf_fri *history,
		     const struct pf_bitmap *coverage, struct pf_time now, struct parts *p)
{
	_cleanup_(pf_buf_release) struct pf_buf uuid = PF_BUF_INIT, bytes = PF_BUF_INIT;
	Lance__UUID message = LANCE__UUID__INIT;
	uint64_t ms = now.sec < 0 ? 0 : (uint64_t)now.sec * MS_PER_S + (uint64_t)now.nsec / NS_PER_MS;

	message.has_uuid = true;
	message.uuid.data = (uint8_t *)(uintptr_t)id->b;
	message.uuid.len = sizeof(id->b);
	int r = pf_buf_reserve(&uuid, lance__uuid__get_packed_size(&message));
	if (r == 0) {
		uuid.len = lance__uuid__pack(&message, uuid.data);
		r = pf_put_span(&p->id, LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&uuid));
	}
	if (r == 0)
		r = pf_wire_put_bytes(&p->name, LANCE__INDEX_METADATA__FIELD__NAME, PF_FRI_NAME, strlen(PF_FRI_NAME));
	if (r == 0)
		r = put_nonzero(&p->version, LANCE__INDEX_METADATA__FIELD__DATASET_VERSION, x->version - 1);
	if (r == 0)
		r = pf_bitmap_encode(coverage, &bytes);
	if (r == 0)
		r = pf_put_span(&p->bitmap, LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&bytes));
	if (r == 0)
		r = pf_wire_put_u64(&p->index_version, LANCE__INDEX_METADATA__FIELD__INDEX_VERSION,
				    (uint64_t)history->index_version);
	if (r == 0)
		r = pf_wire_put_u64(&p->made, LANCE__INDEX_METADATA__FIELD__CREATED_AT, ms);
	return r;
}

/* Take the entry of the history out of x. *old: its message, which x keeps; empty if there was none. */
static void take_entry(struct pf_next *x, struct pf_span *old)
{
	*old = (struct pf_span){ NULL, 0 };
	for (size_t i = x->n_entries; i-- > 0;) {
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) != 0)
			continue;
		*old = x->entries[i].message;
		pf_next_drop_entry(x, i);
	}
}

int pf_fri_replace(struct pf_next *x, const struct pf_fri *history, const struct pf_bitmap *coverage,
		   struct pf_time now, struct pf_why *why)
{
	_cleanup_(parts_release) struct parts p = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, content = PF_BUF_INIT;
	struct pf_span old, kept;
	struct pf_uuid id;

	pf_uuid_new(&id);
	take_entry(x, &old);
	int r = put_parts(x, &id, history, coverage, now, &p);
	if (r == 0)
		r = pf_fri_put_details(old, &history->content, &p.details, why);
	if (r < 0)
		return r;
	const struct pf_change v[] = {
		{ LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&p.id) },
		{ LANCE__INDEX_METADATA__FIELD__NAME, PF_SPAN_OF(&p.name) },
		{ LANCE__INDEX_METADATA__FIELD__DATASET_VERSION, PF_SPAN_OF(&p.version) },
		{ LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&p.bitmap) },
		{ LANCE__INDEX_METADATA__FIELD__INDEX_DETAILS, PF_SPAN_OF(&p.details) },
		{ LANCE__INDEX_METADATA__FIELD__INDEX_VERSION, PF_SPAN_OF(&p.index_version) },
		{ LANCE__INDEX_METADATA__FIELD__CREATED_AT, PF_SPAN_OF(&p.made) },
		/* The new one is this table's own, whoever's the old one was. */
		{ .number = LANCE__INDEX_METADATA__FIELD__BASE_ID },
		{ .number = LANCE__INDEX_METADATA__FIELD__FILES },
	};
	r = pf_message_change(old, v, ARRAY_LEN(v), &message, why);
	if (r == 0)
		r = pf_next_add_entry(x, PF_SPAN_OF(&message), why);
	if (r < 0 || history->content.len <= PF_FRI_INLINE_MAX)
		return r;
	r = pf_buf_add(&content, history->content.data, history->content.len);
	if (r == 0)
		r = pf_next_keep(x, &content, &kept);
	if (r == 0) {
		x->history = kept;
		pf_uuid_format(&id, x->history_uuid);
	}
	return r;
}

static int names(const char *dir, const struct pf_next *x, struct pf_buf *folder, struct pf_buf *file)
{
	int r = pf_buf_addf(folder, "%s_indices/%s", dir, x->history_uuid);

	if (r == 0)
		r = pf_buf_addf(file, "%s_indices/%s/" PF_FRI_FILE, dir, x->history_uuid);
	return r < 0 || !pf_buf_str(folder) || !pf_buf_str(file) ? -ENOMEM : 0;
}

int pf_fri_write_file(struct pf_store *st, const char *folder, const char *file, struct pf_span content)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;

	int r = pf_store_mkdir(st, folder);
	if (r == 0)
		r = pf_store_create(st, file, &sg);
	if (r == 0)
		r = pf_stage_write(sg, content.p, content.n);
	if (r == 0)
		r = pf_stage_sync(sg);
	return r < 0 ? r : pf_store_sync_dir(st, folder);
}

int pf_fri_store(struct pf_store *st, const char *dir, const struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf folder = PF_BUF_INIT, file = PF_BUF_INIT;

	if (x->history.n == 0)
		return 0;
	int r = names(dir, x, &folder, &file);
	if (r < 0)
		return r;
	r = pf_fri_write_file(st, (char *)folder.data, (char *)file.data, x->history);
	if (r == 0)
		return 0;
	pf_fri_unstore(st, dir, x);
	return pf_why_set(why, r, "cannot write %s: %s", (char *)file.data, strerror(-r));
}

void pf_fri_unstore(struct pf_store *st, const char *dir, const struct pf_next *x)
{
	_cleanup_(pf_buf_release) struct pf_buf folder = PF_BUF_INIT, file = PF_BUF_INIT;

	if (x->history.n == 0 || names(dir, x, &folder, &file) < 0)
		return;
	/* What cannot be removed is an index directory that no version names: cleanup collects those. */
	pf_store_unlink(st, (char *)file.data);
	pf_store_remove(st, (char *)folder.data, true);
}
