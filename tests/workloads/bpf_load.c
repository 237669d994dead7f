/*
 * bpf_load OBJECT [NAME [PROGRAM]]: attaches the programs of bpf_load.bpf.c, and gives them work:
 * two threads on one CPU that do nothing but let each other run. NAME is what the process is
 * called. With PROGRAM only that one is attached, and no work is given.
 */
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include <bpf/libbpf.h>

#include "workload.h"

static void *yield(void *unused)
{
	(void)unused;
	while (!workload_stop)
		sched_yield();
	return NULL;
}

static int attach(struct bpf_program *p)
{
	struct perf_event_attr clock = {.size = sizeof(clock),
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = 10000000};

	if (bpf_program__type(p) != BPF_PROG_TYPE_PERF_EVENT)
		return bpf_program__attach(p) ? 0 : -1;
	int fd = (int)syscall(SYS_perf_event_open, &clock, -1, 0, -1, 0);
	return fd >= 0 && bpf_program__attach_perf_event(p, fd) ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct bpf_object *o = argc > 1 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *p;
	cpu_set_t here;
	pthread_t other;

	if (argc > 2)
		prctl(PR_SET_NAME, argv[2]);
	if (!o || bpf_object__load(o) != 0)
		return 1;
	bpf_object__for_each_program(p, o)
	{
		if (argc > 3 && strcmp(argv[3], bpf_program__name(p)) != 0)
			continue;
		if (attach(p) != 0)
			return 1;
	}
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
	workload_ready();
	while (argc > 3)
		pause();
	pthread_create(&other, NULL, yield, NULL);
	yield(NULL);
	return 0;
}
