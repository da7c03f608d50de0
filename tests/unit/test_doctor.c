/* What the doctor says of tables in memory; of storage that fails it never says that all is well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/doctor.h"
#include "core/store_mem.h"

#include "pinned.h"
#include "table.h"
#include "world.h"

#define DAY	(INT64_C(24) * 3600)
#define CREATED INT64_C(1767225600) /* of tests/unit/table.c: 2026-01-01 */

/* One line a check that is not ok. */
struct sheet {
	struct pf_buf text;
	size_t checks, troubles;
};

static void sheet_release(struct sheet *s)
{
	pf_buf_release(&s->text);
}

static int note(void *arg, const struct pf_diagnosis *d)
{
	struct sheet *s = arg;

	s->checks++;
	assert_true(d->text && d->text[0]);
	assert_int_equal(d->verdict == PF_TROUBLE, d->err < 0);
	s->troubles += d->verdict == PF_TROUBLE;
	if (d->verdict != PF_FINE)
		assert_int_equal(pf_buf_addf(&s->text, "%s %s %s: %s\n", pf_health_name(d->verdict),
					     d->branch ? d->branch : "main", d->check, d->text),
				 0);
	return 0;
}

static int visit(struct pf_store *st, int64_t now, bool all, struct sheet *s)
{
	const struct pf_doctor_options o = { .now.sec = now, .all = all };
	struct pf_why why = PF_WHY_INIT;

	pf_buf_reset(&s->text);
	s->checks = s->troubles = 0;
	return pf_doctor(st, &o, note, s, &why);
}

static void expect(struct pf_store *st, int64_t now, const char *want)
{
	_cleanup_(sheet_release) struct sheet s = { .text = PF_BUF_INIT };

	assert_int_equal(visit(st, now, true, &s), 0);
	assert_string_equal(pf_buf_str(&s.text), want);
}

static struct pf_store *new_table(void)
{
	return table_new(3, &(struct table_version){ .writer_flags = BIT_PINS });
}

static void test_well(void **state)
{
	struct pf_store *st = new_table();

	expect(st, CREATED + DAY, "");
	pf_store_free(st);
}

static void test_sections(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, none = PF_BUF_INIT;
	struct pf_store *st = table_new(2, &(struct table_version){ .version = 0 });

	/* The inline transaction is found by field 23; 21 leads elsewhere in version 2, to the same place in 3. */
	assert_int_equal(pf_wire_put_u64(&extra, 21, 4), 0);
	table_put(st, &(struct table_version){ .version = 2, .extra = &extra });
	table_put(st, &(struct table_version){ .version = 3, .txn = TABLE_TXN_12 });
	expect(st, CREATED + DAY,
	       "trouble main sections: manifest fields 21 and 23 of 1 versions lead to different transactions, first in "
	       "version 2: Lance up to 13 reads one, 14 the other\n");
	pf_store_free(st);
}

static void test_flags(void **state)
{
	struct pf_store *st = new_table();

	/* An old writer came; then somebody set the bit again. */
	table_put(st, &(struct table_version){ .version = 4, .writer = "8.0.1" });
	expect(st, CREATED + DAY,
	       "advice main flags: version 4 was made by a writer that drops bit 19 and pins: Lance up to 11; pins are "
	       "not enabled: every release of Lance writes here\n");
	pinned_put(st, &(struct table_version){ .version = 5 },
		   &(struct pinned){ .pins = "d", .kind = PF_OP_REGISTER, .named = "d" });
	_cleanup_(sheet_release) struct sheet s = { .text = PF_BUF_INIT };
	assert_int_equal(visit(st, CREATED + DAY, false, &s), 0);
	assert_non_null(
		strstr(pf_buf_str(&s.text), "there are pins, and bit 19 is not set: any writer may drop them\n"));
	pf_store_free(st);
}

static void test_times(void **state)
{
	struct pf_store *st = new_table();

	expect(st, CREATED - DAY,
	       "advice main times: 3 versions were made in the future of this host: a clock was wrong, or is\n");
	/* A day after its version is not said, more is. */
	assert_int_equal(pf_store_mem_set_mtime(st, "_versions/18446744073709551612.manifest",
						(CREATED + 3 + DAY) * 1000000000),
			 0);
	expect(st, CREATED + 2 * DAY, "");
	assert_int_equal(pf_store_mem_set_mtime(st, "_versions/18446744073709551612.manifest",
						(CREATED + 4 + DAY) * 1000000000),
			 0);
	expect(st, CREATED + 2 * DAY,
	       "advice main times: the files of 1 versions are younger than these, as after a copy without times: Lance "
	       "then leaves transactions and deletion files, and `cleanup --leaks` does not\n");
	pf_store_free(st);
	/* One that says it is of the year 1019. */
	st = new_table();
	table_put(st, &(struct table_version){
			      .version = 4, .writer_flags = BIT_PINS, .timestamp = { .sec = -30000000000 } });
	expect(st, CREATED + DAY, "");
	pf_store_free(st);
}

/* Everything in memory was changed in the first minutes of 1970: seven days after that, to the second, it is old. */
static void test_guard(void **state)
{
	struct pf_store *st = table_new(1, &(struct table_version){ .version = 0 });

	assert_int_equal(pf_store_mem_put(st, "data/stray.lance", "12345", 5), 0);
	assert_int_equal(pf_store_mem_set_mtime(st, "data/stray.lance", CREATED * 1000000000), 0);
	expect(st, CREATED + 7 * DAY, "");
	expect(st, CREATED + 7 * DAY + 1,
	       "advice main stranded: 1 files were written and never committed, 5 bytes, like \"data/stray.lance\"\n");
	pf_store_free(st);
}

static void test_damaged(void **state)
{
	struct pf_store *st = new_table();
	_cleanup_(sheet_release) struct sheet s = { .text = PF_BUF_INIT };

	assert_int_equal(pf_store_mem_put(st, "_versions/18446744073709551611.manifest", "x", 1), 0);
	assert_int_equal(visit(st, CREATED + DAY, true, &s), 0);
	assert_int_equal(s.checks, 5);
	assert_int_equal(s.troubles, 1);
	assert_non_null(strstr(pf_buf_str(&s.text), "trouble main head: "));
	pf_store_free(st);

	assert_int_equal(pf_store_mem_new(&st), 0);
	assert_int_equal(visit(st, CREATED, true, &s), -ENOENT);
	pf_store_free(st);
}

/* Whichever call fails, that is told: as an error, or as something else than what is told of the same table otherwise. */
static void test_faults(void **state)
{
	struct pf_store *st = new_table();
	_cleanup_(sheet_release) struct sheet well = { .text = PF_BUF_INIT }, s = { .text = PF_BUF_INIT };

	table_put_branch(st, "dev", 2, "0123456789abcdef0123456789abcdef");
	table_put(st, &(struct table_version){ .version = 2, .dir = "tree/dev/", .branch = "dev" });
	assert_int_equal(pf_store_mem_put(st, "tree/gone/data/x", "x", 1), 0);
	unsigned before = pf_store_mem_calls(st);
	assert_int_equal(visit(st, CREATED + DAY, true, &well), 0);
	unsigned calls = pf_store_mem_calls(st) - before;
	for (unsigned n = 1; n <= calls; n++) {
		pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, false);
		int r = visit(st, CREATED + DAY, true, &s);
		pf_store_mem_fault(st, 0, PF_FAULT_NONE, 0, false);
		if (r == 0 && strcmp(pf_buf_str(&s.text), pf_buf_str(&well.text)) == 0)
			fail_msg("call %u failed, and nobody says so", n);
	}
	pf_store_free(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_well),   cmocka_unit_test(test_sections), cmocka_unit_test(test_flags),
		cmocka_unit_test(test_times),  cmocka_unit_test(test_guard),	cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_faults),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
