/* Branches made and deleted: what is written, in which order, what storage may do meanwhile, and what others do between two steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/branch_make.h"

#include "attempt.h"
#include "pinned.h"

#define REF	 "_refs/branches/dev.json"
#define MANIFEST "tree/dev/_versions/18446744073709551610.manifest"

static const struct pf_time now = { NOW, 0 };

/* Versions 1 to 5 of main; pins enabled. */
static struct pf_store *new_store(void)
{
	return table_new(5, &enabled);
}

static struct pf_branch *line(struct pf_store *st, const char *name)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, name, &b, &why) < 0)
		fail_msg("%s", why.text);
	return b;
}

static int create(struct pf_store *st, uint64_t version, const char *name, struct pf_why *why)
{
	struct pf_branch *b = line(st, NULL);
	int r = pf_branch_create(b, version, name, now, why);

	pf_branch_free(b);
	return r;
}

static void made(struct pf_store *st, const char *name)
{
	struct pf_why why = PF_WHY_INIT;

	if (create(st, 5, name, &why) < 0)
		fail_msg("%s", why.text);
}

/* A pin on the branch dev, which is at version 5. */
static void pin(struct pf_store *st)
{
	struct world w = { 0 };

	open_branch(&w, st, "dev", 0);
	w.now = now;
	run(&w, op_register(1, 3600), 0);
	w.st = NULL;
	pf_committer_free(w.c);
	pf_branch_free(w.b);
}

static void starts_without_pins_and_with_bit_19(void **state)
{
	struct pf_store *st = new_store();
	struct pf_manifest *m = NULL;
	struct pf_txn txn = PF_TXN_INIT;

	made(st, "dev");
	assert_int_equal(pf_manifest_open(st, MANIFEST, &m, NULL), 0);
	assert_int_equal(m->version, 5);
	assert_string_equal(m->branch, "dev");
	assert_int_equal(m->pins.n, 0);
	assert_true(m->writer_flags & BIT_PINS);
	assert_int_equal(m->reader_flags & 16, 16);
	assert_int_equal(pf_txn_read(st, "tree/dev/", m, &txn, NULL), 0);
	assert_int_equal(txn.operation, 113);
	assert_int_equal(txn.read_version, 5);
	pf_txn_release(&txn);
	pf_manifest_unref(m);
	pf_store_free(st);
}

/* Whichever call fails, before or after its effect: a branch that works, or none and nothing of it; and with an unknown outcome either. */
static void every_call_of_a_creation_fails_once(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		bool reached = true;

		for (unsigned n = 1; reached; n++) {
			_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;
			struct pf_why why = PF_WHY_INIT;
			struct pf_store *st = new_store();
			struct pf_branch *main_line = line(st, NULL), *b = NULL;
			unsigned before = pf_store_mem_calls(st);

			pf_store_mem_fault(st, n, kind, -EIO, false);
			int r = pf_branch_create(main_line, 5, "dev", now, &why);
			reached = pf_store_mem_calls(st) - before >= n;
			heal(st);
			assert_true(r == 0 || r == -EIO || r == -EINPROGRESS);
			assert_true(r == 0 || why.text[0]);
			if (exists(st, REF)) {
				assert_int_not_equal(r, -EIO);
				assert_int_equal(pf_branch_open(st, "dev", &b, NULL), 0);
				pf_branch_free(b);
			} else {
				assert_int_not_equal(r, 0);
				if (r == -EIO && exists(st, "tree"))
					table_list(st, "tree", &files);
				/* What could not be removed, or was not known to be there, is what a deletion by force is for. */
				if (files.len)
					assert_int_equal(pf_branch_delete(st, "dev", true, NULL), 0);
				made(st, "dev");
			}
			pf_branch_free(main_line);
			pf_store_free(st);
			if (!reached)
				assert_int_equal(r, 0);
		}
	}
}

/* A crash after any call: all later ones fail. The branch is whole or not there, and a deletion by force clears the way for another try. */
static void a_crash_anywhere_leaves_a_branch_or_none(void **state)
{
	bool reached = true;

	for (unsigned n = 1; reached; n++) {
		struct pf_store *st = new_store();
		struct pf_branch *main_line = line(st, NULL), *b = NULL;
		unsigned before = pf_store_mem_calls(st);

		pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, true);
		int r = pf_branch_create(main_line, 5, "dev", now, NULL);
		reached = pf_store_mem_calls(st) - before >= n;
		heal(st);
		if (exists(st, REF)) {
			assert_int_equal(pf_branch_open(st, "dev", &b, NULL), 0);
			pf_branch_free(b);
		} else {
			assert_int_not_equal(r, 0);
			r = pf_branch_delete(st, "dev", true, NULL);
			assert_true(r == 0 || r == -ENOENT);
			made(st, "dev");
		}
		pf_branch_free(main_line);
		pf_store_free(st);
	}
}

/* Whichever call of a deletion fails: without its ref the branch is gone, with it it is whole. */
static void every_call_of_a_deletion_fails_once(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		bool reached = true;

		for (unsigned n = 1; reached; n++) {
			struct pf_why why = PF_WHY_INIT;
			struct pf_store *st = new_store();
			struct pf_branch *b = NULL;

			made(st, "dev");
			unsigned before = pf_store_mem_calls(st);
			pf_store_mem_fault(st, n, kind, -EIO, false);
			int r = pf_branch_delete(st, "dev", false, &why);
			reached = pf_store_mem_calls(st) - before >= n;
			heal(st);
			assert_true(r == 0 || why.text[0]);
			if (exists(st, REF)) {
				assert_int_not_equal(r, 0);
				assert_int_equal(pf_branch_open(st, "dev", &b, NULL), 0);
				pf_branch_free(b);
				assert_int_equal(pf_branch_delete(st, "dev", false, NULL), 0);
			} else if (exists(st, "tree/dev")) {
				assert_int_not_equal(r, 0);
				assert_int_equal(pf_branch_delete(st, "dev", true, NULL), 0);
			}
			assert_false(exists(st, "tree/dev"));
			pf_store_free(st);
		}
	}
}

/* Somebody does `act` before the call `op` on a name with `name` in it. */
struct meddler {
	const char *op, *name;
	void (*act)(struct pf_store *st);
	bool done;
};

static void meddle(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct meddler *m = arg;

	if (m->done || strcmp(op, m->op) != 0 || !strstr(name, m->name))
		return;
	m->done = true;
	m->act(st);
}

static void others_make_it(struct pf_store *st)
{
	table_put(st, &(struct table_version){ .version = 4, .dir = "tree/dev/", .branch = "dev" });
	table_put_branch(st, "dev", 4, "0123456789abcdef0123456789abcdef");
}

static void two_make_one_branch(void **state)
{
	struct pf_store *st = new_store();
	struct meddler m = { "link", "tree/dev/_versions", others_make_it };
	struct pf_why why = PF_WHY_INIT;

	pf_store_mem_set_hook(st, meddle, &m);
	assert_int_equal(create(st, 5, "dev", &why), -EAGAIN);
	assert_true(m.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	/* The other one's is there, and nothing of ours above it. */
	assert_false(exists(st, MANIFEST));
	struct pf_branch *b = line(st, "dev");
	pf_branch_free(b);
	pf_store_free(st);
}

static void removes_the_source(struct pf_store *st)
{
	assert_int_equal(pf_store_mem_del(st, "_versions/18446744073709551612.manifest"), 0);
}

static void a_source_that_goes_meanwhile(void **state)
{
	struct pf_store *st = new_store();
	struct meddler m = { "link", "_refs/branches", removes_the_source };
	struct pf_why why = PF_WHY_INIT;

	pf_store_mem_set_hook(st, meddle, &m);
	assert_int_equal(create(st, 3, "dev", &why), -ENOENT);
	assert_true(m.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	assert_false(exists(st, REF));
	assert_int_equal(pf_branch_delete(st, "dev", false, NULL), -ENOENT);
	pf_store_free(st);
}

/* A pin that is registered between the look and the removal of the ref is confirmed by who reads the ref: the ref comes back. */
static void a_pin_that_comes_in_between_saves_the_branch(void **state)
{
	struct pf_store *st = new_store();
	struct meddler m = { "unlink", REF, pin };
	struct pf_why why = PF_WHY_INIT;

	made(st, "dev");
	pf_store_mem_set_hook(st, meddle, &m);
	assert_int_equal(pf_branch_delete(st, "dev", true, &why), -EBUSY);
	assert_true(m.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	assert_non_null(strstr(why.text, "pins: aa000100-"));
	struct pf_branch *b = line(st, "dev");
	pf_branch_free(b);
	pf_store_free(st);
}

/* Before the `nth` time that the ref is read, while it is there, `act`. */
struct at_read {
	unsigned nth, seen;
	void (*act)(struct pf_store *st);
};

static void meddle_at_read(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct at_read *a = arg;

	if (strcmp(op, "open") == 0 && strcmp(name, REF) == 0 && exists(st, REF) && ++a->seen == a->nth)
		a->act(st);
}

static void delete_with_a_pin(struct pf_store *st)
{
	pin(st);
	assert_int_equal(pf_store_mem_del(st, REF), 0);
}

/* Two delete it, and a pin arrives: whoever finds no ref has none to put back, least of all one without a byte in it. */
static void others_delete_it_first(void **state)
{
	bool reached = true;

	for (unsigned n = 1; reached; n++) {
		struct pf_store *st = new_store();
		struct at_read a = { n, 0, delete_with_a_pin };
		struct pf_why why = PF_WHY_INIT;

		made(st, "dev");
		pf_store_mem_set_hook(st, meddle_at_read, &a);
		int r = pf_branch_delete(st, "dev", false, &why);
		pf_store_mem_set_hook(st, NULL, NULL);
		reached = a.seen >= n;
		if (reached) {
			assert_true(r == -ENOENT || r == -EBUSY || r == -EAGAIN);
			assert_true(why.text[0]);
			assert_false(exists(st, REF));
			assert_true(exists(st, MANIFEST));
		}
		pf_store_free(st);
	}
}

static void make_anew(struct pf_store *st)
{
	table_put_branch(st, "dev", 5, "fedcba9876543210fedcba9876543210");
}

/* The branch that was looked at is the one that goes, and no other of the name. */
static void others_make_it_anew(void **state)
{
	bool reached = true;

	for (unsigned n = 2; reached; n++) {
		struct pf_store *st = new_store();
		struct at_read a = { n, 0, make_anew };

		made(st, "dev");
		pf_store_mem_set_hook(st, meddle_at_read, &a);
		int r = pf_branch_delete(st, "dev", false, NULL);
		pf_store_mem_set_hook(st, NULL, NULL);
		reached = a.seen >= n;
		assert_int_equal(r, reached ? -EAGAIN : 0);
		assert_int_equal(exists(st, REF), reached);
		assert_int_equal(exists(st, MANIFEST), reached);
		pf_store_free(st);
	}
}

/* A branch on which another writer has lost a pin, without its guard tag. */
static struct pf_store *with_a_lost_pin(void)
{
	struct pf_store *st = new_store();

	made(st, "dev");
	pinned_put(st, &(struct table_version){ .version = 6, .dir = "tree/dev/", .branch = "dev" },
		   &(struct pinned){ .pins = "a" });
	pinned_put(st, &(struct table_version){ .version = 7, .dir = "tree/dev/", .branch = "dev" },
		   &(struct pinned){ .pins = NULL });
	return st;
}

/* Storage that fails once is no reason to think that nothing was lost, or that nothing is there. */
static void what_cannot_be_looked_at_is_not_missing(void **state)
{
	bool reached = true;

	for (unsigned n = 1; reached; n++) {
		struct pf_store *st = with_a_lost_pin();
		struct pf_why why = PF_WHY_INIT;
		unsigned before = pf_store_mem_calls(st);

		pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, false);
		int r = pf_branch_delete(st, "dev", false, &why);
		reached = pf_store_mem_calls(st) - before >= n;
		if (r != (reached ? -EIO : -EBUSY))
			fail_msg("call %u: %d, %s", n, r, why.text);
		heal(st);
		assert_true(exists(st, REF));
		/* Without its ref it is a directory that nobody needs, and without force that is said. */
		assert_int_equal(pf_store_mem_del(st, REF), 0);
		pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, false);
		r = pf_branch_delete(st, "dev", false, &why);
		assert_true(r == -EIO || (r == -ENOENT && strstr(why.text, "--force")));
		heal(st);
		pf_store_free(st);
	}
}

static void others_inside_and_beside_stay(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf files = PF_BUF_INIT;
	struct pf_store *st = new_store();

	made(st, "dev");
	made(st, "dev/inside");
	made(st, "dev2");
	/* A generation of MemWAL has versions and is no branch; what a crashed creation left has versions and may be one. */
	assert_int_equal(pf_store_mem_put(st, "tree/dev/_mem_wal/x/_versions/1.manifest", "x", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/zombie/_versions/1.manifest", "x", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/data/a.lance", "x", 1), 0);
	assert_int_equal(pf_store_mem_put(st, "tree/dev/unknown", "x", 1), 0);
	assert_int_equal(pf_branch_delete(st, "dev", false, NULL), 0);
	table_list(st, "tree", &files);
	const char *left = pf_buf_str(&files);
	assert_null(strstr(left, "_mem_wal"));
	assert_null(strstr(left, "data"));
	assert_null(strstr(left, "unknown"));
	assert_non_null(strstr(left, "tree/dev/zombie/_versions/1.manifest\n"));
	assert_non_null(strstr(left, "tree/dev/inside/_versions/"));
	assert_non_null(strstr(left, "tree/dev2/_versions/"));
	pf_store_free(st);
}

/* Somebody makes a branch of the name while the old one's files are being removed: not before they all are. */
static void make_it_too_early(struct pf_store *st)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(create(st, 5, "dev", &why), -EBUSY);
	assert_non_null(strstr(why.text, "somebody is making or deleting it"));
}

static void a_name_is_free_when_all_is_removed(void **state)
{
	for (const char *const *file = (const char *const[]){ "_deletions/x", "data/x", "_transactions/5-", NULL };
	     *file; file++) {
		struct pf_store *st = new_store();
		struct meddler m = { "remove", *file, make_it_too_early };

		made(st, "dev");
		assert_int_equal(pf_store_mem_put(st, "tree/dev/_deletions/x", "x", 1), 0);
		assert_int_equal(pf_store_mem_put(st, "tree/dev/data/x", "x", 1), 0);
		pf_store_mem_set_hook(st, meddle, &m);
		assert_int_equal(pf_branch_delete(st, "dev", false, NULL), 0);
		assert_true(m.done);
		pf_store_mem_set_hook(st, NULL, NULL);
		made(st, "dev");
		pf_store_free(st);
	}
}

/* A branch whose newest version is `newest`, the one before has a pin that was released since, and the ref is gone. */
static struct pf_store *halfway(uint64_t newest)
{
	struct pf_store *st = new_store();

	made(st, "dev");
	for (uint64_t v = newest - 1; v <= newest; v++)
		pinned_put(st, &(struct table_version){ .version = v, .dir = "tree/dev/", .branch = "dev" },
			   &(struct pinned){ .pins = v < newest ? "a" : NULL });
	assert_int_equal(pf_store_mem_del(st, REF), 0);
	return st;
}

/* A deletion that ended anywhere can be finished, in whatever order storage lists the versions: that differs with their names. */
static void a_deletion_that_was_ended_goes_on(void **state)
{
	for (uint64_t newest = 7; newest < 15; newest++) {
		bool reached = true;
		for (unsigned n = 1; reached; n++) {
			struct pf_store *st = halfway(newest);
			struct pf_why why = PF_WHY_INIT;
			unsigned before = pf_store_mem_calls(st);

			pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, true);
			pf_branch_delete(st, "dev", true, NULL);
			reached = pf_store_mem_calls(st) - before >= n;
			heal(st);
			if (exists(st, "tree/dev") && pf_branch_delete(st, "dev", true, &why) < 0)
				fail_msg("call %u: %s", n, why.text);
			assert_false(exists(st, "tree/dev"));
			pf_store_free(st);
		}
	}
}

static void make_inside(struct pf_store *st)
{
	made(st, "dev/inside");
}

/* Whether a directory is another branch's is judged by the very list by which it would be emptied. */
static void one_that_is_made_inside_meanwhile(void **state)
{
	struct pf_store *st = new_store();
	struct meddler m = { "scan", "tree/dev/inside", make_inside };

	made(st, "dev");
	assert_int_equal(pf_store_mem_put(st, "tree/dev/inside/data/x", "x", 1), 0);
	pf_store_mem_set_hook(st, meddle, &m);
	assert_int_equal(pf_branch_delete(st, "dev", false, NULL), 0);
	assert_true(m.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	struct pf_branch *b = line(st, "dev/inside");
	pf_branch_free(b);
	pf_store_free(st);
}

/* What another one makes of the name is not taken away with what is ours. */
static void remove_and_make_anew(struct pf_store *st)
{
	assert_int_equal(pf_branch_delete(st, "dev", true, NULL), 0);
	made(st, "dev");
}

static void remove_it(struct pf_store *st)
{
	assert_int_equal(pf_branch_delete(st, "dev", true, NULL), 0);
}

static void removed_while_it_is_made(void **state)
{
	struct pf_store *st = new_store();
	struct meddler anew = { "link", "_refs/branches", remove_and_make_anew };
	struct meddler gone = { "link", "_refs/branches", remove_it };
	struct pf_why why = PF_WHY_INIT;

	pf_store_mem_set_hook(st, meddle, &gone);
	assert_int_equal(create(st, 5, "dev", &why), -EAGAIN);
	assert_true(gone.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	assert_false(exists(st, REF));
	pf_store_mem_set_hook(st, meddle, &anew);
	assert_int_equal(create(st, 5, "dev", &why), -EEXIST);
	assert_true(anew.done);
	pf_store_mem_set_hook(st, NULL, NULL);
	struct pf_branch *b = line(st, "dev");
	pf_branch_free(b);
	pf_store_free(st);
}

static void names_that_share_folders(void **state)
{
	struct pf_store *st = new_store();

	made(st, "a/data");
	assert_int_equal(create(st, 5, "a", NULL), -EINVAL);
	made(st, "x");
	assert_int_equal(create(st, 5, "x/_versions", NULL), -EINVAL);
	made(st, "x/versions");
	made(st, "data");
	pf_store_free(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(starts_without_pins_and_with_bit_19),
		cmocka_unit_test(every_call_of_a_creation_fails_once),
		cmocka_unit_test(a_crash_anywhere_leaves_a_branch_or_none),
		cmocka_unit_test(every_call_of_a_deletion_fails_once),
		cmocka_unit_test(two_make_one_branch),
		cmocka_unit_test(a_source_that_goes_meanwhile),
		cmocka_unit_test(a_pin_that_comes_in_between_saves_the_branch),
		cmocka_unit_test(others_delete_it_first),
		cmocka_unit_test(others_make_it_anew),
		cmocka_unit_test(what_cannot_be_looked_at_is_not_missing),
		cmocka_unit_test(others_inside_and_beside_stay),
		cmocka_unit_test(a_name_is_free_when_all_is_removed),
		cmocka_unit_test(a_deletion_that_was_ended_goes_on),
		cmocka_unit_test(one_that_is_made_inside_meanwhile),
		cmocka_unit_test(removed_while_it_is_made),
		cmocka_unit_test(names_that_share_folders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
