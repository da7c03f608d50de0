/* What the files that make up doctor.h share among themselves. */
#ifndef PF_DOCTOR_PARTS_H
#define PF_DOCTOR_PARTS_H

#include "doctor.h"
#include "explain.h"
#include "lost.h"

/* Sentences. */
struct pf_texts {
	char **v;
	size_t n;
};
int pf_texts_add(struct pf_texts *t, const char *fmt, ...) _printf_(2, 3); /* 0 or -ENOMEM */
void pf_texts_release(struct pf_texts *t);

/* Files that no version names, by what they are. */
enum pf_loose {
	PF_LOOSE_STRANDED, /* written, and never committed */
	PF_LOOSE_STAGED,   /* of commits, and of writers of data, that did not end */
	PF_LOOSE_LEAK,	   /* temporary files that Lance's cleanup does not see */
	PF_LOOSE_UNDONE,   /* manifests that an interrupted cleanup renamed */
};
#define PF_LOOSE_KINDS 4
struct pf_pile {
	uint64_t files, bytes; /* older than the guard of seven days */
	uint64_t
		late; /* of those: changed after the oldest version was made, so that a cleanup does not come to them */
	uint64_t young, young_bytes;
	char *example; /* of the old ones; of the young if there are none */
};

/* One line of versions. */
struct pf_facts {
	struct pf_store *st;
	struct pf_time now;
	const char *branch;	/* NULL: main */
	char *dir;		/* "" or "tree/x/" */
	uint64_t v1, v2;	/* manifests by naming scheme */
	int names_err;		/* they cannot be listed */
	struct pf_texts sealed; /* directories that cannot be written */
	int sealed_err;		/* of the first */
	int unknown; /* the line cannot be read: the error, and in words; nothing of the rest is known then */
	struct pf_why unknown_why;
	struct pf_explain *e;
	struct pf_texts problems; /* against destructive work, with their pins */
	struct pf_pile loose[PF_LOOSE_KINDS];
	int undone_err;		     /* what an interrupted cleanup left cannot be looked for */
	struct pf_texts bare;	     /* versions that lack files, and which */
	struct pf_buf bare_versions; /* "3,5": to be cleaned; those in windows and the head left out */
	bool bare_head;
	int lost_err;
	struct pf_why lost_why;
	struct pf_texts lost;
	int guards_err;
	struct pf_why guards_why;
	struct pf_guard_repair guards;
	bool hint_stale;
	struct pf_why hint_why;
};
void pf_facts_release(struct pf_facts *f);

/* Gather them. `line` NULL: main, which cannot be read: `unknown` is the error. 0, -ENOMEM or -EINTR: what fails otherwise is a fact. */
int pf_facts_find(struct pf_store *st, struct pf_lines *l, struct pf_line *line, int unknown,
		  const struct pf_why *unknown_why, struct pf_time now, struct pf_facts *out);

/* The table. */
struct pf_table_facts {
	struct pf_store *st;
	struct pf_time now;
	size_t branches;
	struct pf_texts unread;	 /* refs and branches that cannot be read, */
	struct pf_texts empty;	 /* and those of which only the ref is left */
	struct pf_texts remains; /* directories under tree/ that are of no branch, */
	struct pf_texts young;	 /* or may be of one that is being made */
	uint64_t remains_bytes;
	int remains_err;
	struct pf_why remains_why;
};
void pf_table_facts_release(struct pf_table_facts *f);

/* `l` may be empty, if main cannot be read. 0 or -ENOMEM. */
int pf_table_facts_find(struct pf_store *st, const struct pf_lines *l, struct pf_time now, struct pf_table_facts *out);

#endif
