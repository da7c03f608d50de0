#include "landed.h"

#include <inttypes.h>

#include "message.h"

struct search {
	const char *uuid;
	struct pf_numbers found; /* versions that transactions of this uuid were prepared on */
};

/* "{read_version}-{uuid}.txn" */
static int look_at_name(void *arg, const char *name, bool is_dir)
{
	struct search *s = arg;
	char *end;

	if (is_dir || name[0] < '0' || name[0] > '9')
		return 0;
	uint64_t version = strtoull(name, &end, 10);
	if (*end != '-' || strncmp(end + 1, s->uuid, PF_UUID_TEXT - 1) != 0 || strcmp(end + PF_UUID_TEXT, ".txn") != 0)
		return 0;
	return pf_numbers_add(&s->found, version);
}

static int is_named(struct pf_branch *b, uint64_t version, const char *uuid, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	int r = pf_branch_version(b, version, &m, why);

	if (r == -ENOENT)
		return pf_why_set(why, -EAGAIN,
				  "this was on its way to be committed before, perhaps as version %" PRIu64
				  ", which is gone: whether it was cannot be told",
				  version);
	return r < 0 ? r : m->transaction_file && strstr(m->transaction_file, uuid);
}

int pf_landed_find(struct pf_branch *b, const char *uuid, uint64_t *read_version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_buf_release) struct pf_buf dir = PF_BUF_INIT;
	struct search s = { .uuid = uuid };

	int r = pf_buf_addf(&dir, "%s_transactions", pf_branch_dir(b));
	if (r == 0 && !pf_buf_str(&dir))
		r = -ENOMEM;
	if (r == 0)
		r = pf_store_list(pf_branch_store(b), (char *)dir.data, look_at_name, &s);
	if (r < 0 && r != -ENOENT)
		pf_why_set(why, r, "cannot list %s: %s", (char *)dir.data, strerror(-r));
	if (r == 0 && s.found.n)
		r = pf_branch_head(b, &head, why);
	bool landed = false;
	for (size_t i = 0; r == 0 && !landed && i < s.found.n; i++)
		for (uint64_t v = s.found.v[i] + 1; r == 0 && !landed && v <= head->version; v++) {
			r = is_named(b, v, uuid, why);
			landed = r > 0;
			if (landed) {
				*read_version = s.found.v[i];
				r = 0;
			}
		}
	pf_numbers_release(&s.found);
	return r == 0 && !landed ? -ENOENT : r;
}
