/*
 * chain: main -> a -> b -> c, and from there into one leaf after the other, each of which an
 * unwinder must leave by other means: plain code, a system call, the vdso, a callback out of libc,
 * a signal handler. Built without frame pointers. For MILLISECONDS, or until it is killed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned sink;

static NOINLINE void spin(unsigned turns)
{
	for (unsigned i = 0; i < turns; i++)
		sink += i;
}

static NOINLINE void read_zeros(void)
{
	static char zeros[1 << 18];
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 3; i++)
		if (pread(fd, zeros, sizeof(zeros), 0) != sizeof(zeros))
			abort();
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static NOINLINE void ask_time(void)
{
	for (int i = 0; i < 2000; i++)
		sink += (unsigned)now_ms();
}

static NOINLINE int compare(const void *x, const void *y)
{
	const unsigned *a = x, *b = y;

	spin(20);
	return (*a > *b) - (*a < *b);
}

static NOINLINE void sort(void)
{
	unsigned numbers[1000];

	for (unsigned i = 0; i < 1000; i++)
		numbers[i] = i * 2654435761u;
	qsort(numbers, 1000, sizeof(*numbers), compare);
}

static NOINLINE void on_signal(int sig)
{
	(void)sig;
	spin(200000);
}

static NOINLINE void c(unsigned turn)
{
	switch (turn % 5) {
	case 0:
		spin(100000);
		break;
	case 1:
		read_zeros();
		break;
	case 2:
		ask_time();
		break;
	case 3:
		sort();
		break;
	case 4:
		raise(SIGUSR1);
		break;
	}
	sink++;
}

static NOINLINE void b(unsigned turn)
{
	c(turn);
	sink++;
}

static NOINLINE void a(unsigned turn)
{
	b(turn);
	sink++;
}

int main(int argc, char **argv)
{
	uint64_t end = argc > 1 ? now_ms() + strtoull(argv[1], NULL, 10) : UINT64_MAX;

	signal(SIGUSR1, on_signal);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (unsigned turn = 0; now_ms() < end; turn++)
		a(turn);
	return 0;
}
