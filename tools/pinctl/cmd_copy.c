#include "pinctl.h"

#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/copy.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	remove(path);
	return 0;
}

/* The absolute path that `dir`, which is not there yet, will have: its parent's, links resolved. */
static int future_path(const char *dir, char **out, struct pf_why *why)
{
	_cleanup_(pf_freep) char *copy = strdup(dir), *parent = NULL;
	char quoted[PF_QUOTE_TEXT];

	if (!copy)
		return -ENOMEM;
	size_t n = strlen(copy);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return pf_why_set(why, -EINVAL, "%s: expected the name of a new directory",
				  pf_text_quote(dir, strlen(dir), quoted));
	if (slash)
		*slash = '\0';
	parent = realpath(slash ? (slash == copy ? "/" : copy) : ".", NULL);
	if (!parent)
		return pf_why_set(why, -errno, "cannot make %s: %s", pf_text_quote(dir, strlen(dir), quoted),
				  strerror(errno));
	return asprintf(out, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name) < 0 ? (*out = NULL, -ENOMEM) : 0;
}

/* The name of `at` is to last as what is in it does. */
static int sync_parent(const char *at, struct pf_why *why)
{
	_cleanup_(pf_freep) char *parent = strndup(at, at == strrchr(at, '/') ? 1 : (size_t)(strrchr(at, '/') - at));
	int fd = parent ? open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int r = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return r < 0 ? pf_why_set(why, r, "cannot make the name of %s durable: cannot sync %s: %s", at,
				  parent ? parent : "its directory", strerror(-r))
		     : 0;
}

static int put_in_place(const char *temp, const char *at, struct pf_why *why)
{
	struct stat st;

	if (rename(temp, at) == 0)
		return 0;
	int r = -errno;
	/* It may have taken effect, whatever was reported. */
	if (lstat(temp, &st) < 0 && errno == ENOENT && lstat(at, &st) == 0)
		return 0;
	return pf_why_set(why, r, "cannot rename %s to %s: %s", temp, at, strerror(-r));
}

/* Under another name until it is complete: nobody takes half of a copy for a table. */
static int copy_to(struct ctl *c, const char *at, struct pf_copied *done, struct pf_why *why)
{
	_cleanup_(pf_store_freep) struct pf_store *to = NULL;
	_cleanup_(pf_freep) char *temp = NULL;
	char uuid[PF_UUID_TEXT];
	struct pf_uuid u;
	struct stat st;

	if (ctl_is_inside(c, at))
		return pf_why_set(why, -EINVAL, "%s is inside the table: name a directory beside it", at);
	if (lstat(at, &st) == 0)
		return pf_why_set(why, -EEXIST, "%s is there already", at);
	pf_uuid_new(&u);
	pf_uuid_format(&u, uuid);
	if (asprintf(&temp, "%s.part-%s", at, uuid) < 0)
		return temp = NULL, -ENOMEM;
	if (mkdir(temp, 0777) < 0)
		return pf_why_set(why, -errno, "cannot make %s: %s", temp, strerror(errno));
	int r = pf_store_local_open(temp, &to, why);
	if (r == 0)
		r = pf_copy_table(c->store, to, at, done, why);
	if (r == -EXDEV)
		pf_why_set(why, r, "%s is on another file system than the table, and files can only be linked on one",
			   at);
	if (r == 0)
		r = put_in_place(temp, at, why);
	if (r < 0) {
		nftw(temp, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		return r;
	}
	r = sync_parent(at, why);
	if (r < 0)
		nftw(at, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return r;
}

int cmd_copy(struct ctl *c, const struct args *a)
{
	_cleanup_(pf_freep) char *at = NULL;
	struct pf_copied done = { 0 };
	struct pf_why why = PF_WHY_INIT;

	int r = ctl_open_branch(c, NULL, &why);
	if (r == 0)
		r = future_path(a->operand[0], &at, &why);
	if (r == 0)
		r = copy_to(c, at, &done, &why);
	if (r < 0)
		return ctl_fail(r, &why);
	ctl_say("%s is a copy without pins, which released Lance can write to: %" PRIu64 " manifests, and %" PRIu64
		" files that are shared as links",
		at, done.manifests, done.linked);
	if (!c->json)
		return 0;
	json_t *j = json_object();
	pf_json_put(&j, "copy", pf_json_str(at));
	pf_json_put(&j, "manifests", pf_json_u64(done.manifests));
	pf_json_put(&j, "linked", pf_json_u64(done.linked));
	return ctl_print_json(j);
}
