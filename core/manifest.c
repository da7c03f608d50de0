#include "manifest.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"
#include "pins.pb-c.h"

#define MAGIC	   "LANC"
#define MAGIC_LEN  4
#define FOOTER_LEN 16
#define PREFIX_LEN 4
#define NOT_A_NAME "not the name of an attached version's manifest"

/* Strings and small messages of a manifest: far above any real one. */
#define SMALL_MAX 4096

/* An offset field: what it says and where it stands. */
struct claim {
	bool present;
	uint64_t value, at;
};

struct reading {
	struct pf_manifest *m;
	struct pf_reader *r;
	size_t runs_cap;
	struct claim index, txn21, txn23;
	struct pf_buf scratch;
	pf_manifest_fragment_fn fragment; /* NULL: nobody asks */
	void *arg;
};

static void reading_release(struct reading *rd)
{
	pf_buf_release(&rd->scratch);
}

/* The payload of a small LEN field, in rd->scratch. */
static int take_small(struct reading *rd, const struct pf_field *f, struct pf_why *why)
{
	pf_buf_reset(&rd->scratch);
	return pf_wire_payload(rd->r, f, SMALL_MAX, &rd->scratch, why);
}

/* A copy of n bytes that must be text. */
static int take_text(const struct pf_field *f, const void *p, size_t n, char **out, struct pf_why *why)
{
	if (!pf_utf8_valid(p, n) || memchr(p, '\0', n))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected UTF-8 text in field %" PRIu32, f->start,
				  f->number);
	char *s = strndup(p, n);
	if (!s)
		return -ENOMEM;
	free(*out);
	*out = s;
	return 0;
}

/* An optional string: empty counts as absent, as proto3 has it. */
static int take_string(struct reading *rd, const struct pf_field *f, char **out, struct pf_why *why)
{
	int r = take_small(rd, f, why);
	if (r < 0)
		return r;
	if (rd->scratch.len > 0)
		return take_text(f, rd->scratch.data, rd->scratch.len, out, why);
	free(*out);
	*out = NULL;
	return 0;
}

static int take_claim(const struct pf_field *f, struct claim *out, struct pf_why *why)
{
	int r = pf_wire_u64(f, &out->value, why);
	if (r < 0)
		return r;
	out->present = true;
	out->at = f->start;
	return 0;
}

static int take_timestamp(struct reading *rd, const struct pf_field *f, struct pf_why *why)
{
	int r = take_small(rd, f, why);
	if (r < 0)
		return r;
	Lance__Timestamp *t = lance__timestamp__unpack(NULL, rd->scratch.len, rd->scratch.data);
	if (!t)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a timestamp message", f->start);
	struct pf_time time = { t->seconds, t->nanos };
	lance__timestamp__free_unpacked(t, NULL);
	if (!pf_time_valid(time))
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected a timestamp within years 0001 to 9999, found "
				  "%" PRId64 " s %" PRId32 " ns",
				  f->start, time.sec, time.nsec);
	rd->m->timestamp = time;
	rd->m->has_timestamp = true;
	return 0;
}

static int take_writer(struct reading *rd, const struct pf_field *f, struct pf_why *why)
{
	int r = take_small(rd, f, why);
	if (r < 0)
		return r;
	Lance__WriterVersion *v = lance__writer_version__unpack(NULL, rd->scratch.len, rd->scratch.data);
	if (!v)
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected a writer version message", f->start);
	const char *library = v->library ? v->library : "", *version = v->version ? v->version : "";
	r = take_text(f, library, strlen(library), &rd->m->writer_library, why);
	if (r == 0)
		r = take_text(f, version, strlen(version), &rd->m->writer_version, why);
	lance__writer_version__free_unpacked(v, NULL);
	return r;
}

static int take_pin(struct reading *rd, const struct pf_field *f, struct pf_why *why)
{
	_cleanup_(pf_pin_release) struct pf_pin pin = PF_PIN_INIT;
	struct pf_why inner = PF_WHY_INIT;

	pf_buf_reset(&rd->scratch);
	int r = pf_wire_payload(rd->r, f, PF_PIN_RECORD_MAX, &rd->scratch, why);
	if (r < 0)
		return r;
	r = pf_pin_decode(rd->scratch.data, rd->scratch.len, &pin, &inner);
	if (r < 0)
		return pf_why_set(why, r, "offset %" PRIu64 ": pin record: %s", f->start, inner.text);
	return pf_pins_add(&rd->m->pins, &pin);
}

/* The field f, or a run of its number that starts with it, up to `end`. */
static int add_run(struct reading *rd, const struct pf_field *f, uint64_t end, struct pf_why *why)
{
	struct pf_manifest *m = rd->m;
	struct pf_run *last = m->n_runs ? &m->runs[m->n_runs - 1] : NULL;

	if (last && last->number == f->number) {
		last->len = end - last->off;
		return 0;
	}
	if (m->n_runs == PF_MANIFEST_RUNS_MAX)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected fields in order of their numbers, found more than %d "
				  "changes of number",
				  f->start, PF_MANIFEST_RUNS_MAX);
	if (m->n_runs == rd->runs_cap) {
		size_t cap = rd->runs_cap ? 2 * rd->runs_cap : 32;
		struct pf_run *runs = realloc(m->runs, cap * sizeof(*runs));
		if (!runs)
			return -ENOMEM;
		m->runs = runs;
		rd->runs_cap = cap;
	}
	m->runs[m->n_runs++] = (struct pf_run){ f->number, f->start, end - f->start };
	return 0;
}

/* Of a field that should stand once, the last one counts, as protobuf has it. */
static int take_field(struct reading *rd, struct pf_wire *w, const struct pf_field *f, struct pf_why *why)
{
	struct pf_manifest *m = rd->m;

	switch (f->number) {
	case LANCE__MANIFEST__FIELD__FRAGMENTS:
		return rd->fragment ? rd->fragment(rd->arg, w, f, why) : 0;
	case LANCE__MANIFEST__FIELD__VERSION:
		return pf_wire_u64(f, &m->version, why);
	case LANCE__MANIFEST__FIELD__INDEX_SECTION:
		return take_claim(f, &rd->index, why);
	case LANCE__MANIFEST__FIELD__TIMESTAMP:
		return take_timestamp(rd, f, why);
	case LANCE__MANIFEST__FIELD__READER_FEATURE_FLAGS:
		return pf_wire_u64(f, &m->reader_flags, why);
	case LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS:
		return pf_wire_u64(f, &m->writer_flags, why);
	case LANCE__MANIFEST__FIELD__TRANSACTION_FILE:
		return take_string(rd, f, &m->transaction_file, why);
	case LANCE__MANIFEST__FIELD__WRITER_VERSION:
		return take_writer(rd, f, why);
	case LANCE__MANIFEST__FIELD__BRANCH:
		return take_string(rd, f, &m->branch, why);
	case LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_21:
		return take_claim(f, &rd->txn21, why);
	case LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_23:
		return take_claim(f, &rd->txn23, why);
	case PINS__NUMBER__FIELD:
		return take_pin(rd, f, why);
	default:
		return 0;
	}
}

static int walk_body(struct reading *rd, struct pf_why *why)
{
	_cleanup_(pf_wire_release) struct pf_wire w;
	struct pf_field f;
	int r;

	pf_wire_init(&w, rd->r, rd->m->body_off, rd->m->body_len);
	while ((r = pf_wire_next(&w, &f, why)) > 0) {
		r = take_field(rd, &w, &f, why);
		if (r == 0)
			r = add_run(rd, &f, w.pos, why);
		if (r < 0)
			return r;
	}
	return r;
}

/*
 * The message whose u32 length stands at `at`, as the bytes at `said` claim. It must end by `limit`.
 */
static int read_prefix(struct pf_reader *r, uint64_t at, uint64_t said, uint64_t limit, const char *what,
		       struct pf_section *out, struct pf_why *why)
{
	uint8_t p[PREFIX_LEN];

	if (limit < PREFIX_LEN || at > limit - PREFIX_LEN)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected %s to start 4 bytes or more before offset %" PRIu64
				  ", found position %" PRIu64,
				  said, what, limit, at);
	int e = r->read(r, at, p, sizeof(p));
	if (e < 0)
		return e;
	uint64_t len = pf_get_le(p, PREFIX_LEN), room = limit - at - PREFIX_LEN;
	if (len > room)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected a length of at most %" PRIu64 " for %s, found %" PRIu64,
				  at, room, what, len);
	*out = (struct pf_section){ true, at + PREFIX_LEN, len };
	return 0;
}

static int read_footer(struct reading *rd, struct pf_why *why)
{
	struct pf_manifest *m = rd->m;
	struct pf_section body = { false };
	uint8_t p[FOOTER_LEN];

	if (rd->r->size < FOOTER_LEN)
		return pf_why_set(why, -EBADMSG, "offset 0: expected at least %d bytes, found %" PRIu64, FOOTER_LEN,
				  rd->r->size);
	uint64_t end = rd->r->size - FOOTER_LEN;
	int r = rd->r->read(rd->r, end, p, sizeof(p));
	if (r < 0)
		return r;
	if (memcmp(p + FOOTER_LEN - MAGIC_LEN, MAGIC, MAGIC_LEN) != 0)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected \"" MAGIC "\", the last 4 bytes of a manifest",
				  rd->r->size - MAGIC_LEN);
	r = read_prefix(rd->r, pf_get_le(p, 8), end, end, "the manifest message", &body, why);
	if (r < 0)
		return r;
	if (body.len != end - body.off)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected a length of %" PRIu64
				  ", up to the footer, found %" PRIu64,
				  body.off - PREFIX_LEN, end - body.off, body.len);
	m->body_off = body.off;
	m->body_len = body.len;
	return 0;
}

static int read_section(struct reading *rd, const struct claim *c, const char *what, struct pf_section *out,
			struct pf_why *why)
{
	struct pf_manifest *m = rd->m;

	if (!c->present)
		return 0;
	int r = read_prefix(rd->r, c->value, c->at, m->body_off - PREFIX_LEN, what, out, why);
	if (r < 0)
		return r;
	if (c->value < m->lead_len)
		m->lead_len = c->value;
	return 0;
}

static int cmp_pins(const void *a, const void *b)
{
	const struct pf_pin *const *x = a, *const *y = b;

	return memcmp((*x)->id.b, (*y)->id.b, sizeof((*x)->id.b));
}

static int check_pin_ids(const struct pf_pins *pins, struct pf_why *why)
{
	if (pins->n < 2)
		return 0;
	_cleanup_(pf_freep) const struct pf_pin **sorted = calloc(pins->n, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < pins->n; i++)
		sorted[i] = &pins->v[i];
	qsort(sorted, pins->n, sizeof(*sorted), cmp_pins);
	for (size_t i = 1; i < pins->n; i++) {
		if (cmp_pins(&sorted[i - 1], &sorted[i]) == 0) {
			char id[PF_UUID_TEXT];
			pf_uuid_format(&sorted[i]->id, id);
			return pf_why_set(why, -EBADMSG, "expected each pin id once, found two records of %s", id);
		}
	}
	return 0;
}

static int read_all(struct reading *rd, struct pf_why *why)
{
	struct pf_manifest *m = rd->m;
	uint64_t named = m->version;

	int r = read_footer(rd, why);
	if (r < 0)
		return r;
	m->version = 0;
	r = walk_body(rd, why);
	if (r < 0)
		return r;
	if (m->version != named)
		return pf_why_set(why, -EBADMSG, "expected version %" PRIu64 " as in the file's name, found %" PRIu64,
				  named, m->version);
	m->lead_len = m->body_off - PREFIX_LEN;
	r = read_section(rd, &rd->index, "the index section", &m->index, why);
	if (r < 0)
		return r;
	r = read_section(rd, rd->txn23.present ? &rd->txn23 : &rd->txn21, "the transaction section", &m->transaction,
			 why);
	if (r < 0)
		return r;
	m->ambiguous = rd->txn21.present && rd->txn23.present && rd->txn21.value != rd->txn23.value;
	return check_pin_ids(&m->pins, why);
}

static int new_manifest(const char *name, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = calloc(1, sizeof(*m));
	const char *slash = strrchr(name, '/');

	if (!m)
		return -ENOMEM;
	m->refs = 1;
	if (!pf_manifest_name_parse(slash ? slash + 1 : name, &m->version, &m->v2))
		return pf_why_set(why, -EINVAL, NOT_A_NAME);
	m->name = strdup(name);
	m->writer_library = strdup("");
	m->writer_version = strdup("");
	if (!m->name || !m->writer_library || !m->writer_version)
		return -ENOMEM;
	*out = STEAL(m);
	return 0;
}

int pf_manifest_read(struct pf_reader *r, const char *name, const struct pf_stat *st, pf_manifest_fragment_fn fn,
		     void *arg, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(reading_release) struct reading rd = { .r = r, .fragment = fn, .arg = arg };
	struct pf_why inner = PF_WHY_INIT;

	int e = new_manifest(name, &m, &inner);
	if (e == 0) {
		m->st = *st;
		rd.m = m;
		e = read_all(&rd, &inner);
	}
	if (e < 0)
		return pf_why_set(why, e, "%s: %s", name, inner.text[0] ? inner.text : strerror(-e));
	*out = STEAL(m);
	return 0;
}

int pf_manifest_open(struct pf_store *st, const char *name, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	const char *slash = strrchr(name, '/');
	uint64_t version;
	bool v2;

	if (!pf_manifest_name_parse(slash ? slash + 1 : name, &version, &v2))
		return pf_why_set(why, -EINVAL, "%s: " NOT_A_NAME, name);
	int r = pf_store_open(st, name, &file);
	if (r == -EISDIR)
		return pf_why_set(why, -EBADMSG, "%s: expected a file, found a directory", name);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", name, strerror(-r));
	return pf_manifest_read(&file->r, name, &file->st, NULL, NULL, out, why);
}

int pf_manifest_open_staged(struct pf_store *st, const char *staged, const char *name, struct pf_manifest **out,
			    struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	_cleanup_(pf_freep) char *called = strdup(staged);

	if (!called)
		return -ENOMEM;
	int r = pf_store_open(st, staged, &file);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", staged, strerror(-r));
	r = pf_manifest_read(&file->r, name, &file->st, NULL, NULL, &m, why);
	if (r < 0)
		return r;
	free(m->name);
	m->name = STEAL(called);
	*out = STEAL(m);
	return 0;
}

int pf_manifest_reopen(struct pf_store *st, const struct pf_manifest *m, struct pf_file **out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;

	int r = pf_store_open(st, m->name, &file);
	if (r == -ENOENT || (r == 0 && !pf_stat_same(&file->st, &m->st)))
		return pf_why_set(why, -ESTALE, "%s is gone or was replaced since it was read", m->name);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", m->name, strerror(-r));
	*out = STEAL(file);
	return 0;
}

struct pf_manifest *pf_manifest_ref(const struct pf_manifest *m)
{
	/* Frozen but for the count. */
	struct pf_manifest *counted = (struct pf_manifest *)(uintptr_t)m;

	__atomic_add_fetch(&counted->refs, 1, __ATOMIC_RELAXED);
	return counted;
}

void pf_manifest_unref(struct pf_manifest *m)
{
	if (!m || __atomic_sub_fetch(&m->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	free(m->name);
	free(m->branch);
	free(m->transaction_file);
	free(m->writer_library);
	free(m->writer_version);
	free(m->runs);
	pf_pins_release(&m->pins);
	free(m);
}

void pf_manifest_unrefp(struct pf_manifest **m)
{
	pf_manifest_unref(*m);
}
