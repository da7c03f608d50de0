/* Between the files of publication: publish.c, which has the order of steps, and publish_stage.c, which writes the manifest. */
#ifndef PF_PUBLISH_PARTS_H
#define PF_PUBLISH_PARTS_H

#include "extend.h"
#include "publish.h"

/* One attempt: every name it uses, all made before the first of them exists. */
struct pf_attempt {
	struct pf_branch *b;
	struct pf_store *st;
	const struct pf_publish *p;
	const struct pf_publish_work *work; /* NULL: a pin operation */
	const char *uuid;		    /* of the transaction */
	uint64_t version;
	struct pf_buf txn; /* the Transaction message */
	char *txn_dir, *txn_staged, *txn_file;
	char *versions, *staged, *file;
	char *file_v2, *hint_staged, *hint; /* file_v2: `file` in the other scheme; NULL if the table has V2 names */
	struct pf_branch_step staging, linking; /* the creation of `staged`, and its link to `file` */
	struct pf_extension extension;		/* of a file that is not copied */
	struct pf_stage *extended;		/* and the file; NULL if it is a copy */
	bool named;				/* it has, or had, the name of the version: it changes no more */
	bool known; /* the version was made on the head, and nobody came in between (pf_branch_step_end) */
	bool renamed; /* the version's file got or lost a name after the one it was published by: its change time says nothing */
};

/* Nothing was committed. Of a file that others took for left over and removed, -ENOENT would say that there is no such pin. Returns the error. */
int pf_publish_failed(struct pf_why *why, int err, const char *what, const char *name);

/* The whole manifest, durable, before it gets its name. */
int pf_publish_stage(struct pf_attempt *a, struct pf_why *why);

/* It gets none: a file that was not copied is as it was, as far as that can be had. */
void pf_publish_unstage(struct pf_attempt *a);

#endif
