/*
 * aspid PID PROGRAM [ARG...]: runs the program as process PID, which must be free, and ends as it
 * does. Needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (clone3's set_tid). Passes SIGTERM on.
 */
#include <errno.h>
#include <linux/sched.h>
#include <sys/wait.h>

#include "workload.h"

static pid_t child;

static void pass_on(int sig)
{
	kill(child, sig);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;

	pid_t tid = atoi(argv[1]);
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&tid,
		.set_tid_size = 1,
	};
	int status;

	child = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (child < 0) {
		fprintf(stderr, "aspid: %s\n", strerror(errno));
		return 3;
	}
	if (child == 0) {
		execv(argv[2], argv + 2);
		_exit(127);
	}
	signal(SIGTERM, pass_on);
	while (waitpid(child, &status, 0) < 0)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
