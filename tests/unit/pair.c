#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/copy.h"
#include "core/store_mem.h"
#include "on_disk.h"
#include "prepared.h"
#include "table.h"
#include "world.h"

static struct pf_store *new_side(uint64_t flags)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT;

	prepared_body("Project c0 c1 c2", &extra);
	for (uint64_t id = 1; id <= 3; id++)
		prepared_fragment(&extra, 2, id, PREPARED_OLD, 10, 0);
	return table_new(MADE, &(struct table_version){ .writer_flags = flags, .extra = &extra });
}

void put_origin(struct pf_store *st, const char *text)
{
	assert_int_equal(pf_store_mem_put(st, PF_COPY_ORIGIN, text, strlen(text)), 0);
}

static struct pf_branch *line(struct pf_store *st)
{
	struct pf_branch *b = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_branch_open(st, NULL, &b, &why) < 0)
		fail_msg("%s", why.text);
	return b;
}

void new_pair(struct pair *p)
{
	*p = (struct pair){ .t = new_side(BIT_PINS), .c = new_side(0) };
	put_origin(p->c, "5 " SOURCE_5 " \n");
	p->table = line(p->t);
	p->copy = line(p->c);
}

void new_pair_on_disk(struct pair *p)
{
	struct pf_store *t = new_side(BIT_PINS), *c = new_side(0);

	put_origin(c, "5 " SOURCE_5 " \n");
	*p = (struct pair){ .t = NULL };
	disk_enter(p->dir);
	p->t = disk_table(t, "t");
	p->c = disk_table(c, "c");
	pf_store_free(t);
	pf_store_free(c);
	p->table = line(p->t);
	p->copy = line(p->c);
}

void close_pair(struct pair *p)
{
	pf_branch_free(p->table);
	pf_branch_free(p->copy);
	pf_store_free(p->t);
	pf_store_free(p->c);
	if (p->dir[0])
		disk_leave(p->dir);
}

const char *pair_uuid(char who, unsigned n, char out[PF_UUID_TEXT])
{
	snprintf(out, PF_UUID_TEXT, "%c0000000-0000-4000-8000-%012u", who, n);
	return out;
}

void commit(struct pf_branch *b, const char *text, const char *uuid)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work work = { .operation = &o };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	prepared(text, head->version, uuid, &o);
	if (pf_work_commit(b, &work, &result, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	assert_int_equal(result.version, head->version + 1);
}

struct pf_replay *opened(struct pair *p)
{
	struct pf_replay *r = NULL;
	struct pf_why why = PF_WHY_INIT;

	if (pf_replay_open(p->table, p->copy, false, &r, &why) < 0)
		fail_msg("%s", why.text);
	return r;
}

int replay(struct pf_replay *r, unsigned *done, struct pf_why *why)
{
	struct pf_replay_version v;
	int e;

	for (*done = 0; (e = pf_replay_next(r, false, &v, why)) > 0; ++*done)
		assert_int_not_equal(v.state, PF_REPLAY_PENDING);
	return e;
}

void replayed(struct pair *p, unsigned wanted)
{
	_cleanup_(pf_replay_freep) struct pf_replay *r = opened(p);
	struct pf_why why = PF_WHY_INIT;
	unsigned done;

	if (replay(r, &done, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(done, wanted);
}
