/*
 * The distinct files of a survey: by (base, path), with the intervals of versions that refer to each, and how often the version looked at now does.
 * References go up and down while one version is taken in; where a count leaves or reaches zero, an interval starts or ends.
 */
#ifndef PF_FILE_SET_H
#define PF_FILE_SET_H

#include "reference.h"

/* Versions first to last, both included. last == PF_STILL: up to the head, whatever it is. */
#define PF_STILL UINT64_MAX
struct pf_interval {
	uint64_t first, last;
};

/* What was found at a path. */
enum pf_presence { PF_UNSEEN, PF_PRESENT, PF_MISSING };

struct pf_surveyed_file {
	enum pf_file_class cls : 8;
	enum pf_presence presence : 8; /* PF_UNSEEN: nobody looked yet, or nobody can */
	bool own;		       /* it lies in this branch's own folders */
	bool optional;		       /* see pf_reference */
	bool needed;		       /* another branch refers to it: lines.h */
	bool is_dir;		       /* a directory with all that is in it; as far as known */
	uint32_t base;		       /* index into pf_survey.bases; 0 is the table's root, which all branches share */
	uint32_t
		sidecar_of; /* of a folder of sidecars: index of its data file + 1, whose intervals it has; 0 of everything else */
	uint32_t n_files; /* 1, or the number of files in a directory, 0 of what is missing; as far as known */
	uint32_t n_iv;
	char *path;		/* below that base; of a branch's own files with its directory, "tree/x/data/..." */
	struct pf_interval *iv; /* ascending; between two of them is a version that does not refer to it */
	uint64_t size; /* on disk, all in a directory together, 0 of what is missing; never looked at: as said */
	uint64_t said; /* as the manifest says, 0 if it does not */
};

struct pf_file_state;

/* Zeroed is not empty: pf_file_set_init. Indices are stable until pf_file_set_prune. */
struct pf_file_set {
	struct pf_surveyed_file *v;
	size_t n, cap;
	struct pf_file_state *state; /* one a file */
	uint64_t *slots;	     /* hash table: hash above, index + 1 below */
	size_t n_slots;
	uint64_t seed;
	struct pf_chunk *chunks; /* what paths and intervals are made of */
	uint32_t *touched;	 /* files whose count changed in this step */
	size_t n_touched, cap_touched;
	uint32_t step;
};
int pf_file_set_init(struct pf_file_set *s);
void pf_file_set_release(struct pf_file_set *s);

/* Index of the file, or -ENOENT. */
int64_t pf_file_set_find(const struct pf_file_set *s, uint32_t base, const char *path);

/* The same, added if it is new: cls, own, optional and said as in `new`, no interval. */
int64_t pf_file_set_add(struct pf_file_set *s, uint32_t base, const char *path, const struct pf_surveyed_file *new);

/* Make room for n files in all, at once: growing step by step is a good part of the cost of many. 0 or -ENOMEM. */
int pf_file_set_reserve(struct pf_file_set *s, size_t n);

/*
 * One step: begin; count references of the version up and down (what it has in common with the one before need not be told); then settle, or take
 * all of it back. `before` is the version kept just below, 0 if there is none.
 */
void pf_file_set_begin(struct pf_file_set *s);
int pf_file_set_count(struct pf_file_set *s, size_t file, int by);
int pf_file_set_clear(struct pf_file_set *s); /* all counts to zero: the whole version is going to be told */
int pf_file_set_settle(struct pf_file_set *s, uint64_t version, uint64_t before);
void pf_file_set_undo(struct pf_file_set *s);

/* That `version` alone, just now, refers to the file: of manifests and transactions, which are not counted. */
int pf_file_set_at(struct pf_file_set *s, size_t file, uint64_t version, uint64_t before);

/* Give folders of sidecars the intervals of their data files, after those changed. */
void pf_file_set_follow(struct pf_file_set *s);

/* Versions, ascending. */
struct pf_version_list {
	const uint64_t *v;
	size_t n;
};

/*
 * Keep of each interval what the versions `kept` have of it, and drop files that none of them refers to. Damaged versions are not among them, as nobody
 * knows what they refer to: of those only the manifest is kept, `damaged`. map[i] is the new index of file i, SIZE_MAX if it is gone; malloc'ed,
 * the caller's.
 */
int pf_file_set_prune(struct pf_file_set *s, struct pf_version_list kept, struct pf_version_list damaged, size_t **map);

#endif
