/* One line on standard error that says how far something long has come, if that is a terminal; and whether somebody wants it to end. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "pinctl.h"

struct progress {
	bool shown;
	int64_t next_ns; /* when to say the next word */
	int signals;	 /* to read from, -1: none */
	sigset_t before;
};

/* From here on SIGINT and SIGTERM are asked for instead of ending the process. */
void progress_open(struct progress *p);
void progress_close(struct progress *p);

/* Is it time for another line? */
bool progress_is_due(struct progress *p);
void progress_say(struct progress *p, const char *fmt, ...) _printf_(2, 3);

/* Take the line away, before something else is printed. */
void progress_clear(struct progress *p);

/* Did somebody ask for the end? */
bool progress_is_over(struct progress *p);

#endif
