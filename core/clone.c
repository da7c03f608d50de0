#include "clone.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base_path.h"
#include "flags.h"
#include "fri_branch.h"
#include "fri_write.h"
#include "lance.pb-c.h"
#include "next.h"
#include "pins.pb-c.h"
#include "txn.h"

void pf_cloned_release(struct pf_cloned *f)
{
	free(f->manifest);
	free(f->transaction);
	free(f->details);
	free(f->details_dir);
	*f = (struct pf_cloned){ 0 };
}

/* One being made. */
struct making {
	const struct pf_clone *c;
	struct pf_cloned
		files; /* the manifest among them once it is there and ours: somebody else may make one of the name */
	struct pf_next next;
	char *manifest; /* its name */
	char *path;	/* of the source, as a base path says it */
	uint32_t base;
	char uuid[PF_UUID_TEXT];
	struct pf_buf txn;
};

static void making_release(struct making *m)
{
	pf_cloned_release(&m->files);
	pf_next_release(&m->next);
	free(m->manifest);
	free(m->path);
	pf_buf_release(&m->txn);
}

/* Where in a message the files are that get a base: along `number`, in a message whose field `base_id` says it, or further inside. */
struct site {
	uint32_t number, base_id;
	const struct site *inside;
	size_t n_inside;
};

static const struct site fragment_sites[] = {
	{ LANCE__DATA_FRAGMENT__FIELD__FILES, LANCE__DATA_FILE__FIELD__BASE_ID, NULL, 0 },
	{ LANCE__DATA_FRAGMENT__FIELD__DELETION_FILE, LANCE__DELETION_FILE__FIELD__BASE_ID, NULL, 0 },
};
static const struct site partition_site = { LANCE__FRAGMENT_REUSE_INDEX_DETAILS__TRANSITION__FIELD__STABLE_PARTITION,
					    LANCE__FRAGMENT_REUSE_INDEX_DETAILS__STABLE_PARTITION__FIELD__BASE_ID, NULL,
					    0 };
static const struct site history_site = { LANCE__FRAGMENT_REUSE_INDEX_DETAILS__INLINE_CONTENT__FIELD__TRANSITIONS, 0,
					  &partition_site, 1 };

/* Append the message, its base id set unless it has one: whoever is on another base stays there. */
static int set_base(struct pf_span message, uint32_t number, uint32_t base, struct pf_buf *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf field = PF_BUF_INIT;
	struct pf_message m;
	struct pf_member f;
	int r;

	pf_message_init(&m, message);
	while ((r = pf_message_next(&m, &f, why)) > 0)
		if (f.number == number)
			return pf_buf_add(out, message.p, message.n);
	if (r == 0)
		r = pf_wire_put_u64(&field, number, base);
	const struct pf_change change = { number, PF_SPAN_OF(&field) };
	return r < 0 ? r : pf_message_change(message, &change, 1, out, why);
}

static const struct site *site_of(const struct site *v, size_t n, uint32_t number)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].number == number)
			return &v[i];
	return NULL;
}

/* Append the message with bases set at these sites; all else as it is. */
static int set_bases(struct pf_span message, const struct site *v, size_t n, uint32_t base, struct pf_buf *out,
		     struct pf_why *why)
{
	struct pf_message m;
	struct pf_member f;
	int r;

	pf_message_init(&m, message);
	while ((r = pf_message_next(&m, &f, why)) > 0) {
		_cleanup_(pf_buf_release) struct pf_buf inner = PF_BUF_INIT;
		const struct site *s = site_of(v, n, f.number);
		struct pf_span value;

		if (!s) {
			r = pf_buf_add(out, f.whole.p, f.whole.n);
		} else if ((r = pf_member_span(&f, &value, why)) == 0) {
			r = s->inside ? set_bases(value, s->inside, s->n_inside, base, &inner, why)
				      : set_base(value, s->base_id, base, &inner, why);
			if (r == 0)
				r = pf_put_span(out, f.number, PF_SPAN_OF(&inner));
		}
		if (r < 0)
			return r;
	}
	return r;
}

/* The lowest id that no base has, as Lance takes it. */
static int choose_base(struct making *m, struct pf_why *why)
{
	_cleanup_(pf_base_paths_release) struct pf_base_paths l = { 0 };

	int r = pf_base_paths_read(&m->next.file->r, m->c->source, &l, why);
	while (r == 0 && m->base < l.n && l.v[m->base].id == m->base)
		m->base++;
	return r;
}

static int add_base(struct making *m, struct pf_why *why)
{
	const uint32_t field = LANCE__MANIFEST__FIELD__BASE_PATHS;
	_cleanup_(pf_buf_release) struct pf_buf message = PF_BUF_INIT, all = PF_BUF_INIT;
	const char *name = pf_branch_name(m->c->from);
	int r = pf_next_get_field(&m->next, field, &all, why);

	if (r == 0 && m->base)
		r = pf_wire_put_u64(&message, LANCE__BASE_PATH__FIELD__ID, m->base);
	if (r == 0 && name)
		r = pf_wire_put_bytes(&message, LANCE__BASE_PATH__FIELD__NAME, name, strlen(name));
	if (r == 0)
		r = pf_wire_put_u64(&message, LANCE__BASE_PATH__FIELD__IS_DATASET_ROOT, 1);
	if (r == 0)
		r = pf_wire_put_bytes(&message, LANCE__BASE_PATH__FIELD__PATH, m->path, strlen(m->path));
	if (r == 0)
		r = pf_put_span(&all, field, PF_SPAN_OF(&message));
	return r < 0 ? r : pf_next_set_field(&m->next, field, &all);
}

static int move_fragments(struct making *m, struct pf_why *why)
{
	for (size_t i = 0; i < m->next.roster.n; i++) {
		_cleanup_(pf_buf_release) struct pf_buf old = PF_BUF_INIT, new = PF_BUF_INIT;
		struct pf_slot *s = &m->next.roster.v[i];

		int r = pf_next_load(&m->next, s, &old, why);
		if (r == 0)
			r = set_bases(PF_SPAN_OF(&old), fragment_sites, ARRAY_LEN(fragment_sites), m->base, &new, why);
		if (r == 0)
			r = pf_next_replace_fragment(&m->next, s, PF_SPAN_OF(&new), why);
		if (r < 0)
			return r;
		/* Commits drop a fragment without live rows; a clone is no other version than its source. */
		s->facts &= ~(unsigned)PF_SLOT_EMPTY;
	}
	return 0;
}

static int write_details(struct making *m, const char *uuid, const struct pf_buf *content, struct pf_why *why)
{
	struct pf_cloned *f = &m->files;

	if (asprintf(&f->details_dir, "%s_indices/%s", m->c->dir, uuid) < 0)
		return f->details_dir = NULL, -ENOMEM;
	if (asprintf(&f->details, "%s/" PF_FRI_FILE, f->details_dir) < 0)
		return f->details = NULL, -ENOMEM;
	int r = pf_fri_write_file(m->c->to, f->details_dir, f->details, PF_SPAN_OF(content));
	return r < 0 ? pf_why_set(why, r, "cannot write %s: %s", f->details, strerror(-r)) : 0;
}

static int put_uuid(const struct pf_uuid *u, struct pf_buf *out)
{
	struct pf_uuid copy = *u;
	Lance__UUID m = LANCE__UUID__INIT;
	uint8_t bytes[sizeof(copy.b) + 2];

	m.has_uuid = true;
	m.uuid = (ProtobufCBinaryData){ sizeof(copy.b), copy.b };
	return pf_wire_put_bytes(out, LANCE__INDEX_METADATA__FIELD__UUID, bytes, lance__uuid__pack(&m, bytes));
}

/*
 * A tagged history moves into the new line under an uuid of its own, and says of each row map where it is. One whose records nobody here can interpret
 * cannot be moved: it may name files that then would be looked for in the wrong place.
 */
static int move_history(struct making *m, size_t i, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf content = PF_BUF_INIT, uuid = PF_BUF_INIT, details = PF_BUF_INIT;
	_cleanup_(pf_fri_release) struct pf_fri fri = { 0 };
	char text[PF_UUID_TEXT];
	struct pf_uuid u;

	int r = pf_fri_read_branch(m->c->from, m->c->source, &fri, why);
	if (r < 0)
		return r;
	if (fri.unsupported)
		return pf_why_set(
			why, -EOPNOTSUPP,
			"the history of moved rows cannot be interpreted, and so not be moved to another line: %s",
			fri.unsupported_why);
	r = set_bases(PF_SPAN_OF(&fri.content), &history_site, 1, m->base, &content, why);
	pf_uuid_new(&u);
	pf_uuid_format(&u, text);
	if (r == 0 && content.len > PF_FRI_INLINE_MAX)
		r = write_details(m, text, &content, why);
	if (r == 0)
		r = pf_fri_put_details(m->next.entries[i].message, &content, &details, why);
	if (r == 0)
		r = put_uuid(&u, &uuid);
	const struct pf_change changes[] = {
		{ LANCE__INDEX_METADATA__FIELD__UUID, PF_SPAN_OF(&uuid) },
		{ LANCE__INDEX_METADATA__FIELD__INDEX_DETAILS, PF_SPAN_OF(&details) },
		{ LANCE__INDEX_METADATA__FIELD__BASE_ID, { NULL, 0 } },
	};
	return r < 0 ? r : pf_next_change_entry(&m->next, i, changes, ARRAY_LEN(changes), why);
}

static int move_indices(struct making *m, struct pf_why *why)
{
	for (size_t i = 0; i < m->next.n_entries; i++) {
		_cleanup_(pf_buf_release) struct pf_buf base = PF_BUF_INIT;
		const struct pf_index *x = &m->next.entries[i].x;
		int r = 0;

		if (strcmp(x->name, PF_FRI_NAME) == 0 && x->index_version != 0) {
			r = move_history(m, i, why);
		} else if (!x->has_base) {
			r = pf_wire_put_u64(&base, LANCE__INDEX_METADATA__FIELD__BASE_ID, m->base);
			const struct pf_change change = { LANCE__INDEX_METADATA__FIELD__BASE_ID, PF_SPAN_OF(&base) };
			if (r == 0)
				r = pf_next_change_entry(&m->next, i, &change, 1, why);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Replace a field by text; NULL: remove it. */
static int set_text(struct making *m, uint32_t number, const char *text)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	int r = text ? pf_wire_put_bytes(&b, number, text, strlen(text)) : 0;

	return r < 0 ? r : pf_next_set_field(&m->next, number, &b);
}

static int set_fields(struct making *m)
{
	_cleanup_(pf_buf_release) struct pf_buf time = PF_BUF_INIT;
	int r = pf_manifest_put_timestamp(m->c->now, &time);

	if (r == 0)
		r = pf_next_set_field(&m->next, LANCE__MANIFEST__FIELD__TIMESTAMP, &time);
	if (r == 0)
		r = set_text(m, LANCE__MANIFEST__FIELD__TAG, NULL);
	if (r == 0)
		r = set_text(m, LANCE__MANIFEST__FIELD__BRANCH, m->c->branch);
	if (r == 0)
		r = set_text(m, LANCE__MANIFEST__FIELD__TRANSACTION_FILE, strrchr(m->files.transaction, '/') + 1);
	return r < 0 ? r : set_text(m, PINS__NUMBER__FIELD, NULL);
}

static int encode_transaction(struct making *m)
{
	_cleanup_(pf_buf_release) struct pf_buf op = PF_BUF_INIT;
	const char *name = pf_branch_name(m->c->from), *branch = m->c->branch;

	int r = pf_wire_put_u64(&op, LANCE__TRANSACTION__CLONE__FIELD__IS_SHALLOW, 1);
	if (r == 0 && name)
		r = pf_wire_put_bytes(&op, LANCE__TRANSACTION__CLONE__FIELD__REF_NAME, name, strlen(name));
	if (r == 0)
		r = pf_wire_put_u64(&op, LANCE__TRANSACTION__CLONE__FIELD__REF_VERSION, m->c->source->version);
	if (r == 0)
		r = pf_wire_put_bytes(&op, LANCE__TRANSACTION__CLONE__FIELD__REF_PATH, m->path, strlen(m->path));
	if (r == 0 && branch)
		r = pf_wire_put_bytes(&op, LANCE__TRANSACTION__CLONE__FIELD__BRANCH_NAME, branch, strlen(branch));
	if (r == 0)
		r = pf_wire_put_u64(&m->txn, LANCE__TRANSACTION__FIELD__READ_VERSION, m->c->source->version);
	if (r == 0)
		r = pf_wire_put_bytes(&m->txn, LANCE__TRANSACTION__FIELD__UUID, m->uuid, strlen(m->uuid));
	return r < 0 ? r : pf_put_span(&m->txn, LANCE__TRANSACTION__OPERATION__CLONE, PF_SPAN_OF(&op));
}

/*
 * Lance compares a base path with the path that a table was opened by as text, when it looks for branches (lance-14-cleanup 28): so the user's spelling, if
 * that is a path from the root.
 */
static int source_path(const struct pf_clone *c, char **out)
{
	const struct pf_store *st = pf_branch_store(c->from);
	const char *root = st->where[0] == '/' ? st->where : st->at, *dir = pf_branch_dir(c->from);
	size_t n = strlen(root), n_dir = strlen(dir);

	while (n > 1 && root[n - 1] == '/')
		n--;
	if (asprintf(out, "%.*s%s%.*s", (int)n, root, n_dir ? "/" : "", n_dir ? (int)n_dir - 1 : 0, dir) < 0)
		return *out = NULL, -ENOMEM;
	return 0;
}

static int name_files(struct making *m)
{
	char base[PF_MANIFEST_NAME_MAX];
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, m->uuid);
	pf_manifest_name_format(m->c->source->version, true, base);
	if (asprintf(&m->manifest, "%s_versions/%s", m->c->dir, base) < 0)
		return m->manifest = NULL, -ENOMEM;
	int r = pf_txn_file_name(m->c->dir, m->c->source->version, m->uuid, &m->files.transaction);
	return r < 0 ? r : source_path(m->c, &m->path);
}

static int write_transaction(struct making *m, const char *dir, struct pf_why *why)
{
	struct pf_store *to = m->c->to;
	int r = pf_store_mkdir(to, dir);

	if (r == 0)
		r = pf_store_write_new(to, m->files.transaction, m->txn.data, m->txn.len, true);
	if (r == 0)
		r = pf_store_sync_dir(to, dir);
	return r < 0 ? pf_why_set(why, r, "cannot write %s: %s", m->files.transaction, strerror(-r)) : 0;
}

static int stage(struct making *m, const struct pf_splice *changes, uint64_t writer_flags, const char *name,
		 struct pf_why *why)
{
	const uint32_t number = LANCE__MANIFEST__FIELD__WRITER_FEATURE_FLAGS;
	_cleanup_(pf_stage_discardp) struct pf_stage *sg = NULL;
	_cleanup_(pf_freep) struct pf_patch *patches = calloc(changes->n_patches + 1, sizeof(*patches));
	_cleanup_(pf_buf_release) struct pf_buf flags = PF_BUF_INIT;
	struct pf_splice how = *changes;

	if (!patches)
		return -ENOMEM;
	int r = pf_wire_put_u64(&flags, number, writer_flags | (m->c->source->writer_flags & PF_FLAG_PINS));
	if (r < 0)
		return r;
	const struct pf_piece piece = { flags.data, 0, flags.len };
	memcpy(patches, changes->patches, changes->n_patches * sizeof(*patches));
	patches[how.n_patches++] = (struct pf_patch){ number, &piece, 1 };
	how.patches = patches;
	how.transaction = m->txn.data;
	how.transaction_len = m->txn.len;
	r = pf_store_create(m->c->to, name, &sg);
	if (r < 0)
		return pf_why_set(why, r, "cannot create %s: %s", name, strerror(-r));
	r = pf_manifest_splice(pf_branch_store(m->c->from), m->c->source, &how, sg, why);
	if (r < 0)
		return r;
	r = pf_stage_sync(sg);
	return r < 0 ? pf_why_set(why, r, "cannot write %s: %s", name, strerror(-r)) : 0;
}

/* Give the staged file its name: 0, also if storage reports an error and the name is there. */
static int put_in_place(struct making *m, const char *dir, const char *staged, struct pf_why *why)
{
	struct pf_store *to = m->c->to;
	struct pf_stat there;

	int r = pf_store_stat(to, staged, &m->files.is);
	if (r == 0)
		r = pf_store_link(to, staged, m->manifest);
	if (r == -EEXIST)
		return pf_why_set(why, r, "%s/ has this version already", dir);
	if (r < 0 && pf_store_stat(to, m->manifest, &there) == 0 && pf_stat_same(&there, &m->files.is))
		r = 0;
	if (r < 0)
		return pf_why_set(why, r, "cannot publish %s: %s", m->manifest, strerror(-r));
	m->files.manifest = STEAL(m->manifest);
	r = pf_store_sync_dir(to, dir);
	return r < 0 ? pf_why_set(why, r, "cannot sync %s/: %s", dir, strerror(-r)) : 0;
}

static int publish(struct making *m, const struct pf_splice *changes, uint64_t writer_flags, struct pf_why *why)
{
	_cleanup_(pf_freep) char *txns = NULL, *versions = NULL, *staged = NULL;

	if (asprintf(&txns, "%s_transactions", m->c->dir) < 0)
		return txns = NULL, -ENOMEM;
	if (asprintf(&versions, "%s_versions", m->c->dir) < 0)
		return versions = NULL, -ENOMEM;
	if (asprintf(&staged, "%s/.tmp%s", versions, m->uuid) < 0)
		return staged = NULL, -ENOMEM;
	int r = write_transaction(m, txns, why);
	if (r == 0)
		r = pf_store_mkdir(m->c->to, versions);
	if (r < 0)
		return pf_why_default(why, r, "cannot make %s/: %s", versions, strerror(-r));
	r = stage(m, changes, writer_flags, staged, why);
	if (r == 0)
		r = put_in_place(m, versions, staged, why);
	pf_store_unlink(m->c->to, staged);
	return r;
}

static int make(struct making *m, struct pf_why *why)
{
	struct pf_splice changes;
	uint64_t writer_flags;

	int r = name_files(m);
	if (r == 0)
		r = encode_transaction(m);
	if (r == 0)
		r = pf_next_init(&m->next, pf_branch_store(m->c->from), m->c->source, NULL, why);
	if (r == 0)
		r = choose_base(m, why);
	if (r == 0)
		r = move_fragments(m, why);
	if (r == 0)
		r = move_indices(m, why);
	if (r == 0)
		r = add_base(m, why);
	if (r == 0)
		r = set_fields(m);
	if (r == 0)
		r = pf_next_finish(&m->next, &changes, &writer_flags, why);
	return r < 0 ? r : publish(m, &changes, writer_flags, why);
}

int pf_clone_make(const struct pf_clone *c, struct pf_cloned *out, struct pf_why *why)
{
	_cleanup_(making_release) struct making m = { .c = c };

	int r = make(&m, why);
	if (r < 0) {
		pf_clone_undo(c->to, &m.files);
		return pf_why_default(why, r, "%s: %s", c->source->name, strerror(-r));
	}
	*out = m.files;
	m.files = (struct pf_cloned){ 0 };
	return 0;
}

/* Is the manifest still there, and ours? 1, 0, or why that cannot be told. */
static int is_there(struct pf_store *to, const struct pf_cloned *f)
{
	struct pf_stat now;
	int r = pf_store_stat(to, f->manifest, &now);

	return r == 0 ? pf_stat_same(&now, &f->is) : r == -ENOENT ? 0 : r;
}

int pf_clone_undo(struct pf_store *to, const struct pf_cloned *f)
{
	int there = f->manifest ? is_there(to, f) : 0, result = there < 0 ? there : 0;
	const char *files[] = { there > 0 ? f->manifest : NULL, f->details, f->transaction };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int r = files[i] ? pf_store_unlink(to, files[i]) : 0;
		if (r < 0 && r != -ENOENT && result == 0)
			result = r;
	}
	if (f->details_dir)
		pf_store_remove(to, f->details_dir, true);
	return result;
}

struct search {
	const char *but; /* its last component; NULL: none */
	char *found;
};

static int is_manifest(void *arg, const char *name, bool is_dir)
{
	struct search *s = arg;
	uint64_t version;
	bool v2;

	if (!pf_manifest_name_parse(name, &version, &v2) || (s->but && strcmp(name, s->but) == 0))
		return 0;
	s->found = strdup(name);
	return s->found ? 1 : -ENOMEM;
}

int pf_clone_find(struct pf_store *st, const char *dir, const char *but, char **name, struct pf_why *why)
{
	_cleanup_(pf_freep) char *versions = NULL;
	struct search s = { .but = but ? strrchr(but, '/') + 1 : NULL };

	if (asprintf(&versions, "%s_versions", dir) < 0)
		return versions = NULL, -ENOMEM;
	int r = pf_store_list(st, versions, is_manifest, &s);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return pf_why_set(why, r, "%s/: %s", versions, strerror(-r));
	if (r > 0)
		*name = s.found;
	return r;
}
