/* syscalls: nearly all its time in the kernel: /dev/zero, a directory's entries, a pipe. */
#include <fcntl.h>

#include "workload.h"

NOINLINE void read_zero(int fd, char *buf, size_t size);
NOINLINE void list_directory(int fd, char *buf, size_t size);
NOINLINE void through_pipe(const int *fds, char *buf, size_t size);

/*
 * Inline, so that the function itself is the leaf of the user stack; the number goes through
 * memory, since gcc sets up no frame, whatever it is told, for a function that does not touch the
 * stack.
 */
static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c)
{
	volatile long number = nr;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "0"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

void read_zero(int fd, char *buf, size_t size)
{
	call(SYS_read, fd, (long)buf, (long)size);
}

void list_directory(int fd, char *buf, size_t size)
{
	call(SYS_lseek, fd, 0, SEEK_SET);
	while (call(SYS_getdents64, fd, (long)buf, (long)size) > 0)
		;
}

void through_pipe(const int *fds, char *buf, size_t size)
{
	call(SYS_write, fds[1], (long)buf, (long)size);
	call(SYS_read, fds[0], (long)buf, (long)size);
}

int main(void)
{
	static char buf[1 << 16];
	int zero = open("/dev/zero", O_RDONLY), dir = open("/proc/self/fd", O_RDONLY), fds[2];

	if (zero < 0 || dir < 0 || pipe(fds) < 0)
		return 1;
	workload_ready();
	while (!workload_stop) {
		read_zero(zero, buf, sizeof(buf));
		list_directory(dir, buf, sizeof(buf));
		through_pipe(fds, buf, 4096);
	}
}
