/* Memory that runs out while the doctor looks, at every allocation: nothing leaks, and it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/doctor.h"
#include "core/store_mem.h"

#include "alloc.h"
#include "pinned.h"
#include "table.h"
#include "world.h"

static int count(void *arg, const struct pf_diagnosis *d)
{
	*(size_t *)arg += d->verdict == PF_FINE ? 1 : 100;
	return 0;
}

static int visit(struct pf_store *st, size_t *sum)
{
	const struct pf_doctor_options o = { .now.sec = NOW, .all = true };
	struct pf_why why = PF_WHY_INIT;

	*sum = 0;
	return pf_doctor(st, &o, count, sum, &why);
}

static void test_everywhere(void **state)
{
	struct pf_store *st = table_new(3, &(struct table_version){ .writer_flags = BIT_PINS });
	size_t want, got;
	unsigned n;

	pinned_put(st, &(struct table_version){ .version = 4, .writer_flags = BIT_PINS },
		   &(struct pinned){ .pins = "a", .kind = PF_OP_REGISTER, .named = "a" });
	table_put(st, &(struct table_version){ .version = 5, .writer = "8.0.1" });
	table_put_branch(st, "dev", 2, "0123456789abcdef0123456789abcdef");
	assert_int_equal(pf_store_mem_put(st, "data/stray.lance", "x", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "tree/gone/data/x", "x", 1), 0);
	assert_int_equal(visit(st, &want), 0);
	for (n = 1;; n++) {
		alloc_fail(n);
		int r = visit(st, &got);
		bool over = alloc_calls() < n;
		alloc_fail(0);
		/* A look that can do without goes on. */
		if (r == 0)
			assert_true(got >= want);
		else
			assert_int_equal(r, -ENOMEM);
		if (over)
			break;
	}
	assert_true(n > 100);
	pf_store_free(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_everywhere) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
