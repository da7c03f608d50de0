/* Confirmation (proposal: Registration): the head as storage has it, or that it cannot be told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "world.h"

static void confirm(struct world *w, unsigned n, const struct pf_request *q, int err, bool held, const char *says)
{
	struct pf_confirmation c = { .pin = PF_PIN_INIT };
	struct pf_why why = PF_WHY_INIT;
	struct pf_uuid id = id_of(n);

	int r = pf_confirm(w->b, &id, q, &c, &why);
	if (r != err || (r == 0 && c.held != held) || !strstr(why.text, says))
		fail_msg("%d, held %d: %s", r, c.held, why.text);
	if (r == 0)
		assert_int_equal(c.version, head_version(w));
	pf_confirmation_release(&c);
}

static void test_confirm(void **state)
{
	struct pf_request same = { .id = id_of(1),
				   .expires_at = { NOW + 60, 0 },
				   .label = (char[]){ "job" },
				   .has_source = true,
				   .source_version = 5,
				   .source_txn = SOURCE_5 };
	struct pf_op op = { .kind = PF_OP_REGISTER, .request = same };
	struct others other = { .op = "stat", .name = "", .act = op_on(PF_OP_RELEASE, 1, 0) };
	struct trap t = { "sync_dir", "_versions", PF_FAULT_BEFORE, -EIO };
	struct pf_request q;
	struct world w;

	new_world(&w, &enabled);
	confirm(&w, 1, &same, 0, false, "has no pin aa000100-0000-0000-0000-000000000000");
	run(&w, op, 0);
	confirm(&w, 1, NULL, 0, true, "holds");
	confirm(&w, 1, &same, 0, true, "holds");
	confirm(&w, 2, NULL, 0, false, "has no pin");

	q = same;
	q.expires_at.nsec = 1;
	confirm(&w, 1, &q, 0, false, "expires at");
	q = same;
	q.label = (char[]){ "other" };
	confirm(&w, 1, &q, 0, false, "label");
	q = same;
	q.source_version = 4;
	confirm(&w, 1, &q, 0, false, "source");
	q = same;
	q.branch = (char[]){ "x" };
	confirm(&w, 1, &q, 0, false, "branch");
	q = same;
	q.has_source = false;
	confirm(&w, 1, &q, 0, true, "holds");

	/* It is there, and whoever put it there could not make it last. */
	set_trap(w.st, &t);
	confirm(&w, 1, &same, -EINPROGRESS, false, "cannot be told");
	confirm(&w, 2, NULL, 0, false, "has no pin");
	heal(w.st);

	/* Another process releases it, after our last look and before this one: the answer is of now. */
	interfere(&w, &other);
	confirm(&w, 1, &same, 0, false, "has no pin");

	/* Whatever keeps the head from being read: it cannot be told. */
	pf_store_mem_fault(w.st, 1, PF_FAULT_BEFORE, -EIO, true);
	confirm(&w, 1, &same, -EINPROGRESS, false, "cannot be told");
	heal(w.st);
	assert_int_equal(pf_store_mem_put(w.st, "_versions/18446744073709551606.manifest", "junk", 4), 0);
	confirm(&w, 1, &same, -EINPROGRESS, false, "18446744073709551606.manifest");
	close_world(&w);
}

/* The branch is deleted and made anew while we read. */
static void make_anew(void *arg, struct pf_store *st, const char *op, const char *name)
{
	if (strcmp(op, "stat") == 0 && strncmp(name, "tree/x/", 7) == 0)
		table_put_branch(st, "x", 5, "0123456789abcdef0123456789abcdef");
}

static void test_confirm_branch(void **state)
{
	static const struct table_version first = {
		.version = 5, .dir = "tree/x/", .branch = "x", .writer_flags = BIT_PINS
	};
	struct pf_op op = op_register(1, 60);
	struct pf_confirmation c = { .pin = PF_PIN_INIT };
	struct pf_uuid id = id_of(1);
	struct world w = { .like = &enabled };
	struct pf_store *st = table_new(5, &enabled);

	table_put(st, &first);
	table_put_branch(st, "x", 5, "00112233445566778899aabbccddeeff");
	open_branch(&w, st, "x", 0);
	op.request.branch = (char[]){ "x" };
	strcpy(op.request.branch_id, "00112233445566778899aabbccddeeff");
	run(&w, op, 0);
	assert_int_equal(pf_confirm(w.b, &id, &op.request, &c, NULL), 0);
	assert_true(c.held);
	assert_string_equal(c.branch_id, "00112233445566778899aabbccddeeff");
	pf_confirmation_release(&c);

	pf_store_mem_set_hook(st, make_anew, NULL);
	confirm(&w, 1, NULL, -EINPROGRESS, false, "made anew");
	heal(st);

	/* Made anew under the same name: another branch, whatever its head says. */
	table_put_branch(st, "x", 5, "ffeeddccbbaa99887766554433221100");
	confirm(&w, 1, &op.request, 0, false, "ffeeddccbbaa99887766554433221100");
	run(&w, op, -EINVAL);
	assert_int_equal(pf_store_mem_del(st, "_refs/branches/x.json"), 0);
	confirm(&w, 1, &op.request, -EINPROGRESS, false, "cannot be told");
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confirm),
		cmocka_unit_test(test_confirm_branch),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
