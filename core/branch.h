/*
 * One line of versions, main or a named branch, and its head. The head is asked of storage on every call and never answered from memory
 * alone: a remembered manifest is used again only if nothing was created or removed in _versions/ since, its file is still the same one and
 * no next version exists (design: sections 2 and 7).
 */
#ifndef PF_BRANCH_H
#define PF_BRANCH_H

#include "manifest.h"
#include "refs.h"

struct pf_branch;

/*
 * Open main (name NULL or "main") or a named branch of the table in `st`. Borrows `st`. Reads the directory once.
 *   -ENOENT      not a Lance table (no _versions/ with a manifest), or no such branch
 *   -EINVAL      a name no branch can have, or `st` is the directory of a branch and not the table's root
 *   -EBADMSG     both naming schemes in one directory, and no migration at work (which is waited for); a damaged head or ref
 *   -EOPNOTSUPP  an unknown reader feature bit, named
 */
int pf_branch_open(struct pf_store *st, const char *name, struct pf_branch **out, struct pf_why *why);

/*
 * What is in the directory of a named branch, whether or not there is a ref that makes it one: for who is about to remove it. pf_branch_id and what builds on
 * it need the ref.
 */
int pf_branch_open_stray(struct pf_store *st, const char *name, struct pf_branch **out, struct pf_why *why);

void pf_branch_free(struct pf_branch *b);
void pf_branch_freep(struct pf_branch **b);

struct pf_store *pf_branch_store(const struct pf_branch *b);
const char *pf_branch_name(const struct pf_branch *b); /* NULL on main */
const char *pf_branch_dir(const struct pf_branch *b);  /* "" or "tree/feat/x/" */

/* Append "pinctl -d TABLE [-b NAME]", as a shell reads it from anywhere: commands that sentences advise start so. */
int pf_branch_command(const struct pf_branch *b, struct pf_buf *out);

/* The branch id as its ref says now: "" on main. -ENOENT if the branch is gone. */
int pf_branch_id(struct pf_branch *b, char out[PF_BRANCH_ID_TEXT], struct pf_why *why);

/*
 * The head as storage has it at this moment, flags checked for reading. A reference belongs to the caller. Three stats when nothing changed;
 * else one scan of the directory, and one manifest walk if the head is a new one. Not upward from the remembered head: a cleanup may leave that
 * one (a tag) and the newest, and remove what is between. Thread-safe. Errors as pf_branch_open.
 */
int pf_branch_head(struct pf_branch *b, struct pf_manifest **out, struct pf_why *why);

/* The manifest of a given version (either scheme). -ENOENT if it is not there. */
int pf_branch_version(struct pf_branch *b, uint64_t version, struct pf_manifest **out, struct pf_why *why);

/*
 * One step of our own in _versions/ (publish.c): what it does to the directory is then no reason to list it again. Looked at before and after,
 * with nothing but the step in between, so that whatever others do is still noticed, but for what falls within the instant of the step; a
 * step that took longer is not trusted. The time of the directory after it is what the file system's clock said between `began` and `ended`.
 */
struct pf_branch_step {
	struct pf_manifest
		*head; /* of pf_branch_head, still good when the step began; counted, until it ends. NULL: not known */
	struct pf_stat dir;   /* _versions/ before it; then after it, zero if that could not be read */
	int64_t began, ended; /* pf_time_steady_ns */
};
void pf_branch_step_begin(struct pf_branch *b, struct pf_branch_step *s);
/*
 * `made`: the version whose name the step made in the scheme of the head, 0: none. True if the head is known without another look: the one of
 * before, or the version that was made on it and that it can now only be followed by others.
 */
bool pf_branch_step_end(struct pf_branch *b, struct pf_branch_step *s, uint64_t made);

/*
 * Make durable what names _versions/ has now: for whoever answers by a version that somebody else committed, who may have ended before that. 0, or storage's error.
 */
int pf_branch_sync(struct pf_branch *b);

/* The file of its manifest (either scheme), unopened. Nothing can be read of it but that it is there, and since when. -ENOENT if it is not there. */
int pf_branch_stat(struct pf_branch *b, uint64_t version, struct pf_stat *out, struct pf_why *why);

/* All attached versions in _versions/, ascending; *v is malloc'ed and belongs to the caller. One scan. -EBADMSG on mixed naming schemes. */
struct pf_version_entry {
	uint64_t version;
	bool v2;
};
int pf_branch_versions(struct pf_branch *b, struct pf_version_entry **v, size_t *n, struct pf_why *why);

#endif
