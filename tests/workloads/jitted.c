/*
 * jitted [MAP-NAME [memfd]]: spins in code that it wrote into anonymous memory, or into a memfd, as
 * JIT compilers do. Prints "code ADDRESS SIZE" in hex. With MAP-NAME it writes its own
 * /tmp/perf-PID.map that gives the code that name, PID being what getpid() says inside its
 * namespace.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "workload.h"

static const unsigned char spin_code[] = {
	0x55,                         /* push %rbp */
	0x48, 0x89, 0xe5,             /* mov  %rsp, %rbp */
	0xb9, 0x00, 0x00, 0x10, 0x00, /* mov  $0x100000, %ecx */
	0xff, 0xc9,                   /* dec  %ecx */
	0x75, 0xfc,                   /* jnz  -4 */
	0x5d,                         /* pop  %rbp */
	0xc3,                         /* ret */
};

int main(int argc, char **argv)
{
	int fd = argc > 2 ? memfd_create("jit", MFD_CLOEXEC) : -1;
	if (fd >= 0 && ftruncate(fd, 4096) < 0)
		return 1;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
	union {
		void *data;
		void (*call)(void);
	} jit = {code};

	if (code == MAP_FAILED)
		return 1;
	memcpy(code, spin_code, sizeof(spin_code));
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC) < 0)
		return 1;
	if (argc > 1) {
		char path[64];

		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		FILE *map = fopen(path, "w");
		if (!map)
			return 1;
		fprintf(map, "%lx %zx %s\n", (unsigned long)code, sizeof(spin_code), argv[1]);
		fclose(map);
	}
	printf("code %lx %zx\n", (unsigned long)code, sizeof(spin_code));
	workload_ready();
	while (!workload_stop)
		jit.call();
}
