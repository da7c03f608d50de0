/* Telling a service manager how things are: sd_notify(3), as far as one needs it. */
#ifndef FS_NOTIFY_H
#define FS_NOTIFY_H

#include "core/util.h"

/*
 * Send one message ("READY=1", "STATUS=...") to the socket that the environment names: $NOTIFY_SOCKET, a path or, with `@` in front, an abstract
 * name. Without one, or if nobody listens, nothing happens: we serve all the same.
 */
void fs_notify(const char *fmt, ...) _printf_(1, 2);

#endif
