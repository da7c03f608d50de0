#include "hint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define HINT_MAX 4096

int pf_hint_check(struct pf_store *st, const char *versions, uint64_t head, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	_cleanup_(pf_freep) char *file = NULL;

	if (asprintf(&file, "%s/" PF_HINT_NAME, versions) < 0)
		return file = NULL, -ENOMEM;
	int r = pf_store_get(st, file, HINT_MAX, &text);
	if (r == -ENOENT || r == -ENOMEM)
		return r == -ENOENT ? 0 : r;
	if (r < 0)
		return pf_why_set(why, 1, "the version hint cannot be read: %s", strerror(-r));
	json_t *j = json_loadb((const char *)text.data, text.len, 0, NULL);
	const json_t *version = json_object_get(j, "version");
	bool is_number = json_is_integer(version);
	json_int_t said = json_integer_value(version);
	json_decref(j);
	if (!is_number)
		return pf_why_set(why, 1, "the version hint is not {\"version\":N}; nothing depends on it");
	if (said < 0 || (uint64_t)said != head)
		return pf_why_set(why, 1,
				  "the version hint says %" JSON_INTEGER_FORMAT ", the head is %" PRIu64
				  "; nothing depends on it",
				  said, head);
	return 0;
}
