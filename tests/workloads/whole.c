/*
 * whole: threads whose time is known: `whole MS [ready]`. Of each it prints its tid, what it did,
 *how long by its own clock and by that of who asked for it, and its CPU time; of itself how long it
 *was, and how long it waited for its children.
 *
 *	main       waits for the others
 *	spins      spins all the time
 *	sleeps     10 ms, again and again
 *	works      waits for a condition, in a pool's loop: it is idle
 *	brief      one after the other, each for 20 ms: half of it it spins
 *	quick      a process that ends at once, after each of those
 *
 * With `ready` it goes on until it is killed, and says so.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define F       __attribute__((noinline, noclone))
#define THREADS 4096

struct life {
	const char *what;
	pid_t tid;
	uint64_t asked, began, ended, seen, cpu;
	void (*work)(void);
	pthread_t thread;
};

static struct life lives[THREADS];
static size_t count;
static uint64_t until;
static uint64_t children; /* how long they were waited for */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static int over;

F static void spin_until(uint64_t end)
{
	while (workload_now(CLOCK_MONOTONIC) < end)
		;
}

F static void spin_work(void)
{
	spin_until(until);
}

F static void sleep_work(void)
{
	while (workload_now(CLOCK_MONOTONIC) < until)
		usleep(10000);
}

F static void pool_work(void)
{
	pthread_mutex_lock(&lock);
	while (!over)
		pthread_cond_wait(&more, &lock);
	pthread_mutex_unlock(&lock);
}

F static void brief_work(void)
{
	spin_until(workload_now(CLOCK_MONOTONIC) + 10000000);
	usleep(10000);
}

static void *live(void *arg)
{
	struct life *l = arg;

	l->began = workload_now(CLOCK_MONOTONIC);
	l->tid = gettid();
	pthread_setname_np(pthread_self(), l->what);
	l->work();
	l->cpu = workload_now(CLOCK_THREAD_CPUTIME_ID);
	l->ended = workload_now(CLOCK_MONOTONIC);
	return NULL;
}

static struct life *begin(const char *what, void (*work)(void))
{
	struct life *l = &lives[count++];

	*l = (struct life){.what = what, .work = work, .asked = workload_now(CLOCK_MONOTONIC)};
	if (pthread_create(&l->thread, NULL, live, l) != 0)
		exit(1);
	return l;
}

static void end(struct life *l)
{
	pthread_join(l->thread, NULL);
	l->seen = workload_now(CLOCK_MONOTONIC);
}

/* A process that never waits, and so never leaves its CPU of its own accord before it ends. */
static void quick(void)
{
	uint64_t asked = workload_now(CLOCK_MONOTONIC);
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	children += workload_now(CLOCK_MONOTONIC) - asked;
}

int main(int argc, char **argv)
{
	struct life *others[3];
	uint64_t began = workload_now(CLOCK_MONOTONIC);

	until = argc > 2 ? UINT64_MAX
			 : workload_now(CLOCK_MONOTONIC) + strtoull(argv[1], NULL, 10) * 1000000;
	others[0] = begin("spins", spin_work);
	others[1] = begin("sleeps", sleep_work);
	others[2] = begin("works", pool_work);
	if (argc > 2) {
		printf("ready %d\n", getpid());
		fflush(stdout);
	}
	while (workload_now(CLOCK_MONOTONIC) < until && count < THREADS) {
		end(begin("brief", brief_work));
		quick();
		if (argc > 2)
			count = 3;
	}
	pthread_mutex_lock(&lock);
	over = 1;
	pthread_cond_broadcast(&more);
	pthread_mutex_unlock(&lock);
	for (size_t i = 0; i < 3; i++)
		end(others[i]);
	printf("{\"main\": %llu, \"children\": %llu, \"threads\": [",
	       (unsigned long long)(workload_now(CLOCK_MONOTONIC) - began),
	       (unsigned long long)children);
	for (size_t i = 0; i < count; i++)
		printf("%s{\"tid\": %d, \"what\": \"%s\", \"inner\": %llu, \"outer\": %llu, "
		       "\"cpu\": "
		       "%llu}",
		       i ? ", " : "", lives[i].tid, lives[i].what,
		       (unsigned long long)(lives[i].ended - lives[i].began),
		       (unsigned long long)(lives[i].seen - lives[i].asked),
		       (unsigned long long)lives[i].cpu);
	printf("]}\n");
	return 0;
}
