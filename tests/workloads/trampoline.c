/*
 * trampoline: spins in a function that is called through code in anonymous memory, as Python runs
 * each function with -X perf. Its argument is the form of that code: "plain" has a frame without a
 * frame pointer (3.12, and 3.13 without CET), "marked" the same behind an endbr64 (3.13 with CET),
 * "framed" a frame pointer (as of others).
 */
#include <sys/mman.h>

#include "workload.h"

static const unsigned char plain[] = {
	0x48, 0x83, 0xec, 0x08, /* sub  $8, %rsp */
	0xff, 0xd1,             /* call *%rcx */
	0x48, 0x83, 0xc4, 0x08, /* add  $8, %rsp */
	0xc3,                   /* ret */
};
static const unsigned char marked[] = {
	0xf3, 0x0f, 0x1e, 0xfa, /* endbr64 */
	0x48, 0x83, 0xec, 0x08, /* sub  $8, %rsp */
	0xff, 0xd1,             /* call *%rcx */
	0x48, 0x83, 0xc4, 0x08, /* add  $8, %rsp */
	0xc3,                   /* ret */
};
static const unsigned char framed[] = {
	0x55,             /* push %rbp */
	0x48, 0x89, 0xe5, /* mov  %rsp, %rbp */
	0xff, 0xd1,       /* call *%rcx */
	0x5d,             /* pop  %rbp */
	0xc3,             /* ret */
};
static const struct {
	const char *name;
	const unsigned char *code;
	size_t len;
} forms[] = {
	{"plain", plain, sizeof(plain)},
	{"marked", marked, sizeof(marked)},
	{"framed", framed, sizeof(framed)},
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

int main(int argc, char **argv)
{
	size_t form = 0;

	while (form < 3 && argc == 2 && strcmp(forms[form].name, argv[1]) != 0)
		form++;
	if (form == 3 || argc != 2)
		return 2;
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		return 1;
	memcpy(code, forms[form].code, forms[form].len);
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
