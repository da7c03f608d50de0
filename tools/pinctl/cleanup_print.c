#include "cleanup.h"

#include <inttypes.h>
#include <string.h>

static int no_memory(void)
{
	return ctl_fail(-ENOMEM, &(struct pf_why)PF_WHY_INIT);
}

int cleanup_print_file(struct cleaning *x, const struct pf_victim *v, int err)
{
	_cleanup_(pf_buf_release) struct pf_buf buf = PF_BUF_INIT;
	const char *cls = pf_clean_class_name(v->cls);

	if (err < 0) {
		progress_clear(&x->progress);
		ctl_say("%s: cannot be removed: %s", safe(v->path, &buf), strerror(-err));
	}
	if (x->c->json) {
		json_t *o = json_object();
		pf_json_put(&o, "path", pf_json_str(v->path));
		pf_json_put(&o, "bytes", pf_json_u64(v->size));
		pf_json_put(&o, "class", json_string(cls));
		if (err < 0)
			pf_json_put(&o, "error", json_string(strerror(-err)));
		else
			pf_json_put(&o, "reason", json_string(pf_fate_name(v->fate)));
		return json_array_append_new(err < 0 ? x->failed : x->files, o) < 0 ? -ENOMEM : 0;
	}
	if (err == 0 && !x->explain) {
		progress_clear(&x->progress);
		if (printf("%" PRIu64 "\t%s\t%s\n", v->size, cls, safe(v->path, &buf)) < 0)
			x->c->write_error = errno;
	}
	return 0;
}

static int describe(const struct pf_clean_file *f, struct pf_buf *out)
{
	static const char *const stays[PF_FATES] = {
		[PF_STAYS_HEAD] = "head",
		[PF_STAYS_BRANCH] = "a branch refers to what is beside it",
		[PF_STAYS_AGE] = "changed after the oldest version that stays",
		[PF_STAYS_PROGRESS] = "no version names it, and it is not seven days old",
		[PF_STAYS_UNKNOWN] = "not known to be Lance's",
	};

	if (f->reasons[0])
		return pf_buf_addstr(out, f->reasons);
	if (!PF_FATE_GOES(f->fate))
		return pf_buf_addstr(out, stays[f->fate]);
	if (f->fate == PF_GOES_LEAK)
		return pf_buf_addstr(out, "Lance would never collect it");
	if (f->first == 0)
		return pf_buf_addstr(out, "no version names it");
	if (f->first == f->last)
		return pf_buf_addf(out, "of version %" PRIu64, f->first);
	return pf_buf_addf(out, "of versions %" PRIu64 " to %" PRIu64, f->first, f->last);
}

static int explain_json(struct cleaning *x, const struct pf_clean_file *f, const char *why)
{
	json_t *o = json_object();

	pf_json_put(&o, "path", pf_json_str(f->path));
	pf_json_put(&o, "bytes", pf_json_u64(f->size));
	pf_json_put(&o, "class", json_string(pf_clean_class_name(f->cls)));
	pf_json_put(&o, "goes", json_boolean(PF_FATE_GOES(f->fate)));
	pf_json_put(&o, "why", pf_json_str(why));
	return json_array_append_new(x->explained, o) < 0 ? -ENOMEM : 0;
}

int cleanup_explain_file(void *arg, const struct pf_clean_file *f)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT, why = PF_BUF_INIT, path = PF_BUF_INIT;
	struct cleaning *x = arg;

	int r = describe(f, &why);
	if (r < 0 || !pf_buf_str(&why))
		return -ENOMEM;
	if (x->c->json)
		return explain_json(x, f, (char *)why.data);
	r = pf_buf_addf(&text, "%" PRIu64 "\t%s\t%s\t%s\t%s", f->size, pf_clean_class_name(f->cls),
			safe(f->path, &path), PF_FATE_GOES(f->fate) ? "goes" : "stays", (char *)why.data);
	struct explained *v = r == 0 && pf_buf_str(&text) ? reallocarray(x->lines, x->n_lines + 1, sizeof(*v)) : NULL;
	if (!v)
		return -ENOMEM;
	x->lines = v;
	v[x->n_lines] = (struct explained){ strdup(f->path), (char *)text.data };
	text = (struct pf_buf)PF_BUF_INIT;
	return v[x->n_lines++].path ? 0 : -ENOMEM;
}

static int cmp_path(const void *a, const void *b)
{
	const struct explained *x = a, *y = b;

	return strcmp(x->path ? x->path : "", y->path ? y->path : "");
}

void cleanup_print_lines(struct cleaning *x)
{
	if (x->n_lines)
		qsort(x->lines, x->n_lines, sizeof(*x->lines), cmp_path);
	for (size_t i = 0; i < x->n_lines; i++) {
		puts(x->lines[i].text);
		free(x->lines[i].path);
		free(x->lines[i].text);
	}
	free(x->lines);
	x->lines = NULL;
	x->n_lines = 0;
}

static void add_count(struct pf_clean_count *sum, const struct pf_clean_count *n)
{
	sum->files += n->files;
	sum->bytes += n->bytes;
}

static void say_count(const char *what, const char *name, const struct pf_clean_count *n)
{
	if (n->files)
		fprintf(stderr, "  %-8s %-12s %10" PRIu64 " files %15" PRIu64 " bytes\n", what, name, n->files,
			n->bytes);
}

static void say_end(const struct cleaning *x, const char *branch, const struct pf_cleanup_report *r)
{
	_cleanup_(pf_buf_release) struct pf_buf buf = PF_BUF_INIT;
	struct pf_clean_count gone = { 0 }, kept = { 0 }, failed = { 0 };

	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++) {
		add_count(&gone, &r->removed[i]);
		add_count(&failed, &r->failed[i]);
	}
	for (size_t i = 0; i < PF_FATES; i++)
		add_count(&kept, &r->kept[i]);
	ctl_say("%s: %" PRIu64 " versions, %" PRIu64 " files, %" PRIu64 " bytes %s; %" PRIu64 " files, %" PRIu64
		" bytes stay%s",
		branch ? safe(branch, &buf) : "main", r->versions, gone.files, gone.bytes,
		x->apply ? "went" : "would go (--apply deletes them)", kept.files + failed.files,
		kept.bytes + failed.bytes, failed.files ? ", some because they could not be removed" : "");
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++)
		say_count(x->apply ? "gone" : "goes", pf_clean_class_name((enum pf_clean_class)i), &r->removed[i]);
	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++)
		say_count("failed", pf_clean_class_name((enum pf_clean_class)i), &r->failed[i]);
	for (size_t i = 0; i < PF_FATES; i++)
		say_count("stays", pf_fate_name((enum pf_fate)i), &r->kept[i]);
	if (r->folders_failed)
		ctl_say("%" PRIu64 " empty folders could not be removed", r->folders_failed);
}

static json_t *count_json(const struct pf_clean_count *n)
{
	json_t *o = json_object();

	pf_json_put(&o, "files", pf_json_u64(n->files));
	pf_json_put(&o, "bytes", pf_json_u64(n->bytes));
	return o;
}

static json_t *classes_json(const struct pf_clean_count *n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < PF_CLEAN_CLASSES; i++)
		pf_json_put(&o, pf_clean_class_name((enum pf_clean_class)i), count_json(&n[i]));
	return o;
}

static json_t *kept_json(const struct pf_clean_count *n)
{
	json_t *o = json_object();

	for (size_t i = PF_STAYS_HEAD; i < PF_FATES; i++)
		pf_json_put(&o, pf_fate_name((enum pf_fate)i), count_json(&n[i]));
	return o;
}

static json_t *ids_json(const struct pf_clean_pins *pins)
{
	json_t *list = json_array();

	for (size_t i = 0; i < pins->n_due; i++) {
		char id[PF_UUID_TEXT];
		pf_uuid_format(&pins->due[i], id);
		json_array_append_new(list, json_string(id));
	}
	return list;
}

int cleanup_print_end(struct cleaning *x, const char *branch, const struct pf_clean_pins *pins,
		      const struct pf_cleanup_report *r)
{
	json_t *o;

	progress_clear(&x->progress);
	if (!x->c->json) {
		fflush(stdout);
		say_end(x, branch, r);
		return 0;
	}
	o = json_object();
	pf_json_put(&o, "branch", pf_json_str(branch));
	pf_json_put(&o, "applied", json_boolean(x->apply));
	pf_json_put(&o, "expired", ids_json(pins));
	pf_json_put(&o, "versions", pf_json_u64(r->versions));
	pf_json_put(&o, "removed", classes_json(r->removed));
	pf_json_put(&o, "failed", classes_json(r->failed));
	pf_json_put(&o, "kept", kept_json(r->kept));
	pf_json_put(&o, "folders", pf_json_u64(r->folders));
	pf_json_put(&o, "files", json_incref(x->files));
	pf_json_put(&o, "failures", json_incref(x->failed));
	if (x->explain)
		pf_json_put(&o, "explained", json_incref(x->explained));
	return json_array_append_new(x->branches, o) < 0 ? no_memory() : 0;
}
