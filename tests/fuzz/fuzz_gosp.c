/*
 * Any bytes as what Go's table says of a function: rows in order, of rules that are known. The
 * function's record comes first.
 */
#include "base/mem.h"
#include "unwind/gosp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { START = 0x1000, END = 0x3000 };

static int check_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	uint64_t *last = arg;

	if (start < START || start >= END || start <= *last || rule.cfa > UNWIND_CFA_LAST)
		__builtin_trap();
	*last = start;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gosp g = {.data = mem_dup(data, size), .size = size, .table.flag_field = 37};
	uint64_t last = 0, budget = 1000;

	gosp_run(&g, 0, START, END, &budget, check_row, &last);
	gosp_done(&g);
	return 0;
}
