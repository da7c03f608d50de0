#include "next.h"

#include <inttypes.h>

#include "flags.h"
#include "lance.pb-c.h"

void pf_next_release(struct pf_next *x)
{
	for (size_t i = 0; i < x->n_entries; i++)
		pf_index_release(&x->entries[i].x);
	for (size_t i = 0; i < x->n_kept; i++)
		free(x->kept[i]);
	free(x->entries);
	free(x->kept);
	free(x->fields);
	free(x->pieces);
	free(x->patches);
	free(x->patch_pieces);
	pf_roster_release(&x->roster);
	pf_roster_release(&x->gone);
	pf_buf_release(&x->section);
	pf_file_close(x->file);
	*x = (struct pf_next){ 0 };
}

int pf_next_keep(struct pf_next *x, struct pf_buf *b, struct pf_span *out)
{
	if (x->n_kept == x->cap_kept) {
		size_t cap = x->cap_kept ? 2 * x->cap_kept : 64;
		uint8_t **v = reallocarray(x->kept, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		x->kept = v;
		x->cap_kept = cap;
	}
	*out = PF_SPAN_OF(b);
	x->kept[x->n_kept++] = b->data;
	*b = (struct pf_buf)PF_BUF_INIT;
	return 0;
}

int pf_manifest_get_field(struct pf_reader *r, const struct pf_manifest *m, uint32_t number, struct pf_buf *out,
			  struct pf_why *why)
{
	for (size_t i = 0; i < m->n_runs; i++) {
		const struct pf_run *run = &m->runs[i];
		if (run->number != number)
			continue;
		int e = pf_buf_reserve(out, (size_t)run->len);
		if (e == 0)
			e = r->read(r, run->off, out->data + out->len, (size_t)run->len);
		if (e < 0)
			return pf_why_set(why, e, "%s: cannot read field %" PRIu32 ": %s", m->name, number,
					  strerror(-e));
		out->len += (size_t)run->len;
	}
	return 0;
}

int pf_manifest_get_u64(struct pf_reader *r, const struct pf_manifest *m, uint32_t number, bool *has, uint64_t *out,
			struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf raw = PF_BUF_INIT;
	struct pf_message walk;
	struct pf_member f;

	*has = false;
	*out = 0;
	int e = pf_manifest_get_field(r, m, number, &raw, why);
	if (e < 0)
		return e;
	pf_message_init(&walk, PF_SPAN_OF(&raw));
	while ((e = pf_message_next(&walk, &f, why)) > 0) {
		e = pf_member_u64(&f, out, why);
		if (e < 0)
			return e;
		*has = true;
	}
	return e;
}

static struct pf_next_field *field_of(struct pf_next *x, uint32_t number)
{
	for (size_t i = 0; i < x->n_fields; i++)
		if (x->fields[i].number == number)
			return &x->fields[i];
	return NULL;
}

int pf_next_get_field(struct pf_next *x, uint32_t number, struct pf_buf *out, struct pf_why *why)
{
	const struct pf_next_field *f = field_of(x, number);

	if (f)
		return pf_buf_add(out, f->bytes.p, f->bytes.n);
	return pf_manifest_get_field(&x->file->r, x->from, number, out, why);
}

int pf_next_set_field(struct pf_next *x, uint32_t number, struct pf_buf *b)
{
	struct pf_next_field *f = field_of(x, number);
	struct pf_span bytes;

	if (!f) {
		f = reallocarray(x->fields, x->n_fields + 1, sizeof(*f));
		if (!f)
			return -ENOMEM;
		x->fields = f;
	}
	int r = pf_next_keep(x, b, &bytes);
	if (r < 0)
		return r;
	f = field_of(x, number);
	if (!f)
		f = &x->fields[x->n_fields++];
	*f = (struct pf_next_field){ number, bytes };
	return 0;
}

int pf_next_load(struct pf_next *x, const struct pf_slot *s, struct pf_buf *out, struct pf_why *why)
{
	return pf_slot_load(&x->file->r, s, out, why);
}

/* The message as a fragment field of the manifest, kept. */
static int wrap(struct pf_next *x, struct pf_span message, struct pf_span *out)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	int r = pf_put_span(&field, LANCE__MANIFEST__FIELD__FRAGMENTS, message);

	return r < 0 ? r : pf_next_keep(x, &field, out);
}

int pf_next_add_fragment(struct pf_next *x, struct pf_span message, struct pf_why *why)
{
	struct pf_span field;
	int r = wrap(x, message, &field);

	x->fragments_changed = true;
	return r < 0 ? r : pf_roster_add(&x->roster, field, why);
}

int pf_next_replace_fragment(struct pf_next *x, struct pf_slot *s, struct pf_span message, struct pf_why *why)
{
	struct pf_span field;
	int r = wrap(x, message, &field);

	x->fragments_changed = true;
	return r < 0 ? r : pf_slot_replace(s, field, why);
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t u = *(const uint64_t *)a, v = *(const uint64_t *)b;

	return u < v ? -1 : u > v;
}

int pf_next_remove_fragments(struct pf_next *x, const struct pf_numbers *ids)
{
	size_t n = 0, end = x->gone.n;

	if (ids && ids->n == 0)
		return 0;
	if (ids)
		qsort(ids->v, ids->n, sizeof(*ids->v), cmp_u64);
	struct pf_slot *gone = reallocarray(x->gone.v, end + (ids ? ids->n : 0) + 1, sizeof(*gone));
	if (!gone)
		return -ENOMEM;
	x->gone.v = gone;
	for (size_t i = 0; ids && i < x->roster.n; i++) {
		if (!bsearch(&x->roster.v[i].id, ids->v, ids->n, sizeof(*ids->v), cmp_u64))
			x->roster.v[n++] = x->roster.v[i];
		else if (x->gone.n < end + ids->n)
			x->gone.v[x->gone.n++] = x->roster.v[i];
	}
	pf_roster_sort(&x->gone);
	if (n != x->roster.n)
		x->fragments_changed = true;
	x->roster.n = n;
	return 0;
}

static int push_entry(struct pf_next *x, struct pf_index *index, struct pf_span message)
{
	if (x->n_entries == x->cap_entries) {
		size_t cap = x->cap_entries ? 2 * x->cap_entries : 8;
		struct pf_entry *v = reallocarray(x->entries, cap, sizeof(*v));

		if (!v)
			return -ENOMEM;
		x->entries = v;
		x->cap_entries = cap;
	}
	x->entries[x->n_entries++] = (struct pf_entry){ *index, message };
	*index = (struct pf_index){ 0 };
	return 0;
}

/* The one index of a field whose bytes are `field`, and its message. */
static int decode_entry(struct pf_span field, struct pf_indices *out, struct pf_span *message, struct pf_why *why)
{
	struct pf_message walk;
	struct pf_member m;
	struct pf_mem_reader mem;

	pf_message_init(&walk, field);
	int r = pf_message_next(&walk, &m, why);
	if (r > 0)
		r = pf_member_span(&m, message, why);
	if (r < 0)
		return r;
	pf_mem_reader_init(&mem, field.p, field.n);
	return pf_indices_take(&mem.base, 0, field.n, LANCE__INDEX_SECTION__FIELD__INDICES, out, why);
}

int pf_next_add_entry(struct pf_next *x, struct pf_span message, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices one = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	struct pf_span kept, inner;

	int r = pf_put_span(&field, LANCE__INDEX_SECTION__FIELD__INDICES, message);
	if (r == 0)
		r = pf_next_keep(x, &field, &kept);
	if (r == 0)
		r = decode_entry(kept, &one, &inner, why);
	if (r == 0)
		r = push_entry(x, &one.v[0], inner);
	x->indices_changed = true;
	return r;
}

void pf_next_drop_entry(struct pf_next *x, size_t i)
{
	pf_index_release(&x->entries[i].x);
	memmove(&x->entries[i], &x->entries[i + 1], (--x->n_entries - i) * sizeof(*x->entries));
	x->indices_changed = true;
}

int pf_next_change_entry(struct pf_next *x, size_t i, const struct pf_change *v, size_t n, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices one = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, field = PF_BUF_INIT;
	struct pf_span kept, inner;

	int r = pf_message_change(x->entries[i].message, v, n, &message, why);
	if (r == 0)
		r = pf_put_span(&field, LANCE__INDEX_SECTION__FIELD__INDICES, PF_SPAN_OF(&message));
	if (r == 0)
		r = pf_next_keep(x, &field, &kept);
	if (r == 0)
		r = decode_entry(kept, &one, &inner, why);
	if (r < 0)
		return r;
	pf_index_release(&x->entries[i].x);
	x->entries[i] = (struct pf_entry){ one.v[0], inner };
	one.v[0] = (struct pf_index){ 0 };
	x->indices_changed = true;
	return 0;
}

int pf_entry_bitmap(const struct pf_entry *e, struct pf_bitmap **out, struct pf_why *why)
{
	*out = NULL;
	if (!e->x.has_bitmap)
		return 0;
	int r = pf_bitmap_decode(e->x.bitmap.data, e->x.bitmap.len, out, why);
	return r < 0 ? pf_why_prefix(why, r, "fragment bitmap of index %s", e->x.uuid) : 0;
}

int pf_next_set_bitmap(struct pf_next *x, size_t i, const struct pf_bitmap *b, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT, field = PF_BUF_INIT;

	int r = pf_bitmap_encode(b, &bytes);
	if (r == 0)
		r = pf_put_span(&field, LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&bytes));
	if (r < 0)
		return r;
	const struct pf_change change = { LANCE__INDEX_METADATA__FIELD__FRAGMENT_BITMAP, PF_SPAN_OF(&field) };
	return pf_next_change_entry(x, i, &change, 1, why);
}

static int read_entries(struct pf_next *x, struct pf_why *why)
{
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
	const struct pf_section *s = &x->from->index;
	struct pf_mem_reader mem;
	struct pf_message walk;
	struct pf_member m;
	size_t i = 0;

	if (!s->present)
		return 0;
	int r = pf_buf_reserve(&x->section, (size_t)s->len);
	if (r == 0 && s->len)
		r = x->file->r.read(&x->file->r, s->off, x->section.data, (size_t)s->len);
	if (r < 0)
		return r;
	x->section.len = (size_t)s->len;
	pf_mem_reader_init(&mem, x->section.data, x->section.len);
	r = pf_indices_take(&mem.base, 0, x->section.len, LANCE__INDEX_SECTION__FIELD__INDICES, &l, why);
	if (r < 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(&x->section));
	while ((r = pf_message_next(&walk, &m, why)) > 0) {
		if (m.number != LANCE__INDEX_SECTION__FIELD__INDICES)
			continue;
		r = push_entry(x, &l.v[i++], m.value);
		if (r < 0)
			return r;
	}
	return r;
}

static int read_from(struct pf_next *x, struct pf_why *why)
{
	struct pf_reader *rd = &x->file->r;
	bool has;

	int r = pf_manifest_get_u64(rd, x->from, LANCE__MANIFEST__FIELD__NEXT_ROW_ID, &has, &x->next_row_id, why);
	if (r == 0)
		r = pf_manifest_get_u64(rd, x->from, LANCE__MANIFEST__FIELD__MAX_FRAGMENT_ID, &x->has_max_fragment_id,
					&x->max_fragment_id, why);
	if (r == 0)
		r = pf_roster_read(rd, x->from, &x->roster, why);
	if (r == 0)
		r = read_entries(x, why);
	return r;
}

int pf_next_init_staged(struct pf_next *x, struct pf_store *st, const struct pf_manifest *base,
			const struct pf_manifest *staged, struct pf_why *why)
{
	*x = (struct pf_next){
		.base = base,
		.from = staged,
		.version = base->version + 1,
		.stable = staged->reader_flags & PF_FLAG_STABLE_ROW_IDS,
		.sticky = base->writer_flags & PF_FLAGS_STICKY,
	};
	int r = pf_manifest_reopen(st, staged, &x->file, why);
	if (r == 0)
		r = read_from(x, why);
	if (r < 0)
		pf_next_release(x);
	return r;
}

int pf_next_init(struct pf_next *x, struct pf_store *st, const struct pf_manifest *base, const struct pf_manifest *from,
		 struct pf_why *why)
{
	*x = (struct pf_next){ 0 };
	int r = pf_flags_committable(base, why);
	if (r == 0 && from)
		r = pf_flags_committable(from, why);
	return r < 0 ? r : pf_next_init_staged(x, st, base, from ? from : base, why);
}

/* Ids are in order and each stands once. Fragments without a live row go, as Lance drops them. */
static int settle_fragments(struct pf_next *x, struct pf_why *why)
{
	size_t n = 0;

	pf_roster_sort(&x->roster);
	for (size_t i = 1; i < x->roster.n; i++)
		if (x->roster.v[i].id == x->roster.v[i - 1].id)
			return pf_why_set(why, -EINVAL, "there would be two fragments with the id %" PRIu64,
					  x->roster.v[i].id);
	if (x->roster.n) {
		uint64_t last = x->roster.v[x->roster.n - 1].id;
		if (!x->has_max_fragment_id || last > x->max_fragment_id)
			x->max_fragment_id = last;
		x->has_max_fragment_id = true;
	}
	if (x->max_fragment_id >= UINT32_MAX)
		return pf_why_set(why, -EOPNOTSUPP, "no fragment id is left: they end at 2^32 - 2");
	for (size_t i = 0; i < x->roster.n; i++)
		if (!(x->roster.v[i].facts & PF_SLOT_EMPTY))
			x->roster.v[n++] = x->roster.v[i];
	x->fragments_changed |= n != x->roster.n;
	x->roster.n = n;
	return 0;
}

/* Does any occurrence of this field stand in the next manifest? */
static bool has_field(struct pf_next *x, uint32_t number)
{
	const struct pf_next_field *f = field_of(x, number);

	if (f)
		return f->bytes.n > 0;
	for (size_t i = 0; i < x->from->n_runs; i++)
		if (x->from->runs[i].number == number)
			return true;
	return false;
}

int pf_next_check_history(const struct pf_next *x, struct pf_why *why)
{
	for (size_t i = 0; x->stable && i < x->n_entries; i++)
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) == 0)
			return pf_why_set(
				why, -EOPNOTSUPP,
				"the table has stable row ids and a history of moved rows, which no release of Lance "
				"commits to");
	return 0;
}

static int compute_flags(struct pf_next *x, uint64_t *reader, uint64_t *writer, struct pf_why *why)
{
	uint64_t both = x->sticky & PF_FLAGS_PAIRED;
	unsigned any = 0, all = PF_SLOT_ROW_IDS;

	for (size_t i = 0; i < x->roster.n; i++) {
		any |= x->roster.v[i].facts;
		all &= x->roster.v[i].facts;
	}
	if (any & PF_SLOT_DELETIONS)
		both |= PF_FLAG_DELETION_FILES;
	if (any & PF_SLOT_COLUMN)
		both |= PF_FLAG_HIDDEN_LINEAGE;
	if ((any & PF_SLOT_ROW_IDS) || x->stable) {
		if (x->roster.n && !(all & PF_SLOT_ROW_IDS))
			return pf_why_set(why, -EINVAL, "some fragments would have row ids and some none");
		both |= PF_FLAG_STABLE_ROW_IDS;
	}
	if (has_field(x, LANCE__MANIFEST__FIELD__BASE_PATHS))
		both |= PF_FLAG_BASE_PATHS;
	for (size_t i = 0; i < x->n_entries; i++) {
		if (x->entries[i].x.n_covering)
			both |= PF_FLAG_COVERED_INDEX;
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) == 0 && x->entries[i].x.index_version != 0)
			both |= PF_FLAG_TAGGED_FRI;
	}
	*reader = both;
	*writer = both | (x->sticky & ~PF_FLAGS_PAIRED);
	if (has_field(x, LANCE__MANIFEST__FIELD__CONFIG))
		*writer |= PF_FLAG_TABLE_CONFIG;
	return 0;
}

static int set_u64(struct pf_next *x, uint32_t number, bool there, uint64_t v)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = there ? pf_wire_put_u64(&b, number, v) : 0;

	return r < 0 ? r : pf_next_set_field(x, number, &b);
}

/* Neighbours in the file become one piece. */
static size_t fragment_pieces(struct pf_next *x)
{
	size_t n = 0;

	for (size_t i = 0; i < x->roster.n; i++) {
		const struct pf_slot *s = &x->roster.v[i];
		struct pf_piece *last = n ? &x->pieces[n - 1] : NULL;
		if (last && !last->mem && !s->mem && last->off + last->len == s->off)
			last->len += s->len;
		else
			x->pieces[n++] = (struct pf_piece){ s->mem, s->off, s->len };
	}
	return n;
}

static size_t count_pieces(const struct pf_next *x)
{
	const struct pf_slot *v = x->roster.v;
	size_t n = 0;

	for (size_t i = 0; i < x->roster.n; i++)
		n += i == 0 || v[i].mem || v[i - 1].mem || v[i - 1].off + v[i - 1].len != v[i].off;
	return n;
}

static int make_patches(struct pf_next *x, struct pf_splice *splice)
{
	size_t n_pieces = 0;

	if (x->fragments_changed) {
		n_pieces = count_pieces(x);
		x->pieces = calloc(n_pieces ? n_pieces : 1, sizeof(*x->pieces));
		if (!x->pieces)
			return -ENOMEM;
		fragment_pieces(x);
	}
	x->patches = calloc(x->n_fields + 1, sizeof(*x->patches));
	x->patch_pieces = calloc(x->n_fields + 1, sizeof(*x->patch_pieces));
	if (!x->patches || !x->patch_pieces)
		return -ENOMEM;
	for (size_t i = 0; i < x->n_fields; i++) {
		x->patch_pieces[i] = (struct pf_piece){ x->fields[i].bytes.p, 0, x->fields[i].bytes.n };
		x->patches[i] =
			(struct pf_patch){ x->fields[i].number, &x->patch_pieces[i], x->fields[i].bytes.n ? 1 : 0 };
	}
	size_t n = x->n_fields;
	if (x->fragments_changed)
		x->patches[n++] = (struct pf_patch){ LANCE__MANIFEST__FIELD__FRAGMENTS, x->pieces, n_pieces };
	splice->patches = x->patches;
	splice->n_patches = n;
	return 0;
}

static int make_section(struct pf_next *x, struct pf_splice *splice)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	struct pf_span kept;
	int r = 0;

	if (!x->indices_changed)
		return 0;
	splice->drop_index = true;
	for (size_t i = 0; r == 0 && i < x->n_entries; i++)
		r = pf_put_span(&b, LANCE__INDEX_SECTION__FIELD__INDICES, x->entries[i].message);
	if (r < 0 || x->n_entries == 0)
		return r;
	r = pf_next_keep(x, &b, &kept);
	x->index_piece = (struct pf_piece){ kept.p, 0, kept.n };
	splice->index = &x->index_piece;
	splice->n_index = 1;
	return r;
}

static int make_splice(struct pf_next *x, struct pf_splice *out)
{
	struct pf_splice s = { 0 };
	int r = make_section(x, &s);

	if (r == 0)
		r = make_patches(x, &s);
	if (r == 0)
		*out = s;
	return r;
}

int pf_next_finish(struct pf_next *x, struct pf_splice *splice, uint64_t *writer_flags, struct pf_why *why)
{
	uint64_t reader = 0, writer = 0;

	int r = settle_fragments(x, why);
	if (r == 0)
		r = pf_next_check_history(x, why);
	if (r == 0)
		r = compute_flags(x, &reader, &writer, why);
	if (r == 0)
		r = set_u64(x, LANCE__MANIFEST__FIELD__READER_FEATURE_FLAGS, reader, reader);
	if (r == 0)
		r = set_u64(x, LANCE__MANIFEST__FIELD__MAX_FRAGMENT_ID, x->has_max_fragment_id, x->max_fragment_id);
	if (r == 0 && x->stable)
		r = set_u64(x, LANCE__MANIFEST__FIELD__NEXT_ROW_ID, x->next_row_id, x->next_row_id);
	if (r == 0)
		r = set_u64(x, LANCE__MANIFEST__FIELD__VERSION_AUX_DATA, false, 0);
	if (r == 0)
		r = make_splice(x, splice);
	if (r == 0)
		*writer_flags = writer;
	return r;
}

int pf_next_finish_staged(struct pf_next *x, struct pf_splice *splice, uint64_t *writer_flags)
{
	uint64_t reader = x->from->reader_flags, writer = x->from->writer_flags;
	int r = 0;

	for (size_t i = 0; i < x->n_entries; i++)
		if (strcmp(x->entries[i].x.name, PF_FRI_NAME) == 0 && x->entries[i].x.index_version != 0) {
			reader |= PF_FLAG_TAGGED_FRI;
			writer |= PF_FLAG_TAGGED_FRI;
		}
	if (reader != x->from->reader_flags)
		r = set_u64(x, LANCE__MANIFEST__FIELD__READER_FEATURE_FLAGS, true, reader);
	if (r == 0)
		r = make_splice(x, splice);
	if (r == 0)
		*writer_flags = writer;
	return r;
}
