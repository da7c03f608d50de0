/*
 * pinctl doctor: what is the matter with a table, one diagnosis a check, and the command that helps (design: section 6). Reads only.
 *
 * Where `pinctl check` tells every finding of every version, this tells what somebody should do. Each check is a row of a table in doctor.c that judges
 * facts gathered before; to judge is pure.
 */
#ifndef PF_DOCTOR_H
#define PF_DOCTOR_H

#include "lines.h"

enum pf_health {
	PF_FINE,
	PF_ADVICE,  /* nothing is broken; something should be done */
	PF_TROUBLE, /* damaged, blocked, or not to be known */
};
const char *pf_health_name(enum pf_health v); /* "ok", "advice", "trouble" */

/* Valid during the call that tells of it. */
struct pf_diagnosis {
	const char *check;  /* one word */
	const char *branch; /* NULL: main, or the table */
	enum pf_health verdict;
	int err;	     /* PF_TROUBLE: the error of core that it is */
	const char *text;    /* one sentence */
	const char *command; /* what helps, as a shell reads it; NULL: nothing is to be done, or no command does it */
	const char *const *details; /* what the sentence counts, each in full */
	size_t n_details;
};
typedef int (*pf_diagnosis_fn)(void *arg, const struct pf_diagnosis *d);

struct pf_doctor_options {
	const char *branch; /* NULL: main */
	bool all;	    /* each branch */
	struct pf_time now;
	pf_progress_fn progress; /* NULL: nobody wants to know; a non-zero return is -EINTR */
	void *progress_arg;
};

/*
 * Tell fn of each check, those of the table first, then branch by branch. A non-zero return stops and is returned.
 *   -ENOENT  not a Lance table, or no such branch
 *   -EINTR   interrupted
 *   -ENOMEM
 * What is wrong with the table is a diagnosis, not an error.
 */
int pf_doctor(struct pf_store *st, const struct pf_doctor_options *o, pf_diagnosis_fn fn, void *arg,
	      struct pf_why *why);

#endif
