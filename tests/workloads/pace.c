/*
 * pace NAME: answers requests at its own pace, each with the same work in eight functions, as a
 * process called NAME. How many requests come goes up and down; how long each takes does, too.
 * After SIGUSR1 one of the functions, `format`, takes 20 % longer.
 */
#include "workload.h"

#include <math.h>
#include <sys/prctl.h>

static volatile sig_atomic_t is_slow;

static void slow_down(int signo)
{
	(void)signo;
	is_slow = 1;
}

#define FUNCTION(name)                                                                             \
	NOINLINE uint64_t name(uint64_t until);                                                    \
	uint64_t name(uint64_t until)                                                              \
	{                                                                                          \
		return workload_spin(until);                                                       \
	}

FUNCTION(parse)
FUNCTION(route)
FUNCTION(look_up)
FUNCTION(format)
FUNCTION(compress)
FUNCTION(checksum)
FUNCTION(log_line)
FUNCTION(answer)

NOINLINE void serve(void);

/* Microseconds of CPU time of each, ordinarily. */
static const struct {
	uint64_t (*work)(uint64_t until);
	double us;
} parts[] = {{parse, 250},    {route, 90},     {look_up, 400}, {format, 350},
	     {compress, 500}, {checksum, 160}, {log_line, 60}, {answer, 190}};

void serve(void)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double us = parts[i].us * (0.5 + drand48());
		if (parts[i].work == format && is_slow)
			us *= 1.2;
		parts[i].work(workload_cpu_ns() + (uint64_t)(us * 1000));
	}
}

static void on_stop(int signo)
{
	(void)signo;
	workload_stop = 1;
}

int main(int argc, char **argv)
{
	struct sigaction stop = {.sa_handler = on_stop}, slow = {.sa_handler = slow_down};

	prctl(PR_SET_NAME, argc > 1 ? argv[1] : "pace");
	srand48(getpid());
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGUSR1, &slow, NULL);
	printf("ready %d\n", getpid());
	fflush(stdout);
	while (!workload_stop) {
		/* Of a minute, a good half minute with more, and one with less to do. */
		double seconds = (double)workload_now(CLOCK_MONOTONIC) / 1e9;
		double a_second = 60 * (1 + 0.3 * sin(seconds / 10));
		double wait = -log(1 - drand48()) / a_second;
		struct timespec t = {(time_t)wait, (long)(fmod(wait, 1) * 1e9)};
		serve();
		nanosleep(&t, NULL);
	}
	printf("{}\n");
	return 0;
}
