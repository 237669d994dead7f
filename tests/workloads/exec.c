/*
 * exec [CPU-SECONDS [PROGRAM [ARG...]]]: works for that long in before_exec(), then becomes the
 * program. Built three times: as exec; with AFTER as exec-after, the thing to become, which works
 * in after_exec() and whose code lies at other addresses; with THREAD as exec-thread, in which
 * another thread than the first does it all.
 */
#include <pthread.h>

#include "workload.h"

#ifdef AFTER
NOINLINE uint64_t padding(uint64_t until);
uint64_t padding(uint64_t until)
{
	__asm__ volatile(".fill 65536, 1, 0x90");
	return workload_spin(until);
}
#define PART after_exec
#else
#define PART before_exec
#endif

NOINLINE uint64_t PART(uint64_t until);
uint64_t PART(uint64_t until)
{
	return workload_spin(until);
}

struct args {
	int argc;
	char **argv;
};

static void *run(void *arg)
{
	const struct args *a = arg;
	double seconds = a->argc > 1 ? atof(a->argv[1]) : 1e9;
	uint64_t start = workload_cpu_ns();

	workload_ready();
	while (!workload_stop && (double)(workload_cpu_ns() - start) < seconds * 1e9)
		PART(workload_cpu_ns() + 1000000);
	if (a->argc > 2 && !workload_stop)
		execv(a->argv[2], a->argv + 2);
	return NULL;
}

int main(int argc, char **argv)
{
	struct args args = {argc, argv};

#ifdef THREAD
	pthread_t thread;

	pthread_create(&thread, NULL, run, &args);
	pthread_join(thread, NULL);
#else
	run(&args);
#endif
	return 0;
}
