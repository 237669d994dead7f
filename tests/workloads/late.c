/*
 * late LIBRARY: works in before_library(), and from SIGUSR1 on in late_function() of the library,
 * which it loads only then. Built as the library itself with LIBRARY.
 */
#include <dlfcn.h>

#include "workload.h"

#ifdef LIBRARY

NOINLINE uint64_t late_function(uint64_t until);
uint64_t late_function(uint64_t until)
{
	return workload_spin(until);
}

#else

NOINLINE uint64_t before_library(uint64_t until);
uint64_t before_library(uint64_t until)
{
	return workload_spin(until);
}

static volatile sig_atomic_t asked;

static void on_ask(int sig)
{
	(void)sig;
	asked = 1;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;

	signal(SIGUSR1, on_ask);
	workload_ready();
	while (!workload_stop && !asked)
		before_library(workload_cpu_ns() + 1000000);

	void *library = dlopen(argv[1], RTLD_NOW);
	uint64_t (*work)(uint64_t) = NULL;
	if (library)
		*(void **)&work = dlsym(library, "late_function");
	if (!work)
		return 1;
	puts("loaded");
	fflush(stdout);
	while (!workload_stop)
		work(workload_cpu_ns() + 1000000);
}

#endif
