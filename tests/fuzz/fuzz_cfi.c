/*
 * Any bytes as .eh_frame or .debug_frame, or some of both: rows are in order, and the table says at
 * every row's start what the row says. The first byte tells where one table ends.
 */
#include "unwind_table.h"
#include "../unit/eh_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	size_t len, eh = (size - 1) * data[0] / 255;
	struct tiny_elf *elf =
		eh_elf_new(eh ? data + 1 : NULL, eh, eh < size - 1 ? data + 1 + eh : NULL,
			   size - 1 - eh, &len);
	check_file(elf, len, cfi_each, true);
	return 0;
}
