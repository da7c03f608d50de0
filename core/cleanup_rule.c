#include "cleanup_parts.h"

#include <stdio.h>
#include <string.h>

static const char *const class_names[PF_CLEAN_CLASSES] = {
	[PF_CLEAN_MANIFEST] = "manifest", [PF_CLEAN_DATA] = "data",
	[PF_CLEAN_DELETION] = "deletion", [PF_CLEAN_TRANSACTION] = "transaction",
	[PF_CLEAN_INDEX] = "index",	  [PF_CLEAN_MAP] = "map",
	[PF_CLEAN_OTHER] = "other",
};

const char *pf_clean_class_name(enum pf_clean_class c)
{
	return class_names[c];
}

static const char *const fate_names[PF_FATES] = {
	[PF_GOES_NAMED] = "named",	  [PF_GOES_ORPHAN] = "orphan",
	[PF_GOES_LEAK] = "leak",	  [PF_STAYS_HEAD] = "head",
	[PF_STAYS_POLICY] = "policy",	  [PF_STAYS_TAG] = "tag",
	[PF_STAYS_BRANCH] = "branch",	  [PF_STAYS_PIN] = "pin",
	[PF_STAYS_AGE] = "age",		  [PF_STAYS_PROGRESS] = "in_progress",
	[PF_STAYS_APPEARED] = "appeared", [PF_STAYS_UNDONE] = "undone",
	[PF_STAYS_UNKNOWN] = "unknown",
};

const char *pf_fate_name(enum pf_fate f)
{
	return fate_names[f];
}

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool ends(const char *s, const char *with)
{
	size_t n = strlen(s), k = strlen(with);

	return n >= k && strcmp(s + n - k, with) == 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static unsigned parts(const char *path)
{
	unsigned n = 1;

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* `x#1`: how Lance's store calls a file that it is still writing, and why it does not see it afterwards. */
static bool is_staged(const char *path)
{
	const char *mark = strrchr(path, '#');

	return mark && mark[1] && strspn(mark + 1, "0123456789") == strlen(mark + 1);
}

/* No writer of Lance gives such a name, and it stops at one. */
static bool is_strange(const char *path)
{
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return true;
	return !pf_utf8_valid(path, strlen(path));
}

/* What the rule table has a row for. */
enum kind {
	KIND_VERSION_TEMP,
	KIND_LEFT, /* a manifest that we renamed */
	KIND_TXN,
	KIND_DATA,
	KIND_DATA_TEMP,
	KIND_SIDECAR,
	KIND_BLOB,
	KIND_INDEX,
	KIND_DELETION,
	KIND_MAP,
	KIND_TEMP,   /* of writers that crashed, where Lance does not look */
	KIND_STAGED, /* the same, by another name */
	KIND_UNKNOWN,
};

static enum kind kind_of(const char *path)
{
	const char *name = last_part(path);
	bool temp = starts(name, ".tmp");

	if (is_strange(path))
		return KIND_UNKNOWN;
	if (is_staged(path))
		return starts(path, "_blobs/") ? KIND_UNKNOWN : KIND_STAGED;
	if (starts(path, "_versions/" PF_CLEAN_LEFT))
		return pf_clean_is_left(path, &(uint64_t){ 0 }, &(bool){ 0 }) ? KIND_LEFT : KIND_VERSION_TEMP;
	if (starts(path, "_versions/.tmp"))
		return KIND_VERSION_TEMP;
	if (starts(path, "_transactions/"))
		return ends(name, ".txn") ? KIND_TXN : temp ? KIND_TEMP : KIND_UNKNOWN;
	if (starts(path, "_deletions/"))
		return ends(name, ".arrow") || ends(name, ".bin") ? KIND_DELETION : temp ? KIND_TEMP : KIND_UNKNOWN;
	if (starts(path, "_indices/"))
		return KIND_INDEX;
	if (starts(path, "_fri/"))
		return KIND_MAP;
	if (starts(path, "_blobs/"))
		return ends(name, ".blob") ? KIND_BLOB : KIND_UNKNOWN;
	if (!starts(path, "data/"))
		return KIND_UNKNOWN;
	if (temp)
		return KIND_DATA_TEMP;
	if (ends(name, ".lance"))
		return KIND_DATA;
	return ends(name, ".blob") && parts(path) == 3 ? KIND_SIDECAR : KIND_UNKNOWN;
}

static enum pf_clean_class class_of(enum kind kind)
{
	switch (kind) {
	case KIND_LEFT:
		return PF_CLEAN_MANIFEST;
	case KIND_TXN:
		return PF_CLEAN_TRANSACTION;
	case KIND_DATA:
	case KIND_DATA_TEMP:
	case KIND_SIDECAR:
	case KIND_BLOB:
		return PF_CLEAN_DATA;
	case KIND_INDEX:
		return PF_CLEAN_INDEX;
	case KIND_DELETION:
		return PF_CLEAN_DELETION;
	case KIND_MAP:
		return PF_CLEAN_MAP;
	case KIND_VERSION_TEMP:
	case KIND_TEMP:
	case KIND_STAGED:
	case KIND_UNKNOWN:
		break;
	}
	return PF_CLEAN_OTHER;
}

enum pf_clean_class pf_clean_class_of(const char *path)
{
	uint64_t version;

	return pf_clean_is_manifest(path, &version) ? PF_CLEAN_MANIFEST : class_of(kind_of(path));
}

int pf_clean_is_manifest(const char *path, uint64_t *version)
{
	const char *name = path + strlen("_versions/");
	bool v2;

	return starts(path, "_versions/") && !strchr(name, '/') ? pf_manifest_name_parse(name, version, &v2) : 0;
}

int pf_clean_is_left(const char *path, uint64_t *version, bool *v2)
{
	size_t n = strlen(path), around = strlen("_versions/" PF_CLEAN_LEFT PF_CLEAN_LEFT_END);
	char was[PF_MANIFEST_NAME_MAX];

	if (!starts(path, "_versions/" PF_CLEAN_LEFT) || !ends(path, PF_CLEAN_LEFT_END) || n < around ||
	    n - around >= sizeof(was))
		return 0;
	snprintf(was, sizeof(was), "%.*s", (int)(n - around), path + strlen("_versions/" PF_CLEAN_LEFT));
	return pf_manifest_name_parse(was, version, v2);
}

/* Does Lance look at a file of this kind and age at all? */
static bool is_looked_at(const struct pf_clean_rules *r, enum kind kind, int64_t mtime_ns)
{
	int64_t guard = r->now_ns - PF_CLEAN_GUARD_NS;

	switch (kind) {
	case KIND_DATA:
	case KIND_DATA_TEMP:
	case KIND_SIDECAR:
	case KIND_BLOB:
		return r->delete_unverified || !r->has_cut || mtime_ns <= (r->cut_ns > guard ? r->cut_ns : guard);
	case KIND_VERSION_TEMP:
	case KIND_TXN:
	case KIND_DELETION:
		return !r->has_cut || mtime_ns <= r->cut_ns;
	default:
		return true;
	}
}

static bool is_temp(enum kind kind)
{
	return kind == KIND_VERSION_TEMP || kind == KIND_DATA_TEMP || kind == KIND_TEMP || kind == KIND_STAGED;
}

/* Is it of a kind that may go? */
static bool is_ours(const struct pf_clean_rules *r, enum kind kind, const char *path)
{
	switch (kind) {
	case KIND_TEMP:
		/* Of transactions nobody else would ever collect them where Lance does not clean. */
		return r->leaks || (r->flagged && starts(path, "_transactions/"));
	case KIND_STAGED:
		return r->leaks;
	case KIND_MAP:
		return !r->maps_unknown;
	case KIND_SIDECAR:
	case KIND_BLOB:
		return !r->blobs_unknown;
	default:
		return kind != KIND_UNKNOWN;
	}
}

void pf_clean_judge(const struct pf_clean_rules *r, const char *path, int64_t mtime_ns, enum pf_clean_ref ref,
		    struct pf_clean_verdict *out)
{
	enum kind kind = kind_of(path);
	bool young = mtime_ns >= r->now_ns - PF_CLEAN_GUARD_NS;

	out->cls = class_of(kind);
	/* What an earlier run renamed is a matter of that run, whoever else gives such names. */
	if (kind == KIND_LEFT)
		ref = PF_REF_GOING;
	bool named = ref == PF_REF_GOING && !is_temp(kind);
	if (!is_ours(r, kind, path))
		out->fate = PF_STAYS_UNKNOWN;
	else if (!named && young && !r->delete_unverified)
		out->fate = PF_STAYS_PROGRESS;
	else if (is_looked_at(r, kind, mtime_ns))
		out->fate = named				       ? PF_GOES_NAMED
			    : kind == KIND_TEMP || kind == KIND_STAGED ? PF_GOES_LEAK
								       : PF_GOES_ORPHAN;
	else
		out->fate = named && r->leaks ? PF_GOES_LEAK : PF_STAYS_AGE;
}

/* Would Lance count the version among those that stay? The root of a branch it takes back only afterwards, which changes no time. */
static bool stays(const struct pf_retention *r, size_t version)
{
	return pf_retention_version(r, version) & ~(unsigned)PF_KEPT_BRANCH;
}

void pf_clean_cut(const struct pf_retention *r, const struct pf_survey *s, int64_t left_ns,
		  struct pf_clean_rules *rules)
{
	int64_t oldest = INT64_MAX, newest_gone = left_ns;

	for (size_t i = 0; i < s->n_versions; i++) {
		int64_t ts = s->versions[i].timestamp_ns;
		if (stays(r, i))
			oldest = ts < oldest ? ts : oldest;
		else
			newest_gone = ts > newest_gone ? ts : newest_gone;
	}
	rules->cut_ns = oldest;
	rules->has_cut = newest_gone <= oldest;
}
