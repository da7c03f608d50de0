#include "carried.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "core/carry.h"
#include "core/fri_write.h"
#include "core/mask.h"
#include "core/publish.h"
#include "core/store_mem.h"

#include "table.h"

#define STAGED "_versions/staged.manifest#1"

struct pf_manifest *carried_stage(struct pf_store *st, struct pf_store *from, uint64_t version, bool aware)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_manifest *staged = NULL;
	char name[TABLE_NAME_MAX];
	struct pf_mask mask;

	table_manifest_name(&(struct table_version){ .version = version }, name);
	assert_int_equal(pf_store_get(from, name, 1 << 20, &bytes), 0);
	assert_int_equal(pf_manifest_open(from, name, &m, NULL), 0);
	assert_int_equal(pf_mask_find(from, m, &mask, NULL), 0);
	assert_int_equal(mask.n, 1);
	if (!aware)
		pf_mask_apply(&mask, 0, bytes.data, bytes.len);
	assert_int_equal(pf_store_mem_put(st, STAGED, bytes.data, bytes.len), 0);
	assert_int_equal(pf_manifest_open_staged(st, STAGED, name, &staged, NULL), 0);
	return staged;
}

static int publish(struct pf_branch *b, const struct pf_manifest *head, const struct pf_manifest *staged,
		   const struct pf_operation *o, struct pf_carry *c)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	const struct pf_publish_work work = { .from = staged,
					      .splice = &c->splice,
					      .writer_flags = c->writer_flags,
					      .read_version = o->read_version,
					      .uuid = o->uuid,
					      .transaction = o->bytes.data,
					      .transaction_len = o->bytes.len };
	const struct pf_publish p = { .base = head, .timestamp = staged->timestamp, .pins = &c->pins, .work = &work };

	assert_int_equal(pf_fri_store(pf_branch_store(b), "", &c->next, NULL), 0);
	return pf_publish(b, &p, &m, NULL);
}

int carried_commit(struct pf_store *st, const struct pf_manifest *staged, const struct pf_operation *o, bool *changed,
		   struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_carry_release) struct pf_carry c = { 0 };

	assert_int_equal(pf_branch_open(st, NULL, &b, NULL), 0);
	assert_int_equal(pf_branch_head(b, &head, NULL), 0);
	int r = pf_carry(b, head, staged, o, &c, why);
	if (r < 0)
		return r;
	*changed = c.splice.index || c.splice.drop_index;
	assert_int_equal(publish(b, head, staged, o, &c), 0);
	return 0;
}
