/*
 * Tags and branches in Lance's own files under _refs/ (lance-format 3.4, 3.5; lance-14 section 1). They always live at the table's root.
 * One damaged file makes the whole listing fail: nothing guesses "no tags" (Lance 14: refs).
 */
#ifndef PF_REFS_H
#define PF_REFS_H

#include "store.h"
#include "text.h"

#define PF_BRANCH_ID_TEXT 33 /* 32 hex digits and a NUL */
#define PF_REF_FILE_MAX	  (1 << 20)

struct pf_tag {
	char *name;
	char *branch;	  /* NULL: main */
	uint64_t version; /* of a detached one, which Lance tags without a word, above 2^63 */
	uint64_t manifest_size;
	char *created_at, *updated_at; /* as stored, NULL if absent */
	char *metadata;		       /* JSON object text, NULL if absent */
};

struct pf_tags {
	struct pf_tag *v;
	size_t n;
};
void pf_tags_release(struct pf_tags *l);

/* All tags, sorted by name. -EBADMSG names the file and what was expected; numbers past 64 bits and duplicate keys count as damage. */
int pf_tags_list(struct pf_store *st, struct pf_tags *out, struct pf_why *why);

/* One tag, read now; its name is as in pf_tag. -ENOENT if there is none. */
int pf_tag_read(struct pf_store *st, const char *name, struct pf_tag *out, struct pf_why *why);
void pf_tag_release(struct pf_tag *t);

/*
 * The same for a report: each damaged file is told to `bad` and left out, instead of failing the whole; a non-zero return of `bad` stops the
 * listing and is returned. Of two files for one branch one is kept.
 */
typedef int (*pf_ref_bad_fn)(void *arg, const char *file, const char *text);
int pf_tags_scan(struct pf_store *st, pf_ref_bad_fn bad, void *arg, struct pf_tags *out, struct pf_why *why);

struct pf_branch_ref {
	char *name;   /* decoded, with its slashes */
	char *parent; /* NULL: main */
	uint64_t parent_version;
	int64_t created_at; /* unix seconds */
	char id[PF_BRANCH_ID_TEXT]; /* last id of identifier.version_mapping; synthesised as Lance does when the file has no identifier */
	bool synthetic_id;
	uint64_t *mapping_version; /* identifier.version_mapping, from the root down */
	char (*mapping_id)[PF_BRANCH_ID_TEXT];
	size_t n_mapping;
	char *file; /* its name in the store */
};

struct pf_branch_refs {
	struct pf_branch_ref *v;
	size_t n;
};
void pf_branch_refs_release(struct pf_branch_refs *l);

/* All branches but main, sorted by name; both layouts (`a%2Fb.json` and `a/b.json`, cases-open A03). */
int pf_branches_list(struct pf_store *st, struct pf_branch_refs *out, struct pf_why *why);

int pf_branches_scan(struct pf_store *st, pf_ref_bad_fn bad, void *arg, struct pf_branch_refs *out, struct pf_why *why);

/* One branch's ref, read now. -ENOENT if there is none. */
int pf_branch_ref_read(struct pf_store *st, const char *name, struct pf_branch_ref *out, struct pf_why *why);

/* What the file would say if it had the name `as`, "_refs/branches/x.json". -ENOENT; -EBADMSG: nothing that Lance could read. */
int pf_branch_ref_read_as(struct pf_store *st, const char *file, const char *as, struct pf_branch_ref *out,
			  struct pf_why *why);
void pf_branch_ref_release(struct pf_branch_ref *r);

/* Lance's rules for branch names; -EINVAL with the reason. */
int pf_branch_name_check(const char *name, struct pf_why *why);

#endif
