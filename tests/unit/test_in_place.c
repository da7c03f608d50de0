/* A manifest that its writer staged becomes the next version itself (publish.h: in_place): what is added, and what its writer finds if it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/txn.h"

#include "attempt.h"
#include "whole.h"

#define STAGED "_versions/6#1"

static const char pin[] = "\x0a\x12\x0a\x10"
			  "0123456789abcdef"
			  "\x10\x04\x1a\x24" UUID "\x22\x02\x08\x01\x2a\x02\x08\x02";

/* As attempt.h has it, on a base with a pin; and what is staged. */
struct staging {
	struct attempt w;
	struct pf_buf bytes, txn; /* of the staged file, of its transaction */
	struct pf_manifest *from;
	struct pf_splice splice;
	struct pf_publish_work work;
};

static void open_staging(struct staging *s)
{
	_cleanup_(pf_buf_release) struct pf_buf pins = PF_BUF_INIT;
	const struct table_version like = { .writer_flags = BIT_PINS | 1, .pins = &pins, .fragments = 2 };
	const struct table_version next = { .version = 6, .uuid = UUID, .writer_flags = 1, .fragments = 3 };
	struct pf_why why = PF_WHY_INIT;

	*s = (struct staging){ .bytes = PF_BUF_INIT, .txn = PF_BUF_INIT };
	assert_int_equal(pf_wire_put_bytes(&pins, 10395, pin, sizeof(pin) - 1), 0);
	new_attempt(&s->w, &like);
	assert_int_equal(pf_pins_copy(&s->w.base->pins, &s->w.pins), 0);
	table_manifest(&next, &s->bytes);
	table_txn(&next, &s->txn);
	assert_int_equal(pf_store_mem_put(s->w.st, STAGED, s->bytes.data, s->bytes.len), 0);
	if (pf_manifest_open_staged(s->w.st, STAGED, V6, &s->from, &why) < 0)
		fail_msg("%s", why.text);
	s->work = (struct pf_publish_work){
		.from = s->from,
		.in_place = true,
		.splice = &s->splice,
		.writer_flags = 1,
		.read_version = 5,
		.uuid = UUID,
		.transaction = s->txn.data,
		.transaction_len = s->txn.len,
	};
	s->w.p.txn = NULL;
	s->w.p.work = &s->work;
	s->w.p.timestamp = s->from->timestamp;
}

static void close_staging(struct staging *s)
{
	pf_manifest_unref(s->from);
	pf_buf_release(&s->bytes);
	pf_buf_release(&s->txn);
	close_attempt(&s->w);
}

static void assert_bytes(struct pf_store *st, const char *name, const struct pf_buf *want)
{
	_cleanup_(pf_buf_release) struct pf_buf is = PF_BUF_INIT;

	assert_int_equal(pf_store_get(st, name, 1 << 20, &is), 0);
	assert_int_equal(is.len, want->len);
	assert_memory_equal(is.data, want->data, is.len);
}

/* What the client wrote, and behind its last field: field 21 as 23, which 14 writes, the flags, and the pin; with the length that has become. */
static void wanted(const struct staging *s, struct pf_buf *out)
{
	static const char added[] = "\xa8\x01\x00"
				    "\x50\x81\x80\x20"
				    "\xda\x89\x05\x44";
	size_t n = sizeof(added) - 1 + sizeof(pin) - 1, end = s->bytes.len - 16;
	size_t at = (size_t)pf_get_le(s->bytes.data + end, 8);
	uint64_t len = pf_get_le(s->bytes.data + at, 4) + n;

	assert_int_equal(pf_buf_add(out, s->bytes.data, end), 0);
	assert_int_equal(pf_buf_add(out, added, sizeof(added) - 1), 0);
	assert_int_equal(pf_buf_add(out, pin, sizeof(pin) - 1), 0);
	assert_int_equal(pf_buf_add(out, s->bytes.data + end, 16), 0);
	for (unsigned i = 0; i < 4; i++)
		out->data[at + i] = (uint8_t)(len >> (8 * i));
}

static uint64_t inode_of(struct pf_store *st, const char *name)
{
	struct pf_stat is;

	assert_int_equal(pf_store_stat(st, name, &is), 0);
	return is.ino;
}

static void the_staged_file_is_the_version(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf want = PF_BUF_INIT;
	struct pf_manifest *m;
	struct staging s;

	open_staging(&s);
	wanted(&s, &want);
	assert_int_equal(publish(&s.w, &m, NULL), 0);
	assert_int_equal(m->writer_flags, BIT_PINS | 1);
	assert_int_equal(m->pins.n, 1);
	pf_manifest_unref(m);
	assert_bytes(s.w.st, V6, &want);
	assert_int_equal(inode_of(s.w.st, V6), inode_of(s.w.st, STAGED));
	assert_int_equal(count_staged(s.w.st, "_versions"), 0);
	/* Its writer's name is its writer's to remove. */
	assert_int_equal(pf_store_unlink(s.w.st, STAGED), 0);
	assert_whole(s.w.st, "", false);
	close_staging(&s);
}

static void what_cannot_be_added_is_copied(void **state)
{
	static const struct pf_piece piece = { .mem = "\x3a\x00", .len = 2 };
	static const struct pf_patch patch = { .number = 5, .pieces = &piece, .n_pieces = 1 };
	struct pf_manifest *m;
	struct staging s;

	for (int i = 0; i < 3; i++) {
		open_staging(&s);
		if (i == 0)
			s.work.in_place = false;
		else if (i == 1)
			s.w.p.timestamp.sec++;
		else
			s.splice = (struct pf_splice){ .patches = &patch, .n_patches = 1, .drop_index = true };
		assert_int_equal(publish(&s.w, &m, NULL), 0);
		pf_manifest_unref(m);
		assert_bytes(s.w.st, STAGED, &s.bytes);
		assert_int_not_equal(inode_of(s.w.st, V6), inode_of(s.w.st, STAGED));
		close_staging(&s);
	}
}

/* What others do when call `op` on `name` is about to be made for the first time. */
struct meanwhile {
	struct staging *s;
	const char *op, *name;
	void (*act)(struct staging *s);
};

static void run_meanwhile(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct meanwhile *x = arg;

	if (!x->act || strcmp(op, x->op) != 0 || !strstr(name, x->name))
		return;
	void (*act)(struct staging * s) = x->act;
	x->act = NULL;
	act(x->s);
}

static int publish_while(struct staging *s, const char *op, const char *name, void (*act)(struct staging *s),
			 struct pf_why *why)
{
	struct meanwhile x = { s, op, name, act };
	struct pf_manifest *m;

	pf_store_mem_set_hook(s->w.st, run_meanwhile, &x);
	int r = publish(&s->w, &m, why);
	heal(s->w.st);
	assert_null(x.act);
	pf_manifest_unref(m);
	return r;
}

static void take_6(struct staging *s)
{
	others_commit(s->w.st, 6);
}

static void who_loses_finds_what_it_wrote(void **state)
{
	struct staging s;

	open_staging(&s);
	assert_int_equal(publish_while(&s, "link", V6, take_6, NULL), -ESTALE);
	assert_bytes(s.w.st, STAGED, &s.bytes);
	assert_nothing_left(s.w.st);
	close_staging(&s);
}

/* The same name, the same size, another file: nobody said that it may be changed. */
static void replace(struct staging *s)
{
	assert_int_equal(pf_store_mem_put(s->w.st, STAGED, s->bytes.data, s->bytes.len), 0);
}

static void remove_staged(struct staging *s)
{
	assert_int_equal(pf_store_mem_del(s->w.st, STAGED), 0);
}

static void another_file_is_left_alone(void **state)
{
	struct pf_why why = PF_WHY_INIT;
	struct staging s;

	open_staging(&s);
	assert_int_equal(publish_while(&s, "link", "_versions/.tmp", replace, &why), -ESTALE);
	assert_non_null(strstr(why.text, STAGED));
	assert_bytes(s.w.st, STAGED, &s.bytes);
	assert_nothing_left(s.w.st);
	close_staging(&s);

	open_staging(&s);
	assert_int_equal(publish_while(&s, "link", "_versions/.tmp", remove_staged, NULL), -EAGAIN);
	assert_nothing_left(s.w.st);
	close_staging(&s);
}

static void pass_and_remove_staged(struct staging *s)
{
	others_commit(s->w.st, 7);
	remove_staged(s);
}

/*
 * Others go on from it, and its writer's name is removed at once: by its time of change it looks younger than what was made of it, as one in a gap does. It is not
 * taken for one, and removed.
 */
static void a_name_that_goes_makes_no_gap(void **state)
{
	struct staging s;
	uint64_t at;

	open_staging(&s);
	assert_int_equal(publish_while(&s, "sync_dir", "_versions", pass_and_remove_staged, NULL), 0);
	assert_int_equal(count_landed(s.w.st, UUID, &at), 1);
	assert_int_equal(at, 6);
	assert_whole(s.w.st, "", false);
	close_staging(&s);
}

/* Every call, both ways to fail: what was answered is what happened, and what was not published is as it was. */
static bool fail_call(unsigned n, enum pf_fault kind, int err, bool forever)
{
	struct pf_why why = PF_WHY_INIT;
	struct pf_manifest *m;
	struct staging s;
	uint64_t at;

	open_staging(&s);
	unsigned before = pf_store_mem_calls(s.w.st);
	pf_store_mem_fault(s.w.st, n, kind, err, forever);
	int r = publish(&s.w, &m, &why);
	bool reached = pf_store_mem_calls(s.w.st) - before >= n;
	pf_store_mem_fault(s.w.st, 0, PF_FAULT_NONE, 0, false);
	pf_manifest_unref(m);

	unsigned landed = count_landed(s.w.st, UUID, &at);
	if (r == 0 ? landed != 1 : r != -EINPROGRESS && landed != 0)
		fail_msg("call %u, kind %d, err %d, forever %d: answered %d (%s), landed %u times", n, kind, err,
			 forever, r, why.text, landed);
	if (r < 0 && r != -EINPROGRESS && !forever) {
		assert_bytes(s.w.st, STAGED, &s.bytes);
		assert_nothing_left(s.w.st);
		/* And may try again. */
		pf_manifest_unref(s.from);
		assert_int_equal(pf_manifest_open_staged(s.w.st, STAGED, V6, &s.from, &why), 0);
		s.work.from = s.from;
		assert_int_equal(publish(&s.w, &m, &why), 0);
		pf_manifest_unref(m);
		assert_int_equal(inode_of(s.w.st, V6), inode_of(s.w.st, STAGED));
	}
	assert_int_equal(pf_store_unlink(s.w.st, STAGED), 0);
	assert_whole(s.w.st, "", forever || r == -EINPROGRESS);
	close_staging(&s);
	return reached;
}

static void every_call_fails(void **state)
{
	static const int errs[] = { -EIO, -ENOSPC, -EINTR };

	for (size_t e = 0; e < ARRAY_LEN(errs); e++)
		for (int forever = 0; forever <= 1; forever++)
			for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++)
				for (unsigned n = 1; fail_call(n, kind, errs[e], forever); n++)
					;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_staged_file_is_the_version), cmocka_unit_test(what_cannot_be_added_is_copied),
		cmocka_unit_test(who_loses_finds_what_it_wrote),  cmocka_unit_test(another_file_is_left_alone),
		cmocka_unit_test(a_name_that_goes_makes_no_gap),  cmocka_unit_test(every_call_fails),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
