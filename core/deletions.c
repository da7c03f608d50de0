#include "deletions.h"

#include <inttypes.h>

#include "arrow.h"
#include "lance.pb-c.h"
#include "reference.h"

/* What Lance calls the one column. */
#define COLUMN "row_id"

/* The longest file that a fragment of so many rows has: 4 bytes a row and its container, or its value in a list; and what stands around them. */
static uint64_t longest(uint64_t rows)
{
	return rows < PF_DELETIONS_MAX / 8 - 8192 ? 8 * rows + 65536 : PF_DELETIONS_MAX;
}

static int decode_list(const struct pf_buf *file, uint64_t rows, struct pf_bitmap **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf values = PF_BUF_INIT;
	uint64_t max = PF_DELETIONS_MAX / 4;

	int r = pf_arrow_read_u32(file->data, file->len, COLUMN, rows < max ? rows : max, &values, why);
	/* Memory of malloc is aligned for any type. */
	return r < 0 ? r : pf_bitmap_from((const uint32_t *)(const void *)values.data, values.len / 4, out);
}

static int decode(const struct pf_fragment *f, const struct pf_buf *file, struct pf_bitmap **out, struct pf_why *why)
{
	_cleanup_(pf_bitmap_freep) struct pf_bitmap *b = NULL;
	int r;

	if (f->deletion.type == LANCE__DELETION_FILE__TYPE__BITMAP)
		r = pf_bitmap_decode(file->data, file->len, &b, why);
	else
		r = decode_list(file, f->physical_rows, &b, why);
	if (r < 0)
		return r;
	uint64_t n = pf_bitmap_count(b);
	if (n > 0 && pf_bitmap_max(b) >= f->physical_rows)
		return pf_why_set(why, -EBADMSG, "row %" PRIu32 " is deleted of a fragment that has %" PRIu64 " rows",
				  pf_bitmap_max(b), f->physical_rows);
	if (f->deleted_rows && n != f->deleted_rows)
		return pf_why_set(why, -EBADMSG,
				  "expected %" PRIu64 " deleted rows as the manifest says, found %" PRIu64,
				  f->deleted_rows, n);
	*out = STEAL(b);
	return 0;
}

int pf_deletions_read(struct pf_store *st, const char *dir, const struct pf_fragment *f, struct pf_bitmap **out,
		      struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT, file = PF_BUF_INIT;
	const struct pf_deletion_file *d = &f->deletion;
	uint64_t max = longest(f->physical_rows);

	if (d->type != LANCE__DELETION_FILE__TYPE__ARROW_ARRAY && d->type != LANCE__DELETION_FILE__TYPE__BITMAP)
		return pf_why_set(why, -EBADMSG,
				  "fragment %" PRIu64 ": expected a deletion file of type 0 or 1, found %" PRIu64,
				  f->id, d->type);
	int r = pf_buf_addstr(&name, dir);
	if (r == 0)
		r = pf_deletion_file_name(f->id, d->read_version, d->id, d->type, &name);
	if (r < 0 || !pf_buf_str(&name))
		return -ENOMEM;
	const char *text = (const char *)name.data;
	r = pf_store_get(st, text, (size_t)max, &file);
	if (r == -ENOENT)
		return pf_why_set(why, -EBADMSG, "deletion file %s is missing", text);
	if (r == -EFBIG)
		return pf_why_set(why, -EBADMSG,
				  "deletion file %s is longer than one of %" PRIu64 " rows is: %" PRIu64 " bytes", text,
				  f->physical_rows, max);
	if (r < 0)
		return pf_why_default(why, r, "deletion file %s cannot be read", text);
	r = decode(f, &file, out, why);
	return r == -EBADMSG ? pf_why_prefix(why, r, "deletion file %s", text) : r;
}

bool pf_deletions_same(const struct pf_fragment *a, const struct pf_fragment *b)
{
	const struct pf_deletion_file *x = &a->deletion, *y = &b->deletion;

	return a->has_deletions == b->has_deletions && x->type == y->type && x->read_version == y->read_version &&
	       x->id == y->id && x->has_base == y->has_base && x->base_id == y->base_id;
}
