/* retention/: its rows in the table of kinds (kinds.h). What is kept, and why, is core's to say: explain.h, by way of kept.h. */
#ifndef FS_RETENTION_H
#define FS_RETENTION_H

#include "kinds.h"

int fs_summary_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
int fs_files_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
int fs_retention_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
int fs_expired_render(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);

int fs_snapshots_list(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why);
int fs_snapshots_find(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out,
		      struct pf_why *why);
int fs_snapshot_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
int fs_snapshot_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why);

int fs_records_list(struct fs *fs, const struct fs_node *n, struct fs_names *out, struct pf_why *why);
int fs_records_find(struct fs *fs, const struct fs_node *n, const char *name, struct fs_node *out, struct pf_why *why);
int fs_record_look(struct fs *fs, const struct fs_node *n, struct fs_content *out, struct pf_why *why);
int fs_record_make(fuse_req_t req, const struct fs_node *n, struct fs_content *out, struct pf_why *why);

#endif
