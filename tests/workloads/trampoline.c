/*
 * trampoline: spins in a function that is called through code in anonymous memory, which has a
 * frame without a frame pointer: as Python 3.12 and later run each function with -X perf.
 */
#include <sys/mman.h>

#include "workload.h"

static const unsigned char trampoline[] = {
	0x48, 0x83, 0xec, 0x08, /* sub  $8, %rsp */
	0xff, 0xd1,             /* call *%rcx */
	0x48, 0x83, 0xc4, 0x08, /* add  $8, %rsp */
	0xc3,                   /* ret */
};

typedef long evaluate(long n, void *self, void *none, void *callee);
static union {
	void *data;
	evaluate *call;
} jit;

static long through(long n, void *self, void *none, void *callee)
{
	(void)callee;
	if (n > 0)
		return jit.call(n - 1, self, none, self) + 1;
	for (volatile int i = 0; i < 10000; i++)
		;
	return n;
}

int main(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		return 1;
	memcpy(code, trampoline, sizeof(trampoline));
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC) < 0)
		return 1;
	jit.data = code;
	union {
		evaluate *call;
		void *data;
	} self = {through};
	workload_ready();
	while (!workload_stop)
		jit.call(5, self.data, NULL, self.data);
}
