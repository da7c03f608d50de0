#include "pinctl.h"

#include <getopt.h>
#include <string.h>

const struct opt global_options[] = {
	{ "dataset", 'd', "DATASET", "the table's directory, or file:// and its path; else PINFS_DATASET" },
	{ "branch", 'b', "BRANCH", "work on this branch (main)" },
	{ "json", 0, NULL, "print data as JSON" },
	{ "help", 'h', NULL, "print help and exit" },
	{ "version", 'V', NULL, "print the version and exit" },
	{ NULL },
};

static void know(struct args *a, const struct opt *opts)
{
	size_t n = 0;

	while (n < OPTIONS_MAX && a->known[n])
		n++;
	for (; opts && opts->name && n < OPTIONS_MAX; opts++)
		a->known[n++] = opts;
}

const char *args_value(const struct args *a, const char *name)
{
	for (size_t i = 0; i < OPTIONS_MAX && a->known[i]; i++)
		if (strcmp(a->known[i]->name, name) == 0)
			return a->value[i];
	return NULL;
}

int args_number(const struct args *a, const char *name, uint64_t *out, struct pf_why *why)
{
	const char *s = args_value(a, name);
	char quoted[PF_QUOTE_TEXT];

	if (!s || pf_u64_parse(s, strlen(s), out) == 0)
		return 0;
	return pf_why_set(why, -EINVAL, "--%s %s is not a number", name, pf_text_quote(s, strlen(s), quoted));
}

int args_span(const struct args *a, const char *name, int64_t least, int64_t *seconds, struct pf_why *why)
{
	_cleanup_(pf_buf_release) struct pf_buf text = PF_BUF_INIT;
	const char *s = args_value(a, name);
	char quoted[PF_QUOTE_TEXT];
	struct pf_time t;

	if (!s)
		return 0;
	int r = pf_buf_addf(&text, "+%s", s);
	if (r < 0)
		return r;
	if (pf_time_parse((char *)text.data, text.len, (struct pf_time){ 0 }, &t, NULL) < 0 || t.sec < least)
		return pf_why_set(why, -EINVAL,
				  "--%s %s is not a span of time: expected a number with unit s, m, h or d, like 2h",
				  name, pf_text_quote(s, strlen(s), quoted));
	*seconds = t.sec;
	return 0;
}

/* What getopt returns for option i: its letter, or a number above all letters. */
static int code_of(const struct args *a, size_t i)
{
	return a->known[i]->letter ? a->known[i]->letter : 256 + (int)i;
}

static int bad_option(const struct command *cmd, const char *word, const char *wrong)
{
	const char *name = cmd ? cmd->name : "";
	char quoted[PF_QUOTE_TEXT];

	ctl_usage("option %s %s; see pinctl help%s%s", pf_text_quote(word, strlen(word), quoted), wrong, cmd ? " " : "",
		  name);
	return -EINVAL;
}

static void apply_globals(struct ctl *c, const struct args *a)
{
	if (args_value(a, "dataset"))
		c->dataset = args_value(a, "dataset");
	if (args_value(a, "branch"))
		c->branch_name = args_value(a, "branch");
	c->json |= args_value(a, "json") != NULL;
	c->help |= args_value(a, "help") != NULL;
	c->version |= args_value(a, "version") != NULL;
}

int args_parse(struct ctl *c, const struct command *cmd, int argc, char **argv, bool leading, struct args *a)
{
	struct option longs[OPTIONS_MAX + 1] = { { NULL } };
	char shorts[2 * OPTIONS_MAX + 3], *end = shorts;
	int code;

	*a = (struct args){ .n_operands = 0 };
	know(a, cmd ? cmd->options : NULL);
	know(a, global_options);

	/* "+": stop at the first operand; ":": tell a missing value from an unknown option. */
	if (leading)
		*end++ = '+';
	*end++ = ':';
	for (size_t i = 0; i < OPTIONS_MAX && a->known[i]; i++) {
		const struct opt *o = a->known[i];
		longs[i] = (struct option){ o->name, o->arg ? required_argument : no_argument, NULL, code_of(a, i) };
		if (o->letter)
			*end++ = o->letter;
		if (o->letter && o->arg)
			*end++ = ':';
	}
	*end = '\0';

	opterr = 0;
	optind = 0; /* start anew: this runs twice */
	while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const char *word = argv[optind - 1];
		if (code == ':')
			return bad_option(cmd, word, "needs a value");
		if (code == '?' && optopt >= 256)
			return bad_option(cmd, word, "takes no value");
		if (code == '?')
			return bad_option(cmd, optopt ? (char[]){ '-', (char)optopt, '\0' } : word, "is unknown");
		for (size_t i = 0; i < OPTIONS_MAX && a->known[i]; i++)
			if (code_of(a, i) == code)
				a->value[i] = optarg ? optarg : "";
	}
	apply_globals(c, a);
	a->operand = argv + optind;
	a->n_operands = argc - optind;
	return optind;
}
