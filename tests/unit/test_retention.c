/*
 * What is kept, against sets: thousands of made-up surveys, judged again by asking each version and each file about each reason by itself. And the answers
 * of small surveys, word for word.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "core/retention.h"

#define V_MAX	 24
#define F_MAX	 30
#define P_MAX	 5
#define T_MAX	 4
#define B_MAX	 3
#define NEW_YEAR INT64_C(1767225600) /* 2026-01-01T00:00:00Z */
#define S	 INT64_C(1000000000)

static uint64_t seed;
static unsigned dice(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static char no_label[] = "", nowhere[] = "", data[] = "data/x.lance";
static char tag_names[T_MAX][8] = { "t0", "t1", "t2", "t3" };
static char guard_name[] = "pinfs-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
static char branch_names[B_MAX][8] = { "dev", "feat/x", "old" };

/* A survey, and what it was made of. */
struct world {
	struct pf_survey s;
	struct pf_surveyed_version versions[V_MAX];
	struct pf_surveyed_file files[F_MAX];
	struct pf_interval iv[F_MAX][V_MAX];
	struct pf_survey_base bases[1];
	struct pf_pin pins[P_MAX];
	struct pf_tag tags[T_MAX];
	struct pf_branch_needs needs[B_MAX];
	size_t needed[B_MAX][F_MAX];
	bool refers[F_MAX][V_MAX]; /* by index of the version */
	uint64_t listed[V_MAX];
	struct pf_policy policy;
	struct pf_retention_input in;
	char guard[256]; /* metadata of a guard tag */
};

/* Make tag i one that a pin on `version` has. */
static void make_guard(struct world *w, size_t i, uint64_t version)
{
	snprintf(w->guard, sizeof(w->guard),
		 "{\"pinfs.pin\": \"%s\", \"pinfs.source\": \"%d:bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb\", "
		 "\"pinfs.branch_id\": \"\"}",
		 guard_name + strlen("pinfs-"), (int)version);
	w->tags[i] = (struct pf_tag){ .name = guard_name, .metadata = w->guard, .version = version };
}

static void make_versions(struct world *w)
{
	uint64_t v = 0;

	w->s.versions = w->versions;
	for (size_t n = 1 + dice(V_MAX - 1); w->s.n_versions < n;) {
		v += dice(4) ? 1 : 1 + dice(3);
		w->versions[w->s.n_versions++] = (struct pf_surveyed_version){
			.version = v, .timestamp_ns = (NEW_YEAR + (int64_t)dice(40)) * S, .readable = dice(20) != 0
		};
	}
}

static void make_files(struct world *w)
{
	w->s.files = w->files;
	w->s.n_files = dice(F_MAX);
	for (size_t i = 0; i < w->s.n_files; i++) {
		struct pf_surveyed_file *f = &w->files[i];
		bool open = false;
		*f = (struct pf_surveyed_file){ .cls = PF_FILE_DATA,
						.own = dice(5) != 0,
						.n_files = 1 + dice(2),
						.size = 1 + dice(1000),
						.presence = dice(10) ? PF_PRESENT : PF_MISSING,
						.path = data,
						.iv = w->iv[i] };
		for (size_t v = 0; v < w->s.n_versions; v++) {
			w->refers[i][v] = v && dice(3) ? w->refers[i][v - 1] : dice(2);
			if (w->refers[i][v] && !open)
				f->iv[f->n_iv++].first = w->versions[v].version;
			if (w->refers[i][v])
				f->iv[f->n_iv - 1].last = v + 1 == w->s.n_versions ? PF_STILL : w->versions[v].version;
			open = w->refers[i][v];
		}
	}
}

static uint64_t some_version(const struct world *w)
{
	return dice(8) ? w->versions[dice((unsigned)w->s.n_versions)].version : dice(V_MAX);
}

static void make_holders(struct world *w)
{
	w->s.pins = (struct pf_pins){ w->pins, dice(P_MAX + 1) };
	for (size_t i = 0; i < w->s.pins.n; i++) {
		w->pins[i] = (struct pf_pin){ .source_version = some_version(w), .label = no_label };
		memset(w->pins[i].id.b, 0x10 + (int)i, sizeof(w->pins[i].id.b));
	}
	w->s.tags = (struct pf_tags){ w->tags, dice(T_MAX + 1) };
	for (size_t i = 0; i < w->s.tags.n; i++)
		w->tags[i] = (struct pf_tag){ .name = tag_names[i], .version = some_version(w) };
	if (w->s.tags.n && dice(3) == 0)
		make_guard(w, 0, 1 + some_version(w));
	w->in.branches = w->needs;
	w->in.n_branches = dice(B_MAX + 1);
	for (size_t i = 0; i < w->in.n_branches; i++) {
		struct pf_branch_needs *b = &w->needs[i];
		*b = (struct pf_branch_needs){ .name = branch_names[i], .files = w->needed[i] };
		for (size_t f = 0; f < w->s.n_files; f++)
			if (dice(6) == 0)
				b->files[b->n_files++] = f;
		b->root_version = b->n_files ? some_version(w) : 0;
	}
}

static void make_policy(struct world *w)
{
	struct pf_policy *p = &w->policy;

	w->in.now = (struct pf_time){ NEW_YEAR + 40, 0 };
	if (dice(3) == 0)
		return;
	w->in.policy = p;
	*p = (struct pf_policy){ .any = dice(8) != 0 };
	if (dice(2)) {
		p->has_older_than = true;
		p->older_than_ns = (int64_t)dice(45) * S;
	}
	p->before_version = dice(2) ? 0 : dice(V_MAX);
	p->retain = dice(2) ? 0 : 1 + dice(V_MAX);
	if (dice(3) == 0) {
		p->versions = w->listed;
		for (uint64_t v = 0; v < V_MAX; v++)
			if (dice(2))
				w->listed[p->n_versions++] = v;
	}
}

static void make_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->in.survey = &w->s;
	w->bases[0].where = nowhere;
	w->s.bases = w->bases;
	w->s.n_bases = 1;
	make_versions(w);
	make_files(w);
	make_holders(w);
	make_policy(w);
}

static struct pf_retention *judge(const struct world *w)
{
	struct pf_retention *r;

	assert_int_equal(pf_retention_new(&w->in, &r), 0);
	return r;
}

/* The model: each question by itself, from the sets. */

static bool released(const struct world *w, size_t pin)
{
	for (size_t i = 0; i < w->in.n_released; i++)
		if (pf_uuid_eq(&w->in.released[i], &w->pins[pin].id))
			return true;
	return false;
}

static bool untagged(const struct world *w, size_t tag)
{
	for (size_t i = 0; i < w->in.n_untagged; i++)
		if (strcmp(w->in.untagged[i], w->tags[tag].name) == 0)
			return true;
	return w->tags[tag].name == guard_name;
}

static bool policy_lets_go(const struct world *w, size_t v)
{
	const struct pf_policy *p = w->in.policy;
	const struct pf_surveyed_version *x = &w->versions[v];
	bool listed = false;

	if (!p)
		return true;
	for (size_t i = 0; p->versions && i < p->n_versions; i++)
		listed = listed || p->versions[i] == x->version;
	return p->any &&
	       (!p->has_older_than || (x->readable && x->timestamp_ns < (NEW_YEAR + 40) * S - p->older_than_ns)) &&
	       (!p->before_version || x->version < p->before_version) &&
	       (!p->retain || w->s.n_versions - v > p->retain) && (!p->versions || listed);
}

static unsigned version_model(const struct world *w, size_t v)
{
	uint64_t version = w->versions[v].version;
	unsigned bits = v + 1 == w->s.n_versions ? PF_KEPT_HEAD : 0;

	for (size_t i = 0; i < w->s.pins.n; i++)
		if (!released(w, i) && w->pins[i].source_version <= version)
			bits |= PF_KEPT_PIN;
	for (size_t i = 0; i < w->s.tags.n; i++)
		if (!untagged(w, i) && w->tags[i].version == version)
			bits |= PF_KEPT_TAG;
	for (size_t i = 0; i < w->in.n_branches; i++)
		if (w->needs[i].root_version == version)
			bits |= PF_KEPT_BRANCH;
	return bits | (policy_lets_go(w, v) ? 0 : PF_KEPT_POLICY);
}

static unsigned file_model(const struct world *w, size_t f)
{
	unsigned bits = 0;

	for (size_t v = 0; v < w->s.n_versions; v++)
		if (w->refers[f][v])
			bits |= version_model(w, v);
	for (size_t i = 0; i < w->in.n_branches; i++)
		for (size_t k = 0; k < w->needs[i].n_files; k++)
			if (w->needs[i].files[k] == f)
				bits |= PF_KEPT_BRANCH;
	return bits;
}

static bool pin_holds(const struct world *w, size_t pin, size_t f)
{
	for (size_t v = 0; v < w->s.n_versions; v++)
		if (w->refers[f][v] && w->versions[v].version >= w->pins[pin].source_version)
			return true;
	return false;
}

static void check_usage(const struct world *w, const struct pf_retention *r)
{
	struct pf_pin_usage got[P_MAX];
	size_t n, at = 0;

	assert_int_equal(pf_retention_usage(r, got, &n), 0);
	for (size_t p = 0; p < w->s.pins.n; p++) {
		uint64_t exclusive = 0, shared = 0, old = 0, versions = 0;
		if (released(w, p))
			continue;
		for (size_t f = 0; f < w->s.n_files; f++) {
			unsigned others = 0;
			if (!w->files[f].own || !pin_holds(w, p, f))
				continue;
			for (size_t q = 0; q < w->s.pins.n; q++)
				others += q != p && !released(w, q) && pin_holds(w, q, f);
			*(others || file_model(w, f) != PF_KEPT_PIN ? &shared : &exclusive) += w->files[f].size;
			old += file_model(w, f) & PF_KEPT_HEAD ? 0 : w->files[f].size;
		}
		for (size_t v = 0; v < w->s.n_versions; v++)
			versions += w->versions[v].version >= w->pins[p].source_version;
		assert_true(at < n);
		assert_ptr_equal(got[at].pin, &w->pins[p]);
		assert_int_equal(got[at].exclusive_bytes, exclusive);
		assert_int_equal(got[at].shared_bytes, shared);
		assert_int_equal(got[at].old_bytes, old);
		assert_int_equal(got[at].versions, versions);
		at++;
	}
	assert_int_equal(at, n);
}

static void check_totals(const struct world *w, const struct pf_retention *r)
{
	struct pf_retention_totals t;
	uint64_t files = 0, bytes = 0, kept = 0;

	pf_retention_totals(r, &t);
	for (size_t f = 0; f < w->s.n_files; f++) {
		bool named = w->files[f].n_iv || file_model(w, f);
		if (!named || !w->files[f].own || w->files[f].presence == PF_MISSING)
			continue;
		files += w->files[f].n_files;
		bytes += w->files[f].size;
		kept += file_model(w, f) ? w->files[f].size : 0;
	}
	assert_int_equal(t.versions_kept + t.versions_free, w->s.n_versions);
	assert_int_equal(t.files_kept + t.files_free, files);
	assert_int_equal(t.bytes_kept + t.bytes_free, bytes);
	assert_int_equal(t.bytes_kept, kept);
}

static void check(const struct world *w, const struct pf_retention *r)
{
	for (size_t v = 0; v < w->s.n_versions; v++)
		if (pf_retention_version(r, v) != version_model(w, v))
			fail_msg("version %d: expected %x, found %x", (int)w->versions[v].version, version_model(w, v),
				 pf_retention_version(r, v));
	for (size_t f = 0; f < w->s.n_files; f++)
		if (pf_retention_file(r, f) != file_model(w, f))
			fail_msg("file %d: expected %x, found %x", (int)f, file_model(w, f), pf_retention_file(r, f));
	check_totals(w, r);
	check_usage(w, r);
}

static void test_model(void **state)
{
	for (unsigned i = 0; i < 6000; i++) {
		struct world w;
		seed = i;
		make_world(&w);
		_cleanup_(pf_retention_freep) struct pf_retention *r = judge(&w);
		check(&w, r);
	}
}

/* Nothing that `less` keeps is missing in `more`. */
static void assert_less(const struct world *w, const struct pf_retention *less, const struct pf_retention *more)
{
	for (size_t v = 0; v < w->s.n_versions; v++)
		assert_int_equal(pf_retention_version(less, v) & ~pf_retention_version(more, v), 0);
	for (size_t f = 0; f < w->s.n_files; f++)
		assert_int_equal(pf_retention_file(less, f) & ~pf_retention_file(more, f), 0);
}

/* What if, against the same done to a copy; and less holders never keep more. */
static void test_what_if(void **state)
{
	for (unsigned i = 0; i < 3000; i++) {
		struct world w, copy;
		seed = 100000 + i;
		make_world(&w);
		_cleanup_(pf_retention_freep) struct pf_retention *before = judge(&w);
		if (!w.s.pins.n || !w.s.tags.n)
			continue;
		size_t pin = dice((unsigned)w.s.pins.n), tag = dice((unsigned)w.s.tags.n);
		const char *const name[] = { w.tags[tag].name };
		struct pf_uuid id = w.pins[pin].id;
		w.in.released = &id;
		w.in.n_released = 1;
		w.in.untagged = name;
		w.in.n_untagged = 1;
		_cleanup_(pf_retention_freep) struct pf_retention *after = judge(&w);
		check(&w, after);
		assert_less(&w, after, before);

		memcpy(&copy, &w, sizeof(w));
		copy.s.pins.v = copy.pins;
		copy.s.tags.v = copy.tags;
		copy.in.survey = &copy.s;
		copy.in.n_released = copy.in.n_untagged = 0;
		copy.pins[pin] = copy.pins[--copy.s.pins.n];
		copy.tags[tag] = copy.tags[--copy.s.tags.n];
		_cleanup_(pf_retention_freep) struct pf_retention *done = judge(&copy);
		assert_less(&w, after, done);
		assert_less(&w, done, after);
	}
}

/* Versions 1 to 5, of which a file has 2 and 3, and another has all from 4 on. */
static void small_world(struct world *w)
{
	memset(w, 0, sizeof(*w));
	w->in.survey = &w->s;
	w->bases[0].where = nowhere;
	w->s.bases = w->bases;
	w->s.n_bases = 1;
	w->s.versions = w->versions;
	for (w->s.n_versions = 0; w->s.n_versions < 5; w->s.n_versions++)
		w->versions[w->s.n_versions] = (struct pf_surveyed_version){ .version = w->s.n_versions + 1,
									     .readable = true,
									     .timestamp_ns = NEW_YEAR * S };
	w->s.files = w->files;
	w->s.n_files = 2;
	w->iv[0][0] = (struct pf_interval){ 2, 3 };
	w->iv[1][0] = (struct pf_interval){ 4, PF_STILL };
	for (size_t i = 0; i < 2; i++)
		w->files[i] = (struct pf_surveyed_file){ .cls = PF_FILE_DATA,
							 .own = true,
							 .n_files = 1,
							 .size = 10,
							 .path = data,
							 .iv = w->iv[i],
							 .n_iv = 1 };
	w->s.pins.v = w->pins;
	w->s.tags.v = w->tags;
	w->in.branches = w->needs;
	for (size_t i = 0; i < 2; i++) {
		w->pins[i] = (struct pf_pin){ .source_version = 4 - i, .label = no_label };
		memset(w->pins[i].id.b, 0xa0 + (int)i, sizeof(w->pins[i].id.b));
		snprintf(w->pins[i].source_txn, PF_UUID_TEXT, "transaction %d", (int)w->pins[i].source_version);
	}
	for (size_t i = 0; i < 5; i++)
		snprintf(w->versions[i].txn, PF_UUID_TEXT, "transaction %d", (int)i + 1);
}

#define ID_0 "a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0a0"
#define ID_1 "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"

static void assert_reasons(const struct world *w, const char *const versions[5], const char *const files[2])
{
	_cleanup_(pf_retention_freep) struct pf_retention *r = judge(w);

	for (size_t i = 0; i < 7; i++) {
		_cleanup_(pf_buf_release) struct pf_buf got = PF_BUF_INIT;
		assert_int_equal(pf_buf_addstr(&got, "<"), 0);
		assert_int_equal(i < 5 ? pf_retention_version_reasons(r, i, &got)
				       : pf_retention_file_reasons(r, i - 5, &got),
				 0);
		assert_string_equal(pf_buf_str(&got) + 1, i < 5 ? versions[i] : files[i - 5]);
	}
}

static void test_reasons(void **state)
{
	struct world w;

	small_world(&w);
	assert_reasons(&w, (const char *const[]){ "", "", "", "", "head" }, (const char *const[]){ "", "head" });

	w.s.pins.n = 2;
	assert_reasons(&w,
		       (const char *const[]){ "", "", "pin:" ID_1, "pin:" ID_1 ",pin:" ID_0,
					      "pin:" ID_1 ",pin:" ID_0 ",head" },
		       (const char *const[]){ "pin:" ID_1, "pin:" ID_1 ",pin:" ID_0 ",head" });

	w.s.pins.n = 0;
	w.s.tags.n = 2;
	w.tags[0] = (struct pf_tag){ .name = tag_names[0], .version = 2 };
	make_guard(&w, 1, 1);
	w.in.n_branches = 2;
	w.needs[0] = (struct pf_branch_needs){ .name = branch_names[1], .root_version = 3 };
	w.needs[1] = (struct pf_branch_needs){ .files = w.needed[1], .n_files = 1 };
	w.needed[1][0] = 1;
	w.in.policy = &w.policy;
	w.policy = (struct pf_policy){ .any = true, .before_version = 4 };
	assert_reasons(&w, (const char *const[]){ "", "tag:t0", "branch:feat/x", "policy", "head,policy" },
		       (const char *const[]){ "tag:t0,branch:feat/x", "head,branch:main,policy" });
}

static void *no_memory(size_t n)
{
	return NULL;
}

/* Which tags are guard tags takes memory to tell: without it there is no answer, instead of one that takes a guard tag for a tag. */
static void test_guard_without_memory(void **state)
{
	struct pf_retention *r = NULL;
	json_malloc_t get;
	json_free_t give;
	struct world w;

	small_world(&w);
	w.s.tags.n = 1;
	make_guard(&w, 0, 1);
	json_get_alloc_funcs(&get, &give);
	json_set_alloc_funcs(no_memory, give);
	int e = pf_retention_new(&w.in, &r);
	json_set_alloc_funcs(get, give);
	assert_int_equal(e, -ENOMEM);
	assert_null(r);
}

/* Only a version whose timestamp is before now - older_than goes: not one of that very moment (cases-open B29). */
static void test_older_than(void **state)
{
	struct world w;

	small_world(&w);
	w.in.now = (struct pf_time){ NEW_YEAR + 100, 7 };
	w.in.policy = &w.policy;
	w.policy = (struct pf_policy){ .any = true, .has_older_than = true, .older_than_ns = 100 * S };
	w.versions[0].timestamp_ns = NEW_YEAR * S + 6;
	w.versions[1].timestamp_ns = NEW_YEAR * S + 7;
	w.versions[2].timestamp_ns = NEW_YEAR * S + 6;
	w.versions[2].readable = false;
	w.versions[3].timestamp_ns = INT64_MIN; /* the year 1 */
	_cleanup_(pf_retention_freep) struct pf_retention *r = judge(&w);
	assert_int_equal(pf_retention_version(r, 0), 0);
	assert_int_equal(pf_retention_version(r, 1), PF_KEPT_POLICY);
	assert_int_equal(pf_retention_version(r, 2), PF_KEPT_POLICY);
	assert_int_equal(pf_retention_version(r, 3), 0);
	assert_int_equal(pf_retention_version(r, 4), PF_KEPT_HEAD);
	/* A negative age is a moment to come. */
	w.policy.older_than_ns = INT64_MIN;
	_cleanup_(pf_retention_freep) struct pf_retention *all = judge(&w);
	assert_int_equal(pf_retention_version(all, 1), 0);
}

/* The sidecars of a data file share its fate, whoever holds it. */
static void test_sidecars(void **state)
{
	struct world w;
	_cleanup_(pf_buf_release) struct pf_buf reasons = PF_BUF_INIT;

	small_world(&w);
	w.files[1].n_iv = 0;
	w.files[1].needed = true;
	w.files[2] = w.files[1];
	w.files[2].sidecar_of = 2;
	w.files[2].cls = PF_FILE_BLOB;
	w.s.n_files = 3;
	w.in.n_branches = 1;
	w.needs[0] = (struct pf_branch_needs){ .name = branch_names[0], .files = w.needed[0], .n_files = 1 };
	w.needed[0][0] = 1;
	_cleanup_(pf_retention_freep) struct pf_retention *r = judge(&w);
	assert_int_equal(pf_retention_file(r, 2), PF_KEPT_BRANCH);
	assert_int_equal(pf_retention_file_reasons(r, 2, &reasons), 0);
	assert_string_equal(pf_buf_str(&reasons), "branch:dev");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),	   cmocka_unit_test(test_what_if),
		cmocka_unit_test(test_reasons),	   cmocka_unit_test(test_guard_without_memory),
		cmocka_unit_test(test_older_than), cmocka_unit_test(test_sidecars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
