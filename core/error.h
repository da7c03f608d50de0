/*
 * Errors of core. A function returns 0 (or a count) or a negative errno from this table; nothing else.
 *
 *   code          means                                                    mount          pinctl exit
 *   -EINVAL       text or argument outside the accepted set                EINVAL         2
 *   -ENOENT       no such pin, version, tag or branch                      ENOENT         1
 *   -EEXIST       the id is in use by another request                      EEXIST         1
 *   -EBUSY        blocked by named objects                                 EBUSY          4
 *   -ESTALE       a commit race was lost, or a named source is no longer
 *                 the head: this request can never succeed                 EAGAIN         1
 *   -EAGAIN       known not committed, try again                           EAGAIN         75
 *   -EINPROGRESS  a commit whose outcome could not be established          EINPROGRESS    76
 *   -EROFS        mounted or opened read-only                              EROFS          1
 *   -EOPNOTSUPP   a feature bit we lack, pins not enabled, or a head
 *                 without transaction identity                             EOPNOTSUPP     1
 *   -EBADMSG      stored bytes are damaged                                 EUCLEAN        3
 *   -ENAMETOOLONG a name or label beyond its limit                         ENAMETOOLONG   2
 *   -EIO, -ENOSPC, -EACCES, -EPERM, -EMFILE, -ENOMEM, ...
 *                 storage or the system failed, and nothing changed        as they are    1
 *
 * (design: sections 2, 5 and 6.)
 */
#ifndef PF_ERROR_H
#define PF_ERROR_H

#include <errno.h>

#include "util.h"

#define PF_WHY_MAX 1024

/*
 * The sentence behind an error code: which file, which offset, what was expected, what to do next. A value in the
 * caller's frame; every function that takes one accepts NULL. Untouched on success. One line, no newline, valid UTF-8
 * (bytes of untrusted names are escaped by whoever puts them in, see pf_text_escape).
 */
struct pf_why {
	char text[PF_WHY_MAX];
};

#define PF_WHY_INIT                                                                                                    \
	{                                                                                                              \
		""                                                                                                     \
	}

/* Write the sentence (cut at PF_WHY_MAX - 1 bytes, between characters) and return err, so that `return pf_why_set(why, -EBADMSG, ...)` reads well. */
int pf_why_set(struct pf_why *why, int err, const char *fmt, ...) _printf_(3, 4);

/* The same, unless there is a sentence already: for callers that only know less than whom they called. */
int pf_why_default(struct pf_why *why, int err, const char *fmt, ...) _printf_(3, 4);

/* Put "<place>: " before the sentence: for callers that know the file where whom they called knew only the offset. */
int pf_why_prefix(struct pf_why *why, int err, const char *fmt, ...) _printf_(3, 4);

/* The positive errno that the mount answers for a negative code of core. */
int pf_error_errno(int err);

/* The exit status of pinctl for a negative code of core; 0 for 0. */
int pf_error_exit(int err);

#endif
