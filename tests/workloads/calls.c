/*
 * calls: makes known numbers of system calls that nothing else in it makes, and says how many, as
 * one line of JSON: name -> [calls, errors]. With threads, children, and a second program that a
 * thread becomes, which is the 32-bit one if it is given.
 *
 *	calls [PROGRAM]        all of them
 *	calls again            what the second program does
 *	calls sleeps N MS      N sleeps, timed: {"sleeps": N, "ns": what they took}
 *	calls loop             getppid until it is told to stop
 *	calls wait             reads a byte, then waits for ever
 *	calls crowd N          N threads, one after the other; each makes CROWD_CALLS calls, once
 *	                       each, that no kernel has
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

enum {
	PARENTS = 1000,
	DIRECTORIES = 300,
	DUPLICATES = 70,
	THREADS = 4,
	GROUPS = 250, /* a thread */
	CHILDREN = 3,
	SESSIONS = 40, /* a child */
	SCHEDULERS = 500,
	SIGNALS = 25,
	CROWD_FIRST = 480,
	CROWD_CALLS = 30,
};

static void repeat(long number, long a, int times)
{
	for (int i = 0; i < times; i++)
		syscall(number, a, 0, 0, 0, 0, 0);
}

static void *in_thread(void *arg)
{
	repeat(SYS_getpgid, 0, GROUPS);
	return arg;
}

static void on_signal(int signo)
{
	(void)signo;
}

static void children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			repeat(SYS_getsid, 0, SESSIONS);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
}

static char *second; /* program */

static void *become(void *arg)
{
	execl(second, second, "again", (char *)NULL);
	perror(second);
	_exit(1);
	return arg;
}

static int all(void)
{
	pthread_t threads[THREADS], last;

	repeat(SYS_getppid, 0, PARENTS);
	repeat(SYS_chdir, (long)"/nonexistent", DIRECTORIES);
	repeat(SYS_dup, -1, DUPLICATES);
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < SIGNALS; i++)
		raise(SIGUSR1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, in_thread, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	children();
	printf("{\"getppid\": [%d, 0], \"chdir\": [%d, %d], \"dup\": [%d, %d], \"getpgid\": [%d, "
	       "0], "
	       "\"getsid\": [%d, 0], \"sched_getscheduler\": [%d, 0], \"rt_sigreturn\": [%d, 0], "
	       "\"exit_group\": [%d, 0], \"exit\": [%d, 0]}\n",
	       PARENTS, DIRECTORIES, DIRECTORIES, DUPLICATES, DUPLICATES, THREADS * GROUPS,
	       CHILDREN * SESSIONS, SCHEDULERS, SIGNALS, CHILDREN + 1, THREADS);
	fflush(stdout);
	pthread_create(&last, NULL, become, NULL);
	for (;;)
		pause();
}

static int sleeps(int times, long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	uint64_t sum = 0;

	for (int i = 0; i < times; i++) {
		uint64_t before = workload_now(CLOCK_MONOTONIC);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		sum += workload_now(CLOCK_MONOTONIC) - before;
	}
	printf("{\"sleeps\": %d, \"ns\": %llu}\n", times, (unsigned long long)sum);
	return 0;
}

static int loop(void)
{
	for (;;)
		repeat(SYS_getppid, 0, 1000);
}

static void *in_crowd(void *arg)
{
	for (int i = 0; i < CROWD_CALLS; i++)
		syscall(CROWD_FIRST + i, -1, -1, -1, -1, -1, -1);
	return arg;
}

static int crowd(int times)
{
	for (int i = 0; i < times; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, in_crowd, NULL) != 0)
			return 1;
		pthread_join(thread, NULL);
	}
	printf("{\"threads\": %d, \"calls\": %d}\n", times, times * CROWD_CALLS);
	return 0;
}

static int wait_for_ever(void)
{
	char byte;

	if (read(0, &byte, 1) != 1)
		return 1;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "again") == 0) {
		repeat(SYS_sched_getscheduler, 0, SCHEDULERS);
		return 0;
	}
	if (strcmp(what, "sleeps") == 0 && argc > 3)
		return sleeps(atoi(argv[2]), atol(argv[3]));
	if (strcmp(what, "crowd") == 0 && argc > 2)
		return crowd(atoi(argv[2]));
	if (strcmp(what, "loop") == 0 || strcmp(what, "wait") == 0) {
		printf("ready %d\n", (int)getpid());
		fflush(stdout);
		return strcmp(what, "loop") == 0 ? loop() : wait_for_ever();
	}
	second = argc > 1 ? argv[1] : argv[0];
	return all();
}
