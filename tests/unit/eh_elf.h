/*
 * The smallest program that has a given table of call frame information, in memory.
 *
 * Its code is EH_TEXT to EH_TEXT + EH_TEXT_SIZE, its table is mapped at EH_TABLE.
 */
#pragma once

#include "tiny_elf.h"

#define EH_TEXT      0x10000ull
#define EH_TEXT_SIZE 0x10000000ull
#define EH_TABLE     0x20000000ull

/* Caller frees. */
static inline struct tiny_elf *eh_elf_new(const void *eh, size_t eh_len, const void *debug,
					  size_t debug_len, size_t *ret_len)
{
	const struct tiny_section tables[] = {{".eh_frame", EH_TABLE, eh, eh_len},
					      {".debug_frame", 0, debug, debug_len}};
	const struct tiny_text text = {.address = EH_TEXT, .size = EH_TEXT_SIZE};

	return tiny_elf_new(ET_DYN, &text, tables, 2, ret_len);
}
