#include "notify.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MESSAGE_MAX 1024

void fs_notify(const char *fmt, ...)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t len = name ? strlen(name) : 0;
	char text[MESSAGE_MAX];
	va_list args;

	if (len < 2 || len >= sizeof(to.sun_path) || (name[0] != '/' && name[0] != '@'))
		return;
	memcpy(to.sun_path, name, len);
	if (name[0] == '@')
		to.sun_path[0] = '\0';

	va_start(args, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(text))
		return;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* A manager that does not read must not hold up a mount. An abstract name is as long as the address says: no NUL ends it. */
	sendto(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&to,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}
