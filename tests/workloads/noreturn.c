/*
 * noreturn: spins below a call that is the last instruction of its function, so that the return
 * address on the stack is already the first byte of the next one.
 */
#include "workload.h"

NOINLINE __attribute__((noreturn)) void never_returns(void);
NOINLINE void calls_last(void);
NOINLINE void comes_next(void);

void never_returns(void)
{
	while (!workload_stop)
		workload_spin(workload_cpu_ns() + 1000000);
	exit(0);
}

void calls_last(void)
{
	never_returns();
}

void comes_next(void)
{
	workload_spin(0);
}

int main(int argc, char **argv)
{
	(void)argv;
	workload_ready();
	if (argc > 1)
		comes_next();
	calls_last();
}
