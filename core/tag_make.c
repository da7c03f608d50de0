#include "tag_make.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guard.h"
#include "ref_file.h"

#define TAGS "_refs/tags"

static char *file_of(const char *name)
{
	char *file;

	return asprintf(&file, TAGS "/%s" PF_REF_SUFFIX, name) < 0 ? NULL : file;
}

int pf_tag_render(const struct pf_tag_text *t, struct pf_buf *out)
{
	const char *quote = t->branch ? "\"" : "";
	char time[PF_TIME_TEXT];

	pf_ref_time(t->created, time);
	return pf_buf_addf(out,
			   "{\n"
			   "  \"branch\": %s%s%s,\n"
			   "  \"version\": %" PRIu64 ",\n"
			   "  \"createdAt\": \"%s\",\n"
			   "  \"updatedAt\": \"%s\",\n"
			   "  \"manifestSize\": %" PRIu64 ",\n"
			   "  \"metadata\": %s\n"
			   "}",
			   quote, t->branch ? t->branch : "null", quote, t->version, time, time, t->manifest_size,
			   t->metadata);
}

int pf_tag_put(struct pf_store *st, const struct pf_tag_text *t)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	_cleanup_(pf_freep) char *file = file_of(t->name);

	int r = file ? pf_tag_render(t, &text) : -ENOMEM;
	return r < 0 ? r : pf_ref_put(st, TAGS, file, &text);
}

int pf_tag_name_check(const char *name, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	size_t len = strlen(name);
	const char *fault = NULL;
	struct pf_uuid pin;

	if (len == 0)
		fault = "is empty";
	else if (len > PF_LABEL_MAX - strlen(PF_REF_SUFFIX))
		fault = "is longer than 250 bytes";
	else if (name[0] == '.' || name[len - 1] == '.')
		fault = "begins or ends with a dot";
	else if (strstr(name, ".."))
		fault = "has two dots in a row";
	else if (len >= 5 && strcmp(name + len - 5, ".lock") == 0)
		fault = "ends in .lock";
	for (const char *p = name; !fault && *p; p++)
		if ((*p & 0x80) || (!isalnum((unsigned char)*p) && !strchr(".-_", *p)))
			fault = "has characters other than ASCII letters and digits, '.', '-' and '_'";
	pf_text_quote(name, len, quoted);
	if (!fault && pf_guard_name_parse(name, &pin))
		return pf_why_set(
			why, -EINVAL,
			"the tag %s guards the pin of that id, and comes and goes with it: use `pinctl register` "
			"and `pinctl release`",
			quoted);
	return fault ? pf_why_set(why, -EINVAL, "the tag name %s %s", quoted, fault) : 0;
}

/* What has the name now. 1: the tag that was to be made, 0: nothing, -EEXIST: another, or as reading fails. */
static int look(struct pf_branch *b, const char *name, uint64_t version, struct pf_time now, struct pf_why *why)
{
	_cleanup_(pf_tag_release) struct pf_tag t = { 0 };
	char time[PF_TIME_TEXT];

	int r = pf_tag_read(pf_branch_store(b), name, &t, why);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	pf_ref_time(now, time);
	const char *ours = pf_branch_name(b);
	if (t.version == version && t.created_at && strcmp(t.created_at, time) == 0 && !t.branch == !ours &&
	    (!ours || strcmp(t.branch, ours) == 0))
		return 1;
	return pf_why_set(why, -EEXIST,
			  "there is a tag %s already: version %" PRIu64 " of %s. Delete it first to move it", name,
			  t.version, t.branch ? t.branch : "main");
}

/* What was tagged is still there: whoever removes it from now on sees the tag first. Else the tag goes again. */
static int check_source(struct pf_branch *b, const char *id, const struct pf_tag_text *t, struct pf_why *why)
{
	_cleanup_(pf_freep) char *file = file_of(t->name);
	char now[PF_BRANCH_ID_TEXT];
	struct pf_why inner = PF_WHY_INIT;
	struct pf_stat found;

	int r = pf_branch_id(b, now, &inner);
	if (r == 0 && strcmp(now, id) != 0)
		r = pf_why_set(&inner, -ENOENT, "the branch %s was deleted meanwhile, and made again", t->branch);
	if (r == 0)
		r = pf_branch_stat(b, t->version, &found, &inner);
	if (r == 0)
		return 0;
	int gone = file ? pf_ref_remove(pf_branch_store(b), TAGS, file) : -ENOMEM;
	if (gone < 0 && gone != -ENOENT)
		return pf_why_set(why, -EINPROGRESS, "the tag %s was made, and may be of no use: %s", t->name,
				  inner.text);
	return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
}

int pf_tag_create(struct pf_branch *b, const char *name, uint64_t version, struct pf_time now, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *m = NULL;
	struct pf_why inner = PF_WHY_INIT;
	char id[PF_BRANCH_ID_TEXT];

	int r = pf_tag_name_check(name, why);
	if (r == 0)
		r = pf_branch_id(b, id, why);
	if (r == 0)
		r = pf_branch_version(b, version, &m, why);
	if (r < 0)
		return r;
	const struct pf_tag_text t = { name, pf_branch_name(b), version, m->st.size, now, "{}" };
	int put = pf_tag_put(pf_branch_store(b), &t);
	if (put == 0)
		return check_source(b, id, &t, why);
	r = look(b, name, version, now, &inner);
	if (r == -EEXIST || (put == -EEXIST && r < 0))
		return pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r));
	if (r > 0 && pf_store_sync_dir(pf_branch_store(b), TAGS) == 0)
		return check_source(b, id, &t, why);
	if (r == 0 && put != -EEXIST)
		return pf_why_set(why, put, "cannot make the tag %s: %s", name, strerror(-put));
	/* It was there, and is gone again. */
	if (r == 0)
		return pf_why_set(why, -EAGAIN, "somebody else made and removed a tag %s meanwhile: try again", name);
	return pf_why_set(
		why, -EINPROGRESS,
		"the tag %s may or may not have been made: %s. `pinctl tag ls` tells when storage works again", name,
		strerror(-put));
}

int pf_tag_delete(struct pf_store *st, const char *name, struct pf_why *why)
{
	_cleanup_(pf_freep) char *file = file_of(name);
	struct pf_stat found;

	int r = pf_tag_name_check(name, why);
	if (r < 0)
		return r;
	r = file ? pf_ref_remove(st, TAGS, file) : -ENOMEM;
	if (r == -ENOENT)
		return pf_why_set(why, r, "no tag %s: %s is missing", name, file);
	if (r < 0 && file && pf_store_stat(st, file, &found) == -ENOENT)
		return pf_why_set(why, -EINPROGRESS,
				  "the tag %s is removed, but may come back if this host fails: %s. `pinctl tag ls` "
				  "tells when storage works again",
				  name, strerror(-r));
	return r < 0 ? pf_why_set(why, r, "cannot remove %s: %s", file, strerror(-r)) : 0;
}
