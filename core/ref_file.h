/*
 * Ref files as JSON, for tags.c and refs.c: find them, load one, take its members. Sentences say what was expected; pf_ref_blame puts the file
 * before them.
 */
#ifndef PF_REF_FILE_H
#define PF_REF_FILE_H

#include <jansson.h>

#include "refs.h"

#define PF_REF_SUFFIX ".json"

/* Paths in the store, sorted: what is said of them comes in a stable order. */
struct pf_ref_files {
	char **v;
	size_t n;
};
void pf_ref_files_release(struct pf_ref_files *f);

/* The ref files in `dir`, and in up to `depth` - 1 levels of directories in it: more of them are -EBADMSG. Other files are left out. */
int pf_ref_files_find(struct pf_store *st, const char *dir, unsigned depth, struct pf_ref_files *out,
		      struct pf_why *why);

/* The JSON object in `file`. -ENOENT: gone. -EBADMSG: not JSON, a member twice (nobody can say which counts), too long, a directory. */
int pf_ref_load(struct pf_store *st, const char *file, json_t **out, struct pf_why *why);
void pf_ref_json_release(json_t **j);

/*
 * Put a new ref file under `dir`, "_refs/tags" or "_refs/branches", complete before it has its name: Lance cannot list any while one is half written. 0:
 * it is there, durable. -EEXIST: somebody else was first. After any other error it may be there all the same: read it.
 */
int pf_ref_put(struct pf_store *st, const char *dir, const char *file, const struct pf_buf *text);

/* Remove one, durably. -ENOENT: it is not there. After any other error it may be gone all the same. */
int pf_ref_remove(struct pf_store *st, const char *dir, const char *file);

/* As Lance writes the times of a ref, with all nine digits: "2026-01-02T03:04:05.000000000Z". */
void pf_ref_time(struct pf_time t, char out[PF_TIME_TEXT]);

/* Members. Numbers must be there and not negative; a string that is null or absent is NULL. */
int pf_ref_u64(const json_t *o, const char *key, uint64_t *out, struct pf_why *why);
int pf_ref_string(const json_t *o, const char *key, char **out, struct pf_why *why);

/* A branch: NULL for main, which Lance writes as null; its name and nothing at all can mean nothing else. */
int pf_ref_branch(const json_t *o, const char *key, char **out, struct pf_why *why);

/* `metadata`, an object of strings: borrowed, NULL if absent. */
int pf_ref_metadata(json_t *o, const json_t **out, struct pf_why *why);

/* The name that a ref file stands for: `path` below its directory, decoded, without the suffix. */
int pf_ref_name(const char *path, char **out, struct pf_why *why);

/* "<file>: <sentence>". Returns err. */
int pf_ref_blame(const char *file, int err, const struct pf_why *inner, struct pf_why *why);

/* The same for one file of several: told to `bad` if there is one, whose answer is returned. */
int pf_ref_bad(const char *file, int err, const struct pf_why *inner, pf_ref_bad_fn bad, void *arg, struct pf_why *why);

#endif
