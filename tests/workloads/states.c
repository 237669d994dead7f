/*
 * states: a thread in each state: st-burner runs in burn_here, st-sleeper sleeps 10 ms at a time,
 * st-blocked waits for a mutex that nobody unlocks. The name of the process is argv[1], if there is
 * one, with all that is in it.
 */
#include <pthread.h>
#include <sys/prctl.h>

#include "workload.h"

NOINLINE void *burn_here(void *arg);

static pthread_mutex_t locked = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t started;

static void begin(const char *name)
{
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&started);
}

void *burn_here(void *arg)
{
	begin("st-burner");
	while (!workload_stop) /* without a system call: others may be tracing those */
		for (volatile int i = 0; i < 100000; i++)
			;
	return arg;
}

static void *sleeper(void *arg)
{
	const struct timespec t = {0, 10000000};

	begin("st-sleeper");
	while (!workload_stop)
		nanosleep(&t, NULL);
	return arg;
}

static void *blocked(void *arg)
{
	begin("st-blocked");
	pthread_mutex_lock(&locked);
	return arg;
}

int main(int argc, char **argv)
{
	void *(*const threads[])(void *) = {burn_here, sleeper, blocked};
	pthread_t ids[3];

	if (argc > 1)
		prctl(PR_SET_NAME, argv[1]);
	pthread_mutex_lock(&locked);
	pthread_barrier_init(&started, NULL, 4);
	for (int i = 0; i < 3; i++)
		pthread_create(&ids[i], NULL, threads[i], NULL);
	pthread_barrier_wait(&started);
	workload_ready();
	pthread_join(ids[0], NULL);
}
