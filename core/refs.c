#include "ref_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BRANCHES "_refs/branches"
#define ID_LEN	 (PF_BRANCH_ID_TEXT - 1)

/* What Lance reads as "no identifier" where an id should be. */
#define NO_ID "00000000000000000000000000000000"

/* A branch name of more segments than this is a loop of links. */
#define DEPTH_MAX 64

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

int pf_branch_ref_read_as(struct pf_store *st, const char *file, const char *as, struct pf_branch_ref *out,
			  struct pf_why *why)
{
	_cleanup_(pf_ref_json_release) json_t *j = NULL;
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref b = { 0 };
	const json_t *metadata;
	uint64_t created, size;

	b.file = strdup(as);
	int r = b.file ? pf_ref_name(as + strlen(BRANCHES "/"), &b.name, why) : -ENOMEM;
	if (r == 0)
		r = pf_branch_name_check(b.name, why);
	if (r == -EINVAL)
		r = -EBADMSG;
	if (r == 0)
		r = pf_ref_load(st, file, &j, why);
	if (r == 0)
		r = pf_ref_branch(j, "parentBranch", &b.parent, why);
	if (r == 0)
		r = pf_ref_u64(j, "parentVersion", &b.parent_version, why);
	if (r == 0)
		r = pf_ref_u64(j, "createAt", &created, why);
	if (r == 0 && created > INT64_MAX)
		r = pf_why_set(why, -EBADMSG, "expected \"createAt\" to be a time in seconds");
	if (r == 0)
		r = pf_ref_u64(j, "manifestSize", &size, why);
	if (r == 0)
		r = pf_ref_metadata(j, &metadata, why);
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

static int read_branch(struct pf_store *st, const char *file, struct pf_branch_ref *out, struct pf_why *why)
{
	return pf_branch_ref_read_as(st, file, file, out, why);
}

static int cmp_branches(const void *a, const void *b)
{
	const struct pf_branch_ref *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* The same branch in `other`. */
static int two_files(const char *file, const struct pf_branch_ref *other, pf_ref_bad_fn bad, void *arg,
		     struct pf_why *why)
{
	struct pf_why inner = PF_WHY_INIT;
	char quoted[PF_QUOTE_TEXT];

	pf_why_set(&inner, -EBADMSG, "expected one file for the branch %s, found %s too", other->name,
		   pf_text_quote(other->file, strlen(other->file), quoted));
	return pf_ref_bad(file, -EBADMSG, &inner, bad, arg, why);
}

/* Sort, and of two files for one branch keep one. */
static int sort_branches(struct pf_branch_refs *refs, pf_ref_bad_fn bad, void *arg, struct pf_why *why)
{
	qsort(refs->v, refs->n, sizeof(*refs->v), cmp_branches);
	for (size_t i = 1; i < refs->n;) {
		struct pf_branch_ref *a = &refs->v[i - 1], *b = &refs->v[i];
		if (strcmp(a->name, b->name) != 0) {
			i++;
			continue;
		}
		int r = two_files(b->file, a, bad, arg, why);
		if (r)
			return r;
		pf_branch_ref_release(b);
		memmove(b, b + 1, (--refs->n - i) * sizeof(*b));
	}
	return 0;
}

int pf_branches_list(struct pf_store *st, struct pf_branch_refs *out, struct pf_why *why)
{
	return pf_branches_scan(st, NULL, NULL, out, why);
}

int pf_branches_scan(struct pf_store *st, pf_ref_bad_fn bad, void *arg, struct pf_branch_refs *out, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { NULL };
	_cleanup_(pf_ref_files_release) struct pf_ref_files files = { NULL };

	/* Below it too: adapters that do not encode names store `a/b.json` for the branch a/b. */
	int r = pf_ref_files_find(st, BRANCHES, DEPTH_MAX, &files, why);
	if (r < 0)
		return r;
	refs.v = calloc(files.n + 1, sizeof(*refs.v));
	if (!refs.v)
		return -ENOMEM;
	for (size_t i = 0; i < files.n; i++) {
		struct pf_why inner = PF_WHY_INIT;
		r = read_branch(st, files.v[i], &refs.v[refs.n], &inner);
		if (r == 0)
			refs.n++;
		else if (r != -ENOENT && (r = pf_ref_bad(files.v[i], r, &inner, bad, arg, why)))
			return r;
		/* -ENOENT: deleted since it was listed */
	}
	r = sort_branches(&refs, bad, arg, why);
	if (r)
		return r;
	*out = refs;
	refs = (struct pf_branch_refs){ NULL };
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
		r = pf_buf_addstr(&one, PF_REF_SUFFIX);
	if (r == 0)
		r = pf_buf_addf(&two, BRANCHES "/%s" PF_REF_SUFFIX, name);
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

static int pass_over(void *arg, const char *file, const char *text)
{
	return 0;
}

/* Its file may spell the name in yet another way, as "%2f": who lists the branches takes it for this one. */
static int find_ref(struct pf_store *st, const char *name, struct pf_branch_ref *out, struct pf_why *why)
{
	_cleanup_(pf_branch_refs_release) struct pf_branch_refs refs = { NULL };

	int r = pf_branches_scan(st, pass_over, NULL, &refs, why);
	for (size_t i = 0; r == 0 && i < refs.n; i++) {
		if (strcmp(refs.v[i].name, name) != 0)
			continue;
		*out = refs.v[i];
		refs.v[i] = (struct pf_branch_ref){ 0 };
		return 0;
	}
	return r < 0 ? r : -ENOENT;
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
		return pf_ref_blame(encoded, r, &inner, why);
	if (nested) {
		int n = read_branch(st, nested, &other, &inner);
		if (n < 0 && n != -ENOENT && n != -ENOTDIR)
			return pf_ref_blame(nested, n, &inner, why);
		if (n == 0 && r == 0)
			return two_files(nested, &ref, NULL, NULL, why);
		if (n == 0) {
			ref = other;
			other = (struct pf_branch_ref){ 0 };
			r = 0;
		}
	}
	if (r == -ENOENT)
		r = find_ref(st, name, &ref, &inner);
	if (r == -ENOENT)
		return pf_why_set(why, r, "no branch %s: %s is missing", name, encoded);
	if (r < 0)
		return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
	*out = ref;
	ref = (struct pf_branch_ref){ 0 };
	return 0;
}
