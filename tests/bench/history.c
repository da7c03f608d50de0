/*
 * history [-l] RECORDS: what it takes to decode a fragment reuse history, and to find which of its records one pin needs. Each record moves the ten
 * fragments that the record before made into ten new ones, and the pin has the first ten: it needs all records. Tagged; with -l v0.
 *
 * Prints microseconds of processor time of the decoding and of the closure, and the bytes of the history, separated by tabs.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/closure.h"
#include "lance.pb-c.h"

#define EACH 10
#define ROWS 1000

#define CONTENT(f)    LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__##f
#define VERSION(f)    LANCE__FRAGMENT_REUSE_INDEX_DETAILS__VERSION__FIELD__##f
#define GROUP(f)      LANCE__FRAGMENT_REUSE_INDEX_DETAILS__GROUP__FIELD__##f
#define DIGEST(f)     LANCE__FRAGMENT_REUSE_INDEX_DETAILS__FRAGMENT_DIGEST__FIELD__##f
#define TRANSITION(f) LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__##f
#define ORDERED(f)    LANCE__FRAGMENT_REUSE_INDEX_DETAILS__ORDERED_COMPACTION__FIELD__##f

/* Running out of memory is the end of a tool like this. */
static void check(int r, const struct pf_why *why)
{
	if (r < 0)
		errx(1, "%s", why && why->text[0] ? why->text : strerror(-r));
}

static void put_message(struct pf_buf *b, uint32_t number, struct pf_buf *m)
{
	check(pf_wire_put_bytes(b, number, m->data, m->len), NULL);
	pf_buf_reset(m);
}

static void put_digests(struct pf_buf *b, uint32_t number, uint64_t first)
{
	struct pf_buf m = PF_BUF_INIT;

	for (uint64_t id = first; id < first + EACH; id++) {
		check(pf_wire_put_u64(&m, DIGEST(ID), id), NULL);
		check(pf_wire_put_u64(&m, DIGEST(PHYSICAL_ROWS), ROWS), NULL);
		put_message(b, number, &m);
	}
	pf_buf_release(&m);
}

static void put_le(struct pf_buf *b, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		check(pf_buf_addch(b, (char)(v >> (8 * i))), NULL);
}

/* All rows of the fragments: a bitmap each, of one container, of one run. */
static void put_rows(struct pf_buf *b, uint32_t number, uint64_t first)
{
	struct pf_buf m = PF_BUF_INIT;

	put_le(&m, EACH, 8);
	for (uint64_t id = first; id < first + EACH; id++) {
		put_le(&m, id, 4);
		put_le(&m, 12347, 4);
		put_le(&m, 1, 1);
		put_le(&m, 0, 2);
		put_le(&m, ROWS - 1, 2);
		put_le(&m, 1, 2);
		put_le(&m, 0, 2);
		put_le(&m, ROWS - 1, 2);
	}
	put_message(b, number, &m);
	pf_buf_release(&m);
}

static void put_record(struct pf_buf *out, uint64_t i, bool legacy)
{
	struct pf_buf record = PF_BUF_INIT, part = PF_BUF_INIT;
	uint64_t from = EACH * i, to = from + EACH;

	if (legacy) {
		put_rows(&part, GROUP(CHANGED_ROW_ADDRS), from);
		put_digests(&part, GROUP(OLD_FRAGMENTS), from);
		put_digests(&part, GROUP(NEW_FRAGMENTS), to);
		check(pf_wire_put_u64(&record, VERSION(DATASET_VERSION), i + 1), NULL);
		put_message(&record, VERSION(GROUPS), &part);
	} else {
		put_digests(&record, TRANSITION(SOURCES), from);
		put_digests(&record, TRANSITION(DESTINATIONS), to);
		put_rows(&part, ORDERED(CHANGED_ROW_ADDRS), from);
		put_message(&record, TRANSITION(ORDERED_COMPACTION), &part);
	}
	put_message(out, legacy ? CONTENT(LEGACY_VERSIONS) : CONTENT(TRANSITIONS), &record);
	pf_buf_release(&record);
	pf_buf_release(&part);
}

static int64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	_cleanup_(pf_fri_release) struct pf_fri fri = { .index_version = 0 };
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	uint32_t fragments[EACH];
	uint64_t records, rows[EACH];
	bool legacy = false;

	for (int c; (c = getopt(argc, argv, "l")) != -1;) {
		if (c != 'l')
			return 2;
		legacy = true;
	}
	if (argc - optind != 1 || pf_u64_parse(argv[optind], strlen(argv[optind]), &records) < 0)
		errx(2, "usage: history [-l] RECORDS");
	for (uint64_t i = 0; i < records; i++)
		put_record(&content, i, legacy);
	for (uint32_t i = 0; i < EACH; i++) {
		fragments[i] = i;
		rows[i] = ROWS;
	}
	size_t size = content.len;
	int64_t start = cpu_us();
	check(pf_fri_decode(&content, legacy ? 0 : 1, &fri, &why), &why);
	int64_t decoded = cpu_us();
	struct pf_fri_need *needs = calloc(records + 1, sizeof(*needs));
	if (!needs)
		check(-ENOMEM, NULL);
	const struct pf_fri_pin pin = {
		.source_version = 1, .fragments = fragments, .rows = rows, .n_fragments = EACH
	};
	check(pf_closure_pin(&fri, &pin, needs, &why), &why);
	int64_t closed = cpu_us();
	for (uint64_t i = 0; i < records; i++)
		if (!needs[i].needed)
			errx(1, "record %" PRIu64 " is not needed", i);
	free(needs);
	printf("%" PRId64 "\t%" PRId64 "\t%zu\n", decoded - start, closed - decoded, size);
	return 0;
}
