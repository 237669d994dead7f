/*
 * measure RESULT PROGRAM [ARG...]: what a program and all it started have cost.
 *
 * Writes {"code", "user", "system", "peak_kb"} to the file RESULT. The kernel counts what a process
 * was before its exec into its peak, so whoever starts the program has to be small: this is. Passes
 * SIGINT and SIGTERM on. Exits as the program does.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile pid_t child;

static void pass_on(int sig)
{
	kill(child, sig);
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
	struct rusage used;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: measure RESULT PROGRAM [ARG...]\n");
		return 2;
	}
	child = fork();
	if (child == 0) {
		execvp(argv[2], argv + 2);
		fprintf(stderr, "measure: cannot run %s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	while (wait4(child, &status, 0, &used) < 0)
		if (errno != EINTR)
			return 1;

	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	FILE *out = fopen(argv[1], "w");
	if (!out) {
		fprintf(stderr, "measure: cannot write %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	fprintf(out, "{\"code\": %d, \"user\": %.6f, \"system\": %.6f, \"peak_kb\": %ld}\n", code,
		seconds(used.ru_utime), seconds(used.ru_stime), used.ru_maxrss);
	return fclose(out) == 0 ? code : 1;
}
