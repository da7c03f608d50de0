#include "each_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/store_mem.h"

int each_store_mem(void **state)
{
	struct each_store *f = calloc(1, sizeof(*f));
	assert_int_equal(pf_store_mem_new(&f->st), 0);
	*state = f;
	return 0;
}

int each_store_local(void **state)
{
	struct each_store *f = calloc(1, sizeof(*f));
	struct pf_why why = PF_WHY_INIT;
	strcpy(f->dir, "/tmp/pf-store-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	assert_int_equal(pf_store_local_open(f->dir, &f->st, &why), 0);
	*state = f;
	return 0;
}

int each_store_teardown(void **state)
{
	struct each_store *f = *state;
	pf_store_free(f->st);
	if (f->dir[0]) {
		char cmd[96];
		snprintf(cmd, sizeof(cmd), "rm -rf %s", f->dir);
		assert_int_equal(system(cmd), 0);
	}
	free(f);
	return 0;
}

struct pf_store *store_of(void **state)
{
	return ((struct each_store *)*state)->st;
}

void store_put(struct pf_store *st, const char *name, const char *text)
{
	struct pf_stage *sg;
	assert_int_equal(pf_store_create(st, name, &sg), 0);
	assert_int_equal(pf_stage_write(sg, text, strlen(text)), 0);
	assert_int_equal(pf_stage_sync(sg), 0);
	pf_stage_discard(sg);
}

void store_expect(struct pf_store *st, const char *name, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	assert_int_equal(pf_store_get(st, name, 1 << 20, &b), 0);
	assert_string_equal(pf_buf_str(&b), text);
}
