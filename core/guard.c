#include "guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "ref_file.h"
#include "request.h"
#include "tag_make.h"

#define TAGS	       "_refs/tags"
#define PREFIX	       "pinfs-"
#define GUARD_NAME_MAX (sizeof(PREFIX) + PF_UUID_TEXT)

#define KEY_PIN	      "pinfs.pin"
#define KEY_SOURCE    "pinfs.source"
#define KEY_BRANCH_ID "pinfs.branch_id"

/* A tag that is put and removed again each time it is looked at is not a race. */
#define TRIES_MAX 10

static void name_of(const struct pf_uuid *id, char out[GUARD_NAME_MAX])
{
	char text[PF_UUID_TEXT];

	pf_uuid_format(id, text);
	snprintf(out, GUARD_NAME_MAX, PREFIX "%s", text);
}

static char *file_of(const char *name)
{
	char *file;

	return asprintf(&file, TAGS "/%s.json", name) < 0 ? NULL : file;
}

void pf_guards_release(struct pf_guards *l)
{
	free(l->v);
	*l = (struct pf_guards){ 0 };
}

int pf_guard_name_parse(const char *name, struct pf_uuid *out)
{
	char again[GUARD_NAME_MAX];
	size_t prefix = strlen(PREFIX);

	if (strncmp(name, PREFIX, prefix) != 0 || pf_uuid_parse(name + prefix, strlen(name + prefix), out, NULL) < 0)
		return 0;
	name_of(out, again);
	return strcmp(name, again) == 0;
}

static int shape(const struct pf_tag *t, const char *expected, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(
		why, -EBADMSG,
		"the tag %s is not as a pin's guard tag is: expected %s. If nobody needs it, delete it with any "
		"Lance; the pin's guard tag is put again by registering the pin once more",
		pf_text_quote(t->name, strlen(t->name), quoted), expected);
}

int pf_guard_from_tag(const struct pf_tag *t, struct pf_guard *out, struct pf_why *why)
{
	json_auto_t *metadata = t->metadata ? json_loads(t->metadata, 0, NULL) : NULL;
	const char *pin = json_string_value(json_object_get(metadata, KEY_PIN));
	const char *source = json_string_value(json_object_get(metadata, KEY_SOURCE));
	const char *branch_id = json_string_value(json_object_get(metadata, KEY_BRANCH_ID));
	struct pf_guard g = { .source_version = 0 };
	struct pf_uuid named;

	/* It was JSON when the tag was read. */
	if (t->metadata && !metadata)
		return -ENOMEM;
	int ours = pf_guard_name_parse(t->name, &g.pin);
	if (!ours && !pin)
		return 0;
	if (!ours)
		return shape(t, "the name " PREFIX " and the id of the pin", why);
	if (!pin || pf_uuid_parse(pin, strlen(pin), &named, NULL) < 0 || !pf_uuid_eq(&named, &g.pin))
		return shape(t, "\"" KEY_PIN "\" in its metadata to be the id in its name", why);
	if (!source || pf_source_parse(source, strlen(source), &g.source_version, g.source_txn, NULL) < 0 ||
	    g.source_version != t->version)
		return shape(t, "\"" KEY_SOURCE "\" in its metadata to name the version that is tagged", why);
	if (!branch_id || strlen(branch_id) >= sizeof(g.branch_id) || !*branch_id != !t->branch)
		return shape(t, "\"" KEY_BRANCH_ID "\" in its metadata to be the id of its branch", why);
	memcpy(g.branch_id, branch_id, strlen(branch_id) + 1);
	*out = g;
	return 1;
}

bool pf_guard_is_of(const struct pf_guard *g, const struct pf_pin *pin)
{
	return pf_uuid_eq(&g->pin, &pin->id) && g->source_version == pin->source_version &&
	       strcmp(g->source_txn, pin->source_txn) == 0;
}

static int by_pin(const void *a, const void *b)
{
	const struct pf_guard *x = a, *y = b;

	return memcmp(&x->pin, &y->pin, sizeof(x->pin));
}

int pf_guards_list(struct pf_branch *b, struct pf_guards *out, struct pf_why *why)
{
	_cleanup_(pf_tags_release) struct pf_tags tags = { 0 };
	_cleanup_(pf_guards_release) struct pf_guards l = { 0 };
	char branch_id[PF_BRANCH_ID_TEXT];

	int r = pf_branch_id(b, branch_id, why);
	if (r == 0)
		r = pf_tags_list(pf_branch_store(b), &tags, why);
	if (r < 0)
		return r;
	l.v = calloc(tags.n ? tags.n : 1, sizeof(*l.v));
	if (!l.v)
		return -ENOMEM;
	for (size_t i = 0; i < tags.n; i++) {
		r = pf_guard_from_tag(&tags.v[i], &l.v[l.n], why);
		if (r < 0)
			return r;
		if (r > 0 && strcmp(l.v[l.n].branch_id, branch_id) == 0)
			l.n++;
	}
	qsort(l.v, l.n, sizeof(*l.v), by_pin);
	*out = l;
	l = (struct pf_guards){ 0 };
	return 0;
}

struct pf_guard *pf_guards_find(const struct pf_guards *l, const struct pf_uuid *id)
{
	struct pf_guard key = { .pin = *id };

	return l->n ? bsearch(&key, l->v, l->n, sizeof(*l->v), by_pin) : NULL;
}

/* What has the name of a guard tag now: 1 and *out, a guard tag; 0 nothing. */
static int read_guard(struct pf_store *st, const char *name, struct pf_guard *out, struct pf_why *why)
{
	_cleanup_(pf_tag_release) struct pf_tag t = { 0 };
	struct pf_why inner = PF_WHY_INIT;

	int r = pf_tag_read(st, name, &t, &inner);
	if (r == -ENOENT)
		return 0;
	if (r == 0) {
		r = pf_guard_from_tag(&t, out, &inner);
		if (r == -EBADMSG)
			r = -EEXIST;
	}
	return r < 0 ? pf_why_set(why, r, "%s", inner.text) : r;
}

/* As pf_tag_put wants it: nothing in it needs escaping. */
static int metadata_text(const struct pf_pin *pin, const char *branch_id, struct pf_buf *out)
{
	char id[PF_UUID_TEXT];

	pf_uuid_format(&pin->id, id);
	return pf_buf_addf(out,
			   "{\n"
			   "    \"" KEY_PIN "\": \"%s\",\n"
			   "    \"" KEY_SOURCE "\": \"%" PRIu64 ":%s\",\n"
			   "    \"" KEY_BRANCH_ID "\": \"%s\"\n"
			   "  }",
			   id, pin->source_version, pin->source_txn, branch_id);
}

/* -EEXIST: somebody else was first. */
static int put_tag(struct pf_branch *b, const struct pf_pin *pin, const char *name, const char *branch_id,
		   struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf metadata = PF_BUF_INIT;
	struct pf_stat source;

	int r = pf_branch_stat(b, pin->source_version, &source, NULL);
	if (r < 0)
		return pf_why_set(why, r, "the manifest of the pin's source, version %" PRIu64 ": %s",
				  pin->source_version, strerror(-r));
	r = metadata_text(pin, branch_id, &metadata);
	const char *text = r == 0 ? pf_buf_str(&metadata) : NULL;
	if (!text)
		return -ENOMEM;
	const struct pf_tag_text t = {
		name, pf_branch_name(b), pin->source_version, source.size, pin->created_at, text
	};
	return pf_tag_put(pf_branch_store(b), &t);
}

static int other_branch(const char *name, struct pf_why *why)
{
	return pf_why_set(why, -EEXIST, "the tag %s guards a pin of the same id on another branch", name);
}

int pf_guard_put(struct pf_branch *b, const struct pf_pin *pin, struct pf_why *why)
{
	_cleanup_(pf_freep) char *file = NULL;
	struct pf_store *st = pf_branch_store(b);
	char name[GUARD_NAME_MAX], branch_id[PF_BRANCH_ID_TEXT];
	struct pf_guard there;

	name_of(&pin->id, name);
	if (!(file = file_of(name)))
		return -ENOMEM;
	int r = pf_branch_id(b, branch_id, why);
	if (r < 0)
		return r;
	for (int i = 0; i < TRIES_MAX; i++) {
		r = read_guard(st, name, &there, why);
		if (r < 0)
			return r;
		if (r > 0 && strcmp(there.branch_id, branch_id) != 0)
			return other_branch(name, why);
		if (r > 0 && pf_guard_is_of(&there, pin)) {
			/* By us, if a try of ours was interrupted: it may be as new as that. */
			r = i > 0 ? pf_store_sync_dir(st, TAGS) : 0;
			break;
		}
		if (r > 0) {
			r = pf_store_unlink(st, file);
			if (r < 0 && r != -ENOENT && r != -EINTR)
				break;
		}
		r = put_tag(b, pin, name, branch_id, why);
		if (r != -EEXIST && r != -EINTR)
			break;
	}
	return r < 0 ? pf_why_default(why, r, "%s: %s", file, strerror(-r)) : 0;
}

int pf_guard_remove(struct pf_branch *b, const struct pf_uuid *id, struct pf_why *why)
{
	_cleanup_(pf_freep) char *file = NULL;
	struct pf_store *st = pf_branch_store(b);
	char name[GUARD_NAME_MAX], branch_id[PF_BRANCH_ID_TEXT];
	struct pf_guard there;

	name_of(id, name);
	if (!(file = file_of(name)))
		return -ENOMEM;
	int r = read_guard(st, name, &there, why);
	if (r <= 0)
		return r;
	r = pf_branch_id(b, branch_id, why);
	if (r < 0)
		return r;
	if (strcmp(there.branch_id, branch_id) != 0)
		return 0;
	r = pf_ref_remove(st, TAGS, file);
	/* By somebody else who released the pin. */
	if (r == -ENOENT)
		r = pf_store_sync_dir(st, TAGS);
	return r < 0 ? pf_why_set(why, r, "%s: %s", file, strerror(-r)) : 0;
}
