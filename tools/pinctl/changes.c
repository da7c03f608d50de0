/* What a version did, on one line: of snapshots, log and watch. */
#include "pinctl.h"

#include <inttypes.h>

void print_version(const struct pf_manifest *m, const struct pf_txn *t)
{
	char when[PF_TIME_TEXT] = "-", op[32];

	if (m->has_timestamp)
		pf_time_format(m->timestamp, when);
	printf("%" PRIu64 "\t%s\t%s", m->version, when,
	       t && t->operation ? pf_txn_operation_name(t->operation, op) : "-");
	if (t && t->kind != PF_OP_NONE)
		printf(" (%s)", pf_op_kind_name(t->kind));
}

const char *change_word(const struct pf_step *s, enum pf_change_kind kind, const struct pf_pin *pin)
{
	bool then = kind != PF_CHANGE_REGISTERED || s->m->version == pin->source_version + 1;

	return then ? pf_change_name(kind) : CHANGE_HELD;
}

static void print_expiry(const struct pf_pin *pin, const struct pf_pin *before)
{
	char text[PF_TIME_TEXT];

	if (before && before != pin) {
		pf_time_format(before->expires_at, text);
		printf("%s -> ", text);
	}
	pf_time_format(pin->expires_at, text);
	fputs(pin->source_txn[0] ? text : "-", stdout);
}

void print_change(const struct pf_step *s, const char *change, const struct pf_pin *pin, const struct pf_pin *before)
{
	_cleanup_(pf_buf_release) struct pf_buf writer = PF_BUF_INIT, label = PF_BUF_INIT;
	char id[PF_UUID_TEXT];

	print_version(s->m, s->txn);
	if (!pin) {
		puts("\t-\t-\t-");
		return;
	}
	pf_uuid_format(&pin->id, id);
	printf("\t%s", change);
	if (change == pf_change_name(PF_CHANGE_LOST) && pf_writer_describe(s->m, &writer) == 0 && pf_buf_str(&writer))
		printf(" by %s", (char *)writer.data);
	printf("\t%s\t", id);
	print_expiry(pin, before);
	if (pin->label && pin->label[0])
		printf("\t%s", safe(pin->label, &label));
	putchar('\n');
}

void say_gap(const struct pf_step *s)
{
	uint64_t first = s->before->version + 1, last = s->m->version - 1;

	if (first == last)
		ctl_say("version %" PRIu64 " is not kept: what it did to pins is not known", first);
	else
		ctl_say("versions %" PRIu64 " to %" PRIu64 " are not kept: what they did to pins is not known", first,
			last);
}
