/*
 * Make Lance tables of any size, of whose files nothing is there that nobody looks at.
 *
 * gentable BYTES PINS VERSION DIR: its head, version VERSION, has a Manifest message of about BYTES bytes without its pins (K and M are known), and
 * then PINS pins. Version 1 is the empty table and the source of the pins; the versions between are empty files, for who lists the names. Nothing but
 * _versions/ and _transactions/ is made: the fragments name data files that are not there, which neither pins nor opening the table ever look at.
 *
 * gentable [-d] [-m MOST] -a EACH PINS VERSION DIR: every version is whole, for who reads them all: each appends EACH fragments of one file to the one
 * before, and drops the oldest above MOST. With -d the files are there, as holes. Transactions are appends that do not say of what.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/text.h"
#include "core/wire.h"
#include "lance.pb-c.h"
#include "pins.pb-c.h"

#define COLUMNS 10 /* and as many files in the largest fragment: fragments of about 90 to 900 bytes */

/* Running out of memory, or of disk, is the end of a tool like this. */
static void check(int r)
{
	if (r < 0)
		errx(1, "%s", strerror(-r));
}

static void put_u64(struct pf_buf *b, uint32_t number, uint64_t v)
{
	check(pf_wire_put_u64(b, number, v));
}

static void put_str(struct pf_buf *b, uint32_t number, const char *s)
{
	check(pf_wire_put_bytes(b, number, s, strlen(s)));
}

/* The message in `m` as field `number` of b; m is empty afterwards. */
static void put_message(struct pf_buf *b, uint32_t number, struct pf_buf *m)
{
	check(pf_wire_put_bytes(b, number, m->data, m->len));
	pf_buf_reset(m);
}

static void put_time(struct pf_buf *b, uint32_t number, int64_t sec)
{
	struct pf_buf t = PF_BUF_INIT;
	put_u64(&t, 1, (uint64_t)sec);
	put_message(b, number, &t);
	pf_buf_release(&t);
}

/* lance.file.Field, in the manifest (1) and in the Overwrite that made the table (2). */
static void put_schema(struct pf_buf *b, uint32_t number)
{
	struct pf_buf field = PF_BUF_INIT;
	for (unsigned i = 0; i < COLUMNS; i++) {
		char name[8];
		snprintf(name, sizeof(name), "c%u", i);
		put_u64(&field, 1, 2); /* LEAF */
		put_str(&field, 2, name);
		put_u64(&field, 3, i);
		put_u64(&field, 4, UINT64_MAX); /* no parent: -1 */
		put_str(&field, 5, "int64");
		put_u64(&field, 6, 1); /* nullable */
		put_u64(&field, 7, 1); /* PLAIN */
		put_message(b, number, &field);
	}
	pf_buf_release(&field);
}

/* The name of file i of fragment `id`, as long as Lance's own: 24 binary digits and 26 hexadecimal ones. */
#define NAME_LEN 64
static void name_file(uint64_t id, unsigned i, char out[NAME_LEN])
{
	snprintf(out, NAME_LEN, "%024u%026" PRIx64 ".lance", i, id);
}

static uint64_t size_of(uint64_t id)
{
	return 1000000 + id;
}

/* Fragment `id`, its columns spread over n files; f and file are scratch. */
static void put_fragment(struct pf_buf *b, uint64_t id, unsigned n, struct pf_buf *f, struct pf_buf *file)
{
	put_u64(f, LANCE__DATA_FRAGMENT__FIELD__ID, id);
	for (unsigned i = 0; i < n; i++) {
		char path[NAME_LEN];
		uint8_t columns[COLUMNS], places[COLUMNS];
		size_t k = 0;
		for (unsigned c = i; c < COLUMNS; c += n) {
			columns[k] = (uint8_t)c;
			places[k] = (uint8_t)k;
			k++;
		}
		name_file(id, i, path);
		put_str(file, 1, path);
		check(pf_wire_put_bytes(file, 2, columns, k));
		check(pf_wire_put_bytes(file, 3, places, k));
		put_u64(file, 4, 2); /* data format 2.0 */
		put_u64(file, 6, size_of(id));
		put_message(f, 2, file);
	}
	put_u64(f, LANCE__DATA_FRAGMENT__FIELD__PHYSICAL_ROWS, 1000);
	put_message(b, LANCE__MANIFEST__FIELD__FRAGMENTS, f);
}

/* Pin i: expires in an hour, so that any later time renews it. */
static void put_pin(struct pf_buf *b, uint64_t i, const char *source_txn, int64_t now)
{
	struct pf_buf pin = PF_BUF_INIT, id = PF_BUF_INIT;
	uint8_t uuid[16] = { [6] = 0x40, [8] = 0x80 };
	char label[32];

	for (unsigned k = 0; k < 4; k++)
		uuid[k] = (uint8_t)((i * 2654435761U) >> (8 * k)); /* spread as random ids are */
	for (unsigned k = 0; k < 6; k++)
		uuid[15 - k] = (uint8_t)(i >> (8 * k));
	snprintf(label, sizeof(label), "job %" PRIu64, i);

	check(pf_wire_put_bytes(&id, 1, uuid, sizeof(uuid)));
	put_message(&pin, 1, &id);
	put_u64(&pin, 2, 1);
	put_str(&pin, 3, source_txn);
	put_time(&pin, 4, now);
	put_time(&pin, 5, now + 3600);
	put_str(&pin, 6, label);
	put_message(b, PINS__NUMBER__FIELD, &pin);
	pf_buf_release(&pin);
	pf_buf_release(&id);
}

static void save(const char *dir, const char *sub, const char *name, const struct pf_buf *b)
{
	char *path;
	if (asprintf(&path, "%s/%s/%s", dir, sub, name) < 0)
		check(-ENOMEM);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		err(1, "%s", path);
	for (size_t done = 0; done < b->len;) {
		ssize_t n = write(fd, b->data + done, b->len - done);
		if (n < 0)
			err(1, "%s", path);
		done += (size_t)n;
	}
	if (close(fd) < 0)
		err(1, "%s", path);
	free(path);
}

static void sync_all(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || syncfs(fd) < 0 || close(fd) < 0)
		err(1, "%s", dir);
}

static void save_manifest(const char *dir, uint64_t version, const struct pf_buf *b)
{
	char name[64];
	snprintf(name, sizeof(name), "%020" PRIu64 ".manifest", UINT64_MAX - version);
	save(dir, "_versions", name, b);
}

static void put_le(struct pf_buf *b, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		check(pf_buf_addch(b, (char)(v >> (8 * i))));
}

/* One version: version 1 has no predecessor; the writer flag stands where pins may. */
struct shape {
	uint64_t version, pins;
	uint64_t bytes;	      /* fragments from 0 on, to make it so large; or */
	uint64_t first, last; /* these, of one file each; last is not among them */
	bool enabled;
	uint32_t operation;
	const char *source_txn; /* of the pins, whose source is version 1 */
};

/* Write it, its transaction inline and as a file. `txn` is told the transaction's uuid. */
static void make_version(const char *dir, const struct shape *v, char txn[PF_UUID_TEXT])
{
	struct pf_buf file = PF_BUF_INIT, m = PF_BUF_INIT, sub = PF_BUF_INIT, scratch = PF_BUF_INIT;
	int64_t now = pf_time_now().sec;
	char name[64];
	struct pf_uuid uuid;
	uint64_t fragments = 0;

	pf_uuid_new(&uuid);
	pf_uuid_format(&uuid, txn);

	put_u64(&m, LANCE__TRANSACTION__FIELD__READ_VERSION, v->version - 1);
	put_str(&m, LANCE__TRANSACTION__FIELD__UUID, txn);
	if (v->operation == LANCE__TRANSACTION__OPERATION__OVERWRITE)
		put_schema(&sub, 2);
	put_message(&m, v->operation, &sub);
	snprintf(name, sizeof(name), "%" PRIu64 "-%s.txn", v->version - 1, txn);
	save(dir, "_transactions", name, &m);
	put_le(&file, m.len, 4);
	check(pf_buf_add(&file, m.data, m.len));
	pf_buf_reset(&m);

	put_schema(&m, 1);
	for (; m.len < v->bytes; fragments++)
		put_fragment(&m, fragments, 1 + (unsigned)(fragments % COLUMNS), &sub, &scratch);
	for (uint64_t id = v->first; id < v->last; id++)
		put_fragment(&m, id, 1, &sub, &scratch);
	if (v->last)
		fragments = v->last;
	put_u64(&m, LANCE__MANIFEST__FIELD__VERSION, v->version);
	put_time(&m, LANCE__MANIFEST__FIELD__TIMESTAMP, now);
	if (v->enabled)
		put_u64(&m, LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS, UINT64_C(1) << PINS__NUMBER__FLAG_BIT);
	if (fragments)
		put_u64(&m, 11, fragments - 1); /* max_fragment_id */
	put_str(&m, LANCE__MANIFEST__FIELD__TRANSACTION_FILE, name);
	put_str(&sub, 1, "lance");
	put_str(&sub, 2, "14.0.2");
	put_message(&m, LANCE__MANIFEST__FIELD__WRITER_VERSION, &sub);
	put_str(&sub, 1, "lance");
	put_str(&sub, 2, "2.0");
	put_message(&m, 15, &sub); /* data_format */
	put_u64(&m, LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_21, 0);
	put_u64(&m, LANCE__MANIFEST__FIELD__TRANSACTION_SECTION_23, 0);
	for (uint64_t i = 0; i < v->pins; i++)
		put_pin(&m, i, v->source_txn, now);

	uint64_t at = file.len;
	put_le(&file, m.len, 4);
	check(pf_buf_add(&file, m.data, m.len));
	put_le(&file, at, 8);
	put_le(&file, 0, 2);
	put_le(&file, 2, 2);
	check(pf_buf_add(&file, "LANC", 4));
	save_manifest(dir, v->version, &file);

	pf_buf_release(&file);
	pf_buf_release(&m);
	pf_buf_release(&sub);
	pf_buf_release(&scratch);
}

/* A number, with K or M for the binary multiples. */
static uint64_t number(const char *s)
{
	char *end;
	uint64_t v = strtoull(s, &end, 10);
	unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
	if (end == s || end[shift != 0] != '\0')
		errx(2, "'%s' is not a number", s);
	return v << shift;
}

/* The data file of a fragment: a hole. */
static void make_hole(const char *dir, uint64_t id)
{
	char name[NAME_LEN], *path;

	name_file(id, 0, name);
	if (asprintf(&path, "%s/data/%s", dir, name) < 0)
		check(-ENOMEM);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, (off_t)size_of(id)) < 0 || close(fd) < 0)
		err(1, "%s", path);
	free(path);
}

static void make_folders(const char *dir, const char *const *subs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *path;
		if (asprintf(&path, "%s%s", dir, subs[i]) < 0)
			check(-ENOMEM);
		if (mkdir(path, 0777) < 0)
			err(1, "%s", path);
		free(path);
	}
}

struct growth {
	uint64_t each, most;
	bool holes;
};

/* Versions 2 and up, each whole. */
static void make_history(const char *dir, const struct growth *g, uint64_t versions, struct shape like)
{
	char txn[PF_UUID_TEXT];

	like.operation = LANCE__TRANSACTION__OPERATION__APPEND;
	for (uint64_t v = 2; v <= versions; v++) {
		like.version = v;
		for (uint64_t i = 0; i < g->each; i++, like.last++)
			if (g->holes)
				make_hole(dir, like.last);
		if (like.last - like.first > g->most)
			like.first = like.last - g->most;
		make_version(dir, &like, txn);
	}
}

int main(int argc, char **argv)
{
	struct growth g = { .most = UINT64_MAX };

	for (int c; (c = getopt(argc, argv, "a:m:d")) != -1;) {
		if (c == 'a')
			g.each = number(optarg);
		else if (c == 'm')
			g.most = number(optarg);
		else if (c == 'd')
			g.holes = true;
		else
			return 2;
	}
	if (argc - optind != (g.each ? 3 : 4))
		errx(2, "usage: gentable BYTES PINS VERSION DIR\n"
			"       gentable [-d] [-m MOST] -a EACH PINS VERSION DIR");
	const char *bytes = g.each ? NULL : argv[optind++];
	const char *pins = argv[optind], *versions = argv[optind + 1], *dir = argv[optind + 2];
	static const char *const subs[] = { "", "/_versions", "/_transactions", "/data" };
	char first[PF_UUID_TEXT], second[PF_UUID_TEXT];
	struct shape empty = { .version = 1, .operation = LANCE__TRANSACTION__OPERATION__OVERWRITE };
	struct shape pinned = {
		.version = number(versions),
		.bytes = bytes ? number(bytes) : 0,
		.pins = number(pins),
		.enabled = number(pins) > 0,
		.operation = LANCE__TRANSACTION__OPERATION__UPDATE_CONFIG,
		.source_txn = first,
	};

	make_folders(dir, subs, ARRAY_LEN(subs) - !g.holes);
	make_version(dir, &empty, first);
	if (g.each) {
		make_history(dir, &g, pinned.version, pinned);
	} else {
		for (uint64_t v = 2; v < pinned.version; v++)
			save_manifest(dir, v, &(struct pf_buf)PF_BUF_INIT);
		make_version(dir, &pinned, second);
	}
	/* Its writing back would be counted as somebody else's time. */
	sync_all(dir);
	return 0;
}
