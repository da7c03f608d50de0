/* What speaks against destructive work: each kind of problem, where it counts and where it does not, with the pins it concerns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/retention.h"

#define ID_A "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
#define ID_B "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
#define THEN " (expires 1970-01-01T00:00:00Z)"
#define HEAD 9

/* Versions 1 to 9 and pins a of source 4 and b of source 6; all is well. */
struct world {
	struct pf_survey s;
	struct pf_surveyed_version versions[HEAD];
	struct pf_surveyed_file files[1];
	struct pf_interval iv[2];
	struct pf_survey_base bases[2];
	struct pf_pin pins[8];
	struct pf_gap gaps[1];
	struct pf_branch_needs needs[1];
	struct pf_retention_input in;
};

static char no_label[] = "", nowhere[] = "", elsewhere[] = "/elsewhere", path[] = "data/x.lance";
static char gap_file[] = "the file", gap_text[] = "the file: what is wrong";

static void make_pin(struct world *w, size_t i, uint64_t source, uint8_t id)
{
	w->pins[i] = (struct pf_pin){ .source_version = source, .label = no_label };
	memset(w->pins[i].id.b, id, sizeof(w->pins[i].id.b));
	snprintf(w->pins[i].source_txn, PF_UUID_TEXT, "txn %d", (int)source);
}

static void make_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->in.survey = &w->s;
	w->bases[0].where = nowhere;
	w->bases[1].where = elsewhere;
	w->s.bases = w->bases;
	w->s.n_bases = 2;
	w->s.versions = w->versions;
	w->s.n_versions = HEAD;
	for (size_t i = 0; i < HEAD; i++) {
		w->versions[i] = (struct pf_surveyed_version){ .version = i + 1, .readable = true };
		snprintf(w->versions[i].txn, PF_UUID_TEXT, "txn %d", (int)i + 1);
	}
	make_pin(w, 0, 6, 0xbb);
	make_pin(w, 1, 4, 0xaa);
	w->s.pins = (struct pf_pins){ w->pins, 2 };
	w->s.gaps = w->gaps;
	w->in.branches = w->needs;
	w->s.files = w->files;
	w->files[0] = (struct pf_surveyed_file){
		.cls = PF_FILE_DATA, .own = true, .n_files = 1, .size = 10, .path = path, .iv = w->iv, .n_iv = 1
	};
}

static int collect(void *arg, const struct pf_problem *p)
{
	struct pf_buf *out = arg;

	assert_int_equal(pf_buf_addf(out, "%d %s|%s|", (int)p->version, p->file ? p->file : "-", p->text), 0);
	for (size_t i = 0; i < p->n_pins; i++)
		assert_int_equal(pf_buf_addf(out, " %x", p->pins[i]->id.b[0]), 0);
	return pf_buf_addstr(out, "\n");
}

/* All of them, as lines; "" if all is well. */
static void assert_problems(const struct world *w, const char *want)
{
	_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;

	assert_int_equal(pf_retention_new(&w->in, &r), 0);
	assert_int_equal(pf_buf_addstr(&got, ""), 0);
	assert_int_equal(pf_retention_problems(r, collect, &got), 0);
	assert_string_equal(pf_buf_str(&got), want);
	assert_int_equal(pf_retention_verify(r, NULL), *want ? -EBUSY : 0);
}

static void remove_version(struct world *w, size_t i)
{
	memmove(&w->versions[i], &w->versions[i + 1], (w->s.n_versions - i - 1) * sizeof(w->versions[0]));
	w->s.n_versions--;
}

static void test_sources(void **state)
{
	struct world w;

	make_world(&w);
	assert_problems(&w, "");
	strcpy(w.versions[3].txn, "another");
	assert_problems(&w, "4 -|expected the source to be of transaction txn 4, found another| aa\n");
	w.versions[5].txn[0] = '\0';
	assert_problems(&w, "4 -|expected the source to be of transaction txn 4, found another| aa\n"
			    "6 -|expected the source to be of transaction txn 6, found none| bb\n");
	/* Whoever is released is not asked. */
	w.in.released = &w.pins[1].id;
	w.in.n_released = 1;
	assert_problems(&w, "6 -|expected the source to be of transaction txn 6, found none| bb\n");

	make_world(&w);
	make_pin(&w, 0, 12, 0xbb);
	assert_problems(&w, "12 -|the source is above the head, which is version 9| bb\n");
}

static void test_holes(void **state)
{
	struct world w;

	make_world(&w);
	remove_version(&w, 2);
	assert_problems(&w, ""); /* below every window */
	remove_version(&w, 3);	 /* version 5 */
	assert_problems(&w, "5 -|it is missing| aa\n");
	remove_version(&w, 4); /* version 7 */
	remove_version(&w, 4); /* version 8 */
	assert_problems(&w, "5 -|it is missing| aa\n"
			    "7 -|it and all up to version 8 are missing| aa bb\n");
	remove_version(&w, 3); /* version 6, b's source */
	assert_problems(&w, "5 -|it and all up to version 8 are missing| aa bb\n"
			    "6 -|it is missing, the source| bb\n");
	w.s.pins.n = 0;
	assert_problems(&w, "");
}

static void make_gap(struct world *w, enum pf_gap_kind kind, uint64_t first, uint64_t last)
{
	w->s.n_gaps = 1;
	w->gaps[0] = (struct pf_gap){ .kind = kind, .first = first, .last = last, .file = gap_file, .text = gap_text };
}

static void test_gaps(void **state)
{
	struct world w;

	make_world(&w);
	/* What such a version refers to may be anything, in a window or not. */
	make_gap(&w, PF_GAP_MANIFEST, 2, 2);
	assert_problems(&w, "2 the file|the file: what is wrong|\n");
	make_gap(&w, PF_GAP_FLAGS, 5, 5);
	assert_problems(&w, "5 the file|the file: what is wrong| aa\n");
	make_gap(&w, PF_GAP_REF, 0, PF_STILL);
	assert_problems(&w, "0 the file|the file: what is wrong| aa bb\n");

	/* The transaction of every version after the source; of the source its uuid is asked. */
	make_gap(&w, PF_GAP_TRANSACTION, 4, 4);
	assert_problems(&w, "");
	make_gap(&w, PF_GAP_TRANSACTION, 5, 5);
	assert_problems(&w, "5 the file|the file: what is wrong| aa\n");
	make_gap(&w, PF_GAP_TRANSACTION, 6, 6);
	assert_problems(&w, "6 the file|the file: what is wrong| aa\n");
	make_gap(&w, PF_GAP_TRANSACTION, 7, 7);
	assert_problems(&w, "7 the file|the file: what is wrong| aa bb\n");

	w.versions[5].txn[0] = '\0'; /* what 6 was made by stands only in what cannot be read */
	make_gap(&w, PF_GAP_TRANSACTION, 6, 6);
	assert_problems(&w, "6 -|expected the source to be of transaction txn 6, found none| bb\n"
			    "6 the file|the file: what is wrong| aa bb\n");
	snprintf(w.versions[5].txn, PF_UUID_TEXT, "txn 6");

	/* Of an interval, from where a window begins. */
	make_gap(&w, PF_GAP_FRI, 1, 3);
	assert_problems(&w, "");
	make_gap(&w, PF_GAP_FRI, 1, 4);
	assert_problems(&w, "4 the file|the file: what is wrong| aa\n");
	make_gap(&w, PF_GAP_FRI, 7, PF_STILL);
	assert_problems(&w, "7 the file|the file: what is wrong| aa bb\n");
	w.s.pins.n = 0;
	assert_problems(&w, "");
}

static void test_files(void **state)
{
	struct world w;

	make_world(&w);
	w.s.n_files = 1;
	w.iv[0] = (struct pf_interval){ 1, 5 };
	assert_problems(&w, ""); /* nobody looked */
	w.files[0].presence = PF_MISSING;
	assert_problems(&w, "4 data/x.lance|data/x.lance is missing| aa\n");
	w.iv[0] = (struct pf_interval){ 1, 3 };
	assert_problems(&w, ""); /* in no window */
	w.iv[0] = (struct pf_interval){ 1, 2 };
	w.iv[1] = (struct pf_interval){ 8, PF_STILL };
	w.files[0].n_iv = 2;
	w.files[0].base = 1;
	assert_problems(&w, "8 /elsewhere/data/x.lance|/elsewhere/data/x.lance is missing| aa bb\n");
	w.files[0].optional = true;
	assert_problems(&w, "");

	/* Once is enough. */
	w.files[0].optional = false;
	w.files[0].base = 0;
	make_gap(&w, PF_GAP_TRANSACTION, 8, 8);
	w.gaps[0].file = path;
	assert_problems(&w, "8 data/x.lance|the file: what is wrong| aa bb\n");
	w.s.n_gaps = 0;
	w.files[0].base = 1;
	w.files[0].presence = PF_PRESENT;
	w.files[0].said = 11;
	assert_problems(&w, "8 /elsewhere/data/x.lance|/elsewhere/data/x.lance: expected 11 bytes, found 10| aa bb\n");
	w.files[0].size = w.files[0].said = 0; /* nobody says how long it is */
	assert_problems(&w, "8 /elsewhere/data/x.lance|/elsewhere/data/x.lance is empty| aa bb\n");
	w.files[0].optional = true;
	assert_problems(&w, "");
	w.files[0].optional = false;
	w.files[0].size = 10;
	w.files[0].said = 9;
	assert_problems(&w, "8 /elsewhere/data/x.lance|/elsewhere/data/x.lance: expected 9 bytes, found 10| aa bb\n");
	w.files[0].is_dir = true; /* with something more in it */
	assert_problems(&w, "");
	w.files[0].n_files = 0;
	assert_problems(&w, "8 /elsewhere/data/x.lance|/elsewhere/data/x.lance is missing| aa bb\n");
	w.files[0].presence = PF_UNSEEN;
	w.files[0].is_dir = false;
	assert_problems(&w, "");
}

static void test_branches(void **state)
{
	static char dev[] = "dev", reason[] = "its head is damaged";
	struct world w;

	make_world(&w);
	w.in.n_branches = 1;
	w.needs[0] = (struct pf_branch_needs){ .name = dev };
	assert_problems(&w, "");
	w.needs[0].unknown = reason;
	assert_problems(&w, "0 -|what branch dev needs cannot be told: its head is damaged|\n");
}

static void assert_sentence(const struct world *w, const char *want)
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = NULL;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_retention_new(&w->in, &r), 0);
	assert_int_equal(pf_retention_verify(r, &why), -EBUSY);
	assert_string_equal(why.text, want);
}

/* The first by version, whatever the order it was found in. */
static void test_sentence(void **state)
{
	struct world w;

	make_world(&w);
	make_gap(&w, PF_GAP_TRANSACTION, 7, 7);
	assert_sentence(&w, "version 7: the file: what is wrong; it is needed by pins " ID_A THEN ", " ID_B THEN);
	remove_version(&w, 4);
	assert_sentence(&w, "version 5: it is missing; it is needed by pin " ID_A THEN);
	make_gap(&w, PF_GAP_REF, 0, PF_STILL);
	w.s.pins.n = 0;
	assert_sentence(&w, "the file: what is wrong");

	make_world(&w);
	for (size_t i = 0; i < 7; i++)
		make_pin(&w, i, 4, (uint8_t)(0x11 * (i + 1)));
	w.s.pins.n = 7;
	make_gap(&w, PF_GAP_TRANSACTION, 7, 7);
	assert_sentence(
		&w, "version 7: the file: what is wrong; it is needed by pins 11111111-1111-1111-1111-111111111111" THEN
		    ", 22222222-2222-2222-2222-222222222222" THEN ", 33333333-3333-3333-3333-333333333333" THEN
		    ", 44444444-4444-4444-4444-444444444444" THEN ", 55555555-5555-5555-5555-555555555555" THEN
		    " and 2 more");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sources), cmocka_unit_test(test_holes),	 cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_files),	cmocka_unit_test(test_branches), cmocka_unit_test(test_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
