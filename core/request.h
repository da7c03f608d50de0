/*
 * A registration request as text (design: sections 2 and 5): `ID,expires_at=T[,label=L][,source=VERSION:UUID][,branch=NAME][,branch_id=HEX]`,
 * values percent-encoded. The same line is the mount's directory name, what `pinctl request` prints, and what it takes back.
 */
#ifndef PF_REQUEST_H
#define PF_REQUEST_H

#include "pin.h"
#include "refs.h"

struct pf_request {
	struct pf_uuid id;
	struct pf_time expires_at; /* absolute: `+N` was resolved when the text was read */
	char *label;		   /* "" if none */
	bool has_source;
	uint64_t source_version;
	char source_txn[PF_UUID_TEXT];
	char *branch;			   /* NULL: whatever branch it is given to; "main" is main */
	char branch_id[PF_BRANCH_ID_TEXT]; /* "" : not said */
};

#define PF_REQUEST_INIT                                                                                                \
	{                                                                                                              \
		.label = NULL                                                                                          \
	}
void pf_request_release(struct pf_request *q);

/* A request line can be a file name: the kernel's limit for FUSE. */
#define PF_REQUEST_LINE_MAX 1024

/*
 * Parse a line of `len` bytes, no newline. `now` resolves `+N`.
 *   -EINVAL        id first, then key=value in any order, each at most once, expires_at required; unknown keys refused by name
 *   -ENAMETOOLONG  longer than PF_REQUEST_LINE_MAX - 1, or a label beyond its limit
 */
int pf_request_parse(const char *s, size_t len, struct pf_time now, struct pf_request *out, struct pf_why *why);

/* Append the line, keys in the order above. Parses back to the same request; -ENAMETOOLONG if it would be too long to. */
int pf_request_format(const struct pf_request *q, struct pf_buf *out);

/* VERSION:UUID of `--source` and `source=`. */
int pf_source_parse(const char *s, size_t len, uint64_t *version, char txn[PF_UUID_TEXT], struct pf_why *why);

#endif
