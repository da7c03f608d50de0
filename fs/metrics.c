#include "metrics.h"

#include <inttypes.h>
#include <string.h>

#include "fs.h"

/* One branch at this moment. */
struct sample {
	struct fs_branch *branch;
	struct fs_view *view; /* NULL: it cannot be read */
	struct fs_meter meter;
	struct fs_account account;
	size_t lost, overdue;
	const struct pf_pin *soonest; /* NULL without pins */
};

struct samples {
	struct sample *v;
	size_t n;
	struct fs *fs;
};

static void samples_release(struct samples *s)
{
	for (size_t i = 0; i < s->n; i++)
		fs_view_unref(s->v[i].view);
	free(s->v);
}

static void look_at_pins(struct sample *s)
{
	const struct pf_pins *pins = &s->view->manifest->pins;
	struct pf_time now = pf_time_now();

	for (size_t i = 0; i < pins->n; i++) {
		const struct pf_pin *p = &pins->v[i];
		if (!s->soonest || pf_time_cmp(p->expires_at, s->soonest->expires_at) < 0)
			s->soonest = p;
		s->overdue += pf_time_cmp(p->expires_at, now) <= 0;
	}
}

static int take_samples(struct fs *fs, struct samples *out)
{
	uint64_t number = 0;
	struct fs_branch *b;

	while ((b = fs_branch_next(fs, &number))) {
		struct sample *v = reallocarray(out->v, out->n + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		out->v = v;
		v += out->n++;
		*v = (struct sample){ .branch = b,
				      .meter = fs_line_meter(b->line),
				      .account = fs_line_account(b->line),
				      .lost = fs_follow_lost(&b->line->follow) };
		if (fs_line_view(b->line, &v->view, NULL) == 0)
			look_at_pins(v);
	}
	return 0;
}

/* A label's value: backslash, quote and newline are escaped; what is not UTF-8 is made visible first. */
static int add_label(struct pf_buf *out, const char *value)
{
	_cleanup_(pf_buf_release) struct pf_buf visible = PF_BUF_INIT;
	int r = 0;

	if (!pf_utf8_valid(value, strlen(value))) {
		if (pf_text_escape(value, strlen(value), &visible) < 0 || !(value = pf_buf_str(&visible)))
			return -ENOMEM;
	}
	for (; r == 0 && *value; value++) {
		if (*value == '\n')
			r = pf_buf_addstr(out, "\\n");
		else if (*value == '\\' || *value == '"')
			r = pf_buf_addf(out, "\\%c", *value);
		else
			r = pf_buf_addch(out, *value);
	}
	return r;
}

/* The name of a metric and its first label. */
static int add_start(struct pf_buf *out, const char *metric, const struct sample *s)
{
	int r = pf_buf_addf(out, "%s{branch=\"", metric);
	if (r == 0)
		r = add_label(out, fs_line_name(s->branch->line));
	return r == 0 ? pf_buf_addch(out, '"') : r;
}

static int info(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = pf_buf_addf(out, "%s{version=\"" PF_VERSION "\",table=\"", name);
	if (r == 0)
		r = add_label(out, s->fs->opt.dataset);
	return r == 0 ? pf_buf_addstr(out, "\"} 1\n") : r;
}

static int readable(const struct sample *s, uint64_t *out)
{
	*out = s->view != NULL;
	return 1;
}

static int head_version(const struct sample *s, uint64_t *out)
{
	*out = s->view ? s->view->manifest->version : 0;
	return s->view != NULL;
}

static int pins(const struct sample *s, uint64_t *out)
{
	*out = s->view ? s->view->manifest->pins.n : 0;
	return s->view != NULL;
}

static int overdue(const struct sample *s, uint64_t *out)
{
	*out = s->overdue;
	return s->view != NULL;
}

static int lost(const struct sample *s, uint64_t *out)
{
	*out = s->lost;
	return 1;
}

static int kept_version(const struct sample *s, uint64_t *out)
{
	*out = s->account.version;
	return s->account.version != 0;
}

static int kept_bytes(const struct sample *s, uint64_t *out)
{
	*out = s->account.bytes_kept;
	return s->account.version != 0;
}

static int free_bytes(const struct sample *s, uint64_t *out)
{
	*out = s->account.bytes_free;
	return s->account.version != 0;
}

static int guard_failures(const struct sample *s, uint64_t *out)
{
	*out = s->meter.guard_failures;
	return 1;
}

static int published(const struct sample *s, uint64_t *out)
{
	*out = s->meter.published;
	return 1;
}

/* Seconds since 1970, negative before. */
static int soonest(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		if (!s->v[i].soonest)
			continue;
		r = add_start(out, name, &s->v[i]);
		if (r == 0)
			r = pf_buf_addf(out, "} %" PRId64 "\n", s->v[i].soonest->expires_at.sec);
	}
	return r;
}

static int add_kind(struct pf_buf *out, const char *metric, const struct sample *s, enum pf_op_kind kind)
{
	int r = add_start(out, metric, s);
	return r == 0 ? pf_buf_addf(out, ",kind=\"%s\"", pf_op_kind_name(kind)) : r;
}

static int operations(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = 0;
	for (size_t i = 0; i < s->n; i++)
		for (enum pf_op_kind k = PF_OP_REGISTER; k < FS_METER_KINDS; k++)
			for (enum fs_outcome o = 0; r == 0 && o < FS_OUTCOMES; o++) {
				r = add_kind(out, name, &s->v[i], k);
				if (r == 0)
					r = pf_buf_addf(out, ",outcome=\"%s\"} %" PRIu64 "\n", fs_outcome_name(o),
							s->v[i].meter.kind[k].outcome[o]);
			}
	return r;
}

static int retries(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = 0;
	for (size_t i = 0; i < s->n; i++)
		for (enum pf_op_kind k = PF_OP_REGISTER; r == 0 && k < FS_METER_KINDS; k++) {
			r = add_kind(out, name, &s->v[i], k);
			if (r == 0)
				r = pf_buf_addf(out, "} %" PRIu64 "\n", s->v[i].meter.kind[k].retries);
		}
	return r;
}

static int add_histogram(struct pf_buf *out, const char *name, const struct sample *s, enum pf_op_kind kind)
{
	const struct fs_meter_kind *m = &s->meter.kind[kind];
	_cleanup_(pf_buf_release) struct pf_buf bucket = PF_BUF_INIT, labels = PF_BUF_INIT;
	uint64_t count = 0;
	int r = 0;

	if (pf_buf_addf(&bucket, "%s_bucket", name) < 0 || !pf_buf_str(&bucket) || add_kind(&labels, "", s, kind) < 0 ||
	    !pf_buf_str(&labels))
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < FS_BUCKETS; i++) {
		count += m->bucket[i];
		r = pf_buf_addf(out, "%s%s,le=\"", (char *)bucket.data, (char *)labels.data);
		if (r == 0)
			r = i < FS_BUCKETS - 1 ? pf_buf_addf(out, "%g", fs_bucket_limit[i])
					       : pf_buf_addstr(out, "+Inf");
		if (r == 0)
			r = pf_buf_addf(out, "\"} %" PRIu64 "\n", count);
	}
	return r == 0 ? pf_buf_addf(out, "%s_sum%s} %.9g\n%s_count%s} %" PRIu64 "\n", name, (char *)labels.data,
				    m->seconds, name, (char *)labels.data, count)
		      : r;
}

static int durations(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = 0;
	for (size_t i = 0; i < s->n; i++)
		for (enum pf_op_kind k = PF_OP_REGISTER; r == 0 && k < FS_METER_KINDS; k++)
			r = add_histogram(out, name, &s->v[i], k);
	return r;
}

static int refused(const struct samples *s, const char *name, struct pf_buf *out)
{
	int r = 0;
	for (int e = 1; r == 0 && e < FS_ERRNOS; e++) {
		uint64_t n = __atomic_load_n(&s->fs->refused[e], __ATOMIC_RELAXED);
		if (n && strerrorname_np(e))
			r = pf_buf_addf(out, "%s{errno=\"%s\"} %" PRIu64 "\n", name, strerrorname_np(e), n);
	}
	return r;
}

/* One row a metric: either a number of each branch (and whether it has one), or lines of its own. */
static const struct {
	const char *name, *type, *help;
	int (*number)(const struct sample *s, uint64_t *out);
	int (*lines)(const struct samples *s, const char *name, struct pf_buf *out);
} metrics[] = {
	{ "pinfs_info", "gauge", "Always 1; the labels say what is mounted, and by which version.", .lines = info },
	{ "pinfs_head_readable", "gauge", "1 if the newest version can be read.", readable },
	{ "pinfs_head_version", "gauge", "Number of the newest version.", head_version },
	{ "pinfs_pins", "gauge", "Pins on the head.", pins },
	{ "pinfs_pins_overdue", "gauge", "Pins past their time, which the next cleanup may remove.", overdue },
	{ "pinfs_pins_lost", "gauge", "Pins that a writer dropped: neither active again nor waived.", lost },
	{ "pinfs_soonest_expiry_timestamp_seconds", "gauge", "When the first pin expires, in seconds since 1970.",
	  .lines = soonest },
	{ "pinfs_kept_head_version", "gauge",
	  "Head of the last account of what is kept, which reading retention/ takes.", kept_version },
	{ "pinfs_kept_bytes", "gauge", "Bytes on disk that something keeps, by that account.", kept_bytes },
	{ "pinfs_free_bytes", "gauge", "Bytes on disk of versions that nothing keeps, by that account.", free_bytes },
	{ "pinfs_operations_total", "counter", "Pin operations asked of this mount; several may share a commit.",
	  .lines = operations },
	{ "pinfs_operation_retries_total", "counter", "Races lost to other writers before an operation was done.",
	  .lines = retries },
	{ "pinfs_operation_duration_seconds", "histogram", "From request to answer of a pin operation.",
	  .lines = durations },
	{ "pinfs_guard_failures_total", "counter", "Guard tags that could not be put or removed.", guard_failures },
	{ "pinfs_published_total", "counter", "Commits of clients of this gateway that were published with the pins.",
	  published },
	{ "pinfs_refused_total", "counter", "Requests of any kind that were answered with an error.",
	  .lines = refused },
};

static int add_numbers(const struct samples *s, size_t metric, struct pf_buf *out)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < s->n; i++) {
		uint64_t v;
		if (!metrics[metric].number(&s->v[i], &v))
			continue;
		r = add_start(out, metrics[metric].name, &s->v[i]);
		if (r == 0)
			r = pf_buf_addf(out, "} %" PRIu64 "\n", v);
	}
	return r;
}

int fs_metrics_render(struct fs *fs, struct pf_buf *out)
{
	_cleanup_(samples_release) struct samples s = { .fs = fs };

	int r = take_samples(fs, &s);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(metrics); i++) {
		r = pf_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
				metrics[i].type);
		if (r == 0)
			r = metrics[i].number ? add_numbers(&s, i, out) : metrics[i].lines(&s, metrics[i].name, out);
	}
	return r;
}
