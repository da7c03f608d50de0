/* pinctl: keep what a long-running job still needs of a Lance table, from the command line. */
#include "pinctl.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static int run(struct ctl *c, int argc, char **argv)
{
	const struct command *cmd;
	struct args a;
	int used;

	int first = args_parse(c, NULL, argc, argv, true, &a);
	if (first < 0)
		return EXIT_USAGE;
	if (c->version)
		return cmd_version(c, &a);
	if (first == argc) {
		if (!c->help)
			return ctl_usage("no command given; see pinctl help");
		help_usage();
		return 0;
	}
	cmd = command_find(argv + first, argc - first, &used);
	if (!cmd)
		return command_unknown(argv + first, argc - first);

	/* The command's last word stands where getopt expects the program's name. */
	first += used - 1;
	if (args_parse(c, cmd, argc - first, argv + first, cmd->rest, &a) < 0)
		return EXIT_USAGE;
	if (c->version)
		return cmd_version(c, &a);
	if (c->help) {
		help_command(cmd);
		return 0;
	}
	if (a.n_operands < cmd->min || (cmd->max >= 0 && a.n_operands > cmd->max))
		return ctl_usage("%s arguments; see pinctl help %s", a.n_operands < cmd->min ? "missing" : "too many",
				 cmd->name);
	return cmd->run(c, &a);
}

/* A closed descriptor 1 must not become that of the table's directory, nor 2 that of a manifest being written. */
static void open_standard_files(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
			_exit(EXIT_NO);
}

/* What was printed and did not arrive is a failure, whatever the command thinks. */
static int close_stdout(struct ctl *c, int status)
{
	if (ctl_flush(c) == 0 && !ferror(stdout))
		return status;
	if (c->write_error != EPIPE) /* a reader who left needs no telling */
		ctl_say("cannot write to standard output: %s", strerror(c->write_error ? c->write_error : EIO));
	return status ? status : EXIT_NO;
}

int main(int argc, char **argv)
{
	struct ctl c = { .dataset = getenv("PINFS_DATASET") };

	open_standard_files();
	c.sigpipe = signal(SIGPIPE, SIG_IGN); /* a commit in hand is finished and reported, whoever reads */
	int status = run(&c, argc, argv);
	ctl_close(&c);
	return close_stdout(&c, status);
}
