/*
 * A system call by two ways, N times each, for `smolder trace -k`: main → outer → inner, and main →
 * inner.
 */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long sum;

__attribute__((noinline)) static void inner(void)
{
	sum += syscall(SYS_getppid);
}

__attribute__((noinline)) static void outer(void)
{
	inner();
	sum++;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1;

	for (long i = 0; i < calls; i++) {
		outer();
		inner();
	}
	return 0;
}
