/*
 * Threads that run and block in libc: locks that are fought over, condition variables, pipes,
 * malloc, formatted output, short sleeps. Built without frame pointers, like libc itself.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>

#include "workload.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static int whose;
static int ends[2];

static NOINLINE void fight(void)
{
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&lock);
		whose++;
		pthread_mutex_unlock(&lock);
	}
}

static NOINLINE void take_turns(int me)
{
	struct timespec soon;

	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec = (soon.tv_nsec + 1000000) % 1000000000;
	pthread_mutex_lock(&lock);
	if (whose % 2 != me % 2)
		pthread_cond_timedwait(&turn, &lock, &soon);
	whose++;
	pthread_cond_broadcast(&turn);
	pthread_mutex_unlock(&lock);
}

static NOINLINE void talk(void)
{
	char text[256];
	struct pollfd p = {.fd = ends[0], .events = POLLIN};
	int n = snprintf(text, sizeof(text), "%d %s %f\n", whose, "some text", (double)whose / 7);

	if (write(ends[1], text, (size_t)n) != n && errno != EAGAIN)
		abort();
	while (poll(&p, 1, 0) > 0 && read(ends[0], text, sizeof(text)) > 0)
		;
}

static NOINLINE void allocate(uint64_t seed)
{
	char *blocks[64];

	for (int i = 0; i < 64; i++) {
		blocks[i] = malloc(workload_slice(&seed) % 9000);
		memset(blocks[i], i, 16);
	}
	for (int i = 0; i < 64; i++)
		free(blocks[i]);
}

static void *run(void *arg)
{
	int me = (int)(intptr_t)arg;
	struct timespec a_little = {0, 50000};

	for (uint64_t i = 1; !workload_stop; i++) {
		fight();
		talk();
		allocate(i);
		if (i % 8 == 0)
			take_turns(me);
		if (i % 16 == 0)
			nanosleep(&a_little, NULL);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[6];

	if (pipe(ends) != 0)
		return 1;
	workload_ready();
	for (intptr_t i = 0; i < 6; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
			return 1;
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
