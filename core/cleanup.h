/*
 * Cleanup of one branch (design: section 4; the rules of Lance 14.0.2, measured: lance-14-cleanup section 2). Without pins the files that survive are those
 * that survive Lance's own cleanup, but for the dangers of its section 3, where more survives; with pins, what they need survives too.
 *
 *   pf_lines_refresh
 *   pf_cleanup_pins    expire what is due; lost pins block; guard tags are put right
 *   pf_lines_refresh   what is there now
 *   pf_cleanup_new     the plan: everything is listed and judged, nothing is touched
 *   pf_cleanup_run     the deed
 *
 * The order of the deed, and why:
 *   1. The manifests of the versions that go are renamed, to `_versions/.tmp-removed-*`: from here on nobody can open, tag, branch or restore them. The
 *      directory is synced.
 *   2. Heads, tags and branches are read again. What needs one of those versions, and appeared since the plan, or since that of a run that was killed,
 *      gets it back; a file that a version still listed refers to is spared, whatever the plan said. Nothing is deleted before this.
 *   3. Temporary files, transactions, data, indices, deletion files, maps; then the folders of indices that are empty.
 *   4. Heads, tags and branches once more; then the manifests. One of a version with a file that could not be deleted stays under its temporary name.
 *
 * So a version that is listed has all its files, whenever the run is killed and whatever fails; and the renamed manifests tell the next run what was
 * under way, however young the files are. Lance's own cleanup would collect them.
 */
#ifndef PF_CLEANUP_H
#define PF_CLEANUP_H

#include "guard.h"
#include "lines.h"
#include "lost.h"

/*
 * What the name of a manifest that was put aside begins and ends with, in _versions/. Whatever else ends in "manifest" Lance takes for one when it tells the
 * naming schemes apart: its migration to V2 names fails at it, halfway.
 */
#define PF_CLEAN_LEFT	  ".tmp-removed-"
#define PF_CLEAN_LEFT_END ".aside"

enum pf_clean_class {
	PF_CLEAN_MANIFEST,
	PF_CLEAN_DATA, /* sidecars of blobs and temporary files of data among them, as Lance counts */
	PF_CLEAN_DELETION,
	PF_CLEAN_TRANSACTION,
	PF_CLEAN_INDEX,
	PF_CLEAN_MAP,
	PF_CLEAN_OTHER, /* temporary files elsewhere; and whatever is not known as Lance's, which stays */
};
#define PF_CLEAN_CLASSES 7
const char *pf_clean_class_name(enum pf_clean_class c); /* "manifest", "data", ... */

/* Why a file goes, or stays. Of several reasons to stay, the first. */
enum pf_fate {
	PF_GOES_NAMED,	/* versions that go name it, and none that stays */
	PF_GOES_ORPHAN, /* no version names it, and no writer at work can need it any more */
	PF_GOES_LEAK,	/* what Lance would never collect: `leaks` */
	PF_STAYS_HEAD,
	PF_STAYS_POLICY,
	PF_STAYS_TAG,
	PF_STAYS_BRANCH,
	PF_STAYS_PIN,	   /* and nothing else keeps it */
	PF_STAYS_AGE,	   /* changed after the oldest version that stays was made: Lance does not look at such files */
	PF_STAYS_PROGRESS, /* changed in the last seven days: somebody may be about to commit it */
	PF_STAYS_APPEARED, /* it was to go, and then something that needs it appeared */
	PF_STAYS_UNDONE, /* it was to go, and the run ended before; or it is the manifest of a version with a file that could not be removed */
	PF_STAYS_UNKNOWN, /* not known to be Lance's, or a link */
};
#define PF_FATES 13
const char *
pf_fate_name(enum pf_fate f); /* of those that stay: "head", "policy", ... "in_progress", "appeared", "unknown" */
#define PF_FATE_GOES(f) ((f) <= PF_GOES_LEAK)

#define PF_CLEAN_GUARD_NS (INT64_C(7) * 24 * 3600 * 1000000000) /* how long a writer may be at work */

/* Zero is the default of all but the policy, which must have a condition, and now. The policy's list is borrowed. */
struct pf_cleanup_options {
	struct pf_policy policy;
	struct pf_time now;
	bool delete_unverified; /* no writer is at work: the guard is dropped */
	bool leaks;		/* also what Lance leaks (lance-14-cleanup D13, D15, D16), under the guard */
	bool skip_tagged;	/* keep a tagged version that the policy would let go, instead of refusing */
	const struct pf_uuid
		*released; /* as if these pins were gone: those that are due, when nothing is to be changed */
	size_t n_released;
};

struct pf_clean_count {
	uint64_t files, bytes;
};

/* removed: that went, or would go. Together they are all files of the branch's folders. */
struct pf_cleanup_report {
	struct pf_clean_count removed[PF_CLEAN_CLASSES], failed[PF_CLEAN_CLASSES];
	struct pf_clean_count kept[PF_FATES];
	uint64_t versions, folders; /* removed; folders are known only afterwards */
	uint64_t folders_failed;
};

/* One file as it was judged. Valid during the call. */
struct pf_clean_file {
	const char *path; /* in the store */
	uint64_t size;
	enum pf_clean_class cls;
	enum pf_fate fate;
	const char *reasons;  /* all of them, as pf_retention_file_reasons; "" if no version keeps it */
	uint64_t first, last; /* PF_GOES_NAMED: the oldest and the newest of the versions */
};
typedef int (*pf_clean_file_fn)(void *arg, const struct pf_clean_file *f);

/* A file that goes. */
struct pf_victim {
	char *path;
	uint64_t size;
	uint64_t first, last; /* versions that name it; 0, 0: none does */
	enum pf_clean_class cls : 8;
	enum pf_fate fate : 8;
	bool left : 1; /* the manifest of an earlier run: under its temporary name already */
	bool done : 1; /* it went */
};

struct pf_cleanup;

/*
 * Plan. The lines were just refreshed. `see` (it may be NULL) is told of every file, as it is found; a non-zero return stops and is returned.
 *   -EBUSY   a window cannot be verified, a branch cannot be read, a damaged manifest or ref (the sentence names it and the pins); or tagged versions that
 *            the policy lets go, unless skip_tagged
 *   -EBADMSG, -ENOENT  the branch itself cannot be read
 *   other    a folder cannot be listed: nothing is known then
 */
int pf_cleanup_new(struct pf_lines *l, struct pf_line *line, const struct pf_cleanup_options *o, pf_clean_file_fn see,
		   void *arg, struct pf_cleanup **out, struct pf_why *why);
void pf_cleanup_free(struct pf_cleanup *c);
void pf_cleanup_freep(struct pf_cleanup **c);

/* What goes, in the order in which it does: manifests last. Good until pf_cleanup_run. */
const struct pf_victim *pf_cleanup_victims(const struct pf_cleanup *c, size_t *n);
const struct pf_cleanup_report *pf_cleanup_report(const struct pf_cleanup *c);

/* Zero is the default. */
struct pf_cleanup_how {
	uint64_t rate; /* removals a second; 0: no limit */
	unsigned jobs; /* threads; 0: one */
	/* Told of each file that went (err 0) or could not be removed. One call at a time. */
	void (*told)(void *arg, const struct pf_victim *v, int err);
	/* Asked before each removal, one call at a time; a non-zero return interrupts: what is not removed yet stays, and the next run goes on. */
	int (*go_on)(void *arg, const struct pf_cleanup_report *so_far);
	void *arg;
};

/*
 * Carry the plan out, once. The lines are refreshed on the way.
 *   0        done; report->failed says how much could not be removed: that was told, and a next run tries again
 *   -EINTR   interrupted
 *   -EBUSY   something appeared that makes the plan untrustworthy: nothing was deleted, or nothing more
 *   -EROFS, -EACCES ...  the table cannot be written, or not be read again
 */
int pf_cleanup_run(struct pf_cleanup *c, const struct pf_cleanup_how *how, struct pf_why *why);

/* What became of a branch's pins. */
struct pf_clean_pins {
	struct pf_uuid *due; /* expired, or with dry_run still to be */
	size_t n_due;
	size_t skipped; /* renewed since they were seen */
	struct pf_guard_repair guards;
};
void pf_clean_pins_release(struct pf_clean_pins *p);

/*
 * Before the plan: lost pins refuse; pins whose time has passed at `now` are expired, in one commit; guard tags are put right. With dry_run only look. `say` is
 * told what was done or went wrong with each.
 *   -EBUSY        a pin is lost: the sentence says what to do
 *   -EINPROGRESS  whether the commit landed is not known
 *   other         of pf_commit
 */
int pf_cleanup_pins(struct pf_line *line, struct pf_time now, bool dry_run, void (*say)(void *arg, const char *text),
		    void *arg, struct pf_clean_pins *out, struct pf_why *why);

#endif
