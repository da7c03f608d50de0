/* What the user names of a table's history: VERSION, TAG, BRANCH or BRANCH:VERSION. */
#include "pinctl.h"

#include <string.h>

static int name_branch(const char *branch, size_t len, char **out)
{
	*out = strndup(branch, len);
	return *out ? 0 : -ENOMEM;
}

/* 1, 0, or why that cannot be told. */
static int is_branch(struct pf_store *st, const char *name, struct pf_why *why)
{
	_cleanup_(pf_branch_ref_release) struct pf_branch_ref ref = { 0 };
	struct pf_why inner = PF_WHY_INIT;

	if (strcmp(name, "main") == 0)
		return 1;
	int r = pf_branch_ref_read(st, name, &ref, &inner);
	if (r == -ENOENT || r == -EINVAL) /* there is none, or can be none */
		return 0;
	return r < 0 ? pf_why_set(why, r, "%s", inner.text[0] ? inner.text : strerror(-r)) : 1;
}

/* Without a colon, and no number: a tag or a branch, of which a tag is the one that may be missing. */
static int resolve_name(struct ctl *c, const char *name, char **branch, bool *has_version, uint64_t *version,
			struct pf_why *why)
{
	_cleanup_(pf_tag_release) struct pf_tag tag = { 0 };
	char quoted[PF_QUOTE_TEXT];

	int r = pf_tag_read(c->store, name, &tag, why);
	if (r == -ENOENT)
		return name_branch(name, strlen(name), branch);
	if (r == 0)
		r = is_branch(c->store, name, why);
	if (r < 0)
		return r;
	if (r > 0)
		return pf_why_set(why, -EINVAL,
				  "%s is a tag and a branch: name a version of the branch, as %s:VERSION, or the one "
				  "that the tag is on",
				  pf_text_quote(name, strlen(name), quoted), name);
	*has_version = true;
	*version = tag.version;
	*branch = tag.branch;
	tag.branch = NULL;
	return 0;
}

int ctl_open_point(struct ctl *c, const char *text, uint64_t *version, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_freep) char *branch = NULL;
	const char *colon = text ? strrchr(text, ':') : NULL, *number = colon ? colon + 1 : text;
	char quoted[PF_QUOTE_TEXT];
	bool has_version = text && pf_u64_parse(number, strlen(number), version) == 0;

	int r = ctl_open_store(c, why);
	if (r < 0)
		return r;
	if (colon && !has_version)
		return pf_why_set(why, -EINVAL, "%s: expected a version after the colon",
				  pf_text_quote(text, strlen(text), quoted));
	if (colon)
		r = name_branch(text, (size_t)(colon - text), &branch);
	else if (!text || has_version)
		r = c->branch_name ? name_branch(c->branch_name, strlen(c->branch_name), &branch) : 0;
	else
		r = resolve_name(c, text, &branch, &has_version, version, why);
	if (r == 0)
		r = pf_branch_open(c->store, branch, &c->branch, why);
	if (r < 0 || has_version)
		return r;
	r = pf_branch_head(c->branch, &head, why);
	if (r == 0)
		*version = head->version;
	return r;
}
