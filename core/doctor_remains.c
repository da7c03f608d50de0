/* What is to be judged of a table as a whole: its branches, and what is under tree/ that is of none. */
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "doctor_parts.h"

/* Deeper than anybody's names go. */
#define DEPTH_MAX 32

void pf_table_facts_release(struct pf_table_facts *f)
{
	pf_texts_release(&f->unread);
	pf_texts_release(&f->empty);
	pf_texts_release(&f->remains);
	pf_texts_release(&f->young);
}

struct walking {
	struct pf_table_facts *f;
	const struct pf_branch_refs *refs;
	const char *dir; /* being scanned */
	unsigned depth;
	bool inside;		    /* a branch's own directory */
	struct pf_clean_count *sum; /* not NULL: it is of no branch, and everything in it is counted */
	int64_t *newest_ns;
};

static int see_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st);

static int walk(struct walking *w)
{
	if (w->depth > DEPTH_MAX)
		return 0;
	int r = pf_store_scan(w->f->st, w->dir, see_entry, w);
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

/* Is the path below tree/ a branch's, or on the way to one? */
static void place(const struct pf_branch_refs *refs, const char *path, bool *is_branch, bool *leads)
{
	size_t n = strlen(path);

	*is_branch = *leads = false;
	for (size_t i = 0; i < refs->n; i++) {
		if (strncmp(refs->v[i].name, path, n) != 0)
			continue;
		*is_branch |= refs->v[i].name[n] == '\0';
		*leads |= refs->v[i].name[n] == '/';
	}
}

/* Lance's folders in the directory of a branch. */
static bool is_folder(const char *name)
{
	return name[0] == '_' || strcmp(name, "data") == 0 || strcmp(name, "tree") == 0;
}

static int note_remains(struct walking *w, const char *path)
{
	struct pf_clean_count sum = { 0 };
	int64_t newest = INT64_MIN;
	struct walking below = *w;

	below.dir = path;
	below.depth++;
	below.sum = &sum;
	below.newest_ns = &newest;
	int r = walk(&below);
	if (r < 0 || sum.files == 0)
		return r;
	bool young = newest / 1000000000 >= w->f->now.sec - PF_CLEAN_GUARD_NS / 1000000000;
	if (!young)
		w->f->remains_bytes += sum.bytes;
	return pf_texts_add(young ? &w->f->young : &w->f->remains, "%s", path);
}

static int see_dir(struct walking *w, const char *path, const char *name)
{
	struct walking below = *w;
	bool is_branch, leads;

	place(w->refs, path + strlen("tree/"), &is_branch, &leads);
	below.dir = path;
	below.depth++;
	below.inside = is_branch;
	if (is_branch || leads)
		return walk(&below);
	return w->inside && is_folder(name) ? 0 : note_remains(w, path);
}

static int see_entry(void *arg, const char *name, enum pf_entry_kind kind, const struct pf_stat *st)
{
	struct walking *w = arg;
	_cleanup_(pf_freep) char *path = NULL;

	if (kind != PF_ENTRY_DIR) {
		if (w->sum) {
			w->sum->files++;
			w->sum->bytes += st->size;
			*w->newest_ns = st->mtime_ns > *w->newest_ns ? st->mtime_ns : *w->newest_ns;
		}
		return 0;
	}
	if (asprintf(&path, "%s/%s", w->dir, name) < 0)
		return path = NULL, -ENOMEM;
	if (!w->sum)
		return see_dir(w, path, name);
	struct walking below = *w;
	below.dir = path;
	below.depth++;
	return walk(&below);
}

static int bad_ref(void *arg, const char *file, const char *text)
{
	struct pf_table_facts *f = arg;

	/* Sentences of refs name their file. */
	return strstr(text, file) ? pf_texts_add(&f->unread, "%s", text)
				  : pf_texts_add(&f->unread, "%s: %s", file, text);
}

static int look_at_lines(struct pf_table_facts *f, const struct pf_lines *l, const struct pf_branch_refs *refs)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < refs->n; i++) {
		const struct pf_line *line = pf_lines_find(l, refs->v[i].name);
		if (line && line->unknown)
			r = pf_texts_add(&f->unread, "branch %s: %s", refs->v[i].name, line->unknown);
		else if (line && !line->survey)
			r = pf_texts_add(&f->empty, "branch %s", refs->v[i].name);
	}
	return r;
}

int pf_table_facts_find(struct pf_store *st, const struct pf_lines *l, struct pf_time now, struct pf_table_facts *out)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };
	struct pf_table_facts f = { .st = st, .now = now };
	struct pf_why why = PF_WHY_INIT;

	int r = pf_branches_scan(st, bad_ref, &f, &refs, &why);
	if (r < 0 && r != -ENOMEM)
		r = pf_texts_add(&f.unread, "_refs/branches: %s", why.text[0] ? why.text : strerror(-r));
	f.branches = refs.n;
	/* Whose directories are whose is known from all refs alone. */
	bool known = f.unread.n == 0;
	if (r == 0)
		r = look_at_lines(&f, l, &refs);
	struct walking w = { .f = &f, .refs = &refs, .dir = "tree" };
	if (r == 0 && !known)
		f.remains_err = pf_why_set(&f.remains_why, -EBADMSG, "not looked for: some branches are not known");
	else if (r == 0)
		f.remains_err = walk(&w);
	if (f.remains_err < 0)
		pf_why_default(&f.remains_why, f.remains_err, "tree: %s", strerror(-f.remains_err));
	r = f.remains_err == -ENOMEM ? -ENOMEM : r;
	if (r < 0)
		pf_table_facts_release(&f);
	else
		*out = f;
	return r;
}
