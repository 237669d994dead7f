/*
 * Any bytes as a table of Go's functions, with any code: rows are in order, and the table says at
 * every row's start what the row says. The first two bytes tell how much is code.
 */
#include "unwind_table.h"
#include "unwind/gorows.h"
#include "../unit/go_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	size_t len, code = (size_t)(data[0] | data[1] << 8);
	code = code < size - 2 ? code : size - 2;
	struct tiny_elf *elf = go_elf_new(data + 2 + code, size - 2 - code, data + 2, code, &len);
	check_file(elf, len, gorows_each, false);
	return 0;
}
