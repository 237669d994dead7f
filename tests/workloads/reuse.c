/*
 * reuse COUNT MS FILE ...: runs the programs in turn, COUNT in all, each for MS milliseconds of CPU
 * time ("FILE for MS") and all under the same pid.
 */
#include <errno.h>
#include <linux/sched.h>
#include <sys/wait.h>

#include "workload.h"

static pid_t start_as(pid_t pid, char **argv)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = pid ? (uint64_t)(uintptr_t)&pid : 0,
		.set_tid_size = pid ? 1 : 0,
	};
	long child = syscall(SYS_clone3, &args, sizeof(args));

	if (child == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	return (pid_t)child;
}

int main(int argc, char **argv)
{
	pid_t pid = 0;
	int done = 0, same = 0;

	if (argc < 4)
		return 2;
	setenv("DRIVE_READY", "1", 1);
	workload_ready();
	for (; done < atoi(argv[1]) && !workload_stop; done++) {
		char *child[] = {argv[3 + done % (argc - 3)], (char *)"for", argv[2], NULL};
		pid_t got = start_as(pid, child);

		if (got < 0 && errno == EEXIST) /* somebody else was faster */
			got = start_as(0, child);
		if (got < 0) {
			perror("reuse");
			return 1;
		}
		same += got == pid;
		pid = got;
		if (waitpid(pid, NULL, 0) != pid)
			return 1;
	}
	printf("{\"started\": %d, \"same\": %d}\n", done, same);
	return 0;
}
