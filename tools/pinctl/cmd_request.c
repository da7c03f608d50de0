#include "pinctl.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* The parts of a request that were given in words: T, --id, --label, --source. Text only; nothing is opened. */
static int request_from_words(const struct args *a, struct pf_request *q, struct pf_why *why)
{
	const char *id = args_value(a, "id"), *label = args_value(a, "label"), *source = args_value(a, "source");
	const char *t = a->operand[0];

	int r = pf_time_parse(t, strlen(t), pf_time_now(), &q->expires_at, why);
	if (r < 0)
		return r;
	if (id)
		r = pf_uuid_parse(id, strlen(id), &q->id, why);
	else
		pf_uuid_new(&q->id);
	if (r == 0 && label)
		r = pf_label_check(label, strlen(label), why);
	if (r == 0 && source) {
		q->has_source = true;
		r = pf_source_parse(source, strlen(source), &q->source_version, q->source_txn, why);
	}
	if (r < 0)
		return r;
	q->label = strdup(label ? label : "");
	return q->label ? 0 : -ENOMEM;
}

int request_name_branch(struct ctl *c, struct pf_request *q, struct pf_why *why)
{
	const char *name = pf_branch_name(c->branch);

	if (!name)
		return 0;
	q->branch = strdup(name);
	if (!q->branch)
		return -ENOMEM;
	return pf_branch_id(c->branch, q->branch_id, why);
}

/* Name the head as it is now as the source. */
static int name_head(struct ctl *c, struct pf_request *q, struct pf_why *why)
{
	_cleanup_(pf_manifest_unrefp) struct pf_manifest *head = NULL;
	_cleanup_(pf_txn_release) struct pf_txn txn = PF_TXN_INIT;

	int r = pf_branch_head(c->branch, &head, why);
	if (r < 0)
		return r;
	r = pf_txn_read(c->store, pf_branch_dir(c->branch), head, &txn, why);
	if (r == -ENODATA || r == -ENOENT || (r == 0 && !txn.uuid[0]))
		return pf_why_set(why, -EOPNOTSUPP,
				  "version %" PRIu64
				  ", the head, has no transaction identity that a request could name",
				  head->version);
	if (r < 0)
		return r;
	q->has_source = true;
	q->source_version = head->version;
	memcpy(q->source_txn, txn.uuid, sizeof(q->source_txn));
	return 0;
}

int cmd_request(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	_cleanup_(pf_buf_release) struct pf_buf line = PF_BUF_INIT;
	struct pf_why why = PF_WHY_INIT;

	if (args_value(a, "floating") && args_value(a, "source"))
		return ctl_usage("--floating names no source, and --source names one; give one of them");
	int r = request_from_words(a, &q, &why);
	if (r == 0)
		r = ctl_open(c, &why);
	if (r == 0)
		r = request_name_branch(c, &q, &why);
	if (r == 0 && !q.has_source && !args_value(a, "floating"))
		r = name_head(c, &q, &why);
	if (r == 0)
		r = pf_request_format(&q, &line);
	if (r == -ENAMETOOLONG)
		pf_why_default(&why, r, "the request would be longer than %d bytes; give it a shorter label",
			       PF_REQUEST_LINE_MAX - 1);
	if (r < 0)
		return ctl_fail(r, &why);
	if (c->json)
		return ctl_print_json(pf_json_request(&q));
	printf("%s\n", pf_buf_str(&line));
	return 0;
}

/* Far above any line and the newlines that editors leave behind it. */
#define REQUEST_FILE_MAX (4 * PF_REQUEST_LINE_MAX)

/* The line in a file, or of standard input for "-": trailing newlines are stripped, nothing else. */
static int read_line(const char *path, struct pf_buf *out, struct pf_why *why)
{
	char quoted[PF_QUOTE_TEXT], chunk[PF_REQUEST_LINE_MAX];
	FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	size_t n;
	int r = 0;

	pf_text_quote(path, strlen(path), quoted);
	if (!f) {
		r = -errno;
		return pf_why_set(why, r, "cannot read the request file %s: %s", quoted, strerror(-r));
	}
	while (r == 0 && out->len < REQUEST_FILE_MAX && (n = fread(chunk, 1, sizeof(chunk), f)) > 0)
		r = pf_buf_add(out, chunk, n);
	if (r == 0 && ferror(f)) {
		r = -errno;
		pf_why_set(why, r, "cannot read the request file %s: %s", quoted, strerror(-r));
	}
	if (r == 0 && out->len >= REQUEST_FILE_MAX)
		r = pf_why_set(why, -EINVAL,
			       "the request file %s has %d bytes or more; a request has one line, of at most %d",
			       quoted, REQUEST_FILE_MAX, PF_REQUEST_LINE_MAX - 1);
	if (f != stdin)
		fclose(f);
	while (out->len > 0 && out->data[out->len - 1] == '\n')
		out->len--;
	return r;
}

/* A request given whole, by --request or --request-file. */
static int request_from_text(const struct args *a, struct pf_request *q, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf file = PF_BUF_INIT;
	const char *text = args_value(a, "request"), *path = args_value(a, "request-file");
	size_t len;

	if (path) {
		int r = read_line(path, &file, why);
		if (r < 0)
			return r;
		text = file.data ? (const char *)file.data : "";
		len = file.len;
	} else {
		len = strlen(text);
	}
	return pf_request_parse(text, len, pf_time_now(), q, why);
}

/* On the branch of -b, else on the one the request names; that both agree is judged by core. */
static int open_for(struct ctl *c, const struct pf_request *q, struct pf_why *why)
{
	return ctl_open_branch(c, c->branch_name ? c->branch_name : q->branch, why);
}

static int report_registration(struct ctl *c, const struct pf_request *q, const struct pf_answer *answer)
{
	char id[PF_UUID_TEXT], expires[PF_TIME_TEXT];

	int status = ctl_judge(answer);
	if (status)
		return status;
	pf_uuid_format(&q->id, id);
	pf_time_format(answer->pin.expires_at, expires);
	ctl_say("source %" PRIu64 ":%s, expires %s", answer->pin.source_version, answer->pin.source_txn, expires);
	if (c->json)
		return ctl_print_json(pf_json_answer(answer));
	puts(id);
	return 0;
}

/* Exactly one way to say what is asked for. */
static int count_forms(const struct args *a)
{
	return a->n_operands + (args_value(a, "request") != NULL) + (args_value(a, "request-file") != NULL);
}

int cmd_register(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_op_release) struct pf_op op = { .kind = PF_OP_REGISTER };
	struct pf_answer answer = { 0 };
	struct pf_why why = PF_WHY_INIT;
	bool words = a->n_operands == 1;

	if (count_forms(a) != 1)
		return ctl_usage("give a time, --request or --request-file, one of them; see pinctl help register");
	if (!words && (args_value(a, "id") || args_value(a, "label") || args_value(a, "source")))
		return ctl_usage("a request line says its id, label and source itself; see pinctl help register");
	c->no_guard = args_value(a, "no-guard") != NULL;
	int r = words ? request_from_words(a, &op.request, &why) : request_from_text(a, &op.request, &why);
	if (r == 0)
		r = open_for(c, &op.request, &why);
	if (r == 0 && words)
		r = request_name_branch(c, &op.request, &why);
	if (r == 0)
		r = ctl_commit(c, &op, 1, &answer, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	int status = report_registration(c, &op.request, &answer);
	pf_answer_release(&answer);
	return status;
}

static void print_confirmation(struct ctl *c, const struct pf_confirmation *found, const struct pf_why *why)
{
	char id[PF_UUID_TEXT], expires[PF_TIME_TEXT];

	if (found->held) {
		pf_uuid_format(&found->pin.id, id);
		pf_time_format(found->pin.expires_at, expires);
		printf("held: %s, source %" PRIu64 ":%s, expires %s", id, found->pin.source_version,
		       found->pin.source_txn, expires);
	} else {
		printf("not held: %s", why->text);
	}
	printf("; read from version %" PRIu64 " of %s", found->version, ctl_branch(c));
	if (found->branch_id[0])
		printf(", id %s", found->branch_id);
	putchar('\n');
}

int cmd_confirm(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_request_release) struct pf_request q = PF_REQUEST_INIT;
	struct pf_confirmation found = { 0 };
	struct pf_why why = PF_WHY_INIT;
	bool whole = a->n_operands == 0;
	int r, status = 0;

	if (count_forms(a) != 1)
		return ctl_usage("give an id or --request, one of them; see pinctl help confirm");
	if (whole)
		r = request_from_text(a, &q, &why);
	else
		r = pf_uuid_parse(a->operand[0], strlen(a->operand[0]), &q.id, &why);
	if (r < 0)
		return ctl_fail(r, &why);

	r = open_for(c, &q, &why);
	if (r == 0)
		r = pf_confirm(c->branch, &q.id, whole ? &q : NULL, &found, &why);
	if (r < 0) {
		/* A table that cannot be found or read says nothing about the pin: status 1 would be taken for "not held". */
		status = ctl_fail(r, &why);
		return status == EXIT_USAGE ? status : EXIT_UNKNOWN;
	}
	if (c->json)
		status = ctl_print_json(pf_json_confirmation(&found, pf_branch_name(c->branch), &why));
	else
		print_confirmation(c, &found, &why);
	if (status == 0 && !found.held)
		status = EXIT_NO;
	/* An answer that did not arrive is none, and least of all "not held". */
	else if (status || ctl_flush(c) < 0)
		status = EXIT_UNKNOWN;
	pf_confirmation_release(&found);
	return status;
}
