/*
 * threads: two threads named thread-one and thread-two, each in a function of its own, one CPU's
 * worth shared by both; the main thread sleeps. Prints "tids ONE TWO" before "ready PID".
 */
#include <pthread.h>
#include <sys/prctl.h>

#include "workload.h"

NOINLINE void *thread_one(void *arg);
NOINLINE void *thread_two(void *arg);

static pid_t tids[2];
static pthread_barrier_t started;

static void name(int index, const char *comm)
{
	prctl(PR_SET_NAME, comm);
	tids[index] = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&started);
}

void *thread_one(void *arg)
{
	name(0, "thread-one");
	while (!workload_stop)
		workload_spin(0);
	return arg;
}

void *thread_two(void *arg)
{
	name(1, "thread-two");
	while (!workload_stop)
		workload_spin(0);
	return arg;
}

int main(void)
{
	pthread_t a, b;

	pthread_barrier_init(&started, NULL, 3);
	pthread_create(&a, NULL, thread_one, NULL);
	pthread_create(&b, NULL, thread_two, NULL);
	pthread_barrier_wait(&started);
	printf("tids %d %d\n", tids[0], tids[1]);
	workload_ready();
	pthread_join(a, NULL);
	pthread_join(b, NULL);
}
