#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs.h"

enum { KEY_RO, KEY_RW, KEY_CHECK, KEY_SHARED };

#define ROW(text, member)                                                                                              \
	{                                                                                                              \
		text, offsetof(struct fs_options, member), 1                                                           \
	}
#define PASS(text) FUSE_OPT_KEY(text, FUSE_OPT_KEY_KEEP)
#define DROP(text) FUSE_OPT_KEY(text, FUSE_OPT_KEY_DISCARD)

/* clang-format off */
static const struct fuse_opt table[] = {
	ROW("-f", foreground), ROW("-d", debug), ROW("debug", debug),
	ROW("-h", help), ROW("--help", help), ROW("-V", version), ROW("--version", version),
	ROW("-b %s", branch), ROW("branch=%s", branch),
	ROW("noguard", no_guard), ROW("tags", tags), ROW("uid=%s", uid_text), ROW("gid=%s", gid_text), ROW("mode=%s", mode_text),
	FUSE_OPT_KEY("ro", KEY_RO), FUSE_OPT_KEY("rw", KEY_RW),
	/* libfuse's own */
	FUSE_OPT_KEY("default_permissions", KEY_CHECK), FUSE_OPT_KEY("allow_other", KEY_SHARED), FUSE_OPT_KEY("allow_root", KEY_SHARED),
	PASS("auto_unmount"), PASS("fsname="), PASS("subtype="), PASS("max_read="),
	/* the kernel's */
	PASS("suid"), PASS("nosuid"), PASS("dev"), PASS("nodev"), PASS("exec"), PASS("noexec"), PASS("async"), PASS("sync"),
	PASS("dirsync"), PASS("atime"), PASS("noatime"), PASS("nodiratime"), PASS("nostrictatime"),
	/* what fstab says to others, and what is so anyway */
	DROP("defaults"), DROP("auto"), DROP("noauto"), DROP("nofail"), DROP("user"), DROP("user="), DROP("nouser"), DROP("users"),
	DROP("owner"), DROP("group"), DROP("_netdev"), DROP("comment="), DROP("relatime"), DROP("strictatime"),
	FUSE_OPT_END
};
/* clang-format on */

static int argument(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct fs_options *o = data;
	char q[PF_QUOTE_TEXT];

	switch (key) {
	case KEY_RO:
	case KEY_RW:
		o->ro = key == KEY_RO;
		return 1;
	case KEY_CHECK:
	case KEY_SHARED:
		o->check_modes = true;
		return key == KEY_SHARED;
	case FUSE_OPT_KEY_NONOPT:
		if (!o->dataset || !o->mountpoint) {
			char **to = o->dataset ? &o->mountpoint : &o->dataset;
			*to = strdup(arg);
			return *to ? 0 : -1;
		}
		fprintf(stderr, "pinfs: one dataset and one mountpoint are enough, and there is %s\n",
			pf_text_quote(arg, strlen(arg), q));
		return -1;
	default:
		if (!strncmp(arg, "x-", 2)) /* fstab: for programs that read it */
			return 0;
		fprintf(stderr, "pinfs: unknown option %s; see pinfs -h\n", pf_text_quote(arg, strlen(arg), q));
		return -1;
	}
}

void fs_options_release(struct fs_options *o)
{
	free(o->dataset);
	free(o->mountpoint);
	free(o->branch);
	free(o->uid_text);
	free(o->gid_text);
	free(o->mode_text);
	*o = (struct fs_options){ .dataset = NULL };
}

void fs_options_usage(void)
{
	fputs("usage: pinfs [-f] [-d] [-b BRANCH] [-o OPTION,...] DATASET MOUNTPOINT\n"
	      "Mount the pins of a Lance table; over the table's own directory: a gateway, through which\n"
	      "programs that know nothing of pins go on writing to it. See pinfs(8).\n"
	      "\n"
	      "  -f           stay in the foreground; say `pinfs: ready` on stderr when mounted\n"
	      "  -d           the same, and print every request\n"
	      "  -b BRANCH    show this branch in the root, like -o branch=\n"
	      "  -h, -V       this text; the version\n"
	      "  -o ro              refuse every change\n"
	      "  -o branch=NAME     show this branch in the root (main)\n"
	      "  -o noguard         put no guard tags, which keep cleaners that do not know pins from a source\n"
	      "  -o tags            in a gateway: show what pins keep as tags, so that cleaners plan around it\n"
	      "  -o allow_other     let other users in, as far as owner and mode let them\n"
	      "  -o uid=N, gid=N    owner of every file (whoever runs pinfs)\n"
	      "  -o mode=OCTAL      permissions of pins (0644); others lose w, directories gain x where r is\n"
	      "and the options of mount(8) and fstab(5) that make sense for a FUSE file system.\n"
	      "Unmount with `fusermount3 -u MOUNTPOINT`.\n",
	      stdout);
}

static int parse_id(const char *option, const char *text, id_t *out)
{
	uint64_t v;
	if (!text)
		return 0;
	if (pf_u64_parse(text, strlen(text), &v) < 0 || v >= UINT32_MAX) {
		fprintf(stderr, "pinfs: %s= takes a number\n", option);
		return -EINVAL;
	}
	*out = (id_t)v;
	return 0;
}

static int parse_mode(const char *text, mode_t *out)
{
	size_t n = text ? strspn(text, "01234567") : 0;
	if (!text)
		return 0;
	if (n == 0 || n > 4 || text[n] || strtoul(text, NULL, 8) > 0777) {
		fputs("pinfs: mode= takes up to three octal digits, like 0640\n", stderr);
		return -EINVAL;
	}
	*out = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

int fs_options_parse(struct fuse_args *args, struct fs_options *o)
{
	*o = (struct fs_options){ .uid = geteuid(), .gid = getegid(), .mode = 0644 };
	if (fuse_opt_parse(args, o, table, argument) < 0)
		return -EINVAL;
	if (o->help || o->version)
		return 0;
	if (!o->dataset || !o->mountpoint) {
		fprintf(stderr,
			"pinfs: %s: `pinfs TABLE DIRECTORY` mounts its pins there, `pinfs TABLE TABLE` a gateway over "
			"it; see pinfs -h\n",
			o->dataset ? "the mountpoint is missing" : "the dataset and the mountpoint are missing");
		return -EINVAL;
	}
	o->foreground |= o->debug;
	int r = parse_id("uid", o->uid_text, &o->uid);
	if (r == 0)
		r = parse_id("gid", o->gid_text, &o->gid);
	if (r == 0)
		r = parse_mode(o->mode_text, &o->mode);
	if (o->uid != geteuid() || (o->mode & 0600) != 0600)
		o->check_modes = true;
	return r;
}
