#include "publish_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "flags.h"
#include "hint.h"

/* Bit 63 marks detached versions, so the line of attached ones ends below it. */
#define VERSION_MAX (UINT64_MAX >> 1)

#define NS_PER_S 1000000000

static void attempt_release(struct pf_attempt *a)
{
	char *names[] = { a->txn_dir, a->txn_staged, a->txn_file,    a->versions, a->staged,
			  a->file,    a->file_v2,    a->hint_staged, a->hint };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		free(names[i]);
	pf_buf_release(&a->txn);
	pf_extension_release(&a->extension);
	pf_stage_discard(a->extended);
}

int pf_publish_failed(struct pf_why *why, int err, const char *what, const char *name)
{
	return pf_why_set(why, err == -ENOENT ? -EAGAIN : err, "cannot %s %s: %s", what, name, strerror(-err));
}

/* The outcome is open: `inner` says what is in the way of knowing it. */
static int unknown(struct pf_why *why, uint64_t version, const char *uuid, const char *inner)
{
	return pf_why_set(why, -EINPROGRESS,
			  "version %" PRIu64 " with transaction %s may or may not have been committed: %s", version,
			  uuid, inner);
}

static _printf_(2, 3) int name(char **out, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vasprintf(out, fmt, ap);
	va_end(ap);
	if (n < 0)
		*out = NULL;
	return n < 0 ? -ENOMEM : 0;
}

static int prepare(struct pf_attempt *a)
{
	const char *dir = pf_branch_dir(a->b);
	uint64_t read_version = a->work ? a->work->read_version : a->p->txn->read_version;
	char base[PF_MANIFEST_NAME_MAX], random[PF_UUID_TEXT];
	struct pf_uuid u;
	int r;

	/* Of these names Lance's cleanup collects what a crash leaves behind. */
	pf_uuid_new(&u);
	pf_uuid_format(&u, random);
	pf_manifest_name_format(a->version, a->p->base->v2, base);
	if ((r = name(&a->txn_dir, "%s_transactions", dir)) < 0 ||
	    (r = name(&a->txn_staged, "%s_transactions/.tmp%s.txn", dir, random)) < 0 ||
	    (r = pf_txn_file_name(dir, read_version, a->uuid, &a->txn_file)) < 0 ||
	    (r = name(&a->versions, "%s_versions", dir)) < 0 ||
	    (r = name(&a->staged, "%s/.tmp%s", a->versions, random)) < 0 ||
	    (r = name(&a->file, "%s/%s", a->versions, base)) < 0 ||
	    (r = name(&a->hint_staged, "%s/.tmp%s-hint", a->versions, random)) < 0 ||
	    (r = name(&a->hint, "%s/" PF_HINT_NAME, a->versions)) < 0)
		return r;
	if (!a->p->base->v2) {
		pf_manifest_name_format(a->version, true, base);
		r = name(&a->file_v2, "%s/%s", a->versions, base);
	}
	if (r < 0)
		return r;
	return a->work ? pf_buf_add(&a->txn, a->work->transaction, a->work->transaction_len)
		       : pf_txn_encode(a->p->txn, &a->txn);
}

/* Durable under its name before any manifest names it. */
static int write_transaction(struct pf_attempt *a, struct pf_why *why)
{
	if (a->work && a->work->keep_file)
		return 0;
	int r = pf_store_write_new(a->st, a->txn_staged, a->txn.data, a->txn.len, true);

	/* Tables written without transaction files have no directory for them. */
	if (r == -ENOENT && (r = pf_store_mkdir(a->st, a->txn_dir)) == 0)
		r = pf_store_write_new(a->st, a->txn_staged, a->txn.data, a->txn.len, true);
	if (r == 0)
		r = pf_store_rename(a->st, a->txn_staged, a->txn_file);
	if (r == 0)
		r = pf_store_sync_dir(a->st, a->txn_dir);
	return r < 0 ? pf_publish_failed(why, r, "write", a->txn_file) : 0;
}

/* What stands at a version, and the head above it. */
struct sight {
	struct pf_manifest *head, *m;
};

static void sight_release(struct sight *s)
{
	pf_manifest_unref(s->head);
	pf_manifest_unref(s->m);
}

/*
 * Does the transaction `uuid` stand at `version`? 1 yes, 0 another one does, -ENOENT nothing does, or the error that kept it from being
 * read. What was read by then is in *s.
 */
static int find(struct pf_branch *b, uint64_t version, const char *uuid, struct sight *s, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int r = pf_branch_head(b, &s->head, why);
	if (r < 0)
		return r;
	if (s->head->version == version)
		s->m = pf_manifest_ref(s->head);
	else if ((r = pf_branch_version(b, version, &s->m, why)) < 0)
		return r;
	r = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), s->m, &txn, why);
	/* -ENOENT is kept for "nothing there": a manifest whose transaction file is gone is there, and is nobody's of ours. */
	if (r == -ENOENT || r == -ENODATA)
		return 0;
	return r < 0 ? r : strcmp(txn.uuid, uuid) == 0;
}

/* What clocks may differ by without having been set: ticks, and what passes between a look and the time that is looked at. */
#define CLOCK_SLACK_NS 100000000

/*
 * Is our version, s->m, part of the line that leads to the head? A writer that was held up can find its number free again, because others
 * took it, went on and cleaned it up; its file then lies in a gap where nobody reads it (cases-open A09). Whoever continues the line reads
 * our version first, so the next version's bytes are not older than the name of ours, which it got at `named_ns` at the latest; and
 * what is older than that name stood above it before. All times are of one file system. 1 yes, 0 no, -EINPROGRESS if the times do not tell, or
 * storage's error.
 */
static int on_line(struct pf_branch *b, const struct sight *s, int64_t named_ns, struct pf_why *why)
{
	_cleanup_(pf_freep) char *next = NULL;
	char base[PF_MANIFEST_NAME_MAX];
	struct pf_stat st;

	if (s->head->version == s->m->version)
		return 1;
	pf_manifest_name_format(s->m->version + 1, s->m->v2, base);
	int r = name(&next, "%s_versions/%s", pf_branch_dir(b), base);
	if (r == 0)
		r = pf_store_stat(pf_branch_store(b), next, &st);
	if (r == 0 && st.mtime_ns >= named_ns)
		return 1;
	if (r < 0 && r != -ENOENT)
		return r;
	if ((r == 0 ? st.mtime_ns : s->head->st.mtime_ns) < named_ns - CLOCK_SLACK_NS)
		return 0;
	return pf_why_set(why, -EINPROGRESS,
			  "the times of the files do not tell whether the head, %" PRIu64 ", was made from it",
			  s->head->version);
}

static int lost(const struct pf_attempt *a, struct pf_why *why)
{
	return pf_why_set(why, -ESTALE, "another writer committed version %" PRIu64 " first", a->version);
}

static int put_in_place(struct pf_attempt *a, struct pf_why *why)
{
	_cleanup_(sight_release) struct sight s = { NULL }, again = { NULL };
	const char *uuid = a->uuid;
	struct pf_why inner = PF_WHY_INIT;

	pf_branch_step_begin(a->b, &a->linking);
	int link = pf_store_link(a->st, a->staged, a->file);
	a->known = pf_branch_step_end(a->b, &a->linking, link == 0 ? a->version : 0) && link == 0;
	if (link == 0)
		return 0;
	int r = find(a->b, a->version, uuid, &s, &inner);
	if (r > 0)
		return 0; /* it took effect, whatever was reported */
	if (r == 0)
		return lost(a, why);
	/* EEXIST for a file that cannot be ours: ours is complete. Whatever is wrong with it, the next look at the head says so. */
	if (link == -EEXIST && (r == -ENOENT || r == -EBADMSG || r == -EOPNOTSUPP))
		return lost(a, why);
	/*
	 * A call that failed and left nothing may still be on its way on a network file system. Without the name it links from, whoever
	 * removed that, it can arrive no more, so what is not there after that never will be.
	 */
	if (link != -EEXIST && r == -ENOENT) {
		r = pf_store_unlink(a->st, a->staged);
		a->renamed = true;
		if (r == 0 || r == -ENOENT)
			r = find(a->b, a->version, uuid, &again, &inner);
		if (r > 0)
			return 0;
		if (r == 0)
			return lost(a, why);
		if (r == -ENOENT)
			return pf_publish_failed(why, link, "publish", a->file);
	}
	return unknown(why, a->version, uuid, inner.text[0] ? inner.text : strerror(-r));
}

static int is_v2(void *arg, const char *entry, bool is_dir)
{
	uint64_t version;
	bool v2;

	return pf_manifest_name_parse(entry, &version, &v2) && v2;
}

#define WATCH_STEP_MS 10
#define WATCH_MAX_MS  10000

/*
 * Does a migration come in between? 0 no: no V2 name comes into the directory while we watch. 1 yes, and it is over: it took our name along,
 * or nothing has changed for as long.
 */
static int watch_migration(struct pf_attempt *a)
{
	struct pf_stat dir = { 0 }, now;
	int seen = 0;

	for (unsigned ms = 0, still = 0;; ms += WATCH_STEP_MS, still += WATCH_STEP_MS) {
		int r = pf_store_stat(a->st, a->versions, &now);
		if (r == 0 && !pf_stat_same(&now, &dir)) {
			still = 0;
			dir = now;
			r = seen = seen ? seen : pf_store_list(a->st, a->versions, is_v2, NULL);
		}
		if (r < 0)
			return r;
		if (seen && pf_store_stat(a->st, a->file, &now) == -ENOENT)
			return 1;
		if ((seen ? still : ms) >= a->p->watch_ms || ms >= WATCH_MAX_MS)
			return seen;
		nanosleep(&(struct timespec){ .tv_nsec = WATCH_STEP_MS * 1000000L }, NULL);
	}
}

/* `r`: 1 if there was a migration, 0 if not, or why that is not known. */
static int follow(struct pf_attempt *a, int r, struct pf_why *why)
{
	if (r > 0) {
		a->renamed = true;
		r = pf_store_link(a->st, a->staged, a->file_v2);
		/* EEXIST: the migration took our V1 name along, or somebody after it has our number. Reading it back will tell. */
		if (r == 0 || r == -EEXIST)
			r = pf_store_unlink(a->st, a->file);
	}
	return r < 0 && r != -ENOENT ? unknown(why, a->version, a->uuid, strerror(-r)) : 0;
}

static int make_durable(struct pf_attempt *a, struct pf_why *why)
{
	int r = pf_store_sync_dir(a->st, a->versions);

	if (r < 0)
		r = pf_store_sync_dir(a->st, a->versions);
	return r < 0 ? unknown(why, a->version, a->uuid, strerror(-r)) : 0;
}

/* A look that comes later after the link was held up: a migration may have listed our name by then, and have begun to rename others. */
#define AT_ONCE_NS 20000000

/*
 * Make the name durable. A V1 name may meet Lance's migration to V2 names, which renames what it has listed; a table with both does not open.
 * If V2 names are there at once, it had listed the directory before: our name follows. Later, or if we were held up, it may have listed ours, and it would fail
 * if it did not find it: it is left to its end. What it does in the time from its listing to its first rename cannot be seen, and is waited for.
 */
static int settle_name(struct pf_attempt *a, struct pf_why *why)
{
	int r = 0;

	if (a->file_v2) {
		r = pf_store_list(a->st, a->versions, is_v2, NULL);
		if (r > 0 && pf_time_steady_ns() - a->linking.began > AT_ONCE_NS)
			r = 0;
		r = follow(a, r, why);
	}
	if (r == 0)
		r = make_durable(a, why);
	if (r < 0 || !a->file_v2 || a->renamed)
		return r;
	r = follow(a, watch_migration(a), why);
	return r == 0 && a->renamed ? make_durable(a, why) : r;
}

/*
 * The same for the attempt at hand. The times are good only if the file system's clock, which may be another host's, went on as ours did: set
 * back, it makes those who followed us look older than we are.
 */
static int still_on_line(struct pf_attempt *a, const struct sight *s, struct pf_why *why)
{
	struct pf_branch_step now;

	if (a->known || s->head->version == s->m->version)
		return 1;
	pf_branch_step_begin(a->b, &now);
	pf_store_unlink(a->st, a->staged);
	pf_branch_step_end(a->b, &now, 0);
	int64_t passed = now.began - a->staging.ended, theirs = now.dir.mtime_ns - a->staging.dir.mtime_ns;
	if (!a->staging.dir.ino || !a->linking.dir.ino || theirs < passed - CLOCK_SLACK_NS)
		return pf_why_set(why, -EINPROGRESS,
				  "others went on to version %" PRIu64 " while the file system's clock was set back",
				  s->head->version);
	/*
	 * Neither time is before the link. It is that of the link if both the file and the directory, as we saw it after, changed then for the last time. Not if the
	 * file got or lost a name since: by us, by the writer of one that was not copied, by a migration, or by a copy of the table that is made of links; nor if we
	 * were held up before we saw the directory, and others changed it.
	 */
	int64_t changed = s->m->st.ctime_ns, seen = a->linking.dir.mtime_ns;
	bool no_time = a->renamed || a->extended || (a->file_v2 && s->m->v2) || changed > seen ||
		       seen - changed > AT_ONCE_NS;
	int r = on_line(a->b, s, changed < seen ? changed : seen, why);
	if (r == 0 && no_time) /* it is not the time of the link, only one after it */
		return pf_why_set(why, -EINPROGRESS, "others went on to version %" PRIu64 " while names were changed",
				  s->head->version);
	return r;
}

/* The version has its name. Make that last, and see with the eyes of a reader that it does. */
static int confirm(struct pf_attempt *a, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(sight_release) struct sight s = { NULL };
	struct pf_why inner = PF_WHY_INIT;

	int r = settle_name(a, why);
	if (r < 0)
		return r;
	r = find(a->b, a->version, a->uuid, &s, &inner);
	if (r == 0)
		return lost(a, why);
	if (r > 0)
		r = still_on_line(a, &s, &inner);
	if (r < 0)
		return unknown(why, a->version, a->uuid, inner.text[0] ? inner.text : strerror(-r));
	if (r == 0) {
		pf_store_unlink(a->st, s.m->name);
		return pf_why_set(why, -ESTALE,
				  "version %" PRIu64 " fell into a gap below the head, %" PRIu64
				  ": others had passed it",
				  a->version, s.head->version);
	}
	*out = STEAL(s.m);
	return 0;
}

/* Best effort: Lance scans the directory when the hint is wrong or missing, so its failure is no failure of the commit. */
static void write_hint(struct pf_attempt *a)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "{\"version\":%" PRIu64 "}", a->version);

	if (pf_store_write_new(a->st, a->hint_staged, text, (size_t)n, false) < 0 ||
	    pf_store_rename(a->st, a->hint_staged, a->hint) < 0)
		pf_store_unlink(a->st, a->hint_staged);
}

/* Has somebody else committed the same work meanwhile? Then the transaction's file is that version's. If it cannot be told the file stays: it harms nobody. */
static bool may_be_named(struct pf_attempt *a)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;

	if (pf_branch_head(a->b, &head, NULL) < 0)
		return true;
	for (uint64_t version = a->version; version <= head->version; version++) {
		_cleanup_(sight_release) struct sight s = { NULL };
		int r = find(a->b, version, a->uuid, &s, NULL);
		if (r != 0 && r != -ENOENT)
			return true;
	}
	return false;
}

int pf_publish(struct pf_branch *b, const struct pf_publish *p, struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(attempt_release) struct pf_attempt a = {
		.b = b,
		.st = pf_branch_store(b),
		.p = p,
		.work = p->work,
		.uuid = p->work ? p->work->uuid : p->txn->uuid,
	};
	struct pf_branch_step step;

	int r = pf_flags_writable(p->base->writer_flags, why);
	if (r < 0)
		return r;
	if (p->base->version >= VERSION_MAX)
		return pf_why_set(why, -EOPNOTSUPP, "version %" PRIu64 " is the last one there can be",
				  p->base->version);
	a.version = p->base->version + 1;
	r = prepare(&a);
	if (r < 0)
		return r;

	r = write_transaction(&a, why);
	if (r == 0)
		r = pf_publish_stage(&a, why);
	if (r == 0)
		r = put_in_place(&a, why);
	a.named = r == 0;
	if (r == 0)
		r = confirm(&a, out, why);
	/* While the outcome is open, whatever there is may be what the version consists of, and stays (cases-open A11). */
	if (r == -EINPROGRESS)
		return r;

	if (r < 0)
		pf_publish_unstage(&a);
	pf_branch_step_begin(a.b, &step);
	pf_store_unlink(a.st, a.staged);
	if (r == 0)
		write_hint(&a);
	pf_branch_step_end(a.b, &step, 0);
	if (r < 0) {
		pf_store_unlink(a.st, a.txn_staged);
		if (!a.work || (!a.work->keep_file && !may_be_named(&a)))
			pf_store_unlink(a.st, a.txn_file);
	}
	return r;
}

int pf_publish_settle(struct pf_branch *b, uint64_t version, uint64_t read_version, const char *uuid,
		      struct pf_manifest **out, struct pf_why *why)
{
	_cleanup_(sight_release) struct sight s = { NULL };
	_cleanup_(pf_freep) char *versions = NULL, *txn_file = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = name(&versions, "%s_versions", pf_branch_dir(b));
	if (r == 0)
		r = pf_txn_file_name(pf_branch_dir(b), read_version, uuid, &txn_file);
	if (r < 0)
		return unknown(why, version, uuid, strerror(-r));

	r = find(b, version, uuid, &s, &inner);
	if (r == 0 || (r == -ENOENT && s.head && s.head->version < version)) {
		if (read_version)
			pf_store_unlink(pf_branch_store(b), txn_file);
		return 0;
	}
	/* If it has lost another name since, it looks younger than it is: then it cannot be told. */
	if (r > 0)
		r = on_line(b, &s, s.m->st.ctime_ns, &inner);
	if (r == 0) /* in a gap, if the clock was not set back meanwhile: nobody has watched it */
		r = -EINPROGRESS;
	if (r > 0)
		r = pf_store_sync_dir(pf_branch_store(b), versions);
	if (r < 0)
		return unknown(why, version, uuid, inner.text[0] ? inner.text : strerror(-r));
	*out = STEAL(s.m);
	return 1;
}

/*
 * A file that changed so much later than its version was made is a copy. One that was published in place and lost its writer's name late, since that died, looks
 * the same: above a commit that fell into a gap, it would be taken for the head's past.
 */
#define COPIED_S 10

int pf_publish_followed(struct pf_branch *b, const struct pf_manifest *head, uint64_t version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL, *after = NULL;

	if (version == head->version)
		return 1;
	int r = pf_branch_version(b, version, &m, why);
	if (r == 0)
		r = pf_branch_version(b, version + 1, &after, why);
	const struct pf_manifest *next = r == 0 ? after : head;
	if (r < 0 && (!m || r != -ENOENT))
		return r;
	if (next->st.mtime_ns >= m->st.ctime_ns || next->st.ctime_ns / NS_PER_S - next->timestamp.sec > COPIED_S)
		return 1;
	return pf_why_set(why, -EINPROGRESS,
			  "version %" PRIu64 " has it, but whether the head, %" PRIu64
			  ", was made from that version cannot be told: version %" PRIu64
			  " is older. See whether the head has what this commits; if not, prepare it anew",
			  version, head->version, next->version);
}
