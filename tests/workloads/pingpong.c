/*
 * pingpong: two processes pass a byte back and forth over pipes, each waiting in epoll; `pingpong
 * N`: with a rest of a millisecond after every N times.
 */
#include <sys/epoll.h>
#include <sys/prctl.h>

#include "workload.h"

static void loop(int in, int out, unsigned rest)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int ep = epoll_create1(0);
	unsigned times = 0;
	char c;

	epoll_ctl(ep, EPOLL_CTL_ADD, in, &ev);
	while (!workload_stop) {
		if (epoll_wait(ep, &ev, 1, 1000) < 1)
			continue;
		if (read(in, &c, 1) < 1 || write(out, &c, 1) < 1)
			break;
		if (rest && ++times % rest == 0)
			usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int there[2], back[2];

	if (pipe(there) < 0 || pipe(back) < 0)
		return 1;
	workload_ready();
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(there[1]);
		loop(there[0], back[1], 0);
		_exit(0);
	}
	close(there[0]);
	if (write(there[1], "x", 1) < 1)
		return 1;
	loop(back[0], there[1], argc > 1 ? (unsigned)atoi(argv[1]) : 0);
}
