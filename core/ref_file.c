#include "ref_file.h"

#include <stdio.h>
#include <string.h>

/* What a crash leaves here under such a name, Lance's cleanup collects; nowhere in _refs/ does it collect anything (design: section 1). */
#define TEMPORARY "_transactions"

/* A call that is interrupted each time it is made is not interrupted. */
#define TRIES_MAX 10

static bool is_ref_file(const char *name)
{
	size_t len = strlen(name);

	return len >= strlen(PF_REF_SUFFIX) && strcmp(name + len - strlen(PF_REF_SUFFIX), PF_REF_SUFFIX) == 0;
}

struct finder {
	struct pf_store *st;
	const char *dir; /* being listed */
	unsigned depth;	 /* levels left below it */
	bool flat;	 /* directories are nobody's */
	struct pf_ref_files *files;
};

static int add_file(void *arg, const char *name, bool is_dir);

static int list_dir(struct finder *f, const char *dir)
{
	const char *outer = f->dir;

	f->dir = dir;
	f->depth--;
	int r = pf_store_list(f->st, dir, add_file, f);
	f->depth++;
	f->dir = outer;
	return r == -ENOENT ? 0 : r;
}

static int add_file(void *arg, const char *name, bool is_dir)
{
	struct finder *f = arg;
	_cleanup_(pf_freep) char *path = NULL;

	/* A directory with the name of a ref file is taken for one: reading it says that it is none. */
	bool is_file = is_ref_file(name);
	if (!is_file && (!is_dir || f->flat))
		return 0;
	if (asprintf(&path, "%s/%s", f->dir, name) < 0)
		return path = NULL, -ENOMEM;
	if (!is_file)
		return f->depth > 0 ? list_dir(f, path) : -ELOOP;
	char **v = reallocarray(f->files->v, f->files->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	f->files->v = v;
	v[f->files->n++] = STEAL(path);
	return 0;
}

static int cmp_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void pf_ref_files_release(struct pf_ref_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->v[i]);
	free(f->v);
	*f = (struct pf_ref_files){ NULL };
}

int pf_ref_files_find(struct pf_store *st, const char *dir, unsigned depth, struct pf_ref_files *out,
		      struct pf_why *why)
{
	_cleanup_(pf_ref_files_release) struct pf_ref_files files = { NULL };
	struct finder f = { .st = st, .depth = depth, .flat = depth == 1, .files = &files };

	int r = list_dir(&f, dir);
	if (r == -ELOOP)
		return pf_why_set(why, -EBADMSG, "%s: expected at most %u directories inside each other", dir, depth);
	if (r < 0)
		return pf_why_set(why, r, "%s: %s", dir, strerror(-r));
	if (files.n > 0)
		qsort(files.v, files.n, sizeof(*files.v), cmp_paths);
	*out = files;
	files = (struct pf_ref_files){ NULL };
	return 0;
}

void pf_ref_json_release(json_t **j)
{
	json_decref(*j);
}

int pf_ref_load(struct pf_store *st, const char *file, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, json = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	json_error_t error;

	int r = pf_store_get(st, file, PF_REF_FILE_MAX, &text);
	if (r == -EFBIG)
		return pf_why_set(why, -EBADMSG, "expected at most %d bytes", PF_REF_FILE_MAX);
	if (r == -EISDIR)
		return pf_why_set(why, -EBADMSG, "expected a file, found a directory");
	if (r < 0)
		return r;
	if (text.len == 0)
		return pf_why_set(why, -EBADMSG, "offset 0: expected a JSON object, found an empty file");
	r = pf_text_quote_large((const char *)text.data, text.len, &json);
	if (r < 0)
		return r;
	json_t *j = json_loadb((const char *)json.data, json.len, JSON_REJECT_DUPLICATES, &error);
	if (!j)
		return pf_why_set(why, -EBADMSG, "offset %d: expected a JSON object: %s", error.position,
				  pf_text_quote(error.text, strlen(error.text), quoted));
	if (!json_is_object(j)) {
		json_decref(j);
		return pf_why_set(why, -EBADMSG, "offset 0: expected a JSON object");
	}
	*out = j;
	return 0;
}

/* Is `file` the one that was written as `temp`, whatever was reported of the link? */
static bool is_linked(struct pf_store *st, const char *temp, const char *file)
{
	struct pf_stat a, b;

	return pf_store_stat(st, temp, &a) == 0 && pf_store_stat(st, file, &b) == 0 && pf_stat_same(&a, &b);
}

int pf_ref_put(struct pf_store *st, const char *dir, const char *file, const struct pf_buf *text)
{
	char random[PF_UUID_TEXT], temp[sizeof(TEMPORARY "/.tmp.txn") + PF_UUID_TEXT];
	struct pf_uuid u;

	pf_uuid_new(&u);
	pf_uuid_format(&u, random);
	snprintf(temp, sizeof(temp), TEMPORARY "/.tmp%s.txn", random);
	int r = pf_store_mkdir(st, dir);
	if (r == 0)
		r = pf_store_mkdir(st, TEMPORARY);
	if (r < 0)
		return r;
	r = pf_store_write_new(st, temp, text->data, text->len, true);
	if (r == 0)
		r = pf_store_link(st, temp, file);
	if (r < 0 && is_linked(st, temp, file))
		r = 0;
	pf_store_unlink(st, temp);
	return r < 0 ? r : pf_store_sync_dir(st, dir);
}

int pf_ref_remove(struct pf_store *st, const char *dir, const char *file)
{
	struct pf_stat found;
	int r = pf_store_unlink(st, file);

	for (int i = 1; r == -EINTR && i < TRIES_MAX; i++) {
		r = pf_store_unlink(st, file);
		/* By the try that was interrupted. */
		if (r == -ENOENT)
			r = 0;
	}
	/* It took effect, whatever was reported. */
	if (r < 0 && r != -ENOENT && pf_store_stat(st, file, &found) == -ENOENT)
		r = 0;
	return r < 0 ? r : pf_store_sync_dir(st, dir);
}

void pf_ref_time(struct pf_time t, char out[PF_TIME_TEXT])
{
	pf_time_format((struct pf_time){ .sec = t.sec }, out);
	snprintf(out + strlen(out) - 1, PF_TIME_TEXT - (strlen(out) - 1), ".%09dZ", (int)t.nsec);
}

int pf_ref_u64(const json_t *o, const char *key, uint64_t *out, struct pf_why *why)
{
	const json_t *v = json_object_get(o, key);

	/* Above 2^63 - 1: pf_ref_load. */
	if (json_is_string(v) && pf_u64_parse(json_string_value(v), json_string_length(v), out) == 0 &&
	    *out > INT64_MAX)
		return 0;
	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return pf_why_set(why, -EBADMSG, "expected \"%s\" to be a whole number of 64 bits", key);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

int pf_ref_string(const json_t *o, const char *key, char **out, struct pf_why *why)
{
	const json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return pf_why_set(why, -EBADMSG, "expected \"%s\" to be text", key);
	*out = strdup(json_string_value(v));
	return *out ? 0 : -ENOMEM;
}

int pf_ref_branch(const json_t *o, const char *key, char **out, struct pf_why *why)
{
	int r = pf_ref_string(o, key, out, why);

	if (r == 0 && *out && (strcmp(*out, "main") == 0 || !**out)) {
		free(*out);
		*out = NULL;
	}
	return r;
}

int pf_ref_metadata(json_t *o, const json_t **out, struct pf_why *why)
{
	json_t *v = json_object_get(o, "metadata"), *member;
	const char *key;

	*out = NULL;
	if (!v)
		return 0;
	if (!json_is_object(v))
		return pf_why_set(why, -EBADMSG, "expected \"metadata\" to be an object");
	json_object_foreach(v, key, member)
	{
		if (!json_is_string(member))
			return pf_why_set(why, -EBADMSG, "expected the members of \"metadata\" to be text");
	}
	*out = v;
	return 0;
}

int pf_ref_name(const char *path, char **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;

	int r = pf_percent_decode(path, strlen(path) - strlen(PF_REF_SUFFIX), &name, NULL);
	if (r == 0)
		r = pf_label_check((char *)name.data, name.len, NULL);
	if (r == -ENOMEM)
		return r;
	if (r < 0)
		return pf_why_set(why, -EBADMSG, "expected the file's name to be a percent-encoded ref name");
	const char *s = pf_buf_str(&name);
	*out = s ? strdup(s) : NULL;
	return *out ? 0 : -ENOMEM;
}

int pf_ref_blame(const char *file, int err, const struct pf_why *inner, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "%s: %s", pf_text_quote(file, strlen(file), quoted),
			  inner->text[0] ? inner->text : strerror(-err));
}

int pf_ref_bad(const char *file, int err, const struct pf_why *inner, pf_ref_bad_fn bad, void *arg, struct pf_why *why)
{
	struct pf_why text = PF_WHY_INIT;

	if (!bad || err == -ENOMEM)
		return pf_ref_blame(file, err, inner, why);
	pf_ref_blame(file, err, inner, &text);
	return bad(arg, file, text.text);
}
