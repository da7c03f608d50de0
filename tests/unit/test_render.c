/* Records as JSON, and what somebody may write back into one: design.md sections 2, 5 and 6. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/render.h"
#include "tests/unit/table.h"

#define ID	  "01234567-89ab-4cde-8f01-23456789abcd"
#define SOURCE	  "0badcafe-0000-4000-8000-000000000041"
#define BRANCH_ID "00112233445566778899aabbccddeeff"

static const struct pf_time now = { .sec = 1767225600 }; /* 2026-01-01T00:00:00Z */

static struct pf_pin make_pin(const char *label)
{
	struct pf_pin p = PF_PIN_INIT;

	assert_int_equal(pf_uuid_parse(ID, strlen(ID), &p.id, NULL), 0);
	p.source_version = 41;
	strcpy(p.source_txn, SOURCE);
	p.created_at = now;
	p.expires_at = (struct pf_time){ .sec = 1924992000, .nsec = 500000000 };
	p.label = strdup(label);
	assert_non_null(p.label);
	return p;
}

#define RECORD                                                                                                         \
	"{\n"                                                                                                          \
	"  \"id\": \"" ID "\",\n"                                                                                      \
	"  \"source_version\": 41,\n"                                                                                  \
	"  \"source_transaction_uuid\": \"" SOURCE "\",\n"                                                             \
	"  \"created_at\": \"2026-01-01T00:00:00Z\",\n"                                                                \
	"  \"expires_at\": \"2031-01-01T00:00:00.5Z\",\n"                                                              \
	"  \"label\": \"nightly\"\n"                                                                                   \
	"}\n"

static void test_record(void **state)
{
	_cleanup_(pf_pin_release) struct pf_pin p = make_pin("nightly");
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	assert_int_equal(pf_render_pin(&p, &text), 0);
	assert_string_equal(pf_buf_str(&text), RECORD);
}

static void test_label_survives(void **state)
{
	static const char *const labels[] = { "", "quote \" backslash \\ slash /",
					      "\xc3\xbc \xe2\x82\xac \xf0\x9f\x93\x8c" };

	for (size_t i = 0; i < ARRAY_LEN(labels); i++) {
		_cleanup_(pf_pin_release) struct pf_pin p = make_pin(labels[i]);
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		assert_int_equal(pf_render_pin(&p, &text), 0);
		json_auto_t *j = json_loadb((const char *)text.data, text.len, 0, NULL);
		assert_string_equal(json_string_value(json_object_get(j, "label")), labels[i]);
	}
}

static void assert_line(json_t *j, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	assert_int_equal(pf_json_line(j, &text), 0);
	assert_string_equal(pf_buf_str(&text), want);
	json_decref(j);
}

/* cases-open E14: every u64 as its digits, whatever a JSON parser makes of numbers. */
static void test_u64(void **state)
{
	json_t *list = json_array();

	json_array_append_new(list, pf_json_u64(0));
	json_array_append_new(list, pf_json_u64(INT64_MAX));
	json_array_append_new(list, pf_json_u64((uint64_t)INT64_MAX + 1));
	json_array_append_new(list, pf_json_u64(UINT64_MAX));
	assert_line(list, "[0, 9223372036854775807, \"9223372036854775808\", \"18446744073709551615\"]");
}

static void test_text_of_others(void **state)
{
	json_t *list = json_array();

	json_array_append_new(list, pf_json_str(NULL));
	json_array_append_new(list, pf_json_str("a\tb"));
	json_array_append_new(list, pf_json_str("\xff"
						"x"));
	assert_line(list, "[null, \"a\\tb\", \"\\\\xffx\"]");
}

/* Out of memory anywhere in a row of members is seen at its end, and nothing is printed. */
static void test_put_out_of_memory(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	json_t *o = json_object();

	pf_json_put(&o, "a", NULL);
	assert_null(o);
	pf_json_put(&o, "b", json_true());
	assert_null(o);
	assert_int_equal(pf_json_text(o, &text), -ENOMEM);
	assert_int_equal(text.len, 0);
}

static void test_finding(void **state)
{
	const struct pf_finding f = {
		.severity = PF_DAMAGE, .version = 7, .file = "_versions/7.manifest", .text = "short"
	};
	const struct pf_finding note = { .severity = PF_NOTE, .branch = "feat/x", .text = "stale" };

	assert_line(pf_json_finding(&f), "{\"severity\": \"damage\", \"branch\": \"main\", \"version\": 7, "
					 "\"file\": \"_versions/7.manifest\", \"text\": \"short\"}");
	assert_line(pf_json_finding(&note), "{\"severity\": \"note\", \"branch\": \"feat/x\", \"version\": null, "
					    "\"file\": null, \"text\": \"stale\"}");
}

static void test_request(void **state)
{
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	const char *line = ID ",expires_at=2031-01-01T00:00:00Z,label=a%20b,source=41:" SOURCE
			      ",branch=feat%2Fx,branch_id=" BRANCH_ID;
	const char *floating = ID ",expires_at=2031-01-01T00:00:00Z";

	assert_int_equal(pf_request_parse(line, strlen(line), now, &q, NULL), 0);
	json_auto_t *j = pf_json_request(&q);
	assert_string_equal(json_string_value(json_object_get(j, "request")), line);
	json_object_del(j, "request");
	assert_line(json_incref(j),
		    "{\"id\": \"" ID
		    "\", \"expires_at\": \"2031-01-01T00:00:00Z\", \"label\": \"a b\", \"source_version\": 41, "
		    "\"source_transaction_uuid\": \"" SOURCE "\", \"branch\": \"feat/x\", \"branch_id\": \"" BRANCH_ID
		    "\"}");

	pf_request_release(&q);
	assert_int_equal(pf_request_parse(floating, strlen(floating), now, &q, NULL), 0);
	assert_line(pf_json_request(&q),
		    "{\"request\": \"" ID ",expires_at=2031-01-01T00:00:00Z\", \"id\": \"" ID
		    "\", \"expires_at\": \"2031-01-01T00:00:00Z\", \"label\": \"\", \"source_version\": null, "
		    "\"source_transaction_uuid\": null, \"branch\": null, \"branch_id\": null}");
}

/* --- the head ---------------------------------------------------------------------------------------------------------- */

static void assert_head(struct pf_store *st, const char *branch, const char *want)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	assert_int_equal(pf_branch_open(st, branch, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_render_head(b, m, &text, NULL), 0);
	assert_string_equal(pf_buf_str(&text), want);
}

static void test_head(void **state)
{
	const struct table_version t = {
		.reader_flags = 2,
		.writer_flags = 2 | 1 << 19,
		.fragments = 3,
		.uuid = SOURCE,
		.timestamp = now,
	};
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(41, &t);

	assert_head(st, NULL,
		    "{\n"
		    "  \"version\": 41,\n"
		    "  \"transaction\": \"" SOURCE "\",\n"
		    "  \"timestamp\": \"2026-01-01T00:00:00Z\",\n"
		    "  \"branch\": \"main\",\n"
		    "  \"branch_id\": null,\n"
		    "  \"flags\": {\n"
		    "    \"reader\": {\n"
		    "      \"1\": \"stable-row-ids\"\n"
		    "    },\n"
		    "    \"writer\": {\n"
		    "      \"1\": \"stable-row-ids\",\n"
		    "      \"19\": \"ongoing-work-pins\"\n"
		    "    }\n"
		    "  },\n"
		    "  \"fragments\": 3,\n"
		    "  \"rows\": 30,\n"
		    "  \"pins\": 0\n"
		    "}\n");
}

static void test_head_of_branch(void **state)
{
	const struct table_version t = {
		.version = 3, .dir = "tree/feat/x/", .branch = "feat/x", .no_timestamp = true, .txn = TABLE_TXN_NONE
	};
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ 0 });

	table_put(st, &t);
	table_put_branch(st, "feat/x", 2, BRANCH_ID);
	assert_head(st, "feat/x",
		    "{\n"
		    "  \"version\": 3,\n"
		    "  \"transaction\": null,\n"
		    "  \"timestamp\": null,\n"
		    "  \"branch\": \"feat/x\",\n"
		    "  \"branch_id\": \"" BRANCH_ID "\",\n"
		    "  \"flags\": {\n"
		    "    \"reader\": {},\n"
		    "    \"writer\": {}\n"
		    "  },\n"
		    "  \"fragments\": 0,\n"
		    "  \"rows\": 0,\n"
		    "  \"pins\": 0\n"
		    "}\n");
}

static void test_lost(void **state)
{
	char writer[] = "lance 8.0.1";
	struct pf_lost l = { .pin = make_pin("nightly"), .version = 43, .writer = writer };

	assert_line(pf_json_lost(&l),
		    "{\"id\": \"" ID "\", \"source_version\": 41, \"source_transaction_uuid\": \"" SOURCE
		    "\", \"created_at\": \"2026-01-01T00:00:00Z\", \"expires_at\": \"2031-01-01T00:00:00.5Z\", "
		    "\"label\": \"nightly\", \"version\": 43, \"writer\": \"lance 8.0.1\"}");
	/* Of a guard tag alone. */
	l.pin.created_at = l.pin.expires_at = (struct pf_time){ 0 };
	l.pin.label[0] = '\0';
	l.version = 0;
	l.writer = NULL;
	assert_line(
		pf_json_lost(&l),
		"{\"id\": \"" ID "\", \"source_version\": 41, \"source_transaction_uuid\": \"" SOURCE
		"\", \"created_at\": null, \"expires_at\": null, \"label\": \"\", \"version\": null, \"writer\": null}");
	pf_pin_release(&l.pin);
}

static void assert_member(json_t *o, const char *key, const char *want)
{
	json_auto_t *expected = json_loads(want, JSON_DECODE_ANY, NULL);

	assert_true(json_equal(json_object_get(o, key), expected));
}

static void test_change(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &(struct table_version){ .operation = 110 });
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;
	_cleanup_(pf_pin_release) struct pf_pin old = make_pin("nightly"), new = make_pin("nightly");
	struct pf_pin id_only = PF_PIN_INIT;
	struct pf_step s = { .txn = &txn };

	new.expires_at.sec += 60;
	id_only.id = old.id;
	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &m, NULL), 0);
	assert_int_equal(pf_txn_read(st, "", m, &txn, NULL), 0);
	s.m = m;

	json_t *o = pf_json_change(&s, "renewed", &new, &old);
	assert_member(o, "version", "2");
	assert_member(o, "operation", "\"UpdateConfig\"");
	assert_member(o, "change", "\"renewed\"");
	assert_member(o, "id", "\"" ID "\"");
	assert_member(json_object_get(o, "pin"), "expires_at", "\"2031-01-01T00:01:00.5Z\"");
	assert_member(o, "previous_expires_at", "\"2031-01-01T00:00:00.5Z\"");
	json_decref(o);

	/* The last record of one that is gone, an id alone, and a version that did nothing to pins. */
	o = pf_json_change(&s, "released", &old, &old);
	assert_member(json_object_get(o, "pin"), "label", "\"nightly\"");
	assert_member(o, "previous_expires_at", "null");
	json_decref(o);
	o = pf_json_change(&s, "waived", &id_only, NULL);
	assert_member(o, "id", "\"" ID "\"");
	assert_member(o, "pin", "null");
	json_decref(o);
	s.txn = NULL;
	o = pf_json_change(&s, NULL, NULL, NULL);
	assert_member(o, "operation", "null");
	assert_member(o, "change", "null");
	assert_member(o, "id", "null");
	assert_member(o, "pin", "null");
	json_decref(o);
}

/* --- renewals ---------------------------------------------------------------------------------------------------------- */

static int renewal(const char *text, size_t len, struct pf_time *out, struct pf_why *why)
{
	_cleanup_(pf_pin_release) struct pf_pin p = make_pin("nightly");

	return pf_renewal_parse(text, len, now, &p, out, why);
}

static void assert_renewal(const char *text, const char *want)
{
	char got[PF_TIME_TEXT];
	struct pf_time t;

	assert_int_equal(renewal(text, strlen(text), &t, NULL), 0);
	pf_time_format(t, got);
	assert_string_equal(got, want);
}

static void test_renewal_time(void **state)
{
	assert_renewal("2031-06-01T12:00:00Z", "2031-06-01T12:00:00Z");
	assert_renewal("2031-06-01T12:00:00Z\n", "2031-06-01T12:00:00Z");
	assert_renewal("+2h\n\n\n", "2026-01-01T02:00:00Z");
}

static void test_renewal_record(void **state)
{
	/* Read and written back unchanged. */
	assert_renewal(RECORD, "2031-01-01T00:00:00.5Z");
	/* As editors and programs leave it: the expiry changed, members in another order, other blanks. */
	assert_renewal(
		"{\"expires_at\":\"2032-01-01T01:00:00+01:00\",\"label\":\"nightly\",\"id\":\"" ID
		"\",\"created_at\":\"2026-01-01T00:00:00Z\",\n\"source_version\":41,\"source_transaction_uuid\":\"" SOURCE
		"\"}",
		"2032-01-01T00:00:00Z");
}

#define MEMBERS_BUT_LABEL                                                                                              \
	"\"id\": \"" ID "\", \"source_version\": 41, \"source_transaction_uuid\": \"" SOURCE                           \
	"\", \"created_at\": \"2026-01-01T00:00:00Z\""
#define LABEL "\"label\": \"nightly\""

static const struct {
	const char *text;
	size_t len; /* 0: strlen */
	const char *says;
} refused[] = {
	{ "", 0, "a time is expected, not nothing" },
	{ "\n", 0, "a time is expected, not nothing" },
	{ "2031-06-01", 0, "is not a time" },
	{ "2031-06-01T12:00:00Z\r\n", 0, "is not a time" },
	{ " +2h", 0, "is not a time" },
	{ "+2h\n+3h\n", 0, "is not a time" },
	{ "+2h\0", 4, "is not a time" },
	{ "{", 0, "is not JSON" },
	{ "{}", 0, "has no member \"id\"" },
	{ "[]", 0, "is not a time" },
	{ RECORD RECORD, 0, "is not JSON" },
	{ RECORD "\0", sizeof(RECORD), "is not JSON" },
	/* The first half of a record, as a program may write it. */
	{ RECORD, sizeof(RECORD) / 2, "is not JSON" },
	{ "{" MEMBERS_BUT_LABEL ", " LABEL "}", 0, "has no member \"expires_at\"" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\"}", 0, "has no member \"label\"" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\", \"label\": \"other\"}", 0, "\"label\" differs" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\", \"label\": null}", 0, "\"label\" differs" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\", " LABEL ", \"force\": true}", 0,
	  "has no member \"force\"" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\", \"expires_at\": \"+3h\", " LABEL "}", 0, "is not JSON" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": 1924992000, " LABEL "}", 0, "is not a string" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"\", " LABEL "}", 0, "a time is expected, not nothing" },
	{ "{" MEMBERS_BUT_LABEL ", \"expires_at\": \"+2h\\n\", " LABEL "}", 0, "is not a time" },
	{ "{\"\xff\x1b\": 1}", 0, "is not JSON" },
};

static void test_renewal_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const char *text = refused[i].text;
		size_t len = refused[i].len ? refused[i].len : strlen(text);
		struct pf_time t = { .sec = 7 };
		struct pf_why why = PF_WHY_INIT;

		if (renewal(text, len, &t, &why) != -EINVAL || !strstr(why.text, refused[i].says))
			fail_msg("%s: %s", text, why.text);
		assert_true(pf_utf8_valid(why.text, strlen(why.text)));
		assert_null(strpbrk(why.text, "\n\x1b"));
		assert_int_equal(t.sec, 7);
	}
}

/* Text in the form of a record, deeper or longer than any record is (cases-open E16). */
static void test_renewal_huge(void **state)
{
	static const char *const openings[] = { "[", "{\"a\":" };
	struct pf_time t;

	for (size_t i = 0; i < ARRAY_LEN(openings); i++) {
		_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
		for (size_t k = 0; k < 100000; k++)
			assert_int_equal(pf_buf_addstr(&text, openings[i]), 0);
		assert_int_equal(renewal((const char *)text.data, text.len, &t, NULL), -EINVAL);
		assert_int_equal(renewal((const char *)text.data, PF_RENEWAL_MAX, &t, NULL), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_label_survives),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_text_of_others),
		cmocka_unit_test(test_put_out_of_memory),
		cmocka_unit_test(test_finding),
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_head_of_branch),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_change),
		cmocka_unit_test(test_renewal_time),
		cmocka_unit_test(test_renewal_record),
		cmocka_unit_test(test_renewal_refused),
		cmocka_unit_test(test_renewal_huge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
