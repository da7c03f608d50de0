/* The table of design.md section 2, a test row for each row and for each way in which a state can differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/pinop.h"

#define TXN_7	 "0badcafe-0000-4000-8000-000000000007"
#define TXN_4	 "0badcafe-0000-4000-8000-000000000004"
#define BRANCH_A "00000000000000000000000000000a0a"
#define BRANCH_B "00000000000000000000000000000b0b"
#define NOW	 1000000

static const struct pf_uuid ABSENT = { .b = { 0xab } }, PRESENT = { .b = { 0xee } };
#define ABSENT_TEXT  "ab000000-0000-0000-0000-000000000000"
#define PRESENT_TEXT "ee000000-0000-0000-0000-000000000000"

/* A head at version 7 of main, pins enabled. */
static struct pf_head_facts head_7(void)
{
	return (struct pf_head_facts){
		.branch_id = "",
		.version = 7,
		.txn_uuid = TXN_7,
		.pins_enabled = true,
		.now = { NOW, 500 },
	};
}

/* Its list: PRESENT, registered on version 4, label "job", expires 1000 s from now; and another pin before and after it. */
static void list_3(struct pf_pins *l)
{
	for (uint8_t i = 0; i < 3; i++) {
		struct pf_pin p = {
			.id = i == 1 ? PRESENT : (struct pf_uuid){ .b = { i + 1 } },
			.source_version = 4,
			.source_txn = TXN_4,
			.created_at = { NOW - 100, 0 },
			.expires_at = { NOW + 1000, 7 },
			.label = strdup("job"),
		};
		assert_int_equal(pf_pins_add(l, &p), 0);
	}
}

static bool same_lists(const struct pf_pins *a, const struct pf_pins *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		const struct pf_pin *p = &a->v[i], *q = &b->v[i];
		if (!pf_uuid_eq(&p->id, &q->id) || p->source_version != q->source_version ||
		    strcmp(p->source_txn, q->source_txn) != 0 || pf_time_cmp(p->created_at, q->created_at) != 0 ||
		    pf_time_cmp(p->expires_at, q->expires_at) != 0 || strcmp(p->label, q->label) != 0)
			return false;
	}
	return true;
}

/* What one call must do: the code, and the effect if it is 0. The list must have changed exactly if the effect says so. */
struct want {
	int err;
	enum pf_effect effect;
	const char *says[3];
};

#define NOTHING(...)                                                                                                   \
	{                                                                                                              \
		0, PF_EFFECT_NONE,                                                                                     \
		{                                                                                                      \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}
#define CHANGES(...)                                                                                                   \
	{                                                                                                              \
		0, PF_EFFECT_CHANGE,                                                                                   \
		{                                                                                                      \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}
#define REFUSED(err, ...)                                                                                              \
	{                                                                                                              \
		err, PF_EFFECT_NONE,                                                                                   \
		{                                                                                                      \
			__VA_ARGS__                                                                                    \
		}                                                                                                      \
	}

static void check(const char *name, const struct pf_head_facts *head, const struct pf_op *op, struct pf_pins *pins,
		  const struct want *want)
{
	_cleanup_(pf_pins_release) struct pf_pins before = PF_PINS_INIT;
	struct pf_why why = PF_WHY_INIT;
	enum pf_effect effect = PF_EFFECT_NONE;

	assert_int_equal(pf_pins_copy(pins, &before), 0);
	int r = pf_pinop_apply(head, op, pins, &effect, &why);
	if (r != want->err || effect != want->effect)
		fail_msg("%s: %d, effect %d: %s", name, r, effect, why.text);
	if (op->kind != PF_OP_ENABLE && same_lists(&before, pins) != (effect == PF_EFFECT_NONE))
		fail_msg("%s: the list and the effect disagree", name);
	for (size_t i = 0; i < ARRAY_LEN(want->says) && want->says[i]; i++)
		if (!strstr(why.text, want->says[i]))
			fail_msg("%s: \"%s\" does not say \"%s\"", name, why.text, want->says[i]);
	assert_true(why.text[0]);
}

struct head_spec {
	bool disabled, lost_txn, no_uuid;
	const char *branch, *branch_id, *txn_uuid;
};

static struct pf_head_facts head_of(const struct head_spec *s)
{
	struct pf_head_facts h = head_7();

	h.pins_enabled = !s->disabled;
	h.branch = s->branch;
	if (s->branch_id)
		h.branch_id = s->branch_id;
	if (s->lost_txn || s->no_uuid)
		h.txn_uuid = "";
	if (s->txn_uuid)
		h.txn_uuid = s->txn_uuid;
	if (s->lost_txn)
		h.txn_error = "6-x.txn is not there";
	return h;
}

/* Requests as lines, so that a row shows what somebody would ask for. NOW is 1970-01-12T13:46:40.0000005Z. */
#define STANDS	 ",expires_at=1970-01-12T14:03:20.000000007Z" /* what PRESENT has */
#define JOB	 ",label=job"
#define IN(text) ",expires_at=+" text
#define ON_4	 ",source=4:" TXN_4
#define ON_7	 ",source=7:" TXN_7

static void test_register(void **state)
{
	static const struct head_spec here = { 0 }, disabled = { .disabled = true }, lost = { .lost_txn = true },
				      no_uuid = { .no_uuid = true },
				      nil = { .txn_uuid = "00000000-0000-0000-0000-000000000000" },
				      branch_x = { .branch = "x", .branch_id = BRANCH_A },
				      other_x = { .branch = "x", .branch_id = BRANCH_B };
	static const struct {
		const struct head_spec *head;
		const char *line;
		struct want want;
	} rows[] = {
		/* id active, same source and label, expiry >= asked: success, no commit */
		{ &here, PRESENT_TEXT STANDS JOB ON_4, NOTHING(PRESENT_TEXT, "registered already") },
		{ &here, PRESENT_TEXT STANDS JOB, NOTHING("version 4") },
		{ &here, PRESENT_TEXT IN("999s") JOB ON_4, NOTHING() },
		{ &here, PRESENT_TEXT ",expires_at=@5" JOB ON_4, NOTHING() }, /* passed, but less than it has */
		{ &here, PRESENT_TEXT IN("1s") JOB ",source=4:0BADCAFE-0000-4000-8000-000000000004", NOTHING() },
		{ &disabled, PRESENT_TEXT STANDS JOB, NOTHING() },
		{ &lost, PRESENT_TEXT STANDS JOB ON_4, NOTHING() },
		/* id active, anything else differs: EEXIST, and the sentence says what is there */
		{ &here, PRESENT_TEXT ",expires_at=1970-01-12T14:03:20.000000008Z" JOB ON_4,
		  REFUSED(-EEXIST, PRESENT_TEXT, "it expires at 1970-01-12T14:03:20.000000007Z",
			  "before 1970-01-12T14:03:20.000000008Z") },
		{ &here, PRESENT_TEXT STANDS ",label=job2", REFUSED(-EEXIST, "its label is \"job\", not \"job2\"") },
		{ &here, PRESENT_TEXT STANDS ",label=jo", REFUSED(-EEXIST, "its label") },
		{ &here, PRESENT_TEXT STANDS ",label=Job", REFUSED(-EEXIST, "its label") },
		{ &here, PRESENT_TEXT STANDS, REFUSED(-EEXIST, "its label is \"job\", not \"\"") },
		{ &here, PRESENT_TEXT STANDS JOB ",source=5:" TXN_4,
		  REFUSED(-EEXIST, "its source is 4:" TXN_4 ", not 5:" TXN_4) },
		{ &here, PRESENT_TEXT STANDS JOB ",source=4:" TXN_7, REFUSED(-EEXIST, "not 4:" TXN_7) },
		{ &here, PRESENT_TEXT STANDS JOB ON_7, REFUSED(-EEXIST, "its source is 4:" TXN_4) }, /* the head */
		{ &here, PRESENT_TEXT IN("1d") ",label=x" ON_7,
		  REFUSED(-EEXIST, "its source is", "; its label is", "; it expires at") },
		/* id absent, source omitted: the head */
		{ &here, ABSENT_TEXT IN("1m") JOB, CHANGES(ABSENT_TEXT, "version 7") },
		{ &here, ABSENT_TEXT IN("1m"), CHANGES() },
		{ &here, ABSENT_TEXT ",expires_at=1970-01-12T13:46:40.000000501Z", CHANGES() }, /* in one ns */
		/* id absent, source given and is the head */
		{ &here, ABSENT_TEXT IN("1m") JOB ON_7, CHANGES() },
		{ &here, ABSENT_TEXT IN("1m") ",source=7:0BADCAFE-0000-4000-8000-000000000007", CHANGES() },
		/* id absent, source given and is not the head: never revived */
		{ &here, ABSENT_TEXT IN("1m") JOB ON_4,
		  REFUSED(-ESTALE, "4:" TXN_4 " is not the head", "7:" TXN_7, "make a new request") },
		{ &here, ABSENT_TEXT IN("1m") ",source=8:" TXN_7, REFUSED(-ESTALE) },
		{ &here, ABSENT_TEXT IN("1m") ",source=7:" TXN_4, REFUSED(-ESTALE) }, /* another history */
		{ &lost, ABSENT_TEXT IN("1m") ON_4, REFUSED(-ESTALE) },
		/* expires_at <= now */
		{ &here, ABSENT_TEXT ",expires_at=1970-01-12T13:46:40.0000005Z", REFUSED(-EINVAL, "has passed") },
		{ &here, ABSENT_TEXT ",expires_at=@999999" ON_7, REFUSED(-EINVAL, "has passed") },
		/* the head has no transaction identity, or pins are not enabled */
		{ &disabled, ABSENT_TEXT IN("1m"),
		  REFUSED(-EOPNOTSUPP, "pinctl enable --apply",
			  "released Lance 12 and newer never writes to the table directly again") },
		{ &no_uuid, ABSENT_TEXT IN("1m"), REFUSED(-EOPNOTSUPP, "version 7 has no transaction identity") },
		{ &no_uuid, ABSENT_TEXT IN("1m") ON_7, REFUSED(-EOPNOTSUPP) },
		{ &nil, ABSENT_TEXT IN("1m"), REFUSED(-EOPNOTSUPP) }, /* no record could name it */
		{ &lost, ABSENT_TEXT IN("1m"), REFUSED(-EBADMSG, "version 7 has 3 pins", "6-x.txn is not there") },
		/* another branch, or another branch of that name: whatever else holds */
		{ &here, ABSENT_TEXT IN("1m") ",branch=main", CHANGES() },
		{ &here, PRESENT_TEXT STANDS JOB ",branch=x", REFUSED(-EINVAL, "for branch \"x\"; this is \"main\"") },
		{ &here, ABSENT_TEXT IN("1m") ",branch_id=" BRANCH_A, REFUSED(-EINVAL, BRANCH_A) },
		{ &branch_x, ABSENT_TEXT IN("1m") ",branch=x,branch_id=" BRANCH_A, CHANGES() },
		{ &branch_x, ABSENT_TEXT IN("1m"), CHANGES() },
		{ &other_x, PRESENT_TEXT STANDS JOB ",branch=x,branch_id=" BRANCH_A,
		  REFUSED(-EINVAL, BRANCH_A, BRANCH_B) },
		{ &branch_x, ABSENT_TEXT IN("1m") ",branch=main", REFUSED(-EINVAL, "\"main\"") },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
		_cleanup_(pf_op_release) struct pf_op op = { .kind = PF_OP_REGISTER };
		struct pf_head_facts head = head_of(rows[i].head);
		const char *line = rows[i].line;

		list_3(&l);
		assert_int_equal(pf_request_parse(line, strlen(line), head.now, &op.request, NULL), 0);
		check(line, &head, &op, &l, &rows[i].want);
		if (rows[i].want.effect == PF_EFFECT_NONE)
			continue;
		const struct pf_pin *p = &l.v[3];
		assert_int_equal(l.n, 4);
		assert_true(pf_uuid_eq(&p->id, &op.request.id));
		assert_int_equal(p->source_version, 7);
		assert_string_equal(p->source_txn, TXN_7);
		assert_int_equal(pf_time_cmp(p->created_at, head.now), 0);
		assert_int_equal(pf_time_cmp(p->expires_at, op.request.expires_at), 0);
		assert_string_equal(p->label, op.request.label);
	}
}

/* A caller of the library that fills in a request itself cannot store what nobody could read back. */
static void test_register_nonsense(void **state)
{
	struct pf_head_facts head = head_7();
	char newline[] = "a\nb", good[] = "a";
	struct {
		struct pf_uuid id;
		struct pf_time t;
		char *label;
	} rows[] = {
		{ { .b = { 0 } }, { NOW + 60, 0 }, good },
		{ ABSENT, { NOW + 60, 1000000000 }, good },
		{ ABSENT, { PF_TIME_MAX_SEC + 1, 0 }, good },
		{ ABSENT, { NOW + 60, 0 }, newline },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
		struct pf_op op = { .kind = PF_OP_REGISTER,
				    .request = { .id = rows[i].id, .expires_at = rows[i].t, .label = rows[i].label } };
		struct want want = REFUSED(-EINVAL);
		check("nonsense", &head, &op, &l, &want);
	}
}

/* renew, release and expire share their shape: an id and perhaps a time. */
struct row {
	const char *name;
	struct head_spec head;
	const struct pf_uuid *id;
	struct pf_time t;
	struct want want;
};

static void run_rows(enum pf_op_kind kind, const struct row *rows, size_t n,
		     void (*changed)(const struct pf_pins *l, const struct row *row))
{
	for (size_t i = 0; i < n; i++) {
		_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
		struct pf_head_facts head = head_of(&rows[i].head);
		struct pf_op op = { .kind = kind, .id = *rows[i].id, .expires_at = rows[i].t };
		list_3(&l);
		check(rows[i].name, &head, &op, &l, &rows[i].want);
		if (rows[i].want.effect == PF_EFFECT_CHANGE)
			changed(&l, &rows[i]);
	}
}

static void only_expiry_changed(const struct pf_pins *l, const struct row *row)
{
	_cleanup_(pf_pins_release) struct pf_pins want = PF_PINS_INIT;

	list_3(&want);
	want.v[1].expires_at = row->t;
	assert_true(same_lists(l, &want));
}

static void test_renew(void **state)
{
	static const struct row rows[] = {
		/* existing >= asked: success, no commit */
		{ "equal", {}, &PRESENT, { NOW + 1000, 7 }, NOTHING("already long enough") },
		{ "one ns less", {}, &PRESENT, { NOW + 1000, 6 }, NOTHING("already long enough") },
		{ "the past", {}, &PRESENT, { NOW - 1000, 0 }, NOTHING("already long enough") },
		{ "equal, transaction lost", { .lost_txn = true }, &PRESENT, { NOW + 1000, 7 }, NOTHING() },
		/* existing < asked: commit; only expires_at changes */
		{ "one ns more", {}, &PRESENT, { NOW + 1000, 8 }, CHANGES("1970-01-12T14:03:20.000000008Z now") },
		{ "to the end of time", {}, &PRESENT, { PF_TIME_MAX_SEC, 999999999 }, CHANGES() },
		{ "no uuid", { .no_uuid = true }, &PRESENT, { NOW + 2000, 0 }, CHANGES() },
		{ "transaction lost",
		  { .lost_txn = true },
		  &PRESENT,
		  { NOW + 2000, 0 },
		  REFUSED(-EBADMSG, "only release is allowed") },
		/* id absent: ENOENT; never becomes a registration */
		{ "absent", {}, &ABSENT, { NOW + 2000, 0 }, REFUSED(-ENOENT, ABSENT_TEXT) },
		{ "not a time", {}, &PRESENT, { NOW + 2000, -1 }, REFUSED(-EINVAL) },
	};
	run_rows(PF_OP_RENEW, rows, ARRAY_LEN(rows), only_expiry_changed);
}

/* A pin past its expiry is a pin until an expire commit. */
static void test_renew_overdue(void **state)
{
	_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
	struct pf_head_facts head = head_7();
	struct pf_op op = { .kind = PF_OP_RENEW, .id = PRESENT, .expires_at = { NOW + 9000, 0 } };
	struct want want = CHANGES();

	list_3(&l);
	head.now.sec = NOW + 5000;
	check("overdue", &head, &op, &l, &want);
}

static void one_gone(const struct pf_pins *l, const struct row *row)
{
	_cleanup_(pf_pins_release) struct pf_pins want = PF_PINS_INIT;

	list_3(&want);
	pf_pins_remove(&want, 1);
	assert_true(same_lists(l, &want));
}

static void test_release(void **state)
{
	static const struct row rows[] = {
		{ "there", {}, &PRESENT, {}, CHANGES("is released") },
		{ "absent", {}, &ABSENT, {}, NOTHING("nothing to release") },
		/* the escape hatch: whatever is wrong with the head */
		{ "transaction lost", { .lost_txn = true }, &PRESENT, {}, CHANGES() },
		{ "not enabled", { .disabled = true }, &PRESENT, {}, CHANGES() },
	};
	run_rows(PF_OP_RELEASE, rows, ARRAY_LEN(rows), one_gone);
}

/* A waiver is a release that is committed whether the pin is there or not: its transaction is what counts. */
static void test_waive(void **state)
{
	static const struct head_spec heads[] = { {}, { .lost_txn = true }, { .disabled = true } };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT, before = PF_PINS_INIT;
		struct pf_head_facts head = head_of(&heads[i]);
		struct pf_op op = { .kind = PF_OP_RELEASE, .id = ABSENT, .waive = true };
		struct pf_why why = PF_WHY_INIT;
		enum pf_effect effect = PF_EFFECT_NONE;

		list_3(&l);
		list_3(&before);
		assert_int_equal(pf_pinop_apply(&head, &op, &l, &effect, &why), 0);
		assert_int_equal(effect, PF_EFFECT_CHANGE);
		assert_true(same_lists(&l, &before));
		assert_non_null(strstr(why.text, ABSENT_TEXT));
		assert_non_null(strstr(why.text, "waived"));

		op.id = PRESENT;
		assert_int_equal(pf_pinop_apply(&head, &op, &l, &effect, &why), 0);
		assert_int_equal(effect, PF_EFFECT_CHANGE);
		one_gone(&l, NULL);
		assert_non_null(strstr(why.text, "is released"));
	}
}

static void test_expire(void **state)
{
	_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
	struct pf_head_facts head = head_7();
	static const struct {
		const char *name;
		struct pf_time now, inspected;
		const struct pf_uuid *id;
		bool lost_txn;
		struct want want;
	} rows[] = {
		{ "due this moment", { NOW + 1000, 7 }, { NOW + 1000, 7 }, &PRESENT, false, CHANGES("is removed") },
		{ "due long ago", { NOW + 9000, 0 }, { NOW + 1000, 7 }, &PRESENT, false, CHANGES() },
		{ "due in one ns", { NOW + 1000, 6 }, { NOW + 1000, 7 }, &PRESENT, false, REFUSED(-EAGAIN, "not due") },
		{ "renewed since",
		  { NOW + 9000, 0 },
		  { NOW + 1000, 6 },
		  &PRESENT,
		  false,
		  REFUSED(-EAGAIN, "renewed meanwhile", "skipped") },
		{ "gone", { NOW + 9000, 0 }, { NOW + 1000, 7 }, &ABSENT, false, NOTHING("nothing to expire") },
		{ "transaction lost", { NOW + 9000, 0 }, { NOW + 1000, 7 }, &PRESENT, true, REFUSED(-EBADMSG) },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_op op = { .kind = PF_OP_EXPIRE, .id = *rows[i].id, .expires_at = rows[i].inspected };
		head.now = rows[i].now;
		head.txn_error = rows[i].lost_txn ? "lost" : NULL;
		pf_pins_release(&l);
		list_3(&l);
		check(rows[i].name, &head, &op, &l, &rows[i].want);
		if (rows[i].want.effect == PF_EFFECT_CHANGE)
			one_gone(&l, NULL);
	}
}

static void test_enable(void **state)
{
	static const struct row rows[] = {
		{ "enabled", {}, &ABSENT, {}, NOTHING("already") },
		{ "not yet", { .disabled = true }, &ABSENT, {}, CHANGES("Lance 12 and newer") },
		{ "pins, transaction lost", { .disabled = true, .lost_txn = true }, &ABSENT, {}, REFUSED(-EBADMSG) },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT, before = PF_PINS_INIT;
		struct pf_head_facts head = head_of(&rows[i].head);
		struct pf_op op = { .kind = PF_OP_ENABLE };
		list_3(&l);
		list_3(&before);
		check(rows[i].name, &head, &op, &l, &rows[i].want);
		assert_true(same_lists(&l, &before));
	}
}

/* A head without pins may lose its transaction: it is in nobody's window. Any commit but a registration goes on from there. */
static void test_no_pins_no_transaction(void **state)
{
	static const struct head_spec lost = { .disabled = true, .lost_txn = true };
	_cleanup_(pf_pins_release) struct pf_pins l = PF_PINS_INIT;
	struct pf_head_facts head = head_of(&lost);
	struct pf_op enable = { .kind = PF_OP_ENABLE };
	struct pf_op new = { .kind = PF_OP_REGISTER, .request = { .id = ABSENT, .expires_at = { NOW + 60, 0 } } };
	struct want change = CHANGES(), refused = REFUSED(-EOPNOTSUPP, "6-x.txn is not there");

	check("enable", &head, &enable, &l, &change);
	head.pins_enabled = true;
	check("register", &head, &new, &l, &refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_register),
		cmocka_unit_test(test_register_nonsense),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_renew_overdue),
		cmocka_unit_test(test_release),
		cmocka_unit_test(test_waive),
		cmocka_unit_test(test_expire),
		cmocka_unit_test(test_enable),
		cmocka_unit_test(test_no_pins_no_transaction),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
