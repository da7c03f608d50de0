/* The first version of a new line: where its files are said to be, what becomes of a history of moved rows, and what is left when it fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/base_path.h"
#include "core/clone.h"
#include "core/fri.h"

#include "moves.h"
#include "pinned.h"
#include "prepared.h"
#include "recorded.h"
#include "world.h"

#define BIT_10	(UINT64_C(1) << 10)
#define AT	"elsewhere/"
#define FIRST	AT "_versions/18446744073709551613.manifest" /* of version 2 */
#define DETAILS "/details.binpb"

/* Make a line of the head of main, in a directory of the same store. */
static int make(struct pf_store *st, const char *branch, struct pf_cloned *files, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *source = NULL;
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;

	int r = pf_branch_open(st, NULL, &b, why);
	if (r == 0)
		r = pf_branch_head(b, &source, why);
	const struct pf_clone c = {
		.from = b, .source = source, .to = st, .dir = AT, .branch = branch, .now = { NOW, 5 }
	};
	return r < 0 ? r : pf_clone_make(&c, files, why);
}

static void made(struct pf_store *st, const char *branch)
{
	_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
	struct pf_why why = PF_WHY_INIT;

	if (make(st, branch, &files, &why) < 0)
		fail_msg("%s", why.text);
	assert_string_equal(files.manifest, FIRST);
}

static void want_refusal(struct pf_store *st, int err, const char *sentence)
{
	_cleanup_(pf_buf_release) struct pf_buf left = PF_BUF_INIT;
	struct pf_cloned files = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = make(st, NULL, &files, &why);
	if (r != err || !strstr(why.text, sentence))
		fail_msg("%d, %s", r, why.text);
	assert_null(files.manifest);
	if (pf_store_stat(st, "elsewhere", &(struct pf_stat){ 0 }) == 0)
		table_list(st, "elsewhere", &left);
	assert_int_equal(left.len, 0);
}

static struct pf_manifest *first_version(struct pf_store *st)
{
	struct pf_manifest *m = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_manifest_open(st, FIRST, &m, &why) < 0)
		fail_msg("%s", why.text);
	return m;
}

/* The only entry of its index section that is a history. */
static void find_entry(struct pf_store *st, const struct pf_manifest *m, struct pf_indices *l,
		       const struct pf_index **x)
{
	assert_int_equal(pf_indices_read(st, m, l, NULL), 0);
	assert_int_equal(pf_fri_entry(l, x, NULL), 0);
	assert_non_null(*x);
}

/* Pins stay where they are; so does bit 19, where it is. */
static void no_pins_and_the_bit(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "1:10" },
		{ .version = 2, .fragments = "1:10 2:10:1", .pins = "a" },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2), *plain = NULL;

	made(st, "x");
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
	assert_int_equal(m->version, 2);
	assert_int_equal(m->pins.n, 0);
	assert_string_equal(m->branch, "x");
	assert_int_equal(m->timestamp.sec, NOW);
	assert_int_equal(m->timestamp.nsec, 5);
	/* Deletions, bases, pins. */
	assert_int_equal(m->writer_flags, 1 | 16 | BIT_PINS);
	assert_int_equal(m->reader_flags, 1 | 16);

	plain = table_new(2, &(struct table_version){ .version = 0, .fragments = 1 });
	made(plain, NULL);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *other = first_version(plain);
	assert_int_equal(other->writer_flags, 16);
	assert_null(other->branch);
}

/* A23, E08: what nobody here knows is carried, nested or not, and what has a base keeps it: 0 is one (A28). */
static void bases_and_unknown_fields(void **state)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, fragment = PF_BUF_INIT, file = PF_BUF_INIT,
						bytes = PF_BUF_INIT, section = PF_BUF_INIT, junk = PF_BUF_INIT;
	_cleanup_(pf_base_paths_release) struct pf_base_paths bases = { 0 };
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };

	prepared_body("Project c0 c1 c2", &extra);
	/* A file on base 0 with field 500, in a fragment with field 777; and one that is on none. */
	pf_wire_put_bytes(&file, 1, "on.lance", 8);
	pf_wire_put_bytes(&file, 500, "F", 1);
	pf_wire_put_u64(&file, 7, 0);
	pf_wire_put_u64(&fragment, 1, 1);
	pf_wire_put_bytes(&fragment, 2, file.data, file.len);
	pf_wire_put_u64(&fragment, 4, 10);
	pf_wire_put_bytes(&fragment, 777, "X", 1);
	/* A row-id sequence of a kind to come. */
	pf_wire_put_bytes(&fragment, 40, "R", 1);
	pf_wire_put_bytes(&extra, 2, fragment.data, fragment.len);
	prepared_fragment(&extra, 2, 2, "off.lance", 10, 0);
	table_add_base(&extra, 0, true, "/zero");
	table_add_base(&extra, 2, true, "/two");
	pf_wire_put_bytes(&extra, 999, "M", 1);
	pf_wire_put_bytes(&junk, 3, "???", 3);
	moves_index(&(struct moves_index){ .name = "a", .uuid = 1, .type = "/x.Y", .details = &junk }, &section);
	moves_index(&(struct moves_index){ .name = "b", .uuid = 2, .has_base = true, .base_id = 0 }, &section);
	const struct table_version t = {
		.version = 0, .writer_flags = BIT_PINS | 16, .reader_flags = 16, .extra = &extra, .index = &section
	};
	_cleanup_(pf_store_freep) struct pf_store *st = table_new(2, &t);

	made(st, NULL);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;
	assert_int_equal(pf_manifest_reopen(st, m, &f, NULL), 0);
	assert_int_equal(pf_base_paths_read(&f->r, m, &bases, NULL), 0);
	assert_int_equal(bases.n, 3);
	/* The lowest that is free. */
	assert_int_equal(bases.v[1].id, 1);
	assert_string_equal(bases.v[1].path, "/memory");
	assert_int_equal(pf_store_get(st, FIRST, 1 << 20, &bytes), 0);
	/* Byte for byte, the fragment that is elsewhere already. */
	assert_non_null(memmem(bytes.data, bytes.len, fragment.data, fragment.len));
	assert_non_null(memmem(bytes.data, bytes.len, "\xba\x3e\x01M", 4));
	assert_int_equal(pf_indices_read(st, m, &l, NULL), 0);
	assert_int_equal(l.n, 2);
	assert_true(l.v[0].has_base && l.v[1].has_base);
	assert_int_equal(l.v[0].base_id, 1);
	assert_int_equal(l.v[1].base_id, 0);
	assert_string_equal(l.v[0].details_type, "/x.Y");
	assert_int_equal(l.v[0].details.len, junk.len);
	assert_memory_equal(bytes.data + l.v[0].details.off, junk.data, junk.len);
}

/* Version 0: the same entry, on the base where its content is. */
static void a_history_of_version_0(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10" },
		{ .version = 2, .fragments = "1:10", .history = "L1 0:10 > 1:10", .external = true },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(v, 2);
	_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	const struct pf_index *x;
	char uuid[PF_UUID_TEXT];

	made(st, "x");
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
	find_entry(st, m, &l, &x);
	assert_string_equal(x->uuid, moves_uuid(2, uuid));
	assert_true(x->has_base);
	assert_int_equal(x->base_id, 0);
	assert_int_equal(pf_fri_read(st, AT, m, &(struct pf_fri_base){ st, "" }, &f, NULL), 0);
	moves_assert_history(&f, "stamp 1 [v0 0:10:0 > 1:10:0]\n");
}

/* Tagged: an entry of its own, and each row map on the base where it is, which may be another one already. */
static void a_tagged_history(void **state)
{
	static const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "4:5 5:5",
		  .flags = BIT_10,
		  .index_version = 1,
		  .history = "L1 0:10 > 1:10; T 1:10 > 2:10; P 2:10 > 3:10; P7 3:10 > 4:5 5:5" },
	};

	for (int external = 0; external < 2; external++) {
		_cleanup_(pf_store_freep) struct pf_store *st = NULL;
		_cleanup_(pf_indices_release) struct pf_indices l = { 0 };
		_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
		struct recorded w[2] = { v[0], v[1] };
		const struct pf_index *x;
		char uuid[PF_UUID_TEXT];

		w[1].external = external;
		st = recorded_table(w, 2);
		made(st, NULL);
		_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
		find_entry(st, m, &l, &x);
		assert_string_not_equal(x->uuid, moves_uuid(2, uuid));
		assert_false(x->has_base);
		assert_int_equal(m->reader_flags & BIT_10, BIT_10);
		assert_int_equal(m->writer_flags & BIT_10, BIT_10);
		assert_int_equal(pf_fri_read(st, AT, m, NULL, &f, NULL), 0);
		/* Short again, it is in the entry, as Lance has it. */
		assert_false(f.external);
		moves_assert_history(&f, "stamp 1 [v0 0:10:0 > 1:10:0]\n [ordered 1:10:0 > 2:10:0]\n"
					 " [partition 2:10:0 > 3:10:0]\n [partition 3:10:0 > 4:5:0 5:5:0]\n");
		assert_true(f.groups[2].has_base && f.groups[3].has_base);
		assert_int_equal(f.groups[2].base_id, 0);
		assert_int_equal(f.groups[3].base_id, 7);
	}
}

static void refused(void **state)
{
	static const struct recorded strange[] = {
		{ .version = 1, .fragments = "0:10", .flags = BIT_10 },
		{ .version = 2, .fragments = "1:10", .flags = BIT_10, .index_version = 2, .history = "T 0:10 > 1:10" },
	};
	static const struct recorded lost[] = {
		{ .version = 1, .fragments = "0:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "1:10",
		  .flags = BIT_10,
		  .index_version = 1,
		  .history = "T 0:10 > 1:10",
		  .external = true },
	};
	_cleanup_(pf_store_freep) struct pf_store *st = recorded_table(strange, 2), *without = recorded_table(lost, 2),
						  *plain = table_new(2, &(struct table_version){ .version = 0 }),
						  *flagged = table_new(2, &(struct table_version){
										  .writer_flags = UINT64_C(1) << 17 });
	char name[128], uuid[PF_UUID_TEXT];
	struct pf_cloned files = { 0 };
	struct pf_why why = PF_WHY_INIT;

	want_refusal(st, -EOPNOTSUPP, "index_version 2; pinfs understands 0 and 1");
	snprintf(name, sizeof(name), "_indices/%s" DETAILS, moves_uuid(2, uuid));
	pf_store_mem_del(without, name);
	want_refusal(without, -ENOENT, "missing");
	want_refusal(flagged, -EOPNOTSUPP, "17");
	pf_store_mem_put(plain, FIRST, "x", 1);
	assert_int_equal(make(plain, NULL, &files, &why), -EEXIST);
	/* It is somebody else's. */
	assert_int_equal(pf_store_stat(plain, FIRST, &(struct pf_stat){ 0 }), 0);
}

/* --- a history in a file of its own ----------------------------------------------------------------------------------- */

static struct pf_store *long_table(unsigned records)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;

	for (unsigned i = 1; i < records; i++)
		assert_int_equal(pf_buf_addf(&text, "P %u:10 > %u:10;", 100 + i, 101 + i), 0);
	assert_int_equal(pf_buf_addstr(&text, "T 0:10 > 1:10"), 0);
	assert_non_null(pf_buf_str(&text));
	const struct recorded v[] = {
		{ .version = 1, .fragments = "0:10", .flags = BIT_10 },
		{ .version = 2,
		  .fragments = "1:10",
		  .flags = BIT_10,
		  .index_version = 1,
		  .history = (char *)text.data,
		  .external = true },
	};
	return recorded_table(v, 2);
}

static void a_long_history(void **state)
{
	_cleanup_(pf_store_freep) struct pf_store *st = long_table(3800);
	_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf left = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(make(st, NULL, &files, &why), 0);
	assert_non_null(files.details);
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
	assert_int_equal(pf_fri_read(st, AT, m, NULL, &f, NULL), 0);
	assert_true(f.external);
	assert_int_equal(f.n_records, 3800);
	assert_true(f.groups[0].has_base);
	assert_int_equal(pf_clone_undo(st, &files), 0);
	table_list(st, "elsewhere", &left);
	assert_int_equal(left.len, 0);
	/* What is gone is no error. */
	assert_int_equal(pf_clone_undo(st, &files), 0);
}

/* Whichever call fails: all is there, or nothing but what could not be removed; and with the manifest everything that it names. */
static void every_call_may_fail(void **state)
{
	for (int kind = PF_FAULT_BEFORE; kind <= PF_FAULT_AFTER; kind++) {
		bool reached = true;

		for (unsigned n = 1; reached; n++) {
			_cleanup_(pf_store_freep) struct pf_store *st = long_table(kind == PF_FAULT_BEFORE ? 3800 : 3);
			_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
			_cleanup_(pf_buf_release) struct pf_buf left = PF_BUF_INIT;
			_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
			struct pf_why why = PF_WHY_INIT;
			unsigned before = pf_store_mem_calls(st);

			pf_store_mem_fault(st, n, kind, -EIO, false);
			int r = make(st, NULL, &files, &why);
			reached = pf_store_mem_calls(st) - before >= n;
			heal(st);
			if (r == 0) {
				_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = first_version(st);
				assert_int_equal(pf_fri_read(st, AT, m, NULL, &f, NULL), 0);
				continue;
			}
			assert_int_equal(r, -EIO);
			assert_true(why.text[0]);
			if (pf_store_stat(st, "elsewhere", &(struct pf_stat){ 0 }) == 0)
				table_list(st, "elsewhere", &left);
			if (left.len)
				fail_msg("call %u: %s", n, pf_buf_str(&left));
			made(st, NULL);
		}
	}
}

struct other {
	const char *before; /* the call, on a name in elsewhere/ */
	bool done;
};

static void put_theirs(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct other *o = arg;

	if (o->done || strcmp(op, o->before) != 0 || strncmp(name, AT, strlen(AT)) != 0)
		return;
	o->done = true;
	pf_store_mem_put(st, FIRST, "theirs", 6);
}

/* Whatever of ours fails, and wherever: a manifest of its name that somebody else has put meanwhile is not ours to take away. */
static void what_others_publish_meanwhile_stays(void **state)
{
	for (const char *const *op = (const char *const[]){ "mkdir", "create", "link", NULL }; *op; op++) {
		bool reached = true;
		for (unsigned n = 1; reached; n++) {
			_cleanup_(pf_store_freep) struct pf_store *st = long_table(3);
			_cleanup_(pf_cloned_release) struct pf_cloned files = { 0 };
			struct other o = { *op, false };
			struct pf_why why = PF_WHY_INIT;
			unsigned before = pf_store_mem_calls(st);
			struct pf_stat there;

			pf_store_mem_set_hook(st, put_theirs, &o);
			pf_store_mem_fault(st, n, PF_FAULT_BEFORE, -EIO, false);
			int r = make(st, NULL, &files, &why);
			reached = pf_store_mem_calls(st) - before >= n;
			heal(st);
			pf_store_mem_set_hook(st, NULL, NULL);
			assert_true(r == -EIO || r == -EEXIST);
			assert_true(why.text[0]);
			if (!o.done)
				continue;
			assert_int_equal(pf_store_stat(st, FIRST, &there), 0);
			assert_int_equal(there.size, 6);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_pins_and_the_bit),
		cmocka_unit_test(bases_and_unknown_fields),
		cmocka_unit_test(a_history_of_version_0),
		cmocka_unit_test(a_tagged_history),
		cmocka_unit_test(refused),
		cmocka_unit_test(a_long_history),
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(what_others_publish_meanwhile_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
