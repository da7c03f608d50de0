/*
 * Keeps a pin alive while something else goes on: renews it when half its life is over, tries again when that fails, and looks every minute
 * whether it is still there. That runs in a thread of its own, so that storage that hangs holds up nobody; everything else happens in
 * keeper_step, on the caller's.
 *
 * What expires is judged by the clock that others judge it by, and that may be set; pauses by one that only goes forward.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include <pthread.h>

#include "pinctl.h"

struct keeper {
	struct ctl *c; /* open; while `busy` the thread's alone */
	struct pf_uuid id;
	int64_t life;		/* seconds from a renewal to the expiry it asks for */
	struct pf_time expires; /* as last known to be stored */
	bool gone;		/* it is not there any more */
	int done;		/* to poll for reading: call keeper_step */

	/* Its own. */
	bool busy, looking; /* the thread is there; only to look */
	pthread_t thread;
	struct pf_op op;
	struct pf_answer answer;
	struct pf_why why;
	int result;    /* of ctl_commit; 1: it was not needed, the pin is there */
	int64_t began; /* what is under way */
	int64_t look_at;
	int outcome;	    /* of the last renewal: 0 or -errno */
	unsigned failures;  /* since the last success */
	int64_t retry_at;   /* not before, if there were failures */
	int told_err, told; /* what was said about them, and how grave it was */
};

/* The members above `done` are the caller's to set. 0 or -errno. */
int keeper_open(struct keeper *k);

/* Do what is due, say what must be said. Returns the milliseconds until it is to be called again at the latest. */
int keeper_step(struct keeper *k);

/*
 * Why the pin is not to be relied on any more, NULL if it is: it is gone, its last renewal was refused or may or may not have happened, or its
 * time has passed and a renewal does not come back or through. Lost races are no refusal: it is tried again while there is time.
 */
const char *keeper_trouble(const struct keeper *k);

/* Wait for what is under way, and close. */
void keeper_close(struct keeper *k);

#endif
