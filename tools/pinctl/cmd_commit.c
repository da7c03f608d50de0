#include "pinctl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bring.h"
#include "core/fragment_json.h"
#include "core/landed.h"
#include "core/rewrite_json.h"
#include "core/work.h"

/* A Merge has every fragment of a table. */
#define INPUT_MAX (UINT64_C(1) << 32)

static int input_failed(int err, const char *file, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];

	return pf_why_set(why, err, "cannot read %s: %s", pf_text_quote(file, strlen(file), quoted), strerror(-err));
}

/* All of a file of the user, wherever it is. */
static int read_input(const char *file, struct pf_buf *out, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT];
	struct stat st;
	/* A pipe that nobody writes to is refused below, not waited for. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return input_failed(errno == ENOENT ? -EINVAL : -errno, file, why);
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && !S_ISREG(st.st_mode)) {
		close(fd);
		return pf_why_set(why, -EINVAL, "%s is not a regular file", pf_text_quote(file, strlen(file), quoted));
	}
	if (r == 0 && (uint64_t)st.st_size >= INPUT_MAX)
		r = -EFBIG;
	if (r == 0)
		r = pf_buf_reserve(out, (size_t)st.st_size + 1);
	while (r == 0) {
		ssize_t n = read(fd, out->data + out->len, (size_t)st.st_size + 1 - out->len);
		if (n < 0 && errno != EINTR)
			r = -errno;
		if (n == 0)
			break;
		if (n > 0 && (out->len += (size_t)n) > (size_t)st.st_size)
			r = -EAGAIN; /* it grows while it is read */
	}
	close(fd);
	return r < 0 ? input_failed(r, file, why) : 0;
}

static int report(struct ctl *c, const struct pf_work *w, const struct pf_work_result *result)
{
	const struct pf_operation *o = w->operation;
	bool committed = !w->dry_run && !result->already;

	if (result->already)
		ctl_say("this %s was committed before, as version %" PRIu64, pf_operation_name(o), result->version);
	else if (w->dry_run)
		ctl_say("this %s could be committed as version %" PRIu64 "; nothing was written", pf_operation_name(o),
			result->version);
	else
		ctl_say("%s committed as version %" PRIu64, pf_operation_name(o), result->version);
	if (!c->json) {
		printf("%" PRIu64 "\n", result->version);
		return 0;
	}
	json_t *j = json_object();
	pf_json_put(&j, "version", pf_json_u64(result->version));
	pf_json_put(&j, "operation", json_string(pf_operation_name(o)));
	pf_json_put(&j, "transaction", json_string(o->uuid));
	pf_json_put(&j, "read_version", pf_json_u64(o->read_version));
	pf_json_put(&j, "checked", pf_json_u64(result->checked));
	pf_json_put(&j, "committed", json_boolean(committed));
	pf_json_put(&j, "already", json_boolean(result->already));
	return ctl_print_json(j);
}

/* The fragments of a JSON text, to be appended to the head; to the version it was when this very append was committed, if it was. */
static int load_append(struct ctl *c, const struct pf_buf *text, struct pf_operation *out, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	uint64_t read_version;
	int r = pf_branch_head(c->branch, &head, why);

	if (r == 0)
		read_version = head->version;
	for (bool known = false; r == 0;) {
		_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
		r = pf_append_from_json((char *)text->data, text->len, read_version, &bytes, why);
		if (r == 0)
			r = pf_operation_decode(&bytes, out, why);
		if (r < 0 || known)
			return r;
		known = true;
		r = pf_landed_find(c->branch, out->uuid, &read_version, why);
		if (r == -ENOENT)
			return 0;
		pf_operation_release(out);
	}
	return r;
}

/* Work as a file has it. Borrowed by a pf_work, see begin. */
struct input {
	struct pf_operation operation;
	struct pf_moved moved; /* of results of a compaction */
};

static void input_release(struct input *in)
{
	pf_operation_release(&in->operation);
	pf_moved_release(&in->moved);
}

enum form { TRANSACTION, APPEND, REWRITE };

static int load_rewrite(const struct pf_buf *text, struct input *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf bytes = PF_BUF_INIT;
	int r = pf_rewrite_from_json((char *)text->data, text->len, &bytes, &out->moved, why);

	return r < 0 ? r : pf_operation_decode(&bytes, &out->operation, why);
}

static int load(struct ctl *c, const char *file, enum form form, struct input *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf input = PF_BUF_INIT;
	char quoted[PF_QUOTE_TEXT];

	int r = read_input(file, &input, why);
	if (r < 0)
		return r;
	pf_text_quote(file, strlen(file), quoted);
	if (form == APPEND)
		r = load_append(c, &input, &out->operation, why);
	else if (form == REWRITE)
		r = load_rewrite(&input, out, why);
	else
		r = pf_operation_decode(&input, &out->operation, why);
	if (r < 0 && form == TRANSACTION)
		return pf_why_prefix(why, r, "%s is not a transaction", quoted);
	return r < 0 ? pf_why_prefix(why, r, "%s", quoted) : 0;
}

/* Lance records all that it compacts for a later remapping, and whoever has its results can do so. */
static struct pf_work begin(const struct input *in)
{
	return (struct pf_work){ .operation = &in->operation, .moved = &in->moved, .records = in->moved.n > 0 };
}

void ctl_advise(struct ctl *c, const char *option, const char *file)
{
	_cleanup_(pf_buf_release) struct pf_buf command = PF_BUF_INIT;

	if (file && pf_branch_command(c->branch, &command) == 0 &&
	    pf_buf_addf(&command, " commit --%s ", option) == 0 && pf_shell_quote(file, &command) == 0 &&
	    pf_buf_str(&command))
		ctl_say("to find out: %s", (char *)command.data);
}

void ctl_advise_commit(struct ctl *c, const struct pf_operation *o)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	_cleanup_(pf_freep) char *name = NULL;

	if (pf_txn_file_name(pf_branch_dir(c->branch), o->read_version, o->uuid, &name) == 0 &&
	    pf_buf_addf(&file, "%s/%s", c->store->at, name) == 0)
		ctl_advise(c, "transaction", pf_buf_str(&file));
}

/* A transaction does not say which rows a compaction moved: its results do, so those are to be given again. */
static void advise_rewrite(struct ctl *c, const char *file)
{
	_cleanup_(pf_freep) char *path = realpath(file, NULL);

	ctl_advise(c, "rewrite", path);
}

/* `rewrite`: the file of a compaction's results, NULL: it is something else. */
static int commit(struct ctl *c, const struct pf_work *w, const char *rewrite, const char *from,
		  struct pf_work_result *result, struct pf_why *why)
{
	_cleanup_(pf_bring_release) struct pf_bring files = { 0 };
	int r = from ? pf_bring_in(c->branch, from, w->operation, &files, why) : 0;

	if (r < 0)
		return r;
	r = pf_work_commit(c->branch, w, result, why);
	if (r == -EINPROGRESS) {
		if (rewrite)
			advise_rewrite(c, rewrite);
		else
			ctl_advise_commit(c, w->operation);
		return r;
	}
	if (r < 0 || w->dry_run) {
		pf_bring_undo(c->branch, w->operation, &files);
		return r;
	}
	r = pf_bring_keep(c->branch, &files, why);
	if (r < 0)
		return r;
	size_t left = pf_bring_end(&files);
	if (left)
		ctl_say("%zu files are committed and could not be removed from %s", left, from);
	return 0;
}

int cmd_commit(struct ctl *c, const struct args *a)
{
	static const char *const names[] = {
		[TRANSACTION] = "transaction", [APPEND] = "append", [REWRITE] = "rewrite"
	};
	_cleanup_(input_release) struct input in = { 0 };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;
	const char *file = NULL;
	enum form form = TRANSACTION;
	unsigned given = 0;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (!args_value(a, names[i]))
			continue;
		file = args_value(a, names[i]);
		form = (enum form)i;
		given++;
	}
	bool copy = args_value(a, "from-copy") != NULL;
	if (given + copy != 1)
		return ctl_usage(
			"commit needs one of --transaction FILE, --append FILE, --rewrite FILE and --from-copy DIR; see "
			"pinctl help commit");
	if (copy && args_value(a, "from"))
		return ctl_usage("with --from-copy all files are those of the copy: it goes without --from");
	if (!copy && args_value(a, "skip-indices"))
		return ctl_usage("--skip-indices goes with --from-copy");
	if (copy)
		return commit_copy(c, a);
	int r = ctl_open(c, &why);
	if (r == 0)
		r = load(c, file, form, &in, &why);
	struct pf_work w = begin(&in);
	w.dry_run = args_value(a, "dry-run") != NULL;
	if (r == 0)
		r = commit(c, &w, args_value(a, "rewrite"), args_value(a, "from"), &result, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	return report(c, &w, &result);
}

/* JSON begins with a bracket, which no transaction does: it would be a field of a kind that there is none of any more. */
static enum form form_of(const char *file)
{
	struct stat st;
	/* A pipe would be waited for, see read_input. */
	FILE *f = stat(file, &st) == 0 && S_ISREG(st.st_mode) ? fopen(file, "re") : NULL;
	char first[2] = "";

	if (!f)
		return TRANSACTION; /* reading it says why */
	int n = fscanf(f, " %1s", first);
	fclose(f);
	return n == 1 && (first[0] == '{' || first[0] == '[') ? REWRITE : TRANSACTION;
}

int cmd_gate(struct ctl *c, const struct args *a)
{
	_cleanup_(input_release) struct input in = { 0 };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open(c, &why);
	if (r == 0)
		r = load(c, a->operand[0], form_of(a->operand[0]), &in, &why);
	struct pf_work w = begin(&in);
	w.dry_run = true;
	if (r == 0)
		r = pf_work_commit(c->branch, &w, &result, &why);
	return r < 0 ? ctl_fail(r, &why) : report(c, &w, &result);
}
