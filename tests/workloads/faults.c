/*
 * faults: touches memory for the first time, three times as much in one function as in another: 256
 * pages a round, until it is told to stop, or for as many rounds as the argument says.
 */
#include <sys/mman.h>

#include "workload.h"

#define PAGE   4096
#define PAGES  64
#define FACTOR 3

NOINLINE void touch_much(volatile char *memory);
NOINLINE void touch_little(volatile char *memory);

void touch_much(volatile char *memory)
{
	for (int i = 0; i < FACTOR * PAGES; i++)
		memory[i * PAGE] = 1;
}

void touch_little(volatile char *memory)
{
	for (int i = 0; i < PAGES; i++)
		memory[i * PAGE] = 1;
}

int main(int argc, char **argv)
{
	size_t bytes = FACTOR * PAGES * PAGE;
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) < 0)
		return 1;
	workload_ready();
	long rounds = argc > 1 ? atol(argv[1]) : -1;
	while (!workload_stop && rounds--) {
		touch_much(memory);
		madvise(memory, bytes, MADV_DONTNEED);
		touch_little(memory);
		madvise(memory, bytes, MADV_DONTNEED);
		usleep(500);
	}
}
