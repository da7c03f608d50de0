#include "refs.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#define TAGS	 "_refs/tags"
#define BRANCHES "_refs/branches"
#define SUFFIX	 ".json"
#define ID_LEN	 (PF_BRANCH_ID_TEXT - 1)

/* What Lance reads as "no identifier" where an id should be. */
#define NO_ID "00000000000000000000000000000000"

/* A branch name of more segments than this is a loop of links. */
#define DEPTH_MAX 64

static void json_release(json_t **j)
{
	json_decref(*j);
}

void pf_tag_release(struct pf_tag *t)
{
	free(t->name);
	free(t->branch);
	free(t->created_at);
	free(t->updated_at);
	free(t->metadata);
	*t = (struct pf_tag){ 0 };
}

void pf_tags_release(struct pf_tags *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_tag_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_tags){ 0 };
}

void pf_branch_ref_release(struct pf_branch_ref *r)
{
	free(r->name);
	free(r->parent);
	free(r->mapping_version);
	free(r->mapping_id);
	free(r->file);
	*r = (struct pf_branch_ref){ 0 };
}

void pf_branch_refs_release(struct pf_branch_refs *l)
{
	for (size_t i = 0; i < l->n; i++)
		pf_branch_ref_release(&l->v[i]);
	free(l->v);
	*l = (struct pf_branch_refs){ 0 };
}

/* The JSON object in `file`. Of a name twice in one object nobody can say which counts, so that is damage. */
static int load(struct pf_store *st, const char *file, json_t **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	json_error_t error;

	int r = pf_store_get(st, file, PF_REF_FILE_MAX, &text);
	if (r == -EFBIG)
		return pf_why_set(why, -EBADMSG, "expected at most %d bytes", PF_REF_FILE_MAX);
	if (r == -EISDIR)
		return pf_why_set(why, -EBADMSG, "expected a file, found a directory");
	if (r < 0)
		return r;
	json_t *j = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
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

/* A member that Lance requires and that is not negative there. */
static int take_u64(const json_t *o, const char *key, uint64_t *out, struct pf_why *why)
{
	const json_t *v = json_object_get(o, key);

	if (!json_is_integer(v) || json_integer_value(v) < 0)
		return pf_why_set(why, -EBADMSG, "expected \"%s\" to be a whole number from 0 to 2^63-1", key);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

/* NULL if absent or null. */
static int take_string(const json_t *o, const char *key, char **out, struct pf_why *why)
{
	const json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return pf_why_set(why, -EBADMSG, "expected \"%s\" to be text", key);
	*out = strdup(json_string_value(v));
	return *out ? 0 : -ENOMEM;
}

/* A branch that is named or not: Lance writes null for main, but its name and nothing at all can mean nothing else. */
static int take_branch(const json_t *o, const char *key, char **out, struct pf_why *why)
{
	int r = take_string(o, key, out, why);

	if (r == 0 && *out && (strcmp(*out, "main") == 0 || !**out)) {
		free(*out);
		*out = NULL;
	}
	return r;
}

static int check_metadata(json_t *o, const json_t **out, struct pf_why *why)
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

/* The name that a ref file stands for: its path below `_refs/x/`, decoded, without the suffix. */
static int take_name(const char *path, char **out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf name = PF_BUF_INIT;

	int r = pf_percent_decode(path, strlen(path) - strlen(SUFFIX), &name, NULL);
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

static bool is_ref_file(const char *name)
{
	size_t len = strlen(name);

	return len >= strlen(SUFFIX) && strcmp(name + len - strlen(SUFFIX), SUFFIX) == 0;
}

static int join(const char *dir, const char *name, char **out)
{
	return asprintf(out, "%s/%s", dir, name) < 0 ? (*out = NULL, -ENOMEM) : 0;
}

/* "<file>: <sentence>", for whatever went wrong with one ref file. */
static int blame(const char *file, int err, const struct pf_why *inner, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "%s: %s", pf_text_quote(file, strlen(file), quoted),
			  inner->text[0] ? inner->text : strerror(-err));
}

static int read_tag(struct pf_store *st, const char *file, const char *base, struct pf_tag *out, struct pf_why *why)
{
	_cleanup_(json_release) json_t *j = NULL;
	_cleanup_(pf_tag_release) struct pf_tag t = { 0 };
	const json_t *metadata;

	int r = take_name(base, &t.name, why);
	if (r == 0)
		r = load(st, file, &j, why);
	if (r == 0)
		r = take_branch(j, "branch", &t.branch, why);
	if (r == 0)
		r = take_u64(j, "version", &t.version, why);
	if (r == 0)
		r = take_u64(j, "manifestSize", &t.manifest_size, why);
	if (r == 0)
		r = take_string(j, "createdAt", &t.created_at, why);
	if (r == 0)
		r = take_string(j, "updatedAt", &t.updated_at, why);
	if (r == 0)
		r = check_metadata(j, &metadata, why);
	if (r < 0)
		return r;
	if (metadata && !(t.metadata = json_dumps(metadata, 0)))
		return -ENOMEM;
	*out = t;
	t = (struct pf_tag){ 0 };
	return 0;
}

int pf_tag_read(struct pf_store *st, const char *name, struct pf_tag *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_buf_addstr(&file, TAGS "/");
	if (r == 0)
		r = pf_percent_encode(name, strlen(name), &file);
	if (r == 0)
		r = pf_buf_addstr(&file, SUFFIX);
	const char *path = r == 0 ? pf_buf_str(&file) : NULL;
	if (!path)
		return -ENOMEM;
	r = read_tag(st, path, path + strlen(TAGS "/"), out, &inner);
	if (r == -ENOENT)
		return pf_why_set(why, r, "no such tag: %s is missing", path);
	return r < 0 ? blame(path, r, &inner, why) : 0;
}

struct listing {
	struct pf_store *st;
	struct pf_tags *tags;
	struct pf_branch_refs *branches;
	const char *dir; /* being listed */
	unsigned depth;	 /* of dir below BRANCHES */
	struct pf_why *why;
};

static int add_tag(void *arg, const char *name, bool is_dir)
{
	struct listing *l = arg;
	_cleanup_(pf_freep) char *file = NULL;
	struct pf_why inner = PF_WHY_INIT;

	/* Not is_dir: a directory where a tag should be is damage, and reading it says so. */
	if (!is_ref_file(name))
		return 0;
	struct pf_tag *v = realloc(l->tags->v, (l->tags->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->tags->v = v;
	int r = join(TAGS, name, &file);
	if (r < 0)
		return r;
	r = read_tag(l->st, file, name, &v[l->tags->n], &inner);
	if (r == -ENOENT)
		return 0; /* deleted since it was listed */
	if (r < 0)
		return blame(file, r, &inner, l->why);
	l->tags->n++;
	return 0;
}

static int cmp_tags(const void *a, const void *b)
{
	const struct pf_tag *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int pf_tags_list(struct pf_store *st, struct pf_tags *out, struct pf_why *why)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
	struct listing l = { .st = st, .tags = &tags, .why = why };

	int r = pf_store_list(st, TAGS, add_tag, &l);
	if (r < 0 && r != -ENOENT)
		return pf_why_default(why, r, TAGS ": %s", strerror(-r));
	if (tags.n > 0)
		qsort(tags.v, tags.n, sizeof(*tags.v), cmp_tags);
	*out = tags;
	tags = (struct pf_tags){ 0 };
	return 0;
}

int pf_branch_name_check(const char *name, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf shown = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];
	size_t len = strlen(name);
	const char *fault = NULL;

	pf_text_quote(name, len, quoted);
	int r = pf_text_escape(name, len, &shown);
	if (r < 0)
		return r;
	if (len == 0)
		fault = "is empty";
	else if (len > PF_LABEL_MAX)
		fault = "is longer than 255 bytes";
	else if (strcmp(name, "main") == 0)
		fault = "is taken by the main line";
	else if (name[0] == '/' || name[len - 1] == '/' || strstr(name, "//"))
		fault = "has an empty segment";
	else if (strstr(name, ".."))
		fault = "has two dots in a row";
	else if (len >= 5 && strcmp(name + len - 5, ".lock") == 0)
		fault = "ends in .lock";
	/* Lance takes letters and digits of every script; what does not show, or is not UTF-8, is neither. */
	else if (shown.len != len || memcmp(shown.data, name, len) != 0)
		fault = "has characters that do not show";
	for (const char *p = name; !fault && *p; p++)
		if (!(*p & 0x80) && !isalnum((unsigned char)*p) && !strchr("/.-_", *p))
			fault = "has characters other than letters, digits, '.', '-', '_' and '/'";
	return fault ? pf_why_set(why, -EINVAL, "the branch name %s %s", quoted, fault) : 0;
}

/* The id Lance 14 makes up for a branch whose file has none: two FNV-1a hashes of what is known of it. */
static uint64_t fnv1a(const char *s, uint64_t seed)
{
	for (; *s; s++)
		seed = (seed ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
	return seed;
}

static int synthesise_id(struct pf_branch_ref *b, const char *stored_parent)
{
	const uint64_t basis = UINT64_C(0xcbf29ce484222325), twist = UINT64_C(0x9e3779b97f4a7c15);
	_cleanup_(pf_freep) char *text = NULL;

	if (asprintf(&text, "branch_name=%s\nparent_branch=%s\nparent_version=%" PRIu64 "\ncreate_at=%" PRId64, b->name,
		     stored_parent, b->parent_version, b->created_at) < 0)
		return text = NULL, -ENOMEM;
	snprintf(b->id, sizeof(b->id), "%016" PRIx64 "%016" PRIx64, fnv1a(text, basis), fnv1a(text, basis ^ twist));
	b->synthetic_id = true;
	return 0;
}

static int take_mapping(const json_t *identifier, struct pf_branch_ref *b, struct pf_why *why)
{
	const json_t *list = json_object_get(identifier, "version_mapping"), *pair;
	size_t n = json_array_size(list), i;

	if (n == 0)
		return pf_why_set(
			why, -EBADMSG,
			"expected \"identifier\" to hold a \"version_mapping\" of at least one [version, id]");
	b->mapping_version = calloc(n, sizeof(*b->mapping_version));
	b->mapping_id = calloc(n, sizeof(*b->mapping_id));
	if (!b->mapping_version || !b->mapping_id)
		return -ENOMEM;
	json_array_foreach(list, i, pair)
	{
		const json_t *version = json_array_get(pair, 0);
		const char *id = json_string_value(json_array_get(pair, 1));

		if (json_array_size(pair) != 2 || !json_is_integer(version) || json_integer_value(version) < 0 || !id ||
		    strlen(id) != ID_LEN || strspn(id, "0123456789abcdefABCDEF") != ID_LEN)
			return pf_why_set(why, -EBADMSG,
					  "expected item %zu of \"version_mapping\" to be a version and %d hex digits",
					  i, ID_LEN);
		b->mapping_version[i] = (uint64_t)json_integer_value(version);
		snprintf(b->mapping_id[i], sizeof(b->mapping_id[i]), "%s", id);
	}
	b->n_mapping = n;
	snprintf(b->id, sizeof(b->id), "%s", b->mapping_id[n - 1]);
	return 0;
}

static int take_identifier(const json_t *j, struct pf_branch_ref *b, struct pf_why *why)
{
	const json_t *identifier = json_object_get(j, "identifier");
	const char *parent = json_string_value(json_object_get(j, "parentBranch"));

	if (identifier) {
		int r = take_mapping(identifier, b, why);
		if (r < 0)
			return r;
	}
	if (!identifier || (b->n_mapping == 1 && b->mapping_version[0] == 0 && strcmp(b->id, NO_ID) == 0))
		return synthesise_id(b, parent ? parent : "");
	return 0;
}

static int read_branch(struct pf_store *st, const char *file, struct pf_branch_ref *out, struct pf_why *why)
{
	_cleanup_(json_release) json_t *j = NULL;
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref b = { 0 };
	const json_t *metadata;
	uint64_t created, size;

	b.file = strdup(file);
	int r = b.file ? take_name(file + strlen(BRANCHES "/"), &b.name, why) : -ENOMEM;
	if (r == 0 && pf_branch_name_check(b.name, why) < 0)
		r = -EBADMSG;
	if (r == 0)
		r = load(st, file, &j, why);
	if (r == 0)
		r = take_branch(j, "parentBranch", &b.parent, why);
	if (r == 0)
		r = take_u64(j, "parentVersion", &b.parent_version, why);
	if (r == 0)
		r = take_u64(j, "createAt", &created, why);
	if (r == 0)
		r = take_u64(j, "manifestSize", &size, why);
	if (r == 0)
		r = check_metadata(j, &metadata, why);
	if (r < 0)
		return r;
	b.created_at = (int64_t)created;
	r = take_identifier(j, &b, why);
	if (r < 0)
		return r;
	*out = b;
	b = (struct pf_branch_ref){ 0 };
	return 0;
}

static int add_branch(void *arg, const char *name, bool is_dir);

static int list_branches(struct listing *l, const char *dir)
{
	const char *outer = l->dir;

	if (l->depth == DEPTH_MAX)
		return pf_why_set(l->why, -EBADMSG, BRANCHES ": expected at most %d directories inside each other",
				  DEPTH_MAX);
	l->dir = dir;
	l->depth++;
	int r = pf_store_list(l->st, dir, add_branch, l);
	l->depth--;
	l->dir = outer;
	return r;
}

static int add_branch(void *arg, const char *name, bool is_dir)
{
	struct listing *l = arg;
	_cleanup_(pf_freep) char *file = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = join(l->dir, name, &file);
	if (r < 0)
		return r;
	if (is_dir && !is_ref_file(name)) {
		/* Adapters that do not encode names store `a/b.json` for the branch a/b. */
		r = list_branches(l, file);
		return r == -ENOENT ? 0 : r;
	}
	if (!is_ref_file(name))
		return 0;
	struct pf_branch_ref *v = realloc(l->branches->v, (l->branches->n + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->branches->v = v;
	r = read_branch(l->st, file, &v[l->branches->n], &inner);
	if (r == -ENOENT)
		return 0; /* deleted since it was listed */
	if (r < 0)
		return blame(file, r, &inner, l->why);
	l->branches->n++;
	return 0;
}

static int cmp_branches(const void *a, const void *b)
{
	const struct pf_branch_ref *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int two_files(const char *a, const char *b, const char *name, struct pf_why *why)
{
	char qa[PF_QUOTE_TEXT], qb[PF_QUOTE_TEXT];

	return pf_why_set(why, -EBADMSG, "expected one file for the branch %s, found %s and %s", name,
			  pf_text_quote(a, strlen(a), qa), pf_text_quote(b, strlen(b), qb));
}

int pf_branches_list(struct pf_store *st, struct pf_branch_refs *out, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { 0 };
	struct listing l = { .st = st, .branches = &refs, .why = why };

	int r = list_branches(&l, BRANCHES);
	if (r < 0 && r != -ENOENT)
		return pf_why_default(why, r, BRANCHES ": %s", strerror(-r));
	if (refs.n > 0)
		qsort(refs.v, refs.n, sizeof(*refs.v), cmp_branches);
	for (size_t i = 1; i < refs.n; i++)
		if (strcmp(refs.v[i - 1].name, refs.v[i].name) == 0)
			return two_files(refs.v[i - 1].file, refs.v[i].file, refs.v[i].name, why);
	*out = refs;
	refs = (struct pf_branch_refs){ 0 };
	return 0;
}

/* The two names that the ref file of `name` may have; nested is NULL if they are one. */
static int ref_files(const char *name, char **encoded, char **nested)
{
	_cleanup_(pf_buf_release) struct pf_buf one = PF_BUF_INIT, two = PF_BUF_INIT;

	int r = pf_buf_addstr(&one, BRANCHES "/");
	if (r == 0)
		r = pf_percent_encode(name, strlen(name), &one);
	if (r == 0)
		r = pf_buf_addstr(&one, SUFFIX);
	if (r == 0)
		r = pf_buf_addf(&two, BRANCHES "/%s" SUFFIX, name);
	if (r < 0)
		return r;
	const char *a = pf_buf_str(&one), *b = pf_buf_str(&two);
	if (!a || !b || !(*encoded = strdup(a)))
		return -ENOMEM;
	if (strcmp(a, b) == 0)
		return 0;
	*nested = strdup(b);
	return *nested ? 0 : -ENOMEM;
}

int pf_branch_ref_read(struct pf_store *st, const char *name, struct pf_branch_ref *out, struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 }, other = { 0 };
	_cleanup_(pf_freep) char *encoded = NULL, *nested = NULL;
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_branch_name_check(name, why);
	if (r == 0)
		r = ref_files(name, &encoded, &nested);
	if (r < 0)
		return r;
	r = read_branch(st, encoded, &ref, &inner);
	if (r < 0 && r != -ENOENT)
		return blame(encoded, r, &inner, why);
	if (nested) {
		int n = read_branch(st, nested, &other, &inner);
		if (n < 0 && n != -ENOENT && n != -ENOTDIR)
			return blame(nested, n, &inner, why);
		if (n == 0 && r == 0)
			return two_files(encoded, nested, name, why);
		if (n == 0) {
			ref = other;
			other = (struct pf_branch_ref){ 0 };
			r = 0;
		}
	}
	if (r < 0)
		return pf_why_set(why, r, "no branch %s: %s is missing", name, encoded);
	*out = ref;
	ref = (struct pf_branch_ref){ 0 };
	return 0;
}
