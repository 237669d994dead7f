/*
 * shares [CPU-SECONDS [EXIT-CODE | -SIGNAL]]: 50, 30, 15 and 5 % in four functions, the last two
 * reached through a shared caller. With CPU-SECONDS it ends by itself, in the way asked for.
 */
#include "workload.h"

NOINLINE uint64_t share_fifty(uint64_t until);
NOINLINE uint64_t share_thirty(uint64_t until);
NOINLINE uint64_t share_fifteen(uint64_t until);
NOINLINE uint64_t share_five(uint64_t until);
NOINLINE uint64_t share_twenty(uint64_t (*work)(uint64_t), uint64_t until);

uint64_t share_fifty(uint64_t until)
{
	return workload_spin(until);
}

uint64_t share_thirty(uint64_t until)
{
	return workload_spin(until);
}

uint64_t share_fifteen(uint64_t until)
{
	return workload_spin(until);
}

uint64_t share_five(uint64_t until)
{
	return workload_spin(until);
}

uint64_t share_twenty(uint64_t (*work)(uint64_t), uint64_t until)
{
	return work(until);
}

static NOINLINE uint64_t fifteen(uint64_t until)
{
	return share_twenty(share_fifteen, until);
}

static NOINLINE uint64_t five(uint64_t until)
{
	return share_twenty(share_five, until);
}

int main(int argc, char **argv)
{
	struct workload_part parts[] = {
		{.name = "share_fifty", .share = 0.50, .work = share_fifty},
		{.name = "share_thirty", .share = 0.30, .work = share_thirty},
		{.name = "share_fifteen", .share = 0.15, .work = fifteen},
		{.name = "share_five", .share = 0.05, .work = five},
	};
	size_t count = sizeof(parts) / sizeof(parts[0]);
	double seconds = argc > 1 ? atof(argv[1]) : 0;
	int code = argc > 2 ? atoi(argv[2]) : 0;

	workload_ready();
	workload_run(parts, count, (uint64_t)(seconds * 1e9));
	workload_report(parts, count);
	if (code < 0) {
		signal(-code, SIG_DFL);
		raise(-code);
	}
	return code;
}
