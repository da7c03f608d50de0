/* The request line of design.md sections 2 and 5; cases-open D12, D14, D15 and E18. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/request.h"

#define U   "01234567-89ab-4cde-8f01-23456789abcd"
#define T   ",expires_at=2031-01-01T00:00:00Z"
#define TXN "0badcafe-0000-4000-8000-000000000041"
#define HEX "00112233445566778899aabbccddeeff"

static const struct pf_time NOW = { 1767225600, 250 };

static void test_parse_all(void **state)
{
	static const char line[] = U
		",source=41:" TXN ",branch_id=" HEX
		",label=nightly%20build%2C%20%C3%A9,branch=feat%2Fx,expires_at=2031-01-01T01:00:00.5+01:00";
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	char id[PF_UUID_TEXT];

	assert_int_equal(pf_request_parse(line, strlen(line), NOW, &q, NULL), 0);
	pf_uuid_format(&q.id, id);
	assert_string_equal(id, U);
	assert_int_equal(q.expires_at.sec, 1924992000);
	assert_int_equal(q.expires_at.nsec, 500000000);
	assert_string_equal(q.label, "nightly build, \xc3\xa9");
	assert_true(q.has_source);
	assert_int_equal(q.source_version, 41);
	assert_string_equal(q.source_txn, TXN);
	assert_string_equal(q.branch, "feat/x");
	assert_string_equal(q.branch_id, HEX);
}

static void test_parse_short(void **state)
{
	static const char line[] = "01234567-89AB-4CDE-8F01-23456789ABCD,expires_at=+2h";
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	char id[PF_UUID_TEXT];

	assert_int_equal(pf_request_parse(line, strlen(line), NOW, &q, NULL), 0);
	pf_uuid_format(&q.id, id);
	assert_string_equal(id, U);
	/* Absolute once read: what is stored or printed again is this moment, not two hours from another one. */
	assert_int_equal(q.expires_at.sec, NOW.sec + 7200);
	assert_int_equal(q.expires_at.nsec, NOW.nsec);
	assert_string_equal(q.label, "");
	assert_false(q.has_source);
	assert_null(q.branch);
	assert_string_equal(q.branch_id, "");
}

#define ROW(err, text, says)                                                                                           \
	{                                                                                                              \
		err, text, sizeof(text) - 1, says                                                                      \
	}

static void test_accepted_set(void **state)
{
	static const struct {
		int err;
		const char *s;
		size_t len;
		const char *says;
	} rows[] = {
		ROW(0, U T, ""),
		ROW(0, U T ",label=", ""),
		ROW(0, U T ",label=a=b c:d", ""),
		ROW(0, U T ",branch=main", ""),
		ROW(0, U T ",branch=a.b-c_d/e", ""),
		ROW(0, U T ",branch_id=" HEX, ""),
		ROW(0, U T ",source=18446744073709551615:" TXN, ""),
		ROW(0, U ",expires_at=2031-01-01T00%3A00%3A00Z", ""),
		ROW(0, U ",expires_at=@1924992000", ""),
		/* the id: exactly 36 hyphenated characters (D12, D14) */
		ROW(-EINVAL, "", "not an id"),
		ROW(-EINVAL, T, "not an id"),
		ROW(-EINVAL, "ffff" T, "not an id"),
		ROW(-EINVAL, "not-a-uuid" T, "not an id"),
		ROW(-EINVAL, "{" U "}" T, "not an id"),
		ROW(-EINVAL, "(" U ")" T, "not an id"),
		ROW(-EINVAL, U "}" T, "not an id"),
		ROW(-EINVAL, "{" U T, "not an id"),
		ROW(-EINVAL, " " U " " T, "not an id"),
		ROW(-EINVAL, "x" U "y" T, "not an id"),
		ROW(-EINVAL, "\"" U "\"" T, "not an id"),
		ROW(-EINVAL, "urn:uuid:" U T, "not an id"),
		ROW(-EINVAL, "URN:UUID:" U T, "not an id"),
		ROW(-EINVAL, "0123456789ab4cde8f0123456789abcd" T, "not an id"),
		ROW(-EINVAL, "012345678-9ab-4cde-8f01-23456789abcd" T, "not an id"),
		ROW(-EINVAL, "01234567-89ab-4cde-8f01-23456789abc" T, "not an id"),
		ROW(-EINVAL, U "d" T, "not an id"),
		ROW(-EINVAL,
		    "\xd9\xa0"
		    "1234567-89ab-4cde-8f01-23456789abc" T,
		    "not an id"), /* an Arabic zero */
		ROW(-EINVAL, "00000000-0000-0000-0000-000000000000" T, "all zeros"),
		ROW(-EINVAL, "ffffffff-ffff-ffff-ffff-ffffffffffff" T, "all ones"),
		ROW(-EINVAL, "\xef\xbb\xbf" U T, "not an id"), /* BOM */
		ROW(-EINVAL, "id=" U T, "not an id"),
		/* the keys */
		ROW(-EINVAL, U, "no expires_at"),
		ROW(-EINVAL, U ",label=x", "no expires_at"),
		ROW(-EINVAL, U T T, "expires_at twice"),
		ROW(-EINVAL, U T ",label=a,label=a", "label twice"),
		ROW(-EINVAL, U T ",label=,label=a", "label twice"),
		ROW(-EINVAL, U T ",", "no \"\""),
		ROW(-EINVAL, U "," T, "no \"\""),
		ROW(-EINVAL, U T ",lable=x", "no \"lable\""),
		ROW(-EINVAL, U T ",LABEL=x", "no \"LABEL\""),
		ROW(-EINVAL, U T ",label =x", "no \"label \""),
		ROW(-EINVAL, U T ",label", "label has no value"),
		ROW(-EINVAL, U T ",id=" U, "no \"id\""),
		ROW(-EINVAL, U T ",label=a,b", "comma inside a value is %2C"),
		ROW(-EINVAL, U T ",label\0=x", "no \"label\\x00\""),
		/* the values */
		ROW(-EINVAL, U ",expires_at=", ""),
		ROW(-EINVAL, U ",expires_at", "expires_at has no value"),
		ROW(-EINVAL, U ",expires_at=1924992000", ""),		     /* D09: a bare number */
		ROW(-EINVAL, U ",expires_at=2031-01-01T00:00:00Z\r", "\\r"), /* D15 */
		ROW(-EINVAL, U ",expires_at=2031-01-01T00:00:00Z\n", "\\n"),
		ROW(-EINVAL,
		    U ",expires_at=\xef\xbb\xbf"
		      "2031-01-01T00:00:00Z",
		    "\\xef\\xbb\\xbf"),
		ROW(-EINVAL, U ",expires_at=2031-01-01T00:00:00Z\0junk", "\\x00"),
		ROW(-EINVAL, U ",expires_at= 2031-01-01T00:00:00Z", ""),
		ROW(-EINVAL, U ",expires_at=2031-01-01T00:00:00Z\xc2\xa0", "\\xc2\\xa0"),
		ROW(-EINVAL, U T ",label=a%0Ab", "control character"),
		ROW(-EINVAL, U T ",label=a\tb", "control character"),
		ROW(-EINVAL, U T ",label=a\0b", "control character"),
		ROW(-EINVAL, U T ",label=a%00b", "%00"),
		ROW(-EINVAL, U T ",label=%C3%28", "UTF-8"),
		ROW(-EINVAL, U T ",label=50%", "%25"),
		ROW(-EINVAL, U T ",label=%zz", "%25"),
		ROW(-EINVAL, U T ",source=", "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=41", "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=41:", "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=:" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=0:" TXN, "VERSION:UUID"), /* versions begin at 1 */
		ROW(-EINVAL, U T ",source=041:" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=-1:" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=+41:" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=18446744073709551616:" TXN, "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=41:" TXN ":1", "VERSION:UUID"),
		ROW(-EINVAL, U T ",source=41:00000000-0000-0000-0000-000000000000", "VERSION:UUID"),
		ROW(-EINVAL, U T ",branch=", "not a branch name"),
		ROW(-EINVAL, U T ",branch=a\0b", "not a branch name"),
		ROW(-EINVAL, U T ",branch=..", ""),
		ROW(-EINVAL, U T ",branch=a//b", ""),
		ROW(-EINVAL, U T ",branch=x.lock", ""),
		ROW(-EINVAL, U T ",branch_id=", "32 hex digits"),
		ROW(-EINVAL, U T ",branch_id=00112233445566778899aabbccddeef", "32 hex digits"),
		ROW(-EINVAL, U T ",branch_id=" HEX "0", "32 hex digits"),
		ROW(-EINVAL, U T ",branch_id=00112233445566778899AABBCCDDEEFF", "32 hex digits"),
		ROW(-EINVAL, U T ",branch_id=00112233445566778899aabbccddeeg0", "32 hex digits"),
		ROW(-EINVAL, U T ",branch=main,branch_id=" HEX, "main"),
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct pf_request q = { .source_version = 77 };
		struct pf_why why = PF_WHY_INIT;
		/* A copy of exactly that length: a read past it is seen by the sanitizer. */
		char *s = malloc(rows[i].len ? rows[i].len : 1);
		assert_non_null(s);
		memcpy(s, rows[i].s, rows[i].len);

		int r = pf_request_parse(s, rows[i].len, NOW, &q, &why);
		if (r != rows[i].err || !strstr(why.text, rows[i].says) || (r < 0 && !why.text[0]))
			fail_msg("row %zu (%s): %d: %s", i, rows[i].s, r, why.text);
		if (r == 0)
			pf_request_release(&q);
		else
			assert_int_equal(q.source_version, 77);
		free(s);
	}
}

static void test_limits(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;
	struct pf_request q = PF_REQUEST_INIT;

	assert_int_equal(pf_buf_addstr(&line, U T ",label="), 0);
	size_t head = line.len;
	for (int i = 0; i < 255; i++)
		assert_int_equal(pf_buf_addch(&line, 'x'), 0);
	assert_int_equal(pf_request_parse((char *)line.data, line.len, NOW, &q, NULL), 0);
	pf_request_release(&q);
	assert_int_equal(pf_buf_addch(&line, 'x'), 0);
	assert_int_equal(pf_request_parse((char *)line.data, line.len, NOW, &q, NULL), -ENAMETOOLONG);

	/* A file name's limit holds for the line as it is spelled, whatever it means. */
	struct pf_why why = PF_WHY_INIT;
	line.len = head;
	for (int i = 0; i < 255; i++)
		assert_int_equal(pf_buf_addstr(&line, "%41"), 0);
	assert_int_equal(pf_buf_addstr(&line, ",branch=b"), 0);
	while (line.len < 1023)
		assert_int_equal(pf_buf_addch(&line, 'b'), 0);
	assert_int_equal(pf_request_parse((char *)line.data, line.len, NOW, &q, NULL), 0);
	pf_request_release(&q);
	assert_int_equal(pf_buf_addch(&line, 'b'), 0);
	assert_int_equal(pf_request_parse((char *)line.data, line.len, NOW, &q, &why), -ENAMETOOLONG);
	assert_non_null(strstr(why.text, "at most 1023"));
}

static void round_trip(const struct pf_request *q, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT, again = PF_BUF_INIT;
	_cleanup_(pf_request_release) struct pf_request back = PF_REQUEST_INIT;

	assert_int_equal(pf_request_format(q, &line), 0);
	assert_string_equal(pf_buf_str(&line), want);
	assert_int_equal(pf_request_parse((char *)line.data, line.len, NOW, &back, NULL), 0);
	assert_int_equal(pf_request_format(&back, &again), 0);
	assert_string_equal(pf_buf_str(&again), want);
}

static void test_format(void **state)
{
	struct pf_request q = { .expires_at = { 1924992000, 0 }, .label = (char[]){ "" } };

	assert_int_equal(pf_uuid_parse(U, 36, &q.id, NULL), 0);
	round_trip(&q, U T);

	q.label = (char[]){ "a, 100% \xc3\xa9=/x" };
	q.has_source = true;
	q.source_version = 41;
	strcpy(q.source_txn, TXN);
	q.branch = (char[]){ "feat/x" };
	strcpy(q.branch_id, HEX);
	round_trip(&q, U T ",label=a%2C%20100%25%20%C3%A9%3D%2Fx,source=41:" TXN ",branch=feat%2Fx,branch_id=" HEX);
}

/* A line that could not be read back is not written. */
static void test_format_too_long(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;
	char label[256], branch[200];
	struct pf_request q = { .expires_at = { 1924992000, 0 }, .label = label, .branch = branch };

	memset(label, ' ', 255);
	memset(branch, 'b', 199);
	label[255] = branch[199] = '\0';
	assert_int_equal(pf_uuid_parse(U, 36, &q.id, NULL), 0);
	assert_int_equal(pf_request_format(&q, &line), -ENAMETOOLONG);
	assert_int_equal(line.len, 0);
	branch[100] = '\0';
	assert_int_equal(pf_request_format(&q, &line), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_all),    cmocka_unit_test(test_parse_short),
		cmocka_unit_test(test_accepted_set), cmocka_unit_test(test_limits),
		cmocka_unit_test(test_format),	     cmocka_unit_test(test_format_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
