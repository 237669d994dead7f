/*
 * Calls of known number, for `smolder trace`: N times epoll_wait with no time, and then once each
 * of what the tests look for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000;
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (long i = 0; i < calls; i++)
		epoll_wait(fd, &event, 1, 0);
	for (int i = 2; i < argc; i++) {
		int f = open(argv[i], O_RDONLY);
		if (f >= 0)
			close(f);
	}
	usleep(20000);
	return 3;
}
