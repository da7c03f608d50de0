#include "manifest.h"

#include <inttypes.h>
#include <string.h>

#include "lance.pb-c.h"

struct counting {
	struct pf_wire w;
	uint64_t fragments, rows;
	bool unknown; /* a fragment that does not say how many rows it has */
};

static int count_deleted(struct counting *c, const struct pf_field *file, uint64_t *deleted, struct pf_why *why)
{
	struct pf_field f;
	int r = pf_wire_expect(file, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	/* Zero is what a writer that did not count leaves: nobody writes a file of no deletions. */
	*deleted = 0;
	uint64_t end = pf_wire_enter(&c->w, file);
	while ((r = pf_wire_next(&c->w, &f, why)) > 0) {
		if (f.number == LANCE__DELETION_FILE__FIELD__NUM_DELETED_ROWS)
			r = pf_wire_u64(&f, deleted, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(&c->w, end);
	if (*deleted == 0)
		c->unknown = true;
	return r;
}

static int count_fragment(struct counting *c, const struct pf_field *fragment, struct pf_why *why)
{
	uint64_t physical = 0, deleted = 0;
	struct pf_field f;
	int r = pf_wire_expect(fragment, PF_WIRE_LEN, why);

	if (r < 0)
		return r;
	uint64_t end = pf_wire_enter(&c->w, fragment);
	while ((r = pf_wire_next(&c->w, &f, why)) > 0) {
		if (f.number == LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS)
			r = pf_wire_u64(&f, &physical, why);
		else if (f.number == LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE)
			r = count_deleted(c, &f, &deleted, why);
		if (r < 0)
			return r;
	}
	pf_wire_leave(&c->w, end);
	if (r < 0)
		return r;
	c->fragments++;
	if (physical == 0)
		c->unknown = true;
	else if (deleted > physical)
		return pf_why_set(why, -EBADMSG,
				  "offset %" PRIu64 ": expected at most %" PRIu64 " deleted rows, found %" PRIu64,
				  fragment->start, physical, deleted);
	else if (__builtin_add_overflow(c->rows, physical - deleted, &c->rows))
		return pf_why_set(why, -EBADMSG, "offset %" PRIu64 ": expected fewer than 2^64 rows in all",
				  fragment->start);
	return 0;
}

static void counting_release(struct counting *c)
{
	pf_wire_release(&c->w);
}

static int count(struct counting *c, struct pf_why *why)
{
	struct pf_field f;
	int r;

	while ((r = pf_wire_next(&c->w, &f, why)) > 0) {
		if (f.number == LANCE__MANIFEST__FIELD__FRAGMENTS)
			r = count_fragment(c, &f, why);
		if (r < 0)
			return r;
	}
	return r;
}

int pf_manifest_count(struct pf_store *st, const struct pf_manifest *m, uint64_t *fragments, uint64_t *rows,
		      struct pf_why *why)
{
	_cleanup_(counting_release) struct counting c = { .unknown = false };
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_manifest_reopen(st, m, &file, why);
	if (r < 0)
		return r;
	pf_wire_init(&c.w, &file->r, m->body_off, m->body_len);
	r = count(&c, &inner);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", m->name, inner.text[0] ? inner.text : strerror(-r));
	*fragments = c.fragments;
	*rows = c.unknown ? UINT64_MAX : c.rows;
	return 0;
}
