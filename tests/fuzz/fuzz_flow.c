/*
 * Any bytes as code that no table describes, in functions that begin where the first bytes say:
 * rows are in order, and the table says at every row's start what the row says.
 */
#include "unwind_table.h"
#include "../unit/tiny_elf.h"

#include "unwind/flow.h"

enum { TEXT = 0x10000, STARTS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Elf64_Sym symbols[STARTS] = {};
	size_t len;

	if (size <= STARTS)
		return 0;
	const struct tiny_text text = {TEXT, size - STARTS, data + STARTS, size - STARTS};
	for (size_t i = 0; i < STARTS; i++)
		symbols[i] = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					 .st_shndx = 1,
					 .st_value = TEXT + data[i],
					 .st_size = data[i] & 1 ? data[(i + 1) % STARTS] : 0};
	const struct tiny_section section = {".symtab", 0, symbols, sizeof(symbols)};
	struct tiny_elf *elf = tiny_elf_new(ET_DYN, &text, &section, 1, &len);
	elf->sections[2].sh_type = SHT_SYMTAB;
	elf->sections[2].sh_entsize = sizeof(*symbols);
	elf->head.e_entry = TEXT + data[0] / 2;
	check_file(elf, len, flow_each, true);
	return 0;
}
