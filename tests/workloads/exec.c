/*
 * exec CPU-SECONDS PROGRAM [ARG...]: works for that long in before_exec(), then becomes the
 * program. With no arguments it is the thing to become: works in after_exec() until told to stop.
 * Built twice, as exec and (with AFTER) as exec-after, whose code lies at other addresses.
 */
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

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1e9;
	uint64_t start = workload_cpu_ns();

	workload_ready();
	while (!workload_stop && (double)(workload_cpu_ns() - start) < seconds * 1e9)
		PART(workload_cpu_ns() + 1000000);
	if (argc > 2 && !workload_stop)
		execv(argv[2], argv + 2);
	return 0;
}
