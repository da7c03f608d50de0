#include "mask.h"

#include <inttypes.h>

#include "flags.h"
#include "lance.pb-c.h"
#include "pins.pb-c.h"

/* The tag, a byte, and a number of at most ten. */
#define FIELD_MAX 11
#define TAG	  ((uint8_t)(LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS << 3))

/* Of a number, seven bits a byte. */
#define BIT_BYTE (PINS__NUMBER__FLAG_BIT / 7)
#define BIT_MASK (1u << PINS__NUMBER__FLAG_BIT % 7)

/* The fields that stand next to each other there, most often one. */
static int see_run(struct pf_reader *r, const struct pf_run *run, struct pf_mask *mask, struct pf_why *why)
{
	uint8_t buf[PF_MASK_MAX * FIELD_MAX];
	uint64_t value;

	if (run->len > sizeof(buf))
		return pf_why_set(why, -EBADMSG, "the writer's flags take %" PRIu64 " bytes at offset %" PRIu64,
				  run->len, run->off);
	int e = r->read(r, run->off, buf, run->len);
	for (size_t at = 0; e == 0 && at < run->len;) {
		if (buf[at++] != TAG)
			return pf_why_set(why, -EBADMSG,
					  "the writer's flags have a tag that is too long at offset %" PRIu64,
					  run->off);
		int n = pf_wire_varint(buf + at, run->len - at, run->off + at, &value, why);
		if (n < 0)
			return n;
		if (value & PF_FLAG_PINS) {
			if (mask->n == PF_MASK_MAX)
				return pf_why_set(why, -EBADMSG, "the writer's flags are there more than %d times",
						  PF_MASK_MAX);
			mask->v[mask->n].off = run->off + at + BIT_BYTE;
			mask->v[mask->n++].byte = (uint8_t)(buf[at + BIT_BYTE] & ~BIT_MASK);
		}
		at += (size_t)n;
	}
	return e;
}

int pf_mask_find(struct pf_store *st, const struct pf_manifest *m, struct pf_mask *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *file = NULL;
	struct pf_mask mask = { .n = 0 };

	int r = pf_manifest_reopen(st, m, &file, why);
	for (size_t i = 0; r == 0 && i < m->n_runs; i++)
		if (m->runs[i].number == LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS)
			r = see_run(&file->r, &m->runs[i], &mask, why);
	if (r == 0)
		*out = mask;
	return r;
}

void pf_mask_apply(const struct pf_mask *mask, uint64_t off, uint8_t *buf, size_t n)
{
	for (unsigned i = 0; i < mask->n; i++)
		if (mask->v[i].off >= off && mask->v[i].off - off < n)
			buf[mask->v[i].off - off] = mask->v[i].byte;
}
