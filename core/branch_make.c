#include "branch_make.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clone.h"
#include "place.h"
#include "ref_file.h"

#define BRANCHES "_refs/branches"

/* One being made. */
struct making {
	struct pf_branch *from;
	struct pf_store *st;
	struct pf_manifest *source;
	const char *name;
	char *dir, *file;	     /* its directory, and its ref */
	char id[PF_BRANCH_ID_TEXT];  /* the new branch's */
	struct pf_branch_ref parent; /* name NULL: main */
	struct pf_cloned files;
	struct pf_buf text; /* of the ref */
};

static void making_release(struct making *m)
{
	pf_manifest_unref(m->source);
	free(m->dir);
	free(m->file);
	pf_branch_ref_release(&m->parent);
	pf_cloned_release(&m->files);
	pf_buf_release(&m->text);
}

/* Is the branch `inner` in a folder of `outer`'s files, as `x/data` is of x's? Lance's cleanup of x deletes what it finds there (lance-14-cleanup D4). */
static bool is_in_folder(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	if (strncmp(inner, outer, n) != 0 || inner[n] != '/')
		return false;
	size_t len = strcspn(inner + n + 1, "/");
	for (size_t i = 0; i < PF_FOLDERS; i++)
		if (strlen(pf_folders[i]) == len && strncmp(inner + n + 1, pf_folders[i], len) == 0)
			return true;
	return false;
}

static int check_name(struct making *m, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };

	int r = pf_branch_name_check(m->name, why);
	if (r < 0)
		return r;
	for (const char *p = m->name; *p; p++)
		if (*p & 0x80)
			return pf_why_set(why, -EINVAL,
					  "the branch name %s has characters other than ASCII: Lance 14 makes such a "
					  "branch, and can then list none any more",
					  m->name);
	r = pf_branches_list(m->st, &refs, why);
	for (size_t i = 0; r == 0 && i < refs.n; i++) {
		const char *other = refs.v[i].name;
		if (strcmp(other, m->name) == 0)
			return pf_why_set(why, -EEXIST, "there is a branch %s already", m->name);
		if (is_in_folder(m->name, other) || is_in_folder(other, m->name))
			return pf_why_set(
				why, -EINVAL,
				"the branches %s and %s cannot be together: one would lie in a folder of the other's "
				"files, and Lance's cleanup deletes what it finds there. Choose another name",
				m->name, other);
	}
	return r;
}

/* Nothing is there yet, but perhaps directories. */
static int check_place(struct making *m, const char *but, int err, struct pf_why *why)
{
	_cleanup_(pf_freep) char *found = NULL;

	int r = pf_clone_find(m->st, m->dir, but, &found, why);
	if (r <= 0)
		return r;
	return pf_why_set(
		why, err,
		"there is no branch %s, but %s_versions/%s: somebody is making or deleting it, or was and did not "
		"finish. If nobody is, remove what is left with `pinctl branch delete %s --force`",
		m->name, m->dir, found, m->name);
}

static int put_pair(struct making *m, uint64_t version, const char *id, bool last)
{
	return pf_buf_addf(&m->text, "      [\n        %" PRIu64 ",\n        \"%s\"\n      ]%s\n", version, id,
			   last ? "" : ",");
}

/* The parent's list of ancestors, which a parent without one gets as Lance makes it up, and one more. */
static int put_mapping(struct making *m)
{
	const struct pf_branch_ref *p = &m->parent;
	int r = p->synthetic_id ? put_pair(m, 0, p->id, false) : 0;

	for (size_t i = 0; r == 0 && !p->synthetic_id && i < p->n_mapping; i++)
		r = put_pair(m, p->mapping_version[i], p->mapping_id[i], false);
	return r < 0 ? r : put_pair(m, m->source->version, m->id, true);
}

/* As Lance 14 prints it. Names were checked: nothing in them needs escaping. */
static int make_text(struct making *m, struct pf_time now)
{
	const char *parent = m->parent.name, *quote = parent ? "\"" : "";

	int r = pf_buf_addf(&m->text,
			    "{\n"
			    "  \"parentBranch\": %s%s%s,\n"
			    "  \"identifier\": {\n"
			    "    \"version_mapping\": [\n",
			    quote, parent ? parent : "null", quote);
	if (r == 0)
		r = put_mapping(m);
	return r < 0 ? r
		     : pf_buf_addf(&m->text,
				   "    ]\n"
				   "  },\n"
				   "  \"parentVersion\": %" PRIu64 ",\n"
				   "  \"createAt\": %" PRId64 ",\n"
				   "  \"manifestSize\": %" PRIu64 ",\n"
				   "  \"metadata\": {}\n"
				   "}",
				   m->source->version, now.sec, m->source->st.size);
}

static void new_id(char out[PF_BRANCH_ID_TEXT])
{
	struct pf_uuid u;

	pf_uuid_new(&u);
	for (size_t i = 0; i < sizeof(u.b); i++)
		snprintf(out + 2 * i, 3, "%02x", u.b[i]);
}

static int prepare(struct making *m, uint64_t version, struct pf_time now, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	const char *parent = pf_branch_name(m->from);

	int r = check_name(m, why);
	if (r < 0)
		return r;
	if (asprintf(&m->dir, "tree/%s/", m->name) < 0)
		return m->dir = NULL, -ENOMEM;
	r = pf_buf_addstr(&file, BRANCHES "/");
	if (r == 0)
		r = pf_percent_encode(m->name, strlen(m->name), &file);
	if (r == 0)
		r = pf_buf_addstr(&file, PF_REF_SUFFIX);
	const char *text = r == 0 ? pf_buf_str(&file) : NULL;
	if (!text || !(m->file = strdup(text)))
		return -ENOMEM;
	r = check_place(m, NULL, -EBUSY, why);
	if (r == 0 && parent)
		r = pf_branch_ref_read(m->st, parent, &m->parent, why);
	if (r == 0)
		r = pf_branch_version(m->from, version, &m->source, why);
	new_id(m->id);
	return r < 0 ? r : make_text(m, now);
}

/* What the branch was made from is still there: whoever removes it from now on sees our ref first. */
static int check_source(struct making *m, struct pf_why *why)
{
	char id[PF_BRANCH_ID_TEXT];
	struct pf_stat st;

	int r = pf_branch_id(m->from, id, why);
	if (r == 0 && strcmp(id, m->parent.name ? m->parent.id : "") != 0)
		return pf_why_set(why, -ENOENT, "the branch %s was deleted meanwhile, and made again", m->parent.name);
	if (r == 0)
		r = pf_branch_stat(m->from, m->source->version, &st, why);
	return r == 0 && !pf_stat_same(&st, &m->source->st)
		       ? pf_why_set(why, -ENOENT, "version %" PRIu64 " was replaced meanwhile", m->source->version)
		       : r;
}

/* The ref that is there now: 1 ours, 0 none, -EEXIST somebody else's. */
static int look(struct making *m, struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };

	int r = pf_branch_ref_read(m->st, m->name, &ref, why);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (strcmp(ref.id, m->id) == 0)
		return 1;
	return pf_why_set(why, -EEXIST, "somebody else made the branch %s at the same time", m->name);
}

static int put_ref(struct making *m, struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	int put = pf_ref_put(m->st, BRANCHES, m->file, &m->text);

	if (put == 0)
		return 0;
	int r = look(m, &inner);
	if (r == -EEXIST)
		return pf_why_set(why, r, "%s", inner.text);
	if (r > 0 && pf_store_sync_dir(m->st, BRANCHES) == 0)
		return 0;
	if (r == 0)
		return pf_why_set(why, put == -EEXIST ? -EAGAIN : put, "cannot make %s: %s", m->file, strerror(-put));
	return pf_why_set(
		why, -EINPROGRESS,
		"the branch %s may or may not have been made: %s. `pinctl branch ls` tells when storage works again",
		m->name, strerror(-put));
}

/* It has a version still, if perhaps not the first any more: whoever removed it, taking it for what somebody left, had not seen our ref. */
static int check_made(struct making *m, struct pf_why *why)
{
	_cleanup_(pf_freep) char *found = NULL;

	int r = pf_clone_find(m->st, m->dir, NULL, &found, why);
	if (r == 0)
		return pf_why_set(why, -EAGAIN, "somebody removed the branch %s while it was made: try again", m->name);
	return r < 0 ? r : 0;
}

/* All is in place but the ref, which makes it a branch. */
static int finish(struct making *m, struct pf_why *why)
{
	int r = check_place(m, m->files.manifest, -EAGAIN, why);
	if (r == 0)
		r = put_ref(m, why);
	if (r < 0)
		return r;
	r = check_source(m, why);
	if (r == 0)
		r = check_made(m, why);
	int removed = r < 0 ? pf_ref_remove(m->st, BRANCHES, m->file) : 0;
	if (removed < 0 && removed != -ENOENT) {
		struct pf_why inner = PF_WHY_INIT;
		if (why)
			inner = *why;
		return pf_why_set(why, -EINPROGRESS, "the branch %s was made, and is of no use: %s", m->name,
				  inner.text);
	}
	return r;
}

int pf_branch_create(struct pf_branch *from, uint64_t version, const char *name, struct pf_time now, struct pf_why *why)
{
	_cleanup_(making_release) struct making m = { .from = from, .st = pf_branch_store(from), .name = name };

	int r = prepare(&m, version, now, why);
	if (r < 0)
		return r;
	const struct pf_clone clone = {
		.from = from, .source = m.source, .to = m.st, .dir = m.dir, .branch = name, .now = now
	};
	r = pf_clone_make(&clone, &m.files, why);
	if (r == -EEXIST)
		return pf_why_set(why, -EAGAIN, "somebody else is making the branch %s: try again", name);
	if (r < 0)
		return r;
	r = finish(&m, why);
	/* With an unknown outcome the ref may be there, and then needs them. */
	if (r < 0 && r != -EINPROGRESS)
		pf_clone_undo(m.st, &m.files);
	return r;
}
