/* What going back to an older version would mean, and what becomes of a history of moved rows when it is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/fri_branch.h"
#include "core/restore.h"
#include "core/work.h"

#include "dice.h"
#include "lived.h"
#include "moves.h"
#include "pinned.h"
#include "recorded.h"
#include "whole.h"
#include "world.h"

#define SEED   20261201
#define ROUNDS 300
#define BIT_10 (UINT64_C(1) << 10)

static void look(struct pf_store *st, uint64_t version, struct pf_restore_plan *p)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	if (pf_restore_look(b, version, p, &why) < 0)
		fail_msg("%s", why.text);
}

static void restore(struct pf_store *st, uint64_t version)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work w = { .operation = &o };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(pf_restore_operation(head->version, version, &o, NULL), 0);
	assert_int_equal(o.version, version);
	assert_int_equal(o.read_version, head->version);
	if (pf_work_commit(b, &w, &result, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(result.version, head->version + 1);
	assert_whole(st, "", true); /* what was deleted left its transaction file */
}

static void want_ids(const struct pf_numbers *l, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;

	for (size_t i = 0; i < l->n; i++)
		pf_buf_addf(&b, "%s%d", i ? " " : "", (int)l->v[i]);
	assert_string_equal(b.len ? pf_buf_str(&b) : "", text);
}

/* A24: forward, with the old content; pins and what they were registered on stay. */
static void forward(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10 2:10" },
		{ .version = 2, .fragments = "1:10 2:10 3:10" },
		{ .version = 3, .fragments = "3:10 4:20", .pins = "b", .history = "L2 1:10 2:10 > 4:20" },
		{ .version = 4,
		  .fragments = "5:30",
		  .pins = "bC",
		  .history = "L2 1:10 2:10 > 4:20; L3 3:10 4:20 > 5:30" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 4);
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { 0 }, q = { 0 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	look(st, 3, &p);
	assert_int_equal(p.head, 4);
	assert_int_equal(p.version, 3);
	assert_int_equal(p.fragments, 2);
	want_ids(&p.back, "3 4");
	want_ids(&p.gone, "5");
	assert_int_equal(p.records, 1);
	assert_int_equal(p.dropped, 1);
	assert_int_equal(p.n_pins, 2);
	assert_int_equal(p.pins[0].source, 2);
	assert_int_equal(p.pins[0].fragments, 3);
	assert_int_equal(p.pins[0].stranded, 0);
	assert_int_equal(p.pins[1].source, 3);
	assert_int_equal(p.pins[1].stranded, 0);
	look(st, 1, &q);
	assert_int_equal(q.records, 0);
	assert_int_equal(q.dropped, 2);
	assert_int_equal(q.pins[0].stranded, 1); /* 3 */
	assert_int_equal(q.pins[1].stranded, 2); /* 3 and 4 */

	restore(st, 3);
	recorded_want(st, "stamp 2 [v0 1:10:0 2:10:0 > 4:20:0]\n");
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(m->version, 5);
	assert_int_equal(m->writer_flags & BIT_PINS, BIT_PINS);
	assert_int_equal(m->pins.n, 2);
	/* As the head has them: c was renewed. */
	for (size_t i = 0; i < 2; i++) {
		_cleanup_(pf_pin_release) struct pf_pin want = pinned_pin("bC"[i]);
		assert_int_equal(m->pins.v[i].source_version, want.source_version);
		assert_string_equal(m->pins.v[i].source_txn, want.source_txn);
		assert_int_equal(m->pins.v[i].expires_at.sec, want.expires_at.sec);
	}
}

/* To before the first tagged record: the bit stays, so the next record is a tagged one (lance-14-fri section 4). */
static void to_before_the_tag(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "2:10", .history = "L0 1:10 > 2:10" },
		{ .version = 2,
		  .fragments = "3:10",
		  .history = "L0 1:10 > 2:10; T 2:10 > 3:10",
		  .index_version = 1,
		  .flags = BIT_10 },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;

	restore(st, 1);
	recorded_want(st, "stamp 0 [v0 1:10:0 > 2:10:0]\n");
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(m->reader_flags & BIT_10, BIT_10);
	assert_int_equal(m->writer_flags & BIT_10, BIT_10);
}

/* Through histories of each kind, in whatever order the records of a tagged one stand. */
static void ways(void **state)
{
	static const struct {
		const char *fragments, *history, *restored;
		int index_version;
		uint64_t stranded;
	} rows[] = {
		{ "0:10 1:10", "T 2:20 > 3:20; T 0:10 1:10 > 2:20", "3:20", 1, 0 },
		{ "0:10 1:10", "T 0:10 1:10 > 2:20; P 2:20 > 3:10 4:10", "3:10 4:10", 1, 0 },
		{ "0:10 1:10", "T 0:10 1:10 > 2:20; P 2:20 > 3:10 4:10", "3:10", 1, 2 },
		{ "0:10 1:10", "L1 0:10 > 2:10 | 1:10 > 3:10; T 3:10 > 4:10", "2:10 4:10", 1, 0 },
		{ "0:10 1:10", "L1 0:10 > 2:10 | 1:10 > 3:10; T 3:10 > 4:10", "2:10 3:10", 1, 1 },
		{ "0:10 1:10", "L1 0:10 > 2:10; L2 1:10 > 3:10", "2:10 3:10", 0, 0 },
		/* Version 0 has an order: what was moved before is not moved by what came earlier. */
		{ "0:10 1:10", "L1 2:20 > 3:20; L2 0:10 1:10 > 2:20", "3:20", 0, 2 },
		{ "0:10 1:10", NULL, "0:10", 0, 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t flags = rows[i].index_version ? BIT_10 : 0;
		const struct recorded v[] = {
			{ .version = 1, .fragments = rows[i].fragments, .flags = flags },
			{ .version = 2,
			  .fragments = rows[i].restored,
			  .history = rows[i].history,
			  .pins = "a",
			  .index_version = rows[i].index_version,
			  .flags = flags },
		};
		_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);
		_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { 0 };
		look(st, 2, &p);
		if (p.pins[0].stranded != rows[i].stranded || p.pins[0].fragments != 2)
			fail_msg("row %zu: %d", i, (int)p.pins[0].stranded);
	}
}

static void want_unknown(struct pf_store *st, const char *sentence)
{
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { 0 };

	look(st, 2, &p);
	assert_non_null(p.pins[0].unknown);
	if (!strstr(p.pins[0].unknown, sentence))
		fail_msg("%s", p.pins[0].unknown);
}

/* Nobody can tell what becomes of a pin: that is said of this one, and no reason not to restore. */
static void what_cannot_be_told(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2, .fragments = "0:10", .pins = "a" },
		{ .version = 2, .fragments = "1:10", .pins = "a", .history = "T 0:10 > 1:10" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2), *strange = recorded_table(v, 1);

	recorded_put(strange, v + 2);
	want_unknown(strange, "field 2 of a v0 history is not known");
	table_put(st, &(struct table_version){ .version = 1, .uuid = "99999999-9999-4999-8999-999999999999" });
	want_unknown(st, "version 1 is of transaction 99999999-9999-4999-8999-999999999999, expected 0badcafe-");
	pf_store_mem_del(st, "_versions/18446744073709551614.manifest");
	want_unknown(st, "version 1 is missing");
	restore(st, 2);
}

static void refused(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2, .fragments = "1:10", .history = "L1 0:10 > 1:9" },
		{ .version = 3, .fragments = "1:10" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 3);
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	struct pf_restore_plan p = { 0 };
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_restore_look(b, 4, &p, &why), -ENOENT);
	assert_int_equal(pf_restore_look(b, 2, &p, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "record 0"));
	assert_int_equal(p.n_pins, 0);
}

/* --- random tables ---------------------------------------------------------------------------------------------------- */

/* Does every way of the rows of a fragment end in the version, by its records? */
static bool leads(const struct lived *m, unsigned id, uint64_t version)
{
	for (unsigned i = 0; i < m->n_records; i++) {
		const struct record *r = &m->records[i];
		for (unsigned k = 0; r->published <= version && k < r->n; k++) {
			bool all = true;
			if (!(r->group[k].from & lived_bit(id)))
				continue;
			for (unsigned to = 0; to < m->next; to++)
				if (r->group[k].to & lived_bit(to))
					all = all && leads(m, to, version);
			return all;
		}
	}
	return m->alive[version] & lived_bit(id);
}

static unsigned count(uint64_t set)
{
	unsigned n = 0;

	for (; set; set &= set - 1)
		n++;
	return n;
}

static void check_plan(const struct lived *m, uint64_t version, unsigned *stranded, unsigned *followed)
{
	_cleanup_(pf_restore_plan_release) struct pf_restore_plan p = { 0 };
	unsigned records = 0;

	look(m->st, version, &p);
	for (unsigned i = 0; i < m->n_records; i++)
		records += m->records[i].published <= version;
	assert_int_equal(p.records, records);
	assert_int_equal(p.dropped, m->n_records - records);
	assert_int_equal(p.fragments, count(m->alive[version]));
	assert_int_equal(p.back.n, count(m->alive[version] & ~lived_alive(m)));
	assert_int_equal(p.gone.n, count(lived_alive(m) & ~m->alive[version]));
	assert_int_equal(p.n_pins, m->n_pins);
	for (unsigned i = 0; i < m->n_pins; i++) {
		uint64_t source = m->alive[m->pins[i] - 'a' + 1];
		unsigned n = 0;
		for (unsigned id = 0; id < m->next; id++)
			n += (source & lived_bit(id)) && !leads(m, id, version);
		assert_null(p.pins[i].unknown);
		assert_int_equal(p.pins[i].fragments, count(source));
		assert_int_equal(p.pins[i].stranded, n);
		*stranded += n;
		*followed += count(source) - n;
	}
}

/* The fragments and the index section are those of the version, byte for byte (E08), pins and marks those of the head. */
static void check_restored(const struct lived *m, uint64_t version)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *then = NULL, *now = NULL;
	_cleanup_(pf_buf_release) struct pf_buf was = PF_BUF_INIT, is = PF_BUF_INIT;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	restore(m->st, version);
	assert_int_equal(pf_branch_open(m->st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_version(b, version, &then, NULL), 0);
	assert_int_equal(pf_branch_head(b, &now, NULL), 0);
	assert_int_equal(pf_store_get(m->st, then->name, 1 << 20, &was), 0);
	assert_int_equal(pf_store_get(m->st, now->name, 1 << 20, &is), 0);
	assert_int_equal(now->index.present, then->index.present);
	assert_int_equal(now->index.len, then->index.len);
	if (then->index.len)
		assert_memory_equal(is.data + now->index.off, was.data + then->index.off, now->index.len);
	assert_int_equal(now->pins.n, m->n_pins);
	for (unsigned i = 0; i < m->n_pins; i++)
		assert_int_equal(pinned_letter(&now->pins.v[i].id), m->pins[i]);
	assert_int_equal(now->writer_flags & (BIT_PINS | BIT_10), BIT_PINS | (m->tagged ? BIT_10 : 0));
}

static void random_tables(void **state)
{
	static struct lived m;
	unsigned stranded = 0, followed = 0;

	dice_seed(SEED);
	for (unsigned round = 0; round < ROUNDS; round++) {
		lived_new(&m, round);
		uint64_t version = m.first + dice((uint32_t)(m.version - m.first) + 1);
		check_plan(&m, version, &stranded, &followed);
		check_restored(&m, version);
		lived_release(&m);
	}
	if (stranded < ROUNDS / 4 || followed < ROUNDS / 4)
		fail_msg("%u fragments stranded, %u followed", stranded, followed);
}

/* Lance publishes it, and then can commit nothing more. */
static void a_history_that_is_not_valid_stays_where_it_is(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "3:9", .history = "L0 2:10 > 3:9" },
		{ .version = 2, .fragments = "4:10", .pins = "a" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, ARRAY_LEN(v));
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work w = { .operation = &o };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_restore_operation(2, 1, &o, NULL), 0);
	assert_int_equal(pf_work_commit(b, &w, &result, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "version 1 cannot be restored, for its history of moved rows"));
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	assert_int_equal(head->version, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_history_that_is_not_valid_stays_where_it_is),
		cmocka_unit_test(forward),
		cmocka_unit_test(to_before_the_tag),
		cmocka_unit_test(ways),
		cmocka_unit_test(what_cannot_be_told),
		cmocka_unit_test(refused),
		cmocka_unit_test(random_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
