/* What there is to say about the commands: usage, help, and what somebody may have meant. */
#include "pinctl.h"

#include <string.h>

static void print_options(const struct opt *o)
{
	for (; o->name; o++) {
		char left[64];
		snprintf(left, sizeof(left), "%c%c%c --%s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ',
			 o->letter ? ',' : ' ', o->name, o->arg ? " " : "", o->arg ? o->arg : "");
		printf("  %-26s %s\n", left, o->help);
	}
}

void help_usage(void)
{
	puts("usage: pinctl [-d DATASET] [-b BRANCH] [--json] COMMAND\n\n"
	     "Keep what a long-running job still needs of a Lance table, for a stated time.\n\n"
	     "commands:");
	for (const struct command *cmd = commands; cmd->name; cmd++)
		printf("  %-16s %s\n", cmd->name, cmd->summary);
	puts("\noptions, before or after the command:");
	print_options(global_options);
	puts("\nexit status: 0 done, 1 failed and nothing changed, 2 usage, 3 damaged table,\n"
	     "4 blocked, 75 try again, 76 outcome unknown. `pinctl help COMMAND` says more.");
}

void help_command(const struct command *cmd)
{
	const char *p = cmd->synopsis, *lead = "usage:";

	do {
		size_t n = strcspn(p, "\n");
		printf("%s pinctl [-d DATASET] [-b BRANCH] [--json] %s%s%.*s\n", lead, cmd->name, n ? " " : "", (int)n,
		       p);
		lead = "      ";
		p += n;
	} while (*p++);
	printf("\n%s\n", cmd->summary);
	if (cmd->text)
		printf("\n%s", cmd->text);
	puts("\noptions:");
	if (cmd->options)
		print_options(cmd->options);
	print_options(global_options);
}

static const struct command *find(const char *name)
{
	for (const struct command *cmd = commands; cmd->name; cmd++)
		if (strcmp(cmd->name, name) == 0)
			return cmd;
	return NULL;
}

#define NAME_TEXT 32

const struct command *command_find(char **words, int n, int *used)
{
	const struct command *cmd = NULL;
	char two[NAME_TEXT];

	if (n >= 2 && (size_t)snprintf(two, sizeof(two), "%s %s", words[0], words[1]) < sizeof(two))
		cmd = find(two);
	*used = cmd ? 2 : 1;
	return cmd ? cmd : find(words[0]);
}

/* How many single-character edits make b of a (Levenshtein). Both are shorter than NAME_TEXT. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NAME_TEXT];
	size_t n = strlen(b);

	for (unsigned k = 0; k <= n; k++)
		row[k] = k;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned corner = row[0];
		row[0] = i;
		for (size_t k = 1; k <= n; k++) {
			unsigned best = corner + (a[i - 1] != b[k - 1]);
			corner = row[k];
			if (row[k] + 1 < best)
				best = row[k] + 1;
			if (row[k - 1] + 1 < best)
				best = row[k - 1] + 1;
			row[k] = best;
		}
	}
	return row[n];
}

/* The command somebody may have meant: one that begins with the word, else the nearest within two edits. */
static const char *nearest(const char *word)
{
	const char *best = NULL;
	unsigned least = 3;

	if (!word[0] || strlen(word) >= NAME_TEXT)
		return NULL;
	for (const struct command *cmd = commands; cmd->name; cmd++) {
		if (strncmp(cmd->name, word, strlen(word)) == 0)
			return cmd->name;
		if (distance(word, cmd->name) < least) {
			least = distance(word, cmd->name);
			best = cmd->name;
		}
	}
	return best;
}

int command_unknown(char **words, int n)
{
	char two[NAME_TEXT], quoted[PF_QUOTE_TEXT];
	const char *meant = NULL;

	if (n >= 2 && (size_t)snprintf(two, sizeof(two), "%s %s", words[0], words[1]) < sizeof(two))
		meant = nearest(two);
	if (!meant)
		meant = nearest(words[0]);
	pf_text_quote(words[0], strlen(words[0]), quoted);
	if (meant)
		return ctl_usage("there is no command %s; did you mean `pinctl %s`?", quoted, meant);
	return ctl_usage("there is no command %s; see pinctl help", quoted);
}

int cmd_help(struct ctl *c, const struct args *a)
{
	const struct command *cmd;
	int used;

	if (a->n_operands == 0) {
		help_usage();
		return 0;
	}
	cmd = command_find(a->operand, a->n_operands, &used);
	if (!cmd || used < a->n_operands)
		return command_unknown(a->operand, a->n_operands);
	help_command(cmd);
	return 0;
}

int cmd_version(struct ctl *c, const struct args *a)
{
	if (c->json) {
		json_t *o = json_object();
		pf_json_put(&o, "version", json_string(PF_VERSION));
		return ctl_print_json(o);
	}
	puts("pinctl " PF_VERSION);
	return 0;
}
