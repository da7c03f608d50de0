#include "pinctl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/bring.h"
#include "core/fragment_json.h"
#include "core/landed.h"
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
	struct stat st;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return input_failed(errno == ENOENT ? -EINVAL : -errno, file, why);
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && !S_ISREG(st.st_mode))
		r = -EINVAL;
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

static int load(struct ctl *c, const struct args *a, struct pf_operation *out, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf input = PF_BUF_INIT;
	const char *append = args_value(a, "append"), *file = append ? append : args_value(a, "transaction");
	char quoted[PF_QUOTE_TEXT];

	int r = read_input(file, &input, why);
	if (r < 0)
		return r;
	pf_text_quote(file, strlen(file), quoted);
	if (append) {
		r = load_append(c, &input, out, why);
		return r < 0 ? pf_why_prefix(why, r, "%s", quoted) : 0;
	}
	r = pf_operation_decode(&input, out, why);
	return r < 0 ? pf_why_prefix(why, r, "%s is not a transaction", quoted) : 0;
}

/* The command that settles an unknown outcome: a commit of the transaction, which is in its place, is safe to repeat. */
static void advise(struct ctl *c, const struct pf_operation *o)
{
	_cleanup_(pf_buf_release) struct pf_buf command = PF_BUF_INIT, file = PF_BUF_INIT;

	if (pf_buf_addf(&file, "%s/%s_transactions/%" PRIu64 "-%s.txn", c->store->at, pf_branch_dir(c->branch),
			o->read_version, o->uuid) == 0 &&
	    pf_branch_command(c->branch, &command) == 0 && pf_buf_addstr(&command, " commit --transaction ") == 0 &&
	    pf_buf_str(&file) && pf_shell_quote((char *)file.data, &command) == 0 && pf_buf_str(&command))
		ctl_say("to find out: %s", (char *)command.data);
}

static int commit(struct ctl *c, const struct pf_work *w, const char *from, struct pf_work_result *result,
		  struct pf_why *why)
{
	_cleanup_(pf_bring_release) struct pf_bring files = { 0 };
	int r = from ? pf_bring_in(c->branch, from, w->operation, &files, why) : 0;

	if (r < 0)
		return r;
	r = pf_work_commit(c->branch, w, result, why);
	if (r == -EINPROGRESS) {
		advise(c, w->operation);
		return r;
	}
	if (r < 0 || w->dry_run) {
		pf_bring_undo(&files);
		return r;
	}
	size_t left = pf_bring_end(&files);
	if (left)
		ctl_say("%zu files are committed and could not be removed from %s", left, from);
	return 0;
}

int cmd_commit(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_operation_release) struct pf_operation o = { 0 };
	const struct pf_work w = { .operation = &o, .dry_run = args_value(a, "dry-run") != NULL };
	struct pf_work_result result;
	struct pf_why why = PF_WHY_INIT;

	if (!args_value(a, "transaction") == !args_value(a, "append"))
		return ctl_usage("commit needs --transaction FILE or --append FILE; see pinctl help commit");
	int r = ctl_open(c, &why);
	if (r == 0)
		r = load(c, a, &o, &why);
	if (r == 0)
		r = commit(c, &w, args_value(a, "from"), &result, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	return report(c, &w, &result);
}
