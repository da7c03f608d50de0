/*
 * The commit of a client that knows nothing of pins: it links its staged manifest to the name of the next version. What is published is that manifest with
 * pins and bit 19 of the version before and the records of moved rows that pins follow (core/carry.h), by the one publication of core (publish.h), so that
 * nothing else of it changes and a race is lost as everybody's: the client's own file, where it is enough to add fields (core/extend.h), or a copy. The answer is
 * EEXIST only if the version exists: for anything else Lance would try again, some releases for ever.
 */
#include "gateway_node.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/carry.h"
#include "core/flags.h"
#include "core/fri_write.h"
#include "core/operation.h"
#include "core/settle.h"
#include "core/whole.h"

struct commit {
	struct fs *fs;
	const struct gate_at *staged;
	const char *path; /* of the manifest */
	const struct gate_name *name;
	char *dir; /* of the branch */
	struct fs_line *line;
	struct pf_manifest *m; /* as the client staged it */
	struct pf_operation op;
	struct pf_why *why;
};

static void commit_release(struct commit *c)
{
	free(c->dir);
	pf_manifest_unref(c->m);
	pf_operation_release(&c->op);
}

static int refuse(const struct commit *c, const char *text)
{
	return pf_why_set(c->why, -EPERM, "version %" PRIu64 " is not published: %s", c->name->version, text);
}

/* Refuse with the sentence that is there. */
static int refused(const struct commit *c, int err)
{
	return pf_why_prefix(c->why, err, "version %" PRIu64 " is not published", c->name->version);
}

/* What the client staged, in one piece and with a transaction. */
static int read_staged(struct commit *c)
{
	_cleanup_(pf_buf_release) struct pf_buf txn = PF_BUF_INIT;

	int r = pf_manifest_open_staged(c->fs->store, c->staged->path, c->path, &c->m, c->why);
	if (r < 0)
		return refused(c, r);
	if (c->m->st.dev != c->staged->dev || c->m->st.ino != c->staged->ino)
		return refuse(c, "the staged manifest was replaced");
	r = pf_flags_writable(c->m->writer_flags, c->why);
	if (r < 0)
		return refused(c, -EPERM);
	r = pf_txn_bytes(c->fs->store, c->dir, c->m, &txn, c->why);
	if (r == 0)
		r = pf_operation_decode(&txn, &c->op, c->why);
	if (r == -ENODATA || r == -ENOENT)
		return refuse(c, "it has no transaction that could be read, by which it could be known again");
	if (r < 0)
		return refused(c, r);
	if (!c->op.uuid[0] || c->op.number == 0)
		return refuse(c, "its transaction has no uuid, or an operation that pinfs does not know");
	return 0;
}

/* Does the version exist? 1 or 0. */
static int exists(const struct commit *c)
{
	struct stat st;

	int r = gate_lstat(c->fs, c->path, &st);
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

static int lost(const struct commit *c)
{
	int r = exists(c);

	if (r > 0)
		return pf_why_set(c->why, -EEXIST, "version %" PRIu64 " was committed by another writer first",
				  c->name->version);
	return r < 0 ? r : refuse(c, "others went on, and removed that version again: open the table anew");
}

/* The first version of a branch has no version before it: bit 19 comes from the one it was cloned from. */
static int publish_first(struct commit *c)
{
	int r = gate_has_versions(c->fs, c->dir);
	if (r < 0)
		return r;
	if (r > 0)
		return refuse(c, "the branch has no ref");
	r = read_staged(c);
	if (r == 0 && strcmp(pf_operation_name(&c->op), "Clone") != 0)
		return refuse(c, "a branch begins with a clone");
	return r < 0 ? r : pf_carry_first(c->fs->store, c->m, c->path, &c->op, c->why);
}

/*
 * May the staged file become the version itself? It was made through us, so nobody writes to it but through us; it has no other name that somebody might need it by;
 * and who can read the head can read it.
 */
static bool may_be_used(const struct commit *c, const struct pf_manifest *head)
{
	struct stat st, before;

	return c->staged->created && gate_lstat(c->fs, c->staged->path, &st) == 0 && st.st_nlink == 1 &&
	       gate_lstat(c->fs, head->name, &before) == 0 && st.st_mode == before.st_mode;
}

/* Nothing is removed, and nothing staged is written to, between the look and the link. */
static int publish_whole(struct commit *c, struct pf_publish_work *work, const struct pf_publish *p,
			 struct pf_manifest **out)
{
	pthread_rwlock_t *files = &c->fs->gateway.files;

	pthread_rwlock_wrlock(files);
	int r = pf_manifest_whole(c->fs->store, c->dir, p->base, c->m, c->path, c->why);
	work->in_place = may_be_used(c, p->base);
	if (r == 0)
		r = pf_publish(c->line->core, p, out, c->why);
	else if (r != -ESTALE)
		r = refused(c, r == -ENOENT ? -EPERM : r);
	pthread_rwlock_unlock(files);
	return r;
}

static int publish(struct commit *c, const struct pf_manifest *head)
{
	_cleanup_(pf_carry_release) struct pf_carry carry = { 0 };
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_branch *b = c->line->core;

	int r = pf_carry(b, head, c->m, &c->op, &carry, c->why);
	if (r < 0)
		return refused(c, r);
	int keep = pf_operation_file(c->fs->store, c->dir, &c->op, c->why);
	if (keep < 0)
		return refused(c, keep == -EEXIST ? -EPERM : keep);
	struct pf_publish_work work = {
		.from = c->m,
		.splice = &carry.splice,
		.writer_flags = carry.writer_flags,
		.read_version = c->op.read_version,
		.uuid = c->op.uuid,
		.transaction = c->op.bytes.data,
		.transaction_len = c->op.bytes.len,
		.keep_file = keep,
	};
	const struct pf_publish p = {
		.base = head,
		.timestamp = c->m->timestamp,
		.pins = &carry.pins,
		.work = &work,
	};
	r = pf_fri_store(c->fs->store, c->dir, &carry.next, c->why);
	if (r < 0)
		return refused(c, r);
	r = publish_whole(c, &work, &p, &m);
	/* Lance takes an error for a no. */
	if (r == -EINPROGRESS)
		r = pf_settle(b, c->name->version, 0, c->op.uuid, &m);
	if (r < 0 && r != -EINPROGRESS)
		pf_fri_unstore(c->fs->store, c->dir, &carry.next);
	return r == -ESTALE ? lost(c) : r == -EINPROGRESS ? -EIO : r;
}

static int commit_version(struct commit *c)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	struct pf_why why = PF_WHY_INIT;

	int r = fs_line_view(c->line, &v, &why);
	if (r == -ENOENT && c->dir[0])
		return publish_first(c);
	if (r < 0)
		return pf_why_set(c->why, r, "%s", why.text);
	const struct pf_manifest *head = v->manifest;
	if (exists(c) != 0)
		return lost(c);
	if (head->v2 != c->name->v2)
		return refuse(c, "the table's versions have names of the other kind");
	if (c->name->version <= head->version)
		return lost(c);
	if (c->name->version != head->version + 1)
		return refuse(c, "it is not the next one");
	/* Nothing to keep: it is the client's own commit. */
	if (!(head->writer_flags & PF_FLAG_PINS))
		return 1;
	r = read_staged(c);
	return r < 0 ? r : publish(c, head);
}

int gate_publish(struct fs *fs, const struct gate_at *staged, const char *path, const struct gate_name *name,
		 struct pf_why *why)
{
	_cleanup_(commit_release) struct commit c = {
		.fs = fs,
		.staged = staged,
		.path = path,
		.name = name,
		.dir = strndup(path, name->dir_len),
		.why = why,
	};

	if (!c.dir)
		return -ENOMEM;
	/* The line of that name is the one in the root. */
	if (strcmp(c.dir, "tree/main/") == 0)
		return refuse(&c, "no branch is called main");
	int r = gate_line(fs, path, name->dir_len, &c.line);
	if (r < 0)
		return r;
	pthread_mutex_lock(&c.line->publishing);
	r = commit_version(&c);
	pthread_mutex_unlock(&c.line->publishing);
	if (r == 0)
		fs_line_count_published(c.line);
	return r;
}
