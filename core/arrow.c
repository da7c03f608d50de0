#include "arrow.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <zstd.h>

#include "wire.h"

#define MAGIC	     "ARROW1"
#define MAGIC_LEN    6u
#define HEAD_LEN     8u	 /* the magic, padded */
#define TAIL_LEN     10u /* the footer's length, and the magic */
#define CONTINUATION 0xffffffffu
#define METADATA_V5  4u
#define TYPE_INT     2u
#define RECORD_BATCH 3u
#define CODEC_ZSTD   1u
#define BLOCK_LEN    24u
#define NODE_LEN     16u
#define BUFFER_LEN   16u
#define NOT_SMALLER  UINT64_MAX /* where the length of the plain bytes stands: they were left plain */

/* Part of the file: what stands outside cannot be reached. Positions count from the start of the file, for sentences. */
struct part {
	const uint8_t *file;
	size_t from, to;
};

static int damaged(size_t at, const char *what, struct pf_why *why)
{
	return pf_why_set(why, -EBADMSG, "offset %zu: expected %s", at, what);
}

/* n bytes from `at` on, as a little-endian number. */
static int get(const struct part *p, size_t at, unsigned n, uint64_t *out, struct pf_why *why)
{
	if (at < p->from || at > p->to || n > p->to - at)
		return pf_why_set(why, -EBADMSG, "offset %zu: expected %u bytes, found the end of what they are in", at,
				  n);
	*out = pf_get_le(p->file + at, n);
	return 0;
}

/* A table of a flatbuffer. */
struct table {
	const struct part *in;
	size_t at, len, fields;
	unsigned n_fields;
};

/* The place that the offset which stands at `at` leads to. */
static int follow(const struct part *p, size_t at, size_t *out, struct pf_why *why)
{
	uint64_t off;
	int r = get(p, at, 4, &off, why);

	if (r < 0)
		return r;
	if (off > p->to - at)
		return damaged(at, "an offset within the metadata", why);
	*out = at + (size_t)off;
	return 0;
}

static int open_table(const struct part *p, size_t ref, struct table *out, struct pf_why *why)
{
	uint64_t back, size = 0, len = 0;
	size_t at;
	int r = follow(p, ref, &at, why);

	if (r == 0)
		r = get(p, at, 4, &back, why);
	if (r < 0)
		return r;
	int64_t fields = (int64_t)at - (int32_t)(uint32_t)back;
	if (fields < (int64_t)p->from || fields > (int64_t)p->to)
		return damaged(at, "a table with a list of fields", why);
	r = get(p, (size_t)fields, 2, &size, why);
	if (r == 0)
		r = get(p, (size_t)fields + 2, 2, &len, why);
	if (r < 0)
		return r;
	if (size < 4 || size % 2 || size > p->to - (size_t)fields || len < 4 || len > p->to - at)
		return damaged((size_t)fields, "a list of fields", why);
	*out = (struct table){ p, at, (size_t)len, (size_t)fields + 4, (unsigned)(size - 4) / 2 };
	return 0;
}

/* Where field i stands, of n bytes; 0: it is left out. */
static int find(const struct table *t, unsigned i, unsigned n, size_t *out, struct pf_why *why)
{
	uint64_t off = i < t->n_fields ? pf_get_le(t->in->file + t->fields + 2 * (size_t)i, 2) : 0;

	if (off && (off < 4 || off > t->len || n > t->len - off))
		return damaged(t->fields + 2 * (size_t)i, "a field within its table", why);
	*out = off ? t->at + (size_t)off : 0;
	return 0;
}

/* A number; 0 if it is left out, which is the default of all that are asked for here. */
static int get_number(const struct table *t, unsigned i, unsigned n, uint64_t *out, struct pf_why *why)
{
	size_t at;
	int r = find(t, i, n, &at, why);

	*out = 0;
	return r < 0 || !at ? r : get(t->in, at, n, out, why);
}

static int expect_number(const struct table *t, unsigned i, unsigned n, uint64_t wanted, const char *what,
			 struct pf_why *why)
{
	uint64_t v;
	int r = get_number(t, i, n, &v, why);

	return r < 0 || v == wanted ? r : damaged(t->at, what, why);
}

static int get_table(const struct table *t, unsigned i, const char *what, struct table *out, struct pf_why *why)
{
	size_t at;
	int r = find(t, i, 4, &at, why);

	if (r < 0)
		return r;
	return at ? open_table(t->in, at, out, why) : damaged(t->at, what, why);
}

/* Elements of `size` bytes; none if it is left out. */
static int get_vector(const struct table *t, unsigned i, unsigned size, size_t *first, size_t *n, struct pf_why *why)
{
	uint64_t count = 0;
	size_t at;
	int r = find(t, i, 4, &at, why);

	*n = 0;
	if (r < 0 || !at)
		return r;
	r = follow(t->in, at, &at, why);
	if (r == 0)
		r = get(t->in, at, 4, &count, why);
	if (r < 0)
		return r;
	if (count > (t->in->to - at - 4) / size)
		return damaged(at, "a list within the metadata", why);
	*first = at + 4;
	*n = (size_t)count;
	return 0;
}

static int expect_vector(const struct table *t, unsigned i, unsigned size, size_t wanted, const char *what,
			 size_t *first, struct pf_why *why)
{
	size_t n;
	int r = get_vector(t, i, size, first, &n, why);

	return r < 0 || n == wanted ? r : damaged(t->at, what, why);
}

/* Field: 0 name, 1 nullable, 2 and 3 type, 4 dictionary, 5 children. Int: 0 bit width, 1 signed. */
static int check_column(const struct table *schema, size_t ref, const char *column, struct pf_why *why)
{
	struct table field, type;
	size_t name = 0, n = 0, none, dictionary = 0;
	int r = open_table(schema->in, ref, &field, why);

	if (r == 0)
		r = get_vector(&field, 0, 1, &name, &n, why);
	if (r == 0 && (n != strlen(column) || memcmp(schema->in->file + name, column, n) != 0))
		return pf_why_set(why, -EBADMSG, "offset %zu: expected a column of the name %s", field.at, column);
	if (r == 0)
		r = expect_number(&field, 1, 1, false, "a column that is never null", why);
	if (r == 0)
		r = expect_number(&field, 2, 1, TYPE_INT, "a column of uint32", why);
	if (r == 0)
		r = get_table(&field, 3, "a column with a type", &type, why);
	if (r == 0)
		r = expect_number(&type, 0, 4, 32, "a column of uint32", why);
	if (r == 0)
		r = expect_number(&type, 1, 1, false, "a column of uint32", why);
	if (r == 0)
		r = find(&field, 4, 4, &dictionary, why);
	if (r == 0 && dictionary)
		return damaged(dictionary, "a column without a dictionary", why);
	return r < 0 ? r : expect_vector(&field, 5, 4, 0, "a column without children", &none, why);
}

/* Schema: 0 endianness (0: little), 1 fields. */
static int check_schema(const struct table *footer, const char *column, struct pf_why *why)
{
	struct table schema;
	size_t first = 0;
	int r = get_table(footer, 1, "a schema", &schema, why);

	if (r == 0)
		r = expect_number(&schema, 0, 2, 0, "little-endian values", why);
	if (r == 0)
		r = expect_vector(&schema, 1, 4, 1, "one column", &first, why);
	return r < 0 ? r : check_column(&schema, first, column, why);
}

/* Footer: 0 version, 1 schema, 2 dictionaries, 3 record batches. *block: where the one batch is told of. */
static int read_footer(const struct part *file, const char *column, struct part *metadata, size_t *block,
		       struct pf_why *why)
{
	const uint8_t *p = file->file;
	struct table footer;
	size_t none;

	if (file->to < HEAD_LEN + TAIL_LEN || memcmp(p, MAGIC, MAGIC_LEN) != 0 ||
	    memcmp(p + file->to - MAGIC_LEN, MAGIC, MAGIC_LEN) != 0)
		return pf_why_set(why, -EBADMSG, "expected an Arrow file, which begins and ends with " MAGIC);
	uint64_t len = pf_get_le(p + file->to - TAIL_LEN, 4);
	if (len > file->to - HEAD_LEN - TAIL_LEN)
		return damaged(file->to - TAIL_LEN, "the length of a footer within the file", why);
	*metadata = (struct part){ p, file->to - TAIL_LEN - (size_t)len, file->to - TAIL_LEN };
	int r = open_table(metadata, metadata->from, &footer, why);
	if (r == 0)
		r = expect_number(&footer, 0, 2, METADATA_V5, "metadata of version V5", why);
	if (r == 0)
		r = check_schema(&footer, column, why);
	if (r == 0)
		r = expect_vector(&footer, 2, BLOCK_LEN, 0, "no dictionaries", &none, why);
	return r < 0 ? r : expect_vector(&footer, 3, BLOCK_LEN, 1, "one batch", block, why);
}

/* The metadata of the batch, and its body. Block: int64 offset, int32 length of the metadata, 4 bytes, int64 length of the body. */
static int read_block(const struct part *footer, size_t block, struct part *metadata, struct part *body,
		      struct pf_why *why)
{
	const uint8_t *p = footer->file;
	uint64_t at = pf_get_le(p + block, 8), n = pf_get_le(p + block + 8, 4), size = pf_get_le(p + block + 16, 8);

	if (at < HEAD_LEN || at > footer->from || n < 8 || n > footer->from - at || size > footer->from - at - n)
		return damaged(block, "a batch before the footer", why);
	if (pf_get_le(p + at, 4) != CONTINUATION)
		return damaged(at, "a message", why);
	uint64_t len = pf_get_le(p + at + 4, 4);
	if (len > n - 8)
		return damaged(at + 4, "metadata of the length that the footer says", why);
	*metadata = (struct part){ p, (size_t)at + 8, (size_t)(at + 8 + len) };
	*body = (struct part){ p, (size_t)(at + n), (size_t)(at + n + size) };
	return 0;
}

/* BodyCompression: 0 codec, 1 method (0: each buffer by itself). *zstd: it is there. */
static int check_compression(const struct table *batch, bool *zstd, struct pf_why *why)
{
	struct table compression;
	size_t at;
	int r = find(batch, 3, 4, &at, why);

	*zstd = at != 0;
	if (r < 0 || !at)
		return r;
	r = open_table(batch->in, at, &compression, why);
	if (r == 0)
		r = expect_number(&compression, 0, 1, CODEC_ZSTD, "values that are compressed by ZSTD", why);
	return r < 0 ? r : expect_number(&compression, 1, 1, 0, "values whose buffers are compressed each", why);
}

/* RecordBatch: 0 length, 1 nodes (int64 length, nulls), 2 buffers (int64 offset, length): which values are not null, and the values; 3 compression. */
struct batch {
	uint64_t rows;
	struct part values;
	bool zstd;
};

static int read_batch(const struct table *t, const struct part *body, struct batch *out, struct pf_why *why)
{
	const uint8_t *p = body->file;
	size_t node = 0, buffer = 0;
	int r = get_number(t, 0, 8, &out->rows, why);

	if (r == 0)
		r = expect_vector(t, 1, NODE_LEN, 1, "a batch of one column", &node, why);
	if (r == 0)
		r = expect_vector(t, 2, BUFFER_LEN, 2, "a column of two buffers", &buffer, why);
	if (r == 0)
		r = check_compression(t, &out->zstd, why);
	if (r < 0)
		return r;
	if (pf_get_le(p + node, 8) != out->rows)
		return damaged(node, "a column as long as its batch", why);
	if (pf_get_le(p + node + 8, 8) != 0)
		return damaged(node + 8, "no nulls", why);
	buffer += BUFFER_LEN;
	uint64_t at = pf_get_le(p + buffer, 8), len = pf_get_le(p + buffer + 8, 8), size = body->to - body->from;
	if (at > size || len > size - at)
		return damaged(buffer, "values within the batch", why);
	out->values = (struct part){ p, body->from + (size_t)at, body->from + (size_t)(at + len) };
	return 0;
}

/* Message: 0 version, 1 and 2 header, 3 length of the body. */
static int read_message(const struct part *metadata, const struct part *body, struct batch *out, struct pf_why *why)
{
	struct table message, header;
	int r = open_table(metadata, metadata->from, &message, why);

	if (r == 0)
		r = expect_number(&message, 0, 2, METADATA_V5, "metadata of version V5", why);
	if (r == 0)
		r = expect_number(&message, 1, 1, RECORD_BATCH, "a batch of rows", why);
	if (r == 0)
		r = get_table(&message, 2, "a batch of rows", &header, why);
	if (r == 0)
		r = expect_number(&message, 3, 8, body->to - body->from, "a body of the length that the footer says",
				  why);
	return r < 0 ? r : read_batch(&header, body, out, why);
}

/* The values as they are, `size` bytes of them; a buffer may be padded. */
static int take_plain(const struct part *v, size_t size, struct pf_buf *out, struct pf_why *why)
{
	if (v->to - v->from < size)
		return pf_why_set(why, -EBADMSG, "offset %zu: expected %zu bytes of values, found %zu", v->from, size,
				  v->to - v->from);
	return pf_buf_add(out, v->file + v->from, size);
}

/* A compressed buffer: int64 length of the plain bytes, and a ZSTD frame, or they themselves. */
static int take_compressed(struct part v, size_t size, struct pf_buf *out, struct pf_why *why)
{
	uint64_t said = 0;
	size_t at = v.from;
	int r = size ? get(&v, at, 8, &said, why) : 0;

	if (r < 0 || size == 0)
		return r;
	v.from += 8;
	if (said == NOT_SMALLER)
		return take_plain(&v, size, out, why);
	if (said != size)
		return pf_why_set(why, -EBADMSG, "offset %zu: expected %zu bytes of values, found %" PRIu64, at, size,
				  said);
	r = pf_buf_reserve(out, size);
	if (r < 0)
		return r;
	size_t n = ZSTD_decompress(out->data + out->len, size, v.file + v.from, v.to - v.from);
	if (ZSTD_isError(n) || n != size)
		return pf_why_set(why, -EBADMSG, "offset %zu: expected %zu bytes compressed by ZSTD: %s", v.from, size,
				  ZSTD_isError(n) ? ZSTD_getErrorName(n) : "too few");
	out->len += size;
	return 0;
}

int pf_arrow_read_u32(const void *bytes, size_t len, const char *column, uint64_t max, struct pf_buf *out,
		      struct pf_why *why)
{
	struct part file = { bytes, 0, len }, metadata = { NULL }, body = { NULL };
	struct batch batch = { 0 };
	size_t block = 0, before = out->len;
	int r = read_footer(&file, column, &metadata, &block, why);

	if (r == 0)
		r = read_block(&metadata, block, &metadata, &body, why);
	if (r == 0)
		r = read_message(&metadata, &body, &batch, why);
	if (r < 0)
		return r;
	if (batch.rows > max || batch.rows > SIZE_MAX / 4)
		return pf_why_set(why, -EBADMSG, "expected at most %" PRIu64 " values, found %" PRIu64, max,
				  batch.rows);
	size_t size = 4 * (size_t)batch.rows;
	r = batch.zstd ? take_compressed(batch.values, size, out, why) : take_plain(&batch.values, size, out, why);
	if (r < 0)
		return r;
	for (size_t i = before; i < out->len; i += 4) {
		uint32_t v = (uint32_t)pf_get_le(out->data + i, 4);

		memcpy(out->data + i, &v, 4);
	}
	return 0;
}
