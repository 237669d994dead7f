/*
 * crowd N: N threads that always want a CPU, at the priority that everything has.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "workload.h"

static void *burn(void *arg)
{
	while (!workload_stop)
		workload_spin(0);
	return arg;
}

int main(int argc, char **argv)
{
	setpriority(PRIO_PROCESS, 0, 0);
	workload_ready();
	for (int i = argc > 1 ? atoi(argv[1]) : 1; i > 0; i--) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, burn, NULL) != 0)
			return 1;
	}
	while (!workload_stop)
		pause();
	_exit(0); /* nobody waits for hundreds of them to have their turn */
}
