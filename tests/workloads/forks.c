/*
 * forks RATE PROGRAM [ARG...]: starts the program RATE times a second, its output thrown away, and
 * reaps it. A start that is late is not made up for, so a slow machine gets fewer, never a burst.
 */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include "workload.h"

extern char **environ;

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;

	long step = (long)(1e9 / atof(argv[1]));
	unsigned long started = 0;
	posix_spawn_file_actions_t quiet;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	workload_ready();
	while (!workload_stop) {
		struct timespec wait = {step / 1000000000, step % 1000000000};
		pid_t pid;

		if (posix_spawn(&pid, argv[2], &quiet, NULL, argv + 2, environ) == 0)
			started++;
		nanosleep(&wait, NULL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	printf("{\"started\": %lu}\n", started);
}
