/*
 * polls: a tight loop of epoll_wait(…, 0), to see what a tool adds to a system call. For each line
 * on standard input it loops for so many milliseconds, and prints how many calls and nanoseconds.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <signal.h>

#include "base/clock.h"

#define BATCH 64 /* calls between two looks at the clock: few, where each takes a tool's time */

int main(void)
{
	char line[64];
	int fd = epoll_create1(0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (fd >= 0 && fgets(line, sizeof(line), stdin)) {
		uint64_t began = clock_ns(CLOCK_MONOTONIC), now = began, calls = 0;
		uint64_t until = began + strtoull(line, NULL, 10) * 1000000;
		for (; now < until; now = clock_ns(CLOCK_MONOTONIC), calls += BATCH) {
			struct epoll_event e;
			for (int i = 0; i < BATCH; i++)
				epoll_wait(fd, &e, 1, 0);
		}
		printf("%llu %llu\n", (unsigned long long)calls, (unsigned long long)(now - began));
		fflush(stdout);
	}
	return fd < 0;
}
