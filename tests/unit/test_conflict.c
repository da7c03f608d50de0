/*
 * Who may be committed over whom. The kinds are those of the table in lance-maintenance 7 with the corrections of lance-14-fri 1 and 6; the refinements
 * are what those pages say in words. Asked of Lance itself in tests/interop/commit.py.
 */
#include "core/conflict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "prepared.h"

static int judge(const char *ours, const char *theirs, const struct pf_conflict_view *view, struct pf_why *why)
{
	_cleanup_(pf_operation_release) struct pf_operation a = { 0 }, b = { 0 };
	static const struct pf_conflict_view nothing = { NULL };

	prepared(ours, 5, NULL, &a);
	prepared(theirs, 5, NULL, &b);
	return pf_conflict(&a, &b, 6, view ? view : &nothing, why);
}

static char letter(int verdict)
{
	return verdict == PF_ALLOWED ? '.' : verdict == PF_RETRYABLE ? 'R' : verdict == PF_INCOMPATIBLE ? 'X' : '!';
}

/* Each on other fragments, columns, keys and names than the rest: what the kinds alone decide. */
static const char *const kinds[] = {
	"Append n0",
	"Delete u1",
	"Overwrite",
	"CreateIndex nx:0:7",
	"Rewrite g2,3",
	"Merge p",
	"Restore 3",
	"ReserveFragments 2",
	"Update u4 n0",
	"Project c0 c1 c2 p",
	"UpdateConfig cx",
	"DataReplacement d5:1",
	"UpdateMemWalState",
	"Clone",
	"UpdateBases b1:/x",
	"DataOverlay o6",
	"Future",
};

static void kinds_alone(void **state)
{
	static const char *const want[] = {
		/* Ap De Ov CI Rw Me Rs RF Up Pr UC DR MW Cl UB DO Future */
		"..X...X.....X...X", /* Append */
		"..X..RX.....X...X", /* Delete */
		"..R.........X...X", /* Overwrite */
		"..X...X.....X...X", /* CreateIndex */
		"..X..RX.........X", /* Rewrite */
		"RRX.RRX.RX.RX..RX", /* Merge */
		"............X...X", /* Restore */
		"..X...X.........X", /* ReserveFragments */
		"..X..RX.........X", /* Update */
		"..X..RX..R..X...X", /* Project */
		"................X", /* UpdateConfig */
		"..X..RX.....X...X", /* DataReplacement */
		NULL,
		NULL,
		".................", /* UpdateBases */
	};
	/* Each beside itself again, but on other things. */
	static const char *const again[] = {
		[8] = "Update u8 n0",	   [3] = "CreateIndex ny:0:7",	  [1] = "Delete u8",
		[10] = "UpdateConfig cy",  [11] = "DataReplacement d8:1", [4] = "Rewrite g8,9",
		[14] = "UpdateBases b2:/y"
	};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		for (size_t k = 0; want[i] && k < ARRAY_LEN(kinds); k++) {
			const char *theirs = i == k && i < ARRAY_LEN(again) && again[i] ? again[i] : kinds[k];
			struct pf_why why = PF_WHY_INIT;
			char got = letter(judge(kinds[i], theirs, NULL, &why));
			if (got != want[i][k])
				fail_msg("%s over %s: %c, not %c", kinds[i], theirs, got, want[i][k]);
			assert_true((got == '.') == !why.text[0]);
		}
	}
}

static void refinements(void **state)
{
	static const struct {
		const char *ours, *theirs;
		char want;
	} rows[] = {
		{ "Append n0", "Merge", 'R' }, /* it may have made a column required */
		{ "Append n0", "Project c0", 'R' },
		{ "Merge", "Append n0", 'R' },
		{ "Project c0", "Append n0", 'R' },
		{ "Project c0", "Delete u1", '.' },
		{ "Project c0 p", "Update u1 n0", '.' },
		{ "Project c0", "DataReplacement d1:0", 'R' },
		{ "Project c0", "DataOverlay o1", 'R' },
		{ "Update u1 n0", "Project c0 c1", 'R' },

		/* One fragment: which rows is not known. */
		{ "Delete u1", "Delete u1", 'R' },
		{ "Delete u1 u2", "Update u2 n0", 'R' },
		{ "Delete r1", "Delete u1", 'R' },
		{ "Delete u1", "Rewrite g1,2", 'R' },
		{ "Delete u1", "DataReplacement d1:0", 'R' },
		{ "Delete u1", "DataOverlay o1", '.' }, /* what is deleted needs no value */
		{ "Update u1 n0", "Delete r1", 'R' },
		{ "Update u1 n0", "DataOverlay o1", 'R' },
		{ "Update u1 f0 i", "DataReplacement d1:1", 'R' },
		{ "Rewrite g1,2", "Delete u2", 'R' },
		{ "Rewrite g1,2", "Update r1 n0", 'R' },
		{ "Rewrite g1,2", "Rewrite g2,3", 'R' },
		{ "Rewrite g1,2", "DataReplacement d2:0", 'R' },
		{ "Rewrite g1,2", "DataOverlay o1", 'R' },

		/* Columns that are gone. */
		{ "Update u1 f2 i", "Project c0 c1 p", 'R' },
		{ "Update u1 f1 i", "Project c0 c1 p", '.' },
		{ "DataReplacement d1:2", "Project c0 c1 p", 'X' },
		{ "DataReplacement d1:1", "Project c0 c1 p", '.' },

		/* Keys that are inserted. */
		{ "Update u1 n0 k7", "Append n0", 'R' },
		{ "Update u1 n0 k7", "Update u2 n0 k7", 'R' },
		{ "Update u1 n0 k7", "Update u2 n0 k8", '.' },
		{ "Update u1 n0 k7", "Update u2 n0", 'R' },
		{ "Update u1 n0", "Update u2 n0 k7", '.' },

		/* DataReplacement: by fragment and column. */
		{ "DataReplacement d1:0", "DataReplacement d1:0", 'R' },
		{ "DataReplacement d1:0", "DataReplacement d1:1", '.' },
		{ "DataReplacement d1:0", "DataReplacement d2:0", '.' },
		{ "DataReplacement d1:0", "Delete u1", '.' },
		{ "DataReplacement d1:0", "Delete r1", 'X' },
		{ "DataReplacement d1:0", "Update r1 n0", 'X' },
		{ "DataReplacement d1:0", "Update u1 n0", 'R' },
		{ "DataReplacement d1:0", "Update u1 f1 i", '.' },
		{ "DataReplacement d1:0", "Update u1 f0 i", 'R' },
		{ "DataReplacement d1:0", "Rewrite g1,2", 'R' },
		{ "DataReplacement d1:0", "CreateIndex nx:0:7", 'R' }, /* whatever it covers */
		{ "DataReplacement d1:0", "CreateIndex nx:1:1", '.' },
		{ "CreateIndex nx:0:7", "DataReplacement d1:0", 'R' },
		{ "CreateIndex nx:1:1", "DataReplacement d1:0", '.' },

		/* Indices: by name, and by what they cover. */
		{ "CreateIndex nx:0:1", "CreateIndex nx:1:2", 'R' },
		{ "CreateIndex rx", "CreateIndex rx", '.' },
		{ "CreateIndex rx", "CreateIndex nx:0:1 rx", 'R' },
		{ "CreateIndex nx:0:1 rx", "CreateIndex rx", 'R' },
		{ "CreateIndex nx:0:1", "CreateIndex rx", 'R' },
		{ "CreateIndex nx:0:1,2", "Rewrite g2,3", 'R' },
		{ "CreateIndex nx:0:1", "Rewrite g2,3", '.' },
		{ "CreateIndex nx:0:-", "Rewrite g2,3", 'R' },
		{ "CreateIndex rx", "Rewrite g2,3", '.' },
		{ "CreateIndex rx", "Rewrite g2,3 sx:y", 'R' }, /* what it drops has another uuid, and would stay */
		{ "CreateIndex rx", "Rewrite g2,3 sx:x", '.' },
		{ "CreateIndex ry", "Rewrite g2,3 sx:y", '.' },
		{ "CreateIndex nx:0:1 rx", "Rewrite g2,3 sx:y", 'R' },
		{ "CreateIndex nx:0:1", "Update u1 f0 i", '.' }, /* its coverage shrinks instead */
		{ "Rewrite g2,3", "CreateIndex nx:0:1,2", 'R' }, /* A26: what it covers in part */
		{ "Rewrite g2,3", "CreateIndex nx:0:1", '.' },
		{ "Rewrite g2,3", "CreateIndex nx:0:-", 'R' },
		{ "Rewrite g2,3", "CreateIndex rx", '.' },

		/* Settings: by key. */
		{ "UpdateConfig ca", "UpdateConfig ca", 'X' },
		{ "UpdateConfig ca", "UpdateConfig da", 'X' },
		{ "UpdateConfig da", "UpdateConfig da", '.' },
		{ "UpdateConfig Rb", "UpdateConfig ca", '.' }, /* only keys that it names count */
		{ "UpdateConfig ta", "UpdateConfig ta", 'X' },
		{ "UpdateConfig ta", "UpdateConfig tb", '.' },
		{ "UpdateConfig sa", "UpdateConfig sb", 'X' },
		{ "UpdateConfig m1", "UpdateConfig m1", 'X' },
		{ "UpdateConfig m1", "UpdateConfig m2", '.' },
		{ "UpdateConfig sa", "Overwrite", 'X' },
		{ "UpdateConfig m1", "Overwrite", 'X' },
		{ "UpdateConfig ta", "Overwrite", '.' },
		{ "UpdateConfig sa", "Merge p", 'R' },
		{ "Merge p", "UpdateConfig m1", 'R' },
		{ "UpdateConfig sa", "Restore 3", 'X' },
		{ "Restore 3", "UpdateConfig sa", 'X' },
		{ "Restore 3", "UpdateConfig ca", '.' },

		{ "UpdateBases b1:/x", "UpdateBases b1:/y", 'X' },
		{ "UpdateBases b1:/x", "UpdateBases b2:/x", 'X' },

		/* Pins are empty UpdateConfigs: nobody minds them. */
		{ "Append n0", "UpdateConfig", '.' },
		{ "Merge", "UpdateConfig", '.' },
		{ "Restore 3", "UpdateConfig", '.' },
		{ "UpdateConfig sa", "UpdateConfig", '.' },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char got = letter(judge(rows[i].ours, rows[i].theirs, NULL, NULL));
		if (got != rows[i].want)
			fail_msg("%s over %s: %c, not %c", rows[i].ours, rows[i].theirs, got, rows[i].want);
	}
}

/* A record of where rows went lets an index follow them. */
static void records(void **state)
{
	struct pf_digest from[] = { { 2, 10, 0 }, { 3, 10, 0 } }, to[] = { { 9, 20, 0 } };
	struct pf_fri_group group = { .from = from, .n_from = 2, .to = to, .n_to = 1 };
	const struct pf_fri history = { .groups = &group, .n_groups = 1 };
	const struct pf_fri of_transitions = { .index_version = 1, .groups = &group, .n_groups = 1 };
	const struct pf_conflict_view recorded = { .history = &history }, transitions = { .history = &of_transitions },
				      ours = { .records = true }, tagged = { .records = true, .tagged = true };

	assert_int_equal(judge("CreateIndex nx:0:2,3", "Rewrite g2,3", &recorded, NULL), PF_ALLOWED);
	assert_int_equal(judge("CreateIndex nx:0:2,3", "Rewrite g2", &recorded, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nx:0:4", "Rewrite g4,5", &recorded, NULL), PF_RETRYABLE);
	/* What covers nobody knows what follows a record of version 0, if that is of the whole compaction. */
	assert_int_equal(judge("CreateIndex nx:0:-", "Rewrite g2,3", &recorded, NULL), PF_ALLOWED);
	assert_int_equal(judge("CreateIndex nx:0:-", "Rewrite g2,3 g4,5", &recorded, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nx:0:2,3", "Rewrite g2,3 g4,5", &recorded, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nx:0:-", "Rewrite g2,3", &transitions, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nx:0:2,3", "Rewrite g2,3 g4,5", &transitions, NULL), PF_ALLOWED);
	assert_int_equal(judge("Rewrite g2,3", "CreateIndex nx:0:2,3", &ours, NULL), PF_ALLOWED);
	assert_int_equal(judge("Rewrite g2,3", "CreateIndex nx:0:2", &ours, NULL), PF_RETRYABLE);
	assert_int_equal(judge("Rewrite g2,3", "Rewrite g3,4", &ours, NULL), PF_RETRYABLE);
	assert_int_equal(judge("Rewrite g2,3", "Rewrite g3,4", &tagged, NULL), PF_INCOMPATIBLE);
}

/* An index of n-grams cannot follow at all, neither from the fragments that were moved nor from those that they had been made from before. */
static void n_grams_do_not_follow(void **state)
{
	struct pf_digest a[] = { { 2, 10, 0 } }, b[] = { { 9, 10, 0 } }, c[] = { { 12, 10, 0 } };
	struct pf_fri_group groups[] = { { .from = a, .n_from = 1, .to = b, .n_to = 1 },
					 { .from = b, .n_from = 1, .to = c, .n_to = 1 } };
	const struct pf_fri history = { .groups = groups, .n_groups = 2 };
	const struct pf_conflict_view view = { .history = &history };

	assert_int_equal(judge("CreateIndex nx:0:2", "Rewrite g9", &view, NULL), PF_ALLOWED);
	assert_int_equal(judge("CreateIndex nngram:0:9", "Rewrite g9", &view, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nngram:0:2", "Rewrite g9", &view, NULL), PF_RETRYABLE);
	assert_int_equal(judge("CreateIndex nngram:0:4", "Rewrite g9", &view, NULL), PF_ALLOWED);
}

static void a_transaction_of_two_forms_is_damaged(void **state)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	prepared_bytes("UpdateConfig oa cb", 5, NULL, &bytes);
	assert_int_equal(pf_operation_decode(&bytes, &o, &why), -EBADMSG);
	assert_non_null(strstr(why.text, "the old form and in the new one"));
	prepared("UpdateConfig oa ob", 5, NULL, &o);
	assert_int_equal(o.config.n, 2);
}

static void the_sentence_names_both(void **state)
{
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(judge("Delete u1", "Update u1 n0", NULL, &why), PF_RETRYABLE);
	assert_non_null(strstr(why.text, "this Delete, prepared on version 5"));
	assert_non_null(strstr(why.text, "the Update committed as version 6"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds_alone),
		cmocka_unit_test(refinements),
		cmocka_unit_test(records),
		cmocka_unit_test(n_grams_do_not_follow),
		cmocka_unit_test(a_transaction_of_two_forms_is_damaged),
		cmocka_unit_test(the_sentence_names_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
