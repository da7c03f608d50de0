/*
 * What the commands of pinctl share: the row each has in the table, its arguments, and the table and branch it works on. A command parses,
 * calls core, prints: data on stdout, sentences on stderr, and returns its exit status (design: section 6).
 */
#ifndef PINCTL_H
#define PINCTL_H

#include <signal.h>
#include <stdio.h>

#include "core/branch.h"
#include "core/commit.h"
#include "core/render_retention.h"

enum { EXIT_NO = 1, EXIT_USAGE = 2, EXIT_DAMAGE = 3, EXIT_AGAIN = 75, EXIT_UNKNOWN = 76 };

/* One option of a command. Tables of them end with a row without name. */
struct opt {
	const char *name;
	char letter;	 /* 0: only the long form */
	const char *arg; /* what its value is called, NULL: takes none */
	const char *help;
};

#define OPTIONS_MAX 20 /* of one command, the global ones included */

struct args {
	const struct opt *known[OPTIONS_MAX];
	const char *value[OPTIONS_MAX]; /* "" for a given option without value, NULL: not given */
	char **operand;			/* borrowed from argv */
	int n_operands;
};

/* The value of a given option; NULL if it was not given. `name` must be in the command's table. */
const char *args_value(const struct args *a, const char *name);

/* The same as a number, or as a span of at least `least` seconds: a number with unit s, m, h or d. *out stays as it is if it was not given. 0 or -EINVAL. */
int args_number(const struct args *a, const char *name, uint64_t *out, struct pf_why *why);
int args_span(const struct args *a, const char *name, int64_t least, int64_t *seconds, struct pf_why *why);

/* The options that others than a command itself look at, and everything opened for them. Zero is the start; release with ctl_close. */
struct ctl {
	const char *dataset; /* as the user spelled it, NULL: not given */
	const char *branch_name;
	bool json, help, version;
	bool no_guard;		  /* register: without a guard tag */
	sighandler_t sigpipe;	  /* as whoever started us left it */
	int write_error;	  /* of ctl_flush */
	struct pf_store *store;	  /* after ctl_open_store */
	struct pf_branch *branch; /* after ctl_open */
};

struct command {
	const char *name;     /* may be two words */
	const char *synopsis; /* what follows the name in usage; one line a form of it */
	const char *summary;  /* one line, no full stop */
	const char *text;     /* the rest of its help, lines ended; NULL if the summary says it all */
	int min, max;	      /* operands; max -1: any number */
	bool rest;	      /* they are another program's: the first ends the options */
	const struct opt *options;
	int (*run)(struct ctl *c, const struct args *a);
};

extern const struct command commands[]; /* ends with a row without name */

/* The command named by the first words; one of two words wins. *used says how many it took. NULL if there is none. */
const struct command *command_find(char **words, int n, int *used);
int command_unknown(char **words, int n); /* say so, with the nearest there is; EXIT_USAGE */
void help_usage(void);
void help_command(const struct command *cmd);

/* args.c: global options, before and after the command. */
extern const struct opt global_options[];

/*
 * Read the options of argv[1..] and, unless `leading`, the operands between them. Global options go to *c, the others to *a.
 * With `leading` the first operand ends it. Returns the index of the first operand, or -EINVAL after saying on stderr what is wrong.
 */
int args_parse(struct ctl *c, const struct command *cmd, int argc, char **argv, bool leading, struct args *a);

/* ctl.c */
void ctl_close(struct ctl *c); /* what was opened; it can be opened again */
int ctl_open_store(struct ctl *c, struct pf_why *why);
int ctl_open(struct ctl *c, struct pf_why *why); /* store, and the branch of -b */
int ctl_open_branch(struct ctl *c, const char *name, struct pf_why *why);

/*
 * point.c: the store, and the branch of what the user names: VERSION (of the branch of -b), TAG, BRANCH (its head) or BRANCH:VERSION; NULL: the head of the
 * branch of -b. *version: which of that branch; whether it is there is not looked at.
 */
int ctl_open_point(struct ctl *c, const char *text, uint64_t *version, struct pf_why *why);
bool ctl_is_inside(const struct ctl *c, const char *at); /* an absolute path without links, below the open table */
const char *ctl_branch(const struct ctl *c);		 /* for sentences: "main" or the name */

/* Say it on stderr as `pinctl: sentence`, return the exit status. */
int ctl_fail(int err, const struct pf_why *why);
int ctl_usage(const char *fmt, ...) _printf_(1, 2); /* EXIT_USAGE */
void ctl_say(const char *fmt, ...) _printf_(1, 2);

/*
 * Run operations of one kind on the branch in one commit. Errors of single operations are in the answers; the result is an error only if
 * nothing was tried, and then the answers are as they were.
 */
int ctl_commit(struct ctl *c, const struct pf_op *ops, size_t n, struct pf_answer *answers, struct pf_why *why);

/* Say on stderr what came of an operation; 0 if it succeeded, else the exit status. With an unknown outcome comes the command that settles it. */
int ctl_judge(const struct pf_answer *answer);

/*
 * Warn of lost pins, by a look at so many versions (pf_lost_recent), and of not knowing: they hold nothing, so they are no data of who lists
 * pins.
 */
void say_lost(struct ctl *c, uint64_t versions);

/* The process of the gateway that is mounted over the path of the open table; 0: there is none here. */
long ctl_gateway(const struct ctl *c);

/* What was printed goes out. 0 or -errno, which main tells at the end. */
int ctl_flush(struct ctl *c);

/* Print and release: one JSON value. 0, or the exit status of a failure. */
int ctl_print_json(json_t *j);

/* output.c: a JSON list, one element a line, printed as it comes. */
struct json_list {
	size_t n;
};
int json_list_add(struct json_list *l, json_t *element); /* takes it over; 0 or the exit status */
void json_list_end(struct json_list *l);

/* Rows of text whose columns are aligned by two blanks when printed; the last column is as long as it likes. */
#define TABLE_COLUMNS 7
struct table {
	char *(*row)[TABLE_COLUMNS];
	size_t n;
};
int table_add(struct table *t, const char *const *cells, size_t n); /* copied, at most TABLE_COLUMNS; 0 or -ENOMEM */
void table_print(const struct table *t);
void table_release(struct table *t);

/* "3d 4h", "5m 10s", "9s": two units at most, cut downwards. */
#define SPAN_TEXT 48
const char *span_format(int64_t seconds, char out[SPAN_TEXT]);

/* Text of others, safe for a terminal. Valid until *buf changes; "" without memory. */
const char *safe(const char *s, struct pf_buf *buf);

/* What to do about a lost pin. */
#define ADVICE_LOST "register anew under a new id, or `pinctl release --waive ID`"

/* The list of `pinctl ls`: id, source version, expiry, what remains, label. Also of `expire`. */
int pins_table_add(struct table *t, const struct pf_pin *p, struct pf_time now);

/* account.c: what is kept on the branch of -b. Zero is the start. */
struct account {
	struct pf_lines lines;
	struct pf_explain *e;
};
int account_open(struct ctl *c, struct account *a, struct pf_why *why);
void account_close(struct account *a);

/* Step by step, after ctl_open, on a terminal with progress if that takes long: read all lines; then choose one, NULL: main, or take account of any. */
int account_read(struct ctl *c, struct pf_lines *l, struct pf_why *why);
int account_choose(struct account *a, const char *name, struct pf_why *why);
int account_explain(struct pf_lines *l, struct pf_line *line, struct pf_explain **out, struct pf_why *why);

/* What `status` says of it in the time that it has: 1 and the sentence in *why if destructive work is refused, 0 if it is not, or that it is not known. */
int account_glance(struct ctl *c, struct pf_why *why);

/* Append in words how a pin's source leads to a record of moved rows. 0 or -ENOMEM. */
int add_fri_path(const struct pf_fri_path *p, struct pf_buf *out);

/* cmd_retention.c: `snapshots --reasons`. */
int snapshots_with_reasons(struct ctl *c, uint64_t since, uint64_t limit);

/* cmd_request.c: on a named branch a request says which, so that it cannot land on another, or on a later one of that name. */
int request_name_branch(struct ctl *c, struct pf_request *q, struct pf_why *why);

/* changes.c: version, time and operation, separated by tabs, without a newline. t NULL: none, or not readable. */
void print_version(const struct pf_manifest *m, const struct pf_txn *t);

/* A change in one word: that of core, or CHANGE_HELD for a pin that was there before the first version that shows it. */
#define CHANGE_HELD "held"
const char *change_word(const struct pf_step *s, enum pf_change_kind kind, const struct pf_pin *pin);

/* The line of a change: version, time, operation, change, id, expiry, and the label if it has one. pin NULL: no pin changed. */
void print_change(const struct pf_step *s, const char *change, const struct pf_pin *pin, const struct pf_pin *before);
void say_gap(const struct pf_step *s);

/*
 * signals.c: block these signals, a list that ends with 0, and read them from the descriptor that is returned, or -errno. Those that are
 * ignored stay so. *before: the mask as it was.
 */
int signals_open(const int *numbers, sigset_t *before);
struct signalfd_siginfo;
int signals_read(int fd, struct signalfd_siginfo *out); /* the number of one that came, 0: none did */

/* The commands. */
int cmd_status(struct ctl *c, const struct args *a);
int cmd_enable(struct ctl *c, const struct args *a);
int cmd_ls(struct ctl *c, const struct args *a);
int cmd_show(struct ctl *c, const struct args *a);
int cmd_renew(struct ctl *c, const struct args *a);
int cmd_release(struct ctl *c, const struct args *a);
int cmd_expire(struct ctl *c, const struct args *a);
int cmd_request(struct ctl *c, const struct args *a);
int cmd_register(struct ctl *c, const struct args *a);
int cmd_confirm(struct ctl *c, const struct args *a);
int cmd_snapshots(struct ctl *c, const struct args *a);
int cmd_fri(struct ctl *c, const struct args *a);
int cmd_usage(struct ctl *c, const struct args *a);
int cmd_why(struct ctl *c, const struct args *a);
int cmd_what_if_release(struct ctl *c, const struct args *a);
int cmd_what_if_expire(struct ctl *c, const struct args *a);
int cmd_what_if_untag(struct ctl *c, const struct args *a);
int cmd_log(struct ctl *c, const struct args *a);
int cmd_watch(struct ctl *c, const struct args *a);
int cmd_run(struct ctl *c, const struct args *a);
/* cmd_commit.c: say the command that settles an unknown outcome: the transaction is in its place, and committing it again is safe. */
struct pf_operation;
/* The same for another form of commit; file NULL: nothing is said. */
void ctl_advise(struct ctl *c, const char *option, const char *file);
void ctl_advise_commit(struct ctl *c, const struct pf_operation *o);

/* cmd_commit_copy.c: commit --from-copy. */
int commit_copy(struct ctl *c, const struct args *a);

int cmd_copy(struct ctl *c, const struct args *a);
int cmd_clone(struct ctl *c, const struct args *a);
int cmd_restore(struct ctl *c, const struct args *a);
int cmd_branch_ls(struct ctl *c, const struct args *a);
int cmd_branch_create(struct ctl *c, const struct args *a);
int cmd_branch_delete(struct ctl *c, const struct args *a);
int cmd_tag_ls(struct ctl *c, const struct args *a);
int cmd_tag_create(struct ctl *c, const struct args *a);
int cmd_tag_delete(struct ctl *c, const struct args *a);
int cmd_check(struct ctl *c, const struct args *a);
int cmd_cleanup(struct ctl *c, const struct args *a);
int cmd_doctor(struct ctl *c, const struct args *a);
int cmd_commit(struct ctl *c, const struct args *a);
int cmd_gate(struct ctl *c, const struct args *a);
int cmd_trim(struct ctl *c, const struct args *a);
int cmd_help(struct ctl *c, const struct args *a);
int cmd_timeline(struct ctl *c, const struct args *a);
int cmd_version(struct ctl *c, const struct args *a);

#endif
