/* The first version of a branch. */
#include "carry.h"

#include <stdio.h>
#include <string.h>

#include "flags.h"
#include "lance.pb-c.h"

/* What a Clone says it was cloned from. */
static int source_flags(struct pf_store *st, const struct pf_operation *op, uint64_t *flags, struct pf_why *why)
{
	enum { REF_NAME = 2, REF_VERSION = 3 };
	_cleanup_(pf_branch_freep) struct pf_branch *b = NULL;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_freep) char *name = NULL;
	struct pf_message body;
	struct pf_member f;
	struct pf_span text;
	uint64_t version = 0;
	int r;

	pf_message_init(&body, op->body);
	while ((r = pf_message_next(&body, &f, why)) > 0) {
		if (f.number == REF_VERSION)
			r = pf_member_u64(&f, &version, why);
		else if (f.number == REF_NAME && (r = pf_member_text(&f, &text, why)) == 0) {
			free(name);
			name = strndup((const char *)text.p, text.n);
			r = name ? 0 : -ENOMEM;
		}
		if (r < 0)
			return r;
	}
	if (r == 0)
		r = pf_branch_open(st, name && name[0] ? name : NULL, &b, why);
	if (r == -ENOENT)
		r = pf_branch_open(st, NULL, &b, why); /* the name of a tag */
	if (r == 0)
		r = pf_branch_version(b, version, &m, why);
	if (r == -ENOENT) /* of another table, or gone: its head says whether pins are in use here */
		r = pf_branch_head(b, &m, why);
	if (r == 0)
		*flags = m->writer_flags;
	return r;
}

static int link_first(struct pf_store *st, const struct pf_manifest *staged, const char *name,
		      const struct pf_splice *how, struct pf_why *why)
{
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_freep) char *temporary = NULL, *dir = NULL;
	const char *slash = strrchr(name, '/');
	char random[PF_UUID_TEXT];
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, random);
	if (!slash || !(dir = strndup(name, (size_t)(slash - name))) ||
	    asprintf(&temporary, "%s/.tmp%s", dir, random) < 0)
		return temporary = NULL, -ENOMEM;
	int r = pf_store_create(st, temporary, &sg);
	if (r < 0)
		return r;
	r = pf_manifest_splice(st, staged, how, sg, why);
	if (r == 0)
		r = pf_stage_sync(sg);
	if (r == 0)
		r = pf_store_link(st, temporary, name);
	pf_store_unlink(st, temporary);
	return r == 0 ? pf_store_sync_dir(st, dir) : r;
}

int pf_carry_first(struct pf_store *st, const struct pf_manifest *staged, const char *name,
		   const struct pf_operation *op, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	uint64_t flags = 0;

	if (staged->pins.n)
		return pf_why_set(why, -EPERM, "a branch begins without pins");
	int r = source_flags(st, op, &flags, why);
	if (r < 0)
		return r;
	flags = staged->writer_flags | (flags & PF_FLAG_PINS);
	if (flags)
		r = pf_wire_put_u64(&field, LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS, flags);
	if (r < 0)
		return r;
	const struct pf_piece piece = { .mem = field.data, .len = field.len };
	const struct pf_patch patch = { .number = LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS,
					.pieces = &piece,
					.n_pieces = field.len > 0 };
	const struct pf_splice how = { .patches = &patch, .n_patches = 1 };
	return link_first(st, staged, name, &how, why);
}
