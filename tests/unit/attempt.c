#include "attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "whole.h"

void open_attempt(struct attempt *w, struct pf_store *st, const char *branch)
{
	struct pf_why why = PF_WHY_INIT;

	*w = (struct attempt){ .st = st };
	if (pf_branch_open(st, branch, &w->b, &why) < 0 || pf_branch_head(w->b, &w->base, &why) < 0)
		fail_msg("%s", why.text);
	w->txn = (struct pf_txn){
		.read_version = w->base->version, .uuid = UUID, .kind = PF_OP_ENABLE, .message = strdup("enable pins")
	};
	w->p = (struct pf_publish){
		.base = w->base, .timestamp = { NOW, 123 }, .writer_flags = BIT_PINS, .pins = &w->pins, .txn = &w->txn
	};
}

void new_attempt(struct attempt *w, const struct table_version *like)
{
	open_attempt(w, table_new(5, like), NULL);
}

void close_attempt(struct attempt *w)
{
	pf_manifest_unref(w->base);
	pf_branch_free(w->b);
	pf_txn_release(&w->txn);
	pf_pins_release(&w->pins);
	pf_store_free(w->st);
}

int publish(struct attempt *w, struct pf_manifest **out, struct pf_why *why)
{
	*out = NULL;
	return pf_publish(w->b, &w->p, out, why);
}

bool exists(struct pf_store *st, const char *name)
{
	struct pf_stat sb;

	return pf_store_stat(st, name, &sb) == 0;
}

void others_commit(struct pf_store *st, uint64_t v)
{
	struct table_version t = { .version = v, .uuid = "99999999-9999-4999-8999-999999999999" };

	table_put(st, &t);
}

void assert_nothing_left(struct pf_store *st)
{
	uint64_t at;

	heal(st);
	assert_int_equal(count_landed(st, UUID, &at), 0);
	assert_int_equal(count_staged(st, "_versions"), 0);
	assert_int_equal(count_staged(st, "_transactions"), 0);
	assert_false(exists(st, TXN_6));
}

void run_script(void *arg, struct pf_store *st, const char *op, const char *name)
{
	struct script *s = arg;

	if (s->done || strcmp(op, s->op) != 0 || !strstr(name, s->name))
		return;
	s->done = true;
	s->act(st);
}
