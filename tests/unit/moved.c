#include "moved.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/store_mem.h"

#include "moves.h"
#include "pinned.h"
#include "table.h"

void moved_put_file(struct pf_store *st, const char *name, size_t len)
{
	static const char bytes[4096];

	assert_true(len <= sizeof(bytes));
	assert_int_equal(pf_store_mem_put(st, name, bytes, len), 0);
}

void moved_put_history(const char *text, int32_t index_version, uint32_t base, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, details = PF_BUF_INIT;

	moves_index(&(struct moves_index){ .name = "by_id", .uuid = 1 }, out);
	if (!text)
		return;
	moves_content(text, &content);
	moves_details_inline(&content, &details);
	moves_index(&(struct moves_index){ .name = "__lance_frag_reuse",
					   .uuid = 3,
					   .type = MOVES_FRI_TYPE,
					   .details = &details,
					   .index_version = index_version,
					   .has_base = base != 0,
					   .base_id = base },
		    out);
}

void moved_put_version(struct pf_store *st, uint64_t version, const char *fragments, const char *history,
		       const char *pins)
{
	_cleanup_(pf_buf_release) struct pf_buf extra = PF_BUF_INIT, index = PF_BUF_INIT;

	for (const char *f = fragments; *f; f++) {
		char file[16];
		snprintf(file, sizeof(file), "%c.lance", *f);
		table_add_fragment(&extra, (uint64_t)(*f - '0'), file, 100, -1);
	}
	moved_put_history(history, 1, 0, &index);
	pinned_put(st,
		   &(struct table_version){
			   .version = version, .writer_flags = UINT64_C(1) << 19, .extra = &extra, .index = &index },
		   &(struct pinned){ .pins = pins });
}

#define MERGED	"T 0:10 1:10 > 2:20"
#define DIVIDED MERGED "; P 2:20 > 3:10 4:10"
#define LATER	DIVIDED "; T 9:10 > 5:10"

struct pf_store *moved_table(void)
{
	struct pf_store *st = NULL;
	char name[128], id[PF_UUID_TEXT];

	assert_int_equal(pf_store_mem_new(&st), 0);
	moved_put_version(st, 1, "0", NULL, NULL);
	moved_put_version(st, 2, "01", NULL, "a");
	moved_put_version(st, 3, "2", MERGED, "ab");
	moved_put_version(st, 4, "34", DIVIDED, "ab");
	moved_put_version(st, 5, "349", DIVIDED, "ab");
	moved_put_version(st, 6, "345", LATER, "ab");
	for (const char *f = "0123459"; *f; f++) {
		snprintf(name, sizeof(name), "data/%c.lance", *f);
		moved_put_file(st, name, 100);
	}
	snprintf(name, sizeof(name), "_fri/%s/stable_partition.lance", moves_map_id(1, id));
	moved_put_file(st, name, 1000);
	moved_put_file(st, "_indices/" MOVED_INDEX "/page.lance", 20);
	moved_put_file(st, "_indices/" MOVED_INDEX "/sub/more.lance", 30);
	return st;
}
