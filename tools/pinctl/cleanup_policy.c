#include "cleanup.h"

#include <string.h>

#define DEFAULT_DAYS 14 /* Lance's */
#define JOBS_MAX     64
#define VERSIONS_MAX 1000000

static int positive(const struct args *a, const char *name, uint64_t *out, struct pf_why *why)
{
	int r = args_number(a, name, out, why);

	if (r == 0 && args_value(a, name) && *out == 0)
		return pf_why_set(why, -EINVAL, "--%s 0: expected a number above 0", name);
	return r;
}

static int cmp_version(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int add_range(struct cleaning *x, uint64_t first, uint64_t last, struct pf_why *why)
{
	size_t n = x->options.policy.n_versions;

	if (last < first || last - first >= VERSIONS_MAX - n)
		return pf_why_set(why, -EINVAL, "--versions: a range goes upwards, and %d versions are enough",
				  VERSIONS_MAX);
	uint64_t *v = reallocarray(x->versions, n + (last - first) + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	x->versions = v;
	for (uint64_t i = 0; i <= last - first; i++)
		v[n++] = first + i;
	x->options.policy.n_versions = n;
	return 0;
}

/* "3,5,7-9" */
static int parse_versions(struct cleaning *x, const char *s, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	int r = 0;

	for (const char *p = s; r == 0; p++) {
		size_t n = strcspn(p, ","), dash = strcspn(p, "-,");
		uint64_t first, last;
		bool range = dash < n;
		if (pf_u64_parse(p, dash, &first) < 0 ||
		    pf_u64_parse(range ? p + dash + 1 : p, range ? n - dash - 1 : n, &last) < 0)
			return pf_why_set(why, -EINVAL, "--versions %s: expected versions and ranges, like 3,5,7-9",
					  pf_text_quote(s, strlen(s), quoted));
		r = add_range(x, first, last, why);
		p += n;
		if (!*p)
			break;
	}
	if (r < 0)
		return r;
	qsort(x->versions, x->options.policy.n_versions, sizeof(*x->versions), cmp_version);
	x->options.policy.versions = x->versions;
	return 0;
}

static int parse_tags(struct cleaning *x, const struct args *a, struct pf_why *why)
{
	const char *s = args_value(a, "tags");
	char quoted[PF_QUOTE_TEXT];

	x->options.skip_tagged = s && strcmp(s, "skip") == 0;
	if (!s || x->options.skip_tagged || strcmp(s, "error") == 0)
		return 0;
	return pf_why_set(why, -EINVAL, "--tags %s: expected error or skip", pf_text_quote(s, strlen(s), quoted));
}

static void set_age(struct pf_policy *p, int64_t seconds)
{
	p->has_older_than = true;
	if (__builtin_mul_overflow(seconds, INT64_C(1000000000), &p->older_than_ns))
		p->older_than_ns = INT64_MAX;
}

int cleanup_options(struct cleaning *x, const struct args *a, struct pf_why *why)
{
	struct pf_policy *p = &x->options.policy;
	const char *versions = args_value(a, "versions");
	int64_t age = -1;
	uint64_t jobs = 1;

	x->apply = args_value(a, "apply") != NULL;
	x->explain = args_value(a, "explain") != NULL;
	x->options.delete_unverified = args_value(a, "delete-unverified") != NULL;
	x->options.leaks = args_value(a, "leaks") != NULL;
	x->options.now = pf_time_now();
	int r = args_span(a, "older-than", 0, &age, why);
	if (r == 0)
		r = positive(a, "before-version", &p->before_version, why);
	if (r == 0)
		r = positive(a, "retain", &p->retain, why);
	if (r == 0)
		r = positive(a, "rate", &x->how.rate, why);
	if (r == 0)
		r = positive(a, "jobs", &jobs, why);
	if (r == 0 && jobs > JOBS_MAX)
		r = pf_why_set(why, -EINVAL, "--jobs: %d are enough", JOBS_MAX);
	if (r == 0)
		r = parse_tags(x, a, why);
	if (r == 0 && versions)
		r = parse_versions(x, versions, why);
	if (r < 0)
		return r;
	x->how.jobs = (unsigned)jobs;
	p->any = true;
	if (age >= 0)
		set_age(p, age);
	if (age < 0 && !p->before_version && !p->retain && !versions) {
		set_age(p, INT64_C(24) * 3600 * DEFAULT_DAYS);
		ctl_say("no policy given: versions older than %d days, as Lance does", DEFAULT_DAYS);
	}
	return 0;
}
