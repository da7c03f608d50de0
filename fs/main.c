/*
 * pinfs: mount the pins of a Lance table. Set-up in the order of the functions below, teardown in the reverse; whatever can fail is tried before
 * anything is mounted, and said in one sentence.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/flags.h"
#include "handle.h"
#include "notify.h"

#define FUSE_SUPER_MAGIC 0x65735546

/* Writers wait in their thread for the commit they share; readers must still find one. Threads are made when needed only. */
#define THREADS_MAX 1024
/* By default a thread that was needed once stays for good. */
#define THREADS_IDLE 10

static int complain(int err, const struct pf_why *why)
{
	fprintf(stderr, "pinfs: %s\n", why->text[0] ? why->text : strerror(-err));
	return pf_error_exit(err);
}

/* Open the table and its head, and note what we found as the first line of the log. */
static int open_table(struct fs *fs, struct pf_why *why)
{
	_cleanup_(fs_view_unrefp) struct fs_view *v = NULL;
	struct pf_why text = PF_WHY_INIT;
	struct fs_branch *root;

	int r = pf_store_local_open(fs->opt.dataset, &fs->store, why);
	if (r == 0)
		r = fs_branch_intern(fs, fs->opt.branch, &root);
	if (r == 0)
		fs_kept_start(&fs->kept, fs->store);
	if (r == 0)
		r = fs_line_view(root->line, &v, why);
	if (r < 0)
		return r;

	const struct pf_manifest *m = v->manifest;
	pf_why_set(&text, 0, "branch %s at version %" PRIu64, fs_line_name(root->line), m->version);
	pf_flags_writable(m->writer_flags, &text);
	struct fs_act act = { .op = "mount", .path = ".", .version = m->version, .text = text.text };
	fs_control_note(&fs->control, &act);
	return 0;
}

/* Is the directory, whose stat is st, where a file system is mounted? */
static bool is_mounted(const char *dir, const struct stat *st)
{
	_cleanup_(pf_freep) char *up = NULL;
	struct stat above;

	return asprintf(&up, "%s/..", dir) > 0 && stat(up, &above) == 0 && above.st_dev != st->st_dev;
}

/* The absolute path, to be unmounted after chdir. The table's own makes us its gateway. */
static int check_mountpoint(struct fs *fs, char **out, struct pf_why *why)
{
	_cleanup_(pf_freep) char *inside = NULL;
	const char *mnt = fs->opt.mountpoint;
	char q[PF_QUOTE_TEXT];
	struct pf_stat table;
	struct stat st;
	struct statfs sf;

	pf_text_quote(mnt, strlen(mnt), q);
	if (stat(mnt, &st) < 0 || statfs(mnt, &sf) < 0) {
		int e = errno;
		if (e == ENOTCONN)
			return pf_why_set(why, -e,
					  "mountpoint %s: its daemon is dead: run `fusermount3 -u` on it first, with "
					  "-z if it is busy",
					  q);
		return pf_why_set(why, -e, "mountpoint %s: %s", q, strerror(e));
	}
	if (!S_ISDIR(st.st_mode))
		return pf_why_set(why, -ENOTDIR, "mountpoint %s: is not a directory", q);
	if (sf.f_type == FUSE_SUPER_MAGIC && is_mounted(mnt, &st))
		return pf_why_set(
			why, -EEXIST,
			"mountpoint %s: has a FUSE file system mounted already: run `fusermount3 -u` on it to mount anew",
			q);
	*out = realpath(mnt, NULL);
	if (!*out)
		return pf_why_set(why, -errno, "mountpoint %s: %s", q, strerror(errno));
	int r = pf_store_name_below(fs->store->at, *out, &inside);
	if (r > 0 && strcmp(inside, ".") != 0)
		return pf_why_set(why, -EPERM,
				  "mountpoint %s: is inside the dataset, and would hide what it has there: mount over "
				  "the dataset itself, or beside it",
				  q);
	if (r >= 0)
		r = pf_store_stat(fs->store, ".", &table);
	if (r == 0 && (table.dev != st.st_dev || table.ino != st.st_ino))
		return fs->opt.tags
			       ? pf_why_set(
					 why, -EINVAL,
					 "-o tags is of a gateway, which shows the table: mount over the table's own "
					 "directory, or leave it out")
			       : 0;
	if (r < 0)
		return r;
	if (strcmp(*out, fs->store->at) != 0)
		return pf_why_set(
			why, -EPERM,
			"mountpoint %s: is the dataset under another name, and clients would store that name in it: "
			"mount over the dataset's own",
			q);
	return fs_gateway_init(fs, why);
}

static int check_device(struct pf_why *why)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return pf_why_set(why, -errno, "/dev/fuse: %s: is the fuse module loaded, and may you use it?",
				  strerror(errno));
	close(fd);
	return 0;
}

static int add_option(struct fuse_args *args, const char *name, const char *value)
{
	_cleanup_(pf_buf_release) struct pf_buf b = PF_BUF_INIT;
	_cleanup_(pf_freep) char *escaped = NULL;

	if (pf_buf_addf(&b, "%s%s", name, value) < 0 || !pf_buf_str(&b) ||
	    fuse_opt_add_opt_escaped(&escaped, pf_buf_str(&b)) < 0)
		return -ENOMEM;
	/* In front of what the user said, so that theirs wins. */
	return fuse_opt_insert_arg(args, 1, escaped) < 0 || fuse_opt_insert_arg(args, 1, "-o") < 0 ? -ENOMEM : 0;
}

static struct fuse_session *session_new(struct fs *fs, struct fuse_args *args)
{
	if (((fs->opt.check_modes || fs->gateway.on) && add_option(args, "default_permissions", "") < 0) ||
	    add_option(args, "subtype=", "pinfs") < 0 || add_option(args, "fsname=", fs->opt.dataset) < 0 ||
	    (fs->opt.debug && add_option(args, "debug", "") < 0))
		return NULL;
	const struct fuse_lowlevel_ops *ops = fs->gateway.on ? &fs_gateway_ops : &fs_ops;
	return fuse_session_new(args, ops, sizeof(*ops), fs);
}

void fs_ready(struct fs *fs)
{
	fs_notify("READY=1\nMAINPID=%d", (int)getpid());
	if (fs->ready_fd < 0) {
		fputs("pinfs: ready\n", stderr);
		return;
	}
	/* Up to here the terminal was ours to complain to. */
	int null = open("/dev/null", O_RDWR);
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	if (write(fs->ready_fd, "", 1) < 0) {
		/* They did not wait. */
	}
	close(fs->ready_fd);
	fs->ready_fd = -1;
}

/* What to exit with when the daemon has said that it is ready, or is gone. */
static int wait_ready(int fd, pid_t pid)
{
	char c;
	int status;
	ssize_t n;

	do
		n = read(fd, &c, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return 0;
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		return WEXITSTATUS(status);
	fputs("pinfs: the daemon died before it was ready\n", stderr);
	return 1;
}

/*
 * Go on in a daemon. True in the process that serves; false in the one that was started, which waits until the mount answers, with
 * its exit status. No thread may exist yet: it would be gone in the child.
 */
static bool detach(struct fs *fs, int *status)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) < 0) {
		perror("pinfs: pipe");
		*status = 1;
		return false;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(fd[0]);
		fs->ready_fd = fd[1];
		setsid();
		/* The dataset is held open, and the mountpoint is absolute: no directory needs to stay for us. */
		if (chdir("/") < 0)
			perror("pinfs: /");
		return true;
	}
	close(fd[1]);
	if (pid < 0)
		perror("pinfs: fork");
	*status = pid < 0 ? 1 : wait_ready(fd[0], pid);
	close(fd[0]);
	return false;
}

/* Until somebody unmounts, or a signal asks: requests that are being worked on are finished first. */
static int loop(struct fs *fs, struct fuse_session *se, const char *mountpoint)
{
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int r = -1;

	if (config && fuse_set_signal_handlers(se) == 0) {
		if (fuse_session_mount(se, mountpoint) == 0) {
			if (fs->gateway.on)
				fs_gateway_mounted(mountpoint);
			fuse_loop_cfg_set_max_threads(config, THREADS_MAX);
			fuse_loop_cfg_set_idle_threads(config, THREADS_IDLE);
			r = fuse_session_loop_mt(se, config);
			fs_notify("STOPPING=1");
			fuse_session_unmount(se);
		} else {
			fprintf(stderr, "pinfs: %s: could not be mounted on\n", mountpoint);
		}
		fuse_remove_signal_handlers(se);
	}
	fuse_loop_cfg_destroy(config);
	return r < 0 ? 1 : 0; /* positive: the signal that ended it */
}

static int serve(struct fs *fs, struct fuse_session *se, const char *mountpoint)
{
	struct pf_why why = PF_WHY_INIT;
	int status;

	if (!fs->opt.foreground && !detach(fs, &status))
		return status;
	int r = fs_watch_start(fs, &why);
	if (r < 0)
		return complain(r, &why);
	status = loop(fs, se, mountpoint);
	if (!fs_watch_stop(fs))
		_exit(status); /* the mount is gone, and a table that does not answer must not keep us */
	return status;
}

static int run(struct fs *fs, struct fuse_args *args)
{
	_cleanup_(pf_freep) char *mountpoint = NULL;
	struct pf_why why = PF_WHY_INIT;

	int r = open_table(fs, &why);
	if (r == 0)
		r = check_mountpoint(fs, &mountpoint, &why);
	if (r == 0)
		r = check_device(&why);
	if (r < 0)
		return complain(r, &why);

	struct fuse_session *se = session_new(fs, args);
	if (!se)
		return 1;
	fs->session = se;
	int status = serve(fs, se, mountpoint);
	fuse_session_destroy(se);
	return status;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fs fs = { .ready_fd = -1,
			 .gateway = { .root = -1 },
			 .mounted_at = pf_time_now(),
			 .handles_lock = PTHREAD_MUTEX_INITIALIZER };
	int status = 0;

	if (fs_options_parse(&args, &fs.opt) < 0)
		status = 2;
	else if (fs.opt.help)
		fs_options_usage();
	else if (fs.opt.version)
		puts("pinfs " PF_VERSION);
	else if (fs_control_init(&fs.control) < 0 || fs_objects_init(&fs.objects) < 0 ||
		 fs_branches_init(&fs.branches) < 0 || fs_kept_init(&fs.kept) < 0)
		status = complain(-ENOMEM, &(struct pf_why)PF_WHY_INIT);
	else {
		status = run(&fs, &args);
		fs_handles_release(&fs);
		fs_gateway_release(&fs);
		fs_kept_release(&fs.kept);
		fs_branches_release(&fs.branches);
		fs_objects_release(&fs.objects);
		fs_control_release(&fs.control);
		pf_store_free(fs.store);
	}
	fs_options_release(&fs.opt);
	fuse_opt_free_args(&args);
	return status;
}
