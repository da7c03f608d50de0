/* What the files that make up cleanup.h share among themselves. */
#ifndef PF_CLEANUP_PARTS_H
#define PF_CLEANUP_PARTS_H

#include "cleanup.h"

/* What the rules look at beside the file itself. */
struct pf_clean_rules {
	int64_t now_ns;
	bool delete_unverified, leaks;
	bool flagged; /* the table has bit 19: Lance's own cleanup never runs there any more */
	bool has_cut; /* files changed after `cut_ns` are not looked at, but where the rule says */
	int64_t cut_ns;
	bool maps_unknown;  /* not all that refers to row maps is known: none goes */
	bool blobs_unknown; /* ... to sidecars: managed blobs refer to those of other files (lance-maintenance 1.3) */
};

/* What versions have to do with a file. */
enum pf_clean_ref {
	PF_REF_NONE,
	PF_REF_GOING, /* only versions that go name it: Lance's "verified" */
	PF_REF_KEPT,
};

struct pf_clean_verdict {
	enum pf_clean_class cls;
	enum pf_fate fate; /* of PF_REF_KEPT: not said here */
};

/*
 * Judge one file, `path` below the branch's directory: "data/x.lance". Pure. The manifests of attached versions are not judged here: a version decides.
 */
void pf_clean_judge(const struct pf_clean_rules *rules, const char *path, int64_t mtime_ns, enum pf_clean_ref ref,
		    struct pf_clean_verdict *out);

/* The class alone, by name. */
enum pf_clean_class pf_clean_class_of(const char *path);

/* Does a path below the branch's directory name the manifest of an attached version? 1 and *version, or 0. */
int pf_clean_is_manifest(const char *path, uint64_t *version);

/* The same of one that a run of ours renamed. `v2`: how it was called in _versions/. */
int pf_clean_is_left(const char *path, uint64_t *version, bool *v2);

/* When Lance stops looking: the rule of the listing, from the versions. `left_ns`: newest timestamp of versions whose removal is under way, INT64_MIN: none. */
void pf_clean_cut(const struct pf_retention *r, const struct pf_survey *s, int64_t left_ns,
		  struct pf_clean_rules *rules);

/* Files named by manifests that an earlier run renamed: PF_REF_GOING, unless a version refers to them. */
struct pf_leftovers {
	struct pf_file_set set; /* one interval each: from the oldest to the newest of those versions */
	int64_t newest_ns;	/* timestamp; INT64_MIN if there is none */
};
int pf_leftovers_find(struct pf_store *st, const char *dir, struct pf_leftovers *out, struct pf_why *why);
void pf_leftovers_release(struct pf_leftovers *l);

/* A version that goes. */
struct pf_going {
	uint64_t version;
	bool v2;
	bool hidden;	    /* its manifest has its temporary name */
	bool lost;	    /* somebody else took it away while we came to it */
	uint64_t next_lost; /* the first such from this on, UINT64_MAX if there is none */
};

struct pf_cleanup {
	struct pf_lines *l;
	char *branch; /* NULL: main */
	char *dir;
	struct pf_cleanup_options o;
	struct pf_clean_rules rules;
	struct pf_cleanup_report report;
	struct pf_victim *v; /* manifests last */
	size_t n, cap;
	char **folders; /* to be removed if they are empty then: deepest first */
	size_t n_folders;
	uint64_t head;
	struct pf_going *going; /* ascending */
	size_t n_going;
	/* For the plan alone: */
	struct pf_line *line;
	struct pf_needs needs;
	struct pf_retention *kept;
	struct pf_leftovers left;
	pf_clean_file_fn see;
	void *arg;
};

/*
 * Does something refer to the file `path` of the branch in `dir`: to itself, to a directory that it is in, or, if it is a sidecar, to its data file? The index
 * of what is referred to, or -ENOENT.
 */
int64_t pf_clean_known(const struct pf_file_set *set, const char *path, const char *dir);

/*
 * Refresh, and take account of what is needed now whatever the policy: c->line, ->needs and ->kept. -EBUSY as pf_cleanup_new, or the branch is gone.
 */
int pf_clean_look_again(struct pf_cleanup *c, struct pf_why *why);

/* One more to remove: 0 or -ENOMEM. */
int pf_clean_add_victim(struct pf_cleanup *c, const struct pf_clean_file *f);
int pf_clean_add_folder(struct pf_cleanup *c, const char *dir);
void pf_clean_drop_folders(struct pf_cleanup *c, size_t n); /* all but the first n */

/* With `leaks`, of main: the same of folders that no branch belongs to any more. */
int pf_clean_zombies(struct pf_cleanup *c, struct pf_why *why);

/* Is a victim of those now a branch's, or is it referred to? 1, 0 or -ENOMEM. */
int pf_clean_zombie_stays(const struct pf_cleanup *c, const struct pf_victim *v);

/* All files of the branch's folders, judged. */
int pf_clean_sweep(struct pf_cleanup *c, struct pf_why *why);

#endif
