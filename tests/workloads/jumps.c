/* jumps: leaves three functions at once by longjmp(), again and again. */
#include <setjmp.h>

#include "workload.h"

#define OWN __attribute__((noinline, noclone, noipa))

static jmp_buf back;

static OWN int jump_third(int n)
{
	volatile char kept[200];

	kept[n] = 1;
	_longjmp(back, kept[n]);
}

static OWN int jump_second(int n)
{
	volatile char kept[40];

	kept[n] = 1;
	return jump_third(n) + kept[n];
}

static OWN int jump_first(int n)
{
	return jump_second(n + 1) + 1;
}

static OWN void jump(void)
{
	if (_setjmp(back) == 0)
		jump_first(3);
}

int main(void)
{
	workload_ready();
	while (!workload_stop)
		jump();
}
