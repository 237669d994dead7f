/*
 * program: starts the program that is to be profiled, as the user who asked for it.
 *
 * It is held before its first instruction until program_go(), so that it is profiled from its
 * start.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct program {
	pid_t pid;
	int go_fd;     /* writing a byte here lets it run */
	int status_fd; /* gets its errno if it could not be started; closed if it could */
};

int program_start(struct program *p, char **argv); /* 0 or -errno */
int program_go(struct program *p);                 /* 0, or -errno of its exec */
int program_exit_code(int wait_status);            /* as a shell reports it: 128 + n for a signal */
void program_done(struct program *p);              /* kills it if it was never let go */

/* In a child process: under sudo, becomes the user who called it. 0 or -errno. */
int program_become_invoker(void);
