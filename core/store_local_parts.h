/* What the files of the local store share: store_local.c, and store_local_path.c, which knows where paths lead. */
#ifndef PF_STORE_LOCAL_PARTS_H
#define PF_STORE_LOCAL_PARTS_H

#include "store.h"

/* A descriptor or a negative errno. For opens that may be repeated: not for O_EXCL. */
int pf_open_at(int dir, const char *name, int flags);
void pf_closep(int *fd);

/* Append the path that the user means by a path or a URI, NUL not counted. */
int pf_local_path(const char *s, struct pf_buf *out, struct pf_why *why);

/* As pf_store_resolve, for the store whose root is the directory `root`, at the path `at`. */
int pf_local_resolve(int root, const char *at, const char *path, char **out);

/*
 * What clients see through a gateway (fs/gateway.h) is not what is stored: where one is mounted over the table, *fd becomes the directory below it. The
 * gateway's link leads there for its own user and for root; in another name space the number in it may be anything's.
 */
int pf_local_pass_gateway(int *fd, const char *spelled, struct pf_why *why);

#endif
