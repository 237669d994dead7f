/* vdso: asks for the time, which the kernel answers in the program's own address space. */
#include "workload.h"

int main(void)
{
	struct timespec ts;

	workload_ready();
	while (!workload_stop)
		clock_gettime(CLOCK_MONOTONIC, &ts);
}
