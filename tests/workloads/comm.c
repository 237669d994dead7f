/* comm NAME: spins under the process name NAME, whatever bytes that is. */
#include <sys/prctl.h>

#include "workload.h"

NOINLINE uint64_t odd_name(uint64_t until);
uint64_t odd_name(uint64_t until)
{
	return workload_spin(until);
}

int main(int argc, char **argv)
{
	if (argc != 2 || prctl(PR_SET_NAME, argv[1]) < 0)
		return 1;
	workload_ready();
	while (!workload_stop)
		odd_name(workload_cpu_ns() + 1000000);
}
