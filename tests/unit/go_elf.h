/*
 * The smallest program that has a given table of Go's functions and given code, in memory. The code
 * is at GO_TEXT.
 */
#pragma once

#include "tiny_elf.h"

#define GO_TEXT      0x10000ull
#define GO_TEXT_SIZE 0x1000000ull

/* Caller frees. */
static inline struct tiny_elf *go_elf_new(const void *table, size_t table_len, const void *code,
					  size_t code_len, size_t *ret_len)
{
	const struct tiny_section pclntab = {".gopclntab", 0, table ? table : "", table_len};
	const struct tiny_text text = {GO_TEXT, GO_TEXT_SIZE, code, code_len};

	return tiny_elf_new(ET_EXEC, &text, &pclntab, 1, ret_len);
}
