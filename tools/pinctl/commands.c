/* The table of commands. Usage and help are printed from it. */
#include "pinctl.h"

#define TIME_FORMS                                                                                                     \
	"T is a time: 2031-06-01T12:00:00Z (or with an offset), @SECONDS since 1970, or +N with\n"                     \
	"unit s, m, h or d, counted from now.\n"

static const struct opt enable_options[] = {
	{ "apply", 0, NULL, "commit; without it only say what would change" },
	{ NULL },
};

static const struct opt ls_options[] = {
	{ "expired", 0, NULL, "only pins whose time has passed and that nothing has removed yet" },
	{ NULL },
};

static const struct opt request_options[] = {
	{ "id", 0, "ID", "the pin's id, a UUID (a new random one)" },
	{ "label", 0, "LABEL", "what the pin is for" },
	{ "source", 0, "VERSION:UUID", "the snapshot it is for: version and transaction uuid" },
	{ "floating", 0, NULL, "name no snapshot: the pin is for whatever head it lands on" },
	{ NULL },
};

static const struct opt register_options[] = {
	{ "id", 0, "ID", "the pin's id, a UUID (a new random one)" },
	{ "label", 0, "LABEL", "what the pin is for" },
	{ "source", 0, "VERSION:UUID", "the snapshot it is for: version and transaction uuid" },
	{ "request", 0, "LINE", "a request as `pinctl request` prints it" },
	{ "request-file", 0, "FILE", "the same from a file, - for standard input" },
	{ "no-guard", 0, NULL, "put no tag on the source: old cleaners may delete what the pin keeps" },
	{ NULL },
};

static const struct opt confirm_options[] = {
	{ "request", 0, "LINE", "what was asked for: source, label, branch and expiry are compared too" },
	{ NULL },
};

static const struct opt release_options[] = {
	{ "waive", 0, NULL, "settle lost pins: commit their release though they are not there" },
	{ NULL },
};

static const struct opt expire_options[] = {
	{ "apply", 0, NULL, "commit their removal; without it only list them" },
	{ NULL },
};

static const struct opt snapshots_options[] = {
	{ "since", 0, "VERSION", "from this version on" },
	{ "limit", 0, "N", "only the newest N" },
	{ "reasons", 0, NULL, "and what keeps each of them" },
	{ NULL },
};

static const struct opt run_options[] = {
	{ "for", 0, "D", "how long the pin holds after the last renewal: a number with unit s, m, h or d" },
	{ "label", 0, "LABEL", "what the pin is for" },
	{ "strict", 0, NULL, "stop CMD when its pin is gone, or its renewal is refused or not known; status 75" },
	{ "no-guard", 0, NULL, "put no tag on the source: old cleaners may delete what the pin keeps" },
	{ NULL },
};

static const struct opt watch_options[] = {
	{ "interval", 0, "D", "look that often: a number with unit s, m, h or d (1s)" },
	{ "count", 'n', "COUNT", "end after so many changes; with 0 only tell the state" },
	{ NULL },
};

static const struct opt timeline_options[] = {
	{ "width", 0, "N", "so many columns, 40 or more (those of the terminal, else 80; of the SVG 132)" },
	{ "ascii", 0, NULL, "draw with ASCII alone, as without a UTF-8 locale" },
	{ "svg", 0, "FILE", "draw into an SVG file, - for standard output" },
	{ NULL },
};

static const struct opt cleanup_options[] = {
	{ "older-than", 0, "D", "let go what is older: a number with unit s, m, h or d (14d if no policy is given)" },
	{ "before-version", 0, "N", "let go versions below this one" },
	{ "retain", 0, "N", "let go all but the N newest" },
	{ "versions", 0, "LIST", "let go these: 3,5,7-9" },
	{ "tags", 0, "error|skip", "refuse if a version that would go has a tag (error), or keep it" },
	{ "delete-unverified", 0, NULL, "files that no version names go however young: nobody writes now" },
	{ "leaks", 0, NULL, "also what Lance never collects" },
	{ "all-branches", 0, NULL, "clean every branch, main last" },
	{ "explain", 0, NULL, "list every file, with what becomes of it and why" },
	{ "rate", 0, "N", "remove at most N files a second" },
	{ "jobs", 0, "N", "remove N files at once (1)" },
	{ "apply", 0, NULL, "delete; without it only list" },
	{ NULL },
};

static const struct opt trim_options[] = {
	{ "apply", 0, NULL, "commit; without it only list" },
	{ NULL },
};

static const struct opt commit_options[] = {
	{ "transaction", 0, "FILE", "a serialized transaction, as they lie in _transactions/" },
	{ "append", 0, "FILE", "append fragments: Lance's JSON of one, or an array of them" },
	{ "rewrite", 0, "FILE", "a compaction: Lance's JSON of a RewriteResult, or an array of them" },
	{ "from", 0, "DIR", "their data files lie here, as in a scratch dataset: move them into the table" },
	{ "from-copy", 0, "DIR", "all that Lance committed on a copy (pinctl copy) since it was made" },
	{ "skip-indices", 0, NULL, "from a copy: leave out index files that do not fit the table any more" },
	{ "dry-run", 0, NULL, "check it against the head as it is now, and write nothing" },
	{ NULL },
};

static const struct opt doctor_options[] = {
	{ "all-branches", 0, NULL, "look at every branch" },
	{ NULL },
};

static const struct opt branch_create_options[] = {
	{ "from", 0, "V", "a version of the branch of -b, a tag, a branch, or BRANCH:VERSION" },
	{ NULL },
};

static const struct opt restore_options[] = {
	{ "dry-run", 0, NULL, "write nothing, as without --apply" },
	{ "apply", 0, NULL, "commit" },
	{ NULL },
};

static const struct opt branch_delete_options[] = {
	{ "force", 0, NULL, "also what a creation or deletion that did not finish left of one" },
	{ NULL },
};

const struct command commands[] = {
	{
		.name = "status",
		.run = cmd_status,
		.synopsis = "",
		.summary = "one screen: head, flags, pins, and the window they keep",
	},
	{
		.name = "enable",
		.run = cmd_enable,
		.synopsis = "[--apply]",
		.summary = "let the table hold pins; without --apply only say what that changes",
		.text = "Sets writer feature bit 19. From then on released Lance never writes to the table\n"
			"directly again, and the bit is never cleared. Read what is printed before --apply.\n",
		.options = enable_options,
	},
	{
		.name = "ls",
		.run = cmd_ls,
		.synopsis = "[--expired]",
		.summary = "list the pins of the branch",
		.text = "A line a pin: id, source version, expiry, what remains, label. A pin whose time has\n"
			"passed is overdue: it still holds until an expire commit removes it.\n",
		.options = ls_options,
	},
	{
		.name = "show",
		.run = cmd_show,
		.synopsis = "ID",
		.summary = "print a pin's record",
		.min = 1,
		.max = 1,
	},
	{
		.name = "request",
		.run = cmd_request,
		.synopsis = "T [--id ID] [--label LABEL] [--source VERSION:UUID | --floating]",
		.summary = "print a request to register later; nothing is written",
		.text = TIME_FORMS
		"The line names the head as it is now, and is also the name of the directory that\n"
		"registers it in the mount. However often it is registered, it gets that snapshot or\n"
		"nothing.\n",
		.min = 1,
		.max = 1,
		.options = request_options,
	},
	{
		.name = "register",
		.run = cmd_register,
		.synopsis = "T [--id ID] [--label LABEL] [--source VERSION:UUID] [--no-guard]\n"
			    "--request LINE [--no-guard]\n"
			    "--request-file FILE [--no-guard]",
		.summary = "register a pin and print its id",
		.text = TIME_FORMS
		"Without --source the pin is for the head it lands on. A tag is put on the source,\n"
		"pinfs-ID, because released Lance up to 13 and LanceDB clean without knowing of pins and\n"
		"stop at a tag; it goes with the pin.\n",
		.max = 1,
		.options = register_options,
	},
	{
		.name = "confirm",
		.run = cmd_confirm,
		.synopsis = "ID\n--request LINE",
		.summary = "say whether a pin is held, from storage as it is now",
		.text = "Exit status: 0 held, 1 not held, 76 cannot tell.\n",
		.max = 1,
		.options = confirm_options,
	},
	{
		.name = "renew",
		.run = cmd_renew,
		.synopsis = "ID T",
		.summary = "move a pin's expiry further away and print it",
		.text = TIME_FORMS "An expiry that is already as late is left alone.\n",
		.min = 2,
		.max = 2,
	},
	{
		.name = "release",
		.run = cmd_release,
		.synopsis = "[--waive] ID...",
		.summary = "release pins, all in one commit",
		.text = "A pin that is not there counts as released. Of one that is lost, dropped by a writer that\n"
			"does not know pins, --waive says in the table that nobody needs it any more.\n",
		.min = 1,
		.max = -1,
		.options = release_options,
	},
	{
		.name = "expire",
		.run = cmd_expire,
		.synopsis = "[--apply]",
		.summary = "list the pins whose time has passed; with --apply remove them",
		.options = expire_options,
	},
	{
		.name = "run",
		.run = cmd_run,
		.synopsis = "--for D [--label LABEL] [--strict] [--no-guard] [--] CMD [ARG...]",
		.summary = "hold a pin on the head while a command runs",
		.text = "Registers a pin, reads that it is held, and runs CMD with PINFS_PIN_ID and PINFS_DATASET\n"
			"in its environment. Renews the pin when half its time is over, for D from then on. When\n"
			"CMD returns 0 the pin is released, else it is kept, and how to release it is printed.\n"
			"Exit status: CMD's; 128+N if signal N ended it; 127 not found, 126 cannot be run; 75 stopped\n"
			"by --strict; of register, if there is no pin: then CMD is not started.\n",
		.min = 1,
		.max = -1,
		.rest = true,
		.options = run_options,
	},
	{
		.name = "snapshots",
		.run = cmd_snapshots,
		.synopsis = "[--since VERSION] [--limit N] [--reasons]",
		.summary = "list versions, oldest first",
		.text = "A line a version: version, time and operation, separated by tabs; with --reasons also\n"
			"what keeps it, joined by commas: pin:ID, head, tag:NAME, branch:NAME, or - for nothing.\n",
		.options = snapshots_options,
	},
	{
		.name = "timeline",
		.run = cmd_timeline,
		.synopsis = "[--width N] [--ascii] [--svg FILE]",
		.summary = "draw versions, the window, pins, tags and branches",
		.text = "From left to right the versions that are there; those that were removed are one step,\n"
			"however many. With more versions than columns a column stands for several. A line a pin:\n"
			"from its source to the head, and how long it still holds. With many pins those whose\n"
			"sources are in one column share a line, with the time of the first that expires.\n",
		.options = timeline_options,
	},
	{
		.name = "usage",
		.run = cmd_usage,
		.synopsis = "",
		.summary = "what each pin holds, in bytes",
		.text = "A line a pin, the dearest first: id, bytes that only it holds, bytes that it shares, growth\n"
			"per hour, versions in its window, age, label. What is shared is counted with each that\n"
			"shares it, so the two are never added up. Growth is what the head does not refer to any\n"
			"more, by age.\n",
	},
	{
		.name = "fri",
		.run = cmd_fri,
		.synopsis = "[RECORD]",
		.summary = "list the records of moved rows, and who needs them",
		.text = "A line a record of the fragment reuse index: its place in the history, version STAMP or\n"
			"transition, fragments FROM>TO, and who needs it: pin:ID, index:NAME, - for nobody, unknown\n"
			"if it cannot be told. With RECORD all of that one, and the way from each pin to it.\n"
			"Exit status: 3 if it cannot be told who needs a record.\n",
		.max = 1,
	},
	{
		.name = "why",
		.run = cmd_why,
		.synopsis = "FILE | VERSION | fri/RECORD",
		.summary = "every reason that keeps a file, a version or a record of moved rows",
		.text = "A line a reason: the reason and a sentence, separated by a tab. FILE is relative to the\n"
			"table, absolute, or as pinctl and the mount print it; without -b the branch is asked whose\n"
			"folders it is in.\n"
			"Exit status: 0 kept, 1 not kept, 3 it cannot be determined.\n",
		.min = 1,
		.max = 1,
	},
	{
		.name = "what-if release",
		.run = cmd_what_if_release,
		.synopsis = "ID...",
		.summary = "say what would be kept no more without these pins",
		.text = "Nothing is written. Exit status: 3 if it cannot be determined.\n",
		.min = 1,
		.max = -1,
	},
	{
		.name = "what-if expire",
		.run = cmd_what_if_expire,
		.synopsis = "",
		.summary = "the same without the pins whose time has passed",
	},
	{
		.name = "what-if untag",
		.run = cmd_what_if_untag,
		.synopsis = "NAME...",
		.summary = "the same without these tags",
		.text = "A tag that guards a pin keeps nothing by itself.\n",
		.min = 1,
		.max = -1,
	},
	{
		.name = "log",
		.run = cmd_log,
		.synopsis = "[ID]",
		.summary = "say when pins were registered, renewed, released, expired or lost",
		.text = "A line a change, oldest first: version, time, operation, change, id, expiry (the old one ->\n"
			"the new one) and label, separated by tabs. It is known from the versions that are kept; a\n"
			"pin that the oldest of them has already is \"held\", one that goes with versions that are\n"
			"not kept is \"unknown\". A \"waived\" one was lost, and settled by release --waive.\n",
		.max = 1,
	},
	{
		.name = "watch",
		.run = cmd_watch,
		.synopsis = "[--interval D] [-n COUNT]",
		.summary = "tell the state, and then each change of head and pins as it comes",
		.text = "Lines as those of log: the head and each pin it holds, and then a line for each change of a\n"
			"pin, or for a version that changed none. With --json an object a line. Trouble is said and\n"
			"waited out. Ends with status 0 on SIGINT or SIGTERM.\n",
		.options = watch_options,
	},
	{
		.name = "commit",
		.run = cmd_commit,
		.synopsis = "--transaction FILE [--from DIR] [--dry-run]\n--append FILE [--from DIR] [--dry-run]\n"
			    "--rewrite FILE [--from DIR] [--dry-run]\n--from-copy DIR [--skip-indices] [--dry-run]",
		.summary = "publish work that Lance prepared, with pins kept, and print the version",
		.text = "It is checked against every version since the one it was prepared on. To repeat the commit\n"
			"of a transaction is safe: one that is there already is success. From a copy the versions since\n"
			"it was made follow one after the other, each checked like that; a line for each says its version\n"
			"there and here, the operation, and whether it was committed now or already, or left out. What\n"
			"stops says which are in, and the same command goes on behind them.\n"
			"Exit status: 2 or 3 the input is bad or damaged; 75 it conflicts with what was committed\n"
			"meanwhile, prepare it anew; 1 it can never be committed; 4 a pin needs what it would lose.\n",
		.options = commit_options,
	},
	{
		.name = "gate",
		.run = cmd_gate,
		.synopsis = "FILE",
		.summary = "say whether a compaction could be committed, as things are now",
		.text = "FILE is a transaction, or the results of a compaction in Lance's JSON. It is checked as by\n"
			"commit, where pins must be able to follow each row that it moves; nothing is written.\n"
			"Exit status: 0 it passes; 4 it is blocked by the pins that are named: plan it anew; others as\n"
			"commit.\n",
		.min = 1,
		.max = 1,
	},
	{
		.name = "trim",
		.run = cmd_trim,
		.synopsis = "[--apply]",
		.summary = "drop records of moved rows that nobody needs; without --apply only list them",
		.text = "A line a record: keep or drop, its place in the history, version STAMP or transition, and who\n"
			"needs it (pin:ID, index:NAME, - for nobody), separated by tabs. What is kept stays as it is,\n"
			"byte for byte. If there is nothing to drop, nothing is committed.\n"
			"Exit status: 3 it cannot be told what an index needs; 4 it cannot be told what a pin needs.\n",
		.options = trim_options,
	},
	{
		.name = "branch ls",
		.run = cmd_branch_ls,
		.synopsis = "",
		.summary = "list branches",
		.text = "A line a branch: name, head, number of pins, and where it was made (parent:version).\n",
	},
	{
		.name = "branch create",
		.run = cmd_branch_create,
		.synopsis = "NAME [--from VERSION | TAG | BRANCH[:VERSION]]",
		.summary = "make a branch, from the head of the branch of -b if nothing is named",
		.text = "Files stay where they are and are shared. The branch has no pins; pins are enabled on it\n"
			"if they were in that version. Names are as Lance wants them, in ASCII.\n",
		.min = 1,
		.max = 1,
		.options = branch_create_options,
	},
	{
		.name = "branch delete",
		.run = cmd_branch_delete,
		.synopsis = "NAME [--force]",
		.summary = "delete a branch with all its versions, unless something holds it",
		.text = "Pins, tags, branches made from it and a head that cannot be read hold it, forced or not, and\n"
			"are named. Branches whose names begin with NAME/ stay.\n"
			"Exit status: 4 held.\n",
		.min = 1,
		.max = 1,
		.options = branch_delete_options,
	},
	{
		.name = "copy",
		.run = cmd_copy,
		.synopsis = "DIR",
		.summary = "make a copy without pins that released Lance can write to",
		.text = "DIR is a new directory on the same file system. All versions, branches and tags are there;\n"
			"files are hard links, manifests new files in which bit 19 and pins are cleared, and the copy\n"
			"of a table whose branches Lance made does not lead back to it.\n",
		.min = 1,
		.max = 1,
	},
	{
		.name = "clone",
		.run = cmd_clone,
		.synopsis = "DIR [--from VERSION | TAG | BRANCH[:VERSION]]",
		.summary = "make a shallow clone in a directory of its own",
		.text = "It reads this table's files where they are, and nothing here knows of it: what this table's\n"
			"cleanup deletes is gone there. It has no pins; pins are enabled as in that version.\n",
		.min = 1,
		.max = 1,
		.options = branch_create_options,
	},
	{
		.name = "restore",
		.run = cmd_restore,
		.synopsis = "VERSION [--dry-run | --apply]",
		.summary = "go back to an older version, as a new one; without --apply only say what that means",
		.text = "Pins stay as they are and keep what they kept. Says which fragments come back and go, how\n"
			"many records of moved rows stay, and of which pins all rows can still be followed.\n",
		.min = 1,
		.max = 1,
		.options = restore_options,
	},
	{
		.name = "tag ls",
		.run = cmd_tag_ls,
		.synopsis = "",
		.summary = "list tags",
		.text = "A line a tag: name, version, branch, time of creation.\n",
	},
	{
		.name = "tag create",
		.run = cmd_tag_create,
		.synopsis = "NAME [VERSION | TAG | BRANCH[:VERSION]]",
		.summary = "tag a version, of the branch of -b its head if none is named",
		.text = "Lance's cleanup keeps a version that has a tag. A tag is never moved: delete it first.\n",
		.min = 1,
		.max = 2,
	},
	{
		.name = "tag delete",
		.run = cmd_tag_delete,
		.synopsis = "NAME",
		.summary = "remove a tag",
		.min = 1,
		.max = 1,
	},
	{
		.name = "check",
		.run = cmd_check,
		.synopsis = "",
		.summary = "read every manifest and transaction of the table and say what is wrong",
		.text = "A line a finding: damage or note, branch, version, file and sentence, separated by tabs.\n"
			"Then, as window, everything that speaks against destructive work: what a pin needs and is\n"
			"not there, is damaged or cannot be interpreted, with the pins that it concerns.\n"
			"Exit status: 0 no damage, 3 damage.\n",
	},
	{
		.name = "doctor",
		.run = cmd_doctor,
		.synopsis = "[--all-branches]",
		.summary = "what should be done about the table, a line a check, with the command that does it",
		.text = "A line a check: ok, advice or trouble, branch, check, sentence, and the command that helps\n"
			"or -, separated by tabs. Nothing is changed.\n"
			"Exit status: 0 no trouble, 3 something is damaged or cannot be determined, 4 a window is\n"
			"blocked or a pin is lost, 1 something cannot be written; of several the highest.\n",
		.options = doctor_options,
	},
	{
		.name = "cleanup",
		.run = cmd_cleanup,
		.synopsis =
			"[POLICY...] [--tags error|skip] [--delete-unverified] [--leaks] [--all-branches] [--explain] [--apply]",
		.summary = "delete what no version needs any more; without --apply only list it",
		.text = "POLICY: --older-than D, --before-version N, --retain N, --versions LIST; a version goes if it\n"
			"meets all that are given. The head, what pins, tags and branches hold, and files younger\n"
			"than seven days that no version names stay. Pins whose time has passed are expired first.\n"
			"A line a file that goes: bytes, class, path, separated by tabs; sums go to standard error.\n"
			"Exit status: 1 some files could not be removed, 4 blocked and nothing deleted.\n",
		.options = cleanup_options,
	},
	{
		.name = "help",
		.run = cmd_help,
		.synopsis = "[COMMAND]",
		.summary = "print help",
		.max = 2,
	},
	{
		.name = "version",
		.run = cmd_version,
		.synopsis = "",
		.summary = "print the version",
	},
	{ NULL },
};
