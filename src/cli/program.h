/*
 * program: starts the program that is to be profiled, as the user who asked for it.
 *
 * It is held before its first instruction until program_go(), so that it is seen from the start.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct program {
	pid_t pid;
	int go_fd;     /* a byte here lets it run */
	int status_fd; /* its errno if it could not be started; closed if it could */
};

int program_start(struct program *p, char **argv); /* 0 or -errno */
int program_go(struct program *p);                 /* 0, or -errno of its exec */
int program_exit_code(int wait_status); /* what a shell would say: 128 + n for a signal */
void program_done(struct program *p);   /* ends it if it was never let go */

/* In a child: under sudo, from now on the user who called it, not root. 0 or -errno. */
int program_become_invoker(void);
