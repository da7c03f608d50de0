#include "copy.h"

#include <stdio.h>
#include <string.h>

#include "flags.h"
#include "guard.h"
#include "lance.pb-c.h"
#include "next.h"
#include "pins.pb-c.h"

#define DEPTH_MAX 64

/*
 * Refs first, then manifests, then all else: whatever is committed or branched off meanwhile is not referred to by what was copied before, and what
 * that refers to is there.
 */
enum pass { REFS, MANIFESTS, REST, N_PASSES };

struct copying {
	struct pf_store *from, *to;
	const char *at;
	enum pass pass;
	struct pf_buf manifests; /* names of those that were copied, a NUL behind each */
	struct pf_copied done;
	struct pf_why *why;
};

static void copying_release(struct copying *c)
{
	pf_buf_release(&c->manifests);
}

static enum pass pass_of(const char *dir, const char *name)
{
	const char *last = strrchr(dir, '/');
	uint64_t version;
	bool v2;

	if (strncmp(dir, "_refs/", strlen("_refs/")) == 0)
		return REFS;
	if (strcmp(last ? last + 1 : dir, "_versions") == 0 && pf_manifest_name_parse(name, &version, &v2))
		return MANIFESTS;
	return REST;
}

/* What somebody is writing, and tags of pins that the copy does not have. */
static bool stays_behind(const char *dir, const char *name)
{
	char tag[sizeof("pinfs-") + PF_UUID_TEXT];
	struct pf_uuid pin;
	size_t n = strlen(name);

	if (strncmp(name, ".tmp", 4) == 0 || (strcmp(dir, ".") == 0 && strcmp(name, PF_COPY_ORIGIN) == 0))
		return true;
	if (strcmp(dir, "_refs/tags") != 0 || n <= 5 || strcmp(name + n - 5, ".json") != 0)
		return false;
	/* One that is longer is cut, and then as little a guard's as it was. */
	snprintf(tag, sizeof(tag), "%.*s", (int)n - 5, name);
	return pf_guard_name_parse(tag, &pin);
}

static int failed(struct copying *c, int err, const char *path)
{
	if (err == -ENOENT || err == -ESTALE)
		return pf_why_set(c->why, -EAGAIN, "%s went while it was copied: somebody cleans this table, try again",
				  path);
	return pf_why_default(c->why, err, "cannot copy %s: %s", path, strerror(-err));
}

/* Append a BasePath message, moved into the copy if it leads into the table. */
static int move_base(struct copying *c, struct pf_span message, struct pf_buf *out)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT, moved = PF_BUF_INIT;
	_cleanup_(pf_freep) char *path = NULL, *name = NULL;
	struct pf_message m;
	struct pf_member f;
	struct pf_span text = { NULL, 0 };
	char quoted[PF_QUOTE_TEXT];
	int r;

	pf_message_init(&m, message);
	while ((r = pf_message_next(&m, &f, c->why)) > 0)
		if (f.number == LANCE__BASE_PATH__FIELD__PATH && (r = pf_member_text(&f, &text, c->why)) < 0)
			return r;
	if (r < 0)
		return r;
	path = strndup((const char *)text.p ? (const char *)text.p : "", text.n);
	if (!path)
		return -ENOMEM;
	r = pf_store_resolve(c->from, path, &name);
	/* What is not there, or relative to who knows what, leads nowhere. */
	if (r == 0 || r == -ENOENT || r == -ENOTDIR || r == -EINVAL)
		return pf_put_span(out, LANCE__MANIFEST__FIELD__BASE_PATHS, message);
	/* Left as it is, one that leads into the table would have writers to the copy delete the table's files. */
	if (r < 0)
		return pf_why_set(c->why, r, "cannot tell whether the base path %s leads into the table: %s",
				  pf_text_quote(path, strlen(path), quoted), strerror(-r));
	bool root = strcmp(name, ".") == 0;
	r = pf_buf_addf(&moved, "%s%s%s", c->at, root ? "" : "/", root ? "" : name);
	if (r == 0)
		r = pf_put_span(&field, LANCE__BASE_PATH__FIELD__PATH, PF_SPAN_OF(&moved));
	const struct pf_change change = { LANCE__BASE_PATH__FIELD__PATH, PF_SPAN_OF(&field) };
	pf_buf_reset(&moved);
	if (r == 0)
		r = pf_message_change(message, &change, 1, &moved, c->why);
	return r < 0 ? r : pf_put_span(out, LANCE__MANIFEST__FIELD__BASE_PATHS, PF_SPAN_OF(&moved));
}

static int move_bases(struct copying *c, const struct pf_manifest *m, struct pf_buf *out)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;
	_cleanup_(pf_buf_release) struct pf_buf all = PF_BUF_INIT;
	struct pf_message walk;
	struct pf_member member;
	struct pf_span message;

	int r = pf_manifest_reopen(c->from, m, &f, c->why);
	if (r == 0)
		r = pf_manifest_get_field(&f->r, m, LANCE__MANIFEST__FIELD__BASE_PATHS, &all, c->why);
	if (r < 0)
		return r;
	pf_message_init(&walk, PF_SPAN_OF(&all));
	while ((r = pf_message_next(&walk, &member, c->why)) > 0) {
		r = pf_member_span(&member, &message, c->why);
		if (r == 0)
			r = move_base(c, message, out);
		if (r < 0)
			return r;
	}
	return r;
}

/* Bit 19 goes wherever it is: Lance 14 cleans no table of which any version has it (lance-14-cleanup 10). */
static int copy_manifest(struct copying *c, const char *path)
{
	const uint32_t flags_field = LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_buf_release) struct pf_buf flags = PF_BUF_INIT, bases = PF_BUF_INIT;

	int r = pf_manifest_open(c->from, path, &m, c->why);
	if (r < 0)
		return r;
	uint64_t word = m->writer_flags & ~PF_FLAG_PINS;
	r = word ? pf_wire_put_u64(&flags, flags_field, word) : 0;
	if (r == 0)
		r = move_bases(c, m, &bases);
	const struct pf_piece flags_piece = { flags.data, 0, flags.len }, bases_piece = { bases.data, 0, bases.len };
	const struct pf_patch patches[] = {
		{ flags_field, &flags_piece, flags.len > 0 },
		{ LANCE__MANIFEST__FIELD__BASE_PATHS, &bases_piece, bases.len > 0 },
		{ PINS__NUMBER__FIELD, NULL, 0 },
	};
	const struct pf_splice how = { .patches = patches, .n_patches = ARRAY_LEN(patches) };
	if (r == 0)
		r = pf_store_create(c->to, path, &sg);
	if (r == 0)
		r = pf_manifest_splice(c->from, m, &how, sg, c->why);
	if (r == 0)
		r = pf_stage_sync(sg);
	c->done.manifests += r == 0;
	return r;
}

static int copy_file(struct copying *c, const char *dir, const char *name, const char *path)
{
	int r = 0;

	if (pass_of(dir, name) != c->pass)
		return 0;
	if (c->pass == MANIFESTS) {
		r = copy_manifest(c, path);
		if (r == 0)
			r = pf_buf_add(&c->manifests, path, strlen(path) + 1);
	} else if ((r = pf_store_local_link(c->from, path, c->to)) == 0) {
		c->done.linked++;
	}
	return r < 0 ? failed(c, r, path) : 0;
}

static int copy_dir(struct copying *c, const char *dir, unsigned depth);

static int copy_entry(struct copying *c, const char *dir, const struct pf_dir_entry *e, unsigned depth)
{
	_cleanup_(pf_freep) char *path = NULL;
	bool root = strcmp(dir, ".") == 0;

	if (asprintf(&path, "%s%s%s", root ? "" : dir, root ? "" : "/", e->name) < 0)
		return path = NULL, -ENOMEM;
	switch (e->kind) {
	case PF_ENTRY_DIR:
		return copy_dir(c, path, depth + 1);
	case PF_ENTRY_FILE:
		return copy_file(c, dir, e->name, path);
	case PF_ENTRY_LINK:
		return pf_why_set(c->why, -EOPNOTSUPP, "%s is a link: what it leads to would be shared, not copied",
				  path);
	default:
		return 0;
	}
}

static int copy_dir(struct copying *c, const char *dir, unsigned depth)
{
	_cleanup_(pf_dir_entries_release) struct pf_dir_entries l = { 0 };

	int r = depth < DEPTH_MAX ? pf_store_entries(c->from, dir, &l) : -ELOOP;
	if (r == 0 && strcmp(dir, ".") != 0)
		r = pf_store_mkdir(c->to, dir);
	if (r < 0)
		return failed(c, r, dir);
	for (size_t i = 0; r == 0 && i < l.n; i++)
		if (!stays_behind(dir, l.v[i].name))
			r = copy_entry(c, dir, &l.v[i], depth);
	/* With the names of all passes in it. A copy that says of what it is one is whole. */
	if (r == 0 && c->pass == N_PASSES - 1 && (r = pf_store_sync_dir(c->to, dir)) < 0)
		return failed(c, r, dir);
	return r;
}

/*
 * Files of a version that was copied may have gone before they were looked for. Who cleans knows better than to leave the version listed: our own cleanup
 * takes its name away first, others do last.
 */
static int check_versions(struct copying *c)
{
	const char *path = (char *)c->manifests.data, *end = path + c->manifests.len;
	struct pf_stat st;
	int r = 0;

	for (; r == 0 && path < end; path += strlen(path) + 1) {
		r = pf_store_stat(c->from, path, &st);
		if (r < 0)
			r = failed(c, r, path);
	}
	return r;
}

int pf_copy_table(struct pf_store *from, struct pf_store *to, const char *at, struct pf_copied *out, struct pf_why *why)
{
	_cleanup_(copying_release) struct copying c = { .from = from, .to = to, .at = at, .why = why };
	int r = 0;

	for (int pass = 0; r == 0 && pass < N_PASSES; pass++) {
		c.pass = pass;
		r = copy_dir(&c, ".", 0);
	}
	if (r == 0)
		r = check_versions(&c);
	if (r == 0)
		r = pf_copy_origin_write(to, why);
	if (r == 0)
		*out = c.done;
	return r;
}
