/* What becomes of pins before anything is planned: what is due goes, what was renewed since does not, what is lost refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "core/cleanup.h"
#include "core/store_mem.h"

#include "pinned.h"
#include "world.h"

static void note(void *arg, const char *text)
{
	assert_int_equal(pf_buf_addf(arg, "%s\n", text), 0);
}

/* On the world's table, `in` seconds after its clock. */
static int settle(struct world *w, int64_t in, bool dry_run, struct pf_buf *said, struct pf_clean_pins *out,
		  struct pf_why *why)
{
	struct pf_lines l;

	pf_lines_init(&l, w->st);
	int r = pf_lines_refresh(&l, NULL, NULL, why);
	if (r == 0)
		r = pf_cleanup_pins(&l.v[0], (struct pf_time){ NOW + in, 0 }, dry_run, note, said, out, why);
	pf_lines_release(&l);
	return r;
}

static void new_pins(struct world *w)
{
	new_world(w, &enabled);
	run(w, op_register(1, 10), 0);
	run(w, op_register(2, 20), 0);
	run(w, op_register(3, 30), 0);
}

static void what_is_due_goes_in_one_commit(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct world w;

	new_pins(&w);
	uint64_t head = head_version(&w);
	assert_int_equal(settle(&w, 20, false, &said, &p, &why), 0);
	assert_int_equal(p.n_due, 2);
	assert_int_equal(p.skipped, 0);
	pf_clean_pins_release(&p);
	assert_int_equal(head_version(&w), head + 1);
	assert_int_equal(stored(&w, 1), -1);
	assert_int_equal(stored(&w, 2), -1);
	assert_int_equal(stored(&w, 3), 30);
	assert_non_null(strstr(pf_buf_str(&said), "aa000100-0000-0000-0000-000000000000, due since"));
	/* A second before its time nothing is due: then nothing is committed. */
	assert_int_equal(settle(&w, 29, false, &said, &p, &why), 0);
	assert_int_equal(p.n_due, 0);
	pf_clean_pins_release(&p);
	assert_int_equal(head_version(&w), head + 1);
	close_world(&w);
}

static void a_dry_run_only_names_them(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct pf_uuid one = id_of(1);
	struct world w;

	new_pins(&w);
	uint64_t head = head_version(&w);
	assert_int_equal(settle(&w, 10, true, &said, &p, &why), 0);
	assert_int_equal(p.n_due, 1);
	assert_true(pf_uuid_eq(&p.due[0], &one));
	pf_clean_pins_release(&p);
	assert_int_equal(head_version(&w), head);
	close_world(&w);
}

static void one_that_was_renewed_since_is_skipped(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct others o = { .op = "link", .name = "18446744073709551606.manifest", .act = op_on(PF_OP_RENEW, 1, 3600) };
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct world w;

	new_pins(&w);
	interfere(&w, &o);
	assert_int_equal(settle(&w, 20, false, &said, &p, &why), 0);
	heal(w.st);
	assert_int_equal(p.n_due, 1);
	assert_int_equal(p.skipped, 1);
	pf_clean_pins_release(&p);
	assert_int_equal(stored(&w, 1), 3600);
	assert_int_equal(stored(&w, 2), -1);
	assert_non_null(strstr(pf_buf_str(&said), "was renewed meanwhile"));
	close_world(&w);
}

static void whether_it_landed_must_be_known(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct trap t = { .op = "link", .name = ".manifest", .kind = PF_FAULT_AFTER, .err = -EIO, .forever = true };
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct world w;

	new_pins(&w);
	set_trap(w.st, &t);
	assert_int_equal(settle(&w, 20, false, &said, &p, &why), -EINPROGRESS);
	assert_non_null(strstr(why.text, "nothing is deleted: "));
	heal(w.st);
	close_world(&w);
}

/* What failed once is tried again: what is due is seen in the head, nowhere else (cases-open B03). */
static void an_expiry_that_failed_is_made_by_the_next_run(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct trap t = { .op = "link", .name = ".manifest", .kind = PF_FAULT_BEFORE, .err = -EIO, .forever = true };
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct world w;

	new_pins(&w);
	set_trap(w.st, &t);
	assert_true(settle(&w, 20, false, &said, &p, &why) < 0);
	assert_non_null(strstr(why.text, "nothing is deleted: "));
	heal(w.st);
	assert_int_equal(stored(&w, 1), 10);
	pf_buf_reset(&said);
	assert_int_equal(settle(&w, 20, false, &said, &p, &why), 0);
	assert_int_equal(p.n_due, 2);
	pf_clean_pins_release(&p);
	assert_int_equal(stored(&w, 1), -1);
	close_world(&w);
}

static void a_lost_pin_refuses(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct world w;

	new_pins(&w);
	uint64_t head = head_version(&w);
	table_put(w.st, &(struct table_version){ .version = head + 1, .writer = "8.0.1" });
	assert_int_equal(settle(&w, 0, true, &said, &p, &why), -EBUSY);
	assert_non_null(strstr(why.text, "is lost"));
	assert_non_null(strstr(why.text, "and 2 more"));
	assert_non_null(strstr(why.text, "`pinctl release --waive ID`"));
	close_world(&w);
}

/* It is not read a second time for nothing. */
static void a_table_that_never_had_pins_is_not_searched(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf said = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;
	struct pf_clean_pins p;
	struct pf_lines l;
	struct world w;

	new_world(&w, &(struct table_version){ .version = 0 });
	pf_lines_init(&l, w.st);
	assert_int_equal(pf_lines_refresh(&l, NULL, NULL, &why), 0);
	unsigned calls = pf_store_mem_calls(w.st);
	assert_int_equal(pf_cleanup_pins(&l.v[0], (struct pf_time){ NOW, 0 }, false, note, &said, &p, &why), 0);
	assert_int_equal(pf_store_mem_calls(w.st), calls);
	pf_clean_pins_release(&p);
	pf_lines_release(&l);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_due_goes_in_one_commit),
		cmocka_unit_test(a_dry_run_only_names_them),
		cmocka_unit_test(one_that_was_renewed_since_is_skipped),
		cmocka_unit_test(whether_it_landed_must_be_known),
		cmocka_unit_test(an_expiry_that_failed_is_made_by_the_next_run),
		cmocka_unit_test(a_lost_pin_refuses),
		cmocka_unit_test(a_table_that_never_had_pins_is_not_searched),
	};

	return cmocka_run_group_tests_name("cleanup_pins", tests, NULL, NULL);
}
