/* The names in a directory at one moment: what an open directory lists, whatever comes and goes meanwhile. */
#ifndef FS_NAMES_H
#define FS_NAMES_H

#include <sys/stat.h>

#include "core/buf.h"

struct fs_names {
	struct fs_name {
		uint64_t ino;
		mode_t type;
		size_t at; /* of the name, in text */
	} * v;
	size_t n, cap;
	struct pf_buf text; /* names, each with its NUL */
};

void fs_names_release(struct fs_names *l);					   /* and makes it empty again */
int fs_names_add(struct fs_names *l, uint64_t ino, mode_t type, const char *name); /* 0 or -ENOMEM */

#endif
