/* `.pinfs/metrics`: how the table and this mount are doing, in the text format of Prometheus (0.0.4). */
#ifndef FS_METRICS_H
#define FS_METRICS_H

#include "core/buf.h"

struct fs;

/* Append the whole text, for every branch that was ever looked at. 0 or -ENOMEM: a branch that cannot be read now says so in its own metric. */
int fs_metrics_render(struct fs *fs, struct pf_buf *out);

#endif
