#include "replay.h"

#include <inttypes.h>
#include <string.h>

#include "bring.h"
#include "copy.h"
#include "flags.h"
#include "fri_branch.h"
#include "lance.pb-c.h"
#include "renumber.h"

/* What a version would number next. */
struct next {
	uint64_t fragment, row;
};

struct pf_replay {
	struct pf_branch *table, *copy;
	uint64_t made; /* the version that the copy was made of */
	struct pf_replay_version *v;
	size_t n, cap, next; /* v[next] is the first that is not in */
	struct pf_renumber map;
	struct next last;    /* of the copy, before v[next] */
	uint64_t landed;     /* the table's version that has what the copy had then */
	struct pf_seen seen; /* of the table; its versions are ours */
	size_t cap_seen;
	bool skip_indices;
	bool all; /* are in: there is nothing to look for any more */
};

void pf_replay_free(struct pf_replay *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->seen.n; i++)
		pf_operation_release(&r->seen.v[i].operation);
	free(r->seen.v);
	free(r->v);
	pf_renumber_release(&r->map);
	free(r);
}

void pf_replay_freep(struct pf_replay **r)
{
	pf_replay_free(*r);
}

const struct pf_replay_version *pf_replay_versions(const struct pf_replay *r, size_t *n, uint64_t *made)
{
	*n = r->n;
	*made = r->made;
	return r->v;
}

/* --- the copy --- */

/* The uuid of the transaction of a version: 1; 0 if there is no such version, or it does not say. */
static int read_uuid(struct pf_branch *b, uint64_t version, char uuid[PF_UUID_TEXT], struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int r = pf_branch_version(b, version, &m, why);
	if (r == 0)
		r = pf_txn_read(pf_branch_store(b), pf_branch_dir(b), m, &txn, why);
	if (r == -ENOENT || r == -ENODATA)
		return 0;
	if (r == 0)
		memcpy(uuid, txn.uuid, sizeof(txn.uuid));
	return r < 0 ? r : uuid[0] != '\0';
}

/* The version that the copy was made of, and that it is one of the table. */
static int find_made(struct pf_replay *r, struct pf_why *why)
{
	struct pf_copy_origin origin;
	char uuid[PF_UUID_TEXT];
	const char *where = pf_branch_store(r->copy)->where;

	int e = pf_copy_origin(pf_branch_store(r->copy), pf_branch_dir(r->copy), &origin, why);
	if (e < 0)
		return e;
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	e = pf_branch_head(r->table, &head, why);
	if (e < 0)
		return e;
	if (origin.version > head->version)
		return pf_why_set(why, -EINVAL,
				  "%s was made of version %" PRIu64 ", and the table's head is %" PRIu64
				  ": it is a copy of another table, or of a later state of this one",
				  where, origin.version, head->version);
	e = read_uuid(r->table, origin.version, uuid, why);
	if (e == 0)
		return pf_why_set(why, -EINVAL,
				  "version %" PRIu64 ", of which %s was made, is gone from the table: make a new copy",
				  origin.version, where);
	if (e > 0 && strcmp(uuid, origin.uuid) != 0)
		return pf_why_set(why, -EINVAL,
				  "%s was made of a version %" PRIu64
				  " with transaction %s, and the table's is %s: it is a "
				  "copy of another table, or of another state of this one",
				  where, origin.version, origin.uuid, uuid);
	r->made = origin.version;
	return e < 0 ? e : 0;
}

static bool is_trim(const struct pf_operation *o)
{
	size_t n = 0, all = o->new_indices.n + o->removed_indices.n;

	for (size_t i = 0; i < o->new_indices.n; i++)
		n += strcmp(o->new_indices.v[i].name, PF_FRI_NAME) == 0;
	for (size_t i = 0; i < o->removed_indices.n; i++)
		n += strcmp(o->removed_indices.v[i].name, PF_FRI_NAME) == 0;
	return all > 0 && n == all;
}

/* A base that leads into the copy: what is there goes with it. */
static int check_bases(struct pf_replay *r, const struct pf_operation *o, struct pf_why *why)
{
	for (size_t i = 0; i < o->n_bases; i++) {
		_cleanup_(pf_freep) char *path = strndup((const char *)o->bases[i].path.p, o->bases[i].path.n),
					 *name = NULL;
		if (!path)
			return -ENOMEM;
		if (pf_store_resolve(pf_branch_store(r->copy), path, &name) == 1)
			return pf_why_set(why, -EINVAL, "it adds the base path %s, which leads into the copy", path);
	}
	return 0;
}

/* Whether it can be replayed at all is known before anything is done. */
static int judge(struct pf_replay *r, const struct pf_manifest *m, const struct pf_operation *o,
		 struct pf_replay_version *v, struct pf_why *why)
{
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int e = pf_txn_read(pf_branch_store(r->copy), pf_branch_dir(r->copy), m, &txn, why);
	if (e < 0)
		return e;
	if (txn.kind != PF_OP_NONE || is_trim(o)) {
		v->state = PF_REPLAY_SKIPPED;
		return 0;
	}
	if (!o->uuid[0])
		return pf_why_set(why, -EINVAL,
				  "its transaction has no uuid, by which it could be found again in the table");
	if (o->number == LANCE__TRANSACTION__OPERATION__RESTORE)
		return pf_why_set(why, -EINVAL,
				  "it restores version %" PRIu64 ": the table has its own past, so make a new copy, or "
				  "restore the table (pinctl restore)",
				  o->version);
	if (!pf_apply_can(o))
		return pf_why_set(why, -EINVAL, "%s is not an operation that pinfs commits", pf_operation_name(o));
	return check_bases(r, o, why);
}

static int add_version(struct pf_replay *r, uint64_t version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	if (r->n == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 16;
		struct pf_replay_version *v = reallocarray(r->v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->v = v;
		r->cap = cap;
	}
	struct pf_replay_version *v = &r->v[r->n];
	*v = (struct pf_replay_version){ .version = version };
	int e = pf_branch_version(r->copy, version, &m, why);
	if (e == -ENOENT)
		return pf_why_set(why, -EINVAL,
				  "version %" PRIu64
				  " of the copy is gone, and what it did with it: its history was cleaned up",
				  version);
	if (e == 0)
		e = pf_operation_read(pf_branch_store(r->copy), pf_branch_dir(r->copy), m, &o, why);
	if (e == 0)
		e = judge(r, m, &o, v, why);
	/* Its transaction, or, since a moment ago, the version itself. */
	if (e == -ENOENT || e == -ENODATA || e == -ESTALE)
		e = pf_why_default(why, -EINVAL, "it is gone, and what it did with it");
	if (e < 0)
		return pf_why_prefix(why, e, "version %" PRIu64 " of the copy", version);
	memcpy(v->uuid, o.uuid, sizeof(v->uuid));
	v->operation = o.number;
	r->n++;
	return 0;
}

static int read_copy(struct pf_replay *r, struct pf_why *why)
{
	_cleanup_(pf_freep) struct pf_version_entry *v = NULL;
	size_t n;

	int e = pf_branch_versions(r->copy, &v, &n, why);
	if (e == 0 && v[n - 1].version < r->made)
		return pf_why_set(why, -EINVAL,
				  "the copy was made of version %" PRIu64 ", and its head is %" PRIu64
				  ": versions of it are gone",
				  r->made, v[n - 1].version);
	for (uint64_t version = r->made + 1; e == 0 && version <= v[n - 1].version; version++)
		e = add_version(r, version, why);
	return e;
}

/* --- numbers --- */

static int read_next(struct pf_branch *b, const struct pf_manifest *m, struct next *out, struct pf_why *why)
{
	_cleanup_(pf_file_closep) struct pf_file *f = NULL;
	_cleanup_(pf_roster_release) struct pf_roster roster = { 0 };
	bool has_max, has;
	uint64_t max;

	int e = pf_manifest_reopen(pf_branch_store(b), m, &f, why);
	if (e == 0)
		e = pf_manifest_get_u64(&f->r, m, LANCE__MANIFEST__FIELD__MAX_FRAGMENT_ID, &has_max, &max, why);
	if (e == 0)
		e = pf_manifest_get_u64(&f->r, m, LANCE__MANIFEST__FIELD__NEXT_ROW_ID, &has, &out->row, why);
	if (e == 0 && !has_max)
		e = pf_roster_read(&f->r, m, &roster, why);
	if (e < 0)
		return e;
	out->fragment = has_max ? max + 1 : roster.n ? roster.v[roster.n - 1].id + 1 : 0;
	return 0;
}

static int read_next_of(struct pf_branch *b, uint64_t version, struct next *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	int e = pf_branch_version(b, version, &m, why);

	return e < 0 ? e : read_next(b, m, out, why);
}

/* Indices that it remapped, and that the table did not take over. */
static int remember(struct pf_replay *r, const struct pf_replay_version *v, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	if (v->operation != LANCE__TRANSACTION__OPERATION__REWRITE)
		return 0;
	int e = pf_branch_version(r->copy, v->version, &m, why);
	if (e == 0)
		e = pf_operation_read(pf_branch_store(r->copy), pf_branch_dir(r->copy), m, &o, why);
	return e < 0 ? e : pf_renumber_remember(&r->map, &o);
}

/* The version `v` of the copy came to be version `as` of the table: what it numbered, both numbered. */
static int land(struct pf_replay *r, struct pf_replay_version *v, uint64_t as, struct pf_why *why)
{
	struct next theirs, before, after;

	int e = read_next_of(r->copy, v->version, &theirs, why);
	if (e == 0)
		e = read_next_of(r->table, as - 1, &before, why);
	if (e == 0)
		e = read_next_of(r->table, as, &after, why);
	if (e < 0)
		return e;
	if (theirs.fragment < r->last.fragment || theirs.row < r->last.row)
		return pf_why_set(why, -EBADMSG,
				  "the numbers that fragments or rows are given went down in version %" PRIu64
				  " of the copy",
				  v->version);
	if (theirs.fragment - r->last.fragment != after.fragment - before.fragment ||
	    theirs.row - r->last.row != after.row - before.row)
		return pf_why_set(why, -EBADMSG,
				  "version %" PRIu64 " of the table is version %" PRIu64
				  " of the copy, but they gave other numbers of ids to fragments or rows",
				  as, v->version);
	e = remember(r, v, why);
	if (e == 0)
		e = pf_shifts_add(&r->map.fragments, r->last.fragment, before.fragment,
				  theirs.fragment - r->last.fragment);
	if (e == 0)
		e = pf_shifts_add(&r->map.rows, r->last.row, before.row, theirs.row - r->last.row);
	if (e == 0)
		e = pf_shifts_add(&r->map.versions, v->version, as, 1);
	if (e < 0)
		return e;
	r->last = theirs;
	r->landed = v->as = as;
	v->state = PF_REPLAY_LANDED;
	r->next++;
	return 0;
}

/* One that is not for the table: what it had is as before. */
static int pass(struct pf_replay *r, struct pf_why *why)
{
	struct pf_replay_version *v = &r->v[r->next];

	int e = pf_shifts_add(&r->map.versions, v->version, r->landed, 1);
	if (e == 0)
		e = read_next_of(r->copy, v->version, &r->last, why);
	if (e < 0)
		return e;
	v->as = r->landed;
	r->next++;
	return 0;
}

/* --- the table --- */

static int add_seen(struct pf_replay *r, uint64_t version, struct pf_operation *o)
{
	struct pf_seen_version *v = r->seen.v;

	if (r->seen.n == r->cap_seen) {
		size_t cap = r->cap_seen ? 2 * r->cap_seen : 16;
		v = reallocarray(v, cap, sizeof(*v));
		if (!v)
			return -ENOMEM;
		r->seen.v = v;
		r->cap_seen = cap;
	}
	if (o->number == LANCE__TRANSACTION__OPERATION__REWRITE && pf_numbers_add(&r->map.moves, version) < 0)
		return -ENOMEM;
	v[r->seen.n++] = (struct pf_seen_version){ version, *o };
	*o = (struct pf_operation){ 0 };
	return 0;
}

/* Also an index that an earlier run left out. */
static bool may_be_left_out(struct pf_replay_version *v)
{
	if (v->operation == LANCE__TRANSACTION__OPERATION__CREATE_INDEX)
		v->state = PF_REPLAY_SKIPPED;
	return v->state == PF_REPLAY_SKIPPED;
}

/* Take in version `version` of the table: one of the copy's that came back, or somebody else's. */
static int look_at(struct pf_replay *r, uint64_t version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };

	int e = pf_branch_version(r->table, version, &m, why);
	if (e == 0)
		e = pf_operation_read(pf_branch_store(r->table), pf_branch_dir(r->table), m, &o, why);
	if (e == -ENOENT || e == -ENODATA)
		return pf_why_set(why, -EAGAIN,
				  "version %" PRIu64
				  " of the table, or its transaction, is gone, which was committed after "
				  "version %" PRIu64
				  ", of which the copy was made: what conflicts with it, and what came back already, "
				  "cannot be told; make a new copy",
				  version, r->made);
	if (e < 0)
		return e;
	for (size_t i = r->next; o.uuid[0] && i < r->n; i++) {
		if (r->v[i].state != PF_REPLAY_PENDING || strcmp(r->v[i].uuid, o.uuid) != 0)
			continue;
		while (e == 0 && r->next < i && may_be_left_out(&r->v[r->next]))
			e = pass(r, why);
		if (e == 0 && r->next < i)
			return pf_why_set(why, -EINVAL,
					  "version %" PRIu64 " of the copy was committed as version %" PRIu64
					  ", and version %" PRIu64 " was not: make a new copy",
					  r->v[i].version, version, r->v[r->next].version);
		return e < 0 ? e : land(r, &r->v[i], version, why);
	}
	return add_seen(r, version, &o);
}

/* Take in what the table has now. */
static int catch_up(struct pf_replay *r, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	int e = pf_branch_head(r->table, &head, why);

	while (e == 0 && r->seen.upto < head->version) {
		e = look_at(r, r->seen.upto + 1, why);
		if (e == 0)
			r->seen.upto++;
	}
	return e;
}

/* Fragments that were given no id yet are not the copy's, and rows have ids of their own or none. */
static int start_numbers(struct pf_replay *r, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	int e = pf_branch_version(r->table, r->made, &m, why);

	if (e == 0)
		e = read_next(r->table, m, &r->last, why);
	if (e < 0)
		return e;
	r->map.stable = m->reader_flags & PF_FLAG_STABLE_ROW_IDS;
	r->map.fragments.first = r->last.fragment;
	r->map.rows.first = r->last.row;
	r->map.versions.first = r->made + 1;
	r->landed = r->seen.upto = r->made;
	return 0;
}

int pf_replay_open(struct pf_branch *table, struct pf_branch *copy, bool skip_indices, struct pf_replay **out,
		   struct pf_why *why)
{
	_cleanup_(pf_replay_freep) struct pf_replay *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->table = table;
	r->copy = copy;
	r->skip_indices = skip_indices;
	int e = find_made(r, why);
	if (e == 0)
		e = read_copy(r, why);
	if (e == 0)
		e = start_numbers(r, why);
	if (e == 0)
		e = catch_up(r, why);
	if (e < 0)
		return e;
	*out = STEAL(r);
	return 0;
}

/* --- one version --- */

/* It in the numbers of both, and what it moved. */
struct step {
	struct pf_manifest *m;
	struct pf_operation theirs, ours;
	struct pf_moved moved;
	struct pf_bring files;
	bool remapped_all, drops;
};

static void step_release(struct step *s)
{
	pf_manifest_unref(s->m);
	pf_operation_release(&s->theirs);
	pf_operation_release(&s->ours);
	pf_moved_release(&s->moved);
	pf_bring_release(&s->files);
}

/* What the copy recorded of the rows that group `at` moved; nothing, if it has no such record. */
static int take_record(struct pf_replay *r, const struct pf_fri *f, struct step *s, size_t at, struct pf_why *why)
{
	const struct pf_fri_group *g = pf_moves_record(f, &s->theirs.groups[at]);

	if (!g)
		return 0;
	if (g->mapping != PF_MAPPING_V0 && g->mapping != PF_MAPPING_ORDERED)
		return pf_why_set(why, -EOPNOTSUPP, "it moved rows by a partition, whose records pinfs does not write");
	const struct pf_span rows = { f->content.data + g->rows.off, (size_t)g->rows.len };
	return pf_renumber_rows(&r->map, rows, &s->moved.v[at], why);
}

static int read_moves(struct pf_replay *r, struct step *s, struct pf_why *why)
{
	_cleanup_(pf_fri_release) struct pf_fri f = { 0 };
	bool any = false;

	if (s->theirs.number != LANCE__TRANSACTION__OPERATION__REWRITE)
		return 0;
	int e = pf_fri_read_branch(r->copy, s->m, &f, why);
	/* Without a history, there was nothing that Lance could have missed when it remapped indices. */
	s->remapped_all = e == -ENODATA;
	if (e < 0)
		return e == -ENODATA ? 0 : e;
	s->moved.v = calloc(s->theirs.n_groups + 1, sizeof(*s->moved.v));
	if (!s->moved.v)
		return -ENOMEM;
	s->moved.n = s->theirs.n_groups;
	for (size_t g = 0; e == 0 && g < s->theirs.n_groups; g++) {
		e = take_record(r, &f, s, g, why);
		any |= s->moved.v[g].len > 0;
	}
	if (!any)
		pf_moved_release(&s->moved);
	return e;
}

/*
 * Of rows that it changes in place, a writer says the version that it expects to be; which rows those are it says too, and then they get what it becomes
 * (apply_update.c).
 */
static int renumber(struct pf_replay *r, const struct pf_replay_version *v, const struct pf_operation *o,
		    struct pf_buf *out, struct pf_why *why)
{
	int e = pf_shifts_add(&r->map.versions, v->version, r->landed + 1, 1);

	if (e < 0)
		return e;
	e = pf_renumber_operation(&r->map, o, r->made, out, why);
	pf_shifts_take_back(&r->map.versions);
	return e;
}

static int prepare(struct pf_replay *r, const struct pf_replay_version *v, struct step *s, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;

	int e = pf_branch_version(r->copy, v->version, &s->m, why);
	if (e == 0)
		e = pf_operation_read(pf_branch_store(r->copy), pf_branch_dir(r->copy), s->m, &s->theirs, why);
	if (e == 0 && strcmp(s->theirs.uuid, v->uuid) != 0)
		e = pf_why_set(why, -EINVAL, "it is another version than it was a moment ago");
	s->drops = pf_renumber_drops(&r->map, &s->theirs);
	if (e == 0)
		e = renumber(r, v, &s->theirs, &bytes, why);
	if (e == 0)
		e = pf_operation_decode(&bytes, &s->ours, why);
	return e < 0 ? e : read_moves(r, s, why);
}

static int commit(struct pf_replay *r, struct step *s, bool dry_run, struct pf_work_result *result, struct pf_why *why)
{
	const struct pf_work w = {
		.operation = &s->ours,
		.moved = &s->moved,
		/* Indices whose remapped files do not fit follow by the history of moved rows; with stable row ids there is none, and they cover less. */
		.records = s->moved.n > 0 || (s->drops && !r->map.stable),
		.remapped_all = s->remapped_all,
		.seen = &r->seen,
		.dry_run = dry_run,
	};

	int e = pf_bring_copied(r->table, r->copy, &s->theirs, &s->ours, &s->files, why);
	if (e < 0)
		return e;
	e = pf_work_commit(r->table, &w, result, why);
	if (dry_run || (e < 0 && e != -EINPROGRESS))
		pf_bring_undo(r->table, &s->ours, &s->files);
	return e < 0 || dry_run ? e : pf_bring_keep(r->table, &s->files, why);
}

/* An index that cannot follow is left out, if that was asked for. 1: it is. */
static int check_indices(struct pf_replay *r, const struct step *s, struct pf_why *why)
{
	int e = pf_renumber_check_indices(&r->map, &s->theirs, why);

	return e == -EOPNOTSUPP && r->skip_indices ? 1 : e;
}

int pf_replay_next(struct pf_replay *r, bool dry_run, struct pf_replay_version *out, struct pf_why *why)
{
	_cleanup_(step_release) struct step s = { 0 };
	struct pf_work_result result = { 0 };

	int e = r->all ? 0 : catch_up(r, why);
	if (e < 0 || r->all || r->next == r->n)
		return e;
	struct pf_replay_version *v = &r->v[r->next];
	*out = *v;
	if (v->state == PF_REPLAY_PENDING) {
		e = prepare(r, v, &s, why);
		if (e == 0)
			e = check_indices(r, &s, why);
		if (e > 0)
			v->state = PF_REPLAY_SKIPPED;
	}
	if (e >= 0 && v->state == PF_REPLAY_SKIPPED) {
		e = pass(r, why);
		*out = *v;
		return e < 0 ? e : 1;
	}
	if (e == 0)
		e = commit(r, &s, dry_run, &result, why);
	if (e < 0)
		return e;
	/* It is taken in like what others commit, the next time. */
	out->as = result.version;
	out->state = dry_run ? PF_REPLAY_PENDING : PF_REPLAY_LANDED;
	r->all = !dry_run && r->next + 1 == r->n;
	return 1;
}
