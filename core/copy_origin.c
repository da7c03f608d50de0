#include "copy.h"

#include <inttypes.h>
#include <string.h>

#include "branch.h"
#include "txn.h"

#define FILE_MAX (1 << 24)

/* "VERSION UUID DIRECTORY": the directory last, since a branch may be called anything. */
static int put_line(struct pf_store *copy, const char *branch, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int r = pf_branch_open(copy, branch, &b, why);
	if (r == 0)
		r = pf_branch_head(b, &head, why);
	if (r == 0)
		r = pf_txn_read(copy, pf_branch_dir(b), head, &txn, why);
	if (r == -ENODATA || r == -ENOENT || (r == 0 && !txn.uuid[0]))
		return 0;
	return r < 0 ? r : pf_buf_addf(out, "%" PRIu64 " %s %s\n", head->version, txn.uuid, pf_branch_dir(b));
}

int pf_copy_origin_write(struct pf_store *copy, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };
	_cleanup_(pf_buf_release) struct pf_buf lines = PF_BUF_INIT;

	int r = pf_branches_list(copy, &refs, why);
	if (r == 0)
		r = put_line(copy, NULL, &lines, why);
	for (size_t i = 0; r == 0 && i < refs.n; i++)
		r = put_line(copy, refs.v[i].name, &lines, why);
	if (r < 0)
		return r;
	r = pf_store_write_new(copy, PF_COPY_ORIGIN, lines.data, lines.len, true);
	if (r == 0)
		r = pf_store_sync_dir(copy, ".");
	return r < 0 ? pf_why_set(why, r, "cannot write %s: %s", PF_COPY_ORIGIN, strerror(-r)) : 0;
}

/* One line, without its end. 1: it is of `dir`. */
static int parse_line(char *line, const char *dir, struct pf_copy_origin *out)
{
	char *uuid = strchr(line, ' '), *where = uuid ? strchr(uuid + 1, ' ') : NULL;
	uint64_t version;
	struct pf_uuid id;

	if (!where)
		return -EBADMSG;
	*uuid++ = *where++ = '\0';
	if (pf_u64_parse(line, strlen(line), &version) < 0 || version == 0 || strlen(uuid) != PF_UUID_TEXT - 1 ||
	    pf_uuid_parse(uuid, strlen(uuid), &id, NULL) < 0)
		return -EBADMSG;
	if (strcmp(where, dir) != 0)
		return 0;
	out->version = version;
	memcpy(out->uuid, uuid, PF_UUID_TEXT);
	return 1;
}

int pf_copy_origin(struct pf_store *copy, const char *dir, struct pf_copy_origin *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	struct pf_copy_origin found;
	char *save;
	int r = pf_store_get(copy, PF_COPY_ORIGIN, FILE_MAX, &text);

	if (r == -ENOENT)
		return pf_why_set(why, -EINVAL,
				  "%s does not say of what it is a copy: expected one that `pinctl copy` made",
				  copy->where);
	if (r == -EFBIG)
		return pf_why_set(why, -EBADMSG, "%s/%s: expected at most %d bytes", copy->where, PF_COPY_ORIGIN,
				  FILE_MAX);
	if (r < 0)
		return pf_why_set(why, r, "cannot read %s/%s: %s", copy->where, PF_COPY_ORIGIN, strerror(-r));
	if (!pf_buf_str(&text))
		return -ENOMEM;
	if (strlen((char *)text.data) != text.len)
		return pf_why_set(why, -EBADMSG, "%s/%s: expected text, found a NUL", copy->where, PF_COPY_ORIGIN);
	for (char *line = strtok_r((char *)text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		r = parse_line(line, dir, &found);
		if (r < 0)
			return pf_why_set(why, r,
					  "%s/%s: expected a version, a transaction and a directory in each line",
					  copy->where, PF_COPY_ORIGIN);
		if (r > 0) {
			*out = found;
			return 0;
		}
	}
	return pf_why_set(why, -EINVAL, "this branch was not there, or its head had no transaction, when %s was made",
			  copy->where);
}
