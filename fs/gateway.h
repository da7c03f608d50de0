/*
 * The gateway: the table itself, shown to clients that know nothing of pins, mounted over its own path (gateway: design section 5). It passes files through,
 * but for three things: manifests are seen without bit 19 (gateway_view.c), a new one is published with what the head has of pins (gateway_link.c), and what
 * pins need can be neither removed nor changed (gateway_rule.c). The tree of pins is beside it, under `.pinfs/`.
 *
 * Every step goes from the table's directory, which was opened before anything was mounted, and follows no link on the way.
 */
#ifndef FS_GATEWAY_H
#define FS_GATEWAY_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "core/error.h"

struct fs;
struct fs_options;

struct gate_nodes {
	pthread_mutex_t lock;
	struct gate_node **by_number, **by_file; /* hash tables of one size */
	size_t n, n_buckets;
	uint64_t last;		  /* number given out */
	struct gate_file *root;	  /* what is open of the root, which has no node */
	struct gate_pass *passed; /* nobody has these open any more (gateway_pass.c) */
};

struct fs_gateway {
	bool on;
	int root;	   /* the table's directory */
	bool passes;	   /* the kernel may read files itself */
	bool were_enabled; /* pins, on some line, at some time (gateway_rule.c) */
	/* To write: somebody publishes, and what the version names is there. To read: somebody removes what no version names, or writes to what is staged. */
	pthread_rwlock_t files;
	struct gate_nodes nodes;
};

/*
 * Make the mount a gateway: from here on fs->gateway.on.
 *   -EOPNOTSUPP  one of the table's folders is a link: what is in it would be reached without us
 */
int fs_gateway_init(struct fs *fs, struct pf_why *why);
/* It is mounted, and nothing was asked of it yet. */
void fs_gateway_mounted(const char *mountpoint);
void fs_gateway_release(struct fs *fs);

extern const struct fuse_lowlevel_ops fs_gateway_ops;

#endif
