/* nested DEPTH: a function that calls itself so often, and spins at the end. */
#include "workload.h"

static __attribute__((noinline, noclone, noipa)) long nested(long n)
{
	volatile long kept = n;

	if (n > 1)
		return nested(n - 1) + kept;
	for (volatile int i = 0; i < 1000000; i++)
		;
	return kept;
}

int main(int argc, char **argv)
{
	long depth = argc > 1 ? atol(argv[1]) : 1;

	workload_ready();
	while (!workload_stop)
		nested(depth);
}
